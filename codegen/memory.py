"""The memory of a deployment's networks, before it runs.

In: deployed apps and workers. Out: `PlannedMemory`. The memory of each network is computed with its
code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Deployment,
    PlannedMemory,
)
from ..model.types import DTYPES
from ..networks.bands.firings import HELD
from .kinds.bands import BandsCode
from .kinds.engine import EngineCode
from .kinds.link import LinkCode
from .kinds.onnx import OnnxCode
from .kinds.segments import SegmentsCode


def planned(apps: Sequence[DeployedApp], workers: Sequence[DeployedWorker]) -> PlannedMemory | None:
    """Weights of each file once; of each worker the largest block and the largest arena of bands;
    all channels full.

    Memory that bands and their sessions keep between firings counts as well. Engines of TensorRT
    have weights each, and the contexts of each worker share the largest arena.
    """
    codes = {
        t.name: t.code
        for a in apps
        for t in a.tasks
        if isinstance(t.code, OnnxCode | BandsCode | SegmentsCode)
    }
    files = {file: size for c in codes.values() for file, size in _weights(c)}
    engines = engines_of(t for a in apps for t in a.tasks)
    if (
        not (codes or engines)
        or None in files.values()
        or any(c.block is None for c in codes.values())
    ):
        return None
    if any(None in (c.weights, c.arena) for c in engines.values()):
        return None
    weights = sum(size or 0 for size in files.values()) + sum(
        (c.weights or 0) * len(c.on) for c in engines.values()
    )
    blocks = {name: c.batch * (c.block or 0) for name, c in codes.items()}
    arenas = {name: c.arena for name, c in codes.items() if isinstance(c, BandsCode)}
    # a worker takes memory for the largest, whichever it fires
    largest = max(arenas.values(), default=0)
    buffers = 0
    for worker in workers:
        buffers += max((blocks.get(e.task, 0) for e in worker.order), default=0)
        buffers += largest if any(e.task in arenas for e in worker.order) else 0
    buffers += sum(HELD * c.firings for c in codes.values() if isinstance(c, BandsCode))
    sessions = sum(
        {c.plan: c.sessions for c in codes.values() if isinstance(c, BandsCode)}.values()
    )
    return PlannedMemory(
        weights, buffers, sum(map(_tokens, apps)), shared_arenas(engines, [workers]), sessions
    )


def on_devices(deployment: Deployment, processors: Collection[str]) -> tuple[int, int]:
    """Of the engines of TensorRT on some processors, the bytes of their weights and of the arenas
    that they share."""
    engines = engines_of(deployment.tasks)
    states = (
        [s.processors for s in deployment.scenario.states]
        if deployment.scenario
        else [deployment.processors]
    )
    weights = sum(
        c.weights or 0
        for c in engines.values()
        for processor, _, _ in c.on
        if processor in processors
    )
    return weights, shared_arenas(
        engines, [[w for w in workers if w.processor in processors] for workers in states]
    )


def shared_arenas(
    engines: dict[str, EngineCode], states: Sequence[Sequence[DeployedWorker]]
) -> int:
    """The arenas of all workers. Those of several states never compute at once: the first worker of
    a processor shares its arena with the first ones in other states, and so on."""
    found: dict[tuple[str, int], int] = {}
    for workers in states:
        count: dict[str, int] = {}
        for worker in workers:
            codes = [engines[e.task] for e in worker.order if e.task in engines]
            if codes:
                key = worker.processor, count.get(worker.processor, 0)
                count[worker.processor] = key[1] + 1
                found[key] = max(found.get(key, 0), *(c.arena or 0 for c in codes))
    return sum(found.values())


def engines_of(tasks: Iterable[DeployedTask]) -> dict[str, EngineCode]:
    """The engines of TensorRT among the code of tasks."""
    codes = ((t.name, t.code) for t in tasks)
    return {name: c for name, c in codes if isinstance(c, EngineCode) and c.engine == "tensorrt"}


def _weights(code: OnnxCode | BandsCode | SegmentsCode) -> list[tuple[str, int | None]]:
    """Files with the bytes of their weights."""
    if isinstance(code, SegmentsCode):
        return [(s.file, s.weights) for s in code.segments]
    return [(code.plan if isinstance(code, BandsCode) else code.file, code.weights)]


def _tokens(app: DeployedApp) -> int:
    ports = {(t.name, p.name): p for t in app.tasks for p in (*t.inputs, *t.outputs)}
    rooms = (
        _room(c, ports[c.source, c.source_port], ports[c.destination, c.destination_port])
        for c in app.channels
    )
    return sum(rooms) + sum(map(_kept, app.tasks))


def _kept(task: DeployedTask) -> int:
    """Bytes of tokens that wait at the end of an app, or after a source that runs ahead."""
    code = task.code
    if isinstance(code, LinkCode):
        if code.end == "take":
            return 0  # the caller put it there
        return (code.keep if code.end == "put" else 1) * sum(
            map(_bytes, (*task.inputs, *task.outputs))
        )
    return (task.keep or 0) * sum(max(p.rates) * _bytes(p) for p in task.outputs)


def _room(channel: DeployedChannel, port: DeployedPort, read: DeployedPort) -> int:
    """Bytes of a full channel, and of the tokens that a window keeps beside it."""
    return (channel.capacity + max(0, read.window - read.rates[0])) * _bytes(port)


def _bytes(port: DeployedPort) -> int:
    """Bytes of a token; 0 if its size depends on the data."""
    if port.dtype not in DTYPES or min(port.shape, default=0) < 0:
        return 0
    return DTYPES[port.dtype][1] * prod(port.shape)
