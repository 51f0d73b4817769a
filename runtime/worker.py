"""A worker: the thread that runs the static order of one processor.

In each round an entry fires for iteration `round * per_round + index - stage`: a later stage works
on an earlier iteration, so that processors overlap.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from .channel import EndOfStream, Stopped, Waiter
from .code import Network
from .failures import NO_SOURCE, Failure, describe, details_of
from .graph import App, Fire, Task
from .rounds import Rounds, rounds_of
from .tokens import Hole, TaskError, freeze, on_host, split_outputs

if TYPE_CHECKING:
    from .program import Program


class Worker(threading.Thread, Waiter):
    """Runs one static order."""

    def __init__(
        self,
        program: "Program",
        processor: str,
        lane: str,
        order: Sequence[Fire],
        line: memoryview,
        fixed_priority: Optional[Tuple[int, int]] = None,
        arena: Any = None,
    ) -> None:
        threading.Thread.__init__(self, name=lane, daemon=True)
        Waiter.__init__(self)
        self._fixed_priority, self._arena = fixed_priority, arena
        self.program, self.processor, self.order = program, processor, list(order)
        self.busy = 0
        self.round = 0
        self.progress = 0
        self.prepared = threading.Event()
        self._pool = processor.partition("[")[0]
        #: Hands over what straight rounds have not told yet, while there are any.
        self.rest: Optional[Callable[[], None]] = None
        #: What it is doing, where others can see it whatever happens: task number, firing, since
        #: when.
        self.line = line
        #: In a program with states: has it nothing to do until its state is entered?
        self.parked = False
        self._app: App = order[0].task.app
        self._task = order[0].task
        self._iteration = 0

    @property
    def firing(self) -> Optional[Tuple[Task, int, int]]:
        """The task that it is inside, the number of the firing, and since when."""
        number = self.line[0]  # first: what the other cells hold may only be newer
        return (self.program.tasks[number - 1], self.line[1], self.line[2]) if number else None

    def check(self) -> None:
        if self.program.stopping:
            raise Stopped
        if self._app.over(self._iteration):
            raise EndOfStream

    def run(self) -> None:
        if self._fixed_priority is not None:
            self._ask_for_priority(*self._fixed_priority)
        device = self.program.device
        if device is not None:
            device.begin_lane(self.processor, [e.task.code for e in self.order], self._arena)
        try:
            rounds = self._prepare()
            control = self.program.control
            for _ in (None,) if control is None else control.stays_of(self):
                self.round = 0
                first: Optional[int] = 0
                while self._one_round(first or 0):
                    self.round += 1
                    first = rounds.enter() if rounds is not None else 0
                self._flush()
        except Stopped:
            if device is not None:
                device.settle()
        except (MemoryError, RecursionError) as error:
            # what the task has left for others is not enough
            app, name = self._task.app.name, self._task.name
            self.program.fail(Failure(app, name, None, describe(error), details_of(error)))
        except BaseException as error:  # our own mistake: report it rather than hang
            self.program.fail(
                Failure("", "", None, "internal error: " + describe(error), traceback.format_exc())
            )
        finally:
            if device is not None and any(
                e.task.from_device or e.task.code.device is not None for e in self.order
            ):
                device.leave()

    def _on_device(self) -> List[Tuple[Task, Any]]:
        tasks = {id(e.task): e.task for e in self.order}
        return [(t, t.code) for t in tasks.values() if t.code.device is not None]

    def _prepare(self) -> Optional[Rounds]:
        """Make what belongs to this worker, then wait until all are ready."""
        for task, code in self._on_device():
            try:
                code.cuda.enter()
                code.prepare()
            except Exception as error:
                reason = "cannot start: " + describe(error)
                self.program.fail(
                    Failure(task.app.name, task.name, None, reason, details_of(error))
                )
        rounds = rounds_of(self)
        self.prepared.set()
        self.program.go.wait()  # no limit: set when all are ready, and when something fails
        if self.program.stopping:
            raise Stopped
        return rounds

    def _flush(self) -> None:
        """Wait for what a device still does for this worker."""
        for task, code in self._on_device():
            self._enter(task, max(0, task.firings - 1))  # the watchdog looks at it
            try:
                code.flush()
            except TaskError as error:
                self.program.fail(Failure(task.app.name, task.name, None, describe(error)))
                raise Stopped from None
            finally:
                self.line[0] = 0
            self._collect(task, code)

    def _enter(self, task: Task, firing: int) -> int:
        """Write down what comes next; the time."""
        line, now = self.line, time.perf_counter_ns()
        line[1], line[2] = firing, now
        line[0] = task.number
        return now

    def _ask_for_priority(self, core: int, priority: int) -> None:
        """Bind this thread to its core under SCHED_FIFO; without permission say so and go on as an
        ordinary thread."""
        thread = threading.get_native_id()
        try:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(thread, {cores[core % len(cores)]})
        except (OSError, AttributeError) as error:
            self.program.say(
                "fixed priorities are not in force (%s): the system schedules as it likes" % error
            )

    def at(self, iteration: int) -> None:
        """It works on that iteration of its app now."""
        self._iteration = iteration

    def _one_round(self, first: int = 0) -> bool:
        """Go through the order, from an entry on. False when there is nothing left to do."""
        alive = first > 0
        for entry in self.order[first:]:
            iteration = self.round * entry.per_round + entry.index - entry.stage
            app = entry.task.app
            if app.over(iteration):
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
        if entry.first + entry.times == task.per_iteration and task.ends_frame:
            if task.code.device is not None:
                self._flush()
            task.app.ended(iteration, time.perf_counter_ns())

    def _fire(self, task: Task, firing: int, group: int, iteration: int) -> None:
        app, program = task.app, self.program
        self._task, live = task, task.live
        release = (
            program.wait_for_release(self, task, firing) if task.is_source and not live else None
        )
        if release is not None and program.tracer is not None:
            program.tracer.release(self.name, task, firing, release)
        batched = task.code.batch > 1
        first = firing == iteration * task.per_iteration
        if task.opens and first:
            app.begin(iteration)
        if task.turnstile is not None:
            task.turnstile.enter(firing, self)
        for port, channel in zip(task.inputs, task.feeders) if task.hesitates else ():
            channel.ready(port.rate(firing) * group, self)  # type: ignore[union-attr]
        arrays = [
            channel.acquire(port.rate(firing) * group, port.stacked or batched, self)  # type: ignore[union-attr]
            for port, channel in zip(task.inputs, task.feeders)
        ]
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels:
                channel.claim(port.rate(firing) * group, self)
        if task.turnstile is not None:
            task.turnstile.leave(group)
        first &= task.starts_frame
        if first and not live:
            app.started(iteration, time.perf_counter_ns() if release is None else release)
        traced = program.tracer is not None and task.is_source
        start, spent = self._enter(task, firing), time.thread_time_ns() if live else 0
        ran = _ran() if traced else 0
        try:
            results: Sequence[Any]
            if any(isinstance(a, Hole) for a in arrays):
                results = self._left_out(task, firing, group, iteration)
            else:
                if task.from_device and task.code.device is None:
                    arrays = [on_host(a) for a in arrays]
                    start = time.perf_counter_ns()  # waiting for a device is no work
                results = self._call(task, arrays, firing, group)
                if program.played is not None:
                    self._linger(task, start, program.played.factors)
                if program.recorder is not None:
                    seen = [on_host(a) for a in arrays], [on_host(r) for r in results]
                    program.recorder(task, firing, group, *seen)
        except (StopIteration, EndOfStream):
            app.end_at(iteration)
            raise EndOfStream from None
        except BaseException as error:
            # SystemExit too: a task may not end the program behind its back
            failure = Failure(app.name, task.name, firing, describe(error), details_of(error))
            if task.on_error == "stop" or not isinstance(error, Exception):
                program.fail(failure)
                raise Stopped from None
            results = self._failed(failure, task, firing, group, iteration)
        finally:
            if program.strayed:
                program.end_stray(task, firing)
            self.line[0] = 0
        end = time.perf_counter_ns()
        if traced:
            task.waited += end - start - (_ran() - ran)
        if live:
            release, start = task.arrival(end), end - (time.thread_time_ns() - spent)
            if first:
                app.started(iteration, release)
        if task.releases:
            for number in range(firing, firing + group):
                task.releases[number % len(task.releases)] = start if release is None else release
        for path in task.paths:
            for number in range(firing, firing + group):
                path.ended(number, end)
        turn = (firing, group) if task.turnstile is not None else None
        for port, channels, block in zip(task.outputs, task.readers, results):
            freeze(block)
            for channel in channels:
                channel.commit(block, port.rate(firing) * group, port.stacked or batched, turn)
        for port, feeder in zip(task.inputs, task.feeders):
            feeder.release(port.rate(firing) * group)  # type: ignore[union-attr]
        self._account(task, firing, group, start, end)

    def _failed(
        self, failure: Failure, task: Task, firing: int, group: int, iteration: int
    ) -> List[Hole]:
        """A firing has failed, and the stream goes on without what it would have made."""
        program = self.program
        task.failed += group
        program.say(
            "%s; %s"
            % (failure, "it begins anew" if task.on_error == "restart" else "its frame is skipped")
        )
        if task.on_error == "restart":
            try:
                task.code.close()
                task.code.open(program.home, task.inputs, task.outputs)
            except BaseException as error:
                reason = "cannot begin anew: " + describe(error)
                program.fail(Failure(task.app.name, task.name, firing, reason, details_of(error)))
                raise Stopped from None
        return self._holes(task, firing, group, iteration)

    def _left_out(self, task: Task, firing: int, group: int, iteration: int) -> List[Hole]:
        """A firing that does not take place, since something it needs is missing."""
        task.skipped += group
        return self._holes(task, firing, group, iteration)

    def _holes(self, task: Task, firing: int, group: int, iteration: int) -> List[Hole]:
        task.app.skip(iteration)
        if self.program.recorder is not None:
            self.program.recorder(task, firing, group, None, None)
        return [Hole(p.rate(firing) * group) for p in task.outputs]

    def _call(self, task: Task, arrays: List[Any], firing: int, group: int) -> Sequence[Any]:
        code = task.code
        if code.device is not None:
            return code.fire(arrays, firing)  # type: ignore[no-any-return]
        if code.batch > 1:
            assert isinstance(code, Network)
            return code.fire_batch(arrays)
        try:
            result = code.fire(arrays, firing)
        except StopIteration:
            if task.is_source:
                raise
            raise TaskError(NO_SOURCE) from None
        outputs = task.outputs
        return (
            [p.accept(v, firing) for p, v in zip(outputs, split_outputs(result, outputs))]
            if outputs
            else ()
        )

    def _linger(self, task: Task, start: int, factors: Dict[str, float]) -> None:
        """Wait for as long as the firing would have gone on at a slower clock; what waits for data
        is no work."""
        more = factors.get(self._pool, 1.0) - 1
        if more > 0 and not task.live and task.code.device is None:
            time.sleep((time.perf_counter_ns() - start) * more / 1e9)

    def _account(self, task: Task, firing: int, group: int, start: int, end: int) -> None:
        self.progress += 1
        task.firings += group
        if task.code.device is not None:
            self._collect(task, task.code)
        else:
            self._spend(task, end - start)
        if self.program.tracer is not None:
            self.program.tracer.firing(self.name, task, firing, group, start, end)

    def _spend(self, task: Task, spent: int) -> None:
        self.busy += spent
        task.squares += spent * spent
        task.busy += spent  # replicas may lose an update to each other: these are statistics
        if spent > task.longest:
            task.longest = spent

    def tell(self, task: Task, firings: int, busy: int, squares: int, longest: int) -> None:
        """What so many firings took together, and the longest one."""
        self.progress += firings
        self.busy += busy
        task.firings += firings
        task.busy += busy
        task.squares += squares
        task.longest = longest

    def _collect(self, task: Task, code: Any) -> None:
        """A firing on a device has only been started: what it took is known later."""
        while code.spent:
            self._spend(task, code.spent.popleft())


def _ran() -> int:
    """Nanoseconds in which this thread has computed, or would have if others had not had the
    core."""
    try:
        with open("/proc/thread-self/schedstat") as stream:
            computed, delayed, _ = stream.read().split()
        return int(computed) + int(delayed)
    except (OSError, ValueError):  # no Linux
        return time.thread_time_ns()
