"""CUDA from Python, as much as generated programs need: one face, two libraries behind it.

Memory, streams, events, kernels and graphs of one GPU. Everything that is put into a stream happens
later, in order; events order streams among each other and tell the host when it may look. Which
library stands behind it is chosen in `gpu.py`.
"""

from __future__ import annotations

import abc
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .tokens import TaskError

#: Dynamic shared memory that needs no permission, in bytes.
ORDINARY_SHARED = 48 << 10


_LIMITS = "".join(
    "#define INT%d_MAX %s\n#define INT%d_MIN (-INT%d_MAX - 1)\n#define UINT%d_MAX %s\n"
    % (bits, 2 ** (bits - 1) - 1, bits, bits, bits, "%du" % (2**bits - 1))
    for bits in (8, 16, 32)
)
_MATH = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
"""
_FLOATS = """#pragma once
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#endif
"""
_INTEGERS = "typedef unsigned long uintptr_t; typedef long intptr_t; " + "".join(
    "typedef %s int%d_t; typedef unsigned %s uint%d_t; "
    % (kind, bits, kind.replace("signed ", ""), bits)
    for kind, bits in (("signed char", 8), ("short", 16), ("int", 32), ("long long", 64))
)
#: Headers that NVRTC lacks and programs for nvcc include: it knows their functions without them.
HEADERS = {
    "stdint.h": "#pragma once\n" + _INTEGERS + "\n" + _LIMITS,
    "cstdint": '#pragma once\n#include "stdint.h"\nnamespace std {\n%s}\n'
    % "".join("using ::%sint%d_t;\n" % (u, bits) for u in ("", "u") for bits in (8, 16, 32, 64)),
    **dict.fromkeys(("math.h", "cmath"), _MATH),
    **dict.fromkeys(("float.h", "cfloat"), _FLOATS),
    **dict.fromkeys(
        ("assert.h", "cassert"), "#pragma once\n#ifndef assert\n#define assert(x)\n#endif\n"
    ),
    **dict.fromkeys(
        ("stddef.h", "cstddef", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring"),
        "",
    ),
    **dict.fromkeys(("stdbool.h", "cuda_runtime.h", "cuda.h", "device_launch_parameters.h"), ""),
}


class CudaError(TaskError):
    """The driver refused something; the message has its own name for it."""


class Memory:
    """A piece of memory that kernels can use. `host` are its bytes where the host can use them too
    (else None)."""

    def __init__(self, pointer: int, nbytes: int, host: Optional[np.ndarray] = None) -> None:
        self.pointer, self.nbytes, self.host = pointer, nbytes, host


class PinnedMemory(Memory):
    """Memory of the host, whose bytes are `host`."""

    host: np.ndarray

    def __init__(self, pointer: int, nbytes: int, host: np.ndarray) -> None:
        Memory.__init__(self, pointer, nbytes, host)


class DeviceEvent(abc.ABC):
    """A point in a stream."""

    @abc.abstractmethod
    def done(self) -> bool:
        """Has everything before it happened? Raises CudaError when it never will."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until everything before it has happened."""

    @abc.abstractmethod
    def since(self, earlier: Any) -> float:
        """Milliseconds between two points that have both been reached."""


class DeviceGraph(abc.ABC):
    """Work that was recorded once and is started as a whole."""

    @abc.abstractmethod
    def launch(self, stream: Any) -> None:
        """Put all of it into a stream."""


class DeviceKernel:
    """A function of a compiled `.cu` file. `shared` is the dynamic shared memory that it may have,
    in bytes."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        self.shared = ORDINARY_SHARED
        self.lock = threading.Lock()


class DeviceStream(abc.ABC):
    """Work in order. `handle` is what other libraries (TensorRT, ONNX Runtime) take as a stream."""

    handle = 0

    @abc.abstractmethod
    def upload(self, target: int, array: np.ndarray) -> None:
        """From the host to a device pointer; the array stays as it is until that has happened."""

    @abc.abstractmethod
    def download(self, array: np.ndarray, source: int) -> None:
        """From a device pointer to the host."""

    @abc.abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """From device to device."""

    @abc.abstractmethod
    def zero(self, target: int, nbytes: int) -> None:
        """Fill device memory with zeros."""

    @abc.abstractmethod
    def launch(
        self,
        kernel: DeviceKernel,
        grid: Tuple[int, int, int],
        block: Tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        """Start a kernel. Arguments are numpy scalars; pointers are `np.uintp`."""

    @abc.abstractmethod
    def record(self) -> DeviceEvent:
        """The point that has been reached when all work put in so far is done."""

    @abc.abstractmethod
    def wait(self, event: DeviceEvent) -> None:
        """What is put in from now on happens after the event. The host does not wait."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until all work put in so far is done."""

    def begin_capture(self) -> bool:
        """From now on work is recorded instead of done. False where the library cannot do that."""
        return False

    def end_capture(self) -> DeviceGraph:
        """What was recorded."""
        raise CudaError("this library records no graphs")

    def drop_capture(self) -> None:
        """End a capture that has failed: what it holds is of no use, and there is an error to
        report already."""
        try:
            self.end_capture()
        except CudaError:
            pass


class Wanted(threading.local):
    """What the calling thread wants of its stream: its `urgency`, 0 the lowest. `warn` is told
    where the GPU has fewer levels."""

    def __init__(self) -> None:
        self.urgency: Optional[int] = None
        self.warn: Callable[[str], object] = str


WANTED = Wanted()


def level_of(urgency: int, lowest: int, highest: int) -> int:
    """The priority of CUDA for an urgency: more urgent streams have smaller numbers."""
    if lowest - urgency < highest:
        WANTED.warn(
            "the GPU has %d levels of priority: the most urgent apps share one"
            % (lowest - highest + 1)
        )
    return max(highest, lowest - urgency)


class Cuda(abc.ABC):
    """One GPU. `capability` is (7, 2) for sm_72; `integrated`: it shares its memory with the
    host."""

    library = ""
    device = ""
    capability = (0, 0)
    integrated = False

    def __init__(self) -> None:
        self._thread = threading.local()

    @abc.abstractmethod
    def enter(self) -> None:
        """Let the calling thread use the GPU; saying it again does nothing."""

    def leave(self) -> None:  # noqa: B027 - most libraries need no farewell
        """The calling thread does not use the GPU any more."""

    @abc.abstractmethod
    def memory(self, nbytes: int) -> Memory:
        """Memory of the device."""

    @abc.abstractmethod
    def pinned(self, nbytes: int) -> PinnedMemory:
        """Memory of the host that stays in place, so that copies need not wait; kernels can use it
        as well."""

    @abc.abstractmethod
    def free(self, memory: Memory) -> None:
        """Give memory back; nothing that is still to happen may use it."""

    @abc.abstractmethod
    def new_stream(self) -> DeviceStream:
        """A stream that does not wait for any other one, with the urgency that is WANTED."""

    @abc.abstractmethod
    def compile(self, path: str, names: Sequence[str]) -> Dict[str, DeviceKernel]:
        """The kernels of a `.cu` file, compiled for this GPU. Raises CudaError with the compiler's
        words."""

    @property
    def stream(self) -> DeviceStream:
        """The stream of the calling thread: each worker has one of its own."""
        found: Optional[DeviceStream] = getattr(self._thread, "stream", None)
        if found is None:
            self.enter()
            found = self._thread.stream = self.new_stream()
        return found


def no_gpu(reason: object) -> CudaError:
    """What to say where there is none."""
    return CudaError(
        "no NVIDIA GPU can be used here (%s); --twin runs this program without one" % reason
    )


def include_folders(path: str) -> List[str]:
    """Where `#include` looks: beside the file, and where CUDA's own headers usually are."""
    folders = [os.path.dirname(os.path.abspath(path))]
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root and os.path.isdir(os.path.join(root, "include")):
            folders.append(os.path.join(root, "include"))
    return folders
