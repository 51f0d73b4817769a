"""A network in segments, one session after another: a segment that several networks begin with is
one session for all.

ONNX Runtime keeps the weights of a session in layouts of its own, so that sessions of models do not
share them. Where the graph that ONNX Runtime itself makes of a segment was written for this machine
when the program was built, it takes the weights that it has in common with others from one copy.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .code import Code
from .memory import LoadedSession, Rehearsal
from .own_graph import APART, opened
from .tokens import Port

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
        files = [file for file, _, _ in self.segments]
        sessions, self.apart = opened(home, files, self.common, self.threads, self.spin)
        self._loaded = [
            (LoadedSession(made), reads, makes)
            for made, (_, reads, makes) in zip(sessions, self.segments)
        ]

    @property
    def layout(self) -> str:
        """Where weights are not in common although they could be, why."""
        return APART + self.apart if self.apart else ""

    def rehearsals(self) -> List[Rehearsal]:
        return [run for loaded, _, _ in self._loaded for run in loaded.rehearsals(self.block)]

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        values: Dict[int, Any] = dict(enumerate(inputs))
        for loaded, reads, makes in self._loaded:
            made = loaded.run({tensor: values[slot] for tensor, slot in reads}, options)
            for tensor, slot in makes:
                values[slot] = made[tensor]
        return tuple(values[slot] for slot in self._outputs)
