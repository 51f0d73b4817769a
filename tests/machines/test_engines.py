"""Contestants that run engines of TensorRT: these are built on the board first, each once. A
stand-in is its TensorRT."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.driver.measure.measure import run_elsewhere
from flowc.driver.plan.program import place, plan
from flowc.driver.text.check import Valid, prepare
from flowc.machines.board import Board
from flowc.model.diagnostic import Errors
from flowc.model.times import times_of
from onnx import TensorProto, helper

from builds import ROOT, Write

SHELL = "sh -c 'for last; do :; done; exec sh -c \"$last\"' ssh"
STAND_IN = ROOT / "tests" / "support" / "standins" / "python.py"
TEXT = """
task In { out x: float32[1, 3, 8, 8]  python "t.py:make" }
network Net from "n.onnx" { in x: float32[1, 3, 8, 8] from "x"  out y: float32[1, 3, 8, 8] from "y"  precision PRECISION }
task Out { in y: float32[1, 3, 8, 8]  python "t.py:take" }
app A { a: In  n: Net  b: Out  a -> n -> b }
platform board { tensorrt "10.3"  cpu core  gpu ampere compute 8.7 }
mapping on board { A.n -> ampere }
"""
TASKS = """
import numpy as np
def make(): return np.ones((1, 3, 8, 8), np.float32)
def take(y): assert y.any()
"""


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the board."""
    monkeypatch.setenv("FLOWC_SSH", SHELL)
    return tmp_path / "far"


@pytest.fixture
def board(far: Path, tmp_path: Path) -> Iterator[Board]:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    python.chmod(0o755)
    with Board(f"board{far}", python=str(python)) as reached:
        yield reached


def network(file: Path) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 3, 8, 8)) for n in "xy"]
    weight = onnx.numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "net", values[:1], values[1:], [weight])
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), file
    )


def ready(write: Write, board: Board, precision: str) -> Valid:
    flow = write(TEXT.replace("PRECISION", precision), t_py=TASKS)
    network(flow.parent / "n.onnx")
    return prepare(flow, platform="board", host=board).require()


def runs(valid: Valid, said: list[str]) -> None:
    """A run as of a contestant."""
    times = times_of(valid.system, valid.platform)
    deployed = plan(valid, times, place(valid, times))
    seen = run_elsewhere(valid, deployed, 0.1, strict=False, paced=False, report=said.append)
    assert seen.frames["A"] > 0


def plans(far: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in (far / "engines").glob("*.plan")}


def test_engines_of_contestants_are_built_once(board: Board, far: Path, write: Write) -> None:
    said: list[str] = []
    runs(ready(write, board, "fp16"), said)
    (first,) = plans(far).items()
    runs(ready(write, board, "fp32"), said)
    both = plans(far)
    assert len(both) == 2 and both[first[0]] == first[1]
    runs(ready(write, board, "fp16"), said)  # in turns
    assert plans(far) == both and len(said) == 2
    board.made.clear()  # as another flowc finds it
    runs(ready(write, board, "fp16"), said)
    assert plans(far) == both and len(said) == 3


def test_engines_that_cannot_be_built(far: Path, write: Write) -> None:
    with Board(f"board{far}", python=sys.executable) as plain, pytest.raises(Errors) as caught:
        runs(ready(write, plain, "fp16"), [])
    (fault,) = caught.value.diagnostics
    assert (
        fault.code == "F606"
        and "engines cannot be built" in fault.message
        and "tensorrt" in fault.message
    )
