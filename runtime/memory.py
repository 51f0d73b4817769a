"""Memory of networks on CPUs: one arena of ONNX Runtime for all sessions of a process, and what the
process takes.

By default each session has an arena of its own, which grows by powers of two and keeps all that its
first run took. Here all share one that grows by what is asked for. Before a program starts, each
network runs once, so that ONNX Runtime learns the pattern of its allocations, and gives back what
that took; then each runs once more, the one with the largest block first: the others find room in
it. Without such an arena (an old ONNX Runtime) all stays as it was.
"""

from __future__ import annotations

import ctypes
import platform
import weakref
from functools import lru_cache
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from .tokens import OPEN, Port

#: Outputs of so many bytes are written into memory of our own: in the arena they would keep its
#: blocks apart.
LARGE = 1 << 20
#: After a run with it, the arena gives back all that is not in use.
GIVE_BACK = ("memory.enable_memory_arena_shrinkage", "cpu:0")
#: As it is asked for, without a limit; what is left of a region is used if it has 256 bytes (0
#: makes 1.31 crash).
AS_REQUESTED = (0, 1, 4096, 256)

#: What the process had before its first network, and how many sessions share the arena.
_before: List[int] = []
_sessions: List[str] = []


@lru_cache(maxsize=None)
def has_arena() -> bool:
    """Register the arena, the first time; False where this ONNX Runtime has none to share."""
    import onnxruntime

    _before.append(_status("VmRSS"))
    try:
        kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        where = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
        onnxruntime.create_and_register_allocator(where, onnxruntime.OrtArenaCfg(*AS_REQUESTED))
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


def share(options: Any, path: str) -> None:
    """Let the session that gets these options use the common arena."""
    if has_arena():
        options.add_session_config_entry("session.use_env_allocators", "1")
    _sessions.append(path)


class Outputs:
    """The outputs of a session as new arrays: large ones in memory that is used again once nothing
    refers to it.

    Small ones come from the arena, unless all are to be our `own`; where several sessions share it
    they are copied, lest they lie where a large block has to fit.
    """

    def __init__(self, names: Sequence[str], ports: Sequence[Port], own: bool = False) -> None:
        self._names = list(names)
        self._ports = [(name, p.dtype, p.shape, _bytes(p)) for name, p in zip(names, ports)]
        fixed = all(n != OPEN for p in ports for n in p.shape) and len(set(names)) == len(ports)
        fixed &= not any(p.bounded for p in ports)
        #: Are they written into memory of our own?
        size = sum(size for *_, size in self._ports)
        self.large = bool(ports) and fixed and (own or size >= LARGE)
        self._free: Dict[str, List[bytearray]] = {name: [] for name in names}
        self._lent: Dict[int, Tuple[Any, str, bytearray]] = {}

    def of(
        self, session: Any, names: Sequence[str], arrays: Sequence[np.ndarray], options: Any = None
    ) -> List[Any]:
        """Run a session."""
        if not self.large:
            found: List[Any] = session.run(self._names, dict(zip(names, arrays)), options)
            if not crowded():
                return found
            return [a.copy() if isinstance(a, np.ndarray) else a for a in found]
        binding = session.io_binding()
        # it makes scalars arrays
        arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        for name, array in zip(names, arrays):
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        made = self.arrays()
        for (name, dtype, shape, _), array in zip(self._ports, made):
            binding.bind_output(name, "cpu", 0, dtype, shape, array.ctypes.data)
        session.run_with_iobinding(binding, options)
        return made

    def arrays(self) -> List[np.ndarray]:
        """An array for each output, with anything in it."""
        return [
            (
                self._array(name, dtype, size)
                if size >= LARGE
                else np.empty(size, np.uint8).view(dtype)
            ).reshape(shape)
            for name, dtype, shape, size in self._ports
        ]

    def forget(self) -> None:
        """Let go of the memory that waits to be used again."""
        self._free = {name: [] for name in self._free}

    def _array(self, name: str, dtype: np.dtype, size: int) -> np.ndarray:
        """An array of memory that comes back when the last view of it is gone."""
        free = self._free[name]
        try:
            memory = free.pop()
        except IndexError:
            memory = bytearray(size)
        array: np.ndarray = np.frombuffer(memory, dtype)
        known = weakref.ref(array, self._returned)
        self._lent[id(known)] = known, name, memory
        return array

    def _returned(self, known: Any) -> None:
        _, name, memory = self._lent.pop(id(known))
        self._free[name].append(memory)


def crowded() -> bool:
    """Do several sessions share the arena?"""
    return len(_sessions) > 1


def _bytes(port: Port) -> int:
    return int(np.prod(port.shape, dtype=np.int64)) * port.dtype.itemsize


Feeds = Dict[str, Tuple[Tuple[int, ...], np.dtype]]


class Rehearsal:
    """A run of a session on data of ones, before the program starts. `block`: bytes between its
    layers, as planned.

    Ones, not zeros: whole numbers may be divided by them. `feeds` are shapes and types by input.
    `outputs` should be memory of our own: one that lies in a region of the arena keeps it from
    being given back.
    """

    def __init__(self, session: Any, block: int, feeds: Feeds, outputs: Outputs) -> None:
        self.session, self.block, self._feeds, self._outputs = session, block, feeds, outputs

    def run(self, give_back: bool) -> None:
        """Once, with ones."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        if give_back:
            options.add_run_config_entry(*GIVE_BACK)
        try:
            arrays = [np.ones(shape, dtype) for shape, dtype in self._feeds.values()]
            self._outputs.of(self.session, list(self._feeds), arrays, options)
        except Exception:  # whatever is wrong with it, its first firing says so, and names the task
            pass
        self._outputs.forget()  # they are not needed, and the rehearsal would hold them


#: Types of ONNX Runtime by name that are not called as in numpy.
_TYPES = {"float": "float32", "double": "float64"}


def ports_of(tensors: Iterable[Any]) -> Optional[List[Port]]:
    """Inputs or outputs of a session as ports; None where one has no fixed shape or a type that
    numpy does not know."""
    found = []
    for tensor in tensors:
        name = tensor.type[len("tensor(") : -1]
        try:
            dtype = np.dtype(_TYPES.get(name, name)).name
        except TypeError:
            return None
        if not all(isinstance(n, int) for n in tensor.shape):
            return None
        found.append(Port(tensor.name, dtype, tuple(tensor.shape)))
    return found


class LoadedSession:
    """A session that knows the shapes of its border, with its outputs as `Outputs` has them."""

    def __init__(self, session: Any, own: bool = False) -> None:
        self._session = session
        self._inputs = ports_of(session.get_inputs())
        names = [t.name for t in session.get_outputs()]
        self._ports = ports_of(session.get_outputs()) or []
        self._outputs = Outputs(names, self._ports, own)
        self._names = names

    def run(self, feeds: Dict[str, np.ndarray], options: Any = None) -> Dict[str, Any]:
        """All outputs by name."""
        return dict(
            zip(
                self._names,
                self._outputs.of(self._session, list(feeds), list(feeds.values()), options),
            )
        )

    def rehearsals(self, block: int) -> List[Rehearsal]:
        """What to run before the program starts, if that can be told."""
        if self._inputs is None:
            return []
        feeds = {p.name: (p.shape, p.dtype) for p in self._inputs}
        return [Rehearsal(self._session, block, feeds, Outputs(self._names, self._ports, own=True))]


def rehearsed(runs: Iterable[Tuple[Any, Rehearsal]]) -> List[Tuple[Any, Callable[[], None]]]:
    """The steps of a rehearsal, each with whose it is: all learn, then all run, the largest block
    first."""
    once: Dict[int, Tuple[Any, Rehearsal]] = {}
    for owner, run in runs:
        once.setdefault(id(run.session), (owner, run))
    if not once or not has_arena():  # a program without networks needs no ONNX Runtime
        return []
    steps: List[Tuple[Any, Callable[[], None]]] = []
    for owner, run in once.values():
        steps.append((owner, lambda run=run: run.run(True)))  # type: ignore[misc]
    if steps:
        steps.append((steps[-1][0], trim))
    grown: List[Rehearsal] = []
    for owner, run in sorted(once.values(), key=lambda pair: -pair[1].block):
        steps.append((owner, lambda run=run: _hold(run, grown)))  # type: ignore[misc]
    if steps:
        steps.append((steps[-1][0], lambda: _settle([r for _, r in once.values()], grown)))
    return steps


def _hold(run: Rehearsal, grown: List[Rehearsal]) -> None:
    """Run once, and note whether the arena had to grow."""
    before = _heap()
    run.run(False)
    if _heap() - before > LARGE >> 4:
        grown.append(run)


def _settle(runs: Sequence[Rehearsal], grown: Sequence[Rehearsal]) -> None:
    """Plans are not exact: who comes later and has no room is larger than all before it, and should
    have come first."""
    if len(grown) > 1:
        grown[-1].run(True)
        grown[-1].run(False)
        for run in runs:
            run.run(False)


class _Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "a b c d mapped f g used i j".split()]


@lru_cache(maxsize=None)
def _counter() -> Any:
    """malloc's own count, where it is glibc's of 2021 or later; else None."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    count.restype = _Heap
    return count


def _heap() -> int:
    """Bytes that malloc has given out; 0 where that is not counted."""
    count = _counter()
    if count is None:
        return 0
    found = count()
    return int(found.used + found.mapped)


def trim() -> None:
    """Give back what malloc keeps of models that were read, where it is glibc's."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def taken() -> Optional[Dict[str, Optional[int]]]:
    """Bytes that this process had at most, has now, and had before its first network; None:
    unknown.

    Of pages that it shares with other processes, `proportional` has its part only (PSS).
    """
    now, most = _status("VmRSS"), _status("VmHWM")
    if not most:
        return None
    # Linux counts in batches: the mark may lag behind.
    before = _before[0] if _before else None
    part = _status("Pss", "smaps_rollup") or None
    return {
        "process": max(most, now),
        "resident": now,
        "proportional": part,
        "before_networks": before,
    }


def _status(field: str, file: str = "status") -> int:
    try:
        with open("/proc/self/" + file) as stream:
            for line in stream:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
