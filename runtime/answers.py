"""Who waits for the answers of a program with open ends: threads, by futures, and coroutines.

In: answers, in any thread. Out: futures with results. The answers for the coroutines of one event
loop reach it together, by a thread of their own: each of them alone would wake it, and a worker
that wakes it would wait for the interpreter, which the loop has then.
"""

from __future__ import annotations

import asyncio
import queue
import threading
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
#: What is brought to an event loop.
_Letter = Tuple[asyncio.AbstractEventLoop, List[_Settled]]


class Messenger:
    """Tells those who asked. The thread that goes to event loops begins with the first answer for
    one."""

    def __init__(self) -> None:
        self._letters: queue.SimpleQueue[Optional[_Letter]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: Optional[threading.Thread] = None

    def answer(self, answers: Sequence[Answer]) -> None:
        """Not to be called under a lock: others' functions may be called."""
        loops: Dict[asyncio.AbstractEventLoop, List[_Settled]] = {}
        for asking, found in answers:
            if isinstance(asking, Awaited):
                loops.setdefault(asking.loop, []).append((asking.future, found))
            elif isinstance(found, Skipped):
                asking.set_exception(found)
            else:
                asking.set_result(found)
        for letter in loops.items():
            self._send(letter)

    def _send(self, letter: _Letter) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._go, name="answers", daemon=True)
                    self._thread.start()
        self._letters.put(letter)

    def _go(self) -> None:
        while True:
            letter = self._letters.get()  # no limit: until `close`
            if letter is None:
                return
            _settle_in(*letter)

    def close(self) -> None:
        """No more answers come; those that have come are still brought."""
        self._letters.put(None)


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
