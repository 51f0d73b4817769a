"""How long tests wait for others, at most. That a test ends at all is seen to by `timeout` in
pyproject.toml."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import AnyStr

#: Seconds after which something hangs, however busy the machine is.
HANGS = 120
#: Seconds for which builds of tests measure at least.
MOMENT = 0.2


def next_line(process: subprocess.Popen[AnyStr], errors: bool = False) -> AnyStr:
    """The next line of what a process says, or of its errors; it is killed where it says none for
    too long."""
    stream = process.stderr if errors else process.stdout
    assert stream is not None
    watch = threading.Timer(HANGS, process.kill)
    watch.start()
    try:
        return stream.readline()  # no limit: `watch`
    finally:
        watch.cancel()


def ended(*threads: threading.Thread) -> None:
    """Wait for threads to end. Fails where one does not."""
    for thread in threads:
        thread.join(HANGS)
    assert not any(thread.is_alive() for thread in threads), threads


def wait_until_stopped(supervisor: int) -> int:
    """The number of the program that this process keeps, which has stopped."""
    deadline = time.monotonic() + HANGS
    while True:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        if children and _state_of(int(children[0])) == "T":
            return int(children[0])
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
