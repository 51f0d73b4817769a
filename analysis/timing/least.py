"""Deadlines that are missed at slower clocks whatever runs when, found out without any analysis of
who disturbs whom.

In: a timed system at its highest clock rates, and which of its processors share a clock. Out:
whether at others some deadline is surely missed: a path from a release to the end of an iteration
takes longer by itself, or a processor has more to do than it has time. Such an execution exists, so
that every bound that is safe agrees; and what is missed is missed at all slower rates, which cannot
be said of bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from .system import Time, TimedGroup, TimedSystem, sinks, sources, utilization

#: So many paths are kept of each task: any of them will do.
MOST_PATHS = 32

#: Time on each clock.
Work = tuple[Time, ...]


class Least:
    """What a system needs at least; `clock` has the number of the clock of each processor."""

    def __init__(self, system: TimedSystem, clock: Mapping[str, int]) -> None:
        self._loads: dict[int, Fraction] = {}
        for processor, share in utilization(system).items():
            number = clock[processor]
            self._loads[number] = max(share, self._loads.get(number, Fraction(0)))
        count = 1 + max(clock.values(), default=0)
        self._paths: list[tuple[Time, Work]] = []
        for group in system.groups:
            if group.due is not None:
                self._paths += [(group.due, work) for work in _longest(group, clock, count)]

    def missed(self, factors: Sequence[Fraction]) -> bool:
        """Is a deadline surely missed if what runs on each clock takes so many times as long?"""
        if any(share * factors[number] > 1 for number, share in self._loads.items()):
            return True
        return any(
            sum(t * f for t, f in zip(work, factors, strict=True)) > due
            for due, work in self._paths
        )


def _longest(group: TimedGroup, clock: Mapping[str, int], count: int) -> Iterator[Work]:
    """The work of paths to the sinks of an iteration, none of which is at least another one on
    every clock."""
    before = _awaited(group)
    own: dict[str, Work] = {}
    for task in group.tasks:
        number = clock[task.processor]
        least = min(task.phases, default=task.cost)
        own[task.name] = tuple(least if n == number else 0 for n in range(count))
    released = sources(group)  # what stands behind initial tokens may have begun before
    kept: dict[str, list[Work]] = {}
    left = list(before)
    while left:
        ready = [name for name in left if all(b in kept for b in before[name])]
        if not ready:
            return  # a cycle without tokens: it is refused elsewhere
        for name in ready:
            ahead: set[Work] = {(0,) * count} if name in released else set()
            for b in before[name]:
                ahead.update(kept[b])
            kept[name] = _largest(_sum(work, own[name]) for work in ahead)
        left = [name for name in left if name not in kept]
    ends: list[Work] = []
    for name in sinks(group):
        ends += kept[name]
    yield from _largest(ends)


def _awaited(group: TimedGroup) -> dict[str, list[str]]:
    """The tasks that each task waits for in an iteration."""
    before: dict[str, list[str]] = {t.name: [] for t in group.tasks}
    for c in group.channels:
        if not c.delay and min((*c.produced, *c.consumed)) > 0:
            before[c.destination].append(c.source)
    return before


def _sum(one: Work, other: Work) -> Work:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _largest(paths: Iterable[Work]) -> list[Work]:
    """Those that no other one is at least as long as on every clock."""
    kept: list[Work] = []
    for path in sorted(set(paths), key=sum, reverse=True):
        if len(kept) == MOST_PATHS:
            break
        if not any(_covers(other, path) for other in kept):
            kept.append(path)
    return kept


def _covers(one: Work, other: Work) -> bool:
    """Is it at least as long on every clock?"""
    return all(a >= b for a, b in zip(one, other, strict=True))
