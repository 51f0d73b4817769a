"""Where an ONNX model can be cut into a pipeline, and what crosses each cut.

In: a model file. Out: a `LayerChain` of its layers in the order of the file, and `Cut`s of it.
Weights are not read, nothing is run. Which cuts are good is left to searches, making the parts to
`split.py`.

A cut after a layer parts the order into a prefix and a suffix, so that every stage between two cuts
is convex: no data leaves it and comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from ...model.types import DTYPES
from .interface import Border, NetworkError, dims_of, inferred, read_fixed
from .nodes import first_output, made_by

#: What onnxruntime (with its blocked layouts) and TensorRT make one kernel of with what follows.
HEADS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization"})
ACTIVATIONS = frozenset(
    {"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Swish"}
)
#: What follows a layer with weights as its scale or bias.
SCALINGS = frozenset({"BatchNormalization", "Mul", "Add"})
#: How a group of fused layers may go on, if not by any layer: only by the second layer of a gate
#: (x * Sigmoid(x), x * HardSigmoid(x)), only by an activation, not at all.
GATE, ACTIVATION, ENDED = "gate", "activation", "ended"
#: Copies of them would disagree: they are layers although nothing flows into them.
RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    }
)


@dataclass(frozen=True, slots=True)
class ChainedLayer:
    """A layer, called after its first output tensor.

    `reads` and `makes` are tensors that depend on an input of the network: no weights. `fused` is
    the one of `reads` over which the layer becomes one kernel with the layer that makes it; empty
    if there is none. `macs` counts the multiplications of Conv, ConvTranspose, Gemm and MatMul: a
    cost where nothing is measured; 0 for all others.
    """

    name: str
    operator: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    fused: str
    macs: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut after layer number `after`; `tensors` are there before it and read after it, `bytes`
    their size.

    Inputs of the network are there from the start, so they cross every cut before their last
    reader. Outputs of the network are given out by the stage that makes them, so they cross only on
    behalf of a layer that reads them; but an input that is itself an output crosses all cuts.
    """

    after: int
    layer: str
    tensors: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class LayerChain:
    """Layers in the order of the file; `tensors` are all those of the model whose type is known to
    numpy.
    """

    file: str
    layers: tuple[ChainedLayer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Border]

    def spans(self) -> dict[str, tuple[int, int]]:
        """Per tensor the numbers of the layer that makes it and of the last one that reads it.

        Inputs of the network are made by -1, and outputs are read by the number of layers when they
        are inputs too. A tensor that is only an output is read last by its maker.
        """
        made = dict.fromkeys(self.inputs, -1)
        for number, layer in enumerate(self.layers):
            made |= dict.fromkeys(layer.makes, number)
        last = dict(made)
        for number, layer in enumerate(self.layers):
            last |= dict.fromkeys(layer.reads, number)
        last |= {t: len(self.layers) for t in self.outputs if t in self.inputs}
        return {t: (maker, last[t]) for t, maker in made.items()}

    def shares(self) -> tuple[float, ...]:
        """Of the multiplications, per layer: a guess at its share of the time. Without any, layers
        share alike.
        """
        total = sum(x.macs for x in self.layers)
        if not total:
            return (1 / len(self.layers),) * len(self.layers)
        return tuple(x.macs / total for x in self.layers)

    def cuts(self) -> Iterator[Cut]:
        """All cuts that do not go through a tensor of unknown size; those inside fused groups among
        them.
        """
        spans = self.spans()
        for after, layer in enumerate(self.layers[:-1]):
            tensors = tuple(t for t, (made, last) in spans.items() if made <= after < last)
            borders = [self.tensors[t] for t in tensors if t in self.tensors]
            if len(borders) == len(tensors) and all(b.fixed for b in borders):
                yield Cut(after, layer.name, tensors, sum(size(b) for b in borders))

    def fused(self, after: int) -> bool:
        """Does the cut after that layer part layers that become one kernel?"""
        before = set[str]().union(*(x.makes for x in self.layers[: after + 1]))
        return any(x.fused in before for x in self.layers[after + 1 :])


def cut_points(
    path: Path,
    fixed: Mapping[str, tuple[int, ...]] = {},
    batch: int | None = 1,
    *,
    inside_fused: bool = False,
) -> tuple[Cut, ...]:
    """Cuts of a model, from front to back; those inside a group of layers that become one kernel
    only on request.

    Groups are a Conv, Gemm or MatMul (or a lone BatchNormalization) and what follows it alone:
    BatchNormalization, scale and bias, for a Conv the sum with a skip connection of the same shape,
    an activation. DequantizeLinear goes with its only reader, QuantizeLinear with the layer that it
    reads. Cuts through tensors of unknown size are left out. Raises NetworkError as `read_chain`.
    """
    chain = read_chain(path, fixed, batch)
    return tuple(c for c in chain.cuts() if inside_fused or not chain.fused(c.after))


def skips(cuts: Sequence[Cut]) -> tuple[tuple[str, ...], ...]:
    """Per stage between two cuts, the tensors that cross both: made before the stage and read after
    it.

    They go from the stage that makes them straight to the one that reads them, past the stage
    between.
    """
    return tuple(tuple(t for t in a.tensors if t in b.tensors) for a, b in pairwise(cuts))


def jedi_allows(cuts: Sequence[Cut]) -> bool:
    """Is the tuple of cuts (from front to back) feasible for JEDI: does no tensor cross more than
    one of them?

    Kim's thesis, ch. 3.5.1: "If more than one cut-point cuts an arc between two layers, it is
    considered infeasible", as stages synchronize with their neighbors only. The input of the
    network counts as made by the first stage.
    """
    return not any(skips(cuts))


def size(tensor: Border) -> int:
    """Bytes of a fixed tensor."""
    return DTYPES[tensor.dtype][1] * prod(tensor.shape)


def shape_value(node: Any, tensors: Mapping[str, Border]) -> int | tuple[int, ...] | None:
    """What a Shape or Size node says of a tensor whose shape is fixed; None for all other nodes."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in ("Shape", "Size"):
        return None
    tensor = tensors.get(node.input[0])
    if tensor is None or not tensor.fixed:
        return None
    if node.op_type == "Size":
        return prod(tensor.shape)
    ends = {a.name: a.i for a in node.attribute}
    return tensor.shape[ends.get("start", 0) : ends.get("end")]


def folded(node: Any, tensors: Mapping[str, Border]) -> Any:
    """A node that asks for a fixed shape becomes its answer; all other nodes stay."""
    from onnx import TensorProto, helper

    value = shape_value(node, tensors)
    if value is None:
        return node
    if isinstance(value, int):
        tensor = helper.make_tensor("", TensorProto.INT64, [], [value])
    else:
        tensor = helper.make_tensor("", TensorProto.INT64, [len(value)], value)
    return helper.make_node("Constant", [], list(node.output), node.name, value=tensor)


def read_chain(
    path: Path, fixed: Mapping[str, tuple[int, ...]] = {}, batch: int | None = 1
) -> LayerChain:
    """The layers from which an output can be reached.

    `fixed` and `batch` fix dynamic dimensions as in `read_network`. What follows from constants and
    fixed shapes alone is no layer: it goes with the layers that use it. Raises NetworkError: the
    faults of `read_network`, F403 for an input without fixed shape, F402 for a graph that is not in
    order or has nothing to compute.
    """
    interface, model = read_fixed(path, fixed, batch)
    return chain_of(model, interface.inputs, interface.outputs, path.name)


def chain_of(
    model: Any, inputs: Sequence[Border], results: Sequence[Border], file: str
) -> LayerChain:
    """The same of a model that was read, whose inputs have these fixed shapes."""
    borders = {b.name: b for b in inputs}
    tensors = {b.name: b for b in results} | tensors_of(inferred(model))
    outputs = tuple(b.name for b in results)
    nodes = _needed(_flowing(model.graph, borders, tensors, file), outputs)
    if not nodes:
        raise NetworkError("F402", f"no output of `{file}` depends on an input", "export it again")
    flow = (made_by(nodes) | borders.keys()) - {""}
    reads = [tuple(dict.fromkeys(t for t in n.input if t in flow)) for n in nodes]
    fused = _Groups(nodes, reads, outputs, tensors).fused()
    layers = []
    for node, data, over in zip(nodes, reads, fused, strict=True):
        makes = tuple(t for t in node.output if t)
        layers.append(ChainedLayer(makes[0], node.op_type, data, makes, over, _macs(node, tensors)))
    return LayerChain(file, tuple(layers), tuple(borders), outputs, tensors)


def tensors_of(graph: Any) -> dict[str, Border]:
    """The tensors of a graph with a shape and a type that numpy knows; dimensions may be
    unknown.
    """
    from onnx import helper

    tensors: dict[str, Border] = {}
    for weight in graph.initializer:
        dtype = helper.tensor_dtype_to_np_dtype(weight.data_type).name
        tensors[weight.name] = Border(weight.name, dtype, tuple(weight.dims))
    for value in (*graph.output, *graph.value_info, *graph.input):
        kind = value.type.tensor_type
        if value.name not in tensors and kind.elem_type and kind.HasField("shape"):
            tensors[value.name] = declared(value)
    return {t: b for t, b in tensors.items() if b.dtype in DTYPES}


def declared(value: Any) -> Border:
    """A tensor as a ValueInfoProto declares it."""
    from onnx import helper

    kind = value.type.tensor_type
    return Border(value.name, helper.tensor_dtype_to_np_dtype(kind.elem_type).name, dims_of(kind))


def _flowing(
    graph: Any, inputs: Mapping[str, Border], tensors: Mapping[str, Border], file: str
) -> list[Any]:
    """The nodes into which data of an input flows, checked to be in order."""
    made = {*inputs, ""}
    made.update(t.name for t in graph.initializer)
    made.update(t.values.name for t in graph.sparse_initializer)
    flow = set(inputs)
    nodes = []
    for node in graph.node:
        for t in node.input:
            if t not in made:
                raise NetworkError(
                    "F402", f"`{file}` reads tensor `{t}` before it is made", "export it again"
                )
        made.update(node.output)
        drawn = node.op_type in RANDOM
        if drawn or (not flow.isdisjoint(node.input) and shape_value(node, tensors) is None):
            flow.update(t for t in node.output if t)
            nodes.append(node)
    return nodes


def _needed(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """Those from which an output can be reached."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(t for t in node.output if t):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]


class _Groups:
    """Groups of layers that become one kernel each.

    An open tensor ends a group that may go on. It maps to the operator that began the group, to
    `GATE` or to `ACTIVATION` where only these may follow.
    """

    def __init__(
        self,
        nodes: Sequence[Any],
        reads: Sequence[tuple[str, ...]],
        outputs: Sequence[str],
        tensors: Mapping[str, Border],
    ) -> None:
        self._nodes, self._reads, self._tensors = nodes, reads, tensors
        self._readers = Counter(outputs)
        for data in reads:
            self._readers.update(data)
        self._gated = _gated(nodes, self._readers)
        self._makers = {t: k for k, n in enumerate(nodes) for t in n.output}
        self._open: dict[str, str] = {}

    def fused(self) -> list[str]:
        """Per layer the tensor over which it is fused with the one before, or nothing.

        Conversions from and to 8 bits go with the layer between.
        """
        converted: set[str] = set()
        fused = []
        for node, data in zip(self._nodes, self._reads, strict=True):
            over = self._joined(node, data)
            operator = _operator(node)
            if operator == "DequantizeLinear" and self._readers[first_output(node)] == 1:
                converted.add(first_output(node))
            elif operator == "QuantizeLinear":
                read = node.input[0]
                if read in self._makers and read in self._alone(node, data):
                    over = read
            # What comes first: no cut is left between any of them and the layer.
            near = (t for t in data if t in converted or t == over)
            fused.append(min(near, key=self._makers.__getitem__, default=""))
        return fused

    def _joined(self, node: Any, data: tuple[str, ...]) -> str:
        """The tensor that ends the group which a layer goes on with, or nothing; notes what may
        follow the layer."""
        alone = self._alone(node, data)
        # The tensor that is made last: fewest cuts are lost, and the other side of a sum is there
        # by then.
        last = next((t for t in reversed(self._open) if t in alone), "")
        operator = _operator(node)
        behind = self._behind(node, data, last) if last else None
        if behind is None:
            if operator in HEADS:
                self._open[first_output(node)] = operator
            return ""
        if behind != ENDED:
            self._open[first_output(node)] = behind
        return last

    def _behind(self, node: Any, data: tuple[str, ...], last: str) -> str | None:
        """What may follow a layer that goes on with the group which ends in `last`; None if the
        layer is not of the group."""
        group = self._open[last]
        operator = _operator(node)
        if group == GATE:
            return ENDED
        if data == (last,):
            if operator in ACTIVATIONS:
                return GATE if self._gated.get(last) == first_output(node) else ENDED
            if operator in SCALINGS and group != ACTIVATION:
                return group
        sums_two = operator in ("Add", "Sum") and len(data) == len(node.input) == 2
        if group == "Conv" and sums_two and _alike(data, self._tensors):
            return ACTIVATION
        return None

    def _alone(self, node: Any, data: Sequence[str]) -> set[str]:
        """What a layer reads once, and no other layer but the second one of a gate."""
        name = first_output(node)
        inputs = list(node.input)
        alone = set()
        for t in data:
            unshared = self._readers[t] == 1 or self._gated.get(t) == name
            if unshared and inputs.count(t) == 1:
                alone.add(t)
        return alone


def _operator(node: Any) -> str:
    """The standard operator of a node; empty for others."""
    return str(node.op_type) if node.domain in ("", "ai.onnx") else ""


def _alike(names: Sequence[str], tensors: Mapping[str, Border]) -> bool:
    """Do tensors have the same shape?"""
    return len({tensors[t].dims if t in tensors else t for t in names}) == 1


def _gated(nodes: Sequence[Any], readers: Mapping[str, int]) -> dict[str, str]:
    """Per tensor x of a gate its sigmoid, if no other layer reads either."""
    sigmoids = {n.output[0]: n.input[0] for n in nodes if n.op_type in ("Sigmoid", "HardSigmoid")}
    gated = {}
    for node in nodes:
        if node.op_type == "Mul":
            for gate, x in (tuple(node.input), tuple(node.input)[::-1]):
                if sigmoids.get(gate) == x and readers[x] == 2 and readers[gate] == 1:
                    gated[x] = gate
    return gated


def _macs(node: Any, tensors: Mapping[str, Border]) -> int:
    """Multiplications of a layer, as far as its shapes are fixed."""
    if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return 0
    shapes = []
    for t in (node.input[0], node.input[1], node.output[0]):
        border = tensors.get(t)
        if border is None or not border.fixed:
            return 0
        shapes.append(border.shape)
    data, weight, result = shapes
    if node.op_type == "Conv":
        return prod(result) * prod(weight[1:])
    if node.op_type == "ConvTranspose":
        return prod(data) * prod(weight[1:])
    transposed = any(a.name == "transA" and a.i for a in node.attribute)
    across = 0 if transposed and node.op_type == "Gemm" else -1
    return prod(result) * data[across]
