"""Ends and jitters that fit each other: bounds by event streams.

In: an unfolded system. Out: the latest end and arrival of every job, and which clusters have none,
with the reason. Why it holds is said in response_time.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from .busy_window import (
    ALWAYS,
    EVER,
    Demand,
    Loss,
    Queue,
    Rivals,
    Tally,
    level_window,
    served_window,
    sums_of,
)
from .fixed_point import LONGEST, FixedPoint
from .unfolding import BlockStream, Cluster, Drag, Unfolded, WorkerLane
from .whole_paths import Stretch, path_bounds

#: A cluster is given up after so many extensions of a chain by a job, some seconds.
MOST_EXTENSIONS = 150_000


@dataclass(slots=True)
class JobChain:
    """A run of jobs of one worker since it waited: `start` is the arrival it waited for, `first`
    the job.

    `before` is own work before it in the `level` window. It began `rounds` before the round of the
    jobs that are looked at now, `shift` earlier.
    """

    first: int
    start: int
    own: int
    parts: int
    before: int
    window: int = 0
    level: int = 0
    tally: Tally = field(default_factory=Tally)
    rounds: int = 0
    shift: int = 0

    @property
    def end(self) -> int:
        """From the start of the round of the last job."""
        return self.start + self.window - self.shift


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job can end: in the window of a chain that began `shift` before its round, with job
    `first`.
    """

    first: int
    rounds: int
    shift: int
    start: int
    parts: int
    level: int
    window: int

    @property
    def end(self) -> int:
        """From the start of the job's round."""
        return self.start + self.window - self.shift


class StreamSolver(FixedPoint[JobEnd]):
    """Bounds by event streams. `arrivals` are the latest by job."""

    def __init__(
        self, net: Unfolded, patience: Fraction | None = None, watched: Collection[int] = ()
    ) -> None:
        super().__init__(net, patience, watched)
        # Whole paths cost time. They help where windows add up to more than there is, and know
        # about offsets.
        self.careful = [c.offset is not None for c in net.clusters]
        self.limit = LONGEST * max((c.round for c in net.clusters), default=1)
        self.curved = [any(net.jobs[j].curved for j in lane.jobs) for lane in net.lanes]
        self.arrivals = [j.ready for j in net.jobs]
        self.sums = [sums_of(x.parts) if net.fifo[x.processor] else None for x in net.lanes]
        self.ahead = [0] * len(net.jobs)
        for lane in net.lanes:
            total, tally = 0, Tally()
            for j in lane.jobs:
                self.ahead[j] = total
                total += tally.add(net.jobs[j].plain, net.jobs[j].curved, 1)
        self.demands: list[tuple[Demand, ...]] = [self._demands(i) for i in range(len(net.lanes))]

    def rivals(self, number: int) -> dict[int, Rivals]:
        """Who disturbs the workers of a cluster. Raises Unbounded when one of them has no bound."""
        return {i: self._rivals(i) for i in self.net.clusters[number].lanes}

    def stretch(self, jobs: Sequence[int], rivals: Rivals) -> JobChain:
        """The window of some jobs that follow each other in a worker, taken alone."""
        chain = JobChain(jobs[0], 0, 0, 0, self.ahead[jobs[0]])
        for j in jobs:
            self._extend(chain, j, rivals)
        return chain

    def _late(self, cluster: Cluster) -> bool:
        """Does a round reach into the next one, or a group miss a deadline?"""
        end = cluster.round - cluster.jitter
        return any(self.ends[j] > end for j in cluster.order) or any(
            self._beyond(g, Fraction(1)) for g in cluster.groups
        )

    # -- what workers want -------------------------------------------------------------------------
    def _demands(self, number: int) -> tuple[Demand, ...]:
        """The event streams of a worker, with the jitters of now."""
        net, ends, arrivals = self.net, self.ends, self.arrivals
        lane = net.lanes[number]
        cluster = net.clusters[lane.cluster]
        whole, more = cluster.round, cluster.jitter + cluster.round - 1
        demands = []
        for stream in lane.streams:
            if not stream.blocks[0].cost:
                continue
            together = self._together(stream, cluster) if len(stream.blocks) > 1 else None
            if together is not None:
                demands.append(together)
                continue
            for b in stream.blocks:
                low = net.jobs[b.first].ready
                came, ran = arrivals[b.first] - low + more, ends[b.last] - low + more
                demands.append(
                    Demand(came, ran, whole, b.cost, 1, b.first, low, b.plain, b.curved, b.parts)
                )
        return tuple(demands)

    def _together(self, stream: BlockStream, cluster: Cluster) -> Demand | None:
        """The blocks of a stream as events of one period; None if they are too late for that."""
        step, count = stream.spacing, len(stream.blocks)
        jobs, first = self.net.jobs, stream.blocks[0]
        low = min(jobs[b.first].ready - k * step for k, b in enumerate(stream.blocks))
        came = max(self.arrivals[b.first] - k * step for k, b in enumerate(stream.blocks)) - low
        if came + cluster.jitter > (count - 1) * step:
            return None
        ran = max(self.ends[b.last] - k * step for k, b in enumerate(stream.blocks)) - low
        came, ran = came + cluster.jitter + step - 1, ran + cluster.jitter + step - 1
        cost = max(b.cost for b in stream.blocks)
        parts = min(b.parts for b in stream.blocks)
        return Demand(
            came, ran, step, cost, count, first.first, low, first.plain, first.curved, parts
        )

    def _publish(self, number: int) -> bool:
        """Renew the demands of a cluster's workers."""
        cluster = self.net.clusters[number]
        changed = number in self.reasons
        for i in cluster.lanes:
            demands = self._demands(i)
            if demands != self.demands[i]:
                self.demands[i] = demands
                changed = True
        return changed

    def _rivals(self, number: int) -> Rivals:
        """Who disturbs a worker. Raises Unbounded when one of them has no bound."""
        net = self.net
        lane = net.lanes[number]
        higher: list[Demand] = []
        queues = []
        for other in net.on[lane.processor]:
            rival = net.lanes[other]
            if other == number or rival.rank < lane.rank:
                continue
            demands = self.demands[other]
            if rival.cluster in self.reasons:
                demands = (ALWAYS,)
                if not net.fifo[lane.processor]:
                    self._disturbed(rival.cluster, lane.processor)
            if rival.slip:
                demands = tuple(d.shorter(rival.more_than(lane)) for d in demands)
            if rival.rank > lane.rank:
                higher += demands
            else:
                queues.append(Queue(other, demands, self.sums[other]))
        losses = tuple(self._loss(drag) for drag in net.drags[lane.processor])
        everything = list(higher)
        for queue in queues:
            everything += queue.demands
        lower = self._lower(lane) if lane.slip else ()
        return Rivals(tuple(higher), tuple(queues), losses, tuple(everything), lower, lane.slip)

    def _lower(self, lane: WorkerLane) -> tuple[Demand, ...]:
        """What is below a worker, without what slips in before it."""
        lower: list[Demand] = []
        for other in self.net.on[lane.processor]:
            below = self.net.lanes[other]
            if below.rank < lane.rank:
                known = below.cluster not in self.reasons
                demands = self.demands[other] if known else (ALWAYS,)
                lower += (d.shorter(below.slip) for d in demands)
        return tuple(lower)

    def _loss(self, drag: Drag) -> Loss:
        """What is lost while the workers of a slowdown are busy."""
        slow: list[Demand] = []
        for other in drag.lanes:
            lane = self.net.lanes[other]
            if lane.cluster in self.reasons:
                slow.append(ALWAYS)
            else:
                slow += (self._stretched(d, lane.processor) for d in self.demands[other])
        return Loss(drag.over, drag.under, tuple(slow))

    def _stretched(self, d: Demand, processor: int) -> Demand:
        """The demand as time that its processor is busy: it may be slowed down itself."""
        for drag in self.net.drags[processor]:
            slower = Fraction(drag.over, drag.under)
            curved = tuple((task, curve.scaled(slower), times) for task, curve, times in d.curved)
            cost, plain = (-(-x * drag.over // drag.under) for x in (d.cost, d.plain))
            d = replace(d, cost=cost, plain=plain, curved=curved)
        return d

    # -- one pass over a cluster -------------------------------------------------------------------
    def _pass(self, number: int) -> bool:
        cluster = self.net.clusters[number]
        before = [(self.ends[j], self.arrivals[j]) for j in cluster.order]
        changed = self._grow(number, self.careful[number])
        if not self.careful[number] and self._late(cluster):
            self.careful[number] = True
            for j, (end, arrival) in zip(cluster.order, before, strict=True):
                self.ends[j], self.arrivals[j] = end, arrival
            changed = self._grow(number, careful=True)
        return changed

    def _grow(self, number: int, careful: bool) -> bool:
        """Ends and arrivals of a cluster's jobs from what is known of the others; True when one has
        grown.
        """
        net, ends, arrivals = self.net, self.ends, self.arrivals
        cluster = net.clusters[number]
        rivals = self.rivals(number)
        paths = None
        if careful:
            paths = path_bounds(net, cluster, rivals, self.stretches(cluster, rivals))
        changed = False

        def arrival(j: int) -> int:
            nonlocal changed
            job = net.jobs[j]
            jobs = net.lanes[job.worker].jobs
            came = self.arrival(j, cluster) if job.opens else job.begin
            previous = ends[jobs[job.place - 1]]
            if not job.place:
                previous += cluster.jitter - cluster.round
            if max(came, previous) > arrivals[j]:
                arrivals[j] = max(came, previous)
                changed = True
            return came

        for j, chain in self._chains(number, rivals, arrival):
            end = chain.end if paths is None else min(chain.end, paths[j])
            if end > ends[j]:
                ends[j] = end
                changed = True
            self.steps += 1
            self._end_after(MOST_EXTENSIONS)
        return changed

    def _ways(self, number: int, arrival: Callable[[int], int]) -> Iterator[tuple[int, JobEnd]]:
        for j, c in self._chains(number, self.rivals(number), arrival):
            yield j, JobEnd(c.first, c.rounds, c.shift, c.start, c.parts, c.level, c.window)

    def _chains(
        self, number: int, rivals: Mapping[int, Rivals], arrival: Callable[[int], int]
    ) -> Iterator[tuple[int, JobChain]]:
        """The jobs of a cluster, each with all chains that it is the last one of so far."""
        cluster = self.net.clusters[number]
        alive: dict[int, list[JobChain]] = {i: [] for i in cluster.lanes}
        for j in cluster.order:
            job = self.net.jobs[j]
            came = arrival(j)
            if job.opens:
                alive[job.worker] = self._opened(alive[job.worker], j, came, rivals[job.worker])
            for chain in alive[job.worker]:
                self._extend(chain, j, rivals[job.worker])
                yield j, chain
        for i, chains in alive.items():
            yield from self._wrapped(i, chains, rivals[i])

    def _opened(
        self, chains: list[JobChain], j: int, arrival: int, rivals: Rivals
    ) -> list[JobChain]:
        """The chains that still run when a job comes, and one that begins with it."""
        arrives = self.net.jobs[j].arrives
        alive = [c for c in chains if arrives is None or c.start + c.window > arrives]
        alone = not rivals.all and not rivals.losses and not self.curved[self.net.jobs[j].worker]
        if alive and alone:
            # Of chains that meet no others the one that ends last stays so, without curves.
            alive = [max(alive, key=lambda c: c.start + c.window)]
        if all(c.start < arrival for c in alive):
            alive.append(JobChain(j, arrival, 0, 0, self.ahead[j]))
        return alive

    def _extend(self, chain: JobChain, j: int, rivals: Rivals) -> None:
        """One more job at the end of a chain."""
        job = self.net.jobs[j]
        more = chain.tally.add(job.plain, job.curved, 1)
        chain.own += more
        chain.parts += job.parts
        least = chain.window + more
        if rivals.queues:
            chain.level = self._level(chain, job.worker, rivals)
        window = served_window(chain.own, chain.parts, chain.level, rivals, self.limit, least)
        if window is None:
            self._give_up(job.worker)
        chain.window = window

    def _level(self, chain: JobChain, number: int, rivals: Rivals) -> int:
        """The level window around a chain. Own earlier rounds are in it as far as they can come
        after its start.
        """
        net = self.net
        lane = net.lanes[number]
        cluster = net.clusters[lane.cluster]
        ready = net.jobs[chain.first].ready
        late = []
        for stream in lane.streams:
            for b in stream.blocks:
                if b.cost:
                    late.append((self.arrivals[b.first] + cluster.jitter - ready, b))
        while True:
            level = level_window(chain.own + chain.before, rivals, self.limit)
            if level is None:
                if self.sums[number] is not None:
                    return EVER
                self._give_up(number)
            span = level - chain.own
            before, tally = self.ahead[chain.first], Tally()
            for behind, b in late:
                before += tally.add(b.plain, b.curved, max(0, (span + behind) // cluster.round))
            if before <= chain.before:
                return level
            chain.before = before

    def _wrapped(
        self, number: int, chains: list[JobChain], rivals: Rivals
    ) -> Iterator[tuple[int, JobChain]]:
        """Let chains that are still running when the next round may begin run on into it."""
        lane = self.net.lanes[number]
        cluster = self.net.clusters[lane.cluster]
        rounds = 0
        while chains:
            rounds += 1
            shift = rounds * cluster.round - cluster.jitter
            for chain in chains:
                chain.rounds, chain.shift = rounds, shift
            for j in lane.jobs:
                arrives = self.net.jobs[j].arrives
                if arrives is not None:
                    chains = [c for c in chains if c.end > arrives]
                for chain in chains:
                    self._extend(chain, j, rivals)
                    yield j, chain

    def stretches(self, cluster: Cluster, rivals: dict[int, Rivals]) -> list[Stretch]:
        """The window of every block of the cluster, taken alone."""
        jobs, windows = self.net.jobs, []
        for i in cluster.lanes:
            lane = self.net.lanes[i]
            for stream in lane.streams:
                for block in stream.blocks:
                    first, last = jobs[block.first].place, jobs[block.last].place
                    chain = self.stretch(lane.jobs[first : last + 1], rivals[i])
                    windows.append(Stretch(i, block.first, chain.parts, chain.level, chain.window))
        return windows
