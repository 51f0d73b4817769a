"""A complete configuration before networks are cut: plans of networks, places of the other tasks,
and predictions.

In: a problem and plans of its networks. Out: a `Mapping` of all tasks, with the prediction of the
evaluator. All searches build their answers here, so that their predictions can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from ...model.application import Application
from ...model.mapping import Mapping as Answer
from ...model.mapping import (
    NetworkPlan,
    Placement,
    StagePlan,
    in_words,
    on_engine,
)
from ...model.scope import Scope
from . import greedy
from .cycles import cyclic, least_ns
from .executed import latency_ns
from .partition import Objective
from .plans import sketch, stage_names
from .problem import Problem, loads, scale, speedup

#: What `fractional_bound` holds over.
EVERY_WAY = Scope(
    ("places of tasks", "cuts", "copies and threads of networks"),
    ("batches", "precisions", "engines"),
)


def _unknown() -> None:
    """The latency of a design that cannot be executed."""


@dataclass(frozen=True, slots=True)
class Design:
    """`predicted` is the value of the objective: ns between frames, ns from start to end, or nJ per
    frame. `plain`: users would write it by hand. `execute` finds the latency of its program."""

    name: str
    mapping: Answer
    predicted: float
    load: Mapping[str, float]
    plain: bool = False
    execute: Callable[[], float | None] = field(default=_unknown, repr=False, compare=False)

    @property
    def latency_ns(self) -> float | None:
        """The predicted median latency of frames when the program runs at full speed; None if it is
        unknown."""
        return self.execute()

    @property
    def configuration(self) -> str:
        """The mapping in the words of pins: designs with the same text are the same."""
        return in_short(self.mapping)

    @property
    def complexity(self) -> tuple[int, int]:
        """The number of stages of networks, and of threads: ties go to the simpler design."""
        stages = [stage for network in self.mapping.networks for stage in network.stages]
        places: list[StagePlan | Placement] = [*stages, *self.mapping.placements]
        workers = {processor for place in places for processor in place.processors}
        more = sum((p.streams * p.threads - 1) * len(p.processors) for p in places)
        processes = sum(p.process for p in self.mapping.placements)
        return len(stages), len(workers) + more + processes

    def reaches(self, bound: float | None) -> bool:
        """True if the prediction equals a lower bound, up to rounding."""
        return bound is not None and self.predicted <= bound * 1.0001


def in_short(mapping: Answer) -> str:
    """A mapping in one line: networks first, then the other tasks by processor."""
    parts = [f"{n.task.partition('.')[2]} -> {in_words(n)}" for n in mapping.networks]
    apps: set[str] = set()
    places: dict[str, list[str]] = {}
    for placement in mapping.placements:
        app, _, task = placement.task.partition(".")
        where = ", ".join(placement.processors)
        if placement.process:
            where += " process"
        apps.add(app)
        places.setdefault(where, []).append(task)
    together = len(apps) == 1 and len(places) == 1 and mapping.networks
    for where, tasks in places.items():
        names = "others" if together else " + ".join(tasks)
        parts.append(f"{names} -> {where}")
    return "; ".join(parts)


def complete(
    problem: Problem,
    plans: Iterable[NetworkPlan],
    name: str,
    objective: Objective = "throughput",
    others: Mapping[str, Placement] | None = None,
) -> Design:
    """Cut and pin the networks as planned, and place the other tasks: as in `others`, else by the
    greedy search."""
    plans = tuple(plans)
    if others:
        problem = replace(problem, pins={**others, **problem.pins})
    sketched = sketch(problem, plans)
    answer = greedy.search(sketched)
    planned = {task for plan in plans for task in stage_names(plan)}
    placements = tuple(p for p in answer.placements if p.task not in planned)
    networks = tuple(_with_times(problem, sketched, plan) for plan in plans)
    mapping = replace(answer, placements=placements, networks=networks, search="auto")
    placement = {p.task: p for p in answer.placements}
    predicted = _value(problem, sketched, placement, networks, objective)
    execute = partial(latency_ns, sketched, placement)
    return Design(name, mapping, predicted, loads(sketched, placement), execute=execute)


def _with_times(problem: Problem, sketched: Problem, plan: NetworkPlan) -> NetworkPlan:
    """The plan with the predicted time of each stage on its slowest processor, and its engine."""
    plan = on_engine(plan, problem.engines.get(plan.task), frozenset(problem.cpus))
    stages = []
    for name, stage in zip(stage_names(plan), plan.stages, strict=True):
        times = sketched.firing_ns[name]
        types = [problem.platform.pool_of(p).type for p in stage.processors]
        slowest = max(times.get(type_, max(times.values())) for type_ in types)
        stages.append(replace(stage, predicted_ns=slowest / speedup(stage.threads)))
    return replace(plan, stages=tuple(stages))


def _value(
    problem: Problem,
    sketched: Problem,
    placement: Mapping[str, Placement],
    plans: tuple[NetworkPlan, ...],
    objective: Objective,
) -> float:
    if objective == "throughput":
        return greedy.cost(sketched, placement)
    if objective == "latency":
        return max(_latency(sketched, app, placement) for app in sketched.apps)
    return sum(_energy(problem, plan) for plan in plans)


def _latency(problem: Problem, app: Application, placement: Mapping[str, Placement]) -> float:
    """The time of a single frame: the longest path of the graph, or all tasks in sequence if there
    are cycles."""
    from ...analysis.dataflow.order import components, levels

    if components(app):
        return sum(_own(problem, app, t.name, placement) for t in app.tasks) * scale(app)
    depth = levels(app)
    ready: dict[str, float] = {}
    for task in sorted(app.tasks, key=lambda t: depth[t.name]):
        inputs = [ready[c.source] for c in app.channels if c.destination == task.name]
        before = max(inputs, default=0.0)
        ready[task.name] = before + _own(problem, app, task.name, placement)
    return max(ready.values(), default=0.0)


def _own(
    problem: Problem, app: Application, task: str, placement: Mapping[str, Placement]
) -> float:
    """The time of all firings of a task in an iteration, on its slowest processor."""
    place = placement[task]
    types = [problem.platform.pool_of(p).type for p in place.processors]
    work = max(problem.work_ns(app, app.task(task), type_) for type_ in types)
    return work / speedup(place.threads)


def _energy(problem: Problem, plan: NetworkPlan) -> float:
    """Energy of a network per frame; infinite if that of a stage is unknown on its processors."""
    network = problem.networks[plan.task]
    if network.energy is None:
        return inf
    total = 0.0
    for stage, (first, end) in zip(plan.stages, network.stretches(plan), strict=True):
        types = [problem.platform.pool_of(p).type for p in stage.processors]
        if any(type_ not in network.energy.layers for type_ in types):
            return inf
        total += sum(sum(network.energy.layers[t][first:end]) for t in types) / len(types)
    return total


def fractional_bound(problem: Problem) -> float:
    """A lower bound on the time between frames of every mapping: all work at its fastest, spread
    evenly over all processors, or what feedback lets happen one after another."""
    total = 0.0
    for app, task in problem.tasks:
        network = problem.networks.get(task.name)
        if network is None:
            least = min(problem.firing_ns[task.name].values())
        else:
            layers = zip(*network.costs.layers.values(), strict=True)
            least = sum(min(times) for times in layers)
        total += scale(app) * least * problem.repetition[app.name][task.name]
    feedback = [least_ns(problem, app) for app in cyclic(problem)]
    return max(total / len(problem.platform.processors), *feedback, 0.0)
