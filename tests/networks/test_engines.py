"""Which networks an engine does not take, judged by their files."""

from __future__ import annotations

from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.networks.engines import ENGINES, engine_of
from flowc.networks.engines.openvino import changed_silently
from onnx import TensorProto

from builds import Write
from models import N, model

INT = TensorProto.INT64


def whole(nodes: list[onnx.NodeProto], outs: str, **constants: np.ndarray) -> onnx.ModelProto:
    """A model over whole numbers of 64 bits."""
    kinds = dict.fromkeys(("i", *outs.split()), INT)
    return model(nodes, {"i": [4], "y": [4]}, constants, outs, kinds)


ONE = np.array([1], np.int64)
CHANGED = {
    "`Add` of int64": whole([N("Add", ["i", "one"], ["y"])], "y", one=ONE),
    "`Mul` of int64": whole(
        [N("Abs", ["one"], ["n"]), N("Identity", ["i"], ["j"]), N("Mul", ["j", "n"], ["y"])],
        "y", one=ONE,
    ),
    "`Cast` makes float64": model([N("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)], {"x": [4]}, {}, "y", {"y": TensorProto.DOUBLE}),
    "`RandomNormalLike` draws": model([N("RandomNormalLike", ["x"], ["y"])], {"x": [4], "y": [4]}, {}, "y"),
    "`Identity` works on strings": model(
        [N("Identity", ["s"], ["t"]), N("Abs", ["x"], ["y"])], {"x": [4], "s": [1], "y": [4]}, {}, "y", {"s": TensorProto.STRING}
    ),
}  # fmt: skip
KEPT = {
    # what is computed of shapes stays small
    "shape": model(
        [N("Shape", ["x"], ["s"]), N("Add", ["s", "zero"], ["t"]), N("Reshape", ["x", "t"], ["y"])],
        {"x": [1, 4], "y": [1, 4]}, {"zero": np.array([0], np.int64)}, "y",
    ),
    # indices are read, not computed with
    "indices": model(
        [N("Gather", ["w", "i"], ["y"])], {"i": [4], "y": [4, 2]}, {"w": np.ones((9, 2), np.float32)}, "y", {"i": INT}
    ),
    "float": model([N("Add", ["x", "w"], ["y"])], {"x": [4], "y": [4]}, {"w": np.ones(4, np.float32)}, "y"),
}  # fmt: skip


@pytest.mark.parametrize("reason", CHANGED)
def test_networks_that_openvino_would_change_are_refused(reason: str) -> None:
    said = changed_silently(CHANGED[reason])
    assert said is not None
    assert said.startswith(reason)


@pytest.mark.parametrize("name", KEPT)
def test_networks_that_it_does_not_change_are_taken(name: str) -> None:
    assert changed_silently(KEPT[name]) is None


def test_the_first_engine_is_that_of_a_pin_without_a_name() -> None:
    assert engine_of("") is ENGINES[0] is engine_of("onnxruntime")
    with pytest.raises(LookupError):
        engine_of("other")


PINS = {
    'A.n -> core[0] engine openvino until "h" | core[1] adapt': "moves",
    "A.n -> core[0] bands 2 engine openvino": "no bands of rows",
    "A.n -> core[0] memory 8 MB engine openvino": "is not known",
    "A.m -> core[0] engine openvino": "is no network",
    "A.n -> core[0] engine opensesame": "there is no engine `opensesame`",
    "A.n -> gpu engine openvino": "does not run on a CPU",
}


@pytest.mark.parametrize("pin", PINS)
def test_pins_that_an_engine_cannot_carry_out_are_refused(write: Write, pin: str) -> None:
    text = f"""
task Make {{ out x: float32[1, 1, 8, 4]  python "t.py:make" }}
task Take {{ in y: float32[1, 1, 8, 4]  python "t.py:take" }}
network Net from "net.onnx"
app A {{ m: Make  n: Net  t: Take  m -> n -> t }}
platform two {{ cpu core[2]  gpu gpu }}
mapping on two {{ {pin} }}
"""
    flow: Path = write(text, t_py="def make(): pass\ndef take(y): pass\n")
    rows = [N("Conv", [a, "w"], [b], pads=[1, 0, 1, 0]) for a, b in ("xh", "hy")]
    kernel = np.ones((1, 1, 3, 1), np.float32)
    onnx.save(model(rows, {"x": [1, 1, 8, 4]}, {"w": kernel}, "y"), flow.parent / "net.onnx")
    faults = [d for d in flowc.check(flow, platform="two").diagnostics if d.code == "F540"]
    assert faults
    assert PINS[pin] in faults[0].message
    assert all(f.help for f in faults)
