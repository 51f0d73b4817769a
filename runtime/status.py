"""How a running program is doing, while it runs: a line on a terminal, or one a minute in a log."""

from __future__ import annotations

import sys
import time
from typing import Callable, Dict

from .program import Program

#: Seconds between two lines on a terminal, which replace each other, and between two in a log.
ON_TERMINAL, IN_LOG = 0.2, 60.0


class TerminalStatus:
    """One line on the terminal, a few times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, program: Program) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + ON_TERMINAL
        seconds = max((time.perf_counter_ns() - program.begin) / 1e9, 1e-9)
        apps = ["%s %d frames, %.1f fps" % (a.name, n, n / seconds) for a in program.running for n in [a.base + a.done]]
        state = "" if program.state_name is None else program.state_name + ": "
        sys.stderr.write("\r\033[K" + (state + "; ".join(apps))[:110])
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


class LogStatus:
    """A line every minute: frames since the start, frames per second since the line before, deadlines missed so far."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.perf_counter_ns) -> None:
        self._say, self._clock = say, clock
        self._before = 0.0
        self._frames: Dict[str, int] = {}

    def __call__(self, program: Program) -> None:
        seconds = (self._clock() - program.begin) / 1e9
        if seconds - self._before < IN_LOG:
            return
        apps = []
        for app in program.running:
            frames = app.base + app.done
            rate = (frames - self._frames.get(app.name, 0)) / (seconds - self._before)
            missed = ", %d missed" % app.misses if app.deadline is not None else ""
            apps.append("%s %d frames, %.1f fps%s" % (app.name, frames, rate, missed))
            self._frames[app.name] = frames
        self._before = seconds
        state = "" if program.state_name is None else "in %s, " % program.state_name
        self._say("%.0f s: %s%s" % (seconds, state, "; ".join(apps)))

    def clear(self) -> None:
        """What stands in a log stays there."""
