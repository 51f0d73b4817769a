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

from ..model.application import Application, Network, Port
from ..model.diagnostic import Diagnostic
from ..model.platform import Platform
from ..model.types import DTYPES
from ..networks.onnx.memory import needs

#: What a process takes with Python, numpy and ONNX Runtime before any network, in bytes.
BASE = 50_000_000


def memory_of(platform: Platform) -> int | None:
    """The memory of its CPUs in bytes; None if not declared."""
    pools = [p for p in platform.pools if p.kind == "cpu" and p.memory_bytes]
    return sum(p.memory_bytes for p in pools) if pools else None


def room_for(network: Network, apps: Iterable[Application], platform: Platform) -> int | None:
    """Bytes that the CPUs have for one network at most: beside it are tokens, and weights of other
    networks.

    None if it is not declared, or if some other processor may have these.
    """
    limit = memory_of(platform)
    if limit is None or any(p.kind != "cpu" for p in platform.pools):
        return None
    apps = list(apps)
    others = {n.content_hash: n for a in apps for t in a.tasks if (n := t.network) is not None}
    others.pop(network.content_hash, None)
    weights = sum(found.weights for n in others.values() if (found := needs(n)) is not None)
    return limit - BASE - weights - sum(map(_least_tokens, apps))


def too_little(apps: Iterable[Application], platform: Platform) -> Diagnostic | None:
    """The error that networks fit into no program; None where some other processor may have
    them.
    """
    limit = memory_of(platform)
    if limit is None or any(p.kind != "cpu" for p in platform.pools):
        return None
    apps = list(apps)
    tasks = [t.network for a in apps for t in a.tasks if t.network is not None]
    # Networks that are converted to 8 bits have other weights than their files.
    networks = {n.content_hash: n for n in tasks if n.precision not in ("int8", "fp16")}
    tokens = sum(map(_least_tokens, apps)) if networks else 0
    if tokens + BASE + sum(map(_file_bytes, networks.values())) <= limit:
        return None
    weights = sum(found.weights for n in networks.values() if (found := needs(n)) is not None)
    if tokens + BASE + weights <= limit:
        return None
    message = (
        f"weights of {_mb(weights)} and tokens of {_mb(tokens)} beside {_mb(BASE)} for Python and"
        " libraries"
    )
    message += f" do not fit into the {_mb(limit)} of `{platform.name}`"
    help_text = "take smaller networks, or correct `memory` of the platform"
    return Diagnostic("F521", message, platform.span, help=help_text)


def _file_bytes(network: Network) -> int:
    """An upper bound of the weights, without reading them."""
    if network.model:
        return len(network.model)
    folder = Path(network.path).parent
    try:
        return sum(
            os.path.getsize(p)
            for p in (Path(network.path), *(folder / name for name in network.external))
        )
    except OSError:
        return 0


def _least_tokens(app: Application) -> int:
    """Bytes that channels hold at least: what their source makes in a firing, or their reader
    takes.
    """
    found = 0
    for c in app.channels:
        source, reader = (
            app.task(c.source).port(c.source_port),
            app.task(c.destination).port(c.destination_port),
        )
        found += max(*source.rates, *reader.rates, c.delay) * _bytes(source)
    return found


def _bytes(port: Port) -> int:
    if port.type is None or port.type.dtype not in DTYPES or min(port.type.shape, default=0) < 0:
        return 0
    return int(DTYPES[port.type.dtype][1] * prod(port.type.shape))


def _mb(count: int) -> str:
    return f"{count / 1e6:.4g} MB"
