"""Abstract execution of one iteration: a sequential order of firings, or the tasks that block each
other.

Data moves as token counts only. A consistent graph without deadlock returns to its initial tokens
(Lee and Messerschmitt 1987).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...model.application import Application, Channel, Port
from .contracted import contracted

Time = int | float | Fraction

#: More firings than this in one iteration are not simulated.
MOST_FIRINGS = 2_000_000


@dataclass(frozen=True, slots=True)
class Blocked:
    """A task that cannot go on: it waits for `missing` more tokens on `channel`."""

    task: str
    channel: Channel
    missing: int


@dataclass(frozen=True, slots=True)
class FiringOrder:
    """`firings` are runs (task, count) in sequence; after a deadlock `blocked` has the
    witnesses."""

    firings: tuple[tuple[str, int], ...]
    blocked: tuple[Blocked, ...]


class TooLong(Exception):
    """The iteration has more firings than are simulated; the message says how many."""


def levels(app: Application) -> dict[str, int]:
    """Topological depth of every task, with cycles contracted: sources are 0."""
    return depths((t.name for t in app.tasks), ((c.source, c.destination) for c in app.channels))


def depths(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Topological depth of every task, with cycles contracted: sources are 0."""
    graph = contracted(names, arrows)
    depth: list[int] = []
    for before in graph.before:
        depth.append(max((depth[i] + 1 for i in before), default=0))
    return {name: depth[i] for name, i in graph.home.items()}


def work_ahead(work: Mapping[str, Time], arrows: Iterable[tuple[str, str]]) -> dict[str, Time]:
    """For each task the longest way to the end of an iteration, its own work included; cycles count
    as one task.

    `work` is the time of all firings of an iteration. Sequences in which the task with the longest
    way goes first do not let what an iteration's end waits for wait for other things (Hu's levels,
    as in list scheduling).
    """
    graph = contracted(work, arrows)
    own: list[Time] = [0] * len(graph.components)
    for name, time in work.items():
        own[graph.home[name]] += time
    behind: list[Time] = [0] * len(graph.components)
    for i in reversed(range(len(graph.components))):
        for before in graph.before[i]:
            behind[before] = max(behind[before], own[i] + behind[i])
    return {name: own[i] + behind[i] for name, i in graph.home.items()}


def components(app: Application) -> list[frozenset[str]]:
    """Strongly connected components that hold a cycle (self-loops included), each after all that it
    leads to."""
    arrows = {(c.source, c.destination) for c in app.channels}
    graph = contracted(
        (t.name for t in app.tasks), ((c.source, c.destination) for c in app.channels)
    )
    return [
        component
        for component in reversed(graph.components)
        if len(component) > 1 or any((name, name) in arrows for name in component)
    ]


def iteration_order(
    app: Application,
    vector: Mapping[str, int],
    *,
    upstream_first: bool = False,
    ahead: Mapping[str, Time] | None = None,
    due: Mapping[str, Sequence[Time]] | None = None,
) -> FiringOrder:
    """A sequential order of one iteration, by the times at which firings can begin, where they are
    `due`.

    Downstream first keeps channels and latency short. Upstream first fires each task of an acyclic
    graph all at once: long runs that are short to write down, and larger channels. So does the task
    with the most work `ahead`, if that is given. Raises TooLong.
    """
    total = sum(vector[t.name] for t in app.tasks)
    if total > MOST_FIRINGS:
        raise TooLong(f"one iteration has {total} firings; at most {MOST_FIRINGS} are simulated")
    reads, writes = _ports(app)
    affected = _affected(app)
    tokens = [c.delay for c in app.channels]
    rank = _ranks(app, upstream_first, ahead or {})
    releases = due or {}
    fired = {t.name: 0 for t in app.tasks}

    def ready(name: str) -> bool:
        k = fired[name]
        return k < vector[name] and all(tokens[i] >= p.rate(k) for i, p in reads[name])

    def place(name: str) -> tuple[Time, Time, int, int]:
        times = releases.get(name)
        return (times[fired[name]] if times else 0, *rank[name])

    waiting = [(*place(n), n) for n in fired if ready(n)]
    heapq.heapify(waiting)
    queued = {n for *_, n in waiting}
    sequence: list[tuple[str, int]] = []
    while waiting:
        *_, name = heapq.heappop(waiting)
        queued.discard(name)
        if not ready(name):
            continue
        k = fired[name]
        for i, p in reads[name]:
            tokens[i] -= p.rate(k)
        for i, p in writes[name]:
            tokens[i] += p.rate(k)
        fired[name] += 1
        _append(sequence, name)
        for other in affected[name]:
            if other not in queued and ready(other):
                queued.add(other)
                heapq.heappush(waiting, (*place(other), other))
    if all(fired[t.name] == vector[t.name] for t in app.tasks):
        return FiringOrder(tuple(sequence), ())
    return FiringOrder(tuple(sequence), _blocked(app, tokens, fired, vector))


def _append(sequence: list[tuple[str, int]], name: str) -> None:
    """One more firing at the end of a sequence."""
    if sequence and sequence[-1][0] == name:
        sequence[-1] = (name, sequence[-1][1] + 1)
    else:
        sequence.append((name, 1))


def _affected(app: Application) -> dict[str, set[str]]:
    """For each task those that its firings may make ready: its readers, and itself."""
    affected = {t.name: {t.name} for t in app.tasks}
    for c in app.channels:
        affected[c.source].add(c.destination)
    return affected


def _ranks(
    app: Application, upstream_first: bool, ahead: Mapping[str, Time]
) -> dict[str, tuple[Time, int, int]]:
    """The order of tasks that can fire at once, smallest first."""
    sign = 1 if upstream_first else -1
    depth = levels(app)
    ranks = {}
    for i, task in enumerate(app.tasks):
        ranks[task.name] = -ahead.get(task.name, 0), sign * depth[task.name], i
    return ranks


#: For each task its ports on channels, with the index of the channel.
_Ports = dict[str, list[tuple[int, Port]]]


def _ports(app: Application) -> tuple[_Ports, _Ports]:
    """The inputs and the outputs of each task."""
    tasks = {t.name: t for t in app.tasks}
    reads: _Ports = {name: [] for name in tasks}
    writes: _Ports = {name: [] for name in tasks}
    for i, c in enumerate(app.channels):
        reads[c.destination].append((i, tasks[c.destination].port(c.destination_port)))
        writes[c.source].append((i, tasks[c.source].port(c.source_port)))
    return reads, writes


def _blocked(
    app: Application, tokens: list[int], fired: dict[str, int], vector: Mapping[str, int]
) -> tuple[Blocked, ...]:
    """A cycle of tasks, each waiting for the next one's tokens."""
    tasks = {t.name: t for t in app.tasks}
    waits: dict[str, Blocked] = {}
    for i, c in enumerate(app.channels):
        name = c.destination
        if fired[name] < vector[name] and name not in waits:
            missing = tasks[name].port(c.destination_port).rate(fired[name]) - tokens[i]
            if missing > 0:
                waits[name] = Blocked(name, c, missing)
    name = next(t.name for t in app.tasks if t.name in waits)
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = waits[name].channel.source
    return tuple(waits[n] for n in seen[seen.index(name) :])
