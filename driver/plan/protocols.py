"""How a program changes states: after all frames under way have ended, with the next frame, or at
once.

In: the deployments of the states of a scenario, and their timing if there are bounds. Out: a
protocol for each change, with its longest duration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from ...analysis.timing.response_time import worst_cases
from ...analysis.timing.system import Refused, TimedGroup, TimedSystem, TimedTask
from ...codegen.layouts import not_broken_off, place_of, why_not_one_layout
from ...dsl.at_once import WITHOUT
from ...model.deployment import DeployedState
from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import ChangeBound
from ...model.scenario import ChangeProtocol, Scenario
from ...model.workload import LENGTHS, WorkloadCurve

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Way:
    """A change of states without a pause, as far as channels and workers are concerned."""

    source: DeployedState
    target: DeployedState
    protocol: ChangeProtocol


def ways(scenario: Scenario, states: Sequence[DeployedState]) -> dict[Pair, Way]:
    """The changes for which frames need not end. Raises Errors for changes `at once` that are not
    possible."""
    named = {s.name: s for s in states}
    possible: dict[Pair, Way] = {}
    faults = []
    for t in scenario.transitions:
        source, target = named[t.source], named[t.target]
        why = _hindrance(source, target, t.at_once)
        if why is None:
            if t.at_once or (t.source, t.target) not in possible:
                protocol: ChangeProtocol = "at once" if t.at_once else "next"
                possible[t.source, t.target] = Way(source, target, protocol)
        elif t.at_once:
            message = f"it cannot be made at once: {why}"
            faults.append(Diagnostic("F811", message, t.span, help=WITHOUT))
    if faults:
        raise Errors(faults)
    return possible


def _hindrance(source: DeployedState, target: DeployedState, at_once: bool) -> str | None:
    """Why all frames have to end before a change, if so."""
    why = why_not_one_layout(source, target)
    if at_once:
        why = why or not_broken_off(source) or not_broken_off(target)
    return why


def changes_of_build(
    scenario: Scenario,
    states: Sequence[DeployedState],
    stored: Mapping[Pair, ChangeBound],
) -> dict[Pair, ChangeBound]:
    """How the program of a build changes states. Raises Errors.

    A mapping's proofs are kept: it determines where frames have to end first. Without a mapping
    nothing is proved of any state, so nothing is lost, and changes `at once` are made at once.
    """
    possible = ways(scenario, states)
    bounds: dict[Pair, ChangeBound] = {}
    for t in scenario.transitions:
        pair = t.source, t.target
        change, known = possible.get(pair), stored.get(pair)
        protocol: ChangeProtocol = "idle"
        ends_first = known is not None and known.protocol == "idle"
        if change is not None and (change.protocol == "at once" or not ends_first):
            protocol = change.protocol
        bounds[pair] = ChangeBound(*pair, None, protocol=protocol)
        if known is not None and known.protocol == protocol:
            bounds[pair] = known
    return bounds


@dataclass(frozen=True, slots=True)
class StateTiming:
    """The timing of a state's program, and whether all its deadlines are proved; without `system`,
    nothing is known."""

    system: TimedSystem | None
    kept: bool


def with_protocols(
    scenario: Scenario,
    states: Sequence[DeployedState],
    timings: Mapping[str, StateTiming],
    bounds: Sequence[ChangeBound],
) -> tuple[tuple[ChangeBound, ...], tuple[Diagnostic, ...]]:
    """The bounds of changes with the protocol `idle`, and of those that may have another one, with
    that and its bound.

    The next frame may be the first of the next state if every deadline holds with the longer of
    both times for each task; at once, with their sum where an inference is done again. Raises
    Errors for changes `at once` that are not possible.
    """
    possible = ways(scenario, states)
    with_delays, warnings = [], []
    for bound in bounds:
        change = possible.get((bound.source, bound.target))
        if change is None:
            with_delays.append(bound)
            continue
        before, after = timings[bound.source], timings[bound.target]
        worst = _followed(change, before, after)
        if worst is not None and worst.kept:
            control = bound.control_ns or 0
            delay = None if worst.delay_ns is None else worst.delay_ns + control
            with_delays.append(replace(bound, delay_ns=delay, protocol=change.protocol))
        elif change.protocol == "at once":
            with_delays.append(replace(bound, delay_ns=None, protocol=change.protocol))
            if before.kept and after.kept:
                warnings.append(_unproved(scenario, bound, worst))
        else:
            with_delays.append(bound)
    return tuple(with_delays), tuple(warnings)


def _unproved(scenario: Scenario, bound: ChangeBound, worst: _Followed | None) -> Diagnostic:
    ends = (bound.source, bound.target)
    span = next(t.span for t in scenario.transitions if (t.source, t.target) == ends)
    late = "" if worst is None else f": {worst.late}"
    message = (
        f"a frame that is done again when `{bound.source}` changes to `{bound.target}` may be"
        f" late{late}"
    )
    help_text = "leave `at once` out, or give the app a longer deadline"
    return Diagnostic("F811", message, span, help=help_text, severity="warning")


@dataclass(frozen=True, slots=True)
class _Followed:
    """Do all deadlines hold during a change from one state to another, and how long does it
    take?"""

    kept: bool
    delay_ns: int | None
    late: str


def _followed(change: Way, before: StateTiming, after: StateTiming) -> _Followed | None:
    if before.system is None or after.system is None:
        return None
    system = _slowest(change, before.system, after.system)
    try:
        worst = worst_cases(system)
    except Refused:
        return None
    late = [_late(g.name, worst.groups[g.name], g.due) for g in system.groups]
    for g in system.groups:
        for path, latency in zip(g.paths, worst.paths[g.name], strict=True):
            late.append(_late(f"{path.source} -> {path.sink}", latency, path.deadline))
    responses = [(g.period, worst.groups[g.name]) for g in system.groups]
    known = [Fraction(period) + r for period, r in responses if r is not None]
    delay = ceil(max(known)) if len(known) == len(responses) else None
    first_late = next(filter(None, late), "")
    return _Followed(not first_late, delay, first_late)


def _late(name: str, bound: Fraction | None, due: Fraction | int | None) -> str:
    if due is None or (bound is not None and bound <= due):
        return ""
    took = "no bound is known" if bound is None else f"{float(bound) / 1e6:.2f} ms"
    return f"`{name}` has {float(due) / 1e6:.2f} ms, {took}"


def _slowest(change: Way, before: TimedSystem, after: TimedSystem) -> TimedSystem:
    """Every firing takes the longer of both times, or, if it may be done again, their sum."""
    place = place_of(change.target)
    theirs: dict[str, TimedTask] = {}
    for g in after.groups:
        theirs |= {place(task.name): task for task in g.tasks}
    own = place_of(change.source)

    def group(g: TimedGroup) -> TimedGroup:
        return replace(
            g, tasks=tuple(_longer(t, theirs[own(t.name)], change.protocol) for t in g.tasks)
        )

    return replace(before, groups=tuple(group(g) for g in before.groups))


def _longer(before: TimedTask, after: TimedTask, protocol: ChangeProtocol) -> TimedTask:
    both = before.name != after.name and protocol == "at once"
    lengths = [len(t.curve.totals) for t in (before, after) if t.curve is not None]
    if not lengths:
        return replace(
            before,
            wcet=(before.cost + after.cost if both else max(before.cost, after.cost),),
            bcet=(),
            phases=(),
        )
    totals = []
    for count in LENGTHS[: min(lengths)]:
        if both:  # a frame that is done again takes a firing of each
            totals.append(_total(before, count) + _total(after, count))
        elif before.name == after.name:
            totals.append(max(_total(before, count), _total(after, count)))
        else:
            # firings of one state are successive ones of it, however those of the other lie between
            # them
            totals.append(
                max(_total(before, k) + _total(after, count - k) for k in range(count + 1))
            )
    curve = WorkloadCurve(tuple(totals))
    return replace(before, wcet=(totals[0],), bcet=(), curve=curve, phases=())


def _total(task: TimedTask, count: int) -> int:
    """The longest time of so many successive firings."""
    return ceil(task.cost * count) if task.curve is None else task.curve.total(count)
