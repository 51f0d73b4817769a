"""Work in the background: what it costs those that have deadlines.

In: a timed system with workers in the background, which always have something to do. Out: the same
system without them, whose bounds hold for both. Where threads have priorities, work in the
background waits for everything else and costs nothing. What is left:

- A FIFO processor knows no priorities. A worker has one sub-task in the queue, so that each
  sub-task of a group waits for at most one of every worker in the background: its worst case grows
  by the longest of each. These are charged to the sub-task that is served next, which has been
  there since before the one in the background began, or came while it ran. So what is left is a
  FIFO queue of longer sub-tasks.
- Contention: where a worker in the background is on a processor that slows others down, it always
  does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from .slower import slower
from .system import Refused, TimedGroup, TimedSystem, TimedTask


def without_background(system: TimedSystem) -> TimedSystem:
    """The system alone, with times that cover what its background costs.

    Raises Refused where nothing can be below others: without a processor, or on a GPU or DLA that
    has no queue.
    """
    if not system.background:
        return system
    known = {p.name for p in system.processors}
    lost = [w.processor for w in system.background if w.processor not in known]
    if lost:
        raise Refused([f"`{name}` has a background, and is no processor" for name in lost])
    busy = {worker.processor for worker in system.background}
    for p in system.processors:
        if p.name in busy and p.kind in ("gpu", "dla") and p.scheduler != "fifo":
            raise Refused([f"`{p.name}` has a background, and no queue"])
    waits = _waits(system)
    groups = tuple(_waiting(group, waits) for group in system.groups)
    return _contended(replace(system, groups=groups))


def _waits(system: TimedSystem) -> dict[str, int]:
    """For how long a sub-task on each FIFO processor waits for those in the background."""
    waits: dict[str, int] = {}
    queues = {p.name for p in system.processors if p.scheduler == "fifo"}
    for worker in system.background:
        if worker.processor in queues:
            waits[worker.processor] = waits.get(worker.processor, 0) + ceil(worker.longest)
    return waits


def _waiting(group: TimedGroup, waits: Mapping[str, int]) -> TimedGroup:
    tasks = tuple(_longer(task, waits.get(task.processor, 0)) for task in group.tasks)
    return replace(group, tasks=tasks)


def _longer(task: TimedTask, wait: int) -> TimedTask:
    """The task with sub-tasks that take longer by a wait."""
    if not wait:
        return task
    wcet = tuple(time + wait for time in task.wcet)
    curve = None if task.curve is None else task.curve.longer(wait * len(wcet))
    return replace(task, wcet=wcet, curve=curve)


def _contended(system: TimedSystem) -> TimedSystem:
    """The system with all slowdowns that the background causes in its times."""
    busy = {worker.processor for worker in system.background}
    factors = {p.name: Fraction(1) for p in system.processors}
    left = []
    for slow in system.slowdowns:
        if any(p.is_of(slow.aggressor) for p in system.processors if p.name in busy):
            for p in system.processors:
                if p.is_of(slow.victim):
                    factors[p.name] *= slow.factor
        else:
            left.append(slow)
    alone = replace(system, background=(), slowdowns=tuple(left))
    return slower(alone, factors)
