"""Costs of the parts of a network, from a profile.

In: the layers of a network, and what a profile says of it on each kind of processor. Out: a
`Divisible`. Where layers were not measured on some kind, the time of the whole is shared out by
multiplications: a guess, and marked as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

from ...model.profile import ProfileEntry, Transfer
from ...networks.onnx.cuts import Chain
from .partition import Costs
from .problem import HOP_NS, Divisible

#: A call of the inference library from Python (measured with a network of one layer: 10 to 20 us).
CALL_NS = 20_000
#: A border that no profile speaks of: copying at 5 GB/s, as between the memories of a small board.
UNKNOWN_NS_PER_BYTE = 0.2


def divisible(
    chain: Chain,
    entries: Mapping[str, ProfileEntry],
    transfers: Iterable[Transfer],
    barred: Callable[[str], bool] = lambda layer: False,
) -> Divisible:
    """The network with its times (and energies) per kind of processor; cuts inside fused groups are
    left out.

    `barred` layers cannot run on a DLA.
    """
    names = tuple(x.name for x in chain.layers)
    points = [c for c in chain.cuts() if not chain.fused(c.after)]
    cuts = tuple((c.after + 1, c.bytes) for c in points)
    layers, overhead = {}, {}
    for kind, entry in entries.items():
        layers[kind], overhead[kind] = _times(chain, entry)
        if kind == "dla":
            layers[kind] = [
                inf if barred(x.name) else ns
                for x, ns in zip(chain.layers, layers[kind], strict=True)
            ]
    transfer = transfer_model(transfers)
    energies = {kind: _energies(layers[kind], entry) for kind, entry in entries.items()}
    known = {kind: values for kind, values in energies.items() if values is not None}
    energy = None
    if len(known) == len(entries):
        energy = Costs(known, dict.fromkeys(known, 0.0), cuts, lambda source, target, count: 0.0)
    return Divisible(
        names, Costs(layers, overhead, cuts, transfer), energy, tuple(c.tensors for c in points)
    )


def _times(chain: Chain, entry: ProfileEntry) -> tuple[list[float], float]:
    """Per layer, and beyond them, together the mean of the whole as it was measured in its
    application.

    What an inference takes beyond its layers is mostly work between them (and the profiler's own),
    so that a stage has its share of it; a call of the library is the same for all.
    """
    measured = {x.layer: x.mean_ns for x in entry.layers}
    if measured:
        call = min(CALL_NS, entry.overhead_ns)
        between = (entry.overhead_ns - call) / len(entry.layers)
        values = [measured[x.name] + between if x.name in measured else inf for x in chain.layers]
        finite = sum(v for v in values if v != inf) + call
        scale = entry.mean_ns / finite if finite and inf not in values else 1.0
        return [v * scale for v in values], call * scale
    return [entry.mean_ns * share for share in chain.shares()], 0.0


def _energies(times: list[float], entry: ProfileEntry) -> list[float] | None:
    """Energy per layer in nJ: as measured, or that of the whole in proportion to time; None where
    nothing is known."""
    own = {x.layer: x.energy_nj for x in entry.layers if x.energy_nj is not None}
    if own and len(own) == len(entry.layers):
        return [float(own.get(x.layer, 0.0) or 0.0) for x in entry.layers]
    if entry.energy_nj is None:
        return None
    whole = sum(t for t in times if t != inf) or 1.0
    return [inf if t == inf else entry.energy_nj * t / whole for t in times]


def transfer_model(transfers: Iterable[Transfer]) -> Callable[[str, str, int], float]:
    """What a cut costs its receiver in ns: as fitted, in the other direction, or a guess."""
    fitted = {(t.source, t.target): t for t in transfers}

    def cost(source: str, target: str, count: int) -> float:
        t = fitted.get((source, target)) or fitted.get((target, source))
        if t is not None:
            return t.fixed_ns + t.ns_per_byte * count
        return HOP_NS + (UNKNOWN_NS_PER_BYTE * count if source != target else 0.0)

    return cost
