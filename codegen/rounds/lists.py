"""Which firings of written rounds take place only for tokens that are there.

In: the order or the plan of a worker whose app has lists. Out: for each firing between two lists
the list that it depends on, and the number of its token in it. In rounds a list lies as the tokens
that are there (in the runtime's `worker.py` null tokens lie behind them), and what fires for them
is left at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from ...runtime.plan import INITIAL, Block, Segment
from .order import Order, Task
from .plan import Firing, Plan


class Guard(NamedTuple):
    """A list, and the number of a token in it."""

    block: Block
    token: int


def stays_inside(order: Order) -> bool:
    """Do all tokens that may be missing stay with the worker of this order?"""
    tasks = order.app.tasks
    if any(task.requests for task in tasks) and not all(_is_plain(task) for task in tasks):
        return False
    between = _one_by_one(tasks)
    for task in order.tasks:
        inputs = zip(task.inputs, ((channel,) for channel in task.feeders), strict=True)
        outputs = zip(task.outputs, task.readers, strict=True)
        for port, channels in chain(inputs, outputs):
            may_be_missing = port.count or task.name in between
            if may_be_missing and not all(order.is_inside(channel) for channel in channels):
                return False
    return True


def _is_plain(task: Task) -> bool:
    """Does it take one token of a request at each firing, and make no list of its own?"""
    return all(not p.count and p.rates == (1,) for p in task.inputs) and all(
        not p.count or task.is_source for p in task.outputs
    )


def _one_by_one(tasks: Sequence[Task]) -> set[str]:
    """The tasks of an app that fire for each token that is there, by name."""
    readers = {
        channel: (task, port)
        for task in tasks
        for port, channel in zip(task.inputs, task.feeders, strict=True)
    }
    between: set[str] = set()
    left = [task for task in tasks if any(port.count for port in task.outputs)]
    while left:
        task = left.pop()
        for port, channels in zip(task.outputs, task.readers, strict=True):
            for channel in channels if port.count or task.name in between else ():
                reader, taken = readers[channel]
                if not taken.count and reader.name not in between:
                    between.add(reader.name)
                    left.append(reader)
    return between


class Guards:
    """The guard of each firing that may be left out, by its position."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.by_position: dict[int, Guard] = {}
        for firing in plan.firings:
            guard = next(self._of(firing), None)
            if guard is not None:
                self.by_position[firing.position] = guard

    @property
    def fit(self) -> bool:
        """Is every list read in the round that wrote it, and as a whole by those that read it?"""
        if any(self._origin(block, 0) for block in self._plan.kept):
            return False
        for firing in self._plan.firings:
            for port, take in zip(firing.task.inputs, firing.takes, strict=True):
                if port.count and not all(self._is_whole(segment) for segment in take or ()):
                    return False
        return True

    def most(self, block: Block) -> int:
        """The tokens that a list may have."""
        return self._plan.made_by(block).task.outputs[block.output].rates[0]

    def run(self, position: int) -> list[Firing]:
        """The firings from this one on that depend on the same list, each on the token of the one
        before or a later one."""
        found: list[Firing] = []
        block, token = self.by_position[position]
        for firing in self._plan.firings[position:]:
            guard = self.by_position.get(firing.position)
            if guard is None or guard.block != block or guard.token < token:
                break
            token = guard.token
            found.append(firing)
        return found

    def read(self, take: Sequence[Segment]) -> tuple[Block | None, list[int]]:
        """The list on which the pieces that a list reader takes depend (None: it takes the list
        itself), and how many of them there are for each length of it."""
        guards = [self._guard_of(segment.block) for segment in take]
        first = guards[0]
        if first is None:
            return None, []
        numbers = [guard.token for guard in guards if guard is not None]
        lengths = range(self.most(first.block) + 1)
        return first.block, [sum(number < length for number in numbers) for length in lengths]

    def _of(self, firing: Firing) -> Iterator[Guard]:
        for port, take in zip(firing.task.inputs, firing.takes, strict=True):
            if take and not port.count:
                guard = self._origin(take[0].block, take[0].first)
                if guard is not None:
                    yield guard

    def _guard_of(self, block: Block) -> Guard | None:
        if block.task == INITIAL:
            return None
        return self.by_position.get(self._plan.made_by(block).position)

    def _origin(self, block: Block, first: int) -> Guard | None:
        """The guard of a token; None for one that is always there."""
        if block.task == INITIAL:
            return None
        if self._plan.made_by(block).task.outputs[block.output].count:
            return Guard(block, first)
        return self._guard_of(block)

    def _is_whole(self, segment: Segment) -> bool:
        block, first, count, single = segment
        port = self._plan.made_by(block).task.outputs[block.output]
        return single or (first, count) == (0, port.rates[0])
