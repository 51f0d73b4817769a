"""A program inside of another Python process.

In: a program that was built but not started. Out: `Running`, which runs it in threads of its own.
Nothing is printed, no signal is handled and no process forked, but for tasks that have a process of
their own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from concurrent.futures import Future
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from . import ends
from .ends import Closed, Failed, Skipped
from .failures import Failure, describe
from .lifecycle import DRAIN, execute
from .metrics import Collector, Family, families
from .open_ports import LOOK, Ends, listed
from .options import Mistake
from .parameters import give
from .program import Program
from .record import Recorder
from .report import report
from .run import Run
from .spans import Spans
from .tokens import TaskError

__all__ = ["Closed", "Collector", "Ends", "Failed", "Running", "Skipped"]


class Running:
    """A program that runs in threads of its own, until its streams end, or `stop`.

    `put`, `get`, `ask`, `aask` and iteration are those of the one app with open ends; where there
    are several, `app` has the ends of each.
    """

    #: What calls raise: of this copy of the runtime, as every build has its own.
    Closed, Failed, Skipped = ends.Closed, ends.Failed, ends.Skipped

    def __init__(
        self,
        program: Program,
        frames: Optional[int] = None,
        full_speed: bool = False,
        twin: bool = False,
        watchdog: float = 60.0,
        settings: Sequence[str] = (),
        record: Union[str, os.PathLike[str], None] = None,
        channels: Optional[str] = None,
        spans: Any = None,
    ) -> None:
        """`record` is a file for what `channels` carry; `spans` a tracer of OpenTelemetry, which
        gets frames as spans. Raises Failed where it cannot start,
        ValueError for what is asked wrongly, OSError for a file that cannot be written."""
        self._program, self._running = program, program.run
        mistakes = give(program, settings, word="settings:")
        if mistakes:
            raise ValueError("\n".join(mistakes))
        self._frames, self._full_speed, self._watchdog = frames, full_speed, watchdog
        program.run.warn = logging.getLogger("flowc").warning
        if twin:
            try:
                program.twin()
            except TaskError as error:
                raise Failed(Failure("", "", None, str(error))) from None
        self._recorder: Optional[Recorder] = None
        if record is not None:
            try:
                self._recorder = Recorder(program, os.fspath(record), channels, settings)
            except Mistake as mistake:
                raise ValueError(str(mistake)) from None
        self._spans = None if spans is None else Spans(spans, program.run)
        program.run.tracer = self._spans
        made = [(a.name, Ends(program.run, a, self._spans)) for a in program.apps]
        self._ends = {name: found for name, found in made if found.has_ends}
        self._thread = threading.Thread(target=self._run, name=program.name, daemon=True)
        self._thread.start()
        try:
            while self._thread.is_alive() and not program.run.go.wait(LOOK):
                pass
        except BaseException:
            self._let_go()
            # a task that does not come back from its start is not waited for
            self._thread.join(DRAIN)
            raise
        if not program.run.go.is_set():
            self._thread.join()  # no limit: it ends, or has ended
            self._raise_failure()
        for each in self._ends.values():
            each.begin()

    def raise_event(self, name: str) -> None:
        """Of a program with states, from any thread. Raises ValueError for an event that is
        unknown."""
        self._require_here()
        self._program.raise_event(name)

    # -- the ends ----------------------------------------------------------------------------------
    def app(self, name: str) -> Ends:
        """The open ends of that app."""
        self._require_here()
        if name not in self._ends:
            known = listed(list(self._ends)) or "none has"
            raise ValueError("no app `%s` with open ends; there is %s" % (name, known))
        return self._ends[name]

    def _only(self) -> Ends:
        self._require_here()
        if len(self._ends) != 1:
            several = "the apps %s have" % listed(list(self._ends)) if self._ends else "no app has"
            raise TypeError("%s open ends%s" % (several, ": use `app(NAME)`" if self._ends else ""))
        return next(iter(self._ends.values()))

    def put(self, /, *token: Any, timeout: Optional[float] = None, **tokens: Any) -> None:
        """See `Ends.put`."""
        self._only().put(*token, timeout=timeout, **tokens)

    def get(self, out: Optional[str] = None, timeout: Optional[float] = None) -> Any:
        """See `Ends.get`."""
        return self._only().get(out, timeout)

    def ask(self, /, *token: Any, **tokens: Any) -> Future[Any]:
        """See `Ends.ask`."""
        return self._only().ask(*token, **tokens)

    async def aask(self, /, *token: Any, **tokens: Any) -> Any:
        """See `Ends.aask`."""
        return await self._only().aask(*token, **tokens)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._only())

    # -- the end -----------------------------------------------------------------------------------
    def end(self) -> None:
        """No more comes in, to any app. What is under way comes out, then the streams end."""
        self._require_here()
        for each in self._ends.values():
            each.end()

    def stop(self) -> None:
        """Finish what is under way, as after Ctrl-C, and wait until all is closed. What waits to go
        in is lost.

        In a process that was forked meanwhile there is nothing to stop.
        """
        if self._running.strayed:
            return
        self._let_go()
        if threading.current_thread() not in (self._thread, *self._running.workers):
            self._thread.join()  # no limit: until what is under way has ended, as it says

    def _require_here(self) -> None:
        """Raise Failed in a process that was forked while the program ran: its threads are in the
        other one."""
        if self._running.strayed:
            raise ends.forked()

    def _let_go(self) -> None:
        for each in self._ends.values():
            each.stop()
            each.leave()
        self._running.interrupts = 1

    def report(self) -> Dict[str, Any]:
        """What was measured so far: the document of `flowc run --json`. Its `status` is 1 once the
        program has failed."""
        self._require_here()
        if self._thread.is_alive():
            running = self._running
            running.seconds = (time.perf_counter_ns() - running.begin) / 1e9
        return report(self._program, status=int(self._running.failure is not None))

    def metrics(self) -> List[Family]:
        """Counters and gauges of what was done so far, for a monitoring system. A `Collector` of
        `metrics.py` gives them to `prometheus_client`."""
        self._require_here()
        return families(self._program, self._ends, self.alive)

    @property
    def alive(self) -> bool:
        """Does the program run, and has it not failed? Then it takes what is put in."""
        running = not self._running.strayed and self._thread.is_alive()
        return running and self._running.failure is None

    @property
    def longest_firing(self) -> float:
        """For how many seconds the longest of the firings under way has taken; 0 without any. Who
        waits for data from outside does not count, as for the watchdog."""
        now, firings = time.perf_counter_ns(), [w.firing for w in self._running.workers]
        began = [inside[2] for inside in firings if inside and not inside[0].may_wait]
        return (now - min(began)) / 1e9 if began else 0.0

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """End and wait; after an exception, stop. What only a stop ends is stopped. Raises Failed
        if that is news."""
        if self._running.strayed:
            return
        try:
            if kind is None:
                self._finish()
        finally:
            self.stop()
        if kind is None and not any(e.told for e in self._ends.values()):
            self._raise_failure()

    def _finish(self) -> None:
        """Wait for the apps that end because nothing comes in any more; in a program without open
        ends, for all."""
        self.end()
        for each in self._ends.values():
            each.leave()
        ending = [each for each in self._ends.values() if each.takes]
        while self._thread.is_alive() and (not self._ends or not _all_over(ending)):
            self._thread.join(LOOK)

    def _raise_failure(self) -> None:
        failure = self._running.failure
        if failure is not None:
            raise Failed(failure)

    # -- the program -------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            execute(
                self._program,
                self._frames,
                self._full_speed,
                watchdog=self._watchdog,
                progress=self._look,
            )
        except BaseException as error:  # our own mistake: waiting threads have to know
            self._running.fail(
                Failure("", "", None, "internal error: " + describe(error), traceback.format_exc())
            )
        missing = "" if self._recorder is None else self._recorder.finish()
        if missing:
            self._running.warn(missing)
        unseen = "" if self._spans is None else self._spans.close()
        if unseen:
            self._running.warn(unseen)
        for each in self._ends.values():
            each.look(finished=True)

    def _look(self, run: Run) -> None:
        for each in self._ends.values():
            each.look()


def _all_over(ends: List[Ends]) -> bool:
    """Threads that wait at any of them are woken."""
    return sum(each.look() for each in ends) == len(ends)
