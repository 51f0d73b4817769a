"""A CNN as layers and edges, where each edge tells which rows of its data an output row needs.

In: layers, by hand or read from ONNX (`read_layers.py`). Out: a `Cnn`: shapes, phases and windows
along the height. What becomes of it (dataflow graphs, buffers) is left to `networks.dataflow`.

The model is that of Minakova's thesis, ch. 2.1: data has the shape (batch, height, width,
channels). Phases are those of its Algorithm 3, one per output row, except that a padded window as
high as its data keeps one phase per row: its first rows need less than everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod


@dataclass(frozen=True, slots=True)
class RowWindow:
    """Output row r looks at rows r * stride - top + j * dilation, 0 <= j < kernel; those outside
    the data are padding.

    `top` and `bottom` may be negative: so many rows are cropped. `bottom` as declared; what is
    needed follows without.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    top: int = 0
    bottom: int = 0

    @property
    def span(self) -> int:
        """Rows from the first to the last one looked at, both included."""
        return (self.kernel - 1) * self.dilation + 1

    def needs(self, row: int, height: int) -> range:
        """Rows of the data, from the first needed to the last; empty when the window lies in the
        padding."""
        start = row * self.stride - self.top
        first = max(0, -(start // self.dilation))
        last = min(self.kernel - 1, (height - 1 - start) // self.dilation)
        if first > last:
            return range(0)
        return range(start + first * self.dilation, start + last * self.dilation + 1)


@dataclass(frozen=True, slots=True)
class Transposed:
    """Input row i adds to output rows i * stride - top + j * dilation, 0 <= j < kernel
    (ConvTranspose).

    `slack` widens the needed rows where it is not certain how much padding stands on top.
    """

    kernel: int
    stride: int
    dilation: int
    top: int
    slack: int = 0

    def needs(self, row: int, height: int) -> range:
        """Rows of the data, from the first needed to the last; empty when the output row is made of
        none."""
        last = row + self.top + self.slack
        first = row + self.top - (self.kernel - 1) * self.dilation
        return range(max(0, -(-first // self.stride)), min(height, last // self.stride + 1))


@dataclass(frozen=True, slots=True)
class Scaled:
    """Output row r looks at rows floor(r * step + low) to floor(r * step + high); outside the data,
    at its edge."""

    step: Fraction
    low: Fraction
    high: Fraction

    def needs(self, row: int, height: int) -> range:
        """Rows of the data; never empty."""
        first, last = ((row * self.step + end).__floor__() for end in (self.low, self.high))
        return range(min(max(first, 0), height - 1), min(max(last, 0), height - 1) + 1)


@dataclass(frozen=True, slots=True)
class EveryRow:
    """Every output row looks at all rows."""

    def needs(self, row: int, height: int) -> range:
        """All rows of the data."""
        return range(height)


Rows = RowWindow | Transposed | Scaled | EveryRow

#: Output row r needs row r.
SAME = RowWindow()
WHOLE = EveryRow()


@dataclass(frozen=True, slots=True)
class LayerEdge:
    """Data that a layer takes from layer `source`: `elements` in `height` rows; `rows` tells which
    ones it needs."""

    source: str
    elements: int
    height: int
    rows: Rows

    @property
    def row(self) -> int:
        """Elements of one row, of the whole batch."""
        return self.elements // self.height


@dataclass(frozen=True, slots=True)
class Layer:
    """`shape` is (batch, height, width, channels) of its (first) output, `bytes` the size of one
    element of it.

    The layer makes height / phases rows per phase. A layer that takes one tensor in two ways has
    two edges; one with several outputs gives each edge the elements of the tensor it carries.
    """

    name: str
    operator: str
    shape: tuple[int, int, int, int]
    bytes: int
    phases: int
    inputs: tuple[LayerEdge, ...]


@dataclass(frozen=True, slots=True)
class Cnn:
    """Layers in topological order. Raises ValueError when they are not, or when phases do not
    divide the data."""

    layers: tuple[Layer, ...]
    file: str

    def __post_init__(self) -> None:
        phases: dict[str, int] = {}
        for layer in self.layers:
            if layer.name in phases:
                raise ValueError(f"two layers are called {layer.name!r}")
            if layer.shape[1] % layer.phases:
                raise ValueError(
                    f"{layer.name!r} cannot make {layer.shape[1]} rows in {layer.phases} phases"
                )
            for edge in layer.inputs:
                if edge.source not in phases:
                    raise ValueError(f"{layer.name!r} comes before its source {edge.source!r}")
                if (
                    edge.elements < 1
                    or edge.elements % edge.height
                    or edge.elements % phases[edge.source]
                ):
                    raise ValueError(
                        f"{edge.elements} elements from {edge.source!r} to {layer.name!r} do not"
                        " divide"
                    )
            phases[layer.name] = layer.phases


def layout(dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(batch, height, width, channels) of an ONNX tensor N C H W..., N C L, N C or C."""
    if len(dims) < 3:
        batch, channels = (1, 1, *dims)[-2:]
        return batch, 1, 1, channels
    return dims[0], dims[2], prod(dims[3:]), dims[1]
