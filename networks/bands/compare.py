"""What a network needs between its layers in several ways of running it, in bytes.

In: a `Net`. Out: `Comparison`: whole tensors in several ways of placing them, a bound for whatever
goes row by row, and the front of bands against time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.minakova import Edge, algorithm8
from ...analysis.placement import Item, Placed, place
from ...model.profile import BandCosts
from ..onnx.memory import needs_of
from .choose import Choice, front
from .net import Net, Step

#: Seconds for each way to place whole tensors better than by quick rules.
PLACING = 2.0


@dataclass(frozen=True, slots=True)
class Comparison:
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
    whole: Placed
    rows: int
    dictated_by: str
    choices: tuple[Choice, ...]
    block: int = 0


def compare(
    net: Net,
    whole_ns: float | None = None,
    seconds: float = 3.0,
    blocked: Net | None = None,
    costs: BandCosts | None = None,
) -> Comparison:
    """All of it; the search for bands takes about so many seconds.

    The front is that of the `blocked` form, if there is one.
    """
    tensors = [t for t, k in net.made.items() if k >= 0 and t not in net.chain.outputs]
    items = [
        Item(-(-net.bytes(t) // 64) * 64, net.made[t], net.read.get(t, net.made[t]))
        for t in tensors
    ]
    edges = [Edge(t, 0, i.size, i.first, i.last) for t, i in zip(tensors, items, strict=True)]
    least = {s.makes[0]: _under(net, s) for s in net.steps}
    dictator = max(least, key=lambda name: least[name])
    return Comparison(
        sum(i.size for i in items),
        sum(b.size for b in algorithm8(edges, ())),
        place(items, seconds=PLACING),
        least[dictator],
        dictator,
        front(
            blocked or net,
            needs_of(net.chain, net.model, net.folder),
            whole_ns,
            seconds,
            net if blocked is not None else None,
            costs,
        ),
        max(blocked.blocks.values()) if blocked is not None else 0,
    )


def _under(net: Net, step: Step) -> int:
    """Bytes that have to be there for the row of a layer that needs most, and that row; tokens do
    not count."""
    tokens = {*net.chain.inputs, *net.chain.outputs}
    made = step.makes[0]
    height = net.height(made)
    own = 0 if made in tokens else net.bytes(made) if step.why else net.bytes(made, step.factor)
    rows = {}
    for read in step.reads:
        if read.tensor in tokens:
            continue
        if step.why:
            rows[read.tensor] = net.height(read.tensor)
        else:
            most = max(
                b - a
                for r in range(0, height, step.factor)
                for a, b, _, _ in [read.needs(r, r + step.factor)]
            )
            rows[read.tensor] = max(rows.get(read.tensor, 0), most)
    return own + sum(net.bytes(t, n) for t, n in rows.items())
