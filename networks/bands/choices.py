"""The front of a network of a text, searched once.

In: a `Network`. Out: its `Choice`s, as `choose` finds them where nobody has measured what bands cost; none where it
cannot go in bands.
"""

from __future__ import annotations

from ...model.application import Network
from ..onnx.interface import NetworkError
from .choose import Choice, front
from .firings import CannotBand
from .made import blocked_of, net_of

_known: dict[tuple[object, ...], tuple[Choice, ...]] = {}


def choices_of(network: Network) -> tuple[Choice, ...]:
    """From the least memory to the least time."""
    key = network.content_hash, network.path, tuple((t.name, t.type.shape) for t in network.inputs)
    if key not in _known:
        try:
            net, blocked = net_of(network), blocked_of(network)
            _known[key] = front(blocked or net, plain=None if blocked is None else net)
        except (CannotBand, NetworkError):
            _known[key] = ()
    return _known[key]
