"""The quick rule of a build for tasks on a GPU without a mapping; `flowc map` finds better ones.

A task is on the GPU if it has no code for a CPU, or if its time is shorter there. Kernels and
networks without a known time on the GPU are there as well.
"""

from __future__ import annotations

from math import inf

from ...model.application import Task
from ...model.mapping import Placement
from ...targets.fitness import unfit_for
from .problem import Problem


def on_gpu(problem: Problem, *, networks: bool = True) -> dict[str, Placement]:
    """Places for the tasks without a pin that run on the first GPU of the platform; `networks`:
    also for networks."""
    gpus = tuple(
        p for pool in problem.platform.pools if pool.kind == "gpu" for p in pool.processors
    )
    places: dict[str, Placement] = {}
    for _, task in problem.tasks:
        if not gpus or task.name in problem.pins or (task.network and not networks):
            continue
        if belongs(task, problem):
            places[task.name] = Placement(task.name, gpus[:1])
    return places


def belongs(task: Task, problem: Problem) -> bool:
    """True if a task should run on the GPU."""
    able = task.network is not None or any(i.kind == "gpu" for i in task.implementations)
    if not able or unfit_for(task, "gpu", problem.platform) is not None:
        return False
    if task.network is None and not any(i.kind == "cpu" for i in task.implementations):
        return True
    times = problem.firing_ns[task.name]
    kinds = problem.platform.kinds
    on_gpu = [ns for type_, ns in times.items() if kinds.get(type_) == "gpu"]
    on_cpu = [ns for type_, ns in times.items() if kinds.get(type_) == "cpu"]
    return not on_gpu or min(on_gpu) < min(on_cpu, default=inf)
