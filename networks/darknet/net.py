"""A Darknet network without its weights, and a layer of it in the making.

In: what the rules in `layers` say of a layer. Out: a `DarknetNet` with one more layer: nodes, and
the parts of the weights that they need in the order of the file. Calling the rules is left to
`convert`, reading the parts to `weights`.

Data has the shape (channels, height, width) of one image. Layers count from 0 behind [net], and a
layer's last tensor is called after its kind and number: `conv_12`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NoReturn, TypeVar

from .cfg import Section

INPUT = "image"
Shape = tuple[int, int, int]
Values = tuple[int, ...] | tuple[float, ...] | float
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DarknetNode:
    """An operator of ONNX (set 13) with one output."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WeightsPart:
    """Weights of a layer that follow each other in the file, named `LAYER_WHAT` as a tensor."""

    layer: str
    what: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """The tensor."""
        return f"{self.layer}_{self.what}"

    @property
    def count(self) -> int:
        """Numbers in the file."""
        return prod(self.shape)


@dataclass(slots=True)
class DarknetNet:
    """A network without its weights.

    `constants` are other inputs of nodes. `heads` are the detection layers with what their section
    says. `steps` are the tensors after each layer as tkDNN counts them, where an activation is a
    layer of its own: JEDI's cut points are indices into them.
    """

    input: Shape
    nodes: list[DarknetNode] = field(default_factory=list)
    parts: list[WeightsPart] = field(default_factory=list)
    constants: dict[str, Values] = field(default_factory=dict)
    outputs: dict[str, Shape] = field(default_factory=dict)
    heads: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)


class Unknown(Exception):
    """The shape of a layer does not follow, since it or one before it is faulty."""


@dataclass(slots=True)
class DarknetLayer:
    """A layer in the making.

    `done` are the tensors in front of it with their shapes, as far as these are known: the image,
    and the last one of each layer. `tensor` is the one that was made so far; the last one gets the
    layer's `name`.
    """

    name: str
    section: Section
    net: DarknetNet
    done: Sequence[tuple[str, Shape | None]]
    tensor: str = ""
    nodes: list[DarknetNode] = field(default_factory=list)
    before_activation: str = ""

    def __post_init__(self) -> None:
        self.tensor = self.done[-1][0]

    @property
    def index(self) -> int:
        """Darknet's number of the layer."""
        return len(self.done) - 1

    @property
    def shape(self) -> Shape:
        """What the layer is given. Options are read before it is asked for: it may not be known."""
        return self.known(self.done[-1][1])

    @staticmethod
    def known(found: Found | None) -> Found:
        """What was read or found out; without it nothing more can be said of the layer."""
        if found is None:
            raise Unknown
        return found

    def others(self, listed: Sequence[int], option: str) -> list[tuple[str, Shape]]:
        """The tensors of layers before this one, by their numbers or, below 0, counted backwards
        from this one."""
        numbers = [self.index + i if i < 0 else i for i in listed]
        for number in numbers:
            if not 0 <= number < self.index:
                message = f"layer {self.index} reads layer {number}, which is not before it"
                self.unfit(
                    message,
                    option,
                    "layers count from 0 behind [net]; below 0 they count backwards",
                )
        return [
            (tensor, self.known(shape)) for tensor, shape in (self.done[n + 1] for n in numbers)
        ]

    def unfit(self, message: str, option: str = "", help: str = "") -> NoReturn:
        """Note a fault that leaves the layer without a shape."""
        self.section.refuse(message, option, help)
        raise Unknown

    def slid(self, length: int, size: int, stride: int, padding: int) -> int:
        """How many windows fit."""
        if length + padding < size:
            self.unfit(
                f"a window of {size} does not fit into {length} with {padding} of padding", "size"
            )
        return (length + padding - size) // stride + 1

    def weights(self, what: str, *shape: int) -> str:
        """The tensor of weights that come next in the file."""
        self.net.parts.append(WeightsPart(self.name, what, shape))
        return self.net.parts[-1].name

    def constant(self, what: str, values: Values) -> str:
        """The tensor of an input that does not depend on the weights."""
        name = f"{self.name}_{what}"
        self.net.constants[name] = values
        return name

    def add(self, op: str, what: str, *inputs: str, **attributes: Any) -> str:
        """A node whose output is called `LAYER_WHAT`, unless it remains the last one of the
        layer."""
        self.tensor = f"{self.name}_{what}"
        self.nodes.append(DarknetNode(op, inputs, self.tensor, attributes))
        return self.tensor

    def channels(self, what: str, tensor: str, first: int, end: int) -> str:
        """Some channels of a tensor."""
        bounds = (
            self.constant(f"{what}_from", (first,)),
            self.constant(f"{what}_to", (end,)),
            self.constant(f"{what}_axis", (1,)),
        )
        return self.add("Slice", what, tensor, *bounds)

    def activate(self, activation: str) -> None:
        """Put the activation, one of `ACTIVATIONS`, behind what the layer computed."""
        if activation != "linear":
            self.before_activation = self.tensor
            ACTIVATIONS[activation](self)

    def finish(self) -> None:
        """Give the last tensor the layer's name: a layer that computes nothing has one too."""
        if not self.nodes:
            self.add("Identity", "out", self.tensor)
        self.nodes[-1] = replace(self.nodes[-1], output=self.name)
        self.net.nodes += self.nodes
        if self.before_activation:
            self.net.steps.append(self.before_activation)
        self.net.steps.append(self.name)


# -- activations -----------------------------------------------------------------------------------
def _elementwise(op: str, **attributes: Any) -> Callable[[DarknetLayer], Any]:
    return lambda x: x.add(op, "act", x.tensor, **attributes)


def _relu6(x: DarknetLayer) -> None:
    x.add("Clip", "act", x.tensor, x.constant("least", 0.0), x.constant("most", 6.0))


def _swish(x: DarknetLayer) -> None:
    before = x.tensor
    x.add("Mul", "act", before, x.add("Sigmoid", "sigmoid", before))


def _mish(x: DarknetLayer) -> None:
    before = x.tensor
    x.add("Mul", "act", before, x.add("Tanh", "tanh", x.add("Softplus", "softplus", before)))


ACTIVATIONS: dict[str, Callable[[DarknetLayer], Any]] = {
    "linear": lambda x: None,
    "leaky": _elementwise("LeakyRelu", alpha=0.1),
    "relu": _elementwise("Relu"),
    "relu6": _relu6,
    "logistic": _elementwise("Sigmoid"),
    "tanh": _elementwise("Tanh"),
    "swish": _swish,
    "mish": _mish,
}
