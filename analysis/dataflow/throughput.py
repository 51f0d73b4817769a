"""The least period of self-timed execution, exactly, with the cycle that dictates it.

Bodin, Munier-Kordon, Dupont de Dinechin, "Optimal and fast throughput evaluation of CSDF", 2016
(K-Iter): look for the fastest schedule that repeats every K[t] cycles of task t, from K = 1 on. Its
period is the largest cycle ratio of a graph with one node per phase and repetition; if on its
critical cycle every K[t] is a multiple of the cycle's own repetition vector, no other schedule is
faster. If not, K grows, on that cycle only. Every strongly connected part is looked at on its own,
which is why large graphs stay cheap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from .graph import Graph, GraphPart, cyclic_parts
from .liveness import Execution, TooManySteps
from .unfinished import Unfinished, Why

if TYPE_CHECKING:
    from .cycle_ratio import Arc, Indices


Hop = TypeVar("Hop")


@dataclass(frozen=True, slots=True)
class CycleStep:
    """One hop of a critical cycle: from `task` (index) along `edge` (index in the graph)."""

    task: int
    edge: int


@dataclass(frozen=True, slots=True)
class Period:
    """Least period of one iteration, in units of the graph's times: it lies in [`lower`, `upper`].

    Equal when it is proved; `upper` is None when no schedule was found in time. `cycle` explains
    `lower` (empty when nothing limits the speed), `firings` are those of one round of it, each with
    its task and its time, where several tasks are in it. `cut` says why the search ended before the
    proof.
    """

    lower: Fraction
    upper: Fraction | None
    cycle: tuple[CycleStep, ...]
    cut: Why | None = None
    firings: tuple[tuple[int, int], ...] = ()

    @property
    def exact(self) -> bool:
        """True when the period is proved."""
        return self.lower == self.upper


class Deadlocked(Exception):
    """The graph has no period: it cannot complete an iteration. `tasks` (indices) block each other,
    where known."""

    def __init__(self, tasks: Iterable[int] = ()) -> None:
        super().__init__("deadlock")
        self.tasks = tuple(dict.fromkeys(tasks))


def without_serial(graph: Graph, tasks: Collection[int]) -> Graph:
    """The graph where firings of these tasks may overlap."""
    return replace(
        graph, edges=tuple(e for e in graph.edges if e.kind != "serial" or e.source not in tasks)
    )


def least_period(graph: Graph, *, seconds: float | None = None) -> Period:
    """The least period of one iteration in self-timed execution: the reciprocal of the throughput.

    After `seconds` the best bounds are returned. Raises Deadlocked.
    """
    deadline = None if seconds is None else monotonic() + seconds
    worst = Period(Fraction(0), Fraction(0), ())
    for component in cyclic_parts(graph):
        worst = _slower(worst, _of_part(graph, component, deadline))
    if worst.exact:
        return replace(worst, cut=None)
    return worst


def _slower(one: Period, other: Period) -> Period:
    """The period of two parts together: the slower one dictates it."""
    upper = None
    if one.upper is not None and other.upper is not None:
        upper = max(one.upper, other.upper)
    limit = other if other.lower > one.lower else one
    return Period(limit.lower, upper, limit.cycle, other.cut or one.cut, limit.firings)


def is_live(graph: Graph, *, seconds: float) -> bool:
    """True when the tasks, which fire once at a time, can do so for ever: any periodic schedule
    proves it.

    False when none was found in time. Raises Deadlocked.
    """
    deadline = monotonic() + seconds
    periods = [
        _of_part(graph, component, deadline, any_schedule=True) for component in cyclic_parts(graph)
    ]
    return all(p.upper is not None for p in periods)


def _of_part(
    graph: Graph, component: GraphPart, deadline: float | None, *, any_schedule: bool = False
) -> Period:
    alone = _one_task(graph, component.edges)
    if len(component.edges) == 1 and alone is not None:
        return replace(alone, upper=alone.lower, cycle=alone.cycle if alone.lower else ())
    lower = alone or Period(Fraction(0), None, ())
    if not all(all(graph.times[t]) for t in component.tasks) and _blocked(component):
        raise Deadlocked  # a cycle without time shows its lack of tokens in no ratio
    return _k_iter(graph, component, lower, deadline, any_schedule)


def _k_iter(
    graph: Graph, component: GraphPart, lower: Period, deadline: float | None, any_schedule: bool
) -> Period:
    """The period of a part, by schedules that repeat more and more of it; `lower` is a bound."""
    from .cycle_ratio import largest_cycle_ratio
    from .expansion import MOST_NODES, Expander

    tasks = component.tasks
    upper: Fraction | None = None
    repeats = dict.fromkeys(tasks, 1)
    expander = Expander(graph, tasks, component.edges, deadline)
    solved, whole = 0, sum(component.graph.firings)
    try:
        while True:
            expansion = expander.expand(repeats)
            critical = largest_cycle_ratio(expansion.arcs, deadline)
            if critical.ratio is not None:
                ratio = critical.ratio * expansion.scale
                upper = ratio if upper is None else min(upper, ratio)
                if any_schedule:
                    return Period(lower.lower, upper, lower.cycle)
            wanted = _own_repetition(
                graph, {int(expansion.owner[a.source]) for a in critical.cycle}
            )
            if all(repeats[t] % k == 0 for t, k in wanted.items()):
                steps = _steps(critical.cycle, expansion.owner)
                if critical.ratio is None:
                    raise Deadlocked(s.task for s in steps)
                return Period(
                    ratio, ratio, steps, firings=_firings(critical.cycle, expansion.owner)
                )
            solved += expansion.arcs.nodes
            if solved > whole and whole <= MOST_NODES:
                # Many small steps cost more than one to the end: a whole iteration of the part.
                wanted = dict(zip(tasks, component.graph.cycles, strict=True))
            for t, k in wanted.items():
                repeats[t] = lcm(repeats[t], k)
    except Unfinished as ended:
        return Period(lower.lower, upper, lower.cycle, ended.why)


def _one_task(graph: Graph, edges: Iterable[int]) -> Period | None:
    """What the firings of a task need one after the other: a bound whatever happens.

    None where firings of all tasks may overlap.
    """
    bounds = []
    for i in edges:
        edge = graph.edges[i]
        if edge.kind == "serial":
            work = graph.cycles[edge.source] * sum(graph.times[edge.source])
            bounds.append(Period(Fraction(work), None, (CycleStep(edge.source, i),)))
    return max(bounds, key=lambda p: p.lower, default=None)


def _own_repetition(graph: Graph, cycle: Collection[int]) -> dict[int, int]:
    """The repetition vector of the tasks on a cycle, as if there were no others; in cycles."""
    divisor = gcd(*(graph.cycles[t] for t in cycle))
    return {t: graph.cycles[t] // divisor for t in cycle}


def _blocked(component: GraphPart) -> bool:
    try:
        return not Execution(component.graph).run()
    except TooManySteps:
        return False


def _steps(cycle: tuple[Arc, ...], owner: Indices) -> tuple[CycleStep, ...]:
    """The cycle in terms of tasks: repeated firings along the same edge are one step."""
    hops = [CycleStep(int(owner[a.source]), a.edge) for a in cycle]
    kept = [hop for i, hop in enumerate(hops) if hop != hops[i - 1]] or hops[:1]
    return tuple(_one_round(kept))


def _firings(cycle: tuple[Arc, ...], owner: Indices) -> tuple[tuple[int, int], ...]:
    """The firings of one round of the cycle, with their times."""
    return tuple(_one_round([(int(owner[a.source]), a.length) for a in cycle]))


def _one_round(cycle: list[Hop]) -> list[Hop]:
    """A cycle once, where it is the same round several times."""
    for length in range(1, len(cycle) // 2 + 1):
        if len(cycle) % length == 0 and cycle[:length] * (len(cycle) // length) == cycle:
            return cycle[:length]
    return cycle
