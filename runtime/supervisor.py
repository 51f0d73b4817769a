"""The supervisor of a program: the process that was started, which stays behind while the program
goes on in a child of it.

In: a program that is about to run. Out: an exit status, and the name of the task where the program
could not tell it any more: C code has crashed it, has left with `exit`, or does not let go of the
interpreter. Signals reach the supervisor whatever the program is at; it hands them on and sees to
it that they are heeded.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from itertools import takewhile
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Set, Tuple

from . import digits
from .chain import in_chain
from .failures import Failure
from .graph import Task
from .shared_cells import CLOSING, IDLE, STARTING
from .system import (
    FAREWELL,
    anonymous_memory,
    die_with_the_parent,
    how_it_ended,
    is_debugged,
    is_stopped,
)
from .watch import ASLEEP, NO_LIFE, STARTS

if TYPE_CHECKING:
    from .run import Run

#: Seconds between two looks at the program.
TICK = 0.25
#: Seconds without a sign of life after which it is said, and twice as many after each word.
SILENT = 10.0
#: Seconds without a sign of life that the program gets after a signal, and after another one.
HEED, HEED_AGAIN = 5.0, 1.0
#: Two signals within so many seconds are one.
SAME_SIGNAL = 0.15
#: Bytes of what the fault handler leaves that are looked at.
LONGEST_DUMP = 1 << 20

#: A task, and the number of its firing.
Inside = Tuple[Task, Optional[int]]
END = {signal.SIGINT, signal.SIGTERM}
#: Signals that are handed on as they are, if they were sent to the supervisor alone.
OTHERS = {signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT}
#: What else is to be done in the supervisor when a program has failed that cannot say so: with the
#: exit status.
OnFailure = Callable[[Failure, int], None]


def supervise(
    run: Run,
    watchdog: float,
    on_failure: OnFailure = lambda failure, status: None,
    afterwards: Callable[[], None] = lambda: None,
) -> None:
    """Fork, and return in the child. The parent waits for it and exits: nothing behind this call
    happens there.

    `afterwards` is called in the parent, however the child has ended.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    run.cells.beat()
    dump = anonymous_memory()
    lifeline, ours = os.pipe()
    heard = END | OTHERS | {signal.SIGCHLD, signal.SIGALRM}
    unheard = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        os.close(lifeline)
        _forget_streams()
        status = 70
        try:
            status = _Supervisor(run, watchdog, child, dump, on_failure).until_over(heard)
        except BaseException:  # a mistake of ours
            traceback.print_exc()
            os.kill(child, signal.SIGKILL)
        finally:
            try:
                afterwards()
            finally:
                os._exit(status)
    run.supervisor = os.getppid()
    os.close(ours)
    die_with_the_parent(lifeline)
    faulthandler.enable(dump)
    signal.signal(signal.SIGCHLD, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, unheard - END)


def _forget_streams() -> None:
    """Pipes to and from the program are held by the program alone."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


class _Supervisor:
    def __init__(
        self, run: Run, watchdog: float, child: int, dump: int, on_failure: OnFailure
    ) -> None:
        self._watchdog, self._child = watchdog, child
        self._dump, self._on_failure = dump, on_failure
        self._tasks, self._board = run.tasks, run.cells
        self._beats = -1
        self._life = self._looked = time.monotonic()
        self._words = 0
        #: All that came, those that wanted an end, when the last one did, and how many there were
        #: since a sign of life.
        self._came: Set[int] = set()
        self._ends: List[int] = []
        self._asked = -SAME_SIGNAL
        self._unheeded = 0

    def until_over(self, heard: Set[signal.Signals]) -> int:
        """Wait for the end of the program; the status to exit with."""
        # Not sigtimedwait: interrupted after its time (by a stop that lasted), it returns what was
        # never received.
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        while True:
            news = signal.sigwaitinfo(heard)  # no limit: the timer is heard, too
            if news.si_signo not in (signal.SIGCHLD, signal.SIGALRM):
                self._hand_on(news.si_signo, news.si_code <= 0)
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                return self._ended(status)
            reason = self._stuck()
            if reason:
                failed = self._failure(reason, self._inside())
                os.kill(self._child, signal.SIGKILL)
                signal.sigtimedwait({signal.SIGCHLD}, FAREWELL)
                return self._tell(failed, 128 + self._ends[0] if self._unheeded else 1)

    def _hand_on(self, number: int, by_a_process: bool) -> None:
        """Pass a signal on. A terminal has sent its own to the program as well; `flowc run` passes
        on what it got."""
        self._came.add(number)
        if number in END:
            again, self._asked = time.monotonic() - self._asked < SAME_SIGNAL, time.monotonic()
            if again:
                return
            self._ends.append(number)
            self._unheeded += 1
            self._beats = self._board.beats
            self._board.ask()
        if number in END or by_a_process:
            os.kill(self._child, number)

    def _stuck(self) -> str:
        """Why the program has to be ended, if it has to be."""
        now = time.monotonic()
        self._look_for_life(now)
        silent = now - self._life
        if self._unheeded:
            patience = HEED if self._unheeded == 1 else HEED_AGAIN
            if now - max(self._life, self._asked) > patience:
                return "did not return within %.0f s of a signal" % patience
        elif self._board.phase != IDLE:
            if self._watchdog and silent > self._watchdog:
                return "did not return for %s s (see --watchdog)" % digits.seconds(silent)
            self._warn(silent)
        return ""

    def _look_for_life(self, now: float) -> None:
        """A beat is a sign of life. The time counts for a program that was stopped, but not while a
        debugger holds it, nor while this process was stopped or the machine slept. A program goes
        on where it stopped itself to follow this process, and where it was asked to end."""
        if (self._board.follows or self._ends) and is_stopped(self._child):
            os.kill(self._child, signal.SIGCONT)
        held = is_debugged(self._child) and len(self._ends) < 2
        suspended = held or now - self._looked > ASLEEP
        self._looked = now
        beats = self._board.beats
        if beats != self._beats:
            self._beats, self._unheeded = beats, 0
        elif not suspended:
            return
        self._life, self._words = now, 0

    def _warn(self, silent: float) -> None:
        """Say after so many seconds of silence what the program is at, and later again."""
        stopped, phase = is_stopped(self._child), self._board.phase
        patience = STARTS * (1 + self._words) if phase == STARTING else SILENT * 2**self._words
        if silent <= patience:
            return
        self._words += 1
        doing = {STARTING: "starting", CLOSING: "closing"}.get(phase, "in a firing")
        doing = "suspended" if stopped else doing
        names = "" if stopped else ", ".join(map(_named, self._inside()))
        _say(NO_LIFE % (silent, names or "the program", doing))

    def _ended(self, status: int) -> int:
        """What the end of the program means."""
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if code >= 0 and self._board.left >= 0:
            return code or self._board.left
        if -code in self._came:
            return 128 - code
        crashed, frames = self._crash()
        inside = self._inside()
        if crashed is not None:
            inside = [(t, n) for t, n in inside if t is crashed] or [(crashed, None)]
        return self._tell(self._failure("its process " + how_it_ended(code), inside), 1, frames)

    def _tell(self, failure: Failure, status: int, frames: str = "") -> int:
        _say(str(failure), frames)
        self._on_failure(failure, status)
        return status

    def _inside(self) -> List[Inside]:
        """The tasks whose code ran last, with the numbers of their firings."""
        main, *workers = self._board.lines
        if main[0]:
            return [(self._tasks[main[0] - 1], None)]
        return [(self._tasks[line[0] - 1], line[1]) for line in workers if line[0]]

    def _failure(self, reason: str, inside: Sequence[Inside]) -> Failure:
        if is_stopped(self._child):
            return Failure("", "", None, "the program was suspended and " + reason)
        step = {STARTING: "cannot start: ", CLOSING: "close: "}.get(self._board.phase, "")
        reason = step + reason
        if len(inside) == 1:
            task, firing = inside[0]
            return Failure(task.app.name, task.name, firing, reason)
        if inside:
            names = ", ".join(map(_named, inside))
            return Failure("", "", None, "one of %s failed: %s" % (names, reason))
        return Failure("", "", None, "the program failed outside of its tasks: " + reason)

    def _crash(self) -> Tuple[Optional[Task], str]:
        """Whose call has crashed, and the lines of its own code, as Python's fault handler has left
        them."""
        lines = iter(os.pread(self._dump, LONGEST_DUMP, 0).decode("ascii", "replace").splitlines())
        for line in lines:
            if line.startswith("Current thread "):
                break
        frames = list(takewhile(lambda line: line.startswith("  File "), lines))
        names = {t.name.encode("ascii", "backslashreplace").decode()[:500]: t for t in self._tasks}
        names.update(
            (in_chain(i), self._tasks[line[0] - 1])
            for i, line in enumerate(self._board.lines)
            if line[0]
        )
        for i, frame in enumerate(frames):  # the innermost one first
            task = names.get(frame.rpartition(" in ")[2])
            if task is not None:
                return task, "".join(f + "\n" for f in reversed(frames[:i]))
        return None, ""


def _named(inside: Inside) -> str:
    task, firing = inside
    return task.name if firing is None else "%s (firing %d)" % (task.name, firing)


def _say(text: str, details: str = "") -> None:
    try:
        os.write(2, ("%sflowc: %s\n" % (details, text)).encode("utf-8", "replace"))
    except OSError:
        pass  # there is no listener
