"""What each operator of ONNX has to keep to on a GPU with TensorRT: one function per rule.

In: a `CheckedLayer`, the tensors whose values are known before an inference, a version. Out: the
rules that the layer breaks, with what it has instead. `operators.py` has the tables and names their
sources; finding the layers is left to `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...model.tensorrt import TensorRTVersion
from ..accelerators.layers import Broken, CheckedLayer
from .operators import FLOATS, INT8_FROM_11, NOT_IN_RTX, OFFERED, TYPES, Version, changed_at_borders

#: LIST and PARSER: inputs that decide sizes or the course of a layer, by their numbers.
KNOWN_INPUTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "DequantizeLinear": (1, 2),
    "Dropout": (2,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
#: PARSER: as above, and sizes of other tensors do not do.
CONSTANT_INPUTS: dict[str, tuple[int, ...]] = {
    "STFT": (1, 3),
    **{
        f"Reduce{kind}": (1,)
        for kind in (
            *("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum"),
            "SumSquare",
        )
    },
}
#: LIST, Resize; cubic is in the importers of all of its branches.
COORDINATES = (
    *("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn"),
    *("asymmetric", "align_corners"),
)
MODES = ("nearest", "linear", "cubic")
#: PARSER: operators that broadcast otherwise before operator set 7.
BROADCASTS = frozenset(
    {
        *("Add", "And", "Div", "Equal", "Gemm", "Greater", "Less", "Max", "Mean", "Min", "Mul"),
        *("Or", "PRelu", "Pow", "Sub", "Sum", "Xor"),
    }
)
#: PARSER: operators of which only the first output can be had.
FIRST_OUTPUT = frozenset({"LayerNormalization", "MaxPool"})


def broken(
    layer: CheckedLayer, version: Version, computed: Collection[str], borders: Collection[str]
) -> Broken:
    """Rules that a layer breaks, with what it has instead.

    `computed` are the tensors whose values depend on data, not on sizes alone; `borders` are the
    inputs and outputs of the network.
    """
    if layer.opset < 7 and layer.op in BROADCASTS:
        yield "operator set 7 or later", f"operator set {layer.opset}"
        return
    if TensorRTVersion(version).rtx and layer.op in NOT_IN_RTX:
        yield "offered by TensorRT for RTX", "not offered"
        return
    version = TensorRTVersion(version).rules
    since = OFFERED.get(layer.op)
    if since is None:
        yield "offered by TensorRT", "not offered"
        return
    if version < since:
        yield "offered by TensorRT", f"from TensorRT {TensorRTVersion(since)} on"
        return
    yield from _data(layer, version)
    yield from _tensors(layer, version, borders)
    for index in KNOWN_INPUTS.get(layer.op, ()):
        if index < len(layer.inputs) and layer.inputs[index] in computed:
            yield f"input {index} known", f"`{layer.inputs[index]}` depends on data"
    for index in CONSTANT_INPUTS.get(layer.op, ()):
        tensor = layer.inputs[index] if index < len(layer.inputs) else ""
        if tensor and tensor not in layer.constants:
            yield f"input {index} constant", f"`{tensor}` is computed"
    if layer.op in FIRST_OUTPUT and len(layer.outputs) > 1:
        yield "one output", f"{len(layer.outputs)} outputs"
    if layer.op in CHECKS:
        yield from CHECKS[layer.op](layer)


def _data(layer: CheckedLayer, version: Version) -> Broken:
    """Types of what an operator computes with."""
    takes = TYPES.get(layer.op, FLOATS)
    if version >= (11,) and layer.op in INT8_FROM_11:
        takes |= {"int8"}
    # What `Where` chooses between comes behind its condition.
    data = layer.inputs[1:3] if layer.op == "Where" else layer.inputs[:1]
    for tensor in data:
        dtype = _type(layer, tensor)
        if dtype and dtype not in takes:
            yield f"data in {_listed(takes)}", dtype


def _tensors(layer: CheckedLayer, version: Version, borders: Collection[str]) -> Broken:
    """Types that TensorRT has not, not between layers, or not at borders."""
    changed = changed_at_borders(version)
    for tensor in (*layer.inputs, *layer.outputs):
        dtype = _type(layer, tensor)
        if dtype in _NEVER:
            yield "types of TensorRT", dtype
        elif dtype == "uint8" and tensor not in borders:
            yield "uint8 at the border alone", f"`{tensor}` between layers"
        elif dtype in changed and tensor in borders:
            yield AT_BORDERS[dtype], f"`{tensor}`"


def _type(layer: CheckedLayer, tensor: str) -> str:
    """The type of a tensor that depends on an input of the network; "" for any other one, or where
    it is not known."""
    border = layer.tensors.get(tensor) if tensor in layer.flowing else None
    return border.dtype if border is not None else ""


AT_BORDERS = {
    "float64": "no float64 at the border",
    "int64": "no int64 at the border before TensorRT 10",
}
#: Tensors of ONNX that TensorRT has no type for.
_NEVER = frozenset(
    {
        *("int16", "uint16", "uint32", "uint64", "complex64", "complex128", "string"),
        *("int4", "uint4", "float4e2m1", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2"),
        "float8e5m2fnuz",
    }
)


def _listed(types: frozenset[str]) -> str:
    kinds = [
        word
        for word, some in (("floats", "float32"), ("integers", "int32"), ("bool", "bool"))
        if some in types
    ]
    kinds += sorted(types & {"int8", "uint8"})
    return ", ".join(kinds)


def _window(layer: CheckedLayer) -> Broken:
    """Pools: the importers of TensorRT 8 pass over dilations without a word, later ones refuse
    them."""
    dilations = [int(d) for d in layer.attributes.get("dilations", ())]
    if any(d != 1 for d in dilations):
        yield "no dilation", f"dilation {'x'.join(map(str, dilations))}"


def _lp_pool(layer: CheckedLayer) -> Broken:
    yield from _window(layer)
    yield from _norm(layer)


def _norm(layer: CheckedLayer) -> Broken:
    norm = layer.attributes.get("p", 2)
    if norm not in (1, 2):
        yield "norm 1 or 2", f"norm {norm}"


def _batch_normalization(layer: CheckedLayer) -> Broken:
    if layer.attributes.get("training_mode", 0):
        yield "no training", "training_mode 1"


def _resize(layer: CheckedLayer) -> Broken:
    if layer.attributes.get("antialias", 0):
        yield "no antialiasing", "antialias 1"
    policy = layer.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        yield "aspect ratio `stretch`", policy
    coordinates = layer.text("coordinate_transformation_mode", "half_pixel")
    if coordinates not in COORDINATES:
        yield "coordinates of TensorRT", coordinates
    mode = layer.text("mode", "nearest")
    if mode not in MODES:
        yield "nearest, linear or cubic", mode
    axes = [int(a) for a in layer.attributes.get("axes", ())]
    scaled = len(layer.inputs) > 2 and layer.inputs[2]
    if axes and scaled and axes != list(range(len(layer.data))):
        yield "scales of all axes", f"axes {axes}"


def _scatter(layer: CheckedLayer) -> Broken:
    """As for pools: TensorRT 8 passes over reductions."""
    reduction = layer.text("reduction", "none")
    if reduction != "none":
        yield "no reduction", reduction


def _mod(layer: CheckedLayer) -> Broken:
    if not layer.attributes.get("fmod", 0) and _type(layer, layer.inputs[0]) in FLOATS:
        yield "fmod 1 for floats", "fmod 0"


def _mat_mul(layer: CheckedLayer) -> Broken:
    ranks = [len(layer.shape(tensor) or ()) for tensor in layer.inputs]
    if ranks[0] == 1 and ranks[1] > 2:
        yield "no vector by more than a matrix", f"{ranks[0]} by {ranks[1]} dimensions"


def _tensor_scatter(layer: CheckedLayer) -> Broken:
    if len(layer.data) != 4:
        yield "4 dimensions", f"{len(layer.data)} dimensions"
    mode = layer.text("mode", "linear")
    if mode != "linear":
        yield "mode linear", mode


CHECKS: dict[str, Callable[[CheckedLayer], Broken]] = {
    "AveragePool": _window,
    "BatchNormalization": _batch_normalization,
    "GlobalLpPool": _norm,
    "LpNormalization": _norm,
    "LpPool": _lp_pool,
    "MatMul": _mat_mul,
    "MaxPool": _window,
    "Mod": _mod,
    "Resize": _resize,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "TensorScatter": _tensor_scatter,
}
