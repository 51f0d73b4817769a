"""Where bounds come from: the bounds of groups, paths and tasks of a cluster, taken apart.

In: a solved fixed point. Out: bounds with terms. What a window is made of, and which windows lead
to the end of a job, each analysis says itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from .fixed_point import MOST_FIRST_ROUNDS, E, FixedPoint
from .terms import GroupResponse, Kind, PathResponse, TaskBound, Term
from .unfolding import Job, JobWait


@dataclass(frozen=True, slots=True)
class WindowPath:
    """Windows that follow each other, up to the end of a job: the tasks that they begin with, and
    what they are made of."""

    tasks: tuple[str, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class LastWindow:
    """The window in which a job ends last. It begins at `start`, from the start of the round of the
    job, with the end of `cause`. `capped` where the bound over the whole path is shorter."""

    start: int
    length: int
    cause: JobWait | None
    terms: tuple[Term, ...]
    capped: bool = False


class Story(ABC):
    """Where the bounds of a cluster come from. `jitter` is what all releases may be late by, where
    times count from the actual ones."""

    jitter = 0

    def __init__(self, solution: FixedPoint[E], number: int) -> None:
        self.net, self.ends = solution.net, solution.ends
        self.cluster = solution.net.clusters[number]
        self._bounds = solution

    # -- of an analysis ----------------------------------------------------------------------------
    @abstractmethod
    def path(self, last: int, length: Fraction, first: int = 0) -> WindowPath:
        """From the end of a job in round `first` of the program or later backwards to a release,
        `length` ns in all."""

    @abstractmethod
    def window(self, j: int) -> LastWindow:
        """The window in which a job ends last."""

    @abstractmethod
    def response(self, j: int) -> int:
        """From when a job has all it waits for to its end, at most."""

    @abstractmethod
    def spread(self, j: int) -> int:
        """Between the earliest and the latest time at which a job has what it waits for."""

    # -- bounds ------------------------------------------------------------------------------------
    def group(self, number: int) -> GroupResponse:
        """The bounds of a group, with what they are made of."""
        group = self.net.system.groups[number]
        jobs = self.net.jobs
        response = self._bounds.response(number)
        assert response is not None, "stories are of clusters with bounds"
        sinks = [j for j in self._jobs(number) if jobs[j].sink]
        path = WindowPath((), ())
        if sinks:
            path = self.path(max(sinks, key=self._end), response)
        deadline = None if group.due is None else Fraction(group.due)
        latencies = []
        cluster = self.net.lanes[self.cluster.lanes[0]].cluster
        for n, latency in enumerate(self._bounds.latencies(number)):
            assert latency is not None, "stories are of clusters with bounds"
            last = max(self.net.paths[number][n], key=lambda e: self._bounds.latency(e, cluster))
            first = min(last.first, MOST_FIRST_ROUNDS)
            terms = self.path(last.job, latency, first).terms
            latencies.append(PathResponse(group.paths[n], latency, terms))
        return GroupResponse(
            group.name, response, deadline, "", path.tasks, path.terms, tuple(latencies)
        )

    def tasks(self, group: int) -> Iterator[TaskBound]:
        """The bounds of each task, by the firing that ends last."""
        jobs, system = self.net.jobs, self.net.system
        by_task: dict[int, list[int]] = {}
        for j in self._jobs(group):
            by_task.setdefault(jobs[j].task, []).append(j)
        for task, mine in by_task.items():
            last = max(mine, key=self._end)
            window = self.window(last)
            yield TaskBound(
                system.groups[group].tasks[task].name,
                system.groups[group].name,
                system.processors[self.net.lanes[jobs[last].worker].processor].name,
                self.ns(max(self.response(j) for j in mine)),
                self.ns(self._end(last)),
                self.ns(max(self.spread(j) for j in mine) + self.jitter),
                "release" if window.cause is None else self.name(window.cause.job),
                self.ns(window.start - jobs[last].base),
                self.ns(window.length),
                window.terms,
                window.capped,
            )

    def _jobs(self, group: int) -> list[int]:
        return [j for j in self.cluster.order if self.net.jobs[j].group == group]

    def _end(self, j: int) -> int:
        """From the release of its iteration."""
        return self.ends[j] - self.net.jobs[j].base

    # -- what both analyses ask --------------------------------------------------------------------
    def cause(self, job: int, start: int, first: int = 0) -> JobWait | None:
        """What the first job of a window waited for last, from round `first` of the program on;
        None for a release."""
        for time, wait in self._bounds.waits(job, self.cluster, max(0, first)):
            if time == start - self.net.jobs[job].wakeup:
                return wait
        return None

    def wakeup(self, first: int) -> tuple[Term, ...]:
        """The time until the worker of the first job of a window is awake, if there is any."""
        late = self.net.jobs[first].wakeup
        return (self.term("wakeup", self.name(first), 1, late),) if late else ()

    def earliest(self, job: Job) -> int | None:
        """The earliest arrival of all that a job waits for; None for a firing of some phase that
        needs nothing."""
        arrivals = [] if job.arrives is None else [job.arrives]
        for w in job.same:
            other = self.net.jobs[w.job]
            end = other.ready + other.best
            arrivals.append(w.earliest(end, self.cluster.round, self.jitter, job.start))
        return max(arrivals, default=None)

    def groups(self, lane: int) -> str:
        """The groups of a worker."""
        groups = {self.net.jobs[o].group for o in self.net.lanes[lane].jobs}
        return ", ".join(sorted(self.net.system.groups[g].name for g in groups))

    def pools(self, lanes: Iterable[int]) -> str:
        """The pools that may slow these workers down."""
        system = self.net.system
        processors = [system.processors[self.net.lanes[lane].processor] for lane in lanes]
        pools = set()
        for slow in system.slowdowns:
            if any(p.is_of(slow.victim) for p in processors):
                pools.add(slow.aggressor)
        return ", ".join(sorted(pools))

    def term(self, kind: Kind, who: str, times: int, total: int) -> Term:
        """A term in ns."""
        return Term(kind, who, times, self.ns(total) / max(1, times), self.ns(total))

    def ns(self, time: int) -> Fraction:
        """A time of the solution in ns."""
        return Fraction(time, self.net.unit)

    def name(self, j: int) -> str:
        """The task of a job."""
        job = self.net.jobs[j]
        return self.net.system.groups[job.group].tasks[job.task].name
