"""Ports with a rate `up to N`: a firing writes, or reads, as many tokens as there are.

On channels the others are null tokens, so that every firing moves N. A task that reads such tokens
one by one does not fire for a null token, and hands on null tokens.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Network
from .stretches import Stretches, stays
from .tokens import LENGTH, Hole, Missing, Pieces, Port, TaskError, on_host, together

#: Replicas of a task count at once.
_COUNTING = threading.Lock()


class Null(Missing):
    """A firing wrote fewer tokens than it may: what would have been made of the others is missing
    as well."""

    expected = True

    def among(self, pieces: Sequence[Any], count: int) -> Any:
        if any(isinstance(piece, Hole) for piece in pieces):
            return Hole(count)
        return Null(count) if all(isinstance(p, Null) for p in pieces) else Some(pieces)


class Some(Pieces):
    """Tokens of which some are null tokens."""

    def __init__(self, pieces: Sequence[Any]) -> None:
        there = [p for p in pieces if not isinstance(p, Null)]
        Pieces.__init__(self, there)
        self.pieces = list(pieces)
        self.nulls = sum(len(p) for p in pieces if isinstance(p, Null))
        self._at = np.concatenate([np.full(len(p), not isinstance(p, Null)) for p in pieces])

    def __getitem__(self, token: int) -> Any:
        for piece in self.pieces:
            if token < len(piece):
                return piece[token]
            token -= len(piece)
        raise IndexError(token)

    def host(self) -> np.ndarray:
        """Those that are there."""
        return Pieces([p for p in self.pieces if not isinstance(p, Null)]).host()

    def through(self, code: Network, arrays: Sequence[Any]) -> List[Any]:
        """What a network makes in one run of several firings, without those that have no tokens."""
        there = [a.host() if isinstance(a, Some) else on_host(a)[self._at] for a in arrays]
        return [self._like(made) for made in code.fire_batch(there)]

    def _like(self, made: np.ndarray) -> Some:
        pieces: List[Any] = []
        for piece in self.pieces:
            if isinstance(piece, Null):
                pieces.append(piece)
            else:
                pieces.append(made[: len(piece)])
                made = made[len(piece) :]
        return Some(pieces)


class UpTo(Port):
    """A port of lists of at most `most` tokens. Ports of a task with one name for their `count`
    have lists of one length."""

    def __init__(
        self, name: str, dtype: str, shape: Tuple[int, ...], most: int, count: str
    ) -> None:
        Port.__init__(self, name, dtype, shape, (most,), True)
        self.count = count
        #: Lists that were written, the tokens in them, and the most in one.
        self.lists = self.tokens = self.longest = 0

    def accept(self, value: Any, firing: int) -> np.ndarray:
        """The list that a task returned, as an array with an axis of tokens in front. Raises
        TaskError."""
        if isinstance(value, (list, tuple)) and not value:
            value = np.zeros((0,) + self.shape, self.dtype)
        array = self._array(value)
        fits = array.dtype == self.dtype and array.shape[1:] == self.shape
        if not fits or not array.ndim or len(array) > self.rates[0]:
            sizes = ", ".join(map(str, self.shape))
            raise TaskError(
                "returned %s%s for port `%s`, which is up to %d tokens %s[%s]"
                % (array.dtype, list(array.shape), self.name, self.rates[0], self.dtype, sizes)
            )
        return array

    def laid(self, block: Any) -> Any:
        """What a firing has written as it lies on channels: null tokens at its end."""
        if isinstance(block, Missing):  # nothing was written
            return block
        there, most = len(block), self.rates[0]
        self.counted(there)
        if there == most:
            return block
        return Some([block, Null(most - there)]) if there else Null(most)

    def counted(self, there: int) -> None:
        """One more list, with so many tokens."""
        with _COUNTING:
            self.lists += 1
            self.tokens += there
            if there > self.longest:
                self.longest = there

    def null(self, count: int) -> Null:
        """So many null tokens."""
        return Null(count)

    def stays(self, order: Sequence[Any]) -> bool:
        """Do all tokens of the app that may be missing stay with the worker of an order?"""
        return stays(order)

    def stretches(self, plan: Any) -> Stretches:
        """What depends on lists in a round."""
        return Stretches(plan)

    def told(self, outputs: Sequence[Port]) -> Dict[str, Any]:
        """For the report: the lists that were written at each of these ports."""
        lists = {}
        for port in outputs:
            if isinstance(port, UpTo):
                mean = round(port.tokens / port.lists, 3) if port.lists else None
                lists[port.name] = {
                    "written": port.lists,
                    "mean": mean,
                    "most": port.longest,
                    "limit": port.rates[0],
                }
        return {"lists": lists} if lists else {}

    def agree(self, ports: Sequence[Port], blocks: Sequence[Any]) -> None:
        """Lists with one count have one length. Raises TaskError."""
        first: Dict[str, Tuple[Port, int]] = {}
        for port, block in zip(ports, blocks):
            if port.count:
                other, length = first.setdefault(port.count, (port, len(block)))
                if length != len(block):
                    raise TaskError(
                        "has %d tokens at port `%s` and %d at `%s`, which have one count"
                        % (length, other.name, len(block), port.name)
                    )

    @property
    def room(self) -> int:
        return LENGTH + super().room

    def write(self, memory: np.ndarray, firing: int, block: Any) -> None:
        memory[:8].view(np.int64)[0] = len(block)
        np.copyto(self.read(memory, firing), block)

    def read(self, memory: np.ndarray, firing: int) -> Any:
        length = int(memory[:8].view(np.int64)[0])
        return np.ndarray((length,) + self.shape, self.dtype, memory, LENGTH)

    def view(self) -> Any:
        """How its reader sees tokens."""
        return _List(np.zeros((0,) + self.shape, self.dtype))


class _List:
    """The tokens that are there."""

    def __init__(self, empty: np.ndarray) -> None:
        self.kept: Optional[List[Any]] = None
        self._empty = empty

    def over(self, pieces: List[Any], count: int) -> Any:
        """The list in these pieces, which are `count` tokens together. Read-only."""
        if any(isinstance(piece, Hole) for piece in pieces):
            return Hole(count)
        return self.of([piece for piece in pieces if not isinstance(piece, Null)])

    def of(self, there: Sequence[Any]) -> Any:
        """The list of these pieces, all of whose tokens are there. Read-only."""
        if len(there) > 1:
            return together(there)
        return there[0] if there else self._empty

    def of_tokens(self, there: Sequence[np.ndarray]) -> np.ndarray:
        """The list of these tokens. Read-only."""
        if not there:
            return self._empty
        block = np.array(there)
        block.setflags(write=False)
        return block
