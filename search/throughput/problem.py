"""The problem that every search gets, and the evaluator that all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, pairwise
from math import inf
from typing import Protocol, runtime_checkable

from ...model.application import Application, Channel, Port, Task
from ...model.diagnostic import Errors
from ...model.link_ends import ends_beside
from ...model.mapping import (
    Mapping,
    NetworkPlan,
    OtherEngine,
    Placement,
    StagePlan,
    placed_on_engine,
)
from ...model.platform import Platform
from ..events import Progress as Progress
from .cycles import executed_ns, has_feedback
from .partition import Costs, Objective

#: Cost of a token from another processor to its receiver (a wake-up), if it was not measured.
HOP_NS = 30_000.0
#: The port between stages of a network, whose times include the hand-over cost; no port of a text
#: has this name.
LINK = "next stage"
#: The share of its threads' time that a network uses (ONNX Runtime, MobileNetV2 to ResNet-18 on two
#: cores: 0.85 to 0.95).
THREADS = 0.9
#: The slowdown of Python tasks in several threads, which hand the interpreter to each other
#: (measured on examples/digits: 1.2 to 1.4).
CONTENTION = 1.3
#: Load of a processor that periodic apps use fully (see `loads`).
UTILIZATION = 1e7


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results of a run of the mapped program, in ns.

    Time between frames and median time from start to end of a frame by app; mean time of a firing
    by task (stages are tasks: `App.net.stage1`); the share of the time that processors were busy,
    and that in which the program was ready but other programs had the cores.
    """

    period_ns: dict[str, float]
    latency_ns: dict[str, float] = field(default_factory=dict)
    firing_ns: dict[str, float] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    delayed: float = 0.0

    @property
    def latency(self) -> float | None:
        """The median latency of the app where it is largest; None if none was measured."""
        return max(self.latency_ns.values(), default=None)

    def value(self, objective: Objective) -> float:
        """The measured latency or time between frames, for the app where it is largest."""
        if objective == "latency":
            return max(self.latency_ns.values())
        return max(self.period_ns.values())


Measure = Callable[[Mapping], Measurement]


@runtime_checkable
class SideBySide(Protocol):
    """A `Measure` on several equal machines: `width` runs at once, each mapping on all of them in
    turns.
    """

    @property
    def width(self) -> int:
        """How many machines there are now."""

    def each(self, mappings: Sequence[Mapping]) -> list[Measurement | Errors]:
        """A run of each, in order, or why one failed."""

    def __call__(self, mapping: Mapping) -> Measurement:
        """One run."""


@dataclass(frozen=True, slots=True)
class Divisible:
    """A network that may be cut: its layers, and the costs of its parts (`energy` if it is in the
    profile).

    `crossing[i]` are the tensors that cross `costs.cuts[i]`; empty if not determined.
    """

    layers: tuple[str, ...]
    costs: Costs
    energy: Costs | None = None
    crossing: tuple[tuple[str, ...], ...] = ()

    def costs_for(self, objective: Objective) -> Costs | None:
        """Energies for the objective `energy` (None where they are unknown), else times."""
        return self.energy if objective == "energy" else self.costs

    def runs_on(self, type_: str) -> bool:
        """True if every layer has a finite time on this type of processors."""
        return type_ in self.costs.layers and max(self.costs.layers[type_]) < inf

    def stretches(self, plan: NetworkPlan) -> list[tuple[int, int]]:
        """The layers of each stage: the number of the first one, and of the first behind it."""
        return list(pairwise([0, *(self.end_of(stage) for stage in plan.stages)]))

    def end_of(self, stage: StagePlan) -> int:
        """The number of layers up to the end of a stage."""
        if stage.until is None:
            return self.costs.count
        return self.layers.index(stage.until) + 1

    def skipping(self, cuts: Sequence[int]) -> tuple[str, ...]:
        """Tensors that cross several of some cuts; a cut is the number of layers before it."""
        tensors = dict(zip((after for after, _ in self.costs.cuts), self.crossing, strict=False))
        seen = Counter(t for after in cuts for t in tensors.get(after, ()))
        return tuple(t for t, times in seen.items() if times > 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """Apps to be mapped on a platform.

    `repetition[app][task]` firings per iteration; `firing_ns[task][type]` the time of one firing on
    each type of processors that can run it; `pins` the user's pins for this platform; `networks`
    those that may be cut, by task; `apart` Python tasks with a process of their own; `held` the
    share of its time in which a Python task holds the interpreter (unknown: all of it). `transfer`
    gives the cost of bytes from one type of processors to a receiver on another, `runtime_ns` the
    runtime's overhead of each firing on a CPU, holding the interpreter. `engines` are those of
    networks on CPUs by task, where it is not ONNX Runtime; times are theirs, and `default` is the
    same problem with all of them on ONNX Runtime. `phases` has the times of a task's phases, where
    they differ, as multiples of their mean. `resampled` are the apps with a `repeat` or `last`, in
    whose place a problem has plain arrows.
    """

    apps: tuple[Application, ...]
    platform: Platform
    repetition: MappingABC[str, MappingABC[str, int]]
    firing_ns: MappingABC[str, MappingABC[str, float]]
    pins: MappingABC[str, Placement]
    networks: MappingABC[str, Divisible] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    held: MappingABC[str, float] = field(default_factory=dict)
    transfer: Callable[[str, str, int], float] = lambda source, target, count: HOP_NS
    runtime_ns: float = 0.0
    engines: MappingABC[str, OtherEngine] = field(default_factory=dict)
    default: Problem | None = None
    phases: MappingABC[str, tuple[Fraction, ...]] = field(default_factory=dict)
    resampled: frozenset[str] = frozenset()

    @property
    def tasks(self) -> tuple[tuple[Application, Task], ...]:
        """All tasks, each with its app."""
        return tuple((app, task) for app in self.apps for task in app.tasks)

    def of(self, plan: NetworkPlan) -> Problem:
        """The problem that knows the layers of a plan's stages: `default` for a network that stays
        on ONNX Runtime where another engine was chosen, which does not cut it."""
        elsewhere = any(stage.engine or stage.precision for stage in plan.stages)
        return self if self.default is None or elsewhere else self.default

    @property
    def cpus(self) -> tuple[str, ...]:
        """All CPU processors of the platform."""
        pools = [pool.processors for pool in self.platform.pools if pool.kind == "cpu"]
        return tuple(chain.from_iterable(pools))

    def of_type(self, type_: str) -> tuple[str, ...]:
        """All processors of a type."""
        pools = [pool.processors for pool in self.platform.pools if pool.type == type_]
        return tuple(chain.from_iterable(pools))

    def runs_networks_on(self, type_: str) -> bool:
        """True if every network that may be cut runs as a whole on this type of processors."""
        return all(network.runs_on(type_) for network in self.networks.values())

    def work_ns(self, app: Application, task: Task, type_: str | None = None) -> float:
        """Time of a task in one iteration on a type of processors, the slowest CPUs without one; a
        task that cannot run on that kind counts with its time elsewhere, and takes forever on CPUs
        where it has a time on others only.
        """
        times, cpus = self.firing_ns[task.name], self.platform.types_of("cpu")
        if type_ in cpus and type_ not in times and not times.keys().isdisjoint(cpus):
            return inf
        types = cpus if type_ is None else (type_,)
        known = [times[t] for t in types if t in times]
        return max(known or times.values()) * self.repetition[app.name][task.name]

    @property
    def first_core(self) -> str:
        """The first CPU that can run all tasks without a pin; the first of all where there is
        none."""
        free = [(app, task) for app, task in self.tasks if task.name not in self.pins]
        types = self.platform.types
        able = (
            cpu
            for cpu in self.cpus
            if all(self.work_ns(app, task, types[cpu]) < inf for app, task in free)
        )
        return next(able, self.cpus[0])


def scale(app: Application) -> float:
    """The factor from ns per iteration to load. Periodic apps are compared by utilization,
    scaled to be comparable with the times of the others."""
    if app.period_ns is None:
        return 1.0
    return UTILIZATION / float(app.period_ns)


def loads(problem: Problem, placement: MappingABC[str, Placement]) -> dict[str, float]:
    """Busy ns of each processor per iteration; for periodic apps its utilization times UTILIZATION.

    Threads of a network keep the processors after its own busy as well. Transfers between machines
    keep their link busy; without a link the load is infinite.
    """
    load = dict.fromkeys(problem.platform.processors, 0.0)
    for app, task in problem.tasks:
        for processor, ns in firing_loads(problem, app, task, placement[task.name]).items():
            load[processor] += ns
    for app in problem.apps:
        _add_hand_overs(problem, app, placement, load)
    return load


def firing_loads(
    problem: Problem, app: Application, task: Task, place: Placement
) -> dict[str, float]:
    """What the firings of a task load each processor with, its threads included."""
    load: dict[str, float] = {}
    factor = scale(app)
    for processor in place.processors:
        pool = problem.platform.pool_of(processor)
        work = factor * problem.work_ns(app, task, pool.type) / len(place.processors)
        own = work / speedup(place.threads)
        overhead = factor * overhead_ns(problem, app, task) / len(place.processors)
        load[processor] = load.get(processor, 0.0) + own + overhead
        at = pool.processors.index(processor)
        for k in range(1, min(place.threads, pool.count)):
            beside = pool.processors[(at + k) % pool.count]
            load[beside] = load.get(beside, 0.0) + own
    return load


def _add_hand_overs(
    problem: Problem,
    app: Application,
    placement: MappingABC[str, Placement],
    load: dict[str, float],
) -> None:
    factor, machine_of = scale(app), problem.platform.machine_of
    for channel in app.channels:
        senders = placement[channel.source].processors
        receivers = placement[channel.destination].processors
        machine, other_machine = machine_of[senders[0]], machine_of[receivers[0]]
        if machine != other_machine:
            wire = problem.platform.wire(machine, other_machine)
            times, size = hand_overs(problem, app, channel)
            if wire is None:
                load[receivers[0]] = inf
            else:
                load[wire.processor] += factor * times * float(wire.takes_ns(1, size))
        elif senders != receivers and channel.source_port != LINK:
            source = problem.platform.pool_of(senders[0]).type
            for receiver in receivers:
                target = problem.platform.pool_of(receiver).type
                load[receiver] += crossing(problem, app, channel, source, target) / len(receivers)


def crossing(
    problem: Problem, app: Application, channel: Channel, source: str, target: str
) -> float:
    """What the receiver of a channel's tokens takes for them, from one type of processors to
    another."""
    times, size = hand_overs(problem, app, channel)
    return scale(app) * times * problem.transfer(source, target, size)


def overhead_ns(problem: Problem, app: Application, task: Task) -> float:
    """The runtime's overhead of a task in one iteration."""
    return problem.runtime_ns * problem.repetition[app.name][task.name]


def hand_overs(problem: Problem, app: Application, channel: Channel) -> tuple[int, int]:
    """How often in an iteration tokens of a channel change processors, and their bytes each time.

    The side that fires less often reads or writes several tokens at once.
    """
    firings = problem.repetition[app.name]
    times = min(firings[channel.source], firings[channel.destination])
    output = app.task(channel.source).port(channel.source_port)
    if output.type is None:
        return times, 0
    # With a `repeat` or `last` on the channel, only needed tokens cross, and once.
    reader = app.task(channel.destination).port(channel.destination_port)
    written = _tokens(output, firings[channel.source])
    read = _tokens(reader, firings[channel.destination])
    return times, output.type.bytes * min(written, read) // times


def _tokens(port: Port, firings: int) -> int:
    """Tokens of a number of firings."""
    return sum(port.rates) * firings // len(port.rates)


def speedup(threads: int) -> float:
    """How many times as fast a network runs with so many threads of the inference library."""
    if threads > 1:
        return threads * THREADS
    return 1.0


def interpreter_load(problem: Problem, placement: MappingABC[str, Placement]) -> float:
    """The load of the interpreter's lock, on the machine where it is greatest."""
    return max(interpreter_loads(problem, placement).values())


def interpreter_loads(problem: Problem, placement: MappingABC[str, Placement]) -> dict[str, float]:
    """The load of the interpreter's lock, of which each machine has one: Python tasks, and the
    runtime between all firings."""
    machine_of = problem.platform.machine_of
    held = dict.fromkeys(machine_of.values(), 0.0)
    runtime = dict.fromkeys(held, 0.0)
    holders: dict[str, set[str]] = {machine: set() for machine in held}
    for app, task in problem.tasks:
        place = placement[task.name]
        share = scale(app) / len(place.processors)
        work = share * held_ns(problem, app, task, place)
        for processor in place.processors:
            machine = machine_of[processor]
            runtime[machine] += share * overhead_ns(problem, app, task)
            held[machine] += work
            if work:
                holders[machine].add(processor)
    return {
        machine: runtime[machine] + own * (CONTENTION if len(holders[machine]) > 1 else 1.0)
        for machine, own in held.items()
    }


def held_ns(problem: Problem, app: Application, task: Task, place: Placement) -> float:
    """How long a task holds the interpreter's lock in an iteration."""
    if not holds_interpreter(task, place, problem.platform):
        return 0.0
    types = {problem.platform.pool_of(p).type for p in place.processors}
    work = max(problem.work_ns(app, task, type_) for type_ in types)
    return work * problem.held.get(task.name, 1.0)


def holds_interpreter(task: Task, place: Placement, platform: Platform) -> bool:
    """Is it Python in the program's own process, where it is placed?"""
    kinds = {platform.pool_of(processor).kind for processor in place.processors}
    return not place.process and any(task.in_python_on(kind) for kind in kinds)


def runs_without_interpreter(task: Task) -> bool:
    """Networks and C code release Python's lock while they compute."""
    return task.network is not None or any(i.language == "c" for i in task.implementations)


def period_ns(problem: Problem, placement: MappingABC[str, Placement], app: Application) -> float:
    """Predicted time between frames of an app: its own period, or the load of its busiest
    processor, of the interpreters of its machines, or what feedback allows.
    """
    if app.period_ns is not None:
        return float(app.period_ns)
    load = loads(problem, placement)
    used: set[str] = set()
    for task in app.tasks:
        used.update(placement[task.name].processors)
    machine_of = problem.platform.machine_of
    machines = {machine_of[p] for p in used}
    used |= {w.processor for w in problem.platform.wires if {w.source, w.destination} <= machines}
    feedback = executed_ns(problem, placement, app) if has_feedback(problem, app) else 0.0
    locks = interpreter_loads(problem, placement)
    return max(feedback, *(locks[m] for m in machines), *(load[p] for p in used))


def mapping_of(problem: Problem, placement: MappingABC[str, Placement], search: str) -> Mapping:
    """Wrap a placement as the answer of a search, with the engines of networks. Ends of arrows
    between apps are beside their neighbors."""
    cpus = frozenset(problem.cpus)
    placement = ends_beside(problem.apps, placement, problem.pins, cpus)
    placements = tuple(
        placed_on_engine(placement[task.name], problem.engines.get(task.name), cpus)
        for _, task in problem.tasks
    )
    periods = tuple((app.name, period_ns(problem, placement, app)) for app in problem.apps)
    return Mapping(problem.platform.name, placements, periods, search)
