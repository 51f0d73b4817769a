"""Where bounds by event streams come from, in terms.

In: a solved fixed point. Out: the terms of windows, and the windows that lead to the end of a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from .busy_window import ALWAYS, EventStream, Rivals, Tally, queued
from .by_streams import JobEnd, StreamSolver
from .story import LastWindow, Story, WindowPath
from .terms import Kind, Term, filled
from .unfolding import Job, JobWait
from .whole_paths import PathShare, path_shares


class StreamStory(Story):
    """Where the bounds of a cluster come from."""

    def __init__(self, solution: StreamSolver, number: int) -> None:
        super().__init__(solution, number)
        self.solution = solution
        self.jitter = self.cluster.jitter
        self.rivals = solution.rivals(number)
        self.ways = solution.from_round(number, 0).ways

    def window(self, j: int) -> LastWindow:
        """The window in which a job ends last."""
        _, note = self.solution.last_way(j)
        return LastWindow(
            note.start - note.shift,
            note.window,
            self.cause(note.first, note.start),
            tuple(self._terms(j, note)),
            note.end > self.ends[j],
        )

    def path(self, last: int, length: Fraction, first: int = 0) -> WindowPath:
        """From the end of a job in round `first` of the program or later backwards to a release,
        `length` ns in all."""
        names: list[str] = []
        terms: list[Term] = []
        whole = False
        seen: set[tuple[int, int]] = set()
        cause: JobWait | None = JobWait(last, 0, 0)
        while cause is not None and (cause.job, first) not in seen:
            here = cause.job
            seen.add((here, first))
            names.append(self.name(here))
            since, note = self.solution.last_way(here, first)
            if not whole:
                whole = note.end > self.ends[here]
                began = self.wakeup(note.first)
                terms[:0] = self._shares(here) if whole else (*began, *self._terms(here, note))
            first = max(0, since - note.rounds)
            cause = self.cause(note.first, note.start, first)
            if cause is not None:
                first = max(0, first - cause.lag)
        return WindowPath(tuple(reversed(names)), filled(terms, length, names[-1]))

    def _shares(self, j: int) -> Iterator[Term]:
        """The terms of a bound over the whole path."""
        solution = self.solution
        stretches = solution.stretches(self.cluster, self.rivals)
        for x in path_shares(self.net, self.cluster, self.rivals, stretches, j):
            if x.total:
                yield self.term(x.kind, self._who(x), x.times, x.total)

    def _who(self, share: PathShare) -> str:
        """What takes a share: a task, the groups of a worker, or pools."""
        if share.job >= 0:
            return self.name(share.job)
        if share.lane >= 0:
            return self.groups(share.lane)
        return self.pools(self.cluster.lanes)

    def spread(self, j: int) -> int:
        job = self.net.jobs[j]
        if job.arrives is None:
            return self.solution.arrivals[j] - job.ready
        return self.solution.arrival(j, self.cluster) - job.arrives

    def response(self, j: int) -> int:
        """From when a job has all it waits for to its end.

        The end less the earliest arrival is always right. It is less where the worker surely waits
        for what the job waits for, and where that is the end of an earlier job in the same worker,
        with no other waiting in between.
        """
        net, job = self.net, self.net.jobs[j]
        lane = net.lanes[job.worker]
        earliest = self.earliest(job)
        if earliest is None:
            return 0
        inside = [net.jobs[w.job].place for w in job.same if w.lag == 0]
        rest = lane.jobs[max(inside, default=job.place - 1) + 1 : job.place + 1]
        direct = bool(inside) and all(net.jobs[o].arrives is None for o in rest[:-1])
        alone = all(o == j or net.jobs[o].arrives is None for o in lane.jobs)
        longest = 0
        for note in self.ways[j]:
            if direct and (note.rounds or net.jobs[note.first].place <= max(inside)):
                time = self.solution.stretch(rest, self.rivals[job.worker]).window
            elif note.first == j and job.arrives is not None and (alone or not note.rounds):
                time = job.wakeup + note.window - self._apart(job, note)
            else:
                time = note.end - earliest
            longest = max(longest, time)
        return longest

    def _apart(self, job: Job, note: JobEnd) -> int:
        """Least time between the arrival of a job and that of the one so many rounds before."""
        if not note.rounds or job.arrives is None:
            return 0
        whole, net = self.cluster.round, self.net
        sources = {net.jobs[w.job].worker for w in job.waits}
        distance = 0
        if len(sources) == 1 and job.released is None and not any(w.lag for w in job.waits):
            # The worker that it waits for fires a whole round of its own in between.
            distance = sum(net.jobs[o].best for o in net.lanes[sources.pop()].jobs)
        jitter = note.start - job.arrives + self.cluster.jitter
        stream = EventStream(Fraction(whole), Fraction(jitter), Fraction(distance))
        return int(stream.apart(note.rounds + 1))

    def _terms(self, j: int, note: JobEnd) -> Iterator[Term]:
        """What the window of a note is made of."""
        net, job = self.net, self.net.jobs[j]
        lane = net.lanes[job.worker]
        rivals = self.rivals[job.worker]
        first = net.jobs[note.first].place
        if note.rounds:
            between = lane.jobs * (note.rounds - 1)
            chain = [*lane.jobs[first:], *between, *lane.jobs[: job.place + 1]]
        else:
            chain = [*lane.jobs[first : job.place + 1]]
        counts = Counter(chain)
        counts[j] -= 1
        tally = Tally()
        # as if it came first, so that it has the longest time of its task
        tally.add(job.plain, job.curved, 1)
        earlier: dict[int, int] = {}
        for number, times in counts.items():
            other = net.jobs[number]
            if times and other.cost:
                earlier[number] = tally.add(other.plain, other.curved, times)
        # One by one, as the window counts them, firings may be some units more: each is one at
        # least.
        tally = Tally()
        total = sum(tally.add(net.jobs[n].plain, net.jobs[n].curved, 1) for n in chain)
        yield self.term("own", self.name(j), 1, total - sum(earlier.values()))
        for number, time in earlier.items():
            yield self.term("earlier", self.name(number), counts[number], time)
        for term, time in self._others(note, rivals, lane.processor):
            total += time
            yield term
        spared = rivals.spared(note.parts, note.window) if rivals.slip else 0
        if spared:
            total -= spared
            yield self.term("spared", self.pools([job.worker]), 1, -spared)
        if rivals.losses and note.window > total:
            yield self.term("contention", self.pools([job.worker]), 1, note.window - total)

    def _others(self, note: JobEnd, rivals: Rivals, processor: int) -> Iterator[tuple[Term, int]]:
        tally = Tally()
        for d in rivals.higher:
            times = (note.window + d.came) // d.spacing
            time = tally.add(d.plain, d.curved, times)
            yield self.term("higher", self.name(d.first), times, time), time
        for q in rivals.queues:
            time = queued(q, note.parts, note.level, note.window)
            kind: Kind = "queue" if q.sums else "equal"
            all_of_it, tally = 0, Tally()
            terms = []
            for d in q.demands:
                if d is ALWAYS:
                    continue
                times = min((note.level + d.came) // d.spacing, (note.window + d.ran) // d.spacing)
                each = tally.add(d.plain, d.curved, times)
                all_of_it += each
                terms.append((self.term(kind, self.name(d.first), times, each), each))
            if time == all_of_it:
                yield from terms
            elif time:
                yield self.term("queue", self.groups(q.lane), note.parts, time), time
