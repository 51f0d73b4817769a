"""Networks on Qualcomm's NPUs, through ONNX Runtime and its plug-in provider QNN.

A firing runs in the thread of its worker, which waits for the NPU. On x86 the library of the
provider computes what an NPU would: that is the twin of a program where the provider is installed.
Where it is not, ONNX Runtime runs the same file on the CPU.
"""

import os
import platform
import threading
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from .code import Network
from .memory import Outputs, Rehearsal
from .npu import OnNpu
from .tokens import Port, TaskError

PROVIDER = "QNNExecutionProvider"


class Qnn(OnNpu):
    """Inference on NPUs; arguments as in `OnNpu`."""

    def __init__(
        self, file: str, inputs: Sequence[str], outputs: Sequence[str], cores: Sequence[int] = (0,)
    ) -> None:
        OnNpu.__init__(self, file, inputs, outputs, cores)
        self.twin = Emulated(file, inputs, outputs)

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.realpath(os.path.join(home, self.file))
        self._inputs, self._made = inputs, Outputs(self._wanted, outputs, own=True)
        opened = [npu_session(path, core, here=True) for core in self._cores]
        self._opened = [session for session, _ in opened]
        self._engine = opened[0][1]

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        return tuple(self._made.of(self._of(firing), self._names, inputs))


class Emulated(Network):
    """The same on a CPU: by the emulator that comes with QNN on x86, else by ONNX Runtime."""

    _engine = ""

    @property
    def engine(self) -> str:
        return self._engine

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        if find_spec("onnxruntime_qnn") is None or platform.machine() != "x86_64":
            Network.open(self, home, inputs, outputs)
            self._engine = "ONNX Runtime in place of QNN"
            return
        path = os.path.realpath(os.path.join(home, self.file))
        self._session, self._engine = npu_session(path, 0, here=False)
        self._inputs, self._made = inputs, Outputs(self._wanted, outputs, own=True)
        self._one_by_one = threading.Lock()

    def rehearsals(self) -> List[Rehearsal]:
        return []

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return None

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        if not hasattr(self, "_one_by_one"):
            return Network.fire(self, inputs, firing, options)
        with self._one_by_one:  # there is one emulator for all workers
            return tuple(self._made.of(self._session, self._names, inputs))


def npu_session(path: str, core: int, here: bool) -> Tuple[Any, str]:
    """A session on an NPU, and what runs there in words. `here`: on one of this machine, not on the
    emulator. Raises TaskError."""
    try:
        import onnxruntime
        import onnxruntime_qnn
    except ImportError as error:
        raise TaskError("onnxruntime-qnn is missing: pip install onnxruntime-qnn") from error
    devices = _devices()
    npus = [d for d in devices if d.device.type == onnxruntime.OrtHardwareDeviceType.NPU]
    if here and not npus:
        raise TaskError("no Hexagon NPU is here: --twin runs this program without one")
    settings = {"backend_path": onnxruntime_qnn.get_qnn_htp_path()}
    if core:
        settings["device_id"] = str(core)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    name = os.path.basename(path)
    try:
        options.add_provider_for_devices((npus or devices)[:1], settings)
        session = onnxruntime.InferenceSession(path, options)
        graphs = session.get_provider_graph_assignment_info()
    except Exception as error:
        raise TaskError("QNN refuses %s: %s" % (name, error)) from error
    there = sum(len(g.get_nodes()) for g in graphs if g.ep_name == PROVIDER)
    if not there:
        raise TaskError("QNN takes no layer of %s" % name)
    nodes = sum(len(g.get_nodes()) for g in graphs)
    what = "QNN %s%s" % (onnxruntime_qnn.__version__, "" if npus else " emulator")
    return session, "%s, %d of %d nodes" % (what, there, nodes)


@lru_cache(maxsize=None)
def _devices() -> Tuple[Any, ...]:
    """What the provider can run on; its library is loaded once. Raises TaskError."""
    import onnxruntime
    import onnxruntime_qnn

    try:
        onnxruntime.register_execution_provider_library(
            PROVIDER, onnxruntime_qnn.get_library_path()
        )
        devices = onnxruntime.get_ep_devices()
    except Exception as error:
        raise TaskError("QNN cannot be loaded: %s" % error) from error
    found = tuple(d for d in devices if d.ep_name == PROVIDER)
    if not found:
        raise TaskError("QNN finds nothing to run on")
    return found
