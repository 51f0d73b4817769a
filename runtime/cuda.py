"""CUDA from Python, as much as generated programs need: one face, two libraries behind it.

Memory, streams, events, kernels and graphs of one GPU. `open_cuda` takes cuda-python (bindings of NVIDIA) where it is
installed, else PyCUDA, which many Jetson images carry. Everything that is put into a stream happens later, in order;
events order streams among each other and tell the host when it may look.
"""

from __future__ import annotations

import abc
import atexit
import ctypes
import os
import threading
from functools import lru_cache
from typing import Any, Dict, List, Optional, Sequence, Tuple

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
    "typedef %s int%d_t; typedef unsigned %s uint%d_t; " % (kind, bits, kind.replace("signed ", ""), bits)
    for kind, bits in (("signed char", 8), ("short", 16), ("int", 32), ("long long", 64))
)
#: Headers that NVRTC lacks and programs for nvcc include: it knows their functions without them.
HEADERS = {
    "stdint.h": "#pragma once\n" + _INTEGERS + "\n" + _LIMITS,
    "cstdint": '#pragma once\n#include "stdint.h"\nnamespace std {\n%s}\n'
    % "".join("using ::%sint%d_t;\n" % (u, bits) for u in ("", "u") for bits in (8, 16, 32, 64)),
    **dict.fromkeys(("math.h", "cmath"), _MATH),
    **dict.fromkeys(("float.h", "cfloat"), _FLOATS),
    **dict.fromkeys(("assert.h", "cassert"), "#pragma once\n#ifndef assert\n#define assert(x)\n#endif\n"),
    **dict.fromkeys(("stddef.h", "cstddef", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring"), ""),
    **dict.fromkeys(("stdbool.h", "cuda_runtime.h", "cuda.h", "device_launch_parameters.h"), ""),
}


class CudaError(TaskError):
    """The driver refused something; the message has its own name for it."""


class Memory:
    """A piece of memory that kernels can use. `host` are its bytes where the host can use them too (else None)."""

    def __init__(self, pointer: int, nbytes: int, host: Optional[np.ndarray] = None) -> None:
        self.pointer, self.nbytes, self.host = pointer, nbytes, host


class Event(abc.ABC):
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


class Graph(abc.ABC):
    """Work that was recorded once and is started as a whole."""

    @abc.abstractmethod
    def launch(self, stream: Any) -> None:
        """Put all of it into a stream."""


class Kernel:
    """A function of a compiled `.cu` file. `shared` is the dynamic shared memory that it may have, in bytes."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        self.shared = ORDINARY_SHARED
        self.lock = threading.Lock()


class Stream(abc.ABC):
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
        kernel: Kernel,
        grid: Tuple[int, int, int],
        block: Tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        """Start a kernel. Arguments are numpy scalars; pointers are `np.uintp`."""

    @abc.abstractmethod
    def record(self) -> Event:
        """The point that has been reached when all work put in so far is done."""

    @abc.abstractmethod
    def wait(self, event: Event) -> None:
        """What is put in from now on happens after the event. The host does not wait."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Wait until all work put in so far is done."""

    def begin_capture(self) -> bool:
        """From now on work is recorded instead of done. False where the library cannot do that."""
        return False

    def end_capture(self) -> Graph:
        """What was recorded."""
        raise CudaError("this library records no graphs")

    def drop_capture(self) -> None:
        """End a capture that has failed: what it holds is of no use, and there is an error to report already."""
        try:
            self.end_capture()
        except CudaError:
            pass


class Cuda(abc.ABC):
    """One GPU. `capability` is (7, 2) for sm_72; `integrated`: it shares its memory with the host."""

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
    def pinned(self, nbytes: int) -> Memory:
        """Memory of the host that stays in place, so that copies need not wait; kernels can use it as well."""

    @abc.abstractmethod
    def free(self, memory: Memory) -> None:
        """Give memory back; nothing that is still to happen may use it."""

    @abc.abstractmethod
    def new_stream(self) -> Stream:
        """A stream that does not wait for any other one."""

    @abc.abstractmethod
    def compile(self, path: str, names: Sequence[str]) -> Dict[str, Kernel]:
        """The kernels of a `.cu` file, compiled for this GPU. Raises CudaError with the compiler's words."""

    @property
    def stream(self) -> Stream:
        """The stream of the calling thread: each worker has one of its own."""
        found: Optional[Stream] = getattr(self._thread, "stream", None)
        if found is None:
            self.enter()
            found = self._thread.stream = self.new_stream()
        return found


@lru_cache(maxsize=None)
def open_cuda() -> Cuda:
    """The GPU, through the library that is installed. Raises CudaError: none is there, or what to install."""
    missing = []
    for make in (_Bindings, _PyCuda):
        try:
            return make()
        except ImportError as error:
            missing.append("%s (%s)" % (make.library, error))
    raise CudaError(
        "no CUDA library for Python is installed: pip install cuda-python, or pycuda (%s); "
        "--twin runs this program without a GPU" % "; ".join(missing)
    )


def _no_gpu(reason: object) -> CudaError:
    return CudaError("no NVIDIA GPU can be used here (%s); --twin runs this program without one" % reason)


def include_folders(path: str) -> List[str]:
    """Where `#include` looks: beside the file, and where CUDA's own headers usually are."""
    folders = [os.path.dirname(os.path.abspath(path))]
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root and os.path.isdir(os.path.join(root, "include")):
            folders.append(os.path.join(root, "include"))
    return folders


# -- cuda-python -------------------------------------------------------------------------------------------------------
class _Bindings(Cuda):
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
            raise _no_gpu(error) from error
        except RuntimeError as error:  # the bindings find no driver at all
            raise _no_gpu("there is no NVIDIA driver") from error
        name = self.ask(driver.cuDeviceGetName(128, device))
        self.device = name.split(b"\0")[0].decode(errors="replace").strip()
        attribute = driver.CUdevice_attribute
        self.capability = (
            self.ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)),
            self.ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)),
        )
        self.integrated = bool(self.ask(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_INTEGRATED, device)))
        try:
            self._library: Optional[ctypes.CDLL] = ctypes.CDLL("libcuda.so.1")
        except OSError:
            self._library = None
        self._context = self.ask(driver.cuDevicePrimaryCtxRetain(device))
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

    def pinned(self, nbytes: int) -> Memory:
        # portable and mapped: every thread may use it, and kernels as well
        address = int(self.ask(self._driver.cuMemHostAlloc(max(1, nbytes), 0x01 | 0x02)))
        pointer = int(self.ask(self._driver.cuMemHostGetDevicePointer(address, 0)))
        memory = (ctypes.c_uint8 * max(1, nbytes)).from_address(address)
        return Memory(pointer, nbytes, np.ctypeslib.as_array(memory)[:nbytes])

    def free(self, memory: Memory) -> None:
        if memory.host is None:
            self.ask(self._driver.cuMemFree(memory.pointer))
        else:
            self.ask(self._driver.cuMemFreeHost(memory.host.ctypes.data))

    def new_stream(self) -> Stream:
        return _BindingsStream(self, self._driver)

    def compile(self, path: str, names: Sequence[str]) -> Dict[str, Kernel]:
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
                "%s does not compile\n%s" % (os.path.basename(path), log.decode(errors="replace").strip("\0 \n"))
            )
        size = nvrtc.nvrtcGetCUBINSize(program)[1]
        code = b" " * size
        nvrtc.nvrtcGetCUBIN(program, code)
        nvrtc.nvrtcDestroyProgram(program)
        module = self.ask(self._driver.cuModuleLoadData(code))
        return {n: Kernel(n, self.ask(self._driver.cuModuleGetFunction(module, n.encode()))) for n in names}


class _BindingsStream(Stream):
    def __init__(self, cuda: _Bindings, driver: Any) -> None:
        self._ask, self._driver, self._wait_outside = cuda.ask, driver, cuda.wait_outside
        self._cuda = cuda
        self._stream = cuda.ask(driver.cuStreamCreate(1))  # does not wait for the default stream
        self.handle = int(self._stream)

    def upload(self, target: int, array: np.ndarray) -> None:
        self._ask(self._driver.cuMemcpyHtoDAsync(target, array.ctypes.data, array.nbytes, self._stream))

    def download(self, array: np.ndarray, source: int) -> None:
        self._ask(self._driver.cuMemcpyDtoHAsync(array.ctypes.data, source, array.nbytes, self._stream))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._ask(self._driver.cuMemcpyDtoDAsync(target, source, nbytes, self._stream))

    def zero(self, target: int, nbytes: int) -> None:
        self._ask(self._driver.cuMemsetD8Async(target, 0, nbytes, self._stream))

    def launch(
        self,
        kernel: Kernel,
        grid: Tuple[int, int, int],
        block: Tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        with kernel.lock:
            if shared > kernel.shared:
                which = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._ask(self._driver.cuFuncSetAttribute(kernel.function, which, shared))
                kernel.shared = shared
        values = [np.array(a) for a in arguments]
        places = np.array([v.ctypes.data for v in values], np.uint64)
        self._ask(
            self._driver.cuLaunchKernel(
                kernel.function, *grid, *block, shared, self._stream, places.ctypes.data if len(places) else 0, 0
            )
        )

    def record(self) -> Event:
        event = self._ask(self._driver.cuEventCreate(0))
        self._ask(self._driver.cuEventRecord(event, self._stream))
        return _BindingsEvent(self._cuda, self._driver, event)

    def wait(self, event: Event) -> None:
        assert isinstance(event, _BindingsEvent)
        self._ask(self._driver.cuStreamWaitEvent(self._stream, event.event, 0))

    def synchronize(self) -> None:
        self._wait_outside("cuStreamSynchronize", self._stream)

    def begin_capture(self) -> bool:
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._ask(self._driver.cuStreamBeginCapture(self._stream, mode))
        return True

    def end_capture(self) -> Graph:
        graph = self._ask(self._driver.cuStreamEndCapture(self._stream))
        # before version 12 the shorter name takes other arguments
        instantiate = getattr(self._driver, "cuGraphInstantiateWithFlags", None) or self._driver.cuGraphInstantiate
        try:
            return _BindingsGraph(self._ask, self._driver, self._ask(instantiate(graph, 0)))
        finally:
            self._driver.cuGraphDestroy(graph)


class _BindingsEvent(Event):
    def __init__(self, cuda: _Bindings, driver: Any, event: Any) -> None:
        self._ask, self._driver, self.event = cuda.ask, driver, event
        self._wait_outside = cuda.wait_outside

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
        self._driver.cuEventDestroy(self.event)


class _BindingsGraph(Graph):
    def __init__(self, ask: Any, driver: Any, graph: Any) -> None:
        self._ask, self._driver, self._graph = ask, driver, graph

    def launch(self, stream: Any) -> None:
        self._ask(self._driver.cuGraphLaunch(self._graph, stream.handle))


# -- PyCUDA ------------------------------------------------------------------------------------------------------------
class _PyCuda(Cuda):
    """Through PyCUDA. Kernels are compiled by nvcc; there are no graphs."""

    library = "PyCUDA"

    def __init__(self) -> None:
        Cuda.__init__(self)
        import pycuda.driver as driver

        self._driver: Any = driver
        try:
            driver.init()
            device = driver.Device(0)
        except driver.Error as error:
            raise _no_gpu(error) from error
        self.device = device.name()
        self.capability = device.compute_capability()
        self.integrated = bool(device.get_attribute(driver.device_attribute.INTEGRATED))
        self._context = device.retain_primary_context()
        self.enter()
        atexit.register(self.leave)  # PyCUDA aborts a process whose main thread still has a context

    def enter(self) -> None:
        if not getattr(self._thread, "entered", False):
            self._context.push()
            self._thread.entered = True

    def leave(self) -> None:
        if getattr(self._thread, "entered", False):
            self._thread.entered = False
            self._driver.Context.pop()

    def memory(self, nbytes: int) -> Memory:
        with _told(self._driver):
            allocation = self._driver.mem_alloc(max(1, nbytes))
        memory = Memory(int(allocation), nbytes)
        memory.owner = allocation  # type: ignore[attr-defined]
        return memory

    def pinned(self, nbytes: int) -> Memory:
        with _told(self._driver):
            flags = self._driver.host_alloc_flags
            array = self._driver.pagelocked_empty(max(1, nbytes), np.uint8, mem_flags=flags.DEVICEMAP | flags.PORTABLE)
            return Memory(int(array.base.get_device_pointer()), nbytes, array[:nbytes])

    def free(self, memory: Memory) -> None:
        if memory.host is None:
            memory.owner.free()  # type: ignore[attr-defined]

    def new_stream(self) -> Stream:
        return _PyCudaStream(self._driver)

    def compile(self, path: str, names: Sequence[str]) -> Dict[str, Kernel]:
        from pycuda.compiler import compile as nvcc

        with open(path) as file:
            source = file.read()
        try:
            code = nvcc(
                source, no_extern_c=True, arch="sm_%d%d" % self.capability, options=["--std=c++14"],
                include_dirs=include_folders(path),
            )  # fmt: skip
        except self._driver.CompileError as error:
            raise CudaError("%s does not compile\n%s" % (os.path.basename(path), error)) from error
        with _told(self._driver):
            module = self._driver.module_from_buffer(code)
            return {n: Kernel(n, module.get_function(n)) for n in names}


class _told:
    """Errors of PyCUDA as CudaError."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self._driver.Error):
            raise CudaError(str(error)) from error


class _PyCudaStream(Stream):
    def __init__(self, driver: Any) -> None:
        self._driver = driver
        with _told(driver):
            self._stream = driver.Stream(1)
        self.handle = int(self._stream.handle)

    def upload(self, target: int, array: np.ndarray) -> None:
        with _told(self._driver):
            self._driver.memcpy_htod_async(target, array, self._stream)

    def download(self, array: np.ndarray, source: int) -> None:
        with _told(self._driver):
            self._driver.memcpy_dtoh_async(array, source, self._stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        with _told(self._driver):
            self._driver.memcpy_dtod_async(target, source, nbytes, self._stream)

    def zero(self, target: int, nbytes: int) -> None:
        with _told(self._driver):
            self._driver.memset_d8_async(target, 0, nbytes, self._stream)

    def launch(
        self,
        kernel: Kernel,
        grid: Tuple[int, int, int],
        block: Tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        with _told(self._driver):
            with kernel.lock:
                if shared > kernel.shared:
                    which = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    kernel.function.set_attribute(which, shared)
                    kernel.shared = shared
            kernel.function(*map(_packable, arguments), block=block, grid=grid, stream=self._stream, shared=shared)

    def record(self) -> Event:
        with _told(self._driver):
            event = self._driver.Event()
            event.record(self._stream)
        return _PyCudaEvent(self._driver, event)

    def wait(self, event: Event) -> None:
        assert isinstance(event, _PyCudaEvent)
        with _told(self._driver):
            self._stream.wait_for_event(event.event)

    def synchronize(self) -> None:
        with _told(self._driver):
            self._stream.synchronize()


def _packable(value: Any) -> Any:
    """PyCUDA knows neither truth values nor half precision: the same bytes as numbers."""
    if isinstance(value, np.bool_):
        return np.uint8(value)
    return value.view(np.uint16) if isinstance(value, np.float16) else value


class _PyCudaEvent(Event):
    def __init__(self, driver: Any, event: Any) -> None:
        self._driver, self.event = driver, event

    def done(self) -> bool:
        with _told(self._driver):
            return bool(self.event.query())
        raise AssertionError

    def synchronize(self) -> None:
        with _told(self._driver):
            self.event.synchronize()

    def since(self, earlier: Any) -> float:
        with _told(self._driver):
            return float(self.event.time_since(earlier.event))
        raise AssertionError
