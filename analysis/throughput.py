"""The least period of self-timed execution, exactly, with the cycle that dictates it.

Bodin, Munier-Kordon, Dupont de Dinechin, "Optimal and fast throughput evaluation of CSDF", 2016 (K-Iter): look for the
fastest schedule that repeats every K[t] cycles of task t, from K = 1 on. Its period is the largest cycle ratio of a
graph with one node per phase and repetition; if on its critical cycle every K[t] is a multiple of the cycle's own
repetition vector, no other schedule is faster. If not, K grows, on that cycle only. Every strongly connected part is
looked at on its own, which is why large graphs stay cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from time import monotonic

from .cycle_ratio import Arc, OutOfTime, largest_cycle_ratio, ratio_of_connected
from .graph import Edge, Graph, Part, cyclic_parts
from .liveness import Execution, TooManySteps

#: A larger expansion is not built: nodes, and arcs.
MOST_NODES = 300_000
MOST_ARCS = 2_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One hop of a critical cycle: from `task` (index) along `edge` (index in the graph)."""

    task: int
    edge: int


@dataclass(frozen=True, slots=True)
class Period:
    """Least period of one iteration, in units of the graph's times: it lies in [`lower`, `upper`].

    Equal when it is proved; `upper` is None when no schedule was found in time. `cycle` explains `lower`
    (empty when nothing limits the speed).
    """

    lower: Fraction
    upper: Fraction | None
    cycle: tuple[Step, ...]

    @property
    def exact(self) -> bool:
        """True when the period is proved."""
        return self.lower == self.upper


class Deadlocked(Exception):
    """The graph has no period: it cannot complete an iteration. `tasks` (indices) block each other, where known."""

    def __init__(self, tasks: Iterable[int] = ()) -> None:
        super().__init__("deadlock")
        self.tasks = tuple(dict.fromkeys(tasks))


def without_serial(graph: Graph, tasks: Collection[int]) -> Graph:
    """The graph where firings of these tasks may overlap."""
    return replace(graph, edges=tuple(e for e in graph.edges if e.kind != "serial" or e.source not in tasks))


def least_period(graph: Graph, *, seconds: float | None = None) -> Period:
    """The least period of one iteration in self-timed execution: the reciprocal of the throughput.

    After `seconds` the best bounds are returned. Raises Deadlocked.
    """
    deadline = None if seconds is None else monotonic() + seconds
    worst = Period(Fraction(0), Fraction(0), ())
    for component in cyclic_parts(graph):
        found = _of_part(graph, component, deadline)
        upper = None if found.upper is None or worst.upper is None else max(found.upper, worst.upper)
        slower = found.lower > worst.lower
        worst = Period(found.lower if slower else worst.lower, upper, found.cycle if slower else worst.cycle)
    return worst


def _of_part(graph: Graph, component: Part, deadline: float | None) -> Period:
    tasks, edges = component.tasks, component.edges
    # What the firings of a task need one after the other is a bound whatever happens.
    alone = [
        Period(Fraction(graph.cycles[t] * sum(graph.times[t])), None, (Step(t, i),))
        for i, t in ((i, graph.edges[i].source) for i in edges if graph.edges[i].kind == "serial")
    ]
    lower = max(alone, key=lambda p: p.lower, default=Period(Fraction(0), None, ()))
    if len(edges) == 1 and alone:
        return replace(lower, upper=lower.lower, cycle=lower.cycle if lower.lower else ())
    if not all(all(graph.times[t]) for t in tasks) and _blocked(component):
        raise Deadlocked  # a cycle without time shows its lack of tokens in no ratio
    expansion = _Expansion(graph, tasks, edges, deadline)
    # Where tasks fire one at a time, all their phases hang together.
    solve = ratio_of_connected if expansion.in_order else largest_cycle_ratio
    upper: Fraction | None = None
    solved, whole = 0, sum(component.graph.firings)
    try:
        while True:
            nodes, arcs, owner = expansion.arcs()
            critical = solve(nodes, arcs, deadline)
            on_cycle = {owner[a.source] for a in critical.cycle}
            divisor = gcd(*(graph.cycles[t] for t in on_cycle))
            wanted = {t: graph.cycles[t] // divisor for t in on_cycle}
            if critical.ratio is not None:
                ratio = critical.ratio * expansion.scale
                upper = ratio if upper is None else min(upper, ratio)
            if all(expansion.repeats[t] % k == 0 for t, k in wanted.items()):
                if critical.ratio is None:
                    raise Deadlocked(owner[a.source] for a in critical.cycle)
                return Period(ratio, ratio, _steps(critical.cycle, owner) if ratio else ())
            solved += nodes
            if solved > 2 * whole and whole <= MOST_NODES:
                # Many small steps cost more than one to the end: a whole iteration of the part.
                wanted = dict(zip(tasks, component.graph.cycles, strict=True))
            for t, k in wanted.items():
                expansion.repeats[t] = lcm(expansion.repeats[t], k)
    except OutOfTime:
        return Period(lower.lower, upper, lower.cycle)


def _blocked(component: Part) -> bool:
    try:
        return not Execution(component.graph).run()
    except TooManySteps:
        return False


def _steps(cycle: tuple[Arc, ...], owner: Sequence[int]) -> tuple[Step, ...]:
    """The cycle in terms of tasks: repeated firings along the same edge are one step."""
    hops = [Step(owner[a.source], a.edge) for a in cycle]
    kept = [hop for i, hop in enumerate(hops) if hop != hops[i - 1]] or hops[:1]
    for length in range(1, len(kept) // 2 + 1):  # the same round, several times
        if len(kept) % length == 0 and kept[:length] * (len(kept) // length) == kept:
            return tuple(kept[:length])
    return tuple(kept)


class _Expansion:
    """One node per phase and repetition, one arc per pair of firings where one has to wait for the other."""

    def __init__(self, graph: Graph, tasks: Sequence[int], edges: Sequence[int], deadline: float | None) -> None:
        self.graph, self.tasks, self.edges, self.deadline = graph, tasks, edges, deadline
        self.repeats = dict.fromkeys(tasks, 1)
        per_iteration = {i: sum(graph.edges[i].produced) * graph.cycles[graph.edges[i].source] for i in edges}
        #: Heights are in 1/scale: tokens of an edge count as fractions of its traffic in one iteration.
        self.scale = lcm(*per_iteration.values())
        self._weight = {i: self.scale // n for i, n in per_iteration.items()}
        serial = {graph.edges[i].source for i in edges if graph.edges[i].kind == "serial"}
        self._in_order = {i: graph.edges[i].source in serial and graph.edges[i].destination in serial for i in edges}
        self.in_order = all(t in serial for t in tasks)
        self._pairs: dict[int, tuple[tuple[int, int], list[tuple[int, int, int]]]] = {}

    def arcs(self) -> tuple[int, list[Arc], list[int]]:
        """The number of nodes, the arcs, and the task of every node. Raises OutOfTime."""
        first: dict[int, int] = {}
        owner: list[int] = []
        for t in self.tasks:
            first[t] = len(owner)
            size = self.repeats[t] * self.graph.phases[t]
            if len(owner) + size > MOST_NODES:
                raise OutOfTime
            owner += [t] * size
        found: list[Arc] = []
        for i in self.edges:
            e = self.graph.edges[i]
            if self.deadline is not None and monotonic() > self.deadline:
                raise OutOfTime
            times, phases, weight = self.graph.times[e.source], self.graph.phases[e.source], self._weight[i]
            a, b = first[e.source], first[e.destination]
            for p, q, lag in self._of_edge(i, e):
                found.append(Arc(a + p, b + q, times[p % phases], -lag * weight, i))
            if len(found) > MOST_ARCS:
                raise OutOfTime
        return len(owner), found, owner

    def _of_edge(self, index: int, edge: Edge) -> list[tuple[int, int, int]]:
        """(firing of the source, firing of the destination, tokens of lag), kept until K changes."""
        key = (self.repeats[edge.source], self.repeats[edge.destination])
        kept = self._pairs.get(index)
        if kept is None or kept[0] != key:
            kept = (key, useful_pairs(edge, *key, self._in_order[index], self.deadline))
            self._pairs[index] = kept
        return kept[1]


def useful_pairs(
    edge: Edge, k_source: int, k_destination: int, in_order: bool, deadline: float | None = None
) -> list[tuple[int, int, int]]:
    """The useful precedences of an edge (Bodin et al. 2016, theorem 1).

    Firing p of the source produces tokens (I, I + P], firing q of the destination consumes (O - C, O], both repeated
    every so often; they meet when a multiple of the common divisor of both totals lies in the window below, and the
    largest one gives the tightest constraint. Where both tasks fire one at a time, pairs that follow from others are
    left out. Raises OutOfTime.
    """
    if max(len(edge.produced) * k_source, len(edge.consumed) * k_destination) > MOST_NODES:
        raise OutOfTime
    produced, consumed = edge.produced * k_source, edge.consumed * k_destination
    made, taken = list(accumulate(produced)), list(accumulate(consumed))
    g = gcd(made[-1], taken[-1])
    by_rest = sorted(((taken[q] - 1) % g, q) for q, c in enumerate(consumed) if c)
    rests = [rest for rest, _ in by_rest]
    most = max(consumed)
    result: list[tuple[int, int, int]] = []
    for p, amount in enumerate(produced):
        if not amount:
            continue
        if len(result) > MOST_ARCS or (deadline is not None and monotonic() > deadline):
            raise OutOfTime
        before = made[p] - amount + edge.tokens
        window = min(amount, most) if in_order else amount + most - 1
        for q in _within(by_rest, rests, before % g, window, g):
            need = taken[q] - before - 1
            rest = need % g
            bound = min(amount, consumed[q]) if in_order else amount + consumed[q] - 1
            if rest < bound:
                result.append((p, q, need - rest))
    return result


def _within(by_rest: list[tuple[int, int]], rests: list[int], start: int, window: int, g: int) -> list[int]:
    """The firings whose rest lies in [start, start + window) modulo g."""
    if window >= g:
        return [q for _, q in by_rest]
    low = bisect_left(rests, start)
    if start + window <= g:
        return [q for _, q in by_rest[low : bisect_left(rests, start + window)]]
    return [q for _, q in by_rest[low:]] + [q for _, q in by_rest[: bisect_left(rests, start + window - g)]]
