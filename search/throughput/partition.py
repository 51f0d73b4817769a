"""The best way to cut one network into stages and to give each stage a processor, proved by
enumeration with bounds.

In: times (or energies) of layers per processor, where cuts may be, and what a cut costs. Out: the
optimal partition for throughput, latency or energy. This generalizes Algorithm 1 of the paper on
pipelining with TVM on a Jetson TX2 (IEEE Access 11, 2023: two stages, one processor each) to k
stages in any order of processors, where a processor that has several stages counts their sum: the
paper's equation (3) takes the largest stage and would call the others free.

A tensor that skips a stage is charged at every cut it crosses, as if it were handed on; in programs
it goes straight to its reader, so that the cost is a bound then (`Partition.bound`). Groups of
processors that share the frames of a stage are one processor here, whose time is divided by their
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

Objective = Literal["throughput", "latency", "energy"]

#: More stages than that are not looked for unless asked: no board had use for them.
MOST_STAGES = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A processor, or several of one kind that share frames. `busy` is what other tasks cost it per
    frame (ns)."""

    processors: tuple[str, ...]
    kind: str
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """One network on one platform.

    `layers[kind][i]` is the time of layer i in ns (or its energy in nJ), infinite where it cannot
    run there; `overhead[kind]` what a stage costs beyond its layers. `cuts` are (number of layers
    in front, bytes across). `transfer(from kind, to kind, bytes)` is what the receiving stage pays
    for a cut.
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
    places: tuple[Place, ...]
    stage_cost: tuple[float, ...]
    cost: float


def configurations(layers: int, devices: int, stages: int) -> int:
    """Ways to give s stages of a chain to n_h devices: C(N - 1, s - 1) n_h^s (the paper's equation
    2)."""
    return comb(layers - 1, stages - 1) * int(devices**stages)


def paper_stops(costs: Sequence[float]) -> int:
    """The number of stages at which the paper ends: the first s for which s + 1 stages are no
    better.

    `costs[s - 1]` is the optimum of s stages. The rule can miss the best: where the first and last
    layers run on A only, and those between are fast on B, two stages gain nothing and three do.
    """
    for s in range(len(costs) - 1):
        if costs[s + 1] >= costs[s]:
            return s + 1
    return len(costs)


def best_partitions(
    costs: Costs, places: Sequence[Place], objective: Objective, most_stages: int = MOST_STAGES
) -> tuple[Partition, ...]:
    """The optimal partition for each number of stages, from one on; the numbers that are impossible
    are left out.

    Stages next to each other are on different places. Time is polynomial for a given number of
    stages: O(places^k cuts^(k-2) log cuts) for throughput, and O(k places^2 cuts^2) for the sums.
    """
    found = (
        best_partition(costs, places, objective, s)
        for s in range(1, min(most_stages, len(costs.cuts) + 1) + 1)
    )
    return tuple(p for p in found if p is not None)


def best_partition(
    costs: Costs, places: Sequence[Place], objective: Objective, stages: int
) -> Partition | None:
    """The optimal partition into exactly so many stages, None if there is none."""
    if objective != "throughput":
        return _Solver(costs, places).total(stages)
    return _Solver(costs, _least_busy(places, stages)).bottleneck(stages)


def _least_busy(places: Sequence[Place], count: int) -> list[Place]:
    """At most so many places of one kind and size: instead of a busier one, a less busy one would
    do as well."""
    chosen = []
    for k, place in enumerate(places):
        alike = [(p.busy, i) for i, p in enumerate(places) if _size(p) == _size(place)]
        if (place.busy, k) in sorted(alike)[:count]:
            chosen.append(place)
    return chosen


def _size(place: Place) -> tuple[str, int]:
    return place.kind, len(place.processors)


def evaluate(
    costs: Costs, ends: Sequence[int], places: Sequence[Place], objective: Objective
) -> Partition:
    """What a given partition costs: the one evaluator of this module, and of its referees."""
    bytes_at = dict(costs.cuts)
    stage_cost = []
    for s, place in enumerate(places):
        first = ends[s - 1] if s else 0
        cost = sum(costs.layers[place.kind][first : ends[s]]) + costs.overhead[place.kind]
        if s and places[s - 1] != place:
            cost += costs.transfer(places[s - 1].kind, place.kind, bytes_at[first])
        stage_cost.append(cost)
    if objective == "throughput":
        load = {p: p.busy for p in places}
        for place, cost in zip(places, stage_cost, strict=True):
            load[place] += cost / len(place.processors)
        total = max(load.values())
    else:
        total = sum(stage_cost)
    return Partition(tuple(ends), tuple(places), tuple(stage_cost), total)


class _Solver:
    """Prefix sums of one network. Position c is cut number c, 0 the start and the last one the
    end."""

    def __init__(self, costs: Costs, places: Sequence[Place]) -> None:
        import numpy

        self._np = numpy
        self._costs, self._places = costs, list(places)
        self._at = numpy.array([0, *(after for after, _ in costs.cuts), costs.count])
        self._bytes = [0, *(b for _, b in costs.cuts), 0]
        self._end = len(self._at) - 1
        self._sums = []
        self._cross: dict[tuple[str, str], np.ndarray] = {}
        for place in self._places:
            times = numpy.array(costs.layers[place.kind], dtype=float)
            # Sums with an infinite term cannot be subtracted: what cannot run is counted apart.
            able = numpy.isfinite(times)
            sums = numpy.concatenate([[0.0], numpy.cumsum(numpy.where(able, times, 0.0))])[self._at]
            barred = numpy.concatenate([[0], numpy.cumsum(~able)])[self._at]
            self._sums.append((sums, barred))

    def _stage(self, place: int, first: np.ndarray | int, last: np.ndarray | int) -> np.ndarray:
        """Cost of a stage between positions, infinite where it cannot run; without what comes over
        the cut."""
        sums, barred = self._sums[place]
        cost = sums[last] - sums[first] + self._costs.overhead[self._places[place].kind]
        return self._np.where(barred[last] == barred[first], cost, inf)

    def _transfer(self, source: int, target: int) -> np.ndarray:
        """Cost of every cut between two places."""
        key = self._places[source].kind, self._places[target].kind
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
        found: tuple[float, tuple[int, ...], tuple[int, ...]] = (inf, (), ())
        for order in self._orders(stages):
            answer = (
                self._one(order, (0.0,), found[0])
                if stages == 1
                else self._ordered(order, found[0])
            )
            if answer is not None:
                found = (answer[0], answer[1], order)
        if not found[2]:
            return None
        return self._partition(found[1], found[2], "throughput")

    def _orders(self, stages: int) -> Iterator[tuple[int, ...]]:
        """Orders without repetition side by side; equal places enter in the order of their numbers.

        Groups that share a processor with another place of the order are left out: their loads add
        up elsewhere.
        """
        alike = [(p.kind, p.busy, len(p.processors)) for p in self._places]

        def grow(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if len(order) == stages:
                yield order
                return
            for p, place in enumerate(self._places):
                if order and order[-1] == p:
                    continue
                if (
                    any(q not in order and alike[q] == alike[p] for q in range(p))
                    and p not in order
                ):
                    continue
                if any(
                    q != p and set(self._places[q].processors) & set(place.processors)
                    for q in order
                ):
                    continue
                yield from grow((*order, p))

        return grow(())

    def _one(
        self, order: tuple[int, ...], busy: Sequence[float], limit: float
    ) -> tuple[float, tuple[int, ...]] | None:
        place = self._places[order[0]]
        cost = float(self._stage(order[0], 0, self._end)) / len(place.processors) + place.busy
        return (cost, ()) if cost < limit else None

    def _ordered(
        self, order: tuple[int, ...], limit: float
    ) -> tuple[float, tuple[int, ...]] | None:
        """Cuts for a fixed order: all positions of the cuts but the last, with a bound for the last
        one.

        For the last cut c, the load of the stage before grows with c and that of the stage behind
        shrinks: without transfers the best c is where they meet, which is found by bisection for
        all other cuts at once. That is a bound; only where it is below the best so far are all c
        looked at.
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
        found = None
        for k in numpy.argsort(bound, kind="stable"):
            if bound[k] >= limit:
                break
            reached, last = self._last_cut(
                order, {p: float(x[k]) for p, x in loads.items()}, int(start[k])
            )
            if reached < limit:
                limit, found = reached, (reached, (*(int(c) for c in prefixes[k]), last))
        return found

    def _prefixes(self, order: tuple[int, ...], inner: int) -> np.ndarray:
        """All positions of the first cuts, in order; room is left for the last one."""
        numpy = self._np
        found: np.ndarray
        if inner == 0:
            found = numpy.zeros((1, 0), dtype=int)
        elif inner == 1:
            found = numpy.arange(1, self._end - 1)[:, None]
        elif inner == 2:
            first, second = numpy.triu_indices(self._end - 2, 1)
            found = numpy.stack([first + 1, second + 1], axis=1)
        else:
            found = numpy.array(
                list(combinations(range(1, self._end - 1), inner)), dtype=int
            ).reshape(-1, inner)
        return found

    def _bound(
        self, order: tuple[int, ...], loads: Mapping[int, np.ndarray], start: np.ndarray
    ) -> np.ndarray:
        numpy = self._np
        a, b = order[-2:]
        (sum_a, barred_a), (sum_b, barred_b) = self._sums[a], self._sums[b]
        na, nb = len(self._places[a].processors), len(self._places[b].processors)
        entry = self._transfer(order[-3], a)[start] if len(order) > 2 else numpy.zeros(len(start))
        over = self._transfer(a, b)[1:-1].min()
        base_a = loads[a] + (self._costs.overhead[self._places[a].kind] + entry - sum_a[start]) / na
        base_b = loads[b] + (self._costs.overhead[self._places[b].kind] + over + sum_b[-1]) / nb
        # Where the last cut may be: a has to run all before it, b all behind it.
        least = numpy.maximum(start + 1, numpy.searchsorted(barred_b, barred_b[-1]))
        most = (
            numpy.minimum(self._end, numpy.searchsorted(barred_a, barred_a[start], side="right"))
            - 1
        )
        with numpy.errstate(invalid="ignore"):  # infinite on both sides: the bound is infinite too
            meet = numpy.searchsorted(sum_a / na + sum_b / nb, base_b - base_a)
        bound: np.ndarray = numpy.full(len(start), inf)
        for c in (meet - 1, meet):
            c = numpy.clip(c, least, most)
            bound = numpy.minimum(
                bound, numpy.maximum(base_a + sum_a[c] / na, base_b - sum_b[c] / nb)
            )
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
        return max(float(worst[at]), *others) if others else float(worst[at]), int(c[at])

    # -- sums --------------------------------------------------------------------------------------
    def total(self, stages: int) -> Partition | None:
        """The least sum over exactly so many stages: a shortest path over (cut, place)."""
        numpy = self._np
        positions = numpy.arange(self._end + 1)
        cost = [
            numpy.where(positions > 0, self._stage(p, 0, positions), inf)
            for p in range(len(self._places))
        ]
        origin: list[list[list[tuple[int, int]]]] = []
        for _ in range(1, stages):
            arrived = [numpy.full(self._end + 1, inf) for _ in self._places]
            comes: list[list[tuple[int, int]]] = [[(0, 0)] * (self._end + 1) for _ in self._places]
            for p in range(len(self._places)):
                for q in range(len(self._places)):
                    if p == q:
                        continue
                    entered = cost[q] + self._transfer(q, p)
                    for last in range(2, self._end + 1):
                        ways = entered[1:last] + self._stage(p, positions[1:last], last)
                        at = int(numpy.argmin(ways))
                        if ways[at] < arrived[p][last]:
                            arrived[p][last], comes[p][last] = ways[at], (at + 1, q)
            cost = arrived
            origin.append(comes)
        place = min(range(len(self._places)), key=lambda p: float(cost[p][self._end]))
        if not numpy.isfinite(cost[place][self._end]):
            return None
        cuts, order, position = [], [place], self._end
        for comes in reversed(origin):
            position, place = comes[place][position]
            cuts.append(position)
            order.append(place)
        return self._partition(cuts[::-1], order[::-1], "latency")
