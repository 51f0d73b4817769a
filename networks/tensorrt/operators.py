"""The operators that TensorRT's parser takes for a GPU, with their types: numbers and sources.

Versions of TensorRT are those of `model.tensorrt`. Sources: LIST: onnx-tensorrt, docs/operators.md,
of its branches release/8.5-GA, release/8.6-GA and main (10.1). PARSER: the parser of TensorRT for
RTX 1.7.1, which is that of TensorRT 11, asked for each operator of ONNX 1.23
(`OnnxParser.supports_operator`), and tried on onnx's backend suite
(`python benchmarks/tensorrt_files.py --suite`).

Between 10.1 and 11 no list is public: what came in between counts from 11 on.
"""

from __future__ import annotations

#: Major, minor and as many further numbers as matter.
Version = tuple[int, ...]

#: LIST: what every TensorRT from 8.5 on takes. Control flow (If, Loop, Scan) is left out: flowc
#: keeps such networks on a CPU, in one piece.
_FROM_8_5 = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil
Celu Clip Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace
DequantizeLinear Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather
GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual
GridSample HardSigmoid Identity InstanceNormalization IsNaN LRN LSTM LeakyRelu Less LessOrEqual Log
LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean MeanVarianceNormalization Min Mul Neg
NonMaxSuppression NonZero Not Or PRelu Pad Pow QuantizeLinear RNN RandomNormal RandomNormalLike
RandomUniform RandomUniformLike Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin
Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh
ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""
_FROM_8_6 = "GroupNormalization HardSwish IsInf LayerNormalization Mod OneHot"
_FROM_10 = "CastLike Gelu Hardmax Mish"
#: PARSER.
_FROM_11 = """
BlackmanWindow HammingWindow HannWindow RMSNormalization RotaryEmbedding STFT Swish
TensorScatter
"""
#: Operators, and the first TensorRT that takes them.
OFFERED: dict[str, Version] = {
    **dict.fromkeys(_FROM_8_5.split(), (8, 5)),
    **dict.fromkeys(_FROM_8_6.split(), (8, 6)),
    **dict.fromkeys(_FROM_10.split(), (10, 0)),
    **dict.fromkeys(_FROM_11.split(), (11,)),
}
#: TensorRT for RTX lacks the plugins or runners of these, and TensorRT has them: its no to one says
#: nothing.
NOT_IN_RTX = frozenset({"NonMaxSuppression", "NonZero", "RoiAlign"})

#: Tensors that can be computed with; uint8 may only come in or go out, int8 only by scales. float64
#: is computed in float32.
FLOATS = frozenset({"float32", "float16", "bfloat16", "float64"})
INTEGERS = frozenset({"int32", "int64"})
BOOL = frozenset({"bool"})


def changed_at_borders(version: Version) -> dict[str, str]:
    """The types that come in and go out under another one, and which (both importers' convertDtype;
    PARSER)."""
    changed = {"float64": "float32"}
    return changed if version >= (10,) else {**changed, "int64": "int32"}


#: LIST, column "Supported Types": operators whose data are no floats alone. The parser takes more
#: for some, which LIST does not promise.
_NUMBERS = """
Abs Add ArgMax ArgMin Clip CumSum DepthToSpace Div Gelu Greater GreaterOrEqual IsNaN Less
LessOrEqual Max Mean Min Mod Mul Neg Pad Pow Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Resize Scatter
ScatterElements ScatterND Shrink Sign SpaceToDepth Sub Sum TopK MatMul Gemm
"""
_ANYTHING = """
Concat Constant Expand EyeLike Flatten Gather GatherElements GatherND Identity OneHot Reshape
ReverseSequence Shape Size Slice Split Squeeze Tile Transpose Trilu Unsqueeze Where Equal
"""
#: PARSER: operators that take int8 as it is, without scales, from TensorRT 11 on.
INT8_FROM_11 = frozenset(
    {
        *("Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual"),
        *("Max", "Min", "Mul", "Sub", "Where"),
    }
)
TYPES: dict[str, frozenset[str]] = {
    # PARSER: its parts have no common rank in other types.
    "Celu": frozenset({"float32"}),
    **dict.fromkeys(_NUMBERS.split(), FLOATS | INTEGERS),
    **dict.fromkeys(_ANYTHING.split(), FLOATS | INTEGERS | BOOL),
    **dict.fromkeys(("And", "Not", "Or", "Xor"), BOOL),
    **dict.fromkeys(("Cast", "CastLike"), FLOATS | INTEGERS | BOOL | {"uint8"}),
    "DequantizeLinear": frozenset({"int8"}),
}
