"""A network as ONNX Runtime executes it on this machine: its own graph, with tensors in blocks of
channels.

In: a `BandNet` of a model. Out: the same network as a `BandNet` whose groups are ONNX Runtime's
kernels, or None where it makes no such graph, or one that is not understood. What a text names
keeps its name, and layers their order, so that the same bands mean the same in both. Such a graph
holds for one size of blocks, and for one version of ONNX Runtime: `probe` shows which they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..onnx.cuts import LayerChain, tensors_of
from ..onnx.interface import Border
from ..onnx.layers import SAME
from ..onnx.own_graph import NCHWC, block_here, bytes_of, flows_of, optimized, source_of
from ..onnx.read_layers import RULES, OnnxGraph, OnnxNode
from .net import (
    ALL_ROWS,
    PADDED,
    BandNet,
    LayerGroup,
    LayerStep,
    Read,
    Way,
    height_of,
    rules_of,
    way_of,
)

#: Kernels that read rows by a window, whatever their domain.
WINDOWS = {"Conv": "Conv", "FusedConv": "Conv", "MaxPool": "MaxPool", "AveragePool": "AveragePool"}
#: In blocks: what gives each row in another layout, and what is not in blocks any more.
REORDERS = frozenset({"ReorderInput", "ReorderOutput"})
#: Of ONNX Runtime: element by element.
ALIKE = frozenset({"QuickGelu"})
#: The input of a convolution that is added to its result.
SUMMED = 3
#: Marks the plain form of a tensor that is there in blocks as well, and the other way round for
#: outputs.
PLAIN, BLOCKS = ":plain", ":blocks"


def read_blocked(net: BandNet) -> BandNet | None:
    """The network as this machine's ONNX Runtime executes it."""
    import onnx

    if not block_here():
        return None
    model = onnx.ModelProto()
    model.CopyFrom(net.model)
    try:
        onnx.load_external_data_for_model(model, str(net.folder))
        return _Reader(net, optimized(model, net.chain.tensors)).net()
    except _NotUnderstood:
        return None
    except Exception:  # what ONNX Runtime and onnx raise has no common type
        return None


class _NotUnderstood(Exception):
    """The graph has something that bands do not know."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A node, its number, what flows through it, and the tensor of the model after which it is
    called, if any.

    `reads` are positions of inputs with their tensors.
    """

    node: Any
    number: int
    reads: tuple[tuple[int, str], ...]
    makes: tuple[str, ...]
    source: str

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that it reads."""
        return tuple(t for _, t in self.reads)

    def group(self, number: int, read: Container[str]) -> LayerGroup:
        """The group of this kernel alone; `read` are the tensors that kernels or the world read."""
        makes = tuple(t for t in self.makes if t in read)
        return LayerGroup((number,), tuple(dict.fromkeys(self.tensors)), makes)

    def renamed(self, names: Mapping[str, str]) -> _Kernel:
        """The same with other names of some tensors."""
        reads = tuple((i, names.get(t, t)) for i, t in self.reads)
        makes = tuple(names.get(t, t) for t in self.makes)
        return replace(self, reads=reads, makes=makes)


def _reorders(kernel: _Kernel, tensor: str) -> bool:
    return kernel.node.op_type == "ReorderOutput" and kernel.reads[0][1] == tensor


class _Shapes(OnnxGraph):
    """What rules ask of a graph, of one that was written by ONNX Runtime."""

    def __init__(self, file: str, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.file = file
        self.constants = {w.name: w for w in model.graph.initializer}
        self._types = {t: (1, tuple(shape)) for t, shape in shapes.items()}
        self._types |= {w.name: (w.data_type, tuple(w.dims)) for w in model.graph.initializer}


class _Reader:
    def __init__(self, plain: BandNet, model: Any) -> None:
        self.plain, self.model = plain, model
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        #: By each tensor that layers of the model make, the number of their group.
        self.groups: dict[str, int] = {}
        for number, group in enumerate(plain.groups):
            for step in group.steps:
                self.groups |= dict.fromkeys(plain.steps[step].makes, number)

    def net(self) -> BandNet:
        """All of it. Raises _NotUnderstood."""
        plain = self.plain
        kernels = self._kernels()
        if not any(k.node.domain == NCHWC for k in kernels):
            raise _NotUnderstood
        blocked = self._blocked(kernels)
        dtypes = {t: plain.chain.tensors[t].dtype for t in plain.shapes}
        known = {t: Border(t, dtypes[t], shape) for t, shape in plain.shapes.items()}
        flows = flows_of(self.model, known)

        names = self._names(kernels, blocked)
        self._rename(names)
        kernels = self._in_order([k.renamed(names) for k in kernels])
        blocks = dict.fromkeys((names.get(t, t) for t in blocked), block_here())
        flows = {names.get(t, t): border for t, border in flows.items()}
        shapes = {t: border.shape for t, border in flows.items()}
        graph = _Shapes(plain.file, self.model, shapes)
        steps = tuple(self._step(n, k, graph) for n, k in enumerate(kernels))

        read = set(plain.chain.outputs).union(*(k.tensors for k in kernels))
        groups = tuple(k.group(n, read) for n, k in enumerate(kernels))
        tensors = tensors_of(self.model.graph) | flows
        chain = LayerChain(plain.file, (), plain.chain.inputs, plain.chain.outputs, tensors)
        named = frozenset(t for t in read if t in plain.made)
        return BandNet(
            plain.file,
            chain,
            self.model,
            plain.folder,
            steps,
            groups,
            shapes,
            blocks,
            named,
        )

    # -- what is there
    def _kernels(self) -> list[_Kernel]:
        flow = set(self.plain.chain.inputs)
        kernels = []
        for number, node in enumerate(self.model.graph.node):
            reads = tuple((i, t) for i, t in enumerate(node.input) if t in flow)
            if not reads:
                continue
            makes = tuple(t for t in node.output if t)
            flow.update(makes)
            kernels.append(_Kernel(node, number, reads, makes, source_of(node, self.groups)))
        if not {*self.plain.chain.outputs} <= flow:
            raise _NotUnderstood
        return kernels

    def _blocked(self, kernels: Sequence[_Kernel]) -> set[str]:
        """The tensors that lie in blocks."""
        blocked: set[str] = set()
        for kernel in kernels:
            if any(a.name == "channels_last" and a.i for a in kernel.node.attribute):
                raise _NotUnderstood
            if kernel.node.domain == NCHWC:
                if kernel.node.op_type != "ReorderOutput":
                    blocked.update(kernel.makes)
            elif not blocked.isdisjoint(kernel.tensors):
                if not blocked.issuperset(kernel.tensors):
                    raise _NotUnderstood
                blocked.update(kernel.makes)
        return blocked

    # -- names
    def _names(self, kernels: Sequence[_Kernel], blocked: set[str]) -> dict[str, str]:
        """Of tensors in blocks, what the model calls them; of plain ones that are there in blocks
        as well, another."""
        makers: dict[str, _Kernel] = {}
        for kernel in kernels:
            makers |= dict.fromkeys(kernel.makes, kernel)
        names = {}
        for source, tensor in self._last_in_blocks(kernels, blocked).items():
            maker = makers.get(source)
            if tensor == source or (maker is not None and not _reorders(maker, tensor)):
                continue  # a kernel of its own ends these layers
            if source in self.plain.chain.outputs:
                names[tensor] = source + BLOCKS
                continue
            names[tensor] = source
            if source in makers:
                names[source] = source + PLAIN
        return names

    def _last_in_blocks(
        self, kernels: Sequence[_Kernel], blocked: Container[str]
    ) -> dict[str, str]:
        """Per tensor that ends a group of the model the one in blocks that ends its kernels."""
        last = {}
        for kernel in kernels:
            group = self._group(kernel)
            if group is None or len(group.makes) != 1 or len(kernel.makes) != 1:
                continue
            if kernel.makes[0] in blocked:
                last[group.makes[0]] = kernel.makes[0]
        return last

    def _group(self, kernel: _Kernel) -> LayerGroup | None:
        """The layers of the model that end with a kernel: a sum may have gone to the other one of
        its convolutions."""
        number = self.groups.get(kernel.source)
        group = None if number is None else self.plain.groups[number]
        if group is None or not any(i == SUMMED for i, _ in kernel.reads) or self._adds(group):
            return group
        for other in self.plain.groups:
            if not set(group.makes).isdisjoint(other.reads) and self._adds(other):
                return other
        return None

    def _adds(self, group: LayerGroup) -> bool:
        return any(self.plain.steps[k].operator in ("Add", "Sum") for k in group.steps)

    def _rename(self, names: Mapping[str, str]) -> None:
        for node in self.model.graph.node:
            for side in (node.input, node.output):
                side[:] = [names.get(t, t) for t in side]

    def _in_order(self, kernels: Sequence[_Kernel]) -> list[_Kernel]:
        """As the layers of the model; what is new stands behind what it reads, and copies for
        readers before them."""
        maker: dict[str, int] = {}
        for number, kernel in enumerate(kernels):
            maker |= dict.fromkeys(kernel.makes, number)
        before = [{maker[t] for t in kernel.tensors if t in maker} for kernel in kernels]
        readers: list[list[int]] = [[] for _ in kernels]
        for number, makers in enumerate(before):
            for k in makers:
                readers[k].append(number)
        ranks = self._ranks(kernels, before, readers)
        waits = [len(makers) for makers in before]
        ready = [(ranks[n], n) for n, count in enumerate(waits) if not count]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, number = heapq.heappop(ready)
            ordered.append(kernels[number])
            for reader in readers[number]:
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready, (ranks[reader], reader))
        return ordered

    def _ranks(
        self,
        kernels: Sequence[_Kernel],
        before: Sequence[Collection[int]],
        readers: Sequence[Collection[int]],
    ) -> list[float]:
        """The places of kernels among the groups of the model."""
        ranks = [float(self.groups[k.source]) if k.source else -1.0 for k in kernels]
        for number, kernel in enumerate(kernels):
            if not kernel.source:
                ranks[number] = max((ranks[k] for k in before[number]), default=-1.0)
        for number in range(len(kernels) - 1, -1, -1):
            if kernels[number].node.op_type == "ReorderInput":
                first = min((ranks[r] for r in readers[number]), default=ranks[number])
                ranks[number] = first - 0.5
        return ranks

    # -- rules
    def _step(self, number: int, kernel: _Kernel, graph: _Shapes) -> LayerStep:
        node = kernel.node
        weights = sum(bytes_of(graph.constants[t]) for t in node.input if t in graph.constants)
        why, ways = self._ways(kernel, graph)
        reads = tuple(
            Read(i, t, height_of(graph.shape(t)), *ways.get(i, (None, None)))
            for i, t in kernel.reads
        )
        operator = WINDOWS.get(node.op_type, node.op_type)
        macs = 0
        if operator == "Conv":
            macs = prod(graph.shape(kernel.makes[0])) * prod(graph.shape(node.input[1])[1:])
        return LayerStep(number, kernel.number, operator, reads, kernel.makes, macs, weights, why)

    def _ways(self, kernel: _Kernel, graph: _Shapes) -> tuple[str, dict[int, Way]]:
        """Why a kernel cannot go by rows (empty if it can), and how it reads."""
        node = OnnxNode(kernel.node, self.opset, graph)
        op = kernel.node.op_type
        if kernel.node.domain in ("", "ai.onnx"):
            return rules_of(node, kernel.makes, kernel.reads, graph)
        if len(kernel.makes) != 1 or len(node.result) != 4 or node.result[0] != 1:
            return "its result is no image of four dimensions", {}
        if op in REORDERS or op in ALIKE:
            return "", dict.fromkeys((i for i, _ in kernel.reads), (SAME, None))
        node.op = WINDOWS.get(op, op)
        ways: dict[int, Way] = {}
        for position, tensor in kernel.reads:
            way = _way(node, position, graph.shape(tensor)[2])
            if isinstance(way, str):
                return way, {}
            ways[position] = way
        return "", ways


def _way(node: OnnxNode, position: int, height: int) -> Way | str:
    """How a kernel of ONNX Runtime's own reads an input of that height, or why not by rows."""
    if node.op in PADDED:
        if position:
            return SAME, None
        return way_of(node, RULES[node.op](node, 0), height, node.result[2])
    if node.op == "Upsample" and node.text("mode", "nearest") == "nearest":
        return None, int(node.attributes["scales"][2])
    return ALL_ROWS


def without(model: bytes, location: str, places: Mapping[str, int]) -> bytes:
    """A model whose initializers lie at some bytes of a file beside it."""
    import onnx

    light = onnx.load_model_from_string(model)
    for weight in light.graph.initializer:
        if weight.name in places:
            size = bytes_of(weight)
            onnx.external_data_helper.set_external_data(weight, location, places[weight.name], size)
            weight.ClearField("raw_data")
            weight.ClearField("float_data")
    return bytes(light.SerializeToString(deterministic=True))


def initializers(model: bytes) -> set[str]:
    """Names of the weights of a model."""
    import onnx

    return {w.name for w in onnx.load_model_from_string(model).graph.initializer}
