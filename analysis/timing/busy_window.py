"""Busy windows: how long a run of firings on one processor can take while others want the processor
too.

In: the own work, and the event streams of all other workers on the processor. Out: the length of a
window, as the least fixed point of "work that has come so far". Where more is known of a task than
its worst case, its firings count as its workload curve says.

A window begins at a moment before which none of the counted work was pending, so that all of it
arrives in the window (Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary
deadlines", 1990; Richter, "Compositional scheduling analysis using standard event models", 2005).
At any time before its end the work that came is more than the time that passed, so the first length
at which that fails is a bound, whatever the processor chose among equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ...model.workload import WorkloadCurve

#: Longer than any time that is looked at.
EVER = 1 << 80


@dataclass(frozen=True, slots=True)
class EventStream:
    """Standard event model: one event per `period`, up to `jitter` late, at least `distance`
    apart.
    """

    period: Fraction
    jitter: Fraction = Fraction(0)
    distance: Fraction = Fraction(0)

    def most(self, length: Fraction) -> int:
        """Most events in a half-open window (eta plus)."""
        if length <= 0:
            return 0
        count = -(-(length + self.jitter) // self.period)
        if self.distance:
            count = min(count, -(-length // self.distance))
        return count

    def apart(self, events: int) -> Fraction:
        """Least time between the first and the last of some events (delta minus)."""
        if events < 2:
            return Fraction(0)
        gaps = events - 1
        return max(gaps * self.period - self.jitter, gaps * self.distance, Fraction(0))


#: A task (by a number of its own) with its curve, and how often it fires.
Curved = tuple[int, WorkloadCurve, int]


class Tally:
    """Adds up work of workers: firings of one task count together, as its curve says.

    What a worker runs in a window is a stretch of its sequence, so that the firings of a task in it
    follow each other.
    """

    __slots__ = ("_fired",)

    def __init__(self) -> None:
        self._fired: dict[int, int] = {}

    def add(self, plain: int, curved: tuple[Curved, ...], times: int) -> int:
        """What so many more of something take, on top of what was added before."""
        total = plain * times
        for task, curve, firings in curved:
            before = self._fired.get(task, 0)
            after = self._fired[task] = before + firings * times
            # A firing that takes no time still waits for its turn, and for simultaneous arrivals.
            total += max(curve.total(after) - curve.total(before), after - before)
        return total


def demanded(demands: Iterable[Demand], counts: Iterable[int]) -> int:
    """Time of all of them together, if each comes so often."""
    time, tally = 0, None
    for d, count in zip(demands, counts, strict=True):
        if d.curved:
            tally = tally or Tally()
            time += tally.add(d.plain, d.curved, count)
        else:
            time += d.plain * count
    return time


@dataclass(frozen=True, slots=True)
class Demand:
    """Work of one worker, of which job `first` begins: `cost` so often as events of its stream fall
    into a window.

    Counts are (window + `came`) // `spacing` for what can have come in a window, and with `ran` for
    what can have run in one that begins anywhere, so what came before and was late counts as well:
    both have the jitter in them, and spacing - 1 to round up. `per_round` of them are one round of
    the worker. One event is at hand at `ready` after the start of a round at the earliest, the
    others so many spacings from it.

    Several of them may take less than so many times the cost: `plain` always does, what is `curved`
    as its curves say. It has `parts` sub-tasks at least.
    """

    came: int
    ran: int
    spacing: int
    cost: int
    per_round: int
    first: int
    ready: int
    plain: int
    curved: tuple[Curved, ...] = ()
    parts: int = 0

    def shorter(self, less: int) -> Demand:
        """The same with sub-tasks that are shorter by so much. Curves stay: they are longer."""
        if not less or self.curved:
            return self
        saved = less * self.parts
        return replace(self, cost=self.cost - saved, plain=self.plain - saved)


#: What a worker without bound wants: all the time. On a FIFO processor it still has one sub-task in
#: the queue only.
ALWAYS = Demand(EVER, EVER, 1, 1, 1, -1, 0, 1)


@dataclass(frozen=True, slots=True)
class Queue:
    """A worker that shares the processor as an equal.

    On a FIFO processor a worker has one sub-task in the queue, so each own sub-task waits for one
    of its at most: `sums[n]` is the time of its n longest sub-tasks in a round. None where
    sub-tasks do not count.
    """

    lane: int
    demands: tuple[Demand, ...]
    sums: tuple[int, ...] | None

    def longest(self, count: int, rounds: int) -> int:
        """Time of the `count` longest among the sub-tasks of so many rounds."""
        assert self.sums is not None
        if not rounds:
            return 0
        each, left = divmod(count, rounds)
        if each >= len(self.sums) - 1:
            return self.sums[-1] * rounds
        return self.sums[each] * rounds + (self.sums[each + 1] - self.sums[each]) * left


@dataclass(frozen=True, slots=True)
class Loss:
    """Work takes over/under times as long while the processors of some other workers are busy."""

    over: int
    under: int
    demands: tuple[Demand, ...]

    def time(self, window: int) -> int:
        """What is lost at most in a window."""
        return self.lost(
            window, demanded(self.demands, [(window + d.ran) // d.spacing for d in self.demands])
        )

    def lost(self, window: int, busy: int) -> int:
        """What is lost in a window with so much work of others: work goes on at under/over of its
        speed meanwhile.
        """
        return -(-min(window, busy) * (self.over - self.under) // self.over)


@dataclass(frozen=True, slots=True)
class Rivals:
    """Who else wants the processor of a worker, and what slows it down; `all` are the demands of
    both kinds.

    Where sub-tasks are not interrupted, one of the `lower` ones may slip in before each: the times
    of the worker and of those above it include a `slip` for each sub-task.
    """

    higher: tuple[Demand, ...]
    queues: tuple[Queue, ...]
    losses: tuple[Loss, ...]
    all: tuple[Demand, ...]
    lower: tuple[Demand, ...] = ()
    slip: int = 0

    def spared(self, parts: int, window: int) -> int:
        """How much of the slips before so many own sub-tasks, and before those above, is more than
        all that can run below in a window."""
        for d in self.higher:
            if not d.curved:
                parts += (window + d.came) // d.spacing * d.parts
        below = demanded(self.lower, [(window + d.ran) // d.spacing for d in self.lower])
        return max(0, self.slip * parts - below)

    def slowed(self, work: int, window: int) -> int:
        """Time that the work of a window takes, contention included."""
        over, under, lost = 1, 1, 0
        for loss in self.losses:
            over *= loss.over
            under *= loss.under
            lost += loss.time(window)
        return min(work + lost, -(-work * over // under))


def level_window(own: int, rivals: Rivals, limit: int) -> int | None:
    """Longest time in which the processor serves `own` work and its rivals without a break; None
    beyond `limit`.
    """
    demands, losses = rivals.all, rivals.losses
    window = own or 1
    while True:
        work = own + _coming(demands, window)
        if rivals.slip:
            work -= rivals.spared(0, window)
        if losses:
            work = rivals.slowed(work, window)
        if work > limit:
            return None
        if work <= window:
            return work
        window = work


def served_window(
    own: int, parts: int, level: int, rivals: Rivals, limit: int, least: int = 0
) -> int | None:
    """Longest time from when `own` work (of `parts` sub-tasks) is ready to its end; None beyond
    `limit`.

    Higher priorities count from the start of their own busy window. Equals can have come since the
    start of the `level` window, in which own earlier work may have kept them waiting. `least` is a
    known lower bound of the answer.
    """
    higher, queues, losses = rivals.higher, rivals.queues, rivals.losses
    window = max(own, least, 1)
    while True:
        work = own + _coming(higher, window)
        for q in queues:
            work += queued(q, parts, level, window)
        if rivals.slip:
            work -= rivals.spared(parts, window)
        if losses:
            work = rivals.slowed(work, window)
        if work > limit:
            return None
        if work <= window:
            return work
        window = work


def _coming(demands: Sequence[Demand], window: int) -> int:
    """Work that can have come in a window."""
    return demanded(demands, [(window + d.came) // d.spacing for d in demands])


def queued(queue: Queue, parts: int, level: int, window: int) -> int:
    """Time that an equal takes from a window."""
    counts = (
        min((level + d.came) // d.spacing, (window + d.ran) // d.spacing) for d in queue.demands
    )
    return taken(queue, parts, counts)


def taken(queue: Queue, parts: int, counts: Iterable[int]) -> int:
    """Time that an equal takes from so many own sub-tasks, if each of its demands comes so
    often.
    """
    time = rounds = 0
    tally = None
    for d, count in zip(queue.demands, counts, strict=True):
        if d.curved:
            tally = tally or Tally()
            time += tally.add(d.plain, d.curved, count)
        else:
            time += d.plain * count
        whole = -(-count // d.per_round)
        if whole > rounds:
            rounds = whole
    return time if queue.sums is None else min(time, queue.longest(parts, rounds))


def sums_of(parts: Sequence[int]) -> tuple[int, ...]:
    """Running totals of times that are sorted from the longest."""
    totals = [0]
    for x in parts:
        totals.append(totals[-1] + x)
    return tuple(totals)
