"""A network in the bands that a text asks for: plans and models, made once.

In: a `Network` of a text and its `Bands`. Out: `Forms`: plain models of ONNX, which run anywhere, and where this
machine's ONNX Runtime has a blocked layout, its own kernels. What cannot be done is a `CannotBand`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network
from ...model.files import scratch
from ...model.mapping import Bands
from ..onnx.executed import block_of_model
from ..onnx.memory import weights_of
from .blocked import read_blocked
from .firings import CannotBand, Plan, plan, segments_of
from .inner import inner_bytes, whole_inner_bytes
from .models import models
from .net import Net, read_net

#: Seconds for each way to place memory better than by quick rules.
PLACING = 1.0
#: Bytes that ONNX Runtime 1.31 and 1.32 keep for a session and for each of its nodes, in plain models and in those of
#: its own graph: fitted to what malloc counted for 34 plans of six networks, right to 6 %.
KEPT = (71_000, 8_600), (19_000, 9_800)


@dataclass(frozen=True, slots=True)
class Made:
    """`which[i]` is the model that call i of the plan runs.

    In bytes: `weights`, and `blocks` for each model, what ONNX Runtime holds inside of it. All models together have so
    many `nodes`.
    """

    plan: Plan
    models: tuple[bytes, ...]
    which: tuple[int, ...]
    weights: int
    blocks: tuple[int, ...]
    nodes: int = 0

    @property
    def block(self) -> int:
        """The most that ONNX Runtime holds in a firing."""
        return max(self.blocks, default=0)

    @property
    def sessions(self) -> int:
        """Bytes that ONNX Runtime keeps for the sessions of all models, beside their weights.

        What it would keep for one of the whole network is not in it: every network has that.
        """
        session, node = KEPT[self.plan.net.blocked]
        more = self.nodes - len(self.plan.net.model.graph.node)
        return max(0, session * (len(self.models) - 1) + node * more)


@dataclass(frozen=True, slots=True)
class Forms:
    """The `plain` form, and the `blocked` one, or `why` there is none. `shared` are weights that several models read.

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


_nets: dict[tuple[object, ...], Net] = {}
_blocked: dict[tuple[object, ...], Net | None] = {}
_made: dict[tuple[object, ...], Forms] = {}


def net_of(network: Network) -> Net:
    """A network of a text, by rows. Raises CannotBand, NetworkError."""
    shapes = {t.name: t.type.shape for t in network.inputs}
    if any(min(s, default=1) < 1 for s in (*shapes.values(), *(t.type.shape for t in network.outputs))):
        raise CannotBand("F527", "its sizes depend on data", "leave `bands` out")
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


def blocked_of(network: Network) -> Net | None:
    """The same as this machine's ONNX Runtime executes it, if it does so in blocks. Raises as `net_of`."""
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


def forms(net: Net, blocked: Net | None, bands: Sequence[Bands], seconds: float = PLACING) -> Forms:
    """Both forms of a network in some bands. Raises CannotBand."""
    if blocked is None:
        return Forms(
            _plain(net, bands, seconds, exact=True),
            why="ONNX Runtime has no blocks for it here, or none that bands can follow",
        )
    try:
        found = as_planned(blocked, bands, seconds)
    except CannotBand as error:
        return Forms(_plain(net, bands, seconds, exact=True), why=error.message)
    return Forms(_plain(net, bands, seconds, exact=False), found, shared_weights(found))


def as_planned(net: Net, bands: Sequence[Bands], seconds: float = PLACING) -> Made:
    """One form, with what its firings take as planned. Raises CannotBand."""
    import onnx

    planned = planned_of(net, bands, seconds)
    contents, which = models(net, tuple(c.firing for c in planned.calls))
    blocks = _blocks(planned, which, len(contents))
    nodes = sum(len(onnx.load_model_from_string(m).graph.node) for m in contents)
    return Made(planned, contents, which, planned.weights, blocks, nodes)


def _plain(net: Net, bands: Sequence[Bands], seconds: float, *, exact: bool) -> Made:
    """In the models' own layers; what ONNX Runtime takes inside of them is asked for where it has to be `exact`."""
    import onnx

    planned = planned_of(net, bands, seconds)
    contents, which = models(net, tuple(c.firing for c in planned.calls))
    blocks = _blocks(planned, which, len(contents))
    if exact:
        asked = map(block_of_model, contents)
        blocks = tuple(b if found is None else found for b, found in zip(blocks, asked, strict=True))
    models_made = [onnx.load_model_from_string(m) for m in contents]
    weights, nodes = sum(map(weights_of, models_made)), sum(len(m.graph.node) for m in models_made)
    return Made(planned, contents, which, weights, blocks, nodes)


def _blocks(planned: Plan, which: Sequence[int], count: int) -> tuple[int, ...]:
    """By the rules of the planner."""
    found = [0] * count
    for call, model in zip(planned.calls, which, strict=True):
        firing = call.firing
        inner = whole_inner_bytes(firing.unit)[0] if firing.band is None else inner_bytes(firing.unit, *firing.band)
        found[model] = max(found[model], inner)
    return tuple(found)


def shared_weights(made: Made) -> tuple[str, ...]:
    """The weights of the network that several models have."""
    import onnx

    weights = {w.name for w in made.plan.net.model.graph.initializer}
    count = Counter(
        w.name for m in made.models for w in onnx.load_model_from_string(m).graph.initializer if w.name in weights
    )
    return tuple(sorted(name for name, n in count.items() if n > 1))


def planned_of(net: Net, bands: Sequence[Bands], seconds: float = PLACING) -> Plan:
    """The plan alone. Raises CannotBand."""
    lost = [t for t in net.chain.outputs if net.made.get(t, -1) < 0]
    if lost:
        raise CannotBand("F527", f"output `{lost[0]}` is an input or a constant", "leave `bands` out", lost[0])
    return plan(net, segments_of(net, bands), seconds=seconds)


def plan_here(network: Network, bands: Sequence[Bands]) -> Plan:
    """The plan of the form that this machine runs, placed by quick rules. Raises CannotBand, NetworkError."""
    blocked = blocked_of(network)
    if blocked is not None:
        with suppress(CannotBand):
            return planned_of(blocked, bands, 0.0)
    return planned_of(net_of(network), bands, 0.0)
