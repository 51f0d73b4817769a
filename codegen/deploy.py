"""Mapping to Deployment: the graph, the static orders and the capacities, and which files they need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ..analysis.dataflow.dependence import paths
from ..analysis.dataflow.static_order import NoRound, Step, batches, schedule
from ..model.application import CUT, Application, Channel, Port, Task
from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPath,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Deployment,
    Entry,
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
    """A deployment, the application's files it needs, and the C sources with the tasks that use them.

    Of a program for several machines, `parts` has what each of them runs.
    """

    deployment: Deployment
    files: Plan
    c_tasks: dict[str, tuple[Task, ...]]
    parts: tuple[Deployed, ...] = ()


def missing(system: System) -> tuple[Diagnostic, ...]:
    """What an abstract graph lacks before it can be built: code, and types of the ports between tasks."""
    faults = []
    seen: set[tuple[str, str]] = set()
    for app in system.apps:
        for task in app.tasks:
            flowing = task.resampling is not None or task.transfer is not None  # whose types are those of its neighbors
            if (task.definition, "") in seen or flowing:
                continue
            seen.add((task.definition, ""))
            if task.network is None and not task.implementations and not task.built_in:
                help_text = f'add code to task `{task.definition}`: `python "file.py:function"`'
                faults.append(Diagnostic("F601", f"`{task.definition}` has no code", task.span, help=help_text))
            faults += _unlaunched(task)
            for port in (*task.inputs, *task.outputs):
                if port.type is None:
                    message = f"port `{port.name}` of `{task.definition}` has no type"
                    help_text = f"write `{port.direction} {port.name}: TYPE`"
                    faults.append(Diagnostic("F602", message, port.span, help=help_text))
    return (*faults, *_prototypes(system))


def _unlaunched(task: Task) -> Iterator[Diagnostic]:
    """Kernels whose grid or block is not said."""
    for code in task.implementations:
        for launch in code.launches:
            lacks = [what for what, size in (("grid", launch.grid), ("block", launch.block)) if not all(size)]
            if lacks:
                message = f"kernel `{launch.kernel}` needs a {' and a '.join(lacks)}"
                help_text = "for example `grid [ceil(WIDTH / 16), ceil(HEIGHT / 16)]   block [16, 16]`"
                yield Diagnostic("F309", message, code.span, help=help_text)


def _prototypes(system: System) -> list[Diagnostic]:
    """Tasks that call one C function with different types: C would not notice."""
    faults = []
    first: dict[tuple[str, str], tuple[Task, tuple[object, ...]]] = {}
    for task in (t for a in system.apps for t in a.tasks):
        code = task.implementation_on("cpu")
        if code is None or code.language != "c":
            continue
        for name, value in task.parameters:
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
                message = f"parameter `{name}` of `{task.definition}` is {value}, too large for C's int64_t"
                faults.append(Diagnostic("F105", message, task.span, help="pass it as a float"))
        kinds = [p.type.dtype if p.type is not None else "" for p in (*task.inputs, *task.outputs)]
        params = [(n, parameter_type(v)) for n, v in task.parameters]
        signature = (len(task.inputs), *kinds, *params, task.state)
        other, expected = first.setdefault((code.path, code.symbol), (task, signature))
        if signature != expected:
            message = f"`{code.symbol}` is called by `{task.definition}` and `{other.definition}` with different types"
            note = Note(f"`{other.definition}`", other.implementations[0].span)
            faults.append(Diagnostic("F303", message, code.span, notes=(note,), help="write one C function for each"))
    return faults


def deploy(
    system: System,
    platform: Platform,
    mapping: Mapping,
    repetition: MappingABC[str, MappingABC[str, int]],
    firing_ns: MappingABC[str, float],
    helpers: Helpers,
    arenas: MappingABC[str, int] = {},
) -> Deployed:
    """The deployment of every app of a text that is faultless and lacks nothing (see `missing`).

    `helpers` finds the local modules of a Python file; `arenas` are bytes that TensorRT was seen to take between the
    layers of networks, by task. On a platform of several machines it has parts as well.
    """
    placement = {p.task: p for p in mapping.placements}
    lanes = {p.task: p.lanes for p in mapping.placements}
    orders, capacities = _orders(system, platform, lanes, repetition, firing_ns)
    alone = len(orders) == 1

    def sources_for(
        apps: tuple[Application, ...], only: set[str] | None = None
    ) -> tuple[dict[str, DeployedTask], Sources, dict[str, list[Task]]]:
        """Tasks of some apps where their placements say (all, or `only` these), with the files that they need."""
        sources, c_tasks, found = Sources(Path(system.path).parent), dict[str, list[Task]](), {}
        for app in apps:
            sizes = batches(app)
            for task in (t for t in app.tasks if only is None or t.name in only):
                arena = arenas.get(task.name)
                site = Site(platform, placement[task.name], sources, helpers, c_tasks, alone, sizes[task.name], arena)
                found[task.name] = _deployed(task, site, repetition[app.name][task.name])
        return found, sources, c_tasks

    def channels_of(app: Application) -> tuple[DeployedChannel, ...]:
        return tuple(
            DeployedChannel(
                c.name, c.source, c.source_port, c.destination, c.destination_port,
                _capacity(app, c, capacities[c.name], placement, repetition[app.name]), c.delay,
                tuple(int(v) if v.denominator == 1 else float(v) for v in c.values),
            )
            for c in app.channels
        )  # fmt: skip

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
                DeployedPath(p.source, p.sink, p.newest, _exact(p.deadline)) for p in paths(app, repetition[app.name])
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
        orders,
        platform.tensorrt,
        planned(apps, orders),
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
    # What a kernel gets is part of its call.
    fixed = tuple(name for name, _ in task.parameters) if code.on_device else task.fixed
    return DeployedTask(task.name, task.doc, code, *ports, firings, fixed, task.live, task.keep, task.on_error)


def _capacity(
    app: Application,
    channel: Channel,
    needed: int,
    placement: MappingABC[str, Placement],
    repetition: MappingABC[str, int],
) -> int:
    """What the orders need, or what `buffers` of the tasks at its ends ask for, in tokens.

    A live source has room for one firing more, as between processors: it is to be there when its data comes. Where a
    channel crosses between machines, a transfer may start while the word that there is room is still on its way: since
    no transfer is shorter than that way, room for one more is enough to be no later than without the way.
    """
    source = app.task(channel.source)
    needed += max(source.port(channel.source_port).rates) if source.transfer is not None else 0
    needed += max(source.port(channel.source_port).rates) if source.live else 0
    return max(needed, _asked_for(app, channel, placement, repetition))


def _asked_for(
    app: Application, channel: Channel, placement: MappingABC[str, Placement], repetition: MappingABC[str, int]
) -> int:
    """The capacity that `buffers` of the tasks at its ends ask for, in tokens."""
    iterations = max(placement[t].buffers or 0 for t in (channel.source, channel.destination))
    rates = app.task(channel.source).port(channel.source_port).rates
    return iterations * sum(rates) * repetition[channel.source] // len(rates)


def _exact(time: Fraction | None) -> str | None:
    return None if time is None else str(time)


def _orders(
    system: System,
    platform: Platform,
    placement: MappingABC[str, tuple[str, ...]],
    repetition: MappingABC[str, MappingABC[str, int]],
    firing_ns: MappingABC[str, float],
) -> tuple[tuple[DeployedWorker, ...], dict[str, int]]:
    """One worker per processor under static order; one per app and processor under the other schedulers.

    Apps that cannot share a round, because only some have a period or their periods have no short common multiple,
    get workers of their own on static-order processors as well; so does one that waits for its data, where others
    would wait with it.
    """
    alone = {a.name: schedule([a], repetition, placement, firing_ns) for a in system.apps}
    capacities = {name: size for s in alone.values() for name, size in s.capacities.items()}
    joint = None
    waiting = [a for a in system.apps if _waits(a)]
    together = [a for a in system.apps if a not in waiting]
    if len({a.period_ns is None for a in together}) == 1:
        with contextlib.suppress(NoRound):
            joint = schedule(together, repetition, placement, firing_ns)
    ranks = sorted({a.priority for a in system.apps})
    workers = []
    lanes = sorted({lane for places in placement.values() for lane in places if "#" in lane}, key=_stream)
    for position, processor in enumerate(platform.processors):
        scheduler = platform.pool_of(processor).scheduler
        fixed_priority = scheduler == "fixed_priority"
        apart = scheduler != "static_order"
        orders: list[tuple[tuple[Step, ...], tuple[int, int] | None]] = []
        for lane in (processor, *(x for x in lanes if x.partition("#")[0] == processor)):
            shared = joint is not None and not apart
            if joint is not None and shared:
                orders.append((joint.orders.get(lane, ()), None))
            for app in waiting if shared else system.apps:
                fixed = (position, 1 + ranks.index(app.priority)) if fixed_priority else None
                orders.append((alone[app.name].orders.get(lane, ()), fixed))
        for steps, priority in orders:
            for part in _sources_apart(system, steps):
                workers.append(DeployedWorker(processor, scheduler, _entries(part), priority))
    return tuple(workers), capacities


def _stream(lane: str) -> int:
    return int(lane.partition("#")[2])


def _waits(app: Application) -> bool:
    """Does it wait for somebody outside, for as long as he likes?"""
    return any(t.live or t.border is not None for t in app.tasks)


def _sources_apart(system: System, steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """What waits does so in workers of its own: each live source, and the sources of a pipelined periodic app.

    In one worker, what belongs to older iterations would wait with them, and every stage would cost a period. For the
    same reason every stage of an app that waits for somebody outside has a worker: nobody knows when the next frame
    will come. Several workers follow a finer projection of the same sequence, so that they cannot deadlock either.
    """
    if not steps:
        return []
    paced = {a.name for a in system.apps if a.period_ns is not None}
    sources = {t.name: t for a in system.apps for t in a.tasks if not t.inputs}
    live = dict.fromkeys(s.task for s in steps if s.task in sources and sources[s.task].live)
    waiting = tuple(s for s in steps if s.task in sources and s.task not in live and s.app in paced)
    lagging = {s.app for s in steps if s.stage}
    if not any(s.app in lagging for s in waiting):
        waiting = ()
    rest = tuple(s for s in steps if s.task not in live and s not in waiting)
    moved = {a.name for a in system.apps if _waits(a)}
    stages: dict[int, list[Step]] = {}
    for step in rest:
        stages.setdefault(step.stage if step.app in moved else 0, []).append(step)
    parts = [tuple(s for s in steps if s.task == name) for name in live]
    parts += [waiting, *(tuple(stage) for stage in stages.values())]
    return [part for part in parts if part]


def _entries(steps: tuple[Step, ...]) -> tuple[Entry, ...]:
    return tuple(
        Entry(s.task, s.times, s.first, s.stage, (s.replica, s.replicas), (s.index, s.per_round)) for s in steps
    )


def _port(port: Port, task: Task) -> DeployedPort:
    assert port.type is not None
    if task.network is not None and task.network.moving is not None and port.name == CUT:
        return DeployedPort(port.name, "object", (), port.rates, port.stacked)
    return DeployedPort(port.name, port.type.dtype, port.type.shape, port.rates, port.stacked, port.window)


def sequential(system: System, platform: Platform) -> Mapping:
    """Everything on the first CPU: for measuring."""
    core = next(p for pool in platform.pools if pool.kind == "cpu" for p in pool.processors)
    return Mapping(platform.name, tuple(Placement(t.name, (core,)) for a in system.apps for t in a.tasks), (), "none")
