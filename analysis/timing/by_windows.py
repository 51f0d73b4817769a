"""Bounds by job windows: over a hyperperiod, each job runs between an earliest and a latest time.

In: a system that is unfolded over its hyperperiod. Out: the latest end of every job.

Let a worker wait for nothing outside of it from time s on until its jobs f to j have ended. From
then on the processor is never idle for this worker, so that j ends at the least e with

    e = s + own work of f to j + what rivals can run between s and e.

A rival's job h runs once, between its earliest time (`ready`) and its latest end. It takes nothing
if that window does not meet the time from s to e, and no more than its worst case, nor than the
time from s to its latest end. Offsets and the orders of workers are in the windows, so that no
critical instant has to be sought (with offsets and precedence: Palencia and Gonzalez Harbour,
"Exploiting precedence relations in the schedulability analysis of distributed real-time systems",
1999).

Which job the worker waited for last is not known: each f since which it may not have waited counts.
Of the same group, or of groups that release each other by tokens, a rival that has to end before f
starts, or cannot start before j has ended, takes nothing.

Where rivals are on another clock, or where the worker's own releases have a jitter, the phase
between them and s is not known. Then the phases count at which some job of theirs begins with s as
late as it can and has all of its time left (critical instants with offsets: Palencia and Gonzalez
Harbour, "Schedulability analysis for tasks with static and dynamic offsets", 1998). No other phase
is worse: while all jobs that count have their time left, a later one meets more of them, and where
one has only a rest left, e moves less than s. Between clocks each has the worst of its phases for
each length by itself. Where time is not lost one by one, in queues and by contention, a job counts
whole until it has ended, and the phases just before their ends are the worst.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import lcm, prod

from ...model.workload import WorkloadCurve
from .busy_window import Queue, Tally, sums_of
from .fixed_point import LONGEST, FixedPoint
from .system import TimedGroup, in_order_of_release, needs, sources
from .unfolding import Cluster, Drag, JobWait, Unfolded

#: Longer than any time that is looked at.
NEVER = 1 << 80
#: A cluster is given up after so many meetings of a chain with a job of a rival, some seconds.
MOST_MEETINGS = 4_000_000


@dataclass(frozen=True, slots=True)
class RivalLane:
    """A worker as a rival of another one: its `jobs` in the order in which they may start in a
    `turn` of its own, each with the round that it belongs to. `ready` are the earliest times.

    Its times are `ahead` of those of the other one: its clusters have other offsets. A job may end
    `late` after its bound, by the jitter of its releases. `cost` is what its jobs take at most, by
    job, and what they count for as long as they may not have ended, where they count `whole`. `kin`
    is a worker of the same cluster. Of those that are `ordered` some jobs have to end before some
    of the other one start, whose round counts as number `number` then.
    """

    lane: int
    turn: int
    jobs: tuple[tuple[int, int], ...]
    ready: tuple[int, ...]
    cost: dict[int, int]
    ahead: int
    late: int
    kin: bool
    ordered: bool
    whole: bool = False
    number: int = 0

    def arrival(self, following: int) -> int:
        """When the job with that number comes at the earliest, in the other one's times."""
        rounds, place = divmod(following, len(self.jobs))
        return self.ready[place] + rounds * self.turn + self.ahead


@dataclass(frozen=True, slots=True)
class PhaseWindow:
    """The phases that the releases of a worker may have on a clock: `width` from `start` on, in
    every `period`."""

    start: int
    width: int
    period: int


@dataclass(frozen=True, slots=True)
class ClockRivals:
    """The rivals of a worker on one clock. Its phase against them is known, or one of `within`;
    without these it may be any."""

    lanes: tuple[RivalLane, ...]
    known: bool
    within: PhaseWindow | None = None


@dataclass(slots=True)
class Curbed:
    """Firings of a task that a chain has met: they take no more together than their curve says."""

    curve: WorkloadCurve
    firings: int = 0
    separate: int = 0
    together: int = 0

    def add(self, time: int) -> int:
        """What a firing more takes on top, if it takes so long by itself."""
        self.firings += 1
        self.separate += time
        # A firing that takes no time still waits for its turn.
        most = max(self.curve.total(self.firings), self.firings)
        before, self.together = self.together, min(self.separate, most)
        return self.together - before


@dataclass(slots=True)
class Met:
    """What a chain has met of a rival so far: `following` is the number of the next of its jobs,
    which comes at time `coming`. `jobs` and `time` are those it has met and what they take. Of kin,
    `held_back` cannot start yet. `counted` has each of them with its time, where that is asked for.
    """

    rival: RivalLane
    following: int
    coming: int
    jobs: int = 0
    time: int = 0
    by_task: dict[int, Curbed] = field(default_factory=dict)
    held_back: list[tuple[int, int]] = field(default_factory=list)
    counted: list[tuple[int, int]] | None = None


@dataclass(slots=True)
class Phases:
    """The rivals on one clock, as a chain meets them in each phase that counts.

    `coming` is a heap of them by the time at which the next job comes: a phase and a place in it.
    `waiting` are those of which jobs are held back. `most` is what they take in the worst phase. It
    only grows, except where the chain and they are `queued`: there it depends on the chain too.
    """

    phases: list[list[Met]]
    queued: bool
    coming: list[tuple[int, int, int]] = field(init=False)
    waiting: set[tuple[int, int]] = field(default_factory=set)
    most: int = 0

    def __post_init__(self) -> None:
        places = ((p, i) for p, phase in enumerate(self.phases) for i in range(len(phase)))
        self.coming = [(self.phases[p][i].coming, p, i) for p, i in places]
        heapq.heapify(self.coming)


@dataclass(slots=True)
class WindowChain:
    """A run of jobs of one worker since `start`, when job `first` had what it waited for.

    `rounds` rounds before the jobs that are looked at now. `since` is the latest start of those
    that it stands for. `rivals` has for each clock all phases that count, and `slowing` has these
    for each drag.
    """

    first: int
    start: int
    end: int
    since: int
    rivals: list[Phases]
    slowing: list[list[Phases]]
    own: int = 0
    parts: int = 0
    tally: Tally = field(default_factory=Tally)
    rounds: int = 0

    @property
    def met(self) -> Iterator[Met]:
        """All rivals in all phases."""
        for clock in self.rivals:
            for phase in clock.phases:
                yield from phase


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """How a job can end: in the window of a chain that began at `start`, so many rounds before,
    with job `first`. `end` counts from the start of the job's round.
    """

    first: int
    rounds: int
    start: int
    end: int


class WindowSolver(FixedPoint[WindowEnd]):
    """Bounds by job windows; the net is unfolded over its hyperperiod."""

    def __init__(
        self, net: Unfolded, patience: Fraction | None = None, watched: Collection[int] = ()
    ) -> None:
        super().__init__(net, patience, watched)
        self.longest = [LONGEST * _longest_period(net, c) for c in net.clusters]
        self.sums = [sums_of(x.parts) if net.fifo[x.processor] else None for x in net.lanes]
        self.order = _Precedence(net)
        self.rivals = [self._rivals(i) for i in range(len(net.lanes))]
        self.slowing = [self._slowing(i) for i in range(len(net.lanes))]
        #: Of chains that meet no others the one that ends last stays so, without curves.
        self.alone = [self._is_alone(i) for i in range(len(net.lanes))]
        self.reach = [self._reach(i) for i in range(len(net.lanes))]
        self._waits: dict[int, int] = {}

    def waits_until(self, j: int) -> int:
        """Once solved: from when on the worker of a job surely waits for nothing outside until the
        job has ended, from the start of its round. Its cluster has bounds that are not given up."""
        if j not in self._waits:
            self._note_waits(self.net.lanes[self.net.jobs[j].worker].cluster)
        return self._waits[j]

    def _note_waits(self, number: int) -> None:
        cluster = self.net.clusters[number]
        for job, chain in self._chains(number, lambda j: self.arrival(j, cluster)):
            since = chain.since - rounds_apart(cluster, chain.rounds)
            self._waits[job] = max(since, self._waits.get(job, since))

    def met(self, j: int, note: WindowEnd) -> WindowChain:
        """Once solved: the chain of a note, up to its job."""
        lane = self.net.lanes[self.net.jobs[j].worker]
        first = self.net.jobs[note.first].place
        chain = self._chain(note.first, note.start)
        for met in chain.met:
            met.counted = []
        for rounds in range(note.rounds + 1):
            chain.rounds = rounds
            begin = first if not rounds else 0
            end = self.net.jobs[j].place + 1 if rounds == note.rounds else len(lane.jobs)
            for job in lane.jobs[begin:end]:
                self._extend(chain, job)
        return chain

    # -- who disturbs whom -------------------------------------------------------------------------
    def _rivals(self, number: int) -> list[ClockRivals]:
        """The workers that may have the processor before a worker."""
        lane = self.net.lanes[number]
        rivals = []
        for other in self.net.on[lane.processor]:
            if other != number and self.net.lanes[other].rank >= lane.rank:
                less = self.net.lanes[other].more_than(lane)
                cost = {}
                for j in self.net.lanes[other].jobs:
                    cost[j] = self.net.jobs[j].cost - self.net.jobs[j].parts * less
                rivals.append((other, cost))
        return self._by_clock(number, rivals)

    def _slowing(self, number: int) -> list[tuple[Drag, list[ClockRivals]]]:
        """What slows a worker down: the workers of other processors, with the time for which their
        jobs keep these busy."""
        net = self.net
        slowing = []
        for drag in net.drags[net.lanes[number].processor]:
            lanes = []
            for other in drag.lanes:
                times = net.drags[net.lanes[other].processor]
                over, under = prod(d.over for d in times), prod(d.under for d in times)
                cost = {}
                for j in net.lanes[other].jobs:
                    cost[j] = -(-net.jobs[j].cost * over // under)
                lanes.append((other, cost))
            slowing.append((drag, self._by_clock(number, lanes)))
        return slowing

    def _by_clock(self, number: int, rivals: list[tuple[int, dict[int, int]]]) -> list[ClockRivals]:
        """The rivals of a worker, together where its phase against them is the same."""
        own = self._cluster_of(number)
        together: dict[tuple[str, bool], list[RivalLane]] = {}
        for other, cost in rivals:
            cluster = self._cluster_of(other)
            known = cluster is own or (cluster.clock == own.clock and not own.jitter)
            # Rounds that begin at other times of those of the other one are in other phases.
            known = known and not own.round % cluster.round
            lane = self._rival(number, other, cost, known)
            together.setdefault((cluster.clock, known), []).append(lane)
        found = []
        for (clock, known), lanes in together.items():
            within = None
            if clock == own.clock and not known:
                within = PhaseWindow(own.offset or 0, own.jitter, own.round)
            found.append(ClockRivals(tuple(lanes), known, within))
        return found

    def _cluster_of(self, lane: int) -> Cluster:
        return self.net.clusters[self.net.lanes[lane].cluster]

    def _is_alone(self, number: int) -> bool:
        """Does a worker meet no others, and takes each of its firings as long as it would alone?"""
        curved = any(self.net.jobs[j].curved for j in self.net.lanes[number].jobs)
        return not self.rivals[number] and not self.slowing[number] and not curved

    def _rival(self, number: int, other: int, cost: dict[int, int], known: bool) -> RivalLane:
        """A worker as a rival. Where the phase is not known, it is ahead of the clock."""
        net = self.net
        cluster, own = self._cluster_of(other), self._cluster_of(number)
        assert cluster.offset is not None and own.offset is not None, "a hyperperiod has offsets"
        # Of another round of its own cluster is not known how much later it is released.
        early = own.jitter if cluster is own else 0
        starts = []
        for j in net.lanes[other].jobs:
            rounds, within = divmod(net.jobs[j].ready - early, cluster.round)
            starts.append((within, j, -rounds))
        starts.sort()
        jobs = tuple((j, rounds) for _, j, rounds in starts)
        ready = tuple(within for within, _, _ in starts)
        ahead = cluster.offset - (own.offset if known else 0)
        together = net.lanes[number].processor == net.lanes[other].processor
        kin = cluster is own and together
        curved = any(net.jobs[j].curved for j in net.lanes[other].jobs)
        # Which phases are the worst is known of curves only where all jobs before a start count.
        ordered = kin or (together and not curved and self.order.joins(number, other))
        return RivalLane(
            other, cluster.round, jobs, ready, cost, ahead, cluster.jitter, kin, ordered
        )

    def _reach(self, number: int) -> int:
        """The longest time between the earliest start and the latest end of a job of a worker."""
        jobs = self.net.jobs
        return max(self.ends[j] - jobs[j].ready for j in self.net.lanes[number].jobs)

    def _publish(self, number: int) -> bool:
        if number not in self.reasons:
            for i in self.net.clusters[number].lanes:
                self.reach[i] = self._reach(i)
        return True

    def _too_far(self, j: int, number: int) -> bool:
        return self.ends[j] - self.net.jobs[j].base > self.longest[number]

    # -- one pass over a cluster -------------------------------------------------------------------
    def _pass(self, number: int) -> bool:
        net = self.net
        cluster = net.clusters[number]
        for i in cluster.lanes:
            for rivals in self.rivals[i]:
                for rival in rivals.lanes:
                    if net.lanes[rival.lane].cluster in self.reasons:
                        self._disturbed(net.lanes[rival.lane].cluster, net.lanes[i].processor)
        changed = False
        for j, chain in self._chains(number, lambda j: self.arrival(j, cluster)):
            end = chain.end - rounds_apart(cluster, chain.rounds)
            if end > self.ends[j]:
                self.ends[j] = end
                changed = True
            self._end_after(MOST_MEETINGS)
        return changed

    def _ways(self, number: int, arrival: Callable[[int], int]) -> Iterator[tuple[int, WindowEnd]]:
        cluster = self.net.clusters[number]
        for j, chain in self._chains(number, arrival):
            end = chain.end - rounds_apart(cluster, chain.rounds)
            yield j, WindowEnd(chain.first, chain.rounds, chain.start, end)

    def _chains(
        self, number: int, arrival: Callable[[int], int]
    ) -> Iterator[tuple[int, WindowChain]]:
        """The jobs of a cluster, each with all chains that it is the last one of so far."""
        cluster = self.net.clusters[number]
        alive: dict[int, list[WindowChain]] = {i: [] for i in cluster.lanes}
        for j in cluster.order:
            job = self.net.jobs[j]
            if job.opens:
                alive[job.worker] = self._opened(alive[job.worker], j, arrival(j))
            for chain in alive[job.worker]:
                self._extend(chain, j)
                yield j, chain
        for i, chains in alive.items():
            yield from self._wrapped(i, chains)

    def _opened(self, chains: list[WindowChain], j: int, arrival: int) -> list[WindowChain]:
        """The chains that still run when a job comes, and one that begins with it."""
        job = self.net.jobs[j]
        alive = [c for c in chains if job.arrives is None or c.end > job.arrives]
        if alive and self.alone[job.worker]:
            since = max(c.since for c in alive)
            alive = [max(alive, key=lambda c: c.end)]
            alive[0].since = since
        if all(c.start < arrival for c in alive):
            alive.append(self._chain(j, arrival))
        return alive

    def _wrapped(self, number: int, chains: list[WindowChain]) -> Iterator[tuple[int, WindowChain]]:
        """Let chains that are still running when the next round may begin run on into it."""
        rounds = 0
        cluster = self._cluster_of(number)
        while chains:
            rounds += 1
            for chain in chains:
                chain.rounds = rounds
            shift = rounds_apart(cluster, rounds)
            for j in self.net.lanes[number].jobs:
                arrives = self.net.jobs[j].arrives
                if arrives is not None:
                    chains = [c for c in chains if c.end > shift + arrives]
                for chain in chains:
                    self._extend(chain, j)
                    yield j, chain

    # -- chains ------------------------------------------------------------------------------------
    def _chain(self, j: int, start: int) -> WindowChain:
        number = self.net.jobs[j].worker
        queued = self.sums[number] is not None
        rivals = [self._phases(r, start, queued=queued) for r in self.rivals[number]]
        slowing = []
        for _, clocks in self.slowing[number]:
            slowing.append([self._phases(r, start, whole=True) for r in clocks])
        return WindowChain(j, start, start, start, rivals, slowing)

    def _phases(
        self, rivals: ClockRivals, start: int, *, queued: bool = False, whole: bool = False
    ) -> Phases:
        """The rivals on one clock in all phases that count for a chain with that start. Jobs count
        `whole` until they have ended, or for what they can have left; `queued` jobs are whole."""
        if rivals.known:
            return Phases([[self._met(rival, start) for rival in rivals.lanes]], queued)
        whole = whole or queued
        phases = []
        for phase in self._critical(rivals, start, whole):
            number = self._round_in(rivals.within, phase, start)
            ahead = start - phase
            moved = []
            for r in rivals.lanes:
                ordered = r.ordered and number is not None
                moved.append(
                    replace(
                        r, ahead=r.ahead + ahead, whole=whole, ordered=ordered, number=number or 0
                    )
                )
            phases.append([self._met(rival, start) for rival in moved])
        return Phases(phases, queued)

    def _round_in(self, window: PhaseWindow | None, phase: int, start: int) -> int | None:
        """In which round of a worker its start is in a phase; None where it may be in several."""
        if window is None or window.width >= window.period:
            return None
        return (phase - window.start - start) // window.period

    def _critical(self, rivals: ClockRivals, start: int, whole: bool) -> Collection[int]:
        """The phases of a start on the clock of its rivals that may be the worst.

        Jobs with workload curves take less together than one by one, so that a start at which one
        has only a rest left may count as much as an earlier one. No execution needs it. Let a
        worker wait since s, and let s' be the last time up to then at which no rival had work. From
        s' on the processor is never idle for the worker either: had it waited since s', it would
        end at the same time, after longer. All jobs that then count arrive at s' or later, and none
        has a latest end before its latest arrival and its worst case. So all have their time left
        at s', and meet no more jobs there than at the next critical phase. Where s' is before the
        first phase that the start may have, this is the worst one.
        """
        turn = lcm(*(rival.turn for rival in rivals.lanes))
        window = rivals.within
        if window is not None:
            turn = lcm(turn, window.period)
        points: dict[int, None] = {}
        for rival in rivals.lanes:
            for j, cost in rival.cost.items():
                point = self.ends[j] + rival.late + rival.ahead - (1 if whole else cost)
                for begin in range(0, turn, rival.turn):
                    points[(begin + point) % turn] = None
        if window is None or window.width >= window.period:
            return points
        first = window.start + start
        inside = [p for p in points if (p - first) % window.period <= window.width]
        for begin in range(first, first + turn, window.period):
            inside += [begin % turn, (begin + window.width) % turn]
        return dict.fromkeys(inside)

    def _met(self, rival: RivalLane, start: int) -> Met:
        """A rival of which nothing is met yet: those of its jobs that have ended by the start are
        passed over."""
        spread = rival.late * (2 if rival.kin else 1)
        since = start - rival.ahead - self.reach[rival.lane] - spread
        rounds, within = divmod(since, rival.turn)
        following = rounds * len(rival.jobs) + bisect_left(rival.ready, within)
        return Met(rival, following, rival.arrival(following))

    def _extend(self, chain: WindowChain, j: int) -> None:
        """One more job at the end of a chain: the least time at which it can surely have ended."""
        job = self.net.jobs[j]
        more = chain.tally.add(job.plain, job.curved, 1)
        chain.own += more
        chain.parts += job.parts
        slowing = self.slowing[job.worker]
        cluster = self.net.lanes[job.worker].cluster
        limit = chain.start + self.longest[cluster] + self.net.clusters[cluster].round
        end = chain.end + more
        for clock in chain.rivals:
            if clock.waiting:
                self._start_held_back(chain, clock, j)
        while True:
            work = chain.own
            for clock in chain.rivals:
                work += self._taken(chain, clock, j, end)
            if slowing:
                work = self._slowed(chain, work, end, slowing)
            if end > limit:
                self._give_up(job.worker)
            if chain.start + work <= end:
                break
            end = chain.start + work
        chain.end = end

    def _taken(self, chain: WindowChain, clock: Phases, j: int, end: int) -> int:
        """What rivals on a clock take from a chain until a time, in the worst phase."""
        coming = clock.coming
        while coming and coming[0][0] < end:
            _, phase, place = coming[0]
            met = clock.phases[phase][place]
            self._meet(chain, met, j, end)
            heapq.heapreplace(coming, (met.coming, phase, place))
            if met.held_back:
                clock.waiting.add((phase, place))
            if not clock.queued:
                clock.most = max(clock.most, sum(m.time for m in clock.phases[phase]))
        if clock.queued:
            return max(sum(self.taken(chain, m) for m in phase) for phase in clock.phases)
        return clock.most

    def worst(self, chain: WindowChain) -> Iterator[Met]:
        """The rivals of a chain, on each clock in the phase in which they take most."""
        for clock in chain.rivals:
            yield from max(clock.phases, key=lambda phase: sum(self.taken(chain, m) for m in phase))

    def taken(self, chain: WindowChain, met: Met) -> int:
        """What a rival takes from a chain, if the chain meets no more of it.

        On a FIFO processor each own sub-task waits for one of a rival worker at most.
        """
        sums = self.sums[met.rival.lane]
        if sums is None:
            return met.time
        rounds = -(-met.jobs // len(met.rival.jobs))
        return min(met.time, Queue(met.rival.lane, (), sums).longest(chain.parts, rounds))

    def _meet(self, chain: WindowChain, met: Met, j: int, end: int) -> None:
        """Count what a rival can start before a time."""
        rival = met.rival
        while met.coming < end:
            self.steps += 1
            rounds, place = divmod(met.following, len(rival.jobs))
            h, its_round = rival.jobs[place]
            its_round += rounds
            if not rival.ordered or not self._apart(chain, met, h, its_round, j):
                self._add(chain, met, h, its_round)
            met.following += 1
            met.coming = rival.arrival(met.following)

    def _add(self, chain: WindowChain, met: Met, h: int, rounds: int) -> None:
        """Count a job of a rival."""
        rival = met.rival
        left = self.ends[h] + rival.late + rounds * rival.turn + rival.ahead - chain.start
        if left <= 0:
            return
        time = rival.cost[h] if rival.whole else min(rival.cost[h], left)
        curved = self.net.jobs[h].curved
        if curved and rival.cost[h] == self.net.jobs[h].cost:
            ((task, curve, _),) = curved
            time = met.by_task.setdefault(task, Curbed(curve)).add(time)
        met.jobs += 1
        met.time += time
        if met.counted is not None:
            met.counted.append((h, time))

    def _apart(self, chain: WindowChain, met: Met, h: int, rounds: int, j: int) -> bool:
        """Does a job that is ordered take nothing: has it to end before the chain begins, or can
        it not start before job `j` has ended? The latter may change with a later job."""
        if self.order.before(h, rounds, chain.first, met.rival.number):
            return True
        if self.order.before(j, chain.rounds + met.rival.number, h, rounds):
            met.held_back.append((h, rounds))
            return True
        return False

    def _start_held_back(self, chain: WindowChain, clock: Phases, j: int) -> None:
        """Count jobs that had to wait for an earlier job of a chain, but not for this one."""
        for phase, place in tuple(clock.waiting):
            met = clock.phases[phase][place]
            held_back, met.held_back = met.held_back, []
            self.steps += len(held_back)
            for h, rounds in held_back:
                if self.order.before(j, chain.rounds + met.rival.number, h, rounds):
                    met.held_back.append((h, rounds))
                else:
                    self._add(chain, met, h, rounds)
            if not met.held_back:
                clock.waiting.remove((phase, place))
            clock.most = max(clock.most, sum(m.time for m in clock.phases[phase]))

    def _slowed(
        self,
        chain: WindowChain,
        work: int,
        end: int,
        slowing: Sequence[tuple[Drag, list[ClockRivals]]],
    ) -> int:
        """Time that work takes until a time, contention included."""
        over, under, lost = 1, 1, 0
        window = end - chain.start
        for (drag, _), clocks in zip(slowing, chain.slowing, strict=True):
            over *= drag.over
            under *= drag.under
            busy = sum(self._busy(chain, clock, end) for clock in clocks)
            lost += -(-min(window, busy) * (drag.over - drag.under) // drag.over)
        return min(work + lost, -(-work * over // under))

    def _busy(self, chain: WindowChain, clock: Phases, end: int) -> int:
        """How long rivals keep their processors busy between the start of a chain and a time."""
        for met in clock.phases[0]:
            if self.net.lanes[met.rival.lane].cluster in self.reasons:
                return NEVER
        return self._taken(chain, clock, chain.first, end)


def rounds_apart(cluster: Cluster, rounds: int) -> int:
    """The least time from the start of a round of a cluster to that of the one so many later."""
    return rounds * cluster.round - cluster.jitter if rounds else 0


def _longest_period(net: Unfolded, cluster: Cluster) -> int:
    periods = (net.system.groups[g].period for g in cluster.groups)
    return int(max(periods) * net.unit)


#: A firing of a group: its group, its task and its number in an iteration.
Firing = tuple[int, int, int]
#: What a firing waits for, or what waits for it: firings, and how many iterations are between them.
Arcs = dict[Firing, dict[Firing, int]]


class _Precedence:
    """Which jobs of workers that share a processor have to end before others of their group start.

    An iteration of a firing waits for itself or for earlier ones of others. What would wait for a
    later one does not count: that need not exist.

    Tokens order firings of different groups, where each iteration of the writer makes one that
    releases one iteration of the reader: what ends before the token ends before all that waits for
    it. Between iterations nothing is said: tokens may be dropped. Iterations have the same numbers
    where the token waits for the release of its writer's iteration.
    """

    def __init__(self, net: Unfolded) -> None:
        self.net = net
        self._periods = [int(group.period * net.unit) for group in net.system.groups]
        #: By an earlier and a later firing: the least number of iterations between them.
        self.lags: dict[tuple[Firing, Firing], int] = {}
        self._joined: set[tuple[int, int]] = set()
        self._add_tokens()
        pairs = list(self._pairs())
        if not pairs:
            return
        waits = self._waits()
        followers: Arcs = {firing: {} for firing in waits}
        for firing, before in waits.items():
            for other, lag in before.items():
                followers[other][firing] = lag
        for fewer, others in pairs:
            wanted = {self._firing(j) for j in others}
            for firing in {self._firing(j) for j in fewer}:
                for other, lag in _distances(waits, firing).items():
                    if other in wanted:
                        self.lags[other, firing] = lag
                for other, lag in _distances(followers, firing).items():
                    if other in wanted:
                        self.lags[firing, other] = lag

    def joins(self, one: int, other: int) -> bool:
        """Do tokens order jobs of these workers of different groups?"""
        return (self._group_of(one), self._group_of(other)) in self._joined

    def _group_of(self, lane: int) -> int:
        return self.net.jobs[self.net.lanes[lane].jobs[0]].group

    def _add_tokens(self) -> None:
        """What has to end before a token, before what waits for the token."""
        groups = self.net.system.groups
        if all(group.trigger is None for group in groups):
            return
        index = {group.name: number for number, group in enumerate(groups)}
        behind = [_behind_release(group) for group in groups]
        before: dict[int, set[Firing]] = {}
        for group in in_order_of_release(groups):
            trigger = group.trigger
            if trigger is None:
                continue
            number, writer = index[group.name], index[trigger.group]
            token = trigger.task, 0
            counts = {t.name: t.firings for t in groups[writer].tasks}
            own = {t.name: t.firings for t in group.tasks}
            often = counts[trigger.task] > 1 or any(own[name] > 1 for name in sources(group))
            if often or token not in behind[writer]:
                continue
            ended = set(before.get(writer, ()))
            ended |= {self._named(writer, f) for f in (token, *_before(groups[writer], token))}
            before[number] = ended
            for one in ended:
                self._joined |= {(one[0], number), (number, one[0])}
                for other in behind[number]:
                    self.lags[one, self._named(number, other)] = 0

    def _named(self, group: int, firing: tuple[str, int]) -> Firing:
        tasks = [task.name for task in self.net.system.groups[group].tasks]
        return group, tasks.index(firing[0]), firing[1]

    def before(self, earlier: int, its_round: int, later: int, in_round: int) -> bool:
        """Has the one job, of that round, to end before the other one starts?"""
        lag = self.lags.get((self._firing(earlier), self._firing(later)))
        if lag is None:
            return False
        return self._iteration(earlier, its_round) <= self._iteration(later, in_round) - lag

    def _firing(self, j: int) -> Firing:
        job = self.net.jobs[j]
        return job.group, job.task, job.firing

    def _iteration(self, j: int, rounds: int) -> int:
        job = self.net.jobs[j]
        whole = self.net.clusters[self.net.lanes[job.worker].cluster].round
        return (job.base + rounds * whole) // self._periods[job.group]

    def _pairs(self) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """The jobs of two workers of a cluster on one processor, of the one with fewer first."""
        for lanes in self.net.on:
            for i, k in combinations(lanes, 2):
                one, other = self.net.lanes[i], self.net.lanes[k]
                if one.cluster == other.cluster:
                    fewer, more = sorted((one.jobs, other.jobs), key=len)
                    yield fewer, more

    def _waits(self) -> Arcs:
        """What each firing waits for, in all iterations alike."""
        turns: dict[Firing, dict[Firing, int]] = {}
        waits: Arcs = {self._firing(j): {} for j in range(len(self.net.jobs))}
        for j, job in enumerate(self.net.jobs):
            own = self._firing(j)
            for other, lag in self._least_lags(j).items():
                waits[own][other] = max(lag, waits[own].get(other, lag))
            if job.turn is not None:
                before = turns.setdefault(own, {})
                other = self._firing(job.turn.job)
                before[other] = max(before.get(other, 0), self._lag(j, job.turn))
        for own, before in turns.items():
            if len(before) == 1:
                ((other, lag),) = before.items()
                waits[own][other] = min(lag, waits[own].get(other, lag))
        return waits

    def _least_lags(self, j: int) -> dict[Firing, int]:
        """What one job waits for: of several iterations of a firing the latest one."""
        lags: dict[Firing, int] = {}
        job = self.net.jobs[j]
        for wait in (*job.waits, *job.same):
            other, lag = self._firing(wait.job), self._lag(j, wait)
            lags[other] = min(lag, lags.get(other, lag))
        return lags

    def _lag(self, j: int, wait: JobWait) -> int:
        return self._iteration(j, 0) - self._iteration(wait.job, -wait.lag)


def _before(group: TimedGroup, firing: tuple[str, int]) -> set[tuple[str, int]]:
    """The firings of its iteration that have to end before a firing starts."""
    wanted = needs(group)
    found: set[tuple[str, int]] = set()
    todo = [firing]
    while todo:
        for need in wanted[todo.pop()]:
            other = need.task, need.firing
            if not need.lag and other not in found:
                found.add(other)
                todo.append(other)
    return found


def _behind_release(group: TimedGroup) -> set[tuple[str, int]]:
    """The firings that wait for the release of their iteration."""
    released = {(name, 0) for name in sources(group)}
    return {f for f in needs(group) if f in released or released & _before(group, f)}


def _distances(arcs: Arcs, start: Firing) -> dict[Firing, int]:
    """The fewest iterations between `start` and each firing that it leads to (Dijkstra 1959)."""
    distances: dict[Firing, int] = {}
    waiting = [(0, start)]
    while waiting:
        distance, firing = heapq.heappop(waiting)
        if firing in distances:
            continue
        distances[firing] = distance
        for other, lag in arcs[firing].items():
            if other not in distances:
                heapq.heappush(waiting, (distance + lag, other))
    return distances
