"""Chains: firings of tasks in C that follow each other in a round, without Python in between.

In: such firings of a plan. Out: a function that fires them all. What only they pass to each other
lies in memory of the chain's own; what others made or read is an array, whose address is written
into a table at every round. The firings themselves are firings.c, which the build compiles; without
it there are no chains.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from types import FunctionType
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .channel import Stopped
from .code import C
from .graph import Task
from .plan import Block, Firing, Plan, Segment, name_of
from .tokens import Port

#: Arguments that a function may have beside its state and its parameters.
MOST_ARGUMENTS = 8
#: Nanoseconds after which a chain looks whether it should stop.
LOOK = 20_000_000
#: What a cache line needs: where the blocks of one port begin in the chain's own memory.
_ALIGNED = 64

#: A base (0: the chain's own memory) and an offset in bytes.
Place = Tuple[int, int]


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


class Base(NamedTuple):
    """A block that the chain shares with others; `made` by the chain, or given to it."""

    block: Block
    number: int
    made: bool


@lru_cache(maxsize=None)
def _has_library(home: str) -> bool:
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


def can_follow(task: Task) -> bool:
    """Can its firings be part of a chain?"""
    ports = task.inputs + task.outputs
    few = len(ports) <= MOST_ARGUMENTS and not any(p.window for p in ports)
    return type(task.code) is C and few and not task.live and _has_library(task.app.run.home)


class Chain:
    """Firings that follow each other. `last` says who reads a block last in the round."""

    def __init__(
        self, plan: Plan, firings: Sequence[Firing], last: Dict[str, int], sums: Sums
    ) -> None:
        self.firings = firings
        self.first, self._plan = firings[0].position, plan
        self._last, self._sums = last, sums
        self._places: Dict[Block, Place] = {}
        self.bases: List[Base] = []
        self._memory = np.zeros(self._lay_out() + _ALIGNED, np.uint8)
        for firing in firings:
            for block in [s[0] for take in firing.takes for s in take or ()]:
                if block not in self._places:
                    self._share(block, False)
        self._pieces: List[Tuple[int, ...]] = []
        self._arguments: List[Tuple[int, ...]] = []
        self._steps = [self._step(firing) for firing in firings]
        self._bases = np.zeros(1 + len(self.bases), np.int64)
        self._bases[0] = -(-self._memory.ctypes.data // _ALIGNED) * _ALIGNED
        #: The addresses of shared blocks go here, each at its number.
        self.addresses = self._bases.data

    # -- where things lie --------------------------------------------------------------------------
    def _lay_out(self) -> int:
        """Find a place for what the chain makes: blocks of one port lie side by side. How much
        memory that takes."""
        ports: Dict[Tuple[Task, int], List[Block]] = {}
        for firing in self.firings:
            for i in range(len(firing.task.outputs)):
                block = (firing.position, i, 0)
                if self._last.get(name_of(block), len(self._plan.firings)) < self.first + len(
                    self.firings
                ):
                    ports.setdefault((firing.task, i), []).append(block)
                else:
                    self._share(block, True)
        end = 0
        for blocks in ports.values():
            end = -(-end // _ALIGNED) * _ALIGNED
            for block in blocks:
                self._places[block] = (0, end)
                end += self._bytes(block)
        return end + self._reserve(end)

    def _reserve(self, end: int) -> int:
        """Room behind that, for inputs whose tokens have to be copied together."""
        self._copies = -(-end // _ALIGNED) * _ALIGNED
        most: List[int] = [
            sum(c for _, _, c, _ in take) * _token(p) for f in self.firings for p, take in _taken(f)
        ]
        return 2 * _ALIGNED + sum(-(-size // _ALIGNED) * _ALIGNED for size in most)

    def _share(self, block: Block, made: bool) -> None:
        self.bases.append(Base(block, 1 + len(self.bases), made))
        self._places[block] = (self.bases[-1].number, 0)

    def _bytes(self, block: Block) -> int:
        firing = self._plan.firings[block[0]]
        port = firing.task.outputs[block[1]]
        return port.rate(firing.offset) * _token(port)

    # -- what is done ------------------------------------------------------------------------------
    def _step(self, firing: Firing) -> Tuple[int, ...]:
        code, task = firing.task.code, firing.task
        assert isinstance(code, C)
        first_piece, first_argument = len(self._pieces), len(self._arguments)
        for port, take in _taken(firing):
            self._arguments.append((*self._gathered(take, _token(port)), 0))
        for i in range(len(task.outputs)):
            block = (firing.position, i, 0)
            self._arguments.append((*self._places[block], self._bytes(block)))
        pieces, arguments = len(self._pieces) - first_piece, len(self._arguments) - first_argument
        when = (firing.entry.stage, task.per_iteration, firing.offset)
        index = self._plan.tasks.index(task)
        return (
            *code.parts(),
            index,
            task.number,
            *when,
            first_piece,
            pieces,
            first_argument,
            arguments,
        )

    def _gathered(self, take: Sequence[Segment], token: int) -> Place:
        """Where a firing finds its tokens: as they lie, or copied together."""
        pieces = []
        for block, start, count, _ in take:
            base, offset = self._places[block]
            pieces.append((base, offset + start * token, count * token))
        if not pieces:
            return 0, 0
        follows = all(a[0] == b[0] == 0 and a[1] + a[2] == b[1] for a, b in zip(pieces, pieces[1:]))
        if follows:
            return pieces[0][:2]
        at = place = self._copies
        for base, offset, size in pieces:
            self._pieces.append((base, offset, 0, at, size))
            at += size
        self._copies = -(-at // _ALIGNED) * _ALIGNED
        return 0, place

    def caller(self) -> Callable[[int], int]:
        """A function of the round: how many firings it has done. Raises Stopped.

        If these are not all, the next one has failed: `why` says how. The function bears the number
        of the worker's line, which is what a crash leaves behind.
        """
        worker = self._plan.worker
        of_run = self._plan.tasks[0].app.run
        lines = of_run.cells.lines
        name = in_chain(next(i for i, line in enumerate(lines) if line is worker.line))
        tables = [
            np.array(t, np.int64)
            for t in (self._steps, self._pieces or [(0,)], self._arguments or [(0,)])
        ]
        line = ctypes.c_int64.from_buffer(worker.line)
        call = _Call(*[t.ctypes.data for t in tables], self._bases.ctypes.data, self._sums.address)
        call.line, call.count = ctypes.addressof(line), len(self.firings)
        self._call, self._kept = call, (tables, line)
        run: Callable[..., int] = _library(of_run.home)
        table, count = ctypes.addressof(call), len(self.firings)

        def fire(number: int) -> int:
            done = run(table, 0, number, LOOK)
            while 0 <= done < count:
                if of_run.stopping:
                    raise Stopped
                done = run(table, done, number, LOOK)
            return done if done >= 0 else -1 - done

        code = fire.__code__.replace(co_name=name)
        return FunctionType(code, fire.__globals__, name, fire.__defaults__, fire.__closure__)

    def why(self, done: int) -> Exception:
        """Why a firing has failed, or StopIteration."""
        code = self.firings[done].task.code
        assert isinstance(code, C)
        return code.failed(self._call.status)


def _taken(firing: Firing) -> List[Tuple[Port, Sequence[Segment]]]:
    """What a firing takes through each input."""
    return [(port, take or ()) for port, take in zip(firing.task.inputs, firing.takes)]


def _token(port: Port) -> int:
    """Bytes of a token."""
    return int(np.prod(port.shape, dtype=np.int64)) * port.dtype.itemsize
