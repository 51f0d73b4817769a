"""Networks in 16-bit floating point, for engines that compute in the types of a model (TensorRT
11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..onnx.order import in_order

if TYPE_CHECKING:
    import onnx

#: The first operator set whose scales may be in fp16, and the version of the format that goes with
#: it.
SCALES, IR = 19, 9


def in_half(model: onnx.ModelProto) -> bytes:
    """The model with weights and layers in fp16; what goes in and out keeps its type.

    Operators without fp16 keep fp32, between casts (the list is ONNX Runtime's). Layers keep their
    names and order: the cast of an input stands before the first that reads it, the cast that makes
    an output behind what it casts.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    count = len(model.graph.node)
    converted = convert_float_to_float16(model, keep_io_types=True)
    nodes = _in_order(list(converted.graph.node), count)
    del converted.graph.node[:]
    converted.graph.node.extend(nodes)
    content: bytes = converted.SerializeToString()
    return content


def rest_in_half(quantized: bytes) -> bytes:
    """A model in 8 bits whose scales, and layers between pairs, are in fp16; what goes in and out
    keeps its type."""
    import onnx

    model = onnx.load_model_from_string(quantized)
    if next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) < SCALES:
        model = onnx.version_converter.convert_version(model, SCALES)
    model.ir_version = max(IR, model.ir_version)
    return in_half(model)


def _in_order(nodes: list[Any], count: int) -> list[Any]:
    """The first `count` nodes in their order, and the others, which are casts, where they
    belong."""
    makers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        makers |= {t: number for t in node.output if t}
    readers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for tensor in node.input:
            if tensor in makers:
                readers.setdefault(makers[tensor], []).append(number)
    places: dict[int, float] = {number: float(number) for number in range(count)}

    def place(cast: int) -> float:
        """Half a step behind what is cast, or half a step before the first reader."""
        if cast not in places:
            source = makers.get(nodes[cast].input[0])
            if source is not None:
                places[cast] = place(source) + 0.5
            else:
                places[cast] = min(map(place, readers[cast])) - 0.5
        return places[cast]

    return in_order(nodes, [place(number) for number in range(len(nodes))])
