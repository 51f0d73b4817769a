"""The layers of a network with what the rules of accelerators ask of their surroundings.

In: a model file. Out: `CheckedLayer`s in the order of the file. The rules are those of each kind of
accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..onnx.cuts import read_chain
from ..onnx.interface import Border, read_fixed
from ..onnx.nodes import first_output
from .breaches import Breach

CONSTANT = "weights constant"

#: A rule, and what a layer has instead.
Broken = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CheckedLayer:
    """A node and what the rules ask of its surroundings.

    `flowing` are the tensors that depend on an input of the network, `constants` initializers and
    values of Constant nodes; `before` and `after` are operators of its neighbors, "" where it makes
    an output of the network.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    flowing: frozenset[str]
    tensors: Mapping[str, Border]
    constants: Mapping[str, Any]
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def data(self) -> tuple[int, ...]:
        """Dimensions of the first input that is no constant."""
        return self.tensors[next(t for t in self.inputs if t in self.flowing)].shape

    @property
    def result(self) -> tuple[int, ...]:
        """Dimensions of the first output."""
        return self.tensors[self.name].shape

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Dimensions of any tensor, if they are known."""
        border = self.tensors.get(tensor)
        return border.shape if border is not None and border.fixed else None

    def text(self, name: str, default: str) -> str:
        """An attribute of type string."""
        value = self.attributes.get(name)
        return value.decode(errors="replace") if isinstance(value, bytes) else default

    def spatial(self, name: str, default: int) -> list[int]:
        """An attribute with a number for height and one for width."""
        return [int(v) for v in self.attributes.get(name) or [default, default]]

    def variable(self, first: int) -> Broken:
        """A breach for each input from number `first` on that depends on an input of the
        network."""
        for tensor in self.inputs[first:]:
            if tensor in self.flowing:
                yield CONSTANT, f"`{tensor}` is computed"

    def numbers(self, index: int, attribute: str) -> list[float] | None:
        """A constant input, or the attribute that had its place in older operator sets; None when
        it is not known."""
        import onnx

        value = None
        if attribute in self.attributes:
            value = self.attributes[attribute]
        elif index < len(self.inputs):
            value = self.constants.get(self.inputs[index])
        if isinstance(value, onnx.TensorProto):
            if value.data_location == onnx.TensorProto.EXTERNAL:
                return None
            value = onnx.numpy_helper.to_array(value).ravel().tolist()
        return [value] if isinstance(value, int | float) else value

    def shapeless(self) -> str | None:
        """The first tensor of the data whose shape is not fixed."""
        for tensor in (*self.inputs, *self.outputs):
            if tensor in self.flowing and self.shape(tensor) is None:
                return tensor
        return None


def checked_layers(
    path: Path, input_shapes: Mapping[str, tuple[int, ...]], batch: int | None
) -> Iterator[CheckedLayer]:
    """The layers of `read_chain` with their nodes and neighbors.

    `input_shapes` and `batch` fix dynamic dimensions as in `read_network`. Raises NetworkError as
    `read_chain`.
    """
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


def breaches_of(
    layers: Iterable[CheckedLayer], broken: Callable[[CheckedLayer], Broken]
) -> tuple[Breach, ...]:
    """The rules that layers break, in their order: one entry per layer and rule."""
    by_rule: dict[tuple[str, str], Breach] = {}
    for layer in layers:
        for rule, detail in broken(layer):
            by_rule.setdefault((layer.name, rule), Breach(layer.name, layer.op, rule, detail))
    return tuple(by_rule.values())


def _operator(node: Any) -> str:
    """Operators from outside of the standard keep their domain, so that none passes for a standard
    one.
    """
    return str(node.op_type) if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
