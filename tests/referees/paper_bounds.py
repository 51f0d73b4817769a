"""Equations 4.2, 5.3 and 5.4 of Kim's thesis (ch. 4, and 5.4.2.3), kept under their names to
compare with.

In: a timed system. Out: the response times that the paper's analysis gives, read literally. They
are not safe (each equation's docstring has a counter-example); the bounds that hold are in
response_time.py.

Read literally: a task is analyzed once per processor that it is on, from the source of a group to
its sinks, and the response of a group is the largest sum along a path. A task that fires several
times per iteration is one task of their total time, since the paper's tasks fire once. Jitter comes
from the spread of the responses before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flowc.analysis.timing.system import Refused, Time, TimedGroup, TimedSystem, TimedTask

#: Jitters are iterated so often; a response longer than so many periods is given up.
PATIENCE = 100


def paper_5_3(cost: Time, higher: Iterable[tuple[Time, Time, Time]], limit: Time) -> Time | None:
    """r = C + sum over tasks of higher or equal priority of ceil((r + J) / P) C; None beyond
    `limit`.

    `higher` are (C, P, J). It looks at one activation only. Where the next one can come before the
    first is done, be it that the release jitters or that responses are longer than periods, later
    ones wait for earlier ones: a task alone on its CPU with C = 2, P = 3 and jitter 3 is released
    twice at time 3 and ends at 5 and 7, after 4, not 2. Without jitter: C = 26, P = 70 above C =
    62, P = 100 (Lehoczky 1990) gives 114, the fifth activation takes 118.
    """
    others = list(higher)
    response = cost
    while True:
        new = cost + sum(-(-(response + j) // p) * c for c, p, j in others)
        if new == response:
            return response
        if new > limit:
            return None
        response = new


def paper_5_4(
    period: Time, parts: Sequence[Time], others: Iterable[tuple[Time, Sequence[Time]]]
) -> Time:
    """r = C + sum of B over the other tasks on a FIFO processor, given as (period, times of
    sub-tasks).

    A task of one sub-task comes ceil(P / P') + 1 times; one of several (a pipeline stage) with
    min(own sub-tasks, its sub-tasks that often) of its longest ones. It does not look at the own
    task's earlier activations, nor at more activations of the others than fit between periods: with
    C = 2, P = 3 and jitter 3 alone on a DLA an activation takes 4, not 2; and a task of one
    sub-task with P = 10, jitter 20 and C = 2 comes three times while one of five sub-tasks of 1 and
    P = 10 runs, which so takes 11, not 9.
    """
    total = sum(parts)
    for other, theirs in others:
        times = -(-period // other) + 1
        if len(theirs) == 1:
            total += times * theirs[0]
        else:
            total += sum(sorted(list(theirs) * times, reverse=True)[: len(parts)])
    return total


def paper_4_2(
    period: Time, parts: Sequence[Time], others: Iterable[tuple[Time, Sequence[Time]]], wrap: bool
) -> Time:
    """r = C + sum of B over the other stages on a FIFO GPU, given as (period, times of kernels).

    B is the largest sum of min(own kernels, those of the other stage in ceil(P / P') + 1 of its
    frames) *successive* kernels of it. Read inside of one frame it is not safe: with E = 10 1 1 1
    10 every 43, F = 50 x 3 every 1000, and 3 x 1 every 30 it gives 24 for the last, which takes 33:
    the end of one frame of E is followed by the next one. With `wrap`, kernels of the next frame
    succeed.
    """
    total = sum(parts)
    for other, theirs in others:
        count = min(len(parts), (-(-period // other) + 1) * len(theirs))
        row = (
            list(theirs) * (count // len(theirs) + 2)
            if wrap or count > len(theirs)
            else list(theirs)
        )
        total += max(sum(row[k : k + count]) for k in range(len(row) - count + 1))
    return total


@dataclass(slots=True)
class _Task:
    group: TimedGroup
    task: TimedTask
    before: list[str]
    parts: list[Time]
    jitter: Time = 0
    response: Time = 0


def paper_response_times(system: TimedSystem) -> dict[str, Time | None]:
    """What the paper's analysis says of each group, in ns; None where a response does not converge.

    Raises Refused for groups with cycles, which the paper does not have.
    """
    tasks = {t.task.name: t for g in system.groups for t in _in_order(g)}
    scheduler = {p.name: p.scheduler for p in system.processors}
    on: dict[str, list[_Task]] = {}
    for t in tasks.values():
        on.setdefault(t.task.processor, []).append(t)
    for _ in range(PATIENCE):
        changed = False
        for t in tasks.values():
            rivals = [x for x in on[t.task.processor] if x is not t]
            if scheduler[t.task.processor] == "fifo":
                response = paper_5_4(
                    t.group.period, t.parts, [(x.group.period, x.parts) for x in rivals]
                )
            else:
                higher = [
                    (sum(x.parts), x.group.period, x.jitter)
                    for x in rivals
                    if x.group.priority >= t.group.priority
                ]
                found = paper_5_3(sum(t.parts), higher, PATIENCE * t.group.period)
                if found is None:
                    return dict.fromkeys(g.name for g in system.groups)
                response = found
            spread = [
                tasks[n].jitter
                + tasks[n].response
                - sum(tasks[n].task.bcet) * tasks[n].task.firings
                for n in t.before
            ]
            jitter = max(spread, default=t.group.jitter)
            if (response, jitter) != (t.response, t.jitter):
                t.response, t.jitter, changed = response, jitter, True
        if not changed:
            return {g.name: _longest(g, tasks) for g in system.groups}
    return dict.fromkeys(g.name for g in system.groups)


def _in_order(group: TimedGroup) -> list[_Task]:
    """Tasks after those before them."""
    before: dict[str, list[str]] = {t.name: [] for t in group.tasks}
    for c in group.channels:
        before[c.destination].append(c.source)
    known = {t.name: t for t in group.tasks}
    order: list[str] = []
    while len(order) < len(known):
        ready = [n for n in known if n not in order and all(b in order for b in before[n])]
        if not ready:
            raise Refused([f"`{group.name}` has a cycle"])
        order += ready
    return [
        _Task(group, known[n], before[n], list(known[n].wcet) * known[n].firings) for n in order
    ]


def _longest(group: TimedGroup, tasks: dict[str, _Task]) -> Time:
    longest: dict[str, Time] = {}
    for t in _in_order(group):
        longest[t.task.name] = tasks[t.task.name].response + max(
            (longest[b] for b in t.before), default=0
        )
    return max(longest.values(), default=0)
