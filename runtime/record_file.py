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
from typing import Any, Dict

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
    from mcap.writer import CompressionType, Writer

    source = os.fdopen(0, "rb", CHUNK)
    with os.fdopen(file, "wb", 0) as raw:
        writer: Any = Writer(raw, chunk_size=CHUNK, compression=CompressionType.NONE)
        writer.start("ros2", "flowc")
        schemas: Dict[str, int] = {}
        channels: Dict[int, int] = {}
        while True:
            head = source.read(HEAD.size)
            if len(head) < HEAD.size:
                break
            kind, channel, sequence, log, publish, size = HEAD.unpack(head)
            data = source.read(size)
            if len(data) < size:
                break
            if kind == MESSAGE:
                writer.add_message(channels[channel], log, data, publish, sequence)
            elif kind == CHANNEL:
                about = json.loads(data)
                if about["type"] not in schemas:
                    schemas[about["type"]] = writer.register_schema(
                        about["type"], "ros2msg", about["definition"].encode()
                    )
                channels[channel] = writer.register_channel(
                    about["topic"], "cdr", schemas[about["type"]], about["metadata"]
                )
            elif kind == ABOUT:
                writer.add_metadata("flowc", json.loads(data))
            else:
                writer.flush()
        writer.finish()
        writer.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
