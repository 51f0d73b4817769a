"""Bounds over whole paths: from a release to the end of a job, each rival counted once over all of that time.

In: a cluster, who disturbs its workers, and its blocks' windows. Out: per job a bound of its end, or nothing where
loads are too high.

Look back from the end of a job to what it waited for last, and so on to a release: one unbroken path, on one processor
at a time, with the own work on it and what rivals run meanwhile. A rival cannot take more than it can run in the time
of the whole path, nor more than what it takes from the windows on the way. Window by window (as in fixed_point.py) a
path that comes back to a processor pays for a rival again, even if that rival comes once in a hundred times as long.
Here each rival is charged in the one or the other way, whichever is less by a first estimate; any choice is sound.
Paths may begin in earlier rounds, but only while those can still be running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .busy_window import EVER, Demand, Loss, Queue, Rivals, queued
from .unfolding import Cluster, Unfolded

#: Paths over more rounds than this are not followed.
MOST_ROUNDS = 6


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
    work: list[dict[int, int]] = []
    found: dict[int, int] = {}
    latest = 0
    toll = _Toll(net, cluster, rivals, stretches)
    for rounds in range(MOST_ROUNDS):
        work.append(_longest(net, cluster, work, toll.local))
        shift = rounds * cluster.round - cluster.jitter if rounds else 0
        lengths: dict[int, int] = {}
        for own in sorted(set(work[-1].values())):
            length = toll.length(own, rounds + 1)
            if length is None:
                return None
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
    """What rivals take from paths of a cluster: `local` by the block that pays it, the others over a path's length."""

    def __init__(
        self, net: Unfolded, cluster: Cluster, rivals: Mapping[int, Rivals], stretches: Iterable[Stretch]
    ) -> None:
        self.limit = 2 * MOST_ROUNDS * cluster.round
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
            here = on[processor]
            parts = sum(net.jobs[j].parts for i in lanes for j in net.lanes[i].jobs)
            # Of lanes that share a processor, each has the same rivals, and the others.
            higher = {d: None for i in lanes for d in rivals[i].higher}
            queues = {q.lane: q for i in lanes for q in rivals[i].queues}
            for d in higher:
                each = {s.first: (s.window + d.came) // d.spacing * d.cost for s in here}
                if not self._pay(each, (span + d.ran) // d.spacing * d.cost):
                    self.higher.append(d)
            for q in queues.values():
                each = {s.first: queued(q, s.parts, s.level, s.window) for s in here if s.lane != q.lane}
                if not self._pay(each, queued(q, parts, EVER, span)):
                    self.queues.append((q, parts))
            for loss in rivals[lanes[0]].losses:
                each = {s.first: loss.time(s.window) for s in here}
                if not self._pay(each, loss.time(span)):
                    self.losses.append(loss)

    def _pay(self, each: dict[int, int], once: int) -> bool:
        """Let the blocks pay if that is not more."""
        if sum(each.values()) > once:
            return False
        for first, time in each.items():
            self.local[first] = self.local.get(first, 0) + time
        return True

    def length(self, own: int, rounds: int) -> int | None:
        """Longest time that a path with so much of its own takes; None beyond all patience."""
        length = max(own, 1)
        while True:
            work = own
            for d in self.higher:
                work += (length + d.ran) // d.spacing * d.cost
            for q, parts in self.queues:
                work += queued(q, parts * rounds, EVER, length)
            work += sum(x.time(length) for x in self.losses)
            if work <= length:
                return work
            if work > self.limit:
                return None
            length = work
