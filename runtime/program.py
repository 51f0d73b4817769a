"""A program: apps with tasks and channels, processors with static orders, and how they start, pace
and stop.

One worker thread per processor (or per app and processor) fires its tasks in a fixed order, again
and again.
"""

from __future__ import annotations

import os
import threading
import time
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from .board import CLOSING, IDLE, RUNNING, STARTING, Board
from .channel import Channel
from .code import Code
from .failures import STRAY, Failure, describe, details_of
from .forks import at_fork
from .graph import App, Fire, Task
from .interval import short_interval
from .memory import rehearsed
from .steady import wait_for
from .tokens import TaskError
from .watch import GRACE, Starting, Watch
from .wiring import wired
from .worker import Worker

if TYPE_CHECKING:
    from .clocks import Played
    from .control import Control
    from .face import Face
    from .link import Link
    from .scenario import State
    from .wire import Mesh

#: Seconds that frames in flight get to finish after Ctrl-C.
DRAIN = 5.0


class Interrupted(BaseException):
    """The program is asked to end before it has begun."""


class Program:
    """Built by the generated `main.py`, then run once."""

    def __init__(self, name: str, home: str) -> None:
        self.name, self.home = name, home
        self.apps: List[App] = []
        self.channels: List[Channel] = []
        self.orders: List[Tuple[str, List[Fire]]] = []
        self.priorities: List[Optional[Tuple[int, int]]] = []
        self._said: Set[str] = set()
        self.speak: Callable[[str], None] = lambda text: None
        self.workers: List[Worker] = []
        self.stopping = False
        self.failure: Optional[Failure] = None
        self.strict = False
        self.full_speed = False
        self.recorder: Optional[Callable[..., None]] = None
        self.tracer: Any = None
        self.interrupts = 0
        #: What apps hand each other, by name.
        self.links: Dict[str, Link] = {}
        #: Frames under way are finished, and no others begin.
        self.ending = False
        #: The process that looks after this one, if there is any.
        self.keeper = 0
        #: Who changes states, where there are any, and what all of them did together, once it is
        #: over.
        self.control: Optional[Control] = None
        self.told: List[App] = []
        #: Where slower clocks are played: how long workers wait after each firing.
        self.played: Optional[Played] = None
        #: The state whose apps and processors are made.
        self.making: Optional[State] = None
        self._of_state: List[Optional[State]] = []
        self.begin = 0
        self.seconds = 0.0
        #: Bytes that are planned for networks: weights, buffers of what is between layers, tokens
        #: on channels, arenas.
        self.planned: Optional[Dict[str, int]] = None
        #: Bytes of weights of alternatives that have a part in common: separate, distinct, and as
        #: they are built.
        self.shared: Optional[Dict[str, int]] = None
        #: What the workers of devices share among their code.
        self.arenas: List[Any] = []
        #: The other parts, where this is what one machine of several has.
        self.mesh: Optional[Mesh] = None
        self.crossings: List[Tuple[Any, ...]] = []
        #: What joins open ends to the dataflow of a robot, where the program is a node of one.
        self.face: Optional[Face] = None
        self.go = threading.Event()
        self._stirred = threading.Event()
        #: Is this a process that was forked while the program ran?
        self.strayed = False
        self.wiring: List[Tuple[Any, ...]] = []
        self._board: Optional[Board] = None

    # -- construction ------------------------------------------------------------------------------
    def app(self, name: str, period: Optional[str] = None, deadline: Optional[str] = None) -> App:
        """Add an app; times are exact fractions of ns as text, such as "20000000" or
        "100000000/3"."""
        made = App(
            self,
            name,
            Fraction(period) if period else None,
            Fraction(deadline) if deadline else None,
        )
        self.apps.append(made)
        if self.making is not None:
            self.making.apps.append(made)
        return made

    def raise_event(self, name: str) -> None:
        """From whatever thread. Raises ValueError for an event that is unknown."""
        if self.control is None:
            raise ValueError("the program has no states")
        self.control.raise_event(name)

    @property
    def running(self) -> List[App]:
        """The apps that run now: those of the state that it is in."""
        now = None if self.control is None else self.control.now
        return self.apps if now is None else now.apps

    @property
    def state_name(self) -> Optional[str]:
        """The state that it is in."""
        return None if self.control is None or self.control.now is None else self.control.now.name

    def file(self, path: str) -> str:
        """A data file of the build, as a parameter of a task."""
        return os.path.join(self.home, path)

    def channel(
        self,
        source: Task,
        output: str,
        destination: Task,
        input: str,
        capacity: int,
        delay: int = 0,
        values: Sequence[float] = (),
        key: Optional[str] = None,
    ) -> None:
        """Connect an output to an input. `capacity` is in tokens; by its `key` it is the same one
        in all states."""
        self.wiring.append((source, output, destination, input, capacity, delay, values, key))

    def processor(
        self, name: str, order: Sequence[Fire], fixed_priority: Optional[Tuple[int, int]] = None
    ) -> None:
        """A worker that runs this order, again and again.

        `fixed_priority` (core, priority 1..99): its thread is bound to that core and asks for
        SCHED_FIFO.
        """
        self.orders.append((name, list(order)))
        self.priorities.append(fixed_priority)
        self._of_state.append(self.making)

    @property
    def tasks(self) -> List[Task]:
        """All of them, in the order of their numbers."""
        return [t for app in self.apps for t in app.tasks]

    @property
    def board(self) -> Board:
        """What everybody is doing. Made when it is first asked for, by then all processors have to
        be known."""
        if self._board is None:
            self._board = Board(1 + len(self.orders))
        return self._board

    @property
    def device(self) -> Any:
        """Where the code of some task runs that does not run on CPUs (`device.Device`); None: there
        is none."""
        devices = (code.device for task in self.tasks for _, code in task.codes())
        return next((device for device in devices if device is not None), None)

    def twin(self) -> None:
        """Let CPU threads play the GPU and the DLAs: same workers, same orders, same channels.
        Raises TaskError."""
        for task in self.tasks:
            if task.code.device is not None:
                if task.code.twin is None:
                    raise TaskError(
                        "%s has code for a GPU only: a twin needs `reference` or `on cpu` in its"
                        " .flow" % task.name
                    )
                task.code = task.code.twin

    # -- running -----------------------------------------------------------------------------------
    def run(
        self,
        frames: Optional[int] = None,
        full_speed: bool = False,
        strict: bool = False,
        watchdog: float = 60.0,
        drain: float = DRAIN,
        progress: Optional[Callable[["Program"], None]] = None,
    ) -> bool:
        """Run until all streams end (or `frames` iterations of each app are done). True unless
        something failed.

        `watchdog`: seconds after which a firing that does not return stops the program (sources may
        wait longer; 0 = never). `drain`: seconds that frames in flight get after an interrupt.
        """
        self.full_speed, self.strict = full_speed, strict
        at_fork(self)
        wired(self)
        for app in self.apps:
            app.prepare()
            if full_speed or (self.mesh is not None and app.name in self.mesh.passed):
                app.deadline = None
                for path in app.paths:
                    path.deadline = None
            if frames is not None:
                app.limit = frames
            if self.control is not None:
                self.control.frames, app.limit = frames, 0  # until its state is entered
        try:
            if self.mesh is not None and not (self._joined() and self.mesh.start()):
                return False
            return self._open() and self._run(watchdog, drain, progress)
        finally:
            if self.mesh is not None:
                self.mesh.close()
            if self.face is not None:
                self.face.close()

    def _run(
        self, watchdog: float, drain: float, progress: Optional[Callable[["Program"], None]]
    ) -> bool:
        """From the first firing to the last close."""
        if self.mesh is None and not self._joined():
            self._end()
            return False
        lanes: Dict[str, int] = {}
        arenas: List[Any] = [None] * len(self.orders)
        if self.device is not None:
            used = [
                (name, s, [e.task.code for e in order])
                for (name, order), s in zip(self.orders, self._of_state)
            ]
            arenas = self.arenas = self.device.arenas(used)
        orders = zip(self.orders, self.priorities, self.board.lines[1:], self._of_state, arenas)
        for (name, order), fixed, line, state, arena in orders:
            if order:  # a processor may have several workers: each has a lane of its own in a trace
                lanes[name] = lanes.get(name, 0) + 1
                lane = name if lanes[name] == 1 else "%s (%d)" % (name, lanes[name])
                self.workers.append(Worker(self, name, lane, order, line, fixed, arena))
                if state is not None:
                    state.workers.append(self.workers[-1])
        with short_interval():
            self._start_workers()
            for worker in self.workers:
                # what devices need first takes seconds, which no frame shall wait for
                while worker.is_alive() and not worker.prepared.wait(0.05):
                    self.board.beat()
            begin = None if self.mesh is None else self.mesh.meet()
            self.begin = time.perf_counter_ns() if begin is None else begin
            self.stopping |= self.mesh is not None and begin is None
            self.go.set()
            if self.control is not None:
                self._start(self.control, self.tasks[0])
            Watch(self, watchdog, drain, progress).until_done()
        self.seconds = (time.perf_counter_ns() - self.begin) / 1e9
        if self.mesh is not None and not self.stopping:
            self.mesh.farewell()
        if self.control is not None and self.control.is_alive():
            self.control.join(GRACE)
        self._end()
        if self.control is not None:
            self.told = self.control.told()
        return self.failure is None

    def _start_workers(self) -> None:
        for k, worker in enumerate(self.workers):
            if not self._start(worker, worker.order[0].task):
                del self.workers[k:]
                return

    def _start(self, thread: threading.Thread, task: Task) -> bool:
        """Start a thread; the program fails where the system gives no more of them, or no memory
        for one."""
        try:
            thread.start()
            return True
        except RuntimeError as error:
            reason = "cannot start: no thread for %s: %s" % (thread.name, error)
            self.fail(Failure(task.app.name, task.name, None, reason))
            return False

    def _joined(self) -> bool:
        """Become a node of the dataflow that the program is meant for; parts do so first, to find
        each other.

        The others may take as long as they like, and nothing of Python runs here until all of them
        are there.
        """
        if self.face is None:
            return True
        phase = self.board.phase
        self.board.enter(IDLE)
        joined = self.face.start()
        self.board.enter(phase)
        return joined

    def _open(self) -> bool:
        """Start all tasks, or none: they are closed again when one fails, or the program is
        stopped."""
        # Interpreters of processes come up side by side; the tasks are opened one after the other.
        codes = self._codes
        steps: List[Tuple[Task, Code, Callable[[], None]]] = []
        for task, code in codes:
            start = code.starter(task.app.name, task.name)
            if start is not None:
                steps.append((task, code, start))
        begun = [c for _, c, _ in steps]
        steps += [(t, c, partial(c.open, self.home, t.inputs, t.outputs)) for t, c in codes]
        good = False
        try:
            with Starting(self):
                for task, code, step in steps:
                    if not self._step(STARTING, task, step):
                        return False
                    begun.append(code)
                for task, step in rehearsed(
                    (t, run) for t in self.tasks for run in t.code.rehearsals()
                ):
                    if not self._step(STARTING, task, step):
                        return False
            self.board.enter(RUNNING)
            good = True
        finally:
            if not good:
                self._close([(t, c) for t, c in codes if c in begun])
        return True

    @property
    def _codes(self) -> List[Tuple[Task, Code]]:
        """Each code, with a task: states share it."""
        found: Dict[int, Tuple[Task, Code]] = {}
        for task in self.tasks:
            for _, code in task.codes():
                found.setdefault(id(code), (task, code))
        return list(found.values())

    def _step(self, phase: int, task: Task, step: Callable[[], None]) -> bool:
        """Start or close a task. Whatever it raises is its failure, SystemExit too."""
        self.board.enter(phase, task.number)
        try:
            step()
        except Interrupted:
            raise
        except BaseException as error:
            reason = ("cannot start: " if phase == STARTING else "close: ") + describe(error)
            self.fail(Failure(task.app.name, task.name, None, reason, details_of(error)))
            return False
        finally:
            if self.strayed:
                self.end_stray(task, None)
        return True

    def _end(self) -> None:
        """Close all tasks after the run, unless a stuck firing still uses one."""
        if [c for _, c in self._codes if c.kill()]:
            # they have been let go, but a busy machine lets them wait
            deadline = time.monotonic() + GRACE
            for worker in self.workers:
                worker.join(max(0.0, deadline - time.monotonic()))
        self.ending = True
        inside = [w.firing for w in self.workers if w.is_alive()]
        stuck = [code for firing in inside if firing is not None for _, code in firing[0].codes()]
        # A source that waits for data is closed all the same, by this thread: it is unknown when it
        # will return.
        self._close(
            [(t, c) for t, c in self._codes if c not in stuck or (t.is_source and c.closes_inside)]
        )
        if any(w.is_alive() for w in self.workers):
            return
        if self.device is None:
            return
        try:
            self.device.end_lanes()
        except TaskError as error:
            self.fail(Failure("", "", None, describe(error)))

    def _close(self, codes: Sequence[Tuple[Task, Code]]) -> None:
        for task, code in codes:
            self._step(CLOSING, task, code.close)
        self.board.enter(IDLE)

    def stand(self, frames: Dict[str, int], least: Dict[str, int]) -> None:
        """As if it had run: so many frames of each app, so much room left on each channel."""
        wired(self)
        for app in self.apps:
            app.earlier = frames.get(app.name, 0)
        for channel in self.channels:
            channel.least_free = least.get(channel.name, channel.least_free)

    def wait_for_release(self, worker: Worker, task: Task, firing: int) -> Optional[int]:
        """Sleep until that firing of a source is released; its release time, or None at full
        speed."""
        app = task.app
        if app.period is None or self.full_speed:
            return None
        step = app.period / task.per_iteration
        release = (app.since or self.begin) + int(firing * step)
        while True:
            worker.check()
            left = release - time.perf_counter_ns()
            if left <= 0:
                break
            wait_for(self._stirred, left / 1e9)
            worker.progress += 1
        if -left >= step:
            app.overruns += 1
        return release

    def say(self, text: str) -> None:
        """Tell the user of the program, once."""
        if text not in self._said:
            self._said.add(text)
            self.speak(text)

    # -- forks -------------------------------------------------------------------------------------
    def forked(self) -> None:
        """This is another process now, of a task or of who uses the program."""
        self.strayed = True

    def end_stray(self, task: Task, firing: Optional[int]) -> None:
        """A process that a task has forked has come back from the task's code."""
        self.speak(str(Failure(task.app.name, task.name, firing, STRAY)))
        os._exit(1)

    # -- stopping ----------------------------------------------------------------------------------
    def stir(self) -> None:
        """Something changed: everybody who waits looks again."""
        self._stirred.set()
        for channel in self.channels:
            channel.wake()
        for task in self.tasks:
            if task.turnstile is not None:
                task.turnstile.wake()
        if self.control is not None:
            self.control.wake()

    def calm(self) -> None:
        """A state is about to begin: its sources wait for their releases again, unless everything
        is to end."""
        self._stirred.clear()
        if self.ending or self.stopping:
            self._stirred.set()

    def fail(self, failure: Failure) -> None:
        """Stop everything; the first failure is the one that is reported."""
        if self.failure is None:
            self.failure = failure
        self.stopping = True
        if self.mesh is not None:
            self.mesh.failed(failure)
        self.stir()

    def drain(self) -> None:
        """Finish the frames that have begun, then end."""
        if self.mesh is not None and not self.ending:
            self.mesh.drain()
        self.ending = True
        for app in self.apps:
            if self.mesh is None or app.name not in self.mesh.led:
                # its sources know which frames have begun
                app.drain()

    def who_waits(self) -> str:
        """Every worker with what it does or waits for, in words."""
        lines = []
        for worker in self.workers:
            waiting, firing = worker.waiting, worker.firing
            if firing is not None:
                lines.append(
                    "%s is in %s, firing %d" % (worker.processor, firing[0].name, firing[1])
                )
            elif waiting is not None:
                place, what = waiting
                who, whom = place.destination, place.source
                if what == "space":
                    who, whom = whom, who
                lines.append("%s waits for %s from %s" % (who, what, whom))
        return "; ".join(lines) or "no worker waits"
