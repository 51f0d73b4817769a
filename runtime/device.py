"""Tokens in the memory of a GPU, and the code that works on them there.

A firing only puts work into the stream of its worker and goes on; who needs a result waits for its
event. Between tasks on a device tokens stay where they are. At the border to the host they go
through pinned memory, and on a board whose GPU shares its memory with the host they do not move at
all.
"""

from __future__ import annotations

import abc
import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from .code import Code
from .cuda import Cuda, CudaError, DeviceEvent, DeviceStream, Memory
from .gpu import open_cuda
from .tokens import Pieces, Port, on_host

#: Pinned blocks per input that comes from the host: one is filled while another one is on its way.
STAGES = 2
#: Firings of a worker that a message names when one of them has failed.
MOST_NAMED = 4


class DeviceToken:
    """Memory with what one firing wrote to it. It goes back to its pool when nothing refers to it
    any more."""

    def __init__(self, pool: "MemoryPool", memory: Memory) -> None:
        self.pool, self.memory = pool, memory
        #: When it has been written, and in which stream; who wrote it, in words.
        self.ready: Optional[DeviceEvent] = None
        self.stream: Optional[DeviceStream] = None
        self.origin = ""
        #: When its readers on the device are done.
        self.read: List[DeviceEvent] = []
        #: The same for the host, where a task there reads it.
        self.mirror: Optional["DeviceToken"] = None

    def __del__(self) -> None:
        self.pool.give_back(
            self.memory, self.read + ([self.ready] if self.ready is not None else [])
        )


class MemoryPool:
    """Equal pieces of memory, used again and again. `pinned`: the host reads them."""

    def __init__(self, cuda: Cuda, nbytes: int, pinned: bool) -> None:
        self._cuda, self._nbytes, self._pinned = cuda, nbytes, pinned
        self._idle: Deque[Tuple[Memory, List[DeviceEvent]]] = deque()
        self._all: List[Memory] = []

    def take(self, stream: DeviceStream) -> DeviceToken:
        """A piece that whatever is put into the stream from now on may overwrite."""
        try:
            memory, users = self._idle.popleft()
        except IndexError:
            memory, users = (
                (self._cuda.pinned if self._pinned else self._cuda.memory)(self._nbytes),
                [],
            )
            self._all.append(memory)
        for event in users:
            stream.wait(event)
        return DeviceToken(self, memory)

    def give_back(self, memory: Memory, users: List[DeviceEvent]) -> None:
        """Memory that can be used again after these events."""
        self._idle.append((memory, users))

    def close(self) -> None:
        """Free everything that nothing refers to."""
        idle = {id(memory) for memory, _ in self._idle}
        for memory in self._all:
            if id(memory) in idle:
                self._cuda.free(memory)
        self._idle.clear()
        self._all = []


class DeviceArray:
    """What lies on a channel from a task on a device: shape and dtype of an array, and where it
    is."""

    def __init__(
        self, token: DeviceToken, shape: Tuple[int, ...], dtype: np.dtype, offset: int = 0
    ) -> None:
        self.token, self.shape, self.dtype, self.offset = token, tuple(shape), dtype, offset

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def pointer(self) -> int:
        """Where it begins, as kernels see it."""
        return self.token.memory.pointer + self.offset

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> "DeviceArray":
        """Tokens of a block, as channels take it apart: `[None]`, `[a:b]` and `[i, ...]`."""
        if key is None:
            return DeviceArray(self.token, (1,) + self.shape, self.dtype, self.offset)
        first = key if isinstance(key, slice) else key[0]
        size = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize
        if isinstance(first, slice):
            start, stop, _ = first.indices(self.shape[0])
            return DeviceArray(
                self.token, (stop - start,) + self.shape[1:], self.dtype, self.offset + start * size
            )
        return DeviceArray(self.token, self.shape[1:], self.dtype, self.offset + first * size)

    def host(self) -> np.ndarray:
        """The same for the host; waits until it is there. Read-only. Raises CudaError."""
        mirror = self.token if self.token.memory.host is not None else self.token.mirror
        if mirror is None:
            return self._fetched()
        _await(mirror)
        view: np.ndarray = np.asarray(_View(mirror, self.shape, self.dtype, self.offset))
        return view

    def _fetched(self) -> np.ndarray:
        """A copy, for who looks at tokens that are not meant for the host."""
        _await(self.token)
        cuda = open_cuda()
        array = np.empty(self.shape, self.dtype)
        if array.nbytes:
            stream = cuda.stream
            stream.download(array, self.pointer)
            self.token.read.append(stream.record())
            stream.synchronize()
        array.setflags(write=False)
        return array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.host() if dtype is None else self.host().astype(dtype)


class _View:
    """Lets an array refer to pinned memory, and the memory stay as long as the array does."""

    def __init__(
        self, token: DeviceToken, shape: Tuple[int, ...], dtype: np.dtype, offset: int
    ) -> None:
        self.token = token
        assert token.memory.host is not None
        address = token.memory.host.ctypes.data + offset
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (address, True),
            "version": 3,
        }


def _await(token: DeviceToken) -> None:
    if token.ready is not None:
        open_cuda().enter()
        try:
            token.ready.synchronize()
        except CudaError as error:
            raise CudaError("%s; %s" % (error, in_flight() or token.origin)) from error


# -- lanes -----------------------------------------------------------------------------------------
class Arena:
    """Memory for what code computes in between, shared by all that never runs at once: as large as
    any of it needs.

    That is the code of one worker, and of workers in other states: who joins does so before the
    first one uses it.
    """

    def __init__(self) -> None:
        #: Bytes of it, and what each of its users would have alone, in all.
        self.nbytes, self.apart = 0, 0
        self._memory: Optional[Memory] = None
        self._lock = threading.Lock()

    def join(self, codes: Iterable[Code]) -> None:
        """Have room for this code, too."""
        for code in {id(code): code for code in codes}.values():
            self.nbytes = max(self.nbytes, code.arena_bytes)
            self.apart += code.arena_bytes

    def memory(self, cuda: Cuda) -> Memory:
        """All of it."""
        with self._lock:
            if self._memory is None:
                self._memory = cuda.memory(self.nbytes)
            return self._memory

    def free(self) -> None:
        """Give it back."""
        if self._memory is not None:
            open_cuda().free(self._memory)
            self._memory = None


class DeviceWorker:
    """What belongs to one worker: its processor, the code that it fires, and what of it is not
    known to have ended."""

    def __init__(
        self, processor: str, codes: Sequence[Code], shared: Optional[Arena] = None
    ) -> None:
        self.processor = processor
        self.codes = [code for code in codes if code.device is not None]
        self.flying: Deque[Tuple["OnDevice", str, DeviceEvent, DeviceEvent]] = deque()
        self.shared = shared or Arena()
        if shared is None:
            self.shared.join(codes)

    def arena(self, cuda: Cuda) -> Memory:
        """Memory for what its code computes in between: as one firing follows the other, they can
        share it."""
        return self.shared.memory(cuda)

    def free(self) -> None:
        """Give the shared memory back."""
        self.shared.free()

    def land(self, wait: bool = False) -> None:
        """Note what has ended. Raises CudaError."""
        while self.flying:
            code, _, start, end = self.flying[0]
            if wait:
                end.synchronize()
            elif not end.done():
                return
            self.flying.popleft()
            code.landed(int(end.since(start) * 1e6))


_LANES: List[DeviceWorker] = []
_here = threading.local()


def begin_lane(processor: str, codes: Sequence[Code], shared: Optional[Arena] = None) -> None:
    """The calling thread is the worker of a processor that fires this code, and has joined the
    shared arena with it."""
    _here.lane = DeviceWorker(processor, codes, shared)
    _LANES.append(_here.lane)


def arenas(workers: Iterable[Tuple[str, Any, Sequence[Code]]]) -> List[Arena]:
    """For each worker, given its processor, its state and its code, the arena that it has.

    Workers of one state may run at once. States do not: the first worker of a processor that needs
    an arena has the same one as the first ones in other states, and so on.
    """
    made: Dict[Tuple[str, int], Arena] = {}
    count: Dict[Tuple[str, int], int] = {}
    found: List[Arena] = []
    for processor, state, codes in workers:
        needs = any(code.arena_bytes for code in codes)
        own = processor, id(state)
        number = count.get(own, 0) if needs else -1 - len(found)
        count[own] = count.get(own, 0) + needs
        found.append(made.setdefault((processor, number), Arena()))
        found[-1].join(codes)
    return found


def lane() -> DeviceWorker:
    """That of the calling thread."""
    found: Optional[DeviceWorker] = getattr(_here, "lane", None)
    if found is None:
        begin_lane("", [])
        found = _here.lane
    return found


def in_flight() -> str:
    """The firings that have been started and are not known to have ended, oldest first: one of them
    failed."""
    first = [origin for one in list(_LANES) for _, origin, _, _ in list(one.flying)[:MOST_NAMED]]
    if len(first) == 1:
        return "in %s" % first[0]
    return "in one of these (--strict tells in which): %s" % ", ".join(first) if first else ""


def settle() -> None:
    """Wait until the device has nothing left to do for the calling worker, whatever comes of it."""
    if getattr(_here, "lane", None) is not None and any(_here.lane.codes):
        try:
            open_cuda().stream.synchronize()
        except CudaError:
            pass  # it has been reported, or the program ends for another reason


def leave() -> None:
    """The calling worker does not use the device any more."""
    open_cuda().leave()


def end_lanes() -> None:
    """The program is over: give back what its workers shared, and forget what they had started."""
    for one in _LANES:
        one.free()
    _LANES.clear()


# -- code ------------------------------------------------------------------------------------------
class OnDevice(Code):
    """Code for a GPU or DLA. `twin` does the same on a CPU."""

    exact = False
    #: What addresses of inputs have to be multiples of, in bytes: kernels may read vectors.
    alignment = 16

    def __init__(self) -> None:
        self.name = ""
        #: Outputs that tasks on the host read; the program says it before it opens the code.
        self.mirrored: List[bool] = []
        #: Wait for every piece of work, so that a failure has one cause.
        self.strict = False
        #: Times of firings that have ended, in ns.
        self.spent: Deque[int] = deque()
        #: Gets each of these times.
        self.landed: Callable[[int], None] = self.spent.append
        self.inputs: Sequence[Port] = ()
        self.outputs: Sequence[Port] = ()
        self._pools: List[MemoryPool] = []
        self._mirrors: List[Optional[MemoryPool]] = []
        self._own = threading.local()
        self._memory: List[Memory] = []
        self._stagings: List[_Staging] = []

    def meet(self, task: Any, run: Any) -> None:
        self.name, self.strict = task.name, run.strict
        # states share it: all are reset before any is set
        self.mirrored = [False] * len(task.outputs)

    def read_on_host(self, output: int) -> None:
        self.mirrored[output] = True

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.cuda = cuda = open_cuda()
        cuda.enter()
        self.inputs, self.outputs = inputs, outputs
        shared = cuda.integrated
        for port, mirrored in zip(outputs, self.mirrored or [True] * len(outputs)):
            size = self._size(port)
            self._pools.append(MemoryPool(cuda, size, pinned=mirrored and shared))
            self._mirrors.append(
                MemoryPool(cuda, size, pinned=True) if mirrored and not shared else None
            )

    def zeros(self, port: Port, stream: DeviceStream) -> Memory:
        """Memory for what a firing reads or writes there, full of zeros."""
        memory = self.cuda.memory(self._size(port))
        stream.zero(memory.pointer, memory.nbytes)
        return memory

    def _size(self, port: Port) -> int:
        tokens = max(port.rates) if port.stacked else 1
        return tokens * self.batch * int(np.prod(port.shape, dtype=np.int64)) * port.dtype.itemsize

    def fire(self, inputs: Sequence[Any], firing: int) -> Any:
        try:
            return self._start(inputs, firing)
        except CudaError as error:
            words = in_flight()
            raise CudaError(
                "%s (%s)%s" % (error, self.words(), "; " + words if words else "")
            ) from error

    def _start(self, inputs: Sequence[Any], firing: int) -> Tuple[DeviceArray, ...]:
        stream, here = self.cuda.stream, lane()
        here.land()
        group = len(inputs[0]) if self.batch > 1 else 1
        sources = [self._arrived(k, value, group, stream) for k, value in enumerate(inputs)]
        tokens = [pool.take(stream) for pool in self._pools]
        origin = "%s at firing %d (%s)" % (self.name, firing, self.words())
        start = stream.record()
        self.run(stream, [s for s, _ in sources], [t.memory.pointer for t in tokens], firing)
        end = stream.record()
        here.flying.append((self, origin, start, end))
        for _, used in sources:
            for source in used:
                source.read.append(end)
        results = []
        for port, token, mirrors in zip(self.outputs, tokens, self._mirrors):
            token.ready, token.stream, token.origin = end, stream, origin
            shape = (group,) + port.shape if self.batch > 1 else port.block_shape(firing)
            array = DeviceArray(token, shape, port.dtype)
            self._mirror(array, mirrors, stream)
            results.append(array)
        if self.strict:
            stream.synchronize()
        return tuple(results)

    def _mirror(
        self, array: DeviceArray, mirrors: Optional[MemoryPool], stream: DeviceStream
    ) -> None:
        token = array.token
        if mirrors is not None:
            copy = mirrors.take(stream)
            assert copy.memory.host is not None
            if array.nbytes:
                stream.download(copy.memory.host[: array.nbytes], token.memory.pointer)
            copy.ready, copy.origin = stream.record(), token.origin
            token.read.append(copy.ready)
            token.mirror = copy

    def _arrived(
        self, k: int, value: Any, group: int, stream: DeviceStream
    ) -> Tuple[int, List[DeviceToken]]:
        """A pointer to an input, and the tokens that must not be overwritten before it has been
        read."""
        whole = self.batch == 1 or group == self.batch  # an engine reads all firings of a batch
        if isinstance(value, DeviceArray) and whole and value.pointer % self.alignment == 0:
            _follow(value.token, stream)
            return value.pointer, [value.token]
        staging: Dict[int, _Staging] = self._own.__dict__.setdefault("staging", {})
        if k not in staging:
            staging[k] = _Staging(self.cuda, self._size(self.inputs[k]))
            self._stagings.append(staging[k])
        return staging[k].take(value, stream)

    def prepare(self) -> None:
        """What the calling worker needs beside what all share: made before the program's clock
        starts."""

    def flush(self) -> None:
        """Wait until everything that the calling worker has started is over. Raises CudaError."""
        try:
            self.cuda.stream.synchronize()
            lane().land(wait=True)
        except CudaError as error:
            raise CudaError("%s; %s" % (error, in_flight())) from error

    def close(self) -> None:
        for pool in self._pools + [m for m in self._mirrors if m is not None]:
            pool.close()
        for memory in self._memory + [m for staging in self._stagings for m in staging.all]:
            self.cuda.free(memory)
        self._pools, self._mirrors, self._memory, self._stagings = [], [], [], []

    @abc.abstractmethod
    def words(self) -> str:
        """What it starts, for messages."""

    @abc.abstractmethod
    def run(
        self, stream: DeviceStream, inputs: Sequence[int], outputs: Sequence[int], firing: int
    ) -> None:
        """Put the work of a firing into the stream, given pointers. Raises CudaError."""


class Device:
    """What workers and the program need of a device; code that runs there refers to it
    (`Code.device`)."""

    begin_lane = staticmethod(begin_lane)
    arenas = staticmethod(arenas)
    in_flight = staticmethod(in_flight)
    settle = staticmethod(settle)
    leave = staticmethod(leave)
    end_lanes = staticmethod(end_lanes)


OnDevice.device = Device


def _follow(token: DeviceToken, stream: DeviceStream) -> None:
    """What is put into the stream from now on sees the token."""
    if token.stream is not stream and token.ready is not None:
        stream.wait(token.ready)


class _Staging:
    """Where an input from the host goes on its way, or several tokens come together. One worker
    uses it."""

    def __init__(self, cuda: Cuda, nbytes: int) -> None:
        self._cuda, self._nbytes = cuda, nbytes
        self._pinned = [cuda.pinned(nbytes) for _ in range(STAGES)]
        self._busy: List[Optional[DeviceToken]] = [None] * STAGES
        self._device: Optional[Memory] = None
        self.all: List[Memory] = list(self._pinned)
        self._next = 0

    def _on_device(self) -> Memory:
        if self._device is None:
            self._device = self._cuda.memory(self._nbytes)
            self.all.append(self._device)
        return self._device

    def take(self, value: Any, stream: DeviceStream) -> Tuple[int, List[DeviceToken]]:
        """The pointer to a value, and the tokens it is read from."""
        pieces = value.pieces if isinstance(value, Pieces) else [value]
        if all(isinstance(p, DeviceArray) for p in pieces):
            return self._gather(pieces, self._on_device(), stream)
        self._next = (self._next + 1) % STAGES
        memory, last = self._pinned[self._next], self._busy[self._next]
        if last is not None:  # what was read from it has to be over before it is overwritten
            for event in last.read:
                event.synchronize()
        array = on_host(value)
        target = memory.host[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(target, array)
        use = self._busy[self._next] = _Use()
        if self._cuda.integrated:
            return memory.pointer, [use]
        device = self._on_device()
        if array.nbytes:
            stream.upload(device.pointer, memory.host[: array.nbytes])
        return device.pointer, [use]

    def _gather(
        self, pieces: Sequence[DeviceArray], target: Memory, stream: DeviceStream
    ) -> Tuple[int, List[DeviceToken]]:
        offset = 0
        for piece in pieces:
            _follow(piece.token, stream)
            stream.copy(target.pointer + offset, piece.pointer, piece.nbytes)
            offset += piece.nbytes
        return target.pointer, [p.token for p in pieces]


class _Use(DeviceToken):
    """Stands for a use of pinned memory by a firing."""

    def __init__(self) -> None:
        self.read: List[DeviceEvent] = []

    def __del__(self) -> None:
        pass
