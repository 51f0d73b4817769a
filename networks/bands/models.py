"""ONNX models of the firings of a plan: standard nodes, whose padding is what a band has of it.

In: a `Plan`. Out: a model per unit and kind of band. Rows that a layer does not take of what is
there are cut off by a Slice; what is outside of the network's rows becomes padding, as it is for
the whole. Of ONNX Runtime's own graph the nodes are its kernels, and a Slice sees a tensor of
blocks as it lies.
"""

from __future__ import annotations

import copy
from typing import Any

from ..onnx.cuts import shape_value
from .firings import Firing, kind_of
from .net import PADDED, Net
from .units import Reading, Unit

#: Of ONNX: rows are along this axis.
ROWS = 2


def models(net: Net, firings: tuple[Firing, ...]) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    """The models that firings need, and which one each runs."""
    numbers: dict[tuple[object, ...], int] = {}
    made: list[bytes] = []
    which = []
    for firing in firings:
        kind = kind_of(firing)
        if kind not in numbers:
            numbers[kind] = len(made)
            made.append(_model(net, firing).SerializeToString(deterministic=True))
        which.append(numbers[kind])
    return tuple(made), tuple(which)


def _model(net: Net, firing: Firing) -> Any:
    unit = firing.unit
    if firing.band is None:
        nodes = [copy.deepcopy(net.model.graph.node[s.node]) for s in unit.steps]
        return _wrapped(
            net,
            nodes,
            [],
            {t: net.shapes[t] for t in unit.reads},
            {t: net.shapes[t] for t in unit.makes},
        )
    rows = unit.ranges(*firing.band)
    nodes, constants, cut = [], [], set[str]()
    for step, reads in unit.readings(*firing.band):
        node = copy.deepcopy(net.model.graph.node[step.node])
        for reading in reads:
            first, end = (n - rows[reading.read.tensor][0] for n in (reading.first, reading.end))
            if (reading.first, reading.end) != rows[reading.read.tensor]:
                name = f"{reading.read.tensor}__rows_{first}_{end}"
                if name not in cut:
                    cut.add(name)
                    a, b = rows[reading.read.tensor]
                    found = _cut(net, reading.read.tensor, name, (first, end), b - a)
                    nodes += found[0]
                    constants += found[1]
                node.input[reading.read.position] = name
        if step.operator in PADDED:
            _pad(node, net, step.makes[0], reads[0])
        if step.operator in ("Resize", "Upsample"):
            constants += _scaled(node, net, step.makes[0], reads[0])
        nodes.append(node)
    reads_shapes = {t: _shape(net, t, rows[t]) for t in unit.reads if t in rows}
    return _wrapped(
        net, nodes, constants, reads_shapes, {unit.out: _shape(net, unit.out, rows[unit.out])}
    )


def _shape(net: Net, tensor: str, band: tuple[int, int]) -> tuple[int, ...]:
    shape = net.shapes[tensor]
    return (*shape[:2], band[1] - band[0], shape[3]) if len(shape) == 4 else shape


def _cut(
    net: Net, tensor: str, name: str, band: tuple[int, int], there: int
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
    return nodes, [
        numpy_helper.from_array(np.array(v, np.int64), f"{name}_{k}") for k, v in numbers.items()
    ]


def _pad(node: Any, net: Net, out: str, data: Reading) -> None:
    """The padding of a band in place of the layer's own; the width keeps what the layer has."""
    from onnx import helper

    window = data.read.window
    assert window is not None
    known = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = (
        known["kernel_shape"][1]
        if "kernel_shape" in known
        else net.chain.tensors[node.input[1]].shape[3]
    )
    stride, dilation = known.get("strides", [1, 1])[1], known.get("dilations", [1, 1])[1]
    width, result = net.shapes[data.read.tensor][3], net.shapes[out][3]
    span = (kernel - 1) * dilation + 1
    place = known.get("auto_pad", b"NOTSET").decode(errors="replace")
    if place.startswith("SAME"):
        total = max((-(-width // stride) - 1) * stride + span - width, 0)
        left = total - total // 2 if place == "SAME_LOWER" else total // 2
    else:
        left = 0 if place == "VALID" else known.get("pads", [0, 0, 0, 0])[1]
    right = max(0, (result - 1) * stride + span - width - left)
    kept = [a for a in node.attribute if a.name not in ("pads", "auto_pad", "ceil_mode")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute("pads", [data.above, left, data.below, right]))


def _scaled(node: Any, net: Net, out: str, data: Reading) -> list[Any]:
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
    net: Net,
    nodes: list[Any],
    constants: list[Any],
    reads: dict[str, tuple[int, ...]],
    makes: dict[str, tuple[int, ...]],
) -> Any:
    """A model of nodes with the weights, and what is computed from them, that they need."""
    import numpy as np
    import onnx
    from onnx import helper

    made = {t for n in nodes for t in n.output} | set(reads)
    makers = {t: k for k, n in enumerate(net.model.graph.node) for t in n.output if t}
    needed: dict[int, Any] = {}
    wanted = [t for n in nodes for t in n.input]
    while wanted:
        tensor = wanted.pop()
        k = makers.get(tensor)
        if tensor not in made and k is not None and k not in needed:
            needed[k] = _answer(net.model.graph.node[k], net)
            wanted += needed[k].input
    nodes = [*(needed[k] for k in sorted(needed)), *nodes]
    used = {t for n in nodes for t in n.input}
    weights = [copy.deepcopy(w) for w in net.model.graph.initializer if w.name in used]
    for weight in weights:
        if weight.external_data:
            onnx.external_data_helper.load_external_data_for_tensor(weight, str(net.folder))
            weight.data_location = onnx.TensorProto.DEFAULT
            del weight.external_data[:]

    def border(shapes: dict[str, tuple[int, ...]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                t,
                helper.np_dtype_to_tensor_dtype(np.dtype(net.chain.tensors[t].dtype)),
                list(shape),
            )
            for t, shape in shapes.items()
        ]

    graph = helper.make_graph(nodes, "band", border(reads), border(makes), [*weights, *constants])
    model = helper.make_model(
        graph, opset_imports=net.model.opset_import, functions=net.model.functions
    )
    model.ir_version = max(net.model.ir_version, 4)
    return model


def _answer(node: Any, net: Net) -> Any:
    """A node that asks for a fixed shape becomes its answer."""
    from onnx import TensorProto, helper

    value = shape_value(node, net.chain.tensors)
    if value is None:
        return node
    numbers, dims = ([value], []) if isinstance(value, int) else (value, [len(value)])
    tensor = helper.make_tensor("", TensorProto.INT64, dims, numbers)
    return helper.make_node("Constant", [], list(node.output), node.name, value=tensor)


def reads_of(unit: Unit, firing: Firing) -> tuple[str, ...]:
    """The inputs of its model, in order."""
    return unit.reads if firing.band is None else tuple(t for t, _ in firing.reads)
