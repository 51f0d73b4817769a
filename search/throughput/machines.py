"""The quick rule of a build for tasks without a pin on several machines.

In: a problem without transfers. Out: places for the tasks without a pin. A task is placed on the
machine of the nearest pinned task, by channels in either direction, so that few tokens cross
machines; there, on the core with the least load or on the GPU. Without any pin all tasks are on the
first machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from ...model.application import Application, Task
from ...model.mapping import Placement
from ...model.platform import Platform
from .accelerate import belongs
from .problem import Problem, scale

if TYPE_CHECKING:
    import networkx as nx


def on_machines(problem: Problem) -> dict[str, Placement]:
    """Places for all tasks without a pin."""
    pinned = {name: place.processors[0] for name, place in problem.pins.items()}
    machine_of = nearest(problem.apps, problem.platform, pinned)
    load = dict.fromkeys(problem.cpus, 0.0)
    free: list[tuple[float, Task]] = []
    for app, task in problem.tasks:
        work = scale(app) * problem.work_ns(app, task)
        if task.name not in pinned:
            free.append((work, task))
        elif pinned[task.name] in load:
            load[pinned[task.name]] += work
    places = {}
    for work, task in sorted(free, key=lambda pair: -pair[0]):
        machine = machine_of.get(task.name, problem.platform.machines[0])
        gpus = _processors(problem.platform, machine, "gpu")
        if gpus and belongs(task, problem):
            places[task.name] = Placement(task.name, (gpus[0],))
            continue
        cores = _processors(problem.platform, machine, "cpu") or problem.cpus
        core = min(cores, key=lambda p: load[p])
        load[core] += work
        places[task.name] = Placement(task.name, (core,))
    return places


def _processors(platform: Platform, machine: str, kind: str) -> tuple[str, ...]:
    """The processors of a kind on a machine."""
    pools = [pool for pool in platform.pools if (pool.machine, pool.kind) == (machine, kind)]
    return tuple(chain.from_iterable(pool.processors for pool in pools))


def nearest(
    apps: Iterable[Application], platform: Platform, pins: Mapping[str, str]
) -> dict[str, str]:
    """The machine of each task: that of the nearest task with a pin; of equally near machines the
    first declared.

    `pins` are the processors of tasks. Tasks that no channel joins to any of these are missing.
    """
    import networkx as nx  # importing it is slow

    graph = _connections(apps)
    machine_of = platform.machine_of
    number_of = {name: number for number, name in enumerate(platform.machines)}
    least: dict[str | tuple[str, str], tuple[int, int]] = {}
    for pinned, processor in pins.items():
        if pinned not in graph:
            continue
        number = number_of[machine_of[processor]]
        for other, steps in nx.single_source_shortest_path_length(graph, pinned).items():
            least[other] = min(least.get(other, (steps, number)), (steps, number))
    tasks = {node: number for node, (_, number) in least.items() if isinstance(node, str)}
    return {task: platform.machines[number] for task, number in tasks.items()}


def _connections(apps: Iterable[Application]) -> nx.Graph:
    """Tasks, joined by channels, and links between apps: these nodes are pairs."""
    import networkx as nx

    graph = nx.Graph()
    for app in apps:
        graph.add_nodes_from(task.name for task in app.tasks)
        graph.add_edges_from((c.source, c.destination) for c in app.channels)
        for task in app.tasks:
            if task.link is not None:
                graph.add_edge(task.name, ("link", task.link.name))
    return graph
