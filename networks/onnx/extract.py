"""Parts of an ONNX model as models of their own.

In: a model whose weights are in it, and nodes of it. Out: a model of these nodes. Which nodes
belong together is left to others (`split.py` makes stages, `networks.supergraph` what networks
share).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .nodes import read_by, read_inside

#: Protocol buffers end here.
LIMIT = 2**31 - 1


def needed(model: Any, outputs: Iterable[str]) -> list[int]:
    """The numbers of the nodes that some of these tensors follow from, in their order."""
    wanted = set(outputs)
    numbers = []
    for number in range(len(model.graph.node) - 1, -1, -1):
        node = model.graph.node[number]
        if not wanted.isdisjoint(t for t in node.output if t):
            wanted.update(node.input)
            wanted.update(read_inside(node))
            numbers.append(number)
    return numbers[::-1]


def extract(
    model: Any, nodes: Collection[int], inputs: Sequence[Any], outputs: Sequence[Any]
) -> Any:
    """A model of some nodes, with what they read of the weights; `inputs` and `outputs` are of
    onnx' ValueInfoProto."""
    import onnx

    whole = model.graph
    kept = [whole.node[k] for k in sorted(nodes)]
    used = read_by(kept) | {v.name for v in outputs}
    made = onnx.ModelProto()
    made.ir_version = model.ir_version
    made.opset_import.extend(model.opset_import)
    made.functions.extend(model.functions)
    graph = made.graph
    graph.name = whole.name
    graph.node.extend(kept)
    graph.initializer.extend(w for w in whole.initializer if w.name in used)
    sparse = [w for w in whole.sparse_initializer if w.values.name in used]
    graph.sparse_initializer.extend(sparse)
    notes = [a for a in whole.quantization_annotation if a.tensor_name in used]
    graph.quantization_annotation.extend(notes)
    graph.input.extend(inputs)
    # Before version 4 of the format weights had to be listed as inputs.
    listed = {w.name for w in graph.initializer}.difference(v.name for v in inputs)
    graph.input.extend(v for v in whole.input if v.name in listed)
    graph.output.extend(outputs)
    return made


def load_weights(tensors: Iterable[Any], folder: Path) -> None:
    """Read those of the tensors that lie in files of a folder into the model."""
    import onnx

    for tensor in tensors:
        if tensor.external_data:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


@lru_cache(maxsize=8)
def exit_of(path: str, modified: int, outputs: tuple[str, ...]) -> bytes | None:
    """The model in a file without what these outputs do not need; None where that is nothing.

    `modified` is the file's time of modification in ns, so that another file of that name is
    another model.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    kept = needed(model, outputs)
    if len(kept) == len(needed(model, [v.name for v in model.graph.output])):
        return None
    onnx.external_data_helper.load_external_data_for_model(model, str(Path(path).parent))
    weights = {w.name for w in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    wanted = {v.name: v for v in model.graph.output}
    made = extract(model, kept, inputs, [wanted[name] for name in dict.fromkeys(outputs)])
    if made.ByteSize() > LIMIT:
        return None
    content: bytes = made.SerializeToString(deterministic=True)
    return content
