"""Stands in for ssh with a board at its far end, which answers as a script says: `python far_end.py
SCRIPT ... COMMAND`.

In: a JSON file with what is answered to each question, and what goes wrong at which of them. Out:
bytes, as `agent.py` would send them, or otherwise. It needs nothing of flowc, so that it starts
quickly.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import sys
import time
from typing import Any

LENGTHS = struct.Struct(">IQ")
#: Seconds for which something goes on that would have no end: longer than flowc waits for it.
ENDLESS = 60.0


def frame(answer: Any, payload: bytes = b"") -> bytes:
    """As the agent sends it."""
    header = json.dumps(answer).encode()
    return LENGTHS.pack(len(header), len(payload)) + header + payload


def exactly(count: int) -> bytes:
    """So many bytes of what was asked."""
    found = b""
    while len(found) < count:
        piece = os.read(0, count - len(found))  # no limit: until its other end is closed
        if not piece:
            sys.exit(0)
        found += piece
    return found


def say(content: bytes, to: int = 1) -> None:
    """All of it."""
    while content:
        content = content[os.write(to, content) :]


def on_and_on(content: bytes, to: int = 1, pause: float = 0.0) -> None:
    """Again and again."""
    end = time.monotonic() + ENDLESS
    while time.monotonic() < end:
        say(content, to)
        time.sleep(pause)
    sys.exit(0)


def wrong(how: dict[str, Any], answers: bytes) -> None:
    """Answer otherwise."""
    given = base64.b64decode(how.get("bytes", ""))
    kind = how["kind"]
    if kind == "bytes":  # other ones, and then as if nothing had been
        say(given)
    elif kind == "end":
        say(given)
        sys.exit(how["status"])
    elif kind == "silence":
        say(given)
        time.sleep(ENDLESS)
    elif kind == "closed":
        say(given)
        os.close(1)
        time.sleep(ENDLESS)
    elif kind == "deaf":
        os.close(0)
        time.sleep(ENDLESS)
    elif kind == "dribble":
        for byte in answers:
            say(bytes([byte]))
            time.sleep(how["pause"])
    elif kind == "endless":
        say(given)
        on_and_on(base64.b64decode(how["again"]), how["to"], how["pause"])


def main(script: str, command: str) -> None:
    """Be asked until nothing is asked any more."""
    with open(script, encoding="utf-8") as file:
        plan = json.load(file)
    answers, at, how = plan["answers"], plan["at"], plan["how"]
    if at == 0:
        wrong(how, b"")
    size = re.search(r"read\((\d+)\)", command)
    assert size is not None
    exactly(int(size[1]))
    say(base64.b64decode(plan["before"]) + plan["mark"].encode())
    number = 0
    while True:
        head, body = LENGTHS.unpack(exactly(LENGTHS.size))
        asked = json.loads(exactly(head))
        exactly(body)
        if asked["do"] in ("signal", "feed"):
            continue
        number += 1
        key = asked["do"] if asked["do"] != "run" else "run " + " ".join(asked["words"])
        found = next(frames for name, frames in answers if key.startswith(name))
        content = b"".join(frame(document, payload.encode()) for document, payload in found)
        if number == at:
            wrong(how, content)
            if how["kind"] in ("bytes", "dribble"):
                continue
        say(content)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[-1])
    except OSError:  # the way was cut
        sys.exit(255)
