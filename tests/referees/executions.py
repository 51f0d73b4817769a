"""Executions of a timed system that look for the worst: the choices, for event_simulator.py.

In: a timed system with workers, and random numbers. Out: runs. Programs end after any number of
iterations, from one to those of more than two hyperperiods: what an end skips makes others earlier.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, lcm

from flowc.analysis.timing.system import TimedBackground, TimedGroup, TimedSystem, TimedTask

from event_simulator import Equals, Run, Time


def hyperperiod(system: TimedSystem) -> int:
    """The time after which all releases repeat."""
    return lcm(*(int(g.period) for g in system.groups))


def hunting_runs(system: TimedSystem, rng: random.Random, per_end: int) -> Iterator[Run]:
    """A long execution with worst cases, and for each app programs that end after each of its
    iterations, so many for each end.
    """
    whole = hyperperiod(system)
    long = {g.name: 4 * whole // int(g.period) for g in system.groups}
    offsets: dict[str, Time] = {g.name: 0 for g in system.groups if g.offset is None}
    worst = {t.name: worst_times(t) for g in system.groups for t in g.tasks}
    latest = [(latency,) for latency in _latencies(system)]
    yield Run(long, worst, offsets=offsets, wakeups=latest)
    for group in system.groups:
        for count in range(1, 2 * whole // int(group.period) + 4):
            for _ in range(per_end):
                iterations = _ends(system, group, count, rng)
                yield random_run(system, iterations, rng)


def every_run(system: TimedSystem, rng: random.Random, most: int) -> Iterator[Run]:
    """All combinations of times 0 and worst case of so many firings at most, again and again.

    Where that is less than 2 ** `most` executions, each in programs of all lengths.
    """
    whole = hyperperiod(system)
    rounds = {g.name: whole // int(g.period) for g in system.groups}
    tasks = [(t, rounds[g.name] * t.firings) for g in system.groups for t in g.tasks]
    firings = sum(count for t, count in tasks if any(t.wcet))
    repeated = max(1, most // max(1, firings))
    slots: list[TimedTask] = []
    for task, count in tasks:
        slots += [task] * (count * repeated if any(task.wcet) else 0)
    bits = min(len(slots), most)
    ends: list[dict[str, int]] = []
    for group in system.groups:
        for count in range(1, 2 * rounds[group.name] + 4):
            ends.append(_ends(system, group, count, rng))
    patterns = list(product((False, True), repeat=bits))
    chosen = list(product(patterns, ends))
    if len(chosen) > 2**most:
        chosen = [(p, ends[n % len(ends)]) for n, p in enumerate(patterns)]
    for pattern, iterations in chosen:
        times: dict[str, list[Time]] = {t.name: [] for t, _ in tasks}
        for n, task in enumerate(slots):
            worst = parts_of(task, len(times[task.name]) // len(task.wcet))
            times[task.name] += worst if pattern[n % bits] else (0,) * len(worst)
        given = {t.name: times[t.name] or worst_times(t) for t, _ in tasks}
        yield replace(random_run(system, iterations, rng), times=given)


def _ends(system: TimedSystem, group: TimedGroup, count: int, rng: random.Random) -> dict[str, int]:
    """The iterations of all apps, where one has so many: others end at the same time, after as many
    iterations, or anywhere.
    """
    way = rng.choice(("same time", "same number", "anywhere"))
    whole = hyperperiod(system)
    iterations = {}
    for other in system.groups:
        if way == "same time":
            iterations[other.name] = ceil(count * group.period / other.period)
        elif way == "same number":
            iterations[other.name] = count
        else:
            iterations[other.name] = rng.randint(1, 2 * whole // int(other.period) + 3)
    return iterations | {group.name: count}


def random_run(system: TimedSystem, iterations: Mapping[str, int], rng: random.Random) -> Run:
    """An execution with so many iterations."""
    mode = rng.choice(("worst", "random", "mixed", "tasks", "tasks", "firings", "firings"))
    times: dict[str, Sequence[Time]] = {}
    late: dict[str, Sequence[Time]] = {}
    offsets: dict[str, Time] = {}
    for group in system.groups:
        count = iterations[group.name]
        for task in group.tasks:
            times[task.name] = _times(task, mode, (count + 1) * task.firings, rng)
        if group.jitter:
            late[group.name] = _lateness(group, count, rng)
        if group.offset is None:
            offsets[group.name] = rng.randrange(int(group.period))
    favorites = list(range(len(system.workers)))
    rng.shuffle(favorites)
    equals: Equals = rng.choice(("first come", "favorite"))
    stop = None
    if rng.random() < 0.1:
        stop = rng.randint(0, int(max(iterations[g.name] * g.period for g in system.groups)))
    exhausted = rng.random() < 0.1
    background = [_endless(b, rng) for b in system.background]
    pauses = [_pauses(b, rng) for b in system.background]
    wakeups = [_wakeups(latency, rng) for latency in _latencies(system)]
    return Run(
        iterations,
        times,
        late,
        offsets,
        equals,
        favorites,
        stop,
        exhausted,
        background,
        pauses,
        wakeups,
    )


def _latencies(system: TimedSystem) -> list[int]:
    """How late each worker wakes up at most; none where none is late."""
    of = {p.name: p.wakeup for p in system.processors}
    return [of[w.processor] for w in system.workers] if any(of.values()) else []


def _wakeups(latency: int, rng: random.Random) -> Sequence[Time]:
    """How late a worker goes on after it has slept: always as late as can be, never late, or
    anything between."""
    mode = rng.choice(("latest", "latest", "never", "any", "any"))
    if mode != "any":
        return (latency if mode == "latest" else 0,)
    count = rng.randint(1, 20)
    return [rng.choice((0, latency, rng.randint(0, latency))) for _ in range(count)]


def _endless(worker: TimedBackground, rng: random.Random) -> Sequence[Time]:
    """Times of a worker in the background: all as long as can be, or from a quarter of that on."""
    longest = max(1, int(worker.longest))
    if rng.random() < 0.5:
        return (longest,)
    return [rng.randint(-(-longest // 4), longest) for _ in range(rng.randint(1, 20))]


def _pauses(worker: TimedBackground, rng: random.Random) -> Sequence[Time]:
    """For how long a worker with a server has nothing to do: never, or now and then."""
    if worker.server is None or rng.random() < 0.4:
        return (0,)
    longest = int(worker.server.period_ns)
    return [rng.choice((0, 0, rng.randint(0, longest))) for _ in range(rng.randint(1, 20))]


def parts_of(task: TimedTask, firing: int) -> tuple[Time, ...]:
    """The worst cases of the sub-tasks of a firing, counted from the first one of the program."""
    return (task.phases[firing % len(task.phases)],) if task.phases else task.wcet


def worst_times(task: TimedTask) -> tuple[Time, ...]:
    """The worst cases of the firings of a task, again and again."""
    return task.phases or task.wcet


def _times(task: TimedTask, mode: str, firings: int, rng: random.Random) -> Sequence[Time]:
    """Times of the sub-tasks of so many firings: worst cases, anything up to them, both, or 0 and
    worst cases by task or by firing.
    """
    if mode == "worst":
        return worst_times(task)
    if mode == "tasks":
        return worst_times(task) if rng.random() < 0.6 else (0,) * len(task.wcet)
    times: list[Time] = []
    for firing in range(firings):
        longest = mode != "random" and rng.random() < 0.5
        for worst in parts_of(task, firing):
            if longest:
                times.append(worst)
            elif mode == "firings":
                times.append(0)
            else:
                times.append(rng.randint(0, int(worst)))
    return times


def _lateness(group: TimedGroup, count: int, rng: random.Random) -> list[Time]:
    """Each release is late by nothing, by all of the jitter or by anything between; or all that can
    come at once at some time.
    """
    jitter, period = int(group.jitter), int(group.period)
    if rng.random() < 0.5:
        return [rng.choice((0, jitter, rng.randint(0, jitter))) for _ in range(count)]
    at_once = rng.randrange(count) * period + jitter
    return [min(jitter, max(0, at_once - n * period)) for n in range(count)]
