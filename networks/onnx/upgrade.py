"""A model in a later operator set, by onnx's version converter, if it computes the same. Runs in a
process of its own.

In: a folder with `request.json`, an `UpgradeRequest`. Out: `model.onnx` beside it, empty if the
model cannot be converted, or both do not compute the same: the old one in onnx's reference where
ONNX Runtime does not have its operators. The converter is C++ and trusts models.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...model.files import read_bytes, scratch
from ...model.json_reader import parse, read
from .fold import SECONDS, limit
from .interface import LARGEST

#: How much results may differ: relatively, which the order of a sum decides, and absolutely.
RTOL, ATOL = 1e-3, 1e-5
_CHILD = "from flowc.networks.onnx.upgrade import main; main()"


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """A model, the shapes of its inputs, and the operator set that it shall have."""

    path: str
    shapes: dict[str, tuple[int, ...]]
    opset: int


def is_old(path: Path, opset: int, later: int, refused: Collection[str]) -> bool:
    """Does a model have operators that are others in a later operator set, or that engines refuse
    in an earlier one?"""
    import onnx
    from onnx import defs

    for node in onnx.load(path, load_external_data=False).graph.node:
        if node.domain not in ("", "ai.onnx") or not defs.has(node.op_type, opset, ""):
            continue
        before = defs.get_schema(node.op_type, opset, "")
        if node.op_type in refused or not defs.has(node.op_type, later, ""):
            return True
        if defs.get_schema(node.op_type, later, "").since_version != before.since_version:
            return True
    return False


def upgraded(path: Path, shapes: Mapping[str, tuple[int, ...]], opset: int) -> bytes | None:
    """The model in that operator set; nothing if it cannot be converted, or computes something
    else; None if that took too long, or the converter ended its process."""
    request = UpgradeRequest(str(path.resolve()), dict(shapes), opset)
    with scratch() as folder:
        (folder / "request.json").write_text(json.dumps(asdict(request)))
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-P", "-c", _CHILD, str(folder)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=2 * SECONDS,
                check=False,
            )
        try:
            return read_bytes(folder / "model.onnx", LARGEST)
        except OSError:
            return None


def main() -> None:
    """Carry out the request in a folder, the first argument of the process."""
    import onnx
    import onnx.version_converter

    limit()
    place = Path(sys.argv[1])
    request = read(UpgradeRequest, parse((place / "request.json").read_bytes()))
    content = b""
    try:
        model = onnx.load(request.path)
        made = onnx.version_converter.convert_version(model, request.opset)
        if _agree(model, made, request.shapes):
            content = made.SerializeToString(deterministic=True)
    except MemoryError:
        return
    except Exception:
        content = b""
    (place / "model.new").write_bytes(content)
    (place / "model.new").rename(place / "model.onnx")


def _agree(model: Any, made: Any, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Do both compute the same from random inputs?"""
    import numpy as np
    from onnx import helper

    weights = {t.name for t in model.graph.initializer}
    borders = [v for v in model.graph.input if v.name not in weights]
    random = np.random.default_rng(0)
    feeds = {}
    for value in borders:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = random.normal(0, 2, shapes[value.name]).astype(dtype)
    results = zip(_old(model).run(None, feeds), _session(made).run(None, feeds), strict=True)
    return all(np.allclose(a, b, RTOL, ATOL, equal_nan=True) for a, b in results)


def _old(model: Any) -> Any:
    """What runs a model in any operator set."""
    from onnx.reference import ReferenceEvaluator

    try:
        return _session(model)
    except Exception:  # ONNX Runtime raises types of its own
        return ReferenceEvaluator(model)


def _session(model: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
