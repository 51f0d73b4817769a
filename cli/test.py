"""The verb `test`."""

from __future__ import annotations

from typing import Annotated

import typer

from ._common import Force, Json, NoMeasure, OnPlatform, Output, Text, Twin, measuring, print_json, progress, show_built


def test(
    file: Text,
    frames: Annotated[
        int | None,
        typer.Option(help="Frames to compare (default: a few, by size).", min=1, metavar="N", show_default=False),
    ] = None,
    twin: Twin = False,
    output: Output = None,
    platform: OnPlatform = "host",
    force: Force = False,
    no_measure: NoMeasure = False,
    as_json: Json = False,
) -> int:
    """Test the program against a sequential run of the same graph. Builds if needed."""
    from ..driver.run import test as driver_test

    ran = driver_test(
        file,
        output,
        platform=platform,
        frames=frames,
        twin=twin,
        force=force,
        quiet=as_json,
        measure=not no_measure,
        on_measure=measuring,
        on_built=show_built,
        report=progress,
    )
    if as_json:
        print_json({"ok": ran.status == 0, "directory": str(ran.built.directory)})
    return ran.status
