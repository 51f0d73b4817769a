"""The main thread of a running program: waits for the workers, and sees to it that nothing
hangs."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import digits
from .failures import Failure
from .steady import join
from .system import is_stopped
from .worker import Worker

if TYPE_CHECKING:
    from .graph import App, Path
    from .run import Run

#: Seconds without any progress, with every worker waiting for another, that count as a deadlock.
DEADLOCK_AFTER = 1.0
#: Seconds that a stop may take before stuck firings are abandoned.
GRACE = 0.6
#: Nanoseconds after which a source that has not returned is taken to wait for its data, when the
#: program is to end.
WAITS = 150_000_000
#: A gap between two looks that means the process was suspended.
ASLEEP = 1.0
#: Seconds between two words about a task that does not come back from its start, and the words.
STARTS = 5.0
NO_LIFE = "no sign of life for %.0f s: %s is %s"
#: Seconds between two looks at the workers.
LOOK = 0.05
#: Seconds of a firing after which it is asked whether its thread is still there.
LEFT = 0.25
#: Seconds over which it is judged whether an app keeps its pace.
PACE = 1.0


class _Pace:
    """What was counted of an app when that was looked at, and whether the app was behind. Frames
    that are overdue count as frames that are late."""

    def __init__(self, app: App, behind: bool = False) -> None:
        self.since, self.behind = time.monotonic(), behind
        self.overdue = app.overdue(time.perf_counter_ns())
        self.frames = app.frames + self.overdue
        #: Deadlines missed: of frames, and of each path.
        of_frames = 0 if app.deadline is None else app.misses + self.overdue
        self.misses = [of_frames, *(path.misses for path in app.paths)]


def _has_thread(worker: Worker) -> bool:
    """Code in C may have ended a thread; Python does not know of it. Where the system cannot tell,
    it has one."""
    try:
        os.stat("/proc/self/task/%s" % worker.native_id)
    except (FileNotFoundError, ProcessLookupError):
        return not os.path.isdir("/proc/self/task")
    except OSError:
        return True
    return True


def out_of_time(app: App, misses: Sequence[int], frames: int, waits: str) -> str:
    """What is said of an app that has missed so many deadlines, of frames and of each path, in its
    last frames; with what workers wait for, where frames do not begin."""
    told = []
    of_frames, *of_paths = misses
    if of_frames:
        told.append(_out_of_time("", "last frame", app))
    for path, missed in zip(app.paths, of_paths):
        if missed:
            told.append(_out_of_time("%s: " % path.named(), "last", path))
    if waits:
        told.append("no frame begins: %s" % waits)
    numbers = app.name, sum(misses), frames, "; ".join(told)
    return "%s missed %d deadlines in its last %d frames (%s)" % numbers


def _out_of_time(name: str, last: str, late: Union[App, Path]) -> str:
    told = name + "deadline %s" % _in_ms(late.deadline or 0)
    return told + (", %s %s" % (last, _in_ms(late.latencies[-1])) if late.latencies else "")


def _in_ms(ns: Union[int, Fraction]) -> str:
    return "%s ms" % digits.plain(float(ns) / 1e6)


class Starting:
    """While tasks start, in a program without a supervisor: a thread says which one does not come
    back."""

    def __init__(self, run: Run) -> None:
        self._run, self._over = run, threading.Event()

    def __enter__(self) -> None:
        if not self._run.supervisor:
            threading.Thread(target=self._warn_of_slow_start, name="starting", daemon=True).start()

    def __exit__(self, *raised: object) -> None:
        self._over.set()

    def _warn_of_slow_start(self) -> None:
        board, beats, since, words = self._run.cells, -1, 0.0, 0
        while not self._over.wait(STARTS / 20):
            if board.beats != beats:
                beats, since, words = board.beats, time.monotonic(), 0
            silent = time.monotonic() - since
            if silent > STARTS * (1 + words):
                words += 1
                name = self._run.tasks[board.lines[0][0] - 1].name
                self._run.warn(NO_LIFE % (silent, name, "starting"))


class Watch:
    """The main thread's part: waits for the workers, notices deadlocks and stuck firings, and
    drains on a signal."""

    def __init__(
        self,
        run: Run,
        watchdog: float,
        drain: float,
        progress: Optional[Callable[[Run], None]],
        seconds: Optional[float] = None,
    ) -> None:
        self._run, self._watchdog, self._seconds = run, watchdog, seconds
        self._drain, self._progress = drain, progress
        self._seen = -1
        self._since = time.monotonic()
        self._polled = self._since
        self._awake_since = 0
        #: How often each worker had looked in vain when it was asked to look again.
        self._asked: Dict[int, int] = {}
        self._drain_until: Optional[float] = None
        self._drained = 0
        self._warned: Dict[Tuple[str, int], float] = {}
        #: Of each app, when its pace was looked at.
        self._pace: Dict[int, _Pace] = {}

    def until_done(self) -> None:
        """Return when all workers are done, or the program had to be stopped."""
        run = self._run
        handled = 0
        while True:
            alive = [w for w in run.workers if w.is_alive()]
            if not alive:
                return
            join(alive[0], min(LOOK, max(0.001, self._left())))
            run.cells.beat()
            self._follow_the_supervisor()
            self._notice_sleep()
            if run.stopping:
                return self._abandon()
            if self._drained and self._only_sources_wait(alive):
                return self._abandon()
            if self._left() <= 0:
                run.drain()
                self._drained = time.perf_counter_ns()
            if run.interrupts > handled:
                handled = run.interrupts
                if handled > 1:
                    run.stop()
                    return self._abandon()
                run.drain()
                self._drain_until = time.monotonic() + self._drain
                self._drained = time.perf_counter_ns()
            if self._drain_until is not None and time.monotonic() > self._drain_until:
                run.stop()
                run.warn_once("frames in flight did not end; %s" % run.who_waits())
                return self._abandon()
            self._check_pace()
            self._check_deadlock([w for w in alive if not w.parked])
            self._check_stuck(alive)
            if self._progress is not None:
                self._progress(run)

    def _left(self) -> float:
        """Seconds for which it shall begin frames."""
        if self._seconds is None or self._drained:
            return math.inf
        return self._seconds - (time.perf_counter_ns() - self._run.begin) / 1e9

    def _only_sources_wait(self, alive: List[Worker]) -> bool:
        """Are only sources left that wait for their data? What they wait for begins no frame any
        more."""
        left = 0
        alive = [w for w in alive if not w.parked]
        for worker in alive:
            inside = worker.firing
            if inside is not None and inside[0].is_source:
                task, firing, start = inside
                if time.perf_counter_ns() - max(start, self._drained) > WAITS:
                    task.app.end_at(firing // task.per_iteration)
                    continue
            left += 1
        if left or not alive:
            return False
        for worker in alive:
            if worker.rest is not None:
                worker.rest()
        for app in self._run.apps:
            if app.done < app.limit:
                lost = "%d frames of %s" % (app.limit - app.done, app.name)
                self._run.warn_once("%s did not end; %s" % (lost, self._run.who_waits()))
        self._run.stopping = True
        return True

    def _abandon(self) -> None:
        deadline = time.monotonic() + GRACE
        for worker in self._run.workers:
            inside = worker.firing
            waits = self._drained and inside is not None and inside[0].is_source
            worker.join(0.0 if waits else max(0.0, deadline - time.monotonic()))
            rest = worker.rest
            if rest is not None:  # it does not end: what it has done so far counts
                rest()

    def _follow_the_supervisor(self) -> None:
        """A user who stops a program stops the process that was started; that one lets us go on
        when it goes on."""
        run = self._run
        if run.supervisor and is_stopped(run.supervisor):
            run.cells.follow(1)
            os.kill(os.getpid(), signal.SIGSTOP)
            run.cells.follow(0)

    def _notice_sleep(self) -> None:
        """While the whole process was suspended (Ctrl-Z, a sleeping laptop) no worker was stuck or
        slow."""
        now = time.monotonic()
        if now - self._polled > ASLEEP:
            self._since = now
            self._awake_since = time.perf_counter_ns()
            for app in self._run.running:
                before = self._pace.get(id(app))
                self._pace[id(app)] = _Pace(app, before is not None and before.behind)
        self._polled = now

    def _check_deadlock(self, alive: List[Worker]) -> None:
        """Do workers wait for each other? Without progress, each is asked to look again first: one
        that may go on may not have had a processor since."""
        progress = sum(w.progress for w in self._run.workers)
        waits = [w.waiting for w in alive]
        places = [wait[0] for wait in waits if wait is not None]
        may_go_on = len(places) < len(alive) or any(place.remote for place in places)
        if progress != self._seen or may_go_on or not alive:
            self._seen, self._since = progress, time.monotonic()
            self._asked.clear()
        elif time.monotonic() - self._since <= DEADLOCK_AFTER:
            return
        elif not self._asked:
            self._asked = {id(w): w.looked for w in alive}
            for place in places:
                place.wake()
        elif all(w.looked > self._asked.get(id(w), w.looked) for w in alive):
            self._run.fail(Failure("", "", None, "deadlock: " + self._run.who_waits()))

    def _check_pace(self) -> None:
        """Tell when an app with a period is no longer in time, and when it is again; looks once a
        second."""
        for app in self._run.running:
            before = self._pace.get(id(app))
            if before is None:
                before = self._pace[id(app)] = _Pace(app)
            looked = time.monotonic() - before.since < PACE
            if looked or app.period is None or self._run.full_speed:
                continue
            seen = _Pace(app, before.behind)
            misses = [now - then for now, then in zip(seen.misses, before.misses)]
            missed, done = sum(misses), seen.frames - before.frames
            ends = [1, *(path.sink.per_iteration for path in app.paths)]
            if done <= 0:
                continue
            if not before.behind and any(2 * m > done * n for m, n in zip(misses, ends)):
                waits = self._run.who_waits() if seen.overdue > before.overdue else ""
                self._run.warn(out_of_time(app, misses, done, waits))
                seen.behind = True
            elif before.behind and not missed:
                self._run.warn("%s is in time again" % app.name)
                seen.behind = False
            self._pace[id(app)] = seen

    def _check_stuck(self, alive: List[Worker]) -> None:
        now = time.perf_counter_ns()
        for worker in alive:
            firing = worker.firing
            if firing is None:
                continue
            task, number, start = firing
            seconds = (now - max(start, self._awake_since)) / 1e9
            if seconds > LEFT and not _has_thread(worker) and worker.firing == firing:
                self._run.fail(Failure(task.app.name, task.name, number, "ended its thread"))
            elif self._watchdog and seconds > self._watchdog and not task.may_wait:
                option = " (see --watchdog)" if self._run.supervisor else ""
                reason = "did not return for %s s%s; %s" % (
                    digits.seconds(seconds),
                    option,
                    self._run.who_waits(),
                )
                device = self._run.device
                flying = "" if device is None else device.in_flight()
                reason += "; on the device: %s" % flying if flying else ""
                self._run.fail(Failure(task.app.name, task.name, number, reason))
            elif seconds > self._warned.get((task.name, number), 10.0):
                self._warned = {(task.name, number): 2 * seconds}
                self._run.warn_once(
                    "%s has been in firing %d for %.0f s" % (task.name, number, seconds)
                )
