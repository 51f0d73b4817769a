"""The latency of frames in the program of a mapping, which is executed with the times of its tasks.

In: a problem, and the places of its tasks. Out: the median time of a frame from start to end when
the program runs at full speed, with the orders and the capacities that a build writes. A frame
takes longer than its own work, as it waits in channels and for its turn in orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import inf
from statistics import median

from ...analysis.dataflow.graph import Graph, bounded, graph_of
from ...analysis.dataflow.latency import sources_and_sinks
from ...analysis.dataflow.self_timed import self_timed
from ...analysis.dataflow.throughput import without_serial
from ...analysis.dataflow.workers import capacity, tokens_asked_for, workers_of
from ...model.application import Application
from ...model.deployment import DeployedWorker
from ...model.mapping import Placement
from .problem import Problem, speedup

#: Frames that are executed: the latency is that of the second half.
FRAMES = 24
#: An app is not executed if it has more firings in a frame, times its tasks: that takes a tenth of
#: a second.
MOST_STEPS = 4000


def latency_ns(problem: Problem, placement: Mapping[str, Placement]) -> float | None:
    """The median latency of frames; None where they are not executed."""
    found = latencies(problem, placement)
    return median(found) if found else None


def latencies(problem: Problem, placement: Mapping[str, Placement]) -> list[float]:
    """The latencies of some frames in ns. Empty where they are not executed: those of several apps,
    of one that waits for its period or for data from outside, or that is large or cannot run."""
    if len(problem.apps) > 1 or problem.resampled:
        return []
    (app,) = problem.apps
    outside = any(t.live or t.link or t.border for t in app.tasks)
    large = len(app.tasks) * sum(problem.repetition[app.name].values()) > MOST_STEPS
    if app.period_ns is not None or outside or large:
        return []
    times = _times(problem, placement, app)
    if max(times.values()) == inf:
        return []
    lanes = {name: place.lanes for name, place in placement.items()}
    made = workers_of([app], problem.platform, lanes, problem.repetition, {})
    graph = graph_of(
        app,
        problem.repetition[app.name],
        {name: (Fraction(round(ns)),) for name, ns in times.items()},
    )
    index = {name: i for i, name in enumerate(graph.names)}
    shared = [index[t.name] for t in app.tasks if len(lanes[t.name]) > 1]
    rooms = {}
    for number, channel in enumerate(app.channels):
        buffers = max(placement[t].buffers or 0 for t in (channel.source, channel.destination))
        asked_for = tokens_asked_for(app, channel, buffers, problem.repetition[app.name])
        rooms[number] = capacity(app, channel, made.capacities[channel.name], asked_for)
    graph = without_serial(bounded(graph, rooms), shared)
    return _latencies(graph, [_order(graph, index, worker) for worker in made.workers])


def _times(
    problem: Problem, placement: Mapping[str, Placement], app: Application
) -> dict[str, float]:
    """The mean time of a firing of each task at its place; infinite if it cannot run there."""
    times = {}
    for task in app.tasks:
        place = placement[task.name]
        known = problem.firing_ns[task.name]
        types = [problem.platform.pool_of(p).type for p in place.processors]
        slowest = max(known.get(type_, max(known.values())) for type_ in types)
        times[task.name] = slowest / speedup(place.threads)
    return times


def _order(graph: Graph, index: Mapping[str, int], worker: DeployedWorker) -> list[tuple[int, int]]:
    """The firings of a worker, one after the other."""
    order: list[tuple[int, int]] = []
    for n in range(FRAMES + max(entry.stage for entry in worker.order)):
        for entry in worker.order:
            task, frame = index[entry.task], n - entry.stage
            replica, replicas = entry.replica
            if 0 <= frame < FRAMES and frame % replicas == replica:
                first = frame * graph.firings[task] + entry.first
                order += ((task, first + k) for k in range(entry.times))
    return order


def _latencies(graph: Graph, orders: list[list[tuple[int, int]]]) -> list[float]:
    """The latencies of the second half of the frames; none where they do not end."""
    sources, sinks = sources_and_sinks(graph)
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for firing in self_timed(graph, FRAMES, orders):
        frame = firing.index // graph.firings[firing.task]
        if firing.task in sources:
            starts[frame] = min(firing.start, starts.get(frame, firing.start))
        if firing.task in sinks:
            ends[frame] = max(firing.end, ends.get(frame, 0))
    if len(ends) < FRAMES:
        return []
    return [float(graph.ns(ends[n] - starts[n])) for n in range(FRAMES // 2, FRAMES)]
