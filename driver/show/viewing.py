"""The report of an application while it runs: served to browsers of this machine, updated with the
program's status twice a second.

In: a text. Out: a server, and the run. The program writes its status into a pipe without ever
blocking (`runtime.status`), so neither a browser nor this process delays it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ...model.diagnostic import Diagnostic, Errors
from ...report.page import live_page
from ...report.serve import PageServer, Refusal
from ...search.events import SearchEvent, thinned
from ..execute.live_output import GRACE
from ..solve.adopt import choose
from ..solve.map import Answer, find_mapping
from ..text.check import OnMeasure, Report
from .reporting import NO_RUN, ReportAnswer, ReportedRun, report, run_for

#: Seconds between two pictures of a search.
BETWEEN = 0.2
#: Exit statuses of programs that the user has stopped: the page need not stay open.
STOPPED = (130, 143)


class Viewer:
    """A text with its page. `address` is the URL to open; `run` runs the program, and `close` ends
    everything."""

    def __init__(
        self,
        path: str | Path,
        *,
        platform: str = "host",
        port: int = 0,
        edit: bool = False,
        on_measure: OnMeasure | None = None,
        progress: Report | None = None,
    ) -> None:
        """Collect all results, and serve them; with `edit` the page can choose another mapping.

        `on_measure` and `progress` get the messages of `map` and `run`. Raises Errors.
        """
        self._path, self._platform = path, platform
        self._on_measure, self._progress = on_measure, progress
        self._choices = 0 if edit else None
        self._idle, self._chosen = threading.Lock(), threading.Event()
        self._collect()
        try:
            self._server = PageServer(lambda: self._page, port, self._use if edit else None)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"cannot listen at port {port}: {reason}"
            help_text = "leave --port out to use a free one"
            raise Errors([Diagnostic("F623", message, None, help=help_text)]) from error

    @property
    def address(self) -> str:
        """The URL for a browser."""
        return self._server.address

    def search(self, *, budget: float = 60.0, evaluations: int | None = None) -> Answer:
        """Search for a mapping, and show the progress; afterwards the page has the result. Raises
        Errors."""
        with self._busy("searching", "searched"):
            mapped = find_mapping(
                self._path,
                platform=self._platform,
                budget=budget,
                evaluations=evaluations,
                on_measure=self._on_measure,
                report=self._progress,
                on_event=_Shown(self._server),
            )
            self._collect()
        return mapped

    def run(
        self, *, frames: int | None = None, full_speed: bool = False, settings: Sequence[str] = ()
    ) -> int:
        """Build and run the program, and show its progress; afterwards the page has its
        measurements.

        The options are those of `run`. Returns the exit status of the program; if the user has
        stopped it, the page stays as it is. Raises Errors of the build.
        """
        reading, writing = os.pipe()
        listener = threading.Thread(target=self._follow, args=(reading,), daemon=True)
        listener.start()
        with self._busy("running", "ended"):
            try:
                run = run_for(
                    self._path,
                    platform=self._platform,
                    frames=frames,
                    trace=False,
                    live=writing,
                    full_speed=full_speed,
                    settings=settings,
                    on_measure=self._on_measure,
                    report=self._progress,
                )
            finally:
                with suppress(OSError):
                    os.close(writing)
                listener.join(GRACE)
            if run.status not in STOPPED:
                self._collect(run)
        return run.status

    @contextmanager
    def _busy(self, doing: str, done: str) -> Iterator[None]:
        """Disable the choice of mappings meanwhile; the page shows that."""
        self._server.tell("state", doing)
        with self._idle:
            yield
        self._server.tell("state", done)

    def wait(self) -> None:
        """Wait until the user has chosen another mapping; for ever without `edit`."""
        self._chosen.wait()  # no limit: until Ctrl-C
        self._chosen.clear()

    def _use(self, pins: str) -> None:
        """Store the chosen mapping. Raises Refusal."""
        if not self._idle.acquire(blocking=False):
            raise Refusal(
                "The program or a search is running: choose after it has ended (`--frames N` ends a"
                " program)."
            )
        try:
            choose(self._path, pins, platform=self._platform)
            self._choices = (self._choices or 0) + 1
            self._collect()
        except Errors as errors:
            raise Refusal("; ".join(d.message for d in errors.diagnostics)) from errors
        finally:
            self._idle.release()
        self._server.tell("chosen", self._choices)
        self._chosen.set()

    def _collect(self, run: ReportedRun = NO_RUN) -> None:
        """The page with the current results. Raises Errors."""
        self.reported: ReportAnswer = report(self._path, platform=self._platform, run=run)
        self._page = live_page(self.reported.document, self._choices).encode()

    def _follow(self, reading: int) -> None:
        """Forward the program's status, until all writers of the pipe have closed it."""
        with open(reading, "rb") as stream:
            for line in stream:
                with suppress(ValueError):
                    self._server.tell("live", json.loads(line))

    def close(self) -> None:
        """Disconnect all browsers."""
        self._server.close()


class _Shown:
    """Sends the progress of a search to browsers: the whole picture each time, so that late ones
    have it too."""

    def __init__(self, server: PageServer) -> None:
        self._server, self._points = server, list[tuple[float, int, float | None, float | None]]()
        self._told = -BETWEEN

    def __call__(self, event: SearchEvent) -> None:
        point = event.seconds, event.evaluations, event.value, event.bound
        if not self._points or self._points[-1][2:] != point[2:]:
            self._points = thinned([*self._points, point])
        if event.seconds >= self._told + BETWEEN:
            self._told = event.seconds
            data = {
                "seconds": event.seconds,
                "evaluations": event.evaluations,
                "text": event.text.strip(),
            }
            self._server.tell("search", {**data, "history": self._points})
