"""ONNX models of the firings of a plan: standard nodes, whose padding is what a band has of it.

In: a `Plan`. Out: a model per unit and kind of band. Rows that a layer does not take of what is
there are cut off by a Slice; what is outside of the network's rows becomes padding, as it is for
the whole. Of ONNX Runtime's own graph the nodes are its kernels, and a Slice sees a tensor of
blocks as it lies.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ..onnx.cuts import folded
from ..onnx.extract import load_weights
from ..onnx.nodes import made_by, read_by
from .firings import BandFiring, kind_of
from .net import PADDED, BandNet
from .units import Reading

#: Of tensors, by name.
Shapes = Mapping[str, tuple[int, ...]]
#: Of ONNX: rows are along this axis.
ROWS = 2


def models(
    net: BandNet, firings: tuple[BandFiring, ...]
) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    """The models that firings need, and which one each runs."""
    numbers: dict[tuple[object, ...], int] = {}
    made: list[bytes] = []
    chosen = []
    for firing in firings:
        kind = kind_of(firing)
        if kind not in numbers:
            numbers[kind] = len(made)
            made.append(_model(net, firing).SerializeToString(deterministic=True))
        chosen.append(numbers[kind])
    return tuple(made), tuple(chosen)


def _model(net: BandNet, firing: BandFiring) -> Any:
    unit = firing.unit
    if firing.band is None:
        nodes = [copy.deepcopy(net.model.graph.node[s.node]) for s in unit.steps]
        reads = {t: net.shapes[t] for t in unit.reads}
        return _wrapped(net, nodes, [], reads, {t: net.shapes[t] for t in unit.makes})
    rows = unit.ranges(*firing.band)
    nodes, constants, cut = [], [], set[str]()
    for step, readings in unit.readings(*firing.band):
        node = copy.deepcopy(net.model.graph.node[step.node])
        for reading in readings:
            tensor = reading.read.tensor
            begin, end = rows[tensor]
            if (reading.first, reading.end) == (begin, end):
                continue
            band = reading.first - begin, reading.end - begin
            name = f"{tensor}__rows_{band[0]}_{band[1]}"
            if name not in cut:
                cut.add(name)
                slices, numbers = _cut(net, tensor, name, band, end - begin)
                nodes += slices
                constants += numbers
            node.input[reading.read.position] = name
        if step.operator in PADDED:
            _pad(node, net, step.makes[0], readings[0])
        if step.operator in ("Resize", "Upsample"):
            constants += _scaled(node, net, step.makes[0], readings[0])
        nodes.append(node)
    reads = {t: _shape(net, t, rows[t]) for t in unit.reads if t in rows}
    makes = {unit.out: _shape(net, unit.out, rows[unit.out])}
    return _wrapped(net, nodes, constants, reads, makes)


def _shape(net: BandNet, tensor: str, band: tuple[int, int]) -> tuple[int, ...]:
    shape = net.shapes[tensor]
    return (*shape[:2], band[1] - band[0], shape[3]) if len(shape) == 4 else shape


def _cut(
    net: BandNet, tensor: str, name: str, band: tuple[int, int], there: int
) -> tuple[list[Any], list[Any]]:
    """Nodes and constants that make `name` of rows `band` of those that are `there`."""
    import numpy as np
    from onnx import helper, numpy_helper

    numbers = {"first": [band[0]], "end": [band[1]], "axis": [ROWS]}
    ends = [f"{name}_{k}" for k in numbers]
    if tensor not in net.blocks:
        nodes = [helper.make_node("Slice", [tensor, *ends], [name])]
    else:
        numbers |= {"laid": list(net.laid(tensor, there)), "shape": list(_shape(net, tensor, band))}
        nodes = [
            helper.make_node("Reshape", [tensor, f"{name}_laid"], [f"{name}_from"]),
            helper.make_node("Slice", [f"{name}_from", *ends], [f"{name}_to"]),
            helper.make_node("Reshape", [f"{name}_to", f"{name}_shape"], [name]),
        ]
    constants = []
    for key, values in numbers.items():
        constants.append(numpy_helper.from_array(np.array(values, np.int64), f"{name}_{key}"))
    return nodes, constants


def _pad(node: Any, net: BandNet, out: str, data: Reading) -> None:
    """The padding of a band in place of the layer's own; the width keeps what the layer has."""
    from onnx import helper

    left, right = _padding_of_width(node, net, data.read.tensor, out)
    kept = [a for a in node.attribute if a.name not in ("pads", "auto_pad", "ceil_mode")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute("pads", [data.above, left, data.below, right]))


def _padding_of_width(node: Any, net: BandNet, tensor: str, out: str) -> tuple[int, int]:
    """The columns of padding on the left and on the right of a tensor."""
    from onnx import helper

    known = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if "kernel_shape" in known:
        kernel = known["kernel_shape"][1]
    else:
        kernel = net.chain.tensors[node.input[1]].shape[3]
    stride, dilation = known.get("strides", [1, 1])[1], known.get("dilations", [1, 1])[1]
    width, result = net.shapes[tensor][3], net.shapes[out][3]
    span = (kernel - 1) * dilation + 1
    place = known.get("auto_pad", b"NOTSET").decode(errors="replace")
    if place.startswith("SAME"):
        total = max((-(-width // stride) - 1) * stride + span - width, 0)
        left = total - total // 2 if place == "SAME_LOWER" else total // 2
    elif place == "VALID":
        left = 0
    else:
        left = known.get("pads", [0, 0, 0, 0])[1]
    return left, max(0, (result - 1) * stride + span - width - left)


def _scaled(node: Any, net: BandNet, out: str, data: Reading) -> list[Any]:
    """Scales in place of sizes, which would be those of the whole."""
    import numpy as np
    from onnx import numpy_helper

    if len(node.input) < 4:
        return []
    before, after = net.shapes[data.read.tensor], net.shapes[out]
    name = f"{out}__scales"
    scales = np.array([a / b for a, b in zip(after, before, strict=True)], np.float32)
    inputs = [node.input[0], "", name]
    del node.input[:]
    node.input.extend(inputs)
    return [numpy_helper.from_array(scales, name)]


def _wrapped(
    net: BandNet, nodes: list[Any], constants: list[Any], reads: Shapes, makes: Shapes
) -> Any:
    """A model of nodes with the weights, and what is computed from them, that they need."""
    from onnx import helper

    nodes = [*_constant_nodes(net, nodes, reads), *nodes]
    used = read_by(nodes)
    weights = [copy.deepcopy(w) for w in net.model.graph.initializer if w.name in used]
    load_weights(weights, net.folder)
    graph = helper.make_graph(
        nodes, "band", _border(net, reads), _border(net, makes), [*weights, *constants]
    )
    model = helper.make_model(
        graph, opset_imports=net.model.opset_import, functions=net.model.functions
    )
    model.ir_version = max(net.model.ir_version, 4)
    return model


def _constant_nodes(net: BandNet, nodes: list[Any], reads: Iterable[str]) -> list[Any]:
    """The nodes that compute what others take from constants, in the order of the file."""
    made = made_by(nodes).union(reads)
    makers: dict[str, int] = {}
    for number, node in enumerate(net.model.graph.node):
        makers |= {t: number for t in node.output if t}
    needed: dict[int, Any] = {}
    wanted = list(read_by(nodes))
    while wanted:
        tensor = wanted.pop()
        maker = makers.get(tensor)
        if tensor not in made and maker is not None and maker not in needed:
            needed[maker] = folded(net.model.graph.node[maker], net.chain.tensors)
            wanted += needed[maker].input
    return [needed[k] for k in sorted(needed)]


def _border(net: BandNet, shapes: Shapes) -> list[Any]:
    """Inputs or outputs of a model."""
    import numpy as np
    from onnx import helper

    values = []
    for tensor, shape in shapes.items():
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(net.chain.tensors[tensor].dtype))
        values.append(helper.make_tensor_value_info(tensor, kind, list(shape)))
    return values
