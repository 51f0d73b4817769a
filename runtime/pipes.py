"""What both ends of a process know that works for a program: messages over pipes, blocks of tokens
in shared memory.

In: ends of pipes, and memory that both have mapped. Out: `Pipes`, and a `Ring` for each port.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .system import has_news
from .tokens import Port, TaskError, apart

#: Blocks of a port that may be in use at the far end, beside the one that is being written.
LENT = 8
#: Below so many bytes a copy costs less than the care for a lent block.
SMALL = 16 << 10

_HEAD = struct.Struct("<cI")


class Pipes:
    """Messages over a pair of pipes: a kind, and bytes."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._got = bytearray()
        self._lock = threading.Lock()  # threads of a task print while it fires

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Raises OSError without a reader."""
        message = _HEAD.pack(kind, len(content)) + content
        with self._lock:
            written = os.write(self._sink, message)
            while written < len(message):
                written += os.write(self._sink, message[written:])

    def receive(self, seconds: Optional[float] = None) -> Tuple[bytes, bytes]:
        """The next message. Raises EOFError when the other end is gone, TimeoutError when it takes
        too long."""
        got = self._got
        while True:
            if len(got) >= _HEAD.size:
                kind, size = _HEAD.unpack_from(got)
                end = _HEAD.size + size
                if len(got) >= end:
                    content = bytes(got[_HEAD.size : end])
                    del got[:end]
                    return kind, content
            if seconds is not None and not has_news(self._source, seconds):
                raise TimeoutError
            # no limit: where none is wanted, the end of the child
            more = os.read(self._source, 4096)
            if not more:
                raise EOFError
            got += more

    def close(self) -> None:
        """Close both pipes."""
        ends, self._source, self._sink = (self._source, self._sink), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)


class Ring:
    """The blocks of one port in shared memory, as its reader or its writer sees them.

    The reader says which slot comes next, because it knows what it still refers to: all arrays made
    from a slot keep a reference to it. What is written to slot 0 is copied by the reader; that is
    where everything goes when all others are in use.
    """

    def __init__(self, port: Port, memory: Any, offset: int) -> None:
        self._port = port
        size = port.room
        self._slots = [
            np.ndarray((size,), np.uint8, memory, offset + i * _stride(size))
            for i in range(1 + _lent(size))
        ]
        self._unused = sys.getrefcount(self._slots[0])

    def put(self, slot: int, firing: int, block: Any) -> None:
        """Write what that firing passes to a slot."""
        self._port.write(self._slots[slot], firing, block)

    def take(self, slot: int, firing: int) -> Any:
        """What the writer left there, for as long as the reader likes. Read-only."""
        block = self._port.read(self._slots[slot], firing)
        return block if slot else apart(block)

    def pick(self) -> int:
        """A slot that nothing refers to any more; always the first one, whose pages are warm."""
        for slot in range(1, len(self._slots)):
            if sys.getrefcount(self._slots[slot]) == self._unused:
                return slot
        return 0

    @staticmethod
    def bytes(port: Port) -> int:
        """Shared memory that a port needs."""
        size = port.room
        return (1 + _lent(size)) * _stride(size)


def _lent(size: int) -> int:
    return LENT if size >= SMALL else 0


def _stride(size: int) -> int:
    """Whole pages for what is lent, whole cache lines for the rest."""
    unit = mmap.PAGESIZE if size >= SMALL else 64
    return -(-size // unit) * unit


def _make_room(memory: int, size: int) -> None:
    """Let the memory have at least so many bytes. Raises TaskError.

    A file in a file system may find it full when a byte of it is first written, which would end the
    process (SIGBUS).
    """
    if os.fstat(memory).st_size >= size:
        return
    try:
        os.ftruncate(memory, size)
        if not os.readlink("/proc/self/fd/%d" % memory).startswith("/memfd:"):
            os.posix_fallocate(memory, 0, size)
    except OSError as error:
        reason = "no room for tokens in shared memory (%.1f MB): %s" % (size / 1e6, error.strerror)
        raise TaskError(reason) from error


def rings_of(
    memory: int, inputs: Sequence[Port], outputs: Sequence[Port], child: bool
) -> Tuple[List[Ring], List[Ring]]:
    """Both sides of a task in the memory; each end can write only what the other one reads."""
    both: List[List[Ring]] = []
    start = 0
    for ports, writes in ((inputs, not child), (outputs, child)):
        unit = mmap.ALLOCATIONGRANULARITY
        length = max(1, -(-sum(map(Ring.bytes, ports)) // unit)) * unit
        _make_room(memory, start + length)
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writes else 0)
        mapped = mmap.mmap(memory, length, mmap.MAP_SHARED, protection, offset=start)
        rings, offset = [], 0
        for port in ports:
            rings.append(Ring(port, mapped, offset))
            offset += Ring.bytes(port)
        both.append(rings)
        start += length
    return both[0], both[1]
