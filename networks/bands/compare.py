"""What a network needs between its layers in several ways of running it, in bytes.

In: a `BandNet`. Out: `BandComparison`: whole tensors in several ways of placing them, a bound for
whatever goes row by row, and the front of bands against time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.minakova import BufferedEdge, algorithm8
from ...analysis.placement import MemoryBlock, PlacedBlocks, place
from ...model.profile import BandCosts
from ..onnx.memory import needs_of
from .choose import Choice, front
from .net import BandNet, LayerStep, Read

#: Seconds for each way to place whole tensors better than by quick rules.
PLACING = 2.0


@dataclass(frozen=True, slots=True)
class BandComparison:
    """Inputs and outputs are tokens, and not counted; nor are weights, but in the choices.

    `separate`: each tensor has memory of its own; `algorithm8` of Minakova's thesis shares whole
    buffers; `whole` has offsets in one arena. `rows`: the most that the rows under a window and one
    row of its result take, in any layer; `dictated_by` is that layer. The last of the `choices` is
    the network as a whole, unless bands are as fast. `block`: how many channels a block of ONNX
    Runtime's own layout has here, in which the choices are computed; 0: they are in layers of the
    model.
    """

    separate: int
    algorithm8: int
    whole: PlacedBlocks
    rows: int
    dictated_by: str
    choices: tuple[Choice, ...]
    block: int = 0


def compare(
    net: BandNet,
    whole_ns: float | None = None,
    seconds: float = 3.0,
    blocked: BandNet | None = None,
    costs: BandCosts | None = None,
) -> BandComparison:
    """All of it; the search for bands takes about so many seconds.

    The front is that of the `blocked` form, if there is one.
    """
    items, edges = [], []
    for tensor, maker in net.made.items():
        if maker >= 0 and tensor not in net.chain.outputs:
            size = -(-net.bytes(tensor) // 64) * 64
            last = net.read.get(tensor, maker)
            items.append(MemoryBlock(size, maker, last))
            edges.append(BufferedEdge(tensor, 0, size, maker, last))
    least = {s.makes[0]: _under(net, s) for s in net.steps}
    dictator = max(least, key=lambda name: least[name])
    needs = needs_of(net.chain, net.model, net.folder)
    if blocked is None:
        choices = front(net, needs, whole_ns, seconds, costs=costs)
    else:
        choices = front(blocked, needs, whole_ns, seconds, net, costs)
    return BandComparison(
        sum(i.size for i in items),
        sum(b.size for b in algorithm8(edges, ())),
        place(items, seconds=PLACING),
        least[dictator],
        dictator,
        choices,
        0 if blocked is None else max(blocked.blocks.values()),
    )


def _under(net: BandNet, step: LayerStep) -> int:
    """Bytes that have to be there for the row of a layer that needs most, and that row; tokens do
    not count."""
    tokens = {*net.chain.inputs, *net.chain.outputs}
    made = step.makes[0]
    own = 0
    if made not in tokens:
        own = net.bytes(made, None if step.why else step.factor)
    rows: dict[str, int] = {}
    for read in step.reads:
        if read.tensor not in tokens:
            rows[read.tensor] = max(rows.get(read.tensor, 0), _rows_at_once(net, step, read))
    return own + sum(net.bytes(t, n) for t, n in rows.items())


def _rows_at_once(net: BandNet, step: LayerStep, read: Read) -> int:
    """The most rows that a layer reads for one of its rows, or all if it cannot go by rows."""
    if step.why:
        return net.height(read.tensor)
    most = 0
    for row in range(0, net.height(step.makes[0]), step.factor):
        first, end, _, _ = read.needs(row, row + step.factor)
        most = max(most, end - first)
    return most
