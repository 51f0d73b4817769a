"""What every search gets, and the one evaluator that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass

from ..model.application import Application, Task
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import Mapping, Pin, Placement
from ..model.platform import Platform

#: A token that changes processors costs its receiver a wake-up (measured: 20-30 us).
HOP_NS = 30_000.0
#: Load of a processor that periodic apps use fully (see `loads`).
UTILISATION = 1e7


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a run of the mapped program showed: the time between frames of each app in ns."""

    period_ns: dict[str, float]


Progress = Callable[[str], None]
Measure = Callable[[Mapping], Measurement]


@dataclass(frozen=True, slots=True)
class Problem:
    """Apps to be mapped on a platform.

    `repetition[app][task]` firings per iteration; `firing_ns[task]` the time of one firing on a CPU; `pins` the
    user's wishes for this platform (task -> processors).
    """

    apps: tuple[Application, ...]
    platform: Platform
    repetition: MappingABC[str, MappingABC[str, int]]
    firing_ns: MappingABC[str, float]
    pins: MappingABC[str, tuple[str, ...]]

    @property
    def cpus(self) -> tuple[str, ...]:
        """All CPU processors of the platform."""
        return tuple(p for pool in self.platform.pools if pool.kind == "cpu" for p in pool.processors)

    def work_ns(self, app: Application, task: Task) -> float:
        """Time of a task in one iteration."""
        return self.firing_ns[task.name] * self.repetition[app.name][task.name]


def pinned(
    apps: tuple[Application, ...], platform: Platform, pins: tuple[Pin, ...]
) -> tuple[dict[str, tuple[str, ...]], tuple[Diagnostic, ...]]:
    """The pins for one platform as placements, and what is wrong with them."""
    tasks = {t.name: t for a in apps for t in a.tasks}
    placements: dict[str, tuple[str, ...]] = {}
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
        fault = _unfit(task, stage.processors, platform)
        if fault:
            faults.append(Diagnostic(fault[0], fault[1], stage.span, "", (), fault[2]))
        else:
            placements[pin.task] = stage.processors
    return placements, tuple(faults)


def _unsupported(pin: Pin, task: Task) -> str:
    """What of a pin cannot be carried out yet; a network with stages has become tasks before this is asked."""
    if any(s.streams > 1 for s in pin.stages):
        return "`streams` are not supported yet"
    if pin.buffers is not None:
        return "`buffers` are not supported yet"
    if len(pin.stages) == 1 and pin.stages[0].until is None:
        return ""
    if task.network is not None and task.network.batch > 1:
        return f"a network that groups {task.network.batch} firings cannot be cut yet: `batch` is in the way"
    return "a `wcet` for a network with stages is not supported yet"


def _unfit(task: Task, processors: tuple[str, ...], platform: Platform) -> tuple[str, str, str] | None:
    for name in processors:
        if name not in platform.processors:
            return (
                "F501",
                f"platform `{platform.name}` has no processor `{name}`",
                f"it has {one_of(platform.processors)}",
            )
        kind = platform.pool_of(name).kind
        abstract = task.network is None and not task.implementations
        if abstract and kind == "cpu":
            continue
        if task.network is None and not any(i.kind == kind for i in task.implementations):
            kinds = sorted({i.kind for i in task.implementations})
            have = f"it has code for {one_of(kinds)}" if kinds else "it has no code"
            return "F503", f"`{task.name}` cannot run on `{name}`: no implementation for a {kind}", have
        if kind != "cpu":
            return "F603", f"code for a {kind} cannot be generated yet", "pin it to a cpu"
    if len(set(processors)) < len(processors):
        return "F504", f"`{task.name}` is pinned to one processor twice", "name each processor once"
    if len(processors) > 1 and not task.replicable:
        return (
            "F504",
            f"`{task.name}` keeps state or ends the graph: {len(processors)} processors cannot share its firings",
            "pin it to one processor; a C task without state may say `stateless`",
        )
    return None


def scale(app: Application) -> float:
    """Periodic apps are compared by utilisation, scaled so that it stands beside the times of the others."""
    return 1.0 if app.period_ns is None else UTILISATION / float(app.period_ns)


def loads(problem: Problem, placement: MappingABC[str, tuple[str, ...]]) -> dict[str, float]:
    """Busy ns of each processor per iteration; for periodic apps its utilisation times UTILISATION."""
    load = dict.fromkeys(problem.cpus, 0.0)
    for app in problem.apps:
        factor = scale(app)
        for task in app.tasks:
            places = placement[task.name]
            for processor in places:
                load[processor] += factor * problem.work_ns(app, task) / len(places)
        for c in app.channels:
            if placement[c.source] != placement[c.destination]:
                for processor in placement[c.destination]:
                    load[processor] += factor * HOP_NS / len(placement[c.destination])
    return load


def period_ns(problem: Problem, placement: MappingABC[str, tuple[str, ...]], app: Application) -> float:
    """Predicted time between frames of an app: its own period, or the load of its busiest processor."""
    if app.period_ns is not None:
        return float(app.period_ns)
    load = loads(problem, placement)
    return max(load[p] for t in app.tasks for p in placement[t.name])


def mapping_of(problem: Problem, placement: MappingABC[str, tuple[str, ...]], search: str) -> Mapping:
    """Wrap a placement as the answer of a search."""
    return Mapping(
        problem.platform.name,
        tuple(Placement(t.name, placement[t.name]) for a in problem.apps for t in a.tasks),
        tuple((a.name, period_ns(problem, placement, a)) for a in problem.apps),
        search,
    )
