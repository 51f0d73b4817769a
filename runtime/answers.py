"""Who waits for the answers of a program with open ends: threads, by futures, and coroutines.

In: answers, in any thread. Out: futures with results. The answers for the coroutines of one event
loop reach it together: each of them alone would wake it, and cost a change of threads.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .ends import Skipped, forked
from .run import Run


class Asked(Future):  # type: ignore[type-arg]  # which Python 3.8 cannot write
    """The answer to a token, for which no forked process waits."""

    def __init__(self, run: Run) -> None:
        Future.__init__(self)
        self._run = run

    def result(self, timeout: Optional[float] = None) -> Any:
        self._require_here()
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        self._require_here()
        return super().exception(timeout)

    def _require_here(self) -> None:
        if self._run.strayed and not self.done():
            raise forked()


class Awaited:
    """The answer to a token, for a coroutine of an event loop. What is called from other threads is
    named as in `Future`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self._running = False

    def set_running_or_notify_cancel(self) -> bool:
        """Its token goes in, unless the coroutine has been cancelled."""
        self._running = not self.future.cancelled()
        return self._running

    def running(self) -> bool:
        """Has its token gone in?"""
        return self._running

    def set_exception(self, error: BaseException) -> None:
        """There is no answer."""
        _settle_in(self.loop, [(self.future, error)])


#: Who has asked; and with the answer, which is an exception where a frame is left out.
Asking = Union[Asked, Awaited]
Answer = Tuple[Asking, Any]
_Settled = Tuple["asyncio.Future[Any]", Any]


def answer(answers: Sequence[Answer]) -> None:
    """Tell those who asked. Not under a lock: others' functions may be called."""
    loops: Dict[asyncio.AbstractEventLoop, List[_Settled]] = {}
    for asking, found in answers:
        if isinstance(asking, Awaited):
            loops.setdefault(asking.loop, []).append((asking.future, found))
        elif isinstance(found, Skipped):
            asking.set_exception(found)
        else:
            asking.set_result(found)
    for loop, settled in loops.items():
        _settle_in(loop, settled)


def _settle_in(loop: asyncio.AbstractEventLoop, settled: Sequence[_Settled]) -> None:
    """From any thread. A loop that is closed has no coroutines left that wait."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Sequence[_Settled]) -> None:
    for future, found in settled:
        if not future.done():
            if isinstance(found, BaseException):
                future.set_exception(found)
            else:
                future.set_result(found)
