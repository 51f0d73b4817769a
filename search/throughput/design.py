"""A configuration of everything, before networks are cut: plans of networks, places of the other
tasks, predictions.

In: a problem and plans of its networks. Out: a `Mapping` for the whole, with what the evaluator
predicts for it. All searches build their answers here, so that their predictions can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from ...model.application import Application
from ...model.mapping import Mapping as Answer
from ...model.mapping import NetworkPlan, Placement, in_words
from . import greedy
from .partition import Objective
from .plans import sketch
from .problem import THREADS, Problem, loads, scale


@dataclass(frozen=True, slots=True)
class Design:
    """`predicted` is the value of the objective: ns between frames, ns from start to end, or nJ per
    frame."""

    name: str
    mapping: Answer
    predicted: float
    load: Mapping[str, float]

    @property
    def configuration(self) -> str:
        """What tells designs apart, in the words of pins."""
        return in_short(self.mapping)


def in_short(mapping: Answer) -> str:
    """A mapping in one line: networks first, then the other tasks by processor."""
    parts = [f"{n.task.partition('.')[2]} -> {in_words(n)}" for n in mapping.networks]
    places: dict[str, list[str]] = {}
    for p in mapping.placements:
        where = ", ".join(p.processors) + (" process" if p.process else "")
        places.setdefault(where, []).append(p.task.partition(".")[2])
    several = len({p.task.partition(".")[0] for p in mapping.placements}) > 1
    if several or not mapping.networks:
        parts += [f"{' + '.join(tasks)} -> {where}" for where, tasks in places.items()]
    else:
        parts += [
            f"others -> {where}" if len(places) == 1 else f"{' + '.join(t)} -> {where}"
            for where, t in places.items()
        ]
    return "; ".join(parts)


def complete(
    problem: Problem,
    plans: Iterable[NetworkPlan],
    name: str,
    objective: Objective = "throughput",
    others: Mapping[str, Placement] | None = None,
) -> Design:
    """Cut and pin the networks as planned, and place the other tasks: as said in `others`, else as
    greedily found."""
    plans = tuple(plans)
    if others:
        problem = replace(problem, pins={**others, **problem.pins})
    sketched = sketch(problem, plans)
    answer = greedy.search(sketched)
    own = {t.name for a in problem.apps for t in a.tasks if t.name not in {p.task for p in plans}}
    placement = {p.task: p for p in answer.placements}
    known = tuple(_with_times(problem, sketched, plan) for plan in plans)
    mapping = replace(
        answer,
        placements=tuple(p for p in answer.placements if p.task in own),
        networks=known,
        search="auto",
    )
    return Design(
        name,
        mapping,
        _value(problem, sketched, placement, known, objective),
        loads(sketched, placement),
    )


def _with_times(problem: Problem, sketched: Problem, plan: NetworkPlan) -> NetworkPlan:
    stages = []
    for k, stage in enumerate(plan.stages, 1):
        name = plan.task if len(plan.stages) == 1 else f"{plan.task}.stage{k}"
        times = sketched.firing_ns[name]
        kinds = [problem.platform.pool_of(p).kind for p in stage.processors]
        slowest = max(times.get(kind, max(times.values())) for kind in kinds)
        stages.append(
            replace(
                stage, predicted_ns=slowest / (stage.threads * THREADS if stage.threads > 1 else 1)
            )
        )
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
    """A frame alone: tasks one after the other along the longest path of the graph, which has no
    cycles inside one."""
    from ...analysis.dataflow.order import components, levels

    if components(app):
        return sum(_own(problem, app, t.name, placement) for t in app.tasks) * scale(app)
    depth = levels(app)
    ready: dict[str, float] = {}
    for task in sorted(app.tasks, key=lambda t: depth[t.name]):
        before = max(
            (ready[c.source] for c in app.channels if c.destination == task.name), default=0.0
        )
        ready[task.name] = before + _own(problem, app, task.name, placement)
    return max(ready.values(), default=0.0)


def _own(
    problem: Problem, app: Application, task: str, placement: Mapping[str, Placement]
) -> float:
    place = placement[task]
    kinds = [problem.platform.pool_of(p).kind for p in place.processors]
    work = max(problem.work_ns(app, app.task(task), kind) for kind in kinds)
    return work / (place.threads * THREADS if place.threads > 1 else 1)


def _energy(problem: Problem, plan: NetworkPlan) -> float:
    network = problem.networks[plan.task]
    if network.energy is None:
        return inf
    total, first = 0.0, 0
    for stage in plan.stages:
        end = network.costs.count if stage.until is None else network.layers.index(stage.until) + 1
        kinds = [problem.platform.pool_of(p).kind for p in stage.processors]
        own = [
            sum(network.energy.layers[kind][first:end])
            for kind in kinds
            if kind in network.energy.layers
        ]
        total += sum(own) / len(kinds) if len(own) == len(kinds) else inf
        first = end
    return total


def fractional_bound(problem: Problem) -> float:
    """No mapping has less time between frames: all work at its fastest, spread evenly over all
    processors."""
    total = 0.0
    for app in problem.apps:
        for task in app.tasks:
            network = problem.networks.get(task.name)
            if network is None:
                least = min(problem.firing_ns[task.name].values())
            else:
                least = sum(
                    min(times) for times in zip(*network.costs.layers.values(), strict=True)
                )
            total += scale(app) * least * problem.repetition[app.name][task.name]
    return total / len(problem.platform.processors)
