"""Networks on a GPU or DLA: through ONNX Runtime, the engine of any NVIDIA PC, or through TensorRT.

What differs between versions of TensorRT is generated beside main.py, as engines.py.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from .code import Network
from .cuda import CudaError, DeviceStream
from .cuda_graphs import CudaGraphs
from .device import OnDevice, lane
from .tokens import Port, TaskError


class OnnxCuda(OnDevice):
    """Inference with ONNX Runtime's CUDA provider, on device tensors and in the stream of the
    worker."""

    alignment = 256

    def __init__(
        self, file: str, inputs: Sequence[str], outputs: Sequence[str], batch: int = 1
    ) -> None:
        OnDevice.__init__(self)
        self.file, self.batch = file, batch
        self._names, self._wanted = list(inputs), list(outputs)
        self.twin = Network(file, inputs, outputs, batch)
        self._path = ""

    def words(self) -> str:
        return "network %s" % self.file

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        OnDevice.open(self, home, inputs, outputs)
        self._path = os.path.realpath(os.path.join(home, self.file))
        try:
            import onnxruntime
        except ImportError as error:
            raise TaskError("onnxruntime is missing: pip install onnxruntime-gpu") from error
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise TaskError(
                "this onnxruntime has no CUDA provider: pip install onnxruntime-gpu; "
                "--twin runs this program without a GPU"
            )

    def prepare(self) -> None:
        self._session(self.cuda.stream)
        _run_once(self)

    def _session(self, stream: DeviceStream) -> Any:
        """One for each worker, because a session is bound to its stream."""
        own = self._own.__dict__
        if "session" not in own:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 3
            # TF32 would leave a network in fp32 with ten bits of its products.
            cuda = (
                "CUDAExecutionProvider",
                {"user_compute_stream": str(stream.handle), "use_tf32": "0"},
            )
            try:
                own["session"] = onnxruntime.InferenceSession(
                    self._path, options, providers=[cuda, "CPUExecutionProvider"]
                )
            except Exception as error:
                raise TaskError(
                    "ONNX Runtime refuses %s: %s" % (os.path.basename(self._path), error)
                ) from error
            if "CUDAExecutionProvider" not in own["session"].get_providers():
                raise TaskError(
                    "ONNX Runtime's CUDA provider does not work here: see what it says on standard"
                    " error"
                )
            own["binding"] = own["session"].io_binding()
        return own["session"]

    def run(
        self, stream: DeviceStream, inputs: Sequence[int], outputs: Sequence[int], firing: int
    ) -> None:
        session = self._session(stream)
        binding = self._own.__dict__["binding"]
        for name, port, pointer in zip(self._names, self.inputs, inputs):
            binding.bind_input(name, "cuda", 0, port.dtype, self._tensor(port), pointer)
        for name, port, pointer in zip(self._wanted, self.outputs, outputs):
            binding.bind_output(name, "cuda", 0, port.dtype, self._tensor(port), pointer)
        try:
            # It waits for its results. A run that does not (the entry
            # disable_synchronize_execution_providers) keeps the pinned memory of layers such as
            # Concat and Resize until the session ends, which then ends the process.
            session.run_with_iobinding(binding)
        except Exception as error:
            raise CudaError("ONNX Runtime: %s" % error) from error

    def _tensor(self, port: Port) -> Tuple[int, ...]:
        return _tensor(port, self.batch)


class TensorRT(OnDevice):
    """A network, or a stage of one. `on` has "gpu" or "dla" for each processor that runs it, and
    which DLA core.

    `digest` tells versions of the model apart, and what else its plan depends on. `graph`: its
    kernels are recorded once and started together. The tensors `half` are in fp16 in its plan, and
    in fp32 in its model.
    """

    alignment = 256  # of addresses given to TensorRT

    def __init__(
        self,
        file: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        on: Mapping[str, Tuple[str, int]],
        digest: str,
        precision: str = "fp32",
        batch: int = 1,
        graph: bool = False,
        half: Sequence[str] = (),
    ) -> None:
        OnDevice.__init__(self)
        self.file, self.on, self.digest = file, on, digest
        self.precision, self.batch, self.graph = precision, batch, graph
        self._tensors = list(inputs) + list(outputs)
        self.twin = Network(file, inputs, outputs, batch, half=half)
        self._engines: Dict[str, Any] = {}

    def words(self) -> str:
        return "engine of %s on %s" % (self.file, lane().processor)

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        OnDevice.open(self, home, inputs, outputs)
        try:
            engine_class = import_module(_beside("engines")).Engine
        except ImportError as error:
            raise TaskError(
                "%s: TensorRT comes with JetPack, or from pip as requirements.txt says; "
                "--twin runs this program without it" % error
            ) from error
        for processor, (device, core) in self.on.items():
            engine = engine_class(
                home, self.file, device, core, self.precision, self.batch, self.digest
            )
            for name, port in zip(self._tensors, list(inputs) + list(outputs)):
                engine.check(name, _tensor(port, self.batch), port.dtype)
            self.arena_bytes = max(self.arena_bytes, engine.arena_bytes)
            self._engines[processor] = engine

    def prepare(self) -> None:
        # one for each worker, which never runs two at once: they share its arena
        own = self._own.__dict__
        own["context"] = self._engines[lane().processor].context(lane().arena(self.cuda))
        own["graphs"] = None
        _run_once(self)
        if self.graph and not self.strict:
            own["graphs"] = CudaGraphs(rehearse=True)

    def run(
        self, stream: DeviceStream, inputs: Sequence[int], outputs: Sequence[int], firing: int
    ) -> None:
        own = self._own.__dict__
        if "context" not in own:
            self.prepare()
        addresses = [*inputs, *outputs]
        graphs: Optional[CudaGraphs] = own["graphs"]
        if graphs is None:
            self._start_engine(stream, addresses)
        else:
            graphs.run(stream, addresses, lambda: self._start_engine(stream, addresses))

    def _start_engine(self, stream: DeviceStream, addresses: Sequence[int]) -> None:
        context = self._own.__dict__["context"]
        for name, pointer in zip(self._tensors, addresses):
            if not context.set_tensor_address(name, pointer):
                raise CudaError("TensorRT refuses the address of %s" % name)
        if not context.execute_async_v3(stream.handle):
            raise CudaError("TensorRT could not start the engine")

    def close(self) -> None:
        self._own = threading.local()  # contexts first, then the engines behind them
        self._engines.clear()
        OnDevice.close(self)


def _run_once(code: OnDevice) -> None:
    """Run a network on zeros, before the program's clock starts: a first run chooses algorithms and
    loads their code, for up to a second."""
    stream = code.cuda.stream
    inputs = [code.zeros(port, stream) for port in code.inputs]
    outputs = [code.zeros(port, stream) for port in code.outputs]
    try:
        code.run(stream, [m.pointer for m in inputs], [m.pointer for m in outputs], 0)
        stream.synchronize()
    finally:
        for memory in inputs + outputs:
            code.cuda.free(memory)


def _tensor(port: Port, batch: int) -> Tuple[int, ...]:
    """The shape of the tensor behind a port: a batch groups firings along the first dimension."""
    return (batch * port.shape[0],) + port.shape[1:] if batch > 1 else port.shape


def _beside(name: str) -> str:
    """The full name of a module beside main.py: in the package that the build is, or of no package
    in a script."""
    package = str(__package__).rpartition(".")[0]
    full = "%s.%s" % (package, name)
    return full if package and find_spec(full) is not None else name
