"""Bounds over whole paths: from a release to the end of a job, each rival counted once over all of that time.

In: a cluster, who disturbs its workers, and its blocks' windows. Out: per job a bound of its end, or nothing where
loads are too high.

Look back from the end of a job to what it waited for last, and so on to a release: one unbroken path, on one processor
at a time, with the own work on it and what rivals run meanwhile. A rival cannot take more than it can run in the time
of the whole path, nor more than what it takes from the windows on the way. Window by window (as in fixed_point.py) a
path that comes back to a processor pays for a rival again, even if that rival comes once in a hundred times as long.
Here each rival is charged in the one or the other way, whichever is less by a first estimate; any choice is sound.
Where releases share a clock, only those firings of a rival count that can run between this release and that end (with
offsets: Palencia and Gonzalez Harbour, "Schedulability analysis for tasks with static and dynamic offsets", 1998).
Paths may begin in earlier rounds, but only while those can still be running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd

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


def path_bounds(
    net: Unfolded, cluster: Cluster, rivals: Mapping[int, Rivals], stretches: Iterable[Stretch]
) -> dict[int, int] | None:
    """Latest ends by job, from the start of its round; None where this way finds no bound."""
    found = _ends(net, cluster, _Toll(net, cluster, rivals, stretches))
    if cluster.offset is None:
        return found
    # Where a rival that shares the clock runs shows only over the whole path.
    clocked = _ends(net, cluster, _Toll(net, cluster, rivals, ()))
    if found is None or clocked is None:
        return found or clocked
    return {j: min(end, clocked[j]) for j, end in found.items()}


def _ends(net: Unfolded, cluster: Cluster, toll: _Toll) -> dict[int, int] | None:
    work: list[dict[int, int]] = []
    found: dict[int, int] = {}
    latest = 0
    for rounds in range(MOST_ROUNDS):
        work.append(_longest(net, cluster, work, toll.local))
        shift = rounds * cluster.round - cluster.jitter if rounds else 0
        lengths: dict[int, int] = {}
        before = length = 0
        for own in sorted(set(work[-1].values())):
            known = toll.length(own, rounds + 1, length + own - before)
            if known is None:
                return None
            before, length = own, known
            lengths[own] = length
            latest = max(latest, length)
        for j, own in work[-1].items():
            found[j] = max(found.get(j, 0), lengths[own] - shift)
        if latest <= (rounds + 1) * cluster.round - cluster.jitter:
            return found
    return None


def _longest(net: Unfolded, cluster: Cluster, before: list[dict[int, int]], local: Mapping[int, int]) -> dict[int, int]:
    """Longest paths that began len(before) rounds earlier, by the jobs they end with: work, local tolls, waiting.

    Waiting is that for the later firings of a source.
    """
    longest: dict[int, int] = {}
    rounds = len(before)
    for j in cluster.order:
        job = net.jobs[j]
        lane = net.lanes[job.worker]
        starts = []
        if not rounds:
            starts.append(job.released if job.released is not None else 0)
        for w in job.waits:
            known = longest if w.lag == 0 else before[rounds - w.lag] if w.lag <= rounds else {}
            if w.job in known:
                starts.append(known[w.job])
        if job.place:
            previous = lane.jobs[job.place - 1]
            if previous in longest:
                starts.append(longest[previous])
        elif rounds and lane.jobs[-1] in before[-1]:
            starts.append(before[-1][lane.jobs[-1]])
        if starts:
            longest[j] = max(starts) + job.cost + local.get(j, 0)
    return longest


class _Toll:
    """What rivals take from paths of a cluster: `local` by the block that pays it, the others over a path's length.

    Without stretches all of it is over the length.
    """

    def __init__(
        self, net: Unfolded, cluster: Cluster, rivals: Mapping[int, Rivals], stretches: Iterable[Stretch]
    ) -> None:
        self.net, self.cluster = net, cluster
        self.limit = 2 * MOST_ROUNDS * cluster.round
        self.phases: dict[Demand, tuple[tuple[int, int], ...]] = {}
        self.local: dict[int, int] = {}
        self.higher: list[Demand] = []
        self.queues: list[tuple[Queue, int]] = []
        self.losses: list[Loss] = []
        on: dict[int, list[Stretch]] = {}
        for s in stretches:
            on.setdefault(net.lanes[s.lane].processor, []).append(s)
        mine: dict[int, list[int]] = {}
        for i in cluster.lanes:
            mine.setdefault(net.lanes[i].processor, []).append(i)
        span = cluster.round - cluster.jitter
        for processor, lanes in mine.items():
            here = on.get(processor, [])
            parts = sum(net.jobs[j].parts for i in lanes for j in net.lanes[i].jobs)
            # Of lanes that share a processor, each has the same rivals, and the others.
            higher = {d: None for i in lanes for d in rivals[i].higher}
            queues = {q.lane: q for i in lanes for q in rivals[i].queues}
            for d in higher:
                each = {s.first: (s.window + d.came) // d.spacing * d.cost for s in here}
                if not self._pay(each, self._most(d, span) * d.cost):
                    self.higher.append(d)
            for q in queues.values():
                each = {s.first: queued(q, s.parts, s.level, s.window) for s in here if s.lane != q.lane}
                if not self._pay(each, self._queued(q, parts, span)):
                    self.queues.append((q, parts))
            for loss in rivals[lanes[0]].losses:
                each = {s.first: loss.time(s.window) for s in here}
                if not self._pay(each, self._lost(loss, span)):
                    self.losses.append(loss)

    def _pay(self, each: dict[int, int], once: int) -> bool:
        """Let the blocks pay if that is not more."""
        if not each or sum(each.values()) > once:
            return False
        for first, time in each.items():
            self.local[first] = self.local.get(first, 0) + time
        return True

    def length(self, own: int, rounds: int, least: int) -> int | None:
        """Longest time that a path with so much of its own takes, at `least` that; None beyond all patience."""
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
        return taken(q, parts, (self._most(d, length) for d in q.demands))

    def _lost(self, loss: Loss, length: int) -> int:
        return loss.lost(length, sum(self._most(d, length) * d.cost for d in loss.demands))

    def _most(self, d: Demand, length: int) -> int:
        """How often a demand can run in a time of that length that begins with a release."""
        most = (length + d.ran) // d.spacing
        if d not in self.phases:
            self.phases[d] = tuple(self._ranges(d))
        counts = [-((begin - length) // d.spacing) - over // d.spacing - 1 for begin, over in self.phases[d]]
        return min(most, max(counts)) if counts else most

    def _ranges(self, d: Demand) -> Iterator[tuple[int, int]]:
        """For each phase that releases can have to a demand's events: the earliest time that one of them runs, and
        minus the latest, seen from the first and the last moment that the release can be. Empty if unknown.
        """
        net, mine = self.net, self.cluster
        if mine.offset is None or d is ALWAYS:
            return
        other = net.clusters[net.lanes[net.jobs[d.first].worker].cluster]
        step = gcd(mine.round, d.spacing)
        if other.offset is None or d.spacing // step > MOST_PHASES:
            return
        for phase in range(0, d.spacing, step):
            begin = other.offset - mine.offset + phase + d.ready
            yield begin - mine.jitter, -(begin + d.ran - d.spacing + 1)
