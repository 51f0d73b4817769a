"""What this machine's ONNX Runtime takes for a model that it runs whole: by its own graph of it.

In: a model with fixed inputs. Out: `Needs`, in bytes, or None where there is no such graph or one
that is not understood. Nothing is run. Weights are those of the graph: in blocks, channels are
filled up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cuts import size, tensors_of
from .executed import IN_PLACE, SAME, ExecutedNode, Shape, held, order
from .interface import Border, inferred
from .nodes import first_output
from .own_graph import NCHWC, flows_of, outlined, source_of, weights_of
from .scratch import own_bytes


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of the `weights`, and of the `block` for what lies between the layers (without inputs
    and outputs).

    The layers that make `dictated_by` have most beside them.
    """

    weights: int
    block: int
    dictated_by: str


def whole_of(model: Any, folder: Path = Path()) -> Needs | None:
    """Of a model whose weights may lie in a folder."""
    try:
        known = {t: b for t, b in tensors_of(inferred(model)).items() if b.fixed}
        own = outlined(model, folder, known)
        flows = flows_of(own, known)
    except Exception:  # what ONNX Runtime and onnx raise has no common type
        return None
    nodes = own.graph.node
    shapes = {w.name: tuple(w.dims) for w in own.graph.initializer}
    shapes |= {t: b.shape for t, b in flows.items()}
    try:
        kernels = [tuple(_kernels(node, flows, shapes)) for node in nodes]
    except KeyError:  # a weight that is no initializer
        return None
    kept = {first_output(n): (k, n.op_type) for k, n in enumerate(model.graph.node)}
    outside = {t.name for t in (*own.graph.input, *own.graph.output)}
    reads, makes = [n.input for n in nodes], [n.output for n in nodes]
    blocks = []
    for sign in (1, -1):
        # by chance, sessions bring results back in one order or in the other: the larger one counts
        numbers = order(reads, makes, list(_ranks(nodes, kept, sign)))
        blocks.append(held([kernel for k in numbers for kernel in kernels[k]], outside))
    return Needs(weights_of(own), max(blocks), _dictated_by(nodes, kernels, flows, known))


def _dictated_by(
    nodes: Sequence[Any],
    kernels: Sequence[Sequence[ExecutedNode]],
    flows: Mapping[str, Border],
    known: Mapping[str, Border],
) -> str:
    """What the node with most beside it makes; empty where no node does anything."""
    beside = []
    for number, own in enumerate(kernels):
        for kernel in own:
            beside.append((kernel.bytes + sum(size(flows[t]) for t in kernel.reads), number))
    if not beside:
        return ""
    most = nodes[max(beside)[1]]
    return source_of(most, known) or first_output(most)


def _kernels(
    node: Any, flows: Mapping[str, Border], shapes: Mapping[str, Shape]
) -> Iterator[ExecutedNode]:
    """What a node does for each of its results."""
    reads = tuple(t for t in node.input if t in flows)
    over = tuple(node.input[k] for k in IN_PLACE.get(node.op_type, ()) if k < len(node.input))
    same = node.op_type in SAME and node.input[0] in flows
    own = own_bytes(node, shapes)
    for t in node.output:
        if t:
            yield ExecutedNode(reads, t, size(flows[t]), flows[t].shape, over, same, own)
            own = ()


def _ranks(nodes: Any, kept: Mapping[str, tuple[int, str]], sign: int) -> Iterator[tuple[int, int]]:
    """Numbers in the order in which ONNX Runtime made the nodes.

    Those of the model keep theirs; then come those in blocks, whose results are numbered in their
    names; last what brings results back into the layout of the model.
    """
    for k, node in enumerate(nodes):
        if node.domain == NCHWC and node.op_type == "ReorderOutput":
            yield 3, sign * _token(node.input[0])
        elif node.domain == NCHWC:
            yield 2, _token(node.output[0])
        elif kept.get(node.name, (0, ""))[1] == node.op_type:
            yield 0, kept[node.name][0]
        else:
            yield 1, k


def _token(name: str) -> int:
    """The number that ONNX Runtime gave to a tensor of its own: the first one has none."""
    number = re.search(r"_token_(\d+)$", name)
    return int(number[1]) if number else -1
