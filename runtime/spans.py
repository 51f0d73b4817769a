"""Frames and their firings as spans of OpenTelemetry.

In: what a tracer gets, and who asked for a frame. Out: a span for each frame that has ended, with a
span for each firing in it, by the `Tracer` of who opened the program. Only the interface package
`opentelemetry-api` is used, and nothing of it where no spans are asked for. A thread of its own
hands them over, so that no worker waits for an exporter.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Deque, Dict, List, NamedTuple, Optional, Tuple

if TYPE_CHECKING:
    from .graph import App, Path, Task
    from .run import Run

#: Frames that may wait to be handed over; those beyond are counted.
MOST_WAITING = 10_000
#: So many ns after its end all firings of a frame are known: a worker tells of one after it has
#: handed on what it made.
SETTLED = 20_000_000


class _Firing(NamedTuple):
    """A run of a task in a frame: where, which firings, and from when to when in ns."""

    lane: str
    task: str
    first: int
    times: int
    start: int
    end: int


class _Frame(NamedTuple):
    """A frame that has ended; times in ns."""

    app: str
    number: int
    begin: int
    end: int


class Spans:
    """Stands where a tracer stands."""

    def __init__(self, tracer: Any, run: Run) -> None:
        """`tracer` is one of OpenTelemetry. Raises ImportError without `opentelemetry-api`."""
        from opentelemetry import trace

        self._trace, self._tracer, self._run = trace, tracer, run
        # spans are dated, firings are not
        self._epoch = time_ns() - perf_counter_ns()
        self._lock = threading.Lock()
        self._firings: Dict[Tuple[str, int], List[_Firing]] = {}
        self._asked: Dict[str, Deque[Any]] = {}
        self._callers: Dict[Tuple[str, int], List[Any]] = {}
        self._ended: queue.SimpleQueue[Optional[_Frame]] = queue.SimpleQueue()
        #: Frames without spans: there was no room for them, or the tracer has raised.
        self._lost = self._failed = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._hand_over, name="spans", daemon=True)
        self._thread.start()

    # -- who asks ----------------------------------------------------------------------------------
    def here(self) -> Any:
        """The context of the span that the calling thread or coroutine is in."""
        return self._trace.get_current_span().get_span_context()

    def asked(self, app: App, context: Any) -> None:
        """A request has come in, behind those that came before it."""
        with self._lock:
            self._asked.setdefault(app.name, deque()).append(context)

    def taken(self, app: App, frame: int, requests: int) -> None:
        """That frame has so many requests, the next ones."""
        with self._lock:
            asked = self._asked.get(app.name, deque())
            contexts = [asked.popleft() for _ in range(min(requests, len(asked)))]
            self._callers[app.name, frame] = [c for c in contexts if c.is_valid]

    # -- what a tracer is told ---------------------------------------------------------------------
    def firing(self, lane: str, task: Task, firing: int, group: int, start: int, end: int) -> None:
        """One run of a task: `group` firings, the first of which is `firing`."""
        key = task.app.name, firing // task.per_iteration
        made = _Firing(lane, task.name, firing, group, start, end)
        with self._lock:
            self._firings.setdefault(key, []).append(made)
            if len(self._firings) > MOST_WAITING:
                del self._firings[next(iter(self._firings))]

    def release(self, lane: str, task: Task, firing: int, time: int) -> None:
        """Spans have no place for it."""

    def late(self, path: Path, firing: int, latency: int, end: int) -> None:
        """Spans have no place for it."""

    def frame(self, app: App, number: int, begin: int, end: int) -> None:
        """A frame, from its release to the end of its last sink."""
        if self._ended.qsize() < MOST_WAITING:
            self._ended.put(_Frame(app.name, number, begin, end))
        else:
            self._lost += 1

    # -- spans -------------------------------------------------------------------------------------
    def _hand_over(self) -> None:
        while True:
            frame = self._ended.get()  # no limit: until `close`
            if frame is None:
                return
            early = (frame.end + SETTLED - perf_counter_ns()) / 1e9
            if early > 0:
                self._closing.wait(early)
            with self._lock:
                firings = self._firings.pop((frame.app, frame.number), [])
                callers = self._callers.pop((frame.app, frame.number), [])
            try:
                self._make(frame, firings, callers)
            except Exception as error:  # an exporter of theirs
                if not self._failed:
                    self._run.warn("a frame has no spans: %s: %s" % (type(error).__name__, error))
                self._failed += 1

    def _make(self, frame: _Frame, firings: List[_Firing], callers: List[Any]) -> None:
        """The span of a frame is in that of its request; one of several requests is linked with
        theirs."""
        trace = self._trace
        parent = None
        if len(callers) == 1:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(callers[0]))
        span = self._tracer.start_span(
            frame.app,
            context=parent,
            links=[trace.Link(caller) for caller in callers] if len(callers) > 1 else (),
            attributes={"flowc.frame": frame.number},
            start_time=frame.begin + self._epoch,
        )
        inside = trace.set_span_in_context(span)
        for firing in firings:
            attributes = {
                "flowc.processor": firing.lane,
                "flowc.firing": firing.first,
                "flowc.firings": firing.times,
            }
            self._tracer.start_span(
                firing.task,
                context=inside,
                attributes=attributes,
                start_time=firing.start + self._epoch,
            ).end(firing.end + self._epoch)
        span.end(frame.end + self._epoch)

    def close(self) -> str:
        """All spans are handed over; what is missing, in words."""
        self._closing.set()
        self._ended.put(None)
        self._thread.join()  # no limit: an exporter has its own
        missing = self._lost + self._failed
        return "frames without spans: %d" % missing if missing else ""
