"""Wake-up latencies: a worker that has slept goes on late.

In: a timed system whose processors say by how much. Out: the same, with what that costs where work
goes on without its worker.

A worker sleeps before a firing that is not released yet, has not all of its data or no room, and it
is woken by the last of these. So the firing is at hand up to the latency later: its *arrival* is
late, once for all that the worker fires without sleeping again (`FixedPoint.arrival`). In between
the processor serves others, so that rivals see it as a jitter, and not as work. A firing behind
another one of the same worker, which never has to wait, is not late.

What runs on another processor than a CPU, such as a GPU or a link, is begun and waited for by a
thread on a CPU. This one sleeps while it runs: its end is late as well, by the same latency, once
for each firing. Sub-tasks in between are at hand all at once.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from .system import Time, TimedGroup, TimedSystem, TimedTask


def with_late_ends(system: TimedSystem) -> TimedSystem:
    """The system with firings that take longer by as much as their workers may know it late."""
    late = {p.name: p.late_end for p in system.processors if p.late_end}
    if not late:
        return system

    def later(group: TimedGroup) -> TimedGroup:
        tasks = tuple(longer(task, late.get(task.processor, 0)) for task in group.tasks)
        return replace(group, tasks=tasks)

    return replace(system, groups=tuple(later(group) for group in system.groups))


def longer(task: TimedTask, late: Time) -> TimedTask:
    """The task with firings that take longer by so much, in their last sub-task."""
    if not late:
        return task
    curve = None if task.curve is None else task.curve.longer(ceil(late))
    return replace(
        task,
        wcet=(*task.wcet[:-1], task.wcet[-1] + late),
        curve=curve,
        phases=tuple(time + late for time in task.phases),
    )
