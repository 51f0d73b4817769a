"""The parts of a running program that mirror the text: apps, tasks, and the entries of static
orders."""

from __future__ import annotations

import threading
from collections import deque
from fractions import Fraction
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from .channel import Channel, EndOfStream, Turnstile
from .code import Code
from .tokens import Port

if TYPE_CHECKING:
    from .columns import Column
    from .failures import Failure
    from .fresh import Gate
    from .run import Run
    from .scenario import Change
    from .select import Pick

FOREVER = 1 << 62
#: How often a task that begins anew is opened at most, and the ns between two tries.
RESTART = 20, 500_000_000
#: Iterations that a source may be ahead of a task whose data are still known by their release.
LONGEST_AGO = 256


def signed(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under another name, also where only its code object is looked at."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=name)
    return FunctionType(
        code, function.__globals__, name, function.__defaults__, function.__closure__
    )


class Task:
    """One task of the running program. Times in ns."""

    def __init__(
        self,
        app: "App",
        name: str,
        code: Code,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        live: bool = False,
        on_error: str = "stop",
        wcet: Optional[int] = None,
        restart: Tuple[int, int] = RESTART,
    ) -> None:
        self.app, self.name, self.code = app, name, code
        #: The worst case of a firing that the text declares.
        self.wcet = wcet
        #: Whether a firing that raises stops everything ("stop"), or what it would have made is
        #: skipped ("skip"), after which the task may begin anew ("restart").
        self.on_error = on_error
        #: Of a task that begins anew: how often opening it may fail in a row, and the ns between
        #: two tries.
        self.restart = restart
        #: Firings that have failed, and those that were left out since something they need was not
        #: there.
        self.failed = self.skipped = 0
        #: Firings without tokens, where there may be fewer; and a port of lists of them.
        self.absent = 0
        self.lists: Any = next((port for port in [*inputs, *outputs] if port.count), None)
        #: A source whose firings wait for data from outside, and are released by it.
        self.live = live
        #: 1, 2, ... in the program; 0: it is not in it.
        self.number = 0
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.readers: List[List[Channel]] = [[] for _ in outputs]
        self.feeders: List[Optional[Channel]] = [None for _ in inputs]
        self.per_iteration = 1
        self.starts_frame = self.ends_frame = False
        #: It can be the first to fire in an iteration, for it begins with initial tokens; some of
        #: its inputs have such, which it must not take before everything is there.
        self.opens = self.hesitates = False
        #: Firings in earlier stays in states, of whatever app object.
        self.before = 0
        #: Some input comes from a task on a device, which a task on a CPU fetches first.
        self.from_device = self.fetches = False
        #: A source of which it is measured how long it waits for its data.
        self.is_timed = False
        self.turnstile: Optional[Turnstile] = None
        #: Of a source that drops: what lets it fire when its token is wanted.
        self.gate: Optional[Gate] = None
        #: How it fires for the requests of a batch, where it does so for all of them at once.
        self.column: Optional[Column] = None
        self.phases = max([len(p.rates) for p in self.inputs + self.outputs] or [1])
        self.firings = 0
        #: How long a source has waited in its firings, while they are traced.
        self.waited = 0
        #: The longest time in which a live source has waited for data behind its first ones; None:
        #: none have come.
        self.longest_wait: Optional[int] = None
        self.busy = 0
        self.longest = 0
        self.squares = 0
        #: Release times of a source's latest firings, where a path begins with it; paths that end
        #: here.
        self.releases: List[int] = []
        self.paths: List[Path] = []
        #: Who else is told of each firing's number and release.
        self.told: Optional[Callable[[int, int], None]] = None
        #: Who is told of firings with what they wrote, where that is recorded or compared (None:
        #: they were left out): the firing, the number of firings in the batch, blocks.
        self.recorded: Optional[Callable[[int, int, Optional[Sequence[Any]]], None]] = None

    def ends_iteration(self) -> bool:
        """Does no other task read in an iteration what it makes there?"""
        return all(
            channel.delay >= sum(port.rates) * self.per_iteration // len(port.rates)
            for port, channels in zip(self.outputs, self.readers)
            for channel in channels
            if channel.destination != self.name
        )

    def find_initial_tokens(self) -> None:
        """Whether it can be the first to fire, and has to wait for what it could take too early."""
        fed = [(p, c) for p, c in zip(self.inputs, self.feeders) if c is not None]
        self.opens = bool(fed) and all(c.delay >= p.rate(0) for p, c in fed)
        self.hesitates = len(fed) > 1 and any(c.delay for _, c in fed)

    def codes(self) -> List[Tuple[str, Code]]:
        """Its code by its name, or its alternatives by theirs."""
        return self.code.alternatives() or [(self.name, self.code)]

    def sign_calls(self) -> None:
        """Let every call of its code bear the task's name, which is what a crash in C code leaves
        behind."""
        for own, code in self.codes():
            for name in ("open", "fire", "fire_batch", "close"):
                method = getattr(type(code), name, None)
                if method is not None:
                    setattr(code, name, MethodType(signed(method, own), code))

    def add(self, other: "Task") -> None:
        """Count what another task of that name has done as done by this one, too."""
        self.firings += other.firings
        self.failed += other.failed
        self.skipped += other.skipped
        self.absent += other.absent
        self.busy += other.busy
        self.squares += other.squares
        self.longest = max(self.longest, other.longest)
        if other.longest_wait is not None:
            self.longest_wait = max(self.longest_wait or 0, other.longest_wait)

    def known_as(self, firing: int) -> Tuple[str, int]:
        """The name and the number of a firing over all states that the program is in, one after the
        other."""
        return self.code.named(firing) or (self.name, firing + self.before)

    def apart(self) -> List["Task"]:
        """What it has done, under the name of each of its alternatives."""
        if not self.code.alternatives():
            return [self]
        found = []
        for name, code in self.code.alternatives():
            share = self.code.shares[name]
            task = Task(self.app, name, code, self.inputs, self.outputs)
            task.firings, task.busy = share.firings, share.busy
            task.squares, task.longest = share.squares, share.longest
            found.append(task)
        found[0].failed, found[0].skipped = self.failed, self.skipped
        return found

    def release_of(self, firing: int) -> Optional[int]:
        """When a firing of a source was released, of which a path wants to know; in ns."""
        return self.releases[firing % len(self.releases)]

    def released(self, firing: int, time_ns: int) -> None:
        """Keep the release of a firing, for the paths that begin here."""
        self.releases[firing % len(self.releases)] = time_ns
        if self.told is not None:
            self.told(firing, time_ns)

    def keep_releases(self) -> None:
        """Keep as many releases as paths ask for."""
        most = self.per_iteration * LONGEST_AGO
        self.releases = [0] * max(most, len(self.releases))

    def arrival(self, end: int, waited: int) -> int:
        """When the data came that a firing of a live source has just delivered, at `end`; it has
        `waited` for so long, in ns."""
        if self.longest_wait is None:
            self.longest_wait = 0  # nothing was there before that could have become old
        else:
            self.waits(waited)
        time = self.code.arrived()
        return end if time is None else time

    def waits(self, time_ns: int) -> None:
        """A live source has waited for so long behind its first data, or still does."""
        if self.longest_wait is not None:
            self.longest_wait = max(self.longest_wait, time_ns)

    @property
    def is_source(self) -> bool:
        """A task without inputs: it decides when the stream ends."""
        return not self.inputs

    @property
    def may_wait(self) -> bool:
        """Is it a source whose firings may take as long as its data do? One that a period releases
        has to return, as any other task."""
        by_data = self.live or self.app.period is None or self.app.run.replayed
        return self.is_source and by_data


class Fire:
    """An entry of a static order.

    Fires `task` `times` times, starting with firing `first` of an iteration. `stage` is how many
    iterations it lags behind, `replica` (r, n) means: only iterations i with i % n == r; `round`
    (j, m): the j-th of m iterations that its app has in one round.
    """

    def __init__(
        self,
        task: Task,
        times: int = 1,
        first: int = 0,
        stage: int = 0,
        replica: Tuple[int, int] = (0, 1),
        round: Tuple[int, int] = (0, 1),
    ) -> None:
        self.task, self.times, self.first, self.stage = task, times, first, stage
        self.replica, self.replicas = replica
        self.index, self.per_round = round


def _shortest(*deadlines: Optional[Fraction]) -> Optional[Fraction]:
    """The shortest of the deadlines that there are."""
    return min((each for each in deadlines if each is not None), default=None)


class Path:
    """From a source to another task of its app.

    Its latency: from the release of the newest firing of the source that a firing of `sink` depends
    on, to the end of that firing. `newest` holds that number for every firing of an iteration,
    counted from the source's first firing of the same iteration. Times in ns.
    """

    kind = "path"

    def __init__(
        self, source: Task, sink: Task, newest: Sequence[int], deadline: Optional[Fraction]
    ) -> None:
        self.source, self.sink, self.newest, self.deadline = source, sink, list(newest), deadline
        self.count = self.total = self.longest = self.misses = 0
        self.latencies: Deque[int] = deque(maxlen=100_000)

    def named(self) -> str:
        """Its kind, where it is none of one app, and its ends."""
        kind = "" if self.kind == "path" else "%s " % self.kind
        return "%s%s -> %s" % (kind, self.source.name, self.sink.name.partition(".")[2])

    def ended(self, firing: int, time_ns: int) -> None:
        """A firing of the sink is over."""
        number = self.number(firing)
        release = self.source.release_of(number) if number >= 0 else None
        if release is not None:
            self.took(firing, time_ns - release, time_ns)

    def number(self, firing: int) -> int:
        """The newest firing of the source behind a firing of the sink; below 0: initial tokens."""
        per_iteration = self.sink.per_iteration
        iteration = firing // per_iteration
        return iteration * self.source.per_iteration + self.newest[firing % per_iteration]

    def took(self, firing: int, latency: int, time_ns: int) -> None:
        """Count the latency of a firing that ended at that time."""
        self.record((latency,))
        tracer = self.sink.app.run.tracer
        if tracer is not None and self.deadline is not None and latency > int(self.deadline):
            tracer.late(self, firing, latency, time_ns)

    def prepare(self) -> None:
        """Once all tasks are known: keep the releases of the source, and count at the ends."""
        self.source.keep_releases()
        self.sink.paths.append(self)

    def add(self, other: "Path") -> None:
        """Count what another path between tasks of these names has shown as shown by this one,
        too."""
        self.count += other.count
        self.total += other.total
        self.longest = max(self.longest, other.longest)
        self.deadline = _shortest(self.deadline, other.deadline)
        self.misses += other.misses
        self.latencies.extend(other.latencies)

    def record(self, latencies: Sequence[int]) -> None:
        """So long took the next firings."""
        self.count += len(latencies)
        self.total += sum(latencies)
        self.longest = max(self.longest, *latencies)
        self.latencies.extend(latencies)
        if self.deadline is not None:
            due = int(self.deadline)
            self.misses += sum(latency > due for latency in latencies)


class App:
    """`period` and `deadline` in ns (exact fractions) or None. `limit` is the number of iterations
    it will have."""

    def __init__(
        self, run: "Run", name: str, period: Optional[Fraction], deadline: Optional[Fraction]
    ) -> None:
        self.run, self.name = run, name
        self.period, self.deadline = period, deadline
        self.tasks: List[Task] = []
        self._named: Dict[str, Task] = {}
        self.paths: List[Path] = []
        #: Parts of ages and reactions, which are not measured by themselves.
        self.parts: List[Path] = []
        #: The apps that run while this one does, itself included.
        self.sibling_apps: List[App] = []
        self.limit = FOREVER
        self.begun = -1
        self._ended = 0
        #: In a program with states: frames finished before, by this object and by any of that name;
        #: when its apps began anew, in ns; whether its stream has ended by itself.
        self.earlier = self.base = 0
        self.since = 0
        self.exhausted = False
        #: The first frame of the state that it is in, and changes with the frames whose ends they
        #: wait for.
        self.mark = 0
        self.awaited: Deque[Tuple[int, Change]] = deque()
        #: Which alternatives its frames take, where states differ in these alone.
        self.pick: Optional[Pick] = None
        self._at_once = False
        #: How firings of networks are told apart where there are lists, and how many requests it
        #: takes in a batch at most (0: it takes none).
        self.rows: Any = None
        self.requests = 0
        self.channels: List[Channel] = []
        #: Who waits for the ends of frames.
        self.gates: List[Gate] = []
        #: Channels with something on them between two frames, by a name that is the same in all
        #: states.
        self.kept: Dict[str, Channel] = {}
        self.misses = 0
        self.overruns = 0
        #: Frames that were released and have not begun when everything was to end.
        self.not_begun = 0
        self.total_latency = 0
        self.longest_latency = 0
        self.latencies: Deque[int] = deque(maxlen=100_000)
        self.first_start: Optional[int] = None
        self.first_end = 0
        self.last_end = 0
        #: Frames that were finished without a part that has failed.
        self.skipped = 0
        #: Why the first of them was.
        self.first_failure: Optional[Failure] = None
        #: Of frames under way of which something is left out: the failures in them.
        self._holes: Dict[int, List[Failure]] = {}
        #: Who is told of a frame that has ended without a part, and of the failures in it.
        self.told: Optional[Callable[[int, Sequence[Failure]], None]] = None
        self._enders = 0
        self._starts: Dict[int, int] = {}
        self._missing: Dict[int, int] = {}
        self._lock = threading.Lock()

    def task(
        self,
        name: str,
        code: Code,
        inputs: Sequence[Port] = (),
        outputs: Sequence[Port] = (),
        live: bool = False,
        on_error: str = "stop",
        wcet: Optional[int] = None,
        restart: Tuple[int, int] = RESTART,
    ) -> Task:
        """Add a task. `live`: a source whose firings wait for data from outside, and are released
        by it.

        `on_error`: "stop" everything, "skip" the frame, or "restart" the task as well; how often
        it is opened at most, and the ns between two tries. `wcet` in ns is declared in the text.
        """
        task = Task(self, name, code, inputs, outputs, live, on_error, wcet, restart)
        self.tasks.append(task)
        self._named[name] = task
        self.run.tasks.append(task)
        task.number = len(self.run.tasks)
        return task

    def __getitem__(self, name: str) -> Task:
        """The task of that name, which is without the name of the app."""
        return self._named["%s.%s" % (self.name, name)]

    def path(
        self, source: Task, sink: Task, newest: Sequence[int], deadline: Optional[str] = None
    ) -> None:
        """Measure the latency from a source to another task; see `Path`."""
        self.paths.append(
            Path(source, sink, newest, None if deadline is None else Fraction(deadline))
        )

    def part(self, source: Task, sink: Task, newest: Sequence[int]) -> None:
        """A part of an age or a reaction that leads through the app; see `Path`."""
        self.parts.append(Path(source, sink, newest, None))

    @property
    def frames(self) -> int:
        """Finished frames; what ran ahead of the end of the stream has finished none."""
        return self.earlier + self.done

    @property
    def done(self) -> int:
        """Those since it began, or since its state was entered."""
        return min(self._ended, self.limit)

    def prepare(self, in_states: bool) -> None:
        """Decide which tasks start a frame (sources, or all where there are none), and which end
        it.

        A frame ends with the tasks that no task reads inside the same iteration: sinks, and what
        lies before a delay.
        """
        has_sources = any(task.is_source for task in self.tasks)
        self.rows = next((t.lists.rows for t in self.tasks if t.lists is not None), None)
        self.requests = max([t.code.requests(t.outputs) for t in self.tasks] or [0])
        traced = self.run.tracer is not None
        for task in self.tasks:
            task.starts_frame = task.is_source if has_sources else not self.is_led
            task.ends_frame = task.ends_iteration()
            task.find_initial_tokens()
            task.opens |= task.live and in_states
            task.fetches = task.from_device and task.code.device is None
            task.is_timed = task.is_source and (task.live or traced)
        if self.tasks and not any(task.ends_frame for task in self.tasks):
            self.tasks[0].ends_frame = True
        self._enders = sum(t.ends_frame for t in self.tasks)
        for path in self.paths:
            path.prepare()

    def without_deadlines(self) -> None:
        """Nothing is late."""
        self.deadline = None
        for path in self.paths:
            path.deadline = None

    @property
    def is_led(self) -> bool:
        """Are its sources all in other parts of the program?"""
        return self.run.transport is not None and self.name in self.run.transport.led

    def started_elsewhere(self, iteration: int, time_ns: int) -> None:
        """A source in another part began that frame, at that time of ours."""
        with self._lock:
            self._starts[iteration] = min(time_ns, self._starts.get(iteration, time_ns))
            self.begun = max(self.begun, iteration)
            if self.first_start is None or time_ns < self.first_start:
                self.first_start = time_ns

    def released(self, iteration: int) -> Optional[int]:
        """The release of a frame under way, as far as it is known."""
        if self.period is not None and not self.run.full_speed:
            return (self.since or self.run.begin) + int(iteration * self.period)
        return self._starts.get(iteration)

    def over(self, iteration: int) -> bool:
        """Will it not have that iteration? A stop that is still looking which frames have begun is
        waited for."""
        if iteration < self.limit:
            return False
        with self._lock:
            return iteration >= self.limit

    def overdue(self, time_ns: int) -> int:
        """Frames whose releases passed a period ago, and that have not begun."""
        begin = self.since or self.run.begin
        released = any(task.is_source and not task.live for task in self.tasks)
        if self.period is None or self.run.full_speed or not begin or not released or self.is_led:
            return 0
        due = min(int((time_ns - begin) // self.period), self.limit)
        return max(0, due - max(self.begun + 1, self._ended))

    def give_up(self, time_ns: int) -> None:
        """Everything is to end: what is overdue will not begin, and is late."""
        left = self.overdue(time_ns)
        self.not_begun += left
        self.overruns += left
        self.misses += left if self.deadline is not None else 0

    def drain(self) -> None:
        """Frames that have begun are finished, and no others begin."""
        with self._lock:
            before = self.limit
            self.limit = min(before, self.begun + 1)
            # one may have begun meanwhile, without the lock
            self.limit = min(before, max(self.limit, self.begun + 1))
        self._tell_limit()
        self.run.stir()

    def end_at(self, iterations: int) -> None:
        """The stream ends after so many iterations."""
        with self._lock:
            if iterations >= self.limit:
                return
            self.limit, self.exhausted = iterations, True
        self._tell_limit()
        self.run.stir()

    def _tell_limit(self) -> None:
        if self.run.transport is not None and self.limit < FOREVER:
            self.run.transport.limit(self, self.limit)

    def begin(self, iteration: int) -> None:
        """Something fires in that frame before any source does. Raises EndOfStream when the app
        ends before it."""
        with self._lock:
            if iteration >= self.limit:
                raise EndOfStream
            self.begun = max(self.begun, iteration)

    @property
    def under_way(self) -> bool:
        """Has it begun a frame in its state? After a change at once an inference has to have
        ended."""
        if self.pick is None:
            newest = self.begun
        elif self._at_once:
            newest = self.pick.done
        else:
            newest = self.pick.asked
        return newest >= self.mark

    def follow(self, state: str, at_once: bool) -> int:
        """Another state goes on with the frames that have not begun, at once: finished; the first
        of them."""
        if self.pick is None:
            with self._lock:
                self.mark = max(self.mark, self.begun + 1)
        else:
            self.mark = self.pick.follow(state, self.mark, at_once)
        self._at_once = at_once
        return self.mark

    def enter(
        self,
        before: Optional["App"],
        base: int,
        limit: int,
        now: int,
        stays: Sequence[Tuple[str, int]] = (("", 0),),
    ) -> None:
        """Begin anew with a state; `before` is what the app of that name was in the state where it
        last ran.

        `stays` are states that follow each other without a pause, each from a frame on.
        """
        for channel in () if before is None else before.channels:
            channel.check()
        kept = {}
        if before is not None:
            kept = {key: channel.left() for key, channel in before.kept.items()}
        self.earlier += self.done
        self.base, self.limit, self.since = base, limit, now
        self.begun, self._ended = -1, 0
        self.mark, self._at_once = 0, False
        self.awaited.clear()
        if self.pick is not None:
            self.pick.begin(stays)
        self._starts.clear()
        self._missing.clear()
        self._holes.clear()
        for channel in self.channels if before is not None else ():
            channel.clear()
        for key, left in kept.items():
            self.kept[key].restore(left)
        for task in self.tasks:
            if task.turnstile is not None:
                task.turnstile.clear()

    def add(self, other: "App") -> None:
        """Count what another app of that name has done as done by this one, too."""
        self.earlier, self._ended = self.frames + other.frames, 0
        self.deadline = _shortest(self.deadline, other.deadline)
        self.misses += other.misses
        self.overruns += other.overruns
        self.not_begun += other.not_begun
        self.skipped += other.skipped
        self.first_failure = self.first_failure or other.first_failure
        self.latencies.extend(other.latencies)
        self.total_latency += other.total_latency
        self.longest_latency = max(self.longest_latency, other.longest_latency)
        starts = [t for t in (self.first_start, other.first_start) if t is not None]
        self.first_start = min(starts) if starts else None
        self.first_end = min(filter(None, (self.first_end, other.first_end)), default=0)
        self.last_end = max(self.last_end, other.last_end)
        mine = {t.name: t for t in self.tasks}
        for task in other.tasks:
            if task.name in mine:
                mine[task.name].add(task)
            else:
                self.tasks.append(task)
        paths = {(p.kind, p.source.name, p.sink.name): p for p in self.paths}
        for path in other.paths:
            key = path.kind, path.source.name, path.sink.name
            if key in paths:
                paths[key].add(path)
            else:
                self.paths.append(path)

    def started(self, iteration: int, time_ns: int) -> None:
        """A source begins that frame. Raises EndOfStream when the app has ended meanwhile."""
        with self._lock:
            if iteration >= self.limit:
                raise EndOfStream
            if time_ns < self._starts.setdefault(iteration, time_ns):
                self._starts[iteration] = time_ns
            self.begun = max(self.begun, iteration)
            if self.first_start is None or time_ns < self.first_start:
                self.first_start = time_ns
        if self.run.transport is not None:
            self.run.transport.started(self, iteration, time_ns)

    def finished(self, latencies: List[int], end: int) -> None:
        """The next frames began and ended in the one worker that the app has, the last of them at
        `end`.

        The list is empty afterwards.
        """
        if latencies:
            self._ended += len(latencies)
            self._ended_at(end)
            self._finished(end, latencies)
            latencies.clear()

    def late(self) -> int:
        """Deadlines that were missed, of frames and of paths."""
        return self.misses + sum(path.misses for path in self.paths)

    @property
    def has_deadlines(self) -> bool:
        """Are its frames to end, or firings of its paths, in a given time?"""
        return self.deadline is not None or any(p.deadline is not None for p in self.paths)

    def without_results(self) -> str:
        """In words, if something of every frame was left out; else empty."""
        if not self.frames or self.skipped < self.frames:
            return ""
        told = "all %d frames of %s were skipped"
        if self.requests:
            told = "in each of the %d frames of %s a request was skipped"
        return "%s; %s" % (told % (self.frames, self.name), self.first_failure)

    def skip(self, iteration: int, failure: Optional[Failure] = None) -> None:
        """Something of that frame is left out."""
        with self._lock:
            failures = self._holes.setdefault(iteration, [])
            if failure is not None:
                failures.append(failure)
                self.first_failure = self.first_failure or failure

    def ended(self, iteration: int, time_ns: int) -> None:
        """One sink has finished that frame."""
        with self._lock:
            left = self._missing.pop(iteration, self._enders) - 1
            if left:
                self._missing[iteration] = left
                return
            begin = self._starts.pop(iteration, time_ns)
            latency = time_ns - begin
            self._ended += 1
            if self.run.tracer is not None:
                self.run.tracer.frame(self, iteration, begin, time_ns)
            complete = iteration not in self._holes
            failures = self._holes.pop(iteration, ())
            self._ended_at(time_ns)
            if complete:
                self._finished(time_ns, (latency,))
            else:
                self.skipped += 1
        for gate in self.gates:
            gate.wake()
        if not complete and self.told is not None:
            self.told(iteration, failures)

    def _ended_at(self, time_ns: int) -> None:
        self.first_end = self.first_end or time_ns
        self.last_end = time_ns

    def _finished(self, time_ns: int, latencies: Sequence[int]) -> None:
        while self.awaited and self.awaited[0][0] < self._ended:
            self.awaited.popleft()[1].reached(time_ns)
        self.latencies.extend(latencies)
        self.total_latency += sum(latencies)
        self.longest_latency = max(self.longest_latency, *latencies)
        if self.deadline is not None:
            due = int(self.deadline)  # latencies are whole ns: above it is above the deadline
            self.misses += sum(latency > due for latency in latencies)
