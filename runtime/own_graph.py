"""Models that are graphs of ONNX Runtime itself, and weights that several of them take from one
file.

Such a graph, its layout included, holds for one size of blocks and for one version of ONNX Runtime.
A probe shows whether these are the ones here.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Dict, Sequence, Tuple

import numpy as np

from .memory import share
from .tokens import TaskError

#: Arrays begin at multiples of it.
ALIGNED = 64

#: A weight in a file: name, type, shape, first byte.
Placed = Tuple[str, str, Sequence[int], int]


def why_not_here(form: Dict[str, Any], home: str) -> str:
    """Why models with a `probe`, a `block` and a version of `onnxruntime` do not run on this
    machine; empty if they do."""
    import onnxruntime

    here = onnxruntime.__version__.split(".")[:2]
    if here != form["onnxruntime"]:
        return "made for ONNX Runtime %s" % ".".join(form["onnxruntime"])
    if _block(os.path.realpath(os.path.join(home, form["probe"]))) != form["block"]:
        return "made for blocks of %d channels" % form["block"]
    return ""


@lru_cache(maxsize=None)
def _block(probe: str) -> int:
    """Channels of a block of this ONNX Runtime: where the second number of the first channel went;
    0: it has no blocks."""
    import onnxruntime

    try:
        made = onnxruntime.InferenceSession(
            probe, own_options(1), providers=["CPUExecutionProvider"]
        ).run(None, {"x": np.arange(64, dtype=np.float32).reshape(1, 32, 1, 2)})[0]
    except Exception:  # what ONNX Runtime raises has no common type
        return 0
    return int(np.argmax(made.ravel() == 1))


def own_options(threads: int, spin: bool = False) -> Any:
    """For graphs that ONNX Runtime has optimized before."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return options


class PlacedWeights:
    """The weights of a file in memory, once. They have to live as long as the sessions that take
    them."""

    def __init__(self, file: str, tensors: Sequence[Placed]) -> None:
        import onnxruntime

        with open(file, "rb") as stream:
            self._memory = aligned(os.fstat(stream.fileno()).st_size)
            stream.readinto(self._memory)  # type: ignore[arg-type]
        self._values: Dict[str, Any] = {}
        for name, dtype, shape, first in tensors:
            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            array = self._memory[first : first + count].view(dtype).reshape(shape)
            self._values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)

    def session(self, path: str, names: Sequence[str], options: Any) -> Any:
        """A session of a model that takes the weights with these names."""
        import onnxruntime

        share(options, path)
        for name in names:
            options.add_initializer(name, self._values[name])
        try:
            return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise TaskError(
                "ONNX Runtime refuses %s: %s" % (os.path.basename(path), error)
            ) from error


def aligned(size: int) -> np.ndarray:
    """So many bytes of zeros, which begin at a multiple of `ALIGNED`."""
    memory = np.zeros(size + ALIGNED, np.uint8)
    first = -memory.ctypes.data % ALIGNED
    return memory[first : first + size]
