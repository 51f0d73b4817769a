"""QNN, Qualcomm's engine for the Hexagon NPU, as a plug-in provider of ONNX Runtime: what it takes.

Source: documentation of the provider (onnxruntime-qnn), "Supported ONNX operators", without those
that it offers within a fusion only, and without those of other domains; shapes have to be fixed. It
may still leave a layer to the CPU on the board, for its types or sizes: what it took is said when
a program starts.
"""

from __future__ import annotations

from .engine import NpuEngine

_OPERATORS = """
    Abs Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Ceil Clip Concat Conv
    ConvTranspose Cos CumSum DepthToSpace DequantizeLinear Div Einsum Elu Equal Exp Expand Flatten
    Floor Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Identity
    InstanceNormalization IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax LpNormalization MatMul Max MaxPool Mean Min Mod Mul Neg NonZero Not Or PRelu Pad Pow
    QuantizeLinear Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu
    RMSNormalization Reshape Resize RoiAlign Round RotaryEmbedding STFT ScatterElements ScatterND
    Sigmoid Sign Sin Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh
    ThresholdedRelu Tile TopK Transpose Unsqueeze Upsample Where
"""

ENGINE = NpuEngine(
    "qnn",
    "QNN",
    "onnxruntime-qnn",
    "pip install 'flowc[qnn]'",
    "twins of programs for Hexagon NPUs (MIT and Qualcomm's license, 245 MB)",
    ("int8", "fp16"),
    frozenset(_OPERATORS.split()),
)
