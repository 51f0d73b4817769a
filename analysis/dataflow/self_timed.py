"""Self-timed execution, firing by firing: what happens when every task starts as soon as it can.

In: a graph with its capacities, and who shares a processor. Out: the firings with their start and
end. It draws Gantt charts, and bounds of other analyses are held against it.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .graph import Graph


@dataclass(frozen=True, slots=True)
class TimedFiring:
    """Firing `index` (from 0) of `task`, from `start` to `end` in the graph's unit of time.

    `processor` is an index into the orders, -1 for a task in none of them.
    """

    task: int
    index: int
    processor: int
    start: int
    end: int


def self_timed(
    graph: Graph,
    iterations: int,
    orders: Sequence[Sequence[tuple[int, int]]] = (),
    releases: Mapping[int, Sequence[int]] | None = None,
) -> list[TimedFiring]:
    """The firings of some iterations, by start.

    `orders` are processors: the firings (task, index) of each, one after the other, over all
    iterations; tasks in none of them start as soon as they can. `releases` are the earliest starts
    of a task's firings. Ends early when nothing moves any more (a deadlock).
    """
    count = len(graph.names)
    goal = [n * iterations for n in graph.firings]
    tokens = [e.tokens for e in graph.edges]
    into, out = _edges_of_tasks(graph)
    places = _processors_of_tasks(count, orders)
    turn = [0] * len(orders)
    free = [True] * len(orders)
    begun = [0] * count
    done: list[TimedFiring] = []
    ends: list[tuple[int, int, int, int]] = []
    wakeups: set[int] = set()
    now = 0

    def processor_for(t: int) -> int | None:
        """The processor whose turn the task's next firing is; -1 when it needs none."""
        if not places[t]:
            return -1
        firing = (t, begun[t])
        for p in places[t]:
            if free[p] and turn[p] < len(orders[p]) and orders[p][turn[p]] == firing:
                return p
        return None

    def start(t: int) -> bool:
        if begun[t] >= goal[t]:
            return False
        if releases is not None and t in releases and releases[t][begun[t]] > now:
            wakeups.add(releases[t][begun[t]])
            return False
        phase = begun[t] % graph.phases[t]
        p = processor_for(t)
        if p is None or any(tokens[i] < graph.edges[i].consumed[phase] for i in into[t]):
            return False
        for i in into[t]:
            tokens[i] -= graph.edges[i].consumed[phase]
        end = now + graph.times[t][phase]
        done.append(TimedFiring(t, begun[t], p, now, end))
        heapq.heappush(ends, (end, t, begun[t], p))
        begun[t] += 1
        if p >= 0:
            free[p] = False
        return True

    while True:
        moved = True
        while moved:
            moved = False
            while ends and ends[0][0] == now:
                _, t, index, p = heapq.heappop(ends)
                for i in out[t]:
                    tokens[i] += graph.edges[i].produced[index % graph.phases[t]]
                if p >= 0:
                    free[p] = True
                    turn[p] += 1
                moved = True
            for t in range(count):
                while start(t):
                    moved = True
        wakeups = {w for w in wakeups if w > now}
        following = set(wakeups)
        if ends:
            following.add(ends[0][0])
        if not following:
            return done
        now = min(following)


def _edges_of_tasks(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """The edges into and out of each task."""
    into: list[list[int]] = [[] for _ in graph.names]
    out: list[list[int]] = [[] for _ in graph.names]
    for i, e in enumerate(graph.edges):
        into[e.destination].append(i)
        out[e.source].append(i)
    return into, out


def _processors_of_tasks(
    count: int, orders: Sequence[Sequence[tuple[int, int]]]
) -> list[list[int]]:
    """The processors whose orders have firings of each task."""
    places: list[list[int]] = [[] for _ in range(count)]
    for p, order in enumerate(orders):
        for task in {task for task, _ in order}:
            places[task].append(p)
    return places
