"""Networks whose layers work in bands of rows, so that large tensors between them are never there
as a whole.

What is fired, copied and kept was decided when the program was made: a plan beside the models lists
it. It may be there in two forms: in ONNX Runtime's own blocked layout, for one size of blocks and
one version of it, with one copy of the weights for all models; and as plain models, which run
anywhere. A probe shows which one runs here. All arrays between firings lie in one arena for each
worker, as large as the largest network there needs.
"""

from __future__ import annotations

import json
import os
import threading
import time
from functools import lru_cache
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code, session
from .memory import LoadedSession, Outputs, Rehearsal, has_arena
from .own_graph import PlacedWeights, aligned, own_options, why_not_here
from .tokens import Port, TaskError

ARENA = -1

#: Of the arena or of a token: which, at what byte, type, shape in which it lies there, rows [first,
#: end) of it.
View = Tuple[int, int, str, Sequence[int], int, int]
#: A tensor of a model by name, where it is, and the shape that the model gives it.
Bound = Tuple[str, View, Sequence[int]]

#: A firing of a unit: what the unit makes, when it began and when it ended, with its copies.
Note = Tuple[str, int, int]

_here = threading.local()
#: The largest arena that a network of this process needs.
_largest: List[int] = [0]


class Bands(Code):
    """Inference in bands; `file` is the plan. `threads` share the work of each firing.

    After `open`, `plain` says why the blocked form does not run; it is empty where it does.
    """

    exact = False
    has_weights = True

    def __init__(
        self, file: str, inputs: Sequence[str], outputs: Sequence[str], threads: int = 1
    ) -> None:
        self.file, self.threads = file, threads
        self.plain = ""
        #: Are firings of bands noted? See `noted`.
        self.traced = False
        self._names, self._wanted = list(inputs), list(outputs)
        self._plan: Dict[str, Any] = {}
        self._sessions: List[Any] = []
        self._outputs = Outputs((), ())
        self._own = threading.local()

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.join(home, self.file)
        try:
            with open(path) as stream:
                document = json.load(stream)
        except (OSError, ValueError) as error:
            raise TaskError("%s cannot be read: %s" % (self.file, error)) from error
        has_arena()  # the probe is a network, too: what there was before the first one is noted now
        self.plain = _why_plain(document, home)
        self._plan = document["plain" if self.plain else "blocked"]
        if self.plain:
            files = [os.path.realpath(os.path.join(home, f)) for f in self._plan["models"]]
            self._sessions = [session(f, self.threads, False) for f in files]
        else:
            self._sessions = _sharing(os.path.realpath(path), os.path.realpath(home), self.threads)[
                0
            ]
        ends = outputs or [
            Port(name, dtype, tuple(shape)) for name, dtype, shape in document["outputs"]
        ]
        self._outputs = Outputs(self._wanted, ends)
        _largest[0] = max(_largest[0], self._plan["arena"])

    @property
    def layout(self) -> str:
        """Which form runs, in words."""
        return "plain: " + self.plain if self.plain else "blocked"

    def rehearsals(self) -> List[Rehearsal]:
        blocks = self._plan["blocks"]
        return [
            r
            for s, block in zip(self._sessions, blocks)
            for r in LoadedSession(s, own=True).rehearsals(block)
        ]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        player = getattr(self._own, "player", None)
        if player is None:
            player = self._own.player = _Player(self._plan, self._sessions, arena(_largest[0]))
        made = self._outputs.arrays()
        tokens = [np.ascontiguousarray(a).reshape(a.shape) for a in inputs] + made
        if self.traced:
            notes: List[Note] = []
            self._own.noted = notes
            player.play(tokens, notes)
        else:
            player.play(tokens)
        return tuple(made)

    def noted(self) -> List[Note]:
        """The firings of the calling thread's last inference, where they are traced."""
        found: List[Note] = getattr(self._own, "noted", [])
        return found


def arena(size: int) -> np.ndarray:
    """The memory of this thread for what lies between firings, with so many bytes."""
    found = getattr(_here, "arena", None)
    if found is None or len(found) < size:
        found = _here.arena = aligned(size)
    return found


# -- the blocked form ------------------------------------------------------------------------------
def _why_plain(document: Dict[str, Any], home: str) -> str:
    """Why the blocked form does not run on this machine; empty if it does."""
    blocked = document.get("blocked")
    if blocked is None:
        return str(document["why"])
    return why_not_here(blocked, home)


@lru_cache(maxsize=None)
def _sharing(path: str, home: str, threads: int) -> Tuple[List[Any], PlacedWeights]:
    """The sessions of a plan, and the weights that they share."""
    with open(path) as stream:
        plan = json.load(stream)["blocked"]
    weights = PlacedWeights(os.path.join(home, plan["weights"]), plan["shared"])
    sessions = [
        weights.session(os.path.join(home, file), names, own_options(threads))
        for file, names in zip(plan["models"], plan["names"])
    ]
    return sessions, weights


def forget() -> None:
    """Release unused sessions."""
    _sharing.cache_clear()


# -- firings ---------------------------------------------------------------------------------------
class _Player:
    """The plan with every view and binding made: tokens are put in when it is played."""

    def __init__(self, plan: Dict[str, Any], sessions: Sequence[Any], memory: np.ndarray) -> None:
        self._memory = memory
        self._calls = [self._call(c, sessions[c["model"]]) for c in plan["calls"]]

    def _call(self, call: Dict[str, Any], session: Any) -> Tuple[Any, ...]:
        binding = session.io_binding()
        reads = self._bound(call["reads"], binding.bind_input)
        makes = self._bound(call["makes"], binding.bind_output)
        before, after = ([self._move(*move) for move in call[when]] for when in ("before", "after"))
        return before, reads, makes, session.run_with_iobinding, binding, after, call["makes"][0][0]

    def _bound(self, tensors: Sequence[Bound], bind: Any) -> List[Tuple[Any, ...]]:
        """Bind what lies in the arena; of tokens: name, which one, type, shape, and how many bytes
        from its begin."""
        found = []
        for name, view, shape in tensors:
            dtype = np.dtype(view[2])
            if view[0] == ARENA:
                array = self._array(view)
                rows = array[:, :, view[4] : view[5]] if array.ndim == 4 else array
                bind(name, "cpu", 0, dtype, shape, rows.ctypes.data)
            else:
                first = view[4] * view[3][3] * dtype.itemsize if len(view[3]) == 4 else 0
                found.append((name, view[0], dtype, shape, first))
        return found

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

    def play(self, tokens: Sequence[np.ndarray], notes: Optional[List[Note]] = None) -> None:
        """One inference; tokens are the inputs, then the outputs. What is fired is added to the
        notes."""
        copy = np.copyto
        for before, reads, makes, run, binding, after, unit in self._calls:
            begin = 0 if notes is None else time.perf_counter_ns()
            for source, rows, target, places in before:
                copy(
                    target if places is None else tokens[target][:, :, places],
                    source if rows is None else tokens[source][:, :, rows],
                )
            for name, k, dtype, shape, first in reads:
                binding.bind_input(name, "cpu", 0, dtype, shape, tokens[k].ctypes.data + first)
            for name, k, dtype, shape, first in makes:
                binding.bind_output(name, "cpu", 0, dtype, shape, tokens[k].ctypes.data + first)
            run(binding)
            for source, rows, target, places in after:
                copy(
                    target if places is None else tokens[target][:, :, places],
                    source if rows is None else tokens[source][:, :, rows],
                )
            if notes is not None:
                notes.append((unit, begin, time.perf_counter_ns()))
