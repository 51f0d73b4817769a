"""The memory of a deployment's networks, before it runs.

In: deployed apps and workers. Out: `PlannedMemory`. The memory of each network is computed with its
code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    tasks = [t for a in apps for t in a.tasks]
    codes = {
        t.name: t.code for t in tasks if isinstance(t.code, OnnxCode | BandsCode | SegmentsCode)
    }
    engines = engines_of(tasks)
    weights = _all_weights(codes.values(), engines.values())
    blocks = _blocks(codes)
    if not (codes or engines) or weights is None or blocks is None:
        return None
    if any(c.arena is None for c in engines.values()):
        return None
    banded = {name: c for name, c in codes.items() if isinstance(c, BandsCode)}
    kept = sum(HELD * c.firings for c in banded.values())
    sessions = {c.plan: c.sessions for c in banded.values()}
    return PlannedMemory(
        weights,
        _buffers(workers, blocks, banded) + kept,
        sum(_tokens(a) for a in apps),
        shared_arenas(engines, [workers]),
        sum(sessions.values()),
    )


def _all_weights(
    codes: Iterable[OnnxCode | BandsCode | SegmentsCode], engines: Iterable[EngineCode]
) -> int | None:
    """Weights of each file once, and of each engine on each of its processors; None if unknown."""
    files: dict[str, int | None] = {}
    for code in codes:
        files.update(_weights(code))
    total = 0
    for size in files.values():
        if size is None:
            return None
        total += size
    for engine in engines:
        if engine.weights is None:
            return None
        total += engine.weights * len(engine.on)
    return total


def _blocks(
    codes: Mapping[str, OnnxCode | BandsCode | SegmentsCode],
) -> dict[str, int] | None:
    """The buffers between the layers of each network; None if unknown."""
    blocks = {}
    for name, code in codes.items():
        if code.block is None:
            return None
        blocks[name] = code.batch * code.block
    return blocks


def _buffers(
    workers: Iterable[DeployedWorker], blocks: Mapping[str, int], banded: Mapping[str, BandsCode]
) -> int:
    """Of each worker the largest block. One that fires networks in bands takes memory for the
    largest arena, whichever it fires."""
    largest = max((c.arena for c in banded.values()), default=0)
    total = 0
    for worker in workers:
        total += max((blocks.get(e.task, 0) for e in worker.order), default=0)
        if any(e.task in banded for e in worker.order):
            total += largest
    return total


def on_devices(deployment: Deployment, processors: Collection[str]) -> tuple[int, int]:
    """Of the engines of TensorRT on some processors, the bytes of their weights and of the arenas
    that they share."""
    engines = engines_of(deployment.tasks)
    weights = 0
    for code in engines.values():
        there = [processor for processor, _, _ in code.on if processor in processors]
        weights += (code.weights or 0) * len(there)
    states = [deployment.processors]
    if deployment.scenario is not None:
        states = [s.processors for s in deployment.scenario.states]
    workers = [[w for w in state if w.processor in processors] for state in states]
    return weights, shared_arenas(engines, workers)


def shared_arenas(
    engines: dict[str, EngineCode], states: Sequence[Sequence[DeployedWorker]]
) -> int:
    """The arenas of all workers. Those of several states never compute at once: the first worker of
    a processor shares its arena with the first ones in other states, and so on."""
    arenas: dict[tuple[str, int], int] = {}
    for workers in states:
        count: dict[str, int] = {}
        for worker in workers:
            codes = [engines[e.task] for e in worker.order if e.task in engines]
            if codes:
                number = count.get(worker.processor, 0)
                count[worker.processor] = number + 1
                key = worker.processor, number
                arenas[key] = max(arenas.get(key, 0), *(c.arena or 0 for c in codes))
    return sum(arenas.values())


def engines_of(tasks: Iterable[DeployedTask]) -> dict[str, EngineCode]:
    """The engines of TensorRT among the code of tasks."""
    codes = ((t.name, t.code) for t in tasks)
    return {name: c for name, c in codes if isinstance(c, EngineCode) and c.engine == "tensorrt"}


def _weights(code: OnnxCode | BandsCode | SegmentsCode) -> list[tuple[str, int | None]]:
    """Files with the bytes of their weights."""
    match code:
        case SegmentsCode():
            return [(s.file, s.weights) for s in code.segments]
        case BandsCode():
            return [(code.plan, code.weights)]
        case OnnxCode():
            return [(code.file, code.weights)]


def _tokens(app: DeployedApp) -> int:
    """Bytes of full channels, and of tokens that wait outside of channels."""
    ports = {}
    for task in app.tasks:
        for port in (*task.inputs, *task.outputs):
            ports[task.name, port.name] = port
    total = sum(_kept(task) for task in app.tasks)
    for c in app.channels:
        total += _room(c, ports[c.source, c.source_port], ports[c.destination, c.destination_port])
    return total


def _kept(task: DeployedTask) -> int:
    """Bytes of tokens that wait at the end of an app, or after a source that runs ahead."""
    code = task.code
    if not isinstance(code, LinkCode):
        return (task.keep or 0) * sum(max(p.rates) * _bytes(p) for p in task.outputs)
    token = sum(_bytes(p) for p in (*task.inputs, *task.outputs))
    match code.end:
        case "take":
            return 0  # the writer put it there
        case "put":
            return code.keep * token
        case _:
            return token


def _room(channel: DeployedChannel, port: DeployedPort, read: DeployedPort) -> int:
    """Bytes of a full channel, and of the tokens that a window keeps beside it."""
    return (channel.capacity + max(0, read.window - read.rates[0])) * _bytes(port)


def _bytes(port: DeployedPort) -> int:
    """Bytes of a token; 0 if its size depends on the data."""
    if port.dtype not in DTYPES or min(port.shape, default=0) < 0:
        return 0
    return DTYPES[port.dtype][1] * prod(port.shape)
