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

from ..networks.onnx.cuts import ChainedLayer

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
    reported: Sequence[EngineLayer],
    layers: Sequence[ChainedLayer],
    nodes: Mapping[str, Sequence[str]],
) -> dict[str, float]:
    """ns by layer of the model, 0 for layers without reported time; the sum is that of all reported
    times.

    `nodes` has the layers of a node of the model, by its name (names of nodes need not be unique).
    Time without a layer is added to the layers before it, at the start to the first ones.
    """
    groups = _groups(reported, _numbers(layers, nodes))
    times = dict.fromkeys((x.name for x in layers), 0.0)
    group = next(filter(None, groups), [0])
    for layer, own in zip(reported, groups, strict=True):
        group = own or group
        macs = sum(layers[k].macs for k in group)
        for k in group:
            share = layers[k].macs / macs if macs else float(k == group[-1])
            times[layers[k].name] += layer.ns * share
    return times


def share_of_nodes(reported: Sequence[EngineLayer], nodes: Mapping[str, Sequence[str]]) -> float:
    """The share of the time in layers that name a node."""
    pattern = _any_of(nodes)
    own = sum(x.ns for x in reported if _found(x, nodes, pattern))
    whole = sum(x.ns for x in reported)
    return own / (whole or 1.0)


def share_of_network(
    reported: Sequence[EngineLayer],
    layers: Sequence[ChainedLayer],
    nodes: Mapping[str, Sequence[str]],
) -> float:
    """The share of the network's multiplications in reported layers."""
    groups = _groups(reported, _numbers(layers, nodes))
    seen = set[int]().union(*groups)
    whole = sum(x.macs for x in layers)
    return sum(layers[k].macs for k in seen) / whole if whole else 1.0


def _numbers(
    layers: Sequence[ChainedLayer], nodes: Mapping[str, Sequence[str]]
) -> dict[str, list[int]]:
    """The layers of each node, by number."""
    number_of = {x.name: k for k, x in enumerate(layers)}
    found: dict[str, list[int]] = {}
    for node, made in nodes.items():
        found[node] = [number_of[x] for x in made if x in number_of]
    return found


def _groups(reported: Sequence[EngineLayer], known: Mapping[str, Sequence[int]]) -> list[list[int]]:
    """Per layer of an engine the layers of the model that it comes from, by number.

    `known` has those of a node. A piece of nodes has all between its first and its last one, as far
    as no other layer of the engine comes from them.
    """
    pattern = _any_of(known)
    named = []
    elsewhere: set[int] = set()
    for layer in reported:
        own: set[int] = set()
        for node in _found(layer, known, pattern):
            own.update(known[node])
        named.append(sorted(own))
        if not _is_piece(layer, known):
            elsewhere |= own
    groups = []
    for layer, numbers in zip(reported, named, strict=True):
        if numbers and _is_piece(layer, known):
            between = range(numbers[0], numbers[-1] + 1)
            groups.append([k for k in between if k not in elsewhere] or numbers)
        else:
            groups.append(numbers)
    return groups


def _is_piece(layer: EngineLayer, names: Collection[str]) -> bool:
    """Does an engine name only the first and the last node of a layer?"""
    return FOREIGN in layer.name and not any(node in names for node in layer.nodes)


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
