"""A GPU that is none: the face of `runtime/cuda.py`, executed on the CPU, as late as it may be.

What is put into a stream stays there until a thread waits for it, so that a program that forgets to
wait sees old bytes. Beside that each operation carries a vector clock: two uses of the same memory,
one of them writing, that neither the order of a stream, nor an event, nor a wait of the host puts
in order are a violation, whichever comes first today. Violations are collected as sentences; the
program goes on where a real GPU would.

Kernels are compiled by g++ with `cuda_shim.h` and really run.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import weakref
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from flowc.runtime.cuda import (
        Cuda,
        CudaError,
        DeviceEvent,
        DeviceGraph,
        DeviceKernel,
        DeviceStream,
        Memory,
        PinnedMemory,
        include_folders,
    )
else:
    # A generated program has its own copy of the runtime, called `runtime`: its exceptions are the
    # ones it catches.
    _face = sys.modules.get("runtime.cuda")
    if _face is None or _face.__name__ != "runtime.cuda":
        _face = importlib.import_module("flowc.runtime.cuda")
    Cuda, CudaError = _face.Cuda, _face.CudaError
    Memory, PinnedMemory = _face.Memory, _face.PinnedMemory
    DeviceEvent, DeviceGraph = _face.DeviceEvent, _face.DeviceGraph
    DeviceKernel, DeviceStream = _face.DeviceKernel, _face.DeviceStream
    include_folders = _face.include_folders

#: Bytes of freed memory, of memory that has just been allocated, and of the walls around it.
FREED, FRESH, WALL = 0xA5, 0xCD, 0x5C
WALL_BYTES = 512

#: How often a program may ask whether an event has happened before it does.
PATIENCE = 4

MEANING = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal memory access was encountered",
    "CUDA_ERROR_INVALID_CONTEXT": "invalid device context",
    "CUDA_ERROR_INVALID_VALUE": "invalid argument",
    "CUDA_ERROR_LAUNCH_FAILED": "unspecified launch failure",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "too many resources requested for launch",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned address",
    "CUDA_ERROR_NOT_FOUND": "named symbol not found",
    "CUDA_ERROR_NOT_READY": "device not ready",
    "CUDA_ERROR_OUT_OF_MEMORY": "out of memory",
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": "dependency created on uncaptured work in another stream",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "operation not permitted when stream is capturing",
}

#: Dynamic shared memory that a block can ask for, in KiB (CUDA C++ Programming Guide, table of
#: compute capabilities).
SHARED_KIB = {
    (5, 3): 48,
    (6, 2): 48,
    (7, 2): 96,
    (7, 5): 64,
    (8, 0): 163,
    (8, 6): 99,
    (8, 7): 163,
    (8, 9): 99,
}

Clock = dict[int, int]

_SERIAL = itertools.count(1)


def error(name: str) -> CudaError:
    """What the driver says, as `CudaPython.ask` words it."""
    return CudaError(f"{name}: {MEANING.get(name, 'unknown error')}")


def _learn(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count


class Access(NamedTuple):
    """A use of memory by an operation."""

    address: int
    nbytes: int
    write: bool


class Operation:
    """Something in a stream. `after`: what it waits for in other streams."""

    __slots__ = (
        "accesses",
        "action",
        "after",
        "clock",
        "count",
        "done",
        "name",
        "stream",
        "thread",
        "when",
        "words",
    )

    def __init__(
        self, name: str, words: str, accesses: Sequence[Access], action: Callable[[], None] | None
    ) -> None:
        self.name, self.words, self.accesses, self.action = name, words, accesses, action
        self.after: tuple[Operation, ...] = ()
        self.stream: LateStream | None = None
        self.count = 0
        self.clock: Clock = {}
        self.thread = ""
        self.done = False
        self.when = 0.0

    def known_to(self, clock: Clock) -> bool:
        """Does an operation with that clock come after this one?"""
        assert self.stream is not None
        return clock.get(self.stream.number, 0) >= self.count

    def __str__(self) -> str:
        return f"{self.words} (stream {self.stream.number if self.stream else '?'}, put by {self.thread})"


class Block:
    """An allocation: real memory between two walls. It is never used for anything else, even when
    it has been freed."""

    def __init__(self, number: int, nbytes: int, pinned: bool) -> None:
        self.number, self.nbytes, self.pinned = number, nbytes, pinned
        self._storage = np.full(nbytes + 3 * WALL_BYTES, WALL, np.uint8)
        start = -self._storage.ctypes.data % WALL_BYTES + WALL_BYTES
        self.bytes = self._storage[start : start + nbytes]
        self.bytes[:] = FRESH
        self._before = self._storage[start - WALL_BYTES : start]
        self._behind = self._storage[start + nbytes : start + nbytes + WALL_BYTES]
        self.address: int = self._storage.ctypes.data + start
        self.freed = False
        self._broken = False
        #: The latest operation of each kind: (stream, first byte, end, writes).
        self.uses: dict[tuple[int, int, int, bool], Operation] = {}
        #: Views that the host has of it: who, first byte, end.
        self.views: list[tuple[weakref.ref[Any], int, int, str]] = []
        self.written = False

    def __str__(self) -> str:
        return (
            f"{'pinned' if self.pinned else 'device'} memory #{self.number} ({self.nbytes} bytes)"
        )

    def wall_broken(self) -> bool:
        """Was something written beside it? Reported once."""
        if self._broken or ((self._before == WALL).all() and (self._behind == WALL).all()):
            return False
        self._broken = True
        return True


class PinnedArray(np.ndarray):
    """The host's side of pinned memory: tells the stand-in what numpy does to it, as far as it can
    see."""

    _cuda: StandIn | None = None

    def __array_finalize__(self, other: Any) -> None:
        self._cuda = getattr(other, "_cuda", None)

    def _tell(self, array: Any, write: bool) -> None:
        # What numpy makes of a view (a copy, a sum) has this type as well, but lies elsewhere.
        if isinstance(array, PinnedArray) and array._cuda is not None and array.nbytes:
            array._cuda.host_access(*_extent(array), write)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        flat = [x for a in arguments for x in (a if isinstance(a, list | tuple) else (a,))]
        written = flat[:1] if function is np.copyto else []
        for array in flat[len(written) :]:
            self._tell(array, False)
        for array in written:
            self._tell(array, True)
        return super().__array_function__(function, types, arguments, keywords)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **keywords: Any
    ) -> Any:
        for array in inputs:
            self._tell(array, False)
        for array in out:
            self._tell(array, True)
        plain = [np.asarray(x) if isinstance(x, PinnedArray) else x for x in inputs]
        if out:
            keywords["out"] = tuple(np.asarray(x) if isinstance(x, PinnedArray) else x for x in out)
        return getattr(ufunc, method)(*plain, **keywords)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tell(np.ndarray.__getitem__(self, key) if isinstance(key, slice) else self, True)
        super().__setitem__(key, value)


def _extent(array: np.ndarray) -> tuple[int, int]:
    """Address and length of the memory that an array covers."""
    if array.flags.c_contiguous:
        return array.ctypes.data, array.nbytes
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high - low


def _root(array: np.ndarray) -> Any:
    """The object that owns the bytes of an array."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found


class LateStream(DeviceStream):
    """Work that is put off."""

    def __init__(self, cuda: StandIn, number: int) -> None:
        self._cuda, self.number = cuda, number
        self.handle = 0x5000 + number * 16
        self.clock: Clock = {}
        self.count = 0
        self.waiting: deque[Operation] = deque()
        self.recording: list[Operation] | None = None

    def upload(self, target: int, array: np.ndarray) -> None:
        address, nbytes = _extent(array)
        cuda = self._cuda
        words = f"upload of {nbytes} bytes"
        cuda.check_host_array(array, words)
        accesses = [Access(target, nbytes, True)]
        if cuda.block_of(address) is not None:
            accesses.append(Access(address, nbytes, False))
        before = zlib.crc32(_bytes_at(address, nbytes))
        owner = [_root(array)]

        def action() -> None:
            cuda.check_owner(owner, words)
            if zlib.crc32(_bytes_at(address, nbytes)) != before:
                cuda.complain(
                    f"the host changed the source of {operation} before it had been copied"
                )
            ctypes.memmove(target, address, nbytes)

        operation = Operation("upload", words, accesses, action)
        cuda.put(self, operation)

    def download(self, array: np.ndarray, source: int) -> None:
        address, nbytes = _extent(array)
        cuda = self._cuda
        words = f"download of {nbytes} bytes"
        cuda.check_host_array(array, words)
        accesses = [Access(source, nbytes, False)]
        if cuda.block_of(address) is not None:
            accesses.append(Access(address, nbytes, True))
        owner = [_root(array)]

        def action() -> None:
            cuda.check_owner(owner, words)
            ctypes.memmove(address, source, nbytes)

        cuda.put(self, Operation("download", words, accesses, action))
        if self.recording is None and not cuda.in_use(address, nbytes):
            ctypes.memset(address, FREED, nbytes)  # who looks too early sees it

    def copy(self, target: int, source: int, nbytes: int) -> None:
        def action() -> None:
            ctypes.memmove(target, source, nbytes)

        accesses = [Access(target, nbytes, True), Access(source, nbytes, False)]
        self._cuda.put(self, Operation("copy", f"copy of {nbytes} bytes", accesses, action))

    def zero(self, target: int, nbytes: int) -> None:
        def action() -> None:
            ctypes.memset(target, 0, nbytes)

        self._cuda.put(
            self,
            Operation("zero", f"zeroing {nbytes} bytes", [Access(target, nbytes, True)], action),
        )

    def launch(
        self,
        kernel: DeviceKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        arguments: Sequence[Any],
    ) -> None:
        compiled = kernel.function
        assert isinstance(compiled, Compiled)
        operation = compiled.operation(self._cuda, grid, block, shared, arguments)
        self._cuda.put(self, operation)

    def record(self) -> DeviceEvent:
        self._cuda.check()
        operation = Operation("event", "an event", (), None)
        event = LateEvent(self._cuda, operation, self.recording is not None)
        self._cuda.put(self, operation)
        return event

    def wait(self, event: DeviceEvent) -> None:
        assert isinstance(event, LateEvent)
        operation = Operation("wait", "waiting for an event", (), None)
        if self.recording is not None and event.operation not in self.recording:
            raise error("CUDA_ERROR_STREAM_CAPTURE_ISOLATION")
        operation.after = (event.operation,)
        self._cuda.put(self, operation)

    def synchronize(self) -> None:
        if self.recording is not None:
            raise error("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
        self._cuda.synchronise(self)

    def begin_capture(self) -> bool:
        self._cuda.check()
        if not self._cuda.graphs:
            return False
        if self.recording is not None:
            raise error("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
        self.recording = []
        self._cuda.capturing(True)
        return True

    def end_capture(self) -> DeviceGraph:
        self._cuda.check()
        assert self.recording is not None, "nothing is being captured"
        recorded, self.recording = self.recording, None
        self._cuda.capturing(False)
        return LateGraph(self._cuda, recorded)


class LateEvent(DeviceEvent):
    """A point in a stream of the stand-in."""

    def __init__(self, cuda: StandIn, operation: Operation, captured: bool) -> None:
        self._cuda, self.operation, self._captured = cuda, operation, captured
        self._asked = 0

    def done(self) -> bool:
        self._check()
        self._asked += 1
        return self._cuda.query(self.operation, self._asked > PATIENCE)

    def synchronize(self) -> None:
        self._check()
        self._cuda.reach(self.operation)

    def since(self, earlier: Any) -> float:
        self._check()
        if not (self.operation.done and earlier.operation.done):
            raise error("CUDA_ERROR_NOT_READY")
        return float(max(0.0, 1e3 * (self.operation.when - earlier.operation.when)))

    def _check(self) -> None:
        if self._captured:
            raise error("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")


class LateGraph(DeviceGraph):
    """Recorded operations, put in one by one."""

    def __init__(self, cuda: StandIn, recorded: Sequence[Operation]) -> None:
        self._cuda, self._recorded = cuda, [o for o in recorded if o.name not in ("event", "wait")]

    def launch(self, stream: Any) -> None:
        self._cuda.graph_launches += 1
        for one in self._recorded:
            words = one.words if one.words.endswith("of a graph") else f"{one.words} of a graph"
            self._cuda.put(stream, Operation(one.name, words, one.accesses, one.action))


class _Failure(NamedTuple):
    kernel: str
    launch: int
    name: str
    at_once: bool


class StandIn(Cuda):
    """The GPU. `violations` says what the program did wrong, one sentence each.

    `capacity`: bytes that can be allocated. `graphs=False` stands for PyCUDA, which records none.
    """

    library = "stand-in"

    def __init__(
        self,
        integrated: bool = False,
        capability: tuple[int, int] = (8, 7),
        device: str = "Stand-in",
        capacity: int | None = None,
        graphs: bool = True,
    ) -> None:
        Cuda.__init__(self)
        #: Where threads keep what they know of this GPU.
        self.clock_name = f"_stand_in_clock_{next(_SERIAL)}"
        self.integrated, self.capability, self.device, self.capacity = (
            integrated,
            capability,
            device,
            capacity,
        )
        self.graphs = graphs
        self.violations: list[str] = []
        self.launches: dict[str, int] = {}
        self.graph_launches = 0
        self.executed = 0
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._blocks: list[Block] = []
        self._streams: dict[int, LateStream] = {}
        self._host = threading.local()
        self._everybody: Clock = {}
        self._broken: CudaError | None = None
        self._failures: list[_Failure] = []

    # -- the face ----------------------------------------------------------------------------------
    def enter(self) -> None:
        self.check(entered=True)
        self._host.entered = True

    def memory(self, nbytes: int) -> Memory:
        block = self._allocate(nbytes, pinned=False)
        return Memory(block.address, nbytes)

    def pinned(self, nbytes: int) -> PinnedMemory:
        block = self._allocate(nbytes, pinned=True)
        host = block.bytes.view(PinnedArray)
        host._cuda = self
        return PinnedMemory(block.address, nbytes, host)

    def _allocate(self, nbytes: int, pinned: bool) -> Block:
        self.check()
        if getattr(self._host, "captures", 0):
            raise error("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")
        with self._lock:
            used = sum(b.nbytes for b in self._blocks if not b.freed)
            if self.capacity is not None and used + nbytes > self.capacity:
                raise error("CUDA_ERROR_OUT_OF_MEMORY")
            block = Block(len(self._blocks) + 1, nbytes, pinned)
            place = bisect_right(self._starts, block.address)
            self._starts.insert(place, block.address)
            self._blocks.insert(place, block)
            return block

    def free(self, memory: Memory) -> None:
        self.check()
        with self._lock:
            block = self.block_of(memory.pointer)
            if block is None or block.address != memory.pointer:
                self.complain(f"{memory.pointer:#x} is freed, but was never allocated")
                raise error("CUDA_ERROR_INVALID_VALUE")
            if block.freed:
                self.complain(f"{block} is freed twice")
                raise error("CUDA_ERROR_INVALID_VALUE")
            for use in block.uses.values():
                if not use.known_to(self._everybody):
                    self.complain(f"{block} is freed while {use} may still be under way")
            for words in self._live_views(block, 0, block.nbytes):
                self.complain(f"{block} is freed while {words}")
            # What lies behind the free in time sees it; what was put in before is executed first if
            # it has to be.
            block.freed = True
            block.bytes[:] = FREED

    def new_stream(self) -> DeviceStream:
        self.check()
        with self._lock:
            stream = LateStream(self, len(self._streams) + 1)
            self._streams[stream.handle] = stream
            return stream

    def compile(self, path: str, names: Sequence[str]) -> dict[str, DeviceKernel]:
        self.check()
        library = _compiled(path, tuple(sorted(set(names))), self.capability)
        return {name: DeviceKernel(name, Compiled(name, *library)) for name in names}

    # -- failing on purpose ------------------------------------------------------------------------
    def fail(
        self,
        kernel: str,
        launch: int = 1,
        name: str = "CUDA_ERROR_ILLEGAL_ADDRESS",
        at_once: bool = False,
    ) -> None:
        """Let the n-th launch of a kernel (or engine) fail: when it is executed, or already when it
        is put in.

        As on a real GPU the first kind stays: from then on nothing works any more.
        """
        self._failures.append(_Failure(kernel, launch, name, at_once))

    # -- order -------------------------------------------------------------------------------------
    def put(self, stream: Any, operation: Operation) -> None:
        """Put an operation into a stream: also for other libraries, which know it by its handle."""
        self.check()
        if not isinstance(stream, LateStream):
            if stream not in self._streams:
                self.complain(f"{operation.words} is put into {stream!r}, which is no stream")
                raise error("CUDA_ERROR_INVALID_VALUE")
            stream = self._streams[stream]
        with self._lock:
            if stream.recording is not None:
                operation.thread = threading.current_thread().name
                for access in operation.accesses:
                    self._in_block(access, operation)
                stream.recording.append(operation)
                return
            self._count(operation)
            own = self._known()
            stream.count += 1
            clock = dict(stream.clock)
            _learn(clock, own)
            for earlier in operation.after:
                _learn(clock, earlier.clock)
            clock[stream.number] = stream.count
            stream.clock = operation.clock = clock
            operation.stream, operation.count = stream, stream.count
            operation.thread = threading.current_thread().name
            for access in operation.accesses:
                self._use(access, operation)
            stream.waiting.append(operation)

    def _count(self, operation: Operation) -> None:
        """Let it fail if it was chosen to."""
        if operation.name in ("event", "wait"):
            return
        count = self.launches[operation.name] = self.launches.get(operation.name, 0) + 1
        for failure in self._failures:
            if (failure.kernel, failure.launch) == (operation.name, count):
                if failure.at_once:
                    raise error(failure.name)

                def action(name: str = failure.name) -> None:
                    raise error(name)

                operation.action = action

    def _in_block(self, access: Access, operation: Operation) -> Block:
        block = self.block_of(access.address)
        if block is None:
            self.complain(
                f"{operation.words} uses {access.address:#x}, which is in no memory of the device"
            )
            raise error("CUDA_ERROR_INVALID_VALUE")
        if access.address + access.nbytes > block.address + block.nbytes:
            start = access.address - block.address
            self.complain(
                f"{operation.words} uses bytes {start} to {start + access.nbytes} of {block}"
            )
            raise error("CUDA_ERROR_INVALID_VALUE")
        if block.freed:
            self.complain(f"{operation.words} uses {block} after it has been freed")
        return block

    def _use(self, access: Access, operation: Operation) -> None:
        """Compare with everything that used the same bytes before."""
        if not access.nbytes:
            return
        block = self._in_block(access, operation)
        first = access.address - block.address
        end = first + access.nbytes
        assert operation.stream is not None
        for key, earlier in list(block.uses.items()):
            _, low, high, wrote = key
            if low >= end or high <= first or not (wrote or access.write) or earlier is operation:
                continue
            if not earlier.known_to(operation.clock):
                self.complain(
                    f"{operation} is not ordered behind {earlier}: both use bytes {max(low, first)} to "
                    f"{min(high, end)} of {block}, and {_who_writes(access.write, wrote)}"
                )
            if access.write and first <= low and high <= end:
                del block.uses[key]  # who comes after this write comes after that one as well
        if access.write:
            for words in self._live_views(block, first, end):
                self.complain(f"{operation} overwrites bytes of {block} while {words}")
            block.written = True
        elif not block.written and not block.pinned:
            self.complain(f"{operation} reads {block}, which was never written")
        block.uses[(operation.stream.number, first, end, access.write)] = operation

    def _live_views(self, block: Block, first: int, end: int) -> list[str]:
        block.views = [v for v in block.views if v[0]() is not None]
        return [words for _, low, high, words in block.views if low < end and high > first]

    def reach(self, operation: Operation) -> None:
        """Execute what has to happen before an operation, and the operation; the host knows of it
        then."""
        self.check()
        with self._lock:
            self._execute(operation)
            self._tell_host(operation.clock)

    def query(self, operation: Operation, insist: bool) -> bool:
        """Has it been executed? When asked often enough it is."""
        self.check()
        with self._lock:
            if insist:
                self._execute(operation)
            if operation.done:
                self._tell_host(operation.clock)
            return operation.done

    def synchronise(self, stream: LateStream) -> None:
        """Execute everything that a stream holds."""
        self.check()
        with self._lock:
            if stream.waiting:
                self._execute(stream.waiting[-1])
            self._tell_host(stream.clock)

    def known_to_host(self, operation: Operation) -> bool:
        """Does some thread know that an operation is over? After a failure all of them are."""
        return (
            self._broken is not None
            or operation.stream is None
            or operation.known_to(self._everybody)
        )

    def _tell_host(self, clock: Clock) -> None:
        _learn(self._known(), clock)
        _learn(self._everybody, clock)

    def _execute(self, wanted: Operation) -> None:
        goals = [wanted]
        while goals:
            goal = goals[-1]
            if goal.done:
                goals.pop()
                continue
            assert goal.stream is not None
            head = goal.stream.waiting[0]
            missing = [o for o in head.after if not o.done]
            if missing:
                goals += missing
                continue
            self._perform(head)
            goal.stream.waiting.popleft()

    def _perform(self, operation: Operation) -> None:
        try:
            for access in operation.accesses:
                block = self.block_of(access.address)
                if block is not None and block.freed:
                    self.complain(f"{operation} is executed after {block} has been freed")
            if operation.action is not None:
                operation.action()
        except CudaError as failed:
            self._broken = failed
            raise
        for access in operation.accesses:
            block = self.block_of(access.address)
            if block is not None and access.write and block.wall_broken():
                self.complain(f"{operation} writes beside {block}")
        operation.done, operation.when = True, time.perf_counter()
        operation.action, operation.after = None, ()
        self.executed += 1

    def check(self, entered: bool = False) -> None:
        """Raise what every call raises after a failure, or in a thread that has not entered."""
        if self._broken is not None:
            raise CudaError(str(self._broken))
        if not entered and not getattr(self._host, "entered", False):
            self.complain(
                f"{threading.current_thread().name} uses the GPU without having entered it"
            )
            raise error("CUDA_ERROR_INVALID_CONTEXT")

    def capturing(self, begins: bool) -> None:
        """The calling thread records a graph: it may not allocate."""
        self._host.captures = getattr(self._host, "captures", 0) + (1 if begins else -1)

    # -- the host ----------------------------------------------------------------------------------
    def _known(self) -> Clock:
        """What the calling thread knows to be over: what it has waited for, and what the
        thread that started it knew."""
        clock: Clock | None = getattr(self._host, "clock", None)
        if clock is None:
            clock = self._host.clock = threading.current_thread().__dict__.setdefault(
                self.clock_name, {}
            )
        return clock

    def host_access(self, address: int, nbytes: int, write: bool, words: str = "") -> None:
        """The host uses memory right now: what the device does to it has to be known to be over."""
        with self._lock:
            block = self.block_of(address)
            if block is None:
                return
            first, end, own = (
                address - block.address,
                address - block.address + nbytes,
                self._known(),
            )
            words = (
                words
                or f"the host ({threading.current_thread().name}) {'writes' if write else 'reads'}"
            )
            if block.freed:
                self.complain(f"{words} {block} after it has been freed")
            for (_, low, high, wrote), earlier in block.uses.items():
                if low < end and high > first and (wrote or write) and not earlier.known_to(own):
                    self.complain(f"{words} bytes of {block} without having waited for {earlier}")
            if write:
                for other in self._live_views(block, first, end):
                    self.complain(f"{words} bytes of {block} while {other}")

    def host_view(self, holder: Any, address: int, nbytes: int) -> None:
        """The host reads memory from now on, as long as `holder` lives."""
        self.host_access(address, nbytes, False)
        block = self.block_of(address)
        if block is not None and nbytes:
            words = f"the host ({threading.current_thread().name}) still reads them"
            first = address - block.address
            block.views.append((weakref.ref(holder), first, first + nbytes, words))

    def in_use(self, address: int, nbytes: int) -> bool:
        """Are there operations that have not been executed, but the latest one, on memory of the
        host?"""
        block = self.block_of(address)
        if block is None:
            return False
        first = address - block.address
        waiting = [
            o
            for (_, low, high, _), o in block.uses.items()
            if low < first + nbytes and high > first
        ]
        return len([o for o in waiting if not o.done]) > 1

    # -- memory ------------------------------------------------------------------------------------
    def block_of(self, address: int) -> Block | None:
        """The allocation that an address lies in, freed or not."""
        with self._lock:
            place = bisect_right(self._starts, address) - 1
            if place < 0:
                return None
            block = self._blocks[place]
            return block if address < block.address + max(1, block.nbytes) else None

    def view(self, address: int, dtype: Any, shape: Sequence[int]) -> np.ndarray:
        """Memory as an array, for what is executed on it."""
        block = self.block_of(address)
        assert block is not None
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        first = address - block.address
        found: np.ndarray = block.bytes[first : first + nbytes].view(dtype).reshape(tuple(shape))
        return found

    def peek(self, memory: Memory) -> bytes:
        """What lies there now, executed or not."""
        return _bytes_at(memory.pointer, memory.nbytes)

    def check_host_array(self, array: np.ndarray, words: str) -> None:
        """Arrays are copied as bytes from their first one on."""
        if not array.flags.c_contiguous:
            self.complain(f"the host array of {words} does not lie in one piece")

    def check_owner(self, owner: list[Any], words: str) -> None:
        """Does the program still hold an array that it gave to the stand-in?"""
        if isinstance(owner[0], np.ndarray) and sys.getrefcount(owner[0]) == 2:
            self.complain(f"the host array of {words} was dropped before it had been copied")

    @property
    def living(self) -> list[str]:
        """Memory that was not freed."""
        return [str(b) for b in self._blocks if not b.freed]

    def complain(self, sentence: str) -> None:
        """Note a violation, once."""
        if sentence not in self.violations:
            self.violations.append(sentence)


def _who_writes(later: bool, earlier: bool) -> str:
    return "both write" if later and earlier else f"the {'first' if later else 'second'} writes"


def _bytes_at(address: int, nbytes: int) -> bytes:
    return ctypes.string_at(address, nbytes)


# -- kernels ---------------------------------------------------------------------------------------
class Compiled:
    """A kernel as a function of a shared library."""

    def __init__(self, name: str, library: ctypes.CDLL, barriers: bool) -> None:
        self.name, self.barriers = name, barriers
        try:
            library[name]
        except AttributeError:
            # for example not declared as `extern "C"`
            raise error("CUDA_ERROR_NOT_FOUND") from None
        describe = library[f"flowc_signature_of_{name}"]
        describe.restype = ctypes.c_char_p
        words: list[str] = describe().decode().split()
        #: One for each parameter: r (pointer to constants), w (other pointers) or v (value), and
        #: its alignment or size.
        self.parameters = [(word[0], int(word[1:])) for word in words]
        self._launch = library[f"flowc_launch_{name}"]
        self._launch.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
        )

    def operation(
        self,
        cuda: StandIn,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Any],
    ) -> Operation:
        """A launch of it, checked as far as the driver would, and further."""
        words = f"kernel {self.name}"
        threads = int(np.prod(block, dtype=np.int64))
        most = SHARED_KIB.get(cuda.capability, 48) << 10
        fits = (
            threads <= 1024
            and max(block[0], block[1]) <= 1024
            and block[2] <= 64
            and max(grid[1:]) < 1 << 16
        )
        if min(*grid, *block) < 1 or not fits or shared > most:
            cuda.complain(
                f"{words} cannot have grid {tuple(grid)}, block {tuple(block)} and {shared} bytes shared"
            )
            raise error("CUDA_ERROR_INVALID_VALUE")
        if len(arguments) != len(self.parameters):
            cuda.complain(
                f"{words} has {len(self.parameters)} parameters, and is given {len(arguments)} arguments"
            )
            raise error("CUDA_ERROR_INVALID_VALUE")
        values = [np.array(a) for a in arguments]
        accesses, misaligned = [], False
        for number, ((kind, size), value) in enumerate(
            zip(self.parameters, values, strict=True), 1
        ):
            if value.nbytes != (size if kind == "v" else 8):
                cuda.complain(
                    f"argument {number} of {words} is {value.dtype} ({value.nbytes} bytes), its parameter has "
                    f"{size if kind == 'v' else 8}"
                )
                raise error("CUDA_ERROR_INVALID_VALUE")
            if kind != "v" and int(value):
                if int(value) % size:
                    cuda.complain(
                        f"argument {number} of {words} is {int(value):#x}, not aligned to {size}"
                    )
                    misaligned = True
                found = cuda.block_of(int(value))
                left = found.address + found.nbytes - int(value) if found is not None else 1
                accesses.append(Access(int(value), left, kind == "w"))
        places = (ctypes.c_void_p * max(1, len(values)))(*[v.ctypes.data for v in values])
        sizes = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)

        def action() -> None:
            if misaligned:
                raise error("CUDA_ERROR_MISALIGNED_ADDRESS")
            assert len(values) == len(arguments)  # `places` points into them
            if self._launch(places, *sizes, shared, self.barriers):
                cuda.complain(f"threads of a block of {words} wait at different __syncthreads")

        # A pointer to no memory at all is an error of the kernel, which comes late.
        wild = [a for a in accesses if cuda.block_of(a.address) is None]
        if wild:
            cuda.complain(
                f"{words} is given {wild[0].address:#x}, which is in no memory of the device"
            )
            accesses = [a for a in accesses if a not in wild]

            def action() -> None:
                raise error("CUDA_ERROR_ILLEGAL_ADDRESS")

        return Operation(self.name, words, accesses, action)


_SHARED = re.compile(
    r"extern\s+__shared__\s+((?:__align__\s*\([^)]*\)\s+)?)([\w:<>\s]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_BARRIERS = re.compile(r"\b__(?:syncthreads|syncwarp|shfl_\w+|ballot_sync|any_sync|all_sync)\b")
_FOLDER = Path(__file__).resolve().parent


_QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def _compiled(
    path: str, names: tuple[str, ...], capability: tuple[int, int]
) -> tuple[ctypes.CDLL, bool]:
    """The shared library of a `.cu` file, and whether threads of a block meet. Raises CudaError."""
    # CUDA's own headers are not for this compiler.
    folders = tuple(f for f in include_folders(path) if not f.endswith("/include"))
    texts = [Path(path).read_text()]
    for text in texts:
        found = [Path(folder, name) for name in _QUOTED.findall(text) for folder in folders]
        texts += [t for t in (f.read_text() for f in found if f.is_file()) if t not in texts]
    return _library(tuple(texts), os.path.basename(path), folders, names, capability)


@functools.cache
def _library(
    texts: tuple[str, ...],
    name: str,
    folders: tuple[str, ...],
    names: tuple[str, ...],
    capability: tuple[int, int],
) -> tuple[ctypes.CDLL, bool]:
    shim = (_FOLDER / "cuda_shim.h").read_text()
    body = _SHARED.sub(r"\2 *\3 = reinterpret_cast<\2 *>(flowc_dynamic_shared);", texts[0])
    source = [
        f"#define FLOWC_ARCH {capability[0]}{capability[1]}0",
        shim,
        f'#line 1 "{name}"',
        body,
        "",
    ]
    source += [f"FLOWC_KERNEL({n})" for n in names]
    whole = "\n".join(source)
    options = [
        "-x",
        "c++",
        "-std=c++14",
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        "-Wl,-Bsymbolic",
        "-ffp-contract=off",
    ]
    options += ["-isystem", str(_FOLDER / "include"), *(f"-I{f}" for f in folders)]
    digest = hashlib.sha256("\0".join([whole, *texts[1:], *options]).encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"flowc-stand-in-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{digest}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as place:
            made = Path(place) / "kernels.so"
            command = ["g++", *options, "-o", str(made), "-"]
            done = subprocess.run(
                command, input=whole, capture_output=True, text=True, check=False, timeout=600
            )
            if done.returncode:
                raise CudaError(f"{name} does not compile\n{done.stderr.strip()}")
            new = folder / f"{digest}.{os.getpid()}"
            new.write_bytes(made.read_bytes())  # from another file system, perhaps
            new.replace(library)
    return ctypes.CDLL(str(library)), any(_BARRIERS.search(t) for t in texts)


# -- in the place of the real one ------------------------------------------------------------------
def adopt(cuda: StandIn, package: str, replace: Callable[[Any, str, Any], None]) -> None:
    """Make a runtime (`flowc.runtime`, or the copy `runtime` of a generated program) use the
    stand-in.

    `replace` puts an attribute into its place, such as `setattr` or `monkeypatch.setattr`.
    """
    device = importlib.import_module(f"{package}.device")
    names = [n for n in list(sys.modules) if n == package or n.startswith(package + ".")]
    for name in names:
        module = sys.modules[name]
        if "open_cuda" in vars(module):
            replace(module, "open_cuda", lambda: cuda)
    view = getattr(device, "_View", None)
    if view is not None:
        replace(view, "__init__", _watching(cuda, view.__init__))
    pool = getattr(device, "MemoryPool", None)
    if pool is not None:
        replace(pool, "give_back", _noting(cuda, pool.give_back))
        replace(pool, "take", _recalling(cuda, pool.take))
    replace(threading.Thread, "start", _handing_on(cuda, threading.Thread.start))
    replace(threading.Thread, "join", _taking_over(cuda, threading.Thread.join))


def _watching(cuda: StandIn, original: Callable[..., None]) -> Callable[..., None]:
    """Arrays of the host that refer to pinned memory: it may not change as long as they live."""

    def init(self: Any, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        interface = self.__array_interface__
        nbytes = (
            int(np.prod(interface["shape"], dtype=np.int64))
            * np.dtype(interface["typestr"]).itemsize
        )
        cuda.host_view(self, interface["data"][0], nbytes)

    return init


def _noting(cuda: StandIn, original: Callable[..., None]) -> Callable[..., None]:
    """Who gives memory back has waited for some of its uses, and who takes it may rely on that."""

    def give_back(self: Any, memory: Memory, users: Any) -> None:
        _learn(memory.__dict__.setdefault(cuda.clock_name, {}), cuda._known())
        original(self, memory, users)

    return give_back


def _recalling(cuda: StandIn, original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Any, stream: Any) -> Any:
        token = original(self, stream)
        _learn(cuda._known(), token.memory.__dict__.get(cuda.clock_name, {}))
        return token

    return take


def _handing_on(cuda: StandIn, original: Callable[..., None]) -> Callable[..., None]:
    def start(self: threading.Thread) -> None:
        self.__dict__[cuda.clock_name] = dict(cuda._known())
        original(self)

    return start


def _taking_over(cuda: StandIn, original: Callable[..., None]) -> Callable[..., None]:
    def join(self: threading.Thread, timeout: float | None = None) -> None:
        original(self, timeout)
        if not self.is_alive():
            _learn(cuda._known(), self.__dict__.get(cuda.clock_name, {}))

    return join


def install(monkeypatch: Any, cuda: StandIn) -> StandIn:
    """Let `flowc.runtime` run on the stand-in for the rest of a test."""
    adopt(cuda, "flowc.runtime", monkeypatch.setattr)
    return cuda
