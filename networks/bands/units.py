"""Units: runs of groups of layers that fire together, band by band; what they need inside is computed again.

In: a `Net` and a run of its groups. Out: which rows a firing reads, and what tells firings apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..onnx.memory import in_turn
from .net import Band, Net, Read, Step

#: Channels of a block, and those that a convolution takes as they are.
BLOCK, DIRECT = 16, 4
#: What tells the models of two firings apart: per input of a layer the rows that it takes of what is there.
Kind = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A layer reads rows [first, end) of a tensor, with so many rows of padding above and below."""

    read: Read
    first: int
    end: int
    above: int
    below: int


class Unit:
    """The groups [first, end) of a network. `reads` and `makes` at its border; steps in order."""

    def __init__(self, net: Net, first: int, end: int) -> None:
        self.net, self.first, self.end = net, first, end
        self.steps: tuple[Step, ...] = tuple(
            net.steps[k] for k in sorted(k for g in net.groups[first:end] for k in g.steps)
        )
        inside = {t for s in self.steps for t in s.makes}
        self.reads = tuple(dict.fromkeys(r.tensor for s in self.steps for r in s.reads if r.tensor not in inside))
        self.makes = tuple(t for g in net.groups[first:end] for t in g.makes if net.read.get(t, -1) >= end)
        self.why = next((s.why for s in self.steps if s.why), "")
        self._maker = {t: s for s in self.steps for t in s.makes}
        self._ranges: dict[Band, dict[str, Band]] = {}

    @property
    def out(self) -> str:
        """What it makes, where it makes one tensor."""
        return self.makes[0]

    @property
    def factor(self) -> int:
        """Rows of what it makes come in multiples of it."""
        return self._maker[self.out].factor

    def ranges(self, first: int, end: int) -> dict[str, Band]:
        """The rows of every tensor that are needed for rows [first, end) of what it makes."""
        known = self._ranges.get((first, end))
        if known is not None:
            return known
        rows: dict[str, Band] = {self.out: (first, end)}
        for step in reversed(self.steps):
            band = rows.get(step.makes[0])
            if band is None:
                continue
            if step.factor > 1:
                band = rows[step.makes[0]] = (
                    band[0] // step.factor * step.factor,
                    -(-band[1] // step.factor) * step.factor,
                )
            for read in step.reads:
                a, b, _, _ = read.needs(*band)
                old = rows.get(read.tensor)
                rows[read.tensor] = (a, b) if old is None else (min(a, old[0]), max(b, old[1]))
        self._ranges[first, end] = rows
        return rows

    def readings(self, first: int, end: int) -> list[tuple[Step, list[Reading]]]:
        """Every layer that is needed for rows [first, end), with what it reads."""
        rows = self.ranges(first, end)
        found = []
        for step in self.steps:
            band = rows.get(step.makes[0])
            if band is not None:
                found.append((step, [Reading(r, *r.needs(*band)) for r in step.reads]))
        return found

    def kind(self, first: int, end: int) -> Kind:
        """Firings of one kind have one model."""
        rows = self.ranges(first, end)
        found = []
        for step, reads in self.readings(first, end):
            numbers = [step.number]
            for r in reads:
                a, b = rows[r.read.tensor]
                numbers += [r.first - a, r.end - r.first, b - a, r.above, r.below]
            found.append(tuple(numbers))
        return tuple(found)


def inner_bytes(unit: Unit, first: int, end: int) -> int:
    """An estimate of what ONNX Runtime holds at most between the layers of a firing.

    Groups are kernels, and compute in a layout of blocks of channels: what a convolution takes from outside is there
    twice, so is what goes out, and rows that are cut out of a tensor inside are copied.
    """
    net, rows = unit.net, unit.ranges(first, end)
    groups = net.groups[unit.first : unit.end]
    last = {t: k for k, g in enumerate(groups) for t in g.reads}
    steps = {s.number: s for s in unit.steps}
    copied: set[str] = set()
    made: list[list[tuple[int, int]]] = []
    for k, group in enumerate(groups):
        taken: list[tuple[int, int]] = []
        until = max((last.get(t, k) for t in group.makes), default=k)
        in_place = False
        for number in group.steps:
            step = steps[number]
            band = rows.get(step.makes[0])
            if band is None:
                continue
            outside = any(r.tensor in unit.reads for r in step.reads)
            summed = step.operator in ("Add", "Sum") and len(group.steps) > 1
            for read in step.reads:
                a, b, _, _ = read.needs(*band)
                if read.tensor in unit.reads:
                    if (summed or (step.operator == "Conv" and net.shapes[read.tensor][1] > DIRECT)) and (
                        read.tensor not in copied
                    ):
                        copied.add(read.tensor)
                        taken.append((_blocked(net, read.tensor, rows[read.tensor]), max(last[read.tensor], until)))
                        in_place = in_place or (summed and last[read.tensor] == k)
                elif (a, b) != rows[read.tensor]:
                    taken.append((net.bytes(read.tensor, b - a), k))
                    taken.append((_blocked(net, read.tensor, (a, b)), until if summed else k))
                    in_place = in_place or summed
                elif outside and step.operator == "Concat":
                    taken.append((net.bytes(read.tensor, b - a), k))
            if outside and step.operator == "Concat":  # in the plain layout, and then blocked for who reads it
                taken.append((net.bytes(step.makes[0], band[1] - band[0]), k + 1))
        if not in_place:
            taken += [(_blocked(net, t, rows[t]), last.get(t, k)) for t in group.makes if t in rows]
        made.append(taken)
    return in_turn(made)


def _blocked(net: Net, tensor: str, band: Band) -> int:
    """Bytes of rows with their channels filled up to whole blocks."""
    shape = net.shapes[tensor]
    if len(shape) != 4:
        return net.bytes(tensor)
    return net.bytes(tensor, band[1] - band[0]) * -(-shape[1] // BLOCK) * BLOCK // shape[1]


def macs(unit: Unit, first: int, end: int) -> float:
    """Multiplications of a firing."""
    rows = unit.ranges(first, end)
    total = 0.0
    for step in unit.steps:
        band = rows.get(step.makes[0])
        if band is not None and step.macs:
            total += step.macs * (band[1] - band[0]) / unit.net.height(step.makes[0])
    return total


def unit_of(net: Net, first: int, end: int, known: dict[Band, Unit] | None = None) -> Unit:
    """The unit of groups [first, end), made once."""
    if known is None:
        return Unit(net, first, end)
    if (first, end) not in known:
        known[first, end] = Unit(net, first, end)
    return known[first, end]
