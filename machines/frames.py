"""Frames from the far end of a board: limited in size and in time, whatever it sends.

In: the pipes of the process that leads there (`ssh`). Out: headers and the bytes after them; Silent
if nothing arrived in time, ValueError for an invalid frame, EOFError at the end. The process's
standard error is read in parallel, and its end is kept. `answers.py` defines the headers.
"""

from __future__ import annotations

import os
import select
import time
from typing import IO, Any

from ..model.json_reader import parse
from .agent import LENGTHS, PIECE

#: Most bytes of a header: the longest one has the digests of all files of a program.
MOST_HEADER = 1 << 22
#: Most bytes before all frames, and most that are kept of standard error.
MOST_BEFORE, KEPT = 1 << 20, 1 << 16
#: Seconds for a started frame to be complete.
WHOLE = 60.0
#: Bytes that are read and written at once.
_ONCE = 1 << 16


class Silent(Exception):
    """Data did not arrive in time, or was not accepted; the message has the limit."""


class Frames:
    """Frames from `source`; requests go to `sink`, and the end of `errors` is kept."""

    def __init__(self, source: IO[bytes], sink: IO[bytes], errors: IO[bytes]) -> None:
        self._source, self._sink, self._errors = source.fileno(), sink.fileno(), errors.fileno()
        self._come = bytearray()
        self._said = bytearray()
        self._open = {self._source, self._errors}
        for end in (self._source, self._sink, self._errors):
            os.set_blocking(end, False)

    def begin(self, mark: bytes, seconds: float) -> bytes:
        """Wait for the mark before all frames; returns the text before it."""
        end = time.monotonic() + seconds
        while mark not in self._come:
            if len(self._come) > MOST_BEFORE:
                raise ValueError(f"more than {MOST_BEFORE >> 20} MiB came before the first answer")
            self._fill(end, seconds)
        before, _, rest = bytes(self._come).partition(mark)
        self._come[:] = rest
        return before

    def words(self) -> str:
        """The output beside answers: on standard error, else in place of an answer."""
        self._hear()
        self._read(self._source, self._come)
        output = self._said if self._said.strip() else self._come
        return output.decode(errors="replace")

    def next(self, seconds: float) -> tuple[Any, bytes]:
        """The next frame, which has to start within so many seconds."""
        head, body = LENGTHS.unpack(
            self._exactly(LENGTHS.size, time.monotonic() + seconds, seconds)
        )
        if head > MOST_HEADER or body > PIECE:
            raise ValueError(f"an answer of {head} and {body} bytes")
        content = self._exactly(head + body, time.monotonic() + WHOLE, WHOLE)
        return parse(content[:head]), content[head:]

    def _exactly(self, count: int, end: float, seconds: float) -> bytes:
        while len(self._come) < count:
            self._fill(end, seconds)
        found = bytes(self._come[:count])
        del self._come[:count]
        return found

    def _fill(self, end: float, seconds: float) -> None:
        """Wait for more. Raises Silent and EOFError."""
        if not self._ready(self._source, select.POLLIN, end):
            raise Silent(f"nothing was heard of it for {seconds:g} s")
        self._read(self._source, self._come)
        if self._source not in self._open:
            raise EOFError

    def send(self, content: bytes, seconds: float) -> None:
        """Send within so many seconds. Raises Silent, and OSError at the end."""
        left, end = memoryview(content), time.monotonic() + seconds
        while left:
            if not self._ready(self._sink, select.POLLOUT, end):
                raise Silent(f"it has not taken {len(content)} bytes in {seconds:g} s")
            left = left[os.write(self._sink, left[:_ONCE]) :]

    def drain(self, seconds: float) -> None:
        """Discard further input, to its end or for so many seconds."""
        end = time.monotonic() + seconds
        self._come.clear()
        while self._source in self._open and self._ready(self._source, select.POLLIN, end):
            self._read(self._source, self._come)
            self._come.clear()

    def _ready(self, which: int, event: int, end: float) -> bool:
        """Wait until a pipe is ready; standard error is read meanwhile. False after the time."""
        while True:
            poll = select.poll()
            if self._errors in self._open:
                poll.register(self._errors, select.POLLIN)
            poll.register(which, event)
            left = max(0.0, end - time.monotonic())
            found = dict(poll.poll(1000 * left))
            if self._errors in found:
                self._hear()
            if which in found:  # also if this process was suspended until the time was over
                return True
            if not left:
                return False

    def _hear(self) -> None:
        self._read(self._errors, self._said)
        del self._said[:-KEPT]

    def _read(self, which: int, into: bytearray) -> None:
        """Read available bytes; at the end, close the pipe."""
        try:
            piece = os.read(which, _ONCE)  # no limit: it does not block
        except BlockingIOError:  # nothing is available
            return
        except OSError:  # another thread has closed it
            piece = b""
        into += piece
        if not piece:
            self._open.discard(which)
