"""What feedback allows: the pace of an app whose tasks wait for each other in cycles.

In: a problem, and the places of its tasks. Out: the time between frames when the orders that
programs get are executed, and the least one on any places. Loads of processors do not see cycles:
tasks in one have their turn one after another, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from ...analysis.dataflow.graph import Graph, graph_of
from ...analysis.dataflow.order import components
from ...analysis.dataflow.self_timed import self_timed
from ...analysis.dataflow.static_order import schedule
from ...analysis.dataflow.throughput import Deadlocked, least_period, without_serial
from ...model.application import Application
from ...model.mapping import Placement

if TYPE_CHECKING:
    from .problem import Problem

#: An app with more firings in an iteration is not executed.
MOST_FIRINGS = 500
#: Apps with more tasks are not spread within their cycles.
MOST_SPREAD = 12
#: Iterations that are executed: the pace is that of the second half.
ITERATIONS = 12
#: The search for the least period ends after so many seconds.
PATIENCE = 1.0


def has_feedback(problem: Problem, app: Application) -> bool:
    """Do tasks of an app wait for their own results? Not known of an app that has lost a `repeat`
    or `last` in the problem, whose rates do not balance: it counts as one without feedback."""
    return app.name not in problem.resampled and bool(components(app))


def cyclic(problem: Problem) -> tuple[Application, ...]:
    """The apps with feedback and no period."""
    return tuple(a for a in problem.apps if a.period_ns is None and has_feedback(problem, a))


def is_executed(problem: Problem, app: Application) -> bool:
    """Is an app small enough to be executed for each of its possible places?"""
    return sum(problem.repetition[app.name].values()) <= MOST_FIRINGS


def is_spread(problem: Problem, app: Application) -> bool:
    """May tasks of one cycle get different processors? If not, a cycle stays together."""
    small = len(app.tasks) <= MOST_SPREAD and is_executed(problem, app)
    return small and len(problem.apps) == 1


def least_ns(problem: Problem, app: Application) -> float:
    """No mapping lets an app with feedback have less time between frames."""
    times = {t.name: Fraction(min(problem.firing_ns[t.name].values())) for t in app.tasks}
    graph = _graph(problem, app, times)
    bound = {name for component in components(app) for name in component}
    free = [i for i, name in enumerate(graph.names) if name not in bound]
    try:
        period = least_period(without_serial(graph, free), seconds=PATIENCE)
    except Deadlocked:
        return 0.0
    return float(graph.ns(period.lower))


def executed_ns(problem: Problem, placement: Mapping[str, Placement], app: Application) -> float:
    """The time between frames of an app with feedback alone on its places; 0 where it is not
    executed: it is large, or frames of some task are shared by several processors."""
    places = {t.name: placement[t.name].processors for t in app.tasks}
    if not is_executed(problem, app) or any(len(own) > 1 for own in places.values()):
        return 0.0
    types = {name: problem.platform.pool_of(own[0]).type for name, own in places.items()}
    times: dict[str, Fraction] = {}
    for name, type_ in types.items():
        known = problem.firing_ns[name]
        times[name] = Fraction(known.get(type_, max(known.values())))
    graph = _graph(problem, app, times)
    made = schedule([app], problem.repetition, places, {})
    index = {name: i for i, name in enumerate(graph.names)}
    orders = []
    for steps in made.orders.values():
        order: list[tuple[int, int]] = []
        for n in range(ITERATIONS + max(s.stage for s in steps)):
            for s in steps:
                task, iteration = index[s.task], n - s.stage
                first = iteration * graph.firings[task] + s.first
                if 0 <= iteration < ITERATIONS:
                    order += ((task, first + k) for k in range(s.times))
        orders.append(order)
    return _pace(graph, orders)


def _pace(graph: Graph, orders: list[list[tuple[int, int]]]) -> float:
    """The time of an iteration in the second half of an execution."""
    ends = [0] * ITERATIONS
    for firing in self_timed(graph, ITERATIONS, orders):
        iteration = firing.index // graph.firings[firing.task]
        ends[iteration] = max(ends[iteration], firing.end)
    half = ITERATIONS // 2
    return float(graph.ns(Fraction(ends[-1] - ends[half - 1], half)))


def _graph(problem: Problem, app: Application, times: Mapping[str, Fraction]) -> Graph:
    """The graph of an app with these mean times, distributed over the phases of its tasks."""
    by_phase = {}
    for name, ns in times.items():
        shares = problem.phases.get(name, (Fraction(1),))
        by_phase[name] = tuple(Fraction(round(ns * share)) for share in shares)
    return graph_of(app, problem.repetition[app.name], by_phase)


def neighbors(
    problem: Problem, app: Application, places: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Places that differ by one task without a pin, or by two that change places."""
    free = [t.name for t in app.tasks if t.name not in problem.pins]
    for name in free:
        for core in problem.cpus:
            if core != places[name]:
                yield {**places, name: core}
    for one in free:
        for other in free:
            if one < other and places[one] != places[other]:
                yield {**places, one: places[other], other: places[one]}
