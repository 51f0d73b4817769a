"""A flight recorder: the last seconds of a trace, kept while the program runs, and written when a
deadline was missed or the program failed.

In: what a tracer gets. Out: a trace as `--trace` writes it, of the seconds before and after. It is
bounded in time and in number, so that a program may run for months with it.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from .report import build_of
from .trace import Tracer

if TYPE_CHECKING:
    from .graph import App, Path, Task
    from .program import Program
    from .run import Run

#: Most events of each kind that are kept.
MOST = 200_000
#: Firings between two looks at what is too old.
SELDOM = 256
#: The share of the seconds that follows a missed deadline, and the most that it may be.
AFTER, MOST_AFTER = 0.25, 2.0
#: The file, where none is named.
RECORDED = "flight-recorder.json"


def kept_where(text: str) -> Tuple[float, str]:
    """The seconds and the file of an option such as `60s:FILE`."""
    length, _, file = text.partition(":")
    return float(length[:-1]), file or RECORDED


class FlightRecorder(Tracer):
    """`write` gets a trace whenever there is one to be written."""

    def __init__(
        self, program: Program, seconds: float, write: Callable[[Dict[str, Any]], None]
    ) -> None:
        super().__init__(program, kept=partial(deque, maxlen=MOST))
        self._program, self._seconds, self._write = program, seconds, write
        self._missed: Optional[int] = None
        self._written = 0

    def firing(self, lane: str, task: Task, firing: int, group: int, start: int, end: int) -> None:
        super().firing(lane, task, firing, group, start, end)
        if not firing % SELDOM:
            self._forget(end)

    def frame(self, app: App, number: int, begin: int, end: int) -> None:
        super().frame(app, number, begin, end)
        if app.deadline is not None and end - begin > int(app.deadline):
            self._miss(end)

    def late(self, path: Path, firing: int, latency: int, end: int) -> None:
        super().late(path, firing, latency, end)
        self._miss(end)

    def _miss(self, time_ns: int) -> None:
        """Write what was before, unless the last trace has it already."""
        if self._missed is None and time_ns - self._written > self._seconds * 1e9:
            self._missed = time_ns

    def _forget(self, now: int) -> None:
        """Drop what is too old."""
        oldest = now - int(self._seconds * 1e9)
        for events, at in (
            (self._firings, 5),
            (self._fills, 2),
            (self._releases, 3),
            (self._frames, 3),
            (self._late, 3),
        ):
            while events and events[0][at] < oldest:
                events.popleft()

    def events(self, build: Optional[str] = None) -> Dict[str, Any]:
        """Those that are kept, while others may come."""
        still = Tracer(self._program)
        still._firings, still._fills = list(self._firings), list(self._fills)
        still._releases, still._frames = list(self._releases), list(self._frames)
        still._late = list(self._late)
        return still.events(build)

    # -- for who looks after the program -----------------------------------------------------------
    def __call__(self, run: Run) -> None:
        """Write a trace some time after a deadline was missed."""
        after = min(self._seconds * AFTER, MOST_AFTER) * 1e9
        if self._missed is not None and time.perf_counter_ns() - self._missed > after:
            self.deliver()

    def clear(self) -> None:
        """Nothing of it is shown."""

    def deliver(self) -> None:
        """Write a trace now."""
        now = time.perf_counter_ns()
        self._forget(now)
        self._missed, self._written = None, now
        self._write(self.events(build_of(self._run.home)))

    def finish(self, failed: bool) -> None:
        """The program is over: write what is not written yet."""
        if failed or self._missed is not None:
            self.deliver()
