"""A second simulator of mapped systems, to hold bounds against: one execution, event by event.

In: the numbers of a timed system (any object with the fields of `TimedSystem`) and every choice
that a program leaves open. Out: the largest responses and latencies. It imports nothing of flowc:
what workers do is written down once more, from docs/language.md, docs/mapping.md and
runtime/worker.py.

- A worker goes through its order round after round. An entry is of iteration (round x per_round +
  index - stage); iterations that do not exist, before the first or after the last one, are skipped.
- A firing starts when it is released (sources), its data are there and there is room for what it
  makes: it takes both at once, and gives back the room of its data when it ends.
- A CPU serves the worker of the highest priority, at any moment; a FIFO processor serves one
  sub-task after the other as they came. On static orders all workers are equal.
- What ends at a time has ended before anything else happens at that time. What takes no time waits
  for its turn all the same.
- Work on a processor takes longer while the processors that contend with it are busy.
- A worker that finds that it cannot start sleeps. Once it could, it is woken late, by up to the
  latency of its processor; the processor serves others meanwhile. What is no CPU works without its
  worker, which sleeps: the end of a firing there is known late.
- A worker with a server is above all others. Before each sub-task it looks at its budget: what it
  computed is taken from it, and each period that has begun gives it a budget, up to one. Without
  any it sleeps until the next period. Now and then it has nothing to do.
- A worker in the background always has something to do. On a CPU it is below all others; on a FIFO
  processor it asks for its next sub-task when the one before has ended, and comes before others
  that ask at the same time.

Times are exact: whole ns, or fractions where contention makes some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from flowc.analysis.timing.system import (
        TimedChannel,
        TimedGroup,
        TimedProcessor,
        TimedSystem,
        TimedWorker,
    )

Time = int | Fraction
Moment = tuple[Time, int]
Equals = Literal["first come", "favorite"]

#: Where a source finds out that there is no more data, workers may be so many iterations ahead.
AHEAD = 4


class Stuck(Exception):
    """Nothing moves any more, and there are firings left."""


@dataclass(frozen=True, slots=True)
class Run:
    """All choices of one execution.

    `iterations` are by app. `times` are those of the sub-tasks of a task, one after the other and
    again from the start; `late` says by how much the releases of an app are late, and `offsets` are
    of apps that have none. Among equals the one that came first goes on, or always the one that is
    a favorite; `favorites` are numbers of workers, and decide between those that came together as
    well. At `stop` no app begins another iteration. If `exhausted`, the number of iterations is not
    known before: the first source of each app finds out in the firing that has no more data.
    `background` are the times of each worker in the background, one after the other and again from
    the start; without them they are the longest ones. `pauses` are how long those with a server
    have nothing to do after each of them. `wakeups` are how late each worker goes on after it has
    slept, one time after the other and again from the start; without them it is never late.
    """

    iterations: Mapping[str, int]
    times: Mapping[str, Sequence[Time]]
    late: Mapping[str, Sequence[Time]] = field(default_factory=dict)
    offsets: Mapping[str, Time] = field(default_factory=dict)
    equals: Equals = "first come"
    favorites: Sequence[int] = ()
    stop: Time | None = None
    exhausted: bool = False
    background: Sequence[Sequence[Time]] = ()
    pauses: Sequence[Sequence[Time]] = ()
    wakeups: Sequence[Sequence[Time]] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """Largest responses of apps, from a release to the end of the last sink of that iteration, and
    largest latencies of their paths (app, number), each with the iteration that it belongs to.
    """

    responses: dict[str, tuple[Time, int]]
    latencies: dict[tuple[str, int], tuple[Time, int]]
    #: When each firing of a task first had its processor and when it ended, counted through all
    #: iterations; each with its number among all that happened, in the order of time.
    firings: dict[tuple[str, int], tuple[Moment, Moment]] = field(default_factory=dict)


def play(system: TimedSystem, run: Run) -> Seen:
    """One execution of a system with workers. Raises Stuck after a deadlock."""
    return Playing(system, run).played()


def sources_of(group: TimedGroup) -> set[str]:
    """Tasks that no channel leads to."""
    fed = {c.destination for c in group.channels}
    return {t.name for t in group.tasks} - fed


def sinks_of(group: TimedGroup) -> set[str]:
    """Tasks that an iteration ends with: what they make in it, others read in later ones. If there
    are none, all that are reached by what they reach, and the first."""
    made = {t.name: t.firings for t in group.tasks}
    read_at_once = {
        c.source
        for c in group.channels
        if c.destination != c.source
        and c.delay < made[c.source] * Fraction(sum(c.produced), len(c.produced))
    }
    if len(read_at_once) < len(made):
        return made.keys() - read_at_once
    reached = {t.name: {t.name} for t in group.tasks}
    grown = True
    while grown:
        grown = False
        for c in group.channels:
            more = reached[c.destination] - reached[c.source]
            reached[c.source] |= more
            grown |= bool(more)
    back = {t for t, others in reached.items() if all(t in reached[o] for o in others)}
    return back | {group.tasks[0].name}


def whole(time: Time) -> Time:
    """The time, as an integer if it is one."""
    return int(time) if time == int(time) else time


class Task:
    """What the firings of a task need and make; `ins` and `outs` have a channel and its rates."""

    __slots__ = (
        "app",
        "firings",
        "ins",
        "name",
        "outs",
        "parts",
        "paths",
        "phases",
        "sink",
        "source",
    )

    def __init__(self, app: App, name: str, firings: int) -> None:
        self.app, self.name, self.firings = app, name, firings
        self.ins: list[tuple[_Channel, Sequence[int]]] = []
        self.outs: list[tuple[_Channel, Sequence[int]]] = []
        self.paths: list[tuple[int, Task, Sequence[int]]] = []
        self.parts: Iterator[list[Time]] = iter(())
        self.phases: list[Time] = []
        self.source = self.sink = False


class _Channel:
    """The tokens on a channel, and the room that is left (None: any)."""

    __slots__ = ("room", "tokens")

    def __init__(self, channel: TimedChannel) -> None:
        self.tokens = channel.delay
        self.room = None if channel.capacity is None else channel.capacity - channel.delay


class App:
    """An app that has `count` iterations in the end, and `limit` as far as is known now.

    `begun` is the last one of which something has started, `finder` the source that finds out that
    there is no more data, `left` the sink firings that an iteration still waits for.
    """

    __slots__ = ("begun", "count", "finder", "left", "limit", "name", "releases", "sink_firings")

    def __init__(self, name: str, releases: list[Time], count: int) -> None:
        self.name, self.releases, self.count = name, releases, count
        self.limit = len(releases)
        self.begun = -1
        self.finder: Task | None = None
        self.sink_firings = 0
        self.left: dict[int, int] = {}


@dataclass(slots=True)
class Firing:
    """One firing in the order of a worker."""

    task: Task
    iteration: int
    number: int


@dataclass(slots=True)
class Worker:
    """A thread: what it will fire, how much of it is done, and what is left of the firing that it
    is in (None while it waits, nothing while it has yet to know of its end). It sleeps while it is
    `asleep`, and is woken at `awake`.
    """

    processor: int
    rank: int
    favor: int
    todo: list[Firing]
    done: int = 0
    parts: list[Time] | None = None
    came: Time = 0
    began: Moment | None = None
    ended: Time | None = None
    endless: Iterator[list[Time]] | None = None
    server: _Server | None = None
    late: Iterator[list[Time]] | None = None
    asleep: bool = False
    awake: Time = 0

    def fall_awake(self, now: Time) -> None:
        """It is woken now, and goes on late."""
        self.asleep = False
        self.awake = now + (next(self.late)[0] if self.late is not None else 0)


@dataclass(slots=True)
class _Server:
    """The budget of a worker: what is left of it, how many periods have begun, what it computed
    since it was looked at, and until when it has nothing to do."""

    budget: int
    period: Fraction
    pauses: Iterator[list[Time]]
    left: Time
    periods: int = 0
    spent: Time = 0
    until: Time = 0

    def next_start(self, now: Time) -> Time:
        """When the next sub-task may start, by all that has happened so far."""
        if self.until > now:
            return self.until
        self.left -= self.spent
        self.spent = 0
        begun = int(now // self.period) - self.periods
        self.periods += begun
        self.left = min(self.budget, self.left + begun * self.budget)
        return now if self.left > 0 else (self.periods + 1) * self.period


class Playing:
    """One execution."""

    def __init__(self, system: TimedSystem, run: Run) -> None:
        self.run = run
        self.now: Time = 0
        self.happened = 0
        self.seen = Seen({}, {})
        self.next_release: Time | None = None
        self.apps = {g.name: self._app(g) for g in system.groups}
        self.tasks: dict[str, Task] = {}
        for group in system.groups:
            self._add_tasks(group)
        processors = system.processors
        where = {p.name: i for i, p in enumerate(processors)}
        self.fifo = [p.scheduler == "fifo" for p in processors]
        self.apart = [p.kind not in ("", "cpu") for p in processors]
        self.running: list[Worker | None] = [None] * len(processors)
        self.workers: list[Worker] = []
        priority = {g.name: g.priority for g in system.groups}
        for number, worker in enumerate(system.workers):
            at = where[worker.processor]
            fixed = processors[at].scheduler == "fixed_priority"
            rank = priority[worker.sequence[0].group] if fixed else 0
            favor = run.favorites[number] if run.favorites else number
            made = Worker(at, rank, favor, self._firings(worker))
            if run.wakeups:  # it sleeps until the program begins, too
                made.asleep = True
                made.late = again_and_again(run.wakeups[number], 1)
            self.workers.append(made)
        lowest = min(priority.values(), default=0) - 1
        highest = max(priority.values(), default=0) + 1
        for number, background in enumerate(system.background):
            times = run.background[number] if run.background else (max(background.longest, 1),)
            unending = again_and_again(times, 1)
            at = where[background.processor]
            unpaced = Worker(at, min(lowest, -1), -1, [], endless=unending)
            if background.server is not None:
                fixed = processors[at].scheduler == "fixed_priority"
                unpaced.rank = highest if fixed else 0
                pauses = run.pauses[number] if run.pauses else (0,)
                budget, period = background.server.budget_ns, background.server.period_ns
                unpaced.server = _Server(budget, period, again_and_again(pauses, 1), budget)
            self.workers.append(unpaced)
        self.on = [[w for w in self.workers if w.processor == p] for p in range(len(processors))]
        self.contention = []
        for processor in processors:
            self.contention.append(list(_contention(system, processor)))
        self.contended = any(self.contention)

    # -- what there is -----------------------------------------------------------------------------
    def _app(self, group: TimedGroup) -> App:
        run, name = self.run, group.name
        count = run.iterations[name]
        late = run.late.get(name, ())
        offset = run.offsets.get(name, 0) if group.offset is None else group.offset
        releases: list[Time] = []
        for n in range(count + (AHEAD if run.exhausted else 0)):
            delay = late[n] if n < len(late) else 0
            releases.append(whole(offset + n * group.period + delay))
        return App(name, sorted(releases), count)

    def _add_tasks(self, group: TimedGroup) -> None:
        app = self.apps[group.name]
        own: dict[str, Task] = {}
        for t in group.tasks:
            task = own[t.name] = Task(app, t.name, t.firings)
            task.parts = again_and_again(self.run.times[t.name], len(t.wcet))
        for c in group.channels:
            channel = _Channel(c)
            source, destination = own[c.source], own[c.destination]
            source.outs.append((channel, _spread(c.produced, source.firings)))
            destination.ins.append((channel, _spread(c.consumed, destination.firings)))
        for name in sources_of(group):
            task = own[name]
            task.source = True
            for k in range(task.firings):
                task.phases.append(whole(Fraction(group.period) * k / task.firings))
        for name in sinks_of(group):
            own[name].sink = True
            app.sink_firings += own[name].firings
        for number, path in enumerate(group.paths):
            own[path.sink].paths.append((number, own[path.source], path.newest))
        self.tasks.update(own)
        if self.run.exhausted:
            app.finder = next(t for t in own.values() if t.source)

    def _firings(self, worker: TimedWorker) -> list[Firing]:
        """All that a worker fires; what turns out not to exist is skipped when it is reached."""
        rounds = dict(worker.rounds)
        todo: list[Firing] = []
        number, alive = 0, True
        while alive:
            alive = False
            for entry in worker.sequence:
                task = self.tasks[entry.task]
                iteration = number * rounds.get(entry.group, 1) + entry.index - entry.stage
                if iteration >= len(task.app.releases):
                    continue
                alive = True
                if iteration >= 0:
                    todo.append(Firing(task, iteration, entry.firing))
            number += 1
        return todo

    # -- what happens ------------------------------------------------------------------------------
    def played(self) -> Seen:
        """To the end of the last firing."""
        stop = self.run.stop
        while True:
            self._settle()
            if all(w.done == len(w.todo) for w in self.workers):
                break
            speeds = [self._time_of_work(p) for p in range(len(self.running))]
            coming = [] if self.next_release is None else [self.next_release]
            for p, w in enumerate(self.running):
                if w is not None and w.parts:
                    coming.append(self.now + w.parts[0] * speeds[p])
            if stop is not None:
                coming.append(max(stop, self.now))
            if not coming:
                break
            self._advance(min(coming), speeds)
            if stop is not None and self.now >= stop:
                stop = None
                for app in self.apps.values():
                    app.limit = min(app.limit, app.begun + 1)
        for w in self.workers:
            if w.done < len(w.todo):
                raise Stuck(f"a worker waits for ever at firing {w.done}")
        return self.seen

    def _settle(self) -> None:
        """All that happens at this time."""
        moved = True
        while moved:
            moved = False
            self.next_release = None
            for w in self.workers:
                if w.parts is None:
                    moved |= self._start(w)
                elif not w.parts:
                    moved |= self._know(w)
            for p in range(len(self.running)):
                self._choose(p)
            for served in self.running:
                if served is not None and served.parts and served.parts[0] == 0:
                    self._finish(served)
                    moved = True

    def _advance(self, time: Time, speeds: Sequence[Time]) -> None:
        spent = time - self.now
        self.now = time
        for p, w in enumerate(self.running):
            if w is None or not w.parts:
                continue
            if w.server is not None:
                w.server.spent += spent
            v = speeds[p]
            w.parts[0] -= spent if v == 1 else Fraction(spent) / v
            if w.parts[0] == 0:
                self._finish(w)

    def _time_of_work(self, p: int) -> Time:
        """How long a unit of work takes on a processor now."""
        time: Time = 1
        if self.contended:
            for factor, others in self.contention[p]:
                if any(self.running[o] is not None for o in others):
                    time *= factor
        return time

    def _start(self, w: Worker) -> bool:
        """Start the next firing of a worker that waits, if it can."""
        if w.endless is not None:
            if w.server is not None:
                start = w.server.next_start(self.now)
                if start > self.now:
                    self._wake_at(start)
                    return False
            w.parts, w.came = next(w.endless), self.now
            return True
        while w.done < len(w.todo) and w.todo[w.done].iteration >= w.todo[w.done].task.app.limit:
            w.done += 1
        if w.done == len(w.todo):
            return False
        firing = w.todo[w.done]
        task, k = firing.task, firing.number
        if not self._at_hand(firing):
            w.asleep = True
            return False
        if w.asleep:
            w.fall_awake(self.now)
        if w.awake > self.now:
            self._wake_at(w.awake)
            return False
        for channel, rates in task.ins:
            channel.tokens -= rates[k]
        for channel, rates in task.outs:
            if channel.room is not None:
                channel.room -= rates[k]
        task.app.begun = max(task.app.begun, firing.iteration)
        w.parts, w.began = next(task.parts), None
        if self.fifo[w.processor] or w.ended != self.now:  # else it keeps its turn
            w.came = self.now
        return True

    def _at_hand(self, firing: Firing) -> bool:
        """Is a firing released, with its data and the room for what it makes?"""
        task, k = firing.task, firing.number
        if task.source:
            released = task.app.releases[firing.iteration] + task.phases[k]
            if released > self.now:
                self._wake_at(released)
                return False
        for channel, rates in task.ins:
            if channel.tokens < rates[k]:
                return False
        for channel, rates in task.outs:
            if channel.room is not None and channel.room < rates[k]:
                return False
        return True

    def _wake_at(self, time: Time) -> None:
        """Something may start at a time to come."""
        if self.next_release is None or time < self.next_release:
            self.next_release = time

    def _choose(self, p: int) -> None:
        """Who runs on a processor from now on."""
        ready = [w for w in self.on[p] if w.parts]
        if self.fifo[p]:
            if self.running[p] is None and ready:
                self.running[p] = min(ready, key=_by_arrival)
        elif len(ready) < 2:
            self.running[p] = ready[0] if ready else None
        else:
            rank = max(w.rank for w in ready)
            equal = [w for w in ready if w.rank == rank]
            key = _by_arrival if self.run.equals == "first come" else _by_favor
            self.running[p] = min(equal, key=key)
        served = self.running[p]
        if served is not None and served.began is None:
            served.began = self._moment()

    def _moment(self) -> Moment:
        self.happened += 1
        return self.now, self.happened

    def _finish(self, w: Worker) -> None:
        """A sub-task has ended, and perhaps the firing."""
        assert w.parts is not None
        self.running[w.processor] = None
        del w.parts[0]
        w.ended = self.now
        if w.parts:
            if self.fifo[w.processor]:
                w.came = self.now
            return
        if w.endless is None and self.apart[w.processor]:
            w.fall_awake(self.now)
        self._know(w)

    def _know(self, w: Worker) -> bool:
        """A worker goes on behind a firing that has ended, if it is awake."""
        if w.endless is None and self.apart[w.processor] and w.awake > self.now:
            self._wake_at(w.awake)
            return False
        w.parts = None
        self._over(w)
        return True

    def _over(self, w: Worker) -> None:
        """A firing is over."""
        if w.endless is not None:
            if w.server is not None:
                w.server.until = self.now + next(w.server.pauses)[0]
            return
        firing = w.todo[w.done]
        w.done += 1
        task, app, k = firing.task, firing.task.app, firing.number
        if task is app.finder and firing.iteration == app.count and not k:
            app.limit = app.count
            return
        for channel, rates in task.ins:
            if channel.room is not None:
                channel.room += rates[k]
        for channel, rates in task.outs:
            channel.tokens += rates[k]
        number = firing.iteration * task.firings + k
        assert w.began is not None
        self.seen.firings[task.name, number] = w.began, self._moment()
        self._note(firing)

    def _note(self, firing: Firing) -> None:
        """The latencies and the response that the end of a firing completes."""
        task, app, n = firing.task, firing.task.app, firing.iteration
        for number, source, newest in task.paths:
            data = n * source.firings + newest[firing.number]
            if data >= 0:
                iteration, k = divmod(data, source.firings)
                latency = self.now - app.releases[iteration] - source.phases[k]
                keep_larger(self.seen.latencies, (app.name, number), (latency, n))
        if task.sink:
            left = app.left.get(n, app.sink_firings) - 1
            app.left[n] = left
            if not left:
                response = self.now - app.releases[n]
                keep_larger(self.seen.responses, app.name, (response, n))


Key = TypeVar("Key")


def keep_larger(found: dict[Key, tuple[Time, int]], key: Key, value: tuple[Time, int]) -> None:
    if key not in found or value[0] > found[key][0]:
        found[key] = value


def _by_arrival(w: Worker) -> tuple[Time, int]:
    return w.came, w.favor


def _by_favor(w: Worker) -> int:
    return w.favor


def _spread(rates: Sequence[int], firings: int) -> list[int]:
    """The rates of each firing of an iteration."""
    return [rates[k % len(rates)] for k in range(firings)]


def again_and_again(times: Sequence[Time], parts: int) -> Iterator[list[Time]]:
    """The times of the sub-tasks of one firing after the other."""
    while True:
        for k in range(0, len(times), parts):
            yield list(times[k : k + parts])


def _contention(
    system: TimedSystem, processor: TimedProcessor
) -> Iterator[tuple[Time, tuple[int, ...]]]:
    """What slows a processor down: a factor, and the processors of which one has to be busy."""
    for slow in system.slowdowns:
        if slow.victim in (processor.pool, processor.kind):
            others = []
            for number, other in enumerate(system.processors):
                if other is not processor and slow.aggressor in (other.pool, other.kind):
                    others.append(number)
            yield slow.factor, tuple(others)
