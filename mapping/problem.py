"""What every search gets, and the one evaluator that all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field

from ..model.application import Application, Channel, Task
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import Mapping, Pin, PinStage, Placement
from ..model.platform import Platform
from .exact import Costs
from .targets import too_many_engines, unfit_for

#: A token that changes processors costs its receiver a wake-up: so much where nobody measured it.
HOP_NS = 30_000.0
#: The port between stages of a network, whose times hold what a hand-over costs; no port of a text is called so.
LINK = "next stage"
#: Of its threads' time, what a network uses (ONNX Runtime, MobileNetV2 to ResNet-18 on two cores: 0.85 to 0.95).
THREADS = 0.9
#: Load of a processor that periodic apps use fully (see `loads`).
UTILISATION = 1e7


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a run of the mapped program showed, in ns.

    Time between frames and from start to end of a frame by app; mean time of a firing by task (stages are tasks:
    `App.net.stage1`); the share of the time that processors were busy, and that in which the program could have
    computed but others had the cores.
    """

    period_ns: dict[str, float]
    latency_ns: dict[str, float] = field(default_factory=dict)
    firing_ns: dict[str, float] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    delayed: float = 0.0


Progress = Callable[[str], None]
Measure = Callable[[Mapping], Measurement]


@dataclass(frozen=True, slots=True)
class Divisible:
    """A network that may be cut: its layers, and what parts of it take (`energy` where a profile says so).

    `crossing[i]` are the tensors that cross `costs.cuts[i]`; empty where nobody looked.
    """

    layers: tuple[str, ...]
    costs: Costs
    energy: Costs | None = None
    crossing: tuple[tuple[str, ...], ...] = ()

    def skipping(self, cuts: Sequence[int]) -> tuple[str, ...]:
        """Tensors that cross more than one of some cuts, given as the numbers of layers in front of them."""
        tensors = dict(zip((after for after, _ in self.costs.cuts), self.crossing, strict=False))
        seen = Counter(t for after in cuts for t in tensors.get(after, ()))
        return tuple(t for t, times in seen.items() if times > 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """Apps to be mapped on a platform.

    `repetition[app][task]` firings per iteration; `firing_ns[task][kind]` the time of one firing on each kind of
    processor that can run it; `pins` the user's wishes for this platform; `networks` those that may be cut, by task;
    `apart` Python tasks that shall have a process of their own; `held` the share of its time in which a Python task
    holds the interpreter (unknown: all of it). `transfer` is what so many bytes from a kind of processor cost their
    receiver on another one, `runtime_ns` what the runtime adds to each firing on a CPU, holding the interpreter.
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

    @property
    def cpus(self) -> tuple[str, ...]:
        """All CPU processors of the platform."""
        return tuple(p for pool in self.platform.pools if pool.kind == "cpu" for p in pool.processors)

    def work_ns(self, app: Application, task: Task, kind: str = "cpu") -> float:
        """Time of a task in one iteration on a kind of processor; what cannot run there takes as long as elsewhere."""
        times = self.firing_ns[task.name]
        return times.get(kind, max(times.values())) * self.repetition[app.name][task.name]


def pinned(
    apps: tuple[Application, ...], platform: Platform, pins: tuple[Pin, ...]
) -> tuple[dict[str, Placement], tuple[Diagnostic, ...]]:
    """The pins for one platform as placements, and what is wrong with them."""
    tasks = {t.name: t for a in apps for t in a.tasks}
    placements: dict[str, Placement] = {}
    faults: list[Diagnostic] = []
    for pin in pins:
        if pin.platform != platform.name:
            continue
        task = tasks[pin.task]
        reason = _unsupported(pin, task)
        if reason:
            faults.append(Diagnostic("F505", f"`{pin.task}`: {reason}", pin.span, "", (), "leave it out"))
            continue
        stage = pin.stages[0]
        fault = _unfit(task, stage, platform)
        if fault:
            faults.append(Diagnostic(fault[0], fault[1], stage.span, "", (), fault[2]))
        else:
            placements[pin.task] = Placement(
                pin.task, stage.processors, stage.streams, stage.threads, stage.process, pin.buffers,
                stage.graph, stage.fallback,
            )  # fmt: skip
    engines = {t: p.processors for t, p in placements.items() if tasks[t].network is not None}
    too_many = too_many_engines(platform, engines)
    if too_many:
        spans = [p.span for p in pins if p.platform == platform.name]
        faults.append(Diagnostic(too_many[0], too_many[1], spans[-1], "", (), too_many[2]))
    for pin in (p for p in pins if p.platform == platform.name):
        for wanted, neighbours in ((pin.pre, _feeders), (pin.post, _readers)):
            for neighbour in neighbours(pin.task, apps) if wanted > 1 else ():
                if tasks[neighbour].replicable:
                    placements[neighbour] = _spread(tasks[neighbour], placements.get(neighbour), wanted, platform)
                else:
                    message = f"`{neighbour}` keeps state or is at an end of the graph: it cannot have {wanted} threads"
                    faults.append(Diagnostic("F504", message, pin.span, "", (), "leave `pre` or `post` out"))
    return placements, tuple(faults)


def _feeders(task: str, apps: tuple[Application, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.source for a in apps for c in a.channels if c.destination == task))


def _readers(task: str, apps: tuple[Application, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.destination for a in apps for c in a.channels if c.source == task))


def _spread(task: Task, pin: Placement | None, threads: int, platform: Platform) -> Placement:
    """So many threads for a task: on the processors that it is pinned to, else over the CPUs or streams of the GPU."""
    kind = "cpu" if unfit_for(task, "cpu", platform) is None else "gpu"
    places = tuple(p for pool in platform.pools if pool.kind == kind for p in pool.processors)
    processors = pin.processors if pin is not None else places[:threads]
    return Placement(task.name, processors, -(-threads // len(processors)))


def _unsupported(pin: Pin, task: Task) -> str:
    """What of a pin cannot be carried out yet; a network with stages has become tasks before this is asked."""
    if pin.adapt:
        return "a cut can `adapt` between two stages only"
    if len(pin.stages) == 1 and pin.stages[0].until is None:
        return ""
    if task.network is not None and task.network.batch > 1:
        return f"a network that groups {task.network.batch} firings cannot be cut yet: `batch` is in the way"
    return "a `wcet` for a network with stages is not supported yet"


def _unfit(task: Task, stage: PinStage, platform: Platform) -> tuple[str, str, str] | None:
    processors = stage.processors
    for name in processors:
        if name not in platform.processors:
            return (
                "F501",
                f"platform `{platform.name}` has no processor `{name}`",
                f"it has {one_of(platform.processors)}",
            )
        reason = unfit_for(task, platform.pool_of(name).kind, platform, fallback=stage.fallback)
        if reason is not None:
            return reason
    kinds = {platform.pool_of(name).kind for name in processors}
    if "cpu" in kinds and len(kinds) > 1:
        message = f"`{task.name}` is pinned to a cpu and a {max(kinds)}: they cannot share its firings"
        return "F504", message, "pin it to one of them"
    if len(set(processors)) < len(processors):
        return "F504", f"`{task.name}` is pinned to one processor twice", "name each processor once"
    if len(processors) > 1 and not task.replicable:
        return (
            "F504",
            f"`{task.name}` keeps state or ends the graph: {len(processors)} processors cannot share its firings",
            "pin it to one processor; a C task without state may say `stateless`",
        )
    return _unfit_option(task, stage, kinds)


def _unfit_option(task: Task, stage: PinStage, kinds: set[str]) -> tuple[str, str, str] | None:
    """Threads, streams, processes, graphs and help that a task cannot use."""
    if stage.graph and (task.network is not None or kinds != {"gpu"}):
        return "F504", f"`{task.name}` starts no kernels that could be recorded", "leave `graph` out"
    if stage.fallback and "dla" not in kinds:
        return "F504", f"`{task.name}` runs on no DLA that a GPU could help out", "leave `fallback` out"
    if "cpu" not in kinds and (stage.threads > 1 or stage.process):
        word = "threads" if stage.threads > 1 else "process"
        return "F504", f"`{task.name}` does not run on a CPU: `{word}` means nothing there", f"leave `{word}` out"
    if stage.streams > 1 and not task.replicable:
        message = f"`{task.name}` keeps state or ends the graph: {stage.streams} streams cannot share its firings"
        return "F504", message, "leave `streams` out; a C task without state may say `stateless`"
    if stage.threads > 1 and task.network is None:
        return "F504", f"`{task.name}` is no network: it decides itself on its threads", "leave `threads` out"
    if stage.process and not any(i.language == "python" for i in task.implementations):
        return "F504", f"`{task.name}` is no Python code: it does not hold the interpreter", "leave `process` out"
    return None


def scale(app: Application) -> float:
    """Periodic apps are compared by utilisation, scaled so that it stands beside the times of the others."""
    return 1.0 if app.period_ns is None else UTILISATION / float(app.period_ns)


def loads(problem: Problem, placement: MappingABC[str, Placement]) -> dict[str, float]:
    """Busy ns of each processor per iteration; for periodic apps its utilisation times UTILISATION.

    Threads of a network keep the processors after its own busy as well.
    """
    load = dict.fromkeys(problem.platform.processors, 0.0)
    for app in problem.apps:
        factor = scale(app)
        for task in app.tasks:
            place = placement[task.name]
            for processor in place.processors:
                pool = problem.platform.pool_of(processor)
                work = factor * problem.work_ns(app, task, pool.kind) / len(place.processors)
                load[processor] += work / _speed(place.threads)
                load[processor] += factor * overhead_ns(problem, app, task) / len(place.processors)
                at = pool.processors.index(processor)
                for k in range(1, min(place.threads, pool.count)):
                    load[pool.processors[(at + k) % pool.count]] += work / _speed(place.threads)
        for c in app.channels:
            here, there = placement[c.source].processors, placement[c.destination].processors
            if here != there and c.source_port != LINK:
                source = problem.platform.pool_of(here[0]).kind
                times, count = _hand_overs(problem, app, c)
                for processor in there:
                    cost = times * problem.transfer(source, problem.platform.pool_of(processor).kind, count)
                    load[processor] += factor * cost / len(there)
    return load


def overhead_ns(problem: Problem, app: Application, task: Task) -> float:
    """What the runtime adds to the firings of a task in one iteration."""
    return problem.runtime_ns * problem.repetition[app.name][task.name]


def _hand_overs(problem: Problem, app: Application, channel: Channel) -> tuple[int, int]:
    """How often in an iteration tokens of a channel change processors, and their bytes each time.

    The side that fires less often takes or brings several tokens at once.
    """
    firings = problem.repetition[app.name]
    times = min(firings[channel.source], firings[channel.destination])
    port = app.task(channel.source).port(channel.source_port)
    tokens = sum(port.rates) * firings[channel.source] // len(port.rates)
    return times, 0 if port.type is None else port.type.bytes * tokens // times


def _speed(threads: int) -> float:
    return 1.0 if threads == 1 else threads * THREADS


def period_ns(problem: Problem, placement: MappingABC[str, Placement], app: Application) -> float:
    """Predicted time between frames of an app: its own period, or the load of its busiest processor."""
    if app.period_ns is not None:
        return float(app.period_ns)
    load = loads(problem, placement)
    return max(load[p] for t in app.tasks for p in placement[t.name].processors)


def mapping_of(problem: Problem, placement: MappingABC[str, Placement], search: str) -> Mapping:
    """Wrap a placement as the answer of a search."""
    return Mapping(
        problem.platform.name,
        tuple(placement[t.name] for a in problem.apps for t in a.tasks),
        tuple((a.name, period_ns(problem, placement, a)) for a in problem.apps),
        search,
    )
