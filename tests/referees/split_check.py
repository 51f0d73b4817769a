"""Do the stages of a network compute what the whole computes? ONNX Runtime answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flowc.networks.onnx.interface import read_network
from flowc.networks.onnx.split import Stage
from flowc.profiling.there.kernels import random_value
from flowc.runtime.session import opened


def check_split(
    path: Path,
    stages: Sequence[Stage],
    seed: int,
    fixed: Mapping[str, tuple[int, ...]] = {},
    batch: int | None = 1,
) -> float:
    """Run the whole and its stages on random inputs: how far an output is off, relative to its
    largest value.

    Infinite where shapes or kinds of numbers differ. `fixed` and `batch` are those of `split`.
    Integers of more than one byte are 0 or 1: they may be indices.
    """

    whole = _session(str(path))
    rng = np.random.default_rng(seed)
    values = {
        b.name: random_value(rng, b.dtype, b.shape) for b in read_network(path, fixed, batch).inputs
    }
    names = [o.name for o in whole.get_outputs()]
    wanted = dict(zip(names, whole.run(names, values), strict=True))
    for stage in stages:
        outputs = [o.name for o in stage.outputs]
        found = _session(stage.model).run(
            outputs, {i.tensor.name: values[i.tensor.name] for i in stage.inputs}
        )
        values.update(zip(outputs, found, strict=True))
    return max(_difference(w, values[n]) for n, w in wanted.items())


def _session(model: str | bytes) -> Any:
    import onnxruntime as ort

    def options() -> ort.SessionOptions:
        made = ort.SessionOptions()
        made.intra_op_num_threads = made.inter_op_num_threads = 1
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
        made.log_severity_level = 3
        return made

    return opened(model, options)


def _difference(wanted: Any, found: Any) -> float:
    import numpy as np

    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return float("inf")
    if np.array_equal(wanted, found, equal_nan=wanted.dtype.kind in "fc"):
        return 0.0
    a, b = wanted.astype(np.complex128), found.astype(np.complex128)
    unequal = (a != b) & ~(np.isnan(a) & np.isnan(b))
    scale = np.abs(a[np.isfinite(a)]).max(initial=0)
    difference = np.abs(a - b)[unequal].max()
    return float(difference / scale) if scale and np.isfinite(difference) else float("inf")
