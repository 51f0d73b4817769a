"""Networks on CPUs and NPUs through OpenVINO.

An inference runs in the thread of its worker, on a CPU in one stream and on as many threads as the
task was given, and writes straight into the tokens. What OpenVINO has compiled is kept in the
build, in the folder `engines`, and read again while nothing has changed that it depends on.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import sys
import tempfile
from contextlib import suppress
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .code import Network, stacked_shape
from .memory import Outputs, Rehearsal
from .tokens import Port, TaskError

#: Changes when other files are written.
FORMAT = 1
#: Inputs by name, with the shapes that they get: numbers, and the least and the most of one.
Shapes = Tuple[Tuple[str, Tuple[Union[int, Tuple[int, int]], ...]], ...]


class OpenVino(Network):
    """Inference with OpenVINO; `file` to `threads` as in `Network`.

    `external` are files with weights, beside the network's. With `precision` bf16 it computes in 16
    bits; a file in 8 bits needs no word. With `lists` an inference has as many firings as there
    are tokens, at most `batch`.
    """

    def __init__(
        self,
        file: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        batch: int = 1,
        threads: int = 1,
        external: Sequence[str] = (),
        precision: str = "",
        lists: bool = False,
    ) -> None:
        Network.__init__(self, file, inputs, outputs, batch, threads)
        self.external = external
        self._lists = self.computes_fewer = lists
        self._hint = "bf16" if precision == "bf16" else "f32"
        self._workers = 1
        self._engine = ""
        #: Requests that no worker uses at the moment, each of a model of its own: those of one
        #: model with one stream run one after the other.
        self._free: List[Any] = []

    @property
    def engine(self) -> str:
        return self._engine

    def fired_by(self, workers: int) -> None:
        self._workers = workers

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        path = os.path.realpath(os.path.join(home, self.file))
        self._inputs, self._outputs = inputs, outputs
        whole = [self._grouped(p, self.batch) for p in outputs]
        self._made = Outputs(self._wanted, whole, own=True)
        shapes = tuple((n, self._shape(p)) for n, p in zip(self._names, inputs))
        files = (path,) + tuple(os.path.join(os.path.dirname(path), f) for f in self.external)
        folder = os.path.join(home, "engines")
        self._compiled = self._compiler(files, folder, shapes)
        models = [self._compiled() for _ in range(self._workers)]
        self._engine = "OpenVINO %s, %s" % (_version(), self._runs_in)
        self._at = _positions(models[0].inputs, self._names)
        self._out = _positions(models[0].outputs, self._wanted)
        self._free = [self._request(model) for model in models]

    def _compiler(self, files: Tuple[str, ...], folder: str, shapes: Shapes) -> Callable[[], Any]:
        """What makes a compiled model."""
        return partial(compiled, files, self.threads, self._hint, folder, shapes)

    @property
    def _runs_in(self) -> str:
        return self._hint

    def _grouped(self, port: Port, count: int) -> Port:
        """The tensor of so many firings."""
        shape = stacked_shape(count, port.shape)
        return Port(port.name, port.dtype.name, shape)

    def _shape(self, port: Port) -> Tuple[Union[int, Tuple[int, int]], ...]:
        whole = self._grouped(port, self.batch).shape
        return ((port.shape[0], whole[0]),) + whole[1:] if self._lists else whole

    def _request(self, model: Any) -> Any:
        """A request that has run once with each number of firings: the first inference takes
        longer."""
        request = model.create_infer_request()
        for count in range(1, self.batch + 1) if self._lists else (self.batch,):
            tensors = [self._grouped(p, count) for p in self._inputs]
            ones = [np.ones(p.shape, p.dtype) for p in tensors]
            self._run(request, ones, self._outputs_of(count), rehearsal=True)
        self._made.forget()
        return request

    def _outputs_of(self, count: int) -> List[np.ndarray]:
        if not self._lists:
            return self._made.arrays()
        tensors = [self._grouped(p, count) for p in self._outputs]
        return [np.empty(p.shape, p.dtype) for p in tensors]

    def rehearsals(self) -> List[Rehearsal]:
        return []

    def caller(self, phase: int) -> Optional[Callable[..., Any]]:
        return None

    def fire(self, inputs: Sequence[np.ndarray], firing: int, options: Any = None) -> Any:
        return tuple(self._inferred(inputs, 1))

    def fire_batch(self, inputs: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Inputs and outputs have a leading axis of firings, as those of `Network`."""
        count = len(inputs[0])
        joined = [
            a.reshape((count * p.shape[0],) + p.shape[1:]) for a, p in zip(inputs, self._inputs)
        ]
        made = self._inferred(joined, count)
        return [a.reshape((count,) + p.shape) for a, p in zip(made, self._outputs)]

    def _inferred(self, inputs: Sequence[np.ndarray], count: int) -> List[np.ndarray]:
        try:
            request = self._free.pop()
        except IndexError:
            request = self._request(self._compiled())
        made = self._outputs_of(count)
        self._run(request, inputs, made)
        self._free.append(request)
        return made

    def _run(
        self,
        request: Any,
        inputs: Sequence[np.ndarray],
        made: Sequence[np.ndarray],
        rehearsal: bool = False,
    ) -> None:
        import openvino

        # OpenVINO reads them where they are, and does not keep them alive: this list does. It takes
        # no array that is read-only or has gaps.
        given = [_plain(a) for a in inputs]
        try:
            for at, array in zip(self._at, given):
                request.set_input_tensor(at, openvino.Tensor(array, shared_memory=True))
            for at, array in zip(self._out, made):
                request.set_output_tensor(at, openvino.Tensor(array, shared_memory=True))
        except Exception as error:
            raise TaskError("OpenVINO refuses a tensor: %s" % _last_line(error)) from error
        try:
            # Not in a thread of OpenVINO's, which the pin does not bind.
            request.infer()
        except Exception as error:
            if not rehearsal:  # ones may be no data of this network
                raise TaskError("OpenVINO: %s" % _last_line(error)) from error

    def close(self) -> None:
        self._free = []


class OpenVinoNpu(OpenVino):
    """The same on an Intel NPU, which computes in fp16, and in 8 bits what the file has so. Its
    twin computes on the CPU, in 32 bits instead of fp16."""

    def __init__(
        self,
        file: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        external: Sequence[str] = (),
    ) -> None:
        OpenVino.__init__(self, file, inputs, outputs, external=external)
        self.twin = OpenVino(file, inputs, outputs, external=external)

    def _compiler(self, files: Tuple[str, ...], folder: str, shapes: Shapes) -> Callable[[], Any]:
        return partial(compiled_for_npu, files, folder, shapes)

    @property
    def _runs_in(self) -> str:
        return "NPU"


def _plain(array: np.ndarray) -> np.ndarray:
    """The array, or a copy that OpenVINO can read; a scalar stays one."""
    if array.flags.c_contiguous and array.flags.writeable:
        return array
    return np.array(array, order="C")


def _positions(ports: Sequence[Any], names: Sequence[str]) -> List[int]:
    """Where the tensors are among those of a compiled model."""
    found: Dict[str, int] = {}
    for position, port in enumerate(ports):
        for name in port.get_names():
            found[name] = position
    missing = [name for name in names if name not in found]
    if missing:
        raise TaskError("OpenVINO has no tensor %s" % missing[0])
    return [found[name] for name in names]


def imported() -> Any:
    # TBB would ask hwloc for the cores of the machine, and while an inference runs give its thread
    # all of them: a worker with a core of its own would leave it.
    os.environ.setdefault("HWLOC_THISSYSTEM", "0")
    # Its telemetry forks a process beside running threads, which may hang for ever with the output
    # of this one, and tells a server what runs here.
    silent = "openvino" not in sys.modules and "openvino_telemetry" not in sys.modules
    if silent:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    try:
        import openvino
    except ImportError as error:
        raise TaskError("openvino is missing: pip install openvino") from error
    finally:
        if silent:
            sys.modules.pop("openvino_telemetry", None)
    return openvino


def _version() -> str:
    return str(imported().__version__).partition("-")[0]


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def compiled(files: Tuple[str, ...], threads: int, hint: str, folder: str, shapes: Shapes) -> Any:
    """A compiled model, for one worker; `folder` keeps it between runs.

    `hint` is the precision, `bf16` or `f32`. Raises TaskError if OpenVINO does not take the
    network, gives it fewer threads, or computes in another precision.
    """
    openvino = imported()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": hint,
    }
    name = os.path.basename(files[0])
    core = openvino.Core()
    able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if hint == "bf16" and "BF16" not in able:
        raise TaskError("this CPU does not compute in bf16, but in %s" % ", ".join(able))
    try:
        kept = os.path.join(folder, "%s-%s.openvino" % (name, _key(files, shapes)))
        model = _kept_or_compiled(core, kept, files[0], shapes, settings, "CPU")
    except Exception as error:
        raise TaskError("OpenVINO refuses %s: %s" % (name, _last_line(error))) from error
    got = int(model.get_property("INFERENCE_NUM_THREADS"))
    if got != threads:
        cores = len(os.sched_getaffinity(0))
        reason = "OpenVINO gives %s %d of %d threads: this program may use %d cores"
        raise TaskError(reason % (name, got, threads, cores))
    precision = model.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if precision != hint:
        raise TaskError("OpenVINO computes %s in %s, not in %s" % (name, precision, hint))
    return model


def compiled_for_npu(files: Tuple[str, ...], folder: str, shapes: Shapes) -> Any:
    """A compiled model for the NPU of this machine; `folder` keeps it between runs. Raises
    TaskError."""
    openvino = imported()
    core, name = openvino.Core(), os.path.basename(files[0])
    if not any(device.partition(".")[0] == "NPU" for device in core.available_devices):
        raise TaskError("OpenVINO finds no NPU here: --twin runs this program without one")
    settings = {"PERFORMANCE_HINT": "LATENCY"}
    try:
        driver = str(core.get_property("NPU", "NPU_DRIVER_VERSION"))
        kept = os.path.join(folder, "%s-%s.npu" % (name, _key(files, shapes, driver)))
        return _kept_or_compiled(core, kept, files[0], shapes, settings, "NPU")
    except Exception as error:
        raise TaskError("OpenVINO refuses %s: %s" % (name, _last_line(error))) from error


def _kept_or_compiled(
    core: Any, kept: str, file: str, shapes: Shapes, settings: Dict[str, Any], device: str
) -> Any:
    """The compiled model of an earlier run, or else one that is compiled now, and kept."""
    model = _read(core, kept, settings, device)
    if model is None:
        source = core.read_model(file)
        source.reshape({name: list(shape) for name, shape in shapes})  # a pair is a range
        model = core.compile_model(source, device, settings)
        _write(kept, model)
    return model


# -- what is kept ----------------------------------------------------------------------------------
def _key(files: Sequence[str], shapes: Shapes, driver: str = "") -> str:
    """A hash over all that a compiled model depends on; threads and precision are chosen when it is
    read. `driver` is that of another device than the CPU."""
    digest = hashlib.sha256()
    machine = driver or _flags()
    digest.update(repr((FORMAT, _version(), platform.machine(), machine, shapes)).encode())
    for file in files:
        with open(file, "rb") as stream:
            for part in iter(lambda: stream.read(1 << 20), b""):
                digest.update(part)
    return digest.hexdigest()[:16]


def _flags() -> str:
    """What instructions the CPU has, in the words of Linux."""
    with suppress(OSError):
        with open("/proc/cpuinfo") as stream:
            for line in stream:
                if line.lower().startswith(("flags", "features")):
                    return line.partition(":")[2].strip()
    return ""


def _read(core: Any, path: str, settings: Dict[str, Any], device: str) -> Any:
    """The model that is kept; None where there is none, or it is damaged."""
    try:
        with open(path, "rb") as stream:
            digest, content = stream.read(32), stream.read()
        if hashlib.sha256(content).digest() != digest:
            return None
        return core.import_model(io.BytesIO(content), device, settings)
    except OSError:
        return None
    except Exception:  # it was made by another build of OpenVINO: what it raises has no common type
        return None


def _write(path: str, model: Any) -> None:
    """Keep a compiled model, as a whole or not at all; a folder that cannot be written to is no
    fault."""
    stream = io.BytesIO()
    model.export_model(stream)
    content = stream.getvalue()
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, made = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(made, path)
        except OSError:
            with suppress(OSError):
                os.unlink(made)
            raise
