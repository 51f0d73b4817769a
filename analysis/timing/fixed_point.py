"""The fixed point behind the response-time bounds: latest ends of jobs that fit each other.

In: an unfolded system, and how the jobs of one cluster are bounded from what is known of the others
(`_pass`). Out: the latest end of every job, and which clusters have none, with the reason.

Values only grow, from the best case, until nothing changes. What they settle on is at least what
the bounds make of it, and that is all that soundness needs: a job that ended later would be the
first to do so, although everything before it kept to its bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, NoReturn, Protocol, TypeVar

from .release import TaskEnds
from .system import TimedTrigger
from .unfolding import Cluster, JobWait, PathEnd, Unfolded, WorkerLane

#: A window of more than so many of the longest rounds is given up, and an end after so many of its
#: own.
LONGEST = 16
#: So often a cluster is looked at again before it is given up.
MOST_PASSES = 64
#: A path that works on initial tokens in more rounds is bounded as if it did so in no more.
MOST_FIRST_ROUNDS = 64


class TooLate(Exception):
    """A watched group is late by more than `patience`, or has no bound."""


class Unbounded(Exception):
    """A window that does not end; the message says where."""


class Ending(Protocol):
    """How a job can end: in a window that began at `start`, `rounds` before, with job `first`.
    `end` counts from the start of the round of the job."""

    @property
    def first(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


E = TypeVar("E", bound=Ending)


@dataclass(slots=True)
class FromRound(Generic[E]):
    """Bounds of a cluster's jobs in some round of the program, and in all later ones.

    `ends` from the start of the round, and all `ways` in which each job can end so. `begun` are
    those of windows that begin in these rounds.
    """

    ends: dict[int, int] = field(default_factory=dict)
    ways: dict[int, list[E]] = field(default_factory=dict)
    begun: list[tuple[int, E]] = field(default_factory=list)


class FixedPoint(ABC, Generic[E]):
    """`ends` are by job, from the start of its round, for all rounds of the program alike;
    `reasons` has the clusters that are unbounded.

    With `patience`, a group that is late by more than so many times is not followed any further.
    `watched` are groups without which nothing is.
    """

    def __init__(
        self, net: Unfolded, patience: Fraction | None = None, watched: Collection[int] = ()
    ) -> None:
        self.net = net
        self.patience = patience
        self.watched = frozenset(watched)
        self.ends = [max(j.ready + j.best, j.begin) for j in net.jobs]
        self.reasons = dict(self._lost())
        #: What passes over the cluster at hand have cost so far, in steps of an analysis.
        self.steps = 0
        self._steps_by_cluster = [0] * len(net.clusters)
        #: Once solved, by cluster: bounds from round 0 on, from round 1 on, and so forth.
        self._later: dict[int, list[FromRound[E]]] = {}
        self.touching = [self._touching(c) for c in net.clusters]

    def _lost(self) -> Iterator[tuple[int, str]]:
        """The clusters whose releases may be late without bound, with the reason."""
        for number, cluster in enumerate(self.net.clusters):
            for group in (self.net.system.groups[g] for g in cluster.groups):
                if group.jitter is None and group.gated and group.trigger is None:
                    reason = f"a source of `{group.name}` may wait for late iterations"
                    yield number, f"{reason} while data come: on one CPU it need not"
                elif group.jitter is None:
                    yield number, f"nothing bounds how late iterations of `{group.name}` begin"

    # -- answers -----------------------------------------------------------------------------------
    def response(self, group: int) -> Fraction | None:
        """Bound of a group in ns."""
        cluster = next(i for i, c in enumerate(self.net.clusters) if group in c.groups)
        if cluster in self.reasons:
            return None
        jobs = self.net.jobs
        order = self.net.clusters[cluster].order
        last = [j for j in order if jobs[j].sink and jobs[j].group == group]
        end = max((self.ends[j] - jobs[j].base for j in last), default=0)
        return Fraction(end, self.net.unit)

    def latencies(self, group: int) -> tuple[Fraction | None, ...]:
        """Bounds of the paths of a group in ns."""
        cluster = next(i for i, c in enumerate(self.net.clusters) if group in c.groups)
        if cluster in self.reasons:
            return (None,) * len(self.net.paths[group])
        longest = []
        for path in self.net.paths[group]:
            longest.append(max(self.latency(end, cluster) for end in path))
        return tuple(Fraction(time, self.net.unit) for time in longest)

    def latency(self, end: PathEnd, cluster: int) -> int:
        """Bound of a path where it ends with this job; its first rounds have no latency."""
        return self.latest_end(end, cluster) - end.released

    def latest_end(self, end: PathEnd, cluster: int) -> int:
        """Latest end of a job in the rounds in which its data have a release."""
        if not end.first:
            return self.ends[end.job]
        return self.from_round(cluster, min(end.first, MOST_FIRST_ROUNDS)).ends[end.job]

    def task_ends(self, trigger: TimedTrigger) -> TaskEnds:
        """When the firings of a task end in an iteration, from its nominal release."""
        names = [group.name for group in self.net.system.groups]
        number = names.index(trigger.group)
        if not self.is_settled(number):
            return None
        group = self.net.system.groups[number]
        task = next(i for i, t in enumerate(group.tasks) if t.name == trigger.task)
        late = next(c.jitter for c in self.net.clusters if number in c.groups)
        firings: list[list[tuple[int, int]]] = [[] for _ in range(group.tasks[task].firings)]
        for job, end in zip(self.net.jobs, self.ends, strict=True):
            if (job.group, job.task) == (number, task):
                earliest = job.ready + job.best - job.base
                firings[job.firing].append((earliest, end - job.base + late))
        found = []
        for times in firings:
            first, last = min(t[0] for t in times), max(t[1] for t in times)
            found.append((Fraction(first, self.net.unit), Fraction(last, self.net.unit)))
        return found

    def is_settled(self, group: int) -> bool:
        """Has a group bounds that are not given up?"""
        cluster = next(i for i, c in enumerate(self.net.clusters) if group in c.groups)
        return cluster not in self.reasons and not self._hopeless(cluster)

    def arrival(self, j: int, cluster: Cluster, first: int = 0) -> int:
        """Latest time at which a job has what it waits for from outside, and its worker is awake,
        from round `first` of the program on."""
        return max(time for time, _ in self.waits(j, cluster, first)) + self.net.jobs[j].wakeup

    def waits(
        self, j: int, cluster: Cluster, first: int = 0
    ) -> Iterator[tuple[int, JobWait | None]]:
        """What a job waits for from outside, each with the latest time at which it is over, from
        round `first` of the program on. None is a release, or the begin of the program."""
        job, whole = self.net.jobs[j], cluster.round
        number = self.net.lanes[job.worker].cluster
        absent = -job.begin // whole
        begin = job.begin if first <= absent else cluster.jitter - first * whole
        if job.released is not None:
            yield job.released, None
        elif not job.waits:
            yield begin, None
        for w in job.waits:
            end = self._ends_from(number, first - w.lag)[w.job]
            if first < absent + w.spared:
                yield begin, None
            yield w.latest(end, whole, cluster.jitter), w

    # -- later rounds ------------------------------------------------------------------------------
    def from_round(self, number: int, first: int) -> FromRound[E]:
        """Once solved: the bounds of a cluster's jobs from round `first` of the program on.

        Jobs with initial tokens begin with the program in its first rounds. Later on they are as
        early as what these tokens run ahead of.
        """
        found = self._later.setdefault(number, [])
        while len(found) <= first:
            found.append(FromRound())
            try:
                self._bound_last(number, found)
            except Unbounded:  # a window that begins earlier may be longer
                if len(found) > 1:
                    found[-1] = found[-2]
        return found[first]

    def last_way(self, j: int, first: int = 0) -> tuple[int, E]:
        """Once solved: the way in which a job ends last from round `first` of the program on, and
        the round from which on it does. Its end is later than the bound where no window says it.
        """
        number = self.net.lanes[self.net.jobs[j].worker].cluster
        here = self.from_round(number, first)
        while True:
            ways = self.from_round(number, first).ways.get(j)
            if not ways:
                raise Unbounded("a window of more than the rounds that are looked at")
            way = max(ways, key=lambda way: way.end)
            if not first or way.end <= here.ends[j]:
                return first, way
            first -= 1

    def _bound_last(self, number: int, found: Sequence[FromRound[E]]) -> None:
        """The last of some bounds from the others, which are of the rounds before."""
        cluster, first, here = self.net.clusters[number], len(found) - 1, found[-1]
        bounded = found[-2].ends if first else {j: self.ends[j] for j in cluster.order}
        if not first:
            here.ends.update(bounded)

        def end(j: int, way: E) -> None:
            here.ways.setdefault(j, []).append(way)
            here.ends[j] = min(bounded[j], max(way.end, here.ends.get(j, way.end)))

        for since, earlier in enumerate(found[:-1]):
            for j, way in earlier.begun:
                if since + way.rounds == first or (not since and way.rounds > first):
                    end(j, way)
        for j, way in self._ways(number, lambda j: self.arrival(j, cluster, first)):
            here.begun.append((j, way))
            if not (first and way.rounds):
                end(j, way)

    @abstractmethod
    def _ways(self, number: int, arrival: Callable[[int], int]) -> Iterator[tuple[int, E]]:
        """All ways in which the jobs of a cluster can end that have what they wait for at these
        times, in their order."""

    def _ends_from(self, number: int, first: int) -> Sequence[int] | Mapping[int, int]:
        return self.ends if first <= 0 else self._later[number][first].ends

    # -- the iteration -----------------------------------------------------------------------------
    def solve(self) -> None:
        """Iterate until nothing changes. Raises TooLate as soon as patience with a watched group is
        over, or if it has no bound.
        """
        clusters = self.net.clusters
        dirty = [True] * len(clusters)
        passes = [0] * len(clusters)
        while any(dirty):
            for number in range(len(clusters)):
                if not dirty[number]:
                    continue
                dirty[number] = False
                if self._given_up(number):
                    continue
                passes[number] += 1
                if not self._look(number, passes[number]):
                    continue
                dirty[number] = True
                if self.watched:
                    self._given_up(number)
                if self._publish(number):
                    for other in self.touching[number]:
                        dirty[other] = True

    @abstractmethod
    def _pass(self, number: int) -> bool:
        """Ends of a cluster's jobs from what is known of the others; True when one has grown.
        Raises Unbounded.
        """

    @abstractmethod
    def _publish(self, number: int) -> bool:
        """After a change: let others know; True when they have to look again."""

    def _look(self, number: int, passes: int) -> bool:
        """One more pass over a cluster; True when something changed. A cluster without bound gets
        its reason.
        """
        cluster = self.net.clusters[number]
        self.steps = self._steps_by_cluster[number]
        try:
            if passes == 1:
                self._refuse_overload(cluster)
            if passes > MOST_PASSES:
                raise Unbounded(f"jitters still grow after {MOST_PASSES} rounds of analysis")
            changed = self._pass(number)
            if any(self._too_far(j, number) for j in cluster.order):
                raise Unbounded(f"the bound grows beyond {LONGEST} rounds")
        except Unbounded as reason:
            self.reasons[number] = str(reason)
            return True
        self._steps_by_cluster[number] = self.steps
        return changed

    def _end_after(self, most: int) -> None:
        """Give up the cluster at hand where its passes have taken more than so many steps: bounds
        of late apps may grow for very long."""
        if self.steps > most:
            raise Unbounded(f"no bound found in {most:,} steps of analysis")

    def _too_far(self, j: int, number: int) -> bool:
        """Is the end of a job beyond all that is looked at?"""
        return self.ends[j] > LONGEST * self.net.clusters[number].round

    def _given_up(self, number: int) -> bool:
        """Is a cluster not followed any further? Bounds only grow. Raises TooLate."""
        over = number in self.reasons or self._hopeless(number)
        if over and self.watched.intersection(self.net.clusters[number].groups):
            raise TooLate
        return over

    def _hopeless(self, number: int) -> bool:
        """True if a group of the cluster is late by more than `patience` already."""
        if self.patience is None:
            return False
        return any(self._beyond(g, self.patience) for g in self.net.clusters[number].groups)

    def _beyond(self, group: int, times: Fraction) -> bool:
        """Is a bound of a group longer than so many times its deadline?"""
        timed = self.net.system.groups[group]
        held = [(self.response(group), timed.due)]
        for path, ends in zip(timed.paths, self.net.paths[group], strict=True):
            # Later rounds are bounded once all is solved.
            longest = max((self.ends[e.job] - e.released for e in ends if not e.first), default=0)
            held.append((Fraction(longest, self.net.unit), path.deadline))
        return any((bound or 0) > times * due for bound, due in held if due is not None)

    def _touching(self, cluster: Cluster) -> list[int]:
        """The clusters that share a processor with this one, or are slowed down by it; itself
        too.
        """
        net = self.net
        own = set(cluster.lanes)
        touched = {net.lanes[i].processor for i in own}
        for p, drags in enumerate(net.drags):
            if any(own.intersection(drag.lanes) for drag in drags):
                touched.add(p)
        clusters: set[int] = set()
        for p in touched:
            clusters.update(net.lanes[i].cluster for i in net.on[p])
        return sorted(clusters)

    # -- processors --------------------------------------------------------------------------------
    def _refuse_overload(self, cluster: Cluster) -> None:
        """Raise Unbounded for a CPU that has no time left for some worker of the cluster."""
        for i in cluster.lanes:
            lane = self.net.lanes[i]
            if self._load(lane) > 1 and not self.net.fifo[lane.processor]:
                self._give_up(i)

    def _load(self, lane: WorkerLane) -> Fraction:
        """The share of its time that a worker's processor needs for those of its priority or more,
        without what slips in before them."""
        load = Fraction(0)
        for i in self.net.on[lane.processor]:
            other = self.net.lanes[i]
            if other.rank >= lane.rank:
                own = other.sustained - len(other.parts) * other.slip
                load += own / self.net.clusters[other.cluster].round
        return load

    def _give_up(self, number: int) -> NoReturn:
        net = self.net
        processor = net.lanes[number].processor
        name = net.system.processors[processor].name
        load = self._load(net.lanes[number])
        if load > 1:
            raise Unbounded(_overloaded(name, load))
        raise Unbounded(f"no bound found on `{name}`: a window of more than {LONGEST} rounds")

    def _disturbed(self, cluster: int, processor: int) -> NoReturn:
        names = ", ".join(
            f"`{self.net.system.groups[g].name}`" for g in self.net.clusters[cluster].groups
        )
        raise Unbounded(
            f"{names} may disturb it on `{self.net.system.processors[processor].name}` without"
            " bound"
        )


def _overloaded(name: str, load: Fraction) -> str:
    return f"`{name}` is overloaded: {float(load):.4g} of its time is wanted"
