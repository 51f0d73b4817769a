"""The process that writes a recording: it takes nothing of the program's interpreter, and outlives
the program.

In: what a recorder (record.py) writes to standard input, and the number of a file that is open.
Out: a file in the format MCAP, by the package `mcap`. Executed by itself: it imports nothing of the
program.
Where the program ends or is killed, its file is finished with all that has come; where this process
is killed as well, it has all but the last second.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from typing import IO, Any, Dict

#: What stands before each piece: its kind, a channel, a sequence number, two times (of the log and
#: of the release, ns since 1970), and the bytes that follow.
HEAD = struct.Struct("<BHIQQQ")
#: Kinds of pieces.
CHANNEL, MESSAGE, ABOUT, FLUSH = range(4)
#: Bytes after which a chunk is written.
CHUNK = 1 << 20


def main(file: int) -> int:
    """Write until the input ends; the exit status. A reason to fail is said on standard error."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its input
    try:
        _write(file)
    except OSError as error:
        sys.stderr.write(error.strerror or str(error))
        return 1
    except Exception as error:  # of the package
        sys.stderr.write("%s: %s" % (type(error).__name__, error))
        return 1
    return 0


def _write(file: int) -> None:
    source = os.fdopen(0, "rb", CHUNK)
    with os.fdopen(file, "wb", 0) as raw:
        writer = McapWriter(raw)
        while True:
            head = source.read(HEAD.size)
            if len(head) < HEAD.size:
                break
            kind, channel, sequence, log, publish, size = HEAD.unpack(head)
            data = source.read(size)
            if len(data) < size:
                break
            if kind == MESSAGE:
                writer.message(channel, log, data, publish, sequence)
            elif kind == CHANNEL:
                writer.define(channel, **json.loads(data))
            elif kind == ABOUT:
                writer.about(json.loads(data))
            else:
                writer.flush()
        writer.finish()


class McapWriter:
    """A recording in the format MCAP, written to a stream without a buffer."""

    def __init__(self, stream: IO[bytes]) -> None:
        from mcap.writer import CompressionType, Writer

        self._writer: Any = Writer(stream, chunk_size=CHUNK, compression=CompressionType.NONE)
        self._writer.start("ros2", "flowc")
        self._schemas: Dict[str, int] = {}
        self._channels: Dict[int, int] = {}

    def about(self, told: Dict[str, str]) -> None:
        """What is said of the program."""
        self._writer.add_metadata("flowc", told)

    def define(
        self, channel: int, topic: str, kind: str, definition: str, metadata: Dict[str, str]
    ) -> None:
        """A topic, with messages of a type of ROS 2, for a number that is not used yet."""
        if kind not in self._schemas:
            schema = self._writer.register_schema(kind, "ros2msg", definition.encode())
            self._schemas[kind] = schema
        schema = self._schemas[kind]
        self._channels[channel] = self._writer.register_channel(topic, "cdr", schema, metadata)

    def message(self, channel: int, log: int, data: bytes, publish: int, sequence: int) -> None:
        """A message, with its times in ns since 1970."""
        self._writer.add_message(self._channels[channel], log, data, publish, sequence)

    def flush(self) -> None:
        """Write what waits to be a chunk."""
        self._writer.flush()

    def finish(self) -> None:
        """Write what waits, and the index."""
        self._writer.finish()
        self._writer.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
