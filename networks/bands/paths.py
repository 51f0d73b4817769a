"""Ways to part a network into units that go in bands, as shortest paths over the places between its
groups of layers.

In: a `BandNet`, and what bands cost. Out: `Proposal`s with estimates of their bytes and of their
time. A part of the network up to some place goes in bands, the rest runs whole. For rows of some
part of the height, a limit on what a unit may need and a price of time against memory, the best
units up to any place are a shortest path to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product

from ...model.mapping import Bands
from ...model.profile import BandCosts
from .firings import BandSegment
from .inner import whole_inner_bytes
from .needs import Ending, FiringNeed, ending, needs
from .net import Band, BandNet
from .units import BandUnit, unit_of

#: Rows that are tried, and parts of the height.
ROWS, PARTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 64, 128), (2, 3, 4, 6, 9, 12)
#: In a plan: more make a long table, and save little.
MOST_FIRINGS = 600
#: Places where bands may end: more are alike.
MOST_ENDS = 24
#: Groups in a unit.
LONGEST = 24
#: Limits on the need of a unit, as shares of the whole network's block; prices of a ns in bytes.
LIMITS = (2, 4, 8, 16, 32, 64)
PRICES = (0.0, 1e-3, 1e-2, 1e-1, 1.0)

Path = tuple[int, ...]
#: Rows of the last tensor, and the places between groups where units begin and end.
Proposal = tuple[int, Path]


@dataclass(frozen=True, slots=True)
class UnitCost:
    """Of the unit that begins with group `first`: bytes that it reads, bytes that it needs besides,
    ns that all its firings take beside the network's own time, and their number.
    """

    first: int
    reads: int
    needs: int
    ns: float
    firings: int


@dataclass
class _Table:
    """For one share of the height: per place the units that end there, and by limit and price the
    best last one."""

    units: list[list[UnitCost]] = field(default_factory=lambda: [[]])
    best: dict[tuple[int, float], list[tuple[float, UnitCost | None] | None]] = field(
        default_factory=dict
    )


class PathSearch:
    """`rate`: multiplications of the network in a ns; `block`: bytes that the whole network needs
    inside."""

    def __init__(self, net: BandNet, rate: float, costs: BandCosts, block: int) -> None:
        self.net, self.rate, self.costs, self.block = net, rate, costs, block
        #: Units that were looked at.
        self.looks = 0
        self._units: dict[Band, BandUnit] = {}
        self._endings: dict[int, Ending | None] = {}
        self._at: dict[tuple[int, int], list[UnitCost]] = {}
        self._tables: dict[Fraction, _Table] = {}

    def unit(self, first: int, end: int) -> BandUnit:
        """The unit of some groups."""
        return unit_of(self.net, first, end, self._units)

    def ends(self) -> list[int]:
        """Numbers of groups after which little crosses; where there are many, those with the least
        in each stretch."""
        ends = list(self._ends())
        if not ends:
            return []
        stretch = -(-len(ends) // MOST_ENDS)
        parts = [ends[k : k + stretch] for k in range(0, len(ends), stretch)]
        return [min(part, key=self._crossing) for part in parts]

    def _crossing(self, end: int) -> int:
        """Bytes that cross the border in front of a group."""
        return sum(map(self.net.bytes, self.net.crossing(end - 1)))

    def _ends(self) -> Iterator[int]:
        """The numbers of groups after which less crosses than before and behind."""
        net = self.net
        count = next((k for k in range(len(net.groups)) if net.why_not(k)), len(net.groups))
        sizes = [self._crossing(k + 1) for k in range(count)]
        for k, size in enumerate(sizes):
            makes = net.groups[k].makes
            least_near = min(sizes[max(k - 1, 0) : k + 2])
            if size > least_near and k + 1 < len(net.groups):
                continue
            if len(makes) == 1 and net.height(makes[0]) > 1 and self._is_named(k):
                yield k + 1

    def _is_named(self, group: int) -> bool:
        """Can a text say that bands end behind a group?"""
        net = self.net
        if group == len(net.groups) - 1 or net.names is None:
            return True
        return net.names.issuperset(net.groups[group].makes)

    def bands(self, proposal: Proposal) -> Bands:
        """A proposal in words."""
        rows, path = proposal
        until = self.net.groups[path[-1] - 1].makes[0] if path[-1] < len(self.net.groups) else None
        return Bands(rows, until, tuple(self.unit(a, b).out for a, b in pairwise(path[:-1])))

    def segments(self, proposal: Proposal) -> tuple[BandSegment, ...]:
        """A proposal as segments."""
        rows, path = proposal
        first = BandSegment(tuple(self.unit(a, b) for a, b in pairwise(path)), rows)
        count = len(self.net.groups)
        if path[-1] == count:
            return (first,)
        return first, BandSegment((self.unit(path[-1], count),), None)

    def proposals(self, end: int, looks: int) -> dict[Proposal, tuple[float, float]]:
        """Rows and paths up to an end, with estimates of bytes and ns beside the network's own.

        After so many looks no more rows are tried.
        """
        until = self.looks + looks
        net = self.net
        height = net.height(net.groups[end - 1].makes[0])
        tail = self._tail(end)
        proposed: dict[Proposal, tuple[float, float]] = {}
        counts = sorted({*(r for r in ROWS if r < height), *(-(-height // n) for n in PARTS)})
        for rows in (*counts[::2], *counts[1::2]):  # if time is short, some of all sizes
            if self.looks >= until:
                break
            table = self._table(Fraction(rows, height), end)
            for limit, price in product(LIMITS, PRICES):
                costs = _shortest(table, self.block // limit, price, end)
                if costs is None:
                    continue
                path = *(c.first for c in costs), end
                if (rows, path) not in proposed and sum(c.firings for c in costs) <= MOST_FIRINGS:
                    lines, need = sum(c.reads for c in costs), max(c.needs for c in costs)
                    proposed[rows, path] = max(lines + need, tail), sum(c.ns for c in costs)
        return proposed

    def _tail(self, end: int) -> float:
        """What the whole rest needs."""
        net = self.net
        crossing = float(sum(map(net.bytes, net.crossing(end - 1))))
        if end == len(net.groups):
            return crossing
        return crossing + whole_inner_bytes(self.unit(end, len(net.groups)))[0]

    def _table(self, share: Fraction, end: int) -> _Table:
        """Of that share of the height, with all units up to an end that need no more than the
        largest limit."""
        table = self._tables.setdefault(share, _Table())
        while len(table.units) <= end:
            table.units.append(self._up_to(len(table.units), share))
        return table

    def _up_to(self, end: int, share: Fraction) -> list[UnitCost]:
        """The units that end at a place."""
        if end not in self._endings:
            self._endings[end] = ending(self.net, end)
        at = self._endings[end]
        if at is None:
            return []
        count = min(at.rows, max(1, -(-share.numerator * at.rows // share.denominator)))
        count = min(at.rows, -(-count // at.factor) * at.factor)
        if (end, count) not in self._at:
            self._at[end, count] = list(self._priced(at, count))
        return self._at[end, count]

    def _priced(self, at: Ending, count: int) -> Iterator[UnitCost]:
        """With what they cost, as long as they need no more than the largest limit: longer ones
        need more."""
        for need in needs(self.net, at, count, LONGEST, self._units):
            self.looks += 1
            if need.makes + need.inner > self.block // LIMITS[0]:
                return
            yield self._cost(at, count, need)

    def _cost(self, at: Ending, count: int, need: FiringNeed) -> UnitCost:
        price, firings = self.costs, at.rows / count
        again = need.macs - need.own_macs * count / at.rows
        moved = need.reads + need.makes + need.cut
        spent = (
            again * price.again / self.rate + price.byte_ns * moved + price.firing_ns
        ) * firings
        spent += price.weight_ns * need.weights * (firings - 1)
        return UnitCost(
            need.first, need.reads, need.makes + need.inner, spent, -(-at.rows // count)
        )


def _shortest(table: _Table, limit: int, price: float, end: int) -> list[UnitCost] | None:
    """The units up to the end whose line buffers and time cost least, none needing more than the
    limit."""
    best = table.best.setdefault((limit, price), [(0.0, None)])
    for units in table.units[len(best) : end + 1]:
        least: tuple[float, UnitCost | None] | None = None
        for cost in units:
            if cost.needs > limit:
                break
            before = best[cost.first]
            if before is not None:
                total = before[0] + cost.reads + price * cost.ns
                if least is None or total < least[0]:
                    least = total, cost
        best.append(least)
    path: list[UnitCost] = []
    at = end
    while at:
        place = best[at]
        if place is None:
            return None
        assert place[1] is not None
        path.append(place[1])
        at = place[1].first
    return path[::-1]
