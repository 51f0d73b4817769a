"""Networks in 8 bits for engines that know no Q/DQ layers: they are told which values each tensor
takes.

In: a model in 8 bits as `quantize.py` makes them for TensorRT, or a stage of one. Out: the same
network without pairs, and the ranges of its tensors. That is what TensorRT calls implicit
quantization, and all that a DLA takes before TensorRT 11; who tells the engine is generated code.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.files import scratch
from ...model.json_reader import parse, read
from .quantize import PAIR, Reader, silence

if TYPE_CHECKING:
    import numpy as np

#: Where a model keeps the largest absolute values of its tensors, as JSON.
KEY = "flowc.ranges"
#: The largest number of a symmetric scheme with 8 bits.
LARGEST = 127
#: Layers with one scale for all that they read and make, on a DLA.
ONE_SCALE = frozenset({"Concat", "MaxPool", "AveragePool"})
#: Layers whose constants are tensors to TensorRT, and need ranges as well.
ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"})


def with_ranges(model: bytes, samples: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """The model with the largest absolute value of each tensor on the samples in its metadata;
    stages inherit them."""
    import numpy as np
    import onnx
    from onnxruntime.quantization.calibrate import create_calibrator

    with scratch() as folder, silence():
        path = folder / "model.onnx"
        path.write_bytes(model)
        calibrator = create_calibrator(path, None, str(folder / "watched.onnx"))
        calibrator.collect_data(Reader(samples))
        seen = calibrator.compute_data().data
    largest = {
        name: max(float(np.abs(x).max()) for x in (v.lowest, v.highest))
        for name, v in sorted(seen.items())
    }
    ranges = {name: value for name, value in largest.items() if 0 < value < inf}
    changed = onnx.load_model_from_string(model)
    changed.metadata_props.add(key=KEY, value=json.dumps(ranges))
    return bytes(changed.SerializeToString(deterministic=True))


def ranges_of(model: Any) -> dict[str, float]:
    """What `with_ranges` wrote down; nothing for any other model."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            with contextlib.suppress(ValueError):  # a stranger may have written it
                return read(dict[str, float], parse(entry.value))
    return {}


def has_pairs(path: Path) -> bool:
    """Does a model file say what is computed in 8 bits?"""
    import onnx

    return any(n.op_type in PAIR for n in onnx.load(str(path), load_external_data=False).graph.node)


def without_pairs(content: bytes) -> tuple[bytes, dict[str, float]]:
    """The network in floating point, and the largest absolute values of its tensors.

    Inputs and outputs of 8 bits keep their names and are declared as float32: the engine converts
    them by their range. What is quantized has the range of its scale, so that pieces of one network
    agree; where a DLA has one scale for all that a layer reads and makes, all of it has the largest
    of the ranges.
    """
    import onnx
    from onnx import TensorProto, numpy_helper

    model = onnx.load_model_from_string(content)
    graph = model.graph
    pairs = [n for n in graph.node if n.op_type in PAIR]
    nodes = [n for n in graph.node if n.op_type not in PAIR]
    source = {n.output[0]: n.input[0] for n in pairs}

    def root(tensor: str) -> str:
        while tensor in source:
            tensor = source[tensor]
        return tensor

    # What makes an output in 8 bits makes it under its name, or a copy has it.
    results = [v.name for v in graph.output]
    dims = {v.name: len(v.type.tensor_type.shape.dim) for v in graph.output}
    makers = {t for n in nodes for t in n.output}
    names: dict[str, str] = {}
    for result in results:
        origin = root(result)
        if origin in makers and origin not in (*results, *names):
            names[origin] = result
        elif origin != result:
            nodes.append(_copy(origin, result, dims[result]))

    def name(tensor: str) -> str:
        return names.get(root(tensor), root(tensor))

    for node in nodes:
        node.input[:] = [name(t) for t in node.input]
        node.output[:] = [names.get(t, t) for t in node.output]
    ranges: dict[str, float] = {}
    constants = {t.name: t for t in graph.initializer}
    for node in pairs:
        if node.input[1] in constants and not constants[node.input[1]].dims:
            ranges[name(node.output[0])] = LARGEST * float(
                numpy_helper.to_array(constants[node.input[1]])
            )
    for tensor, largest in ranges_of(model).items():
        ranges.setdefault(name(tensor), largest)
    ranges |= {r: ranges[name(r)] for r in results if name(r) in ranges}
    borders = set()
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.INT8:
            borders.add(value.name)
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    there = {t for n in nodes for t in (*n.input, *n.output)}
    kept = [t for t in graph.initializer if t.name in there]
    others = [p for p in model.metadata_props if p.key != KEY]
    for field, values in (
        (graph.node, nodes),
        (graph.initializer, kept),
        (model.metadata_props, others),
    ):
        del field[:]
        field.extend(values)
    del graph.value_info[:]
    ranges = {t: v for t, v in ranges.items() if t in there - constants.keys()}
    _agree(nodes, ranges, borders)
    beside = {t for n in nodes if n.op_type in ELEMENTWISE for t in n.input if t in constants}
    for tensor in beside:
        if constants[tensor].data_type == TensorProto.FLOAT:
            largest = float(abs(numpy_helper.to_array(constants[tensor])).max(initial=0))
            ranges |= {tensor: largest} if 0 < largest < inf else {}
    return bytes(model.SerializeToString(deterministic=True)), dict(sorted(ranges.items()))


def _copy(source: str, target: str, dims: int) -> Any:
    """A layer that copies. A DLA knows no Identity, but pooling, which wants 4 dimensions."""
    from onnx import helper

    if dims == 4:
        return helper.make_node("MaxPool", [source], [target], target, kernel_shape=[1, 1])
    return helper.make_node("Identity", [source], [target], target)


def _agree(nodes: Iterable[Any], ranges: dict[str, float], borders: Set[str]) -> None:
    """One range for all that layers of one scale read and make.

    `borders` have 8 bits in other stages too, so their ranges stay; where that is not the one of
    its group, the others lose theirs, and the layer is computed in 16 bits.
    """
    import networkx

    groups = networkx.Graph()
    for node in nodes:
        if node.op_type in ONE_SCALE:
            tensors = [t for t in (*node.input, *node.output) if t in ranges]
            groups.add_edges_from((tensors[0], t) for t in tensors)
    for group in networkx.connected_components(groups):
        largest = max(ranges[t] for t in group)
        fixed = group & borders
        if all(ranges[t] == largest for t in fixed):
            ranges.update(dict.fromkeys(group, largest))
        else:
            for tensor in group - fixed:
                del ranges[tensor]
