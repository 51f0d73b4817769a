"""What kernels of ONNX Runtime take for themselves while they run: rows that are laid out for a
product of matrices.

In: a node of ONNX Runtime's own graph, and shapes. Out: bytes, one number for each array. They are
of one thread; of kernels that are not listed nothing is known, and nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from .executed import Shape
from .own_graph import NCHWC

#: Floats of the part of a matrix that a thread multiplies at a time.
PART = 128 * 128
#: Channels and filters of 8 bits that go in multiples of these need no rows laid out: a table says
#: where they are.
CHANNELS, FILTERS = 4, 16
POINTER = 8


def takes_some(node: Any) -> bool:
    """Is it known that a node takes something for itself?"""
    return node.op_type in RULES and node.domain != NCHWC


def own_bytes(node: Any, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """Of a node, with the shapes of what it reads and makes, weights among them."""
    return RULES[node.op_type](node, shapes) if takes_some(node) else ()


def _conv(node: Any, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """All rows laid out where there are more filters than pixels, else a part of them."""
    filters, channels, *window = shapes[node.input[1]]
    pixels = prod(shapes[node.output[0]][2:])
    if _pointwise(node, window):
        return ()
    return (4 * (pixels * channels * prod(window) if filters > pixels else PART),)


def _conv_transpose(node: Any, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """What each pixel adds to its neighbors."""
    return (4 * prod(shapes[node.input[1]][1:]) * prod(shapes[node.input[0]][2:]),)


def _normalization(node: Any, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """A factor for each value, and squares of those of all channels with some more at both ends."""
    data = shapes[node.input[0]]
    size = next(a.i for a in node.attribute if a.name == "size")
    return 4 * prod(data), 4 * (data[1] + size - 1) * prod(data[2:])


def _conv_of_8_bits(node: Any, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """Sums of 32 bits and rows laid out, or only a table of where each pixel finds its window."""
    known = {a.name: a.i for a in node.attribute}
    made = shapes[node.output[0]]
    pixels = prod(made[1:-1] if known.get("channels_last") else made[2:])
    filters, channels, *window = shapes[node.input[3]]
    groups = known.get("group", 1)
    deep = groups > 1 and channels == 1 and filters == groups
    sums, table = 4 * filters * pixels, POINTER * prod(window) * pixels
    if deep:
        return (table,) if filters % FILTERS == 0 else (sums, table)
    if groups == 1 and channels % CHANNELS == 0 and filters % FILTERS == 0:
        return () if _pointwise(node, window) else (table,)
    return (sums,) if _pointwise(node, window) else (sums, channels * prod(window) * pixels)


def _pointwise(node: Any, window: list[int]) -> bool:
    """Does each pixel depend on the one at its place?"""
    known = {a.name: list(a.ints) for a in node.attribute}
    steps = known.get("strides", [])
    return prod(window) == 1 and set(steps) <= {1} and not any(known.get("pads", []))


RULES: dict[str, Callable[[Any, Mapping[str, Shape]], tuple[int, ...]]] = {
    "Conv": _conv,
    "FusedConv": _conv,
    "ConvTranspose": _conv_transpose,
    "LRN": _normalization,
    "QLinearConv": _conv_of_8_bits,
}
