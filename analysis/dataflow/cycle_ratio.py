"""The largest ratio of length to height over the cycles of a graph, exactly, and longest paths in
it.

Howard's policy iteration (Cochet-Terrasson et al., "Numerical computation of spectral elements in
max-plus algebra", 1998; Dasdan's comparison, 1999) in whole numbers: with the ratio as a/b, an arc
weighs b x length - a x height, so that no value is ever rounded. A policy is one arc per node; it
is followed for all nodes at once, in columns of numpy: 1, 2, 4, 8 hops at a time. The numbers are
machine words where none can grow beyond them, and Python's otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from .unfinished import OutOfTime

#: Whole numbers: int64, or Python's own as objects.
Numbers = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]

#: Sums below this fit into a machine word, and so does one of them and another.
WORD = 2**62


@dataclass(frozen=True, slots=True)
class Arc:
    """`length` is time >= 0; `height` is what the period is multiplied with (negative heights are
    legal)."""

    source: int
    destination: int
    length: int
    height: int
    edge: int


@dataclass(frozen=True, slots=True)
class Arcs:
    """The same for many arcs: a column each, in the order of their sources."""

    nodes: int
    source: Indices
    destination: Indices
    length: Numbers
    height: Numbers
    edge: Indices

    def reversed(self) -> Arcs:
        """Each from its destination to its source."""
        return by_source(
            self.nodes, self.destination, self.source, self.length, self.height, self.edge
        )

    def arc(self, i: int) -> Arc:
        """One of them."""
        a, b, edge = int(self.source[i]), int(self.destination[i]), int(self.edge[i])
        return Arc(a, b, int(self.length[i]), int(self.height[i]), edge)


@dataclass(frozen=True, slots=True)
class CriticalCycle:
    """The critical cycle (arcs in order, none where the ratio is 0) and its ratio.

    The ratio is None when none satisfies the cycle (its height <= 0).
    """

    ratio: Fraction | None
    cycle: tuple[Arc, ...]


def numbers(values: Sequence[int]) -> Numbers:
    """Whole numbers as a column, in machine words if they fit."""
    fit = all(-WORD < x < WORD for x in values)
    return np.array(values, dtype=np.int64 if fit else object)


def by_source(
    nodes: int,
    source: Indices,
    destination: Indices,
    length: Numbers,
    height: Numbers,
    edge: Indices,
) -> Arcs:
    """Arcs from their columns in any order."""
    order = np.argsort(source, kind="stable")
    return Arcs(nodes, source[order], destination[order], length[order], height[order], edge[order])


def arcs_of(nodes: int, arcs: Sequence[Arc]) -> Arcs:
    """Arcs as columns."""
    source = np.array([a.source for a in arcs], dtype=np.intp)
    destination = np.array([a.destination for a in arcs], dtype=np.intp)
    edge = np.array([a.edge for a in arcs], dtype=np.intp)
    length, height = numbers([a.length for a in arcs]), numbers([a.height for a in arcs])
    return by_source(nodes, source, destination, length, height, edge)


def largest_cycle_ratio(arcs: Arcs, deadline: float | None = None) -> CriticalCycle:
    """The least ratio r >= 0 with length <= r x height on every cycle, with the cycle that dictates
    it.

    A cycle of height 0 must have length 0, and one of negative height must not exist, unless its
    length is 0 and so is the ratio; the first such cycle is returned with `ratio` None. Raises
    OutOfTime.
    """
    policy = CyclePolicy(arcs.nodes, arcs.source, arcs.destination)
    # Start where cycles are likely to be heavy: the longest arc, the lowest among equals.
    policy.choose(arcs.length, -arcs.height)
    longest, highest = policy.most(arcs.length), policy.most(abs(arcs.height))
    best: list[int] = []
    a, b = 0, 1
    weight = _weights(arcs, b, a, longest)
    while True:
        if deadline is not None and monotonic() > deadline:
            raise OutOfTime
        values = policy.values(weight)
        if values is None:
            ratio = Fraction(a, b)
            for cycle in policy.cut():
                length = sum(arcs.length[cycle].tolist())
                height = sum(arcs.height[cycle].tolist())
                if length * ratio.denominator > ratio.numerator * height:
                    if height <= 0:
                        return CriticalCycle(None, tuple(arcs.arc(i) for i in cycle))
                    ratio, best = Fraction(length, height), cycle
            if ratio > Fraction(a, b):
                a, b = ratio.numerator, ratio.denominator
                weight = _weights(arcs, b, a, b * longest + a * highest)
            continue
        if not policy.improve(weight, values):
            return CriticalCycle(Fraction(a, b), tuple(arcs.arc(i) for i in best))


def longest_paths(
    arcs: Arcs, b: int, a: int, start: Numbers, deadline: float | None = None
) -> Numbers:
    """The largest sum along a path from each node, where an arc weighs b x length - a x height, and
    a path may be empty and adds the `start` of its last node.

    No cycle may have a positive weight. Raises OutOfTime.
    """
    policy = CyclePolicy(arcs.nodes, arcs.source, arcs.destination)
    policy.base = start
    longest, highest = policy.most(abs(arcs.length)), policy.most(abs(arcs.height))
    weight = _weights(arcs, b, a, longest * b + highest * a + int(start.max()))
    while True:
        if deadline is not None and monotonic() > deadline:
            raise OutOfTime
        values = policy.values(weight)
        assert values is not None, "a cycle of positive weight"
        if not policy.improve(weight, values):
            return values


def _weights(arcs: Arcs, b: int, a: int, most: int) -> Numbers:
    """b x length - a x height of every arc; no sum of these along a path is above `most`."""
    length, height = arcs.length, arcs.height
    if most >= WORD:
        length, height = length.astype(object), height.astype(object)
    weight: Numbers = b * length - a * height
    return weight


def _runs(column: Indices) -> tuple[Indices, Indices]:
    """Where each run of equal values begins, and its length."""
    changes = np.flatnonzero(column[1:] != column[:-1]) + 1
    bounds = np.concatenate(([0], changes, [len(column)]))
    return bounds[:-1], bounds[1:] - bounds[:-1]


class CyclePolicy:
    """An arc for every node, or none: then paths end there, with the node's `base`."""

    def __init__(self, nodes: int, source: Indices, destination: Indices) -> None:
        self.nodes, self.source, self.destination = nodes, source, destination
        self.base: Numbers = np.zeros(nodes, dtype=np.int64)
        self._choice = np.full(nodes, -1, dtype=np.intp)
        self._first, self._count = _runs(source)
        self._at = source[self._first]
        self._left: Indices = self._choice[:0]

    def most(self, weight: Numbers) -> int:
        """A bound for the sum of weights >= 0 along a path."""
        return sum(np.maximum.reduceat(weight, self._first).tolist()) if len(weight) else 0

    def choose(self, *columns: Numbers) -> None:
        """The arc that is largest in the first column, among equals in the next."""
        there = np.arange(len(self.source))
        for column in columns:
            first, count = _runs(self.source[there])
            values = column[there]
            there = there[values == np.maximum.reduceat(values, first).repeat(count)]
        self._choice[self.source[there[::-1]]] = there[::-1]

    def values(self, weight: Numbers) -> Numbers | None:
        """The sum of weights from each node to the end of its path, and the base there; None if
        some end nowhere."""
        ends = self._choice < 0
        jump = np.where(ends, np.arange(self.nodes), self.destination[self._choice])
        total = weight[self._choice]
        total[ends] = 0
        active = np.flatnonzero(~ends[jump])
        hops = 1
        while len(active):
            if hops > self.nodes:
                self._left = np.unique(jump[active])
                return None
            via = jump[active]
            total[active] += total[via]
            jump[active] = via = jump[via]
            active = active[~ends[via]]
            hops *= 2
        return total + self.base[jump]

    def cut(self) -> list[list[int]]:
        """The cycles of the policy, each as its arcs; paths end now at one node of each."""
        following = dict(zip(self._left.tolist(), self._choice[self._left].tolist(), strict=True))
        cycles = []
        while following:
            start = next(iter(following))
            arc = following.pop(start)
            cycle = [arc]
            at = int(self.destination[arc])
            while at != start:
                arc = following.pop(at)
                cycle.append(arc)
                at = int(self.destination[arc])
            cycles.append(cycle)
            self._choice[start] = -1
        return cycles

    def improve(self, weight: Numbers, values: Numbers) -> bool:
        """Take the best arc wherever one leads further than the policy; False when there is
        none."""
        if not len(weight):
            return False
        reached = weight + values[self.destination]
        top = np.maximum.reduceat(reached, self._first)
        better = top > values[self._at]
        if not better.any():
            return False
        wanted = np.where(better, top, top + 1).repeat(self._count)
        there = (reached == wanted).nonzero()[0][::-1]
        self._choice[self.source[there]] = there
        return True
