"""Workers of a group that follow each other, as one worker.

In: a timed system. Out: the same, where the workers of a group that data from outside release are
one worker on each CPU.

What waits for data from outside does so in a worker of its own, so that older iterations do not
wait with it. Where the firings of an iteration on a CPU can come in one order only, the CPU is
never idle for them from the arrival of the first to the end of the last: a rival delays all of them
together, and not each of their workers. What one worker cannot show is that a worker in front
already works for the next iterations that overlap with an older one: so often the work of all
workers in front counts on top of each firing behind them. How many overlap is a matter of the
bounds: their solution says it. A worker that sleeps until the one in front has ended is late by its
wake-up, which counts as work as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from .system import (
    RoundFiring,
    Time,
    TimedGroup,
    TimedProcessor,
    TimedSystem,
    TimedWorker,
    faults,
    needs,
    workers_of,
)
from .wakeup import longer

#: Workers of a group whose iterations overlap more are not joined.
MOST_OVERLAP = 4

#: A firing of an iteration: its task and its number.
_Firing = tuple[str, int]


def joined(system: TimedSystem, overlaps: Mapping[str, int]) -> tuple[TimedSystem, tuple[str, ...]]:
    """The system with joined workers, and the groups of which some are. Of each group so many
    iterations may overlap with an older one. Workers that may be joined are not behind each other
    any more, also where none follow each other: then times count from actual releases."""
    outside = {g.name for g in system.groups if g.offset is None or g.trigger is not None}
    if not outside or faults(system):
        return system, ()
    workers = list(workers_of(system))
    names = []
    groups = []
    for group in system.groups:
        overlap = overlaps.get(group.name, 0)
        own = [w for w in workers if any(p.group == group.name for p in w.sequence)]
        if group.name in outside and _can_be_joined(group, own, overlap):
            group, joint = _joined(group, own, overlap, system.processors)
            workers = [w for w in workers if w not in own] + joint
            if len(joint) < len(own):
                names.append(group.name)
        groups.append(group)
    return replace(system, groups=tuple(groups), workers=tuple(workers)), tuple(names)


def _can_be_joined(group: TimedGroup, workers: Sequence[TimedWorker], overlap: int) -> bool:
    """May workers of a group be one where they follow each other?"""
    return overlap <= MOST_OVERLAP and not _begins_ahead(group) and _plain(workers)


def _joined(
    group: TimedGroup,
    workers: Sequence[TimedWorker],
    overlap: int,
    processors: Iterable[TimedProcessor],
) -> tuple[TimedGroup, list[TimedWorker]]:
    """The group with the times of joined workers, and all of its workers."""
    workers = [_at_first_stage(worker) for worker in workers]
    before = _before(group, workers)
    found: list[TimedWorker] = []
    for processor in processors:
        here = [w for w in workers if w.processor == processor.name]
        sequence = _in_turn([p for w in here for p in w.sequence], before)
        if len(here) < 2 or processor.scheduler == "fifo" or not sequence:
            found += here
            continue
        here = sorted(here, key=lambda w: sequence.index(w.sequence[0]))
        found.append(TimedWorker(processor.name, sequence, ((group.name, 1),)))
        group = _overlapping(group, here, overlap, processor.wakeup)
    return group, found


def _overlapping(
    group: TimedGroup, workers: Sequence[TimedWorker], overlap: int, wakeup: int
) -> TimedGroup:
    """The group where the tasks of each worker take as much longer as the workers in front of it
    take for the iterations that overlap, and the first one by a wake-up more."""
    plain = {task.name: task for task in group.tasks}
    tasks = dict(plain)
    work: Time = 0
    for before, worker in pairwise(workers):
        work += sum(sum(plain[p.task].parts(p.firing)) for p in before.sequence)
        first = worker.sequence[0].task
        for name in dict.fromkeys(place.task for place in worker.sequence):
            more = overlap * work + (wakeup if name == first else 0)
            tasks[name] = longer(tasks[name], more)
    return replace(group, tasks=tuple(tasks.values()))


def _begins_ahead(group: TimedGroup) -> bool:
    """Do initial tokens let a task work before what comes first in the order of data?"""
    return any(c.delay for c in group.channels if c.source != c.destination)


def _plain(workers: Iterable[TimedWorker]) -> bool:
    """Has a round of each worker one iteration of one group, all of it equally far behind?"""
    for worker in workers:
        alike = len({(place.group, place.stage) for place in worker.sequence}) == 1
        if not alike or any(p.index for p in worker.sequence):
            return False
        if any(count > 1 for _, count in worker.rounds):
            return False
    return True


def _at_first_stage(worker: TimedWorker) -> TimedWorker:
    """A worker that is not behind: apart from others that makes no difference."""
    return replace(worker, sequence=tuple(replace(p, stage=0) for p in worker.sequence))


def _before(group: TimedGroup, workers: Iterable[TimedWorker]) -> dict[_Firing, set[_Firing]]:
    """For each firing those of its iteration that have to end before it may start."""
    direct: dict[_Firing, set[_Firing]] = {}
    for firing, wanted in needs(group).items():
        direct[firing] = {(need.task, need.firing) for need in wanted if not need.lag}
    for worker in workers:
        places = [(place.task, place.firing) for place in worker.sequence]
        for earlier, later in pairwise(places):
            direct[later].add(earlier)
    found: dict[_Firing, set[_Firing]] = {}
    for firing in direct:
        reached: set[_Firing] = set()
        todo = [firing]
        while todo:
            more = direct[todo.pop()] - reached
            reached |= more
            todo += more
        found[firing] = reached
    return found


def _in_turn(
    places: Sequence[RoundFiring], before: Mapping[_Firing, set[_Firing]]
) -> tuple[RoundFiring, ...]:
    """The firings in the one order in which they can come; empty where there are several."""
    order = sorted(places, key=lambda place: len(before[place.task, place.firing]))
    for earlier, later in pairwise(order):
        if (earlier.task, earlier.firing) not in before[later.task, later.firing]:
            return ()
    return tuple(order)
