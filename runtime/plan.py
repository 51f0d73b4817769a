"""What lies on the channels inside of a worker while its rounds are written out (rounds.py).

In: how many tokens firings take and make. Out: for every channel the segments of blocks on it, each
block with a name. The build goes through a round with it to write the rounds down, and a program to
put tokens back on channels when it leaves them. What resamples inside the worker (resample.py) does
nothing there: its readers take the tokens where they lie.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple


class Block(NamedTuple):
    """What a firing made through one output: the number of the task in the order, the output, the
    firing in its iteration, and how many rounds ago."""

    task: int
    output: int
    firing: int
    age: int = 0


class Segment(NamedTuple):
    """What is left of a block on a channel: from token `first` on, so many `tokens`. `single`: it
    is one token, no stack."""

    block: Block
    first: int
    tokens: int
    single: bool


#: By channel, its segments; what is not in it is no channel inside of the worker.
State = Dict[Any, List[Segment]]
#: How often each token goes on, or how many of the last ones; see `Code`.
PassesOn = Tuple[int, Optional[int]]
#: The number of initial tokens as a task: no task makes them.
INITIAL = -1


def at_start(delays: Mapping[Any, int]) -> State:
    """The initial tokens of channels."""
    return {
        channel: [Segment(Block(INITIAL, 0, 0), 0, delay, False)] if delay else []
        for channel, delay in delays.items()
    }


def fire(state: State, number: int, task: Any, firing: int) -> List[Optional[List[Segment]]]:
    """What a firing takes through each input (None: from another worker); it leaves on the channels
    what it makes."""
    takes = [
        take(state[channel], _rate(port, firing)) if channel in state else None
        for port, channel in zip(task.inputs, task.feeders)
    ]
    for i, (port, channels) in enumerate(zip(task.outputs, task.readers)):
        count = _rate(port, firing)
        for channel in channels:
            if count and channel in state:
                block = Block(number, i, firing)
                state[channel].append(Segment(block, 0, count, not port.stacked))
    return takes


def pass_on(state: State, task: Any, passes_on: PassesOn, firing: int) -> List[Segment]:
    """What a firing takes that only passes tokens on."""
    (port,), (before,) = task.inputs, task.feeders
    taken = take(state[before], _rate(port, firing))
    (behind,) = [channel for channels in task.readers for channel in channels]
    state[behind] += _passed(passes_on, taken)
    return taken


def take(segments: List[Segment], count: int) -> List[Segment]:
    """The front of a channel, which is shortened."""
    taken: List[Segment] = []
    while count:
        block, first, there, single = segments[0]
        now = min(there, count)
        taken.append(Segment(block, first, now, single))
        count -= now
        if now == there:
            segments.pop(0)
        else:
            segments[0] = Segment(block, first + now, there - now, single)
    return taken


def older(segment: Segment) -> Segment:
    """The same a round later."""
    block = segment.block
    return segment._replace(block=block._replace(age=block.age + 1))


def name_of(names: Sequence[Sequence[str]], block: Block) -> str:
    """The variable of a block; `names` are those of the outputs of each task."""
    name = "%s_%d" % (names[block.task][block.output], block.firing)
    return "%s_ago%d" % (name, block.age) if block.age else name


def _rate(port: Any, firing: int) -> int:
    rates: Sequence[int] = port.rates
    return rates[firing % len(rates)]


def _passed(passes_on: PassesOn, taken: List[Segment]) -> List[Segment]:
    """What goes on of the tokens that it takes."""
    times, last = passes_on
    if last is None:
        return taken * times
    kept: List[Segment] = []
    left = last
    while left:
        block, first, count, single = taken[-1 - len(kept)]
        now = min(left, count)
        kept.append(Segment(block, first + count - now, now, single))
        left -= now
    return kept[::-1]
