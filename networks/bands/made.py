"""A network in the bands that a text asks for: its plan and its models, made once.

In: a `Network` of a text and its `Bands`. Out: `Made`; what cannot be done is a `CannotBand`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.mapping import Bands
from ..onnx.memory import weights_of
from .firings import CannotBand, Plan, plan, segments_of
from .models import models
from .net import Net, read_net

#: Seconds for each way to place memory better than by quick rules.
PLACING = 1.0


@dataclass(frozen=True, slots=True)
class Made:
    """`which[i]` is the model that call i of the plan runs; `weights` are bytes, copies in several models counted."""

    plan: Plan
    models: tuple[bytes, ...]
    which: tuple[int, ...]
    weights: int


_nets: dict[tuple[object, ...], Net] = {}
_made: dict[tuple[object, ...], Made] = {}


def net_of(network: Network) -> Net:
    """A network of a text, by rows. Raises CannotBand, NetworkError."""
    shapes = {t.name: t.type.shape for t in network.inputs}
    if any(min(s, default=1) < 1 for s in (*shapes.values(), *(t.type.shape for t in network.outputs))):
        raise CannotBand("F527", "its sizes depend on data", "leave `bands` out")
    key = network.content_hash, network.path, tuple(sorted(shapes.items()))
    if key not in _nets:
        if network.model:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / Path(network.file).name
                path.write_bytes(network.model)
                _nets[key] = read_net(path, shapes)
        else:
            _nets[key] = read_net(Path(network.path), shapes)
    return _nets[key]


def made(network: Network, bands: Sequence[Bands]) -> Made:
    """The plan and the models. Raises CannotBand, NetworkError."""
    import onnx

    net = net_of(network)
    key = network.content_hash, network.path, tuple(net.shapes.items()), tuple(bands)
    if key not in _made:
        planned = planned_of(net, bands)
        contents, which = models(net, tuple(c.firing for c in planned.calls))
        _made[key] = Made(planned, contents, which, sum(weights_of(onnx.load_model_from_string(m)) for m in contents))
    return _made[key]


def planned_of(net: Net, bands: Sequence[Bands], seconds: float = PLACING) -> Plan:
    """The plan alone. Raises CannotBand."""
    lost = [t for t in net.chain.outputs if net.made.get(t, -1) < 0]
    if lost:
        raise CannotBand("F527", f"output `{lost[0]}` is an input or a constant", "leave `bands` out", lost[0])
    return plan(net, segments_of(net, bands), seconds=seconds)
