"""Which layers of an ONNX network cannot run on a DLA through TensorRT, and why.

In: a model file, a generation of the DLA, a version of TensorRT, a precision. Out: `Breach`es. The
limits and their sources are in `limits.py`. What to do about a breach is left to others, and so is
what only the target can tell: its compiler may still refuse a layer (for the size of its
convolution buffer, for neighbors), so an engine is built without fallback to the GPU to be certain.

Each layer is judged as it stands. What TensorRT folds while it builds (shapes, constants) is no
layer; an operator that can be rebuilt from others is illegal until it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ..accelerators.breaches import Breach
from ..accelerators.layers import breaches_of, checked_layers
from .checks import broken
from .limits import PRECISIONS, Generation, Version


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
    judge = partial(broken, generation=generation, tensorrt=tensorrt, precision=precision)
    return breaches_of(checked_layers(path, input_shapes, batch), judge)
