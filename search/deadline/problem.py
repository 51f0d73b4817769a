"""Groups with deadlines on a board: what is to be placed, where it may go, and the one evaluator of all searches.

In: groups of tasks and networks, with worst-case times per kind of processor, and the processors. A network is used as
one of its candidates: a row of stages on kinds of processors. Out: for an assignment (a candidate for each network, a
processor for each task and stage), the utilization of every processor, and whether every group meets its deadline in
the worst case. What decides is the bound of `analysis.timing.response_time`, for the schedulers that programs use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from ...analysis.timing.program import SCHEDULER
from ...analysis.timing.response_time import WorstCases, worst_cases
from ...analysis.timing.system import (
    Group,
    Slowdown,
    TimedChannel,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
)
from ...model.mapping import Bands
from ...model.platform import Platform
from ...model.workload import WorkloadCurve
from ...targets.engines import crowded


@dataclass(frozen=True, slots=True)
class Item:
    """A dataflow task. `wcet_ns[kind]` of one firing for the kinds that can run it; `firings` per iteration.

    `curves[kind]`, where it is known, begins with the worst case.
    """

    name: str
    group: str
    wcet_ns: Mapping[str, int]
    firings: int = 1
    estimated: bool = False
    curves: Mapping[str, WorkloadCurve] = field(default_factory=dict)

    def work(self, kind: str) -> Fraction:
        """What an iteration takes at most in the long run."""
        curve = self.curves.get(kind)
        return (Fraction(self.wcet_ns[kind]) if curve is None else curve.sustained) * self.firings


@dataclass(frozen=True, slots=True)
class Follower:
    """What stands on an arrow of a group and takes no time: it is fired on the CPU of one of the tasks at its ends.

    `source` and `destination` name items or nets; `repeat` is for its reader, else for who makes what it takes.
    """

    name: str
    group: str
    source: str
    destination: str
    repeat: bool
    firings: int


@dataclass(frozen=True, slots=True)
class Step:
    """A stage of a candidate: kernels (or one loadable) in a row on a kind of processor, times of a firing in ns.

    A network fires `firings` times per iteration, and so do its stages. A `curve` begins with the time of one firing.
    """

    kind: str
    kernels: tuple[int, ...]
    last_layer: str | None
    estimated: bool = False
    firings: int = 1
    curve: WorkloadCurve | None = None

    @property
    def firing(self) -> int:
        """Worst-case time of one firing."""
        return sum(self.kernels)

    @property
    def work(self) -> Fraction:
        """What an iteration takes at most in the long run."""
        return (Fraction(self.firing) if self.curve is None else self.curve.sustained) * self.firings


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a network: `option` names the kinds of its stages, as in `gpu-dla-gpu`."""

    option: str
    steps: tuple[Step, ...]

    @property
    def latency(self) -> int:
        """Time of one inference alone."""
        return sum(s.firing for s in self.steps)

    def work(self, kind: str) -> Fraction:
        """Time on all processors of a kind together."""
        return sum((s.work for s in self.steps if s.kind == kind), start=Fraction(0))


@dataclass(frozen=True, slots=True)
class Net:
    """A network and its candidates. `exact` tells whether these are the whole Pareto front."""

    name: str
    group: str
    candidates: tuple[Candidate, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Team:
    """A group: an app with its period, deadline and priority (larger = more urgent).

    Without a deadline it is due at the end of its period, or at no time where paths have deadlines. `channels` and
    `paths` connect names of items, nets and followers (rates are those of the channel, see TimedChannel).
    """

    name: str
    period_ns: Fraction
    deadline_ns: Fraction | None
    priority: int
    channels: tuple[TimedChannel, ...]
    paths: tuple[TimedPath, ...] = ()

    @property
    def due_ns(self) -> Fraction | None:
        """When an iteration has to end, from its release; None = whenever it does."""
        if self.deadline_ns is None and any(p.deadline is not None for p in self.paths):
            return None
        return self.deadline_ns or self.period_ns


@dataclass(frozen=True)
class JointProblem:
    """Everything that does not change during a search.

    `bands`: how networks go that run whole on a CPU; times are those of bands then.
    """

    platform: Platform
    teams: tuple[Team, ...]
    items: tuple[Item, ...]
    nets: tuple[Net, ...]
    pins: Mapping[str, str]
    followers: tuple[Follower, ...] = ()
    bands: Mapping[str, tuple[Bands, ...]] = field(default_factory=dict)
    #: Where an item has to be, on a platform of several machines.
    machines: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def processors(self) -> tuple[str, ...]:
        """All of the platform."""
        return self.platform.processors

    @cached_property
    def kind(self) -> dict[str, str]:
        """Kind of each processor."""
        return {p: pool.kind for pool in self.platform.pools for p in pool.processors}

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The machine of each processor."""
        return self.platform.machine_of

    @cached_property
    def of_kind(self) -> dict[str, tuple[str, ...]]:
        """Processors of each kind, over all pools."""
        found: dict[str, tuple[str, ...]] = {}
        for pool in self.platform.pools:
            found[pool.kind] = (*found.get(pool.kind, ()), *pool.processors)
        return found

    @cached_property
    def period(self) -> dict[str, Fraction]:
        """Period of each group."""
        return {t.name: t.period_ns for t in self.teams}

    @cached_property
    def home(self) -> dict[str, str]:
        """A CPU for each group, the busiest groups first to the CPUs with the least to do.

        Tasks of one group on one core do not preempt each other, and nobody else's jitter reaches them: response times
        are far shorter than with tasks of all groups on all cores, at the price of some balance.
        """
        cores = self.of_kind.get("cpu", ())
        used = dict.fromkeys(cores, Fraction(0))
        own = {t.name: Fraction(0) for t in self.teams}
        for item in self.items:
            if set(item.wcet_ns) == {"cpu"} and item.name not in self.pins:
                own[item.group] += item.work("cpu") / self.period[item.group]
        found = {}
        for group in sorted(own, key=lambda g: (-own[g], g)):
            if cores:
                found[group] = min(cores, key=lambda p: used[p])
                used[found[group]] += own[group]
        return found

    def at_home(self, item: Item) -> tuple[str, ...]:
        """Its places when CPUs other than its group's are left out."""
        places = self.places(item)
        near = tuple(p for p in places if self.kind[p] != "cpu" or p == self.home.get(item.group))
        return near if near and item.name not in self.pins else places

    def places(self, item: Item) -> tuple[str, ...]:
        """Processors that an item may go to."""
        pin = self.pins.get(item.name)
        if pin is not None:
            return (pin,)
        machine = self.machines.get(item.name)
        able = (p for p in self.processors if self.kind[p] in item.wcet_ns)
        return tuple(p for p in able if machine is None or self.machine_of[p] == machine)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`choice[n]` is the candidate of net n, `steps[n]` the processors of its stages, `items[i]` that of item i."""

    choice: tuple[int, ...]
    steps: tuple[tuple[str, ...], ...]
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an assignment means. `worst` has the bounds of groups and their paths; `engines` limits that are broken.

    `late` are groups of which a deadline is not proved; `conditional` groups rest on estimated times.
    """

    utilization: Mapping[str, Fraction]
    worst: WorstCases
    late: tuple[str, ...]
    engines: tuple[str, ...]
    conditional: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Every group meets its deadline, and no limit is broken."""
        return not self.late and not self.engines

    @property
    def maximum(self) -> Fraction:
        """Utilization of the busiest processor: what is minimized (equation 5.2 of Kim's thesis)."""
        return max(self.utilization.values())


def utilizations(problem: JointProblem, assignment: Assignment) -> dict[str, Fraction]:
    """The share of its time that each processor needs in the worst case."""
    used = dict.fromkeys(problem.processors, Fraction(0))
    for net, choice, places in zip(problem.nets, assignment.choice, assignment.steps, strict=True):
        for step, place in zip(net.candidates[choice].steps, places, strict=True):
            used[place] += step.work / problem.period[net.group]
    for item, place in zip(problem.items, assignment.items, strict=True):
        used[place] += item.work(problem.kind[place]) / problem.period[item.group]
    return used


def broken_limits(problem: JointProblem, assignment: Assignment) -> tuple[str, ...]:
    """Pools with more engines than they may hold (a stage on a GPU or DLA is one)."""
    stages = [place for places in assignment.steps for place in places]
    engines = {str(k): (place,) for k, place in enumerate(stages)}
    return tuple(pool.name for pool, _ in crowded(problem.platform, engines))


def timed(problem: JointProblem, assignment: Assignment) -> TimedSystem:
    """The mapped system: stages in a row instead of networks, every group with its tasks on their processors.

    A program releases its apps from one clock, beginning together: offsets are known.
    """
    tasks: dict[str, list[TimedTask]] = {t.name: [] for t in problem.teams}
    ends: dict[str, tuple[str, str]] = {}
    links: dict[str, list[TimedChannel]] = {t.name: [] for t in problem.teams}
    for item, place in zip(problem.items, assignment.items, strict=True):
        kind = problem.kind[place]
        tasks[item.group].append(
            TimedTask(item.name, place, (item.wcet_ns[kind],), (), item.firings, item.curves.get(kind))
        )
        ends[item.name] = item.name, item.name
    for net, choice, places in zip(problem.nets, assignment.choice, assignment.steps, strict=True):
        steps = net.candidates[choice].steps
        names = [f"{net.name}.stage{k}" for k in range(1, len(steps) + 1)] if len(steps) > 1 else [net.name]
        for name, step, place in zip(names, steps, places, strict=True):
            tasks[net.group].append(TimedTask(name, place, step.kernels, (), step.firings, step.curve))
        links[net.group] += [TimedChannel(a, b) for a, b in pairwise(names)]
        ends[net.name] = names[0], names[-1]
    on = {task.name: task.processor for own in tasks.values() for task in own}
    for follower in problem.followers:
        near = on[ends[follower.destination][0]], on[ends[follower.source][1]]
        place = _beside(problem, near if follower.repeat else near[::-1])
        tasks[follower.group].append(TimedTask(follower.name, place, (0,), (), follower.firings))
        ends[follower.name] = follower.name, follower.name
    groups = []
    for team in problem.teams:
        own = [
            TimedChannel(ends[c.source][1], ends[c.destination][0], c.produced, c.consumed, c.delay)
            for c in team.channels
        ]
        paths = tuple(replace(p, sink=ends[p.sink][1]) for p in team.paths)
        groups.append(
            Group(team.name, team.period_ns, tuple(tasks[team.name]), (*own, *links[team.name]), team.deadline_ns,
                  team.priority, offset=0, paths=paths)
        )  # fmt: skip
    processors = tuple(
        TimedProcessor(p, SCHEDULER[pool.scheduler], pool.name, pool.kind)
        for pool in problem.platform.pools
        for p in pool.processors
    )
    slow = tuple(Slowdown(c.victim, c.aggressor, c.factor) for c in problem.platform.contention)
    return TimedSystem(tuple(groups), processors, slow)


def _beside(problem: JointProblem, near: Sequence[str]) -> str:
    """The CPU where something is fired that has no place of its own, as `model.resampling` has it."""
    cpus = problem.of_kind.get("cpu", near)
    return next((p for p in near if p in cpus), cpus[0])


def verdict(problem: JointProblem, assignment: Assignment, *, patience: Fraction | None = None) -> Verdict:
    """Utilizations, limits, and the bounds of every group and its paths. Raises Refused for what has no bound.

    With `patience`, as searches have it, bounds of groups that are late by more than that factor are rough
    (`worst_cases`), and where a processor is overloaded nobody has any. Without it each group has its own.
    """
    used = utilizations(problem, assignment)
    if patience is not None and max(used.values()) > 1:
        nothing = {t.name: (None,) * len(t.paths) for t in problem.teams}
        worst = WorstCases(dict.fromkeys(nothing), dict(nothing))
    else:
        worst = worst_cases(timed(problem, assignment), patience=patience)
    guessed = {i.group for i in problem.items if i.estimated}
    guessed |= {
        n.group
        for n, c in zip(problem.nets, assignment.choice, strict=True)
        if any(s.estimated for s in n.candidates[c].steps)
    }
    told = Verdict(used, worst, (), broken_limits(problem, assignment), tuple(sorted(guessed)))
    return with_bounds(problem, told, worst)


def with_bounds(problem: JointProblem, told: Verdict, worst: WorstCases) -> Verdict:
    """The verdict with these bounds."""
    late = tuple(t.name for t in problem.teams if not all(h.met for h in held(t, worst)))
    return replace(told, worst=worst, late=late)


def slowed(problem: JointProblem, factor: int) -> JointProblem:
    """The same groups so many times as seldom, under the same deadlines: bounds exist more often then."""
    teams = (replace(t, period_ns=factor * t.period_ns, deadline_ns=t.due_ns) for t in problem.teams)
    return replace(problem, teams=tuple(teams))


@dataclass(frozen=True, slots=True)
class Held:
    """What is held against a deadline: the bound of a group, or of one of its paths. `due` is None where there is none.

    Iterations need a bound even so: without one, there is none for anything.
    """

    bound: Fraction | None
    due: Fraction | None
    path: TimedPath | None = None

    @property
    def met(self) -> bool:
        """Is it proved that the deadline is kept?"""
        return self.bound is not None and (self.due is None or self.bound <= self.due)


def held(team: Team, worst: WorstCases) -> tuple[Held, ...]:
    """The bound of a group, and those of its paths, each with its deadline."""
    paths = zip(team.paths, worst.paths[team.name], strict=True)
    return (
        Held(worst.groups[team.name], team.due_ns),
        *(Held(bound, None if p.deadline is None else Fraction(p.deadline), p) for p, bound in paths),
    )
