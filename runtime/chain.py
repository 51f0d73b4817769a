"""Chains: firings of tasks in C that follow each other in a round, without Python in between.

In: tables of rounds.py: where the tokens of each firing lie. Out: a function that fires them all.
What only they pass to each other lies in memory of the chain's own; what others made or read is an
array, whose address is written into a table at every round. The firings themselves are firings.c,
which the build compiles; without it there are no chains.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from .channel import Stopped
from .code import C
from .graph import Task

if TYPE_CHECKING:
    from .worker import Worker

#: Nanoseconds after which a chain looks whether it should stop.
LOOK = 20_000_000
#: What a cache line needs: where the chain's own memory begins.
_ALIGNED = 64

#: The number of the task in the order, the firing in its iteration, the stage; what is copied
#: before (base and offset from where, base and offset to where, bytes); and of each argument the
#: base, the offset, and how many bytes are zeroed.
Step = Tuple[int, int, int, Sequence[Tuple[int, ...]], Sequence[Tuple[int, ...]]]


class _Call(ctypes.Structure):
    """The same as `chain` in firings.c."""

    _fields_ = [
        (n, ctypes.c_void_p) for n in ("steps", "pieces", "arguments", "bases", "sums", "line")
    ] + [(n, ctypes.c_int64) for n in ("count", "status")]


class Sums:
    """What the firings of a worker's chains took, by task; written in C."""

    def __init__(self, tasks: int) -> None:
        self._memory = np.zeros(tasks, [("busy", "i8"), ("longest", "i8"), ("squares", "f8")])
        self.address = self._memory.ctypes.data

    def take(self, task: int) -> Tuple[int, int, int]:
        """Busy time, sum of squares, and the longest since the last call; ns."""
        busy, longest, squares = self._memory[task].tolist()
        self._memory[task] = (0, 0, 0.0)
        return busy, int(squares), longest


class Windows:
    """What tasks with windows see, where chains have all of their firings: the tokens of each
    window, by task and input. Channels have it between two runs of rounds."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._seen: Dict[Tuple[int, int], np.ndarray] = {}

    def address(self, task: int, input: int) -> int:
        """Where the tokens of a window lie."""
        port = self._tasks[task].inputs[input]
        made = np.zeros((port.window,) + port.shape, port.dtype)
        return int(self._seen.setdefault((task, input), made).ctypes.data)

    def begin(self) -> None:
        """Take what channels have kept."""
        for seen, view, known in self._all():
            np.concatenate(view.kept, out=seen[known:])

    def end(self) -> None:
        """Leave to channels what they have to keep."""
        for seen, view, known in self._all():
            kept = seen[known:].copy()
            kept.setflags(write=False)
            view.kept = [kept]

    def _all(self) -> List[Tuple[np.ndarray, Any, int]]:
        """Of each window its tokens, whose view it is, and so many that no firing sees again."""
        found = []
        for (task, i), seen in self._seen.items():
            channel, port = self._tasks[task].feeders[i], self._tasks[task].inputs[i]
            assert channel is not None
            if min(port.rates) < port.window:
                found.append((seen, channel.view, min(port.rates)))
        return found


@lru_cache(maxsize=None)
def has_library(home: str) -> bool:
    """Is there what fires chains?"""
    try:
        _library(home)
    except OSError:
        return False
    return True


@lru_cache(maxsize=None)
def _library(home: str) -> Any:
    """The function that does a chain. Raises OSError."""
    run = ctypes.CDLL(os.path.join(home, "runtime", "firings.so")).flowc_chain
    run.restype = ctypes.c_int64
    run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
    return run


def in_chain(line: int) -> str:
    """How a call is named that fires tasks whose number is in that line of the shared cells."""
    return "chain of line %d" % line


class Chain:
    """Firings that follow each other, with so much `memory` of their own and so many blocks that
    are `shared` with others; of these, `windows` are (number, task, input)."""

    def __init__(
        self,
        worker: Worker,
        tasks: Sequence[Task],
        sums: Sums,
        seen: Windows,
        memory: int,
        shared: int,
        steps: Sequence[Step],
        windows: Sequence[Tuple[int, int, int]] = (),
    ) -> None:
        self._codes: List[C] = []
        self._pieces: List[Tuple[int, ...]] = []
        self._arguments: List[Tuple[int, ...]] = []
        self._steps = [self._step(tasks, step) for step in steps]
        self._memory = np.zeros(memory + _ALIGNED, np.uint8)
        self._bases = np.zeros(1 + shared, np.int64)
        self._bases[0] = -(-self._memory.ctypes.data // _ALIGNED) * _ALIGNED
        for number, task, i in windows:
            self._bases[number] = seen.address(task, i)
        #: The addresses of shared blocks go here, each at its number.
        self.addresses = self._bases.data
        #: A function of the round: how many firings it has done. Raises Stopped. If these are not
        #: all, the next one has failed: `why` says how.
        self.fire = self._caller(worker, tasks[0].app.run, sums)

    def _step(self, tasks: Sequence[Task], step: Step) -> Tuple[int, ...]:
        """What the function in C needs of a firing."""
        number, firing, stage, pieces, arguments = step
        task = tasks[number]
        assert isinstance(task.code, C)
        self._codes.append(task.code)
        first = len(self._pieces), len(self._arguments)
        self._pieces += pieces
        self._arguments += arguments
        when = stage, task.per_iteration, firing
        copies = first[0], len(pieces), first[1], len(arguments)
        return (*task.code.parts(), number, task.number, *when, *copies)

    def _caller(self, worker: Worker, run: Any, sums: Sums) -> Callable[[int], int]:
        """The function, which bears the number of the worker's line: that is what a crash leaves
        behind."""
        lines = run.cells.lines
        name = in_chain(next(i for i, line in enumerate(lines) if line is worker.line))
        tables = [
            np.array(table, np.int64)
            for table in (self._steps, self._pieces or [(0,)], self._arguments or [(0,)])
        ]
        line = ctypes.c_int64.from_buffer(worker.line)
        call = _Call(*[t.ctypes.data for t in tables], self._bases.ctypes.data, sums.address)
        call.line, call.count = ctypes.addressof(line), len(self._steps)
        self._call, self._kept = call, (tables, line)
        function: Callable[..., int] = _library(run.home)
        table, count = ctypes.addressof(call), len(self._steps)

        def fire(number: int) -> int:
            done = function(table, 0, number, LOOK)
            while 0 <= done < count:
                if run.stopping:
                    raise Stopped
                done = function(table, done, number, LOOK)
            return done if done >= 0 else -1 - done

        code = fire.__code__.replace(co_name=name)
        return FunctionType(code, fire.__globals__, name, fire.__defaults__, fire.__closure__)

    def why(self, done: int) -> Exception:
        """Why a firing has failed, or StopIteration."""
        return self._codes[done].failed(self._call.status)
