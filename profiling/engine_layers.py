"""Times of a network's layers on a GPU or DLA, from TensorRT's times of the layers of its engine.

In: the layers of a model, and the output of `profile_engines.py`. Out: times by layer. An engine's
layer comes from several of the model, or from none (it converts between layouts); a piece on a DLA
is one layer. The time of several layers is distributed by multiplications; without any, the last
one gets it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..networks.onnx.cuts import Link

#: A piece of nodes is named after its first and its last node.
FOREIGN = "{ForeignNode["


@dataclass(frozen=True, slots=True)
class EngineLayer:
    """A layer of an engine, and the nodes of the model that it comes from, if the engine knows
    them."""

    name: str
    ns: float
    nodes: tuple[str, ...] = ()


def led_back(
    reported: Sequence[EngineLayer], layers: Sequence[Link], nodes: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """ns by layer of the model, 0 for layers without reported time; the sum is that of all reported
    times.

    `nodes` has the layers of a node of the model, by its name (names of nodes need not be unique).
    Time without a layer is added to the layers before it, at the start to the first ones.
    """
    place = {x.name: k for k, x in enumerate(layers)}
    known = {name: [place[x] for x in made if x in place] for name, made in nodes.items()}
    pattern = _any_of(known)
    named = [sorted({k for n in _found(x, known, pattern) for k in known[n]}) for x in reported]
    pieces = [FOREIGN in x.name and known.keys().isdisjoint(x.nodes) for x in reported]
    elsewhere = {k for own, piece in zip(named, pieces, strict=True) if not piece for k in own}
    times = dict.fromkeys(place, 0.0)
    group = next((own for own in named if own), [0])
    for x, own, piece in zip(reported, named, pieces, strict=True):
        if own and piece:
            own = [k for k in range(own[0], own[-1] + 1) if k not in elsewhere] or own
        group = own or group
        macs = sum(layers[k].macs for k in group)
        for k in group:
            share = layers[k].macs / macs if macs else float(k == group[-1])
            times[layers[k].name] += x.ns * share
    return times


def _found(layer: EngineLayer, names: Collection[str], pattern: re.Pattern[str]) -> list[str]:
    """The names of nodes in an engine's layer: from its data, else from its name (`a + b`,
    `{ForeignNode[a...b]}`)."""
    own = [n for n in layer.nodes if n in names]
    text = re.sub(r"^Reformatting CopyNode for (In|Out)put Tensor \d+ to ", "", layer.name)
    return own or pattern.findall(text)


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Matches any of these names, as a whole. An adjacent dot would belong to another name, unless
    it is one of three."""
    longest_first = sorted((re.escape(n) for n in names if n), key=len, reverse=True)
    any_name = "|".join(longest_first) or "(?!)"
    before = r"(?<![\w/:-])(?<!(?<!\.\.)\.)"
    after = r"(?![\w/:-]|\.(?!\.\.))"
    return re.compile(f"{before}(?:{any_name}){after}")
