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

A worker with a server is above all others: it becomes a group of its own. What n successive periods
of the server admit is at most n budgets and one firing, since the budget is looked at when a firing
begins, and what is too much is taken from the next ones. All firings that others wait for in a busy
window of length t begin in it, and it meets at most ceil(t / period) + 1 periods of the server. So
the group has the jitter of a period, and firings that keep to this curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from ...model.platform import ACCELERATORS
from ...model.server import Server
from ...model.workload import LENGTHS, WorkloadCurve
from .slower import slower
from .system import (
    Refused,
    RoundFiring,
    Time,
    TimedBackground,
    TimedGroup,
    TimedSystem,
    TimedTask,
    TimedWorker,
    workers_of,
)

#: A server keeps no deadline: it is late if its budget takes so many of its periods.
NEVER = 16


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
    system = _with_servers(system)
    busy = {worker.processor for worker in system.background}
    for p in system.processors:
        if p.name in busy and p.kind in ACCELERATORS and p.scheduler != "fifo":
            raise Refused([f"`{p.name}` has a background, and no queue"])
    waits = _waits(system)
    groups = tuple(_waiting(group, waits) for group in system.groups)
    return _contended(replace(system, groups=groups))


def _with_servers(system: TimedSystem) -> TimedSystem:
    """The system with groups for its servers, which have left the background."""
    below = tuple(w for w in system.background if w.server is None)
    above = max((group.priority for group in system.groups), default=0) + 1
    groups, workers = list(system.groups), list(workers_of(system))
    for worker in system.background:
        if worker.server is not None:
            group = _server(worker, worker.server, above)
            groups.append(group)
            firing = RoundFiring(group.name, group.name, 0)
            workers.append(TimedWorker(worker.processor, (firing,)))
    return replace(system, groups=tuple(groups), workers=tuple(workers), background=below)


def _server(worker: TimedBackground, server: Server, priority: int) -> TimedGroup:
    """What others see of a worker with a server."""
    name = f"{worker.app} on {worker.processor}"
    over = ceil(worker.longest)
    curve = WorkloadCurve(tuple(n * server.budget_ns + over for n in LENGTHS))
    task = TimedTask(name, worker.processor, (curve.longest,), curve=curve)
    period = server.period_ns
    return TimedGroup(
        name,
        period,
        (task,),
        deadline=NEVER * period,
        priority=priority,
        jitter=period,
        offset=0,
    )


def _waits(system: TimedSystem) -> dict[str, int]:
    """For how long a sub-task on each FIFO processor waits for those in the background."""
    waits: dict[str, int] = {}
    queues = {p.name for p in system.processors if p.scheduler == "fifo"}
    for worker in system.background:
        if worker.processor in queues:
            waits[worker.processor] = waits.get(worker.processor, 0) + ceil(worker.longest)
    return waits


def _waiting(group: TimedGroup, waits: Mapping[str, int]) -> TimedGroup:
    tasks = tuple(longer(task, waits.get(task.processor, 0)) for task in group.tasks)
    return replace(group, tasks=tasks)


def longer(task: TimedTask, wait: Time) -> TimedTask:
    """The task with sub-tasks that take longer by a wait."""
    if not wait:
        return task
    wcet = tuple(time + wait for time in task.wcet)
    curve = None if task.curve is None else task.curve.longer(ceil(wait * len(wcet)))
    phases = tuple(time + wait for time in task.phases)
    return replace(task, wcet=wcet, curve=curve, phases=phases)


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
