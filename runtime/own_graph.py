"""Models that are graphs of ONNX Runtime itself, and weights that several of them take from one
file.

Such a graph, its layout included, holds for one size of blocks and for one version of ONNX Runtime.
A probe shows whether these are the ones here.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .code import session
from .memory import has_arena, share
from .tokens import TaskError

#: Arrays begin at multiples of it.
ALIGNED = 64

#: What the report of a run says of models whose weights could be in common, and are not.
APART = "weights apart: "

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


def opened(
    home: str, files: Sequence[str], common: str = "", threads: int = 1, spin: bool = False
) -> Tuple[List[Any], str]:
    """The sessions of models, which take common weights if a file lists such; and why they have
    weights of their own nevertheless, empty if they do not."""
    listed = _common(home, common, threads, spin) if common else None
    made = []
    for file in files:
        own = None if listed is None else listed.session(os.path.basename(file))
        if own is None:
            own = session(os.path.realpath(os.path.join(home, file)), threads, spin)
        made.append(own)
    return made, "" if listed is None else listed.why_not


class _CommonSessions:
    """The sessions of models that take common weights; none, if it is said `why_not`."""

    def __init__(self, home: str, file: str, threads: int, spin: bool) -> None:
        try:
            with open(os.path.join(home, file)) as stream:
                self._listed = json.load(stream)
        except (OSError, ValueError) as error:
            raise TaskError("%s cannot be read: %s" % (file, error)) from error
        has_arena()  # the probe is a network, too: what there was before the first one is noted now
        self._home, self._threads, self._spin = home, threads, spin
        self.why_not = why_not_here(self._listed, home)
        self._made: Dict[str, Any] = {}

    def session(self, model: str) -> Any:
        """The one of a model, by the name of its file; None: it has weights of its own."""
        form = self._listed["models"].get(model)
        if form is None or self.why_not:
            return None
        if model not in self._made:
            file, names = form
            options = own_options(self._threads, self._spin)
            # it would copy weights into another layout, once for each session
            options.add_session_config_entry("session.disable_prepacking", "1")
            path = os.path.realpath(os.path.join(self._home, file))
            self._made[model] = self._weights().session(path, names, options)
        return self._made[model]

    def _weights(self) -> PlacedWeights:
        file = os.path.realpath(os.path.join(self._home, self._listed["weights"]))
        tensors = tuple((n, t, tuple(s), at) for n, t, s, at in self._listed["shared"])
        return _placed(file, tensors)


@lru_cache(maxsize=None)
def _common(home: str, file: str, threads: int, spin: bool) -> _CommonSessions:
    return _CommonSessions(home, file, threads, spin)


#: The weights of each file once, whatever the number of threads of their sessions.
_placed = lru_cache(maxsize=None)(PlacedWeights)
