"""Which bands a network should go in: a front of memory against time.

In: a `Net`, and what it takes as a whole, if that is known. Out: `Choice`s, from the least memory to the whole network.
The family: layers up to some tensor go in bands, the rest runs whole. For a number of rows, a limit on what a unit may
need and a price of time against memory, the best units are a shortest path over the places between groups of layers
(msf-CNN does so without line buffers). Path costs are estimates where tensors skip units; every plan that is offered is
computed exactly, firing by firing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from ...model.mapping import Bands
from ...model.profile import BandCosts
from .firings import HELD, CannotBand, Plan, Segment, plan, segments_of
from .inner import inner_bytes, whole_inner_bytes
from .net import Band, Net
from .units import Unit, cut_bytes, macs, unit_of

#: Rows that are tried, and parts of the height.
ROWS, PARTS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 64, 128), (2, 3, 4, 6, 9, 12)
#: In a plan: more make a long table, and save little.
MOST_FIRINGS = 600
#: Groups in a unit.
LONGEST = 24
#: Limits on the need of a unit, as shares of the whole network's block; prices of a ns in bytes.
LIMITS = (2, 4, 8, 16, 32, 64)
PRICES = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
#: Multiplications per ns where nobody has measured: of ONNX Runtime on one core of a server.
RATE = 40.0
#: What bands cost where nobody has measured it, as it was seen there. In plain models, each byte goes over a border in
#: another layout; in ONNX Runtime's own (the second one) it is copied.
USUAL = (BandCosts(False, 12_000.0, 0.45, 0.07), BandCosts(True, 12_000.0, 0.18, 0.07))


@dataclass(frozen=True, slots=True)
class Choice:
    """`weights`, `arena` and `block` in bytes; `time` in units of the whole network's, as predicted.

    The layers that make `dictated_by` need the `block`. `estimated`: nobody has measured here what bands cost.
    """

    bands: tuple[Bands, ...]
    weights: int
    arena: int
    block: int
    time: float
    firings: int
    dictated_by: str = ""
    estimated: bool = True

    @property
    def buffers(self) -> int:
        """For what lies between layers, and for firings."""
        return self.arena + self.block + HELD * self.firings

    @property
    def bytes(self) -> int:
        """Weights too: bands of several kinds have copies of theirs."""
        return self.weights + self.buffers


@dataclass(frozen=True, slots=True)
class Extra:
    """What a plan does beside the network: the share of its multiplications that is done again, bytes that are copied
    or go over borders, firings but the first, and bytes of weights that other firings read again.
    """

    work: float
    bytes: int
    firings: int
    weights: int

    def ns(self, costs: BandCosts, whole_ns: float) -> tuple[float, float, float, float]:
        """The time of each, of a network that takes `whole_ns` as a whole."""
        return (
            self.work * whole_ns * costs.again,
            self.bytes * costs.byte_ns,
            self.firings * costs.firing_ns,
            self.weights * costs.weight_ns,
        )


def extra_of(planned: Plan) -> Extra:
    """What a plan does beside the network."""
    net = planned.net
    banded = [(c, c.firing.unit, c.firing.band) for c in planned.calls if c.firing.band is not None]
    moved = planned.moved
    if not net.blocked:
        moved = sum(net.bytes(v.tensor, v.rows[1] - v.rows[0]) for c, _, _ in banded for v in (*c.reads, *c.makes))
    cut = sum(cut_bytes(unit, *band) for _, unit, band in banded)
    read = sum(s.weights for c in planned.calls for s in c.firing.unit.steps)
    once = sum(s.weights for segment in planned.segments for u in segment.units for s in u.steps)
    return Extra(planned.work, moved + cut, len(planned.calls) - 1, read - once)


def costs_for(net: Net, costs: BandCosts | None) -> BandCosts:
    """What bands of a network cost: what was measured of this form of it, else as usual."""
    return costs if costs is not None and costs.blocked == net.blocked else USUAL[net.blocked]


def choice_of(
    planned: Plan, bands: tuple[Bands, ...], whole_ns: float | None = None, costs: BandCosts | None = None
) -> Choice:
    """What a plan takes."""
    price = costs_for(planned.net, costs)
    whole = price.whole_ns or whole_ns or sum(s.macs for s in planned.net.steps) / RATE + price.firing_ns
    time = 1 + sum(extra_of(planned).ns(price, whole)) / whole
    return Choice(
        bands, planned.weights, planned.arena, planned.block, time, len(planned.calls), planned.dictated_by,
        not price.plans,
    )  # fmt: skip


def front(
    net: Net,
    whole_ns: float | None = None,
    seconds: float = 4.0,
    plain: Net | None = None,
    costs: BandCosts | None = None,
) -> tuple[Choice, ...]:
    """Choices of which none is better in memory and in time than another, from least memory to least time.

    Of ONNX Runtime's own graph those that the `plain` network can do as well: that is what runs where it cannot be.
    `costs` are those of bands of this network, if somebody has measured them.
    """
    end = time.process_time() + seconds
    search = _Search(net, whole_ns, costs_for(net, costs))
    whole = choice_of(plan(net, (Segment((search.unit(0, len(net.groups)),), None),)), (), whole_ns, costs)
    found = [whole]
    proposals: dict[tuple[int, Path], tuple[float, float]] = {}
    ends = list(search.ends())
    for left in range(len(ends), 0, -1):  # the longest first: they save most; each may take a third of the time
        now = time.process_time()
        proposals |= search.proposals(ends[left - 1], whole.block, now + (end - seconds / 2 - now) / min(left, 3))
    for rows, path in _best_first(proposals):
        if time.process_time() > end:
            break
        bands = (search.bands(path, rows),)
        if plain is not None and not _possible(plain, bands):
            continue
        found.append(choice_of(plan(net, search.segments(path, rows)), bands, whole_ns, costs))
    return pareto(found)


def _possible(net: Net, bands: tuple[Bands, ...]) -> bool:
    try:
        segments_of(net, bands)
    except CannotBand:
        return False
    return True


def _best_first(proposals: dict[tuple[int, Path], tuple[float, float]]) -> Iterator[tuple[int, Path]]:
    """Those that nothing beats by their estimates, then those that only these beat, and so on."""
    left = sorted(proposals, key=lambda p: proposals[p])
    while left:
        least, beaten = float("inf"), []
        for p in left:
            if proposals[p][1] < least:
                least = proposals[p][1]
                yield p
            else:
                beaten.append(p)
        left = beaten


def pareto(found: Sequence[Choice]) -> tuple[Choice, ...]:
    """Those that no other one beats."""
    kept: list[Choice] = []
    for c in sorted(found, key=lambda c: (c.bytes, c.time)):
        if not kept or c.time < kept[-1].time - 1e-4:
            kept.append(c)
    return tuple(kept)


Path = tuple[int, ...]
#: Of a unit: bytes that it reads, bytes that it needs besides, ns that all its firings cost more, and their number.
Cost = tuple[int, int, float, int]


class _Search:
    def __init__(self, net: Net, whole_ns: float | None, costs: BandCosts) -> None:
        self.net, self.costs = net, costs
        own, whole = sum(s.macs for s in net.steps), costs.whole_ns or whole_ns
        self.rate = own / whole if whole and own else RATE
        self._units: dict[Band, Unit] = {}
        self._costs: dict[tuple[int, int, int], Cost] = {}
        self._known: dict[Band, tuple[int, int]] = {}

    def unit(self, first: int, end: int) -> Unit:
        """The unit of some groups."""
        return unit_of(self.net, first, end, self._units)

    def ends(self) -> Iterator[int]:
        """Numbers of groups after which little crosses."""
        net = self.net
        count = next((k for k in range(len(net.groups)) if net.why_not(k)), len(net.groups))
        sizes = [sum(map(net.bytes, net.crossing(k))) for k in range(count)]
        for k, size in enumerate(sizes):
            last = k == len(net.groups) - 1
            low = (k == 0 or size <= sizes[k - 1]) and (k + 1 == len(sizes) or size <= sizes[k + 1])
            makes = net.groups[k].makes
            named = last or net.names is None or net.names.issuperset(makes)
            if (low or last) and named and len(makes) == 1 and net.height(makes[0]) > 1:
                yield k + 1

    def bands(self, path: Path, rows: int) -> Bands:
        """A path in words."""
        until = self.net.groups[path[-1] - 1].makes[0] if path[-1] < len(self.net.groups) else None
        return Bands(rows, until, tuple(self.unit(a, b).out for a, b in pairwise(path[:-1])))

    def segments(self, path: Path, rows: int) -> tuple[Segment, ...]:
        """A path as segments."""
        first = Segment(tuple(self.unit(a, b) for a, b in pairwise(path)), rows)
        count = len(self.net.groups)
        return (first,) if path[-1] == count else (first, Segment((self.unit(path[-1], count),), None))

    def proposals(self, end: int, block: int, until: float) -> dict[tuple[int, Path], tuple[float, float]]:
        """Rows and paths up to an end, with estimates of bytes and ns beside the network's own."""
        net = self.net
        height = net.height(net.groups[end - 1].makes[0])
        tail = self._tail(end)
        found: dict[tuple[int, Path], tuple[float, float]] = {}
        every = sorted({*(r for r in ROWS if r < height), *(-(-height // n) for n in PARTS)})
        for rows in (*every[::2], *every[1::2]):  # if time is short, some of all sizes
            if time.process_time() > until:
                break
            edges = self._edges(end, rows, height, block // LIMITS[0])
            for limit, price in product(LIMITS, PRICES):
                path = _shortest(edges, block // limit, price)
                if path is not None and (rows, path) not in found:
                    costs = [self._cost(a, b, rows, height) for a, b in pairwise(path)]
                    lines, need = sum(c[0] for c in costs if c), max(c[1] for c in costs if c)
                    if sum(c[3] for c in costs if c) <= MOST_FIRINGS:
                        found[rows, path] = max(lines + need, tail), sum(c[2] for c in costs if c)
        return found

    def _tail(self, end: int) -> float:
        """What the whole rest needs."""
        net = self.net
        crossing = float(sum(map(net.bytes, net.crossing(end - 1))))
        return crossing + (whole_inner_bytes(self.unit(end, len(net.groups)))[0] if end < len(net.groups) else 0)

    def _edges(self, end: int, rows: int, height: int, limit: int) -> list[list[tuple[int, Cost]]]:
        """For each place up to an end the units that end there and need no more than the limit: begin and cost."""
        found: list[list[tuple[int, Cost]]] = [[]]
        for j in range(1, end + 1):
            units = []
            for i in range(j - 1, max(0, j - LONGEST) - 1, -1):
                cost = self._cost(i, j, rows, height)
                if cost is not None and cost[1] > limit:
                    break  # one that begins earlier needs what this one needs, and more
                if cost is not None:
                    units.append((i, cost))
            found.append(units)
        return found

    def _cost(self, first: int, end: int, rows: int, height: int) -> Cost | None:
        """Of a unit; None: it is none."""
        known = self._known.get((first, end))
        if known is None:
            known = self._known[first, end] = self._look(first, end)
        own, factor = known
        if not own:
            return None
        count = min(own, max(1, -(-rows * own // height)))
        count = min(own, -(-count // factor) * factor)
        key = first, end, count
        if key not in self._costs:
            unit = self.unit(first, end)
            start = max(0, (own - count) // 2) // factor * factor
            band = start, start + count
            needed = unit.ranges(*band)
            reads = sum(self.net.bytes(t, needed[t][1] - needed[t][0]) for t in unit.reads if t in needed)
            made = self.net.bytes(unit.out, count)
            again = macs(unit, *band) - sum(s.macs for s in unit.steps) * count / own
            moved, price = reads + made + cut_bytes(unit, *band), self.costs
            firings = own / count
            spent = (again * price.again / self.rate + price.byte_ns * moved + price.firing_ns) * firings
            spent += price.weight_ns * sum(s.weights for s in unit.steps) * (firings - 1)
            self._costs[key] = reads, made + inner_bytes(unit, *band), spent, -(-own // count)
        return self._costs[key]

    def _look(self, first: int, end: int) -> tuple[int, int]:
        """Rows of what a unit makes, and what they are multiples of; no rows: it is no unit."""
        unit, net = self.unit(first, end), self.net
        if unit.why or len(unit.makes) != 1 or len(net.shapes[unit.out]) != 4:
            return 0, 1
        if net.names is not None and unit.out not in net.names and end < len(net.groups):
            return 0, 1
        return net.height(unit.out), unit.factor


def _shortest(edges: list[list[tuple[int, Cost]]], limit: int, price: float) -> Path | None:
    """The units up to the end whose line buffers and time cost least, none needing more than the limit."""
    best: list[tuple[float, int] | None] = [(0.0, 0)]
    for units in edges[1:]:
        found = None
        for i, cost in units:
            if cost[1] > limit:
                break
            before = best[i]
            if before is not None:
                total = before[0] + cost[0] + price * cost[2]
                if found is None or total < found[0]:
                    found = total, i
        best.append(found)
    at = best[-1]
    if at is None:
        return None
    path = [len(edges) - 1]
    while path[-1]:
        place = best[path[-1]]
        assert place is not None
        path.append(place[1])
    return tuple(reversed(path))
