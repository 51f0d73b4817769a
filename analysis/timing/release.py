"""Groups that are released by the tokens of others: when that can be.

In: a timed system with triggers, and a solver of systems whose releases are known. Out: the same
system with the clock, the offset and the jitter of each triggered group, and its solution.

A token comes when a firing of the trigger ends, between its earliest and its latest end. So a group
is on the clock of the one that releases it, with the earliest of these as its offset and the time
up to the latest as its jitter. Latest ends depend on the jitters of others, and these on latest
ends: both grow together until what a solution says is within what it was made from (Tindell and
Clark, "Holistic schedulability analysis for distributed hard real-time systems", 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf
from typing import Protocol, TypeVar

from .system import TimedGroup, TimedSystem, TimedTrigger, in_order_of_release

#: Jitters that still grow after so many solutions are without bound.
MOST_SOLUTIONS = 32

#: The earliest and the latest end in ns of each firing of a task in an iteration, from the nominal
#: release of that; None where it has no bound.
TaskEnds = list[tuple[Fraction, Fraction]] | None


class Solution(Protocol):
    """A system that is solved."""

    def overlap(self, name: str) -> int:
        """How many next iterations of a group can be released before one has ended."""

    def task_ends(self, trigger: TimedTrigger) -> TaskEnds:
        """When the firings of a task end."""


SolutionT = TypeVar("SolutionT", bound=Solution)


def with_releases(
    system: TimedSystem, solve: Callable[[TimedSystem], SolutionT]
) -> tuple[TimedSystem, SolutionT]:
    """The system with the releases of all groups, and its solution."""
    system = _at_first(system)
    for tries in range(MOST_SOLUTIONS):
        solution = solve(system)
        groups = {g.name: g for g in system.groups}
        later = tuple(_widened(g, groups, solution) for g in system.groups)
        if later == system.groups:
            later = tuple(_held_up(g, system, solution) for g in system.groups)
        if later == system.groups:
            return system, solution
        if tries == MOST_SOLUTIONS - 2:
            later = tuple(g if g.trigger is None else replace(g, jitter=None) for g in later)
        system = replace(system, groups=later)
    return system, solution


def _held_up(group: TimedGroup, system: TimedSystem, solution: Solution) -> TimedGroup:
    """A gated group has no bound where its source may wait for iterations before, though a token
    is there: no more of them are under way than fit into its deadline, at least one.

    On a CPU that the group does not leave, source and reader wait for each other anyway: their
    priorities are equal.
    """
    if not group.gated or group.jitter is None or _is_on_one_cpu(group, system):
        return group
    most = inf if group.due is None else max(1, ceil(Fraction(group.due) / Fraction(group.period)))
    if solution.overlap(group.name) < most:
        return group
    return replace(group, jitter=None)


def _is_on_one_cpu(group: TimedGroup, system: TimedSystem) -> bool:
    """Are all tasks of a group on one CPU that it goes on with at once?"""
    used = {task.processor for task in group.tasks}
    places = [p for p in system.processors if p.name in used]
    if len(places) != 1 or places[0].kind not in ("", "cpu"):
        return False
    return places[0].scheduler != "fifo" and not places[0].wakeup


def _at_first(system: TimedSystem) -> TimedSystem:
    """The system before anything is known of tokens: each group is on the clock of the one that
    releases it. Raises Refused where groups release each other in a circle."""
    clocks: dict[str, str] = {}
    made: dict[str, TimedGroup] = {}
    for group in in_order_of_release(system.groups):
        if group.trigger is not None:
            clock = clocks[group.trigger.group]
            group = replace(group, clock=clock, offset=Fraction(0), jitter=Fraction(0))
        clocks[group.name] = group.on_clock
        made[group.name] = group
    return replace(system, groups=tuple(made[group.name] for group in system.groups))


def _widened(group: TimedGroup, groups: Mapping[str, TimedGroup], solution: Solution) -> TimedGroup:
    """A group whose releases include those that a solution shows."""
    if group.trigger is None or group.jitter is None:
        return group
    writer = groups[group.trigger.group]
    ends = solution.task_ends(group.trigger)
    if ends is None or writer.jitter is None:
        return replace(group, jitter=None)
    apart = Fraction(writer.period) / len(ends)
    start = Fraction(writer.offset or 0)
    first = start + min(earliest - k * apart for k, (earliest, _) in enumerate(ends))
    last = start + max(latest - k * apart for k, (_, latest) in enumerate(ends))
    offset = first if first >= 0 else first % Fraction(group.period)
    jitter = last - first
    if offset == group.offset:
        jitter = max(jitter, Fraction(group.jitter))
    return replace(group, offset=offset, jitter=jitter)
