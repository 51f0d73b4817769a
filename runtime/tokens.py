"""Ports and the arrays that pass through them."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import numpy as np

#: The size of a dimension that is another at every firing: between a network and its `post`.
OPEN = -1
#: Arrays begin at addresses that these divide, as those of numpy do.
ALIGNED = 16
#: Bytes for the number of tokens: what lies behind it begins with a cache line.
LENGTH = 64


class TaskError(Exception):
    """A task did something its declaration does not allow; the message is for its author."""


class Port:
    """`rates` are tokens per firing, one entry per phase. `stacked` ports see a leading axis of
    tokens.

    With a `window` a firing sees so many tokens: older ones, then those that it takes. 0 = only
    these.
    """

    #: Of a port of lists (counts.py): the name of their length.
    count = ""
    #: Axes along which tokens have sizes of their own (sizes.py).
    bounded: Tuple[int, ...] = ()

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: Tuple[int, ...] = (),
        rates: Tuple[int, ...] = (1,),
        stacked: Optional[bool] = None,
        window: int = 0,
    ) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        self.rates = tuple(rates)
        self.stacked = (
            (len(rates) > 1 or rates[0] > 1 or window > 0) if stacked is None else stacked
        )
        self.window = window

    def rate(self, firing: int) -> int:
        """Tokens of that firing."""
        return self.rates[firing % len(self.rates)]

    def block_shape(self, firing: int) -> Tuple[int, ...]:
        """Shape of what one firing passes through this port."""
        return (self.window or self.rate(firing),) + self.shape if self.stacked else self.shape

    def accept(self, value: Any, firing: int) -> np.ndarray:
        """What a task returned, as an array of exactly the declared dtype and shape. Raises
        TaskError."""
        array = self._array(value)
        wanted = self.block_shape(firing)
        if array.dtype != self.dtype or not (
            array.shape == wanted or _is_one_of(array.shape, wanted)
        ):
            returned = "%s%s" % (array.dtype, list(array.shape))
            raise TaskError(
                "returned %s for port `%s`, which is %s%s"
                % (returned, self.name, self.kind(firing), self.remedy(value))
            )
        return array

    def remedy(self, value: Any) -> str:
        """What to write where an array has another dtype of the kind of the port; else empty."""
        if not isinstance(value, np.ndarray) or value.dtype == self.dtype:
            return ""
        if not np.can_cast(value.dtype, self.dtype, "same_kind"):
            return ""
        return "; `.astype(np.%s)` converts it" % self.dtype

    def without(self) -> str:
        """What to write where a firing has no token, if its port can say so."""
        if len(self.rates) > 1 or self.window:
            return ""
        behind = "" if self.count else " at a port with `rate up to %d`" % self.rates[0]
        return "; where there is no token, return []%s" % behind

    def kind(self, firing: int) -> str:
        """The type of what that firing passes through this port, in words."""
        sizes = ("?" if n == OPEN else str(n) for n in self.block_shape(firing))
        return "%s[%s]" % (self.dtype, ", ".join(sizes))

    # -- in memory of several processes, and on the way between machines ---------------------------
    @property
    def room(self) -> int:
        """Bytes of memory that the largest block needs."""
        tokens = max(self.window, *self.rates) if self.stacked else 1
        return tokens * int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def write(self, memory: np.ndarray, firing: int, block: Any) -> None:
        """Put what that firing passes into memory, bytes of which there are enough."""
        np.copyto(np.ndarray(self.block_shape(firing), self.dtype, memory), block)

    def read(self, memory: np.ndarray, firing: int) -> Any:
        """What was written there; arrays that refer to the memory."""
        return np.ndarray(self.block_shape(firing), self.dtype, memory)

    def packed(self, block: Any) -> np.ndarray:
        """The bytes of tokens on their way to another machine."""
        return np.ascontiguousarray(block).reshape(-1).view(np.uint8)

    def unpacked(self, data: Any, count: int) -> Any:
        """So many tokens that came as bytes. Raises ValueError for what does not fit."""
        block = np.frombuffer(data, self.dtype)
        if block.ctypes.data % ALIGNED:
            block = block.copy()
        block = block.reshape((count,) + self.shape)
        block.setflags(write=False)
        return block

    def view(self) -> Any:
        """How a firing sees tokens, if that is not simply what it takes."""
        return None

    def laid(self, block: Any) -> Any:
        """What a firing has written as it lies on channels."""
        return block

    def _array(self, value: Any) -> np.ndarray:
        if isinstance(value, np.ndarray):
            return value
        if value is None:
            raise TaskError("returned nothing for port `%s`%s" % (self.name, self.without()))
        array = np.asarray(value)
        # Plain numbers and lists have no dtype of their own: they take the port's as long as
        # nothing is lost.
        if isinstance(value, np.generic) or not _holds(self.dtype, array):
            if not np.can_cast(array.dtype, self.dtype, "same_kind"):
                return array
        return array.astype(self.dtype)


def _is_one_of(shape: Tuple[int, ...], wanted: Tuple[int, ...]) -> bool:
    """Does the shape differ in open dimensions only?"""
    return len(shape) == len(wanted) and all(n == w or w == OPEN for n, w in zip(shape, wanted))


def _holds(dtype: np.dtype, array: np.ndarray) -> bool:
    """Can the dtype hold plain numbers of this array: whole ones in its range, or any in a
    floating-point type?"""
    if dtype.kind not in "iu" or array.dtype.kind not in "iu" or not array.size:
        return False
    limits = np.iinfo(dtype)
    return limits.min <= int(array.min()) and int(array.max()) <= limits.max


class Missing:
    """Stands on channels for so many tokens that are not there."""

    #: Tasks do not fire for them, and that is no failure.
    expected = False
    #: How several firings that take it together are told apart, where there are lists.
    rows: Any = None
    #: Has it pieces of several kinds?
    mixed = False

    def __init__(self, count: int) -> None:
        self._count = count
        #: What it stands for, where several firings take it together.
        self.pieces: Sequence[Any] = ()

    def of(self, pieces: Sequence[Any]) -> Missing:
        """Itself, in the place of these pieces of several kinds."""
        self.pieces, self.mixed = pieces, True
        return self

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, which: Any) -> Any:
        return type(self)(len(range(self._count)[which]) if isinstance(which, slice) else 1)


class Hole(Missing):
    """A firing has failed, and its frame is skipped."""

    def among(self, pieces: Sequence[Any], count: int) -> Any:
        """What a firing gets that takes it together with others, `count` tokens in all."""
        return Hole(count).of(pieces)

    def passed(self, port: Port, count: int) -> Missing:
        """What a firing makes that is left out."""
        return Hole(count)


def split_outputs(result: Any, outputs: Sequence[Port]) -> Sequence[Any]:
    """What a firing returned, one value for each output port. Raises TaskError."""
    several = isinstance(result, tuple) or (isinstance(result, list) and len(outputs) > 1)
    values = result if several else (result,)
    if len(values) != len(outputs):
        names = ", ".join(p.name for p in outputs)
        counted = "%d value%s" % (len(values), "" if len(values) == 1 else "s")
        raise TaskError(
            "returned %s for %d port%s (%s)"
            % (counted, len(outputs), "" if len(outputs) == 1 else "s", names)
        )
    return values


def freeze(block: Any) -> None:
    """What lies on a channel may not change any more: neither the array, nor the buffer that it is
    a view of."""
    if not isinstance(block, np.ndarray):
        return
    block.setflags(write=False)
    base = block.base
    if isinstance(base, np.ndarray) and base.flags.writeable:
        base.setflags(write=False)


def apart(block: Any) -> Any:
    """The same in memory of its own: an array, or a list of some. Read-only."""
    if isinstance(block, list):
        return type(block)([apart(array) for array in block])
    copy = np.array(block, order="C")
    copy.setflags(write=False)
    return copy


def initial_tokens(port: Port, delay: int, values: Sequence[float]) -> Optional[np.ndarray]:
    """The tokens that lie on a channel at the start (leading axis), zero where no value is
    given."""
    if not delay:
        return None
    block = np.zeros((delay,) + port.shape, port.dtype)
    for i, value in enumerate(values):
        block[i] = value
    block.setflags(write=False)
    return block


class Pieces:
    """Tokens that were produced apart and are read together."""

    #: How many of them are null tokens (counts.py); how firings that take these together are told
    #: apart, where some are missing.
    nulls = 0
    rows: Any = None
    mixed = False

    def __init__(self, pieces: Sequence[Any]) -> None:
        self.pieces = list(pieces)
        self.shape = (sum(len(p) for p in pieces),) + tuple(pieces[0].shape[1:])
        self.dtype = pieces[0].dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def host(self) -> np.ndarray:
        """All of them as one array."""
        return joined([np.asarray(p) for p in self.pieces])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.host() if dtype is None else self.host().astype(dtype)


def joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """One array of all tokens. Read-only."""
    block = np.concatenate(pieces)
    block.setflags(write=False)
    return block


def together(pieces: Sequence[Any]) -> Any:
    """One block of all tokens, wherever they lie."""
    return joined(pieces) if all(isinstance(p, np.ndarray) for p in pieces) else Pieces(pieces)


def on_host(value: Any) -> Any:
    """A token for code on the host, wherever it comes from."""
    if isinstance(value, (np.ndarray, list)) or (isinstance(value, Pieces) and value.mixed):
        return value
    return np.asarray(value.host())
