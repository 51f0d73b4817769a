"""The rules for legal pins on a platform.

In: apps, a platform, pins. Out: the pins as placements, and a diagnostic with a remedy for each
illegal one. `fitness` checks the kinds of processors that can run a task at all.
"""

from __future__ import annotations

from collections.abc import Collection

from ..model.application import Application, Task
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import Pin, PinStage, Placement
from ..model.platform import Platform
from .bands import unfit_bands, unfit_memory
from .engines import too_many_engines
from .fitness import unfit_for


def pinned(
    apps: tuple[Application, ...], platform: Platform, pins: tuple[Pin, ...]
) -> tuple[dict[str, Placement], tuple[Diagnostic, ...]]:
    """The pins for one platform as placements, and their faults."""
    tasks = {t.name: t for a in apps for t in a.tasks}
    placements: dict[str, Placement] = {}
    faults: list[Diagnostic] = []
    for pin in pins:
        if pin.platform != platform.name:
            continue
        task = tasks[pin.task]
        reason = _unsupported(pin, task)
        if reason:
            faults.append(
                Diagnostic("F505", f"`{pin.task}`: {reason}", pin.span, help="leave it out")
            )
            continue
        stage = pin.stages[0]
        fault = _unfit(task, stage, platform)
        if fault:
            faults.append(Diagnostic(fault[0], fault[1], stage.span, help=fault[2]))
        else:
            placements[pin.task] = Placement(
                pin.task,
                stage.processors,
                stage.streams,
                stage.threads,
                stage.process,
                pin.buffers,
                stage.graph,
                stage.fallback,
                stage.bands,
            )
    engines = {t: p.processors for t, p in placements.items() if tasks[t].network is not None}
    too_many = too_many_engines(platform, engines)
    if too_many:
        spans = [p.span for p in pins if p.platform == platform.name]
        faults.append(Diagnostic(too_many[0], too_many[1], spans[-1], help=too_many[2]))
    for pin in (p for p in pins if p.platform == platform.name):
        for wanted, neighbors in ((pin.pre, _feeders), (pin.post, _readers)):
            for neighbor in neighbors(pin.task, apps) if wanted > 1 else ():
                if tasks[neighbor].replicable:
                    placements[neighbor] = _spread(
                        tasks[neighbor], placements.get(neighbor), wanted, platform
                    )
                else:
                    message = (
                        f"`{neighbor}` keeps state or is at an end of the graph: it cannot have"
                        f" {wanted} threads"
                    )
                    faults.append(
                        Diagnostic("F504", message, pin.span, help="leave `pre` or `post` out")
                    )
    return placements, tuple(faults)


def _feeders(task: str, apps: tuple[Application, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.source for a in apps for c in a.channels if c.destination == task))


def _readers(task: str, apps: tuple[Application, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.destination for a in apps for c in a.channels if c.source == task))


def _spread(task: Task, pin: Placement | None, threads: int, platform: Platform) -> Placement:
    """Threads for a task: on the processors that it is pinned to, else over the CPUs or streams of
    the GPU.
    """
    kind = "cpu" if unfit_for(task, "cpu", platform) is None else "gpu"
    places = tuple(p for pool in platform.pools if pool.kind == kind for p in pool.processors)
    processors = pin.processors if pin is not None else places[:threads]
    return Placement(task.name, processors, -(-threads // len(processors)))


def _unsupported(pin: Pin, task: Task) -> str:
    """The part of a pin that is not supported yet; networks with stages are split into tasks
    before.
    """
    if pin.adapt:
        return "a cut can `adapt` between two stages only"
    if len(pin.stages) == 1 and pin.stages[0].until is None:
        return ""
    if task.network is not None and task.network.batch > 1:
        return (
            f"a network that groups {task.network.batch} firings cannot be cut yet: `batch` is in"
            " the way"
        )
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
        message = (
            f"`{task.name}` is pinned to a cpu and a {max(kinds)}: they cannot share its firings"
        )
        return "F504", message, "pin it to one of them"
    if len(set(processors)) < len(processors):
        return "F504", f"`{task.name}` is pinned to one processor twice", "name each processor once"
    if len(processors) > 1 and not task.replicable:
        return (
            "F504",
            (
                f"`{task.name}` keeps state or ends the graph: {len(processors)} processors cannot"
                " share its firings"
            ),
            "pin it to one processor; a C task without state may say `stateless`",
        )
    return (
        _unfit_option(task, stage, kinds)
        or unfit_bands(task, stage, kinds)
        or unfit_memory(task, stage, kinds)
    )


def _unfit_option(
    task: Task, stage: PinStage, kinds: Collection[str]
) -> tuple[str, str, str] | None:
    """Threads, streams, processes, graphs and fallbacks that a task cannot use."""
    if stage.graph and (task.network is not None or set(kinds) != {"gpu"}):
        return (
            "F504",
            f"`{task.name}` starts no kernels that could be recorded",
            "leave `graph` out",
        )
    if stage.fallback and "dla" not in kinds:
        return (
            "F504",
            f"`{task.name}` runs on no DLA that a GPU could help out",
            "leave `fallback` out",
        )
    if "cpu" not in kinds and (stage.threads > 1 or stage.process):
        word = "threads" if stage.threads > 1 else "process"
        return (
            "F504",
            f"`{task.name}` does not run on a CPU: `{word}` means nothing there",
            f"leave `{word}` out",
        )
    if stage.streams > 1 and not task.replicable:
        message = (
            f"`{task.name}` keeps state or ends the graph: {stage.streams} streams cannot share its"
            " firings"
        )
        return "F504", message, "leave `streams` out; a C task without state may say `stateless`"
    if stage.threads > 1 and task.network is None:
        return (
            "F504",
            f"`{task.name}` is no network: it controls its threads itself",
            "leave `threads` out",
        )
    if stage.process and not any(i.language == "python" for i in task.implementations):
        return (
            "F504",
            f"`{task.name}` is no Python code: it does not hold the interpreter",
            "leave `process` out",
        )
    if stage.process and task.events:
        message = f"`{task.name}` raises events, which it does in the program's own process"
        return "F807", message, "leave `process` out"
    if stage.process and task.open_ports:
        message = f"`{task.name}` reads `{task.open_ports[0].name}`, whose size depends on data"
        return "F504", message, "leave `process` out: what processes share has a fixed size"
    return None
