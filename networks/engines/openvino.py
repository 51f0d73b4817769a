"""OpenVINO on CPUs of x86 and Arm: what it takes.

It computes with whole numbers of 64 bits in 32, with float64 in float32, and draws other random
numbers, without a word: types and shapes of what comes out are those of the file. So networks in
which that may happen are refused by their files; what its reader refuses is known when a program
is built, and compared with ONNX Runtime there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.application import Network
from .engine import Engine, Refusal

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

REMEDY = "leave `engine` out: ONNX Runtime runs it"
#: Operators whose results are not the same for large whole numbers if they are computed in 32 bits.
_ARITHMETIC = frozenset(
    (
        "Abs",
        "Add",
        "BitShift",
        "Clip",
        "CumSum",
        "Div",
        "Einsum",
        "Gemm",
        "MatMul",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Pow",
        "Range",
        "ReduceL1",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Sign",
        "Sub",
        "Sum",
    )
)
_RANDOM = frozenset(
    (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)
#: Operators that read the shape of a tensor, and not what is in it.
_SHAPES = frozenset(("Shape", "Size"))


def _refusal(network: Network) -> Refusal | None:
    """See `Engine.refusal`."""
    if network.library:
        return "it has operators of a library for ONNX Runtime", REMEDY
    if network.one_piece:
        return f"it has {network.one_piece}, which only ONNX Runtime is known to run", REMEDY
    types = [t.type for t in (*network.inputs, *network.outputs)]
    varying = next((t for t in types if t.open or t.bounded), None)
    if varying is not None:
        return f"it has a {varying}, and OpenVINO gets fixed sizes here", REMEDY
    reason = _changed(network)
    return None if reason is None else (reason, REMEDY)


def _changed(network: Network) -> str | None:
    if network.model:
        import onnx

        return changed_silently(onnx.load_from_string(network.model))
    path = Path(network.path)
    return _changed_in_file(str(path), path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _changed_in_file(path: str, modified: int) -> str | None:
    import onnx

    return changed_silently(onnx.load(path, load_external_data=False))


def changed_silently(model: ModelProto) -> str | None:
    """What OpenVINO would compute otherwise than the file says, in words; None if nothing is."""
    from onnx import TensorProto
    from onnx.shape_inference import infer_shapes

    try:
        graph = infer_shapes(model).graph
    except Exception as error:  # onnx raises what it likes; such a file is not judged
        return f"its types are not known: {str(error).strip().splitlines()[0]}"
    types = _types(graph)
    from_data = _from_data(graph)
    for node in graph.node:
        made = [types.get(name) for name in node.output]
        read = [types.get(name) for name in node.input]
        if node.op_type in _RANDOM:
            return f"`{node.op_type}` draws other random numbers there"
        if TensorProto.STRING in (*made, *read):
            return f"`{node.op_type}` works on strings"
        if TensorProto.DOUBLE in made:
            return f"`{node.op_type}` makes float64, which OpenVINO computes in float32"
        whole = any(t in (TensorProto.INT64, TensorProto.UINT64) for t in read)
        if whole and node.op_type in _ARITHMETIC and from_data.intersection(node.input):
            return f"`{node.op_type}` of int64, which OpenVINO computes in 32 bits"
    return None


def _types(graph: GraphProto) -> dict[str, int]:
    """The element type of each tensor, as far as it is known."""
    types = {i.name: i.data_type for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        types.setdefault(value.name, value.type.tensor_type.elem_type)
    return types


def _from_data(graph: GraphProto) -> set[str]:
    """The tensors that depend on what is in an input: not on constants, and not on its shape."""
    constant = {i.name for i in graph.initializer}
    found = {i.name for i in graph.input} - constant
    for node in graph.node:
        if node.op_type not in _SHAPES and found.intersection(_read_by(node)):
            found.update(node.output)
    return found


def _read_by(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, in its inner graphs as well."""
    yield from node.input
    for attribute in node.attribute:
        for graph in _graphs(attribute.g, attribute.graphs):
            for inner in graph.node:
                yield from _read_by(inner)


def _graphs(one: GraphProto, several: Iterable[GraphProto]) -> Iterator[GraphProto]:
    yield one
    yield from several


ENGINE = Engine(
    "openvino",
    "OpenVINO",
    ("openvino",),
    "pip install 'flowc[openvino]'",
    "openvino",
    "`engine openvino` of networks on CPUs (Apache-2.0, 180 MB)",
    "OpenVino",
    ("fp32", "bf16", "int8"),
    _refusal,
    # squeezenet behind two of its layers, 756 and 364 KB: 0.62 and 0.18 ms more on one thread
    0.8,
)
