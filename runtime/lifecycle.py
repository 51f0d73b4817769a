"""From a built program to its end: wire it, open its tasks, start its workers, watch over them,
close its tasks.

One worker thread per processor (or per app and processor) fires its tasks in a fixed order, again
and again.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .code import Code
from .failures import Failure, describe, details_of
from .forks import at_fork
from .graph import Task
from .interval import short_interval
from .memory import rehearsed
from .program import Program
from .run import Run
from .shared_cells import CLOSING, IDLE, RUNNING, STARTING
from .tokens import TaskError
from .watch import GRACE, Starting, Watch
from .wiring import wired
from .worker import Worker

#: Seconds that frames in flight get to finish after Ctrl-C.
DRAIN = 5.0


class Interrupted(BaseException):
    """The program is asked to end before it has begun."""


def execute(
    program: Program,
    frames: Optional[int] = None,
    full_speed: bool = False,
    strict: bool = False,
    watchdog: float = 60.0,
    drain: float = DRAIN,
    progress: Optional[Callable[[Run], None]] = None,
    seconds: Optional[float] = None,
) -> bool:
    """Run until all streams end, `frames` iterations of each app are done, or `seconds` are over.
    True unless something failed.

    `watchdog`: seconds after which a firing that does not return stops the program (sources may
    wait longer; 0 = never). `drain`: seconds that frames in flight get after an interrupt.
    """
    run = program.run
    run.full_speed, run.strict = full_speed, strict
    at_fork(run)
    _prepare(program, frames)
    execution = _Execution(program)
    watch = partial(Watch, run, watchdog, drain, progress, seconds)
    try:
        if run.transport is not None and not (execution.joined() and run.transport.start()):
            return False
        return execution.opened() and execution.executed(watch)
    finally:
        if run.transport is not None:
            run.transport.close()
        if program.bridge is not None:
            program.bridge.close()


def stand(program: Program, frames: Dict[str, int], least: Dict[str, int]) -> None:
    """As if it had run: so many frames of each app, so much room left on each channel."""
    wired(program)
    for app in program.apps:
        app.earlier = frames.get(app.name, 0)
    for channel in program.channels:
        channel.least_free = least.get(channel.name, channel.least_free)


def _prepare(program: Program, frames: Optional[int]) -> None:
    """Wire it, and say how many frames each app has, and whether it has deadlines."""
    run, control = program.run, program.control
    wired(program)
    for app in program.apps:
        app.prepare(control is not None)
        if run.full_speed:
            app.without_deadlines()
        elif run.transport is not None and app.name in run.transport.passed:
            app.deadline = None  # its frames end in another part
        if frames is not None:
            app.limit = frames
        if control is not None:
            app.limit = 0  # until its state is entered
    if control is not None:
        control.frames = frames
    if run.transport is not None and run.transport.stamps is not None:
        run.transport.stamps.prepare()


class _Execution:
    """From the first task that is opened to the last one that is closed."""

    def __init__(self, program: Program) -> None:
        self._program, self._run = program, program.run
        self._cells = program.run.cells
        #: Each code, with a task: states share it.
        self._codes = _codes(program.tasks)
        devices = [code.device for _, code in self._codes if code.device is not None]
        self._device = self._run.device = devices[0] if devices else None

    # -- start -------------------------------------------------------------------------------------
    def joined(self) -> bool:
        """Become a node of the dataflow that the program is meant for; parts do so first, to find
        each other.

        The others may take as long as they like, and nothing of Python runs here until all of them
        are there.
        """
        bridge = self._program.bridge
        if bridge is None:
            return True
        phase = self._cells.phase
        self._cells.enter(IDLE)
        joined = bridge.start()
        self._cells.enter(phase)
        return joined

    def opened(self) -> bool:
        """Start all tasks, or none: they are closed again when one fails, or the program is
        stopped."""
        # Interpreters of processes come up side by side; the tasks are opened one after the other.
        steps: List[Tuple[Task, Code, Callable[[], None]]] = []
        for task, code in self._codes:
            start = code.starter(task.app.name, task.name)
            if start is not None:
                steps.append((task, code, start))
        begun = [code for _, code, _ in steps]
        for task, code in self._codes:
            steps.append(
                (task, code, partial(code.open, self._run.home, task.inputs, task.outputs))
            )
        good = False
        try:
            with Starting(self._run):
                for task, code, step in steps:
                    if not self._step(STARTING, task, step):
                        return False
                    begun.append(code)
                rehearsals = ((t, r) for t in self._program.tasks for r in t.code.rehearsals())
                for task, step in rehearsed(rehearsals):
                    if not self._step(STARTING, task, step):
                        return False
            self._cells.enter(RUNNING)
            good = True
        finally:
            if not good:
                self._close([(t, c) for t, c in self._codes if c in begun])
        return True

    def executed(self, watch: Callable[[], Watch]) -> bool:
        """From the first firing to the last close. True unless something failed."""
        run, control = self._run, self._program.control
        if run.transport is None and not self.joined():
            self._end()
            return False
        self._make_workers()
        with short_interval():
            self._start_workers()
            self._await_workers()
            self._begin()
            if control is not None:
                self._start(control, self._program.tasks[0])
            watch().until_done()
        run.seconds = (time.perf_counter_ns() - run.begin) / 1e9
        if run.transport is not None and not run.stopping:
            run.transport.farewell()
        if control is not None and control.is_alive():
            control.join(GRACE)
        self._end()
        if control is not None:
            run.totals = control.totals()
        return run.failure is None

    def _make_workers(self) -> None:
        """A worker for each processor with something to do; one of several that a processor has
        bears a number, as each has a lane of its own in a trace."""
        processors = self._program.processors
        arenas: List[Any] = [None] * len(processors)
        if self._device is not None:
            arenas = self._device.arenas(
                [(p.name, p.state, [entry.task.code for entry in p.order]) for p in processors]
            )
        lanes: Dict[str, int] = {}
        for processor, line, arena in zip(processors, self._cells.lines[1:], arenas):
            if not processor.order:
                continue
            number = lanes[processor.name] = lanes.get(processor.name, 0) + 1
            lane = processor.name if number == 1 else "%s (%d)" % (processor.name, number)
            worker = Worker(self._run, processor, lane, line, self._program.control, arena)
            self._run.workers.append(worker)
            if processor.state is not None:
                processor.state.workers.append(worker)

    def _start_workers(self) -> None:
        workers = self._run.workers
        for k, worker in enumerate(workers):
            if not self._start(worker, worker.order[0].task):
                del workers[k:]
                return

    def _start(self, thread: threading.Thread, task: Task) -> bool:
        """Start a thread; the program fails where the system gives no more of them, or no memory
        for one."""
        try:
            thread.start()
            return True
        except RuntimeError as error:
            reason = "cannot start: no thread for %s: %s" % (thread.name, error)
            self._run.fail(Failure(task.app.name, task.name, None, reason))
            return False

    def _await_workers(self) -> None:
        """What devices need first takes seconds, which no frame shall wait for."""
        for worker in self._run.workers:
            while worker.is_alive() and not worker.prepared.wait(0.05):
                self._cells.beat()

    def _begin(self) -> None:
        """All workers go on, in all parts at once."""
        run = self._run
        begin = None if run.transport is None else run.transport.meet()
        run.begin = time.perf_counter_ns() if begin is None else begin
        run.stopping |= run.transport is not None and begin is None
        run.go.set()

    # -- end ---------------------------------------------------------------------------------------
    def _end(self) -> None:
        """Close all tasks after the run, unless a stuck firing still uses one."""
        workers = self._run.workers
        if [code for _, code in self._codes if code.kill()]:
            # they have been let go, but a busy machine lets them wait
            deadline = time.monotonic() + GRACE
            for worker in workers:
                worker.join(max(0.0, deadline - time.monotonic()))
        self._run.ending = True
        self._close(self._unused())
        if self._device is None or any(worker.is_alive() for worker in workers):
            return
        try:
            self._device.end_lanes()
        except TaskError as error:
            self._run.fail(Failure("", "", None, describe(error)))

    def _unused(self) -> List[Tuple[Task, Code]]:
        """Code that no firing uses any more. A source that waits for data counts as well, although
        its firing goes on: it is unknown when it will return."""
        stuck: List[Code] = []
        for worker in self._run.workers:
            firing = worker.firing if worker.is_alive() else None
            if firing is not None:
                stuck += [code for _, code in firing[0].codes()]
        return [
            (task, code)
            for task, code in self._codes
            if code not in stuck or (task.is_source and code.closes_inside)
        ]

    def _close(self, codes: Sequence[Tuple[Task, Code]]) -> None:
        for task, code in codes:
            if code.shut is None:
                self._step(CLOSING, task, code.close)
        self._cells.enter(IDLE)

    def _step(self, phase: int, task: Task, step: Callable[[], None]) -> bool:
        """Start or close a task. Whatever it raises is its failure, SystemExit too."""
        run = self._run
        self._cells.enter(phase, task.number)
        try:
            step()
        except Interrupted:
            raise
        except BaseException as error:
            reason = ("cannot start: " if phase == STARTING else "close: ") + describe(error)
            run.fail(Failure(task.app.name, task.name, None, reason, details_of(error)))
            return False
        finally:
            if run.strayed:
                run.end_stray(task, None)
        return True


def _codes(tasks: Sequence[Task]) -> List[Tuple[Task, Code]]:
    """Each code, with the first task that has it."""
    found: Dict[int, Tuple[Task, Code]] = {}
    for task in tasks:
        for _, code in task.codes():
            found.setdefault(id(code), (task, code))
    return list(found.values())
