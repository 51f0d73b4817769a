"""ONNX models as layers: which rows of its data each operator needs for a row of its output.

In: a model file. Out: a `Cnn`. Weights are not read, nothing is run. An operator that is not known
here takes and gives everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import lcm, prod
from pathlib import Path
from typing import Any

from .interface import NetworkError, NetworkInterface, inferred, read_fixed
from .layers import SAME, WHOLE, Cnn, Layer, LayerEdge, Rows, RowWindow, Scaled, Transposed, layout
from .nodes import first_output, read_by


def read_layers(
    path: Path, fixed: Mapping[str, tuple[int, ...]] = {}, batch: int | None = 1
) -> Cnn:
    """The layers of an ONNX model from which an output can be reached, its inputs and outputs among
    them.

    `fixed` and `batch` fix dynamic dimensions as in `read_network`. What follows from constants and
    shapes alone is no layer. A layer is called after its first output tensor, an output layer
    `TENSOR:output`. Shapes are those that the standard's inference finds; onnxruntime leaves out a
    last row that `ceil_mode` would make of padding alone. Raises NetworkError: the faults of
    `read_network`, F403 for a tensor without fixed shape, F402 for a graph that contradicts itself
    or has nothing to compute.
    """
    graph = OnnxGraph(path.name, *read_fixed(path, fixed, batch))
    layers: list[Layer] = []
    source: dict[str, str] = {}
    for name in graph.inputs:
        if not graph.empty(name):
            shape = layout(graph.shape(name))
            source[name] = name
            layers.append(Layer(name, "input", shape, graph.bytes(name), shape[1], ()))
    for node in graph.nodes:
        taken = [i for i, t in enumerate(node.inputs) if t in source and not graph.empty(t)]
        if not taken or node.op in ("Shape", "Size"):
            continue
        outputs = [t for t in node.node.output if t in graph.read and not graph.empty(t)]
        if outputs:
            layer = _layer(node, taken, outputs, source, graph)
            layers.append(layer)
            source.update(dict.fromkeys(outputs, layer.name))
    layers += _output_layers(graph, source, {layer.name for layer in layers})
    kept = _reaching_an_output(layers)
    if not kept:
        raise NetworkError(
            "F402", f"no output of `{path.name}` depends on an input", "export it again"
        )
    return Cnn(kept, str(path))


def _output_layers(graph: OnnxGraph, source: Mapping[str, str], names: set[str]) -> Iterator[Layer]:
    """The layers that take the outputs of the network; `names` are those of all others."""
    for tensor in graph.outputs:
        if tensor in source:
            shape = layout(graph.shape(tensor))
            name = f"{tensor}:output"
            while name in names:
                name += "'"
            names.add(name)
            edge = LayerEdge(source[tensor], prod(shape), shape[1], WHOLE)
            yield Layer(name, "output", shape, graph.bytes(tensor), 1, (edge,))


def _layer(
    node: OnnxNode,
    taken: list[int],
    outputs: list[str],
    source: Mapping[str, str],
    graph: OnnxGraph,
) -> Layer:
    name = first_output(node.node)
    shape = layout(graph.shape(outputs[0]))
    rule = RULES.get(node.op)
    if rule is _transposed and len(node.result) != len(node.dims(0)):
        # The standard's inference makes a scalar of an output below the size of the input.
        raise NetworkError(
            "F403", f"tensor `{name}` of `{graph.file}` has no shape", "give it one with `pads`"
        )
    by_rows = all(layout(graph.shape(t))[1] == shape[1] for t in outputs)
    edges: dict[tuple[str, Rows], LayerEdge] = {}
    for i in taken:
        # Below rank 3 there is one row.
        rows = rule(node, i) if rule and len(node.result) > 2 else None
        tensor = node.inputs[i]
        data = layout(graph.shape(tensor))
        edge = LayerEdge(source[tensor], prod(data), data[1], rows or WHOLE)
        edges[tensor, edge.rows] = edge
        if rows is None or (rows == WHOLE and edge.height > 1):
            by_rows = False
    phases = shape[1] if by_rows else 1
    return Layer(
        name, node.node.op_type, shape, graph.bytes(outputs[0]), phases, tuple(edges.values())
    )


def _reaching_an_output(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    wanted: set[str] = set()
    kept = []
    for layer in reversed(list(layers)):
        if layer.operator == "output" or layer.name in wanted:
            wanted.update(e.source for e in layer.inputs)
            kept.append(layer)
    return tuple(reversed(kept))


class OnnxGraph:
    """An ONNX graph with fixed inputs (see `read_fixed`) and inferred shapes."""

    def __init__(self, file: str, interface: NetworkInterface, model: Any) -> None:
        known = inferred(model)
        self.file = file
        self.inputs = [b.name for b in interface.inputs]
        self.outputs = [v.name for v in known.output]
        #: Per tensor the type of its elements, and its dimensions, None for what is not known.
        self._types: dict[str, tuple[int, tuple[int | None, ...] | None]] = {}
        for value in (*known.output, *known.value_info, *known.input):
            tensor = value.type.tensor_type
            self._types[value.name] = tensor.elem_type, _dims(tensor)
        self.constants: dict[str, Any] = {}
        for weight in model.graph.initializer:
            self._types[weight.name] = weight.data_type, tuple(weight.dims)
            self.constants[weight.name] = weight
        self.nodes = [OnnxNode(node, interface.opset, self) for node in model.graph.node]
        self.constants |= {n.node.output[0]: n.constant() for n in self.nodes if n.op == "Constant"}
        self.read = read_by(model.graph.node).union(self.outputs) - {""}
        self._require_order(model)

    def _require_order(self, model: Any) -> None:
        """Raise NetworkError where a node reads what is not made before it."""
        made = {*self.inputs, *self.constants, ""}
        made.update(t.values.name for t in model.graph.sparse_initializer)
        for node in model.graph.node:
            for t in node.input:
                if t not in made:
                    raise NetworkError(
                        "F402",
                        f"`{self.file}` reads tensor `{t}` before it is made",
                        "export it again",
                    )
            made.update(node.output)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Fixed dimensions. Raises NetworkError (F403)."""
        dims = self._types.get(tensor, (0, None))[1]
        sizes = tuple(d for d in dims or () if d is not None)
        if dims is None or len(sizes) < len(dims):
            message = f"tensor `{tensor}` of `{self.file}` has no fixed shape"
            raise NetworkError("F403", message, "export the network with fixed shapes")
        if min(sizes, default=0) < 0:
            raise NetworkError(
                "F402",
                f"tensor `{tensor}` of `{self.file}` has a negative dimension",
                "export it again",
            )
        return sizes

    def empty(self, tensor: str) -> bool:
        """Without elements: nothing travels."""
        return 0 in self.shape(tensor)

    def bytes(self, tensor: str) -> int:
        """Size of an element."""
        import onnx

        kind = self._types[tensor][0]
        if not kind:
            raise NetworkError(
                "F403", f"tensor `{tensor}` of `{self.file}` has no type", "export it again"
            )
        return int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)


class OnnxNode:
    """What the rules ask of an ONNX node. `op` is empty for operators that are not in the
    standard."""

    def __init__(self, node: Any, opset: int, graph: OnnxGraph) -> None:
        import onnx

        self.node, self.opset, self._graph = node, opset, graph
        self.op: str = node.op_type if node.domain in ("", "ai.onnx") else ""
        self.inputs: list[str] = list(node.input)
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}

    @property
    def result(self) -> tuple[int, ...]:
        """Dimensions of the first output."""
        return self._graph.shape(next(t for t in self.node.output if t))

    def dims(self, index: int) -> tuple[int, ...]:
        """Dimensions of an input."""
        return self._graph.shape(self.inputs[index])

    def text(self, name: str, default: str) -> str:
        """An attribute of type string."""
        value = self.attributes.get(name)
        return value.decode(errors="replace") if isinstance(value, bytes) else default

    def axis(self, default: int) -> int:
        """The attribute `axis`, counted from the front."""
        return int(self.attributes.get("axis", default)) % len(self.result)

    def given(self, index: int) -> bool:
        """Is that optional input there?"""
        return index < len(self.inputs) and self.inputs[index] != ""

    def numbers(self, index: int, attribute: str = "") -> list[Any] | None:
        """A constant input, or the attribute that had its place in older operator sets; None when
        it is not known."""
        import onnx

        if attribute in self.attributes:
            return list(self.attributes[attribute])
        if not self.given(index):
            return None
        value = self._graph.constants.get(self.inputs[index])
        if isinstance(value, onnx.TensorProto):
            if value.data_location == onnx.TensorProto.EXTERNAL:
                return None
            value = onnx.numpy_helper.to_array(value).ravel().tolist()
        return value if isinstance(value, list) else None

    def constant(self) -> Any:
        """The value of a Constant node: a tensor, or a list."""
        value = next(iter(self.attributes.values()))
        return [value] if isinstance(value, int | float) else value


def _dims(tensor: Any) -> tuple[int | None, ...] | None:
    """The dimensions of a type; None for what is not known."""
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)


Rule = Callable[[OnnxNode, int], Rows | None]
"""Rows of input `index` that an output row needs; None when the operator cannot be done row by
row."""


def _elementwise(n: OnnxNode, index: int) -> Rows | None:
    data = n.dims(index)
    # What is broadcast over the rows is needed as a whole by the first one.
    return SAME if len(data) == len(n.result) and data[2] == n.result[2] else WHOLE


def _normalized(n: OnnxNode, index: int) -> Rows | None:
    return None if n.attributes.get("training_mode") else _elementwise(n, index)


def _window(n: OnnxNode, index: int) -> Rows | None:
    if index:
        return WHOLE
    height = n.dims(0)[2]
    kernel, stride, dilation = _kernel(n)
    window = RowWindow(kernel, stride, dilation)
    place = n.text("auto_pad", "NOTSET")
    top, bottom = _declared(n) if place == "NOTSET" else (0, 0)
    if place.startswith("SAME"):
        total = (-(-height // stride) - 1) * stride + window.span - height
        # Runtimes differ: some crop where strides jump over rows, and onnxruntime's pools pad
        # without the dilation.
        if total < 0 or (dilation > 1 and n.op != "Conv"):
            return None
        top, bottom = sorted((total // 2, total - total // 2), reverse=place == "SAME_LOWER")
    return RowWindow(kernel, stride, dilation, top, bottom)


def _kernel(n: OnnxNode) -> tuple[int, int, int]:
    """Kernel, stride and dilation along the height."""
    kernel = n.attributes["kernel_shape"][0] if "kernel_shape" in n.attributes else n.dims(1)[2]
    stride = n.attributes.get("strides", [1])[0]
    dilation = n.attributes.get("dilations", [1])[0]
    return int(kernel), int(stride), int(dilation)


def _declared(n: OnnxNode) -> tuple[int, int]:
    pads = n.attributes.get("pads", [0, 0])
    return int(pads[0]), int(pads[len(pads) // 2])


def _transposed(n: OnnxNode, index: int) -> Rows | None:
    if index:
        return WHOLE
    kernel, stride, dilation = _kernel(n)
    place = n.text("auto_pad", "NOTSET")
    if "output_shape" not in n.attributes and not place.startswith("SAME"):
        top = 0 if place == "VALID" else _declared(n)[0]
        return Transposed(kernel, stride, dilation, top)
    extra = int(n.attributes.get("output_padding", [0])[0])
    total = stride * (n.dims(0)[2] - 1) + extra + (kernel - 1) * dilation + 1 - n.result[2]
    # Which side gets the odd row differs between versions of the standard: cover both.
    return Transposed(kernel, stride, dilation, total // 2, max(total - total // 2, 0) - total // 2)


def _concat(n: OnnxNode, index: int) -> Rows | None:
    if n.axis(1) != 2:
        return SAME
    return RowWindow(top=sum(n.dims(i)[2] for i in range(index)))


def _split(n: OnnxNode, index: int) -> Rows | None:
    if index:
        return WHOLE
    along_rows = int(n.attributes.get("axis", 0)) % len(n.dims(0)) == 2
    return None if along_rows else SAME


def _pad(n: OnnxNode, index: int) -> Rows | None:
    if index:
        return WHOLE
    rank = len(n.result)
    pads = n.numbers(1, "pads")
    axes = n.numbers(3) if n.given(3) else list(range(rank))
    if pads is None or axes is None:
        return None
    ends = {a % rank: (int(pads[k]), int(pads[k + len(axes)])) for k, a in enumerate(axes)}
    top, bottom = ends.get(2, (0, 0))
    if n.text("mode", "constant") == "constant":
        return RowWindow(top=top, bottom=bottom)
    if n.text("mode", "constant") == "edge":
        return Scaled(Fraction(1), Fraction(-top), Fraction(-top))
    return SAME if top == bottom == 0 else None


def _slice(n: OnnxNode, index: int) -> Rows | None:
    if index:
        return WHOLE
    starts = n.numbers(1, "starts")
    if starts is None:
        return None
    axes: list[int] | None = list(range(len(starts)))
    if n.given(3) or "axes" in n.attributes:
        axes = n.numbers(3, "axes")
    steps = n.numbers(4) if n.given(4) else [1] * len(starts)
    if axes is None or steps is None:
        return None
    height = n.dims(0)[2]
    for start, axis, step in zip(starts, axes, steps, strict=True):
        if axis % len(n.result) == 2:
            from_top = start + height if start < 0 else start
            first = min(max(from_top, 0), height)
            return RowWindow(stride=step, top=-first) if step > 0 else None
    return SAME


def _transpose(n: OnnxNode, index: int) -> Rows | None:
    order = n.attributes.get("perm") or list(range(len(n.result)))[::-1]
    return SAME if order[2] == 2 else None


def _softmax(n: OnnxNode, index: int) -> Rows | None:
    # Before operator set 13 everything from the axis on was one vector.
    axis = n.axis(-1 if n.opset >= 13 else 1)
    return SAME if axis > 2 or (n.opset >= 13 and axis != 2) else None


def _depth_to_space(n: OnnxNode, index: int) -> Rows | None:
    return Scaled(Fraction(1, n.attributes["blocksize"]), Fraction(0), Fraction(0))


def _space_to_depth(n: OnnxNode, index: int) -> Rows | None:
    return RowWindow(n.attributes["blocksize"], n.attributes["blocksize"])


def _resize(n: OnnxNode, index: int) -> Rows | None:
    """Where an output row falls between input rows, by the coordinate modes of the standard (Resize
    19)."""
    if index:
        return WHOLE
    before, after = n.dims(0)[2], n.result[2]
    place, rounding = _coordinates(n)
    step = _resize_step(n, before, after, place)
    if step is None:
        return None
    if before == after:
        return SAME if step == 1 else None  # onnxruntime copies, whatever the scale
    half = step / 2
    shift = {
        "half_pixel": half - Fraction(1, 2),
        "pytorch_half_pixel": half - Fraction(1, 2),
        "asymmetric": Fraction(0),
        "align_corners": Fraction(0),
        "tf_half_pixel_for_nn": half,
    }.get(place)
    if shift is None:
        return None
    # Coordinates are computed in 32-bit floats: exact for powers of two, otherwise they may miss a
    # whole row.
    exact = all(k & (k - 1) == 0 for k in (step.numerator, step.denominator))
    slack = Fraction(0) if exact else Fraction(1, 64)
    mode = n.text("mode", "nearest")
    if mode != "nearest":
        below, above = {"linear": (0, 1), "cubic": (-1, 2)}[mode]
        return Scaled(step, shift + below - slack, shift + above + slack)
    return _nearest(step, shift, slack, rounding)


def _coordinates(n: OnnxNode) -> tuple[str, str]:
    """How coordinates are transformed, and how they are rounded."""
    if n.op == "Upsample" or n.opset < 11:
        return "asymmetric", "either"
    place = n.text("coordinate_transformation_mode", "half_pixel")
    return place, n.text("nearest_mode", "round_prefer_floor")


def _resize_step(n: OnnxNode, before: int, after: int, place: str) -> Fraction | None:
    """Rows of the data from one row of the result to the next; None where that is not all that
    decides which ones are needed."""
    scales = n.numbers(2 if n.op == "Resize" and n.opset >= 11 else 1, "scales")
    if n.given(3):
        scales = [Fraction(after, before)] * len(n.result)
    if not scales or len(scales) != len(n.result) or after == 1:
        return None
    stretched = n.text("keep_aspect_ratio_policy", "stretch") == "stretch"
    if n.attributes.get("antialias") or not stretched:
        return None
    if place == "align_corners":
        return Fraction(before - 1, after - 1)
    return 1 / Fraction(scales[2])


def _nearest(step: Fraction, shift: Fraction, slack: Fraction, rounding: str) -> Scaled:
    """The nearest row, by the way in which a coordinate is rounded; `slack` is 0 where coordinates
    are exact."""
    if rounding == "round_prefer_floor":
        shift -= Fraction(1, 2)
    elif rounding == "round_prefer_ceil":
        shift += Fraction(1, 2)
    floor = (-slack, slack)
    # The ceiling of x is the floor of x + 1 - 1/q for x with denominator q.
    up = 1 - Fraction(1, lcm(step.denominator, shift.denominator))
    ceiling = (1 - 2 * slack, 1 + slack) if slack else (up, up)
    low = ceiling[0] if rounding in ("round_prefer_floor", "ceil") else floor[0]
    high = floor[1] if rounding in ("round_prefer_ceil", "floor") else ceiling[1]
    return Scaled(step, shift + low, shift + high)


ELEMENTWISE = (
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Cast",
    "CastLike",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LRN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "QuantizeLinear",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Where",
    "Xor",
)


#: Standard operators that can be done row by row.
RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool"), _window),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "BatchNormalization": _normalized,
    "Concat": _concat,
    "ConvTranspose": _transposed,
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Transpose": _transpose,
}
