"""Units: runs of groups of layers that fire together, band by band; what they need inside is
computed again.

In: a `BandNet` and a run of its groups. Out: which rows a firing reads, and what tells firings
apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from .net import Band, BandNet, LayerStep, Read

#: What tells the models of two firings apart: per input of a layer the rows that it takes of what
#: is there.
Kind = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A layer reads rows [first, end) of a tensor, with so many rows of padding above and below."""

    read: Read
    first: int
    end: int
    above: int
    below: int


T = TypeVar("T")


class KnownFirings(Generic[T]):
    """What was worked out for some firings of a unit: those of one kind have the same."""

    def __init__(self, unit: BandUnit) -> None:
        self._unit = unit
        self._kinds: dict[Kind, T] = {}
        self._bands: dict[Band, T] = {}

    def of(self, band: Band, work_out: Callable[[BandUnit, int, int], T]) -> T:
        """For rows `band` of what the unit makes."""
        if band not in self._bands:
            kind = self._unit.kind(*band)
            if kind not in self._kinds:
                self._kinds[kind] = work_out(self._unit, *band)
            self._bands[band] = self._kinds[kind]
        return self._bands[band]


class BandUnit:
    """The groups [first, end) of a network. `reads` and `makes` at its border; steps in order."""

    def __init__(self, net: BandNet, first: int, end: int) -> None:
        self.net, self.first, self.end = net, first, end
        groups = net.groups[first:end]
        numbers = sorted(chain.from_iterable(g.steps for g in groups))
        self.steps: tuple[LayerStep, ...] = tuple(net.steps[k] for k in numbers)
        self.reads = _read_from_outside(self.steps)
        makes = chain.from_iterable(g.makes for g in groups)
        self.makes = tuple(t for t in makes if net.read.get(t, -1) >= end)
        self.why = next((s.why for s in self.steps if s.why), "")
        #: Rows of what it makes come in multiples of `factor`; `out` is that, where it makes one
        #: tensor.
        self.out = self.makes[0] if self.makes else ""
        self.factor = next((s.factor for s in self.steps if self.out in s.makes), 1)
        #: What each layer makes with its multiplications and its rows, where it has any.
        self.worked = [(s.makes[0], s.macs, net.height(s.makes[0])) for s in self.steps if s.macs]
        self._backwards = [(s.makes[0], s.factor, s.reads) for s in reversed(self.steps)]
        self._ranges: dict[Band, dict[str, Band]] = {}
        self._kinds: dict[Band, Kind] = {}
        #: What ONNX Runtime holds in firings, and what it cuts out of tensors inside of them.
        self.inner: KnownFirings[int] = KnownFirings(self)
        self.cut: KnownFirings[int] = KnownFirings(self)
        #: What it holds where the unit runs whole, and the tensor that dictates it.
        self.whole: tuple[int, str] | None = None

    def ranges(self, first: int, end: int) -> dict[str, Band]:
        """The rows of every tensor that are needed for rows [first, end) of what it makes."""
        known = self._ranges.get((first, end))
        if known is not None:
            return known
        rows: dict[str, Band] = {self.out: (first, end)}
        for made, factor, reads in self._backwards:
            band = rows.get(made)
            if band is None:
                continue
            if factor > 1:
                band = rows[made] = band[0] // factor * factor, -(-band[1] // factor) * factor
            for read in reads:
                a, b, _, _ = read.needs(*band)
                old = rows.get(read.tensor)
                rows[read.tensor] = (a, b) if old is None else (min(a, old[0]), max(b, old[1]))
        self._ranges[first, end] = rows
        return rows

    def readings(self, first: int, end: int) -> list[tuple[LayerStep, list[Reading]]]:
        """Every layer that is needed for rows [first, end), with what it reads."""
        rows = self.ranges(first, end)
        needed = []
        for step in self.steps:
            band = rows.get(step.makes[0])
            if band is not None:
                needed.append((step, [Reading(r, *r.needs(*band)) for r in step.reads]))
        return needed

    def kind(self, first: int, end: int) -> Kind:
        """Firings of one kind have one model."""
        known = self._kinds.get((first, end))
        if known is not None:
            return known
        rows = self.ranges(first, end)
        layers = []
        for step, reads in self.readings(first, end):
            numbers = [step.number]
            for r in reads:
                a, b = rows[r.read.tensor]
                numbers += [r.first - a, r.end - r.first, b - a, r.above, r.below]
            layers.append(tuple(numbers))
        self._kinds[first, end] = tuple(layers)
        return self._kinds[first, end]


def cut_bytes(unit: BandUnit, first: int, end: int) -> int:
    """Bytes of the rows that layers take out of tensors inside of a firing, which copies them (see
    `models.py`)."""
    return unit.cut.of((first, end), _cut_bytes)


def _cut_bytes(unit: BandUnit, first: int, end: int) -> int:
    return sum(unit.net.bytes(tensor, b - a) for tensor, a, b in cuts_of(unit, first, end))


def made_of(steps: Iterable[LayerStep]) -> set[str]:
    """The tensors that layers make."""
    return set(chain.from_iterable(s.makes for s in steps))


def _read_from_outside(steps: Sequence[LayerStep]) -> tuple[str, ...]:
    """The tensors that layers read and do not make, in the order in which they are read."""
    inside = made_of(steps)
    reads = chain.from_iterable(s.reads for s in steps)
    return tuple(dict.fromkeys(r.tensor for r in reads if r.tensor not in inside))


def cuts_of(unit: BandUnit, first: int, end: int) -> set[tuple[str, int, int]]:
    """Tensors with the rows that layers take out of them inside of a firing."""
    rows = unit.ranges(first, end)
    cuts = set()
    for _, readings in unit.readings(first, end):
        for r in readings:
            if (r.first, r.end) != rows[r.read.tensor]:
                cuts.add((r.read.tensor, r.first, r.end))
    return cuts


def macs(unit: BandUnit, first: int, end: int) -> float:
    """Multiplications of a firing."""
    rows = unit.ranges(first, end)
    total = 0.0
    for made, count, height in unit.worked:
        band = rows.get(made)
        if band is not None:
            total += count * (band[1] - band[0]) / height
    return total


def unit_of(
    net: BandNet, first: int, end: int, known: dict[Band, BandUnit] | None = None
) -> BandUnit:
    """The unit of groups [first, end), made once."""
    if known is None:
        return BandUnit(net, first, end)
    if (first, end) not in known:
        known[first, end] = BandUnit(net, first, end)
    return known[first, end]
