"""CUDA through cuda-python, NVIDIA's own bindings. Kernels are compiled by NVRTC."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from typing import Any, Deque, Dict, Optional, Sequence, Tuple

import numpy as np

from .cuda import (
    HEADERS,
    WANTED,
    Cuda,
    CudaError,
    DeviceEvent,
    DeviceGraph,
    DeviceKernel,
    DeviceStream,
    Memory,
    PinnedMemory,
    include_folders,
    level_of,
    no_gpu,
)


class CudaPython(Cuda):
    """Through NVIDIA's own bindings. Kernels are compiled by NVRTC."""

    library = "cuda-python"

    def __init__(self) -> None:
        Cuda.__init__(self)
        try:
            from cuda.bindings import driver, nvrtc
        except ImportError:  # before version 12.6
            from cuda import cuda as driver, nvrtc  # type: ignore[attr-defined,no-redef,unused-ignore]  # noqa: I001
        self._driver: Any = driver
        self._nvrtc: Any = nvrtc
        try:
            self.ask(driver.cuInit(0))
            device = self.ask(driver.cuDeviceGet(0))
        except CudaError as error:
            raise no_gpu(error) from error
        except RuntimeError as error:  # the bindings find no driver at all
            raise no_gpu("there is no NVIDIA driver") from error
        name = self.ask(driver.cuDeviceGetName(128, device))
        self.device = name.split(b"\0")[0].decode(errors="replace").strip()
        attribute = driver.CUdevice_attribute
        self.capability = (
            self.ask(
                driver.cuDeviceGetAttribute(
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
                )
            ),
            self.ask(
                driver.cuDeviceGetAttribute(
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
                )
            ),
        )
        self.integrated = bool(
            self.ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_INTEGRATED, device))
        )
        try:
            self._library: Optional[ctypes.CDLL] = ctypes.CDLL("libcuda.so.1")
        except OSError:
            self._library = None
        self._context = self.ask(driver.cuDevicePrimaryCtxRetain(device))
        #: Events that nothing refers to any more, to be recorded again: a firing takes two.
        self.idle_events: Deque[Any] = deque()
        self.enter()

    def ask(self, answer: Tuple[Any, ...]) -> Any:
        """The result of a call to the driver. Raises CudaError."""
        status = answer[0]
        if int(status):
            name = self._driver.cuGetErrorName(status)[1]
            text = self._driver.cuGetErrorString(status)[1]
            said = [t.decode() if isinstance(t, bytes) else str(status) for t in (name, text)]
            raise CudaError("%s: %s" % (said[0], said[1]))
        return answer[1] if len(answer) == 2 else answer[1:]

    def wait_outside(self, function: str, handle: Any) -> None:
        """A call that may take long, without Python's lock: bindings before 12.9 keep it."""
        if self._library is None:
            self.ask(getattr(self._driver, function)(handle))
        else:
            status = getattr(self._library, function)(ctypes.c_void_p(int(handle)))
            if status:
                self.ask((self._driver.CUresult(status),))

    def enter(self) -> None:
        self.ask(self._driver.cuCtxSetCurrent(self._context))

    def memory(self, nbytes: int) -> Memory:
        return Memory(int(self.ask(self._driver.cuMemAlloc(max(1, nbytes)))), nbytes)

    def pinned(self, nbytes: int) -> PinnedMemory:
        # portable and mapped: every thread may use it, and kernels as well
        address = int(self.ask(self._driver.cuMemHostAlloc(max(1, nbytes), 0x01 | 0x02)))
        pointer = int(self.ask(self._driver.cuMemHostGetDevicePointer(address, 0)))
        memory = (ctypes.c_uint8 * max(1, nbytes)).from_address(address)
        return PinnedMemory(pointer, nbytes, np.ctypeslib.as_array(memory)[:nbytes])

    def free(self, memory: Memory) -> None:
        if memory.host is None:
            self.ask(self._driver.cuMemFree(memory.pointer))
        else:
            self.ask(self._driver.cuMemFreeHost(memory.host.ctypes.data))

    def new_stream(self) -> DeviceStream:
        return _Stream(self, self._driver)

    def compile(self, path: str, names: Sequence[str]) -> Dict[str, DeviceKernel]:
        nvrtc = self._nvrtc
        with open(path, "rb") as file:
            source = file.read()
        names_of, texts = [n.encode() for n in HEADERS], [t.encode() for t in HEADERS.values()]
        name = os.path.basename(path).encode()
        failed, program = nvrtc.nvrtcCreateProgram(source, name, len(texts), texts, names_of)
        if int(failed):
            raise CudaError("NVRTC takes no programs: %s" % failed)
        options = [b"--gpu-architecture=sm_%d%d" % self.capability, b"--std=c++14"]
        options += [b"--include-path=" + f.encode() for f in include_folders(path)]
        status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        if int(status):
            size = nvrtc.nvrtcGetProgramLogSize(program)[1]
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CudaError(
                "%s does not compile\n%s"
                % (os.path.basename(path), log.decode(errors="replace").strip("\0 \n"))
            )
        size = nvrtc.nvrtcGetCUBINSize(program)[1]
        code = b" " * size
        nvrtc.nvrtcGetCUBIN(program, code)
        nvrtc.nvrtcDestroyProgram(program)
        module = self.ask(self._driver.cuModuleLoadData(code))
        return {
            n: DeviceKernel(n, self.ask(self._driver.cuModuleGetFunction(module, n.encode())))
            for n in names
        }


class _Stream(DeviceStream):
    def __init__(self, cuda: CudaPython, driver: Any) -> None:
        self._ask, self._driver, self._wait_outside = cuda.ask, driver, cuda.wait_outside
        self._cuda = cuda
        alone = 1  # does not wait for the default stream
        if WANTED.urgency is None:
            self._stream = cuda.ask(driver.cuStreamCreate(alone))
        else:
            lowest, highest = cuda.ask(driver.cuCtxGetStreamPriorityRange())
            level = level_of(WANTED.urgency, int(lowest), int(highest))
            self._stream = cuda.ask(driver.cuStreamCreateWithPriority(alone, level))
        self.handle = int(self._stream)

    def upload(self, target: int, array: np.ndarray) -> None:
        self._ask(
            self._driver.cuMemcpyHtoDAsync(target, array.ctypes.data, array.nbytes, self._stream)
        )

    def download(self, array: np.ndarray, source: int) -> None:
        self._ask(
            self._driver.cuMemcpyDtoHAsync(array.ctypes.data, source, array.nbytes, self._stream)
        )

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._ask(self._driver.cuMemcpyDtoDAsync(target, source, nbytes, self._stream))

    def zero(self, target: int, nbytes: int) -> None:
        self._ask(self._driver.cuMemsetD8Async(target, 0, nbytes, self._stream))

    def launch(
        self,
        kernel: DeviceKernel,
        grid: Tuple[int, int, int],
        block: Tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        with kernel.lock:
            if shared > kernel.shared:
                attributes = self._driver.CUfunction_attribute
                which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._ask(self._driver.cuFuncSetAttribute(kernel.function, which, shared))
                kernel.shared = shared
        values = [np.array(a) for a in arguments]
        places = np.array([v.ctypes.data for v in values], np.uint64)
        self._ask(
            self._driver.cuLaunchKernel(
                kernel.function,
                *grid,
                *block,
                shared,
                self._stream,
                places.ctypes.data if len(places) else 0,
                0,
            )
        )

    def record(self) -> DeviceEvent:
        try:
            event = self._cuda.idle_events.pop()
        except IndexError:
            event = self._ask(self._driver.cuEventCreate(0))
        self._ask(self._driver.cuEventRecord(event, self._stream))
        return _Event(self._cuda, self._driver, event)

    def wait(self, event: DeviceEvent) -> None:
        assert isinstance(event, _Event)
        self._ask(self._driver.cuStreamWaitEvent(self._stream, event.event, 0))

    def synchronize(self) -> None:
        self._wait_outside("cuStreamSynchronize", self._stream)

    def begin_capture(self) -> bool:
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._ask(self._driver.cuStreamBeginCapture(self._stream, mode))
        return True

    def end_capture(self) -> DeviceGraph:
        graph = self._ask(self._driver.cuStreamEndCapture(self._stream))
        # before version 12 the shorter name takes other arguments
        instantiate = (
            getattr(self._driver, "cuGraphInstantiateWithFlags", None)
            or self._driver.cuGraphInstantiate
        )
        try:
            return _Graph(self._ask, self._driver, self._ask(instantiate(graph, 0)))
        finally:
            self._driver.cuGraphDestroy(graph)


class _Event(DeviceEvent):
    def __init__(self, cuda: CudaPython, driver: Any, event: Any) -> None:
        self._ask, self._driver, self.event = cuda.ask, driver, event
        self._wait_outside, self._idle = cuda.wait_outside, cuda.idle_events

    def done(self) -> bool:
        answer = self._driver.cuEventQuery(self.event)
        if answer[0] == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            return False
        self._ask(answer)
        return True

    def synchronize(self) -> None:
        self._wait_outside("cuEventSynchronize", self.event)

    def since(self, earlier: Any) -> float:
        return float(self._ask(self._driver.cuEventElapsedTime(earlier.event, self.event)))

    def __del__(self) -> None:
        self._idle.append(self.event)


class _Graph(DeviceGraph):
    def __init__(self, ask: Any, driver: Any, graph: Any) -> None:
        self._ask, self._driver, self._graph = ask, driver, graph

    def launch(self, stream: Any) -> None:
        self._ask(self._driver.cuGraphLaunch(self._graph, stream.handle))
