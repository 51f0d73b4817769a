"""The verb `test`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ._boards import Machines
from ._common import Json, Text, Twin, print_json, replace, show_built
from ._groups import grouped
from ._place import BuildPlace


@grouped
def test(
    file: Text,
    frames: Annotated[
        int | None,
        typer.Option(
            help="Frames to compare (default: a few, by size).",
            min=1,
            metavar="N",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            help="Write the result of each test as JUnit XML.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    twin: Twin = False,
    machines: Machines = None,
    as_json: Json = False,
    *,
    place: BuildPlace,
) -> int:
    """Test the program against a sequential run of the same graph. Builds if needed."""
    from ..driver.execute.run import RunListener
    from ..driver.execute.run import test as driver_test

    if machines is not None and (place.board is not None or twin):
        option = "--board" if place.board is not None else "--twin"
        raise typer.BadParameter("it is for programs on one machine", param_hint=option)
    for option, given in (("--twin", twin), ("--machines", machines)):
        if place.native and given:
            raise typer.BadParameter("it is for programs in Python", param_hint=option)
    with place.host as host:
        tested = driver_test(
            file,
            place.output,
            host=host,
            frames=frames,
            twin=twin,
            quiet=as_json,
            machines=machines,
            listener=RunListener(built=show_built),
            **place.asked,
        )
    if junit is not None:
        from ..driver.execute.junit import junit as as_junit

        replace(junit, as_junit(tested), follow=True)
    if as_json:
        tests = [asdict(t) for t in tested.tests]
        print_json(
            {"ok": tested.status == 0, "directory": str(tested.built.directory), "tests": tests}
        )
    return tested.status
