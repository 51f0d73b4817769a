"""An execution that exceeds a bound, made as small as it gets, and as text.

In: a timed system, an execution of it (event_simulator.py), and the bounds that flowc gives. Out:
what is exceeded, the smallest system and execution that were found to show it, and Python for both
that can be pasted into a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.system import (
    Refused,
    TimedChannel,
    TimedGroup,
    TimedSystem,
    TimedTask,
    TimedWorker,
)
from flowc.analysis.timing.terms import WorstCases

from event_simulator import Run, Seen, Stuck, Time, play, sources_of

#: So often a smaller failure is looked for.
MOST_TRIES = 3000


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that exceeds a bound: that of an app, or of one of its paths."""

    system: TimedSystem
    run: Run
    app: str
    path: int | None
    seen: Time
    bound: Fraction


def compared(
    seen: Seen, bounds: WorstCases
) -> Iterator[tuple[str, int | None, Time, Fraction | None]]:
    """Each app, and each of its paths, with what was seen and its bound."""
    for app, (time, _) in seen.responses.items():
        yield app, None, time, bounds.groups[app]
    for (app, path), (time, _) in seen.latencies.items():
        yield app, path, time, bounds.paths[app][path]


def failing(system: TimedSystem, run: Run) -> Failure | None:
    """What an execution exceeds, if it does."""
    try:
        bounds = worst_cases(system)
        seen = play(system, run)
    except (Refused, Stuck):
        return None
    for app, path, time, bound in compared(seen, bounds):
        if bound is not None and time > bound:
            return Failure(system, run, app, path, time, bound)
    return None


def smallest(failure: Failure) -> Failure:
    """Leave out and shorten, one thing after the other, as long as some bound is exceeded."""
    tries, smaller = 0, True
    while smaller:
        smaller = False
        for system, run in _smaller(failure.system, failure.run):
            tries += 1
            if tries > MOST_TRIES:
                return failure
            if not _sources(system) <= _sources(failure.system):
                continue
            found = failing(system, run)
            if found is not None:
                failure, smaller = found, True
                break
    return failure


def told(failure: Failure) -> str:
    """A failure as text: what was exceeded, the system and the execution, as Python reads them."""
    system, run = failure.system, failure.run
    what = f"the response of {failure.app}"
    if failure.path is not None:
        path = next(g for g in system.groups if g.name == failure.app).paths[failure.path]
        what = f"the latency of {path.source} -> {path.sink} of {failure.app}"
    seen, bound = float(failure.seen), float(failure.bound)
    head = f"{what} was {seen:g}, and its bound is {bound:g}:"
    return f"{head}\n{python_text(system)}\n{python_text(run)}"


# -- less ------------------------------------------------------------------------------------------
def _sources(system: TimedSystem) -> set[str]:
    return {name for g in system.groups for name in sources_of(g)}


def _smaller(system: TimedSystem, run: Run) -> Iterator[tuple[TimedSystem, Run]]:
    """Systems and executions with one thing less."""
    for group in system.groups:
        if len(system.groups) > 1:
            yield _without(system, run, group.tasks)
    for group in system.groups:
        for task in group.tasks:
            yield _without(system, run, (task,))
    for other in _smaller_systems(system):
        yield other, run
    for easier in _easier_runs(run):
        yield system, easier
    for group in system.groups:
        for task in group.tasks:
            yield from _with_less_work(system, run, task)


def _without(system: TimedSystem, run: Run, tasks: Sequence[TimedTask]) -> tuple[TimedSystem, Run]:
    """Without some tasks."""
    gone = {t.name for t in tasks}
    groups = []
    for group in system.groups:
        for task in tasks:
            if task in group.tasks:
                group = _bridged(group, task)
        if group.tasks:
            groups.append(group)
    workers: list[TimedWorker] = []
    favorites: list[int] = []
    wakeups: list[Sequence[Time]] = []
    for number, w in enumerate(system.workers):
        sequence = tuple(p for p in w.sequence if p.task not in gone)
        if sequence:
            named = {p.group for p in sequence}
            rounds = tuple((g, n) for g, n in w.rounds if g in named)
            workers.append(TimedWorker(w.processor, sequence, rounds))
            favorites += run.favorites[number : number + 1]
            wakeups += run.wakeups[number : number + 1]
    used = {w.processor for w in workers}
    processors = tuple(p for p in system.processors if p.name in used)
    names = {g.name for g in groups}
    less = replace(
        run,
        iterations={name: n for name, n in run.iterations.items() if name in names},
        times={name: times for name, times in run.times.items() if name not in gone},
        favorites=favorites,
        wakeups=wakeups,
    )
    return TimedSystem(tuple(groups), processors, system.slowdowns, tuple(workers)), less


def _bridged(group: TimedGroup, task: TimedTask) -> TimedGroup:
    """Without a task; those that fed it feed those that read it."""
    name = task.name
    firings = {t.name: t.firings for t in group.tasks}
    channels = [c for c in group.channels if name not in (c.source, c.destination)]
    before = [c.source for c in group.channels if c.destination == name != c.source]
    behind = [c.destination for c in group.channels if c.source == name != c.destination]
    for a in before:
        for b in behind:
            total = lcm(firings[a], firings[b])
            channels.append(TimedChannel(a, b, (total // firings[a],), (total // firings[b],)))
    return replace(
        group,
        tasks=tuple(t for t in group.tasks if t is not task),
        channels=tuple(channels),
        paths=tuple(p for p in group.paths if name not in (p.source, p.sink)),
    )


def _smaller_systems(system: TimedSystem) -> Iterator[TimedSystem]:
    """Without a slowdown, a path, a channel, a capacity, jitter or an offset."""
    for slow in system.slowdowns:
        yield replace(system, slowdowns=tuple(s for s in system.slowdowns if s is not slow))
    for number, group in enumerate(system.groups):
        for other in _smaller_groups(group):
            groups = (*system.groups[:number], other, *system.groups[number + 1 :])
            yield replace(system, groups=groups)


def _smaller_groups(group: TimedGroup) -> Iterator[TimedGroup]:
    for path in group.paths:
        yield replace(group, paths=tuple(p for p in group.paths if p is not path))
    if group.deadline is not None:
        yield replace(group, deadline=None)
    if group.jitter:
        yield replace(group, jitter=0)
    if group.offset != 0:
        yield replace(group, offset=0)
    for c in group.channels:
        yield replace(group, channels=tuple(x for x in group.channels if x is not c))
        free = replace(c, capacity=None)
        if free != c:
            channels = tuple(free if x is c else x for x in group.channels)
            yield replace(group, channels=channels)


def _easier_runs(run: Run) -> Iterator[Run]:
    """With fewer iterations, and with choices that are easier to tell."""
    if run.stop is not None:
        yield replace(run, stop=None)
    if run.exhausted:
        yield replace(run, exhausted=False)
    if run.equals != "first come":
        yield replace(run, equals="first come")
    if run.favorites:
        yield replace(run, favorites=())
    if run.wakeups:
        yield replace(run, wakeups=())
    for name, count in run.iterations.items():
        if count > 1:
            yield replace(run, iterations={**run.iterations, name: count - 1})
    for name in run.late:
        yield replace(run, late={k: v for k, v in run.late.items() if k != name})
    for name, times in run.times.items():
        if len(times) > 1:
            yield replace(run, times={**run.times, name: times[:1]})


def _with_less_work(
    system: TimedSystem, run: Run, task: TimedTask
) -> Iterator[tuple[TimedSystem, Run]]:
    """With a shorter worst case of a sub-task, and times that keep to it."""
    if task.phases:
        return
    for part, worst in enumerate(task.wcet):
        for less in (1, int(worst) // 2, int(worst) // 10 * 10, int(worst) - 1):
            if not 0 < less < worst:
                continue
            wcet = (*task.wcet[:part], less, *task.wcet[part + 1 :])
            groups = []
            for g in system.groups:
                tasks = tuple(replace(t, wcet=wcet) if t is task else t for t in g.tasks)
                groups.append(replace(g, tasks=tasks))
            times: list[Time] = list(run.times[task.name])
            for n in range(part, len(times), len(wcet)):
                times[n] = less if times[n] == worst else min(times[n], less)
            shorter = replace(run, times={**run.times, task.name: times})
            yield replace(system, groups=tuple(groups)), shorter


# -- text ------------------------------------------------------------------------------------------
def python_text(value: Any, indent: str = "") -> str:
    """A value in Python, without fields that have their default, in lines that are not too long."""
    begin, end = "(", ")"
    if is_dataclass(value):
        begin = f"{type(value).__name__}("
        shown = [f.name for f in fields(value) if not _has_default(value, f)]
        parts = [(f"{name}=", getattr(value, name)) for name in shown]
    elif isinstance(value, (tuple, list)):
        parts = [("", v) for v in value]
        if len(parts) == 1:
            end = ",)"
    else:
        return repr(value)
    line = begin + ", ".join(name + python_text(v) for name, v in parts) + end
    if len(indent + line) <= 100:
        return line
    inner = indent + "    "
    lines = [f"{inner}{name}{python_text(v, inner)},\n" for name, v in parts]
    return f"{begin}\n{''.join(lines)}{indent})"


def _has_default(value: Any, field: Field[Any]) -> bool:
    default = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return bool(getattr(value, field.name) == default)
