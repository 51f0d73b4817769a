"""The memory and time of a network in bands: its front, searched once, and the bands of a pin.

In: a `Network`. Out: `Choice`s, with the form that this machine runs. Times use the default costs
of bands, not measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...model.application import Network
from ...model.mapping import Bands
from ..onnx.interface import NetworkError
from ..onnx.memory import needs
from .choose import Choice, choice_of, exact, front
from .firings import CannotBand, plan_of
from .made import blocked_of, net_of

_fronts: dict[tuple[object, ...], tuple[Choice, ...]] = {}
_asked: dict[tuple[object, ...], Choice] = {}


def choices_of(network: Network) -> tuple[Choice, ...]:
    """From the least memory to the least time; none where it cannot go in bands."""
    key = _key(network)
    if key not in _fronts:
        whole = needs(network)
        try:
            net, blocked = net_of(network), blocked_of(network)
            plain = None if blocked is None else net
            _fronts[key] = () if whole is None else front(blocked or net, whole, plain=plain)
        except (CannotBand, NetworkError):
            _fronts[key] = ()
    return _fronts[key]


def choice_for(network: Network, bands: Sequence[Bands]) -> Choice:
    """What it takes in these bands. Raises CannotBand, NetworkError."""
    key = *_key(network), tuple(bands)
    if key not in _asked:
        net, blocked = net_of(network), blocked_of(network)
        planned = None
        with suppress(CannotBand):
            planned = None if blocked is None else plan_of(blocked, bands)
        planned = planned or plan_of(net, bands)
        _asked[key] = exact(planned.net, choice_of(planned, tuple(bands)))
    return _asked[key]


def _key(network: Network) -> tuple[object, ...]:
    return network.content_hash, network.path, tuple((t.name, t.type.shape) for t in network.inputs)
