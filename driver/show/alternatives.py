"""The common parts of a network's variants: what SBRS would share and when it would switch, and
what flowc does.

In: a valid text. Out: a comparison for each network with variants. SBRS is defined in Minakova's
thesis (analysis.sbrs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from ...analysis import sbrs
from ...model.application import Network
from ...networks.alternatives import alternative
from ...networks.common_weights import parts_in_program
from ...networks.onnx.interface import NetworkError
from ...networks.supergraph import Saved, saved
from ..plan.shared import whole_of
from ..text.check import Valid


@dataclass(frozen=True, slots=True)
class Sharing:
    """Layers and buffers of all variants together, and how many of each are shared.

    `overwritten` are pairs of tensors of one variant that are in one buffer while both are needed.
    """

    layers: int
    buffers: int
    shared_layers: int
    shared_buffers: int
    overwritten: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch between variants: the delays X of the layers, and the steps until the first new
    output, if the switch is requested in the first step. `races` are steps in which layers disturb
    each other."""

    source: str
    target: str
    delays: tuple[int, ...]
    safe_delays: tuple[int, ...]
    steps: int
    safe_steps: int
    steps_in_turn: int
    races: int


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """A network with variants; `layers` and `edges` are the sums over the variants. Bytes are of
    weights."""

    network: str
    variants: tuple[str, ...]
    layers: int
    edges: int
    printed: Sharing
    safe: Sharing
    switches: tuple[Switch, ...]
    weights: Saved


def compared(valid: Valid) -> tuple[VariantComparison, ...]:
    """Every network with variants that can be read layer by layer."""
    networks: dict[str, dict[str, Network]] = {}
    for instance, variant, network in _variants(valid):
        name = network.definition.rpartition(".")[0] or instance
        networks.setdefault(name, {}).setdefault(variant, network)
    comparisons = [_comparison(name, variants) for name, variants in networks.items()]
    return tuple(comparison for comparison in comparisons if comparison is not None)


def _variants(valid: Valid) -> Iterator[tuple[str, str, Network]]:
    for part in (valid, *valid.others):
        tasks = part.tasks
        for app in part.system.apps:
            for instance, variant in app.variants:
                task = tasks.get(f"{instance}.{variant}")
                if task is not None and task.network is not None:
                    yield instance, variant, task.network


def _comparison(name: str, variants: dict[str, Network]) -> VariantComparison | None:
    wholes = [whole_of(n) for n in variants.values()]
    try:
        own = [alternative(v, w) for v, w in zip(variants, wholes, strict=True)]
    except NetworkError:  # without anything to compute, for example
        return None
    printed, apart = sbrs.as_printed(own), sbrs.safe(own)
    return VariantComparison(
        name,
        tuple(variants),
        sum(len(a.layers) for a in own),
        sum(len(a.edges) for a in own),
        _sharing(own, printed),
        _sharing(own, apart),
        tuple(_switch(own, apart, a, b) for a, b in permutations(range(len(own)), 2)),
        saved(wholes, parts_in_program(wholes)),
    )


def _sharing(own: Sequence[sbrs.Alternative], supergraph: sbrs.Supergraph) -> Sharing:
    lost = sum(len(sbrs.overwritten(a, b)) for a, b in zip(own, supergraph.buffer_of, strict=True))
    return Sharing(
        supergraph.layers,
        supergraph.buffers,
        supergraph.shared_layers(),
        supergraph.shared_buffers(),
        lost,
    )


def _merged(
    own: sbrs.Alternative, layer_of: Mapping[str, int]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The layers of a variant in order and its edges, by the names that they have in the
    supergraph."""
    names = {layer: str(number) for layer, number in layer_of.items()}
    order = [names[layer] for layer in own.order]
    return order, [(names[source], names[target]) for source, target in own.edges]


def _switch(own: Sequence[sbrs.Alternative], graph: sbrs.Supergraph, a: int, b: int) -> Switch:
    """Layers of one variant are not merged: with the printed algorithm, some variants would race
    with themselves."""
    old, before = _merged(own[a], graph.layer_of[a])
    new, after = _merged(own[b], graph.layer_of[b])
    waits, kept = sbrs.delays(old, new), sbrs.safe_delays(old, new, before, after)
    printed, apart = (len(sbrs.switch(len(old), len(new), x, 1)) for x in (waits, kept))
    raced = sbrs.races(old, new, before, after, waits, 1)
    return Switch(own[a].name, own[b].name, waits, kept, printed, apart, len(old) + len(new), raced)
