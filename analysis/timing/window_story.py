"""Where bounds by job windows come from, in terms.

In: a solved fixed point. Out: the terms of windows, and the windows that lead to the end of a job.
Terms add up to the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from .busy_window import Tally
from .by_windows import Met, WindowChain, WindowEnd, WindowSolver, rounds_apart
from .story import LastWindow, Story, WindowPath
from .terms import Kind, Term, filled
from .unfolding import JobWait


class WindowStory(Story):
    """Where the bounds of a cluster come from."""

    def __init__(self, solution: WindowSolver, number: int) -> None:
        super().__init__(solution, number)
        self.solution = solution
        self.jitter = self.cluster.jitter

    def window(self, j: int) -> LastWindow:
        """The window in which a job ends last."""
        _, note = self.solution.last_way(j)
        start = note.start - rounds_apart(self.cluster, note.rounds)
        return LastWindow(
            start,
            note.end - start,
            self.cause(note.first, note.start),
            tuple(self._window(j, note)),
        )

    def spread(self, j: int) -> int:
        """Between the earliest and the latest time at which a job has what it waits for."""
        job = self.net.jobs[j]
        if job.arrives is None:
            return 0
        return self.solution.arrival(j, self.cluster) - job.arrives

    def response(self, j: int) -> int:
        """From when a job has all it waits for to its end, at most."""
        earliest = self.earliest(self.net.jobs[j])
        return 0 if earliest is None else self.ends[j] - earliest

    def path(self, last: int, length: Fraction, first: int = 0) -> WindowPath:
        """From the end of a job in round `first` of the program or later backwards to a release,
        `length` ns in all."""
        names: list[str] = []
        terms: list[Term] = []
        seen: set[tuple[int, int]] = set()
        cause: JobWait | None = JobWait(last, 0, 0)
        while cause is not None and (cause.job, first) not in seen:
            here = cause.job
            seen.add((here, first))
            since, note = self.solution.last_way(here, first)
            names.append(self.name(here))
            terms[:0] = (*self.wakeup(note.first), *self._window(here, note))
            first = max(0, since - note.rounds)
            cause = self.cause(note.first, note.start, first)
            if cause is not None:
                first = max(0, first - cause.lag)
        return WindowPath(tuple(reversed(names)), filled(terms, length, self.name(note.first)))

    def _window(self, j: int, note: WindowEnd) -> Iterator[Term]:
        """What the window of a note is made of."""
        chain = self.solution.met(j, note)
        total = 0
        for term in (*self._own(j, note), *self._rivals(j, chain)):
            total += int(term.total * self.net.unit)
            yield term
        rest = chain.end - chain.start - total
        if rest:
            yield self.term("contention", self.pools([self.net.jobs[j].worker]), 1, rest)

    def _own(self, j: int, note: WindowEnd) -> Iterator[Term]:
        """The firings of the worker in a window, that of `j` last."""
        net = self.net
        lane, first = net.lanes[net.jobs[j].worker], net.jobs[note.first].place
        fired = lane.jobs * note.rounds + lane.jobs[: net.jobs[j].place + 1]
        times: Counter[int] = Counter()
        totals: dict[int, int] = {}
        tally = Tally()
        for number in fired[first:]:
            times[number] += 1
            more = tally.add(net.jobs[number].plain, net.jobs[number].curved, 1)
            totals[number] = totals.get(number, 0) + more
        for number, total in totals.items():
            kind: Kind = "own" if number == j else "earlier"
            if total:
                yield self.term(kind, self.name(number), times[number], total)

    def _rivals(self, j: int, chain: WindowChain) -> Iterator[Term]:
        """What rivals take from a window."""
        net = self.net
        rank = net.lanes[net.jobs[j].worker].rank
        for met in self.solution.worst(chain):
            lane = net.lanes[met.rival.lane]
            kind: Kind = "queue" if net.fifo[lane.processor] else "equal"
            if lane.rank > rank:
                kind = "higher"
            taken = self.solution.taken(chain, met)
            if taken == met.time:
                yield from self._met(kind, met)
            elif taken:  # fewer sub-tasks than would have come
                yield self.term("queue", self.groups(met.rival.lane), chain.parts, taken)

    def _met(self, kind: Kind, met: Met) -> Iterator[Term]:
        """The jobs of a rival, by task."""
        times: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        for h, time in met.counted or ():
            times[self.name(h)] += 1
            totals[self.name(h)] += time
        for name, total in totals.items():
            yield self.term(kind, name, times[name], total)
