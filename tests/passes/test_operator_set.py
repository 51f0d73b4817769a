"""Networks of old operator sets: converted where that changes nothing that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import pytest
from flowc.passes import operator_set
from onnx import TensorProto, helper, numpy_helper

from builds import Write, build, run

TEXT = """
network N from "n.onnx" {{ in x: float32[2, 3, 4]   out y: float32[2, 3, 4] }}
task Source {{ out x: float32[2, 3, 4]   python "t.py:source" }}
task Sink {{ in y: float32[2, 3, 4]   python "t.py:sink" }}
app A {{ source: Source   n: N   sink: Sink   source -> n -> sink }}
platform board {{ tensorrt "11.4.1"   cpu core[2]   gpu ampere compute 8.7 }}
{pin}
"""
CODE = """
import numpy as np

def source():
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4)

def sink(y):
    print(float(y.sum()))
"""


def save(path: Path, nodes: Sequence[onnx.NodeProto], **weights: np.ndarray) -> None:
    """An old network from x to y."""
    borders = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3, 4]) for n in "xy"]
    known = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    inputs = [borders[0], *(helper.make_tensor_value_info(t.name, 1, t.dims) for t in known)]
    graph = helper.make_graph(list(nodes), "old", inputs, borders[1:], known)
    opsets = [helper.make_opsetid("", 6)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=3), path)


def network_of(checked: Any) -> Any:
    return checked.system.apps[0].task("A.n").network


def test_an_old_sum_computes_what_it_did(write: Write, tmp_path: Path) -> None:
    """ONNX Runtime lacks the old sum: no program could run it."""
    text = write(TEXT.format(pin=""), t_py=CODE)
    add = helper.make_node("Add", ["x", "b"], ["y"], "add", broadcast=1)
    save(text.parent / "n.onnx", [add], b=np.array([100, 200, 300, 400]))
    made = network_of(flowc.check(text).require())
    assert made.opset == 7 and ".flowc" in made.path
    directory = build(text, tmp_path / "out", platform="host")
    done = run(directory, "--frames", "1", "--quiet")
    assert done.stdout.splitlines()[0] == str(float(np.arange(24).sum() + 6 * 1000))


def test_tensorrt_gets_the_converted_file(write: Write, tmp_path: Path) -> None:
    text = write(TEXT.format(pin="mapping on board { A.n -> ampere }"), t_py=CODE)
    add = helper.make_node("Add", ["x", "b"], ["y"], "add", broadcast=1)
    save(text.parent / "n.onnx", [add], b=np.array([1, 2, 3, 4]))
    assert flowc.check(text, platform="board").ok
    directory = build(text, tmp_path / "out", platform="board")
    (file,) = (directory / "networks").glob("*.onnx")
    assert onnx.load(file).opset_import[0].version == 7


def test_a_largest_value_is_converted_for_tensorrt(write: Write) -> None:
    """It is the same in operator set 7; TensorRT refuses it in earlier ones."""
    text = write(TEXT.format(pin="mapping on board { A.n -> ampere }"), t_py=CODE)
    largest = helper.make_node("Max", ["x", "b"], ["y"], "largest")
    save(text.parent / "n.onnx", [largest], b=np.ones((2, 3, 4)))
    checked = flowc.check(text, platform="board")
    assert checked.ok and network_of(checked).opset == 7


def test_what_cannot_be_converted_stays(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx's converter leaves the slopes of a PReLU as they are, which then broadcast otherwise."""
    text = write(TEXT.format(pin="mapping on board { A.n -> ampere }"), t_py=CODE)
    prelu = helper.make_node("PRelu", ["x", "b"], ["y"], "prelu")
    save(text.parent / "n.onnx", [prelu], b=np.array([0.1, 0.2, 0.3]))
    checked = flowc.check(text, platform="board")
    assert network_of(checked).opset == 6
    warning, error = checked.diagnostics
    assert error.code == "F510" and "operator set 7 or later" in error.message
    assert warning.message == (
        "`n.onnx` stays in operator set 6: onnx cannot convert it, so that it computes the same"
    )
    # it is remembered
    monkeypatch.setattr(operator_set, "replace_file", None)
    assert not flowc.check(text, platform="board").ok


def test_others_are_left_alone(write: Write) -> None:
    text = write(TEXT.format(pin=""), t_py=CODE)
    save(text.parent / "n.onnx", [helper.make_node("Tanh", ["x"], ["y"])])
    network = network_of(flowc.check(text).require())
    assert network.path == str(text.parent / "n.onnx") and network.opset == 6


def test_a_folder_that_cannot_be_written_is_told(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a warning: the network may do as it is."""
    text = write(TEXT.format(pin=""), t_py=CODE)
    add = helper.make_node("Add", ["x", "b"], ["y"], "add", broadcast=1)
    save(text.parent / "n.onnx", [add], b=np.array([1, 2, 3, 4]))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(operator_set, "replace_file", full)
    checked = flowc.check(text)
    (warning,) = checked.diagnostics
    assert checked.ok and "cannot be written (No space left on device)" in warning.message
