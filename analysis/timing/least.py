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

from .system import Group, Time, TimedSystem, sinks, sources, utilization

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
        self._paths = [
            (g.due, w)
            for g in system.groups
            if g.due is not None
            for w in _longest(g, clock, count)
        ]

    def missed(self, factors: Sequence[Fraction]) -> bool:
        """Is a deadline surely missed if what runs on each clock takes so many times as long?"""
        if any(share * factors[number] > 1 for number, share in self._loads.items()):
            return True
        return any(
            sum(t * f for t, f in zip(work, factors, strict=True)) > due
            for due, work in self._paths
        )


def _longest(group: Group, clock: Mapping[str, int], count: int) -> Iterator[Work]:
    """The work of paths to the sinks of an iteration, none of which is at least another one on
    every clock."""
    before: dict[str, list[str]] = {t.name: [] for t in group.tasks}
    for c in group.channels:
        if not c.delay and min((*c.produced, *c.consumed)) > 0:
            # else it need not be waited for in an iteration
            before[c.destination].append(c.source)
    work = {
        t.name: tuple(t.cost if n == clock[t.processor] else 0 for n in range(count))
        for t in group.tasks
    }
    released = sources(group)  # what stands behind initial tokens may have begun before
    found: dict[str, list[Work]] = {}
    left = list(before)
    while left:
        ready = [n for n in left if all(b in found for b in before[n])]
        if not ready:
            return  # a cycle without tokens: it is refused elsewhere
        for name in ready:
            ways = (
                {(0,) * count} if name in released else {w for b in before[name] for w in found[b]}
            )
            found[name] = _largest(
                tuple(a + b for a, b in zip(w, work[name], strict=True)) for w in ways
            )
        left = [n for n in left if n not in found]
    yield from _largest(w for n in sinks(group) for w in found[n])


def _largest(ways: Iterable[Work]) -> list[Work]:
    """Those that no other one is at least as long as on every clock."""
    kept: list[Work] = []
    for way in sorted(set(ways), key=sum, reverse=True):
        if len(kept) < MOST_PATHS and not any(
            all(a >= b for a, b in zip(o, way, strict=True)) for o in kept
        ):
            kept.append(way)
    return kept
