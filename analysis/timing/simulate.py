"""Discrete-event simulation of a mapped system: what one execution looks like.

In: a timed system and the choices that the bounds leave open (offsets, lateness of releases,
execution times, who goes first among equals). Out: the largest response times that were seen, and
the slices of time that processors spent, for Gantt charts. It knows nothing of the bounds: tokens,
space, queues and preemption are played through one by one.

An event loop of its own, because preemption and contention change how long running work still
takes: between two events every processor works at a constant speed, so it is enough to look for the
nearest end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from .shared_gpus import in_slices
from .system import (
    RoundFiring,
    Time,
    TimedGroup,
    TimedSystem,
    TimedTask,
    TimedWorker,
    in_order_of_release,
    per_iteration,
    sinks,
    sources,
    workers_of,
)

Execution = Literal["worst", "best", "random", "extreme"]
Lateness = Literal["none", "random", "first"]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the bounds leave open, for one execution.

    `offsets` are for groups that have none of their own; of groups that share static orders they
    have to be equal. `execution`: all worst, all best, anything between, or each one of both; so
    are threads late that wake up.
    `lateness` of releases: none, random up to the jitter, or all of it at the first one, which the
    next ones follow as soon as they can. Among equals the one that came first runs, or a random one
    when `shuffle`; a group `against` which all is decided goes last. `times` has the execution
    times of some tasks' firings, in turn and again from the start. At the time `asked` a change of
    state is asked for: as soon as every group has begun an iteration, none is released any more,
    and those that were, or have begun before their release, end.
    """

    offsets: Mapping[str, Time] = field(default_factory=dict)
    execution: Execution = "worst"
    lateness: Lateness = "none"
    shuffle: bool = False
    against: str | None = None
    times: Mapping[str, Sequence[Time]] = field(default_factory=dict)
    asked: Time | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A processor worked on a firing from `start` to `end`."""

    processor: str
    group: str
    task: str
    iteration: int
    firing: int
    start: Time
    end: Time


@dataclass(frozen=True, slots=True)
class Observed:
    """Largest responses seen, in ns: of groups from the release, of tasks from when they had data,
    room and release (firings of phases that need none of these aside).

    `ends` is the latest end of a task's firings after the release of their iteration, `paths` the
    longest latency of each path by source and sink. `activations` are, if kept, the times at which
    each task was activated. `slices` is empty unless asked for. `over` is when the last firing
    ended, and `first` when every group had ended its first iteration, firings that no sink waits
    for included.
    """

    groups: dict[str, Time]
    tasks: dict[str, Time]
    ends: dict[str, Time]
    paths: dict[tuple[str, str], Time]
    activations: dict[str, list[Time]]
    slices: tuple[Slice, ...]
    over: Time = 0
    first: Time = 0


class _Channel:
    """Tokens that are there, the space that is left, and when each of them came."""

    __slots__ = ("consumed", "filled", "free", "freed_at", "made_at", "produced", "taken", "used")

    def __init__(
        self, produced: tuple[int, ...], consumed: tuple[int, ...], delay: int, capacity: int | None
    ) -> None:
        self.produced, self.consumed = produced, consumed
        self.filled = delay
        self.free = None if capacity is None else capacity - delay
        self.made_at: list[Time] = [0] * delay
        self.freed_at: list[Time] = [0] * (self.free or 0)
        self.taken = self.used = 0


class _Task:
    """A task while it runs: its channels, the paths that end with it, and how often it has
    fired."""

    __slots__ = ("bcet", "fired", "group", "inputs", "outputs", "paths", "sink", "source", "task")

    def __init__(self, group: _Group, task: TimedTask) -> None:
        self.group, self.task = group, task
        self.bcet = task.bcet or (0,) * len(task.wcet)
        self.inputs: list[_Channel] = []
        self.outputs: list[_Channel] = []
        self.paths = [p for p in group.group.paths if p.sink == task.name]
        self.source = self.sink = False
        self.fired = 0

    def release(self, iteration: int, firing: int) -> Time | None:
        """When a firing of a source is released; None before its token has come."""
        tokens = self.group.tokens
        if tokens is not None:
            number = iteration * self.task.firings + firing
            return tokens[number] if number < len(tokens) else None
        start = self.group.releases[iteration]
        if not firing:
            return start
        return start + Fraction(firing) * self.group.group.period / self.task.firings

    def can_fire(self, k: int) -> bool:
        """Are there the data and the room for that firing of an iteration?"""
        if any(c.filled < c.consumed[k] for c in self.inputs):
            return False
        return all(c.free is None or c.free >= c.produced[k] for c in self.outputs)

    def take(self, k: int, released: Time | None) -> Time | None:
        """Take the data and the room for that firing; when the last of them came, or the
        release."""
        when = released
        for c in self.inputs:
            c.filled -= c.consumed[k]
            c.taken += c.consumed[k]
            if c.consumed[k]:
                when = _later(when, c.made_at[c.taken - 1])
        for c in self.outputs:
            if c.free is not None:
                c.free -= c.produced[k]
                c.used += c.produced[k]
                if c.produced[k]:
                    when = _later(when, c.freed_at[c.used - 1])
        return when


class _Group:
    """A group while it runs: its `count` iterations, their releases or when tokens that release it
    have come, and what is left of them."""

    __slots__ = (
        "begun",
        "count",
        "group",
        "left",
        "per_iteration",
        "releases",
        "sink_firings",
        "tokens",
        "works",
    )

    def __init__(self, group: TimedGroup, releases: list[Time], count: int) -> None:
        self.group, self.releases, self.count = group, releases, count
        self.tokens: list[Time] | None = None if group.trigger is None else []
        self.per_iteration = tokens_per_iteration(group)
        self.sink_firings = 0
        self.left: dict[int, int] = {}
        #: The last iteration of which something has fired, and whether a processor has worked for
        #: it.
        self.begun, self.works = -1, False

    def start(self, iteration: int) -> Time | None:
        """The release of an iteration; None before its first token has come."""
        if self.tokens is None:
            return self.releases[iteration]
        number = iteration * self.per_iteration
        return self.tokens[number] if number < len(self.tokens) else None

    def end_at(self, now: Time) -> None:
        """Iterations that are neither released nor begun by now will not be."""
        released = sum(r <= now for r in self.releases)
        if self.tokens is not None:
            released = len(self.tokens) // self.per_iteration
        self.count = max(released, self.begun + 1)
        self.left = {n: firings for n, firings in self.left.items() if n < self.count}


class _Worker:
    """A thread: where it is in its sequence, and what it is about to do or doing. It wakes up late
    by `latency` at most."""

    __slots__ = (
        "activated",
        "asleep",
        "awake",
        "came",
        "iteration",
        "latency",
        "parts",
        "place",
        "places",
        "rank",
        "round",
        "task",
        "waiting",
        "when",
    )

    def __init__(
        self, places: list[tuple[RoundFiring, _Task, int]], rank: int, latency: int
    ) -> None:
        self.places, self.rank, self.latency = places, rank, latency
        self.asleep = True
        self.awake: Time = 0
        self.place = self.round = 0
        self.waiting = True
        self.task = places[0][1]
        self.iteration = 0
        self.parts: list[Time] = []
        self.came: tuple[Time, bool, float, int] = (0, False, 0.0, 0)
        self.when: Time | None = None
        self.activated: Time | None = None


def simulate(
    system: TimedSystem, horizon: Time, choices: Choices, rng: random.Random, *, keep: bool = False
) -> Observed:
    """One execution: all iterations released before `horizon`, to their end.

    `keep` keeps slices and activations. Raises Refused where workers cannot be made, ValueError
    when nothing moves any more (a deadlock).
    """
    return _Simulation(in_slices(system), horizon, choices, rng, keep).run()


class _Simulation:
    """The event loop."""

    def __init__(
        self, system: TimedSystem, horizon: Time, choices: Choices, rng: random.Random, keep: bool
    ) -> None:
        self.system, self.choices, self.rng, self.keep = system, choices, rng, keep
        self.now: Time = 0
        self.stamp = 0
        self.wakeups: list[Time] = []
        self.groups: dict[str, _Group] = {}
        self.makers: dict[tuple[str, str], list[_Group]] = {}
        for g in in_order_of_release(system.groups):
            self._add_group(g, horizon)
        self.tasks: dict[tuple[str, str], _Task] = {}
        for g in system.groups:
            self._add(g)
        self.processors = [p.name for p in system.processors]
        #: Those that serve one sub-task to its end.
        self.serial = [p.scheduler in ("fifo", "priority") for p in system.processors]
        self.workers: list[list[_Worker]] = [[] for _ in self.processors]
        self.running: list[_Worker | None] = [None] * len(self.processors)
        for worker in workers_of(system):
            self._add_worker(worker)
        self.drags = [self._drags(p) for p in range(len(self.processors))]
        self.seen = Observed({}, {}, {}, {}, {}, ())
        self.slices: list[Slice] = []
        self.asked = choices.asked
        if self.asked is not None:
            self.wakeups.append(self.asked)
        self.over: Time = 0
        self.first: Time = 0

    def _add_group(self, group: TimedGroup, horizon: Time) -> None:
        """A group with as many iterations as are released, by a clock or by tokens."""
        if group.trigger is None:
            releases = self._releases(group, horizon)
            self.groups[group.name] = _Group(group, releases, len(releases))
            return
        writer = self.groups[group.trigger.group]
        firings = next(t.firings for t in writer.group.tasks if t.name == group.trigger.task)
        count = writer.count * firings // tokens_per_iteration(group)
        made = self.groups[group.name] = _Group(group, [], count)
        self.makers.setdefault((group.trigger.group, group.trigger.task), []).append(made)

    def _releases(self, group: TimedGroup, horizon: Time) -> list[Time]:
        offset = group.offset
        if offset is None:
            offset = self.choices.offsets.get(group.name, 0)
        releases: list[Time] = []
        while not releases or offset + len(releases) * group.period < horizon:
            late: Time = 0
            if self.choices.lateness == "first":
                late = max(0, (group.jitter or 0) - len(releases) * group.period)
            elif self.choices.lateness == "random":
                jitter = group.jitter or 0
                late = self.rng.choice((0, jitter, between(self.rng, 0, jitter)))
            releases.append(offset + len(releases) * group.period + late)
        return sorted(releases)

    def _add(self, group: TimedGroup) -> None:
        running = self.groups[group.name]
        for task in group.tasks:
            self.tasks[group.name, task.name] = _Task(running, task)
        for c in group.channels:
            writer, reader = self.tasks[group.name, c.source], self.tasks[group.name, c.destination]
            made = per_iteration(c.produced, writer.task.firings)
            taken = per_iteration(c.consumed, reader.task.firings)
            channel = _Channel(made, taken, c.delay, c.capacity)
            writer.outputs.append(channel)
            reader.inputs.append(channel)
        for name in sources(group):
            source = self.tasks[group.name, name]
            source.source = True
            for n in range(len(running.releases)):
                whens = (source.release(n, k) for k in range(source.task.firings))
                self.wakeups += [when for when in whens if when is not None]
        for name in sinks(group):
            self.tasks[group.name, name].sink = True
            running.sink_firings += self.tasks[group.name, name].task.firings
        running.left = dict.fromkeys(range(running.count), running.sink_firings)

    def _add_worker(self, worker: TimedWorker) -> None:
        p = self.processors.index(worker.processor)
        rounds = dict(worker.rounds)
        places = []
        for place in worker.sequence:
            task = self.tasks[place.group, place.task]
            places.append((place, task, rounds.get(place.group, 1)))
        fixed = self.system.processors[p].scheduler in ("fixed_priority", "priority")
        rank = places[0][1].group.group.priority if fixed else 0
        self.workers[p].append(_Worker(places, rank, self.system.processors[p].wakeup))

    def _drags(self, p: int) -> list[tuple[Fraction, list[int]]]:
        """Each slowdown of a processor: its factor, and the processors that cause it."""
        processors = self.system.processors
        drags = []
        for slow in self.system.slowdowns:
            if processors[p].is_of(slow.victim):
                causes = [k for k, other in enumerate(processors) if other.is_of(slow.aggressor)]
                drags.append((slow.factor, [k for k in causes if k != p]))
        return drags

    # -- the loop ----------------------------------------------------------------------------------
    def run(self) -> Observed:
        heapq.heapify(self.wakeups)
        while True:
            self._settle()
            if (
                self.asked is not None
                and self.now >= self.asked
                and all(g.works for g in self.groups.values())
            ):
                self.asked = None
                for group in self.groups.values():
                    group.end_at(self.now)
                continue  # workers that wait for a release go on
            speeds = [self._speed(p) for p in range(len(self.running))]
            following = [
                self.now + w.parts[0] * v
                for w, v in zip(self.running, speeds, strict=True)
                if w is not None
            ]
            if self.wakeups:
                following.append(self.wakeups[0])
            if not following:
                break
            self._advance(min(following), speeds)
        if any(g.left for g in self.groups.values()):
            raise ValueError("deadlock: " + ", ".join(n for n, g in self.groups.items() if g.left))
        return replace(self.seen, slices=tuple(self.slices), over=self.over, first=self.first)

    def _settle(self) -> None:
        """Let every worker go on that can, and every processor choose, until nothing happens at
        this time."""
        while True:
            while self.wakeups and self.wakeups[0] <= self.now:
                heapq.heappop(self.wakeups)
            moved = False
            for workers in self.workers:
                for waiting in workers:
                    if waiting.waiting and self._begin(waiting):
                        moved = True
            for p in range(len(self.running)):
                self._choose(p)
            moved |= self._finish_all()
            if not moved:
                return

    def _advance(self, time: Time, speeds: list[Time]) -> None:
        spent = time - self.now
        for p, w in enumerate(self.running):
            if w is not None and spent:
                v = speeds[p]
                w.parts[0] = w.parts[0] - (spent if v == 1 else Fraction(spent) / v)
                w.task.group.works = True
                if self.keep:
                    self._keep(p, w, time)
        self.now = time
        self._finish_all()

    def _finish_all(self) -> bool:
        """End the sub-tasks that have nothing left."""
        moved = False
        for p, w in enumerate(self.running):
            if w is not None and w.parts[0] == 0:
                self._finish(p, w)
                moved = True
        return moved

    def _keep(self, p: int, w: _Worker, end: Time) -> None:
        task = w.task
        name, firing = task.task.name, task.fired - 1
        made = Slice(
            self.processors[p], task.group.group.name, name, w.iteration, firing, self.now, end
        )
        latest = reversed(self.slices[-len(self.running) :])
        last = next((s for s in latest if s.processor == made.processor), None)
        if last is not None and (last.task, last.firing, last.end) == (name, firing, self.now):
            self.slices.remove(last)
            made = Slice(made.processor, made.group, name, w.iteration, firing, last.start, end)
        self.slices.append(made)

    def _speed(self, p: int) -> Time:
        """How long a unit of work takes now."""
        slowed: Time = 1
        for factor, others in self.drags[p]:
            if any(self.running[k] is not None for k in others):
                slowed *= factor
        return slowed

    # -- workers -----------------------------------------------------------------------------------
    def _begin(self, w: _Worker) -> bool:
        """Start the worker's next firing if it has its release, data and room."""
        next_one = self._next_firing(w)
        if next_one is None:
            return False
        task, iteration = next_one
        k = task.fired % task.task.firings
        released = task.release(iteration, k) if task.source else self.now
        if released is None or released > self.now or not task.can_fire(k):
            w.asleep = True
            return False
        if not self._is_awake(w):
            return False
        when = task.take(k, released if task.source else None)
        task.fired += 1
        task.group.begun = max(task.group.begun, iteration)
        w.task, w.iteration, w.activated, w.waiting = task, iteration, when, False
        times = self.choices.times.get(task.task.name)
        if times:
            w.parts = [times[(task.fired - 1) % len(times)]]
        else:
            parts = task.task.parts(k)
            w.parts = [self._time(b, c) for b, c in zip(task.bcet, parts, strict=True)]
        if w.when != self.now:
            self._queue(w)
        return True

    def _is_awake(self, w: _Worker) -> bool:
        """Does a worker go on that has all it waited for? It is woken now, or was before."""
        if w.asleep:
            w.asleep = False
            w.awake = self.now + (self._time(0, w.latency) if w.latency else 0)
        if w.awake > self.now:
            heapq.heappush(self.wakeups, w.awake)
        return w.awake <= self.now

    def _next_firing(self, w: _Worker) -> tuple[_Task, int] | None:
        """The task that the worker fires next, and the iteration; None after the last one."""
        while True:
            place, task, per_round = w.places[w.place]
            iteration = w.round * per_round + place.index - place.stage
            if iteration >= task.group.count and all(
                w.round * n + q.index - q.stage >= t.group.count for q, t, n in w.places
            ):
                return None
            if 0 <= iteration < task.group.count:
                return task, iteration
            self._next(w)

    def _next(self, w: _Worker) -> None:
        w.place += 1
        if w.place == len(w.places):
            w.place = 0
            w.round += 1

    def _queue(self, w: _Worker) -> None:
        """To the end of the queue; among those who come at the same time any order is possible."""
        self.stamp += 1
        last = w.task.group.group.name == self.choices.against
        w.came = self.now, last, self.rng.random() if self.choices.shuffle else 0.0, self.stamp

    def _time(self, best: Time, worst: Time) -> Time:
        match self.choices.execution:
            case "worst":
                return worst
            case "best":
                return best
            case "extreme":
                return self.rng.choice((best, worst))
        return between(self.rng, best, worst)

    def _choose(self, p: int) -> None:
        """Who runs on a processor from now on."""
        ready = [w for w in self.workers[p] if not w.waiting]
        running = self.running[p]
        if self.serial[p]:
            if running is None and ready:
                self.running[p] = min(ready, key=lambda w: (-w.rank, w.came))
            return
        if not ready:
            self.running[p] = None
            return
        rank = max(w.rank for w in ready)
        equal = [w for w in ready if w.rank == rank]
        if len(equal) > 1:
            others = [w for w in equal if w.task.group.group.name != self.choices.against] or equal
            if self.choices.shuffle:
                self.running[p] = self.rng.choice(others)
            else:
                self.running[p] = min(others, key=lambda w: w.came)
        else:
            self.running[p] = equal[0]

    def _finish(self, p: int, w: _Worker) -> None:
        """A sub-task is over, and perhaps the firing with it."""
        w.parts.pop(0)
        self.running[p] = None
        if w.parts:
            if self.serial[p]:
                self._queue(w)
            return
        task = w.task
        firings = task.task.firings
        k = (task.fired - 1) % firings
        for c in task.inputs:
            if c.free is not None:
                c.free += c.consumed[k]
                c.freed_at += [self.now] * c.consumed[k]
        for c in task.outputs:
            c.filled += c.produced[k]
            c.made_at += [self.now] * c.produced[k]
        for group in self.makers.get((task.group.group.name, task.task.name), ()):
            if group.tokens is not None:
                group.tokens.append(self.now)
        w.waiting = task.group.works = True
        # A thread that can go on at once keeps its turn on a CPU; on a FIFO processor it queues
        # again.
        w.when = None if self.serial[p] else self.now
        self._record(w)
        self._next(w)

    def _record(self, w: _Worker) -> None:
        task, group, seen = w.task, w.task.group, self.seen
        name = task.task.name
        self.over = self.now
        if not w.iteration:
            self.first = self.now
        started = group.start(w.iteration)
        since = 0 if started is None else self.now - started
        if w.activated is not None:
            seen.tasks[name] = max(seen.tasks.get(name, 0), self.now - w.activated)
        seen.ends[name] = max(seen.ends.get(name, since), since)
        for path in task.paths:
            source = self.tasks[group.group.name, path.source]
            firing = (task.fired - 1) % task.task.firings
            data = w.iteration * source.task.firings + path.newest[firing]
            if data >= 0:
                released = source.release(*divmod(data, source.task.firings))
                assert released is not None, "data that were used have come"
                latency = self.now - released
                ends = path.source, name
                seen.paths[ends] = max(seen.paths.get(ends, latency), latency)
        if self.keep and w.activated is not None:
            seen.activations.setdefault(name, []).append(w.activated)
        if task.sink:
            group.left[w.iteration] -= 1
            if not group.left[w.iteration]:
                del group.left[w.iteration]
                own = group.group.name
                seen.groups[own] = max(seen.groups.get(own, 0), since)


def tokens_per_iteration(group: TimedGroup) -> int:
    """How many tokens release an iteration of a group that has a trigger."""
    released = sources(group)
    return max(task.firings for task in group.tasks if task.name in released)


def _later(one: Time | None, other: Time) -> Time:
    return other if one is None else max(one, other)


def between(rng: random.Random, low: Time, high: Time) -> Time:
    """A random time, a whole number of ns where both ends are."""
    if isinstance(low, int) and isinstance(high, int):
        return rng.randint(low, high)
    return low + (high - low) * Fraction(rng.randint(0, 64), 64)
