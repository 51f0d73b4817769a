"""Where the newest tokens wait that do not wait for their reader."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Tuple

from .channel import WaitingPlace

#: Of a token in a mailbox: the release of data of each source that is asked for.
Marks = Tuple[Optional[int], ...]
#: Seconds after which a waiting reader checks whether waiting still makes sense.
LOOK = 0.05


class Held(NamedTuple):
    """A token in a mailbox: when it came, its marks, its number among all that were put there."""

    token: Any
    came: int
    marks: Marks
    number: int


class NewestTokens:
    """Holds the `keep` newest tokens."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.written = self.dropped = 0
        self._tokens: Deque[Held] = deque(maxlen=keep)
        self._changed = threading.Condition(threading.Lock())
        #: No more will come.
        self.closed = False
        #: Who looks whether it holds tokens.
        self.gates: List[WaitingPlace] = []

    def put(self, token: Any, came: Optional[int] = None, marks: Marks = ()) -> None:
        """A new one, which the oldest makes room for; it came now, unless `came` says otherwise."""
        with self._changed:
            self.dropped += len(self._tokens) == self._tokens.maxlen
            now = time.perf_counter_ns() if came is None else came
            self._tokens.append(Held(token, now, marks, self.written))
            self.written += 1
            self._changed.notify()
        for gate in self.gates:
            gate.wake()

    def close(self) -> None:
        """No more will come."""
        with self._changed:
            self.closed = True
            self._changed.notify()
        for gate in self.gates:
            gate.wake()

    def holds(self, count: int) -> bool:
        """Are so many tokens there, as many as it keeps, or all that will come?"""
        return self.closed or len(self._tokens) >= min(count, self.keep)

    def newest(self, firing: int, over: Callable[[], bool]) -> Optional[Held]:
        """The newest one, which stays, for a firing; None before the first. Raises StopIteration
        when it is `over`."""
        if over():
            raise StopIteration
        return self._tokens[-1] if self._tokens else None

    def take(self, firing: int, over: Callable[[], bool]) -> Held:
        """The oldest one, when it is there, for a firing. Raises StopIteration when none will come,
        or it is `over`."""
        with self._changed:
            while not self._tokens:
                if self.closed or over():
                    raise StopIteration
                self._changed.wait(LOOK)
            return self._tokens.popleft()
