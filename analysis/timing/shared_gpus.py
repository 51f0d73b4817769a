"""GPUs that several apps share, by the priorities of their streams or in slices of time.

In: a timed system. Out: one whose processors are FIFO queues, or have priorities and preempt, and
whose bounds hold for both.

`priority`: a kernel that runs is not interrupted; at its end the most urgent one that is ready goes
on. The next kernel of a firing may be at hand a moment late, so that a less urgent one slips in. In
a time in which the processor has work of some rank, each slip is followed by a kernel of that rank
or of one above, and each of these comes behind one slip at most. So no execution takes longer than
with preemption, where every kernel is longer by the longest one below that rank: those of the rank
by the longest one below it, and for these the ones above it by no more. So a task has its `slip`,
which is less for its rivals of lower ranks (after deferred
preemption: Bril, Lukkien and Verhaegh, "Worst-case response time analysis of real-time tasks under
fixed-priority scheduling with deferred preemption", 2009). The window of busy_window.py then holds:
it asks only that the processor serves nothing else while it lasts.

`time_slice`: each worker is a process, and they take turns of at most a slice (round robin: Racu,
Li, Henia, Hamann and Ernst, "Improved response time analysis of tasks scheduled under preemptive
round-robin", 2007). That is a FIFO queue of pieces: a worker has one piece in it. A firing of `C`
in kernels `k` takes at most the sum of ceil(k / slice) turns, if each kernel begins one, and its
turns are as long as if all kernels follow at once. Every turn costs a switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from ...model.platform import TimeSlice
from .background import longer
from .system import Time, TimedGroup, TimedProcessor, TimedSystem, TimedTask


def with_shared_gpus(system: TimedSystem) -> TimedSystem:
    """The system with queues and preemption in place of slices and of what is not interrupted."""
    return _with_slips(in_slices(system))


# -- slices of time --------------------------------------------------------------------------------
def in_slices(system: TimedSystem) -> TimedSystem:
    """The system with queues of pieces in place of slices."""
    slices = {p.name: p.slice for p in system.processors if p.slice is not None}
    if not slices:
        return system

    def cut(group: TimedGroup, task: TimedTask) -> TimedTask:
        turn = slices.get(task.processor)
        return task if turn is None else _in_pieces(task, turn)

    background = []
    for worker in system.background:
        turn = slices.get(worker.processor)
        if turn is not None:
            longest = min(worker.longest, turn.length_ns) + turn.switch_ns
            worker = replace(worker, longest=longest)
        background.append(worker)
    changed = _with_tasks(system, cut)
    return replace(
        changed,
        processors=tuple(_queue(p) if p.name in slices else p for p in system.processors),
        background=tuple(background),
    )


def _queue(processor: TimedProcessor) -> TimedProcessor:
    return replace(processor, scheduler="fifo", slice=None)


def _in_pieces(task: TimedTask, turn: TimeSlice) -> TimedTask:
    """The task with its turns as sub-tasks, the whole ones first."""
    turns = sum(max(1, ceil(kernel / turn.length_ns)) for kernel in task.wcet)
    whole, rest = divmod(task.cost, turn.length_ns)
    used = [turn.length_ns] * int(whole) + ([rest] if rest else [])
    pieces = [ns + turn.switch_ns for ns in used] + [turn.switch_ns] * (turns - len(used))
    curve = None if task.curve is None else task.curve.longer(turns * turn.switch_ns)
    # what a firing takes at least is not known by piece
    return replace(task, wcet=tuple(pieces), bcet=(), curve=curve, phases=())


# -- kernels that are not interrupted --------------------------------------------------------------
def _with_slips(system: TimedSystem) -> TimedSystem:
    """The system with preemption, and kernels that are longer by what may slip in before them."""
    names = {p.name for p in system.processors if p.scheduler == "priority"}
    if not names:
        return system
    below: dict[str, Time] = dict.fromkeys(names, 0)
    for worker in system.background:
        if worker.processor in names:
            below[worker.processor] = max(below[worker.processor], worker.longest)
    kernels: dict[str, list[tuple[int, Time]]] = {name: [] for name in names}
    for group in system.groups:
        for task in group.tasks:
            if task.processor in names:
                kernels[task.processor].append((group.priority, max(_parts(task))))

    def with_slip(group: TimedGroup, task: TimedTask) -> TimedTask:
        if task.processor not in names:
            return task
        lower = (ns for rank, ns in kernels[task.processor] if rank < group.priority)
        always = below[task.processor]
        longest = max(always, max(lower, default=0))
        # what always has a kernel at hand slips in before each one, whatever the rank
        return replace(longer(task, longest), slip=0 if always else longest)

    changed = _with_tasks(system, with_slip)
    return replace(
        changed,
        processors=tuple(
            replace(p, scheduler="fixed_priority") if p.name in names else p
            for p in system.processors
        ),
        background=tuple(w for w in system.background if w.processor not in names),
    )


def _parts(task: TimedTask) -> tuple[Time, ...]:
    """The times of all sub-tasks, of any phase."""
    return task.phases or task.wcet


def _with_tasks(
    system: TimedSystem, change: Callable[[TimedGroup, TimedTask], TimedTask]
) -> TimedSystem:
    groups = tuple(
        replace(group, tasks=tuple(change(group, task) for task in group.tasks))
        for group in system.groups
    )
    return replace(system, groups=groups)
