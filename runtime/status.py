"""How a running program is doing, while it runs: a line on a terminal, one a minute in a log, or
data for others."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, List, Optional

from .channel import LocalChannel
from .graph import App
from .run import Run
from .streams import write_to

#: Seconds between two lines on a terminal, which replace each other, and between two in a log.
ON_TERMINAL, IN_LOG = 0.2, 60.0
#: And between two for a program that shows them.
LIVE = 0.5


class TerminalStatus:
    """One line on the terminal, a few times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, run: Run) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + ON_TERMINAL
        seconds = max((time.perf_counter_ns() - run.begin) / 1e9, 1e-9)
        apps = []
        for app in run.running:
            frames = app.base + app.done
            apps.append("%s %d frames, %.1f fps" % (app.name, frames, frames / seconds))
        state = "" if run.state_name is None else run.state_name + ": "
        write_to("stderr", "\r\033[K" + (state + "; ".join(apps))[:110])

    def clear(self) -> None:
        """Remove the line."""
        write_to("stderr", "\r\033[K")


class LogStatus:
    """A line every minute: frames since the start, frames per second since the line before,
    deadlines missed so far."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.perf_counter_ns
    ) -> None:
        self._say, self._clock = say, clock
        self._before = 0.0
        self._frames: Dict[str, int] = {}

    def __call__(self, run: Run) -> None:
        seconds = (self._clock() - run.begin) / 1e9
        if seconds - self._before < IN_LOG:
            return
        apps = []
        for app in run.running:
            frames = app.base + app.done
            rate = (frames - self._frames.get(app.name, 0)) / (seconds - self._before)
            missed = ", %d missed" % app.misses if app.deadline is not None else ""
            apps.append("%s %d frames, %.1f fps%s" % (app.name, frames, rate, missed))
            self._frames[app.name] = frames
        self._before = seconds
        state = "" if run.state_name is None else "in %s, " % run.state_name
        self._say("%.0f s: %s%s" % (seconds, state, "; ".join(apps)))

    def clear(self) -> None:
        """What stands in a log stays there."""


class LiveStatus:
    """A line of JSON every half second, for another process: what it gets is all that it can have.

    Nothing waits for who reads: a line that does not fit into the pipe is left out, and without a
    reader none is written.
    """

    def __init__(self, descriptor: int, clock: Callable[[], float] = time.perf_counter_ns) -> None:
        self._descriptor: Optional[int] = descriptor
        self._clock = clock
        self._before = 0.0
        self._frames: Dict[str, int] = {}
        self._latest: Dict[str, int] = {}
        self._busy: Dict[str, int] = {}
        self._rest = b""
        os.set_blocking(descriptor, False)

    def __call__(self, run: Run) -> None:
        seconds = (self._clock() - run.begin) / 1e9
        descriptor = self._descriptor
        if descriptor is not None and seconds - self._before >= LIVE:
            document = self._document(run, seconds)
            self._before = seconds
            line = json.dumps(document, separators=(",", ":")).encode() + b"\n"
            self._write(descriptor, line)

    def clear(self) -> None:
        """The reader sees that there is no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _document(self, run: Run, seconds: float) -> Dict[str, Any]:
        passed = seconds - self._before
        busy: Dict[str, int] = {}
        for app in run.running:
            if app.latencies:
                self._latest[app.name] = app.latencies[-1]
        by_name: Dict[str, List[App]] = {}
        for app in run.apps:  # each state has its own
            by_name.setdefault(app.name, []).append(app)
        apps = {name: self._app(name, own, passed) for name, own in by_name.items()}
        for worker in run.workers:
            busy[worker.processor] = busy.get(worker.processor, 0) + worker.busy
        shares = {
            name: round((ns - self._busy.get(name, 0)) / 1e9 / passed, 4)
            for name, ns in busy.items()
        }
        self._busy = busy
        # Tokens inside of a worker are in its variables.
        between = [
            c for app in run.running for c in app.channels if not isinstance(c, LocalChannel)
        ]
        return {
            "seconds": round(seconds, 3),
            **({} if run.state_name is None else {"state": run.state_name}),
            "apps": apps,
            "processors": shares,
            "channels": {c.name: [c.filled, c.capacity] for c in between},
        }

    def _app(self, name: str, own: List[App], passed: float) -> Dict[str, Any]:
        """An app, in all states that it runs in."""
        frames, latest = sum(app.frames for app in own), self._latest.get(name)
        before, self._frames[name] = self._frames.get(name, 0), frames
        return {
            "frames": frames,
            "fps": round((frames - before) / passed, 2),
            "latency_ms": None if latest is None else round(latest / 1e6, 3),
            "deadline_misses": sum(app.late() for app in own),
            "skipped": sum(app.skipped for app in own),
        }

    def _write(self, descriptor: int, line: bytes) -> None:
        line = self._rest or line  # half a line has to be finished first: this one is left out
        try:
            self._rest = line[os.write(descriptor, line) :]
        except BlockingIOError:
            pass
        except OSError:
            self.clear()
