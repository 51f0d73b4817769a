"""Waiting for a time by a clock that is never set.

Before Python 3.10 a thread that waits for another one, for a time at most, waits by the clock of
the system: where that is set back meanwhile, by so much longer. Sleeping never did.
"""

from __future__ import annotations

import sys
import threading
import time

#: Do threads wait by a clock that is never set?
STEADY = sys.version_info >= (3, 10)
#: Seconds between two looks where they do not.
LOOK = 0.01


def wait(condition: threading.Condition, seconds: float) -> None:
    """As `condition.wait(seconds)`, but it may come back earlier."""
    if STEADY:
        condition.wait(seconds)
        return
    condition.release()
    try:
        time.sleep(min(seconds, LOOK))
    finally:
        condition.acquire()  # no limit: others hold it for a moment only


def wait_for(event: threading.Event, seconds: float) -> None:
    """As `event.wait(seconds)`, but it may come back earlier."""
    if STEADY and not event.is_set():
        event.wait(seconds)
    else:
        time.sleep(min(seconds, LOOK))


def join(thread: threading.Thread, seconds: float) -> None:
    """As `thread.join(seconds)`."""
    if STEADY:
        thread.join(seconds)
        return
    until = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < until:
        time.sleep(LOOK)
