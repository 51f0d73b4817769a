"""What ONNX Runtime holds at most between the nodes of a graph that it executes.

In: nodes as `Kernel`s. Out: bytes of the block that its memory pattern takes, and of what kernels
take for themselves while they run. What is known of it: nodes run in the order of a depth-first
search from the ends backwards, where later nodes go first; a result takes over the memory of an
input that is not needed any more, if the kernel can work in place, else that of any tensor of its
shape that is done with, last come first served (and what is taken over stays taken in between);
each other tensor is placed into the smallest gap that takes it. What a kernel takes for itself lies
beside that block, and is used again by the next one that finds room in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .pattern import aligned, in_turn

Shape = tuple[int, ...]
#: Of each so many bytes the arena keeps one for a table of its chunks (8 bytes for 256).
HANDLED = 32
#: What may write over an input, by number: activations, and convolutions over what they add.
IN_PLACE = {
    **dict.fromkeys(
        ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "Elu", "Selu", "Celu"), (0,)
    ),
    **dict.fromkeys(("ThresholdedRelu", "Softplus", "Softsign", "Softmax", "LogSoftmax"), (0,)),
    **dict.fromkeys(("Conv", "FusedConv"), (3,)),
}
#: What gives its data another shape, and no other memory.
SAME = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


@dataclass(frozen=True, slots=True)
class Kernel:
    """A node by the tensors that it `reads` and what it makes, in bytes and with its shape.

    `over`: the inputs whose memory its result may take over. `same`: its result is its first input
    in another shape. `own`: bytes that it takes for itself while it runs.
    """

    reads: tuple[str, ...]
    made: str
    bytes: int
    shape: Shape
    over: tuple[str, ...] = ()
    same: bool = False
    own: tuple[int, ...] = ()


def block(kernels: Sequence[Kernel], outside: Collection[str]) -> int:
    """Bytes for nodes that stand in a file as they are executed; tensors `outside` are given or
    taken away.
    """
    reads, makes = [k.reads for k in kernels], [(k.made,) for k in kernels]
    return held([kernels[k] for k in order(reads, makes, range(len(kernels)))], outside)


def order(
    reads: Sequence[Sequence[str]], makes: Sequence[Sequence[str]], ranks: Sequence[Any]
) -> list[int]:
    """The numbers of nodes as they are executed; those with higher `ranks` go first where nothing
    else decides.
    """
    maker = {t: k for k, made in enumerate(makes) for t in made if t}
    before = []
    for read in reads:
        makers = [maker[t] for t in read if t in maker]
        before.append(sorted(set(makers), key=ranks.__getitem__) if len(makers) > 1 else makers)
    needed = {k for makers in before for k in makers}
    stack = [
        (k, False) for k in sorted(range(len(reads)), key=ranks.__getitem__) if k not in needed
    ]
    seen: set[int] = set()
    found: list[int] = []
    while stack:
        k, left = stack.pop()
        if left:
            found.append(k)
        elif k not in seen:
            seen.add(k)
            stack.append((k, True))
            stack += [(j, False) for j in before[k] if j not in seen]
    return found


def held(run: Sequence[Kernel], outside: Collection[str]) -> int:
    """Bytes for nodes in the order in which they run, with what the arena keeps about them."""
    uses = Counter(t for k in run for t in k.reads)
    home: dict[str, str] = {}
    left: dict[str, int] = {}
    life: dict[str, list[int]] = {}
    of = {k.made: k for k in run}
    free: list[str] = []
    for now, k in enumerate(run):
        if k.same and k.reads[0] in home:
            home[k.made] = home[k.reads[0]]
        elif not k.same and k.made not in outside:
            host = next(
                (
                    home[t]
                    for t in k.over
                    if t in home and left[home[t]] == 1 and _alike(of[home[t]], k)
                ),
                None,
            )
            if host is None and not uses[k.made]:  # it is not read, so it is not released
                life[k.made] = [now, len(run)]
            else:
                if host is None:
                    host = next((t for t in free if _alike(of[t], k)), None)
                    free = [t for t in free if t != host]
                home[k.made] = host or k.made
                life.setdefault(home[k.made], [now, now])
        if k.made in home:
            left[home[k.made]] = left.get(home[k.made], 0) + uses[k.made]
        for t in k.reads:
            if t in home:
                left[home[t]] -= 1
                life[home[t]][1] = now
        ended = dict.fromkeys(
            home[t] for t in (*k.reads, k.made) if t in home and not left[home[t]]
        )
        free = [*reversed(ended), *free]
    made: list[list[tuple[int, int]]] = [[] for _ in run]
    for t, (first, last) in life.items():
        made[first].append((of[t].bytes, last))
    return (in_turn(made) + _apart(run)) * (HANDLED + 1) // HANDLED


def _alike(one: Kernel, other: Kernel) -> bool:
    return one.shape == other.shape and one.bytes == other.bytes


def _apart(run: Sequence[Kernel]) -> int:
    """Bytes of the regions that hold what kernels take for themselves: a new one where no other has
    room.
    """
    regions: list[int] = []
    for k in run:
        free = list(regions)
        for count in k.own:
            wanted = aligned(count)
            room = min((n for n in free if n >= wanted), default=None)
            if room is None:
                regions.append(wanted)
            else:
                free.remove(room)
                free.append(room - wanted)
    return sum(regions)
