"""A timed system as numbers: jobs, workers and clusters by index, times as integers.

In: a faultless timed system. Out: what the bounds iterate over; nothing here changes while they do.

A *job* is one firing of an iteration. A *cluster* is the groups whose workers are interleaved (one
group, unless static orders join several); its *round* is the time after which all its orders
repeat. All times of a job count from the start of its round: for a single group that is the actual
release of the iteration, otherwise the nominal one. Jobs of earlier rounds come in through a
*shift*: rounds `lag` apart begin at least `lag` periods less the jitter after each other.

`unfold` makes rounds as short as they can be. `unfold_hyperperiod` gives clusters whose phases are
known one round, the hyperperiod of their clock: then each firing in it is a job with times of its
own. A cluster that *moves* against its clock, since others release it, and one that is alone on its
clock keep their own rounds, which begin at the actual release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, product
from math import lcm

from ...model.workload import WorkloadCurve
from ..dataflow.static_order import hyperperiod
from .busy_window import Curved
from .system import (
    Refused,
    TimedPath,
    TimedSystem,
    TimedTask,
    faults,
    needs,
    sinks,
    sources,
    workers_of,
)


@dataclass(frozen=True, slots=True)
class JobWait:
    """For the end of `job`, `lag` rounds ago. In its first `spared` rounds the one that waits has
    nothing to wait for: the tokens are there at the start.
    """

    job: int
    lag: int
    spared: int

    def earliest(self, end: int, whole: int, jitter: int, start: int) -> int:
        """When it can be over, if the job ends no earlier than `end` in its round, and the program
        starts no earlier than `start`, both seen from the first round of the one that waits.
        """
        end -= self.lag * whole + jitter if self.lag else 0
        if not self.spared:
            return end
        return min(start - (self.spared - 1) * whole, end)

    def latest(self, end: int, whole: int, jitter: int) -> int:
        """When it is over, in rounds in which there is something to wait for, if the job ends no
        later than `end` in its round.
        """
        return end - (self.lag * whole - jitter if self.lag else 0)


@dataclass(frozen=True, slots=True)
class Job:
    """`base` is the nominal release of its iteration, `released` the latest release of a source's
    own firing.

    `waits` are for jobs of other workers, `same` for those of its own, `turn` for the last one of
    the same app before it in its worker that surely comes first. `begin` is the first release of
    the program, seen from the first round in which its iteration exists: a job that works behind
    others is idle before. `start` is the earliest time at which workers can have started by then.
    A job `opens` where its worker may wait just before it: for others, or for the first release.
    Then it is at hand up to `wakeup` later.

    `cost` is the worst case in units of time, one more where the last sub-task takes none. Several
    jobs may take less than their costs: `plain` each time, the rest as the curves of `curved` say.
    `counted` are the curves that hold for firings of which is not known which they are.
    `arrives` is the earliest time at which release and waits let it start (None without any),
    `ready` the earliest with its worker's order as well.
    """

    group: int
    task: int
    firing: int
    base: int
    begin: int
    start: int
    opens: bool
    wakeup: int
    worker: int
    place: int
    cost: int
    best: int
    parts: int
    released: int | None
    waits: tuple[JobWait, ...]
    same: tuple[JobWait, ...]
    turn: JobWait | None
    arrives: int | None
    ready: int
    sink: bool
    plain: int
    curved: tuple[Curved, ...]
    counted: tuple[Curved, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Jobs `first` to `last` of a worker that never wait in between: one demand of `cost`, once per
    round.

    Of several in a row `plain` is taken each time, the rest as the curves of `curved` say. It has
    so many `parts`, sub-tasks.
    """

    first: int
    last: int
    cost: int
    plain: int
    curved: tuple[Curved, ...]
    parts: int


@dataclass(frozen=True, slots=True)
class BlockStream:
    """Blocks of one shape, one every `spacing`: they can be counted as one event stream of that
    period.
    """

    blocks: tuple[Block, ...]
    spacing: int


@dataclass(frozen=True, slots=True)
class WorkerLane:
    """A worker. `rank` is its priority where that counts, 0 elsewhere; `parts` are the times of its
    sub-tasks.

    A round of it takes `sustained` at most in the long run. Each sub-task includes `slip`, of which
    workers of a lower rank only wait for their own.
    """

    processor: int
    cluster: int
    rank: int
    jobs: tuple[int, ...]
    sustained: Fraction
    streams: tuple[BlockStream, ...]
    parts: tuple[int, ...]
    slip: int = 0

    def more_than(self, other: WorkerLane) -> int:
        """By how much each of its sub-tasks is shorter for another worker than for itself."""
        return max(0, self.slip - other.slip)


@dataclass(frozen=True, slots=True)
class Cluster:
    """`order` has the jobs of a round so that each comes after those it waits for in the same
    round.

    `offset` is that of the nominal start of some round on the `clock`; None if it is not known, or
    if a round is neither one iteration of a group nor the hyperperiod. Rounds begin up to `jitter`
    later.
    """

    groups: tuple[int, ...]
    round: int
    jitter: int
    offset: int | None
    lanes: tuple[int, ...]
    order: tuple[int, ...]
    clock: str = ""


@dataclass(frozen=True, slots=True)
class Drag:
    """A factor (over/under) by which work slows down while any of `lanes` is running."""

    over: int
    under: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PathEnd:
    """A job that a path ends with. Its newest data are released at `released` at the earliest, from
    the start of its round.

    In rounds of the program before `first` it works on initial tokens, which have no release; 0
    where it does so in no round.
    """

    job: int
    released: int
    first: int


@dataclass(frozen=True, slots=True)
class Unfolded:
    """`unit` units of time make 1 ns. `fifo`, `on` (the lanes) and `drags` are by processor, and
    the ends of each path by group.
    """

    system: TimedSystem
    unit: int
    jobs: tuple[Job, ...]
    lanes: tuple[WorkerLane, ...]
    clusters: tuple[Cluster, ...]
    fifo: tuple[bool, ...]
    on: tuple[tuple[int, ...], ...]
    drags: tuple[tuple[Drag, ...], ...]
    paths: tuple[tuple[tuple[PathEnd, ...], ...], ...]


@dataclass(slots=True)
class _Draft:
    """A job while it is being made."""

    group: int
    task: int
    firing: int
    iteration: int
    lane: int
    place: int
    waits: list[JobWait] = field(default_factory=list)
    same: list[JobWait] = field(default_factory=list)
    released: int | None = None
    arrives: int | None = None
    ready: int | None = None


#: Earliest times are made more exact so often.
MOST_SWEEPS = 10
#: A hyperperiod with more firings is not unfolded.
MOST_JOBS = 20_000

Key = tuple[int, int, int, int]


def unfold(system: TimedSystem) -> Unfolded:
    """The numbers of a system. Raises Refused with what is wrong with it."""
    wrong = faults(system)
    if wrong:
        raise Refused(wrong)
    return _Unfolding(system).result()


def unfold_hyperperiod(system: TimedSystem) -> Unfolded | None:
    """The numbers of a system over the hyperperiods of its clocks; None where more than MOST_JOBS
    firings are in them.

    Raises Refused with what is wrong with the system.
    """
    wrong = faults(system)
    if wrong:
        raise Refused(wrong)
    wholes = {clock: hyperperiod(periods) for clock, periods in _periods(system).items()}
    firings = Fraction(0)
    for g in system.groups:
        firings += wholes[g.on_clock] / g.period * sum(t.firings for t in g.tasks)
    if firings > MOST_JOBS:
        return None
    return _Unfolding(system, wholes).result()


def _periods(system: TimedSystem) -> dict[str, list[Fraction]]:
    """The periods of the groups on each clock."""
    periods: dict[str, list[Fraction]] = {}
    for group in system.groups:
        periods.setdefault(group.on_clock, []).append(Fraction(group.period))
    return periods


class _Unfolding:
    """The work of `unfold`, step by step. Rounds of clusters that do not move take as many ns as
    `wholes` has for their clock; without it all take as little as they can."""

    def __init__(self, system: TimedSystem, wholes: dict[str, Fraction] | None = None) -> None:
        self.groups = system.groups
        self.system = system
        self.workers = workers_of(system)
        self.rounds = [dict(w.rounds) for w in self.workers]
        self.unit = self._unit()
        self.wakeup = {p.name: self._int(p.wakeup) for p in system.processors}
        self.index = {g.name: i for i, g in enumerate(system.groups)}
        self.tasks = [{t.name: i for i, t in enumerate(g.tasks)} for g in system.groups]
        self.best = [[self._int(sum(t.bcet)) for t in g.tasks] for g in system.groups]
        self.curve = [[self._curve(t) for t in g.tasks] for g in system.groups]
        self.number = [0, *accumulate(len(g.tasks) for g in system.groups)]
        self.period = [self._int(g.period) for g in system.groups]
        self.jitter = [self._int(g.jitter or 0) for g in system.groups]
        self.sources = [{self.tasks[i][t] for t in sources(g)} for i, g in enumerate(system.groups)]
        self.wholes = None
        if wholes is not None:
            self.wholes = {clock: self._int(whole) for clock, whole in wholes.items()}
        self.round: dict[int, int] = {}
        self.drafts: list[_Draft] = []
        self.lanes: list[list[int]] = [[] for _ in self.workers]

    def _unit(self) -> int:
        parts = {1}
        for g in self.groups:
            period = Fraction(g.period)
            parts.update((period / t.firings).denominator for t in g.tasks)
            parts.update(Fraction(x).denominator for x in (g.jitter or 0, g.offset or 0))
            for t in g.tasks:
                parts.update(x.denominator for x in (*t.wcet, *t.bcet, *t.phases))
        return lcm(*parts)

    def _curve(self, task: TimedTask) -> WorkloadCurve | None:
        """The workload curve of a task that takes time, if it has one."""
        if task.curve is None or not task.cost:
            return None
        return task.curve.scaled(self.unit)

    def _int(self, time: int | Fraction) -> int:
        return int(time * self.unit)

    def result(self) -> Unfolded:
        clusters = [self._cluster(groups, lanes) for groups, lanes in self._clusters()]
        ends = [{self.tasks[i][t] for t in sinks(g)} for i, g in enumerate(self.groups)]
        late = {g: c.jitter for c in clusters for g in c.groups}
        jobs = tuple(self._job(d, d.task in ends[d.group], late[d.group]) for d in self.drafts)
        where = {p.name: i for i, p in enumerate(self.system.processors)}
        lanes: dict[int, WorkerLane] = {}
        for number, cluster in enumerate(clusters):
            for i in cluster.lanes:
                processor = where[self.workers[i].processor]
                lanes[i] = self._lane(i, processor, number, cluster.round, jobs)
        ordered = tuple(lanes[i] for i in sorted(lanes))
        by_processor: list[list[int]] = [[] for _ in where]
        for i, lane in enumerate(ordered):
            by_processor[lane.processor].append(i)
        on = tuple(tuple(own) for own in by_processor)
        fifo = tuple(p.scheduler == "fifo" for p in self.system.processors)
        drags = tuple(tuple(self._drags(p, on)) for p in where.values())
        paths = self._paths(jobs, clusters)
        return Unfolded(
            self.system, self.unit, jobs, ordered, tuple(clusters), fifo, on, drags, paths
        )

    def _paths(
        self, jobs: Sequence[Job], clusters: Sequence[Cluster]
    ) -> tuple[tuple[tuple[PathEnd, ...], ...], ...]:
        """Where times count from a release that may be late, those of iterations before may be so
        much longer ago.
        """
        late = {g: c.jitter for c in clusters for g in c.groups}
        of_task: dict[tuple[int, int], list[int]] = {}
        for j, job in enumerate(jobs):
            of_task.setdefault((job.group, job.task), []).append(j)

        def path_end(g: int, path: TimedPath, j: int) -> PathEnd:
            job = jobs[j]
            behind = path.newest[job.firing]
            firings = self.groups[g].tasks[self.tasks[g][path.source]].firings
            released = job.base + behind * self.period[g] // firings
            if behind >= 0:
                return PathEnd(j, released, 0)
            newest = job.base // self.period[g] * firings + behind
            per_round = self.round[g] // self.period[g] * firings
            return PathEnd(j, released - late[g], max(0, -(newest // per_round)))

        by_group = []
        for g, group in enumerate(self.groups):
            paths = []
            for path in group.paths:
                last = of_task[g, self.tasks[g][path.sink]]
                paths.append(tuple(path_end(g, path, j) for j in last))
            by_group.append(tuple(paths))
        return tuple(by_group)

    def _clusters(self) -> Iterator[tuple[list[int], list[int]]]:
        """Groups that share workers, with their lanes, the most urgent first."""
        home = list(range(len(self.groups)))
        members = [sorted({self.index[p.group] for p in w.sequence}) for w in self.workers]
        for first, *others in members:
            for other in others:
                old, new = home[other], home[first]
                home = [new if h == old else h for h in home]
        together: dict[int, list[int]] = {}
        for g, cluster in enumerate(home):
            together.setdefault(cluster, []).append(g)
        urgency = {h: max(self.groups[g].priority for g in own) for h, own in together.items()}
        for h in sorted(together, key=lambda h: (-urgency[h], h)):
            yield together[h], [i for i, m in enumerate(members) if home[m[0]] == h]

    def _cluster(self, groups: list[int], lanes: list[int]) -> Cluster:
        clock = self.groups[groups[0]].on_clock
        single = self._is_single(groups, lanes) and self._moves(groups[0])
        if single:
            whole, jitter = self.period[groups[0]], self.jitter[groups[0]]
        elif self.wholes is None or self._is_alone(groups):
            whole, jitter = self._common_round(groups, lanes), 0
        else:
            whole, jitter = self.wholes[clock], 0
        self.round.update(dict.fromkeys(groups, whole))
        counts = {g: whole // self.period[g] for g in groups}
        job_of: dict[Key, int] = {}
        for i in lanes:
            self._repeat(i, counts, job_of)
        for g in groups:
            self._wait(g, counts[g], job_of)
        order = self._sort(lanes)
        for g in groups:
            self._release(g, job_of, counts[g], 0 if single else self.jitter[g])
        self._settle(order, whole, jitter)
        offset = self._offset(groups)
        if not single and self.wholes is None:
            offset = None
        return Cluster(tuple(groups), whole, jitter, offset, tuple(lanes), tuple(order), clock)

    def _moves(self, group: int) -> bool:
        """Do times of a group count from its actual releases? Where hyperperiods are unfolded,
        those of groups with a trigger do, and of those that are alone on their clock."""
        if self.wholes is None or self.groups[group].trigger is not None:
            return True
        return self._is_alone([group])

    def _is_alone(self, groups: list[int]) -> bool:
        """Is no other group on the clock of these?"""
        clock = self.groups[groups[0]].on_clock
        return all(g.on_clock != clock for i, g in enumerate(self.groups) if i not in groups)

    def _is_single(self, groups: list[int], lanes: list[int]) -> bool:
        """Is this one group, whose orders have one iteration each, and none that works behind?"""
        group = self.groups[groups[0]]
        if len(groups) > 1:
            return False
        released = sources(group)
        often = any(t.firings > 1 for t in group.tasks if t.name in released)
        if group.trigger is not None and often:
            return False  # each of its tokens comes at a time of its own
        for i in lanes:
            for p in self.workers[i].sequence:
                if p.index or p.stage or self.rounds[i].get(p.group, 1) != 1:
                    return False
        return True

    def _common_round(self, groups: list[int], lanes: list[int]) -> int:
        """The time after which all orders repeat."""
        lengths = [self.period[g] for g in groups]
        for i in lanes:
            lengths += [self.period[self.index[g]] * n for g, n in self.rounds[i].items()]
        return lcm(*lengths)

    def _settle(self, order: list[int], whole: int, jitter: int) -> None:
        """The earliest times of jobs.

        What tokens of earlier rounds allow is known after a few sweeps; each of them gives valid
        bounds.
        """
        sweeps, later = 0, len(order)
        while later and (sweeps < MOST_SWEEPS or any(self.drafts[j].ready is None for j in order)):
            sweeps += 1
            later = sum(self._earliest(j, whole, jitter) for j in order)

    def _offset(self, groups: list[int]) -> int | None:
        """The offset that groups of a cluster share, if it is known. Raises Refused."""
        offsets = {(self.groups[g].clock, self.groups[g].offset) for g in groups}
        if len(offsets) > 1:
            names = ", ".join(f"`{self.groups[g].name}`" for g in groups)
            raise Refused([f"{names} share a static order, but not their offset"])
        _, offset = offsets.pop()
        if offset is None and self.wholes is not None:
            offset = 0
        return None if offset is None else self._int(offset)

    def _repeat(self, lane: int, counts: dict[int, int], job_of: dict[Key, int]) -> None:
        """A worker's sequence, again and again until it fills the round."""
        worker, rounds = self.workers[lane], self.rounds[lane]
        repeats = {
            Fraction(counts[self.index[p.group]], rounds.get(p.group, 1)) for p in worker.sequence
        }
        if len(repeats) != 1 or min(repeats).denominator != 1:
            raise Refused(
                [f"the rounds of the groups on `{worker.processor}` do not last equally long"]
            )
        for copy in range(int(repeats.pop())):
            for p in worker.sequence:
                g = self.index[p.group]
                t = self.tasks[g][p.task]
                iteration = copy * rounds.get(p.group, 1) + p.index - p.stage
                key = g, t, p.firing, iteration % counts[g]
                if key in job_of or self.groups[g].tasks[t].processor != worker.processor:
                    raise Refused(
                        [f"the order of `{worker.processor}` has a firing of `{p.task}` too many"]
                    )
                job_of[key] = len(self.drafts)
                self.lanes[lane].append(len(self.drafts))
                self.drafts.append(
                    _Draft(g, t, p.firing, iteration, lane, len(self.lanes[lane]) - 1)
                )

    def _wait(self, g: int, count: int, job_of: dict[Key, int]) -> None:
        """What each job of a group waits for."""
        group, index = self.groups[g], self.tasks[g]
        for (task, firing), wanted in needs(group).items():
            for iteration in range(count):
                own = job_of.get((g, index[task], firing, iteration))
                if own is None:
                    raise Refused([f"no worker has firing {firing} of `{task}` in its order"])
                draft = self.drafts[own]
                for need in wanted:
                    earlier = draft.iteration - need.lag
                    other = job_of.get((g, index[need.task], need.firing, earlier % count))
                    if other is None:
                        raise Refused(
                            [f"no worker has firing {need.firing} of `{need.task}` in its order"]
                        )
                    lag = (self.drafts[other].iteration - earlier) // count
                    if lag < 0:
                        raise Refused([f"`{task}` waits for a later round of `{need.task}`"])
                    waits = draft.same if self.drafts[other].lane == draft.lane else draft.waits
                    waits.append(JobWait(other, lag, self._spared(draft, need.lag, count)))

    def _spared(self, draft: _Draft, lag: int, count: int) -> int:
        """In how many rounds of the program a job comes before there is an iteration `lag` ago."""
        first = draft.iteration + self._rounds_behind(draft, count) * count
        return max(0, -((first - lag) // count))

    def _rounds_behind(self, draft: _Draft, count: int) -> int:
        """The first rounds of the program in which the job's iteration does not exist yet."""
        return max(0, -(draft.iteration // count))

    def _sort(self, lanes: list[int]) -> list[int]:
        """Topological order of the jobs of one round: data and space, and the orders of the
        workers.
        """
        jobs: list[int] = []
        for lane in lanes:
            jobs += self.lanes[lane]
        following: dict[int, list[int]] = {j: [] for j in jobs}
        left = dict.fromkeys(jobs, 0)
        for j in jobs:
            before = self._before(self.drafts[j])
            for other in before:
                following[other].append(j)
            left[j] = len(before)
        order = [j for j in jobs if left[j] == 0]
        for j in order:
            for other in following[j]:
                left[other] -= 1
                if left[other] == 0:
                    order.append(other)
        if len(order) < len(jobs):
            drafts = [self.drafts[j] for j in jobs if left[j]]
            stuck = sorted({self.groups[d.group].tasks[d.task].name for d in drafts})
            raise Refused([f"deadlock: {', '.join(stuck)} wait for each other"])
        return order

    def _before(self, draft: _Draft) -> list[int]:
        """The jobs of the same round that a job comes after."""
        before = [w.job for w in (*draft.waits, *draft.same) if w.lag == 0]
        if draft.place:
            before.append(self.lanes[draft.lane][draft.place - 1])
        return before

    def _release(self, g: int, job_of: dict[Key, int], count: int, late: int) -> None:
        """The latest releases of a group's sources."""
        for t in self.sources[g]:
            firings = self.groups[g].tasks[t].firings
            for k, n in product(range(firings), range(count)):
                draft = self.drafts[job_of[g, t, k, n]]
                nominal = draft.iteration * self.period[g] + k * self.period[g] // firings
                draft.arrives, draft.released = nominal, nominal + late

    def _earliest(self, j: int, whole: int, jitter: int) -> bool:
        """Earliest times of a job, from those of the jobs before it; True when they have become
        later.
        """
        draft = self.drafts[j]
        arrivals = [] if draft.arrives is None else [draft.arrives]
        arrivals += self._ends(draft, draft.waits, whole, jitter)
        draft.arrives = max(arrivals, default=None)
        turn = self._turn(draft)
        inside = [*draft.same, *([] if turn is None else [turn])]
        ready = max([*arrivals, *self._ends(draft, inside, whole, jitter)], default=None)
        changed = ready != draft.ready
        draft.ready = ready
        return changed

    def _turn(self, draft: _Draft) -> JobWait | None:
        """The last job of the same app before this one in its worker that surely has to end first.

        A worker skips iterations that do not exist: at the end of a program, or of a state, later
        ones of its own app, and any of other apps that have ended before. They are left out.
        """
        lane = self.lanes[draft.lane]
        per_round = self.round[draft.group] // self.period[draft.group]
        for back in range(1, len(lane) + 1):
            previous = lane[draft.place - back]
            other = self.drafts[previous]
            lag = int(back > draft.place)
            iteration = other.iteration - lag * per_round
            if other.group == draft.group and iteration <= draft.iteration:
                spared = self._spared(draft, draft.iteration - iteration, per_round)
                return JobWait(previous, lag, spared)
        return None

    def _ends(self, draft: _Draft, waits: list[JobWait], whole: int, jitter: int) -> Iterator[int]:
        """The earliest ends of what a job waits for, as far as they are known."""
        start = self._start(draft, jitter)
        for w in waits:
            other = self.drafts[w.job]
            if other.ready is not None:
                end = other.ready + self.best[other.group][other.task]
                yield w.earliest(end, whole, jitter, start)

    def _job(self, d: _Draft, sink: bool, jitter: int) -> Job:
        assert d.ready is not None, "every job is reached from a source"
        opens = d.arrives is not None or self._is_first(d)
        return Job(
            d.group,
            d.task,
            d.firing,
            d.iteration * self.period[d.group],
            self._begin(d),
            self._start(d, jitter),
            opens,
            self.wakeup[self.workers[d.lane].processor] if opens else 0,
            d.lane,
            d.place,
            self._cost(d),
            self.best[d.group][d.task],
            len(self.groups[d.group].tasks[d.task].wcet),
            d.released,
            tuple(d.waits),
            tuple(d.same),
            self._turn(d),
            d.arrives,
            d.ready,
            sink,
            *self._taken(d),
        )

    def _cost(self, d: _Draft) -> int:
        """What a firing takes at most. If its last sub-task takes no time, it still waits for its
        turn, and for simultaneous arrivals.
        """
        parts = self.groups[d.group].tasks[d.task].parts(d.firing)
        return self._int(sum(parts)) + (not parts[-1])

    def _begin(self, d: _Draft) -> int:
        """The first release of the program, seen from the first round in which the job's iteration
        exists.
        """
        per_round = self.round[d.group] // self.period[d.group]
        return -self.round[d.group] * self._rounds_behind(d, per_round)

    def _start(self, d: _Draft, jitter: int) -> int:
        """Workers start less than a round before the first release, if its offset is not known."""
        before = self.round[d.group]
        offset = self.groups[d.group].offset
        if self.wholes is not None and offset is not None:
            before = max(self.period[d.group], self._int(offset))
        return self._begin(d) - before - jitter

    def _is_first(self, d: _Draft) -> bool:
        """Is a job in some round of the program the first of its worker? Those before it may work
        more rounds behind."""
        if not d.place:
            return True
        previous = self.drafts[self.lanes[d.lane][d.place - 1]]
        return self._begin(previous) < self._begin(d)

    def _taken(self, d: _Draft) -> tuple[int, tuple[Curved, ...], tuple[Curved, ...]]:
        """What a firing always takes, its curve, and the curve where it is not known which firings
        are counted. Phases say more than a curve of known firings."""
        curve = self.curve[d.group][d.task]
        if curve is None:
            return self._cost(d), (), ()
        counted: tuple[Curved, ...] = ((self.number[d.group] + d.task, curve, 1),)
        if self.groups[d.group].tasks[d.task].phases:
            return self._cost(d), (), counted
        return 0, counted, counted

    def _lane(
        self, i: int, processor: int, cluster: int, whole: int, jobs: tuple[Job, ...]
    ) -> WorkerLane:
        own = [jobs[j] for j in self.lanes[i]]
        fixed = self.system.processors[processor].scheduler == "fixed_priority"
        rank = self.groups[own[0].group].priority if fixed else 0
        parts: list[int] = []
        sustained = Fraction(0)
        for job in own:
            task = self.groups[job.group].tasks[job.task]
            parts += (self._int(x) for x in task.parts(job.firing))
            sustained += job.plain + sum(curve.sustained for _, curve, _ in job.curved)
        return WorkerLane(
            processor,
            cluster,
            rank,
            tuple(self.lanes[i]),
            sustained,
            tuple(_streams(self.lanes[i], jobs, whole)),
            tuple(sorted(parts, reverse=True)),
            min(self._int(self.groups[job.group].tasks[job.task].slip) for job in own),
        )

    def _drags(self, processor: int, on: tuple[tuple[int, ...], ...]) -> Iterator[Drag]:
        processors = self.system.processors
        for slow in self.system.slowdowns:
            if not processors[processor].is_of(slow.victim) or slow.factor <= 1:
                continue
            lanes: list[int] = []
            for i, other in enumerate(processors):
                if i != processor and other.is_of(slow.aggressor):
                    lanes += on[i]
            if lanes:
                yield Drag(slow.factor.numerator, slow.factor.denominator, tuple(lanes))


def _streams(numbers: list[int], jobs: Sequence[Job], whole: int) -> Iterator[BlockStream]:
    """The blocks of a worker, those of one shape together if that divides a round."""
    starts = [n for n, j in enumerate(numbers) if jobs[j].opens]
    shapes: dict[tuple[object, ...], list[Block]] = {}
    for begin, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        block = _block(numbers[begin:end], jobs)
        first = jobs[block.first]
        curved = tuple((task, times) for task, _, times in block.curved)
        # Those that differ by the phases of their tasks are counted together by curves.
        shape = first.group, first.task, block.plain if curved else block.cost, curved
        shapes.setdefault(shape, []).append(block)
    for blocks in shapes.values():
        if whole % len(blocks):
            for block in blocks:
                yield BlockStream((block,), whole)
        else:
            yield BlockStream(tuple(blocks), whole // len(blocks))


def _block(numbers: list[int], jobs: Sequence[Job]) -> Block:
    fired: dict[int, Curved] = {}
    for j in numbers:
        for task, curve, times in jobs[j].counted:
            before = fired[task][2] if task in fired else 0
            fired[task] = task, curve, before + times
    cost = sum(jobs[j].cost for j in numbers)
    plain = sum(0 if jobs[j].counted else jobs[j].cost for j in numbers)
    parts = sum(jobs[j].parts for j in numbers)
    return Block(numbers[0], numbers[-1], cost, plain, tuple(fired.values()), parts)
