"""The verb `view`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import OnPlatform, Settings, Text, measuring, progress, say, seconds, show_diagnostics
from ._groups import grouped

if TYPE_CHECKING:
    from ..driver.show.viewing import Viewer


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The server of the page, and the search and the program that it shows."""

    port: Annotated[
        int, typer.Option(help="Where to listen; 0 takes a free port.", min=0, max=65535)
    ] = 0
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = (
        False
    )
    search: Annotated[
        bool,
        typer.Option(
            "--map", help="Look for a mapping first, as `flowc map` does, and show how that goes."
        ),
    ] = False
    budget: Annotated[
        str, typer.Option(help="How long to look for it: `60s`, `5min`.", metavar="TIME")
    ] = "60s"
    frames: Annotated[
        int | None,
        typer.Option(
            help="Stop after N iterations of each app.", min=1, metavar="N", show_default=False
        ),
    ] = None
    edit: Annotated[
        bool,
        typer.Option(
            "--edit",
            help=(
                "Allow the page to choose another candidate of a search; the program runs again"
                " then."
            ),
        ),
    ] = False
    full_speed: Annotated[bool, typer.Option("--full-speed", help="Ignore periods.")] = False
    settings: Settings = None
    platform: OnPlatform = "host"


@grouped
def view(file: Text, options: ViewOptions) -> int:
    """Show the report in a browser while the program runs.

    Only this machine can open the page, with the whole address. Once the program has ended, the
    page has what it measured, until Ctrl-C.
    """
    from ..driver.show.viewing import Viewer

    viewer = Viewer(
        file,
        platform=options.platform,
        port=options.port,
        edit=options.edit,
        on_measure=measuring,
        progress=progress,
    )
    try:
        show_diagnostics(viewer.reported.diagnostics, {})
        print(viewer.address, flush=True)
        browser = nullcontext() if options.no_browser else _in_browser(viewer.address, Path(file))
        with browser:
            return _run_again_and_again(viewer, options)
    finally:
        viewer.close()


def _run_again_and_again(viewer: Viewer, options: ViewOptions) -> int:
    """Search for a mapping if requested, then run the program until the user stops it."""
    from ..driver.show.viewing import STOPPED

    if options.search:
        mapped = viewer.search(budget=seconds(options.budget))
        show_diagnostics(mapped.diagnostics, {})
    while True:
        status = viewer.run(
            frames=options.frames,
            full_speed=options.full_speed,
            settings=options.settings or (),
        )
        if status in STOPPED:
            return status
        say("flowc: the program has ended; Ctrl-C ends the page")
        viewer.wait()  # no limit: until Ctrl-C, as it says


@contextmanager
def _in_browser(address: str, text: Path) -> Iterator[None]:
    """Ask a browser to show the address, if there may be one.

    It gets a file that redirects there, which only this user can read and which is deleted at the
    end: all users can see the arguments of a process, and the address is all that is needed to open
    the page.
    """
    import webbrowser

    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        yield
        return
    leading = _private_file(text.resolve())
    try:
        leading.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n'
        )
        webbrowser.open(leading.as_uri())
        yield
    finally:
        leading.unlink(missing_ok=True)


def _private_file(text: Path) -> Path:
    """Beside the text, if possible: browsers in a sandbox (snap, flatpak) see no other temporary
    folder."""
    prefix = f".{text.stem}.view-"
    try:
        handle, name = tempfile.mkstemp(".html", prefix, text.parent)
    except OSError:
        handle, name = tempfile.mkstemp(".html", prefix)
    os.close(handle)
    return Path(name)
