"""Checks before mapping that the memory of a platform's CPUs is sufficient for a text's networks.

In: apps and a platform. Out: an error if a lower bound for all programs is too large: weights, each
file once, and a full firing of tokens on every channel. Buffers between layers are known when a
program is built.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from pathlib import Path

from ..model.application import Application, Network, Port, all_tasks
from ..model.diagnostic import Diagnostic
from ..model.platform import Platform
from ..model.quantity import in_bytes
from ..model.types import DTYPES
from ..networks.onnx.memory import needs, weights_alone

#: What a process takes with Python, numpy and ONNX Runtime before any network, in bytes.
BASE = 50_000_000


def declared_memory(platform: Platform) -> int | None:
    """The memory of its CPUs in bytes; None if not declared."""
    pools = [p for p in platform.pools if p.kind == "cpu" and p.memory_bytes]
    return sum(p.memory_bytes for p in pools) if pools else None


def room_for(network: Network, apps: Iterable[Application], platform: Platform) -> int | None:
    """Bytes that the CPUs have for one network at most: beside it are tokens, and weights of other
    networks.

    None if it is not declared, or if some other processor may have these.
    """
    limit = declared_memory(platform)
    if limit is None or any(p.kind != "cpu" for p in platform.pools):
        return None
    apps = list(apps)
    others = {other.content_hash: other for other in _networks(apps)}
    others.pop(network.content_hash, None)
    return limit - BASE - _weights(others.values()) - sum(map(_least_tokens, apps))


def _networks(apps: Iterable[Application]) -> list[Network]:
    """The networks of all tasks; one may be there several times."""
    return [task.network for task in all_tasks(apps) if task.network is not None]


def _weights(networks: Iterable[Network]) -> int:
    """The bytes of their weights, as far as these are known."""
    total = 0
    for network in networks:
        memory = needs(network)
        if memory is not None:
            total += memory.weights
        elif network.one_piece:
            total += weights_alone(network)
    return total


def too_little(apps: Iterable[Application], platform: Platform) -> Diagnostic | None:
    """The error that networks fit into no program; None where some other processor may have
    them.
    """
    limit = declared_memory(platform)
    if limit is None or any(p.kind != "cpu" for p in platform.pools):
        return None
    apps = list(apps)
    # Networks that are converted to 8 bits have other weights than their files.
    converted = ("int8", "fp16")
    networks = {n.content_hash: n for n in _networks(apps) if n.precision not in converted}
    tokens = sum(map(_least_tokens, apps)) if networks else 0
    if tokens + BASE + sum(map(_file_bytes, networks.values())) <= limit:
        return None
    weights = _weights(networks.values())
    if tokens + BASE + weights <= limit:
        return None
    message = (
        f"weights of {in_bytes(weights)} and tokens of {in_bytes(tokens)} beside {in_bytes(BASE)}"
        " for Python and"
        f" libraries do not fit into the {in_bytes(limit)} of `{platform.name}`"
    )
    help_text = "take smaller networks, or correct `memory` of the platform"
    return Diagnostic("F521", message, platform.span, help=help_text)


def _file_bytes(network: Network) -> int:
    """An upper bound of the weights, without reading them."""
    if network.model:
        return len(network.model)
    path = Path(network.path)
    files = [path, *(path.parent / name for name in network.external)]
    try:
        return sum(os.path.getsize(file) for file in files)
    except OSError:
        return 0


def _least_tokens(app: Application) -> int:
    """Bytes that channels hold at least: what their source makes in a firing, or their reader
    takes.
    """
    total = 0
    for channel in app.channels:
        source = app.task(channel.source).port(channel.source_port)
        reader = app.task(channel.destination).port(channel.destination_port)
        total += max(*source.rates, *reader.rates, channel.delay) * _bytes(source)
    return total


def _bytes(port: Port) -> int:
    if port.type is None or port.type.dtype not in DTYPES or min(port.type.shape, default=0) < 0:
        return 0
    return int(DTYPES[port.type.dtype][1] * prod(port.type.shape))
