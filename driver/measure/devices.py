"""Times on a GPU and on DLAs: the program itself runs on them, and reports the times of the
devices.

In: a valid system whose platform has such processors, and a machine that has them too. Out: profile
entries, with the layers of networks that TensorRT runs and that could be cut. For each kind, one
program is built in which that kind runs all that it can. A network that a DLA can run in part is
measured with the GPU's help: searches need the times of its layers on the DLA.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from ...codegen.deploy import deploy, sequential
from ...codegen.kinds.tensorrt import engines_of
from ...dsl.modules import local_modules
from ...machines.board import BUILDER
from ...machines.host import last_words
from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ...model.json_reader import Between, parse, parse_object, read
from ...model.mapping import Mapping
from ...model.platform import ACCELERATORS, Platform
from ...model.profile import LayerTime, Profile, ProfileEntry
from ...model.times import times_of
from ...networks.onnx.cuts import LayerChain, read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.quantization.quantize import PAIR
from ...profiling.engine_layers import EngineLayer, led_back
from ...profiling.engines import build_engines
from ...profiling.identity import implementation_name, task_hashes
from ...profiling.measure import wcet
from ...report.written import WrittenTask as Fired
from ...targets.accelerators import barred_from
from ...targets.fitness import unfit_for
from ..plan.program import firing_means, write_program
from ..text.check import Report, Valid
from .measure import may_be_cut, without_periods

Layers = tuple[LayerTime, ...]

#: Limits on the frames that a program runs for: the first ones are slower, and are among the
#: largest seen.
FEWEST, MOST = 30, 2000


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The part of a program's report that is needed here."""

    tasks: dict[str, Fired]


@dataclass(frozen=True, slots=True)
class _LayerSeen:
    """A layer of an engine, and the nodes that it was made of."""

    name: str
    ms: Annotated[float, Between(0, 1 << 40)]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _PlanSeen:
    """What `profile_engines.py` writes about a plan."""

    file: str
    device: str
    precision: str
    batch: int
    digest: str
    arena: Annotated[int, Between(0, 1 << 60)]
    layers: tuple[_LayerSeen, ...]


@dataclass(frozen=True, slots=True)
class _Plans:
    """All plans."""

    plans: tuple[_PlanSeen, ...]


def measure_devices(
    valid: Valid, profile: Profile, seconds: float, report: Report | None = None
) -> Profile:
    """The profile with entries for the platform's GPU and DLAs. Raises Errors if a program
    fails."""
    times = times_of(valid.system, valid.platform, profile)
    frame_ns = sum(firing_means(valid, times).values()) or 1e6
    frames = max(FEWEST, min(MOST, int(seconds * 1e9 / frame_ns)))
    tell = report or _ignore
    entries: list[ProfileEntry] = []
    tasks = valid.tasks
    for kind in ACCELERATORS:
        able = {name: task for name, task in tasks.items() if _runs_on(task, kind, valid)}
        if able:
            tell(f"measuring {len(able)} tasks on a {kind}")
            entries += valid.host.steadily(partial(_measured, valid, able, kind, frames, report))
    for name, task in tasks.items():
        if _runs_in_part(task, valid):
            tell(f"measuring the layers of {name} that a dla can run")
            alone = {name: task}
            try:
                entries += valid.host.steadily(
                    partial(_measured, valid, alone, "dla", frames, report)
                )
            except Errors as faults:
                # not even with the GPU's help: the network can always run without the DLA
                tell(f"{name} stays off the dla: {faults.diagnostics[0].message}")
    return profile.with_entries(entries)


def _ignore(message: str) -> None:
    """Progress that is not reported."""


def _runs_on(task: Task, kind: str, valid: Valid) -> bool:
    if all(pool.kind != kind for pool in valid.platform.pools):
        return False
    if not (task.network or task.implementations):
        return False
    return unfit_for(task, kind, valid.platform) is None


def _runs_in_part(task: Task, valid: Valid) -> bool:
    """Can a DLA run some layers of a network, and a GPU the others?"""
    platform = valid.platform
    if task.network is None or not may_be_cut(task):
        return False
    if not {"gpu", "dla"} <= {pool.kind for pool in platform.pools}:
        return False
    if unfit_for(task, "dla", platform) is None:
        return False
    if unfit_for(task, "dla", platform, fallback=True) is not None:
        return False
    barred = barred_from(task, platform)
    try:
        layers = chain_of_network(task.network).layers
        return not all(barred("dla", x.name) or x.operator in PAIR for x in layers)
    except NetworkError:
        return False


def chain_of_network(network: Network) -> LayerChain:
    return read_chain(Path(network.path), network.shapes)


def _measured(
    valid: Valid, able: dict[str, Task], kind: str, frames: int, report: Report | None
) -> list[ProfileEntry]:
    """The entries of tasks on a kind of device: a program runs there. Raises Errors."""
    platform = valid.platform
    helped = {name for name, task in able.items() if unfit_for(task, kind, platform) is not None}
    mapping = _mapping_on(valid, able, kind, helped)
    deployed = deploy(
        without_periods(valid.system), platform, mapping, valid.repetition, {}, local_modules
    )
    with scratch() as folder:
        directory = folder / "measured"
        write_program(deployed, directory)
        tree = valid.host.put(directory, f"{valid.system.path}.{kind}")
        engines = _Engines()
        if (directory / BUILDER).exists():
            why_not = build_engines(directory, tree, valid.host, report)
            if why_not:
                raise Errors([Diagnostic("F606", why_not, valid.system.apps[0].span)])
            try:
                engines = _engines(valid, able, kind, deployed.deployment, tree)
            except Errors as faults:
                # the times of the whole network are useful without those of its layers
                (report or _ignore)(f"no times of layers: {faults.diagnostics[0].message}")
        done = _run(
            valid, tree, "main.py", "--frames", str(frames), "--quiet", report="report.json"
        )
        seen = _fired(done, able)
    digests = task_hashes(valid.system)
    host_hash = valid.host.identity.host_hash
    entries = []
    for name, task in able.items():
        layers = engines.layers.get(name, ())
        if seen[name].firings and (layers or name not in helped):
            entry = _entry(task, digests[name], host_hash, kind, seen[name], layers)
            entries.append(replace(entry, arena_bytes=engines.arenas.get(name)))
    return entries


def _mapping_on(valid: Valid, able: Collection[str], kind: str, helped: Collection[str]) -> Mapping:
    """All tasks on one core, but for those that are measured; what needs a GPU is on one, if there
    is one. A GPU takes the layers that the device cannot run of networks that are `helped`."""
    platform = valid.platform
    device = _first_processor(platform, kind)
    gpu = _first_processor(platform, "gpu") or device
    places = {}
    for name, task in valid.tasks.items():
        if name in able:
            places[name] = device
        elif unfit_for(task, "cpu", platform) is not None:
            places[name] = gpu
    placements = []
    for placement in sequential(valid.system, platform).placements:
        processor = places.get(placement.task, placement.processors[0])
        fallback = placement.task in helped
        placements.append(replace(placement, processors=(processor,), fallback=fallback))
    return Mapping(platform.name, tuple(placements), (), "none")


def _first_processor(platform: Platform, kind: str) -> str:
    """The first processor of a kind; empty if there is none."""
    for pool in platform.pools:
        if pool.kind == kind and pool.processors:
            return pool.processors[0]
    return ""


@dataclass(frozen=True, slots=True)
class _Engines:
    """Of networks that TensorRT runs: the memory between their layers, and the times of these."""

    arenas: dict[str, int] = field(default_factory=dict)
    layers: dict[str, Layers] = field(default_factory=dict)


def _engines(
    valid: Valid, able: dict[str, Task], kind: str, deployment: Deployment, tree: str
) -> _Engines:
    """What the engines of a program report. Raises Errors."""
    reported = _plans(_run(valid, tree, "profile_engines.py", report="layers.json"))
    engines = _Engines()
    for name, task in able.items():
        if task.network is not None:
            plans = _plans_of(task, kind, deployment, reported)
            engines.arenas[name] = max(plan.arena for plan in plans)
            if may_be_cut(task) and task.network.moving is None:
                seen = [EngineLayer(x.name, 1e6 * x.ms, x.nodes) for x in plans[0].layers]
                engines.layers[name] = layers_of(task.network, seen)
    return engines


def _plans(content: bytes) -> tuple[_PlanSeen, ...]:
    """The reported plans. Raises Errors."""
    try:
        return read(_Plans, {"plans": parse(content)}).plans
    except ValueError as error:
        raise Errors([_unreadable(str(error))]) from error


def _fired(content: bytes, tasks: Collection[str]) -> dict[str, Fired]:
    """The reported tasks. Raises Errors."""
    try:
        fired = read(_Tasks, {"tasks": parse_object(content).get("tasks")}).tasks
        missing = [name for name in tasks if name not in fired]
        if missing:
            raise ValueError(f"it has no `{missing[0]}`")
    except ValueError as error:
        raise Errors([_unreadable(str(error))]) from error
    return fired


def _unreadable(why: str) -> Diagnostic:
    help_text = "the board may have no space left, or another program writes its files"
    return Diagnostic("F657", f"the measurements cannot be read: {why}", None, help=help_text)


def _plans_of(
    task: Task, kind: str, deployment: Deployment, reported: Sequence[_PlanSeen]
) -> list[_PlanSeen]:
    """The reports on the plans that a network runs: one, or where its cut moves, one for each part.
    Raises Errors."""
    known = {(s.file, s.device, s.precision, s.batch, s.digest): s for s in reported}
    plans = []
    for code, _ in engines_of(t for t in deployment.tasks if t.name == task.name):
        seen = known.get((code.file, kind, code.precision, code.batch, code.digest))
        if seen is None:
            raise Errors([_unreadable(f"it has no entry for `{code.file}`")])
        plans.append(seen)
    return plans


def layers_of(network: Network, seen: Sequence[EngineLayer]) -> Layers:
    """Times of a network's layers from those of an engine; empty if it cannot be cut."""
    try:
        layers = chain_of_network(network).layers
    except NetworkError:
        return ()
    times = led_back(seen, layers, nodes_of(network))
    return tuple(LayerTime(layer, ns) for layer, ns in times.items())


def nodes_of(network: Network) -> dict[str, list[str]]:
    """The layers of each node, by TensorRT's name of the node."""
    import onnx

    layers: dict[str, list[str]] = {}
    if network.model:
        model = onnx.load_model_from_string(network.model)
    else:
        model = onnx.load(network.path, load_external_data=False)
    for node in model.graph.node:
        made = [t for t in node.output if t]
        layers.setdefault(node.name or f"node_of_{node.output[0]}", []).extend(made[:1])
    return layers


def _run(valid: Valid, tree: str, *command: str, report: str = "") -> bytes:
    """Run a script of a program on its host, and read its report."""
    host = valid.host
    with host.folder() as folder:
        file = f"{folder}/{report}"
        words = [*host.python, *command]
        if report:
            words += ["--report", file]
        done = host.execute(words, cwd=tree)
        if done.status:
            message = f"the application failed while it was measured\n{last_words(done.stderr)}"
            raise Errors([Diagnostic("F606", message, valid.system.apps[0].span)])
        return (host.read(file) or b"") if report else b""


def _entry(
    task: Task, digest: str, host_hash: str, kind: str, seen: Fired, layers: Layers
) -> ProfileEntry:
    mean, std, most = (round(1000 * (us or 0.0)) for us in (seen.mean_us, seen.std_us, seen.max_us))
    name = implementation_name(task, kind)
    beyond = 0
    if layers:
        beyond = max(0, mean - round(sum(layer.mean_ns for layer in layers)))
    batch, precision = 1, "fp32"
    if task.network is not None:
        batch, precision = task.network.batch, task.network.precision
    return ProfileEntry(
        kind,
        task.name,
        name,
        digest,
        host_hash,
        seen.firings or 0,
        mean,
        std,
        most,
        wcet(most, mean, std),
        batch,
        precision,
        layers=layers,
        overhead_ns=beyond,
    )
