"""RKNN, Rockchip's engine for the NPU of the RK3588: what it takes.

Source: the list of operators of ONNX that comes with rknn-toolkit2 2.1, the last one as a text;
shapes have to be fixed. Its compiler may still refuse a network when it is converted, and its
library may run a layer on the CPU of the board.
"""

from __future__ import annotations

from .engine import NpuEngine

_OPERATORS = """
    Add And ArgMax ArgMin AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape
    Conv ConvTranspose Cos DepthToSpace DequantizeLinear Div Dropout Elu Equal Erf Exp Expand
    Flatten Floor GRU Gather GatherElements Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual HardSigmoid HardSwish Identity InstanceNormalization LRN LSTM LayerNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max MaxPool MaxRoiPool
    MaxUnpool MeanVarianceNormalization Min Mish Mod Mul PRelu Pad Pow QuantizeLinear ReduceMax
    ReduceMean ReduceMin ReduceSum Relu Reshape Resize ReverseSequence RoiAlign ScatterND Shape
    Sigmoid Sin Size Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Tanh Tile Transpose
    Unsqueeze Where
"""

ENGINE = NpuEngine(
    "rknn",
    "RKNN",
    "rknn-toolkit2",
    "pip install rknn-toolkit2, in an environment of its own",
    "networks and twins of programs for the NPU of the RK3588 (Rockchip's license, 5 GB)",
    ("int8", "fp16"),
    frozenset(_OPERATORS.split()),
    cores=3,
    borders=("float32",),
)
