"""Costs of the parts of a network, from a profile.

In: the layers of a network, and its profile on each type of processors. Out: a `Divisible`. Where
layers were not measured on some type, each gets a share of the time of the whole network by its
multiplications: an estimate, and marked as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from ...model.profile import ProfileEntry, TransferCost
from ...networks.onnx.cuts import LayerChain
from .partition import Costs
from .problem import HOP_NS, Divisible

#: A call of the inference library from Python (measured with a network of one layer: 10 to 20 us).
CALL_NS = 20_000
#: A transfer that is in no profile: copying at 5 GB/s, as between the memories of a small board.
UNKNOWN_NS_PER_BYTE = 0.2


def divisible(
    chain: LayerChain,
    entries: Mapping[str, ProfileEntry],
    transfer: Callable[[str, str, int], float],
    barred: Callable[[str, str], bool] = lambda type_, layer: False,
    cut_ns_per_byte: float = 0.0,
) -> Divisible:
    """The network with its times (and energies) by type of processors, without cuts inside fused
    groups.

    Layers that are `barred` from a type of processors cannot run there. A cut costs
    `cut_ns_per_byte` beyond its `transfer`.
    """
    names = tuple(layer.name for layer in chain.layers)
    points = [c for c in chain.cuts() if not chain.fused(c.after)]
    cuts = tuple((c.after + 1, c.bytes) for c in points)
    layers, overhead = {}, {}
    energies: dict[str, list[float]] | None = {}
    for type_, entry in entries.items():
        times, overhead[type_] = _times(chain, entry)
        times = [inf if barred(type_, name) else ns for name, ns in zip(names, times, strict=True)]
        layers[type_] = times
        own = _energies(times, entry)
        if own is None:
            energies = None
        elif energies is not None:
            energies[type_] = own

    def cut(source: str, target: str, count: int) -> float:
        return transfer(source, target, count) + cut_ns_per_byte * count

    costs = Costs(layers, overhead, cuts, cut)
    energy = None
    if energies is not None:
        no_overhead = dict.fromkeys(energies, 0.0)
        energy = Costs(energies, no_overhead, cuts, lambda source, target, count: 0.0)
    return Divisible(names, costs, energy, tuple(c.tensors for c in points))


def _times(chain: LayerChain, entry: ProfileEntry) -> tuple[list[float], float]:
    """The time of each layer and the overhead; their sum is the mean of the network as measured in
    its application.

    The time of an inference beyond its layers is mostly work between them (and of the profiler), so
    that a stage has its share of it; a call of the library is the same for all stages.
    """
    measured = {layer.layer: layer.mean_ns for layer in entry.layers}
    if not measured:
        return [entry.expected_ns * share for share in chain.shares()], 0.0
    call = min(CALL_NS, entry.overhead_ns)
    between = (entry.overhead_ns - call) / len(entry.layers)
    values = [measured.get(layer.name, inf) + between for layer in chain.layers]
    total = sum(values) + call
    scale = entry.expected_ns / total if 0 < total < inf else 1.0
    return [ns * scale for ns in values], call * scale


def _energies(times: list[float], entry: ProfileEntry) -> list[float] | None:
    """Energy per layer in nJ: as measured, or that of the network in proportion to time; None if
    both are unknown."""
    measured = {x.layer: x.energy_nj for x in entry.layers if x.energy_nj is not None}
    if measured and len(measured) == len(entry.layers):
        return [float(energy) for energy in measured.values()]
    if entry.energy_nj is None:
        return None
    whole = sum(t for t in times if t != inf) or 1.0
    return [inf if t == inf else entry.energy_nj * t / whole for t in times]


def transfer_model(
    transfers: Iterable[TransferCost], kinds: Mapping[str, str]
) -> Callable[[str, str, int], float]:
    """The cost of a cut for its receiver in ns, from one type of processors to another: as fitted
    to them, to their kinds, in the other direction, or estimated. `kinds` are those of types."""
    fitted = {(t.source, t.target): t for t in transfers}

    def cost(source: str, target: str, count: int) -> float:
        of_kinds = kinds.get(source, source), kinds.get(target, target)
        for pair in ((source, target), of_kinds):
            t = fitted.get(pair) or fitted.get(pair[::-1])
            if t is not None:
                return t.fixed_ns + t.ns_per_byte * count
        same = of_kinds[0] == of_kinds[1]
        return HOP_NS + (0.0 if same else UNKNOWN_NS_PER_BYTE * count)

    return cost
