"""The verb `report`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._common import Json, OnPlatform, Text, measuring, progress, replace, show_diagnostics

if TYPE_CHECKING:
    from ..report.around import Stretch


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
            help="Build and run it for N frames of each app first.",
            min=1,
            metavar="N",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            help="Build and run it first, and begin no frames after S seconds.",
            min=0,
            metavar="S",
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
    around: Annotated[
        str | None,
        typer.Option(
            help=(
                "Print what ran around a time of the day, or a frame: 12:03:10, `App 204`. The"
                " trace is that of --trace-file, or flight-recorder.json."
            ),
            metavar="MOMENT",
            show_default=False,
        ),
    ] = None,
    platform: OnPlatform = "host",
    as_json: Json = False,
) -> int:
    """Show all results on one page: predicted, proved, measured.

    Without --run or --seconds nothing is executed: the stored profile and mapping count, and the
    files of a run that are named. The page needs no network; for missing results it names the
    command that computes them.
    """
    from ..driver.show.reporting import NewRun, RunFiles
    from ..driver.show.reporting import report as driver_report
    from ..report.around import stretch
    from ..report.page import page
    from ..runtime.flight import RECORDED

    runs = run is not None or seconds is not None
    if runs and (run_file is not None or trace_file is not None):
        raise typer.BadParameter(
            "name the files of a run, or give --run, not both",
            param_hint="--seconds" if run is None else "--run",
        )
    if around is not None and not runs and trace_file is None:
        trace_file = Path(RECORDED)
    source: NewRun | RunFiles = RunFiles(run_file, trace_file)
    if runs:
        source = NewRun(run, measuring, progress, seconds)
    reported = driver_report(file, platform=platform, run=source, compare=compare)
    show_diagnostics(reported.diagnostics, {})
    if around is not None and reported.traced is not None:
        try:
            found = stretch(reported.document, reported.traced, around)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--around") from None
        print(json.dumps(asdict(found), default=str) if as_json else _around(found))
        return reported.status
    if as_json:
        print(reported.document.to_json(indent=1))
        return reported.status
    target = output or Path(f"{reported.document.name}.report.html")
    replace(target, page(reported.document))
    print(target)
    return reported.status


def _around(found: Stretch) -> str:
    """A stretch as tables."""
    from ..runtime.report import columns

    def at(ns: int) -> str:
        if found.began is None:
            return f"{ns / 1e6:.3f} ms"
        return (found.began + timedelta(microseconds=ns / 1000)).strftime("%H:%M:%S.%f")[:-3]

    def ms(ns: int | None) -> str:
        return "-" if ns is None else f"{ns / 1e6:.3f}"

    frames = [["frame", "from", "ms", "deadline", "bound", "late"]]
    for f in found.frames:
        late = ms(f.late_ns) if f.late_ns else ""
        times = ms(f.took_ns), ms(f.deadline_ns), ms(f.bound_ns)
        frames.append([f"{f.app} {f.number}", at(f.begin_ns), *times, late])
    firings = [["firing", "processor", "from", "ms", "predicted", "worst case", ""]]
    for g in found.firings:
        above = g.worst_ns is not None and g.took_ns > g.worst_ns
        name = f"{g.task} {g.firing}"
        times = ms(g.took_ns), ms(g.predicted_ns), ms(g.worst_ns)
        firings.append([name, g.processor, at(g.begin_ns), *times, "too long" if above else ""])
    channels = [["channel", "least", "most", "capacity"]]
    for c in found.channels:
        channels.append([c.name, str(c.least), str(c.most), str(c.capacity or "-")])
    lines = [f"{at(found.begin_ns)} to {at(found.end_ns)}"]
    lines += [columns(rows) for rows in (frames, firings, channels) if len(rows) > 1]
    if found.more:
        lines.append(f"{found.more} more firings took as long as predicted, or less above it")
    return "\n\n".join(lines)
