"""What ONNX Runtime holds at most between the nodes of a graph that it executes as it stands.

In: nodes as `Kernel`s, or a graph that ONNX Runtime itself has optimized and written. Out: bytes of the block that its
memory pattern takes. What is known of it: nodes run in the order of a depth-first search from the ends backwards, where
later nodes go first; a result takes over the memory of an input that nobody needs any more, if the kernel can work in
place, else that of any tensor of its shape that is done with, last come first served (and what is taken over stays
taken in between); each other tensor is placed into the smallest gap that takes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...model.files import scratch
from ...model.types import DTYPES
from .cuts import tensors_of
from .memory import in_turn

Shape = tuple[int, ...]
#: Of each so many bytes the arena keeps one for a table of its chunks (8 bytes for 256).
HANDLED = 32
#: Channels of a block, where nobody has asked.
BLOCK = 16
#: What may write over an input, by number: element by element, and convolutions over what they add.
IN_PLACE = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid", "Elu", "Exp", "Neg", "Abs"), (0,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (0, 1)),
    **dict.fromkeys(("Conv", "FusedConv"), (3,)),
    "Sum": (0,),
}
#: What gives its data another shape, and no other memory.
SAME = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


@dataclass(frozen=True, slots=True)
class Kernel:
    """A node by the tensors that it `reads` and what it makes, in bytes and with its shape.

    `over`: the inputs whose memory its result may take over. `same`: its result is its first input in another shape.
    """

    reads: tuple[str, ...]
    made: str
    bytes: int
    shape: Shape
    over: tuple[str, ...] = ()
    same: bool = False


def order(kernels: Sequence[Kernel]) -> list[int]:
    """The numbers of the nodes as they are executed."""
    maker = {kernel.made: k for k, kernel in enumerate(kernels)}
    before = []
    for kernel in kernels:
        makers = [maker[t] for t in kernel.reads if t in maker]
        before.append(sorted(set(makers)) if len(makers) > 1 else makers)
    read = {k for makers in before for k in makers}
    stack = [(k, False) for k in range(len(kernels)) if k not in read]
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


def block(kernels: Sequence[Kernel], outside: Collection[str]) -> int:
    """Bytes between the nodes, with what the arena keeps about them; tensors `outside` are given or taken away."""
    run = [kernels[k] for k in order(kernels)]
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
            host = next((home[t] for t in k.over if t in home and left[home[t]] == 1 and _alike(of[home[t]], k)), None)
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
        ended = dict.fromkeys(home[t] for t in (*k.reads, k.made) if t in home and not left[home[t]])
        free = [*reversed(ended), *free]
    made: list[list[tuple[int, int]]] = [[] for _ in run]
    for t, (first, last) in life.items():
        made[first].append((of[t].bytes, last))
    return in_turn(made) * (HANDLED + 1) // HANDLED


def _alike(one: Kernel, other: Kernel) -> bool:
    return one.shape == other.shape and one.bytes == other.bytes


def optimized(model: Any) -> Any:
    """The graph that this machine's ONNX Runtime makes of a model, whose nodes are called after what they make.

    ONNX Runtime keeps these names (`source_of`); the model is changed. Raises whatever ONNX Runtime raises.
    """
    import onnx
    import onnxruntime

    for node in model.graph.node:
        node.name = next((t for t in node.output if t), "")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    with scratch() as folder:
        file = folder / "optimized.onnx"
        options.optimized_model_filepath = str(file)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(str(file))


def source_of(node: Any, known: Container[str]) -> str:
    """The tensor of the model after which a node of the optimized graph is called; empty if it is new."""
    name: str = node.name
    while name:
        if name in known:
            return name
        name = name.rpartition("_")[0]
    return next((t for t in node.output if t in known), "")


def shapes_of(graph: Any, known: Mapping[str, Shape], block: int) -> dict[str, Shape]:
    """Shapes of what flows in an optimized graph, from those of the model: ONNX Runtime does not write them.

    In blocks there are as many channels as fill them. Raises KeyError for what is not understood.
    """
    weights = {w.name: tuple(w.dims) for w in graph.initializer}
    found = {v.name: known[v.name] for v in graph.input if v.name in known}
    for node in graph.node:
        read = [found[t] for t in node.input if t in found]
        if not read:
            continue
        for t in (t for t in node.output if t):
            found[t] = known[t] if t in known else _blocked_shape(node, read, weights, known, block)
    return found


def _blocked_shape(
    node: Any, read: Sequence[Shape], weights: Mapping[str, Shape], known: Mapping[str, Shape], block: int
) -> Shape:
    """Of the result of a node that was called after a tensor of the model, or that only reorders."""
    batch, channels, *rest = read[0]
    if node.op_type == "ReorderInput":
        return (batch, -(-channels // block) * block, *rest)
    like = known[source_of(node, known)]
    if node.op_type in ("Conv", "FusedConv"):
        channels = weights[node.input[1]][0]
    elif node.op_type == "Concat":
        channels = sum(r[1] for r in read)
    return (like[0], channels, *like[2:])


def block_of_model(model: bytes) -> int | None:
    """Bytes between the layers of a model as this machine's ONNX Runtime executes it; None: that is not understood."""
    import onnx

    asked = onnx.load_model_from_string(model)
    inferred = tensors_of(onnx.shape_inference.infer_shapes(asked).graph)
    known = {t: b.shape for t, b in inferred.items() if b.fixed}
    sizes = {t: DTYPES[b.dtype][1] for t, b in inferred.items()}
    try:
        graph = optimized(asked).graph
        shapes = shapes_of(graph, known, BLOCK)
    except Exception:  # what ONNX Runtime raises has no common type
        return None
    kernels = []
    for node in graph.node:
        reads = tuple(t for t in node.input if t in shapes)
        made = [t for t in node.output if t in shapes]
        if reads and len(made) > 1:
            return None
        over = tuple(node.input[k] for k in IN_PLACE.get(node.op_type, ()) if k < len(node.input))
        for t in made if reads else ():
            count = prod(shapes[t]) * sizes.get(t, 4)
            over = tuple(u for u in over if u in shapes)
            kernels.append(Kernel(reads, t, count, shapes[t], over, node.op_type in SAME))
    return block(kernels, {t.name for t in (*graph.input, *graph.output)})
