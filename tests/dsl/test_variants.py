"""Networks with variants: which one counts, what its tasks are called, and that all of them are
measured."""

from __future__ import annotations

from pathlib import Path

import flowc
import pytest
from flowc.driver.measure.measure import measure
from flowc.dsl.format import format_text
from flowc.model.application import Application

from builds import Write, build, pretend_runs, run
from models import N, save, weights

TEXT = """
type X = float32[1, 8]
task Camera { out x: X   python "code.py:camera" }
task Show { in y: float32[1, 4]   python "code.py:show" }
network See {
    in x: X   out y
    variant careful from "large.onnx" { in x: X from "x" pre "code.py:halve" } accuracy 0.76
    variant quick from "small.onnx" accuracy 0.7
}
app A { camera: Camera   see: See   show: Show   camera -> see -> show }
"""
CODE = """
import numpy as np
def camera(): return np.ones((1, 8), np.float32)
def halve(x): return x / 2
def show(y): print(y.shape)
"""


@pytest.fixture
def text(write: Write, tmp_path: Path) -> Path:
    save(
        tmp_path / "small.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, 8]},
        {"w": weights(8, 4)},
        "y",
    )
    two = [N("Gemm", ["x", "w"], ["h"]), N("Gemm", ["h", "v"], ["y"])]
    save(tmp_path / "large.onnx", two, {"x": [1, 8]}, {"w": weights(8, 6), "v": weights(6, 4)}, "y")
    return write(TEXT, code_py=CODE)


def channels(app: Application) -> list[str]:
    return [c.name for c in app.channels]


def test_the_first_one_counts_and_the_others_are_there_as_well(text: Path) -> None:
    system = flowc.check(text).system
    assert system.apps[0].variants == (("A.see", "careful"),)
    assert channels(system.apps[0]) == [
        "A.camera.x->A.see.careful.pre.x", "A.see.careful.pre.x->A.see.careful.x", "A.see.careful.y->A.show.y",
    ]  # fmt: skip
    ((other,),) = system.others
    assert other.variants == (("A.see", "quick"),)
    assert channels(other) == ["A.camera.x->A.see.quick.x", "A.see.quick.y->A.show.y"]


def test_pins_speak_of_any_of_them(text: Path) -> None:
    text.write_text(TEXT + "mapping on host { A.see.quick -> cpu[0]   A.see.careful -> cpu[0] }")
    checked = flowc.check(text)
    assert checked.ok and [p.task for p in checked.system.pins] == ["A.see.careful"]
    assert [p.task for p in checked.others[0].system.pins] == ["A.see.quick"]
    text.write_text(TEXT + "mapping on host { A.see -> cpu[0] }")
    (fault,) = flowc.check(text).diagnostics
    assert fault.code == "F502"


def test_all_of_them_are_measured(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_runs(monkeypatch)
    measured, _ = measure(flowc.check(text).require())
    subjects = {e.subject for e in measured.entries}
    assert subjects == {"A.camera", "A.see.careful.pre", "A.see.careful", "A.see.quick", "A.show"}


def test_a_program_has_the_first_one(text: Path, tmp_path: Path) -> None:
    done = run(build(text, tmp_path / "b"), "--frames", "2", "--quiet")
    assert (done.returncode, done.stdout) == (0, "(1, 4)\n(1, 4)\n"), done.stderr
    assert "quick" not in (tmp_path / "b/main.py").read_text()


def test_formatting_keeps_the_ports_of_a_variant_apart(text: Path) -> None:
    crowded = TEXT.replace("{ in x: X from", "{in  x:X from").replace(
        '"code.py:halve" }', '"code.py:halve"}'
    )
    assert format_text("t.flow", crowded) == format_text("t.flow", TEXT) == TEXT.lstrip("\n")
