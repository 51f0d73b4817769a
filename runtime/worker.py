"""A worker: the thread that runs the static order of one processor.

In each round an entry fires for iteration `round * per_round + index - stage`: a later stage works
on an earlier iteration, so that processors overlap.
"""

from __future__ import annotations

import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

from .channel import EndOfStream, Stopped, Waiter
from .code import Network, Shut
from .failures import NO_SOURCE, Failure, describe, details_of
from .graph import App, Fire, Task
from .mailbox import LOOK
from .rounds import Rounds, rounds_of
from .tokens import Hole, Missing, Pieces, TaskError, freeze, on_host, split_outputs

if TYPE_CHECKING:
    from .control import Control
    from .program import Processor
    from .run import Run


#: So many failures of a task are told, all are counted.
MOST_TOLD = 20


class Worker(threading.Thread, Waiter):
    """Runs one static order."""

    def __init__(
        self,
        run: "Run",
        processor: "Processor",
        lane: str,
        line: memoryview,
        control: Optional["Control"] = None,
        arena: Any = None,
    ) -> None:
        threading.Thread.__init__(self, name=lane, daemon=True)
        Waiter.__init__(self)
        # `run` is what a thread does
        self.of_run, self.control, self.arena = run, control, arena
        self.processor, self.order = processor.name, list(processor.order)
        self.scheduling, self.written = processor.scheduling, processor.rounds
        self.busy = 0
        self.round = 0
        self.progress = 0
        self.prepared = threading.Event()
        self._pool = processor.name.partition("[")[0]
        #: Hands over what straight rounds have not told yet, while there are any.
        self.rest: Optional[Callable[[], None]] = None
        #: What it is doing, where others can see it whatever happens: task number, firing, since
        #: when.
        self.line = line
        #: In a program with states: has it nothing to do until its state is entered?
        self.parked = False
        self._app: App = self.order[0].task.app
        self._task = self.order[0].task
        self._iteration = 0

    @property
    def firing(self) -> Optional[Tuple[Task, int, int]]:
        """The task that it is inside, the number of the firing, and since when."""
        number = self.line[0]  # first: what the other cells hold may only be newer
        return (self.of_run.tasks[number - 1], self.line[1], self.line[2]) if number else None

    def doing(self) -> str:
        """What it does or waits for, in words; empty if it is between two firings."""
        waiting, firing = self.waiting, self.firing
        if firing is not None:
            return "%s is in %s, firing %d" % (self.processor, firing[0].name, firing[1])
        if waiting is None:
            return ""
        channel, what = waiting
        if what == "space":
            return "%s waits for space from %s" % (channel.source, channel.destination)
        return "%s waits for %s from %s" % (channel.destination, what, channel.source)

    def check(self) -> None:
        if self.of_run.stopping:
            raise Stopped
        if self._app.over(self._iteration):
            raise EndOfStream

    def run(self) -> None:
        if self.scheduling is not None:
            self.scheduling.begin(self.of_run)
        device = self.of_run.device
        if device is not None:
            device.begin_lane(self.processor, [e.task.code for e in self.order], self.arena)
        try:
            self._work()
        except Stopped:
            if device is not None:
                device.settle()
        except (MemoryError, RecursionError) as error:
            # what the task has left for others is not enough
            app, name = self._task.app.name, self._task.name
            self.of_run.fail(Failure(app, name, None, describe(error), details_of(error)))
        except BaseException as error:  # our own mistake: report it rather than hang
            self.of_run.fail(
                Failure("", "", None, "internal error: " + describe(error), traceback.format_exc())
            )
        finally:
            if device is not None and any(
                e.task.from_device or e.task.code.device is not None for e in self.order
            ):
                device.leave()

    def _work(self) -> None:
        """All rounds; where there are states, those of each stay in its state."""
        rounds = self._prepare()
        for _ in (None,) if self.control is None else self.control.stays_of(self):
            self.round = 0
            first: Optional[int] = 0
            while self._one_round(first or 0):
                self.round += 1
                first = rounds.enter() if rounds is not None else 0
            self._flush()

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
                self.of_run.fail(Failure(task.app.name, task.name, None, reason, details_of(error)))
        rounds = rounds_of(self)
        for entry in self.order:
            if entry.task.column is not None:
                entry.task.column.prepare()
        self.prepared.set()
        self.of_run.go.wait()  # no limit: set when all are ready, and when something fails
        if self.of_run.stopping:
            raise Stopped
        return rounds

    def _flush(self) -> None:
        """Wait for what a device still does for this worker."""
        for task, code in self._on_device():
            self.enter(task, max(0, task.firings - 1))  # the watchdog looks at it
            try:
                code.flush()
            except TaskError as error:
                self.of_run.fail(Failure(task.app.name, task.name, None, describe(error)))
                raise Stopped from None
            finally:
                self.line[0] = 0
            self._collect(task, code)

    def enter(self, task: Task, firing: int) -> int:
        """Write down what comes next; the time."""
        line, now = self.line, time.perf_counter_ns()
        line[1], line[2] = firing, now
        line[0] = task.number
        return now

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
        left = 0 if task.column is not None else entry.times
        try:
            if task.column is not None:
                self._task = task
                task.column.fire(self, iteration)
            while left:
                if self.of_run.stopping:
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
        self._task = task
        release = self._released(task, firing, iteration)
        arrays = self._take(task, firing, group)
        missing = next((a for a in arrays if isinstance(a, Missing)), None)
        rows = _rows(task, arrays) if group > 1 else None
        if rows is not None:
            self._fire_rows(task, firing, iteration, rows)
        elif missing is None:
            self._execute(task, firing, group, iteration, arrays, release)
        elif missing.expected:
            self._pass_over(task, firing, group, missing)
        else:
            self._execute(task, firing, group, iteration, None, release)

    def _released(self, task: Task, firing: int, iteration: int) -> Optional[int]:
        """Wait for the release of a source, and begin its iteration; the time of the release."""
        release = None
        if not (task.inputs or task.live):
            release = self.of_run.wait_for_release(self, task, firing)
        if task.opens and firing == iteration * task.per_iteration:
            task.app.begin(iteration)
        return release

    def _execute(
        self,
        task: Task,
        firing: int,
        group: int,
        iteration: int,
        arrays: Optional[List[Any]],
        release: Optional[int],
    ) -> None:
        """Firings of a task that are one call. Without `arrays`, tokens are missing that the task
        cannot do without: its holes are handed on."""
        if self.scheduling is not None:
            self.scheduling.admit(self, self.of_run)
        if task.starts_frame and not task.live and firing == iteration * task.per_iteration:
            task.app.started(iteration, time.perf_counter_ns() if release is None else release)
        start = self.enter(task, firing)
        waits = _Waits(task, self.of_run.tracer is not None) if task.is_timed else None
        results: Sequence[Any]
        try:
            if arrays is None or not self._is_open(task, firing):
                results = self.left_out(task, firing, group, iteration)
            else:
                if task.fetches:
                    arrays = [on_host(array) for array in arrays]
                    start = time.perf_counter_ns()  # waiting for a device is no work
                results = self._called(task, arrays, firing, group, start)
        except (StopIteration, EndOfStream):
            task.app.end_at(iteration)
            raise EndOfStream from None
        except BaseException as error:
            results = self.failed(error, task, firing, group, iteration, arrays)
        finally:
            self._leave(task, firing)
        end = time.perf_counter_ns()
        began = start
        if waits is not None:
            start = waits.over(start, end)
        if task.live or task.releases or task.paths:
            _note_times(task, firing, group, release, start, end, start - began)
        self._finish(task, firing, group, results, start, end)

    def _called(
        self, task: Task, arrays: List[Any], firing: int, group: int, start: int
    ) -> Sequence[Any]:
        """What the code of a task returns, recorded if that is asked for; a played processor takes
        longer."""
        run = self.of_run
        results = self.call(task, arrays, firing, group)
        if run.played is not None:
            self._linger(task, start, run.played.factors)
        if run.recorder is not None:
            seen = [on_host(a) for a in arrays], [on_host(r) for r in results]
            run.recorder(task, firing, group, *seen)
        if task.recorded is not None:
            task.recorded(firing, group, [on_host(r) for r in results])
        return results

    def left_out(self, task: Task, firing: int, group: int, iteration: int) -> List[Hole]:
        """What firings make that do not take place, since tokens are missing."""
        task.skipped += group
        return self.holes(task, firing, group, iteration)

    def _leave(self, task: Task, firing: int) -> None:
        """It is in no task any more."""
        if self.of_run.strayed:
            self.of_run.end_stray(task, firing)
        self.line[0] = 0

    def _fire_rows(self, task: Task, firing: int, iteration: int, rows: Any) -> None:
        """Firings of a network that are one run, of those for which all tokens are there."""
        run, arrays = self.of_run, rows.arrays
        if rows.left_out:
            task.skipped += rows.left_out
            task.app.skip(iteration)
        if self.scheduling is not None and arrays:
            self.scheduling.admit(self, run)
        start = self.enter(task, firing)
        try:
            if arrays:
                rows.made(self.call(task, arrays, firing, len(arrays[0])))
            if run.played is not None:
                self._linger(task, start, run.played.factors)
        except BaseException as error:
            if not _goes_on(task, error):
                self.failed(error, task, firing, len(rows), iteration)
            self._fire_singly(task, firing, iteration, rows)
        finally:
            self._leave(task, firing)
        end = time.perf_counter_ns()
        self._record_rows(task, firing, rows)
        if task.paths:
            record_path_ends(task, firing, len(rows), start, end)
        self._finish(task, firing, len(rows), rows.results, start, end)

    def _record_rows(self, task: Task, firing: int, rows: Any) -> None:
        if self.of_run.recorder is not None:
            for number, (inputs, outputs) in enumerate(rows, firing):
                self.of_run.recorder(task, number, 1, inputs, outputs)

    def _each_request(
        self, task: Task, firing: int, iteration: int, arrays: List[Any]
    ) -> Sequence[Any]:
        """What the firings of requests make whose run has failed, each by itself."""
        rows = task.app.rows(arrays, task.outputs)
        self._fire_singly(task, firing, iteration, rows)
        self._record_rows(task, firing, rows)
        return rows.results  # type: ignore[no-any-return]

    def _fire_singly(self, task: Task, firing: int, iteration: int, rows: Any) -> None:
        """Firings whose run has failed, each by itself: only those that fail are left out."""

        def fire(number: int, arrays: List[Any]) -> Sequence[Any]:
            try:
                return self.call(task, arrays, firing + number, 1)
            except BaseException as error:
                failure = self._failure(error, task, firing + number, 1)
                task.app.skip(iteration, failure)
                return [Hole(p.rate(firing + number)) for p in task.outputs]

        rows.singly(fire)

    def _take(self, task: Task, firing: int, group: int) -> List[Any]:
        """Wait for the tokens of a firing, and for room for what it will make; replicas of a task
        do so in turns."""
        stacked, turnstile = task.code.batch > 1, task.turnstile
        if turnstile is not None:
            turnstile.enter(firing, self)
        if task.hesitates:
            for port, channel in zip(task.inputs, task.feeders):
                channel.ready(port.rate(firing) * group, self)  # type: ignore[union-attr]
        arrays = [
            channel.acquire(port.rate(firing) * group, port.stacked or stacked, self)  # type: ignore[union-attr]
            for port, channel in zip(task.inputs, task.feeders)
        ]
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels:
                channel.claim(port.rate(firing) * group, self)
        if turnstile is not None:
            turnstile.leave(group)
        if task.gate is not None:
            task.gate.enter(firing, self)
        return arrays

    def _finish(
        self, task: Task, firing: int, group: int, results: Sequence[Any], start: int, end: int
    ) -> None:
        """Hand on what a firing has made, let go of what it took, and count it."""
        self._hand_on(task, firing, group, results)
        absent = sum(r.nulls for r in results[:1] if isinstance(r, Pieces))
        task.firings += group - absent
        task.absent += absent
        if task.code.device is not None:
            self._collect(task, task.code)
        else:
            self.spend(task, end - start)
        tracer = self.of_run.tracer
        if tracer is not None:
            tracer.firing(self.name, task, firing, group, start, end)

    def _hand_on(self, task: Task, firing: int, group: int, results: Sequence[Any]) -> None:
        """Tokens and room for others."""
        stacked = task.code.batch > 1
        turn = None if task.turnstile is None else (firing, group)
        for port, channels, block in zip(task.outputs, task.readers, results):
            freeze(block)
            if port.count:
                block = port.laid(block)
            for channel in channels:
                channel.commit(block, port.rate(firing) * group, port.stacked or stacked, turn)
        for port, feeder in zip(task.inputs, task.feeders):
            feeder.release(port.rate(firing) * group)  # type: ignore[union-attr]
        self.progress += 1

    def _pass_over(self, task: Task, firing: int, group: int, null: Any) -> None:
        """Firings that do not take place, since there are fewer tokens."""
        nulls = [null.passed(p, p.rate(firing) * group) for p in task.outputs]
        self._hand_on(task, firing, group, nulls)
        task.absent += group
        if self.of_run.recorder is not None:
            self.of_run.recorder(task, firing, group, None, None)

    def failed(
        self,
        error: BaseException,
        task: Task,
        firing: int,
        group: int,
        iteration: int,
        arrays: Optional[List[Any]] = None,
    ) -> Sequence[Any]:
        """A firing has raised: everything stops (Stopped), or the stream goes on without what it
        would have made. Of several requests, with what they gave in `arrays`, each fires again by
        itself."""
        if arrays is not None and group > 1 and task.app.requests and _goes_on(task, error):
            return self._each_request(task, firing, iteration, arrays)
        failure = self._failure(error, task, firing, group)
        return self.holes(task, firing, group, iteration, failure)

    def _failure(self, error: BaseException, task: Task, firing: int, group: int) -> Failure:
        """Tell and count the failure of a firing, and let its task begin anew where it says so.
        Raises Stopped where the stream does not go on."""
        run = self.of_run
        failure = Failure(task.app.name, task.name, firing, describe(error), details_of(error))
        told = task.failed < MOST_TOLD
        task.failed += group
        if not _goes_on(task, error):
            run.fail(failure)
            raise Stopped from None
        what = "it begins anew" if task.on_error == "restart" else "its frame is skipped"
        if told and task.failed >= MOST_TOLD:
            what += "; more failures of this task are only counted"
        if told:
            run.warn("%s; %s" % (failure, what))
        if task.on_error == "restart":
            self._restart(task, firing)
        return failure

    def _restart(self, task: Task, firing: int) -> None:
        """The task begins anew, at once or at a later firing. Raises Stopped where it cannot."""
        if task.code.shut is not None:
            return
        run = self.of_run
        try:
            task.code.close()
        except Exception as error:
            run.warn(str(Failure(task.app.name, task.name, firing, "close: " + describe(error))))
        task.code.shut = Shut()
        self._open(task, task.code.shut, firing)

    def _open(self, task: Task, shut: Shut, firing: int) -> None:
        """Try to open a task again. Raises Stopped where that was the last try."""
        run, (tries, pause) = self.of_run, task.restart
        try:
            task.code.open(run.home, task.inputs, task.outputs)
        except BaseException as error:
            shut.tries += 1
            shut.why = "cannot begin anew: " + describe(error)
            shut.due = time.perf_counter_ns() + pause
            failure = Failure(task.app.name, task.name, firing, shut.why, details_of(error))
            left = tries - shut.tries if isinstance(error, Exception) else 0
            if left <= 0:
                run.fail(failure)
                raise Stopped from None
            times = "1 try is" if left == 1 else "%d tries are" % left
            run.warn("%s; %s left, the next in %g s" % (failure, times, pause / 1e9))
        else:
            task.code.shut = None

    def _is_open(self, task: Task, firing: int) -> bool:
        """May the task fire? If it is closed after an error, it is opened again when its time has
        come: a source that nothing paces waits for that. Raises Stopped and EndOfStream."""
        while task.code.shut is not None:
            self.check()
            left = task.code.shut.due - time.perf_counter_ns()
            if left <= 0:
                self._open(task, task.code.shut, firing)
            elif task.may_wait and not self.of_run.ending:
                time.sleep(min(left / 1e9, LOOK))
            else:
                return False
        return True

    def holes(
        self, task: Task, firing: int, group: int, iteration: int, failure: Optional[Failure] = None
    ) -> List[Hole]:
        """What a firing makes that fails, or that is left out."""
        task.app.skip(iteration, failure)
        if self.of_run.recorder is not None:
            self.of_run.recorder(task, firing, group, None, None)
        if task.recorded is not None:
            task.recorded(firing, group, None)
        return [Hole(p.rate(firing) * group) for p in task.outputs]

    def call(self, task: Task, arrays: List[Any], firing: int, group: int) -> Sequence[Any]:
        code = task.code
        if code.shut is not None and not self._is_open(task, firing):
            raise TaskError(code.shut.why)
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
        if not outputs:
            return ()
        made = [p.accept(v, firing) for p, v in zip(outputs, split_outputs(result, outputs))]
        if task.lists is not None:
            task.lists.agree(task.inputs + outputs, [*arrays, *made])
        return made

    def _linger(self, task: Task, start: int, factors: Dict[str, float]) -> None:
        """Wait for as long as the firing would have gone on at a slower clock; what waits for data
        is no work."""
        more = factors.get(self._pool, 1.0) - 1
        if more > 0 and not task.live and task.code.device is None:
            time.sleep((time.perf_counter_ns() - start) * more / 1e9)

    def spend(self, task: Task, spent: int) -> None:
        self.busy += spent
        task.squares += spent * spent
        task.busy += spent  # replicas may lose an update to each other: these are statistics
        if spent > task.longest:
            task.longest = spent

    def record(self, task: Task, firings: int, busy: int, squares: int, longest: int) -> None:
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
            self.spend(task, code.spent.popleft())


class _Waits:
    """How long a firing of a source waits for its data, where that matters: a live source works
    only while its thread computes, and of one that is traced it is noted."""

    def __init__(self, task: Task, traced: bool) -> None:
        self._task, self._traced = task, traced
        self._spent = time.thread_time_ns() if task.live else 0
        self._ran = _ran() if traced else 0

    def over(self, start: int, end: int) -> int:
        """The firing has ended: when its work began, as if it had not waited."""
        if self._traced:
            self._task.waited += end - start - (_ran() - self._ran)
        if not self._task.live:
            return start
        return end - (time.thread_time_ns() - self._spent)


def _goes_on(task: Task, error: BaseException) -> bool:
    """Does the stream go on after this error? SystemExit stops everything: a task may not end the
    program behind its back."""
    return task.on_error != "stop" and isinstance(error, Exception)


def _rows(task: Task, arrays: Sequence[Any]) -> Any:
    """Firings of a network by themselves, where tokens of some are missing, and others take place;
    None where they are one run, or none."""
    for block in arrays:
        if isinstance(block, (Missing, Pieces)) and block.mixed:
            rows = block.rows or (task.app.rows if task.app.requests else None)
            return None if rows is None else rows(arrays, task.outputs)
    return None


def _note_times(
    task: Task,
    firing: int,
    group: int,
    release: Optional[int],
    start: int,
    end: int,
    waited: int,
) -> None:
    """Tell paths when firings were released and ended, in ns. Data releases a live source that has
    `waited` for it, and may begin a frame."""
    if task.live:
        release = task.arrival(end, waited)
        if task.starts_frame and firing % task.per_iteration == 0:
            task.app.started(firing // task.per_iteration, release)
    record_path_ends(task, firing, group, start if release is None else release, end)


def record_path_ends(task: Task, firing: int, group: int, released: int, end: int) -> None:
    """Note the release for paths that begin with the task, and the end for those that end there."""
    numbers = range(firing, firing + group)
    if task.releases:
        for number in numbers:
            task.released(number, released)
    for path in task.paths:
        for number in numbers:
            path.ended(number, end)


def _ran() -> int:
    """Nanoseconds in which this thread has computed, or would have if others had not had the
    core."""
    try:
        with open("/proc/thread-self/schedstat") as stream:
            computed, delayed, _ = stream.read().split()
        return int(computed) + int(delayed)
    except (OSError, ValueError):  # no Linux
        return time.thread_time_ns()
