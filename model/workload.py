"""How much time successive firings of a task take together: a workload curve.

In: times of firings in the order in which they happened. Out: for every number k of successive firings, the largest
total that k of them had. One firing may be as long as the longest one, but a hundred in a row are not a hundred times
as long: with a worst case alone, an interruption that comes once in a while is charged to every firing (Maxiaguine,
Kuenzli and Thiele, "Workload characterization model for tasks with variable execution demand", 2004).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise

#: Of the firings seen, a run may be so large a share: there have to be some runs to be the largest of.
SHARE = 4
#: Lengths of runs that are looked at: all up to 8, then four in each octave.
LENGTHS = (*range(1, 8), *(n << k for k in range(1, 30) for n in (4, 5, 6, 7)))
#: Cycles of phases that are looked at where no length of a run is a whole number of them.
CYCLES = 32


@dataclass(frozen=True)
class WorkloadCurve:
    """`totals[i]`: no LENGTHS[i] successive firings took more time together. They do not fall.

    What k firings take at most follows for every k, also beyond those that were looked at.
    """

    totals: tuple[int, ...]
    _known: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def longest(self) -> int:
        """Of one firing: its worst-case execution time."""
        return self.totals[0]

    @property
    def sustained(self) -> Fraction:
        """What a firing takes at most in the long run."""
        return Fraction(self.totals[-1], LENGTHS[len(self.totals) - 1])

    def total(self, count: int) -> int:
        """The most that so many successive firings take: never less for more of them."""
        found = self._known.get(count)
        if found is None:
            found = self._known[count] = self._total(count)
        return found

    def _total(self, count: int) -> int:
        if count <= 0:
            return 0
        at = bisect_right(LENGTHS, count, hi=len(self.totals)) - 1
        times, left = divmod(count, LENGTHS[at])
        found: int = times * self.totals[at] + self.total(left)
        # A longer run has the shorter one in it.
        return min(found, self.totals[at + 1]) if left and at + 1 < len(self.totals) else found

    def scaled(self, factor: Fraction | int) -> WorkloadCurve:
        """Of firings that take so many times as long, rounded up."""
        if factor == 1:
            return self
        return WorkloadCurve(tuple(-(-t * factor.numerator // factor.denominator) for t in self.totals))


def workload(times: Sequence[int], wcet: int | None = None) -> WorkloadCurve:
    """The curve of firings that took these times, in order.

    A `wcet` beyond the longest of them is the time of one firing in each run. Raises ValueError without times.
    """
    if not times:
        raise ValueError("no firings")
    more = max(0, (wcet or 0) - max(times))
    sums = [0, *accumulate(times)]
    lengths = [n for n in LENGTHS if n == 1 or n * SHARE <= len(times)]
    return WorkloadCurve(tuple(more + max(b - a for a, b in zip(sums, sums[n:], strict=False)) for n in lengths))


def cyclic_workload(phases: Sequence[int]) -> WorkloadCurve:
    """The curve of firings that take the times of these phases in turn, for ever. Raises ValueError without phases."""
    if not phases:
        raise ValueError("no phases")
    sums = [0, *accumulate([*phases, *phases])]
    cycle = sums[len(phases)]

    def most(count: int) -> int:
        times, left = divmod(count, len(phases))
        return times * cycle + max(sums[k + left] - sums[k] for k in range(len(phases)))

    totals = []
    for length in LENGTHS:
        totals.append(most(length))
        # A whole number of cycles tells the long run exactly; where no length is one, many cycles come close.
        if length % len(phases) == 0 or length >= CYCLES * len(phases):
            break
    return WorkloadCurve(tuple(totals))


def is_curve(totals: Sequence[int]) -> bool:
    """Can these be the totals of a curve?"""
    rising = all(a <= b for a, b in pairwise(totals))
    return (
        0 < len(totals) <= len(LENGTHS)
        and rising
        and all(0 <= t <= n * totals[0] for n, t in zip(LENGTHS, totals, strict=False))
    )
