"""CUDA through PyCUDA, which many Jetson images carry. Kernels are compiled by nvcc; there are no
graphs."""

from __future__ import annotations

import atexit
import os
import warnings
from collections import deque
from typing import Any, Deque, Dict, Sequence, Tuple

import numpy as np

from .cuda import (
    WANTED,
    Cuda,
    CudaError,
    DeviceEvent,
    DeviceKernel,
    DeviceStream,
    Memory,
    PinnedMemory,
    include_folders,
    no_gpu,
)


class PyCuda(Cuda):
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
            raise no_gpu(error) from error
        self.device = device.name()
        self.capability = device.compute_capability()
        self.integrated = bool(device.get_attribute(driver.device_attribute.INTEGRATED))
        self._context = device.retain_primary_context()
        #: Events that nothing refers to any more, to be recorded again: a firing takes two.
        self.idle_events: Deque[Any] = deque()
        self.enter()
        # A stream lives as long as tokens of it, which workers hold that have left the context.
        warnings.filterwarnings("ignore", ".*out-of-thread context could not be cleaned up")
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

    def pinned(self, nbytes: int) -> PinnedMemory:
        with _told(self._driver):
            flags = self._driver.host_alloc_flags
            array = self._driver.pagelocked_empty(
                max(1, nbytes), np.uint8, mem_flags=flags.DEVICEMAP | flags.PORTABLE
            )
            return PinnedMemory(int(array.base.get_device_pointer()), nbytes, array[:nbytes])

    def free(self, memory: Memory) -> None:
        if memory.host is None:
            memory.owner.free()  # type: ignore[attr-defined]

    def new_stream(self) -> DeviceStream:
        if WANTED.urgency is not None:
            raise CudaError("PyCUDA gives streams no priorities: pip install cuda-python")
        return _Stream(self)

    def compile(self, path: str, names: Sequence[str]) -> Dict[str, DeviceKernel]:
        from pycuda.compiler import compile as nvcc

        with open(path) as file:
            source = file.read()
        try:
            code = nvcc(
                source,
                no_extern_c=True,
                arch="sm_%d%d" % self.capability,
                options=["--std=c++14"],
                include_dirs=include_folders(path),
            )
        except self._driver.CompileError as error:
            raise CudaError("%s does not compile\n%s" % (os.path.basename(path), error)) from error
        with _told(self._driver):
            module = self._driver.module_from_buffer(code)
            return {n: DeviceKernel(n, module.get_function(n)) for n in names}


class _told:
    """Errors of PyCUDA as CudaError."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self._driver.Error):
            raise CudaError(str(error)) from error


class _Stream(DeviceStream):
    def __init__(self, cuda: PyCuda) -> None:
        self._driver, self._idle = cuda._driver, cuda.idle_events
        with _told(self._driver):
            self._stream = self._driver.Stream(1)
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
        kernel: DeviceKernel,
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
            kernel.function(
                *map(_packable, arguments),
                block=block,
                grid=grid,
                stream=self._stream,
                shared=shared,
            )

    def record(self) -> DeviceEvent:
        with _told(self._driver):
            try:
                event = self._idle.pop()
            except IndexError:
                event = self._driver.Event()
            event.record(self._stream)
        return _Event(self._driver, event, self._idle)

    def wait(self, event: DeviceEvent) -> None:
        assert isinstance(event, _Event)
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


class _Event(DeviceEvent):
    def __init__(self, driver: Any, event: Any, idle: Deque[Any]) -> None:
        self._driver, self.event, self._idle = driver, event, idle

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

    def __del__(self) -> None:
        self._idle.append(self.event)
