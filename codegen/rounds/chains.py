"""Chains: firings of tasks in C that follow each other in a round, without Python in between.

In: a plan, and the firings that may follow each other. Out: for each chain where its tokens lie:
what only its firings pass to each other in memory of its own, what others made or read in arrays,
whose addresses the round writes into a table. The program fires them (`runtime/chain.py`,
firings.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from ...model.deployment import DeployedPort
from ...model.types import DTYPES
from ...runtime.plan import Block
from .order import Task
from .plan import Firing, Plan, Take

#: Arguments that a function may have beside its state and its parameters.
MOST_ARGUMENTS = 8
#: What a cache line needs: where the blocks of one port begin in the chain's own memory.
_ALIGNED = 64


class Place(NamedTuple):
    """A base (0: the chain's own memory) and an offset in bytes."""

    base: int
    offset: int


class Base(NamedTuple):
    """A block that the chain shares with others; `made` by the chain, or given to it."""

    block: Block
    number: int
    made: bool


class Window(NamedTuple):
    """What a task with a window sees through an input: a base of its own, which all chains of the
    worker have."""

    base: int
    task: int
    input: int


class Piece(NamedTuple):
    """Bytes that are copied before a firing."""

    source: Place
    target: Place
    size: int


class Step(NamedTuple):
    """A firing: what is copied for it, and its arguments, each with so many bytes that are zeroed
    first."""

    firing: Firing
    pieces: tuple[Piece, ...]
    arguments: tuple[tuple[Place, int], ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Firings that follow each other, with `memory` bytes of their own."""

    memory: int
    bases: tuple[Base, ...]
    windows: tuple[Window, ...]
    steps: tuple[Step, ...]

    @property
    def firings(self) -> tuple[Firing, ...]:
        """Its firings."""
        return tuple(step.firing for step in self.steps)

    @property
    def first(self) -> Firing:
        """The first one."""
        return self.steps[0].firing

    @property
    def last(self) -> Firing:
        """The last one."""
        return self.steps[-1].firing


def can_follow(task: Task) -> bool:
    """Can its firings be part of a chain?"""
    return task.in_c and len(task.ports) <= MOST_ARGUMENTS and not task.live


def chain_of(plan: Plan, firings: Sequence[Firing], last: Mapping[Block, int]) -> Chain:
    """The chain of these firings. `last` says where in the round a block is read last, of those
    that are not needed behind the round."""
    return _Layout(plan, firings, last).chain()


class _Layout:
    """Where things lie."""

    def __init__(self, plan: Plan, firings: Sequence[Firing], last: Mapping[Block, int]) -> None:
        self._plan, self._firings, self._last = plan, firings, last
        self._places: dict[Block, Place] = {}
        self._bases: list[Base] = []
        self._windows: dict[tuple[int, int], Window] = {}
        self._end = 0

    def chain(self) -> Chain:
        self._place_outputs()
        for firing in self._firings:
            for take in firing.takes:
                for segment in take or ():
                    if segment.block not in self._places:
                        self._share(segment.block, made=False)
        steps = tuple(self._step(firing) for firing in self._firings)
        return Chain(self._end, tuple(self._bases), tuple(self._windows.values()), steps)

    def _place_outputs(self) -> None:
        """Blocks of one port that only the chain needs lie side by side; others see the rest."""
        behind = self._firings[-1].position + 1
        own: dict[tuple[int, int], list[Block]] = {}
        for firing in self._firings:
            for block in firing.outputs:
                if self._last.get(block, behind) < behind:
                    own.setdefault((block.task, block.output), []).append(block)
                else:
                    self._share(block, made=True)
        for blocks in own.values():
            self._align()
            for block in blocks:
                self._places[block] = Place(0, self._end)
                self._end += self._bytes(block)
        self._align()

    def _align(self) -> None:
        self._end = -(-self._end // _ALIGNED) * _ALIGNED

    def _new_base(self) -> int:
        return 1 + len(self._bases) + len(self._windows)

    def _share(self, block: Block, *, made: bool) -> None:
        self._bases.append(Base(block, self._new_base(), made))
        self._places[block] = Place(self._bases[-1].number, 0)

    def _bytes(self, block: Block) -> int:
        firing = self._plan.made_by(block)
        port = firing.task.outputs[block.output]
        return rate(port, firing.offset) * bytes_of_token(port)

    def _step(self, firing: Firing) -> Step:
        pieces: list[Piece] = []
        arguments: list[tuple[Place, int]] = []
        for i, (port, take) in enumerate(zip(firing.task.inputs, firing.takes, strict=True)):
            if port.window:
                place = self._shifted(firing, i, take, pieces)
            else:
                place = self._gathered(port, take, pieces)
            arguments.append((place, 0))
        arguments += [(self._places[block], self._bytes(block)) for block in firing.outputs]
        return Step(firing, tuple(pieces), tuple(arguments))

    def _found(self, port: DeployedPort, take: Take) -> list[tuple[Place, int]]:
        """Where the tokens lie that a firing takes, and how many bytes there."""
        token, found = bytes_of_token(port), []
        for block, first, count, _ in take or ():
            base, offset = self._places[block]
            found.append((Place(base, offset + first * token), count * token))
        return found

    def _gathered(self, port: DeployedPort, take: Take, pieces: list[Piece]) -> Place:
        """Where a firing finds its tokens: as they lie, or copied together."""
        found = self._found(port, take)
        if not found:
            return Place(0, 0)
        if _follow_each_other(found):
            return found[0][0]
        place = Place(0, self._end)
        for source, count in found:
            pieces.append(Piece(source, Place(0, self._end), count))
            self._end += count
        self._align()
        return place

    def _shifted(self, firing: Firing, i: int, take: Take, pieces: list[Piece]) -> Place:
        """The window of an input: what it sees moves to the front, and new tokens behind it."""
        port, key = firing.task.inputs[i], (firing.number, i)
        if key not in self._windows:
            self._windows[key] = Window(self._new_base(), firing.number, i)
        base, token = self._windows[key].base, bytes_of_token(port)
        taken = rate(port, firing.offset)
        stays = (port.window - taken) * token
        if taken and stays:
            pieces.append(Piece(Place(base, taken * token), Place(base, 0), stays))
        for source, count in self._found(port, take):
            pieces.append(Piece(source, Place(base, stays), count))
            stays += count
        return Place(base, 0)


def _follow_each_other(found: Sequence[tuple[Place, int]]) -> bool:
    """Do pieces lie one behind the other in the chain's own memory, or is there only one?"""
    for (place, count), (behind, _) in pairwise(found):
        if place.base or behind != Place(0, place.offset + count):
            return False
    return True


def rate(port: DeployedPort, firing: int) -> int:
    """Tokens of that firing."""
    return port.rates[firing % len(port.rates)]


def bytes_of_token(port: DeployedPort) -> int:
    """The size of one token."""
    return prod(port.shape) * DTYPES[port.dtype][1]
