"""Ports with a rate `up to N`: a firing writes, or reads, as many tokens as there are.

On channels the others are null tokens, so that every firing moves N. A task that reads such tokens
one by one does not fire for a null token, and hands on null tokens.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .tokens import LENGTH, Hole, Missing, Pieces, Port, TaskError, joined, on_host, together

#: Replicas of a task count at once.
_COUNTING = threading.Lock()


class Null(Missing):
    """A firing wrote fewer tokens than it may: what would have been made of the others is missing
    as well."""

    expected = True

    @property
    def rows(self) -> Any:
        """See `Missing`."""
        return Rows

    def among(self, pieces: Sequence[Any], count: int) -> Any:
        if any(isinstance(piece, Hole) for piece in pieces):
            return Hole(count).of(pieces)
        if not all(isinstance(piece, Null) for piece in pieces):
            return Some(pieces)
        kinds = {type(piece) for piece in pieces}
        return kinds.pop()(count) if len(kinds) == 1 else Null(count).of(pieces)

    def passed(self, port: Port, count: int) -> Missing:
        """What a firing that does not take place hands on."""
        return Absent(count) if port.count else Null(count)


class Absent(Null):
    """A list was not written, since its firing did not take place: who reads it does not fire
    either, as it would for an empty list."""

    def passed(self, port: Port, count: int) -> Missing:
        return Absent(count)


class Some(Pieces):
    """Tokens of which some are missing."""

    mixed = True

    @property
    def rows(self) -> Any:
        """See `Pieces`."""
        return Rows

    def __init__(self, pieces: Sequence[Any]) -> None:
        there = [p for p in pieces if not isinstance(p, Missing)]
        if there:
            Pieces.__init__(self, there)
        self.pieces = list(pieces)
        self.nulls = sum(len(p) for p in pieces if isinstance(p, Null))


class Rows:
    """Firings of a network that may be one run, of some of which tokens are missing. A row are
    firings behind each other of all of which the tokens are there, or of none."""

    def __init__(self, arrays: Sequence[Any], outputs: Sequence[Port]) -> None:
        self._outputs = outputs
        self._rows = _rows([_pieces(array) for array in arrays])
        self._made: List[Sequence[Any]] = []
        for row in self._rows:
            missing: Any = next((piece for piece in row if isinstance(piece, Missing)), None)
            made = [] if missing is None else [missing.passed(p, len(row[0])) for p in outputs]
            self._made.append(made)
        self._whole = [row for row, made in zip(self._rows, self._made) if not made]

    def __len__(self) -> int:
        """All firings."""
        return sum(len(row[0]) for row in self._rows)

    @property
    def left_out(self) -> int:
        """Those that are left out, since a firing before them has failed."""
        holes = (row for row in self._rows if any(isinstance(piece, Hole) for piece in row))
        return sum(len(row[0]) for row in holes)

    @property
    def arrays(self) -> List[np.ndarray]:
        """The tokens of those that take place, for each input; empty where none does."""
        pieces = [[on_host(piece) for piece in column] for column in zip(*self._whole)]
        return [column[0] if len(column) == 1 else joined(column) for column in pieces]

    def made(self, results: Sequence[Any]) -> None:
        """What those that take place have made."""
        at = 0
        for k, row in enumerate(self._rows):
            if not self._made[k]:
                self._made[k] = [result[at : at + len(row[0])] for result in results]
                at += len(row[0])

    def singly(self, fire: Callable[[int, List[np.ndarray]], Sequence[Any]]) -> None:
        """Those that take place, each by itself: `fire` gets its number among all of them and its
        tokens, and returns what it has made."""
        rows: List[List[Any]] = []
        made: List[Sequence[Any]] = []
        number = 0
        for row, passed in zip(self._rows, self._made):
            ones = [row] if passed else [[p[k : k + 1] for p in row] for k in range(len(row[0]))]
            for one in ones:
                rows.append(one)
                made.append(passed or fire(number, [on_host(piece) for piece in one]))
                number += len(one[0])
        self._rows, self._made = rows, made

    @property
    def results(self) -> List[Any]:
        """What all have made, for each output."""
        return [Some([made[i] for made in self._made]) for i in range(len(self._outputs))]

    def __iter__(self) -> Iterator[Tuple[Optional[List[Any]], Optional[List[Any]]]]:
        """Of each firing, what it took and made; None, None where it did not take place."""
        for row, made in zip(self._rows, self._made):
            there = not any(isinstance(piece, Missing) for piece in (*row, *made))
            for k in range(len(row[0])):
                sides = [[on_host(p)[k : k + 1] for p in side] for side in (row, made) if there]
                yield (sides[0], sides[1]) if there else (None, None)


def _pieces(array: Any) -> Sequence[Any]:
    """The tokens that several firings take together, as they came."""
    return (isinstance(array, (Pieces, Missing)) and array.pieces) or [array]


def _rows(columns: Sequence[Sequence[Any]]) -> List[List[Any]]:
    """The pieces of several inputs, cut where a piece of any of them ends."""
    if len(columns) == 1:
        return [[piece] for piece in columns[0]]
    rows, left = [], [list(column) for column in columns]
    while left[0]:
        size = min(len(column[0]) for column in left)
        rows.append([column[0][:size] for column in left])
        for column in left:
            rest = column.pop(0)
            if len(rest) > size:
                column.insert(0, rest[size:])
    return rows


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

    #: How firings of a network are told apart, behind it.
    rows = Rows

    @property
    def one(self) -> Port:
        """The port of one of its tokens."""
        return Port(self.name, str(self.dtype), self.shape)

    def of(self, tokens: Sequence[np.ndarray]) -> Any:
        """The list of these tokens."""
        return np.array(tokens)

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


def absent(pieces: Sequence[Any], count: int) -> Optional[Missing]:
    """What the reader of a list gets where there is none: its writer has failed, or did not
    fire."""
    if any(isinstance(piece, Hole) for piece in pieces):
        return Hole(count)
    return Null(count) if pieces and all(isinstance(piece, Absent) for piece in pieces) else None


class _List:
    """The tokens that are there."""

    def __init__(self, empty: np.ndarray) -> None:
        self.kept: Optional[List[Any]] = None
        self._empty = empty

    def over(self, pieces: List[Any], count: int) -> Any:
        """The list in these pieces, which are `count` tokens together. Read-only."""
        missing = absent(pieces, count)
        if missing is not None:
            return missing
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
