"""What happens in a round: which tokens a firing takes, from which blocks and in how many pieces.

In: a worker. Out: its `Plan`, for rounds that are written out (rounds.py, chain.py). What resamples
inside the worker (resample.py) does nothing there: its readers take the tokens where they lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Dict, List, Optional, Tuple, Union

from .channel import Channel, LocalChannel
from .code import Code
from .graph import Fire, Task

if TYPE_CHECKING:
    from .worker import Worker

#: Rounds until channels have to look the same at their ends.
MOST_WARM = 64

#: A block of tokens: where in the round it is made (-1: initial tokens), by which output, and how
#: many rounds ago.
Block = Tuple[int, int, int]
#: What is left of a block on a channel: from which token on, how many there are, and whether it is
#: one token, no stack.
Segment = Tuple[Block, int, int, bool]
State = Dict[LocalChannel, List[Segment]]


class Firing:
    """One firing of a round; `offset` is its number in the iteration, `takes` what it gets through
    each input."""

    def __init__(self, position: int, number: int, entry: Fire, offset: int) -> None:
        self.position, self.number, self.entry, self.task, self.offset = (
            position,
            number,
            entry,
            entry.task,
            offset,
        )
        self.takes: List[Optional[List[Segment]]] = []

    @property
    def phase(self) -> int:
        return self.offset % self.task.phases

    @property
    def opens(self) -> bool:
        """Is it the first one of its entry?"""
        return self.offset == self.entry.first

    @property
    def closes_iteration(self) -> bool:
        return self.offset + 1 == self.task.per_iteration


class Passing:
    """A firing of what resamples, which has nothing to do: `takes` go on as they lie, several times
    or in part."""

    def __init__(self, entry: Fire, offset: int) -> None:
        self.entry, self.task, self.offset = entry, entry.task, offset
        self.takes: List[Segment] = []


class Plan:
    """The firings of a round and what lies on local channels between any two of them, when all
    stages are at work.

    `warm`: from which round on channels look the same at the end of each round. `sequence` has,
    beside the firings, what only passes tokens on; those have no position.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        #: What depends on lists (stretches.py); None without them.
        self.stretches: Any = None
        self._callers: Dict[Task, List[Callable[..., Any]]] = {}
        passing = {e.task for e in worker.order if _only_passes(e.task)}
        self._lay_out(passing)
        # Where tokens stay behind it, they are what it made before; and an order begins with
        # something to do.
        if any(self.start[c] for t in passing for c in _behind(t)) or isinstance(
            self.sequence[0], Passing
        ):
            self._lay_out(set())

    def _lay_out(self, passing: AbstractSet[Task]) -> None:
        """Number the firings, find the channels, and go through rounds until they look the same."""
        self.firings: List[Firing] = []
        self.sequence: List[Union[Firing, Passing]] = []
        for number, entry in enumerate(self.worker.order):
            for j in range(entry.times):
                if entry.task in passing:
                    self.sequence.append(Passing(entry, entry.first + j))
                    continue
                self.firings.append(Firing(len(self.firings), number, entry, entry.first + j))
                self.sequence.append(self.firings[-1])
        self.tasks = list(dict.fromkeys(f.task for f in self.sequence))
        channels: Dict[Channel, None] = {}
        for task in self.tasks:
            channels.update((c, None) for c in task.feeders if c is not None)
            for readers in task.readers:
                channels.update(dict.fromkeys(readers))
        self.local = [c for c in channels if isinstance(c, LocalChannel)]
        self.remote = [c for c in channels if not isinstance(c, LocalChannel)]
        self.warm, self.start = self._warmed_up()

    def _warmed_up(self) -> Tuple[int, State]:
        """From which round on local channels look the same at the end of each one, and how they
        look then."""
        deepest = max(entry.stage for entry in self.worker.order)
        state: State = {c: [((-1, 0, 0), 0, c.delay, False)] if c.delay else [] for c in self.local}
        for warm in range(MOST_WARM + 1):
            before, state = state, {c: list(s) for c, s in state.items()}
            for firing in self.sequence:
                if firing.entry.stage <= warm:
                    self._fire(firing, state)
            state = {c: [_older(segment) for segment in s] for c, s in state.items()}
            if warm >= deepest and state == before:
                return warm, state
        return MOST_WARM + 1, state

    def _fire(self, firing: Union[Firing, Passing], state: State) -> None:
        """Note what it takes, and what it leaves on the channels."""
        task = firing.task
        if isinstance(firing, Passing):
            (before,), (after,) = task.feeders, _behind(task)
            assert isinstance(before, LocalChannel)
            firing.takes = _take(state[before], task.inputs[0].rate(firing.offset))
            state[after] += _passed(task.code, firing.takes)
            return
        firing.takes = [
            _take(state[c], p.rate(firing.offset)) if isinstance(c, LocalChannel) else None
            for p, c in zip(task.inputs, task.feeders)
        ]
        for i, (port, channels) in enumerate(zip(task.outputs, task.readers)):
            count = port.rate(firing.offset)
            for channel in channels:
                if count and isinstance(channel, LocalChannel):
                    state[channel].append(((firing.position, i, 0), 0, count, not port.stacked))

    def callers(self, task: Task) -> List[Callable[..., Any]]:
        """A function for each phase of a task, where its code has such; else none."""
        if task not in self._callers:
            made = [task.code.caller(phase) for phase in range(task.phases)]
            self._callers[task] = [call for call in made if call is not None]
        return self._callers[task]

    def done(self) -> List[List[int]]:
        """For every position: how often each task has fired before it in the round."""
        counts = [0] * len(self.tasks)
        found = []
        for firing in self.sequence:
            if isinstance(firing, Firing):
                found.append(list(counts))
            counts[self.tasks.index(firing.task)] += 1
        return [*found, counts]

    def read(self) -> Optional[Dict[str, Any]]:
        """The blocks that lie on the channels, by variable; None where they do not look as they
        should."""
        found: Dict[str, Any] = {}
        for channel, segments in self.start.items():
            pieces = channel.pieces()
            if len(pieces) != len(segments):
                return None
            for (array, start), (block, first, count, single) in zip(pieces, segments):
                if (start < 0) != single or (
                    start >= 0 and (start, len(array) - start) != (first, count)
                ):
                    return None
                if found.setdefault(name_of(block), array) is not array:
                    return None
        return found

    def write(self, position: int, blocks: Dict[str, Any]) -> None:
        """Put on the channels what lies there before that firing."""
        state = {c: list(s) for c, s in self.start.items()}
        for firing in self.sequence[: self.sequence.index(self.firings[position])]:
            self._fire(firing, state)
        for channel, segments in state.items():
            pieces: List[Tuple[Any, int]] = []
            for segment in segments:
                block = blocks[name_of(segment[0])]
                if self.stretches is not None and self.stretches.depends(segment[0]):
                    pieces += self.stretches.pieces(segment, block)
                else:
                    pieces.append(_piece(block, segment))
            channel.replace(pieces, sum(count for _, _, count, _ in segments))


def _take(segments: List[Segment], count: int) -> List[Segment]:
    """The front of a channel, which is shortened."""
    taken: List[Segment] = []
    while count:
        block, start, there, single = segments[0]
        now = min(there, count)
        taken.append((block, start, now, single))
        count -= now
        if now == there:
            segments.pop(0)
        else:
            segments[0] = (block, start + now, there - now, single)
    return taken


def _only_passes(task: Task) -> bool:
    """Does it resample what comes from and goes to this worker?"""
    if task.code.passes_on is None or not isinstance(task.feeders[0], LocalChannel):
        return False
    channels = [c for readers in task.readers for c in readers]
    return len(channels) == 1 and isinstance(channels[0], LocalChannel) and channels[0].view is None


def _behind(task: Task) -> List[LocalChannel]:
    """Where the tokens of what only passes them on go."""
    return [c for readers in task.readers for c in readers if isinstance(c, LocalChannel)]


def _passed(code: Code, taken: List[Segment]) -> List[Segment]:
    """What goes on of the tokens that it takes."""
    assert code.passes_on is not None
    times, last = code.passes_on
    if last is None:
        return taken * times
    kept: List[Segment] = []
    left = last
    while left:
        block, start, count, single = taken[-1 - len(kept)]
        now = min(left, count)
        kept.append((block, start + count - now, now, single))
        left -= now
    return kept[::-1]


def _piece(array: Any, segment: Segment) -> Tuple[Any, int]:
    """A segment on a channel: to the end of an array."""
    _, start, count, single = segment
    if single:
        return array, -1
    return (array, start) if start + count == len(array) else (array[start : start + count], 0)


def _older(segment: Segment) -> Segment:
    (position, output, age), start, count, single = segment
    return (position, output, age + 1), start, count, single


def name_of(block: Block) -> str:
    position, output, age = block
    return "x%s_%d_%d" % ("i" if position < 0 else position, output, age)
