"""What TensorRT offers for the deep learning accelerators (DLA) of Xavier and Orin: generations,
operators, ranges.

Data only; `checks.py` holds layers against it. Sources, named where a limit needs one:

GUIDE: NVIDIA TensorRT documentation, "DLA Supported Layers and Restrictions" (in TensorRT 8: a
chapter of the developer guide). API: comments on DLA in NvInfer.h and in the Python API of TensorRT
8 and 10. OPS: NVIDIA TensorRT operator reference 10.3, sections "DLA Support". TABLE: NVIDIA
Deep-Learning-Accelerator-SW, operators/README.md: ONNX operators on the DLA of Orin. It holds from
TensorRT 8.5 on.

Where sources disagree or say nothing, the stricter reading stands, and a comment says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...model.modules import MODULES, Versions

#: Major, minor and as many further numbers as matter: (8, 5) comes before (8, 5, 2).
Version = tuple[int, ...]

PRECISIONS = ("fp16", "int8")


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of the DLA. `tensorrt` are the versions with which it works, in some module.

    `without` are operators that it lacks although TensorRT offers them for a DLA.
    `inclusive_averages`: pools can count the padding into averages, but not leave it out.
    """

    name: str
    tensorrt: Versions
    without: frozenset[str] = frozenset()
    inclusive_averages: bool = False

    def works_with(self, tensorrt: Version) -> bool:
        """Does that TensorRT build engines for this DLA?"""
        return any(first <= tensorrt < end for first, end in self.tensorrt)


GENERATIONS = {
    g.name: g
    for g in (
        # DLA 1.0. API: no Softmax, and padding only inside of averages.
        Generation(
            "xavier", MODULES["xavier"].dla, frozenset({"Softmax"}), inclusive_averages=True
        ),
        # DLA 2.0.
        Generation("orin", MODULES["agx_orin"].dla),
    )
}


@dataclass(frozen=True, slots=True)
class Limit:
    """Whole numbers from `first` to `last` for `what`."""

    what: str
    first: int
    last: int

    @property
    def rule(self) -> str:
        """The limit in words."""
        return f"{self.what} {self.first} to {self.last}"

    def breaks(self, values: Iterable[int]) -> Iterator[tuple[str, str]]:
        """The rule and the values, if one of them lies outside."""
        values = tuple(values)
        if not all(self.first <= v <= self.last for v in values):
            yield self.rule, f"{self.what} {'x'.join(map(str, values))}"


#: GUIDE, general restrictions. Output channels and groups (1 to 8192) are dimensions, or no more
#: than they.
BATCH = Limit("batch", 1, 4096)
DIMENSION = Limit("dimension", 1, 8192)

#: GUIDE, convolution. The padding has to lie below the kernel, too: read literally, whatever the
#: dilation.
CONV_KERNEL = Limit("kernel", 1, 32)
CONV_STRIDE = Limit("stride", 1, 8)
CONV_PADDING = Limit("padding", 0, 31)
CONV_DILATION = Limit("dilation", 1, 32)

#: GUIDE, deconvolution. API allows 64, 96 and 128 besides, where the other dimension is 1: left
#: out.
TRANSPOSED_KERNEL = Limit("kernel", 1, 32)
TRANSPOSED_STRIDE = Limit("stride", 1, 32)

#: GUIDE, pooling.
POOL_KERNEL = Limit("kernel", 1, 8)
POOL_STRIDE = Limit("stride", 1, 16)
POOL_PADDING = Limit("padding", 0, 7)

#: GUIDE and API, resize: height and width grow by whole numbers.
SCALES = {"nearest": Limit("nearest scale", 1, 32), "linear": Limit("linear scale", 1, 4)}

#: API, resize: coordinates and, for nearest, rounding, in words of ONNX. The importer takes
#: pytorch_half_pixel for half_pixel with another selector, which is listed for linear alone.
COORDINATES = frozenset(
    {
        ("nearest", "asymmetric", "floor"),
        ("nearest", "half_pixel", "round_prefer_floor"),
        ("nearest", "half_pixel", "round_prefer_ceil"),
        ("linear", "half_pixel", ""),
        ("linear", "pytorch_half_pixel", ""),
    }
)

#: GUIDE, local response normalization.
LRN_WINDOWS = (3, 5, 7, 9)

#: OPS, activation: from exactly 0 to at most this.
CLIP_LAST = 127

#: API, softmax: elements along the axis, if all other dimensions besides the batch are 1, and
#: otherwise.
SOFTMAX_ALONE = 8192
SOFTMAX_BESIDE = 1024

#: GUIDE, comparison: int8 alone. Division, power and the trigonometric functions likewise: so say
#: users' logs of TensorRT 10.3, where the fp16 division of a YOLO leaves the DLA.
INT8_ONLY = frozenset({"Atanh", "Cos", "Div", "Equal", "Greater", "Less", "Pow", "Sin"})

#: OPS, slice: fp16 is named, int8 is not. Split becomes slices.
FP16_ONLY = frozenset({"Slice", "Split"})

#: Operators and the first TensorRT of which it is known that it offers them for a DLA. 8.0: in
#: GUIDE throughout. 8.5: in TABLE without a version, so not known for less; slices were missing in
#: 8.0 (TensorRT issue 1529). 8.6.12: as TABLE says. 10.3: in OPS, not in TABLE. 11.4.1: strong
#: typing, where these carry the precision. Min is in GUIDE, although TABLE lacks it.
OFFERED: dict[str, Version] = {
    **dict.fromkeys(("Add", "Max", "Min", "Mul", "Sub", "Sum"), (8, 0)),
    **dict.fromkeys(("Clip", "Relu", "Sigmoid", "Tanh"), (8, 0)),
    **dict.fromkeys(
        ("AveragePool", "BatchNormalization", "Concat", "Conv", "ConvTranspose"), (8, 0)
    ),
    **dict.fromkeys(("Gemm", "LRN", "MatMul", "MaxPool", "Resize", "Upsample"), (8, 0)),
    **dict.fromkeys(("Abs", "Equal", "LeakyRelu", "PRelu"), (8, 5)),
    **dict.fromkeys(("Reshape", "Slice", "Softmax", "Split", "Transpose"), (8, 5)),
    **dict.fromkeys(("Atanh", "Cos", "Div", "GlobalMaxPool", "Greater", "Less", "Sin"), (8, 6, 12)),
    **dict.fromkeys(("Pow", "ReduceMax"), (10, 3)),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), (11, 4, 1)),
}

#: TABLE: "Reconstruction". Not offered as they are; a network can be rewritten without them.
REBUILT = frozenset(
    {
        *(
            "And",
            "CumSum",
            "DepthToSpace",
            "DequantizeLinear",
            "GRU",
            "Gather",
            "GatherElements",
            "GatherND",
        ),
        *("Identity", "LSTM", "Neg", "Not", "Or", "QuantizeLinear", "RNN", "ReduceSum", "Scatter"),
        *("ScatterElements", "SpaceToDepth", "Where", "Xor"),
    }
)
