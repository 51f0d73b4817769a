"""A program: apps with tasks and channels, processors with static orders, and everything that runs them.

One worker thread per processor (or per app and processor) fires its tasks in a fixed order, again and again. In each
round an entry fires for iteration `round * per_round + index - stage`: a later stage works on an earlier iteration,
so that processors overlap.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections import deque
from fractions import Fraction
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .channel import Channel, EndOfStream, LocalChannel, Stopped, Turnstile, Waiter
from .code import Code, Network
from .tokens import Port, TaskError, initial_tokens, split_outputs

FOREVER = 1 << 62
#: Seconds without any progress, with every worker waiting for another, that count as a deadlock.
DEADLOCK_AFTER = 1.0
#: Seconds that a stop may take before stuck firings are abandoned.
GRACE = 0.6
#: Seconds that frames in flight get to finish after Ctrl-C.
DRAIN = 5.0


class Failure:
    """Why a program stopped: app, task and firing (counted from 0), and the reason with its traceback."""

    def __init__(self, app: str, task: str, firing: Optional[int], reason: str, details: str = "") -> None:
        self.app, self.task, self.firing, self.reason, self.details = app, task, firing, reason, details

    def __str__(self) -> str:
        if not self.task:
            return self.reason
        where = "" if self.firing is None else " at firing %d" % self.firing
        return "app %s, task %s failed%s: %s" % (self.app, self.task, where, self.reason)


class Task:
    """One task of the running program. Times in ns."""

    def __init__(self, app: "App", name: str, code: Code, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.app, self.name, self.code = app, name, code
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.readers: List[List[Channel]] = [[] for _ in outputs]
        self.feeders: List[Optional[Channel]] = [None for _ in inputs]
        self.per_iteration = 1
        self.turnstile: Optional[Turnstile] = None
        self.phases = max([len(p.rates) for p in self.inputs + self.outputs] or [1])
        self.firings = 0
        self.busy = 0
        self.longest = 0

    @property
    def is_source(self) -> bool:
        """A task without inputs: it decides when the stream ends."""
        return not self.inputs


class Fire:
    """An entry of a static order.

    Fires `task` `times` times, starting with firing `first` of an iteration. `stage` is how many iterations it lags
    behind, `replica` (r, n) means: only iterations i with i % n == r; `round` (j, m): the j-th of m iterations that
    its app has in one round.
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


class App:
    """`period` and `deadline` in ns (exact fractions) or None. `limit` is the number of iterations it will have."""

    def __init__(self, program: "Program", name: str, period: Optional[Fraction], deadline: Optional[Fraction]) -> None:
        self.program, self.name = program, name
        self.period, self.deadline = period, deadline
        self.tasks: List[Task] = []
        self.limit = FOREVER
        self.begun = -1
        self.frames = 0
        self.misses = 0
        self.overruns = 0
        self.total_latency = 0
        self.longest_latency = 0
        self.latencies: Deque[int] = deque(maxlen=100_000)
        self.first_start: Optional[int] = None
        self.last_end = 0
        self._starts: Dict[int, int] = {}
        self._missing: Dict[int, int] = {}
        self._lock = threading.Lock()

    def task(self, name: str, code: Code, inputs: Sequence[Port] = (), outputs: Sequence[Port] = ()) -> Task:
        """Add a task."""
        task = Task(self, name, code, inputs, outputs)
        self.tasks.append(task)
        return task

    def prepare(self) -> None:
        """Decide which tasks start and end a frame: sources and sinks, or all where a graph has none."""
        self.starters = [t for t in self.tasks if not t.inputs] or self.tasks
        self.enders = [t for t in self.tasks if not t.outputs] or self.tasks

    def end_at(self, iterations: int) -> None:
        """The stream ends after so many iterations."""
        if iterations < self.limit:
            self.limit = iterations
            self.program.stir()

    def started(self, iteration: int, time_ns: int) -> None:
        """A source begins that frame."""
        with self._lock:
            if time_ns < self._starts.setdefault(iteration, time_ns):
                self._starts[iteration] = time_ns
            self.begun = max(self.begun, iteration)
            if self.first_start is None or time_ns < self.first_start:
                self.first_start = time_ns

    def ended(self, iteration: int, time_ns: int) -> None:
        """One sink has finished that frame."""
        with self._lock:
            left = self._missing.pop(iteration, len(self.enders)) - 1
            if left:
                self._missing[iteration] = left
                return
            latency = time_ns - self._starts.pop(iteration, time_ns)
            self.frames += 1
            self.last_end = time_ns
            self.latencies.append(latency)
            self.total_latency += latency
            self.longest_latency = max(self.longest_latency, latency)
            if self.deadline is not None and latency > self.deadline:
                self.misses += 1


class Worker(threading.Thread, Waiter):
    """Runs one static order."""

    def __init__(
        self,
        program: "Program",
        processor: str,
        order: Sequence[Fire],
        fixed_priority: Optional[Tuple[int, int]] = None,
    ) -> None:
        threading.Thread.__init__(self, name=processor, daemon=True)
        Waiter.__init__(self)
        self._fixed_priority = fixed_priority
        self.program, self.processor, self.order = program, processor, list(order)
        self.busy = 0
        self.round = 0
        self.progress = 0
        self.firing: Optional[Tuple[Task, int, int]] = None
        self._app: App = order[0].task.app
        self._iteration = 0

    def check(self) -> None:
        if self.program.stopping:
            raise Stopped
        if self._iteration >= self._app.limit:
            raise EndOfStream

    def run(self) -> None:
        if self._fixed_priority is not None:
            self._ask_for_priority(*self._fixed_priority)
        try:
            while self._one_round():
                self.round += 1
        except Stopped:
            pass
        except BaseException as error:  # our own mistake: report it rather than hang
            self.program.fail(Failure("", "", None, "internal error: %s" % error, traceback.format_exc()))

    def _ask_for_priority(self, core: int, priority: int) -> None:
        """Bind this thread to its core under SCHED_FIFO; without permission say so and go on as an ordinary thread."""
        thread = threading.get_native_id()
        try:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(thread, {cores[core % len(cores)]})
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
        except (OSError, AttributeError) as error:
            note = "fixed priorities are not in force (%s): threads share the cores as the system likes" % error
            if note not in self.program.notes:
                self.program.notes.append(note)

    def _one_round(self) -> bool:
        alive = False
        for entry in self.order:
            iteration = self.round * entry.per_round + entry.index - entry.stage
            app = entry.task.app
            if iteration >= app.limit:
                continue
            alive = True
            if iteration < 0 or iteration % entry.replicas != entry.replica:
                continue
            self._app, self._iteration = app, iteration
            self._fire_all(entry, iteration)
        return alive

    def _fire_all(self, entry: Fire, iteration: int) -> None:
        task = entry.task
        firing = iteration * task.per_iteration + entry.first
        left = entry.times
        try:
            while left:
                if self.program.stopping:
                    raise Stopped
                group = min(task.code.batch, left)
                self._fire(task, firing, group, iteration)
                firing += group
                left -= group
        except EndOfStream:
            return
        if entry.first + entry.times == task.per_iteration and task in task.app.enders:
            task.app.ended(iteration, time.perf_counter_ns())

    def _fire(self, task: Task, firing: int, group: int, iteration: int) -> None:
        app, program = task.app, self.program
        release = program.wait_for_release(self, task, firing) if task.is_source else None
        batched = task.code.batch > 1
        if task.turnstile is not None:
            task.turnstile.enter(firing, self)
        arrays = [
            channel.acquire(port.rate(firing) * group, port.stacked or batched, self)  # type: ignore[union-attr]
            for port, channel in zip(task.inputs, task.feeders)
        ]
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels:
                channel.claim(port.rate(firing) * group, self)
        if task.turnstile is not None:
            task.turnstile.leave(group)
        self.firing = (task, firing, time.perf_counter_ns())
        start = self.firing[2]
        if task in app.starters and firing == iteration * task.per_iteration:
            app.started(iteration, release if release is not None else start)
        try:
            results = self._call(task, arrays, firing, group)
        except (StopIteration, EndOfStream):
            app.end_at(iteration)
            raise EndOfStream from None
        except BaseException as error:  # SystemExit too: a task may not end the program behind its back
            program.fail(Failure(app.name, task.name, firing, _describe(error), _details(error)))
            raise Stopped from None
        finally:
            self.firing = None
        end = time.perf_counter_ns()
        turn = (firing, group) if task.turnstile is not None else None
        if program.recorder is not None:
            program.recorder(task, firing, group, arrays, results)
        for port, channels, block in zip(task.outputs, task.readers, results):
            block.setflags(write=False)
            for channel in channels:
                channel.commit(block, port.rate(firing) * group, port.stacked or batched, turn)
        for port, feeder in zip(task.inputs, task.feeders):
            feeder.release(port.rate(firing) * group)  # type: ignore[union-attr]
        self._account(task, firing, group, start, end)

    def _call(self, task: Task, arrays: List[np.ndarray], firing: int, group: int) -> Sequence[np.ndarray]:
        code = task.code
        if code.batch > 1:
            assert isinstance(code, Network)
            return code.fire_batch(arrays)
        try:
            result = code.fire(arrays, firing)
        except StopIteration:
            if task.is_source:
                raise
            raise TaskError("raised StopIteration; only a source may end the stream") from None
        outputs = task.outputs
        if not outputs:
            return ()
        values = split_outputs(result, outputs)
        if self.program.strict or firing < task.phases:
            return [p.accept(v, firing) for p, v in zip(outputs, values)]
        return [v if isinstance(v, np.ndarray) else p.accept(v, firing) for p, v in zip(outputs, values)]

    def _account(self, task: Task, firing: int, group: int, start: int, end: int) -> None:
        spent = end - start
        self.busy += spent
        self.progress += 1
        task.busy += spent  # replicas may lose an update to each other: these are statistics
        task.firings += group
        if spent > task.longest:
            task.longest = spent
        if self.program.tracer is not None:
            self.program.tracer.firing(self.processor, task.name, firing, start, end)
            for channel in task.feeders + [c for group_ in task.readers for c in group_]:
                self.program.tracer.fill(channel.name, channel.filled, end)  # type: ignore[union-attr]


def _describe(error: BaseException) -> str:
    if isinstance(error, TaskError):
        return str(error)
    text = "%s: %s" % (type(error).__name__, error)
    if "read-only" in str(error):
        text += " (arrays on a channel are read-only: copy an input before changing it, return a new array each firing)"
    return text


def _details(error: BaseException) -> str:
    """The traceback from the task's own code on."""
    if isinstance(error, TaskError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.abspath(__file__))
    own = [f for f in frames if not os.path.abspath(f.filename).startswith(here)]
    return "".join(traceback.format_list(own))


class Program:
    """Built by the generated `main.py`, then run once."""

    def __init__(self, name: str, home: str) -> None:
        self.name, self.home = name, home
        self.apps: List[App] = []
        self.channels: List[Channel] = []
        self.orders: List[Tuple[str, List[Fire]]] = []
        self.priorities: List[Optional[Tuple[int, int]]] = []
        self.notes: List[str] = []
        self.workers: List[Worker] = []
        self.stopping = False
        self.failure: Optional[Failure] = None
        self.strict = False
        self.full_speed = False
        self.recorder: Optional[Callable[..., None]] = None
        self.tracer: Any = None
        self.interrupts = 0
        self.begin = 0
        self.seconds = 0.0
        self._stirred = threading.Event()
        self._wiring: List[Tuple[Any, ...]] = []

    # -- construction ----------------------------------------------------------------------------------------------
    def app(self, name: str, period: Optional[str] = None, deadline: Optional[str] = None) -> App:
        """Add an app; times are exact fractions of ns as text, such as "20000000" or "100000000/3"."""
        made = App(self, name, Fraction(period) if period else None, Fraction(deadline) if deadline else None)
        self.apps.append(made)
        return made

    def file(self, path: str) -> str:
        """A data file of the build, as a parameter of a task."""
        return os.path.join(self.home, path)

    def channel(
        self, source: Task, output: str, destination: Task, input: str, capacity: int,
        delay: int = 0, values: Sequence[float] = (),
    ) -> None:  # fmt: skip
        """Connect an output to an input. `capacity` is in tokens."""
        self._wiring.append((source, output, destination, input, capacity, delay, values))

    def processor(self, name: str, order: Sequence[Fire], fixed_priority: Optional[Tuple[int, int]] = None) -> None:
        """A worker that runs this order, again and again.

        `fixed_priority` (core, priority 1..99): its thread is bound to that core and asks for SCHED_FIFO.
        """
        self.orders.append((name, list(order)))
        self.priorities.append(fixed_priority)

    def _wire(self) -> None:
        where: Dict[int, List[int]] = {}
        for number, (_, order) in enumerate(self.orders):
            for entry in order:
                places = where.setdefault(id(entry.task), [])
                if number not in places:
                    places.append(number)
                if entry.replicas > 1 and entry.task.turnstile is None:
                    entry.task.turnstile = Turnstile(entry.task.name)
        for _, order in self.orders:
            counts: Dict[int, int] = {}
            for entry in order:
                if entry.index == 0:
                    counts[id(entry.task)] = counts.get(id(entry.task), 0) + entry.times
            for entry in order:
                entry.task.per_iteration = counts[id(entry.task)]
        for source, output, destination, input, capacity, delay, values in self._wiring:
            out = [p.name for p in source.outputs].index(output)
            inn = [p.name for p in destination.inputs].index(input)
            name = "%s.%s->%s.%s" % (source.name, output, destination.name, input)
            places = where[id(source)] + where[id(destination)]
            kind = LocalChannel if len(set(places)) == 1 else Channel
            port = source.outputs[out]
            made = kind(name, capacity, initial_tokens(port, delay, values))
            made.source, made.destination = source.name, destination.name
            made.empty = np.zeros((0,) + port.shape, port.dtype)
            source.readers[out].append(made)
            destination.feeders[inn] = made
            self.channels.append(made)

    # -- running ---------------------------------------------------------------------------------------------------
    def run(
        self,
        frames: Optional[int] = None,
        full_speed: bool = False,
        strict: bool = False,
        watchdog: float = 60.0,
        drain: float = DRAIN,
        progress: Optional[Callable[["Program"], None]] = None,
    ) -> bool:
        """Run until all streams end (or `frames` iterations of each app are done). True unless something failed.

        `watchdog`: seconds after which a firing that does not return stops the program (sources may wait longer;
        0 = never). `drain`: seconds that frames in flight get after an interrupt.
        """
        self.full_speed, self.strict = full_speed, strict
        self._wire()
        for app in self.apps:
            app.prepare()
            if frames is not None:
                app.limit = frames
        if not self._open():
            return False
        self.workers = [
            Worker(self, name, order, fixed) for (name, order), fixed in zip(self.orders, self.priorities) if order
        ]
        # A thread that computes in Python may keep the interpreter this long; ONNX Runtime's threads wait for it.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)
        self.begin = time.perf_counter_ns()
        for worker in self.workers:
            worker.start()
        try:
            Watch(self, watchdog, drain, progress).until_done()
        finally:
            sys.setswitchinterval(interval)
        self.seconds = (time.perf_counter_ns() - self.begin) / 1e9
        self._close()
        return self.failure is None

    def _open(self) -> bool:
        for task in (t for app in self.apps for t in app.tasks):
            try:
                task.code.open(self.home, task.inputs, task.outputs)
            except Exception as error:
                reason = "cannot start: " + _describe(error)
                self.fail(Failure(task.app.name, task.name, None, reason, _details(error)))
                return False
        return True

    def _close(self) -> None:
        if any(w.is_alive() for w in self.workers):
            return  # a stuck firing still uses its task
        for task in (t for app in self.apps for t in app.tasks):
            try:
                task.code.close()
            except Exception as error:
                self.fail(Failure(task.app.name, task.name, None, "close: " + _describe(error), _details(error)))

    def wait_for_release(self, worker: Worker, task: Task, firing: int) -> Optional[int]:
        """Sleep until that firing of a source is released; its release time, or None at full speed."""
        app = task.app
        if app.period is None or self.full_speed:
            return None
        step = app.period / task.per_iteration
        release = self.begin + int(firing * step)
        while True:
            worker.check()
            left = release - time.perf_counter_ns()
            if left <= 0:
                break
            if self._stirred.is_set():
                time.sleep(min(left / 1e9, 0.01))
            else:
                self._stirred.wait(left / 1e9)
            worker.progress += 1
        if -left >= step:
            app.overruns += 1
        return release

    # -- stopping --------------------------------------------------------------------------------------------------
    def stir(self) -> None:
        """Something changed: everybody who waits looks again."""
        self._stirred.set()
        for channel in self.channels:
            channel.wake()
        for task in (t for app in self.apps for t in app.tasks):
            if task.turnstile is not None:
                task.turnstile.wake()

    def fail(self, failure: Failure) -> None:
        """Stop everything; the first failure is the one that is reported."""
        if self.failure is None:
            self.failure = failure
        self.stopping = True
        self.stir()

    def drain(self) -> None:
        """Finish the frames that have begun, then end."""
        for app in self.apps:
            app.end_at(app.begun + 1)


class Watch:
    """The main thread's part: waits for the workers, notices deadlocks and stuck firings, and drains on a signal."""

    def __init__(
        self, program: Program, watchdog: float, drain: float, progress: Optional[Callable[[Program], None]]
    ) -> None:
        self._program, self._watchdog, self._drain, self._progress = program, watchdog, drain, progress
        self._seen = -1
        self._since = time.monotonic()
        self._drain_until: Optional[float] = None
        self._warned: Dict[Tuple[str, int], float] = {}

    def until_done(self) -> None:
        """Return when all workers are done, or the program had to be stopped."""
        program = self._program
        handled = 0
        while True:
            alive = [w for w in program.workers if w.is_alive()]
            if not alive:
                return
            alive[0].join(0.05)
            if program.stopping:
                return self._abandon()
            if program.interrupts > handled:
                handled = program.interrupts
                if handled > 1:
                    program.stopping = True
                    program.stir()
                    return self._abandon()
                program.drain()
                self._drain_until = time.monotonic() + self._drain
            if self._drain_until is not None and time.monotonic() > self._drain_until:
                program.stopping = True
                program.stir()
                print("flowc: frames in flight did not end; %s" % self._who_waits(), file=sys.stderr)
                return self._abandon()
            self._check_deadlock(alive)
            self._check_stuck(alive)
            if self._progress is not None:
                self._progress(program)

    def _abandon(self) -> None:
        deadline = time.monotonic() + GRACE
        for worker in self._program.workers:
            worker.join(max(0.0, deadline - time.monotonic()))

    def _check_deadlock(self, alive: List[Worker]) -> None:
        progress = sum(w.progress for w in self._program.workers)
        if progress != self._seen or not all(w.waiting for w in alive):
            self._seen, self._since = progress, time.monotonic()
        elif time.monotonic() - self._since > DEADLOCK_AFTER:
            self._program.fail(Failure("", "", None, "deadlock: " + self._who_waits()))

    def _check_stuck(self, alive: List[Worker]) -> None:
        now = time.perf_counter_ns()
        for worker in alive:
            firing = worker.firing
            if firing is None:
                continue
            task, number, start = firing
            seconds = (now - start) / 1e9
            if self._watchdog and seconds > self._watchdog and not task.is_source:
                reason = "did not return for %.0f s (see --watchdog); %s" % (seconds, self._who_waits())
                self._program.fail(Failure(task.app.name, task.name, number, reason))
            elif seconds > self._warned.get((task.name, number), 10.0):
                self._warned = {(task.name, number): 2 * seconds}
                print("flowc: %s has been in firing %d for %.0f s" % (task.name, number, seconds), file=sys.stderr)

    def _who_waits(self) -> str:
        lines = []
        for worker in self._program.workers:
            waiting, firing = worker.waiting, worker.firing
            if firing is not None:
                lines.append("%s is in %s, firing %d" % (worker.processor, firing[0].name, firing[1]))
            elif waiting is not None:
                place, what = waiting
                who, whom = place.destination, place.source
                if what == "space":
                    who, whom = whom, who
                lines.append("%s waits for %s from %s" % (who, what, whom))
        return "; ".join(lines) or "nobody waits"
