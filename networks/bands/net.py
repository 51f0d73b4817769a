"""A network as groups of layers that can be done in bands of rows: which rows of its data each
layer needs for some.

In: an ONNX model on disk. Out: a `BandNet`. Rules for rows are those of
`networks.onnx.read_layers`, of which this takes what can be written as an ONNX node again: windows,
what works element by element, whole factors of scaling. The same network as ONNX Runtime executes
it is read by `blocked.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from ...model.types import DTYPES
from ..onnx.cuts import LayerChain, chain_of
from ..onnx.interface import read_fixed
from ..onnx.layers import SAME, EveryRow, Rows, RowWindow, Scaled, Transposed
from ..onnx.nodes import first_output
from ..onnx.own_graph import bytes_of
from ..onnx.read_layers import ELEMENTWISE, RULES, OnnxGraph, OnnxNode
from ..onnx.scratch import takes_some

#: Half-open ranges of rows.
Band = tuple[int, int]
#: Element by element, or along another axis than the height, with nothing in their attributes that
#: knows the height.
ALIKE = frozenset(ELEMENTWISE) - {"Expand", "CastLike"} | {
    "BatchNormalization",
    "Concat",
    "Softmax",
    "LogSoftmax",
}
#: What has a window whose padding is an attribute.
PADDED = frozenset({"Conv", "MaxPool", "AveragePool"})
#: What makes several rows of each row of its data, without weights.
SCALING = frozenset({"Resize", "Upsample", "DepthToSpace"})
#: Why a layer cannot be done by rows, where nothing more precise can be said.
ALL_ROWS = "every row of its result needs all rows of its data"


@dataclass(frozen=True, slots=True)
class Read:
    """Input `position` of a layer.

    By a `window`, by a `factor` (so many output rows for each input row), or with neither as a
    whole.
    """

    position: int
    tensor: str
    height: int
    window: RowWindow | None
    factor: int | None

    def needs(self, first: int, end: int) -> tuple[int, int, int, int]:
        """For output rows [first, end): the rows [a, b), and how many rows of padding stand above
        and below them."""
        if self.window is not None:
            w = self.window
            start, stop = first * w.stride - w.top, (end - 1) * w.stride - w.top + w.span
            a, b = max(start, 0), min(stop, self.height)
            return a, b, a - start, stop - b
        if self.factor is not None:
            return first // self.factor, -(-end // self.factor), 0, 0
        return 0, self.height, 0, 0


@dataclass(frozen=True, slots=True)
class LayerStep:
    """A layer: `node` is its number in the model, `weights` their bytes.

    `why` says why it cannot be done by rows; it is empty where it can.
    """

    number: int
    node: int
    operator: str
    reads: tuple[Read, ...]
    makes: tuple[str, ...]
    macs: int
    weights: int
    why: str = ""

    @property
    def factor(self) -> int:
        """Rows come in multiples of it."""
        return max((r.factor or 1 for r in self.reads), default=1)


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that become one kernel, by number; `reads` and `makes` at its border."""

    steps: tuple[int, ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True)
class BandNet:
    """`shapes` of the tensors that depend on an input; groups in order.

    `blocks`: how many channels a block has, of tensors in ONNX Runtime's blocked layout; `names`
    (None: all) are the tensors that a text may name in this form of the network.
    """

    file: str
    chain: LayerChain
    model: Any
    folder: Path
    steps: tuple[LayerStep, ...]
    groups: tuple[LayerGroup, ...]
    shapes: Mapping[str, tuple[int, ...]]
    blocks: Mapping[str, int] = field(default_factory=dict)
    names: frozenset[str] | None = None

    @property
    def blocked(self) -> bool:
        """Is it ONNX Runtime's own graph?"""
        return self.names is not None

    def height(self, tensor: str) -> int:
        """Rows of a tensor; one below rank 4."""
        return height_of(self.shapes[tensor])

    def bytes(self, tensor: str, rows: int | None = None) -> int:
        """Of a tensor, or of so many rows of it."""
        whole, row = self._sizes[tensor]
        return whole if rows is None or row is None else row * rows

    @cached_property
    def _sizes(self) -> dict[str, tuple[int, int | None]]:
        """Bytes of tensors, and of a row of each that has rows."""
        sizes: dict[str, tuple[int, int | None]] = {}
        for tensor, shape in self.shapes.items():
            element = DTYPES[self.chain.tensors[tensor].dtype][1]
            row = None
            if len(shape) == 4:
                row = element * shape[1] * shape[3]
            sizes[tensor] = element * prod(shape), row
        return sizes

    def laid(self, tensor: str, rows: int) -> tuple[int, ...]:
        """The shape in which so many rows of a tensor lie in memory; rows are its third axis."""
        shape = self.shapes[tensor]
        if len(shape) != 4:
            return shape
        block = self.blocks.get(tensor, 1)
        return shape[0], shape[1] // block, rows, shape[3] * block

    def stretches(self, tensor: str) -> int:
        """In how many stretches of memory some rows of a tensor lie."""
        shape = self.laid(tensor, 1)
        return shape[0] * shape[1] if len(shape) == 4 else 1

    @cached_property
    def made(self) -> dict[str, int]:
        """The group that makes a tensor; -1 for inputs."""
        made = dict.fromkeys(self.chain.inputs, -1)
        for number, group in enumerate(self.groups):
            made |= dict.fromkeys(group.makes, number)
        return made

    @cached_property
    def read(self) -> dict[str, int]:
        """The last group that reads a tensor; as many as there are groups for outputs."""
        last: dict[str, int] = {}
        for number, group in enumerate(self.groups):
            last |= dict.fromkeys(group.reads, number)
        return last | dict.fromkeys(self.chain.outputs, len(self.groups))

    @cached_property
    def busy(self) -> dict[int, tuple[Any, dict[str, tuple[int, ...]]]]:
        """Layers by number whose kernels take memory for themselves: their nodes, and the shapes of
        what they read."""
        if not self.blocked:
            return {}
        graph = self.model.graph
        shapes = {w.name: tuple(w.dims) for w in graph.initializer} | dict(self.shapes)
        busy = {}
        for step in self.steps:
            node = graph.node[step.node]
            if takes_some(node):
                busy[step.number] = node, {t: shapes[t] for t in node.input if t in shapes}
        return busy

    def crossing(self, after: int) -> tuple[str, ...]:
        """Tensors that are there after a group and read later."""
        return tuple(t for t, k in self.made.items() if k <= after < self.read.get(t, -1))

    def why_not(self, group: int) -> str:
        """Why a group cannot be done by rows; empty if it can."""
        reasons = (self.steps[k].why for k in self.groups[group].steps)
        return next(filter(None, reasons), "")


def read_net(path: Path, fixed: Mapping[str, tuple[int, ...]] = {}) -> BandNet:
    """A model as a `BandNet`. Raises NetworkError as `read_chain`, and where a tensor has no fixed
    shape."""
    interface, model = read_fixed(path, fixed, 1)
    chain = chain_of(model, interface.inputs, interface.outputs, path.name)
    graph = OnnxGraph(path.name, interface, model)
    nodes = {first_output(n.node): (k, n) for k, n in enumerate(graph.nodes)}
    spans = chain.spans()
    sizes = {w.name: bytes_of(w) for w in model.graph.initializer}
    shapes = {t: graph.shape(t) for t in spans if t}
    steps = []
    for number, layer in enumerate(chain.layers):
        index, node = nodes[layer.name]
        flowing = tuple((i, t) for i, t in enumerate(node.inputs) if t in spans)
        weights = sum(sizes.get(t, 0) for t in node.inputs)
        why, rules = rules_of(node, layer.makes, flowing, graph)
        reads = []
        for position, tensor in flowing:
            window, factor = rules.get(position, (None, None))
            reads.append(Read(position, tensor, height_of(shapes[tensor]), window, factor))
        steps.append(
            LayerStep(
                number, index, layer.operator, tuple(reads), layer.makes, layer.macs, weights, why
            )
        )
    groups = _groups(chain, spans)
    return BandNet(path.name, chain, model, path.parent, tuple(steps), groups, shapes)


def height_of(shape: tuple[int, ...]) -> int:
    """Rows of a tensor of that shape; one below rank 4."""
    return shape[2] if len(shape) == 4 else 1


def _groups(chain: LayerChain, spans: Mapping[str, tuple[int, int]]) -> tuple[LayerGroup, ...]:
    """In the order of their last layers: what goes between the layers of a group does not need
    it."""
    readers: dict[str, set[int]] = {}
    for number, layer in enumerate(chain.layers):
        for tensor in layer.reads:
            readers.setdefault(tensor, set()).add(number)
    groups = []
    for steps in sorted(_fused(chain, spans), key=lambda steps: steps[-1]):
        layers = [chain.layers[k] for k in steps]
        inside = set[str]().union(*(x.makes for x in layers))
        reads = dict.fromkeys(t for x in layers for t in x.reads if t not in inside)
        makes = []
        for layer in layers:
            for tensor in layer.makes:
                if tensor in chain.outputs or readers.get(tensor, set()).difference(steps):
                    makes.append(tensor)
        groups.append(LayerGroup(tuple(steps), tuple(reads), tuple(makes)))
    return tuple(groups)


def _fused(chain: LayerChain, spans: Mapping[str, tuple[int, int]]) -> Collection[list[int]]:
    """The numbers of the layers that become one kernel, each group in order."""
    group_of = list(range(len(chain.layers)))
    for number, layer in enumerate(chain.layers):
        if layer.fused:
            old, new = group_of[number], group_of[spans[layer.fused][0]]
            group_of = [new if g == old else g for g in group_of]
    members: dict[int, list[int]] = {}
    for number, group in enumerate(group_of):
        members.setdefault(group, []).append(number)
    return members.values()


#: A window, or a factor, or neither: see `Read`.
Way = tuple[RowWindow | None, int | None]


def rules_of(
    node: OnnxNode, makes: tuple[str, ...], reads: tuple[tuple[int, str], ...], graph: OnnxGraph
) -> tuple[str, dict[int, Way]]:
    """Why a layer cannot be done by rows (empty if it can), and how it reads its inputs."""
    if len(makes) != 1 or len([t for t in node.node.output if t]) != 1:
        return "it has several outputs", {}
    shape = node.result
    if len(shape) != 4:
        return "its result is no image of four dimensions", {}
    if shape[0] != 1:
        return f"it works on a batch of {shape[0]}", {}
    if node.op not in RULES:
        return ALL_ROWS, {}
    rules: dict[int, Way] = {}
    for position, tensor in reads:
        if len(graph.shape(tensor)) != 4:
            return "it reads data that is no image of four dimensions", {}
        way = way_of(node, RULES[node.op](node, position), graph.shape(tensor)[2], shape[2])
        if isinstance(way, str):
            return way, {}
        rules[position] = way
    weights = [t for k, t in enumerate(node.inputs) if t and k not in rules]
    if node.op in ALIKE and any(_differs_by_row(graph.shape(t)) for t in weights):
        return "it has weights for each row", {}
    return "", rules


def _differs_by_row(weight: tuple[int, ...]) -> bool:
    """Does a weight of that shape, which is spread over all else, have rows of its own?"""
    return weight[-2:-1] not in ((), (1,))


def way_of(node: OnnxNode, rule: Rows | None, height: int, result: int) -> Way | str:
    """How one input is read by rows, or why it cannot be."""
    match rule:
        case RowWindow() if node.op in PADDED:
            return _padded(node, rule, height, result)
        case RowWindow() if node.op == "SpaceToDepth":
            return rule, None
        case RowWindow() if node.op in ALIKE and rule == SAME:
            return SAME, None
        case EveryRow() if node.op in ALIKE and node.op != "Concat" and height == 1:
            return None, None
        case Scaled() if node.op in SCALING and result % height == 0:
            return _scaled(node, rule, height, result)
        case Transposed() if node.op == "ConvTranspose":
            apart = Transposed(kernel=rule.stride, stride=rule.stride, dilation=1, top=0)
            if rule == apart and result == height * rule.stride:
                return None, rule.stride
            return "its windows overlap in the result"
    return ALL_ROWS


def _padded(node: OnnxNode, rule: RowWindow, height: int, result: int) -> Way | str:
    """How data is read by a window whose padding is an attribute."""
    if min(rule.top, rule.bottom) < 0 or max(rule.top, rule.bottom) >= rule.span:
        return "its padding is larger than its window"
    if node.op == "AveragePool" and node.attributes.get("ceil_mode"):
        return "it counts rows below its data"
    last = (result - 1) * rule.stride - rule.top
    return ALL_ROWS if last >= height else (rule, None)


def _copies_rows(node: OnnxNode) -> bool:
    """Is what a scaled row holds copied from the data, not computed between its rows?"""
    if node.op == "DepthToSpace":
        return True
    return node.text("mode", "nearest") == "nearest" and _whole_width(node)


def _scaled(node: OnnxNode, rule: Scaled, height: int, result: int) -> Way | str:
    """How data is read of which each row becomes several of the result."""
    factor = result // height
    if not factor:
        return ALL_ROWS
    if _copies_rows(node) and _repeats(rule, factor, height, result):
        return None, factor
    return "its rows lie between those of its data"


def _repeats(rule: Scaled, factor: int, height: int, result: int) -> bool:
    """Does each row of the data become `factor` rows of the result?"""
    for row in range(result):
        if rule.needs(row, height) != range(row // factor, row // factor + 1):
            return False
    return True


def _whole_width(node: OnnxNode) -> bool:
    before, after = node.dims(0), node.result
    return after[3] % before[3] == 0 and before[:2] == after[:2]
