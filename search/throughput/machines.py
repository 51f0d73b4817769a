"""Which machine of several runs what nobody has pinned: the quick rule of a build.

In: a problem without transfers. Out: places for the tasks that have none. A task goes to the machine of the nearest one
that is pinned, by arrows in either direction, so that little crosses; among the cores there to the one with the least
to do, or to its GPU. Without any pin everything is on the first machine.
"""

from __future__ import annotations

import networkx as nx

from ...model.application import Task
from ...model.mapping import Placement
from .accelerate import belongs
from .problem import Problem, scale


def on_machines(problem: Problem) -> dict[str, Placement]:
    """Places for all tasks without a pin."""
    platform = problem.platform
    near = _nearest(problem)
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
        own = [pool for pool in platform.pools if pool.machine == near.get(task.name, platform.machines[0])]
        gpu = next((p for pool in own if pool.kind == "gpu" for p in pool.processors), None)
        if gpu is not None and belongs(task, problem):
            found[task.name] = Placement(task.name, (gpu,))
            continue
        cores = [p for pool in own if pool.kind == "cpu" for p in pool.processors] or problem.cpus
        core = min(cores, key=lambda p: load[p])
        load[core] += work
        found[task.name] = Placement(task.name, (core,))
    return found


def _nearest(problem: Problem) -> dict[str, str]:
    """The machine of the nearest task with a pin, where there is one; of several the one that is declared first."""
    graph = nx.Graph()
    for app in problem.apps:
        graph.add_nodes_from(t.name for t in app.tasks)
        graph.add_edges_from((c.source, c.destination) for c in app.channels)
        graph.add_edges_from((t.name, ("link", t.link.name)) for t in app.tasks if t.link is not None)
    machine_of = problem.platform.machine_of
    machine = {name: machine_of[p.processors[0]] for name, p in problem.pins.items()}
    order = {name: number for number, name in enumerate(problem.platform.machines)}
    found: dict[str, tuple[int, int]] = {}
    for name in sorted((n for n in machine if n in graph), key=lambda n: order[machine[n]]):
        for other, steps in nx.single_source_shortest_path_length(graph, name).items():
            found[other] = min(found.get(other, (steps, order[machine[name]])), (steps, order[machine[name]]))
    return {name: problem.platform.machines[number] for name, (_, number) in found.items() if isinstance(name, str)}
