"""The firings of every task of a HOPES project in an iteration, as HOPES itself counts them.

In: the graphs of a project. Out: `Counts`. Only rates count (not bytes). A loop with a graph is one
node outside, and its graph is a graph of its own, which runs as often as the loop's count; a loop
without one fires once for each of its turns. The same as UEMTranslator of cap-lab/CodeGeneration
(`Application.addEdge`, `setIterationCount`), but in rationals, and over all channels: those with
initial tokens, which it leaves out, have to balance as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm

from ...model.span import Span
from ..names import shown
from .design import Direction, HopesChannel, HopesGraph, HopesTask, Way, every
from .files import HopesCollector

#: A port of a task at its place.
Place = tuple[Way, Direction, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """`turn` is how often a task fires in one turn of the innermost loop around it, `total` in an
    iteration."""

    turn: Mapping[Way, int]
    total: Mapping[Way, int]


@dataclass(frozen=True, slots=True)
class _Edge:
    source: Way
    destination: Way
    produced: Fraction
    consumed: Fraction
    span: Span


def counts_of(graph: HopesGraph, say: HopesCollector) -> Counts:
    """The firings of all tasks except control tasks. Rates that do not balance are reported to
    `say`."""
    return _Counting(graph, say, every(graph)).counts()


def loops_around(way: Way, tasks: Mapping[Way, HopesTask]) -> list[Way]:
    """The loops with a graph that a task is in, the innermost first."""
    return [way[:n] for n in range(len(way) - 1, 0, -1) if tasks[way[:n]].loop is not None]


@dataclass(slots=True)
class _Counting:
    graph: HopesGraph
    say: HopesCollector
    tasks: dict[Way, HopesTask]
    edges: dict[Way, list[_Edge]] = field(default_factory=lambda: defaultdict(list))

    def counts(self) -> Counts:
        self._levels((), self.graph)
        nodes: dict[Way, list[Way]] = defaultdict(list)
        for way, task in self.tasks.items():
            if task.kind != "control" and (task.graph is None or task.loop is not None):
                nodes[self._scope(way)].append(way)
        turn: dict[Way, int] = {}
        for scope, members in nodes.items():
            turn |= self._balanced(members, self.edges[scope])
        total = {way: n * self._times(way, turn) for way, n in turn.items()}
        return Counts(turn, total)

    def _scope(self, way: Way) -> Way:
        return next(iter(loops_around(way, self.tasks)), ())

    def _times(self, way: Way, turn: Mapping[Way, int]) -> int:
        times = 1
        for around in loops_around(way, self.tasks):
            times *= _turns_of(self.tasks[around]) * turn[around]
        return times

    # -- edges -------------------------------------------------------------------------------------
    def _levels(self, level: Way, graph: HopesGraph) -> None:
        for channel in graph.channels:
            edge = self._edge(level, channel)
            if edge is not None:
                self.edges[self._scope(edge.source)].append(edge)
        for name, task in graph.tasks.items():
            if task.graph is not None:
                self._levels((*level, name), task.graph)

    def _edge(self, level: Way, channel: HopesChannel) -> _Edge | None:
        (first, out), (second, into) = channel.source, channel.destination
        source, destination = (
            self._node((*level, first), "out", out),
            self._node((*level, second), "in", into),
        )
        ends = (
            self.tasks[*level, first].ports["out", out],
            self.tasks[*level, second].ports["in", into],
        )
        if "control" in (self.tasks[source].kind, self.tasks[destination].kind) or any(
            p.keeps_newest for p in ends
        ):
            return None
        produced, consumed = (Fraction(port.rate) for port in ends)
        giver, taker = self.tasks[source], self.tasks[destination]
        if giver.loop is not None and giver.graph is None:
            produced = self._share(produced, giver, out, channel.span)
        if taker.loop is not None and taker.graph is None:
            if shares_tokens(taker, into):
                produced *= taker.loop.count
            else:
                consumed = self._share(consumed, taker, into, channel.span)
        return _Edge(source, destination, produced, consumed, channel.span)

    def _node(self, way: Way, direction: Direction, port: str) -> Way:
        """The task that fires for a channel: a task inside plain composites, or a loop."""
        while (task := self.tasks[way]).graph is not None and task.loop is None:
            inner, port = task.inside[direction, port]
            way = (*way, inner)
        return way

    def _share(self, rate: Fraction, task: HopesTask, port: str, span: Span) -> Fraction:
        """Of a loop that is one task: the tokens of one turn."""
        turns = _turns_of(task)
        share = rate / turns
        if share.denominator > 1:
            of = shown(f"{task.name}.{port}")
            message = f"{of} moves {rate} tokens in the {turns} turns of its loop"
            self.say.fault(message, span, "each turn has to move as many")
        return share

    # -- balance -----------------------------------------------------------------------------------
    def _balanced(self, members: list[Way], edges: list[_Edge]) -> Iterator[tuple[Way, int]]:
        """The least whole numbers for connected tasks."""
        beside: dict[Way, list[tuple[Way, Fraction]]] = defaultdict(list)
        for edge in edges:
            ratio = edge.produced / edge.consumed
            beside[edge.source].append((edge.destination, ratio))
            beside[edge.destination].append((edge.source, 1 / ratio))
        found: dict[Way, Fraction] = {}
        for start in members:
            if start not in found:
                found |= _least(_ratios_from(start, beside))
        for edge in edges:
            made, read = found[edge.source] * edge.produced, found[edge.destination] * edge.consumed
            if made != read:
                names = f"{shown(edge.source[-1])} and {shown(edge.destination[-1])}"
                message = (
                    f"the rates of {names} do not balance: an iteration makes {made} tokens and"
                    f" reads {read}"
                )
                self.say.fault(message, edge.span, "give one of the ports another rate")
        return ((way, int(n)) for way, n in found.items())


def _ratios_from(
    start: Way, beside: Mapping[Way, list[tuple[Way, Fraction]]]
) -> dict[Way, Fraction]:
    """The firings of all tasks that are connected with one, for one firing of that one."""
    part = {start: Fraction(1)}
    todo = [start]
    while todo:
        way = todo.pop()
        for other, ratio in beside.get(way, ()):
            if other not in part:
                part[other] = part[way] * ratio
                todo.append(other)
    return part


def _least(part: Mapping[Way, Fraction]) -> dict[Way, Fraction]:
    """The least whole numbers with these ratios."""
    scale = Fraction(lcm(*(n.denominator for n in part.values())))
    scale /= gcd(*(int(n * scale) for n in part.values()))
    return {way: n * scale for way, n in part.items()}


def _turns_of(task: HopesTask) -> int:
    """How often a loop runs; 1 for a task that is none."""
    if task.loop is None:
        return 1
    return task.loop.count


def shares_tokens(task: HopesTask, port: str) -> bool:
    """Of a loop that is one task: does every turn read the same tokens through that input?"""
    if task.loop is None:
        return False
    shared = task.loop.kind == "CONVERGENT" or task.maps.get(("in", port)) != "distributing"
    return shared and task.ports["in", port].rate < task.loop.count
