"""A stage on a GPU of a network whose cuts move at run time (`adapt`): an engine for each part that
a variant has there.

Frames come from stages on CPUs and go to such. What an engine makes stays on the device until a
stage on a CPU reads it, and its time is measured there.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, Deque, Dict, List, Sequence, Tuple, Union

from .adapt import Cut, Stage, frame_of, token_of
from .code import Code
from .device import Device
from .engines import OnnxCuda, TensorRT
from .gpu import open_cuda
from .tokens import Port

#: What runs a part of a network, with the ports that it reads and makes.
Engine = Tuple[Union[OnnxCuda, TensorRT], Sequence[Port], Sequence[Port]]


class StageOnDevice(Code):
    """The layers between two cuts, on a device; `tensors` are those of its ports that belong to the
    network.

    The file of each engine is the one that variants name for this stage.
    """

    exact = False
    device = Device

    def __init__(
        self, cut: Cut, number: int, tensors: Sequence[str], engines: Sequence[Engine]
    ) -> None:
        self.cut, self.number = cut, number
        self.twin = Stage(cut, number, tensors)
        #: Times of firings that have ended, in ns.
        self.spent: Deque[int] = deque()
        self._tensors = list(tensors)
        self._engines = {engine.file: (engine, reads, makes) for engine, reads, makes in engines}
        #: Outputs that tasks on the host read.
        self._mirrored: List[bool] = []

    def meet(self, task: Any, run: Any) -> None:
        self.cut.meet(task, run)
        self._mirrored = [False] * len(task.outputs)
        for engine, _, _ in self._engines.values():
            engine.meet(task, run)

    def read_on_host(self, output: int) -> None:
        self._mirrored[output] = True

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.cuda = open_cuda()
        for file, (engine, reads, makes) in self._engines.items():
            engine.mirrored = [self._is_mirrored(port) for port in makes]
            engine.landed = partial(self._landed, file)
            engine.open(home, reads, makes)
            self.arena_bytes = max(self.arena_bytes, engine.arena_bytes)

    def _is_mirrored(self, port: Port) -> bool:
        """Does the host read what an engine makes there? What crosses a cut is one token."""
        if self.number < self.cut.last:
            return self._mirrored[0]
        read = {name for name, mirrored in zip(self._tensors, self._mirrored) if mirrored}
        return port.name in read

    def prepare(self) -> None:
        """What the calling worker needs of each engine."""
        for engine, _, _ in self._engines.values():
            engine.prepare()

    def fire(self, inputs: Sequence[Any], firing: int) -> Tuple[Any, ...]:
        frame = frame_of(self.cut, self.number, self._tensors, inputs)
        engine, reads, makes = self._engines[self._file(frame.variant)]
        made = engine.fire([frame.tensors[port.name] for port in reads], firing)
        tensors: Dict[str, Any] = dict(frame.tensors)
        tensors.update(zip((port.name for port in makes), made))
        if self.number == self.cut.last:
            return tuple(tensors[name] for name in self._tensors)
        return (token_of(frame.variant, tensors),)

    def _file(self, variant: int) -> str:
        """The part of this stage in a variant."""
        return self.cut.variants[variant].parts[self.number][0]

    def _landed(self, file: str, ns: int) -> None:
        """A part has taken so long for a frame: as long as in every variant that has it."""
        self.spent.append(ns)
        variant = self.cut.current
        if self._file(variant) == file:
            self.cut.took(self.number, variant, ns)

    def flush(self) -> None:
        """Wait until everything that the calling worker has started is over. Raises CudaError."""
        for engine, _, _ in self._engines.values():
            engine.flush()

    def close(self) -> None:
        for engine, _, _ in self._engines.values():
            engine.close()
