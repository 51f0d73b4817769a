"""Which layers of an ONNX network TensorRT's parser refuses for a GPU, and why.

In: a model file, a version of TensorRT. Out: `Breach`es. `checks.py` has the rules. What only the
builder can tell is left to it: `referee.py` asks a real one, where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from ..accelerators.breaches import Breach
from ..accelerators.layers import CheckedLayer, breaches_of, checked_layers
from .checks import broken
from .operators import Version

#: Operators that read the sizes of their input alone.
SIZES = ("Shape", "Size")


def breaches(
    path: Path,
    input_shapes: Mapping[str, tuple[int, ...]] = {},
    *,
    tensorrt: Version,
    batch: int | None = 1,
) -> tuple[Breach, ...]:
    """What keeps layers off the GPU: one entry per layer and broken rule, in the order of the file.

    `input_shapes` and `batch` fix dynamic dimensions as in `read_network`. Raises NetworkError as
    `read_chain`.
    """
    layers = tuple(checked_layers(path, input_shapes, batch))
    made = {tensor for layer in layers for tensor in layer.outputs}
    read = {tensor for layer in layers for tensor in layer.inputs}
    borders = {t for layer in layers for t in layer.flowing if t not in made or t not in read}
    borders |= {tensor for layer in layers if "" in layer.after for tensor in layer.outputs}
    judge = partial(broken, version=tensorrt, computed=_computed(layers), borders=borders)
    return breaches_of(layers, judge)


def _computed(layers: Iterable[CheckedLayer]) -> set[str]:
    """The tensors whose values depend on data, and not on sizes alone."""
    made: set[str] = set()
    computed: set[str] = set()
    for layer in layers:
        flowing = [t for t in layer.inputs if t in layer.flowing]
        computed |= {t for t in flowing if t not in made}  # inputs of the network
        made |= set(layer.outputs)
        if layer.op not in SIZES and any(t in computed for t in flowing):
            computed |= set(layer.outputs)
    return computed
