"""How the system schedules the thread of a worker, where that is not left to the system."""

import os
import sys
import threading
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from .run import Run

#: The niceness of threads in the background, the highest one.
NICEST = 19


class Scheduling:
    """What the thread of a worker asks the system for."""

    #: Does the thread run below all others? Known once it has begun.
    below = False

    def begin(self, run: "Run") -> None:
        """Ask for the calling thread. Without permission, say so and go on as an ordinary one."""
        raise NotImplementedError


class FixedPriority(Scheduling):
    """Bound to a core, under SCHED_FIFO with a priority of 1 to 99."""

    def __init__(self, core: int, priority: int) -> None:
        self.core, self.priority = core, priority

    def begin(self, run: "Run") -> None:
        thread = threading.get_native_id()
        try:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(self.priority))
            _bind(thread, self.core)
        except (OSError, AttributeError) as error:
            run.say(
                "fixed priorities are not in force (%s): the system schedules as it likes" % error
            )


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
            run.say(
                "apps without a period are not below the others (%s): they take their time" % error
            )


def _bind(thread: int, core: int) -> None:
    """Bind a thread to the n-th core that the process may use."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(thread, {cores[core % len(cores)]})
