"""Ports whose tokens have sizes of their own: a dimension `up to 480` has as many places as there
are.

A token that is read alone is an array of its shape. Several tokens of a firing are a list of
arrays. Memory that processes share has room for the largest, and what travels carries its shapes.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from .counts import UpTo, absent
from .tokens import ALIGNED, LENGTH, Missing, Port, TaskError, freeze


class Tokens(List[Any]):
    """Several tokens, each an array of its shape."""

    def __getitem__(self, which: Any) -> Any:
        found = list.__getitem__(self, which[0] if isinstance(which, tuple) else which)
        return Tokens(found) if isinstance(which, slice) else found

    @property
    def shape(self) -> Tuple[int, ...]:
        """Their number: all that is the same of them."""
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        """That of each of them."""
        found: np.dtype = self[0].dtype
        return found


class Sized(Port):
    """A port of tokens that may be smaller than `shape` along the axes in `bounded`."""

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: Tuple[int, ...],
        bounded: Tuple[int, ...],
        rates: Tuple[int, ...] = (1,),
        stacked: Optional[bool] = None,
    ) -> None:
        Port.__init__(self, name, dtype, shape, rates, stacked)
        self.bounded = tuple(bounded)

    def kind(self, firing: int) -> str:
        sizes = (
            "up to %d" % n if axis in self.bounded else str(n) for axis, n in enumerate(self.shape)
        )
        return "%s[%s]" % (self.dtype, ", ".join(sizes))

    def accept(self, value: Any, firing: int) -> Any:
        """What a task returned: an array, or a list with one for each token. Raises TaskError."""
        if not self.stacked:
            return self._token(value)
        several = isinstance(value, np.ndarray) and value.ndim > 0
        if not several and not isinstance(value, (list, tuple)):
            raise TaskError("returned no list of tokens for port `%s`" % self.name)
        most, fewest = self.rate(firing), 0 if self.count else self.rate(firing)
        if not fewest <= len(value) <= most:
            raise TaskError(
                "returned %d tokens for port `%s`, which has %s%d"
                % (len(value), self.name, "up to " if self.count else "", most)
            )
        return Tokens([self._token(one) for one in value])

    def _token(self, value: Any) -> np.ndarray:
        array = self._array(value)
        if isinstance(value, list) and not value:  # has no dtype of its own
            array = np.zeros(0, self.dtype)
        if array.dtype != self.dtype or not self._takes(array.shape):
            raise TaskError(
                "returned %s%s for port `%s`, whose tokens are %s%s"
                % (array.dtype, list(array.shape), self.name, self.kind(0), self.remedy(value))
            )
        freeze(array)
        return array

    def _takes(self, shape: Sequence[int]) -> bool:
        """May a token have that shape?"""
        return len(shape) == len(self.shape) and all(
            0 <= n <= most if axis in self.bounded else n == most
            for axis, (n, most) in enumerate(zip(shape, self.shape))
        )

    def view(self) -> Any:
        return _Several() if self.stacked else None

    # -- where they lie ----------------------------------------------------------------------------
    @property
    def room(self) -> int:
        tokens = max(self.rates)
        largest = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return LENGTH + self._sizes(tokens) + tokens * _padded(largest)

    def write(self, memory: np.ndarray, firing: int, block: Any) -> None:
        tokens = block if self.stacked else [block]
        memory[:8].view(np.int64)[0] = len(tokens)
        self._put(memory, LENGTH, tokens)

    def read(self, memory: np.ndarray, firing: int) -> Any:
        tokens, _ = self._got(memory, LENGTH, int(memory[:8].view(np.int64)[0]))
        return tokens if self.stacked else tokens[0]

    def packed(self, block: Any) -> np.ndarray:
        tokens = [block] if isinstance(block, np.ndarray) and not self.stacked else block
        size = self._sizes(len(tokens)) + sum(_padded(token.nbytes) for token in tokens)
        memory = np.empty(size, np.uint8)
        self._put(memory, 0, tokens)
        return memory

    def unpacked(self, data: Any, count: int) -> Any:
        memory = np.frombuffer(data, np.uint8)
        if memory.ctypes.data % ALIGNED:
            memory = memory.copy()
        memory.setflags(write=False)
        tokens, end = self._got(memory, 0, count)
        if end != len(memory):
            raise ValueError("%d bytes came for %d of `%s`" % (len(memory), end, self.name))
        return tokens

    def _sizes(self, tokens: int) -> int:
        """Bytes of the shapes in front of so many tokens."""
        return _padded(8 * tokens * len(self.shape))

    def _put(self, memory: np.ndarray, start: int, tokens: Sequence[np.ndarray]) -> None:
        """Write shapes, and behind them tokens."""
        sizes = np.ndarray((len(tokens), len(self.shape)), np.int64, memory, start)
        at = start + self._sizes(len(tokens))
        for i, token in enumerate(tokens):
            sizes[i] = token.shape
            np.copyto(np.ndarray(token.shape, self.dtype, memory, at), token)
            at += _padded(token.nbytes)

    def _got(self, memory: np.ndarray, start: int, count: int) -> Tuple[Tokens, int]:
        """So many tokens, and where they end. Raises ValueError for what does not fit."""
        at = start + self._sizes(count)
        if at > len(memory):
            raise ValueError("no room for the sizes of %d tokens of `%s`" % (count, self.name))
        tokens = Tokens()
        for sizes in np.ndarray((count, len(self.shape)), np.int64, memory, start).tolist():
            begin, at = at, at + _padded(math.prod(sizes) * self.dtype.itemsize)
            if not self._takes(sizes) or at > len(memory):
                raise ValueError("no token %s fits there for `%s`" % (sizes, self.name))
            tokens.append(np.ndarray(sizes, self.dtype, memory, begin))
        return tokens, at


class SizedUpTo(Sized, UpTo):
    """A port of lists of such tokens."""

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: Tuple[int, ...],
        bounded: Tuple[int, ...],
        most: int,
        count: str,
    ) -> None:
        UpTo.__init__(self, name, dtype, shape, most, count)
        self.bounded = tuple(bounded)

    @property
    def one(self) -> Port:
        """See `UpTo`."""
        return Sized(self.name, str(self.dtype), self.shape, self.bounded, (1,), False)

    def of(self, tokens: Sequence[np.ndarray]) -> Any:
        """See `UpTo`."""
        return Tokens(tokens)


class _Several:
    """How the reader of several tokens sees them: as a list."""

    kept: Optional[List[Any]] = None

    def over(self, pieces: List[Any], count: int) -> Any:
        """The list of the tokens in these pieces, which are `count` together. Read-only arrays."""
        missing = absent(pieces, count)
        if missing is not None:
            return missing
        return self.of([piece for piece in pieces if not isinstance(piece, Missing)])

    def of(self, there: Sequence[Any]) -> Any:
        """The list of the tokens in these pieces, all of which are there."""
        return Tokens([token for piece in there for token in piece])

    def of_tokens(self, there: Sequence[np.ndarray]) -> Any:
        """The list of these tokens."""
        return Tokens(there)


def _padded(size: int) -> int:
    """With what is left out so that the next array begins where arrays should."""
    return -(-size // ALIGNED) * ALIGNED
