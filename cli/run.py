"""The verb `run`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.digits import decimals
from ..runtime.options import Mistake, RunOptions, flag, mistake
from ._boards import Machines
from ._common import Json, Text, say, show_built
from ._groups import grouped
from ._place import BuildPlace

if TYPE_CHECKING:
    from ..driver.execute.post_run_report import Bounded, Slower
    from ..driver.execute.recordings import Recorded
    from ..driver.execute.run import FinishedRun
    from ._live import LiveTables


#: Most tasks that are named for taking longer than in their profile.
MOST_SLOWER = 5


@grouped
def run(
    file: Text,
    options: RunOptions,
    place: BuildPlace,
    live: Annotated[
        bool, typer.Option("--live", help="Show in the terminal how it is doing.")
    ] = False,
    machines: Machines = None,
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time",
            help="With `--target native`: threads under SCHED_FIFO, on a core each; locked memory.",
        ),
    ] = False,
    reserve: Annotated[
        bool,
        typer.Option(
            "--reserve",
            help="The same, under SCHED_DEADLINE where the text has a `wcet` for all tasks.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Build if needed, then run the program. It ends with its stream, or by Ctrl-C.

    With --twin, a few frames are first compared with the sequential reference.
    """
    from ..driver.execute.run import RunListener
    from ..driver.execute.run import run as driver_run

    _require_possible(options, place, live, machines)
    if not place.native and (real_time or reserve):
        hint = "--real-time" if real_time else "--reserve"
        raise typer.BadParameter("it is for programs in C++", param_hint=hint)
    shown = _live() if live else nullcontext()
    with place.host as host, shown as tables:
        listener = RunListener(
            built=show_built,
            played=lambda name: say(
                f"flowc: this machine stands in for `{name}`: the times are its own"
            ),
            agreed=lambda: say("flowc: the twin gives the results of the sequential reference"),
            heard=None if tables is None else tables.hear,
        )
        asked = place.asked | {f.name: getattr(options, f.name) for f in fields(options)}
        asked["live"] = None if tables is None else tables.descriptor
        try:
            ran = driver_run(
                file,
                place.output,
                host=host,
                machines=machines,
                real_time=real_time,
                reserve=reserve,
                document=as_json,
                listener=listener,
                **asked,
            )
        except Mistake as mistaken:
            raise typer.BadParameter(str(mistaken)) from None
    if ran.recorded is not None:
        _say_recorded(ran.recorded, options.quiet)
    if ran.disagreed:
        sys.stderr.write(ran.disagreed)
    if ran.report is not None:
        print(ran.report)
    if not (options.quiet or as_json):
        if ran.parts is not None:
            _print_parts(ran.parts)
        _print_comparison(ran)
    return ran.status


def _require_possible(
    options: RunOptions, place: BuildPlace, live: bool, machines: Path | None
) -> None:
    """Raises BadParameter for options that do not go together."""
    wrong = mistake(options)
    if wrong is not None:
        raise typer.BadParameter(wrong[1], param_hint=wrong[0])
    if live and place.board is not None:
        raise typer.BadParameter("it is for programs on this machine", param_hint="--live")
    if place.native:
        python = next(_for_python(options, place, live, machines), None)
        if python is not None:
            raise typer.BadParameter("it is for programs in Python", param_hint=python)
    if machines is None:
        return
    alone = next(_for_one_machine(options, place, live), None)
    if alone is not None:
        raise typer.BadParameter("it is for programs on one machine", param_hint=alone)


def _for_python(
    options: RunOptions, place: BuildPlace, live: bool, machines: Path | None
) -> Iterator[str]:
    """The given options that programs in C++ do not have."""
    from ..driver.execute.native import OPTIONS

    for option in fields(options):
        if option.name not in OPTIONS and getattr(options, option.name) != option.default:
            yield flag(option)
    for name, given in (("--live", live), ("--machines", machines)):
        if given:
            yield name


def _for_one_machine(options: RunOptions, place: BuildPlace, live: bool) -> Iterator[str]:
    """The given options that programs on several machines do not have."""
    for option in fields(options):
        if option.metadata["alone"] and getattr(options, option.name) != option.default:
            yield flag(option)
    if live:
        yield "--live"
    if place.board is not None:
        yield "--board"


def _print_parts(document: dict[str, Any]) -> None:
    """The table of a program on several machines, and the accuracy of their clocks."""
    from ..driver.execute.joining import clocks
    from ..runtime.failures import Failure
    from ..runtime.report import columns, table

    if document["apps"]:
        print(f"{table(document)}\n\n{columns(clocks(document), left=2)}")
    if document["failure"] is not None:  # the parts have reported it above a table
        say(f"flowc: {Failure(**document['failure'])}")


def _say_recorded(recorded: Recorded, quiet: bool) -> None:
    """What parts have recorded."""
    for reason in recorded.missing:
        say(f"flowc: the recording of part {reason}")
    if not quiet:
        say(
            f"flowc: {recorded.tokens:,} tokens of {recorded.channels} channels of"
            f" {recorded.parts} parts are in {recorded.path}"
            f" ({recorded.path.stat().st_size / 1e6:.1f} MB)"
        )


def _print_comparison(ran: FinishedRun) -> None:
    """Bounds beside measured latencies, and tasks that took much longer than when they were
    measured."""
    if ran.bounded:
        print(f"\n{_table_of_bounds(ran.bounded)}")
        above = [b for b in ran.bounded if b.exceeded]
        if above:
            reason = "the times that the bound assumes were too short"
            skipped = dict(each for b in above for each in b.skipped)
            if skipped:
                frames = ", ".join(f"{number} of {app}" for app, number in skipped.items())
                reason += f", or data are older since frames were skipped ({frames})"
            if above[0].paused:
                reason += f", or a source paused: {', '.join(above[0].paused)}"
            if any(b.supposed for b in above):
                reason += ", or what the bound supposes does not hold"
            print(f"above its bound: {', '.join(b.name for b in above)}; {reason}")
    elif ran.unbounded:
        print(
            f"\nno bounds beside these latencies: they are of `{ran.unbounded}`, and the times are"
            " this machine's, which stands in for it"
        )
    if ran.slower:
        print()
    for slower in ran.slower[:MOST_SLOWER]:
        print(_in_words(slower))


def _table_of_bounds(bounded: Sequence[Bounded]) -> str:
    from ..runtime.report import columns

    supposed = any(b.supposed for b in bounded)
    rows = [["latency of", *([""] if supposed else []), "bound ms", "longest ms", "deadline ms"]]
    for b in bounded:
        condition = [f"if {b.supposed}" if b.supposed else ""] if supposed else []
        times = (b.bound_ns, b.longest_ns, b.deadline_ns)
        shown = ("-" if ns is None else decimals(ns / 1e6, 2) for ns in times)
        rows.append([b.name, *condition, *shown])
    return columns(rows, left=2 if supposed else 1)


def _in_words(slower: Slower) -> str:
    unit, ns = ("ms", 1e6) if slower.profile_ns >= 1e6 else ("us", 1e3)
    took = f"{slower.mean_ns / ns:.4g} {unit} instead of {slower.profile_ns / ns:.4g} {unit}"
    factor = slower.mean_ns / slower.profile_ns
    digits = 0 if factor >= 10 else 1
    return f"{slower.task} takes {factor:.{digits}f} times its profile: {took}"


def _live() -> LiveTables:
    """Tables at the bottom of the terminal."""
    from ._live import LiveTables

    return LiveTables()
