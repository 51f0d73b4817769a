"""What the units that end at one place need for a firing in the middle, each worked out from the
one that is a group shorter.

In: a `BandNet`, a place between its groups and a number of rows. Out: a `FiringNeed` for each unit,
from the shortest on. They are what `units` and `inner` say of a unit; going through all units one
by one takes several times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..onnx.executed import IN_PLACE, ExecutedNode, block
from .inner import cut_kernels, inner_bytes, own_of, shape_of
from .net import Band, BandNet, LayerStep
from .units import BandUnit, unit_of


@dataclass(frozen=True, slots=True)
class Ending:
    """Units that end before group `end` make rows of `out`, of which there are so many, in
    multiples of `factor`.

    The shortest one begins with group `last`.
    """

    end: int
    last: int
    out: str
    rows: int
    factor: int


@dataclass(frozen=True, slots=True)
class FiringNeed:
    """Of a firing: bytes that it reads, makes, holds inside and cuts out of tensors there, and its
    multiplications.

    Of the whole unit: its multiplications, and bytes of its weights.
    """

    first: int
    reads: int
    makes: int
    inner: int
    cut: int
    macs: float
    own_macs: int
    weights: int


def ending(net: BandNet, end: int) -> Ending | None:
    """What units make that end before a group; None: they make nothing that another unit can go on
    with."""
    crossing = _last_crossing(net, end)
    if crossing is None:
        return None
    last, makes = crossing
    out = makes[0]
    named = end == len(net.groups) or net.names is None or out in net.names
    if len(makes) != 1 or len(net.shapes[out]) != 4 or not named:
        return None
    maker = next(net.steps[k] for k in net.groups[last].steps if out in net.steps[k].makes)
    return Ending(end, last, out, net.height(out), maker.factor)


def _last_crossing(net: BandNet, end: int) -> tuple[int, list[str]] | None:
    """The last group before `end` that makes something for what comes behind, and what it makes.

    None if there is no such group, or if one that cannot go by rows comes first.
    """
    for group in range(end - 1, -1, -1):
        if net.why_not(group):
            return None
        makes = _crossing(net, group, end)
        if makes:
            return group, makes
    return None


def _crossing(net: BandNet, group: int, end: int) -> list[str]:
    """What a group makes that is read behind a place."""
    return [t for t in net.groups[group].makes if net.read.get(t, -1) >= end]


def needs(
    net: BandNet, at: Ending, count: int, longest: int, units: dict[Band, BandUnit]
) -> Iterator[FiringNeed]:
    """For so many rows in the middle: of the units with up to so many groups, from the shortest
    on."""
    start = max(0, (at.rows - count) // 2) // at.factor * at.factor
    sweep = _Sweep(net, at, (start, start + count), units)
    for group in range(at.end - 1, at.last, -1):
        sweep.idle(group)
    for first in range(at.last, max(0, at.end - longest) - 1, -1):
        if net.why_not(first) or (first < at.last and _crossing(net, first, at.end)):
            return
        sweep.add(first)
        yield sweep.need(first)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer that is needed, the rows of each tensor that it takes, and its kernel as long as
    nothing is cut."""

    step: LayerStep
    takes: tuple[tuple[str, Band], ...]
    kernel: ExecutedNode


class _Sweep:
    def __init__(self, net: BandNet, at: Ending, band: Band, units: dict[Band, BandUnit]) -> None:
        self.net, self.at, self.band, self.units = net, at, band, units
        self.rows = {at.out: band}
        self.border: set[str] = set()
        self.layers: list[_Layer] = []
        self.macs, self.own_macs, self.weights = 0.0, 0, 0

    def idle(self, group: int) -> None:
        """A group that makes nothing for others."""
        for number in self.net.groups[group].steps:
            self.own_macs += self.net.steps[number].macs
            self.weights += self.net.steps[number].weights

    def add(self, group: int) -> None:
        """One group more, before the others: all who read what it makes are there."""
        self.idle(group)
        for number in reversed(self.net.groups[group].steps):
            self._add(self.net.steps[number])

    def _add(self, step: LayerStep) -> None:
        net, rows, out = self.net, self.rows, step.makes[0]
        band = rows.get(out)
        if band is None:
            return
        factor = step.factor
        if factor > 1:
            band = rows[out] = band[0] // factor * factor, -(-band[1] // factor) * factor
        self.border.discard(out)
        takes = []
        for read in step.reads:
            a, b, _, _ = read.needs(*band)
            old = rows.get(read.tensor)
            if old is None:
                self.border.add(read.tensor)
                rows[read.tensor] = a, b
            else:
                rows[read.tensor] = min(a, old[0]), max(b, old[1])
            takes.append((read.tensor, (a, b)))
        count = band[1] - band[0]
        self.macs += step.macs * count / net.height(out)
        over = tuple(r.tensor for r in step.reads if r.position in IN_PLACE.get(step.operator, ()))
        own = own_of(net, step, {out: count, **{t: b - a for t, (a, b) in takes}})
        reads, shape = tuple(t for t, _ in takes), shape_of(net, out, count)
        kernel = ExecutedNode(reads, out, net.bytes(out, count), shape, over, own=own)
        self.layers.append(_Layer(step, tuple(takes), kernel))

    def need(self, first: int) -> FiringNeed:
        """Of the unit that begins with the group that was added last."""
        net, rows = self.net, self.rows
        reads = sum(net.bytes(t, rows[t][1] - rows[t][0]) for t in self.border)
        kernels: list[ExecutedNode] = []
        cut: dict[tuple[str, Band], str] = {}
        for layer in reversed(self.layers):
            taken = [k for k in layer.takes if k[1] != rows[k[0]]]
            for tensor, band in taken:
                if (tensor, band) not in cut:
                    name = cut[tensor, band] = f"{tensor} {band[0]} {band[1]}"
                    kernels += cut_kernels(net, tensor, name, band[1] - band[0])
            kernels.append(_with_cuts(layer, cut) if taken else layer.kernel)
        if net.blocked:
            inner = block(kernels, {self.at.out})
        else:
            inner = inner_bytes(unit_of(net, first, self.at.end, self.units), *self.band)
        copied = sum(net.bytes(t, b - a) for t, (a, b) in cut)
        made = net.bytes(self.at.out, self.band[1] - self.band[0])
        return FiringNeed(first, reads, made, inner, copied, self.macs, self.own_macs, self.weights)


def _with_cuts(layer: _Layer, cut: dict[tuple[str, Band], str]) -> ExecutedNode:
    """Its kernel, which reads what was cut."""
    names = [cut.get(take, take[0]) for take in layer.takes]
    places = IN_PLACE.get(layer.step.operator, ())
    over = tuple(n for n, r in zip(names, layer.step.reads, strict=True) if r.position in places)
    kernel = layer.kernel
    return ExecutedNode(tuple(names), kernel.made, kernel.bytes, kernel.shape, over, own=kernel.own)
