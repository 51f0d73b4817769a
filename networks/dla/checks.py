"""What each operator of ONNX has to keep to on a DLA: one function per kind of layer.

In: a `CheckedLayer` with its surroundings. Out: the rules that it breaks, with what it has instead.
The numbers are in `limits.py`; finding the layers is left to `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

from ..accelerators.layers import Broken, CheckedLayer
from . import limits as dla
from .limits import Generation, Version

#: What a quantized or converted network flows in; float32 is what it is converted from.
TYPES = ("float32", "float16", "int8")
COMPARISONS = ("Equal", "Greater", "Less")

NOT_OFFERED = "not offered by TensorRT for a DLA"


def broken(
    layer: CheckedLayer, generation: Generation, tensorrt: Version, precision: str
) -> Broken:
    """Rules that a layer breaks, with what it has instead. A rule may come twice, for two
    tensors."""
    if layer.op == "Cast" and layer.before and set(layer.before) <= set(COMPARISONS):
        return  # The cast that GUIDE demands behind a comparison.
    instead = _not_offered(layer.op, generation, tensorrt)
    if instead is not None:
        yield NOT_OFFERED, instead
        return
    shapeless = layer.shapeless()
    if shapeless is not None:
        yield "static shapes", f"`{shapeless}` has no fixed shape"
        return
    if layer.op in dla.INT8_ONLY and precision != "int8":
        yield "int8 only", precision
    if layer.op in dla.FP16_ONLY and precision != "fp16":
        yield "fp16 only", precision
    yield from _tensors(layer)
    yield from _shapes(layer, generation)


def _shapes(layer: CheckedLayer, generation: Generation) -> Broken:
    """Dimensions of the data and the result, and what an operator asks of its windows."""
    ranks = len(layer.data), len(layer.result)
    if layer.op in FOUR and ranks != (4, 4):
        yield "4 dimensions", f"{ranks[0]} to {ranks[1]} dimensions"
    elif max(ranks) > 4:
        yield "at most 4 dimensions", f"{ranks[0]} to {ranks[1]} dimensions"
    elif layer.op in CHECKS and 0 not in (*layer.data, *layer.result):
        yield from CHECKS[layer.op](layer)
        if layer.op == "AveragePool" and generation.inclusive_averages:
            yield from _inclusive(layer)


def _not_offered(op: str, generation: Generation, tensorrt: Version) -> str | None:
    """What is there instead of an operator that TensorRT does not offer; None if it offers it."""
    if op in generation.without:
        return f"not on {generation.name}"
    since = dla.OFFERED.get(op)
    if since is not None and tensorrt >= since:
        return None
    if op in dla.REBUILT:
        return "can be rebuilt from other operators"
    if since is None:
        return op
    return f"from TensorRT {'.'.join(map(str, since))} on"


def _tensors(layer: CheckedLayer) -> Broken:
    """GUIDE, general restrictions: batch, sizes and types of the data."""
    for tensor in (*layer.inputs, *layer.outputs):
        if tensor not in layer.flowing:
            continue
        border = layer.tensors[tensor]
        yield from dla.BATCH.breaks(border.shape[:1])
        # One by one: the detail names the dimension that is too large.
        for size in border.shape[1:]:
            yield from dla.DIMENSION.breaks([size])
        if border.dtype not in TYPES and not (border.dtype == "bool" and layer.op in COMPARISONS):
            yield "data in fp16 or int8", border.dtype


def _kernel(layer: CheckedLayer) -> list[int]:
    shape = layer.attributes.get("kernel_shape")
    if not shape:
        shape = (layer.shape(layer.inputs[1]) or (0, 0, 0, 0))[2:]
    return [int(v) for v in shape]


def _padding(layer: CheckedLayer, kernel: Sequence[int]) -> list[int]:
    """The larger end of the padding, for height and for width."""
    place = layer.text("auto_pad", "NOTSET")
    if place == "NOTSET":
        pads = layer.attributes.get("pads") or [0, 0, 0, 0]
        return [max(pads[0], pads[2]), max(pads[1], pads[3])]
    if place == "VALID":
        return [0, 0]
    strides, dilations = layer.spatial("strides", 1), layer.spatial("dilations", 1)
    padding = []
    for size, result, elements, stride, dilation in zip(
        layer.data[2:], layer.result[2:], kernel, strides, dilations, strict=True
    ):
        last, span = (result - 1) * stride, (elements - 1) * dilation + 1
        total = max(0, last + span - size)
        padding.append(total - total // 2)
    return padding


def _conv(layer: CheckedLayer) -> Broken:
    yield from layer.variable(1)
    kernel = _kernel(layer)
    padding = _padding(layer, kernel)
    yield from dla.CONV_KERNEL.breaks(kernel)
    yield from dla.CONV_STRIDE.breaks(layer.spatial("strides", 1))
    yield from dla.CONV_DILATION.breaks(layer.spatial("dilations", 1))
    yield from dla.CONV_PADDING.breaks(padding)
    if any(p >= k for p, k in zip(padding, kernel, strict=True)):
        yield (
            "padding below the kernel",
            f"padding {padding[0]}x{padding[1]}, kernel {kernel[0]}x{kernel[1]}",
        )


def _transposed(layer: CheckedLayer) -> Broken:
    yield from layer.variable(1)
    kernel, strides = _kernel(layer), layer.spatial("strides", 1)
    dilations, extra = layer.spatial("dilations", 1), layer.spatial("output_padding", 0)
    yield from dla.TRANSPOSED_KERNEL.breaks(kernel)
    yield from dla.TRANSPOSED_STRIDE.breaks(strides)
    cut = []
    for size, result, elements, stride, dilation, more in zip(
        layer.data[2:], layer.result[2:], kernel, strides, dilations, extra, strict=True
    ):
        # Without padding the output is as large as this; what `auto_pad` or `output_shape` cut
        # off shows as well.
        full = (size - 1) * stride + (elements - 1) * dilation + 1
        cut.append(full + more - result)
    if any((*layer.attributes.get("pads", ()), *cut)):
        yield "no padding", f"{cut[0]}x{cut[1]} rows and columns cut off"
    if any(extra):
        yield "no output padding", f"output padding {extra[0]}x{extra[1]}"
    if dilations != [1, 1]:
        yield "no dilation", f"dilation {dilations[0]}x{dilations[1]}"
    if layer.attributes.get("group", 1) != 1:
        yield "one group", f"{layer.attributes['group']} groups"


def _pool(layer: CheckedLayer) -> Broken:
    kernel, dilations = _kernel(layer), layer.spatial("dilations", 1)
    padding = _padding(layer, kernel)
    yield from dla.POOL_KERNEL.breaks(kernel)
    yield from dla.POOL_STRIDE.breaks(layer.spatial("strides", 1))
    yield from dla.POOL_PADDING.breaks(padding)
    # A pool of TensorRT has neither of these.
    if dilations != [1, 1]:
        yield "no dilation", f"dilation {dilations[0]}x{dilations[1]}"
    if len(layer.outputs) > 1:
        yield "one output", f"{len(layer.outputs)} outputs"


def _inclusive(layer: CheckedLayer) -> Broken:
    if any(_padding(layer, _kernel(layer))) and not layer.attributes.get("count_include_pad", 0):
        yield "padding counted in averages", "count_include_pad 0"


def _clip(layer: CheckedLayer) -> Broken:
    first, last = layer.numbers(1, "min"), layer.numbers(2, "max")
    if first != [0] or not last or last[0] > dla.CLIP_LAST:
        ends = " to ".join(f"{end[0]:g}" if end else "unknown" for end in (first, last))
        yield f"clip from 0 to at most {dla.CLIP_LAST}", f"clip from {ends}"


def _elementwise(layer: CheckedLayer) -> Broken:
    """OPS demands of comparisons that the smaller operand is NC11 or N111; so it is asked of all.

    A constant may have any batch that fits: with one number per tensor, channel or element it
    becomes a scale.
    """
    result = _nchw(layer.result, len(layer.result))
    batch, channels = result[:2]
    fitting = (result, (batch, channels, 1, 1), (batch, 1, 1, 1))
    for tensor in layer.inputs:
        shape = layer.shape(tensor)
        if shape is None:  # a folded constant whose shape inference did not find
            continue
        operand = _nchw(shape, len(layer.result))
        if tensor not in layer.flowing and operand[0] == 1:
            operand = (batch, *operand[1:])
        if operand not in fitting:
            sizes = ("x".join(map(str, s)) for s in (shape, layer.result))
            yield "operands NCHW, NC11 or N111", " for ".join(sizes)


def _nchw(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Four dimensions: a matrix is batch and channels, three dimensions are those besides the
    batch."""
    shape = (1,) * (rank - len(shape)) + shape
    return (*shape, 1, 1) if rank == 2 else (1,) * (4 - rank) + shape


def _power(layer: CheckedLayer) -> Broken:
    if layer.flowing.issuperset(layer.inputs):
        yield "one constant operand", "no constant operand"
    yield from _elementwise(layer)


def _comparison(layer: CheckedLayer) -> Broken:
    if set(layer.after) != {"Cast"}:
        readers = ", ".join(op or "an output" for op in layer.after)
        yield "result for a Cast alone", f"read by {readers}"
    yield from _elementwise(layer)


def _concat(layer: CheckedLayer) -> Broken:
    axis = layer.attributes.get("axis", 1) % 4
    if axis != 1:
        yield "concatenation on channels only", f"axis {axis}"


def _resize(layer: CheckedLayer) -> Broken:
    yield from _static_parameters(layer)
    # Of the sizes: a scale such as 2.5 shows, unless rounding the sizes hides it.
    sizes = zip(layer.data, layer.result, strict=True)
    scales = [Fraction(after, before) for before, after in sizes]
    if scales[:2] != [1, 1]:
        yield "batch and channels not resized", f"scale {scales[0]}x{scales[1]}"
    mode, place, rounding = _coordinates(layer)
    if mode not in dla.SCALES:
        yield "nearest or linear", mode
        return
    limit = dla.SCALES[mode]
    if not all(s.denominator == 1 and limit.first <= s <= limit.last for s in scales[2:]):
        yield limit.rule, f"scale {scales[2]}x{scales[3]}"
    if (mode, place, rounding) not in dla.COORDINATES:
        yield (
            "coordinates asymmetric with floor, or half_pixel",
            " ".join((mode, place, rounding)).strip(),
        )


def _coordinates(layer: CheckedLayer) -> tuple[str, str, str]:
    """How a layer resizes: its mode, its coordinates, and its rounding, where it rounds."""
    mode = layer.text("mode", "nearest")
    if layer.op == "Upsample" or layer.opset < 11:
        place, rounding = "asymmetric", "floor"
    else:
        place = layer.text("coordinate_transformation_mode", "half_pixel")
        rounding = layer.text("nearest_mode", "round_prefer_floor")
    return mode, place, rounding if mode == "nearest" else ""


def _static_parameters(layer: CheckedLayer) -> Broken:
    """All inputs but the first one are to be constants."""
    for tensor in layer.inputs[1:]:
        if tensor in layer.flowing:
            yield "static shapes", f"`{tensor}` is computed"


def _softmax(layer: CheckedLayer) -> Broken:
    old = layer.opset < 13
    axis = layer.attributes.get("axis", 1 if old else -1) % len(layer.data)
    if axis == 0:
        yield "axis within channels, height and width", f"axis {axis}"
        return
    # Before operator set 13 everything from the axis on was one vector.
    size = prod(layer.data[axis:]) if old else layer.data[axis]
    most = dla.SOFTMAX_ALONE if prod(layer.data[1:]) == size else dla.SOFTMAX_BESIDE
    if size > most:
        rule = f"at most {dla.SOFTMAX_BESIDE} along the axis, {dla.SOFTMAX_ALONE} if all else is 1"
        yield rule, f"{size} along axis {axis}"


def _lrn(layer: CheckedLayer) -> Broken:
    if layer.attributes["size"] not in dla.LRN_WINDOWS:
        yield f"window {', '.join(map(str, dla.LRN_WINDOWS))}", f"window {layer.attributes['size']}"


def _matrix(layer: CheckedLayer) -> Broken:
    """TABLE: the second operand is a constant, and it becomes a 1x1 convolution. More than matrices
    is not known."""
    yield from layer.variable(1)
    if layer.attributes.get("transA"):
        yield "first operand not transposed", "transA 1"
    ranks = [len(layer.shape(t) or (1, 1)) for t in layer.inputs[:2]]
    if ranks != [2, 2]:
        yield "operands of 2 dimensions", f"{ranks[0]} and {ranks[1]} dimensions"


def _normalization(layer: CheckedLayer) -> Broken:
    yield from layer.variable(1)
    if layer.attributes.get("training_mode"):
        yield "statistics of the training", "training_mode 1"


def _reduction(layer: CheckedLayer) -> Broken:
    rule = "axes within channels, height and width"
    axes = layer.numbers(1, "axes")
    if axes is None:
        yield rule, "axes unknown or all"
    elif any(axis in (0, -4) for axis in axes):
        yield rule, f"axes {', '.join(f'{axis:g}' for axis in axes)}"


def _slice(layer: CheckedLayer) -> Broken:
    yield from _static_parameters(layer)
    for tensor in layer.outputs:
        size = (layer.shape(tensor) or (0,))[0]
        if size != layer.data[0]:
            yield "batch not sliced", f"{size} of {layer.data[0]}"


def _reshape(layer: CheckedLayer) -> Broken:
    if layer.inputs[1:] and layer.inputs[1] in layer.flowing:
        yield "static shapes", f"`{layer.inputs[1]}` is computed"
    if layer.data[0] != layer.result[0]:
        yield "batch not reshaped", f"{layer.data[0]} to {layer.result[0]}"
    # What the builder says on JetPack 5 and 6 (ultralytics issues 18012 and 23488).
    near = [op for op in (*layer.before, *layer.after) if op in ("Slice", "Split", "Concat")]
    if near:
        yield "reshape not next to slices and concatenations", f"next to {near[0]}"


def _transpose(layer: CheckedLayer) -> Broken:
    order = list(layer.attributes.get("perm") or (3, 2, 1, 0))
    if order[0]:
        yield "batch not transposed", f"order {', '.join(map(str, order))}"


def _weighted(layer: CheckedLayer) -> Broken:
    return layer.variable(1)


#: GUIDE and API: two spatial dimensions, besides batch and channels. Users' logs tell the same of
#: slices, reshapes and concatenations.
FOUR = frozenset(
    {
        *(
            "AveragePool",
            "Concat",
            "Conv",
            "ConvTranspose",
            "GlobalMaxPool",
            "LRN",
            "MaxPool",
            "ReduceMax",
        ),
        *("Reshape", "Resize", "Slice", "Split", "Transpose", "Upsample"),
    }
)

#: Rules of single operators, for data of at most four dimensions (exactly four for those above).
CHECKS: dict[str, Callable[[CheckedLayer], Broken]] = {
    **dict.fromkeys(("Add", "Div", "Max", "Min", "Mul", "Sub", "Sum"), _elementwise),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(COMPARISONS, _comparison),
    **dict.fromkeys(("Gemm", "MatMul"), _matrix),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Slice", "Split"), _slice),
    "BatchNormalization": _normalization,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _transposed,
    "LRN": _lrn,
    "PRelu": _weighted,
    "Pow": _power,
    "ReduceMax": _reduction,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Transpose": _transpose,
}
