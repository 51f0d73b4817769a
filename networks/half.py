"""Networks in 16-bit floating point, for engines that compute in the types of a model (TensorRT 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

#: The first operator set whose scales may be in fp16.
SCALES = 19


def in_half(model: onnx.ModelProto) -> bytes:
    """The model with weights and layers in fp16; what goes in and out keeps its type.

    Operators without fp16 keep fp32, between casts (the list is ONNX Runtime's).
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    converted = OnnxModel(convert_float_to_float16(model, keep_io_types=True))
    converted.topological_sort()  # casts of inputs come last otherwise
    content: bytes = converted.model.SerializeToString()
    return content


def rest_in_half(quantised: bytes) -> bytes:
    """A model in 8 bits whose scales, and layers between pairs, are in fp16; what goes in and out keeps its type."""
    import onnx

    model = onnx.load_model_from_string(quantised)
    if next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) < SCALES:
        model = onnx.version_converter.convert_version(model, SCALES)
    return in_half(model)
