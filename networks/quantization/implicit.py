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
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.files import scratch
from ...model.json_reader import parse, read
from ..onnx.nodes import made_by, read_by
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
    ranges = {}
    for name, values in sorted(seen.items()):
        largest = max(float(np.abs(end).max()) for end in (values.lowest, values.highest))
        if 0 < largest < inf:
            ranges[name] = largest
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


@dataclass(frozen=True, slots=True)
class _Names:
    """What tensors are called once the pairs are gone.

    `sources`: per tensor that a node of a pair makes the one that it reads. `results`: per tensor
    that is made under the name of an output of the network that name.
    """

    sources: Mapping[str, str]
    results: Mapping[str, str]

    def of(self, tensor: str) -> str:
        """The name under which a tensor of the model is there without pairs."""
        origin = _origin(self.sources, tensor)
        return self.results.get(origin, origin)


def without_pairs(content: bytes) -> tuple[bytes, dict[str, float]]:
    """The network in floating point, and the largest absolute values of its tensors.

    Inputs and outputs of 8 bits keep their names and are declared as float32: the engine converts
    them by their range. What is quantized has the range of its scale, so that pieces of one network
    agree; where a DLA has one scale for all that a layer reads and makes, all of it has the largest
    of the ranges.
    """
    import onnx

    model = onnx.load_model_from_string(content)
    graph = model.graph
    pairs = [n for n in graph.node if n.op_type in PAIR]
    nodes = [n for n in graph.node if n.op_type not in PAIR]
    sources = {n.output[0]: n.input[0] for n in pairs}
    results, copies = _outputs(graph.output, sources, made_by(nodes))
    nodes += copies
    names = _Names(sources, results)
    for node in nodes:
        node.input[:] = [names.of(t) for t in node.input]
        node.output[:] = [results.get(t, t) for t in node.output]

    constants = {t.name: t for t in graph.initializer}
    ranges = _ranges_of_scales(pairs, constants, names)
    for tensor, largest in ranges_of(model).items():
        ranges.setdefault(names.of(tensor), largest)
    for value in graph.output:
        origin = names.of(value.name)
        if origin in ranges:
            ranges[value.name] = ranges[origin]

    borders = _declared_as_floats((*graph.input, *graph.output))
    there = read_by(nodes) | made_by(nodes)
    _trim(model, nodes, there)
    ranges = {t: v for t, v in ranges.items() if t in there - constants.keys()}
    _agree(nodes, ranges, borders)
    ranges |= _ranges_of_constants(nodes, constants)
    return bytes(model.SerializeToString(deterministic=True)), dict(sorted(ranges.items()))


def _trim(model: Any, nodes: Sequence[Any], tensors: Set[str]) -> None:
    """Leave a model these nodes, and what concerns these tensors."""
    graph = model.graph
    _replace(graph.node, nodes)
    _replace(graph.initializer, [t for t in graph.initializer if t.name in tensors])
    _replace(model.metadata_props, [p for p in model.metadata_props if p.key != KEY])
    del graph.value_info[:]


def _origin(sources: Mapping[str, str], tensor: str) -> str:
    """The tensor that a chain of pairs begins with."""
    while tensor in sources:
        tensor = sources[tensor]
    return tensor


def _outputs(
    outputs: Iterable[Any], sources: Mapping[str, str], made: Set[str]
) -> tuple[dict[str, str], list[Any]]:
    """The outputs by the tensors that are made under their names, and copies for the others."""
    dims = {v.name: len(v.type.tensor_type.shape.dim) for v in outputs}
    results: dict[str, str] = {}
    copies = []
    for result in dims:
        origin = _origin(sources, result)
        if origin in made and origin not in dims and origin not in results:
            results[origin] = result
        elif origin != result:
            copies.append(_copy(origin, result, dims[result]))
    return results, copies


def _ranges_of_scales(
    pairs: Iterable[Any], constants: Mapping[str, Any], names: _Names
) -> dict[str, float]:
    """The ranges of what has one scale for the whole tensor."""
    from onnx import numpy_helper

    ranges = {}
    for node in pairs:
        scale = constants.get(node.input[1])
        if scale is not None and not scale.dims:
            ranges[names.of(node.output[0])] = LARGEST * float(numpy_helper.to_array(scale))
    return ranges


def _ranges_of_constants(nodes: Iterable[Any], constants: Mapping[str, Any]) -> dict[str, float]:
    """The ranges of constants that are tensors to TensorRT."""
    from onnx import TensorProto, numpy_helper

    ranges = {}
    for tensor in read_by(n for n in nodes if n.op_type in ELEMENTWISE):
        constant = constants.get(tensor)
        if constant is not None and constant.data_type == TensorProto.FLOAT:
            largest = float(abs(numpy_helper.to_array(constant)).max(initial=0))
            if 0 < largest < inf:
                ranges[tensor] = largest
    return ranges


def _declared_as_floats(values: Iterable[Any]) -> set[str]:
    """The names of the inputs and outputs of 8 bits, which become float32."""
    from onnx import TensorProto

    borders = set()
    for value in values:
        if value.type.tensor_type.elem_type == TensorProto.INT8:
            borders.add(value.name)
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return borders


def _replace(field: Any, values: Sequence[Any]) -> None:
    """Put other values into a repeated field of a protocol buffer."""
    del field[:]
    field.extend(values)


def _copy(source: str, target: str, dims: int) -> Any:
    """A layer that copies. A DLA knows no Identity, but pooling, which wants 4 dimensions."""
    from onnx import helper

    if dims == 4:
        return helper.make_node("MaxPool", [source], [target], target, kernel_shape=[1, 1])
    return helper.make_node("Identity", [source], [target], target)


def _agree(nodes: Iterable[Any], ranges: dict[str, float], borders: Set[str]) -> None:
    """One range for all that layers of one scale read and make.

    `borders` have 8 bits in other stages too, so their ranges stay. Where the range of a border is
    not that of its group, the other tensors of the group lose theirs, and the layer is computed in
    16 bits.
    """
    for group in _groups_of_one_scale(nodes, ranges):
        largest = max(ranges[t] for t in group)
        fixed = group & borders
        if all(ranges[t] == largest for t in fixed):
            ranges.update(dict.fromkeys(group, largest))
        else:
            for tensor in group - fixed:
                del ranges[tensor]


def _groups_of_one_scale(nodes: Iterable[Any], ranges: Mapping[str, float]) -> list[set[str]]:
    """Tensors with ranges that layers of one scale connect."""
    import networkx

    groups = networkx.Graph()
    for node in nodes:
        if node.op_type in ONE_SCALE:
            tensors = [t for t in (*node.input, *node.output) if t in ranges]
            groups.add_edges_from((tensors[0], t) for t in tensors)
    return list(networkx.connected_components(groups))
