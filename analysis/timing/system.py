"""The timing of a mapped system: what the response-time bounds and the simulation are about.

In: groups (apps) that are released periodically, their tasks on processors, the channels between
them, how each processor is scheduled, who slows whom down. Out: the same as one frozen value, its
faults in words, and the workers that execute it. Bounds are in response_time.py, the simulation is
in simulate.py.

What is modeled is what generated programs do. A *worker* is a thread bound to one processor. It
fires a fixed sequence of firings, round after round, and waits where the next one has no data, no
room for its results, or is not released yet; it never takes a later one first. Under
`static_order` there is one worker per processor for all groups (two where sources are kept apart),
under the other schedulers one per group and processor. A processor serves its workers

- `fixed_priority`: preemptively, the group of the larger priority first, equal ones in any order;
- `fifo`: one sub-task (kernel, loadable) at a time, in the order in which they came; a worker has
  one in the queue;
- `priority`: one sub-task at a time, at its end one of the group of the largest priority; the next
  sub-task of a worker may be a moment late for that (shared_gpus.py);
- `time_slice`: one worker after the other, for a slice each, which a switch precedes;
- `static_order`: one worker has the processor to itself; several of them share it in any order.

A worker that waits sleeps, and goes on late by what its processor says; the processor serves others
meanwhile (wakeup.py).

Times are ns, as integers or fractions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Literal

from ...model.platform import Scheduler as Scheduler
from ...model.platform import TimeSlice
from ...model.server import Server
from ...model.workload import WorkloadCurve, is_curve
from ..dataflow.dependence import arrivals_over
from ..dataflow.order import depths, work_ahead
from ..dataflow.static_order import hyperperiod

Time = int | Fraction

#: A default static order of several groups has at most this many iterations in a round.
MOST_ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class TimedTask:
    """`firings` per iteration, each of sub-tasks that take at most `wcet` and at least `bcet` ns,
    one after the other.

    On a GPU the sub-tasks are kernels, on a DLA loadables, on a CPU there is one. No `bcet` means
    zeros. Where the worst cases of a task on a CPU differ by phase, firing k takes at most
    `phases[k % len(phases)]`, and `wcet` is the longest. A task without inputs is a source: firing
    k of its q is released k/q of a period after the release of the iteration. With a `curve`,
    successive firings keep to it: its first total is the sum of `wcet`, in ns like these. Each
    sub-task includes `slip`, which only those of its rank wait for (shared_gpus.py).
    """

    name: str
    processor: str
    wcet: tuple[Time, ...]
    bcet: tuple[Time, ...] = ()
    firings: int = 1
    curve: WorkloadCurve | None = None
    phases: tuple[Time, ...] = ()
    slip: Time = 0

    @property
    def cost(self) -> Time:
        """Worst-case execution time of any firing."""
        return sum(self.wcet)

    @property
    def work(self) -> Time:
        """Worst-case execution time of the firings of an iteration."""
        if not self.phases:
            return self.cost * self.firings
        return sum(self.phases) * (self.firings // len(self.phases))

    def parts(self, firing: int) -> tuple[Time, ...]:
        """Worst-case execution times of the sub-tasks of one firing."""
        return (self.phases[firing % len(self.phases)],) if self.phases else self.wcet

    @property
    def sustained(self) -> Fraction:
        """What a firing takes at most in the long run."""
        if self.phases:
            return Fraction(sum(self.phases), len(self.phases))
        return Fraction(self.cost) if self.curve is None else self.curve.sustained


@dataclass(frozen=True, slots=True)
class TimedChannel:
    """Tokens from one task of a group to another: rates per firing (cyclic when they differ),
    `delay` initial tokens.

    Space of a bounded channel is claimed when a firing starts and given back when one ends; None is
    no bound.
    """

    source: str
    destination: str
    produced: tuple[int, ...] = (1,)
    consumed: tuple[int, ...] = (1,)
    delay: int = 0
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class TimedPath:
    """From the release of the newest firing of `source` that a firing of `sink` depends on, to the
    end of that firing.

    `newest` is that firing for each firing of `sink` in an iteration, counted from the first one of
    the source in the same iteration; negative ones are of earlier iterations. `deadline` is held
    against it, None is none.
    """

    source: str
    sink: str
    newest: tuple[int, ...]
    deadline: Time | None = None


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A part of a chain: path number `path` of a group, which passes on data that are released
    `gap` ns apart at most.

    It begins with the newest token of a mailbox, or `takes_each`: then each token releases it, as
    data from outside release a live source, and what it passes on may come up to `held` ns after a
    token that it does not. `gap` is None where it cannot keep up with its tokens.
    """

    group: str
    path: int
    gap: Time | None
    takes_each: bool = False
    held: Time = 0


@dataclass(frozen=True, slots=True)
class TimedChain:
    """All ways from a source to a task, through the groups of their parts.

    `deadline` limits the age of data, or the reaction to an event. Where all sources on the ways
    are released by the clock of the program, it is `clocked`. `skipping` are the groups on its ways
    that leave out frames after errors, which bounds do not count.
    """

    kind: Literal["age", "reaction"]
    source: str
    sink: str
    ways: tuple[tuple[TimedPart, ...], ...]
    deadline: Fraction
    clocked: bool = True
    skipping: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """All that it leads through."""
        return tuple(dict.fromkeys(part.group for way in self.ways for part in way))

    def slowed(self, factor: int) -> TimedChain:
        """The same through groups that are released so many times as seldom."""
        ways = []
        for way in self.ways:
            gaps = [None if part.gap is None else factor * part.gap for part in way]
            ways.append(
                tuple(
                    replace(p, gap=gap, held=factor * p.held)
                    for p, gap in zip(way, gaps, strict=True)
                )
            )
        return replace(self, ways=tuple(ways))


@dataclass(frozen=True, slots=True)
class TimedTrigger:
    """The task of another group whose ends release a group: each of its firings makes a token, and
    a source of the group takes each of these once."""

    group: str
    task: str


@dataclass(frozen=True, slots=True)
class TimedGroup:
    """An app. Iteration n is released up to `jitter` after `offset` and n periods, in order.

    Groups on one `clock` know their phases, those on different clocks may have any. A group without
    an offset is on a clock of its own. One with a `trigger` is released when that task ends: its
    clock, offset and jitter follow (release.py), and its period is that of its tokens. No jitter
    (None) is one without a bound. All sources are released together. In a group that is `gated`, a
    source takes its data only when its reader waits for them.

    The response time counts from that release to the end of the last sink; `deadline` is held
    against it, and it may be longer than the period. None is the period, or none at all where
    `paths` have deadlines. Larger `priority` = more urgent. `chains` are those that end here.
    """

    name: str
    period: Time
    tasks: tuple[TimedTask, ...]
    channels: tuple[TimedChannel, ...] = ()
    deadline: Time | None = None
    priority: int = 0
    jitter: Time | None = 0
    offset: Time | None = None
    paths: tuple[TimedPath, ...] = ()
    chains: tuple[TimedChain, ...] = ()
    clock: str = ""
    trigger: TimedTrigger | None = None
    gated: bool = False

    @property
    def tied(self) -> tuple[str, ...]:
        """The groups that its bounds depend on wherever they run: the one whose tokens release it,
        and those on the way of ages and reactions that end here."""
        before = () if self.trigger is None else (self.trigger.group,)
        return (*before, *(name for chain in self.chains for name in chain.groups))

    @property
    def on_clock(self) -> str:
        """The clock that its offset counts on; one of its own where that is not known."""
        return f"of {self.name}" if self.offset is None else self.clock

    @property
    def due(self) -> Time | None:
        """When an iteration has to end, from its release; None = whenever it does."""
        if self.deadline is not None:
            return self.deadline
        if any(p.deadline is not None for p in self.paths):
            return None
        return self.period


@dataclass(frozen=True, slots=True)
class TimedProcessor:
    """One processor; contention speaks of it by the name of its `pool` or by its `kind`.

    A worker that has slept goes on up to `wakeup` ns after the last of what it slept for. A `slice`
    belongs to `time_slice`.
    """

    name: str
    scheduler: Scheduler
    pool: str = ""
    kind: str = ""
    wakeup: int = 0
    slice: TimeSlice | None = None

    @property
    def late_end(self) -> int:
        """How long after the end of a firing its worker knows of it at most: where work goes on
        without the worker, that sleeps meanwhile."""
        return 0 if self.kind in ("", "cpu") else self.wakeup

    def is_of(self, word: str) -> bool:
        """Does this word of a contention mean it?"""
        return bool(word) and word in (self.pool, self.kind)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Work on processors that `victim` means takes `factor` times as long while another one of
    `aggressor` is busy.

    Both are names of pools or kinds of processors. Factors of several slowdowns multiply.
    """

    victim: str
    aggressor: str
    factor: Fraction


@dataclass(frozen=True, slots=True)
class RoundFiring:
    """One firing in a worker's round: of iteration (`round` x per_round + index - stage) of its
    group.
    """

    group: str
    task: str
    firing: int
    index: int = 0
    stage: int = 0


@dataclass(frozen=True, slots=True)
class TimedWorker:
    """A thread on `processor` that fires `sequence` again and again.

    `rounds` says of each group in it how many iterations of the group are in one round (1 when not
    named).
    """

    processor: str
    sequence: tuple[RoundFiring, ...]
    rounds: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TimedBackground:
    """A worker of an app without a period: it always has something to do, below all groups.

    Its sub-tasks on that processor take at most `longest` ns each. With a `server` it is above all
    groups, for as long as the budget lasts when a sub-task begins; `app` is its app then.
    """

    processor: str
    longest: Time = 0
    server: Server | None = None
    app: str = ""


@dataclass(frozen=True, slots=True)
class TimedSystem:
    """A mapped system. Without `workers` they are made as programs have them (see
    `default_workers`).

    `background` are workers of apps without periods; what they cost the groups says background.py.

    Groups in one worker of a static order are released together (offset 0 to each other), as
    programs do it; others as their offsets say.
    """

    groups: tuple[TimedGroup, ...]
    processors: tuple[TimedProcessor, ...]
    slowdowns: tuple[Slowdown, ...] = ()
    workers: tuple[TimedWorker, ...] = ()
    background: tuple[TimedBackground, ...] = ()


class Refused(ValueError):
    """The system cannot be bounded as it stands; `faults` are all the reasons."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def utilization(system: TimedSystem) -> dict[str, Fraction]:
    """The share of its time that each processor needs at most in the long run, contention aside."""
    used = {p.name: Fraction(0) for p in system.processors}
    for group in system.groups:
        for task in group.tasks:
            used[task.processor] += task.sustained * task.firings / Fraction(group.period)
    for worker in system.background:
        if worker.server is not None:
            used[worker.processor] += worker.server.part
    return used


def faults(system: TimedSystem) -> tuple[str, ...]:
    """All that is wrong with the numbers of a system, in words; deadlocks are found when it is
    bounded.
    """
    processors = {p.name for p in system.processors}
    problems = [
        *_same_names("processor", [p.name for p in system.processors]),
        *_same_names("group", [g.name for g in system.groups]),
    ]
    for slow in system.slowdowns:
        if slow.factor < 1:
            problems.append(
                f"contention of `{slow.victim}` by `{slow.aggressor}` has the factor {slow.factor},"
                " below 1"
            )
    for group in system.groups:
        problems += _group_faults(group, processors)
    return tuple(problems)


def _same_names(kind: str, names: Sequence[str]) -> list[str]:
    repeated = {n for n in names if names.count(n) > 1}
    return [f"two {kind}s are called `{n}`" for n in sorted(repeated)]


def _group_faults(group: TimedGroup, processors: Collection[str]) -> Iterator[str]:
    yield from _release_faults(group)
    tasks = {t.name: t for t in group.tasks}
    if len(tasks) < len(group.tasks):
        yield f"two tasks of `{group.name}` have the same name"
    for task in group.tasks:
        yield from _task_faults(task, processors)
    for channel in group.channels:
        missing = [n for n in (channel.source, channel.destination) if n not in tasks]
        for name in missing:
            yield f"a channel of `{group.name}` names `{name}`, which is no task of it"
        if not missing:
            yield from _channel_faults(channel, tasks)
    for path in group.paths:
        yield from _path_faults(path, tasks, sources(group))
    paced = _reached([(c.source, c.destination) for c in group.channels], sources(group))
    free = [t.name for t in group.tasks if t.name not in paced]
    if free:
        yield f"no source paces {', '.join(free)} of `{group.name}`: a cycle that nothing feeds"


def _release_faults(group: TimedGroup) -> Iterator[str]:
    """Period, jitter, offset and deadline of a group."""
    if group.period <= 0:
        yield f"the period of `{group.name}` is {group.period}, not above 0"
    if group.jitter is not None and group.jitter < 0:
        yield f"the jitter of `{group.name}` is {group.jitter}, below 0"
    if group.offset is not None and group.offset < 0:
        yield f"the offset of `{group.name}` is {group.offset}, below 0"
    if group.deadline is not None and group.deadline <= 0:
        yield f"the deadline of `{group.name}` is {group.deadline}, not above 0"


def _task_faults(task: TimedTask, processors: Collection[str]) -> Iterator[str]:
    """The processor, the times and the workload curve of a task."""
    if task.processor not in processors:
        yield f"`{task.name}` is on `{task.processor}`, which is no processor"
    if task.firings < 1 or not task.wcet:
        yield f"`{task.name}` has no firings or no execution time"
    if task.phases and (task.wcet != (max(task.phases),) or task.firings % len(task.phases)):
        yield f"the phases of `{task.name}` do not fit its worst-case time or its firings"
    if not all(
        _between_zero_and(task.parts(k), task.bcet or (0,) * len(task.wcet))
        for k in range(len(task.phases) or 1)
    ):
        yield f"the best-case times of `{task.name}` are not between 0 and its worst-case times"
    curve = task.curve
    if curve is not None and (not is_curve(curve.totals) or curve.longest != task.cost):
        yield f"the workload curve of `{task.name}` does not begin with its worst-case time"


def _between_zero_and(wcet: Sequence[Time], bcet: Sequence[Time]) -> bool:
    if len(bcet) != len(wcet):
        return False
    return all(0 <= low <= high for low, high in zip(bcet, wcet, strict=True))


def _channel_faults(channel: TimedChannel, tasks: Mapping[str, TimedTask]) -> Iterator[str]:
    """The initial tokens, the capacity and the rates of a channel between known tasks."""
    name = f"{channel.source}->{channel.destination}"
    too_small = channel.capacity is not None and channel.capacity < channel.delay
    if channel.delay < 0 or too_small:
        yield f"{name} has {channel.delay} initial tokens and the capacity {channel.capacity}"
    if min((*channel.produced, *channel.consumed), default=-1) < 0:
        yield f"{name} has no rates, or rates below 0"
        return
    made = sum(per_iteration(channel.produced, tasks[channel.source].firings))
    taken = sum(per_iteration(channel.consumed, tasks[channel.destination].firings))
    if made != taken or not made:
        yield f"{name} makes {made} tokens per iteration and takes {taken}"


def _path_faults(
    path: TimedPath, tasks: Mapping[str, TimedTask], released: Collection[str]
) -> Iterator[str]:
    """The ends, the dependences and the deadline of a path; `released` are the sources."""
    name = f"the path from `{path.source}` to `{path.sink}`"
    if path.source not in released or path.sink not in tasks:
        yield f"{name} has no source or no end"
        return
    complete = len(path.newest) == tasks[path.sink].firings
    if not complete or max(path.newest) >= tasks[path.source].firings:
        yield f"{name} does not say which data its firings depend on"
    elif path.deadline is not None and path.deadline <= 0:
        yield f"the deadline of {name} is {path.deadline}, not above 0"


def in_order_of_release(groups: Sequence[TimedGroup]) -> list[TimedGroup]:
    """The groups, each after the one whose tokens release it. Raises Refused where there is none,
    or where groups release each other in a circle: then none would ever begin."""
    ordered: list[TimedGroup] = []
    there = {(group.name, task.name) for group in groups for task in group.tasks}
    left = list(groups)
    while left:
        waiting = {group.name for group in left}
        now = [g for g in left if g.trigger is None or g.trigger.group not in waiting]
        if not now:
            names = ", ".join(f"`{group.name}`" for group in left)
            raise Refused([f"{names} wait for tokens of each other"])
        for g in now:
            if g.trigger is not None and (g.trigger.group, g.trigger.task) not in there:
                raise Refused([f"no task makes the tokens that release `{g.name}`"])
        ordered += now
        left = [group for group in left if group not in now]
    return ordered


def sources(group: TimedGroup) -> set[str]:
    """Tasks without inputs: they are released."""
    fed = {c.destination for c in group.channels}
    return {t.name for t in group.tasks if t.name not in fed}


def sinks(group: TimedGroup) -> set[str]:
    """Tasks that an iteration ends with, as in programs: no other task reads in an iteration what
    they make there. Where there is no such task, those whose data come back from all that they
    reach, and the first one."""
    firings = {t.name: t.firings for t in group.tasks}
    inside = set()
    for c in group.channels:
        made = sum(c.produced) * firings[c.source] // len(c.produced)
        if c.source != c.destination and c.delay < made:
            inside.add(c.source)
    last = {t.name for t in group.tasks if t.name not in inside}
    return last or {group.tasks[0].name, *_in_terminal_sccs(group)}


def _in_terminal_sccs(group: TimedGroup) -> set[str]:
    """Tasks that are reached by all that they reach."""
    feeding = {c.source for c in group.channels if c.source != c.destination}
    plain = {t.name for t in group.tasks if t.name not in feeding}
    backwards = [(c.destination, c.source) for c in group.channels]
    if len(_reached(backwards, plain)) == len(group.tasks):
        return plain
    forwards = [(c.source, c.destination) for c in group.channels]
    after = {t.name: _reached(forwards, {t.name}) for t in group.tasks}
    return {
        name for name, reached in after.items() if all(name in after[other] for other in reached)
    }


def _reached(arrows: list[tuple[str, str]], start: set[str]) -> set[str]:
    following: dict[str, list[str]] = {}
    for source, destination in arrows:
        following.setdefault(source, []).append(destination)
    reached, todo = set(start), list(start)
    while todo:
        for name in following.get(todo.pop(), ()):
            if name not in reached:
                reached.add(name)
                todo.append(name)
    return reached


def per_iteration(rates: tuple[int, ...], firings: int) -> tuple[int, ...]:
    """Cyclic rates, spread over the firings of an iteration."""
    return tuple(rates[k % len(rates)] for k in range(firings))


@dataclass(frozen=True, slots=True)
class TimedNeed:
    """Firing `firing` of `task`, `lag` iterations earlier, has to end before something starts."""

    task: str
    firing: int
    lag: int


def needs(group: TimedGroup) -> dict[tuple[str, int], list[TimedNeed]]:
    """For each firing (task, index in its iteration), the last firings that have to end before it
    may start.

    Data: token number x of a channel is made by the first firing whose running total reaches it
    (Lee and Messerschmitt 1987). Space of a bounded channel is the same with the roles exchanged.
    """
    firings = {t.name: t.firings for t in group.tasks}
    needed: dict[tuple[str, int], list[TimedNeed]] = {}
    for name, count in firings.items():
        for k in range(count):
            needed[name, k] = []
    for c in group.channels:
        made = list(accumulate(per_iteration(c.produced, firings[c.source])))
        taken = list(accumulate(per_iteration(c.consumed, firings[c.destination])))
        _depend(needed, (c.source, made), (c.destination, taken), c.delay)
        if c.capacity is not None:
            _depend(needed, (c.destination, taken), (c.source, made), c.capacity - c.delay)
    return needed


def _depend(
    needed: dict[tuple[str, int], list[TimedNeed]],
    maker: tuple[str, list[int]],
    taker: tuple[str, list[int]],
    tokens: int,
) -> None:
    """Needs of the taker's firings; both sides give their running totals over an iteration."""
    source, made = maker
    destination, taken = taker
    before = 0
    for k, total in enumerate(taken):
        if total > before:
            iteration, left = divmod(total - tokens - 1, made[-1])
            firing = next(i for i, n in enumerate(made) if n > left)
            needed[destination, k].append(TimedNeed(source, firing, -iteration))
        before = total


def default_workers(system: TimedSystem) -> tuple[TimedWorker, ...]:
    """The workers of programs by default. Raises Refused.

    One per group and processor, or one per processor under a static order: iterations by release,
    then by priority, then as the groups are listed; an iteration in an order in which one processor
    could execute it.
    """
    orders = {g.name: iteration_sequence(g) for g in system.groups}
    workers: list[TimedWorker] = []
    for processor in system.processors:
        here = _firings_on(processor.name, system.groups, orders)
        if processor.scheduler == "static_order":
            workers += _shared_worker(processor.name, system.groups, here)
            continue
        for name, firings in here.items():
            workers.append(
                TimedWorker(processor.name, tuple(RoundFiring(name, t, k) for t, k in firings))
            )
    return tuple(workers)


def _firings_on(
    processor: str, groups: Iterable[TimedGroup], orders: Mapping[str, list[tuple[str, int]]]
) -> dict[str, list[tuple[str, int]]]:
    """For each group with tasks on the processor, their firings in the order of the group."""
    here: dict[str, list[tuple[str, int]]] = {}
    for group in groups:
        tasks = {t.name for t in group.tasks if t.processor == processor}
        if tasks:
            here[group.name] = [(task, k) for task, k in orders[group.name] if task in tasks]
    return here


def _shared_worker(
    processor: str, groups: Iterable[TimedGroup], here: Mapping[str, list[tuple[str, int]]]
) -> list[TimedWorker]:
    """The one worker of a static order, if the processor has firings at all."""
    jobs, rounds = _round([g for g in groups if g.name in here], processor)
    places: list[RoundFiring] = []
    for name, index in jobs:
        places += [RoundFiring(name, task, k, index) for task, k in here[name]]
    if not places:
        return []
    return [TimedWorker(processor, tuple(places), tuple(rounds.items()))]


def _round(
    groups: list[TimedGroup], processor: str
) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """The iterations of one round by release, and how many each group has."""
    if not groups:
        return [], {}
    whole = hyperperiod([Fraction(g.period) for g in groups])
    rounds = {g.name: int(whole / g.period) for g in groups}
    if sum(rounds.values()) > MOST_ITERATIONS:
        raise Refused(
            [
                f"a static order on `{processor}` would have {sum(rounds.values())} iterations in a"
                " round"
            ]
        )
    jobs = []
    for n, group in enumerate(groups):
        for i in range(rounds[group.name]):
            released = Fraction(group.period) * i
            jobs.append(((released, -group.priority, n), (group.name, i)))
    return [job for _, job in sorted(jobs)], rounds


def iteration_sequence(group: TimedGroup) -> list[tuple[str, int]]:
    """The firings of one iteration in a sequence that one processor could execute. Raises Refused
    on a deadlock.

    Of the tasks that can fire, the one with the longest way to go (by worst-case times), as often
    as it can: what the end of an iteration waits for is not kept waiting by what it does not wait
    for. Where a source is released several times in an iteration, firing by firing, as data come:
    nothing waits for a release without need.
    """
    firings = {t.name: t.firings for t in group.tasks}
    iteration = _Iteration(group)
    if any(firings[name] > 1 for name in sources(group)):
        _fire_as_data_come(iteration, firings)
    else:
        _fire_most_work_first(iteration)
    stuck = [name for name, count in iteration.fired.items() if count < firings[name]]
    if stuck:
        raise Refused(
            [f"`{group.name}` cannot complete an iteration: {', '.join(stuck)} wait for each other"]
        )
    return iteration.sequence


class _Iteration:
    """One iteration of a group that is executed firing by firing."""

    def __init__(self, group: TimedGroup) -> None:
        self.group = group
        self.arrows = [(c.source, c.destination) for c in group.channels]
        self.depth = depths((t.name for t in group.tasks), self.arrows)
        self.fired = {t.name: 0 for t in group.tasks}
        self.sequence: list[tuple[str, int]] = []
        self._needs = needs(group)
        self._done: set[tuple[str, int]] = set()

    def ready(self, task: TimedTask) -> bool:
        """Has the task a firing left, and that one all it needs of this iteration?"""
        k = self.fired[task.name]
        if k >= task.firings:
            return False
        needed = self._needs[task.name, k]
        return all(n.lag or (n.task, n.firing) in self._done for n in needed)

    def fire(self, task: TimedTask) -> None:
        """Execute the next firing of a task that is ready."""
        firing = task.name, self.fired[task.name]
        self._done.add(firing)
        self.sequence.append(firing)
        self.fired[task.name] += 1


def _fire_as_data_come(iteration: _Iteration, firings: dict[str, int]) -> None:
    group = iteration.group
    came = arrivals_over(group.channels, firings, sorted(sources(group)))

    def urgency(task: TimedTask) -> tuple[Time, int]:
        arrived = came[task.name][iteration.fired[task.name]] if task.name in came else 0
        return arrived, -iteration.depth[task.name]

    while waiting := [t for t in group.tasks if iteration.ready(t)]:
        iteration.fire(min(waiting, key=urgency))


def _fire_most_work_first(iteration: _Iteration) -> None:
    work = {t.name: t.work for t in iteration.group.tasks}
    ahead = work_ahead(work, iteration.arrows)
    tasks = sorted(iteration.group.tasks, key=lambda t: (-ahead[t.name], iteration.depth[t.name]))
    while task := next((t for t in tasks if iteration.ready(t)), None):
        while iteration.ready(task):
            iteration.fire(task)


def workers_of(system: TimedSystem) -> tuple[TimedWorker, ...]:
    """The workers that were given, or the default ones. Raises Refused."""
    return system.workers or default_workers(system)


def with_its_workers(system: TimedSystem) -> TimedSystem:
    """The system with its default workers, where none were given: they stay if times change. Raises
    Refused.
    """
    return system if system.workers else replace(system, workers=default_workers(system))
