"""A network in the bands that a text asks for: plans and models, made once.

In: a `Network` of a text and its `Bands`. Out: `Forms`: plain models of ONNX, which run anywhere,
and where this machine's ONNX Runtime has a blocked layout, its own kernels. What cannot be done is
a `CannotBand`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.files import scratch
from ...model.mapping import Bands
from ..onnx.whole import whole_of
from .blocked import initializers, read_blocked
from .firings import BandFiring, BandPlan, CannotBand, plan_of
from .inner import inner_bytes, whole_inner_bytes
from .models import models
from .net import BandNet, read_net


@dataclass(frozen=True, slots=True)
class Made:
    """`which[i]` is the model that call i of the plan runs.

    `blocks`: bytes that ONNX Runtime holds inside of each model.
    """

    plan: BandPlan
    models: tuple[bytes, ...]
    which: tuple[int, ...]
    blocks: tuple[int, ...]

    @property
    def block(self) -> int:
        """The most that ONNX Runtime holds in a firing."""
        return max(self.blocks, default=0)


@dataclass(frozen=True, slots=True)
class Forms:
    """The `plain` form, and the `blocked` one, or `why` there is none. `shared` are weights that
    several models read.

    `used` is the one that this machine runs.
    """

    plain: Made
    blocked: Made | None = None
    shared: tuple[str, ...] = ()
    why: str = ""

    @property
    def used(self) -> Made:
        """What this machine runs."""
        return self.blocked or self.plain


_nets: dict[tuple[object, ...], BandNet] = {}
_blocked: dict[tuple[object, ...], BandNet | None] = {}
_made: dict[tuple[object, ...], Forms] = {}


def net_of(network: Network) -> BandNet:
    """A network of a text, by rows. Raises CannotBand, NetworkError."""
    if any(min(t.type.shape, default=1) < 1 for t in (*network.inputs, *network.outputs)):
        raise CannotBand("F527", "its sizes depend on data", "leave `bands` out")
    shapes = {t.name: t.type.shape for t in network.inputs}
    key = network.content_hash, network.path, tuple(sorted(shapes.items()))
    if key not in _nets:
        if network.model:
            with scratch() as folder:
                path = folder / Path(network.file).name
                path.write_bytes(network.model)
                _nets[key] = read_net(path, shapes)
        else:
            _nets[key] = read_net(Path(network.path), shapes)
    return _nets[key]


def blocked_of(network: Network) -> BandNet | None:
    """The same as this machine's ONNX Runtime executes it, if it does so in blocks. Raises as
    `net_of`.
    """
    net = net_of(network)
    key = network.content_hash, network.path, tuple(net.shapes.items())
    if key not in _blocked:
        _blocked[key] = read_blocked(net)
    return _blocked[key]


def made(network: Network, bands: Sequence[Bands]) -> Forms:
    """The plans and the models. Raises CannotBand, NetworkError."""
    net = net_of(network)
    key = network.content_hash, network.path, tuple(net.shapes.items()), tuple(bands)
    if key not in _made:
        _made[key] = forms(net, blocked_of(network), bands)
    return _made[key]


def forms(net: BandNet, blocked: BandNet | None, bands: Sequence[Bands]) -> Forms:
    """Both forms of a network in some bands. Raises CannotBand."""
    if blocked is None:
        return Forms(
            as_made(net, bands),
            why="ONNX Runtime has no blocks for it here, or none that bands can follow",
        )
    try:
        own = as_made(blocked, bands)
    except CannotBand as error:
        return Forms(as_made(net, bands), why=error.message)
    return Forms(as_made(net, bands, asked=False), own, shared_weights(own))


def as_made(net: BandNet, bands: Sequence[Bands], *, asked: bool = True) -> Made:
    """One form, with what ONNX Runtime holds inside of its firings. Raises CannotBand.

    The sizes of its own kernels are known. Plain models are `asked`, since their kernels are not
    known beforehand.
    """
    planned = plan_of(net, bands)
    contents, which = models(net, tuple(c.firing for c in planned.calls))
    blocks = _blocks(planned, which, len(contents))
    if asked and not net.blocked:
        blocks = tuple(_asked(m, block) for m, block in zip(contents, blocks, strict=True))
    return Made(planned, contents, which, blocks)


def _asked(model: bytes, estimate: int) -> int:
    """What ONNX Runtime holds inside of a model; as estimated where its graph is not understood."""
    import onnx

    whole = whole_of(onnx.load_model_from_string(model))
    return estimate if whole is None else whole.block


def _blocks(planned: BandPlan, which: Sequence[int], count: int) -> tuple[int, ...]:
    """By the rules of the planner."""
    blocks = [0] * count
    for call, model in zip(planned.calls, which, strict=True):
        blocks[model] = max(blocks[model], _block(call.firing))
    return tuple(blocks)


def _block(firing: BandFiring) -> int:
    if firing.band is None:
        return whole_inner_bytes(firing.unit)[0]
    return inner_bytes(firing.unit, *firing.band)


def shared_weights(made: Made) -> tuple[str, ...]:
    """The weights of the network that several models have."""
    weights = {w.name for w in made.plan.net.model.graph.initializer}
    count: Counter[str] = Counter()
    for model in made.models:
        count.update(initializers(model) & weights)
    return tuple(sorted(name for name, models in count.items() if models > 1))
