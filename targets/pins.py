"""The rules for legal pins on a platform.

In: apps, a platform, pins. Out: the pins as placements, and a diagnostic with a remedy for each
illegal one. `fitness` checks the kinds of processors that can run a task at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from ..model.application import Application, Task, all_tasks
from ..model.diagnostic import Diagnostic, one_of
from ..model.mapping import Pin, PinStage, Placement
from ..model.platform import Platform, first_of_pools
from .bands import unfit_bands, unfit_memory
from .engines import too_many_engines
from .fitness import unfit_for
from .inference import unfit_inference
from .shares import unkept


def pinned(
    apps: tuple[Application, ...], platform: Platform, pins: tuple[Pin, ...]
) -> tuple[dict[str, Placement], tuple[Diagnostic, ...]]:
    """The pins for one platform as placements, and their faults."""
    tasks = {task.name: task for task in all_tasks(apps)}
    pins = tuple(pin for pin in pins if pin.platform == platform.name)
    placements: dict[str, Placement] = {}
    faults: list[Diagnostic] = []
    for pin in pins:
        fault = _fault(pin, tasks[pin.task], platform)
        if fault is not None:
            faults.append(fault)
        else:
            placements[pin.task] = _placement(pin)
    engines = {t: p.processors for t, p in placements.items() if tasks[t].network is not None}
    too_many = too_many_engines(platform, engines)
    if too_many:
        (code, message, help_text), last = too_many
        span = next(pin.span for pin in pins if pin.task == last)
        faults.append(Diagnostic(code, message, span, help=help_text))
    for pin in pins:
        for name, threads in _neighbors(pin, apps):
            if tasks[name].replicable:
                placements[name] = _spread(tasks[name], placements.get(name), threads, platform)
            else:
                message = (
                    f"`{name}` keeps state or is at an end of the graph: it cannot have"
                    f" {threads} threads"
                )
                help_text = "leave `pre` or `post` out"
                faults.append(Diagnostic("F504", message, pin.span, help=help_text))
    faults += unkept(apps, platform, placements)
    return placements, tuple(faults)


def _fault(pin: Pin, task: Task, platform: Platform) -> Diagnostic | None:
    """Why a pin is not legal, if it is not."""
    reason = _unsupported(pin, task)
    if reason:
        return Diagnostic("F505", f"`{pin.task}`: {reason}", pin.span, help="leave it out")
    stage = pin.stages[0]
    unfit = _unfit(task, stage, platform)
    if unfit is None:
        return None
    code, message, help_text = unfit
    return Diagnostic(code, message, stage.span, help=help_text)


def _placement(pin: Pin) -> Placement:
    stage = pin.stages[0]
    return Placement(
        pin.task,
        stage.processors,
        stage.streams,
        stage.threads,
        stage.process,
        pin.buffers,
        stage.graph,
        stage.fallback,
        stage.bands,
        stage.engine,
        stage.precision,
    )


def _neighbors(pin: Pin, apps: tuple[Application, ...]) -> Iterator[tuple[str, int]]:
    """The tasks around a network that get threads by `pre` or `post`, and how many."""
    if pin.pre <= 1 and pin.post <= 1:
        return
    channels = list(chain.from_iterable(app.channels for app in apps))
    if pin.pre > 1:
        feeders = [c.source for c in channels if c.destination == pin.task]
        yield from ((name, pin.pre) for name in dict.fromkeys(feeders))
    if pin.post > 1:
        readers = [c.destination for c in channels if c.source == pin.task]
        yield from ((name, pin.post) for name in dict.fromkeys(readers))


def _spread(task: Task, pin: Placement | None, threads: int, platform: Platform) -> Placement:
    """Threads for a task: on the processors that it is pinned to, else over the CPUs or streams of
    the GPU.
    """
    kind = "cpu" if unfit_for(task, "cpu", platform) is None else "gpu"
    if pin is not None:
        processors = pin.processors
    else:
        pools = [pool for pool in platform.pools if pool.kind == kind]
        processors = tuple(chain.from_iterable(pool.processors for pool in pools))[:threads]
    return Placement(task.name, processors, -(-threads // len(processors)))


def _unsupported(pin: Pin, task: Task) -> str:
    """The part of a pin that is not supported yet; networks with stages are split into tasks
    before.
    """
    if pin.adapt:
        return "cuts can `adapt` between two to four stages only"
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
                f"it has {one_of(first_of_pools(platform.pools))}",
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
        _unfit_graph(task, stage, kinds, platform)
        or _unfit_option(task, stage, kinds)
        or unfit_bands(task, stage, kinds)
        or unfit_memory(task, stage, kinds)
        or unfit_inference(task, stage, kinds)
    )


def _unfit_graph(
    task: Task, stage: PinStage, kinds: Collection[str], platform: Platform
) -> tuple[str, str, str] | None:
    """A graph of kernels that flowc does not start itself."""
    if not stage.graph:
        return None
    message = ""
    if set(kinds) != {"gpu"}:
        message = f"`{task.name}` starts no kernels that could be recorded"
    elif task.network is not None and not platform.tensorrt:
        message = f"`{task.name}` runs in ONNX Runtime, whose kernels cannot be recorded"
    return ("F504", message, "leave `graph` out") if message else None


def _unfit_option(
    task: Task, stage: PinStage, kinds: Collection[str]
) -> tuple[str, str, str] | None:
    """Threads, streams, processes and fallbacks that a task cannot use."""
    return (
        _unfit_device_option(task, stage, kinds)
        or _unfit_copies(task, stage)
        or (_unfit_process(task) if stage.process else None)
    )


def _unfit_device_option(
    task: Task, stage: PinStage, kinds: Collection[str]
) -> tuple[str, str, str] | None:
    """Options for processors of another kind than those of the pin."""
    if stage.fallback and "dla" not in kinds:
        message = f"`{task.name}` runs on no DLA that a GPU could help out"
        return "F504", message, "leave `fallback` out"
    if "npu" in kinds and stage.streams > 1:
        message = f"`{task.name}` runs on an NPU, which has no streams"
        return "F504", message, "leave `streams` out"
    if "cpu" not in kinds and (stage.threads > 1 or stage.process):
        word = "threads" if stage.threads > 1 else "process"
        message = f"`{task.name}` does not run on a CPU: `{word}` means nothing there"
        return "F504", message, f"leave `{word}` out"
    return None


def _unfit_copies(task: Task, stage: PinStage) -> tuple[str, str, str] | None:
    """Streams and threads."""
    if stage.streams > 1 and not task.replicable:
        message = (
            f"`{task.name}` keeps state or ends the graph: {stage.streams} streams cannot share its"
            " firings"
        )
        return "F504", message, "leave `streams` out; a C task without state may say `stateless`"
    if stage.threads > 1 and task.network is None:
        message = f"`{task.name}` is no network: it controls its threads itself"
        return "F504", message, "leave `threads` out"
    return None


def _unfit_process(task: Task) -> tuple[str, str, str] | None:
    """A process of its own for a task that cannot have one."""
    if not any(i.language == "python" for i in task.implementations):
        message = f"`{task.name}` is no Python code: it does not hold the interpreter"
        return "F504", message, "leave `process` out"
    if task.events:
        message = f"`{task.name}` raises events, which it does in the program's own process"
        return "F807", message, "leave `process` out"
    if task.open_ports:
        message = f"`{task.name}` reads `{task.open_ports[0].name}`, whose size depends on data"
        return "F504", message, "leave `process` out: what processes share has a fixed size"
    return None
