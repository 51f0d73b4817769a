"""The verb `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._common import Json, OnPlatform, Text, measuring, progress, replace, show_diagnostics


def report(
    file: Text,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Page to write (default: STEM.report.html).", show_default=False
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(
            "--run",
            help="Build and run it for N frames first.",
            min=1,
            metavar="N",
            show_default=False,
        ),
    ] = None,
    run_file: Annotated[
        Path | None,
        typer.Option(help="What `flowc run --report` wrote.", metavar="R.json", show_default=False),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(help="What `flowc run --trace` wrote.", metavar="T.json", show_default=False),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Also compare with a mapping, another report, or the directory of a build.",
            metavar="OTHER",
            show_default=False,
        ),
    ] = None,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Show all results on one page: predicted, proved, measured.

    Without --run nothing is executed: the stored profile and mapping count, and the files of a run
    that are named. The page needs no network; for missing results it names the command that
    computes them.
    """
    from ..driver.show.reporting import NewRun, RunFiles
    from ..driver.show.reporting import report as driver_report
    from ..report.page import page

    if run is not None and (run_file is not None or trace_file is not None):
        raise typer.BadParameter(
            "name the files of a run, or give --run, not both", param_hint="--run"
        )
    source: NewRun | RunFiles = RunFiles(run_file, trace_file)
    if run is not None:
        source = NewRun(run, measuring, progress)
    reported = driver_report(file, platform=platform, run=source, compare=compare)
    show_diagnostics(reported.diagnostics, {})
    if as_json:
        print(reported.document.to_json(indent=1))
        return reported.status
    target = output or Path(f"{reported.document.name}.report.html")
    replace(target, page(reported.document))
    print(target)
    return reported.status
