"""The ends of channels that lead from one part of a program to another, on another machine.

What the analyses assume of a channel holds here as well: room is claimed at the writer before a
firing and is free again when the reader's firing has ended, of which a credit tells. Tokens come in
order, and none is lost: see `transport.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from .channel import Channel
from .code import Code
from .graph import FOREVER
from .tokens import Missing, Port, initial_tokens


class Forward(Code):
    """Hands its tokens on: what stands on a link between machines."""

    hands_on = True

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        return inputs[0]

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return _as_it_is


def _as_it_is(tokens: np.ndarray) -> np.ndarray:
    return tokens


class Outgoing(Channel):
    """The writer's end. `send` gets each block once, however many channels it is for."""

    remote = True

    def __init__(
        self,
        number: int,
        name: str,
        capacity: int,
        port: Port,
        delay: int,
        send: Optional[Callable[[int, Any, int], None]],
    ) -> None:
        Channel.__init__(self, name, capacity)
        self.number, self.port, self._send = number, port, send
        self._put = self._claimed = delay
        self.least_free = capacity - delay
        #: It is not read here, so a frame ends with what is put on it.
        self.delay = FOREVER

    @property
    def filled(self) -> int:
        return 0

    def release(self, count: int) -> None:
        """The reader is done with so many. Raises ValueError for more than there were."""
        if self._released + count > self._put:
            raise ValueError("room came back for more tokens of %s than there were" % self.name)
        Channel.release(self, count)

    def commit(
        self, block: Any, count: int, stacked: bool, turn: Optional[Tuple[int, int]] = None
    ) -> None:
        self._put += count
        if count and self._send is not None:
            self._send(self.number, block, count)


class Incoming(Channel):
    """The reader's end. `credit` is told how many tokens the reader is done with."""

    remote = True

    def __init__(
        self,
        number: int,
        name: str,
        capacity: int,
        port: Port,
        delay: int,
        values: Sequence[float],
        credit: Callable[[int, int], None],
    ) -> None:
        Channel.__init__(self, name, capacity, initial_tokens(port, delay, values))
        self.number, self.port, self._credit = number, port, credit

    def arrived(self, data: Any, count: int) -> None:
        """So many tokens have come, as bytes, or are missing. Raises ValueError for what does not
        fit."""
        if self.filled + count > self.capacity:
            raise ValueError("more tokens came for %s than it has room for" % self.name)
        if isinstance(data, Missing):
            Channel.commit(self, data, count, True)
            return
        Channel.commit(self, self.port.unpacked(data, count), count, True)

    def release(self, count: int) -> None:
        Channel.release(self, count)
        if count:
            self._credit(self.number, count)
