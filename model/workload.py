"""Workload curves: the total time of successive firings of a task.

In: times of firings in order. Out: for every number k, the largest total of k successive firings.
With a worst case alone, an occasional interruption is charged to every firing; the curve avoids
that (Maxiaguine, Kuenzli and Thiele, "Workload characterization model for tasks with variable
execution demand", 2004).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise

#: A run has at most 1/SHARE of the observed firings, so that there are several runs to compare.
SHARE = 4
#: Lengths of runs that are evaluated: all up to 8, then four in each octave.
LENGTHS = (*range(1, 8), *(n << k for k in range(1, 30) for n in (4, 5, 6, 7)))
#: Cycles of phases that are evaluated if no run length is a multiple of a cycle.
CYCLES = 32


@dataclass(frozen=True)
class WorkloadCurve:
    """`totals[i]`: the maximum total time of LENGTHS[i] successive firings; non-decreasing.

    `total` derives a bound for every k, also beyond the evaluated lengths.
    """

    totals: tuple[int, ...]
    _known: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def longest(self) -> int:
        """The worst-case execution time of one firing."""
        return self.totals[0]

    @property
    def sustained(self) -> Fraction:
        """The maximum time per firing in the long run."""
        return Fraction(self.totals[-1], LENGTHS[len(self.totals) - 1])

    def total(self, count: int) -> int:
        """The maximum total time of `count` successive firings; non-decreasing."""
        known = self._known.get(count)
        if known is None:
            known = self._known[count] = self._total(count)
        return known

    def _total(self, count: int) -> int:
        if count <= 0:
            return 0
        at = bisect_right(LENGTHS, count, hi=len(self.totals)) - 1
        times, left = divmod(count, LENGTHS[at])
        bound: int = times * self.totals[at] + self.total(left)
        # A longer run contains the shorter one.
        return min(bound, self.totals[at + 1]) if left and at + 1 < len(self.totals) else bound

    def scaled(self, factor: Fraction | int) -> WorkloadCurve:
        """The curve of firings that take `factor` times as long, rounded up."""
        if factor == 1:
            return self
        return WorkloadCurve(
            tuple(-(-t * factor.numerator // factor.denominator) for t in self.totals)
        )

    def longer(self, by: int) -> WorkloadCurve:
        """The curve of firings each of which takes so many ns more."""
        return WorkloadCurve(tuple(t + n * by for t, n in zip(self.totals, LENGTHS, strict=False)))


def workload(times: Sequence[int], wcet: int | None = None) -> WorkloadCurve:
    """The curve of firings that took these times, in order.

    A `wcet` beyond the longest time replaces one firing of each run. Raises ValueError without
    times.
    """
    if not times:
        raise ValueError("no firings")
    more = max(0, (wcet or 0) - max(times))
    sums = [0, *accumulate(times)]
    lengths = [n for n in LENGTHS if n == 1 or n * SHARE <= len(times)]
    return WorkloadCurve(
        tuple(more + max(b - a for a, b in zip(sums, sums[n:], strict=False)) for n in lengths)
    )


def cyclic_workload(phases: Sequence[int]) -> WorkloadCurve:
    """The curve of firings that repeat these phases. Raises ValueError without phases."""
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
        # A multiple of a cycle gives the long run exactly; otherwise many cycles approximate it.
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
