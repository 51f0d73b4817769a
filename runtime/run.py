"""The state of a run: its apps and workers, whether it goes on or ends, and who is told of it.

In: apps and tasks, as main.py adds them. Everything that takes part in a run holds this, and
nothing of how the program was built (`program.py`) or is started and joined (`lifecycle.py`).
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set

from .failures import STRAY, Failure
from .shared_cells import SharedCells
from .steady import wait_for

if TYPE_CHECKING:
    from .clocks import EmulatedClocks
    from .graph import App, Task
    from .scenario import State
    from .transport import Transport
    from .worker import Worker


class Run:
    """One run of a program. Times in ns of time.perf_counter_ns."""

    def __init__(self, home: str) -> None:
        #: The directory of the build.
        self.home = home
        self.apps: List[App] = []
        #: All of them, in the order of their numbers.
        self.tasks: List[Task] = []
        self.workers: List[Worker] = []
        #: Of a program with states: the one that it is in, and one app for each name with what it
        #: did in all of them, once the run is over.
        self.state: Optional[State] = None
        self.totals: List[App] = []
        #: The other parts, where this is what one machine of several has.
        self.transport: Optional[Transport] = None
        #: Where the code of some task runs that does not run on CPUs (`device.Device`).
        self.device: Any = None
        # How and when it was started.
        self.started = time.perf_counter_ns()
        self.full_speed = False
        self.strict = False
        #: Does it what a recording has? Then it waits for data alone.
        self.replayed = False
        #: Do CPU threads play its GPU, DLAs and NPUs?
        self.twin = False
        #: The process that looks after this one, if there is any.
        self.supervisor = 0
        # Who is told what.
        self.warn: Callable[[str], None] = lambda text: None
        self._said: Set[str] = set()
        self.tracer: Any = None
        self.recorder: Optional[Callable[..., None]] = None
        #: Where slower clocks are played: how long workers wait after each firing.
        self.played: Optional[EmulatedClocks] = None
        #: Everything that waits looks again when these are called.
        self.wakers: List[Callable[[], None]] = []
        # How far it is.
        self.go = threading.Event()
        self.begin = 0
        self.seconds = 0.0
        #: How often it was asked to end.
        self.interrupts = 0
        #: Frames under way are finished, and no others begin.
        self.ending = False
        #: Workers leave what they are at.
        self.stopping = False
        self.failure: Optional[Failure] = None
        #: Is this a process that was forked while the program ran?
        self.strayed = False
        self._stirred = threading.Event()
        self._cells: Optional[SharedCells] = None
        self._threads = 1

    # -- what runs ---------------------------------------------------------------------------------
    def add_worker(self) -> None:
        """There will be one more, with a line of its own in the shared cells."""
        self._threads += 1

    @property
    def cells(self) -> SharedCells:
        """What every thread is doing. Made when it is first asked for: by then all workers are
        known."""
        if self._cells is None:
            self._cells = SharedCells(self._threads)
        return self._cells

    @property
    def running(self) -> List[App]:
        """The apps that run now: those of the state that it is in."""
        return self.apps if self.state is None else self.state.apps

    @property
    def state_name(self) -> Optional[str]:
        """The state that it is in."""
        return None if self.state is None else self.state.name

    def who_waits(self) -> str:
        """Every worker with what it does or waits for, in words."""
        lines = [worker.doing() for worker in self.workers]
        return "; ".join(line for line in lines if line) or "no worker waits"

    # -- what is told ------------------------------------------------------------------------------
    def warn_once(self, text: str) -> None:
        """Tell the user of the program, once."""
        if text not in self._said:
            self._said.add(text)
            self.warn(text)

    # -- time --------------------------------------------------------------------------------------
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
            self.sleep(left)
            worker.progress += 1
        if -left >= step:
            app.overruns += 1
        if self.tracer is not None:
            self.tracer.release(worker.name, task, firing, release)
        return release

    def sleep(self, ns: int) -> None:
        """Sleep for that long, or less: until something changes."""
        wait_for(self._stirred, ns / 1e9)

    # -- stopping ----------------------------------------------------------------------------------
    def stir(self) -> None:
        """Something changed: everything that waits looks again."""
        self._stirred.set()
        for wake in self.wakers:
            wake()

    def calm(self) -> None:
        """A state is about to begin: its sources wait for their releases again, unless everything
        is to end."""
        self._stirred.clear()
        if self.ending or self.stopping:
            self._stirred.set()

    def stop(self) -> None:
        """Workers leave what they are at, whatever becomes of their frames."""
        self._give_up()
        self.stopping = True
        self.stir()

    def fail(self, failure: Failure) -> None:
        """Stop everything; the first failure is the one that is reported."""
        if self.failure is None:
            self.failure = failure
        self._give_up()
        self.stopping = True
        if self.transport is not None:
            self.transport.failed(failure)
        self.stir()

    def drain(self) -> None:
        """Finish the frames that have begun, then end."""
        if self.transport is not None and not self.ending:
            self.transport.drain()
        self._give_up()
        self.ending = True
        for app in self.apps:
            if not app.is_led:  # else its sources know which frames have begun
                app.drain()

    def _give_up(self) -> None:
        """What should have begun by now will not."""
        if not (self.ending or self.stopping):
            now = time.perf_counter_ns()
            for app in self.running:
                app.give_up(now)
            for inside in (worker.firing for worker in self.workers):
                if inside is not None:
                    inside[0].waits(now - inside[2])

    # -- forks -------------------------------------------------------------------------------------
    def forked(self) -> None:
        """This is another process now, of a task or of who uses the program."""
        self.strayed = True

    def end_stray(self, task: Task, firing: Optional[int]) -> None:
        """A process that a task has forked has come back from the task's code."""
        self.warn(str(Failure(task.app.name, task.name, firing, STRAY)))
        os._exit(1)
