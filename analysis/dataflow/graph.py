"""A dataflow graph as numbers: what the analyses of this package work on.

In: an application, its repetition vector, the times of its tasks. Out: tasks and edges by index,
times as integers. A bounded channel is two edges, one for data and one for space: space is claimed
when a firing of the source starts and given back when a firing of the destination ends (Stuijk et
al., "Exploring trade-offs in buffer requirements and throughput constraints for synchronous
dataflow graphs", 2006). `One firing of a task at a time' is an edge from the task to itself. So
every analysis sees one kind of thing: edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import gcd, lcm
from typing import Literal, TypeVar

from ...model.application import Application
from .contracted import strongly_connected

T = TypeVar("T")
Kind = Literal["data", "space", "serial"]


@dataclass(frozen=True, slots=True)
class Edge:
    """`produced` per phase of the source when a firing ends, `consumed` per phase of the
    destination when one starts.

    `channel` is the index in the application; -1 for the edge that keeps the firings of a task
    apart ("serial").
    """

    source: int
    destination: int
    produced: tuple[int, ...]
    consumed: tuple[int, ...]
    tokens: int
    kind: Kind
    channel: int

    @property
    def grain(self) -> int:
        """Every count of tokens on the edge differs from the initial one by a multiple of this."""
        return gcd(*self.produced, *self.consumed)


@dataclass(frozen=True)
class Graph:
    """`times` per phase, in units of 1/`per_ns` ns; `cycles` are the whole phase cycles of a task
    in one iteration.

    `frees` (by channel) are the tokens whose space the destination gives back, per phase.
    """

    names: tuple[str, ...]
    channels: tuple[str, ...]
    times: tuple[tuple[int, ...], ...]
    per_ns: int
    cycles: tuple[int, ...]
    edges: tuple[Edge, ...]
    frees: tuple[tuple[int, ...], ...]

    @cached_property
    def phases(self) -> tuple[int, ...]:
        """Length of each task's cycle of phases."""
        return tuple(len(t) for t in self.times)

    @cached_property
    def firings(self) -> tuple[int, ...]:
        """Firings of each task in one iteration: the repetition vector."""
        return tuple(c * p for c, p in zip(self.cycles, self.phases, strict=True))

    def ns(self, amount: int | Fraction) -> Fraction:
        """A time of this graph in ns."""
        return Fraction(amount) / self.per_ns


def graph_of(
    app: Application,
    vector: Mapping[str, int],
    times: Mapping[str, tuple[Fraction, ...]] | None = None,
    *,
    overlap: bool = False,
) -> Graph:
    """The graph of a consistent app. `times` in ns, per phase or one for all; 1 ns each when not
    given.

    `overlap` lets firings of the same task overlap (auto-concurrency).
    """
    index = {t.name: i for i, t in enumerate(app.tasks)}
    phases = [t.phases for t in app.tasks]
    spent = [(Fraction(1),) * count for count in phases]
    if times:
        phases = [max(t.phases, len(times[t.name])) for t in app.tasks]
        spent = [_repeated(times[t.name], n) for t, n in zip(app.tasks, phases, strict=True)]
    per_ns = _unit(spent)
    edges = []
    frees = []
    for i, c in enumerate(app.channels):
        a, b = index[c.source], index[c.destination]
        produced = _repeated(app.tasks[a].port(c.source_port).rates, phases[a])
        consumed = _repeated(app.tasks[b].port(c.destination_port).rates, phases[b])
        edges.append(Edge(a, b, produced, consumed, c.delay, "data", i))
        frees.append(_repeated(c.frees, phases[b]) if c.frees else consumed)
    if not overlap:
        for i, count in enumerate(phases):
            once = (1,) * count
            edges.append(Edge(i, i, once, once, 1, "serial", -1))
    return Graph(
        tuple(index),
        tuple(c.name for c in app.channels),
        tuple(tuple(int(x * per_ns) for x in own) for own in spent),
        per_ns,
        tuple(vector[t.name] // n for t, n in zip(app.tasks, phases, strict=True)),
        tuple(edges),
        tuple(frees),
    )


def _unit(times: Iterable[Iterable[Fraction]]) -> int:
    """How many units make 1 ns, so that all times are whole."""
    denominators = {1}
    for own in times:
        denominators.update(x.denominator for x in own)
    return lcm(*denominators)


def _repeated(values: tuple[T, ...], phases: int) -> tuple[T, ...]:
    """What is said of each phase, for so many times as many of them."""
    return values * (phases // len(values))


def bounded(graph: Graph, capacities: Mapping[int, int]) -> Graph:
    """The graph with these capacities (by channel index, in tokens; other channels stay unbounded).

    Raises ValueError where a capacity is below the initial tokens.
    """
    edges = list(graph.edges)
    for e in graph.edges:
        if e.kind == "data" and e.channel in capacities:
            room = capacities[e.channel] - e.tokens
            if room < 0:
                raise ValueError(
                    f"{graph.channels[e.channel]} has {e.tokens} initial tokens, more than its"
                    " capacity"
                )
            frees = graph.frees[e.channel]
            edges.append(Edge(e.destination, e.source, frees, e.produced, room, "space", e.channel))
    return replace(graph, edges=tuple(edges))


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Some tasks of a graph and edges among them, by their indices in the whole, and as a graph of
    its own.

    Its iteration is its own: cycles are divided by what they have in common. Channel indices stay
    those of the whole.
    """

    tasks: tuple[int, ...]
    edges: tuple[int, ...]
    graph: Graph


def part(graph: Graph, tasks: Sequence[int], edges: Sequence[int]) -> GraphPart:
    """These tasks and edges as a graph."""
    place = {t: i for i, t in enumerate(tasks)}
    kept = [graph.edges[i] for i in edges]
    divisor = gcd(*(graph.cycles[t] for t in tasks))
    own = replace(
        graph,
        names=tuple(graph.names[t] for t in tasks),
        times=tuple(graph.times[t] for t in tasks),
        cycles=tuple(graph.cycles[t] // divisor for t in tasks),
        edges=tuple(
            replace(e, source=place[e.source], destination=place[e.destination]) for e in kept
        ),
    )
    return GraphPart(tuple(tasks), tuple(edges), own)


def condensed(nodes: int, arrows: Iterable[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    """The strongly connected component of every node, and the components by their first node, each
    sorted."""
    between = {(a, b) for a, b in arrows if a != b}
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(nodes), ()))
    for a, b in between:
        sorter.add(b, a)
    try:
        sorter.prepare()
        components = [[n] for n in range(nodes)]
    except CycleError:
        components = sorted(sorted(c) for c in strongly_connected(nodes, between))
    home = [0] * nodes
    for i, members in enumerate(components):
        for n in members:
            home[n] = i
    return home, components


def cyclic_parts(graph: Graph) -> list[GraphPart]:
    """Strongly connected components that hold a cycle, by their first task."""
    home, components = condensed(len(graph.names), [(e.source, e.destination) for e in graph.edges])
    inner: list[list[int]] = [[] for _ in components]
    for i, e in enumerate(graph.edges):
        if home[e.source] == home[e.destination]:
            inner[home[e.source]].append(i)
    pairs = zip(components, inner, strict=True)
    return [part(graph, tasks, edges) for tasks, edges in pairs if edges]
