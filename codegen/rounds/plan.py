"""What happens in a round: which tokens a firing takes, from which blocks and in how many pieces.

In: an order. Out: its `Plan`, once all stages are at work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...model.deployment import Entry
from ...runtime.plan import Block, Segment, State, at_start, fire, older, pass_on
from .order import Order, Task

#: Rounds until channels have to look the same at their ends.
MOST_WARM = 64

#: What a firing gets through one input; None: it comes from another worker.
Take = Sequence[Segment] | None


@dataclass(frozen=True, slots=True, eq=False)
class Firing:
    """One firing of a round, at this `position`; `offset` is its number in the iteration.

    What only passes tokens on has no position: it is where the firing behind it is.
    """

    position: int
    number: int
    entry: Entry
    task: Task
    offset: int
    passes: bool
    takes: tuple[Take, ...]

    @property
    def stage(self) -> int:
        """How many iterations it lags behind."""
        return self.entry.stage

    @property
    def phase(self) -> int:
        """Its place in the cycle of the task."""
        return self.offset % self.task.phases

    @property
    def opens_entry(self) -> bool:
        """Is it the first one of its entry?"""
        return self.offset == self.entry.first

    @property
    def closes_iteration(self) -> bool:
        """Is it the last one of its task in an iteration?"""
        return self.offset + 1 == self.task.firings

    @property
    def outputs(self) -> tuple[Block, ...]:
        """What it makes."""
        return tuple(Block(self.number, i, self.offset) for i in range(len(self.task.outputs)))


@dataclass(frozen=True)
class Plan:
    """The firings of a round, and those between them that only pass tokens on, in `sequence`.

    From round `warm` on, channels look at the end of each round as in `start`.
    """

    order: Order
    sequence: tuple[Firing, ...]
    firings: tuple[Firing, ...]
    warm: int
    start: Mapping[str, Sequence[Segment]]

    def made_by(self, block: Block) -> Firing:
        """The firing that makes a block."""
        return self._by_block[block.task, block.firing]

    @cached_property
    def _by_block(self) -> dict[tuple[int, int], Firing]:
        return {(f.number, f.offset): f for f in self.firings}

    @property
    def kept(self) -> set[Block]:
        """Blocks of which something lies on channels at the end of a round."""
        return {segment.block for segments in self.start.values() for segment in segments}

    @property
    def passing(self) -> set[int]:
        """The tasks that only pass tokens on, by their numbers."""
        return {firing.number for firing in self.sequence if firing.passes}

    @property
    def stages(self) -> list[int]:
        """All stages."""
        return sorted({firing.stage for firing in self.sequence})


def plan_of(order: Order) -> Plan | None:
    """The plan of an order; None if its channels never look the same."""
    passing = {k for k, task in enumerate(order.tasks) if _only_passes(order, task)}
    plan = _laid_out(order, passing)
    if passing and plan is not None:
        # Where tokens stay behind it, they are what it made before; and an order begins with
        # something to do.
        behind = [c for k in passing for readers in order.tasks[k].readers for c in readers]
        if any(plan.start[channel] for channel in behind) or plan.sequence[0].passes:
            plan = _laid_out(order, ())
    return plan


def _only_passes(order: Order, task: Task) -> bool:
    """Does it resample what comes from and goes to this worker?"""
    if task.passes_on is None or not order.is_inside(task.feeders[0]):
        return False
    channels = [channel for readers in task.readers for channel in readers]
    return len(channels) == 1 and order.is_inside(channels[0]) and not order.is_viewed(channels[0])


def _laid_out(order: Order, passing: Collection[int]) -> Plan | None:
    """Go through rounds until the channels look the same at their ends."""
    numbers = {task.name: k for k, task in enumerate(order.tasks)}
    steps = []
    for entry in order.entries:
        for offset in range(entry.first, entry.first + entry.times):
            steps.append((entry, numbers[entry.task], offset))
    deepest = max(entry.stage for entry in order.entries)
    state = at_start(order.delays)
    for warm in range(MOST_WARM + 1):
        before = {channel: list(segments) for channel, segments in state.items()}
        taken = [
            _step(state, order, number, offset, number in passing) if entry.stage <= warm else ()
            for entry, number, offset in steps
        ]
        state = {c: [older(segment) for segment in segments] for c, segments in state.items()}
        if warm >= deepest and state == before:
            return _plan(order, steps, taken, passing, warm, state)
    return None


def _step(state: State, order: Order, number: int, offset: int, passes: bool) -> tuple[Take, ...]:
    """What a firing takes, and leaves on the channels."""
    task = order.tasks[number]
    if passes:
        assert task.passes_on is not None
        return (pass_on(state, task, task.passes_on, offset),)
    return tuple(fire(state, number, task, offset))


def _plan(
    order: Order,
    steps: Sequence[tuple[Entry, int, int]],
    taken: Sequence[tuple[Take, ...]],
    passing: Collection[int],
    warm: int,
    start: State,
) -> Plan:
    sequence: list[Firing] = []
    firings: list[Firing] = []
    for (entry, number, offset), takes in zip(steps, taken, strict=True):
        passes = number in passing
        task = order.tasks[number]
        firing = Firing(len(firings), number, entry, task, offset, passes, takes)
        sequence.append(firing)
        if not passes:
            firings.append(firing)
    return Plan(order, tuple(sequence), tuple(firings), warm, start)
