"""The stand-ins for CUDA and TensorRT: right programs pass, and each way to be wrong is told apart.

A wrong program is a wrong use of the face, or the runtime with one line of it taken away.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import flowc.runtime as runtime
import numpy as np
import onnx
import onnxruntime
import pytest
from flowc.runtime import device
from flowc.runtime.code import Code
from flowc.runtime.cuda import CudaError, DeviceEvent, DeviceKernel, DeviceStream, Memory
from flowc.runtime.graph import Fire
from flowc.runtime.kernels import Kernels, Launch
from flowc.runtime.lifecycle import execute
from flowc.runtime.program import Program
from flowc.runtime.tokens import Port
from flowc.templates import environment
from onnx import TensorProto, helper, numpy_helper

from builds import ROOT
from limits import HANGS, ended
from standins import onnx_cuda, tensorrt
from standins.cuda import StandIn, install

SOURCE = """
extern "C" __global__ void scale(const float *in, float *out, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
}
extern "C" __global__ void offset(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] + 1.0f;
}
// The sum of all before it and of itself, through shared memory.
extern "C" __global__ void total(const float *in, float *out, float *last, int n) {
    extern __shared__ float part[];
    __shared__ float sum;
    int t = threadIdx.x;
    part[t] = t < n ? in[t] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0) sum = last[0] += part[0];
    __syncthreads();
    if (t < n) out[t] = sum;
}
extern "C" __global__ void beside(float *out, int n) { for (int i = 0; i <= n; i++) out[i] = 0.0f; }
extern "C" __global__ void apart(float *out) {
    if (threadIdx.x) { __syncthreads(); out[0] = 1.0f; }
    else { __syncthreads(); out[1] = 1.0f; }
}
__global__ void mangled(float *out) { out[0] = 0.0f; }
"""
SHAPE = (1, 3, 8, 8)
COUNT = 192
PORT = Port("t", "float32", SHAPE)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return installed(monkeypatch, StandIn())


def installed(monkeypatch: pytest.MonkeyPatch, gpu: StandIn) -> StandIn:
    monkeypatch.setattr(device, "_LANES", [])
    monkeypatch.setattr(device, "_here", threading.local())
    install(monkeypatch, gpu).enter()
    return gpu


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE)
    save_network(tmp_path / "net.onnx")
    return tmp_path


def save_network(
    path: Path, kind: int = TensorProto.FLOAT, batch: str | int = 1, last: str = "Relu"
) -> None:
    rng = np.random.default_rng(1)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights = [
        numpy_helper.from_array(rng.normal(size=s).astype(dtype), n)
        for n, s in (("w", (3, 3, 1, 1)), ("b", 3))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
        helper.make_node(last, ["c"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, kind, [batch, 3, 8, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


def frames(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.normal(size=SHAPE).astype(np.float32) for _ in range(count)]


def kernel(gpu: StandIn, home: Path, name: str) -> DeviceKernel:
    return gpu.compile(str(home / "k.cu"), [name])[name]


def start(
    stream: DeviceStream, what: DeviceKernel, *arguments: Any, block: int = 256, shared: int = 0
) -> None:
    typed = [np.uintp(a.pointer) if isinstance(a, Memory) else a for a in arguments]
    stream.launch(what, (1, 1, 1), (block, 1, 1), shared, typed)


def one(violations: Sequence[str], *words: str) -> None:
    """There are violations, and one has these words in this order."""
    assert any(re.search(".*".join(map(re.escape, words)), v) for v in violations), violations


def filled(gpu: StandIn, value: float = 1.0) -> Memory:
    memory, array = gpu.memory(4 * COUNT), np.full(COUNT, value, np.float32)
    gpu.stream.upload(memory.pointer, array)
    gpu.stream.synchronize()
    return memory


# -- the face --------------------------------------------------------------------------------------
def test_kernels_run_and_only_when_a_thread_waits(gpu: StandIn, home: Path) -> None:
    stream, source = gpu.stream, np.arange(COUNT, dtype=np.float32)
    a, b, last = gpu.memory(source.nbytes), gpu.memory(source.nbytes), gpu.memory(4)
    result = np.zeros(COUNT, np.float32)
    stream.upload(a.pointer, source)
    stream.zero(last.pointer, 4)
    start(stream, kernel(gpu, home, "scale"), a, b, np.int32(COUNT), np.float32(2))
    start(stream, kernel(gpu, home, "total"), b, a, last, np.int32(COUNT), shared=1024)
    stream.download(result, a.pointer)
    done = stream.record()
    assert not done.done() and (result.view(np.uint32) == 0xA5A5A5A5).all()
    done.synchronize()
    assert (result == 2 * source.sum()).all() and done.done() and not gpu.violations
    assert 0 <= done.since(done) < 1e3


def test_who_asks_often_enough_is_answered(gpu: StandIn) -> None:
    event = gpu.stream.record()
    assert [event.done() for _ in range(6)].count(True) > 0


def test_order_between_streams(gpu: StandIn, home: Path) -> None:
    a, b, c = filled(gpu), gpu.memory(4 * COUNT), gpu.memory(4 * COUNT)
    first, second = gpu.new_stream(), gpu.new_stream()
    start(first, kernel(gpu, home, "scale"), a, b, np.int32(COUNT), np.float32(2))
    event = first.record()
    second.wait(event)
    start(second, kernel(gpu, home, "offset"), b, c, np.int32(COUNT))
    result = np.empty(COUNT, np.float32)
    second.download(result, c.pointer)
    second.synchronize()
    assert (result == 3).all() and not gpu.violations
    start(first, kernel(gpu, home, "scale"), a, b, np.int32(COUNT), np.float32(2))
    assert not gpu.violations  # the host has waited for who read it
    start(second, kernel(gpu, home, "offset"), b, c, np.int32(COUNT))
    one(gpu.violations, "kernel offset", "is not ordered behind", "kernel scale", "device memory")


def test_memory_that_is_overwritten_before_it_has_been_read(gpu: StandIn, home: Path) -> None:
    a, b, c = filled(gpu), filled(gpu), gpu.memory(4 * COUNT)
    first, second = gpu.new_stream(), gpu.new_stream()
    start(second, kernel(gpu, home, "offset"), b, c, np.int32(COUNT))
    first.copy(b.pointer, a.pointer, b.nbytes)
    one(
        gpu.violations,
        "copy of 768 bytes",
        "is not ordered behind kernel offset",
        "the first writes",
    )


def test_pinned_memory_of_the_host(gpu: StandIn) -> None:
    a, pinned = filled(gpu), gpu.pinned(4 * COUNT)
    assert pinned.host is not None
    pinned.host.view(np.float32)[:] = 5
    gpu.stream.upload(a.pointer, pinned.host)
    np.copyto(pinned.host.view(np.float32), np.zeros(COUNT, np.float32))
    one(
        gpu.violations,
        "the host (MainThread) writes bytes of pinned memory",
        "without having waited for upload",
    )
    gpu.violations.clear()
    gpu.stream.synchronize()
    one(gpu.violations, "the host changed the source of upload of 768 bytes")
    gpu.violations.clear()
    gpu.stream.download(pinned.host, a.pointer)
    assert np.add(pinned.host, 0)[0] == 0xA5
    one(
        gpu.violations,
        "the host (MainThread) reads bytes of pinned memory",
        "without having waited for download",
    )


def test_arrays_that_go_too_early_or_lie_apart(gpu: StandIn) -> None:
    a = gpu.memory(4 * COUNT)
    gpu.stream.upload(a.pointer, np.ones(COUNT, np.float32))
    gpu.stream.synchronize()
    one(
        gpu.violations,
        "the host array of upload of 768 bytes was dropped before it had been copied",
    )
    kept = np.ones((COUNT // 2, 4), np.float32)
    gpu.stream.upload(a.pointer, kept[:, :2][: COUNT // 4])
    one(gpu.violations, "does not lie in one piece")


def test_freed_memory(gpu: StandIn, home: Path) -> None:
    a, b = filled(gpu), gpu.memory(4 * COUNT)
    start(gpu.stream, kernel(gpu, home, "offset"), a, b, np.int32(COUNT))
    gpu.free(a)
    one(gpu.violations, "is freed while kernel offset", "may still be under way")
    gpu.stream.synchronize()
    one(gpu.violations, "kernel offset", "is executed after device memory", "has been freed")
    start(gpu.stream, kernel(gpu, home, "offset"), a, b, np.int32(COUNT))
    one(gpu.violations, "kernel offset uses device memory", "after it has been freed")
    assert set(gpu.peek(a)) == {0xA5}
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        gpu.free(a)
    one(gpu.violations, "is freed twice")


def test_memory_that_was_never_written(gpu: StandIn, home: Path) -> None:
    a, b = gpu.memory(4 * COUNT), gpu.memory(4 * COUNT)
    start(gpu.stream, kernel(gpu, home, "offset"), a, b, np.int32(COUNT))
    one(gpu.violations, "kernel offset", "which was never written")


def test_kernels_that_are_started_wrongly(gpu: StandIn, home: Path) -> None:
    a, b = filled(gpu), gpu.memory(4 * COUNT)
    offset = kernel(gpu, home, "offset")
    for arguments, words in (
        ((a, b), "has 3 parameters, and is given 2"),
        (
            (a, b, np.int64(COUNT)),
            "argument 3 of kernel offset is int64 (8 bytes), its parameter has 4",
        ),
    ):
        with pytest.raises(CudaError, match="INVALID_VALUE"):
            start(gpu.stream, offset, *arguments)
        one(gpu.violations, words)
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        start(gpu.stream, offset, a, b, np.int32(COUNT), block=2048)
    with pytest.raises(CudaError, match="NOT_FOUND"):
        kernel(gpu, home, "mangled")
    start(gpu.stream, kernel(gpu, home, "beside"), b, np.int32(COUNT))
    start(gpu.stream, kernel(gpu, home, "apart"), b, block=4)
    gpu.stream.synchronize()
    one(gpu.violations, "kernel beside", "writes beside device memory")
    one(gpu.violations, "threads of a block of kernel apart wait at different __syncthreads")
    start(gpu.stream, offset, a, np.uintp(4096), np.int32(COUNT))
    with pytest.raises(CudaError, match="ILLEGAL_ADDRESS"):
        gpu.stream.synchronize()
    (home / "bad.cu").write_text('extern "C" __global__ void f(float *x) { x[0] = unknown; }')
    with pytest.raises(CudaError, match=r"ILLEGAL_ADDRESS"):
        gpu.compile(str(home / "bad.cu"), ["f"])
    fresh = StandIn()
    fresh.enter()
    with pytest.raises(CudaError, match=r"bad.cu does not compile(.|\n)*bad.cu:1:.*unknown"):
        fresh.compile(str(home / "bad.cu"), ["f"])


def test_failures_on_purpose(gpu: StandIn, home: Path) -> None:
    a, b = filled(gpu), gpu.memory(4 * COUNT)
    scale = kernel(gpu, home, "scale")
    gpu.fail("scale", 2, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", at_once=True)
    gpu.fail("scale", 4)
    arguments = a, b, np.int32(COUNT), np.float32(1)
    start(gpu.stream, scale, *arguments)
    with pytest.raises(CudaError, match="too many resources"):
        start(gpu.stream, scale, *arguments)
    start(gpu.stream, scale, *arguments)
    gpu.stream.synchronize()
    start(gpu.stream, scale, *arguments)
    event = gpu.stream.record()
    for use in (
        event.synchronize,
        event.done,
        gpu.stream.synchronize,
        lambda: gpu.memory(1),
        lambda: gpu.free(a),
    ):
        with pytest.raises(CudaError, match="ILLEGAL_ADDRESS: an illegal memory access"):
            use()
    assert not gpu.violations


def test_graphs(gpu: StandIn, home: Path) -> None:
    a, b, c = filled(gpu), gpu.memory(4 * COUNT), gpu.memory(4 * COUNT)
    stream, foreign = gpu.stream, gpu.new_stream().record()
    assert stream.begin_capture()
    start(stream, kernel(gpu, home, "scale"), a, b, np.int32(COUNT), np.float32(3))
    for use in (lambda: stream.wait(foreign), stream.synchronize, lambda: gpu.memory(8)):
        with pytest.raises(CudaError, match="STREAM_CAPTURE"):
            use()
    start(stream, kernel(gpu, home, "offset"), b, c, np.int32(COUNT))
    graph = stream.end_capture()
    stream.synchronize()
    result = np.empty(COUNT, np.float32)
    for _ in range(2):
        graph.launch(stream)
    stream.download(result, c.pointer)
    stream.synchronize()
    assert (result == 4).all() and gpu.launches["scale"] == 2 and not gpu.violations
    assert not installed_without_graphs().begin_capture()


def installed_without_graphs() -> DeviceStream:
    gpu = StandIn(graphs=False)
    gpu.enter()
    return gpu.stream


def test_a_thread_has_to_enter(gpu: StandIn) -> None:
    failures: list[CudaError] = []

    def work() -> None:
        try:
            gpu.memory(1)
        except CudaError as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="stranger")
    thread.start()
    ended(thread)
    assert "INVALID_CONTEXT" in str(failures[0])
    one(gpu.violations, "stranger uses the GPU without having entered it")


# -- the runtime, with a line taken away -----------------------------------------------------------
class Lane:
    """A thread that does what it is told, one thing after the other, like a worker."""

    def __init__(self) -> None:
        self._wanted: list[Callable[[], Any]] = []
        self._turn, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._result: Any = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            self._turn.acquire()  # no limit: a daemon, until the end of the tests
            work = self._wanted.pop()
            try:
                self._result = work()
            except BaseException as error:
                self._result = error
            work = None  # type: ignore[assignment]  # or its arguments would live on
            self._done.release()

    def __call__(self, work: Callable[[], Any]) -> Any:
        self._wanted.append(work)
        self._turn.release()
        self._done.acquire(timeout=HANGS)
        result, self._result = self._result, None
        if isinstance(result, BaseException):
            raise result
        return result


def task(home: Path, name: str, *more: Any, mirrored: bool = False, graph: bool = False) -> Kernels:
    arguments = ["x", "y", ("int32", COUNT), *more]
    made = Kernels("k.cu", [Launch(name, arguments, (1, 1, 1), (256, 1, 1))], graph=graph)
    made.name, made.mirrored = name, [mirrored]
    made.open(str(home), [Port("x", "float32", SHAPE)], [Port("y", "float32", SHAPE)])
    return made


def two_workers(home: Path, count: int = 4) -> list[np.ndarray]:
    """A host, two lanes with a kernel each, a host; as little waiting as the runtime itself
    does."""
    scale, offset = task(home, "scale", ("float32", 2.0)), task(home, "offset", mirrored=True)
    first, second = Lane(), Lane()
    results = []
    for number, frame in enumerate(frames(count)):
        (token,) = first(lambda f=frame, n=number: scale.fire([f], n))
        (token,) = second(lambda t=token, n=number: offset.fire([t], n))
        results.append(token)
        token = None
    return [np.array(device.on_host(t)) for t in results]


def expected(count: int) -> list[np.ndarray]:
    return [2 * f + 1 for f in frames(count)]


@pytest.mark.parametrize("integrated", [False, True])
def test_tasks_on_two_lanes(monkeypatch: pytest.MonkeyPatch, home: Path, integrated: bool) -> None:
    gpu = installed(monkeypatch, StandIn(integrated=integrated))
    assert all(map(np.array_equal, two_workers(home), expected(4)))
    assert not gpu.violations


def test_without_waiting_for_another_stream(
    monkeypatch: pytest.MonkeyPatch, gpu: StandIn, home: Path
) -> None:
    monkeypatch.setattr(device, "_follow", lambda token, stream: None)
    assert not all(map(np.array_equal, two_workers(home), expected(4)))
    one(gpu.violations, "kernel offset", "is not ordered behind kernel scale", "the second writes")


@pytest.mark.parametrize("integrated", [False, True])
def test_without_waiting_on_the_host(
    monkeypatch: pytest.MonkeyPatch, home: Path, integrated: bool
) -> None:
    gpu = installed(monkeypatch, StandIn(integrated=integrated))
    monkeypatch.setattr(device, "_await", lambda token: None)
    assert not all(map(np.array_equal, two_workers(home), expected(4)))
    who = "kernel offset" if integrated else "download"
    one(
        gpu.violations,
        "the host (MainThread) reads bytes of pinned memory",
        f"without having waited for {who}",
    )


@pytest.mark.parametrize("integrated", [False, True])
def test_without_waiting_for_a_pinned_block(
    monkeypatch: pytest.MonkeyPatch, home: Path, integrated: bool
) -> None:
    gpu = installed(monkeypatch, StandIn(integrated=integrated))

    class Forgetful(device._Use):
        def __init__(self) -> None:
            pass

        read = property(lambda self: list[DeviceEvent]())  # type: ignore[assignment]

    monkeypatch.setattr(device, "_Use", Forgetful)
    two_workers(home)
    one(
        gpu.violations,
        "writes bytes of pinned memory",
        "waited for " + ("kernel scale" if integrated else "upload"),
    )
    if not integrated:
        one(gpu.violations, "the host changed the source of upload")


def test_memory_back_in_its_pool_without_its_readers(
    monkeypatch: pytest.MonkeyPatch, gpu: StandIn, home: Path
) -> None:
    def give_back(self: device.DeviceToken) -> None:
        self.pool.give_back(self.memory, [self.ready] if self.ready is not None else [])

    monkeypatch.setattr(device.DeviceToken, "__del__", give_back)
    two_workers(home)
    one(gpu.violations, "kernel scale", "is not ordered behind kernel offset", "the first writes")


def test_memory_back_in_its_pool_without_its_writer(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    gpu = installed(monkeypatch, StandIn())
    monkeypatch.setattr(
        device.DeviceToken, "__del__", lambda self: self.pool.give_back(self.memory, [])
    )
    scale = task(home, "scale", ("float32", 2.0))
    first, second = Lane(), Lane()
    for lane, frame in zip((first, second), frames(2), strict=True):
        lane(lambda f=frame: scale.fire([f], 0) and None)
    one(gpu.violations, "kernel scale", "is not ordered behind kernel scale", "both write")


def test_a_view_that_outlives_its_token(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    gpu = installed(monkeypatch, StandIn(integrated=True))
    offset = task(home, "offset", mirrored=True)
    (token,) = offset.fire([frames(1)[0]], 0)
    view = token.host()
    held = offset.fire([frames(1)[0]], 1)
    assert not gpu.violations  # another piece of memory was taken
    offset._pools[0].give_back(token.token.memory, [])
    offset.fire([frames(1)[0]], 2)
    one(
        gpu.violations,
        "overwrites bytes of pinned memory",
        "the host (MainThread) still reads them",
    )
    del view, held


def test_closing_before_the_work_is_over(gpu: StandIn, home: Path) -> None:
    scale = task(home, "scale", ("float32", 2.0))
    scale.fire([frames(1)[0]], 0)
    scale.close()
    one(gpu.violations, "is freed while", "may still be under way")


# -- ONNX Runtime's CUDA provider ------------------------------------------------------------------
def test_sessions_and_runs_that_the_cuda_provider_does_not_take(
    gpu: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx_cuda.install(gpu, monkeypatch.setattr)
    with_stream = {"user_compute_stream": str(gpu.stream.handle)}

    def session(given: dict[str, str]) -> Any:
        providers = [("CUDAExecutionProvider", given)]
        return onnxruntime.InferenceSession(home / "net.onnx", providers=providers)

    session({"use_tf32": "0"})
    one(gpu.violations, "net.onnx has a stream of its own that is not waited for")
    session(with_stream)
    one(gpu.violations, "net.onnx multiplies in TF32")
    right = session({**with_stream, "use_tf32": "0"})
    options = onnxruntime.RunOptions()
    options.add_run_config_entry(onnx_cuda.QUIET, "1")
    right.run_with_iobinding(right.io_binding(), options)
    assert "a run of net.onnx does not wait at its end" in gpu.violations


# -- TensorRT --------------------------------------------------------------------------------------
class Trt:
    """A version of TensorRT, with a plan of the network."""

    def __init__(
        self, gpu: StandIn, home: Path, version: str = "10.3.0", dla: bool = False, **options: Any
    ) -> None:
        self.gpu, self.trt = gpu, tensorrt.module(gpu, version, tensorrt.Options(**options))
        self.logger = self.trt.Logger(self.trt.Logger.WARNING)
        self.plan = self.build(
            home / "net.onnx", dla, ["FP16"] if hasattr(self.trt.BuilderFlag, "FP16") else []
        )

    def build(
        self,
        path: Path,
        dla: bool = False,
        flags: Sequence[str] = ("FP16",),
        ranges: Mapping[str, float] = {},
        int8: Sequence[str] = (),
        detailed: bool = False,
        tf32: bool = False,
    ) -> Any:
        trt = self.trt
        builder = trt.Builder(self.logger)
        explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
        network = builder.create_network(0 if explicit is None else 1 << int(explicit))
        assert trt.OnnxParser(network, self.logger).parse_from_file(str(path))
        config = builder.create_builder_config()
        if not tf32:
            config.clear_flag(trt.BuilderFlag.TF32)
        borders = {t.name: t for t in (network.get_input(0), network.get_output(0))}
        for name, largest in ranges.items():
            assert borders[name].set_dynamic_range(-largest, largest)
        for name in int8:
            borders[name].dtype = trt.DataType.INT8
        if detailed:
            config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        for flag in flags:
            config.set_flag(getattr(trt.BuilderFlag, flag))
        if dla:
            config.default_device_type, config.DLA_core = trt.DeviceType.DLA, 0
        return builder.build_serialized_network(network, config)

    def context(self, arena: Memory | None = None, core: int | None = None) -> Any:
        """A context, with everything that has to live as long."""
        runtime = self.trt.Runtime(self.logger)
        if core is not None:
            runtime.DLA_core = core
        engine = runtime.deserialize_cuda_engine(self.plan)
        made = engine.create_execution_context(
            self.trt.ExecutionContextAllocationStrategy.USER_MANAGED
        )
        arena = arena or self.gpu.memory(4096)
        made.set_device_memory(arena.pointer, arena.nbytes)
        for name in "xy":
            made.set_tensor_address(name, filled(self.gpu).pointer)
        return types.SimpleNamespace(runtime=runtime, engine=engine, context=made, arena=arena)


def test_an_engine_computes_what_onnx_runtime_does(gpu: StandIn, home: Path) -> None:
    found = Trt(gpu, home).context()
    context, (frame,), result = found.context, frames(1), np.empty(SHAPE, np.float32)
    gpu.stream.upload(context.get_tensor_address("x"), frame)
    assert context.execute_async_v3(gpu.stream.handle)
    gpu.stream.download(result, context.get_tensor_address("y"))
    gpu.stream.synchronize()
    assert np.allclose(result, reference(home, frame), atol=1e-5) and not gpu.violations


def reference(home: Path, frame: np.ndarray) -> np.ndarray:

    made: np.ndarray = onnxruntime.InferenceSession(home / "net.onnx").run(None, {"x": frame})[0]
    return made


def test_tensors_that_are_given_wrongly(gpu: StandIn, home: Path) -> None:
    found = Trt(gpu, home).context()
    context, handle = found.context, gpu.stream.handle
    assert not context.set_tensor_address("z", 1)
    larger = gpu.memory(4 * COUNT + 16)
    gpu.stream.zero(larger.pointer, larger.nbytes)
    context.set_tensor_address("x", larger.pointer + 12)
    context.execute_async_v3(handle)
    one(gpu.violations, "tensor x of engine net is given", "not aligned to 256")
    context.set_tensor_address("x", gpu.memory(2 * COUNT).pointer)  # half of it: float16?
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        context.execute_async_v3(handle)
    one(gpu.violations, "engine net uses bytes 0 to 768 of device memory", "(384 bytes)")
    context.set_tensor_address("x", 0)
    assert not context.execute_async_v3(handle)
    one(gpu.violations, "engine net is started without an address for x")
    assert not context.set_input_shape("x", (2, 3, 8, 8))
    one(gpu.violations, "net is static, but x is given the shape (2, 3, 8, 8)")
    memory = filled(gpu)
    context.set_tensor_address("x", memory.pointer)
    gpu.free(memory)
    context.execute_async_v3(handle)
    one(gpu.violations, "engine net uses device memory", "after it has been freed")
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        context.execute_async_v3(12345)
    one(gpu.violations, "engine net is put into 12345, which is no stream")
    gpu.stream.synchronize()


def test_an_arena_that_is_missing_or_small(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)
    small = trt.context(gpu.memory(1024))
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        small.context.execute_async_v3(gpu.stream.handle)
    one(gpu.violations, "engine net needs 4096 bytes between its layers, and is given 1024")
    none = small.engine.create_execution_context(
        trt.trt.ExecutionContextAllocationStrategy.USER_MANAGED
    )
    for name in "xy":
        none.set_tensor_address(name, filled(gpu).pointer)
    with pytest.raises(CudaError, match="INVALID_VALUE"):
        none.execute_async_v3(gpu.stream.handle)
    one(gpu.violations, "engine net is started without memory for what lies between its layers")


def test_an_arena_that_two_streams_share(gpu: StandIn, home: Path) -> None:
    trt, arena = Trt(gpu, home), gpu.memory(4096)
    one_stream, other = gpu.new_stream(), gpu.new_stream()
    a, b = trt.context(arena), trt.context(arena)
    a.context.execute_async_v3(one_stream.handle)
    other.wait(one_stream.record())
    b.context.execute_async_v3(other.handle)
    assert not gpu.violations
    a.context.execute_async_v3(one_stream.handle)
    one(
        gpu.violations,
        "engine net",
        "is not ordered behind engine net",
        "(4096 bytes), and both write",
    )
    gpu.stream.wait(other.record())
    for stream in (one_stream, other):
        stream.synchronize()


def test_things_that_live_too_short(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)
    found = trt.context()
    found.runtime = None
    gc.collect()
    found.context.execute_async_v3(gpu.stream.handle)
    one(gpu.violations, "engine net is used after its runtime is gone")
    found.engine = None
    gc.collect()
    assert not found.context.execute_async_v3(gpu.stream.handle)
    one(gpu.violations, "a context of net is used after its engine is gone")
    found.context = None
    gc.collect()
    one(gpu.violations, "the context of net is dropped while engine net", "may still be under way")
    gpu.stream.synchronize()
    one(gpu.violations, "engine net is executed after its context is gone")


def test_cores_of_the_dla(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home, dla=True, loadables=2)
    right = trt.context(core=1)
    right.context.execute_async_v3(gpu.stream.handle)
    gpu.stream.synchronize()
    assert not gpu.violations and right.engine._core == 1
    late = trt.context()
    one(gpu.violations, "net is deserialized for a DLA, and no core has been chosen")
    late.runtime.DLA_core = 1
    one(gpu.violations, "DLA core 1 is chosen after net was deserialized: that runs on core 0")
    late.runtime.DLA_core = 2
    one(gpu.violations, "the runtime is told to use DLA core 2 of 2")
    second = trt.context(core=1)
    assert right.runtime.deserialize_cuda_engine(trt.plan) is None  # two loadables are there
    assert "DLA core 1 holds 2 loadables already" in trt.trt.said[-1] and second
    gpu.stream.synchronize()


def test_plans_in_tf32_are_found(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)
    assert not gpu.violations
    trt.build(home / "net.onnx", tf32=True)
    one(gpu.violations, "a plan multiplies in TF32")


def test_plans_of_others_are_refused(gpu: StandIn, home: Path) -> None:
    plan = Trt(gpu, home).plan
    newer, other = Trt(gpu, home, "10.7.0"), Trt(StandIn(device="Other"), home)
    other.gpu.enter()
    for trt in (newer, other):
        assert trt.trt.Runtime(trt.logger).deserialize_cuda_engine(plan) is None
        assert trt.trt.said[-1].startswith("E: the plan was made ")
    assert newer.trt.Runtime(newer.logger).deserialize_cuda_engine(b"something") is None


def test_networks_that_cannot_be_built(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)
    save_network(home / "free.onnx", batch="n")
    assert trt.build(home / "free.onnx") is None and "no optimization profile" in trt.trt.said[-1]
    save_network(home / "soft.onnx", last="Softmax")
    assert (
        trt.build(home / "soft.onnx", dla=True) is None and "cannot run on DLA" in trt.trt.said[-1]
    )
    assert trt.build(home / "soft.onnx", dla=True, flags=["FP16", "GPU_FALLBACK"]) is not None
    assert (
        trt.build(home / "net.onnx", dla=True, flags=[]) is None
        and "FP16 and INT8" in trt.trt.said[-1]
    )


def pairs(zero: Any, home: Path, data: Any = None, kind: type = np.float32) -> Path:
    """A network that rounds its input to 8 bits (or reads a quantized constant), and a
    convolution."""
    constants = {"s": kind(0.02), "z": zero, "w": np.ones((3, 3, 1, 1), kind)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantize"),
        helper.make_node("Conv", ["d", "w"], ["y"], "conv"),
    ]
    if data is not None:
        constants["b"] = data
        nodes.append(helper.make_node("DequantizeLinear", ["b", "s"], ["c"], "bias"))
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), SHAPE)
        for n in "xy"
    ]
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "pairs", values[:1], values[1:], weights)
    path = home / "pairs.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 19)]), path
    )
    return path


def test_networks_in_8_bits(gpu: StandIn, home: Path) -> None:
    """With pairs around 0, or with a range for each tensor: never both, and a DLA takes ranges
    alone before 11."""
    trt = Trt(gpu, home)

    def refusal(path: Path) -> str:
        network = trt.trt.Builder(trt.logger).create_network(0)
        parser = trt.trt.OnnxParser(network, trt.logger)
        assert not parser.parse_from_file(str(path))
        return parser.get_error(0).desc()

    assert "has to be int8" in refusal(pairs(np.uint8(0), home))
    assert "zeroPt must be all zeros" in refusal(pairs(np.int8(3), home))
    assert "has to be int8" in refusal(pairs(np.int8(0), home, np.zeros(2, np.int32)))
    good = pairs(np.int8(0), home)
    assert trt.build(good, flags=["INT8"]) is not None
    assert (
        trt.build(good, dla=True, flags=["INT8"]) is None
        and "quantize cannot run on DLA" in trt.trt.said[-1]
    )
    assert (
        trt.build(good, flags=["INT8"], ranges={"x": 1.0}) is None
        and "no Q/DQ layers" in trt.trt.said[-1]
    )
    net = home / "net.onnx"
    assert trt.build(net, flags=["INT8"]) is None and "no scaling factors" in trt.trt.said[-1]
    assert trt.build(net, dla=True, flags=["INT8"], ranges={"x": 1.0}) is not None
    assert (
        trt.build(net, flags=["INT8"], ranges={"x": 1.0}, int8=["y"]) is None
        and "y: int8" in trt.trt.said[-1]
    )
    strong = Trt(gpu, home, "11.4.1")
    assert strong.build(good, dla=True, flags=[]) is None and "FP16 and INT8" in strong.trt.said[-1]
    assert strong.build(pairs(np.int8(0), home, kind=np.float16), dla=True, flags=[]) is not None


def test_tensors_of_8_bits_are_scaled_by_their_range(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)
    trt.plan = trt.build(
        home / "net.onnx", True, ["FP16", "INT8"], {"x": 4.0, "y": 8.0}, ["x", "y"]
    )
    found = trt.context(core=0)
    given, result = (
        np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(np.int8),
        np.empty(SHAPE, np.int8),
    )
    for name in "xy":
        found.context.set_tensor_address(name, gpu.memory(result.nbytes).pointer)
    gpu.stream.upload(found.context.get_tensor_address("x"), given)
    assert found.context.execute_async_v3(gpu.stream.handle)
    gpu.stream.download(result, found.context.get_tensor_address("y"))
    gpu.stream.synchronize()
    wanted = reference(home, given * np.float32(4 / 127)) * (127 / 8)
    assert np.abs(result - np.clip(np.rint(wanted), -128, 127)).max() <= 1 and not gpu.violations


@pytest.mark.parametrize(
    ("version", "knows"), [("8.5.2", False), ("8.6.1", True), ("10.3.0", True)]
)
def test_layers_of_engines(gpu: StandIn, home: Path, version: str, knows: bool) -> None:
    trt = Trt(gpu, home, version)
    assert trt.plan is not None
    engine = trt.trt.Runtime(trt.logger).deserialize_cuda_engine(
        trt.build(home / "net.onnx", detailed=True)
    )
    text = engine.create_engine_inspector().get_engine_information(
        trt.trt.LayerInformationFormat.JSON
    )
    assert ("\x1f" in text) == (version == "8.6.1")  # which is no JSON, strictly
    layers = json.loads(text, strict=False)
    assert any("[ONNX Layer: " in x.get("Metadata", "") for x in layers["Layers"]) == knows
    plain = trt.trt.Runtime(trt.logger).deserialize_cuda_engine(trt.plan)
    layers = json.loads(
        plain.create_engine_inspector().get_engine_information(trt.trt.LayerInformationFormat.JSON)
    )
    assert all(isinstance(x, str) for x in layers["Layers"])


def test_a_profiler_that_is_not_made_right(gpu: StandIn, home: Path) -> None:
    trt = Trt(gpu, home)

    class Mine(trt.trt.IProfiler):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.seen: list[str] = []

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.seen.append(layer_name)

    found = trt.context()
    found.context.profiler = mine = Mine()
    gpu.stream.upload(found.context.get_tensor_address("x"), frames(1)[0])
    with pytest.raises(TypeError, match="must be called"):
        found.context.execute_async_v3(gpu.stream.handle)
    trt.trt.IProfiler.__init__(mine)
    assert found.context.execute_async_v3(gpu.stream.handle)
    assert mine.seen[0].startswith("Reformatting CopyNode") and len(mine.seen) > 1
    gpu.stream.synchronize()


def test_what_a_version_does_not_have(gpu: StandIn) -> None:
    old, middle, new = (tensorrt.module(gpu, v) for v in ("8.5.2", "10.3.0", "11.4.1"))
    has: list[tuple[Any, str, tuple[bool, bool, bool]]] = [
        ("BuilderFlag", "FP16", (True, True, False)),
        ("IBuilderConfig", "progress_monitor", (False, True, True)),
        ("IBuilderConfig", "int8_calibrator", (True, True, False)),
        ("Builder", "platform_has_fast_fp16", (True, True, False)),
        ("NetworkDefinitionCreationFlag", "EXPLICIT_BATCH", (True, True, False)),
        ("ICudaEngine", "device_memory_size", (True, True, False)),
        ("ICudaEngine", "device_memory_size_v2", (False, True, True)),
        ("ICudaEngine", "create_execution_context_without_device_memory", (True, True, False)),
        ("IExecutionContext", "set_device_memory", (False, True, True)),
        ("IExecutionContext", "execute_async_v2", (False, False, False)),
        ("ITensor", "set_dynamic_range", (True, True, False)),
    ]
    for holder, name, where in has:
        assert tuple(hasattr(getattr(m, holder), name) for m in (old, middle, new)) == where, (
            holder,
            name,
        )
    assert not hasattr(old, "ExecutionContextAllocationStrategy") and not hasattr(
        old, "IProgressMonitor"
    )
    config = old.Builder(old.Logger()).create_builder_config()
    with pytest.raises(AttributeError, match="progress_monitor"):
        config.progress_monitor = None


@pytest.mark.parametrize(
    ("dialect", "version"), [("trt8", "8.5.2"), ("trt10", "10.3.0"), ("trt11", "11.4.1")]
)
def test_all_that_it_has_is_genuine(
    gpu: StandIn, tensorrt_stubs: Callable[[str], Path], dialect: str, version: str
) -> None:
    stubs = tensorrt_stubs(dialect)
    genuine = (
        (stubs / "tensorrt" / "tensorrt.pyi").read_text()
        if (stubs / "tensorrt" / "tensorrt.pyi").is_file()
        else ""
    )
    genuine += (stubs / "tensorrt" / "__init__.pyi").read_text()
    made = tensorrt.module(gpu, version)
    for name, thing in vars(made).items():
        if name.startswith("_") or name == "said":
            continue
        assert name in genuine, name
        for attribute in vars(thing) if isinstance(thing, type) else ():
            assert attribute.startswith("_") or attribute in genuine, f"{name}.{attribute}"


# -- whole programs --------------------------------------------------------------------------------
class Feed(Code):
    """A source of arrays."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        if firing == len(self.arrays):
            raise StopIteration
        return self.arrays[firing].copy()


class Keep(Code):
    """A sink that keeps copies, and what it was given until the next firing."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self.last: Any = None

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        if self.last is not None:
            assert np.array_equal(self.last, self.seen[-1]), (
                "a token changed while it was being held"
            )
        self.last = inputs[0]
        self.seen.append(inputs[0].copy())


class Emitted:
    """The two files that flowc emits for TensorRT, as modules on a stand-in."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        gpu: StandIn,
        home: Path,
        version: str,
        stage: str,
        **options: Any,
    ) -> None:
        dialect = {"8": "trt8", "10": "trt10", "11": "trt11"}[version.split(".")[0]]
        self.trt = tensorrt.module(gpu, version, tensorrt.Options(**options))
        jinja = environment()
        jinja.filters["line"] = str
        words = {
            "name": "test",
            "version": version,
            "dialect": dialect,
            "stages": [stage],
            "implicit": False,
            "half": False,
            "rtx": False,
            "compute": None,
        }
        monkeypatch.setitem(sys.modules, "tensorrt", self.trt)
        monkeypatch.setitem(sys.modules, "runtime", runtime)
        for name in ("engines", "build_engines"):
            text = jinja.get_template(f"tensorrt/{name}.py.j2").render(words)
            module = types.ModuleType(name)
            module.__file__ = str(home / f"{name}.py")
            (home / f"{name}.py").write_text(text)
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(text, module.__file__, "exec"), module.__dict__)
        monkeypatch.setattr(sys, "argv", ["build_engines.py"])
        monkeypatch.setattr(sys, "path", list(sys.path))  # both files add to it

    def build(self) -> int:
        return int(sys.modules["build_engines"].main())


def program(home: Path, keep: Keep, count: int, *, graph: bool = False) -> Program:
    """Host -> scale (gpu) -> network (dla0) -> offset (gpu) -> host."""
    p = Program("test", str(home))
    app = p.app("A")
    network = runtime.TensorRT(
        "net.onnx", ["x"], ["y"], on={"dla0": ("dla", 0)}, digest="0", precision="fp16"
    )
    shape = (1, 1, 1), (256, 1, 1)
    scale = Kernels(
        "k.cu",
        [Launch("scale", ["x", "y", ("int32", COUNT), ("float32", 2.0)], *shape)],
        graph=graph,
    )
    offset = Kernels("k.cu", [Launch("offset", ["x", "y", ("int32", COUNT)], *shape)])
    x, y = Port("x", "float32", SHAPE), Port("y", "float32", SHAPE)
    tasks = [app.task("feed", Feed(frames(count)), outputs=[y])]
    for name, code in (("scale", scale), ("net", network), ("offset", offset)):
        tasks.append(app.task(name, code, inputs=[x], outputs=[y]))
    tasks.append(app.task("keep", keep, inputs=[x]))
    for a, b in pairwise(tasks):
        p.channel(a, "y", b, "x", capacity=3)
    feed, first, middle, last, sink = tasks
    p.processor("cpu[0]", [Fire(feed)])
    p.processor("gpu", [Fire(first), Fire(last, stage=2)])
    p.processor("dla0", [Fire(middle, stage=1)])
    p.processor("cpu[1]", [Fire(sink, stage=2)])
    return p


STAGE = "'net.onnx', 'dla', 'fp16', 1, '0', {'x': (1, 3, 8, 8)}"


@pytest.mark.parametrize(
    ("version", "integrated", "graph"),
    [
        ("8.5.2", True, False),
        ("10.3.0", True, True),
        ("10.3.0", False, True),
        ("11.4.1", True, False),
    ],
)
def test_a_program_without_a_fault(
    monkeypatch: pytest.MonkeyPatch, home: Path, version: str, integrated: bool, graph: bool
) -> None:
    gpu = installed(monkeypatch, StandIn(integrated=integrated))
    emitted = Emitted(monkeypatch, gpu, home, version, STAGE + ", fallback=True")
    if version.startswith("11"):
        # strongly typed: 16 bits have to be in the model; its borders stay as they are
        halve(home / "net.onnx")
    assert emitted.build() == 0 and not gpu.violations, gpu.violations
    keep = Keep()
    p = program(home, keep, 12, graph=graph)
    assert execute(p), p.run.failure
    assert not gpu.violations, gpu.violations
    assert len(keep.seen) == 12
    for frame, result in zip(frames(12), keep.seen, strict=True):
        assert np.allclose(result, reference(home, 2 * frame) + 1, atol=1e-4)
    assert gpu.graph_launches == (12 if graph else 0)


def halve(path: Path) -> None:
    """The network in 16 bits between casts."""
    save_network(path, TensorProto.FLOAT16)
    model = onnx.load(path)
    for value, other in ((model.graph.input[0], "x16"), (model.graph.output[0], "y16")):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in model.graph.node:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == value.name:
                        names[i] = other
    model.graph.node.insert(0, helper.make_node("Cast", ["x"], ["x16"], to=TensorProto.FLOAT16))
    model.graph.node.append(helper.make_node("Cast", ["y16"], ["y"], to=TensorProto.FLOAT))
    onnx.save(model, path)


@pytest.mark.parametrize("integrated", [False, True])
def test_tokens_of_several_firings_are_joined(
    monkeypatch: pytest.MonkeyPatch, home: Path, integrated: bool
) -> None:
    gpu, keep, count = installed(monkeypatch, StandIn(integrated=integrated)), Keep(), 12
    shape = (1, 1, 1), (256, 1, 1)
    scale = Kernels(
        "k.cu", [Launch("scale", ["x", "y", ("int32", COUNT), ("float32", 2.0)], *shape)]
    )
    offset = Kernels(
        "k.cu", [Launch("offset", ["x", "y", ("int32", 3 * COUNT)], (3, 1, 1), (256, 1, 1))]
    )
    p = Program("test", str(home))
    app = p.app("A")
    x, y = Port("x", "float32", SHAPE), Port("y", "float32", SHAPE)
    feed = app.task("feed", Feed(frames(count)), outputs=[y])
    first = app.task("scale", scale, [x], [y])
    joined = app.task(
        "offset", offset, [Port("x", "float32", SHAPE, (3,))], [Port("y", "float32", SHAPE, (3,))]
    )
    sink = app.task("keep", keep, [x])
    for a, b in pairwise((feed, first, joined, sink)):
        p.channel(a, "y", b, "x", capacity=6)
    for name, one_task, times in (
        ("cpu[0]", feed, 3),
        ("gpu", first, 3),
        ("gpu", joined, 1),
        ("cpu[1]", sink, 3),
    ):
        p.processor(name, [Fire(one_task, times)])
    assert execute(p), p.run.failure
    assert len(keep.seen) == count and all(map(np.array_equal, keep.seen, expected(count)))
    assert not gpu.violations, gpu.violations


def test_an_asynchronous_failure_names_what_was_running(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    gpu = installed(monkeypatch, StandIn())
    assert Emitted(monkeypatch, gpu, home, "10.3.0", STAGE).build() == 0
    gpu.fail("net", 3)
    p = program(home, Keep(), 12)
    assert not execute(p) and p.run.failure is not None
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(p.run.failure) and re.search(
        r"net at firing [0-2]", str(p.run.failure)
    ), str(p.run.failure)


MAIN = """
import os, sys
HOME = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HOME)
from runtime import Fire, Kernels, Launch, Port, Program, Python, main

def program():
    p = Program("test", HOME)
    app = p.app("A")
    y = Port("y", "float32", (1, 3, 8, 8))
    x = Port("x", "float32", (1, 3, 8, 8))
    feed = app.task("feed", Python("t.py", "feed"), outputs=[y])
    scale = app.task("scale", Kernels("k.cu", [
        Launch("scale", ["x", "y", ("int32", 192), ("float32", 2.0)], (1, 1, 1), (256, 1, 1))]), [x], [y])
    offset = app.task("offset", Kernels("k.cu", [
        Launch("offset", ["x", "y", ("int32", 192)], (1, 1, 1), (256, 1, 1))]), [x], [y])
    keep = app.task("keep", Python("t.py", "keep"), inputs=[x])
    for a, b in ((feed, scale), (scale, offset), (offset, keep)):
        p.channel(a, "y", b, "x", capacity=2)
    p.processor("cpu", [Fire(feed), Fire(keep, stage=2)])
    p.processor("gpu", [Fire(scale)])
    p.processor("gpu", [Fire(offset, stage=1)])
    return p

if __name__ == "__main__":
    sys.exit(main(program))
"""
TASKS = """
import numpy as np
def feed():
    return np.full((1, 3, 8, 8), 20, np.float32)
def keep(x):
    print("seen", x.min(), x.max())
"""


def test_a_program_in_a_process_of_its_own(home: Path) -> None:
    for name, text in (("main.py", MAIN), ("t.py", TASKS)):
        (home / name).write_text(text)
    shutil.copytree(
        ROOT / "runtime", home / "runtime", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [
        sys.executable,
        str(ROOT / "tests" / "support" / "standins" / "run.py"),
        str(home),
        "main.py",
        "--frames",
        "6",
    ]

    def go(**options: Any) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"FLOWC_STAND_IN": json.dumps(options)}
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=HANGS, check=False
        )

    done = go(integrated=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("seen 41.0 41.0") == 6 and ", 0 violations" in done.stderr
    failed = go(fail=["offset", 2])
    assert failed.returncode == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in failed.stderr, failed.stderr
    path = home / "runtime" / "device.py"
    text = path.read_text()
    assert text.count("        stream.wait(token.ready)") == 1
    path.write_text(text.replace("        stream.wait(token.ready)", "        pass"))
    done = go()
    assert done.returncode == 99, done.stderr
    assert (
        "violation: kernel offset" in done.stderr
        and "is not ordered behind kernel scale" in done.stderr
    )
