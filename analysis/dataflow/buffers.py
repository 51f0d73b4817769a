"""Least channel capacities: to avoid deadlock, to keep a period, and everything between.

Space is claimed when a firing starts and freed when it ends. The search follows Stuijk, Geilen,
Basten, "Throughput- buffering trade-off exploration for cyclo-static and synchronous dataflow
graphs", 2008: best first by total size, and from a distribution only those channels grow that are
on the cycle which holds it back (a wait-for cycle after a deadlock, the critical cycle otherwise).
Nothing else can help, so the first distribution that is good enough is the smallest. Two things
beyond the paper: a deadlock shows by how much a channel has to grow at least, and the biconnected
components of the graph are solved one by one as far as deadlock goes, since a wait-for cycle visits
a task once and so stays inside one of them. (Periods do not decompose: a critical cycle may pass a
task twice.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from time import monotonic

from .graph import Graph, bounded, part
from .liveness import Execution
from .throughput import least_period
from .unfinished import OutOfTime, Why

#: Distributions that the deadlock search of one component may look at before it settles for a
#: stated gap.
MOST_DISTRIBUTIONS = 3000


@dataclass(frozen=True, slots=True)
class Buffers:
    """`capacities` in tokens by channel index; `cost` is what was minimized, and nothing costs less
    than `lower`.

    `period` is what they allow (None where it was not computed), at the most where it is not
    `exact`. `cut` says why the search ended before it was through: the time, or too many
    distributions to try them all.
    """

    capacities: dict[int, int]
    cost: int
    lower: int
    period: Fraction | None = None
    exact: bool = True
    cut: Why | None = None

    @property
    def total(self) -> int:
        """All capacities together, in tokens."""
        return sum(self.capacities.values())

    @property
    def proved(self) -> bool:
        """True when nothing costs less."""
        return self.cost == self.lower


def _cost(capacities: Mapping[int, int], weights: Mapping[int, int] | None) -> int:
    """Capacities together, each token as much as its weight (1 unless given: the total in
    tokens)."""
    if weights is None:
        return sum(capacities.values())
    return sum(n * weights[c] for c, n in capacities.items())


def start_capacities(graph: Graph) -> dict[int, int]:
    """What every channel needs at least, whatever the others have.

    A firing's tokens must fit, and the initial ones; more only ever helps in steps of the channel's
    grain.
    """
    capacities = {}
    for e in graph.edges:
        if e.kind == "data":
            grain = gcd(e.grain, *graph.frees[e.channel])
            least = max(*e.produced, *e.consumed, e.tokens)
            capacities[e.channel] = least + (e.tokens - least) % grain
    return capacities


def least_capacities(
    graph: Graph,
    *,
    weights: Mapping[int, int] | None = None,
    seconds: float | None = None,
    most: int = MOST_DISTRIBUTIONS,
) -> Buffers:
    """The least total capacity with which the graph still runs for ever, by biconnected components.

    A token of channel c costs `weights[c]` (its bytes; 1 unless given). The graph must be live
    without bounds. After six tenths of `seconds`, and after `most` distributions of one component,
    the search goes straight on. Raises TooManySteps where there is no limit of time, and OutOfTime
    where that was too short for any.
    """
    began = monotonic()
    exact_until, end = (None, None) if seconds is None else (began + 0.6 * seconds, began + seconds)
    capacities: dict[int, int] = {}
    lower = 0
    cut: Why | None = None
    for block in _blocks(graph):
        found = _least_of_block(block, weights, most, exact_until, end)
        capacities.update(found.capacities)
        lower += found.lower
        cut = cut or found.cut
    cost = _cost(capacities, weights)
    return Buffers(dict(sorted(capacities.items())), cost, lower, cut=cut if lower < cost else None)


def _blocks(graph: Graph) -> Iterator[Graph]:
    """Biconnected components, and the self-loops of each task on their own; without the serial
    edges."""
    import networkx as nx

    between: dict[frozenset[int], list[int]] = {}
    for i, e in enumerate(graph.edges):
        if e.kind == "data":
            between.setdefault(frozenset((e.source, e.destination)), []).append(i)
    plain: nx.Graph[int] = nx.Graph()
    plain.add_edges_from(sorted(tuple(sorted(pair)) for pair in between if len(pair) == 2))
    for pair, edges in between.items():
        if len(pair) == 1:
            yield part(graph, sorted(pair), edges).graph
    for component in nx.biconnected_component_edges(plain):
        pairs = [frozenset(pair) for pair in component]
        yield part(
            graph, sorted(frozenset().union(*pairs)), sorted(i for p in pairs for i in between[p])
        ).graph


def _least_of_block(
    block: Graph,
    weights: Mapping[int, int] | None,
    most: int,
    exact_until: float | None,
    end: float | None,
) -> Buffers:
    start = start_capacities(block)
    graph = bounded(block, start)
    space = {i: e.channel for i, e in enumerate(graph.edges) if e.kind == "space"}
    first = Execution(graph, end)
    first.run()
    queue: list[tuple[int, int, int, tuple[tuple[int, int], ...], Execution]] = []
    heapq.heappush(queue, (_cost(start, weights), 0, 0, tuple(sorted(start.items())), first))
    seen = {queue[0][3]}
    number, lower = 0, None
    cut: Why | None = None
    while True:
        cost, _, _, key, at = heapq.heappop(queue)
        if at.done:
            return Buffers(dict(key), cost, cost if lower is None else lower, cut=cut)
        late = exact_until is not None and monotonic() > exact_until
        if lower is None and (late or number > most):
            lower, cut = cost, "time" if late else "size"
        options = []
        for wait in at.wait_cycle():
            if wait.edge not in space:
                continue
            grown = dict(key)
            grown[space[wait.edge]] += wait.missing
            then_key = tuple(sorted(grown.items()))
            if lower is None and then_key in seen:
                continue
            seen.add(then_key)
            number += 1
            more = wait.missing * (1 if weights is None else weights[space[wait.edge]])
            options.append((cost + more, wait, then_key))
        if lower is not None:  # from here on straight ahead
            queue.clear()
            options = sorted(options, key=lambda o: o[0])[:1]
        for size, wait, then_key in options:
            # The last option may take the execution along: a chain of forced steps then costs one
            # iteration in all.
            then = at if wait is options[-1][1] else at.copy()
            then.tokens[wait.edge] += wait.missing
            then.run([wait.task])
            heapq.heappush(queue, (size, -sum(then.fired), number, then_key, then))
            number += 1


@dataclass(frozen=True, slots=True)
class Front:
    """Pareto-optimal distributions, smallest first: each is faster than the one before.

    Points that are not `proved` carry the total below which nothing as fast exists as their
    `lower`. `complete` is true when the last point runs at the period that was asked for (full
    speed unless said otherwise).
    """

    points: tuple[Buffers, ...]
    complete: bool


def trade_off(
    graph: Graph,
    *,
    weights: Mapping[int, int] | None = None,
    until: Fraction | None = None,
    seconds: float = 10.0,
    progress: Callable[[str], None] | None = None,
) -> Front:
    """Pareto points of total capacity against period, from the least that runs to the least at full
    speed.

    A token of channel c costs `weights[c]` (1 unless given). `until` (in the graph's unit of time)
    ends the search at the first distribution with at most that period. After six tenths of
    `seconds` the search goes straight on: what it finds then may be larger than need be.
    """
    began = monotonic()
    exact_until, end = began + 0.6 * seconds, began + 0.85 * seconds
    goal = max(least_period(graph, seconds=0.3 * seconds).lower, until or Fraction(0))
    space = {
        e.channel: gcd(e.grain, *graph.frees[e.channel]) for e in graph.edges if e.kind == "data"
    }
    start = start_capacities(graph)
    order = sorted(start)
    queue = [(_cost(start, weights), tuple(start[c] for c in order))]
    seen = {queue[0][1]}
    points: list[Buffers] = []
    bound: int | None = None
    while queue:
        cost, sizes = heapq.heappop(queue)
        now = monotonic()
        if now > exact_until and bound is None:
            bound = cost
            seen.clear()
        if now > end:
            break
        capacities = dict(zip(order, sizes, strict=True))
        try:
            period, growth, exact = _look(graph, capacities, space, end)
        except OutOfTime:
            break
        if not exact and bound is None:
            bound = cost
            seen.clear()
        fastest = points[-1].period if points else None
        if period is not None and (fastest is None or period < fastest):
            points.append(
                Buffers(capacities, cost, cost if bound is None else bound, period, exact)
            )
            if progress is not None:
                progress(
                    f"{points[-1].total} tokens of capacity: a period of"
                    f" {float(graph.ns(period)):g} ns"
                )
            if period <= goal:
                break
        if bound is not None:
            queue.clear()
            growth = {c: n * max(1, capacities[c] // n // 16) for c, n in growth.items()}
            successors = [{c: capacities[c] + n for c, n in growth.items()}] if growth else []
        else:
            successors = [{c: capacities[c] + n} for c, n in growth.items()]
        for changed in successors:
            then = {**capacities, **changed}
            sizes = tuple(then[c] for c in order)
            if sizes not in seen:
                seen.add(sizes)
                heapq.heappush(queue, (_cost(then, weights), sizes))
    complete = bool(points) and points[-1].period is not None and points[-1].period <= goal
    if bound is not None and complete:
        points[-1] = _shrunk(graph, points[-1], goal, space, weights, began + seconds)
    return Front(tuple(_efficient(points)), complete)


def _look(
    graph: Graph, capacities: dict[int, int], grain: dict[int, int], end: float
) -> tuple[Fraction | None, dict[int, int], bool]:
    """The period of a distribution (None after a deadlock), and which channels have to grow by how
    much to get on.

    The last is false when time was too short: then the period is only reached, and any channel may
    have to grow. Raises OutOfTime where it was too short even for an iteration.
    """
    limited = bounded(graph, capacities)
    execution = Execution(limited, end)
    if not execution.run():
        waits = [(limited.edges[w.edge], w.missing) for w in execution.wait_cycle()]
        return None, {e.channel: missing for e, missing in waits if e.kind == "space"}, True
    found = least_period(limited, seconds=max(0.0, end - monotonic()))
    if not found.exact:
        return found.upper, dict(grain), False
    on_cycle = {limited.edges[s.edge] for s in found.cycle}
    growth = {e.channel: grain[e.channel] for e in on_cycle if e.kind == "space"}
    return found.upper, dict(sorted(growth.items())), True


def _shrunk(
    graph: Graph,
    point: Buffers,
    goal: Fraction,
    grain: dict[int, int],
    weights: Mapping[int, int] | None,
    end: float,
) -> Buffers:
    """Each channel as small as the others allow, while the period stays."""
    least = start_capacities(graph)
    best = dict(point.capacities)
    period, exact = point.period, point.exact
    for channel in sorted(best, key=lambda c: best[c] - least[c], reverse=True):
        low, high = 0, (best[channel] - least[channel]) // grain[channel]
        while low < high and monotonic() < end:
            middle = (low + high) // 2
            tried = {**best, channel: least[channel] + middle * grain[channel]}
            try:
                reached, _, certain = _look(graph, tried, grain, end)
            except OutOfTime:
                break
            if reached is not None and reached <= goal:
                high, best, period, exact = middle, tried, reached, certain
            else:
                low = middle + 1
    return Buffers(best, _cost(best, weights), point.lower, period, exact)


def _efficient(points: list[Buffers]) -> Iterator[Buffers]:
    """Without those that cost no less than a faster one."""
    for i, p in enumerate(points):
        if all(q.cost > p.cost for q in points[i + 1 :]):
            yield p
