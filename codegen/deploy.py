"""Mapping to Deployment: the graph, the static orders and the capacities, and the files that they
need."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ..analysis.dataflow.dependence import paths
from ..analysis.dataflow.static_order import batches
from ..analysis.dataflow.workers import capacity, tokens_asked_for, workers_of
from ..model.application import CUT, Application, Channel, Port, Task
from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPath,
    DeployedPort,
    DeployedTask,
    Deployment,
)
from ..model.diagnostic import Diagnostic, Note
from ..model.mapping import Mapping, Placement
from ..model.platform import Platform
from ..model.system import System
from .kinds import Helpers, Site, kind_of
from .kinds.c import parameter_type
from .memory import planned
from .parts import split
from .sources import Plan, Sources


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment, the application's files it needs, and the C sources with the tasks that use
    them.

    For several machines, `parts` has the tasks of each machine.
    """

    deployment: Deployment
    files: Plan
    c_tasks: dict[str, tuple[Task, ...]]
    parts: tuple[Deployed, ...] = ()


def missing(system: System) -> tuple[Diagnostic, ...]:
    """What an abstract graph lacks before it can be built: code, and types of the ports between
    tasks."""
    faults = []
    seen: set[tuple[str, str]] = set()
    for app in system.apps:
        for task in app.tasks:
            # whose types are those of its neighbors
            flowing = task.resampling is not None or task.transfer is not None
            if (task.definition, "") in seen or flowing:
                continue
            seen.add((task.definition, ""))
            if task.network is None and not task.implementations and not task.built_in:
                help_text = f'add code to task `{task.definition}`: `python "file.py:function"`'
                faults.append(
                    Diagnostic(
                        "F601", f"`{task.definition}` has no code", task.span, help=help_text
                    )
                )
            faults += _unlaunched(task)
            for port in (*task.inputs, *task.outputs):
                if port.type is None:
                    message = f"port `{port.name}` of `{task.definition}` has no type"
                    help_text = f"write `{port.direction} {port.name}: TYPE`"
                    faults.append(Diagnostic("F602", message, port.span, help=help_text))
    return (*faults, *_prototypes(system))


def _unlaunched(task: Task) -> Iterator[Diagnostic]:
    """Errors for kernels without grid or block."""
    for code in task.implementations:
        for launch in code.launches:
            lacks = [
                what
                for what, size in (("grid", launch.grid), ("block", launch.block))
                if not all(size)
            ]
            if lacks:
                message = f"kernel `{launch.kernel}` needs a {' and a '.join(lacks)}"
                help_text = (
                    "for example `grid [ceil(WIDTH / 16), ceil(HEIGHT / 16)]   block [16, 16]`"
                )
                yield Diagnostic("F309", message, code.span, help=help_text)


def _prototypes(system: System) -> list[Diagnostic]:
    """Errors for tasks that call one C function with different types: C would not detect this."""
    faults = []
    first: dict[tuple[str, str], tuple[Task, tuple[object, ...]]] = {}
    for task in (t for a in system.apps for t in a.tasks):
        code = task.implementation_on("cpu")
        if code is None or code.language != "c":
            continue
        for name, value in task.parameters:
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
                message = (
                    f"parameter `{name}` of `{task.definition}` is {value}, too large for C's"
                    " int64_t"
                )
                faults.append(Diagnostic("F105", message, task.span, help="pass it as a float"))
        kinds = [p.type.dtype if p.type is not None else "" for p in (*task.inputs, *task.outputs)]
        params = [(n, parameter_type(v)) for n, v in task.parameters]
        signature = (len(task.inputs), *kinds, *params, task.state)
        other, expected = first.setdefault((code.path, code.symbol), (task, signature))
        if signature != expected:
            message = (
                f"`{code.symbol}` is called by `{task.definition}` and `{other.definition}` with"
                " different types"
            )
            note = Note(f"`{other.definition}`", other.implementations[0].span)
            faults.append(
                Diagnostic(
                    "F303", message, code.span, notes=(note,), help="write one C function for each"
                )
            )
    return faults


def deploy(
    system: System,
    platform: Platform,
    mapping: Mapping,
    repetition: MappingABC[str, MappingABC[str, int]],
    wcet_ns: MappingABC[str, int | float | Fraction],
    helpers: Helpers,
    arenas: MappingABC[str, int] = {},
) -> Deployed:
    """The deployment of every app of a complete text without faults (see `missing`).

    `wcet_ns` is the known worst-case time of one firing by task: orders of apps with periods depend
    on it. `helpers` finds the local modules of a Python file; `arenas` are the measured bytes
    between the layers of networks in TensorRT, by task. On a platform of several machines it has
    parts as well.
    """
    placement = {p.task: p for p in mapping.placements}
    lanes = {p.task: p.lanes for p in mapping.placements}
    threads = workers_of(system.apps, platform, lanes, repetition, wcet_ns)
    alone = len(threads.workers) == 1

    def sources_for(
        apps: tuple[Application, ...], only: set[str] | None = None
    ) -> tuple[dict[str, DeployedTask], Sources, dict[str, list[Task]]]:
        """Tasks of some apps at their placements (all, or `only` these), with the files that they
        need."""
        sources, c_tasks, found = Sources(Path(system.path).parent), dict[str, list[Task]](), {}
        for app in apps:
            sizes = batches(app)
            for task in (t for t in app.tasks if only is None or t.name in only):
                arena = arenas.get(task.name)
                site = Site(
                    platform,
                    placement[task.name],
                    sources,
                    helpers,
                    c_tasks,
                    alone,
                    sizes[task.name],
                    arena,
                )
                found[task.name] = _deployed(task, site, repetition[app.name][task.name])
        return found, sources, c_tasks

    def asked_for(app: Application, channel: Channel) -> int:
        """The tokens that `buffers` of the tasks at the ends of a channel require."""
        iterations = max(placement[t].buffers or 0 for t in (channel.source, channel.destination))
        return tokens_asked_for(app, channel, iterations, repetition[app.name])

    def channels_of(app: Application) -> tuple[DeployedChannel, ...]:
        return tuple(
            DeployedChannel(
                c.name,
                c.source,
                c.source_port,
                c.destination,
                c.destination_port,
                capacity(app, c, threads.capacities[c.name], asked_for(app, c)),
                c.delay,
                tuple(int(v) if v.denominator == 1 else float(v) for v in c.values),
            )
            for c in app.channels
        )

    tasks, sources, c_tasks = sources_for(system.apps)
    apps = tuple(
        DeployedApp(
            app.name,
            app.doc,
            _exact(app.period_ns),
            _exact(app.due_ns),
            app.priority,
            tuple(tasks[t.name] for t in app.tasks),
            channels_of(app),
            tuple(
                DeployedPath(p.source, p.sink, p.newest, _exact(p.deadline))
                for p in paths(app, repetition[app.name])
            ),
        )
        for app in system.apps
    )
    whole = Deployment(
        system.stem,
        Path(system.path).name,
        platform.name,
        mapping.search,
        apps,
        threads.workers,
        platform.tensorrt,
        planned(apps, threads.workers),
    )
    parts = []
    for part in split(whole, platform):
        names = {t.name for t in part.tasks}
        own = tuple(a for a in system.apps if any(t.name in names for t in a.tasks))
        _, files, compiled = sources_for(own, names)
        parts.append(Deployed(part, files.plan, {k: tuple(v) for k, v in compiled.items()}))
    return Deployed(whole, sources.plan, {k: tuple(v) for k, v in c_tasks.items()}, tuple(parts))


def _deployed(task: Task, site: Site, firings: int) -> DeployedTask:
    ports = tuple(_port(p, task) for p in task.inputs), tuple(_port(p, task) for p in task.outputs)
    code = kind_of(task, site).make(task, site)
    # The inputs of a kernel are part of its call.
    fixed = tuple(name for name, _ in task.parameters) if code.on_device else task.fixed
    return DeployedTask(
        task.name, task.doc, code, *ports, firings, fixed, task.live, task.keep, task.on_error
    )


def _exact(time: Fraction | None) -> str | None:
    return None if time is None else str(time)


def _port(port: Port, task: Task) -> DeployedPort:
    assert port.type is not None
    if task.network is not None and task.network.moving is not None and port.name == CUT:
        return DeployedPort(port.name, "object", (), port.rates, port.stacked)
    return DeployedPort(
        port.name, port.type.dtype, port.type.shape, port.rates, port.stacked, port.window
    )


def sequential(system: System, platform: Platform) -> Mapping:
    """The deployment with everything on the first CPU: for measuring."""
    core = next(p for pool in platform.pools if pool.kind == "cpu" for p in pool.processors)
    return Mapping(
        platform.name,
        tuple(Placement(t.name, (core,)) for a in system.apps for t in a.tasks),
        (),
        "none",
    )
