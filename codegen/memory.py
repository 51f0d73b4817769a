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
from .kinds import code_of
from .kinds.kind import CpuMemory, DeviceMemory
from .kinds.link import LinkCode


def planned(apps: Sequence[DeployedApp], workers: Sequence[DeployedWorker]) -> PlannedMemory | None:
    """Weights of each file once; of each worker the largest block and the largest arena of bands;
    all channels full.

    Memory that bands and their sessions keep between firings counts as well. Engines on devices
    have weights each, and those of each worker share the largest arena.
    """
    tasks = [t for a in apps for t in a.tasks]
    networks = _on_cpus(tasks)
    engines = engines_of(tasks)
    weights = _all_weights(networks.values(), engines.values())
    blocks = _blocks(networks)
    if not (networks or engines) or weights is None or blocks is None:
        return None
    if any(e.arena is None for e in engines.values()):
        return None
    sessions: dict[str, int] = {}
    for network in networks.values():
        sessions.update(network.sessions)
    return PlannedMemory(
        weights,
        _buffers(workers, blocks, networks) + sum(n.kept for n in networks.values()),
        sum(_tokens(a) for a in apps),
        shared_arenas(engines, [workers]),
        sum(sessions.values()),
    )


def _all_weights(networks: Iterable[CpuMemory], engines: Iterable[DeviceMemory]) -> int | None:
    """Weights of each file once, and of each engine on each of its processors; None if unknown."""
    files: dict[str, int | None] = {}
    for network in networks:
        files.update(network.weights)
    total = 0
    for size in files.values():
        if size is None:
            return None
        total += size
    for engine in engines:
        if engine.weights is None:
            return None
        total += engine.weights * len(engine.processors)
    return total


def _blocks(networks: Mapping[str, CpuMemory]) -> dict[str, int] | None:
    """The buffers between the layers of each network; None if unknown."""
    blocks = {}
    for name, network in networks.items():
        if network.block is None:
            return None
        blocks[name] = network.block
    return blocks


def _buffers(
    workers: Iterable[DeployedWorker], blocks: Mapping[str, int], networks: Mapping[str, CpuMemory]
) -> int:
    """Of each worker the largest block. One that fires networks in bands takes memory for the
    largest arena, whichever it fires."""
    arenas = {name: n.arena for name, n in networks.items() if n.arena is not None}
    largest = max(arenas.values(), default=0)
    total = 0
    for worker in workers:
        total += max((blocks.get(e.task, 0) for e in worker.order), default=0)
        if any(e.task in arenas for e in worker.order):
            total += largest
    return total


def on_devices(deployment: Deployment, processors: Collection[str]) -> tuple[int, int]:
    """Of the engines on some processors, the bytes of their weights and of the arenas that they
    share."""
    engines = engines_of(deployment.tasks)
    weights = 0
    for engine in engines.values():
        there = [processor for processor in engine.processors if processor in processors]
        weights += (engine.weights or 0) * len(there)
    states = [deployment.processors]
    if deployment.scenario is not None:
        states = [s.processors for s in deployment.scenario.states]
    workers = [[w for w in state if w.processor in processors] for state in states]
    return weights, shared_arenas(engines, workers)


def shared_arenas(
    engines: Mapping[str, DeviceMemory], states: Sequence[Sequence[DeployedWorker]]
) -> int:
    """The arenas of all workers. Those of several states never compute at once: the first worker of
    a processor shares its arena with the first ones in other states, and so on."""
    arenas: dict[tuple[str, int], int] = {}
    for workers in states:
        count: dict[str, int] = {}
        for worker in workers:
            own = [engines[e.task] for e in worker.order if e.task in engines]
            if own:
                number = count.get(worker.processor, 0)
                count[worker.processor] = number + 1
                key = worker.processor, number
                arenas[key] = max(arenas.get(key, 0), *(e.arena or 0 for e in own))
    return sum(arenas.values())


def engines_of(tasks: Iterable[DeployedTask]) -> dict[str, DeviceMemory]:
    """The memory on devices of the tasks that have some."""
    memory = ((t.name, code_of(t).memory) for t in tasks)
    return {name: m for name, m in memory if isinstance(m, DeviceMemory)}


def _on_cpus(tasks: Iterable[DeployedTask]) -> dict[str, CpuMemory]:
    """The memory of the networks on CPUs."""
    memory = ((t.name, code_of(t).memory) for t in tasks)
    return {name: m for name, m in memory if isinstance(m, CpuMemory)}


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
    token = sum(max(p.rates) * _bytes(p) for p in (*task.inputs, *task.outputs))
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
