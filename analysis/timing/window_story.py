"""Where bounds by job windows come from, in terms.

In: a solved fixed point. Out: the bounds of groups, paths and tasks, each taken apart. Terms add up
to the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from .busy_window import Tally
from .by_windows import Met, WindowChain, WindowEnd, WindowSolver
from .terms import GroupResponse, Kind, PathResponse, TaskBound, Term, filled
from .unfolding import JobWait


@dataclass(frozen=True, slots=True)
class WindowPath:
    """Windows that follow each other, up to the end of a job: the tasks that they begin with, and
    what they are made of."""

    tasks: tuple[str, ...]
    terms: tuple[Term, ...]


class WindowStory:
    """Where the bounds of a cluster come from."""

    def __init__(self, solution: WindowSolver, number: int) -> None:
        self.solution, self.net = solution, solution.net
        self.cluster = solution.net.clusters[number]
        self.notes = solution.explained(number)

    def group(self, number: int) -> GroupResponse:
        """The bounds of a group, with what they are made of."""
        group = self.net.system.groups[number]
        jobs, ends = self.net.jobs, self.solution.ends
        response = self.solution.response(number)
        assert response is not None, "stories are of clusters with bounds"
        sinks = [j for j in self.cluster.order if jobs[j].group == number and jobs[j].sink]
        path = WindowPath((), ())
        if sinks:
            path = self._path(max(sinks, key=lambda j: ends[j] - jobs[j].base), response)
        deadline = None if group.due is None else Fraction(group.due)
        latencies = []
        for n, latency in enumerate(self.solution.latencies(number)):
            assert latency is not None, "stories are of clusters with bounds"
            last, _ = max(self.net.paths[number][n], key=lambda x: ends[x[0]] - x[1])
            latencies.append(PathResponse(group.paths[n], latency, self._path(last, latency).terms))
        return GroupResponse(
            group.name, response, deadline, "", path.tasks, path.terms, tuple(latencies)
        )

    def tasks(self, group: int) -> Iterator[TaskBound]:
        """The bounds of each task, by the firing that ends last."""
        jobs, ends = self.net.jobs, self.solution.ends
        by_task: dict[int, list[int]] = {}
        for j in self.cluster.order:
            if jobs[j].group == group:
                by_task.setdefault(jobs[j].task, []).append(j)
        system = self.net.system
        for task, mine in by_task.items():
            last = max(mine, key=lambda j: ends[j] - jobs[j].base)
            note = self.notes[last]
            cause = self._cause(note)
            start = note.start - note.rounds * self.cluster.round
            yield TaskBound(
                system.groups[group].tasks[task].name,
                system.groups[group].name,
                system.processors[self.net.lanes[jobs[last].worker].processor].name,
                self._ns(max(self._response(j) for j in mine)),
                self._ns(ends[last] - jobs[last].base),
                self._ns(max(self._spread(j) for j in mine)),
                "release" if cause is None else self._name(cause.job),
                self._ns(start - jobs[last].base),
                self._ns(note.end - start),
                tuple(self._window(last, note)),
                False,
            )

    def _spread(self, j: int) -> int:
        """Between the earliest and the latest time at which a job has what it waits for."""
        job = self.net.jobs[j]
        if job.arrives is None:
            return 0
        return self.solution.arrival(j, self.cluster) - job.arrives

    def _response(self, j: int) -> int:
        """From when a job has all it waits for to its end, at most."""
        job, net = self.net.jobs[j], self.net
        arrivals = [] if job.arrives is None else [job.arrives]
        for w in job.same:
            end = net.jobs[w.job].ready + net.jobs[w.job].best
            arrivals.append(w.earliest(end, self.cluster.round, 0, job.start))
        if not arrivals:
            return 0  # a firing of some phase that needs nothing
        return self.solution.ends[j] - max(arrivals)

    def _path(self, last: int, length: Fraction) -> WindowPath:
        """From the end of a job backwards to a release, `length` ns in all."""
        names: list[str] = []
        terms: list[Term] = []
        seen: set[int] = set()
        cause: JobWait | None = JobWait(last, 0, 0)
        first = last
        while cause is not None and cause.job not in seen:
            here = cause.job
            seen.add(here)
            note = self.notes[here]
            names.append(self._name(here))
            terms[:0] = self._window(here, note)
            first, cause = note.first, self._cause(note)
        return WindowPath(tuple(reversed(names)), filled(terms, length, self._name(first)))

    def _cause(self, note: WindowEnd) -> JobWait | None:
        """What the first job of a window waited for last; None for a release."""
        job, ends = self.net.jobs[note.first], self.solution.ends
        if note.start == job.released:
            return None
        for w in job.waits:
            if note.start == w.latest(ends[w.job], self.cluster.round, 0, job.begin):
                return w
        return None

    def _window(self, j: int, note: WindowEnd) -> Iterator[Term]:
        """What the window of a note is made of."""
        chain = self.solution.met(j, note)
        total = 0
        for term in (*self._own(j, note), *self._rivals(j, chain)):
            total += int(term.total * self.net.unit)
            yield term
        rest = chain.end - chain.start - total
        if rest:
            yield self._term("contention", self._pools(j), 1, rest)

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
                yield self._term(kind, self._name(number), times[number], total)

    def _rivals(self, j: int, chain: WindowChain) -> Iterator[Term]:
        """What rivals take from a window."""
        net = self.net
        rank = net.lanes[net.jobs[j].worker].rank
        for met in chain.rivals:
            lane = net.lanes[met.rival.lane]
            kind: Kind = "queue" if net.fifo[lane.processor] else "equal"
            if lane.rank > rank:
                kind = "higher"
            taken = self.solution.taken(chain, met)
            if taken == met.time:
                yield from self._met(kind, met)
            elif taken:  # fewer sub-tasks than would have come
                yield self._term("queue", self._groups(met.rival.lane), chain.parts, taken)

    def _met(self, kind: Kind, met: Met) -> Iterator[Term]:
        """The jobs of a rival, by task."""
        times: Counter[str] = Counter()
        totals: Counter[str] = Counter()
        for h, time in met.counted or ():
            times[self._name(h)] += 1
            totals[self._name(h)] += time
        for name, total in totals.items():
            yield self._term(kind, name, times[name], total)

    def _groups(self, lane: int) -> str:
        """The groups of a worker."""
        groups = {self.net.jobs[o].group for o in self.net.lanes[lane].jobs}
        return ", ".join(sorted(self.net.system.groups[g].name for g in groups))

    def _pools(self, j: int) -> str:
        """What may slow a job down."""
        system = self.net.system
        processor = system.processors[self.net.lanes[self.net.jobs[j].worker].processor]
        pools = {s.aggressor for s in system.slowdowns if processor.is_of(s.victim)}
        return ", ".join(sorted(pools))

    def _term(self, kind: Kind, who: str, times: int, total: int) -> Term:
        return Term(kind, who, times, self._ns(total) / max(1, times), self._ns(total))

    def _ns(self, time: int) -> Fraction:
        return Fraction(time, self.net.unit)

    def _name(self, j: int) -> str:
        job = self.net.jobs[j]
        return self.net.system.groups[job.group].tasks[job.task].name
