"""What a deployment takes in memory for its networks on CPUs, before it runs.

In: deployed apps and workers. Out: `PlannedMemory`. What a network takes was found out where its code was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    PlannedMemory,
)
from ..model.types import DTYPES
from ..networks.bands.firings import HELD
from .kinds.bands import BandsCode
from .kinds.link import LinkCode
from .kinds.onnx import OnnxCode
from .kinds.segments import SegmentsCode


def planned(apps: Sequence[DeployedApp], workers: Sequence[DeployedWorker]) -> PlannedMemory | None:
    """Weights of each file once; of each worker the largest block and the largest arena of bands; all channels full.

    What is kept for each firing of bands counts as well.
    """
    codes = {t.name: t.code for a in apps for t in a.tasks if isinstance(t.code, OnnxCode | BandsCode | SegmentsCode)}
    files = {file: size for c in codes.values() for file, size in _weights(c)}
    if not codes or None in files.values() or any(c.block is None for c in codes.values()):
        return None
    weights = sum(size or 0 for size in files.values())
    blocks = {name: c.batch * (c.block or 0) for name, c in codes.items()}
    arenas = {name: c.arena for name, c in codes.items() if isinstance(c, BandsCode)}
    largest = max(arenas.values(), default=0)  # a worker takes memory for the largest, whichever it fires
    buffers = 0
    for worker in workers:
        buffers += max((blocks.get(e.task, 0) for e in worker.order), default=0)
        buffers += largest if any(e.task in arenas for e in worker.order) else 0
    buffers += sum(HELD * c.firings for c in codes.values() if isinstance(c, BandsCode))
    return PlannedMemory(weights, buffers, sum(_tokens(a) for a in apps))


def _weights(code: OnnxCode | BandsCode | SegmentsCode) -> list[tuple[str, int | None]]:
    """Files with the bytes of their weights."""
    if isinstance(code, SegmentsCode):
        return [(s.file, s.weights) for s in code.segments]
    return [(code.plan if isinstance(code, BandsCode) else code.file, code.weights)]


def _tokens(app: DeployedApp) -> int:
    ports = {(t.name, p.name): p for t in app.tasks for p in (*t.inputs, *t.outputs)}
    rooms = (_room(c, ports[c.source, c.source_port], ports[c.destination, c.destination_port]) for c in app.channels)
    return sum(rooms) + sum(map(_kept, app.tasks))


def _kept(task: DeployedTask) -> int:
    """Bytes of what waits at the end of an app, or behind a source that goes on by itself."""
    code = task.code
    if isinstance(code, LinkCode):
        if code.end == "take":
            return 0  # it is what was put there
        return (code.keep if code.end == "put" else 1) * sum(map(_bytes, (*task.inputs, *task.outputs)))
    return (task.keep or 0) * sum(max(p.rates) * _bytes(p) for p in task.outputs)


def _room(channel: DeployedChannel, port: DeployedPort, read: DeployedPort) -> int:
    """Bytes of a full channel, and of what a window keeps beside it."""
    return (channel.capacity + max(0, read.window - read.rates[0])) * _bytes(port)


def _bytes(port: DeployedPort) -> int:
    """Of a token; nothing where only data decides on the size."""
    if port.dtype not in DTYPES or min(port.shape, default=0) < 0:
        return 0
    return DTYPES[port.dtype][1] * prod(port.shape)
