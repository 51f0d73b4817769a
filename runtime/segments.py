"""A network in segments, one session after another: a segment that several networks begin with is
one session for all.

ONNX Runtime keeps the weights of a session in layouts of its own, so that sessions of models do not
share them. Where the graph that ONNX Runtime itself makes of a segment was written for this machine
when the program was built, it takes the weights that it has in common with others from one copy.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .code import Code, session
from .memory import LoadedSession, Rehearsal, has_arena
from .own_graph import PlacedWeights, own_options, why_not_here
from .tokens import Port, TaskError

#: Tensors of a model, each with the number of the value that it is.
Slots = Sequence[Tuple[str, int]]


class Segments(Code):
    """`segments` are files with what they read and make. Values are numbered: first the inputs of
    the network.

    `outputs` are the numbers of those that the ports carry; `threads` and `spin` are as of
    `Network`, `block` is the bytes that are planned for what lies between the layers. `common` is
    the file that lists common weights, and the segments that take some.

    After `open`, `apart` says why these have copies of their own; it is empty where they do not.
    """

    exact = False
    has_weights = True

    def __init__(
        self,
        segments: Sequence[Tuple[str, Slots, Slots]],
        outputs: Sequence[int],
        threads: int = 1,
        spin: bool = False,
        block: int = 0,
        common: str = "",
    ) -> None:
        self.segments, self.threads, self.spin, self.block = list(segments), threads, spin, block
        self._outputs, self.common, self.apart = list(outputs), common, ""
        self._loaded: List[Tuple[LoadedSession, Slots, Slots]] = []

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        common = None
        if self.common:
            common = _common(os.path.join(home, self.common), home, self.threads, self.spin)
            self.apart = common.why_not
        self._loaded = []
        for file, reads, makes in self.segments:
            made = None if common is None else common.session(os.path.basename(file))
            if made is None:
                path = os.path.realpath(os.path.join(home, file))
                made = session(path, self.threads, self.spin)
            self._loaded.append((LoadedSession(made), reads, makes))

    @property
    def layout(self) -> str:
        """Where weights are not in common although they could be, why."""
        return "weights apart: " + self.apart if self.apart else ""

    def rehearsals(self) -> List[Rehearsal]:
        return [run for loaded, _, _ in self._loaded for run in loaded.rehearsals(self.block)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        values: Dict[int, Any] = dict(enumerate(inputs))
        for loaded, reads, makes in self._loaded:
            made = loaded.run({tensor: values[slot] for tensor, slot in reads}, options)
            for tensor, slot in makes:
                values[slot] = made[tensor]
        return tuple(values[slot] for slot in self._outputs)


class _Common:
    """The sessions of the segments that take common weights; none, if it is said `why_not`."""

    def __init__(self, path: str, home: str, threads: int, spin: bool) -> None:
        try:
            with open(path) as stream:
                self._listed = json.load(stream)
        except (OSError, ValueError) as error:
            name = os.path.basename(path)
            raise TaskError("%s cannot be read: %s" % (name, error)) from error
        has_arena()  # the probe is a network, too: what there was before the first one is noted now
        self._home, self._threads, self._spin = home, threads, spin
        self.why_not = why_not_here(self._listed, home)
        self._made: Dict[str, Any] = {}

    def session(self, segment: str) -> Any:
        """The one of a segment, by the name of its file; None: it has copies of its own."""
        form = self._listed["models"].get(segment)
        if form is None or self.why_not:
            return None
        if segment not in self._made:
            file, names = form
            options = own_options(self._threads, self._spin)
            # it would copy weights into another layout, once for each session
            options.add_session_config_entry("session.disable_prepacking", "1")
            path = os.path.realpath(os.path.join(self._home, file))
            self._made[segment] = self._weights().session(path, names, options)
        return self._made[segment]

    def _weights(self) -> PlacedWeights:
        file = os.path.realpath(os.path.join(self._home, self._listed["weights"]))
        tensors = tuple((n, t, tuple(s), at) for n, t, s, at in self._listed["shared"])
        return _placed(file, tensors)


@lru_cache(maxsize=None)
def _common(path: str, home: str, threads: int, spin: bool) -> _Common:
    return _Common(path, home, threads, spin)


#: Sessions with any number of threads take the same copy.
_placed = lru_cache(maxsize=None)(PlacedWeights)
