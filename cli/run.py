"""The verb `run`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._boards import BoardAddress, BoardPython, Machines, host_of
from ._common import (
    Force,
    Json,
    NoMeasure,
    OnPlatform,
    Output,
    Settings,
    Text,
    Twin,
    measuring,
    progress,
    say,
    show_built,
)

if TYPE_CHECKING:
    from ..driver.run import Ran
    from ._live import LiveTables


class Clocks(StrEnum):
    """What becomes of the clock rates that a mapping has chosen for states."""

    SET = "set"
    MODEL = "model"
    EMULATE = "emulate"


#: Tasks that are named for taking longer than their profile.
MOST_SLOWER = 5


def run(
    file: Text,
    frames: Annotated[
        int | None, typer.Option(help="Stop after N iterations of each app.", min=0, metavar="N", show_default=False)
    ] = None,
    full_speed: Annotated[bool, typer.Option("--full-speed", help="Ignore periods.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Wait after each kernel on a GPU, so that a failure names it.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for ui.perfetto.dev.", metavar="FILE", show_default=False)
    ] = None,
    trace_frames: Annotated[
        str | None,
        typer.Option(
            "--trace-frames", help="Only frames A to B - 1 are in the trace.", metavar="A:B", show_default=False
        ),
    ] = None,
    trace_bands: Annotated[
        bool, typer.Option("--trace-bands", help="Units of bands of rows are in the trace, too.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write the measurements as JSON.", metavar="FILE", show_default=False)
    ] = None,
    settings: Settings = None,
    fail_on_miss: Annotated[
        bool, typer.Option("--fail-on-miss", help="Exit with status 1 if a deadline was missed.")
    ] = False,
    watchdog: Annotated[
        float | None,
        typer.Option(
            help="Stop when a firing takes longer than S seconds; 0 = never (default: 60).",
            min=0,
            metavar="S",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Begin in that state of a scenario.", metavar="STATE", show_default=False)
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            help="Raise the events of a file: lines `2.5 s EVENT`, or `120 APP EVENT`.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(help="Raise the events that come in at a Unix socket.", metavar="PATH", show_default=False),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Change states after the frames that a report says.", metavar="REPORT", show_default=False),
    ] = None,
    clocks: Annotated[
        Clocks, typer.Option(help="`set` the clock rates of states, leave them, or only wait as long.")
    ] = Clocks.MODEL,
    live: Annotated[bool, typer.Option("--live", help="Show in the terminal how it is doing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no table.")] = False,
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
    """Build if needed, then run the program. It ends with its stream, or by Ctrl-C.

    With --twin, a few frames are compared with the sequential reference before.
    """
    from ..driver.run import States
    from ..driver.run import run as driver_run

    if trace_frames is not None:
        from ..runtime.trace import frames_of

        try:
            frames_of(trace_frames)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--trace-frames") from None
    for option, wanted in (("--trace-frames", trace_frames), ("--trace-bands", trace_bands or None)):
        if wanted is not None and trace is None:
            raise typer.BadParameter("it is about --trace FILE", param_hint=option)
    if live and board is not None:
        raise typer.BadParameter("it is about programs on this machine", param_hint="--live")
    alone = {"--board": board, "--trace": trace, "--live": live or None, "--twin": twin or None, "--start": start,
             "--events": events, "--control": control, "--replay": replay}  # fmt: skip
    for option, given in alone.items():
        if machines is not None and given is not None:
            raise typer.BadParameter("it is about programs on one machine", param_hint=option)
    shown = _live() if live else nullcontext()
    with host_of(board, board_python) as host, shown as tables:
        ran = driver_run(
            file,
            output,
            platform=platform,
            host=host,
            frames=frames,
            full_speed=full_speed,
            strict=strict,
            trace=trace,
            trace_frames=trace_frames,
            trace_bands=trace_bands,
            twin=twin,
            force=force,
            report_to=report,
            settings=settings or (),
            fail_on_miss=fail_on_miss,
            watchdog=watchdog,
            states=States(start, events, control, replay, clocks.value),
            quiet=quiet,
            document=as_json,
            measure=not no_measure,
            on_measure=measuring,
            on_built=show_built,
            on_played=lambda name: say(f"flowc: this machine plays `{name}`: the times are its own"),
            on_agreed=lambda: say("flowc: the twin gives the results of the sequential reference"),
            live=None if tables is None else tables.descriptor,
            hear=None if tables is None else tables.hear,
            report=progress,
            machines=machines,
        )
    if ran.disagreed:
        sys.stderr.write(ran.disagreed)
    if ran.report is not None:
        print(ran.report)
    if not (quiet or as_json):
        if ran.parts is not None:
            _print_parts(ran.parts)
        _print_comparison(ran)
    return ran.status


def _print_parts(document: dict[str, Any]) -> None:
    """The table of a program on several machines, and how well their clocks are known."""
    from ..driver.joining import clocks
    from ..runtime.failures import Failure
    from ..runtime.report import columns, table

    if document["apps"]:
        print(f"{table(document)}\n\n{columns(clocks(document), left=2)}")
    if document["failure"] is not None:  # what parts have said of it stands above a table
        say(f"flowc: {Failure(**document['failure'])}")


def _print_comparison(ran: Ran) -> None:
    """Bounds beside what was seen, and tasks that took much longer than when they were measured."""
    from ..runtime.report import columns

    if ran.bounded:
        rows = [["latency of", "bound ms", "longest ms", "deadline ms"]]
        for b in ran.bounded:
            name = f"{b.source} -> {b.task.partition('.')[2]}" if b.source else b.task
            times = (b.bound_ns, b.longest_ns, b.deadline_ns)
            rows.append([name, *("-" if ns is None else f"{ns / 1e6:.2f}" for ns in times)])
        print(f"\n{columns(rows)}")
        above = [row[0] for row, b in zip(rows[1:], ran.bounded, strict=True) if b.exceeded]
        if above:
            print(f"above its bound: {', '.join(above)}; the times that it counts with were too short")
    for k, s in enumerate(ran.slower[:MOST_SLOWER]):
        unit, ns = ("ms", 1e6) if s.profile_ns >= 1e6 else ("us", 1e3)
        took = f"{s.mean_ns / ns:.4g} {unit} instead of {s.profile_ns / ns:.4g} {unit}"
        factor = s.mean_ns / s.profile_ns
        print(f"{'' if k else chr(10)}{s.task} takes {factor:.{0 if factor >= 10 else 1}f} times its profile: {took}")


def _live() -> LiveTables:
    """Tables at the bottom of the terminal."""
    from ._live import LiveTables

    return LiveTables()
