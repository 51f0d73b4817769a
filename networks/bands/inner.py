"""What ONNX Runtime holds at most inside of a firing.

In: a unit, and rows of what it makes. Out: bytes. For layers as the model has them it is an
estimate of what ONNX Runtime will make of them; for its own kernels it is what they take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..onnx.executed import IN_PLACE, SAME, ExecutedNode, block
from ..onnx.pattern import in_turn
from ..onnx.scratch import own_bytes
from .net import Band, BandNet, LayerGroup, LayerStep
from .units import BandUnit, made_of

#: Channels of a block, and those that a convolution takes as they are.
BLOCK, DIRECT = 16, 4
#: Bytes, and the number of the last group that needs them.
Taken = tuple[int, int]


class _Span(NamedTuple):
    """From a group to the last one that reads what it makes, by numbers."""

    group: int
    until: int


def inner_bytes(unit: BandUnit, first: int, end: int) -> int:
    """What ONNX Runtime holds at most between the layers of a firing that makes rows [first,
    end)."""
    return unit.inner.of((first, end), _executed if unit.net.blocked else _estimated)


def whole_inner_bytes(unit: BandUnit) -> tuple[int, str]:
    """What it holds between layers that run whole, and a tensor that is made when most is there."""
    if unit.whole is None:
        unit.whole = _executed_whole(unit) if unit.net.blocked else _estimated_whole(unit)
    return unit.whole


def _executed(unit: BandUnit, first: int, end: int) -> int:
    """Of ONNX Runtime's own kernels, with copies of the rows that are cut out of a tensor (see
    `models.py`)."""
    net, rows = unit.net, unit.ranges(first, end)
    kernels: list[ExecutedNode] = []
    cut: set[str] = set()
    for step, readings in unit.readings(first, end):
        reads, over = [], []
        for r in readings:
            tensor = r.read.tensor
            if (r.first, r.end) != rows[tensor]:
                tensor = f"{tensor} {r.first} {r.end}"
                if tensor not in cut:
                    cut.add(tensor)
                    kernels += cut_kernels(net, r.read.tensor, tensor, r.end - r.first)
            reads.append(tensor)
            if r.read.position in IN_PLACE.get(step.operator, ()):
                over.append(tensor)
        out = step.makes[0]
        count = rows[out][1] - rows[out][0]
        own = own_of(net, step, {out: count, **{r.read.tensor: r.end - r.first for r in readings}})
        shape = shape_of(net, out, count)
        kernels.append(
            ExecutedNode(tuple(reads), out, net.bytes(out, count), shape, tuple(over), own=own)
        )
    return block(kernels, {*unit.reads, unit.out})


def own_of(net: BandNet, step: LayerStep, rows: Mapping[str, int]) -> tuple[int, ...]:
    """Bytes that the kernel of a layer takes for itself, with so many rows of what it reads and
    makes."""
    if step.number not in net.busy:
        return ()
    node, shapes = net.busy[step.number]
    return own_bytes(node, {**shapes, **{t: shape_of(net, t, count) for t, count in rows.items()}})


def shape_of(net: BandNet, tensor: str, rows: int) -> tuple[int, ...]:
    """The shape of so many rows of a tensor."""
    shape = net.shapes[tensor]
    return (*shape[:2], rows, *shape[3:]) if len(shape) == 4 else shape


def cut_kernels(net: BandNet, tensor: str, name: str, rows: int) -> list[ExecutedNode]:
    """A Slice, of a tensor in blocks between two Reshapes."""
    if tensor not in net.blocks:
        return [ExecutedNode((tensor,), name, net.bytes(tensor, rows), shape_of(net, tensor, rows))]
    return [
        ExecutedNode((tensor,), f"{name} from", 0, (), same=True),
        ExecutedNode(
            (f"{name} from",), f"{name} to", net.bytes(tensor, rows), net.laid(tensor, rows)
        ),
        ExecutedNode((f"{name} to",), name, 0, (), same=True),
    ]


def _executed_whole(unit: BandUnit) -> tuple[int, str]:
    net = unit.net
    kernels = []
    for step in unit.steps:
        over = tuple(r.tensor for r in step.reads if r.position in IN_PLACE.get(step.operator, ()))
        reads = tuple(r.tensor for r in step.reads)
        own = own_of(net, step, {t: net.height(t) for t in (*reads, *step.makes)})
        for t in step.makes:
            kernels.append(
                ExecutedNode(
                    reads, t, net.bytes(t), net.shapes[t], over, step.operator in SAME, own
                )
            )
            own = ()
    most = max(kernels, key=lambda k: sum(map(net.bytes, k.reads)) + k.bytes)
    return block(kernels, {*unit.reads, *unit.makes, *net.chain.outputs}), most.made


def _estimated(unit: BandUnit, first: int, end: int) -> int:
    """From the layers of the model.

    Groups are kernels, and compute in a layout of blocks of channels: what a convolution takes from
    outside is there twice, so is what goes out, and rows that are cut out of a tensor inside are
    copied.
    """
    firing = _Firing(unit, first, end)
    return in_turn([firing.taken(k) for k in range(len(firing.groups))])


class _Firing:
    """What the groups of a unit are expected to take in a firing, asked for in their order."""

    def __init__(self, unit: BandUnit, first: int, end: int) -> None:
        self._unit, self._net = unit, unit.net
        self._rows = unit.ranges(first, end)
        self.groups = unit.net.groups[unit.first : unit.end]
        self._last = _last_readers(self.groups)
        self._copied: set[str] = set()

    def taken(self, number: int) -> list[Taken]:
        """What group `number` of the unit takes: copies, and its results unless they lie in one."""
        group = self.groups[number]
        until = max((self._last.get(t, number) for t in group.makes), default=number)
        taken: list[Taken] = []
        in_place = False
        for k in group.steps:
            step = self._net.steps[k]
            band = self._rows.get(step.makes[0])
            if band is None:
                continue
            summed = step.operator in ("Add", "Sum") and len(group.steps) > 1
            copies, over = self._copies(step, band, _Span(number, until), summed)
            taken += copies
            in_place = in_place or over
        if not in_place:
            for t in group.makes:
                if t in self._rows:
                    count = _blocked(self._net, t, self._rows[t])
                    taken.append((count, self._last.get(t, number)))
        return taken

    def _copies(
        self, step: LayerStep, band: Band, span: _Span, summed: bool
    ) -> tuple[list[Taken], bool]:
        """The copies that a layer takes for rows `band` of its result.

        Also whether one of them becomes the result: what is `summed` with a convolution.
        """
        net = self._net
        joined = step.operator == "Concat" and any(r.tensor in self._unit.reads for r in step.reads)
        taken: list[Taken] = []
        in_place = False
        for read in step.reads:
            tensor = read.tensor
            a, b, _, _ = read.needs(*band)
            if tensor in self._unit.reads:
                large = step.operator == "Conv" and net.shapes[tensor][1] > DIRECT
                if (summed or large) and tensor not in self._copied:
                    self._copied.add(tensor)
                    last = self._last[tensor]
                    taken.append((_blocked(net, tensor, self._rows[tensor]), max(last, span.until)))
                    in_place = in_place or (summed and last == span.group)
            elif (a, b) != self._rows[tensor]:
                taken.append((net.bytes(tensor, b - a), span.group))
                blocks = _blocked(net, tensor, (a, b))
                taken.append((blocks, span.until if summed else span.group))
                in_place = in_place or summed
            elif joined:
                taken.append((net.bytes(tensor, b - a), span.group))
        if joined:
            # in the plain layout, and then blocked for who reads it
            taken.append((net.bytes(step.makes[0], band[1] - band[0]), span.group + 1))
        return taken, in_place


def _last_readers(groups: Sequence[LayerGroup]) -> dict[str, int]:
    """Per tensor the number of the last group that reads it."""
    last: dict[str, int] = {}
    for number, group in enumerate(groups):
        last |= dict.fromkeys(group.reads, number)
    return last


def _blocked(net: BandNet, tensor: str, band: Band) -> int:
    """Bytes of rows with their channels filled up to whole blocks."""
    shape = net.shapes[tensor]
    if len(shape) != 4:
        return net.bytes(tensor)
    return net.bytes(tensor, band[1] - band[0]) * -(-shape[1] // BLOCK) * BLOCK // shape[1]


def _estimated_whole(unit: BandUnit) -> tuple[int, str]:
    net = unit.net
    groups = net.groups[unit.first : unit.end]
    last = _last_readers(groups)
    copies = _copies_of_inputs(unit, groups)
    copied = set[str]().union(*copies.values())
    apart = {*unit.makes, *net.chain.outputs}
    for number in range(len(groups) - 1, -1, -1):
        group = groups[number]
        if net.steps[group.steps[-1]].operator not in ("Add", "Sum", "Relu"):
            continue
        # What is added to a convolution becomes its result.
        skip = _added(net, group)
        for t in group.makes:
            ends_here = skip in last and last[skip] == number
            if ends_here and (skip in copied or skip not in unit.reads):
                last[skip] = last.get(t, number)
                apart.add(t)
    made: list[list[Taken]] = []
    for number, group in enumerate(groups):
        taken = [(net.bytes(t), last.get(t, number)) for t in group.makes if t not in apart]
        taken += [(net.bytes(t), last[t]) for t in copies.get(number, ())]
        made.append(taken)
    return in_turn(made), net.steps[groups[_fullest(made)].steps[-1]].makes[0]


def _copies_of_inputs(unit: BandUnit, groups: Sequence[LayerGroup]) -> dict[int, list[str]]:
    """Per number of a group the tensors in the plain layout that it copies into blocks."""
    net = unit.net
    copies: dict[int, list[str]] = {}
    for t in unit.reads:  # what others made is in the plain layout
        first = next(k for k, g in enumerate(groups) if t in g.reads)
        convolved = net.steps[groups[first].steps[0]].operator == "Conv" and len(net.shapes[t]) == 4
        if convolved and net.shapes[t][1] > DIRECT:
            copies.setdefault(first, []).append(t)
    return copies


def _fullest(made: Sequence[Sequence[Taken]]) -> int:
    """The number of the first group beside which most is there."""
    there = [0] * len(made)
    for number, taken in enumerate(made):
        for count, until in taken:
            for k in range(number, until + 1):
                there[k] += count
    return there.index(max(there))


def _added(net: BandNet, group: LayerGroup) -> str:
    """What is added to the convolution of a group; empty where nothing is."""
    steps = [net.steps[k] for k in group.steps]
    inside = made_of(steps)
    for step in steps[1:]:
        if step.operator in ("Add", "Sum"):
            for read in step.reads:
                if read.tensor not in inside:
                    return read.tensor
    return ""
