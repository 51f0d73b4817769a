"""What the plan of a network means for the graph, without making models: stages as tasks, and plans
in words.

In: a problem and plans of its networks. Out: the problem in which those networks are chains of
stages that are pinned where the plan says, so that searches and the evaluator see only tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from ...model.application import Application, Channel, Port, Task
from ...model.mapping import NetworkPlan, Placement, StagePlan
from .partition import Costs, Partition
from .problem import LINK, Divisible, Problem


def plan_of(task: str, network: Divisible, partition: Partition) -> NetworkPlan:
    """A partition as the plan of a network."""
    count = network.costs.count
    stages = (
        StagePlan(
            place.processors, network.layers[end - 1] if end < count else None, predicted_ns=cost
        )
        for end, place, cost in zip(
            partition.ends, partition.places, partition.stage_cost, strict=True
        )
    )
    return NetworkPlan(task, tuple(stages))


def stage_ns(
    costs: Costs, layers: tuple[str, ...], plan: NetworkPlan, kinds: Mapping[str, str]
) -> list[dict[str, float]]:
    """Time of each stage on every kind of processor, with what its input costs when it comes from
    the stage before."""
    ends = [costs.count if s.until is None else layers.index(s.until) + 1 for s in plan.stages]
    bytes_at = dict(costs.cuts)
    found = []
    for k, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        times = {
            kind: sum(values[first:end]) + costs.overhead[kind]
            for kind, values in costs.layers.items()
        }
        if k and plan.stages[k - 1].processors != plan.stages[k].processors:
            source = kinds[plan.stages[k - 1].processors[0]]
            times = {
                kind: ns + costs.transfer(source, kind, bytes_at.get(first, 0))
                for kind, ns in times.items()
            }
        found.append(times)
    return found


def sketch(problem: Problem, plans: Iterable[NetworkPlan]) -> Problem:
    """The problem with the networks of the plans cut and pinned."""
    apps = {a.name: a for a in problem.apps}
    pins = dict(problem.pins)
    times = dict(problem.firing_ns)
    repetition = {a: dict(v) for a, v in problem.repetition.items()}
    kinds = {p: problem.platform.pool_of(p).kind for p in problem.platform.processors}
    for plan in plans:
        app = apps[plan.task.partition(".")[0]]
        names = [f"{plan.task}.stage{k}" for k in range(1, len(plan.stages) + 1)]
        if len(plan.stages) == 1:
            names = [plan.task]
        else:
            network = problem.networks[plan.task]
            apps[app.name] = _cut(app, app.task(plan.task), names)
            times.update(
                zip(names, stage_ns(network.costs, network.layers, plan, kinds), strict=True)
            )
            repetition[app.name].update(dict.fromkeys(names, repetition[app.name][plan.task]))
        for name, stage in zip(names, plan.stages, strict=True):
            pins[name] = Placement(
                name, stage.processors, stage.streams, stage.threads, False, plan.buffers
            )
    kept = tuple(apps[a.name] for a in problem.apps)
    return replace(problem, apps=kept, pins=pins, firing_ns=times, repetition=repetition)


def _cut(app: Application, task: Task, names: list[str]) -> Application:
    """The app with stages in a row instead of a network: inputs go to the first, outputs come from
    the last."""
    first, last = names[0], names[-1]
    link = (
        Port(LINK, "out", None, (1,), False, task.span),
        Port("before", "in", None, (1,), False, task.span),
    )
    stages = []
    for name in names:
        inputs = task.inputs if name == first else (link[1],)
        outputs = task.outputs if name == last else (link[0],)
        stages.append(replace(task, name=name, inputs=inputs, outputs=outputs))
    channels = [
        replace(
            c,
            source=last if c.source == task.name else c.source,
            destination=first if c.destination == task.name else c.destination,
        )
        for c in app.channels
    ]
    for a, b in pairwise(names):
        channels.append(Channel(f"{a}.{LINK}->{b}.before", a, LINK, b, "before", 0, (), task.span))
    at = app.tasks.index(task)
    return replace(
        app, tasks=(*app.tasks[:at], *stages, *app.tasks[at + 1 :]), channels=tuple(channels)
    )
