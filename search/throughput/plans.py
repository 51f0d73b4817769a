"""Plans of networks in the graph: the stages of a network as tasks. No model is cut for that.

In: a problem and plans of its networks. Out: the problem in which those networks are chains of
stages, pinned as planned, so that searches and the evaluator see only tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from ...model.application import Application, Channel, Port, Task
from ...model.mapping import NetworkPlan, Placement, StagePlan
from ...model.types import TensorType
from .partition import Partition
from .problem import LINK, Divisible, Problem


def plan_of(task: str, network: Divisible, partition: Partition) -> NetworkPlan:
    """A partition as the plan of a network."""
    stages = []
    for end, place, cost in zip(
        partition.ends, partition.places, partition.stage_cost, strict=True
    ):
        last = network.layers[end - 1] if end < network.costs.count else None
        stages.append(StagePlan(place.processors, last, predicted_ns=cost))
    return NetworkPlan(task, tuple(stages))


def whole(tasks: Iterable[str], processors: tuple[str, ...], threads: int = 1) -> list[NetworkPlan]:
    """Plans of some networks that are not cut: each has one stage, on these processors."""
    return [NetworkPlan(task, (StagePlan(processors, threads=threads),)) for task in tasks]


def _stage_ns(
    network: Divisible, plan: NetworkPlan, types: Mapping[str, str]
) -> list[dict[str, float]]:
    """Time of each stage on every type of processors, with the transfer from the stage before."""
    costs = network.costs
    bytes_at = dict(costs.cuts)
    times_of_stages = []
    before: tuple[str, ...] | None = None
    for stage, (first, end) in zip(plan.stages, network.stretches(plan), strict=True):
        times = {}
        for type_, values in costs.layers.items():
            times[type_] = sum(values[first:end]) + costs.overhead[type_]
            if before is not None and before != stage.processors:
                size = bytes_at.get(first, 0)
                times[type_] += costs.transfer(types[before[0]], type_, size)
        times_of_stages.append(times)
        before = stage.processors
    return times_of_stages


def stage_names(plan: NetworkPlan) -> list[str]:
    """The tasks of a planned network: its stages, or itself if it is not cut."""
    if len(plan.stages) == 1:
        return [plan.task]
    return [f"{plan.task}.stage{k}" for k in range(1, len(plan.stages) + 1)]


def sketch(problem: Problem, plans: Iterable[NetworkPlan]) -> Problem:
    """The problem with the networks of the plans cut and pinned."""
    apps = {a.name: a for a in problem.apps}
    pins = dict(problem.pins)
    times = dict(problem.firing_ns)
    repetition = {a: dict(v) for a, v in problem.repetition.items()}
    types = {p: problem.platform.pool_of(p).type for p in problem.platform.processors}
    for plan in plans:
        app = apps[plan.task.partition(".")[0]]
        names = stage_names(plan)
        if len(plan.stages) > 1:
            network = problem.networks[plan.task]
            apps[app.name] = _cut(app, app.task(plan.task), names, _borders(network, plan))
            times.update(zip(names, _stage_ns(network, plan, types), strict=True))
            repetition[app.name].update(dict.fromkeys(names, repetition[app.name][plan.task]))
        for name, stage in zip(names, plan.stages, strict=True):
            pins[name] = Placement(
                name,
                stage.processors,
                stage.streams,
                stage.threads,
                False,
                plan.buffers,
                engine=stage.engine,
                precision=stage.precision,
            )
    kept = tuple(apps[a.name] for a in problem.apps)
    return replace(problem, apps=kept, pins=pins, firing_ns=times, repetition=repetition)


def _borders(network: Divisible, plan: NetworkPlan) -> list[int]:
    """The bytes that cross behind each stage but the last."""
    sizes = dict(network.costs.cuts)
    return [sizes.get(end, 0) for _, end in network.stretches(plan)[:-1]]


def _cut(app: Application, task: Task, names: list[str], borders: list[int]) -> Application:
    """The app with a chain of stages instead of a network: the first stage has its inputs, the last
    one its outputs; so many bytes cross behind the others."""
    first, last = names[0], names[-1]
    crossing = (TensorType("uint8", (size,)) for size in borders)
    input_ = Port("before", "in", None, (1,), False, task.span)
    stages = []
    for name in names:
        inputs = task.inputs if name == first else (input_,)
        if name == last:
            outputs = task.outputs
        else:
            outputs = (Port(LINK, "out", next(crossing), (1,), False, task.span),)
        stages.append(replace(task, name=name, inputs=inputs, outputs=outputs))
    channels = []
    for c in app.channels:
        source = last if c.source == task.name else c.source
        destination = first if c.destination == task.name else c.destination
        channels.append(replace(c, source=source, destination=destination))
    for a, b in pairwise(names):
        channels.append(Channel(f"{a}.{LINK}->{b}.before", a, LINK, b, "before", 0, (), task.span))
    at = app.tasks.index(task)
    tasks = (*app.tasks[:at], *stages, *app.tasks[at + 1 :])
    return replace(app, tasks=tasks, channels=tuple(channels))
