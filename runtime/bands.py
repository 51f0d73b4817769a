"""Networks whose layers work in bands of rows, so that large tensors between them are never there as a whole.

What is fired, copied and kept was decided when the program was made: a plan beside the models lists it. All arrays
between firings lie in one arena for each worker, as large as the largest network there needs.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .code import Code, session
from .memory import Loaded, Outputs, Rehearsal
from .tokens import Port, TaskError

#: Arrays begin at multiples of it.
ALIGNED = 64
ARENA = -1

#: Of the arena or of a token: which, at what byte, type, shape of what lies there, rows [first, end) of it.
View = Tuple[int, int, str, Sequence[int], int, int]

_here = threading.local()
#: The largest arena that a network of this process needs.
_largest: List[int] = [0]


class Bands(Code):
    """Inference in bands; `file` is the plan. `threads` share the work of each firing."""

    def __init__(self, file: str, inputs: Sequence[str], outputs: Sequence[str], threads: int = 1) -> None:
        self.file, self.threads = file, threads
        self._names, self._wanted = list(inputs), list(outputs)
        self._plan: Dict[str, Any] = {}
        self._sessions: List[Any] = []
        self._outputs = Outputs((), ())
        self._own = threading.local()

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.join(home, self.file)
        try:
            with open(path) as stream:
                self._plan = json.load(stream)
        except (OSError, ValueError) as error:
            raise TaskError("%s cannot be read: %s" % (self.file, error)) from error
        files = [os.path.realpath(os.path.join(home, f)) for f in self._plan["models"]]
        self._sessions = [session(f, self.threads, False) for f in files]
        self._outputs = Outputs(self._wanted, outputs)
        _largest[0] = max(_largest[0], self._plan["arena"])

    def rehearsals(self) -> List[Rehearsal]:
        blocks = self._plan["blocks"]
        return [r for s, block in zip(self._sessions, blocks) for r in Loaded(s, own=True).rehearsals(block)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        player = getattr(self._own, "player", None)
        if player is None:
            player = self._own.player = _Player(self._plan, self._sessions, arena(_largest[0]))
        made = self._outputs.arrays()
        player.play([np.ascontiguousarray(a).reshape(a.shape) for a in inputs] + made)
        return tuple(made)


def arena(size: int) -> np.ndarray:
    """The memory of this thread for what lies between firings, with so many bytes."""
    found = getattr(_here, "arena", None)
    if found is None or len(found) < size:
        memory = np.zeros(size + ALIGNED, np.uint8)
        first = -memory.ctypes.data % ALIGNED
        found = _here.arena = memory[first : first + size]
    return found


class _Player:
    """The plan with every view and binding made: tokens are put in when it is played."""

    def __init__(self, plan: Dict[str, Any], sessions: Sequence[Any], memory: np.ndarray) -> None:
        self._memory = memory
        self._calls = [self._call(c, sessions[c["model"]]) for c in plan["calls"]]

    def _call(self, call: Dict[str, Any], session: Any) -> Tuple[Any, ...]:
        binding = session.io_binding()
        reads, makes = [], []
        for name, view in call["reads"]:
            if view[0] == ARENA:
                array = self._array(view)
                binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            else:
                reads.append((name, view[0]))
        for name, view in call["makes"]:
            if view[0] == ARENA:
                array = self._array(view)
                binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            else:
                makes.append((name, view[0]))
        before, after = ([self._move(*move) for move in call[when]] for when in ("before", "after"))
        return before, reads, makes, session.run_with_iobinding, binding, after

    def _move(self, source: View, target: View) -> Tuple[Any, ...]:
        """Both sides as arrays, or as the rows of a token."""
        sides: List[Any] = []
        for view in (source, target):
            if view[0] == ARENA:
                array = self._array(view)
                sides += [array[:, :, view[4] : view[5]], None]
            else:
                sides += [view[0], slice(view[4], view[5])]
        return tuple(sides)

    def _array(self, view: View) -> np.ndarray:
        _, offset, dtype, shape, _, _ = view
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return self._memory[offset : offset + count].view(dtype).reshape(shape)

    def play(self, tokens: Sequence[np.ndarray]) -> None:
        """One inference; tokens are the inputs, then the outputs."""
        copy = np.copyto
        for before, reads, makes, run, binding, after in self._calls:
            for source, rows, target, places in before:
                copy(
                    target if places is None else tokens[target][:, :, places],
                    source if rows is None else tokens[source][:, :, rows],
                )
            for name, k in reads:
                token = tokens[k]
                binding.bind_input(name, "cpu", 0, token.dtype, token.shape, token.ctypes.data)
            for name, k in makes:
                token = tokens[k]
                binding.bind_output(name, "cpu", 0, token.dtype, token.shape, token.ctypes.data)
            run(binding)
            for source, rows, target, places in after:
                copy(
                    target if places is None else tokens[target][:, :, places],
                    source if rows is None else tokens[source][:, :, rows],
                )
