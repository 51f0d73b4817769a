"""Another part of a program on several machines, as one of them knows it; and the wait for all of
them at the start.

In: pings, answers, and what the connections tell. Out: how far its clock is from ours, and whom a
start waits for, in words. What is said over connections is `transport.py`.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional, Sequence, Set, Tuple

#: Seconds in which a peer has to be there.
PATIENCE = 60.0
#: Seconds between two words about whom a part waits for at its start.
TELL = 5.0
#: Pings after the start, in each later row, and seconds between rows.
PINGS, LATER_PINGS, EVERY = 32, 8, 10.0


class Peer:
    """Another part. `offset` is its clock minus ours, in ns, as far off as half a `round_trip` at
    most.

    `quiet` are the looks since it was heard.
    """

    def __init__(self, name: str, address: str, socket: Any, monitor: Any) -> None:
        self.name, self.address, self.socket, self.monitor = name, address, socket, monitor
        self.lock = threading.Lock()
        self.sent = self.heard = 0
        self.reached = self.joined = self.said_hello = self.ready = self.left = self.gone = False
        self.ended: Optional[float] = None
        self.quiet = 0
        #: The apps that it has a share of, and who it is joined with, once it has said so.
        self.apps: Optional[Set[str]] = None
        self.near: Set[str] = set()
        self.offset = self.round_trip = 0
        self._pings = 0
        self._best: Optional[Tuple[int, int]] = None
        self._next_row = 0.0

    def ping_back(self, sent: int, seen: int, now: int) -> bool:
        """An answer to a ping. Is another one to be sent?"""
        trip = now - sent
        if self._best is None or trip < self._best[0]:
            self._best = trip, seen - (sent + now) // 2
        self._pings -= 1
        if self._pings > 0:
            return True
        self.round_trip, self.offset = self._best
        self._best = None
        return False

    def begins_row(self) -> bool:
        """Is it time for another row of pings?"""
        now = time.monotonic()
        if not self.said_hello or now < self._next_row:
            return False
        self._pings, self._next_row = LATER_PINGS if self._next_row else PINGS, now + EVERY
        self._best = None
        return True


class Waiting:
    """Whom a part waits for at its start: said every few seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._since, self._next = say, time.monotonic(), TELL

    @property
    def seconds(self) -> float:
        """For so long already."""
        return time.monotonic() - self._since

    def tell(self, whom: str, most: Optional[float] = None) -> None:
        """Say so, if it is time; `most` are the seconds after which it is given up."""
        waited = self.seconds
        if waited >= self._next:
            self._next = waited + TELL
            self._say(
                "waits for %s: %d s so far%s"
                % (whom, waited, "" if most is None else ", %d s at most" % most)
            )


def awaited(late: Sequence[Peer], unheard: Sequence[Peer]) -> str:
    """Whom a start waits for, in words: those that do not answer, else those that are not ready."""
    if unheard:
        return "%s to answer" % " and ".join("part %s at %s" % (p.name, p.address) for p in unheard)
    return "%s to be ready" % " and ".join("part %s" % p.name for p in late)
