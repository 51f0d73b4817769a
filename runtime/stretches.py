"""Which firings of written rounds take place only for tokens that are there.

In: the plan of a worker whose order has lists. Out: for each firing between two lists the list that
it depends on, and the number of its token in it. In rounds a list lies as the tokens that are there
(in `worker.py` null tokens lie behind them), and what fires for them is left at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .channel import LocalChannel

if TYPE_CHECKING:
    from .graph import Fire, Task
    from .plan import Block, Firing, Plan, Segment

#: A list, and the number of a token in it.
Guard = Tuple["Block", int]


def stays(order: Sequence[Fire]) -> bool:
    """Do all tokens that may be missing stay with the worker of this order?"""
    app = order[0].task.app
    if app.requests and not all(_is_plain(task) for task in app.tasks):
        return False
    inside = _one_by_one(app.tasks)
    for task in {entry.task for entry in order}:
        for port, channel in zip(task.inputs, task.feeders):
            if (port.count or task in inside) and not isinstance(channel, LocalChannel):
                return False
        for port, readers in zip(task.outputs, task.readers):
            if port.count or task in inside:
                if not all(isinstance(channel, LocalChannel) for channel in readers):
                    return False
    return True


def _is_plain(task: Task) -> bool:
    """Does it take one token of a request at each firing, and make no list of its own?"""
    return all(not p.count and p.rates == (1,) for p in task.inputs) and all(
        not p.count or task.is_source for p in task.outputs
    )


def _one_by_one(tasks: Sequence[Task]) -> Set[Task]:
    """The tasks of an app that fire for each token that is there."""
    readers = {id(c): (t, p) for t in tasks for p, c in zip(t.inputs, t.feeders) if c is not None}
    inside: Set[Task] = set()
    left = [t for t in tasks if any(p.count for p in t.outputs)]
    while left:
        task = left.pop()
        for port, channels in zip(task.outputs, task.readers):
            for channel in channels if port.count or task in inside else ():
                reader, input = readers.get(id(channel), (None, None))
                if reader is None:  # it is on another machine
                    continue
                if input is not None and not input.count and reader not in inside:
                    inside.add(reader)
                    left.append(reader)
    return inside


class Stretches:
    """`guards` has the guard of each firing that may be left out, by its position."""

    def __init__(self, plan: Plan) -> None:
        self._firings = plan.firings
        self.guards: Dict[int, Guard] = {}
        for firing in plan.firings:
            guard = next(self._guards(firing), None)
            if guard is not None:
                self.guards[firing.position] = guard
        kept = {block for segments in plan.start.values() for block, *_ in segments}
        #: Is every list read in the round that wrote it, and as a whole by those that read it?
        self.fits = not any(self._origin(block, 0) for block in kept) and all(
            self._whole(segment)
            for firing in plan.firings
            for port, take in zip(firing.task.inputs, firing.takes)
            for segment in (take or () if port.count else ())
        )

    def _guards(self, firing: Firing) -> Iterator[Guard]:
        for port, take in zip(firing.task.inputs, firing.takes):
            if take and not port.count:
                block, start, _, _ = take[0]
                guard = self._origin(block, start)
                if guard is not None:
                    yield guard

    def _origin(self, block: Block, start: int) -> Optional[Guard]:
        """The guard of a token; None for one that is always there."""
        position, output, _ = block
        if position < 0:
            return None
        if self._firings[position].task.outputs[output].count:
            return block, start
        return self.guards.get(position)

    def _whole(self, segment: Segment) -> bool:
        block, start, count, single = segment
        port = self._firings[block[0]].task.outputs[block[1]]
        return single or (start, count) == (0, port.rate(0))

    def most(self, block: Block) -> int:
        """The tokens that a list may have."""
        return self._firings[block[0]].task.outputs[block[1]].rates[0]

    def run(self, position: int) -> List[Firing]:
        """The firings from this one on that depend on the same list, each on the token of the one
        before or a later one."""
        found: List[Firing] = []
        block, token = self.guards[position]
        for firing in self._firings[position:]:
            guard = self.guards.get(firing.position)
            if guard is None or guard[0] != block or guard[1] < token:
                break
            token = guard[1]
            found.append(firing)
        return found

    def read(self, take: Sequence[Segment]) -> Tuple[Optional[Block], List[int]]:
        """The list on which the pieces that a list reader takes depend (None: it takes the list
        itself), and how many of them there are for each length of it."""
        guards = [self.guards.get(block[0]) for block, *_ in take]
        first = guards[0]
        if first is None:
            return None, []
        numbers = [guard[1] for guard in guards if guard is not None]
        lengths = range(self.most(first[0]) + 1)
        return first[0], [sum(number < length for number in numbers) for length in lengths]

    def depends(self, block: Block) -> bool:
        """May some of its tokens not be there?"""
        return self._origin(block, 0) is not None

    def pieces(self, segment: Segment, tokens: Any) -> Iterator[Tuple[Any, int]]:
        """A segment as it lies on a channel for a worker, with null tokens for what is not there.
        `tokens` is what rounds have in its place."""
        block, start, count, single = segment
        guard = self._origin(block, start)
        assert guard is not None
        of_list: Any = self._firings[guard[0][0]].task.outputs[guard[0][1]]
        there = 0 if tokens is None else 1 if single else len(tokens[start : start + count])
        if there:
            yield (tokens, -1) if single else (tokens[start : start + there], 0)
        if there < count:
            yield of_list.null(count - there), 0
