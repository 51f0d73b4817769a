"""The optimal partition of one network into stages, with a processor for each stage: enumeration
with bounds.

In: times (or energies) of layers per processor, possible cuts, and the cost of each cut. Out: the
optimal partition for throughput, latency or energy. This generalizes Algorithm 1 of the paper on
pipelining with TVM on a Jetson TX2 (IEEE Access 11, 2023: two stages, one processor each) to k
stages in any order of processors. A processor with several stages is charged the sum of their
times; the paper's equation (3) charges only the largest of them.

A tensor that skips a stage is charged at every cut it crosses, as if each stage handed it on. The
program sends it directly to its reader, so that the cost is an upper bound in that case. Several
processors that share the frames of a stage count as one, with its time divided by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb, inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

Objective = Literal["throughput", "latency", "energy"]

#: The maximum number of stages by default: no board has been faster with more.
MOST_STAGES = 4


@dataclass(frozen=True, slots=True)
class StagePlace:
    """A processor, or several of one type that share frames. `busy` is its load by other tasks, in
    ns per frame."""

    processors: tuple[str, ...]
    type: str
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """One network on one platform.

    `layers[type][i]` is the time of layer i in ns (or its energy in nJ), infinite where it cannot
    run there; `overhead[type]` is the cost of a stage beyond its layers. `cuts` are (number of
    layers before the cut, bytes across). `transfer(from type, to type, bytes)` is the cost of a cut
    for the receiving stage.
    """

    layers: Mapping[str, Sequence[float]]
    overhead: Mapping[str, float]
    cuts: tuple[tuple[int, int], ...]
    transfer: Callable[[str, str, int], float]

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(next(iter(self.layers.values())))


@dataclass(frozen=True, slots=True)
class Partition:
    """Stage s has the layers `ends[s - 1]` to `ends[s] - 1` on `places[s]` and takes
    `stage_cost[s]`.

    `cost` is the load of the busiest processor (throughput) or the sum over stages (latency,
    energy).
    """

    ends: tuple[int, ...]
    places: tuple[StagePlace, ...]
    stage_cost: tuple[float, ...]
    cost: float

    def load_beside(self, load: Mapping[str, float]) -> dict[str, float]:
        """The load of each processor without that of these stages."""
        own: dict[str, float] = {}
        for place, cost in zip(self.places, self.stage_cost, strict=True):
            for p in place.processors:
                own[p] = own.get(p, 0.0) + cost / len(place.processors)
        return {p: max(0.0, total - own.get(p, 0.0)) for p, total in load.items()}


def configurations(layers: int, devices: int, stages: int) -> int:
    """The number of ways to map s stages of a chain to n_h devices: C(N - 1, s - 1) n_h^s (equation
    2 of the paper)."""
    return comb(layers - 1, stages - 1) * int(devices**stages)


def paper_stops(costs: Sequence[float]) -> int:
    """The number of stages at which the paper's search ends: the first s for which s + 1 stages are
    no better.

    `costs[s - 1]` is the optimum of s stages. The rule can miss the optimum: if the first and the
    last layers run on A only, and those between are fast on B, three stages gain and two do not.
    """
    for s in range(len(costs) - 1):
        if costs[s + 1] >= costs[s]:
            return s + 1
    return len(costs)


def best_partitions(
    costs: Costs, places: Sequence[StagePlace], objective: Objective, most_stages: int = MOST_STAGES
) -> tuple[Partition, ...]:
    """The optimal partition for each number of stages, from one on, if there is one.

    Adjacent stages are on different places. Time is polynomial for a given number of
    stages: O(places^k cuts^(k-2) log cuts) for throughput, and O(k places^2 cuts^2) for the sums.
    """
    best = []
    for stages in range(1, min(most_stages, len(costs.cuts) + 1) + 1):
        partition = best_partition(costs, places, objective, stages)
        if partition is not None:
            best.append(partition)
    return tuple(best)


def best_partition(
    costs: Costs, places: Sequence[StagePlace], objective: Objective, stages: int
) -> Partition | None:
    """The optimal partition into exactly so many stages, None if there is none."""
    if objective != "throughput":
        return _Solver(costs, places).total(stages)
    return _Solver(costs, _least_busy(places, stages)).bottleneck(stages)


def _least_busy(places: Sequence[StagePlace], count: int) -> list[StagePlace]:
    """The `count` least busy places of each type and size, in the order given: busier ones cannot
    be better."""
    alike: dict[tuple[str, int], list[int]] = {}
    for k, place in enumerate(places):
        alike.setdefault(_size(place), []).append(k)
    chosen: list[int] = []
    for numbers in alike.values():
        chosen += sorted(numbers, key=lambda k: places[k].busy)[:count]
    return [places[k] for k in sorted(chosen)]


def _size(place: StagePlace) -> tuple[str, int]:
    return place.type, len(place.processors)


def evaluate(
    costs: Costs, ends: Sequence[int], places: Sequence[StagePlace], objective: Objective
) -> Partition:
    """The cost of a given partition: the one evaluator of this module, and of its referees."""
    bytes_at = dict(costs.cuts)
    stage_cost = []
    for s, place in enumerate(places):
        first = ends[s - 1] if s else 0
        cost = sum(costs.layers[place.type][first : ends[s]]) + costs.overhead[place.type]
        if s and places[s - 1] != place:
            cost += costs.transfer(places[s - 1].type, place.type, bytes_at[first])
        stage_cost.append(cost)
    if objective == "throughput":
        load = {p: p.busy for p in places}
        for place, cost in zip(places, stage_cost, strict=True):
            load[place] += cost / len(place.processors)
        total = max(load.values())
    else:
        total = sum(stage_cost)
    return Partition(tuple(ends), tuple(places), tuple(stage_cost), total)


@dataclass(frozen=True, slots=True)
class _Solution:
    """The cuts for an order of places: `load` is that of the busiest place."""

    load: float
    cuts: tuple[int, ...]


#: For each place and position: the cut where the stage that ends there begins, and the place of the
#: stage before it.
_Origins = list[list[tuple[int, int]]]


class _Solver:
    """Prefix sums of one network. Position c is cut number c, 0 the start and the last one the
    end."""

    def __init__(self, costs: Costs, places: Sequence[StagePlace]) -> None:
        import numpy

        self._np = numpy
        self._costs, self._places = costs, list(places)
        self._at = numpy.array([0, *(after for after, _ in costs.cuts), costs.count])
        self._bytes = [0, *(b for _, b in costs.cuts), 0]
        self._end = len(self._at) - 1
        self._sums = []
        self._cross: dict[tuple[str, str], np.ndarray] = {}
        for place in self._places:
            times = numpy.array(costs.layers[place.type], dtype=float)
            # Sums with an infinite term cannot be subtracted: layers that cannot run are counted.
            able = numpy.isfinite(times)
            sums = numpy.concatenate([[0.0], numpy.cumsum(numpy.where(able, times, 0.0))])[self._at]
            barred = numpy.concatenate([[0], numpy.cumsum(~able)])[self._at]
            self._sums.append((sums, barred))

    def _stage(self, place: int, first: np.ndarray | int, last: np.ndarray | int) -> np.ndarray:
        """Cost of a stage between positions without its transfer, infinite where it cannot run."""
        sums, barred = self._sums[place]
        cost = sums[last] - sums[first] + self._costs.overhead[self._places[place].type]
        return self._np.where(barred[last] == barred[first], cost, inf)

    def _transfer(self, source: int, target: int) -> np.ndarray:
        """Cost of every cut between two places."""
        key = self._places[source].type, self._places[target].type
        if key not in self._cross:
            self._cross[key] = self._np.array([self._costs.transfer(*key, b) for b in self._bytes])
        return self._cross[key]

    def _partition(
        self, cuts: Sequence[int], order: Sequence[int], objective: Objective
    ) -> Partition:
        ends = [int(self._at[c]) for c in cuts] + [self._costs.count]
        return evaluate(self._costs, ends, [self._places[p] for p in order], objective)

    # -- throughput --------------------------------------------------------------------------------
    def bottleneck(self, stages: int) -> Partition | None:
        """The least load of the busiest place, over all orders of places."""
        solve = self._whole if stages == 1 else self._ordered
        limit = inf
        best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        for order in self._orders(stages):
            solution = solve(order, limit)
            if solution is not None:
                limit = solution.load
                best = solution.cuts, order
        if best is None:
            return None
        cuts, order = best
        return self._partition(cuts, order, "throughput")

    def _orders(self, stages: int) -> Iterator[tuple[int, ...]]:
        """All orders of so many places in which no place follows itself. Equal places enter in the
        order of their numbers, as exchanging them changes nothing.

        A place that shares a processor with another one of the order is left out: the loads of both
        would have to be added.
        """
        places = self._places
        alike = [(p.type, p.busy, len(p.processors)) for p in places]
        equal_before = [[q for q in range(p) if alike[q] == alike[p]] for p in range(len(places))]
        sharing: list[set[int]] = [set() for _ in places]
        for p, q in permutations(range(len(places)), 2):
            if set(places[p].processors) & set(places[q].processors):
                sharing[p].add(q)

        def may_follow(order: tuple[int, ...], p: int) -> bool:
            if order and order[-1] == p:
                return False
            if p not in order and any(q not in order for q in equal_before[p]):
                return False
            return sharing[p].isdisjoint(order)

        def grow(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(order) == stages:
                yield order
                return
            for p in range(len(places)):
                if may_follow(order, p):
                    yield from grow((*order, p))

        return grow(())

    def _whole(self, order: tuple[int, ...], limit: float) -> _Solution | None:
        """The network in one piece on the only place of an order."""
        place = self._places[order[0]]
        load = float(self._stage(order[0], 0, self._end)) / len(place.processors) + place.busy
        if load >= limit:
            return None
        return _Solution(load, ())

    def _ordered(self, order: tuple[int, ...], limit: float) -> _Solution | None:
        """The best cuts for a fixed order, None if their load is not below the limit.

        All positions of the cuts but the last one are enumerated, with a bound for the last one.
        With a later last cut c, the load of the stage before it grows and that of the stage behind
        it shrinks: without transfers the best c is where they meet, which bisection finds for all
        other cuts at once. That is a bound; all c are evaluated only where it is below the best
        load so far.
        """
        numpy = self._np
        inner = len(order) - 2
        prefixes = self._prefixes(order, inner)
        loads = {p: numpy.full(len(prefixes), self._places[p].busy) for p in dict.fromkeys(order)}
        start = numpy.zeros(len(prefixes), dtype=int)
        for s in range(inner):
            cost = self._stage(order[s], start, prefixes[:, s])
            if s:
                cost = cost + self._transfer(order[s - 1], order[s])[start]
            loads[order[s]] = loads[order[s]] + cost / len(self._places[order[s]].processors)
            start = prefixes[:, s]
        bound = self._bound(order, loads, start)
        best: _Solution | None = None
        for k in numpy.argsort(bound, kind="stable"):
            if bound[k] >= limit:
                break
            load_before = {p: float(load[k]) for p, load in loads.items()}
            reached, last = self._last_cut(order, load_before, int(start[k]))
            if reached < limit:
                limit = reached
                best = _Solution(reached, (*(int(c) for c in prefixes[k]), last))
        return best

    def _prefixes(self, order: tuple[int, ...], inner: int) -> np.ndarray:
        """All positions of the first cuts, in order; each leaves room for the last one."""
        numpy = self._np
        prefixes: np.ndarray
        if inner == 0:
            prefixes = numpy.zeros((1, 0), dtype=int)
        elif inner == 1:
            prefixes = numpy.arange(1, self._end - 1)[:, None]
        elif inner == 2:
            first, second = numpy.triu_indices(self._end - 2, 1)
            prefixes = numpy.stack([first + 1, second + 1], axis=1)
        else:
            tuples = list(combinations(range(1, self._end - 1), inner))
            prefixes = numpy.array(tuples, dtype=int).reshape(-1, inner)
        return prefixes

    def _bound(
        self, order: tuple[int, ...], loads: Mapping[int, np.ndarray], start: np.ndarray
    ) -> np.ndarray:
        numpy = self._np
        a, b = order[-2:]
        (sum_a, barred_a), (sum_b, barred_b) = self._sums[a], self._sums[b]
        na, nb = len(self._places[a].processors), len(self._places[b].processors)
        entry = self._transfer(order[-3], a)[start] if len(order) > 2 else numpy.zeros(len(start))
        over = self._transfer(a, b)[1:-1].min()
        base_a = loads[a] + (self._costs.overhead[self._places[a].type] + entry - sum_a[start]) / na
        base_b = loads[b] + (self._costs.overhead[self._places[b].type] + over + sum_b[-1]) / nb
        # Where the last cut may be: a has to run all before it, b all behind it.
        least = numpy.maximum(start + 1, numpy.searchsorted(barred_b, barred_b[-1]))
        behind = numpy.searchsorted(barred_a, barred_a[start], side="right")
        most = numpy.minimum(self._end, behind) - 1
        with numpy.errstate(invalid="ignore"):  # infinite on both sides: the bound is infinite too
            meet = numpy.searchsorted(sum_a / na + sum_b / nb, base_b - base_a)
        bound: np.ndarray = numpy.full(len(start), inf)
        for nearby in (meet - 1, meet):
            cut = numpy.clip(nearby, least, most)
            busier = numpy.maximum(base_a + sum_a[cut] / na, base_b - sum_b[cut] / nb)
            bound = numpy.minimum(bound, busier)
        bound = numpy.where(least <= most, bound, inf)
        for p, load in loads.items():
            if p not in (a, b):
                bound = numpy.maximum(bound, load)
        return bound

    def _last_cut(
        self, order: tuple[int, ...], loads: Mapping[int, float], start: int
    ) -> tuple[float, int]:
        numpy = self._np
        a, b = order[-2:]
        c = numpy.arange(start + 1, self._end)
        cost_a = self._stage(a, start, c)
        if len(order) > 2:
            cost_a = cost_a + self._transfer(order[-3], a)[start]
        cost_b = self._stage(b, c, self._end) + self._transfer(a, b)[c]
        worst = numpy.maximum(
            loads[a] + cost_a / len(self._places[a].processors),
            loads[b] + cost_b / len(self._places[b].processors),
        )
        at = int(numpy.argmin(worst))
        others = [load for p, load in loads.items() if p not in (a, b)]
        return max([float(worst[at]), *others]), int(c[at])

    # -- sums --------------------------------------------------------------------------------------
    def total(self, stages: int) -> Partition | None:
        """The least sum over exactly so many stages: a shortest path over (cut, place)."""
        numpy = self._np
        positions = numpy.arange(self._end + 1)
        sums = [
            numpy.where(positions > 0, self._stage(p, 0, positions), inf)
            for p in range(len(self._places))
        ]
        origins: list[_Origins] = []
        for _ in range(1, stages):
            sums, before = self._with_another_stage(sums)
            origins.append(before)
        place = min(range(len(self._places)), key=lambda p: float(sums[p][self._end]))
        if not numpy.isfinite(sums[place][self._end]):
            return None
        cuts, order, position = [], [place], self._end
        for before in reversed(origins):
            position, place = before[place][position]
            cuts.append(position)
            order.append(place)
        return self._partition(cuts[::-1], order[::-1], "latency")

    def _with_another_stage(self, sums: list[np.ndarray]) -> tuple[list[np.ndarray], _Origins]:
        """The least sum of stages that end at each position, by the place of the last one, from
        the sums for one stage less; and where that stage begins."""
        numpy = self._np
        positions = numpy.arange(self._end + 1)
        least = [numpy.full(self._end + 1, inf) for _ in self._places]
        origins: _Origins = [[(0, 0)] * (self._end + 1) for _ in self._places]
        for p, q in permutations(range(len(self._places)), 2):
            entered = sums[q] + self._transfer(q, p)
            for last in range(2, self._end + 1):
                reached = entered[1:last] + self._stage(p, positions[1:last], last)
                at = int(numpy.argmin(reached))
                if reached[at] < least[p][last]:
                    least[p][last] = reached[at]
                    origins[p][last] = at + 1, q
        return least, origins
