"""Mapping to Deployment: the graph, the static orders and the capacities, and which files they need."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from ..analysis.dataflow.static_order import NoRound, Step, batches, schedule
from ..dsl.includes import c_includes
from ..model.application import (
    CUT,
    Application,
    Channel,
    FilePath,
    Implementation,
    Moving,
    Network,
    Parameter,
    Part,
    Port,
    Task,
    Value,
)
from ..model.deployment import (
    CCode,
    Code,
    CudaCode,
    DataFile,
    DeployedApp,
    DeployedChannel,
    DeployedLaunch,
    DeployedPort,
    DeployedTask,
    DeployedVariant,
    DeployedWorker,
    Deployment,
    EngineCode,
    Entry,
    MovingCode,
    OnnxCode,
    Plain,
    PythonCode,
    Side,
)
from ..model.diagnostic import Diagnostic, Note
from ..model.mapping import Mapping, Placement
from ..model.platform import STRONGLY_TYPED, Platform
from ..model.system import System
from ..networks.quantization.implicit import without_pairs
from .sources import Plan, Sources

Helpers = Callable[[Path], tuple[Path, ...]]

#: Changes when build_engines.py would build other plans of the same models.
BUILT = 2


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployment, the application's files it needs, and the C sources with the tasks that use them."""

    deployment: Deployment
    files: Plan
    c_tasks: dict[str, tuple[Task, ...]]


def missing(system: System) -> tuple[Diagnostic, ...]:
    """What an abstract graph lacks before it can be built: code, and types of the ports between tasks."""
    faults = []
    seen: set[tuple[str, str]] = set()
    for app in system.apps:
        for task in app.tasks:
            if (task.definition, "") in seen:
                continue
            seen.add((task.definition, ""))
            if task.network is None and not task.implementations:
                help_text = f'add code to task `{task.definition}`: `python "file.py:function"`'
                faults.append(Diagnostic("F601", f"`{task.definition}` has no code", task.span, "", (), help_text))
            faults += _unlaunched(task)
            for port in (*task.inputs, *task.outputs):
                if port.type is None:
                    message = f"port `{port.name}` of `{task.definition}` has no type"
                    help_text = f"write `{port.direction} {port.name}: TYPE`"
                    faults.append(Diagnostic("F602", message, port.span, "", (), help_text))
    return (*faults, *_prototypes(system))


def _unlaunched(task: Task) -> Iterator[Diagnostic]:
    """Kernels whose grid or block is not said."""
    for code in task.implementations:
        for launch in code.launches:
            lacks = [what for what, size in (("grid", launch.grid), ("block", launch.block)) if not all(size)]
            if lacks:
                message = f"kernel `{launch.kernel}` needs a {' and a '.join(lacks)}"
                help_text = "for example `grid [ceil(WIDTH / 16), ceil(HEIGHT / 16)]   block [16, 16]`"
                yield Diagnostic("F309", message, code.span, "", (), help_text)


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
                faults.append(Diagnostic("F105", message, task.span, "", (), "pass it as a float"))
        kinds = [p.type.dtype if p.type is not None else "" for p in (*task.inputs, *task.outputs)]
        params = [(n, parameter_type(v)) for n, v in task.parameters]
        signature = (len(task.inputs), *kinds, *params, task.state)
        other, expected = first.setdefault((code.path, code.symbol), (task, signature))
        if signature != expected:
            message = f"`{code.symbol}` is called by `{task.definition}` and `{other.definition}` with different types"
            note = Note(f"`{other.definition}`", other.implementations[0].span)
            faults.append(Diagnostic("F303", message, code.span, "", (note,), "write one C function for each"))
    return faults


def deploy(
    system: System,
    platform: Platform,
    mapping: Mapping,
    repetition: MappingABC[str, MappingABC[str, int]],
    firing_ns: MappingABC[str, float],
    helpers: Helpers,
) -> Deployed:
    """The deployment of every app of a text that is faultless and lacks nothing (see `missing`).

    `helpers` finds the local modules of a Python file.
    """
    sources = Sources(Path(system.path).parent)
    placement = {p.task: p for p in mapping.placements}
    lanes = {p.task: p.lanes for p in mapping.placements}
    orders, capacities = _orders(system, platform, lanes, repetition, firing_ns)
    alone = len(orders) == 1
    c_tasks: dict[str, list[Task]] = {}
    files = _Files(platform, sources, helpers, c_tasks)
    apps = []
    for app in system.apps:
        sizes = batches(app)
        tasks = tuple(
            files.task(t, placement[t.name], alone, repetition[app.name][t.name], sizes[t.name]) for t in app.tasks
        )
        channels = tuple(
            DeployedChannel(
                c.name, c.source, c.source_port, c.destination, c.destination_port,
                max(capacities[c.name], _asked_for(app, c, placement, repetition[app.name])), c.delay,
                tuple(int(v) if v.denominator == 1 else float(v) for v in c.values),
            )
            for c in app.channels
        )  # fmt: skip
        apps.append(
            DeployedApp(
                app.name,
                app.doc,
                _exact(app.period_ns),
                _exact(app.deadline_ns or app.period_ns),
                app.priority,
                tasks,
                channels,
            )
        )
    deployment = Deployment(
        system.stem, Path(system.path).name, platform.name, mapping.search, tuple(apps), orders, platform.tensorrt
    )
    return Deployed(deployment, sources.plan, {k: tuple(v) for k, v in c_tasks.items()})


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
    get workers of their own on static-order processors as well.
    """
    alone = {a.name: schedule([a], repetition, placement, firing_ns) for a in system.apps}
    capacities = {name: size for s in alone.values() for name, size in s.capacities.items()}
    joint = None
    if len({a.period_ns is None for a in system.apps}) == 1:
        with contextlib.suppress(NoRound):
            joint = schedule(system.apps, repetition, placement, firing_ns)
    ranks = sorted({a.priority for a in system.apps})
    workers = []
    lanes = sorted({lane for places in placement.values() for lane in places if "#" in lane}, key=_stream)
    for position, processor in enumerate(platform.processors):
        scheduler = platform.pool_of(processor).scheduler
        fixed_priority = scheduler == "fixed_priority"
        apart = scheduler != "static_order"
        orders: list[tuple[tuple[Step, ...], tuple[int, int] | None]] = []
        for lane in (processor, *(x for x in lanes if x.partition("#")[0] == processor)):
            if joint is not None and not apart:
                orders.append((joint.orders.get(lane, ()), None))
                continue
            for app in system.apps:
                fixed = (position, 1 + ranks.index(app.priority)) if fixed_priority else None
                orders.append((alone[app.name].orders.get(lane, ()), fixed))
        for steps, priority in orders:
            for part in _sources_apart(system, steps):
                workers.append(DeployedWorker(processor, scheduler, _entries(part), priority))
    return tuple(workers), capacities


def _stream(lane: str) -> int:
    return int(lane.partition("#")[2])


def _sources_apart(system: System, steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """Sources of a pipelined periodic app wait for their release in a worker of their own.

    In one worker, what belongs to older iterations would wait with them, and every stage would cost a period. Two
    workers follow a finer projection of the same sequence, so that they cannot deadlock either.
    """
    paced = {a.name for a in system.apps if a.period_ns is not None}
    sources = {t.name for a in system.apps for t in a.tasks if not t.inputs}
    waiting = tuple(s for s in steps if s.task in sources and s.app in paced)
    lagging = {s.app for s in steps if s.stage}
    if not any(s.app in lagging for s in waiting):
        return [steps] if steps else []
    return [waiting, tuple(s for s in steps if s not in waiting)]


def _entries(steps: tuple[Step, ...]) -> tuple[Entry, ...]:
    return tuple(
        Entry(s.task, s.times, s.first, s.stage, (s.replica, s.replicas), (s.index, s.per_round)) for s in steps
    )


class _Files:
    """Makes the code of tasks, and notes the files it needs."""

    def __init__(self, platform: Platform, sources: Sources, helpers: Helpers, c_tasks: dict[str, list[Task]]) -> None:
        self._platform, self._sources, self._helpers, self._c_tasks = platform, sources, helpers, c_tasks

    def task(self, task: Task, place: Placement, alone: bool, firings: int, batch: int) -> DeployedTask:
        """A task where its placement says; `alone`: nobody else needs the cores of its network's threads."""
        ports = tuple(_port(p, task) for p in task.inputs), tuple(_port(p, task) for p in task.outputs)
        return DeployedTask(task.name, task.doc, self._code(task, place, alone, batch), *ports, firings)

    def _code(self, task: Task, place: Placement, alone: bool, batch: int) -> Code | MovingCode:
        pools = [self._platform.pool_of(p) for p in place.processors]
        elsewhere = pools[0].kind != "cpu"
        if task.network is not None and task.network.moving is not None:
            return _moving(task.network, task.network.moving, self._sources)
        if task.network is not None:
            if elsewhere:
                return self._engine(task.network, place, batch)
            onnx = OnnxCode(self._network(task.network), *_tensors(task.network), batch)
            return replace(onnx, threads=place.threads, spin=alone) if place.threads > 1 else onnx
        if elsewhere:
            return self._kernels(task, place)
        code = task.implementation_on("cpu") or task.reference
        assert code is not None
        made = self._plain(task, code)
        return replace(made, process=True) if isinstance(made, PythonCode) and place.process else made

    def _network(self, network: Network) -> str:
        file = self._sources.place("networks", network.path, network.model or None)
        for name in network.external:
            self._sources.place("networks", Path(network.path).parent / name)
        return file

    def _engine(self, network: Network, place: Placement, batch: int) -> EngineCode:
        pools = [self._platform.pool_of(p) for p in place.processors]
        on = tuple(
            (p, pool.kind, pool.processors.index(p) if pool.kind == "dla" else 0)
            for p, pool in zip(place.processors, pools, strict=True)
        )
        tensorrt = self._platform.tensorrt
        shapes = [(t.name, t.type) for t in (*network.inputs, *network.outputs)]
        told = network.precision == "int8" and tensorrt < STRONGLY_TYPED and any(p.kind == "dla" for p in pools)
        implicit, rest = self._implicit(network) if told and tensorrt else ("", b"")
        words = repr((BUILT, network.content_hash, shapes, place.fallback)).encode() + rest
        return EngineCode(
            self._network(network),
            *_tensors(network),
            batch,
            "tensorrt" if tensorrt else "onnxruntime",
            on,
            network.precision,
            place.fallback,
            hashlib.sha256(words).hexdigest()[:12],
            implicit,
        )

    def _implicit(self, network: Network) -> tuple[str, bytes]:
        """A network of 8 bits for an engine that is told ranges: a model without pairs, beside it the ranges.

        Returns the model's file, and the contents of both.
        """
        path = Path(network.path)
        model, ranges = without_pairs(network.model or path.read_bytes())
        borders = [t.name for t in (*network.inputs, *network.outputs) if t.type.dtype == "int8"]
        words = json.dumps({"int8": borders, "ranges": ranges}, indent=1).encode()
        self._sources.place("networks", path.with_suffix(".implicit.json"), words)
        return self._sources.place("networks", path.with_suffix(".implicit.onnx"), model), model + words

    def _kernels(self, task: Task, place: Placement) -> CudaCode:
        code = task.implementation_on("gpu")
        assert code is not None
        file = self._sources.place("tasks", code.path)
        for header in c_includes(Path(code.path)):
            self._sources.place("tasks", header)
        launches = tuple(
            DeployedLaunch(
                x.kernel,
                tuple(a if isinstance(a, str) else (a[0], _number(a[1])) for a in x.arguments),
                x.grid,
                x.block,
                x.shared,
            )
            for x in code.launches
        )
        twin = task.implementation_on("cpu") or task.reference
        return CudaCode(
            file,
            launches,
            tuple((f.name, f.type.dtype, f.type.shape) for f in task.scratch),
            tuple((f.name, f.type.dtype, f.type.shape) for f in task.state),
            place.graph,
            None if twin is None else self._plain(task, twin),
            None if task.tolerance is None else float(task.tolerance),
        )

    def _plain(self, task: Task, code: Implementation) -> PythonCode | CCode:
        """Code for a CPU."""
        sources = self._sources
        if code.language == "c":
            source = sources.place_c(code.path)
            self._c_tasks.setdefault(source, []).append(task)
            typed = tuple((n, parameter_type(v), _plain(v, sources)) for n, v in task.parameters)
            state = tuple((f.name, f.type.dtype, f.type.shape) for f in task.state)
            return CCode(source.rsplit(".", 1)[0] + ".so", source, code.symbol, typed, state)
        file = sources.place("tasks", code.path)
        for helper in self._helpers(Path(code.path)):
            sources.place("tasks", helper)
        known = [(n, v) for n, v in task.parameters if code.passes is None or n in code.passes]
        return PythonCode(file, code.symbol, tuple((n, _plain(v, sources)) for n, v in known))


def _tensors(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of inputs and outputs."""
    return tuple(t.name for t in network.inputs), tuple(t.name for t in network.outputs)


def _number(value: Value) -> Plain:
    return float(value) if isinstance(value, Fraction) else value


def _port(port: Port, task: Task) -> DeployedPort:
    assert port.type is not None
    if task.network is not None and task.network.moving is not None and port.name == CUT:
        return DeployedPort(port.name, "object", (), port.rates, port.stacked)
    return DeployedPort(port.name, port.type.dtype, port.type.shape, port.rates, port.stacked)


def _moving(network: Network, moving: Moving, sources: Sources) -> MovingCode:
    """The models of all cuts as files; both sides name the same ones."""
    file = Path(network.path)

    def place(part: Part, number: int, side: str) -> Side:
        own = re.sub(r"\[(\d+)\]", r"-\1", f"{file.stem}={moving.network}.{side}{number}{file.suffix}")
        return sources.place("networks", file.with_name(own), part.model), part.inputs, part.outputs

    variants = tuple(
        DeployedVariant(v.layer, place(v.front, k, "front"), place(v.back, k, "back"), v.work)
        for k, v in enumerate(moving.variants, 1)
    )
    tensors = tuple(t.name for t in (network.inputs if moving.side == "front" else network.outputs))
    return MovingCode(moving.network, moving.side, tensors, variants, moving.start, moving.others)


def parameter_type(value: Parameter) -> str:
    """`int`, `float`, `bool` or `string`: how C sees a parameter."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    return "float" if isinstance(value, Fraction) else "string"


def _plain(value: Parameter, sources: Sources) -> Plain | DataFile:
    if isinstance(value, FilePath):
        return DataFile(sources.place("data", value.path))
    return float(value) if isinstance(value, Fraction) else value


def sequential(system: System, platform: Platform) -> Mapping:
    """Everything on the first CPU: for measuring."""
    core = next(p for pool in platform.pools if pool.kind == "cpu" for p in pool.processors)
    return Mapping(platform.name, tuple(Placement(t.name, (core,)) for a in system.apps for t in a.tasks), (), "none")
