"""A server on standard input and output that signals end like the end of its input.

The library waits for input in a thread that nothing interrupts. Here a signal looks like the end of
the input, so that calls that are under way are ended in order.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from types import FrameType
from typing import Any

from mcp.server.mcpserver import MCPServer

from .calls import adopt_strays

#: The descriptor of standard input.
STDIN = 0


class Input(io.RawIOBase):
    """Standard input until `end` is called, also while a thread waits for it."""

    def __init__(self) -> None:
        self._woken, self._wake = os.pipe()

    def readable(self) -> bool:
        """See io."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See io."""
        # no limit: the client speaks when it wants
        ready, _, _ = select.select([STDIN, self._woken], [], [])
        if self._woken in ready:
            return 0
        content = os.read(STDIN, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def end(self) -> None:
        """From now on there is no more input."""
        os.write(self._wake, b"\0")


def serve(server: MCPServer) -> int:
    """Serve until the client is done; the number of the signal that ended it before, or 0."""
    received = []
    source = Input()

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        source.end()

    adopt_strays()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(source))
    server.run("stdio")
    return received[0] if received else 0
