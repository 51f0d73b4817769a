"""The verb `view`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ._common import OnPlatform, Settings, Text, measuring, progress, say, seconds, show_diagnostics


def view(
    file: Text,
    port: Annotated[int, typer.Option(help="Where to listen; 0 takes a free port.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    search: Annotated[
        bool, typer.Option("--map", help="Look for a mapping first, as `flowc map` does, and show how that goes.")
    ] = False,
    budget: Annotated[str, typer.Option(help="How long to look for it: `60s`, `5min`.", metavar="TIME")] = "60s",
    frames: Annotated[
        int | None, typer.Option(help="Stop after N iterations of each app.", min=1, metavar="N", show_default=False)
    ] = None,
    edit: Annotated[
        bool,
        typer.Option(
            "--edit", help="Let the page choose another mapping that a search saw; the program runs again then."
        ),
    ] = False,
    full_speed: Annotated[bool, typer.Option("--full-speed", help="Ignore periods.")] = False,
    settings: Settings = None,
    platform: OnPlatform = "host",
) -> int:
    """Show the report in a browser while the program runs.

    Only this machine can open the page, with the whole address. Once the program has ended, the page has what it
    measured, until Ctrl-C.
    """
    from ..driver.viewing import STOPPED, Viewer

    viewer = Viewer(file, platform=platform, port=port, edit=edit, on_measure=measuring, progress=progress)
    try:
        show_diagnostics(viewer.reported.diagnostics, {})
        print(viewer.address, flush=True)
        if not no_browser:
            _open(viewer.address)
        if search:
            mapped = viewer.search(budget=seconds(budget))
            show_diagnostics(mapped.diagnostics, {})
        while True:
            status = viewer.run(frames=frames, full_speed=full_speed, settings=settings or ())
            if status in STOPPED:
                return status
            say("flowc: the program has ended; Ctrl-C ends the page")
            viewer.wait()  # no limit: until Ctrl-C, as it says
    finally:
        viewer.close()


def _open(address: str) -> None:
    """Ask for a browser, where there may be one."""
    import webbrowser

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    webbrowser.open(address)
