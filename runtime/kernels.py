"""CUDA tasks: the kernels of a `.cu` file, started one after the other, or recorded once and
started together."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .cuda import DeviceKernel, DeviceStream, Memory
from .cuda_graphs import CudaGraphs
from .device import OnDevice
from .tokens import Port


class Launch:
    """A kernel with its arguments: names of ports, of `scratch` and `state`, or (dtype, value)."""

    def __init__(
        self,
        kernel: str,
        arguments: Sequence[Any],
        grid: Tuple[int, int, int] = (1, 1, 1),
        block: Tuple[int, int, int] = (1, 1, 1),
        shared: int = 0,
    ) -> None:
        self.kernel, self.arguments = kernel, list(arguments)
        self.grid, self.block, self.shared = grid, block, shared


class Kernels(OnDevice):
    """The kernels of a `.cu` file, one after the other. `scratch` lives for a firing, `state` from
    one to the next.

    `graph`: the launches are recorded once and started together.
    """

    def __init__(
        self,
        file: str,
        launches: Sequence[Launch],
        scratch: Sequence[Tuple[str, str, Tuple[int, ...]]] = (),
        state: Sequence[Tuple[str, str, Tuple[int, ...]]] = (),
        graph: bool = False,
        twin: Optional[Code] = None,
    ) -> None:
        OnDevice.__init__(self)
        self.file, self.launches, self.graph, self.twin = file, list(launches), graph, twin
        self._scratch, self._state = scratch, state
        self._kernels: Dict[str, DeviceKernel] = {}
        self._kept: Dict[str, int] = {}
        self._running = ""

    def words(self) -> str:
        if self._running:
            return "kernel %s" % self._running
        return "kernel%s %s" % (
            "s" if len(self.launches) > 1 else "",
            ", ".join(x.kernel for x in self.launches),
        )

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        OnDevice.open(self, home, inputs, outputs)
        self._kernels = self.cuda.compile(
            os.path.join(home, self.file), [x.kernel for x in self.launches]
        )
        stream = self.cuda.stream
        for name, memory in self._allocate(self._state):
            stream.zero(memory.pointer, memory.nbytes)
            self._kept[name] = memory.pointer
        stream.synchronize()

    def _allocate(
        self, fields: Sequence[Tuple[str, str, Tuple[int, ...]]]
    ) -> List[Tuple[str, Memory]]:
        made = []
        for name, dtype, shape in fields:
            memory = self.cuda.memory(
                int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            )
            self._memory.append(memory)
            made.append((name, memory))
        return made

    def prepare(self) -> None:
        own = self._own.__dict__
        own["scratch"] = {name: memory.pointer for name, memory in self._allocate(self._scratch)}
        own["graphs"] = CudaGraphs()

    def run(
        self, stream: DeviceStream, inputs: Sequence[int], outputs: Sequence[int], firing: int
    ) -> None:
        own = self._own.__dict__
        if "scratch" not in own:
            self.prepare()
        if not self.graph or self.strict:
            return self._launch(stream, inputs, outputs, own["scratch"])
        graphs: CudaGraphs = own["graphs"]
        graphs.run(
            stream,
            [*inputs, *outputs],
            lambda: self._launch(stream, inputs, outputs, own["scratch"]),
        )

    def _launch(
        self,
        stream: DeviceStream,
        inputs: Sequence[int],
        outputs: Sequence[int],
        scratch: Dict[str, int],
    ) -> None:
        places = dict(self._kept, **scratch)
        places.update(zip([p.name for p in self.inputs], inputs))
        places.update(zip([p.name for p in self.outputs], outputs))
        for x in self.launches:
            self._running = x.kernel
            arguments = [
                np.uintp(places[a]) if isinstance(a, str) else np.dtype(a[0]).type(a[1])
                for a in x.arguments
            ]
            stream.launch(self._kernels[x.kernel], x.grid, x.block, x.shared, arguments)
            if self.strict:
                stream.synchronize()
        self._running = ""
