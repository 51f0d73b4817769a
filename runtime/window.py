"""What a reader with a window sees: tokens that it took before, and behind them those that it takes
now.

In: what a firing takes from its channel, in pieces. Out: one block of the size of the window. Older
tokens belong to the channel, so that the replicas of a task, which take turns, see the same as one
of them alone.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np

from .tokens import Hole, Pieces, Port, joined


class Window:
    """The tokens of one channel that some later firing sees again; zeros before there are any."""

    def __init__(self, port: Port) -> None:
        self._least = min(port.rates)
        zeros = np.zeros((port.window - self._least,) + port.shape, port.dtype)
        zeros.setflags(write=False)
        #: Older tokens, in pieces.
        self.kept: List[Any] = [zeros]

    def over(self, pieces: List[Any], count: int) -> Any:
        """All that a firing sees that takes these pieces, `count` tokens together. Read-only."""
        seen = _behind(self.kept + pieces, count - self._least)
        if any(isinstance(p, Hole) for p in seen):
            self.kept = _behind(seen, self._least)
            return Hole(sum(map(len, seen)))
        if len(seen) > 1 and all(isinstance(p, np.ndarray) for p in seen):
            seen = [joined(seen)]
        self.kept = _behind(seen, self._least)
        return seen[0] if len(seen) == 1 else Pieces(seen)


def _behind(pieces: List[Any], count: int) -> List[Any]:
    """The pieces without their first `count` tokens."""
    left: List[Any] = []
    for piece in pieces:
        if count < len(piece):
            left.append(piece[count:] if count else piece)
        count = max(0, count - len(piece))
    return left
