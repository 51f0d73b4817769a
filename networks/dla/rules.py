"""Which layers of an ONNX network cannot run on a DLA through TensorRT, and why.

In: a model file, a generation of the DLA, a version of TensorRT, a precision. Out: `Breach`es, the
longest legal runs of layers, rows of a table. The limits and their sources are in `limits.py`. What
to do about a breach is left to others, and so is what only the target can tell: its compiler may
still refuse a layer (for the size of its convolution buffer, for neighbors), so an engine is built
without fallback to the GPU to be certain.

Each layer is judged as it stands. What TensorRT folds while it builds (shapes, constants) is no
layer; an operator that can be rebuilt from others is illegal until it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ..onnx.cuts import read_chain
from ..onnx.interface import read_fixed
from ..onnx.nodes import first_output
from .checks import CheckedLayer, broken
from .limits import PRECISIONS, Generation, Version


@dataclass(frozen=True, slots=True)
class Breach:
    """A layer, called after its first output tensor, that breaks `rule`; `detail` is what it has
    instead.
    """

    layer: str
    op: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class LegalRun:
    """`count` legal layers from `first` to `last` that follow each other in the file."""

    first: str
    last: str
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """`count` layers of one operator that break one rule; `layers` names some of them."""

    op: str
    count: int
    rule: str
    layers: str


def breaches(
    path: Path,
    input_shapes: Mapping[str, tuple[int, ...]] = {},
    *,
    generation: Generation,
    tensorrt: Version,
    precision: str,
    batch: int | None = 1,
) -> tuple[Breach, ...]:
    """What keeps layers off the DLA: one entry per layer and broken rule, in the order of the file.

    `input_shapes` and `batch` fix dynamic dimensions as in `read_network`; `precision` is that of
    the whole engine. Raises NetworkError as `read_chain`, ValueError for a precision or a TensorRT
    that knows no such DLA.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"a DLA computes in {' or '.join(PRECISIONS)}, not in {precision}")
    if not generation.works_with(tensorrt):
        raise ValueError(f"TensorRT {'.'.join(map(str, tensorrt))} has no DLA of {generation.name}")
    by_rule: dict[tuple[str, str], Breach] = {}
    for layer in _layers(path, input_shapes, batch):
        for rule, detail in broken(layer, generation, tensorrt, precision):
            by_rule.setdefault((layer.name, rule), Breach(layer.name, layer.op, rule, detail))
    return tuple(by_rule.values())


def legal_runs(layers: Iterable[str], breached: Iterable[Breach]) -> tuple[LegalRun, ...]:
    """The runs of layers without a breach, longest first; `layers` are all names in order (those of
    a `Chain`).

    A run lies between two cuts of the chain, so it can be a stage of its own.
    """
    illegal = {b.layer for b in breached}
    groups = (list(g) for legal, g in groupby(layers, lambda name: name not in illegal) if legal)
    runs = (LegalRun(g[0], g[-1], len(g)) for g in groups)
    return tuple(sorted(runs, key=lambda run: -run.count))


def summary(breached: Iterable[Breach], shown: int = 3) -> tuple[Row, ...]:
    """Rows of the table op | count | rule | layers, most layers first; at most `shown` layers are
    named in a row.
    """
    layers: dict[tuple[str, str], list[str]] = {}
    for breach in breached:
        layers.setdefault((breach.op, breach.rule), []).append(breach.layer)
    rows = []
    for (op, rule), names in layers.items():
        listed = ", ".join(names[:shown])
        if len(names) > shown:
            listed += f" and {len(names) - shown} more"
        rows.append(Row(op, len(names), rule, listed))
    return tuple(sorted(rows, key=lambda row: -row.count))


def _layers(
    path: Path, input_shapes: Mapping[str, tuple[int, ...]], batch: int | None
) -> Iterator[CheckedLayer]:
    """The layers of `read_chain` with their nodes and neighbors."""
    import onnx

    chain = read_chain(path, input_shapes, batch)
    interface, model = read_fixed(path, input_shapes, batch)
    nodes = {first_output(n): n for n in model.graph.node}
    constants: dict[str, Any] = {t.name: t for t in model.graph.initializer}
    for name, node in nodes.items():
        if node.op_type == "Constant":
            constants[name] = onnx.helper.get_attribute_value(node.attribute[0])
    makers: dict[str, str] = {}
    for link in chain.layers:
        makers |= dict.fromkeys(link.makes, _operator(nodes[link.name]))
    readers: dict[str, list[str]] = {t: [""] for t in chain.outputs}
    for link in chain.layers:
        for tensor in link.reads:
            readers.setdefault(tensor, []).append(makers[link.name])
    flowing = frozenset({*chain.inputs, *makers})
    for link in chain.layers:
        node = nodes[link.name]
        after: list[str] = []
        for tensor in link.makes:
            after += readers.get(tensor, ())
        yield CheckedLayer(
            name=link.name,
            op=makers[link.name],
            inputs=tuple(node.input),
            outputs=link.makes,
            attributes={a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
            opset=interface.opset,
            flowing=flowing,
            tensors=chain.tensors,
            constants=constants,
            before=tuple(makers[t] for t in link.reads if t in makers),
            after=tuple(after),
        )


def _operator(node: Any) -> str:
    """Operators from outside of the standard keep their domain, so that none passes for a standard
    one.
    """
    return str(node.op_type) if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
