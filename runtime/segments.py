"""A network in segments, one session after another: a segment that several networks begin with is
one session for all.

ONNX Runtime keeps the weights of a session in layouts of its own, so that only sharing the session
shares them.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .code import Code, session
from .memory import LoadedSession, Rehearsal
from .tokens import Port

#: Tensors of a model, each with the number of the value that it is.
Slots = Sequence[Tuple[str, int]]


class Segments(Code):
    """`segments` are files with what they read and make. Values are numbered: first the inputs of
    the network.

    `outputs` are the numbers of those that the ports carry; `threads` and `spin` are as of
    `Network`, `block` is the bytes that are planned for what lies between the layers.
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
    ) -> None:
        self.segments, self.threads, self.spin, self.block = list(segments), threads, spin, block
        self._outputs = list(outputs)
        self._loaded: List[Tuple[LoadedSession, Slots, Slots]] = []

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._loaded = []
        for file, reads, makes in self.segments:
            path = os.path.realpath(os.path.join(home, file))
            self._loaded.append(
                (LoadedSession(session(path, self.threads, self.spin)), reads, makes)
            )

    def rehearsals(self) -> List[Rehearsal]:
        return [run for loaded, _, _ in self._loaded for run in loaded.rehearsals(self.block)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        values: Dict[int, Any] = dict(enumerate(inputs))
        for loaded, reads, makes in self._loaded:
            made = loaded.run({tensor: values[slot] for tensor, slot in reads}, options)
            for tensor, slot in makes:
                values[slot] = made[tensor]
        return tuple(values[slot] for slot in self._outputs)
