"""Bounds over whole paths: from a release to the end of a job, each rival counted once over all of
that time.

In: a cluster, who disturbs its workers, and its blocks' windows. Out: per job a bound of its end,
or nothing where loads are too high.

Look back from the end of a job to what it waited for last, and so on to a release: one unbroken
path, on one processor at a time, with the own work on it and what rivals run meanwhile. A rival
cannot take more than it can run in the time of the whole path, nor more than what it takes from the
windows on the way. Window by window (as in fixed_point.py) a path that comes back to a processor
pays for a rival again, even if that rival comes once in a hundred times as long. Here each rival is
charged in the one or the other way, whichever is less by a first estimate; any choice is sound.
Where releases share a clock, only those firings of a rival count that can run between this release
and that end (with offsets: Palencia and Gonzalez Harbour, "Schedulability analysis for tasks with
static and dynamic offsets", 1998). Paths may begin in earlier rounds, but only while those can
still be running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Literal

from .busy_window import ALWAYS, Demand, Loss, Queue, Rivals, queued, taken
from .unfolding import Cluster, Unfolded

#: Paths over more rounds than this are not followed.
MOST_ROUNDS = 6
#: With more different phases between two groups of known offsets, the offsets do not count.
MOST_PHASES = 64


@dataclass(frozen=True, slots=True)
class Stretch:
    """The window of a block, taken alone: of `parts` sub-tasks on a lane, within a level window."""

    lane: int
    first: int
    parts: int
    level: int
    window: int


@dataclass(frozen=True, slots=True)
class PathShare:
    """A part of a path's length: `times` firings of `job` that take `total` together.

    `own` is on the path; `release` the time until a later firing of a source is released, or by
    which releases may be late; `wakeup` the time until its worker is awake; `higher`, `equal` and
    `queue` are what firings of rivals take, the first of them named; without a `job`, all those of
    a `lane`. `contention` is lost to another pool.
    """

    kind: Literal["own", "release", "wakeup", "higher", "equal", "queue", "contention"]
    job: int
    times: int
    total: int
    lane: int = -1


def path_bounds(
    net: Unfolded, cluster: Cluster, rivals: Mapping[int, Rivals], stretches: Iterable[Stretch]
) -> dict[int, int] | None:
    """Latest ends by job, from the start of its round; None where this way finds no bound."""
    least: dict[int, int] | None = None
    for paths in _ways(net, cluster, rivals, stretches):
        if least is None or paths.ends is None:
            least = least or paths.ends
        else:
            least = {j: min(end, paths.ends[j]) for j, end in least.items()}
    return least


def path_shares(
    net: Unfolded,
    cluster: Cluster,
    rivals: Mapping[int, Rivals],
    stretches: Iterable[Stretch],
    j: int,
) -> list[PathShare]:
    """What the bound of a job's end is made of, from the release on. The job has to have one."""
    bounded = [p for p in _ways(net, cluster, rivals, stretches) if p.ends is not None]
    return min(bounded, key=lambda p: p.ends[j] if p.ends else 0).shares(j)


def _ways(
    net: Unfolded, cluster: Cluster, rivals: Mapping[int, Rivals], stretches: Iterable[Stretch]
) -> Iterator[_Paths]:
    yield _Paths(net, cluster, _Toll(net, cluster, rivals, stretches))
    if cluster.offset is not None:
        # Where a rival that shares the clock runs shows only over the whole path.
        yield _Paths(net, cluster, _Toll(net, cluster, rivals, ()))


@dataclass(frozen=True, slots=True)
class _Start:
    """When a job may start: at the end of a job so many rounds before, or at a release (None), and
    `wakeup` later."""

    after: int
    before: tuple[int, int] | None
    wakeup: int = 0

    @property
    def time(self) -> int:
        """From the release that the path begins with."""
        return self.after + self.wakeup


class _Paths:
    """The longest paths to all jobs of a cluster: `ends` bounds them, from the start of a round;
    None without bound."""

    def __init__(self, net: Unfolded, cluster: Cluster, toll: _Toll) -> None:
        self.net, self.cluster, self.toll = net, cluster, toll
        # Work, local tolls and waiting of the longest paths by job; entry r is of those that began
        # r rounds earlier.
        self.work: list[dict[int, int]] = []
        self.ends = self._bounds()

    def _shift(self, rounds: int) -> int:
        return rounds * self.cluster.round - self.cluster.jitter if rounds else 0

    def _bounds(self) -> dict[int, int] | None:
        ends: dict[int, int] = {}
        latest = 0
        for rounds in range(MOST_ROUNDS):
            self.work.append(self._longest(rounds))
            lengths: dict[int, int] = {}
            before = length = 0
            for own in sorted(set(self.work[-1].values())):
                longer = self.toll.length(own, rounds + 1, length + own - before)
                if longer is None:
                    return None
                before, length = own, longer
                lengths[own] = length
                latest = max(latest, length)
            for j, own in self.work[-1].items():
                ends[j] = max(ends.get(j, 0), lengths[own] - self._shift(rounds))
            if latest <= self._shift(rounds + 1):
                return ends
        return None

    def _longest(self, rounds: int) -> dict[int, int]:
        longest: dict[int, int] = {}
        self.work.append(longest)
        for j in self.cluster.order:
            starts = [start.time for start in self._starts(j, rounds)]
            if starts:
                longest[j] = max(starts) + self.net.jobs[j].cost + self.toll.local.get(j, 0)
        return self.work.pop()

    def _starts(self, j: int, rounds: int) -> Iterator[_Start]:
        """What a job may have waited for."""
        job, work = self.net.jobs[j], self.work
        lane = self.net.lanes[job.worker]
        if not rounds:
            yield _Start(job.released if job.released is not None else 0, None, job.wakeup)
        for w in job.waits:
            if w.lag <= rounds and w.job in work[rounds - w.lag]:
                before = w.job, rounds - w.lag
                yield _Start(work[rounds - w.lag][w.job], before, job.wakeup)
        previous, lag = (lane.jobs[job.place - 1], 0) if job.place else (lane.jobs[-1], 1)
        if lag <= rounds and previous in work[rounds - lag]:
            yield _Start(work[rounds - lag][previous], (previous, rounds - lag))

    def shares(self, j: int) -> list[PathShare]:
        """The path to a job, from its release on, and what rivals take from it."""
        reached = [r for r in range(len(self.work)) if j in self.work[r]]
        lengths = {r: self.toll.length(self.work[r][j], r + 1, 0) or 0 for r in reached}
        rounds = max(reached, key=lambda r: lengths[r] - self._shift(r))
        shares = list(self.toll.shares(rounds + 1, lengths[rounds]))
        if self._shift(rounds) < 0:
            shares.append(PathShare("release", j, 1, -self._shift(rounds)))
        end: tuple[int, int] | None = (j, rounds)
        while end is not None:
            job, back = end
            shares += self.toll.paid.get(job, ())
            shares.append(PathShare("own", job, 1, self.net.jobs[job].cost))
            start = max(self._starts(job, back), key=lambda s: s.time)
            shares.append(PathShare("wakeup", job, 1, start.wakeup))
            if start.before is None and start.after:
                shares.append(PathShare("release", job, 1, start.after))
            end = start.before
        return shares[::-1]


class _Toll:
    """What rivals take from paths of a cluster: `local` by the block that pays it, the others over
    a path's length.

    Without stretches all of it is over the length.
    """

    def __init__(
        self,
        net: Unfolded,
        cluster: Cluster,
        rivals: Mapping[int, Rivals],
        stretches: Iterable[Stretch],
    ) -> None:
        self.net, self.cluster = net, cluster
        self.limit = 2 * MOST_ROUNDS * cluster.round
        # the time over which it is estimated which way of charging is less
        self.span = cluster.round - cluster.jitter
        self.counts: dict[int, _Count] = {}
        self.local: dict[int, int] = {}
        self.paid: dict[int, list[PathShare]] = {}
        self.higher: list[Demand] = []
        self.queues: list[tuple[Queue, int]] = []
        self.losses: list[Loss] = []
        on: dict[int, list[Stretch]] = {}
        for s in stretches:
            on.setdefault(net.lanes[s.lane].processor, []).append(s)
        lanes_on: dict[int, list[int]] = {}
        for i in cluster.lanes:
            lanes_on.setdefault(net.lanes[i].processor, []).append(i)
        for processor, lanes in lanes_on.items():
            windows = on.get(processor, [])
            # Of lanes that share a processor, each has the same rivals, and the others.
            own = [rivals[i] for i in lanes]
            self._charge_higher(own, windows)
            self._charge_queues(own, windows, self._parts(lanes))
            self._charge_losses(own[0].losses, windows)

    def _parts(self, lanes: list[int]) -> int:
        """Sub-tasks of some lanes in a round."""
        jobs = self.net.jobs
        return sum(sum(jobs[j].parts for j in self.net.lanes[i].jobs) for i in lanes)

    def _charge_higher(self, rivals: list[Rivals], stretches: list[Stretch]) -> None:
        demands: dict[Demand, None] = {}
        for each in rivals:
            demands.update(dict.fromkeys(each.higher))
        for d in demands:
            shares = {}
            for s in stretches:
                times = (s.window + d.came) // d.spacing
                shares[s.first] = PathShare("higher", d.first, times, times * d.cost)
            if not self._pay(shares, self._most(d, self.span) * d.cost):
                self.higher.append(d)

    def _charge_queues(self, rivals: list[Rivals], stretches: list[Stretch], parts: int) -> None:
        queues: dict[int, Queue] = {}
        for each in rivals:
            queues.update((q.lane, q) for q in each.queues)
        for q in queues.values():
            shares = {}
            for s in stretches:
                if s.lane != q.lane and q.demands:
                    time = queued(q, s.parts, s.level, s.window)
                    shares[s.first] = PathShare(_kind(q), -1, 1, time, q.lane)
            if not self._pay(shares, self._queued(q, parts, self.span)):
                self.queues.append((q, parts))

    def _charge_losses(self, losses: Iterable[Loss], stretches: list[Stretch]) -> None:
        for loss in losses:
            shares = {
                s.first: PathShare("contention", -1, 1, loss.time(s.window)) for s in stretches
            }
            if not self._pay(shares, self._lost(loss, self.span)):
                self.losses.append(loss)

    def _pay(self, each: dict[int, PathShare], once: int) -> bool:
        """Let the blocks pay if that is not more."""
        if not each or sum(share.total for share in each.values()) > once:
            return False
        for first, share in each.items():
            if share.total:
                self.local[first] = self.local.get(first, 0) + share.total
                self.paid.setdefault(first, []).append(share)
        return True

    def shares(self, rounds: int, length: int) -> Iterator[PathShare]:
        """What rivals take over a path of that length."""
        for d in self.higher:
            times = self._most(d, length)
            yield PathShare("higher", d.first, times, times * d.cost)
        for q, parts in self.queues:
            counts = [self._most(d, length) for d in q.demands]
            each = []
            for d, n in zip(q.demands, counts, strict=True):
                each.append(PathShare(_kind(q), d.first, n, n * d.cost, q.lane))
            time = taken(q, parts * rounds, counts)
            if sum(share.total for share in each) == time:
                yield from each
            else:  # fewer sub-tasks than would have come
                yield PathShare(_kind(q), -1, parts * rounds, time, q.lane)
        for x in self.losses:
            yield PathShare("contention", -1, 1, self._lost(x, length))

    def length(self, own: int, rounds: int, least: int) -> int | None:
        """Longest time that a path with so much of its own takes, at `least` that; None beyond all
        patience."""
        length = max(least, 1)
        while True:
            work = own
            for d in self.higher:
                work += self._most(d, length) * d.cost
            for q, parts in self.queues:
                work += self._queued(q, parts * rounds, length)
            work += sum(self._lost(x, length) for x in self.losses)
            if work <= length:
                return work
            if work > self.limit:
                return None
            length = work

    def _queued(self, q: Queue, parts: int, length: int) -> int:
        return taken(q, parts, [self._most(d, length) for d in q.demands])

    def _lost(self, loss: Loss, length: int) -> int:
        return loss.lost(length, sum(self._most(d, length) * d.cost for d in loss.demands))

    def _most(self, d: Demand, length: int) -> int:
        """How often a demand can run in a time of that length that begins with a release."""
        count = self.counts.get(d.first)
        if count is None:
            count = self.counts[d.first] = _Count(d.spacing, d.ran, tuple(self._phases(d)))
        return count.most(length)

    def _phases(self, d: Demand) -> Iterator[tuple[int, int]]:
        """What `_Count` wants to know of each phase that releases can have to a demand's events."""
        net, cluster = self.net, self.cluster
        if cluster.offset is None or d is ALWAYS:
            return
        other = net.clusters[net.lanes[net.jobs[d.first].worker].cluster]
        step = gcd(cluster.round, d.spacing)
        if other.clock != cluster.clock:
            return
        if other.offset is None or d.spacing // step > MOST_PHASES:
            return
        for phase in range(0, d.spacing, step):
            begin = other.offset - cluster.offset + phase + d.ready
            yield begin - cluster.jitter, (begin + d.ran - d.spacing) // d.spacing


def _kind(queue: Queue) -> Literal["equal", "queue"]:
    return "equal" if queue.sums is None else "queue"


@dataclass(frozen=True, slots=True)
class _Count:
    """How often events of a demand can run in a time that begins with a release.

    `phases` are for offsets that are known: the earliest time after the release at which event 0
    runs, and how many events before it can still run then.
    """

    spacing: int
    ran: int
    phases: tuple[tuple[int, int], ...]

    def most(self, length: int) -> int:
        """In a time of that length."""
        most = (length + self.ran) // self.spacing
        if len(self.phases) == 1:
            begin, before = self.phases[0]
            return min(most, before - (begin - length) // self.spacing)
        by_phase = [before - (begin - length) // self.spacing for begin, before in self.phases]
        return min(most, max(by_phase)) if by_phase else most
