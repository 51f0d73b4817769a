"""The program that an assignment becomes, as far as its timing goes.

In: a joint problem and an assignment. Out: the timed system of the program that a build writes for
it: stages of networks instead of networks, the workers of every processor with their orders, and
the capacities of channels. Orders and capacities come from `analysis.dataflow.workers`, which code
generation calls as well, so that a search bounds what will run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from ...analysis.dataflow.static_order import batches
from ...analysis.dataflow.workers import Workers, capacity, workers_of
from ...analysis.timing.program import released, timed_processor, timed_workers
from ...analysis.timing.runs import in_runs, runs_of
from ...analysis.timing.slower import slower
from ...analysis.timing.system import (
    Slowdown,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedSystem,
    TimedTask,
)
from ...model.application import Application, Channel, Network, Port, Task
from ...model.span import Span
from ...model.types import TensorType
from ...model.workload import WorkloadCurve
from .problem import (
    Assignment,
    CandidateStage,
    DeadlineNetwork,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)

#: Where what a search supposes stands in a text: nowhere.
NOWHERE = Span("", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Fired:
    """A task of the program: the processor, the kernels of a firing and their times in ns, firings
    per iteration."""

    processor: str
    kernels: tuple[int, ...]
    firings: int
    curve: WorkloadCurve | None = None
    live: bool = False
    open_end: bool = False
    batch: int = 1
    phases: tuple[int, ...] = ()

    @property
    def cost(self) -> Fraction:
        """Worst-case time of a firing, over the phases of an iteration."""
        if self.phases:
            return Fraction(sum(self.phases), len(self.phases))
        return Fraction(sum(self.kernels))


def timed(problem: JointProblem, assignment: Assignment) -> TimedSystem:
    """The timed system of an assignment's program. Raises Refused."""
    program = _Program(problem, assignment)
    apps = tuple(program.app(group) for group in problem.groups)
    threads = workers_of(
        apps,
        problem.platform,
        {name: (task.processor,) for name, task in program.tasks.items()},
        {app.name: {t.name: program.tasks[t.name].firings for t in app.tasks} for app in apps},
        {name: task.cost for name, task in program.tasks.items()},
    )
    groups = tuple(
        program.group(group, app, threads) for group, app in zip(problem.groups, apps, strict=True)
    )
    pools = problem.platform.pools
    processors = tuple(
        timed_processor(p, pool, problem.platform) for pool in pools for p in pool.processors
    )
    slowdowns = tuple(
        Slowdown(c.victim, c.aggressor, c.factor) for c in problem.platform.contention
    )
    app_of = {task.name: app.name for app in apps for task in app.tasks}
    apps_beside = problem.beside(assignment)
    background = tuple(worker for app in apps_beside for worker in app.workers)
    workers = timed_workers(threads.workers, app_of)
    system = TimedSystem(groups, processors, slowdowns, workers, background)
    sizes = {name: size for app in apps for name, size in batches(app).items()}
    return slower(in_runs(system, runs_of(threads.workers, sizes)), problem.slowness)


def firing_times(
    problem: JointProblem, assignment: Assignment
) -> tuple[dict[str, tuple[int, ...]], dict[str, WorkloadCurve], dict[str, tuple[int, ...]]]:
    """The kernels of a firing of every task of the program with their worst cases in ns, workload
    curves, and the worst cases of phases that differ."""
    tasks = _Program(problem, assignment).tasks
    curves = {name: task.curve for name, task in tasks.items() if task.curve is not None}
    phases = {name: task.phases for name, task in tasks.items() if task.phases}
    return {name: task.kernels for name, task in tasks.items()}, curves, phases


def program_paths(
    problem: JointProblem, assignment: Assignment
) -> dict[str, tuple[TimedPath, ...]]:
    """The paths of each group, with stages where they end with a network that is cut.

    A program lists fewer of them where the data of a source reach only some stages of a network.
    """
    program = _Program(problem, assignment)
    return {group.name: program.paths(group) for group in problem.groups}


def stage_names(network: DeadlineNetwork, stages: tuple[CandidateStage, ...]) -> tuple[str, ...]:
    """The tasks that the stages of a candidate become."""
    if len(stages) == 1:
        return (network.name,)
    return tuple(f"{network.name}.stage{k}" for k in range(1, len(stages) + 1))


def names_of(problem: JointProblem, group: TaskGroup) -> Sequence[str]:
    """Tasks, networks and followers of a group, in the order of the text."""
    if group.order:
        return group.order
    names = [task.name for task in problem.tasks if task.group == group.name]
    names += [network.name for network in problem.networks if network.group == group.name]
    return names + [f.name for f in problem.followers if f.group == group.name]


class _Program:
    """The tasks and channels that an assignment means, by group."""

    def __init__(self, problem: JointProblem, assignment: Assignment) -> None:
        self._problem = problem
        self._cut: dict[str, CutNet] = {}
        self.tasks: dict[str, Fired] = {}
        for task, place in zip(problem.tasks, assignment.tasks, strict=True):
            if task.homes:  # its app is beside the groups
                continue
            self.tasks[task.name] = _fired_item(task, place, problem.type[place])
        for network, choice, places in zip(
            problem.networks, assignment.choice, assignment.stages, strict=True
        ):
            stages = network.candidates[choice].stages
            cut = CutNet(network, stages)
            self._cut[network.name] = cut
            for name, stage, place in zip(cut.names, stages, places, strict=True):
                self.tasks[name] = _fired_step(network, stage, place)
        for follower in problem.followers:
            near = [
                self._end(follower.destination).processor,
                self._end(follower.source, last=True).processor,
            ]
            if not follower.repeat:
                near.reverse()
            place = _cpu_beside(problem, near)
            self.tasks[follower.name] = Fired(place, (0,), follower.firings)
            if follower.task is not None:
                self.tasks[follower.name] = _fired_item(follower.task, place, problem.type[place])

    def _end(self, name: str, last: bool = False) -> Fired:
        """The task of that name, or the first or the last stage of the network of that name."""
        cut = self._cut.get(name)
        if cut is None:
            return self.tasks[name]
        return self.tasks[cut.names[-1 if last else 0]]

    def app(self, group: TaskGroup) -> Application:
        """The app of a group as the program has it: tasks with ports, channels, no code."""
        channels = self.channels(group)
        ports: dict[str, list[Port]] = {name: [] for name in self._names(group)}
        made = []
        for number, c in enumerate(channels):
            kind = TensorType("uint8", (c.token_bytes,))
            out, into = f"o{number}", f"i{number}"
            ports[c.source].append(Port(out, "out", kind, c.produced, True, NOWHERE))
            ports[c.destination].append(Port(into, "in", kind, c.consumed, True, NOWHERE))
            name = f"{group.name}: {c.source} -> {c.destination} ({number})"
            made.append(Channel(name, c.source, out, c.destination, into, c.delay, (), NOWHERE))
        tasks = tuple(_task(name, own, self.tasks[name]) for name, own in ports.items())
        return Application(
            group.name,
            tasks,
            tuple(made),
            group.period_ns,
            group.deadline_ns,
            self._problem.priorities[group.name],
            "",
            NOWHERE,
        )

    def group(self, team: TaskGroup, app: Application, threads: Workers) -> TimedGroup:
        """A group with the capacities of its channels."""
        tasks = []
        for task in app.tasks:
            fired = self.tasks[task.name]
            tasks.append(
                TimedTask(
                    task.name,
                    fired.processor,
                    fired.kernels,
                    (),
                    fired.firings,
                    fired.curve,
                    fired.phases,
                )
            )
        channels = []
        for c, channel in zip(self.channels(team), app.channels, strict=True):
            room = capacity(app, channel, threads.capacities[channel.name], c.asked_for)
            channels.append(
                TimedChannel(c.source, c.destination, c.produced, c.consumed, c.delay, room)
            )
        made = TimedGroup(
            team.name,
            team.period_ns,
            tuple(tasks),
            tuple(channels),
            team.deadline_ns,
            self._problem.priorities[team.name],
            paths=self.paths(team),
            chains=team.chains,
        )
        return released(made, team.release)

    def channels(self, group: TaskGroup) -> list[JointChannel]:
        """The channels of a group between tasks and stages: those inside of networks first."""
        found: list[JointChannel] = []
        for name in names_of(self._problem, group):
            if name in self._cut:
                found += self._cut[name].inner
        for channel in group.channels:
            found += between_stages(channel, self._cut)
        return found

    def _names(self, group: TaskGroup) -> list[str]:
        """The tasks of a group, stages in the place of their network."""
        names: list[str] = []
        for name in names_of(self._problem, group):
            names += self._cut[name].names if name in self._cut else (name,)
        return names

    def paths(self, group: TaskGroup) -> tuple[TimedPath, ...]:
        """The paths of a group, which end with the last stage of a network."""
        return tuple(
            replace(p, sink=self._cut[p.sink].names[-1]) if p.sink in self._cut else p
            for p in group.paths
        )


class CutNet:
    """A network as the stages of one candidate: their names, and the channels between them."""

    def __init__(self, network: DeadlineNetwork, stages: tuple[CandidateStage, ...]) -> None:
        self.names = stage_names(network, stages)
        self._ends = [stage.end for stage in stages]
        known = bool(network.tensors) and None not in self._ends[:-1]
        self.inner: list[JointChannel] = []
        if len(stages) == 1:
            return
        if not known:
            self.inner = [JointChannel(a, b) for a, b in pairwise(self.names)]
            return
        for tensor in network.tensors:
            source = self.maker(tensor.maker)
            for target in self.readers(tensor.readers):
                if target != source:
                    self.inner.append(JointChannel(source, target, token_bytes=tensor.bytes))

    def maker(self, layer: int | None) -> str:
        """The stage that makes what a layer makes; the last one where the layer is not known."""
        return self.names[-1] if layer is None else self.names[self._stage(layer)]

    def readers(self, layers: tuple[int, ...]) -> list[str]:
        """The stages with these layers, from front to back; the first one where no layers are
        known."""
        if not layers:
            return [self.names[0]]
        return [self.names[k] for k in sorted({self._stage(layer) for layer in layers})]

    def _stage(self, layer: int) -> int:
        for number, end in enumerate(self._ends[:-1]):
            if end is None or layer < end:
                return number
        return len(self._ends) - 1


def between_stages(channel: JointChannel, cut: Mapping[str, CutNet]) -> list[JointChannel]:
    """A channel with stages at its ends where networks were cut: one for each stage that reads
    it."""
    if channel.source in cut:
        channel = replace(channel, source=cut[channel.source].maker(channel.maker), maker=None)
    if channel.destination not in cut:
        return [channel]
    targets = cut[channel.destination].readers(channel.readers)
    return [replace(channel, destination=target, readers=()) for target in targets]


def _fired_item(task: DeadlineTask, place: str, type_: str) -> Fired:
    return Fired(
        place,
        (task.wcet_ns[type_],),
        task.firings,
        task.curves.get(type_),
        task.live,
        task.open_end,
        task.batch,
        task.phases.get(type_, ()),
    )


def _fired_step(network: DeadlineNetwork, stage: CandidateStage, place: str) -> Fired:
    return Fired(place, stage.kernels, stage.firings, stage.curve, batch=network.batch)


def _task(name: str, ports: Sequence[Port], fired: Fired) -> Task:
    """A task without code, as far as orders depend on it."""
    return Task(
        name,
        definition=name,
        inputs=tuple(p for p in ports if p.direction == "in"),
        outputs=tuple(p for p in ports if p.direction == "out"),
        parameters=(),
        implementations=(),
        state=(),
        stateless=False,
        wcet_ns=(),
        network=_network(fired.batch) if fired.batch > 1 else None,
        doc="",
        span=NOWHERE,
        live=fired.live,
        border="in" if fired.open_end else None,
    )


def _network(batch: int) -> Network:
    """A network of which only the batch matters."""
    return Network("", "", "", (), (), batch, "fp32", None, (), "", 0)


def _cpu_beside(problem: JointProblem, near: Sequence[str]) -> str:
    """The CPU where something is fired that has no place of its own, as `model.resampling` has
    it."""
    cpus = problem.cpus_of_machine.get(problem.machine_of[near[0]]) or problem.cpus
    return next((p for p in near if p in cpus), cpus[0] if cpus else near[0])
