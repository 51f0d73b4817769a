"""The verb `test`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ._boards import BoardAddress, BoardPython, Machines, host_of
from ._common import (
    Force,
    Json,
    NoMeasure,
    OnPlatform,
    Output,
    Text,
    Twin,
    measuring,
    print_json,
    progress,
    replace,
    show_built,
)


def test(
    file: Text,
    frames: Annotated[
        int | None,
        typer.Option(help="Frames to compare (default: a few, by size).", min=1, metavar="N", show_default=False),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit", help="Write what became of each test as JUnit XML.", metavar="FILE", show_default=False
        ),
    ] = None,
    twin: Twin = False,
    output: Output = None,
    platform: OnPlatform = "host",
    board: BoardAddress = None,
    board_python: BoardPython = "python3",
    machines: Machines = None,
    force: Force = False,
    no_measure: NoMeasure = False,
    as_json: Json = False,
) -> int:
    """Test the program against a sequential run of the same graph. Builds if needed."""
    from ..driver.run import test as driver_test

    if machines is not None and (board is not None or twin):
        option = "--board" if board is not None else "--twin"
        raise typer.BadParameter("it is about programs on one machine", param_hint=option)
    with host_of(board, board_python) as host:
        tested = driver_test(
            file,
            output,
            platform=platform,
            host=host,
            frames=frames,
            twin=twin,
            force=force,
            quiet=as_json,
            measure=not no_measure,
            on_measure=measuring,
            on_built=show_built,
            report=progress,
            machines=machines,
        )
    if junit is not None:
        from ..driver.junit import junit as as_junit

        replace(junit, as_junit(tested), follow=True)
    if as_json:
        tests = [asdict(t) for t in tested.tests]
        print_json({"ok": tested.status == 0, "directory": str(tested.built.directory), "tests": tests})
    return tested.status
