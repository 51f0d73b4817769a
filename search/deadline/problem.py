"""Groups with deadlines on a board: items to place, their possible places, and the evaluator of all
searches.

In: groups of tasks and networks, with worst-case times by type of processors, and the processors. A
network is used as one of its candidates: a row of stages on types of processors. Out: for an
assignment (a candidate for each network, a processor for each task and stage), the utilization of
every processor, and whether every group meets its deadline in the worst case, by the bound of
`analysis.timing.response_time` for the schedulers that programs use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from ...analysis.timing.system import TimedBackground, TimedChain, TimedPath
from ...model.mapping import Bands, OtherEngine, Placement
from ...model.platform import RANKED, Platform
from ...model.priorities import OrderedBy, PriorityOrder, Urgency, by_urgency
from ...model.release import Release
from ...model.server import Server
from ...model.workload import WorkloadCurve
from .power import PowerModel


@dataclass(frozen=True, slots=True)
class JointChannel:
    """Tokens from one task of a group to another: rates per firing (cyclic when they differ),
    `delay` initial tokens.

    `token_bytes` is the size of a token, `asked_for` the least number of tokens that the text gives
    room to. Where an end is a network that is cut, `maker` is the layer that makes the tokens and
    `readers` are those that take them; by default the last and the first stage do.
    """

    source: str
    destination: str
    produced: tuple[int, ...] = (1,)
    consumed: tuple[int, ...] = (1,)
    delay: int = 0
    token_bytes: int = 1
    asked_for: int = 0
    maker: int | None = None
    readers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadlineTask:
    """A dataflow task. `wcet_ns[type]` of one firing for the types that can run it; `firings` per
    iteration.

    Where worst cases differ by phase, `phases[type]` are those, and `wcet_ns[type]` is the longest.
    `curves[type]`, where it is known, begins with the worst case. `live` sources wait for data from
    outside, and so does what stands at an `open_end` of the app. A network is an `engine`, and
    groups `batch` firings into one. `beside` is the work of followers in an iteration, on a CPU. On
    processors of the types in `python` it holds the interpreter while it computes. Times of the
    types in `by_text` are the text's, those in `of_kind` are the same for all types of a kind, and
    those in `estimated` are estimates.

    The server of an app with a share is a task, too, where several CPUs could have it: its firing
    is the budget, its group the app, and `homes` has the app with the server on each of these CPUs.
    """

    name: str
    group: str
    wcet_ns: Mapping[str, int]
    firings: int = 1
    estimated: frozenset[str] = frozenset()
    curves: Mapping[str, WorkloadCurve] = field(default_factory=dict)
    live: bool = False
    open_end: bool = False
    batch: int = 1
    engine: bool = False
    phases: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    beside: Fraction = Fraction(0)
    python: frozenset[str] = frozenset()
    by_text: frozenset[str] = frozenset()
    of_kind: frozenset[str] = frozenset()
    homes: Mapping[str, BackgroundApp] = field(default_factory=dict)

    @property
    def everywhere(self) -> frozenset[str]:
        """The CPUs where an app with a share has a server wherever its `homes` are: pins say so."""
        served = (set(app.served) for app in self.homes.values())
        return frozenset(set.intersection(*served)) if self.homes else frozenset()

    def only_on(self, types: Collection[str]) -> DeadlineTask:
        """The task with its times on these types alone."""
        return replace(
            self,
            wcet_ns={type_: ns for type_, ns in self.wcet_ns.items() if type_ in types},
            curves={type_: curve for type_, curve in self.curves.items() if type_ in types},
            phases={type_: own for type_, own in self.phases.items() if type_ in types},
        )

    def last_ns(self, type_: str) -> int:
        """Worst-case time of the last firing of an iteration."""
        return self.phases.get(type_, (self.wcet_ns[type_],))[-1]

    def work(self, type_: str) -> Fraction:
        """What an iteration takes at most in the long run, followers included."""
        curve = self.curves.get(type_)
        firing = Fraction(self.wcet_ns[type_]) if curve is None else curve.sustained
        return firing * self.firings + self.beside


@dataclass(frozen=True, slots=True)
class Follower:
    """What stands on an arrow of a group: it is fired on the CPU of one of the tasks at its ends.

    `source` and `destination` name items or nets; `repeat` is for its reader, else for who makes
    what it takes. It takes no time, but for the end of an arrow between apps, a `task` beside one
    that is on a CPU.
    """

    name: str
    group: str
    source: str
    destination: str
    repeat: bool
    firings: int
    task: DeadlineTask | None = None


@dataclass(frozen=True, slots=True)
class CandidateStage:
    """A stage of a candidate: kernels (or one loadable) in a row on a type of processors, times of
    a firing in ns.

    A network fires `firings` times per iteration, and so do its stages. A `curve` begins with the
    time of one firing. `end` is the number of the layer behind its last one, where layers of the
    network are known. A time that is `of_kind` is the same for all types of the kind.
    """

    type: str
    kernels: tuple[int, ...]
    last_layer: str | None
    estimated: bool = False
    firings: int = 1
    curve: WorkloadCurve | None = None
    end: int | None = None
    of_kind: bool = False

    @property
    def firing(self) -> int:
        """Worst-case time of one firing."""
        return sum(self.kernels)

    @property
    def work(self) -> Fraction:
        """What an iteration takes at most in the long run."""
        return (
            Fraction(self.firing) if self.curve is None else self.curve.sustained
        ) * self.firings


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a network: `option` names the types of its stages, as in `gpu-dla-gpu`."""

    option: str
    stages: tuple[CandidateStage, ...]

    @property
    def latency(self) -> int:
        """Time of one inference alone."""
        return sum(s.firing for s in self.stages)

    @property
    def whole_on(self) -> str | None:
        """The type of processors that it is whole on; None where it is cut."""
        return self.stages[0].type if len(self.stages) == 1 else None

    def work(self, types: Collection[str]) -> Fraction:
        """Time on all processors of some types together."""
        return sum((s.work for s in self.stages if s.type in types), start=Fraction(0))


@dataclass(frozen=True, slots=True)
class InnerTensor:
    """A tensor between layers of a network: the layer that makes it, those that read it, its
    bytes.
    """

    maker: int
    readers: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class DeadlineNetwork:
    """A network and its candidates. `exact` tells whether these are the whole Pareto front.

    `tensors` are those between its layers; where they are not known, each stage hands one token to
    the next. It groups `batch` firings into one.
    """

    name: str
    group: str
    candidates: tuple[Candidate, ...]
    exact: bool = True
    tensors: tuple[InnerTensor, ...] = ()
    batch: int = 1


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """A group: an app with its period, deadline and priority in the text (larger = more urgent;
    None: it has none).

    Without a deadline it is due at the end of its period, or at no time where paths have deadlines.
    `channels` and `paths` connect names of items, nets and followers. `order` has all of these
    names as the text lists them; without it, items come first, then nets, then followers. `release`
    says what releases its iterations; without it the program's clock does.
    """

    name: str
    period_ns: Fraction
    deadline_ns: Fraction | None
    priority: int | None
    channels: tuple[JointChannel, ...]
    paths: tuple[TimedPath, ...] = ()
    order: tuple[str, ...] = ()
    #: Ages and reactions with deadlines that end in this group.
    chains: tuple[TimedChain, ...] = ()
    release: Release | None = None

    @property
    def tied(self) -> tuple[str, ...]:
        """The groups that its bounds depend on wherever they run: whose tokens release it, and
        those on the way of ages and reactions that end here."""
        trigger = None if self.release is None else self.release.trigger
        before = () if trigger is None else (trigger.app,)
        return (*before, *(name for chain in self.chains for name in chain.groups))

    @property
    def shortest_deadline_ns(self) -> Fraction:
        """Of iterations, paths, ages and reactions; without any, the period."""
        found = [path.deadline for path in self.paths if path.deadline is not None]
        dues = [Fraction(due) for due in found] + [chain.deadline for chain in self.chains]
        if self.deadline_ns is not None:
            dues.append(self.deadline_ns)
        return min(dues, default=self.period_ns)

    @property
    def due_ns(self) -> Fraction | None:
        """When an iteration has to end, from its release; None = whenever it does."""
        if self.deadline_ns is None and any(p.deadline is not None for p in self.paths):
            return None
        return self.deadline_ns or self.period_ns


@dataclass(frozen=True, slots=True)
class Served:
    """The server of an app, and how long an iteration takes at most from its data on, if no other
    server is on its CPU (None: it is on several)."""

    server: Server
    most_ns: Fraction | None


@dataclass(frozen=True, slots=True)
class BackgroundApp:
    """An app without a period, which has the time that groups leave: its places and its `workers`.

    `longest` has its tasks on processors with a queue, and with a share those on CPUs, with worst
    cases of their sub-tasks in ns; `engines` are the places of its networks. With a share its
    workers on CPUs have servers. Tasks that are `holding` run in Python, in the program's own
    process. The time between its results is predicted, not proved; infinite where nothing is left.
    """

    name: str
    placements: tuple[Placement, ...]
    longest: tuple[tuple[str, int], ...]
    workers: tuple[TimedBackground, ...]
    engines: tuple[str, ...]
    predicted_period_ns: float
    share: Served | None = None
    holding: tuple[str, ...] = ()

    @property
    def served(self) -> dict[str, Fraction]:
        """What its servers take of CPUs."""
        taken: dict[str, Fraction] = {}
        for worker in self.workers:
            if worker.server is not None:
                taken[worker.processor] = worker.server.part
        return taken


@dataclass(frozen=True)
class JointProblem:
    """Everything that does not change during a search.

    `background` are the apps without a period that are in one place; those whose servers have no
    place yet are among the `tasks`, behind all others (`DeadlineTask.homes`).

    `bands`: how networks go that run whole on a CPU; times are those of bands then. Nothing is
    placed on processors that are `left_out`. `engines` are those of networks on CPUs by task, where
    it is not ONNX Runtime; times are theirs. `linked` are the pairs of groups that arrows join, of
    which one shall go on where the other hangs. `partly` has tasks whose times were measured with
    less than bounds count: by type of processors, with what. `chosen` is the order of priorities of
    an answer. `slowness` says of processors how many times as long work takes there, at clock rates
    below the highest. `power` is what placements are compared by if energy counts.
    """

    platform: Platform
    groups: tuple[TaskGroup, ...]
    tasks: tuple[DeadlineTask, ...]
    networks: tuple[DeadlineNetwork, ...]
    pins: Mapping[str, str]
    followers: tuple[Follower, ...] = ()
    bands: Mapping[str, tuple[Bands, ...]] = field(default_factory=dict)
    #: Where an item has to be, on a platform of several machines.
    machines: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    background: tuple[BackgroundApp, ...] = ()
    engines: Mapping[str, OtherEngine] = field(default_factory=dict)
    linked: frozenset[frozenset[str]] = frozenset()
    partly: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    chosen: PriorityOrder | None = None
    slowness: Mapping[str, Fraction] = field(default_factory=dict)
    power: PowerModel | None = None

    @cached_property
    def order(self) -> PriorityOrder:
        """The order of its groups: the one chosen, else that of the text, by deadline where it
        gives none."""
        if self.chosen is not None:
            return self.chosen
        urgencies = [Urgency(g.name, g.priority, g.shortest_deadline_ns) for g in self.groups]
        by: OrderedBy = "deadline" if self.is_open else "text"
        return PriorityOrder(by, tuple(by_urgency(urgencies)))

    @cached_property
    def priorities(self) -> dict[str, int]:
        """The priority of each group by this order."""
        return self.order.numbers

    def in_order(self, order: PriorityOrder) -> JointProblem:
        """The problem with this order instead of its own."""
        return replace(self, chosen=order)

    @property
    def in_its_order(self) -> JointProblem:
        """The problem with the priorities of its order and no others."""
        groups = tuple(replace(g, priority=self.priorities[g.name]) for g in self.groups)
        return replace(self, groups=groups, chosen=self.order)

    @cached_property
    def is_open(self) -> bool:
        """Does the text leave priorities open?"""
        return any(group.priority is None for group in self.groups)

    @cached_property
    def ranked(self) -> bool:
        """Are there processors on which priorities decide between groups?"""
        ranks = any(pool.scheduler in RANKED for pool in self.platform.pools)
        return ranks and len(self.groups) > 1

    @cached_property
    def roaming(self) -> tuple[Follower, ...]:
        """The followers that the first CPU of a machine fires where no CPU is beside them."""
        return tuple(f for f in self.followers if f.task is None)

    @cached_property
    def below_by_niceness(self) -> bool:
        """Does nothing but niceness keep the background from CPUs that groups want?"""
        workers = (worker for app in self.background for worker in app.workers)
        below = (worker for worker in workers if worker.server is None)
        pools = (self.platform.pool_of(worker.processor) for worker in below)
        return any(pool.kind == "cpu" and pool.scheduler == "static_order" for pool in pools)

    @cached_property
    def servers(self) -> tuple[DeadlineTask, ...]:
        """The tasks that are servers."""
        return tuple(task for task in self.tasks if task.homes)

    def beside(self, assignment: Assignment | None) -> tuple[BackgroundApp, ...]:
        """The apps without a period, their servers where an assignment has them. Without one they
        are on some CPU."""
        found = []
        for number, task in enumerate(self.tasks):
            if task.homes:
                place = next(iter(task.homes)) if assignment is None else assignment.tasks[number]
                found.append(task.homes[place])
        return (*found, *self.background)

    def unassured(self, assignment: Assignment | None) -> tuple[str, ...]:
        """The CPUs without priorities that servers are on: others take what they can get there."""
        places = dict.fromkeys(place for app in self.beside(assignment) for place in app.served)
        return tuple(p for p in places if self.platform.pool_of(p).scheduler != "fixed_priority")

    @cached_property
    def served(self) -> dict[str, Fraction]:
        """The share of each processor that servers take in any assignment."""
        taken = dict.fromkeys(self.processors, Fraction(0))
        for app in self.background:
            for place, part in app.served.items():
                taken[place] += part
        for task in self.servers:
            for place in task.everywhere:
                taken[place] += task.work(self.type[place]) / self.period[task.group]
        return taken

    def load(self, task: DeadlineTask, place: str) -> Fraction:
        """The share of a processor's time that a task takes there, in addition to `served`."""
        if task.homes and (place in task.everywhere or place not in task.homes[place].served):
            return Fraction(0)
        return task.work(self.type[place]) / self.period[task.group] * self.slow(place)

    def stage_load(self, network: DeadlineNetwork, stage: CandidateStage, place: str) -> Fraction:
        """The share of a processor's time that a stage takes there."""
        return stage.work / self.period[network.group] * self.slow(place)

    def slow(self, place: str) -> Fraction:
        """How many times as long work takes on a processor."""
        return self.slowness.get(place, Fraction(1))

    @cached_property
    def settled(self) -> dict[str, Fraction]:
        """The share of each processor that any assignment takes: servers, and what is pinned."""
        taken = dict(self.served)
        for task in self.tasks:
            if task.name in self.pins:
                taken[self.pins[task.name]] += self.load(task, self.pins[task.name])
        return taken

    @cached_property
    def processors(self) -> tuple[str, ...]:
        """All of the platform."""
        return self.platform.processors

    @cached_property
    def kind(self) -> dict[str, str]:
        """Kind of each processor."""
        return {p: pool.kind for pool in self.platform.pools for p in pool.processors}

    @cached_property
    def type(self) -> dict[str, str]:
        """Type of each processor: what times are known by."""
        return self.platform.types

    @cached_property
    def cpu_types(self) -> frozenset[str]:
        """The types of its CPUs."""
        return frozenset(self.platform.types_of("cpu"))

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The machine of each processor."""
        return self.platform.machine_of

    @cached_property
    def cpus_of_machine(self) -> dict[str, tuple[str, ...]]:
        """The CPUs of each machine, also those that are left out."""
        found: dict[str, tuple[str, ...]] = {}
        for p in self.processors:
            if self.kind[p] == "cpu":
                machine = self.machine_of[p]
                found[machine] = (*found.get(machine, ()), p)
        return found

    @cached_property
    def of_type(self) -> dict[str, tuple[str, ...]]:
        """Processors of each type that may be used, over all pools."""
        found: dict[str, tuple[str, ...]] = {}
        for pool in self.platform.pools:
            usable = tuple(p for p in pool.processors if p not in self.left_out)
            found[pool.type] = (*found.get(pool.type, ()), *usable)
        return found

    @cached_property
    def cpus(self) -> tuple[str, ...]:
        """The CPUs that may be used."""
        return tuple(p for p in self.processors if self.kind[p] == "cpu" and p not in self.left_out)

    @cached_property
    def period(self) -> dict[str, Fraction]:
        """Period of each group, and of each server that is a task."""
        periods = {t.name: t.period_ns for t in self.groups}
        for task in self.servers:
            for app in task.homes.values():
                if app.share is not None:
                    periods[task.group] = app.share.server.period_ns
        return periods

    @cached_property
    def home(self) -> dict[str, str]:
        """A CPU for each group, the busiest groups first to the CPUs with the least to do.

        Tasks of one group on one core do not preempt each other, and the jitter of other groups
        does not reach them: response times are far shorter than with tasks of all groups on all
        cores, at the price of some balance.
        """
        used = {core: self.served[core] for core in self.cpus}
        own = {group: dict.fromkeys(used, Fraction(0)) for group in self.period}
        for task in self.tasks:
            if self.cpu_types.issuperset(task.wcet_ns) and task.name not in self.pins:
                work = {type_: task.work(type_) for type_ in task.wcet_ns}
                slowest = max(work.values())  # where it has no time, it will stay elsewhere
                for core in used:
                    share = work.get(self.type[core], slowest) / self.period[task.group]
                    own[task.group][core] += share
        found: dict[str, str] = {}
        if not used:
            return found
        for group in sorted(own, key=lambda g: (-max(own[g].values()), g)):
            core = min(used, key=lambda p: used[p] + own[group][p])
            found[group] = core
            used[core] += own[group][core]
        return found

    def at_home(self, task: DeadlineTask) -> tuple[str, ...]:
        """Its places when CPUs other than its group's are left out."""
        places = self.places(task)
        near = tuple(p for p in places if self.kind[p] != "cpu" or p == self.home.get(task.group))
        return near if near and task.name not in self.pins else places

    def places(self, task: DeadlineTask) -> tuple[str, ...]:
        """Processors that an item may go to."""
        pin = self.pins.get(task.name)
        if pin is not None:
            return (pin,)
        machine = self.machines.get(task.name)
        able = (
            p for p in self.processors if self.type[p] in task.wcet_ns and p not in self.left_out
        )
        if task.homes:
            return tuple(p for p in able if p in task.homes)
        return tuple(p for p in able if machine is None or self.machine_of[p] == machine)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`choice[n]` is the candidate of net n, `steps[n]` the processors of its stages, `items[i]`
    that of item i.
    """

    choice: tuple[int, ...]
    stages: tuple[tuple[str, ...], ...]
    tasks: tuple[str, ...]


def in_common(problem: JointProblem, assignment: Assignment) -> dict[tuple[str, ...], list[str]]:
    """The CPUs that two groups share although an arrow joins them, by pair: where one of the two
    hangs, the other may stop."""
    used: dict[str, set[str]] = {name: set() for name in problem.period}
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        used[task.group].add(place)
    for network, places in zip(problem.networks, assignment.stages, strict=True):
        used[network.group].update(places)
    found = {}
    for pair in sorted(tuple(sorted(pair)) for pair in problem.linked):
        shared = set.intersection(*(used.get(name, set()) for name in pair))
        cpus = [p for p in problem.processors if p in shared and problem.kind[p] == "cpu"]
        if cpus:
            found[pair] = cpus
    return found


def slowed(problem: JointProblem, factor: int) -> JointProblem:
    """The same groups so many times as seldom, under the same deadlines: bounds exist more often
    then.
    """
    groups = []
    for t in problem.groups:
        chains = tuple(chain.slowed(factor) for chain in t.chains)
        period_ns = factor * t.period_ns
        release = t.release and replace(t.release, period_ns=factor * t.release.period_ns)
        groups.append(
            replace(t, period_ns=period_ns, deadline_ns=t.due_ns, chains=chains, release=release)
        )
    return replace(problem, groups=tuple(groups))
