"""Times on a GPU and on DLAs: the program itself runs on them, and reports the times of the
devices.

In: a valid system whose platform has such processors, and a machine that has them too. Out: profile
entries, with the layers of networks that TensorRT runs and that could be cut. For each kind, one
program is built in which that kind runs all that it can. A network that a DLA can run in part is
measured with the GPU's help: searches need the times of its layers on the DLA.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from ...codegen.deploy import deploy, sequential
from ...codegen.kinds.engine import EngineCode
from ...dsl.modules import local_modules
from ...machines.board import BUILDER
from ...machines.host import last_words
from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...model.diagnostic import Diagnostic, Errors
from ...model.files import scratch
from ...model.json_reader import Between, parse, parse_object, read
from ...model.mapping import Mapping
from ...model.profile import LayerTime, Profile, ProfileEntry
from ...model.times import times_of
from ...networks.onnx.cuts import Chain, read_chain
from ...networks.onnx.interface import NetworkError
from ...networks.quantization.quantize import PAIR
from ...profiling.engine_layers import EngineLayer, led_back
from ...profiling.engines import build_engines
from ...profiling.identity import implementation_name, task_hashes
from ...profiling.measure import wcet
from ...report.written import Task as Fired
from ...targets.dla import barred_from_dla
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
    found: list[ProfileEntry] = []
    tasks = [t for a in valid.system.apps for t in a.tasks]
    for kind in ("gpu", "dla"):
        able = {t.name: t for t in tasks if _runs_on(t, kind, valid)}
        if able:
            if report is not None:
                report(f"measuring {len(able)} tasks on a {kind}")
            found += valid.host.steadily(partial(_measured, valid, able, kind, frames, report))
    for task in tasks:
        if _runs_in_part(task, valid):
            if report is not None:
                report(f"measuring the layers of {task.name} that a dla can run")
            try:
                found += valid.host.steadily(
                    partial(_measured, valid, {task.name: task}, "dla", frames, report)
                )
            except Errors as faults:
                # not even with the GPU's help: the network can always run without the DLA
                if report is not None:
                    report(f"{task.name} stays off the dla: {faults.diagnostics[0].message}")
    known = {(e.processor, e.subject) for e in found}
    return replace(
        profile,
        entries=(*(e for e in profile.entries if (e.processor, e.subject) not in known), *found),
    )


def _runs_on(task: Task, kind: str, valid: Valid) -> bool:
    there = any(p.kind == kind for p in valid.platform.pools)
    return (
        there
        and bool(task.network or task.implementations)
        and unfit_for(task, kind, valid.platform) is None
    )


def _runs_in_part(task: Task, valid: Valid) -> bool:
    """Can a DLA run some layers of a network, and a GPU the others?"""
    platform = valid.platform
    if (
        task.network is None
        or not may_be_cut(task)
        or not {"gpu", "dla"} <= {p.kind for p in platform.pools}
    ):
        return False
    if (
        unfit_for(task, "dla", platform) is None
        or unfit_for(task, "dla", platform, fallback=True) is not None
    ):
        return False
    barred = barred_from_dla(task, platform)
    try:
        return not all(barred(x.name) or x.operator in PAIR for x in _chain(task.network).layers)
    except NetworkError:
        return False


def _chain(network: Network) -> Chain:
    return read_chain(Path(network.path), network.shapes)


def _measured(
    valid: Valid, able: dict[str, Task], kind: str, frames: int, report: Report | None
) -> list[ProfileEntry]:
    platform = valid.platform
    place = next(p for pool in platform.pools if pool.kind == kind for p in pool.processors)
    first = sequential(valid.system, platform)
    gpu = next((p for pool in platform.pools if pool.kind == "gpu" for p in pool.processors), place)
    only = {
        t.name
        for a in valid.system.apps
        for t in a.tasks
        if unfit_for(t, "cpu", platform) is not None
    }
    where = {**dict.fromkeys(only, gpu), **dict.fromkeys(able, place)}
    helped = {n for n, t in able.items() if unfit_for(t, kind, platform) is not None}
    placed = (
        replace(p, processors=(where.get(p.task, p.processors[0]),), fallback=p.task in helped)
        for p in first.placements
    )
    mapping = Mapping(platform.name, tuple(placed), (), "none")
    deployed = deploy(
        without_periods(valid.system), platform, mapping, valid.repetition, {}, local_modules
    )
    with scratch() as folder:
        directory = folder / "measured"
        write_program(deployed, directory)
        tree = valid.host.put(directory, f"{valid.system.path}.{kind}")
        layers: dict[str, Layers] = {}
        arenas: dict[str, int] = {}
        if (directory / BUILDER).exists():
            why_not = build_engines(directory, tree, valid.host, report)
            if why_not:
                raise Errors([Diagnostic("F606", why_not, valid.system.apps[0].span)])
            try:
                reported = _plans(_run(valid, tree, "profile_engines.py", report="layers.json"))
                plans = {
                    n: _plan(t, kind, deployed.deployment, reported)
                    for n, t in able.items()
                    if t.network is not None
                }
                arenas = {n: p.arena for n, p in plans.items()}
                layers = {n: _layers(t, plans[n]) for n, t in able.items() if may_be_cut(t)}
            except Errors as faults:
                # the times of the whole network are useful without those of its layers
                if report is not None:
                    report(f"no times of layers: {faults.diagnostics[0].message}")
        done = _run(
            valid, tree, "main.py", "--frames", str(frames), "--quiet", report="report.json"
        )
        seen = _fired(done, able)
    digests = task_hashes(valid.system)
    return [
        replace(
            _entry(
                task,
                digests[name],
                valid.host.identity.host_hash,
                kind,
                seen[name],
                layers.get(name, ()),
            ),
            arena_bytes=arenas.get(name),
        )
        for name, task in able.items()
        if seen[name].firings and (layers.get(name) or name not in helped)
    ]


def _plans(content: bytes) -> tuple[_PlanSeen, ...]:
    """The reported plans. Raises Errors."""
    try:
        return read(_Plans, {"plans": parse(content)}).plans
    except ValueError as error:
        raise Errors([_unreadable(str(error))]) from error


def _fired(content: bytes, tasks: Collection[str]) -> dict[str, Fired]:
    """The reported tasks. Raises Errors."""
    try:
        found = read(_Tasks, {"tasks": parse_object(content).get("tasks")}).tasks
        missing = [name for name in tasks if name not in found]
        if missing:
            raise ValueError(f"it has no `{missing[0]}`")
    except ValueError as error:
        raise Errors([_unreadable(str(error))]) from error
    return found


def _unreadable(why: str) -> Diagnostic:
    help_text = "the board may have no space left, or another program writes its files"
    return Diagnostic("F657", f"the measurements cannot be read: {why}", None, help=help_text)


def _plan(
    task: Task, kind: str, deployment: Deployment, reported: Sequence[_PlanSeen]
) -> _PlanSeen:
    """The report on the plan that a network runs. Raises Errors."""
    code = next(t.code for a in deployment.apps for t in a.tasks if t.name == task.name)
    assert isinstance(code, EngineCode)
    wanted = code.file, kind, code.precision, code.batch, code.digest
    for seen in reported:
        if (seen.file, seen.device, seen.precision, seen.batch, seen.digest) == wanted:
            return seen
    raise Errors([_unreadable(f"it has no entry for `{code.file}`")])


def _layers(task: Task, plan: _PlanSeen) -> Layers:
    """Times of a network's layers; empty if it cannot be cut."""
    assert task.network is not None
    try:
        layers = _chain(task.network).layers
    except NetworkError:
        return ()
    seen = [EngineLayer(x.name, 1e6 * x.ms, x.nodes) for x in plan.layers]
    return tuple(LayerTime(x, ns) for x, ns in led_back(seen, layers, _nodes(task.network)).items())


def _nodes(network: Network) -> dict[str, list[str]]:
    """The layers of each node, by TensorRT's name of the node."""
    import onnx

    found: dict[str, list[str]] = {}
    for node in onnx.load(network.path, load_external_data=False).graph.node:
        made = [t for t in node.output if t]
        found.setdefault(node.name or f"node_of_{node.output[0]}", []).extend(made[:1])
    return found


def _run(valid: Valid, tree: str, *command: str, report: str = "") -> bytes:
    """Run a script of a program on its host, and read its report."""
    host = valid.host
    with host.folder() as folder:
        file = f"{folder}/{report}"
        done = host.execute(
            [*host.python, *command, *(("--report", file) if report else ())], cwd=tree
        )
        if done.status:
            message = f"the application failed while it was measured\n{last_words(done.stderr)}"
            raise Errors([Diagnostic("F606", message, valid.system.apps[0].span)])
        return (host.read(file) or b"") if report else b""


def _entry(
    task: Task, digest: str, host_hash: str, kind: str, seen: Fired, layers: Layers
) -> ProfileEntry:
    mean, std, most = (round(1000 * (us or 0.0)) for us in (seen.mean_us, seen.std_us, seen.max_us))
    name = implementation_name(task, kind)
    beyond = max(0, mean - round(sum(x.mean_ns for x in layers))) if layers else 0
    batch, precision = (task.network.batch, task.network.precision) if task.network else (1, "fp32")
    return ProfileEntry(
        kind,
        task.name,
        name,
        digest,
        host_hash,
        seen.firings,
        mean,
        std,
        most,
        wcet(most, mean, std),
        batch,
        precision,
        layers=layers,
        overhead_ns=beyond,
    )
