"""A network as ONNX Runtime executes it on this machine: its own graph, with tensors in blocks of
channels.

In: a `Net` of a model. Out: the same network as a `Net` whose groups are ONNX Runtime's kernels, or
None where it makes no such graph, or one that is not understood. What a text names keeps its name,
and layers their order, so that the same bands mean the same in both. Such a graph holds for one
size of blocks, and for one version of ONNX Runtime: `probe` shows which they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..onnx.cuts import Chain, tensors_of
from ..onnx.interface import Border
from ..onnx.layers import SAME
from ..onnx.own_graph import NCHWC, block_here, bytes_of, flows_of, optimized, source_of
from ..onnx.read_layers import RULES, Graph, Node
from .net import PADDED, Group, Net, Read, Step, Way, height_of, rules_of, way_of

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


def version_here() -> list[str]:
    """The first two numbers of ONNX Runtime's version: another one may have other kernels."""
    import onnxruntime

    return list(onnxruntime.__version__.split(".")[:2])


def read_blocked(net: Net) -> Net | None:
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
    called, if any."""

    node: Any
    number: int
    reads: tuple[tuple[int, str], ...]
    makes: tuple[str, ...]
    source: str


def _reorders(kernel: _Kernel, tensor: str) -> bool:
    return kernel.node.op_type == "ReorderOutput" and kernel.reads[0][1] == tensor


class _Shapes(Graph):
    """What rules ask of a graph, of one that was written by ONNX Runtime."""

    def __init__(self, file: str, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.file = file
        self.constants = {w.name: w for w in model.graph.initializer}
        self._types = {t: (1, tuple(shape)) for t, shape in shapes.items()}
        self._types |= {w.name: (w.data_type, tuple(w.dims)) for w in model.graph.initializer}


class _Reader:
    def __init__(self, plain: Net, model: Any) -> None:
        self.plain, self.model = plain, model
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.groups = {t: g for g in plain.groups for k in g.steps for t in plain.steps[k].makes}

    def net(self) -> Net:
        """All of it. Raises _NotUnderstood."""
        kernels = self._kernels()
        if not any(k.node.domain == NCHWC for k in kernels):
            raise _NotUnderstood
        blocked = self._blocked(kernels)
        known = self.plain.chain.tensors
        flows = flows_of(
            self.model, {t: Border(t, known[t].dtype, s) for t, s in self.plain.shapes.items()}
        )
        names = self._names(kernels, blocked)
        self._rename(names)
        kernels = [
            replace(
                k,
                reads=tuple((i, names.get(t, t)) for i, t in k.reads),
                makes=tuple(names.get(t, t) for t in k.makes),
            )
            for k in kernels
        ]
        blocks = dict.fromkeys((names.get(t, t) for t in blocked), block_here())
        flows = {names.get(t, t): border for t, border in flows.items()}
        shapes = {t: border.shape for t, border in flows.items()}
        graph = _Shapes(self.plain.file, self.model, shapes)
        kernels = self._in_order(kernels)
        steps = tuple(self._step(n, k, graph) for n, k in enumerate(kernels))
        outputs = self.plain.chain.outputs
        read = {t for k in kernels for _, t in k.reads} | set(outputs)
        groups = tuple(
            Group(
                (n,),
                tuple(dict.fromkeys(t for _, t in k.reads)),
                tuple(t for t in k.makes if t in read),
            )
            for n, k in enumerate(kernels)
        )
        chain = Chain(
            self.plain.file,
            (),
            self.plain.chain.inputs,
            outputs,
            tensors_of(self.model.graph) | flows,
        )
        named = frozenset(t for t in read if t in self.plain.made)
        return Net(
            self.plain.file,
            chain,
            self.model,
            self.plain.folder,
            steps,
            groups,
            shapes,
            blocks,
            named,
        )

    # -- what is there
    def _kernels(self) -> list[_Kernel]:
        flow = set(self.plain.chain.inputs)
        found = []
        for number, node in enumerate(self.model.graph.node):
            reads = tuple((i, t) for i, t in enumerate(node.input) if t in flow)
            if not reads:
                continue
            makes = tuple(t for t in node.output if t)
            flow.update(makes)
            found.append(_Kernel(node, number, reads, makes, source_of(node, self.groups)))
        if not {*self.plain.chain.outputs} <= flow:
            raise _NotUnderstood
        return found

    def _blocked(self, kernels: Sequence[_Kernel]) -> set[str]:
        """The tensors that lie in blocks."""
        found: set[str] = set()
        for k in kernels:
            if any(a.name == "channels_last" and a.i for a in k.node.attribute):
                raise _NotUnderstood
            if k.node.domain == NCHWC:
                if k.node.op_type != "ReorderOutput":
                    found.update(k.makes)
            elif any(t in found for _, t in k.reads):
                if not all(t in found for _, t in k.reads):
                    raise _NotUnderstood
                found.update(k.makes)
        return found

    # -- names
    def _names(self, kernels: Sequence[_Kernel], blocked: set[str]) -> dict[str, str]:
        """Of tensors in blocks, what the model calls them; of plain ones that are there in blocks
        as well, another."""
        last: dict[str, str] = {}
        for k in kernels:
            group = self._group(k)
            if (
                group is not None
                and len(group.makes) == 1
                and len(k.makes) == 1
                and k.makes[0] in blocked
            ):
                last[group.makes[0]] = k.makes[0]
        names = {}
        there = {t: k for k in kernels for t in k.makes}
        for source, tensor in last.items():
            maker = there.get(source)
            if tensor == source or (maker is not None and not _reorders(maker, tensor)):
                continue  # a kernel of its own ends these layers
            if source in self.plain.chain.outputs:
                names[tensor] = source + BLOCKS
                continue
            names[tensor] = source
            if source in there:
                names[source] = source + PLAIN
        return names

    def _group(self, kernel: _Kernel) -> Group | None:
        """The layers of the model that end with a kernel: a sum may have gone to the other one of
        its convolutions."""
        group = self.groups.get(kernel.source)
        if group is None or not any(i == SUMMED for i, _ in kernel.reads) or self._adds(group):
            return group
        return next(
            (g for g in self.plain.groups if {*group.makes} & {*g.reads} and self._adds(g)), None
        )

    def _adds(self, group: Group) -> bool:
        return any(self.plain.steps[k].operator in ("Add", "Sum") for k in group.steps)

    def _rename(self, names: Mapping[str, str]) -> None:
        for node in self.model.graph.node:
            for side in (node.input, node.output):
                for i, t in enumerate(side):
                    if t in names:
                        side[i] = names[t]

    def _in_order(self, kernels: Sequence[_Kernel]) -> list[_Kernel]:
        """As the layers of the model; what is new stands behind what it reads, and copies for
        readers before them."""
        place = {
            t: n
            for n, g in enumerate(self.plain.groups)
            for k in g.steps
            for t in self.plain.steps[k].makes
        }
        maker = {t: n for n, k in enumerate(kernels) for t in k.makes}
        rank = [float(place[k.source]) if k.source else -1.0 for k in kernels]
        readers: dict[int, list[int]] = {}
        for n, k in enumerate(kernels):
            for _, t in k.reads:
                if t in maker:
                    readers.setdefault(maker[t], []).append(n)
            if not k.source:
                rank[n] = max((rank[maker[t]] for _, t in k.reads if t in maker), default=-1.0)
        for n in range(len(kernels) - 1, -1, -1):
            if kernels[n].node.op_type == "ReorderInput":
                rank[n] = min((rank[r] for r in readers.get(n, ())), default=rank[n]) - 0.5
        waits = [len({maker[t] for _, t in k.reads if t in maker}) for k in kernels]
        ready = [(rank[n], n) for n in range(len(kernels)) if not waits[n]]
        heapq.heapify(ready)
        found = []
        while ready:
            _, n = heapq.heappop(ready)
            found.append(kernels[n])
            for r in dict.fromkeys(readers.get(n, ())):
                waits[r] -= 1
                if not waits[r]:
                    heapq.heappush(ready, (rank[r], r))
        return found

    # -- rules
    def _step(self, number: int, kernel: _Kernel, graph: _Shapes) -> Step:
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
        return Step(number, kernel.number, operator, reads, kernel.makes, macs, weights, why)

    def _ways(self, kernel: _Kernel, graph: _Shapes) -> tuple[str, dict[int, Way]]:
        """Why a kernel cannot go by rows (empty if it can), and how it reads."""
        node = Node(kernel.node, self.opset, graph)
        op = kernel.node.op_type
        if kernel.node.domain in ("", "ai.onnx"):
            return rules_of(node, kernel.makes, kernel.reads, graph)
        if len(kernel.makes) != 1 or len(node.result) != 4 or node.result[0] != 1:
            return "its result is no image of four dimensions", {}
        if op in REORDERS or op in ALIKE:
            return "", dict.fromkeys((i for i, _ in kernel.reads), (SAME, None))
        node.op = WINDOWS.get(op, op)
        found: dict[int, Way] = {}
        for position, tensor in kernel.reads:
            height = graph.shape(tensor)[2]
            if node.op in PADDED:
                way = (
                    (SAME, None)
                    if position
                    else way_of(node, 0, RULES[node.op](node, 0), height, node.result[2])
                )
            elif op == "Upsample" and node.text("mode", "nearest") == "nearest":
                way = None, int(node.attributes["scales"][2])
            else:
                way = "every row of its result needs all rows of its data"
            if isinstance(way, str):
                return way, {}
            found[position] = way
        return "", found


def without(model: bytes, location: str, places: Mapping[str, int]) -> bytes:
    """A model whose initializers lie at some bytes of a file beside it."""
    import onnx

    found = onnx.load_model_from_string(model)
    for weight in found.graph.initializer:
        if weight.name in places:
            size = bytes_of(weight)
            onnx.external_data_helper.set_external_data(weight, location, places[weight.name], size)
            weight.ClearField("raw_data")
            weight.ClearField("float_data")
    return bytes(found.SerializeToString(deterministic=True))


def initializers(model: bytes) -> set[str]:
    """Names of the weights of a model."""
    import onnx

    return {w.name for w in onnx.load_model_from_string(model).graph.initializer}
