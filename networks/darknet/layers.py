"""What each section of a Darknet `.cfg` computes: a rule for every kind of layer.

In: a `DarknetLayer` with its options. Out: its nodes and weights, and the shape of what it gives.
Options are read first, then shapes are looked at: a layer behind a faulty one is checked as far as
it does not depend on it. Sizes and defaults are those of AlexeyAB's Darknet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .cfg import Section
from .net import ACTIVATIONS, DarknetLayer, Shape

#: Inside the root. Darknet itself folds with this value; only its oldest CPU code adds 1e-6 outside
#: of the root.
EPSILON = 1e-5


# -- layers with weights ---------------------------------------------------------------------------
def _convolutional(x: DarknetLayer) -> Shape:
    o = x.section
    filters, groups, size = o.whole("filters", 1), o.whole("groups", 1), o.whole("size", 1)
    tall, wide = _strides(o)
    padding = o.whole("padding", 0, 0)
    if o.whole("pad", 0, 0):
        padding = size // 2
    normalized, activation = (
        o.whole("batch_normalize", 0, 0),
        o.word("activation", "logistic", ACTIVATIONS),
    )
    for name in _CONV_EXTRAS:
        o.only(name, "0")
    o.only("dilation", "1")
    o.only("share_index", "")
    channels, height, width = x.shape
    for count, what in ((channels, "channels"), (filters, "filters")):
        if count % groups:
            x.unfit(f"{count} {what} do not divide into {groups} groups", "groups")
    shape = filters, x.slid(height, size, tall, 2 * padding), x.slid(width, size, wide, 2 * padding)
    rest = {
        "kernel_shape": [size, size],
        "strides": [tall, wide],
        "pads": [padding] * 4,
        "group": groups,
    }
    biases = x.weights("biases", filters)
    norm = _norm(x, filters) if normalized else ()
    weights = x.weights("weights", filters, channels // groups, size, size)
    _weighted(x, weights, biases, norm, rest)
    x.activate(activation)
    return shape


#: Options of [convolutional] that change what it computes, or which weights it has.
_CONV_EXTRAS = (
    "antialiasing",
    "assisted_excitation",
    "binary",
    "bin_output",
    "cbn",
    "dontload",
    "dontloadscales",
    "dot",
    "flipped",
    "rotate",
    "stretch",
    "stretch_sway",
    "sway",
    "xnor",
)


def _connected(x: DarknetLayer) -> Shape:
    """A convolution whose kernel is as large as its data: the same sum, and no other shape than (n,
    1, 1) after it."""
    o = x.section
    outputs = o.whole("output", 1)
    normalized, activation = (
        o.whole("batch_normalize", 0, 0),
        o.word("activation", "logistic", ACTIVATIONS),
    )
    o.only("dontload", "0")
    o.only("dontloadscales", "0")
    channels, height, width = x.shape
    biases = x.weights("biases", outputs)
    weights = x.weights("weights", outputs, channels, height, width)
    _weighted(
        x,
        weights,
        biases,
        _norm(x, outputs) if normalized else (),
        {"kernel_shape": [height, width]},
    )
    x.activate(activation)
    return outputs, 1, 1


def _norm(x: DarknetLayer, count: int) -> tuple[str, ...]:
    return tuple(x.weights(what, count) for what in ("scales", "mean", "variance"))


def _weighted(
    x: DarknetLayer, weights: str, biases: str, norm: Sequence[str], attributes: Mapping[str, Any]
) -> None:
    """With a batch normalization the biases are its own, behind the scales."""
    x.add("Conv", "conv", x.tensor, weights, *([] if norm else [biases]), **attributes)
    if norm:
        scales, mean, variance = norm
        x.add("BatchNormalization", "bn", x.tensor, scales, biases, mean, variance, epsilon=EPSILON)


# -- layers without --------------------------------------------------------------------------------
def _strides(o: Section) -> tuple[int, int]:
    stride = o.whole("stride", 1)
    return o.whole("stride_y", stride), o.whole("stride_x", stride)


def _maxpool(x: DarknetLayer) -> Shape:
    """One half of the padding, rounded down, stands in front. By default there is one less than the
    window is wide."""
    o = x.section
    tall, wide = _strides(o)
    size = o.whole("size", o.whole("stride", 1))
    padding = o.whole("padding", size - 1, 0)
    o.only("maxpool_depth", "0")
    o.only("antialiasing", "0")
    front, back = padding // 2, padding - padding // 2
    channels, height, width = x.shape
    if back >= size:
        x.unfit(f"a window of {size} may see nothing but the {padding} of padding", "padding")
    shape = channels, x.slid(height, size, tall, padding), x.slid(width, size, wide, padding)
    pads = [front, front, back, back]
    x.add("MaxPool", "out", x.tensor, kernel_shape=[size, size], strides=[tall, wide], pads=pads)
    return shape


def _avgpool(x: DarknetLayer) -> Shape:
    channels = x.shape[0]
    x.add("GlobalAveragePool", "out", x.tensor)
    return channels, 1, 1


def _route(x: DarknetLayer) -> Shape:
    """Groups are taken of each layer on its own, and put one behind the other."""
    o = x.section
    listed, groups, group = o.wholes("layers"), o.whole("groups", 1), o.whole("group_id", 0, 0)
    if not x.known(listed):
        x.unfit("[route] does not say which layers it reads", "layers", "add `layers=-1`")
    if group >= groups:
        x.unfit(f"there is no group {group} of {groups}", "group_id", "groups count from 0")
    sources = x.others(x.known(listed), "layers")
    _, height, width = _same_size(x, sources, "layers")
    pieces, total = [], 0
    for k, (tensor, (channels, _, _)) in enumerate(sources):
        if channels % groups:
            x.unfit(
                f"{channels} channels of `{tensor}` do not divide into {groups} groups", "groups"
            )
        share = channels // groups
        total += share
        if groups > 1:
            tensor = x.channels(f"part{k}", tensor, group * share, (group + 1) * share)
        pieces.append(tensor)
    x.tensor = pieces[0]
    if len(pieces) > 1:
        x.add("Concat", "out", *pieces, axis=1)
    return total, height, width


def _shortcut(x: DarknetLayer) -> Shape:
    """Where the other layer has more channels, the first ones are added; where it has fewer, to the
    first ones. Sizes may differ as in J. Redmon's Darknet: of a layer N times as wide and tall,
    every Nth pixel is added; a smaller one, to every Nth pixel.

    AlexeyAB's Darknet adds such layers number by number instead, whatever their shapes mean.
    """
    o = x.section
    listed, activation = o.wholes("from"), o.word("activation", "linear", ACTIVATIONS)
    o.only("weights_type", "none")
    o.text("weights_normalizion")  # of weights that are not there
    o.only("alpha", "1")
    o.only("beta", "1")
    if not x.known(listed):
        x.unfit("[shortcut] does not say which layer it adds", "from", "add `from=-3`")
    others = x.others(x.known(listed), "from")
    added = [x.tensor]
    shape = x.shape
    for k, (tensor, other) in enumerate(others):
        if other[1:] != shape[1:]:
            if len(others) > 1 or activation in _OF_THE_FORK:
                x.unfit(
                    f"`{x.tensor}` and `{tensor}` differ in size, and AlexeyAB's Darknet adds them"
                    " number by number, whatever pixels they belong to",
                    "from",
                    "write it for J. Redmon's Darknet, with one layer in `from`",
                )
            tensor = _strided(x, k, tensor, other)
        if other[0] > shape[0]:
            tensor = x.channels(f"part{k}", tensor, 0, shape[0])
        elif other[0] < shape[0]:
            pads = x.constant(f"pads{k}", (0, 0, 0, 0, 0, shape[0] - other[0], 0, 0))
            tensor = x.add("Pad", f"part{k}", tensor, pads)
        added.append(tensor)
    x.add("Add" if len(added) == 2 else "Sum", "sum", *added)
    x.activate(activation)
    return shape


#: Activations that only AlexeyAB's Darknet has.
_OF_THE_FORK = ("mish", "relu6", "swish")


def _strided(x: DarknetLayer, k: int, tensor: str, other: Shape) -> str:
    """A layer in the size of another one. Of one that is N times as large (rounded down), every Nth
    pixel; the pixels of one that is as much smaller, with zeros between and behind them."""
    channels, tall, wide = other
    _, height, width = x.shape
    every, apart = wide // width, width // wide
    if (tall // height, height // tall) != (every, apart):
        message = f"`{x.tensor}` and `{tensor}` differ in size: {height}x{width} and {tall}x{wide}"
        x.unfit(message, "from", "both sides of one layer are the same multiple of the other's")
    rows, columns, step = min(height, tall), min(width, wide), max(every, 1)
    if (rows, columns) != (tall, wide):
        bounds = (
            x.constant(f"pixels{k}_from", (0, 0)),
            x.constant(f"pixels{k}_to", ((rows - 1) * step + 1, (columns - 1) * step + 1)),
            x.constant(f"pixels{k}_axes", (2, 3)),
            x.constant(f"pixels{k}_steps", (step, step)),
        )
        tensor = x.add("Slice", f"pixels{k}", tensor, *bounds)
    if apart > 1:
        split = x.constant(f"split{k}", (1, channels, rows, 1, columns, 1))
        zeros = x.constant(f"zeros{k}", (*[0] * 9, apart - 1, 0, apart - 1))
        tensor = x.add("Pad", f"apart{k}", x.add("Reshape", f"pixel{k}", tensor, split), zeros)
        rows, columns = rows * apart, columns * apart
        joined = x.constant(f"joined{k}", (1, channels, rows, columns))
        tensor = x.add("Reshape", f"spread{k}", tensor, joined)
    if (rows, columns) != (height, width):
        behind = x.constant(f"behind{k}", (*[0] * 6, height - rows, width - columns))
        tensor = x.add("Pad", f"padded{k}", tensor, behind)
    return tensor


def _same_size(x: DarknetLayer, sources: Sequence[tuple[str, Shape]], option: str) -> Shape:
    """The shape of the first one, when all have its height and width."""
    first, shape = sources[0]
    for tensor, (_, height, width) in sources:
        if (height, width) != shape[1:]:
            sizes = f"{shape[1]}x{shape[2]} and {height}x{width}"
            x.unfit(f"`{first}` and `{tensor}` differ in size: {sizes}", option)
    return shape


def _upsample(x: DarknetLayer) -> Shape:
    stride = x.section.whole("stride", 2)
    x.section.only("scale", "1")
    channels, height, width = x.shape
    scales = x.constant("scales", (1.0, 1.0, float(stride), float(stride)))
    rest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x.add("Resize", "out", x.tensor, "", scales, mode="nearest", **rest)
    return channels, height * stride, width * stride


def _reorg(x: DarknetLayer) -> Shape:
    """YOLOv2's passthrough. Darknet lays the numbers out as for fewer channels of a larger image,
    and takes them apart.

    It is no space-to-depth of its data: networks are trained with it as it is.
    """
    stride = x.section.whole("stride", 1)
    x.section.only("reverse", "0")
    channels, height, width = x.shape
    block = stride * stride
    if channels % block or height % stride or width % stride:
        x.unfit(f"{channels}x{height}x{width} does not divide by a stride of {stride}", "stride")
    seen = x.constant("seen", (1, channels // block, height * stride, width * stride))
    x.add("SpaceToDepth", "blocks", x.add("Reshape", "wide", x.tensor, seen), blocksize=stride)
    shape = channels * block, height // stride, width // stride
    x.add("Reshape", "out", x.tensor, x.constant("shape", (1, *shape)))
    return shape


def _dropout(x: DarknetLayer) -> Shape:
    x.section.anything_else()
    return x.shape


def _l2norm(x: DarknetLayer) -> Shape:
    """The channels of each pixel, divided by their length."""
    data = x.tensor
    x.add("Div", "out", data, x.add("ReduceL2", "length", data, axes=[1], keepdims=1))
    return x.shape


def _softmax(x: DarknetLayer) -> Shape:
    for name, value in (
        ("groups", "1"),
        ("temperature", "1"),
        ("spatial", "0"),
        ("tree", ""),
        ("noloss", "0"),
    ):
        x.section.only(name, value)
    channels, height, width = x.shape
    if (height, width) != (1, 1):
        x.unfit(f"[softmax] is read over channels alone, not over {channels}x{height}x{width}")
    x.add("Softmax", "out", x.tensor, axis=1)
    return x.shape


# -- heads -----------------------------------------------------------------------------------------
def _yolo(x: DarknetLayer) -> Shape:
    """The tensor as it comes: decoding is left to the user's code, which finds what it needs in the
    metadata."""
    o = x.section
    classes, total, new_coords = (
        o.whole("classes", 20),
        o.whole("num", 1),
        o.whole("new_coords", 0, 0),
    )
    listed, scale, anchors = (
        x.known(o.wholes("mask")),
        x.known(o.reals("scale_x_y")),
        _anchors(x, total),
    )
    mask = listed or list(range(total))
    wrong = [k for k in mask if not 0 <= k < total]
    if wrong:
        x.unfit(f"`mask` takes anchor {wrong[0]} of {total}", "mask", "anchors count from 0")
    options = {"classes": classes, "num": total, "mask": mask, "anchors": anchors}
    options |= {"scale_x_y": scale[0] if scale else 1.0, "new_coords": new_coords}
    return _head(
        x, len(mask) * (classes + 5), f"{len(mask)} anchors x ({classes} classes + 5)", options
    )


def _region(x: DarknetLayer) -> Shape:
    """As `_yolo`: the head of YOLOv2."""
    o = x.section
    classes, total, coords = o.whole("classes", 20), o.whole("num", 1), o.whole("coords", 4)
    options = {"classes": classes, "num": total, "coords": coords, "anchors": _anchors(x, total)}
    why = f"{total} anchors x ({classes} classes + {coords} + 1)"
    return _head(x, total * (classes + coords + 1), why, options)


def _anchors(x: DarknetLayer, total: int) -> list[list[float]]:
    # most options of a head matter in training, and are kept beside the others
    x.section.anything_else()
    flat = x.known(x.section.reals("anchors"))
    if len(flat) < 2 * total:
        x.unfit(
            f"`anchors` has {len(flat)} numbers, and {total} anchors are {2 * total}", "anchors"
        )
    return [flat[k : k + 2] for k in range(0, 2 * total, 2)]


def _head(x: DarknetLayer, wanted: int, why: str, known: dict[str, Any]) -> Shape:
    """`known` is what was read of the options; the others are kept as they stand."""
    channels = x.shape[0]
    if channels != wanted:
        message = f"[{x.section.kind}] is given {channels} channels, and needs {wanted}: {why}"
        x.unfit(
            message,
            "classes",
            f"set `filters={wanted}` in the layer before, or correct what stands here",
        )
    x.net.heads[x.name] = {
        name: lines[0].value for name, lines in x.section.options.items()
    } | known
    return x.shape


# -- by name ---------------------------------------------------------------------------------------
#: Per section the name that its tensors have, and what it computes.
RULES: dict[str, tuple[str, Callable[[DarknetLayer], Shape]]] = {
    "convolutional": ("conv", _convolutional),
    "conv": ("conv", _convolutional),
    "connected": ("connected", _connected),
    "conn": ("connected", _connected),
    "maxpool": ("maxpool", _maxpool),
    "max": ("maxpool", _maxpool),
    "avgpool": ("avgpool", _avgpool),
    "avg": ("avgpool", _avgpool),
    "route": ("route", _route),
    "shortcut": ("shortcut", _shortcut),
    "upsample": ("upsample", _upsample),
    "reorg": ("reorg", _reorg),
    "l2norm": ("l2norm", _l2norm),
    "dropout": ("dropout", _dropout),
    "softmax": ("softmax", _softmax),
    "soft": ("softmax", _softmax),
    "yolo": ("yolo", _yolo),
    "region": ("region", _region),
}
#: Sections that Darknet has and flowc does not read.
OTHERS = frozenset(
    {
        "activation",
        "batchnorm",
        "conv_lstm",
        "crnn",
        "crop",
        "detection",
        "empty",
        "Gaussian_yolo",
        "gru",
        "local",
        "local_avg",
        "local_avgpool",
        "lrn",
        "lstm",
        "normalization",
        "reorg3d",
        "rnn",
        "sam",
        "scale_channels",
    }
)
