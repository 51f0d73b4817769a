"""Networks on the NPU of Rockchip's RK3588, through RKNN.

`build_engines.py` converts each network once, with rknn-toolkit2, on a PC or on the board; what it
made lies in the folder `engines` of the build. On the board a firing runs in the thread of its
worker, on one core of the NPU. The toolkit has a simulator, which computes in the precisions of
the NPU: that is the twin of a program where it is installed. Where it is not, ONNX Runtime runs the
same file.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .code import Network
from .memory import Rehearsal
from .npu import OnNpu
from .tokens import Port, TaskError

TARGET = "rk3588"
#: The toolkit keeps settings for the whole process: one thing at a time.
_one_by_one = threading.Lock()


class Model(NamedTuple):
    """A network that is converted: its file in the build, its inputs with their shapes and its
    outputs in the order of its ports. `digest` covers all that the result depends on."""

    file: str
    inputs: Sequence[Tuple[str, Tuple[int, ...]]]
    outputs: Sequence[str]
    digest: str

    def engine(self, home: str) -> str:
        """The path of what is made of it."""
        name = "%s-%s.%s.rknn" % (os.path.basename(self.file), self.digest, TARGET)
        return os.path.join(home, "engines", name)


class Rknn(OnNpu):
    """Inference on the NPU; arguments as in `OnNpu`, `digest` as in `Model`."""

    def __init__(
        self,
        file: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        digest: str,
        cores: Sequence[int] = (0,),
    ) -> None:
        OnNpu.__init__(self, file, inputs, outputs, cores)
        self.twin = Simulated(file, inputs, outputs)
        self._digest = digest

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = Model(self.file, (), (), self._digest).engine(home)
        self._inputs, self._outputs = inputs, outputs
        for core in self._cores:
            opened, self._engine = on_npu(path, core)
            self._opened.append(opened)

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        return _inferred(self._of(firing), inputs, self._outputs)

    def close(self) -> None:
        for opened in self._opened:
            opened.release()
        OnNpu.close(self)


class Simulated(Network):
    """The same on a CPU: by the simulator of rknn-toolkit2, else by ONNX Runtime."""

    _simulator: Any = None
    _engine = ""

    @property
    def engine(self) -> str:
        return self._engine

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        if find_spec("rknn") is None:
            Network.open(self, home, inputs, outputs)
            self._engine = "ONNX Runtime in place of RKNN"
            return
        self._inputs, self._outputs = inputs, outputs
        shapes = [(name, port.shape) for name, port in zip(self._names, inputs)]
        with _one_by_one, _said_to_stderr():
            self._simulator = converted(Model(self.file, shapes, self._wanted, ""), home)
            _done(self.file, self._simulator.init_runtime)
        self._engine = "RKNN %s simulator" % _version("rknn-toolkit2")

    def rehearsals(self) -> List[Rehearsal]:
        return Network.rehearsals(self) if self._simulator is None else []

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return Network.caller(self, phase) if self._simulator is None else None

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        if self._simulator is None:
            return Network.fire(self, inputs, firing, options)
        with _one_by_one:
            return _inferred(self._simulator, inputs, self._outputs)

    def close(self) -> None:
        if self._simulator is not None:
            with _one_by_one:
                self._simulator.release()
        self._simulator = None


def convert(model: Model, home: str) -> None:
    """Write what the toolkit makes of a network, as a whole or not at all. Raises TaskError."""
    path = model.engine(home)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    made = os.path.join(os.path.dirname(path), ".new-" + os.path.basename(path))
    with _one_by_one:
        rknn = converted(model, home)
        _done(model.file, lambda: rknn.export_rknn(made))
        rknn.release()
    os.replace(made, path)


def converted(model: Model, home: str) -> Any:
    """The toolkit with a network that it has converted: one in 8 bits as its file says, any other
    in 16 bits. Raises TaskError."""
    try:
        from rknn.api import RKNN
    except ImportError as error:
        raise TaskError(
            "rknn-toolkit2 is missing: pip install rknn-toolkit2, in an environment of its own (%s)"
            % error
        ) from error
    rknn = RKNN(verbose=False)
    path = os.path.realpath(os.path.join(home, model.file))
    names = [name for name, _ in model.inputs]
    shapes = [list(shape) for _, shape in model.inputs]
    _done(model.file, lambda: rknn.config(target_platform=TARGET))
    _done(
        model.file,
        lambda: rknn.load_onnx(
            model=path, inputs=names, input_size_list=shapes, outputs=list(model.outputs)
        ),
    )
    _done(model.file, lambda: rknn.build(do_quantization=False))
    return rknn


def on_npu(path: str, core: int) -> Tuple[Any, str]:
    """A converted network on a core of this machine's NPU, and what runs there in words. Raises
    TaskError."""
    if not os.path.exists(path):
        name = os.path.basename(path)
        raise TaskError(
            "engines/%s is not there: run `python3 build_engines.py`, with rknn-toolkit2" % name
        )
    try:
        from rknnlite.api import RKNNLite
    except ImportError as error:
        raise TaskError(
            "rknn-toolkit-lite2 is missing: pip install rknn-toolkit-lite2, on the board;"
            " --twin runs this program without its NPU"
        ) from error
    rknn = RKNNLite()
    name = os.path.basename(path)
    _done(name, lambda: rknn.load_rknn(path))
    mask = getattr(RKNNLite, "NPU_CORE_%d" % core)
    _done(name, lambda: rknn.init_runtime(core_mask=mask))
    return rknn, "RKNN %s, NPU" % _version("rknn-toolkit-lite2")


def _inferred(
    rknn: Any, inputs: Sequence[np.ndarray], outputs: Sequence[Port]
) -> Tuple[np.ndarray, ...]:
    """One inference, on the NPU or simulated; four dimensions are in the order of ONNX."""
    given = [np.ascontiguousarray(array) for array in inputs]
    made = rknn.inference(inputs=given, data_format=["nchw"] * len(given))
    if made is None:
        raise TaskError("an inference of RKNN failed: its reason is above")
    return tuple(
        np.asarray(array, port.dtype).reshape(port.shape) for array, port in zip(made, outputs)
    )


def _done(name: str, call: Callable[[], Any]) -> None:
    """A call of RKNN, which fails by its result or by whatever it raises. Raises TaskError."""
    try:
        failed = call()
    except Exception as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise TaskError("RKNN refuses %s: %s" % (name, words)) from error
    if failed:
        raise TaskError("RKNN refuses %s: its reason is above" % name)


@contextmanager
def _said_to_stderr() -> Iterator[None]:
    """What the toolkit prints is no output of the program."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        libc.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)
