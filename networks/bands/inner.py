"""What ONNX Runtime holds at most inside of a firing.

In: a unit, and rows of what it makes. Out: bytes. For layers as the model has them it is an
estimate of what ONNX Runtime will make of them; for its own kernels it is what they take.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..onnx.executed import IN_PLACE, SAME, Kernel, block
from ..onnx.pattern import in_turn
from ..onnx.scratch import own_bytes
from .net import Band, Group, Net, Step
from .units import Unit

#: Channels of a block, and those that a convolution takes as they are.
BLOCK, DIRECT = 16, 4


def inner_bytes(unit: Unit, first: int, end: int) -> int:
    """What ONNX Runtime holds at most between the layers of a firing that makes rows [first,
    end)."""
    return unit.inner.of((first, end), _executed if unit.net.blocked else _estimated)


def whole_inner_bytes(unit: Unit) -> tuple[int, str]:
    """What it holds between layers that run whole, and a tensor that is made when most is there."""
    if unit.whole is None:
        unit.whole = _executed_whole(unit) if unit.net.blocked else _estimated_whole(unit)
    return unit.whole


def _executed(unit: Unit, first: int, end: int) -> int:
    """Of ONNX Runtime's own kernels, with copies of the rows that are cut out of a tensor (see
    `models.py`)."""
    net, rows = unit.net, unit.ranges(first, end)
    kernels: list[Kernel] = []
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
        out, count = step.makes[0], rows[step.makes[0]][1] - rows[step.makes[0]][0]
        own = own_of(net, step, {out: count, **{r.read.tensor: r.end - r.first for r in readings}})
        shape = shape_of(net, out, count)
        kernels.append(
            Kernel(tuple(reads), out, net.bytes(out, count), shape, tuple(over), own=own)
        )
    return block(kernels, {*unit.reads, unit.out})


def own_of(net: Net, step: Step, rows: Mapping[str, int]) -> tuple[int, ...]:
    """Bytes that the kernel of a layer takes for itself, with so many rows of what it reads and
    makes."""
    if step.number not in net.busy:
        return ()
    node, shapes = net.busy[step.number]
    return own_bytes(node, {**shapes, **{t: shape_of(net, t, count) for t, count in rows.items()}})


def shape_of(net: Net, tensor: str, rows: int) -> tuple[int, ...]:
    """The shape of so many rows of a tensor."""
    shape = net.shapes[tensor]
    return (*shape[:2], rows, *shape[3:]) if len(shape) == 4 else shape


def cut_kernels(net: Net, tensor: str, name: str, rows: int) -> list[Kernel]:
    """A Slice, of a tensor in blocks between two Reshapes."""
    if tensor not in net.blocks:
        return [Kernel((tensor,), name, net.bytes(tensor, rows), shape_of(net, tensor, rows))]
    return [
        Kernel((tensor,), f"{name} from", 0, (), same=True),
        Kernel((f"{name} from",), f"{name} to", net.bytes(tensor, rows), net.laid(tensor, rows)),
        Kernel((f"{name} to",), name, 0, (), same=True),
    ]


def _executed_whole(unit: Unit) -> tuple[int, str]:
    net = unit.net
    kernels = []
    for step in unit.steps:
        over = tuple(r.tensor for r in step.reads if r.position in IN_PLACE.get(step.operator, ()))
        reads = tuple(r.tensor for r in step.reads)
        own = own_of(net, step, {t: net.height(t) for t in (*reads, *step.makes)})
        for t in step.makes:
            kernels.append(
                Kernel(reads, t, net.bytes(t), net.shapes[t], over, step.operator in SAME, own)
            )
            own = ()
    most = max(kernels, key=lambda k: sum(map(net.bytes, k.reads)) + k.bytes)
    return block(kernels, {*unit.reads, *unit.makes, *net.chain.outputs}), most.made


def _estimated(unit: Unit, first: int, end: int) -> int:
    """From the layers of the model.

    Groups are kernels, and compute in a layout of blocks of channels: what a convolution takes from
    outside is there twice, so is what goes out, and rows that are cut out of a tensor inside are
    copied.
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
                    if (
                        summed or (step.operator == "Conv" and net.shapes[read.tensor][1] > DIRECT)
                    ) and (read.tensor not in copied):
                        copied.add(read.tensor)
                        taken.append(
                            (
                                _blocked(net, read.tensor, rows[read.tensor]),
                                max(last[read.tensor], until),
                            )
                        )
                        in_place = in_place or (summed and last[read.tensor] == k)
                elif (a, b) != rows[read.tensor]:
                    taken.append((net.bytes(read.tensor, b - a), k))
                    taken.append((_blocked(net, read.tensor, (a, b)), until if summed else k))
                    in_place = in_place or summed
                elif outside and step.operator == "Concat":
                    taken.append((net.bytes(read.tensor, b - a), k))
            if outside and step.operator == "Concat":
                # in the plain layout, and then blocked for who reads it
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


def _estimated_whole(unit: Unit) -> tuple[int, str]:
    net = unit.net
    groups = net.groups[unit.first : unit.end]
    last = {t: k for k, g in enumerate(groups) for t in g.reads}
    outside = {*unit.makes, *net.chain.outputs}
    copies: dict[int, list[str]] = {}
    for t in unit.reads:  # what others made is in the plain layout
        first = next(k for k, g in enumerate(groups) if t in g.reads)
        convolved = net.steps[groups[first].steps[0]].operator == "Conv" and len(net.shapes[t]) == 4
        if convolved and net.shapes[t][1] > DIRECT:
            copies.setdefault(first, []).append(t)
    copied = {t for ts in copies.values() for t in ts}
    in_place = set()
    for k in range(len(groups) - 1, -1, -1):  # what is added to a convolution becomes its result
        for t in (
            groups[k].makes
            if net.steps[groups[k].steps[-1]].operator in ("Add", "Sum", "Relu")
            else ()
        ):
            skip = _added(net, groups[k])
            if skip in last and last[skip] == k and (skip in copied or skip not in unit.reads):
                last[skip] = last.get(t, k)
                in_place.add(t)
    made = [
        [(net.bytes(t), last.get(t, k)) for t in g.makes if t not in outside and t not in in_place]
        + [(net.bytes(t), last[t]) for t in copies.get(k, ())]
        for k, g in enumerate(groups)
    ]
    live = [
        sum(n for ts in made[: k + 1] for n, until in ts if until >= k) for k in range(len(groups))
    ]
    most = max(range(len(groups)), key=live.__getitem__)
    return in_turn(made), net.steps[groups[most].steps[-1]].makes[0]


def _added(net: Net, group: Group) -> str:
    """What is added to the convolution of a group; empty where nothing is."""
    inside = {t for k in group.steps for t in net.steps[k].makes}
    sums = [net.steps[k] for k in group.steps[1:] if net.steps[k].operator in ("Add", "Sum")]
    return next((r.tensor for s in sums for r in s.reads if r.tensor not in inside), "")
