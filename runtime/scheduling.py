"""How the system schedules the thread of a worker, where that is not left to the system."""

import os
import sys
import threading
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Dict, Optional

if TYPE_CHECKING:
    from .run import Run
    from .worker import Worker

#: The niceness of threads in the background, the highest one.
NICEST = 19


class Scheduling:
    """What the thread of a worker asks the system for."""

    #: Does the thread run below all others? Known once it has begun.
    below = False
    #: Does it ask before each firing?
    limited = False

    def begin(self, run: "Run") -> None:
        """Ask for the calling thread. Without permission, say so and go on as an ordinary one."""
        raise NotImplementedError

    def admit(self, worker: "Worker", run: "Run") -> None:
        """Wait until the next firing may start, where that is limited. Raises as `check` of the
        worker."""

    def note(self, document: Dict[str, Any], worker: "Worker", seconds: float) -> None:
        """Add to the report of a run of so many seconds what holds for this thread."""


class FixedPriority(Scheduling):
    """Bound to a core, under SCHED_FIFO with a priority of 1 to 99."""

    def __init__(self, core: int, priority: int) -> None:
        self.core, self.priority = core, priority

    def begin(self, run: "Run") -> None:
        _fix(run, self.core, self.priority)


class Bound(Scheduling):
    """An ordinary thread on a core of its own: others are faster or slower."""

    def __init__(self, core: int) -> None:
        self.core = core

    def begin(self, run: "Run") -> None:
        try:
            _bind(threading.get_native_id(), self.core)
        except (OSError, AttributeError) as error:
            run.warn_once("threads are not bound to cores (%s): times may be others" % error)


class OnStream(Scheduling):
    """An ordinary thread, whose work on a GPU is in a stream of some urgency."""

    def __init__(self, urgency: int) -> None:
        self.urgency = urgency

    def begin(self, run: "Run") -> None:
        from .cuda import WANTED

        WANTED.urgency, WANTED.warn = self.urgency, run.warn_once


class Background(Scheduling):
    """Below all other threads, which needs no permission; bound to a core if there is one.

    By niceness, and not under SCHED_IDLE: a thread that has the interpreter and gets no core keeps
    all others waiting.
    """

    def __init__(self, core: Optional[int] = None) -> None:
        self.core = core

    def begin(self, run: "Run") -> None:
        thread = threading.get_native_id()
        try:
            if not sys.platform.startswith("linux"):  # elsewhere threads have no niceness
                raise OSError("not on %s" % sys.platform)
            os.setpriority(os.PRIO_PROCESS, thread, NICEST)
            self.below = True
            if self.core is not None:
                _bind(thread, self.core)
        except OSError as error:
            run.warn_once(
                "apps without a period are not below the others (%s): they take their time" % error
            )

    def note(self, document: Dict[str, Any], worker: "Worker", seconds: float) -> None:
        if self.below:
            apps = [*document.get("background", ()), worker.order[0].task.app.name]
            document["background"] = list(dict.fromkeys(apps))


class Server(Scheduling):
    """`budget` ns of every `period` ns (an exact fraction as text), then it sleeps until the next
    one; above all other threads of its core, if it has a priority there.

    What it used is looked at between firings: what is too much is taken from the next budgets.
    """

    limited = True
    #: Has it a priority that is in force? Known once it has begun.
    above = False
    #: CPU time so far, in ns.
    used = 0

    def __init__(
        self, budget: int, period: str, core: int = 0, priority: Optional[int] = None
    ) -> None:
        self.budget, self.period = budget, Fraction(period)
        self.core, self.priority = core, priority
        self._left = budget
        self._periods = self._counted = 0

    def begin(self, run: "Run") -> None:
        self.above = self.priority is not None and _fix(run, self.core, self.priority)
        self._counted = time.thread_time_ns()

    def admit(self, worker: "Worker", run: "Run") -> None:
        spent = time.thread_time_ns() - self._counted
        self.used += spent
        self._left -= spent
        while not run.full_speed:
            now = time.perf_counter_ns() - run.begin
            periods = now // self.period - self._periods
            self._periods += periods
            self._left = min(self.budget, self._left + periods * self.budget)
            if self._left > 0:
                break
            wanted = -self._left // self.budget + 1
            worker.check()
            run.sleep(int((self._periods + wanted) * self.period - now) + 1)
            worker.progress += 1
        self._counted = time.thread_time_ns()

    def note(self, document: Dict[str, Any], worker: "Worker", seconds: float) -> None:
        places = document.setdefault("shares", {}).setdefault(worker.order[0].task.app.name, {})
        part, used = float(self.budget / self.period), self.used / 1e9 / seconds
        places[worker.processor] = {
            "part": round(part, 4),
            "used": round(used, 4),
            "above": self.above,
        }


def _fix(run: "Run", core: int, priority: int) -> bool:
    """Give the calling thread a fixed priority on a core. False without permission, which is
    said."""
    thread = threading.get_native_id()
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
        _bind(thread, core)
    except (OSError, AttributeError) as error:
        run.warn_once(
            "fixed priorities are not in force (%s): the system schedules as it likes" % error
        )
        return False
    return True


def _bind(thread: int, core: int) -> None:
    """Bind a thread to the n-th core that the process may use."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(thread, {cores[core % len(cores)]})
