"""Ends of networks that join tensors of ranges that differ, such as boxes up to 320 and scores up
to 1: one scale of 8 bits for all of them leaves nothing of the small ones.

In: a model, and samples of its inputs. Out: the nodes that stay in floating point, and the parts of
outputs that are judged by themselves. Behind these nodes nothing is multiplied by weights, so that
8 bits would gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

#: What is worth computing in 8 bits.
MULTIPLIED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
#: With fewer weights a layer gains nothing by 8 bits: sums over the bins of a distribution.
WORTH = 256
#: Of tensors whose largest values differ by this factor, the smallest one has 5 bits of 8 left.
DIFFER = 8.0
#: Most samples that ranges are found from.
SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an output: from one index to another, along an axis."""

    output: str
    axis: int
    begin: int
    end: int

    @property
    def name(self) -> str:
        """The output with its part, as Python writes it."""
        before = ":, " * self.axis
        return f"{self.output}[{before}{self.begin}:{self.end}]"

    def of(self, value: np.ndarray) -> np.ndarray:
        """That part of the value of the output."""
        import numpy as np

        return np.take(value, np.arange(self.begin, self.end), self.axis)


def tail(model: Any, samples: Sequence[Mapping[str, np.ndarray]]) -> set[str]:
    """The first outputs of the nodes that stay in floating point: those that join tensors of
    different ranges, what these make of the results of layers with weights, and what follows."""
    nodes = [*_behind_layers(model.graph)]
    seen = _seen(model, [n for n in nodes if n.op_type == "Concat"], samples)
    joins = [n for n in nodes if n.op_type == "Concat" and seen.differ(n)]
    before = {t for node in joins for t in node.input}
    for node in reversed(nodes):
        if not before.isdisjoint(node.output):
            before.update(node.input)
    behind = {t for node in joins for t in node.output}
    for node in nodes:
        if not behind.isdisjoint(node.input):
            behind.update(node.output)
    kept = before | behind
    return {str(node.output[0]) for node in nodes if not kept.isdisjoint(node.output)}


def parts(path: Path, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, list[Part]]:
    """The parts of outputs that join tensors of different ranges, by output. Raises whatever ONNX
    Runtime raises on the samples."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    results = {v.name for v in graph.output}
    joins = [n for n in graph.node if n.op_type == "Concat" and n.output[0] in results]
    if not joins:
        return {}
    seen = _seen(onnx.load(str(path)), joins, samples)
    found = {node.output[0]: [*seen.parts(node)] for node in joins if seen.differ(node)}
    return {output: of for output, of in found.items() if of}


def _behind_layers(graph: Any) -> Iterator[Any]:
    """The nodes whose results no layer with weights reads, in order."""
    read: set[str] = set()
    behind: list[Any] = []
    few = {t.name for t in graph.initializer if prod(t.dims) < WORTH}
    for node in reversed(graph.node):
        inner = any(a.g.node or a.graphs for a in node.attribute)  # it may read anything
        multiplied = node.op_type in MULTIPLIED and node.input[1] not in few
        if multiplied or inner or not read.isdisjoint(node.output):
            read.update(node.input)
        else:
            behind.append(node)
    return iter(behind[::-1])


class _Seen:
    """The largest value of each tensor over samples, and its sizes, where all have the same."""

    def __init__(self) -> None:
        self.largest: dict[str, float] = {}
        self.shapes: dict[str, tuple[int, ...] | None] = {}

    def add(self, name: str, value: np.ndarray) -> None:
        """The tensor of a sample."""
        import numpy as np

        if value.dtype.kind == "f" and value.size:
            finite = np.abs(value[np.isfinite(value)]).max(initial=0.0)
            self.largest[name] = max(self.largest.get(name, 0.0), float(finite))
        same = self.shapes.setdefault(name, value.shape) == value.shape
        self.shapes[name] = value.shape if same else None

    def differ(self, node: Any) -> bool:
        """Do the tensors that a node joins have different ranges?"""
        largest = [self.largest[t] for t in node.input if self.largest.get(t)]
        return len(largest) > 1 and max(largest) >= DIFFER * min(largest)

    def parts(self, node: Any) -> Iterator[Part]:
        """The parts of what a node joins; none where their sizes vary."""
        shapes = [self.shapes.get(t) for t in node.input]
        known = [shape for shape in shapes if shape]
        if len(known) < len(shapes):
            return
        axis = next(a.i for a in node.attribute if a.name == "axis") % len(known[0])
        begin = 0
        for shape in known:
            end = begin + shape[axis]
            yield Part(node.output[0], axis, begin, end)
            begin = end


def _seen(model: Any, joins: Sequence[Any], samples: Sequence[Mapping[str, np.ndarray]]) -> _Seen:
    """What these nodes join, on samples."""
    import onnx
    import onnxruntime as ort

    seen = _Seen()
    weights = {t.name for t in model.graph.initializer}
    wanted = [*dict.fromkeys(t for n in joins for t in n.input if t not in weights)]
    if not wanted:
        return seen
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    given = {v.name for v in (*model.graph.output, *model.graph.input)}
    watched.graph.output.extend(onnx.ValueInfoProto(name=t) for t in wanted if t not in given)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    content = watched.SerializeToString()
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    made = [t for t in wanted if t not in {v.name for v in model.graph.input}]
    if not made:  # no names would mean all outputs
        return seen
    for sample in samples[:SAMPLES]:
        for name, value in zip(made, session.run(made, dict(sample)), strict=True):
            seen.add(name, value)
    return seen
