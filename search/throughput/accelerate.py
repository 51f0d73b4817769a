"""The quick rule of a build for tasks on a GPU without a mapping; `flowc map` finds better ones.

A task goes to the GPU if it has no code for a CPU, or is faster there by its times; if no time on
the GPU is known, kernels and networks go there.
"""

from __future__ import annotations

from ...model.application import Task
from ...model.mapping import Placement
from ...targets.fitness import unfit_for
from .problem import Problem


def on_gpu(problem: Problem, *, networks: bool = True) -> dict[str, Placement]:
    """Places for tasks without a pin that run on the first GPU of the platform, including
    `networks`.
    """
    gpu = next(
        (p for pool in problem.platform.pools if pool.kind == "gpu" for p in pool.processors), None
    )
    if gpu is None:
        return {}
    tasks = (t for a in problem.apps for t in a.tasks if t.name not in problem.pins)
    return {
        t.name: Placement(t.name, (gpu,))
        for t in tasks
        if (networks or not t.network) and belongs(t, problem)
    }


def belongs(task: Task, problem: Problem) -> bool:
    """True if a task should run on the GPU."""
    able = task.network is not None or any(i.kind == "gpu" for i in task.implementations)
    if not able or unfit_for(task, "gpu", problem.platform) is not None:
        return False
    if task.network is None and not any(i.kind == "cpu" for i in task.implementations):
        return True
    times = problem.firing_ns[task.name]
    return "gpu" not in times or times["gpu"] < times.get("cpu", float("inf"))
