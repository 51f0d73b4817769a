"""A scenario's places and times of its actors on its architecture.

In: a design with the names of its tasks, a scenario and a board. Out: a text with pins, and entries
of a profile. PREESM gives times without a unit, which are read as ns. An actor with only one
permitted operator is pinned there; flowc cannot express a choice of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...model.profile import Profile, ProfileEntry
from ..names import listed, shown
from . import expressions
from .design import Leaf, PreesmDesign
from .expressions import Wrong
from .files import PreesmCollector
from .platform import PreesmBoard
from .scenario import PreesmScenario, PreesmTiming
from .text import quoted

_LONGEST_NS = 10**17


def pins_of(
    design: PreesmDesign,
    app: str,
    title: str,
    scenario: PreesmScenario,
    board: PreesmBoard,
    say: PreesmCollector,
) -> dict[str, str]:
    """The processor of each task with only one."""
    processors = board.processors()
    found = {}
    if len(processors) < 2:
        return {}
    for leaf in design.leaves:
        if leaf.actor is not None:
            stated = scenario.allowed.get("/".join((title, *leaf.way)), ())
            allowed = [operator for operator in stated if operator in processors]
            if len(allowed) == 1:
                found[".".join((app, *leaf.path))] = processors[allowed[0]]
            elif 0 < len(allowed) < len(processors):
                message = f"may run on {listed(allowed, 4)} only, which is not imported"
                say.warn_together(
                    "/".join(leaf.way), message, scenario.span, "a pin is a place, not a choice"
                )
    return found


def mapping_text(
    pins: Mapping[str, str], board: PreesmBoard, files: tuple[str, ...], where: str
) -> str:
    """A text with pins."""
    lines = [f"// Where actors have to run, from {shown(where)}."]
    for file in files:
        lines.append(f"use {quoted(file)}")
    lines += ["", f"mapping on {board.name} {{"]
    for task, processor in pins.items():
        lines.append(f"    {task} -> {processor}")
    return "\n".join([*lines, "}"]) + "\n"


@dataclass(frozen=True, slots=True)
class PreesmTimes:
    """`costs` are ns by task and kind of processor."""

    board: str
    host: str
    costs: Mapping[tuple[str, str], int]

    def profile(self, hashes: Mapping[str, str]) -> Profile:
        """As entries, with the content hashes of the tasks."""
        entries = []
        for (task, kind), ns in sorted(self.costs.items()):
            entries.append(ProfileEntry(kind, task, "preesm", hashes[task], "", 0, ns, 0, ns, ns))
        return Profile(self.board, self.host, tuple(entries))


def times_of(
    design: PreesmDesign,
    app: str,
    title: str,
    scenario: PreesmScenario,
    board: PreesmBoard,
    say: PreesmCollector,
) -> PreesmTimes | None:
    """The times of actors; None if the scenario has none."""
    kinds = {p.type: p.kind for p in board.pools}
    costs: dict[tuple[str, str], int] = {}
    types: dict[tuple[str, str], set[str]] = {}
    by_actor: dict[str, list[PreesmTiming]] = {}
    for timing in scenario.timings:
        by_actor.setdefault(timing.actor, []).append(timing)
    for leaf in design.leaves:
        for timing in by_actor.get("/".join((title, *leaf.way)), ()):
            if timing.operator not in kinds:
                continue
            ns = _time(timing, leaf, say)
            if ns is not None:
                key = ".".join((app, *leaf.path)), kinds[timing.operator]
                costs[key] = max(ns, costs.get(key, 0))
                types.setdefault(key, set()).add(timing.operator)
    if not costs:
        return None
    first = scenario.timings[0].span
    say.warn("PREESM gives times without a unit: they are read as ns", first)
    mixed = next((t for t in types.values() if len(t) > 1), None)
    if mixed is not None:
        message = (
            f"{listed(sorted(mixed))} are of one kind: of several times of an actor the longest"
            " counts"
        )
        say.warn(message, first, "name others by `wcet` in pins")
    return PreesmTimes(board.name, f"times of {Path(scenario.file).name}", costs)


def _time(timing: PreesmTiming, leaf: Leaf, say: PreesmCollector) -> int | None:
    try:
        value = expressions.evaluate(expressions.parse(timing.time), leaf.values)
    except Wrong as reason:
        say.fault(
            f"the time of {shown(timing.actor)} is {shown(timing.time)}: {reason}", timing.span
        )
        return None
    if not 0 <= value <= _LONGEST_NS:
        say.fault(
            f"the time of {shown(timing.actor)} is {shown(timing.time)}, which is none", timing.span
        )
        return None
    return round(value)


def losses(
    design: PreesmDesign,
    title: str,
    scenario: PreesmScenario,
    board: PreesmBoard,
    say: PreesmCollector,
) -> None:
    """Warnings about actors and operators of the scenario that do not exist, and about copies."""
    known = set()
    for leaf in design.leaves:
        for n in range(len(leaf.way) + 1):
            known.add("/".join((title, *leaf.way[:n])))
    types = {p.type for p in board.pools}
    for timing in scenario.timings:
        if timing.actor not in known:
            say.warn_together(timing.actor, "has times and is no actor of this graph", timing.span)
        elif timing.operator not in types:
            say.warn_together(
                timing.operator, "has times and is no type of operator here", timing.span
            )
    if scenario.copies is not None and any(leaf.task.kind != "actor" for leaf in design.leaves):
        say.warn(
            "costs of copies are not imported", scenario.copies, "measure with `flowc profile`"
        )
