"""Bounded FIFO channels that pass references: to arrays, or to what lies in the memory of a device.

A token is never copied unless a firing needs several that were produced apart. Space is claimed
when a firing starts and freed when it ends; that is what the analyses assume.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

import numpy as np

from .tokens import Missing, Pieces, joined, together

_NOTHING = np.zeros((0,))


class Stopped(Exception):
    """The program is being stopped: leave at once."""


class EndOfStream(Exception):
    """The app ends before this firing's iteration: skip it."""


class WaitingPlace:
    """Something to wait at: a condition, and who is at its two ends."""

    #: One of them is in another part of the program.
    remote = False

    def __init__(self) -> None:
        self.source = ""
        self.destination = ""
        self._changed = threading.Condition(threading.Lock())

    def wake(self) -> None:
        """Let everybody who waits here look again whether waiting still makes sense."""
        with self._changed:
            self._changed.notify_all()

    def _wait(self, waiter: Waiter, what: str) -> None:
        waiter.check()
        waiter.looked += 1
        waiter.waiting = (self, what)
        try:
            # no limit: who ends wakes all that wait, and the watchdog tells of the others
            self._changed.wait()
        finally:
            waiter.waiting = None
        waiter.check()


class Waiter:
    """A thread that may wait at a channel: `waiting` tells the watchdog where, `looked` how often
    it has looked in vain."""

    def __init__(self) -> None:
        self.waiting: Optional[Tuple[WaitingPlace, str]] = None
        self.looked = 0

    def check(self) -> None:
        """Raise Stopped or EndOfStream when waiting has become pointless."""


class Turnstile(WaitingPlace):
    """Lets the replicas of a task take their inputs and claim their outputs one after the other, in
    firing order."""

    def __init__(self, task: str) -> None:
        WaitingPlace.__init__(self)
        self.source = self.destination = task
        self._next = 0

    def enter(self, firing: int, waiter: Waiter) -> None:
        """Wait for the turn of that firing."""
        with self._changed:
            while self._next != firing:
                self._wait(waiter, "its turn")

    def clear(self) -> None:
        """Begin with the first firing again."""
        self._next = 0

    def leave(self, firings: int) -> None:
        """Let the next ones in."""
        with self._changed:
            self._next += firings
            self._changed.notify_all()


class Channel(WaitingPlace):
    """One producer port, one consumer port, each used by one worker. `filled` counts readable
    tokens, `free` the room.

    Each end counts for itself, and only a thread that has to wait, or knows that another one waits,
    takes the lock.
    """

    def __init__(self, name: str, capacity: int, initial: Optional[np.ndarray] = None) -> None:
        WaitingPlace.__init__(self)
        self.name = name
        self.capacity = capacity
        self.delay = 0 if initial is None else len(initial)
        self.least_free = capacity - self.delay
        self.empty = _NOTHING
        #: What makes of pieces that the reader takes what it sees, if that is something else: a
        #: `Window`, or lists (counts.py).
        self.view: Any = None
        # (array, next unread token or -1 when the array is a single token without leading axis)
        self._segments: Deque[List[Any]] = deque()
        if initial is not None:
            self._segments.append([initial, 0])
        self._put = self._claimed = self.delay
        self._taken = self._released = 0
        self._waiters = 0
        #: They let sources fire when a reader waits for tokens; up to which one it has waited.
        self.gates: List[WaitingPlace] = []
        self.asked = 0

    @property
    def filled(self) -> int:
        """Tokens that can be read."""
        return self._put - self._taken

    @property
    def free(self) -> int:
        """Unclaimed room."""
        return self.capacity - (self._claimed - self._released)

    # -- between two states ------------------------------------------------------------------------
    def check(self) -> None:
        """Raises AssertionError if anything lies on it between two frames but the tokens of its
        delay."""
        if self.filled != self.delay:
            raise AssertionError(
                "%s holds %d tokens between two frames, not %d"
                % (self.name, self.filled, self.delay)
            )

    def left(self) -> Tuple[List[Any], Optional[List[Any]]]:
        """What lies on it between two frames, and what its reader has kept."""
        pieces = [block[None] if start < 0 else block[start:] for block, start in self._segments]
        if len(pieces) > 1 and all(isinstance(p, np.ndarray) for p in pieces):
            pieces = [joined(pieces)]
        return pieces, None if self.view is None else self.view.kept

    def clear(self) -> None:
        """Nothing lies on it any more, but room for the tokens of its delay is taken."""
        self._segments.clear()
        self._put = self._claimed = self.delay
        self._taken = self._released = self.asked = 0

    def restore(self, left: Tuple[List[Any], Optional[List[Any]]]) -> None:
        """Put on it, after `clear`, what lay on a channel like it."""
        pieces, kept = left
        self._segments.extend([piece, 0] for piece in pieces)
        if self.view is not None and kept is not None:
            self.view.kept = kept

    # -- consumer ----------------------------------------------------------------------------------
    def acquire(self, count: int, stacked: bool, waiter: Waiter) -> Any:
        """Wait for `count` tokens and take them; their space stays occupied until `release`."""
        if self._put - self._taken < count:
            self._ask(count)
            self._until(lambda: self.filled >= count, waiter, "data")
        self._taken += count
        return self._take(count, stacked)

    def acquire_each(self, times: int, count: int, stacked: bool, waiter: Waiter) -> List[Any]:
        """The same for so many firings: what each of them takes."""
        if self._put - self._taken < times * count:
            self._ask(times * count)
            self._until(lambda: self.filled >= times * count, waiter, "data")
        self._taken += times * count
        return [self._take(count, stacked) for _ in range(times)]

    def ready(self, count: int, waiter: Waiter) -> None:
        """Wait for `count` tokens, and leave them there."""
        if self._put - self._taken < count:
            self._ask(count)
            self._until(lambda: self.filled >= count, waiter, "data")

    def _ask(self, count: int) -> None:
        """Tell the gates of sources that the reader waits for so many tokens."""
        if self.gates:
            self.asked = self._taken + count
            for gate in self.gates:
                gate.wake()

    def release(self, count: int) -> None:
        """The firing that read `count` tokens is over."""
        self._released += count
        if self._waiters:
            self.wake()

    # -- producer ----------------------------------------------------------------------------------
    def claim(self, count: int, waiter: Waiter) -> None:
        """Wait for room for `count` tokens and reserve it."""
        if self.free < count:
            self._until(lambda: self.free >= count, waiter, "space")
        self._claimed += count
        free = self.capacity - (self._claimed - self._released)
        if free < self.least_free:
            self.least_free = free

    def commit(
        self, block: Any, count: int, stacked: bool, turn: Optional[Tuple[int, int]] = None
    ) -> None:
        """Append `count` tokens. A replicated producer gives its `turn` (firing, number of
        firings): order is kept."""
        self._append(block, count, stacked)
        if self._waiters:
            self.wake()

    def _until(self, enough: Callable[[], bool], waiter: Waiter, what: str) -> None:
        """A waiter says so before it looks; a thread changes a count before it looks for
        waiters."""
        with self._changed:
            self._waiters += 1
            try:
                while not enough():
                    self._wait(waiter, what)
            finally:
                self._waiters -= 1

    # -- tokens ------------------------------------------------------------------------------------
    def _append(self, block: Any, count: int, stacked: bool) -> None:
        if isinstance(block, Pieces):
            self._segments.extend([piece, 0] for piece in block.pieces)
        elif count:
            self._segments.append([block, 0 if stacked else -1])
        self._put += count

    def _take(self, count: int, stacked: bool) -> Any:
        if not stacked:
            return self._one()
        pieces: List[Any] = []
        left = count
        while left:
            block, start = self._segments[0]
            if start < 0:
                pieces.append(block[None])
                self._segments.popleft()
                left -= 1
                continue
            stop = min(start + left, len(block))
            pieces.append(block[start:stop])
            left -= stop - start
            if stop == len(block):
                self._segments.popleft()
            else:
                self._segments[0][1] = stop
        if self.view is not None:
            return self.view.over(pieces, count)
        missing: Any = next((p for p in pieces if isinstance(p, Missing)), None)
        if missing is not None:
            return missing.among(pieces, count)
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            return self.empty
        return together(pieces)

    def _one(self) -> Any:
        head = self._segments[0]
        block, start = head
        if start < 0:
            self._segments.popleft()
            return block
        if start + 1 == len(block):
            self._segments.popleft()
        else:
            head[1] = start + 1
        return block[start, ...]


class SharedChannel(Channel):
    """Several workers use one of its ends, in turn: everything happens under the lock."""

    def __init__(self, name: str, capacity: int, initial: Optional[np.ndarray] = None) -> None:
        Channel.__init__(self, name, capacity, initial)
        self._turn = 0
        self._early: Dict[int, Tuple[int, Any, int, bool]] = {}

    def clear(self) -> None:
        Channel.clear(self)
        self._turn = 0
        self._early.clear()

    def ready(self, count: int, waiter: Waiter) -> None:
        with self._changed:
            self._ask(count)
            while self.filled < count:
                self._wait(waiter, "data")

    def acquire(self, count: int, stacked: bool, waiter: Waiter) -> Any:
        with self._changed:
            self._ask(count)
            while self.filled < count:
                self._wait(waiter, "data")
            self._taken += count
            return self._take(count, stacked)

    def acquire_each(self, times: int, count: int, stacked: bool, waiter: Waiter) -> List[Any]:
        with self._changed:
            self._ask(times * count)
            while self.filled < times * count:
                self._wait(waiter, "data")
            self._taken += times * count
            return [self._take(count, stacked) for _ in range(times)]

    def release(self, count: int) -> None:
        with self._changed:
            self._released += count
            self._changed.notify_all()

    def claim(self, count: int, waiter: Waiter) -> None:
        with self._changed:
            while self.free < count:
                self._wait(waiter, "space")
            self._claimed += count
            self.least_free = min(self.least_free, self.free)

    def commit(
        self, block: Any, count: int, stacked: bool, turn: Optional[Tuple[int, int]] = None
    ) -> None:
        with self._changed:
            if turn is None:
                self._append(block, count, stacked)
            else:
                self._early[turn[0]] = (turn[1], block, count, stacked)
                while self._turn in self._early:
                    firings, early, tokens, is_stacked = self._early.pop(self._turn)
                    self._append(early, tokens, is_stacked)
                    self._turn += firings
            self._changed.notify_all()


class LocalChannel(Channel):
    """Both ends belong to one worker: its static order guarantees tokens and space, so it never
    waits."""

    def acquire(self, count: int, stacked: bool, waiter: Waiter) -> Any:
        if self.filled < count:
            raise AssertionError(
                "order of %s: %d tokens wanted, %d there" % (self.name, count, self.filled)
            )
        self._taken += count
        return self._take(count, stacked)

    def ready(self, count: int, waiter: Waiter) -> None:
        pass

    def claim(self, count: int, waiter: Waiter) -> None:
        if self.free < count:
            raise AssertionError(
                "order of %s: room for %d wanted, %d there" % (self.name, count, self.free)
            )
        Channel.claim(self, count, waiter)

    def wake(self) -> None:
        pass

    # -- for rounds that keep its tokens elsewhere meanwhile ---------------------------------------
    def pieces(self) -> List[Tuple[Any, int]]:
        """What lies on it: blocks, each with its first unread token (-1: a single token without
        leading axis)."""
        return [(block, start) for block, start in self._segments]

    def replace(self, pieces: Iterable[Tuple[Any, int]], tokens: int) -> None:
        """Put so many tokens on it, in these blocks, instead of what is there."""
        self._segments = deque([block, start] for block, start in pieces)
        self._put, self._taken, self._claimed, self._released = tokens, 0, tokens, 0
