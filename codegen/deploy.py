"""Mapping to Deployment: the graph, the static orders and the capacities, and the files that they
need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ..analysis.dataflow.dependence import paths
from ..analysis.dataflow.static_order import batches
from ..analysis.dataflow.workers import capacity, tokens_asked_for, without_stages, workers_of
from ..model.application import Application, Channel, Port, Restart, Task
from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPath,
    DeployedPort,
    DeployedTask,
    Deployment,
    PathKind,
)
from ..model.diagnostic import Diagnostic, Note
from ..model.mapping import Mapping, Placement
from ..model.platform import Platform
from ..model.priorities import priorities
from ..model.system import System
from ..model.times import FiringTime, Times, times_of
from ..targets.inference import engine_for
from .in_c import header
from .kinds import CodeSite, Helpers, made_for
from .kinds.c import parameter_type
from .memory import planned
from .parts import split
from .reservations import reservation
from .sources import CTask, Plan, Sources

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment, the application's files it needs, and the C sources with the tasks that use
    them.

    `declared` are tasks that the text declares for these sources, also unused ones. For several
    machines, `parts` has the tasks of each machine by its name.
    """

    deployment: Deployment
    files: Plan
    c_tasks: dict[str, tuple[CTask, ...]]
    declared: tuple[Task, ...] = ()
    parts: dict[str, Deployed] = field(default_factory=dict)

    def header(self, source: str, jinja: Environment | None = None) -> bytes:
        """The prototypes of the tasks that have their code in a C source."""
        used = self.c_tasks[source]
        tasks = [made.task for made in used]
        of_source = {os.path.abspath(made.code.path) for made in used}
        for task in self.declared:
            code = task.implementation_on("cpu")
            if code is not None and os.path.abspath(code.path) in of_source:
                tasks.append(task)
        return header(PurePath(source).name, tasks, jinja).encode()


def missing(system: System) -> tuple[Diagnostic, ...]:
    """What an abstract graph lacks before it can be built: code, and types of the ports between
    tasks."""
    faults: list[Diagnostic] = []
    seen: set[str] = set()
    for app in system.apps:
        for task in app.tasks:
            # whose types are those of its neighbors
            flowing = task.resampling is not None or task.transfer is not None
            if task.definition not in seen and not flowing:
                seen.add(task.definition)
                faults += _incomplete(task)
    return (*faults, *_prototypes(system))


def _incomplete(task: Task) -> Iterator[Diagnostic]:
    """What a task lacks: code, the sizes of its kernels, types of its ports."""
    if task.network is None and not task.implementations and not task.built_in:
        help_text = f'add code to task `{task.definition}`: `python "file.py:function"`'
        message = f"`{task.definition}` has no code"
        yield Diagnostic("F601", message, task.span, help=help_text)
    yield from _unlaunched(task)
    for port in (*task.inputs, *task.outputs):
        if port.type is None:
            message = f"port `{port.name}` of `{task.definition}` has no type"
            help_text = f"write `{port.direction} {port.name}: TYPE`"
            yield Diagnostic("F602", message, port.span, help=help_text)


def _unlaunched(task: Task) -> Iterator[Diagnostic]:
    """Errors for kernels without grid or block."""
    for code in task.implementations:
        for launch in code.launches:
            lacks = []
            if not all(launch.grid):
                lacks.append("grid")
            if not all(launch.block):
                lacks.append("block")
            if lacks:
                message = f"kernel `{launch.kernel}` needs a {' and a '.join(lacks)}"
                help_text = (
                    "for example `grid [ceil(WIDTH / 16), ceil(HEIGHT / 16)]   block [16, 16]`"
                )
                yield Diagnostic("F309", message, code.span, help=help_text)


def _prototypes(system: System) -> list[Diagnostic]:
    """Errors for tasks that call one C function with different types: C would not detect this."""
    faults: list[Diagnostic] = []
    first: dict[tuple[str, str], tuple[Task, tuple[object, ...]]] = {}
    for app in system.apps:
        for task in app.tasks:
            code = task.implementation_on("cpu")
            if code is None or code.language != "c":
                continue
            faults += _too_large(task)
            signature = _signature(task)
            other, expected = first.setdefault((code.path, code.symbol), (task, signature))
            if signature != expected:
                message = (
                    f"`{code.symbol}` is called by `{task.definition}` and `{other.definition}`"
                    " with different types"
                )
                note = Note(f"`{other.definition}`", other.implementations[0].span)
                help_text = "write one C function for each"
                faults.append(Diagnostic("F303", message, code.span, notes=(note,), help=help_text))
    return faults


def _too_large(task: Task) -> Iterator[Diagnostic]:
    """Errors for parameters that C cannot hold."""
    for name, value in task.parameters:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
            message = (
                f"parameter `{name}` of `{task.definition}` is {value}, too large for C's int64_t"
            )
            yield Diagnostic("F105", message, task.span, help="pass it as a float")


def _signature(task: Task) -> tuple[object, ...]:
    """The types with which a C function is called."""
    kinds = [p.type.dtype if p.type is not None else "" for p in (*task.inputs, *task.outputs)]
    params = [(n, parameter_type(v)) for n, v in task.parameters]
    return len(task.inputs), *kinds, *params, task.state


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
    in_one_stage = without_stages(system.apps, {pin.task for pin in system.pins})
    threads = workers_of(system.apps, platform, lanes, repetition, wcet_ns, in_one_stage)
    stated = times_of(system, platform)
    build = _Build(
        system,
        platform,
        placement,
        repetition,
        helpers,
        arenas,
        stated,
        alone=len(threads.workers) == 1,
    )
    everything = build.tasks()
    urgency = priorities(system.apps)
    apps = tuple(
        DeployedApp(
            app.name,
            app.doc,
            _exact(app.period_ns),
            _exact(app.due_ns),
            urgency[app.name],
            tuple(everything.tasks[t.name] for t in app.tasks),
            tuple(build.channel(app, c, threads.capacities[c.name]) for c in app.channels),
            tuple(_paths(app, repetition[app.name], system.apps)),
        )
        for app in system.apps
    )
    app_of = {task.name: app for app in system.apps for task in app.tasks}
    types = platform.types
    workers = tuple(
        replace(worker, reservation=reservation(worker, app_of, stated, types[worker.processor]))
        for worker in threads.workers
    )
    whole = Deployment(
        system.stem,
        Path(system.path).name,
        platform.name,
        mapping.search,
        apps,
        workers,
        platform.tensorrt,
        planned(apps, workers),
    )
    declared = tuple(found.task for found in system.in_c)
    parts = {}
    for machine, part in split(whole, platform):
        of_part = build.tasks({t.name for t in part.tasks})
        parts[machine] = Deployed(part, of_part.sources.plan, of_part.units, declared)
    return Deployed(whole, everything.sources.plan, everything.units, declared, parts)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Tasks at their placements, with the files that they need; `c_tasks` by their C source."""

    tasks: dict[str, DeployedTask]
    sources: Sources
    c_tasks: dict[str, list[CTask]]

    @property
    def units(self) -> dict[str, tuple[CTask, ...]]:
        """The C sources with the tasks that use them."""
        return {source: tuple(tasks) for source, tasks in self.c_tasks.items()}


@dataclass(frozen=True, slots=True)
class _Build:
    """A text with its placements, repetition vectors, and the measured `arenas` and `stated` times
    of its tasks.

    `alone`: one worker fires all tasks.
    """

    system: System
    platform: Platform
    placement: MappingABC[str, Placement]
    repetition: MappingABC[str, MappingABC[str, int]]
    helpers: Helpers
    arenas: MappingABC[str, int]
    stated: Times
    alone: bool

    def tasks(self, only: set[str] | None = None) -> _Tasks:
        """All tasks, or `only` these."""
        made = _Tasks({}, Sources(Path(self.system.path).parent), {})
        for app in self.system.apps:
            tasks = [t for t in app.tasks if only is None or t.name in only]
            if tasks:
                sizes = batches(app)
                lists = any(task.list_ports for task in app.tasks)
                for task in tasks:
                    firings = self.repetition[app.name][task.name]
                    site = self._site(task, made, sizes[task.name], lists)
                    made.tasks[task.name] = _deployed(task, site, firings, self._stated(task))
        return made

    def _stated(self, task: Task) -> FiringTime | None:
        """What the text says of its time where it is placed. That `repeat` and `last` take none is
        no word of the text: bounds have their measured times once the program has run."""
        if task.resampling is not None:
            return None
        type_ = self.platform.pool_of(self.placement[task.name].processors[0]).type
        time = self.stated.of[task.name].get(type_)
        return time if time is not None and time.from_text else None

    def _site(self, task: Task, made: _Tasks, batch: int, lists: bool) -> CodeSite:
        place = self.placement[task.name]
        kind = self.platform.pool_of(place.processors[0]).kind
        if task.network is not None and kind == "cpu":
            place = replace(place, engine=engine_for(task.network, place.engine).name)
        return CodeSite(
            self.platform,
            place,
            made.sources,
            self.helpers,
            made.c_tasks,
            self.alone,
            batch,
            self.arenas.get(task.name),
            lists,
        )

    def channel(self, app: Application, channel: Channel, needed: int) -> DeployedChannel:
        """A channel with room for the tokens that are `needed`, and for those that `buffers` of the
        tasks at its ends ask for."""
        ends = channel.source, channel.destination
        iterations = max(self.placement[t].buffers or 0 for t in ends)
        asked_for = tokens_asked_for(app, channel, iterations, self.repetition[app.name])
        return DeployedChannel(
            channel.name,
            channel.source,
            channel.source_port,
            channel.destination,
            channel.destination_port,
            capacity(app, channel, needed, asked_for),
            channel.delay,
            tuple(_number(v) for v in channel.values),
        )


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _deployed(task: Task, site: CodeSite, firings: int, stated: FiringTime | None) -> DeployedTask:
    code = made_for(task, site)
    # The inputs of a kernel are part of its call.
    fixed = tuple(name for name, _ in task.parameters) if code.on_device else task.fixed
    restart = task.restart
    return DeployedTask(
        task.name,
        task.doc,
        code,
        tuple(_port(p, task) for p in task.inputs),
        tuple(_port(p, task) for p in task.outputs),
        firings,
        fixed,
        task.live,
        task.keep,
        task.on_error,
        int(max(stated.worst_ns)) if stated is not None and code.batch == 1 else None,
        None if restart == Restart() else (restart.tries, int(restart.pause_ns)),
    )


def _paths(
    app: Application, vector: MappingABC[str, int], apps: Sequence[Application]
) -> Iterator[DeployedPath]:
    """What is measured: paths within the app, and ages and reactions that end in it, from tasks of
    all `apps` that run."""
    for path in paths(app, vector):
        kind: PathKind = "part" if path.part else "path"
        yield DeployedPath(kind, path.source, path.sink, path.newest, _exact(path.deadline))
    running = {task.name for other in apps for task in other.tasks}
    for chain in app.chains:
        if chain.source in running:
            yield DeployedPath(chain.kind, chain.source, chain.sink, (), _exact(chain.deadline_ns))


def _exact(time: Fraction | None) -> str | None:
    return None if time is None else str(time)


def _port(port: Port, task: Task) -> DeployedPort:
    assert port.type is not None
    moving = None if task.network is None else task.network.moving
    if moving is not None and moving.crosses(port):
        return DeployedPort(port.name, "object", (), port.rates, port.stacked)
    type_, given = port.type, (port.rates, port.stacked, port.window, port.count)
    return DeployedPort(port.name, type_.dtype, type_.shape, *given, type_.bounded)


def sequential(system: System, platform: Platform, engines: MappingABC[str, str] = {}) -> Mapping:
    """The deployment with everything on the first CPU, for measuring: networks on these `engines`,
    by task."""
    pool = next(pool for pool in platform.pools if pool.kind == "cpu" and pool.processors)
    placements = []
    for app in system.apps:
        placements += [
            Placement(t.name, (pool.processors[0],), engine=engines.get(t.name, ""))
            for t in app.tasks
        ]
    return Mapping(platform.name, tuple(placements), (), "none")
