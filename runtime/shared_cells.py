"""What every thread of a program is doing, in memory that outlives the program: its supervisor
reads it.

One line for the main thread, which starts and closes the tasks, and one for each worker. Only
numbers are written: doing so costs a firing less than a tenth of a microsecond.
"""

from __future__ import annotations

import mmap
from typing import List

#: What the main thread is at: nothing that has to end soon, or one of these.
IDLE, STARTING, RUNNING, CLOSING = range(4)

_BEATS, _PHASE, _FOLLOWS, _LEFT, _ASKED, _HEADER = range(6)
#: Cells of a line: the number of a task (0: none), its firing, and since when in ns.
_LINE = 3


class SharedCells:
    """Cells of 64 bits that processes share once they are forked."""

    def __init__(self, threads: int) -> None:
        self._memory = mmap.mmap(-1, 8 * (_HEADER + _LINE * threads))
        self._cells = memoryview(self._memory).cast("q")
        starts = range(_HEADER, len(self._cells), _LINE)
        self.lines: List[memoryview] = [self._cells[i : i + _LINE] for i in starts]

    # -- written by the program --------------------------------------------------------------------
    def beat(self) -> None:
        """A sign of life: Python code runs, and goes on."""
        self._cells[_BEATS] += 1

    def enter(self, phase: int, task: int = 0) -> None:
        """The main thread begins something else, which is a sign of life as well."""
        self.lines[0][0], self._cells[_PHASE] = task, phase
        self.beat()

    def follow(self, stopped: int) -> None:
        """The program is about to stop because its supervisor was stopped, or goes on again."""
        self._cells[_FOLLOWS] = stopped

    def leave(self, status: int) -> None:
        """The program has done what it was meant to do, and exits with that status."""
        self._cells[_LEFT] = 1 + status
        self.enter(IDLE)

    # -- written by the supervisor -----------------------------------------------------------------
    def ask(self) -> None:
        """The program is asked to end."""
        self._cells[_ASKED] += 1

    # -- read by either ----------------------------------------------------------------------------
    @property
    def beats(self) -> int:
        """Signs of life so far."""
        return self._cells[_BEATS]

    @property
    def phase(self) -> int:
        """What the main thread is at."""
        return self._cells[_PHASE]

    @property
    def follows(self) -> bool:
        """Has the program stopped of its own accord?"""
        return bool(self._cells[_FOLLOWS])

    @property
    def asked(self) -> int:
        """How often the program was asked to end."""
        return self._cells[_ASKED]

    @property
    def left(self) -> int:
        """The status that the program chose, or -1 when it has not come that far."""
        return self._cells[_LEFT] - 1
