"""The quick rule of a build for tasks without a pin on several machines.

In: a problem without transfers. Out: places for the tasks that have none. A task goes to the
machine of the nearest pinned task, by arrows in either direction, so that few tokens cross; there,
to the least loaded core or to the GPU. Without any pin all tasks are on the first machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx

from ...model.application import Application, Task
from ...model.mapping import Placement
from ...model.platform import Platform
from .accelerate import belongs
from .problem import Problem, scale


def on_machines(problem: Problem) -> dict[str, Placement]:
    """Places for all tasks without a pin."""
    platform = problem.platform
    near = nearest(
        problem.apps, platform, {name: p.processors[0] for name, p in problem.pins.items()}
    )
    load = dict.fromkeys(problem.cpus, 0.0)
    free: list[tuple[float, Task]] = []
    for app in problem.apps:
        for task in app.tasks:
            work = scale(app) * problem.work_ns(app, task)
            if task.name not in problem.pins:
                free.append((work, task))
            elif problem.pins[task.name].processors[0] in load:
                load[problem.pins[task.name].processors[0]] += work
    found = {}
    for work, task in sorted(free, key=lambda pair: -pair[0]):
        own = [
            pool
            for pool in platform.pools
            if pool.machine == near.get(task.name, platform.machines[0])
        ]
        gpu = next((p for pool in own if pool.kind == "gpu" for p in pool.processors), None)
        if gpu is not None and belongs(task, problem):
            found[task.name] = Placement(task.name, (gpu,))
            continue
        cores = [p for pool in own if pool.kind == "cpu" for p in pool.processors] or problem.cpus
        core = min(cores, key=lambda p: load[p])
        load[core] += work
        found[task.name] = Placement(task.name, (core,))
    return found


def nearest(
    apps: Iterable[Application], platform: Platform, pins: Mapping[str, str]
) -> dict[str, str]:
    """The machine of each task: that of the nearest task with a pin; of equally near ones the first
    declared.

    `pins` are the processors of tasks. Tasks that no arrow joins to any of these are missing.
    """
    graph = nx.Graph()
    for app in apps:
        graph.add_nodes_from(t.name for t in app.tasks)
        graph.add_edges_from((c.source, c.destination) for c in app.channels)
        graph.add_edges_from(
            (t.name, ("link", t.link.name)) for t in app.tasks if t.link is not None
        )
    machine_of = platform.machine_of
    order = {name: number for number, name in enumerate(platform.machines)}
    found: dict[str, tuple[int, int]] = {}
    for name in (n for n in pins if n in graph):
        number = order[machine_of[pins[name]]]
        for other, steps in nx.single_source_shortest_path_length(graph, name).items():
            found[other] = min(found.get(other, (steps, number)), (steps, number))
    return {
        name: platform.machines[number]
        for name, (_, number) in found.items()
        if isinstance(name, str)
    }
