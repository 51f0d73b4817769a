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
from .liveness import Execution, MissingTokens
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


def _cost(capacities: Mapping[int, int], weights: Mapping[int, int]) -> int:
    """Capacities together, each token as much as its weight."""
    return sum(tokens * weights[channel] for channel, tokens in capacities.items())


def _one_each(graph: Graph) -> dict[int, int]:
    """The weights with which the cost is the total in tokens."""
    return {e.channel: 1 for e in graph.edges if e.kind == "data"}


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
    exact_until, end = None, None
    if seconds is not None:
        began = monotonic()
        exact_until, end = began + 0.6 * seconds, began + seconds
    if weights is None:
        weights = _one_each(graph)
    capacities: dict[int, int] = {}
    lower = 0
    cut: Why | None = None
    for block in _blocks(graph):
        least = _least_of_block(block, weights, most, exact_until, end)
        capacities.update(least.capacities)
        lower += least.lower
        cut = cut or least.cut
    cost = _cost(capacities, weights)
    if lower == cost:
        cut = None
    return Buffers(dict(sorted(capacities.items())), cost, lower, cut=cut)


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
        tasks: set[int] = set()
        inside: list[int] = []
        for pair in component:
            tasks.update(pair)
            inside += between[frozenset(pair)]
        yield part(graph, sorted(tasks), sorted(inside)).graph


#: A distribution as something that can be hashed: (channel, tokens) by channel.
_Sizes = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Growth:
    """A larger distribution: the channel that a task waits for has room for what it misses."""

    wait: MissingTokens
    cost: int
    sizes: _Sizes


def _least_of_block(
    block: Graph,
    weights: Mapping[int, int],
    most: int,
    exact_until: float | None,
    end: float | None,
) -> Buffers:
    start = start_capacities(block)
    graph = bounded(block, start)
    space = {i: e.channel for i, e in enumerate(graph.edges) if e.kind == "space"}
    execution = Execution(graph, end)
    execution.run()
    sizes = tuple(sorted(start.items()))
    queue = [(_cost(start, weights), 0, 0, sizes, execution)]
    seen = {sizes}
    number, lower = 0, None
    cut: Why | None = None
    while True:
        cost, _, _, sizes, execution = heapq.heappop(queue)
        if execution.done:
            return Buffers(dict(sizes), cost, cost if lower is None else lower, cut=cut)
        if lower is None:
            cut = _why_settle(number > most, exact_until)
            if cut is not None:
                lower = cost
        options = _larger(sizes, cost, execution, space, weights)
        if lower is None:
            options = _unseen(options, seen)
            number += len(options)
        else:  # from here on straight ahead
            queue.clear()
            options = sorted(options, key=lambda o: o.cost)[:1]
        for option in options:
            # The last option may take the execution along: a chain of forced steps then costs one
            # iteration in all.
            then = execution if option is options[-1] else execution.copy()
            then.tokens[option.wait.edge] += option.wait.missing
            then.run([option.wait.task])
            heapq.heappush(queue, (option.cost, -sum(then.fired), number, option.sizes, then))
            number += 1


def _why_settle(too_many: bool, exact_until: float | None) -> Why | None:
    """Why the search for the least goes straight on from here, if it does."""
    if exact_until is not None and monotonic() > exact_until:
        return "time"
    if too_many:
        return "size"
    return None


def _larger(
    sizes: _Sizes,
    cost: int,
    execution: Execution,
    space: Mapping[int, int],
    weights: Mapping[int, int],
) -> list[_Growth]:
    """The distributions in which one channel of the wait-for cycle has the room that it lacks."""
    options = []
    for wait in execution.wait_cycle():
        channel = space.get(wait.edge)
        if channel is not None:
            grown = dict(sizes)
            grown[channel] += wait.missing
            costs = cost + wait.missing * weights[channel]
            options.append(_Growth(wait, costs, tuple(sorted(grown.items()))))
    return options


def _unseen(options: list[_Growth], seen: set[_Sizes]) -> list[_Growth]:
    """Those that are new; afterwards they are seen."""
    new = []
    for option in options:
        if option.sizes not in seen:
            seen.add(option.sizes)
            new.append(option)
    return new


@dataclass(frozen=True, slots=True)
class BufferFront:
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
) -> BufferFront:
    """Pareto points of total capacity against period, from the least that runs to the least at full
    speed.

    A token of channel c costs `weights[c]` (1 unless given). `until` (in the graph's unit of time)
    ends the search at the first distribution with at most that period. After six tenths of
    `seconds` the search goes straight on: what it finds then may be larger than need be.
    """
    began = monotonic()
    goal = max(least_period(graph, seconds=0.3 * seconds).lower, until or Fraction(0))
    search = _TradeOff(graph, weights or _one_each(graph), goal, began, seconds, progress)
    search.run()
    return search.front()


class _TradeOff:
    """A best-first search through distributions, until one of them has a period of `goal`.

    Once time is short, it settles: there is a `bound` on the cost, and it goes straight on.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[int, int],
        goal: Fraction,
        began: float,
        seconds: float,
        progress: Callable[[str], None] | None,
    ) -> None:
        self._graph, self._weights, self._goal = graph, weights, goal
        self._progress = progress
        self._exact_until, self._end = began + 0.6 * seconds, began + 0.85 * seconds
        self._shrink_until = began + seconds
        self._grain = {
            e.channel: gcd(e.grain, *graph.frees[e.channel])
            for e in graph.edges
            if e.kind == "data"
        }
        self._points: list[Buffers] = []
        self._bound: int | None = None
        start = start_capacities(graph)
        self._channels = sorted(start)
        self._queue: list[tuple[int, tuple[int, ...]]] = []
        self._seen: set[tuple[int, ...]] = set()
        self._add(start)

    def run(self) -> None:
        """Look at distributions from the least on, and keep those that are faster."""
        while self._queue:
            cost, sizes = heapq.heappop(self._queue)
            now = monotonic()
            if now > self._exact_until:
                self._settle(cost)
            if now > self._end:
                return
            capacities = dict(zip(self._channels, sizes, strict=True))
            try:
                period, growth, exact = _look(self._graph, capacities, self._grain, self._end)
            except OutOfTime:
                return
            if not exact:
                self._settle(cost)
            if period is not None and self._is_faster(period):
                lower = cost if self._bound is None else self._bound
                self._keep(Buffers(capacities, cost, lower, period, exact), period)
                if period <= self._goal:
                    return
            self._grow(capacities, growth)

    def front(self) -> BufferFront:
        """What was found; a last point that may be larger than need be is made smaller."""
        points = self._points
        complete = (
            bool(points) and points[-1].period is not None and points[-1].period <= self._goal
        )
        if self._bound is not None and complete:
            points[-1] = _shrunk(
                self._graph, points[-1], self._goal, self._grain, self._weights, self._shrink_until
            )
        return BufferFront(tuple(_efficient(points)), complete)

    def _settle(self, cost: int) -> None:
        if self._bound is None:
            self._bound = cost
            self._seen.clear()

    def _is_faster(self, period: Fraction) -> bool:
        fastest = self._points[-1].period if self._points else None
        return fastest is None or period < fastest

    def _keep(self, point: Buffers, period: Fraction) -> None:
        self._points.append(point)
        if self._progress is not None:
            ns = float(self._graph.ns(period))
            self._progress(f"{point.total} tokens of capacity: a period of {ns:g} ns")

    def _grow(self, capacities: dict[int, int], growth: dict[int, int]) -> None:
        """Queue the distributions in which one of the channels grows; all of them do, and by more,
        once there is a bound.
        """
        if self._bound is None:
            for channel, tokens in growth.items():
                self._add({**capacities, channel: capacities[channel] + tokens})
            return
        self._queue.clear()
        larger = dict(capacities)
        for channel, tokens in growth.items():
            larger[channel] += tokens * max(1, capacities[channel] // tokens // 16)
        if growth:
            self._add(larger)

    def _add(self, capacities: dict[int, int]) -> None:
        sizes = tuple(capacities[c] for c in self._channels)
        if sizes not in self._seen:
            self._seen.add(sizes)
            heapq.heappush(self._queue, (_cost(capacities, self._weights), sizes))


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
    reached = least_period(limited, seconds=max(0.0, end - monotonic()))
    if not reached.exact:
        return reached.upper, dict(grain), False
    on_cycle = {limited.edges[s.edge] for s in reached.cycle}
    growth = {e.channel: grain[e.channel] for e in on_cycle if e.kind == "space"}
    return reached.upper, dict(sorted(growth.items())), True


def _shrunk(
    graph: Graph,
    point: Buffers,
    goal: Fraction,
    grain: dict[int, int],
    weights: Mapping[int, int],
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
    for i, point in enumerate(points):
        if all(faster.cost > point.cost for faster in points[i + 1 :]):
            yield point
