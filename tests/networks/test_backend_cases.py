"""Some of onnx's backend tests, as `benchmarks/networks.py` tries all of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parents[2]
#: Files in onnx's wheel, and how they are taken.
IN_WHEEL = {
    "test_Conv2d_groups": "as it is",
    "test_Softmax": "as it is",
    "test_operator_symbolic_override": "as it is",
    "test_expand_shape_model1": "as it is",
    "test_shrink": "as it is",
    "test_sign_model": "as it is",
    "test_single_relu_model": "as it is",
    "test_sequence_model1": "with a text",
    "test_sequence_model8": "refused",
    "test_gradient_of_add": "ONNX Runtime refuses",
}


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("network_cases", ROOT / "benchmarks/networks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_files_of_onnx_give_what_onnx_expects(networks: Any, tmp_path: Path) -> None:
    outcomes = {}
    for case in networks.in_wheel(tmp_path, set(IN_WHEEL)):
        outcomes[case.name] = networks.outcome_of(case, tmp_path)
    assert {name: o.how for name, o in outcomes.items()} == IN_WHEEL
    for name, outcome in outcomes.items():
        if IN_WHEEL[name] in ("as it is", "with a text"):
            assert outcome.like_onnxruntime == "equal", name
            assert outcome.like_expected in ("equal", "close"), name


def test_a_case_that_differs_is_seen(networks: Any, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [2]) for t in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = tmp_path / "neg.onnx"
    opsets = [helper.make_opsetid("", 17)]
    model.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    x = np.array([1, 2], np.float32)
    right = networks.Case("a room", "neg", model, {"x": x}, {"y": -x})
    wrong = networks.Case("a room", "neg", model, {"x": x}, {"y": x + 1})
    found = [networks.outcome_of(case, tmp_path) for case in (right, wrong)]
    assert [o.like_expected for o in found] == ["equal", ""], "ONNX Runtime differs as well"
    table = networks.summary(found)
    assert "| a room | 2 | 2 | 0 | 0 | 0 | 0 | 2 of 2 | 2 | 1 of 1 |" in table
