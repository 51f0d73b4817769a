"""What ONNX Runtime holds at most between the nodes of a graph that it executes.

In: nodes as `ExecutedNode`s. Out: bytes of the block that its memory pattern takes, and of what
kernels take for themselves while they run. What is known of it: nodes run in the order of a
depth-first search from the ends backwards, where later nodes go first; a result takes over the
memory of an input that is not needed any more, if the kernel can work in place, else that of any
tensor of its shape that is done with, last come first served (and what is taken over stays taken in
between); each other tensor is placed into the smallest gap that takes it. What a kernel takes for
itself lies beside that block, and is used again by the next one that finds room in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
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
class ExecutedNode:
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


def block(kernels: Sequence[ExecutedNode], outside: Collection[str]) -> int:
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
    maker: dict[str, int] = {}
    for number, made in enumerate(makes):
        maker |= {t: number for t in made if t}
    before = []
    for read in reads:
        makers = {maker[t] for t in read if t in maker}
        before.append(sorted(makers, key=ranks.__getitem__))
    needed = set(chain.from_iterable(before))
    ends = [k for k in range(len(reads)) if k not in needed]
    # Numbers with whether all that comes before the node is done.
    stack = [(k, False) for k in sorted(ends, key=ranks.__getitem__)]
    seen: set[int] = set()
    executed: list[int] = []
    while stack:
        k, ready = stack.pop()
        if ready:
            executed.append(k)
        elif k not in seen:
            seen.add(k)
            stack.append((k, True))
            stack += [(j, False) for j in before[k] if j not in seen]
    return executed


def held(run: Sequence[ExecutedNode], outside: Collection[str]) -> int:
    """Bytes for nodes in the order in which they run, with what the arena keeps about them."""
    memory = _Memory(run)
    for now, kernel in enumerate(run):
        memory.place(now, kernel, outside)
        memory.release(now, kernel)
    return (in_turn(memory.made()) + _apart(run)) * (HANDLED + 1) // HANDLED


class _Memory:
    """Where the results of kernels lie while these run in order.

    `home`: per tensor the one that had its memory first. By these: `left`, how often what lies
    there is still read; `life`, the numbers of the first and the last kernel that need it; `free`,
    whose memory is done with, the latest first.
    """

    def __init__(self, run: Sequence[ExecutedNode]) -> None:
        self._end = len(run)
        self._uses = Counter(chain.from_iterable(k.reads for k in run))
        self._kernels = {k.made: k for k in run}
        self._home: dict[str, str] = {}
        self._left: dict[str, int] = {}
        self._life: dict[str, list[int]] = {}
        self._free: list[str] = []

    def place(self, now: int, kernel: ExecutedNode, outside: Collection[str]) -> None:
        """Find the memory of what a kernel makes."""
        home, made = self._home, kernel.made
        if kernel.same and kernel.reads[0] in home:
            home[made] = home[kernel.reads[0]]
        elif not kernel.same and made not in outside:
            host = self._taken_over(kernel)
            if host is None and not self._uses[made]:  # it is not read, so it is not released
                self._life[made] = [now, self._end]
            else:
                home[made] = host or self._reused(kernel) or made
                self._life.setdefault(home[made], [now, now])
        if made in home:
            self._left[home[made]] = self._left.get(home[made], 0) + self._uses[made]

    def _taken_over(self, kernel: ExecutedNode) -> str | None:
        """The home of an input that no other kernel needs any more."""
        for t in kernel.over:
            host = self._home.get(t)
            if host and self._left[host] == 1 and _alike(self._kernels[host], kernel):
                return host
        return None

    def _reused(self, kernel: ExecutedNode) -> str | None:
        """Memory of the same shape that is done with."""
        for host in self._free:
            if _alike(self._kernels[host], kernel):
                self._free = [t for t in self._free if t != host]
                return host
        return None

    def release(self, now: int, kernel: ExecutedNode) -> None:
        """A kernel has read its inputs."""
        home, left = self._home, self._left
        for t in kernel.reads:
            if t in home:
                left[home[t]] -= 1
                self._life[home[t]][1] = now
        homes = [home[t] for t in (*kernel.reads, kernel.made) if t in home]
        ended = dict.fromkeys(t for t in homes if not left[t])
        self._free = [*reversed(ended), *self._free]

    def made(self) -> list[list[tuple[int, int]]]:
        """Per kernel what is placed when it runs: bytes, and the last kernel that needs them."""
        made: list[list[tuple[int, int]]] = [[] for _ in range(self._end)]
        for t, (first, last) in self._life.items():
            made[first].append((self._kernels[t].bytes, last))
        return made


def _alike(one: ExecutedNode, other: ExecutedNode) -> bool:
    return one.shape == other.shape and one.bytes == other.bytes


def _apart(run: Sequence[ExecutedNode]) -> int:
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
