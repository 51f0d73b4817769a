"""Networks on CPUs through ncnn: what it takes, programs against the reference, and what is kept."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.runtime import ncnn
from flowc.runtime.code import session
from flowc.runtime.ncnn import Ncnn
from flowc.runtime.tokens import Port, TaskError

from builds import ROOT, Write, build, harness, run
from models import N, save, weights

there = pytest.mark.skipif(
    find_spec("ncnn") is None or find_spec("pnnx") is None, reason="ncnn and pnnx are not there"
)

SHAPE = (1, 4, 8, 8)
PYTHON = """
import numpy as np

def make(firings=[]):
    firings.append(0)
    return np.random.default_rng(len(firings)).random((1, 4, 8, 8), np.float32)

def take(y):
    pass
"""
TEXT = """
task Make {{ out x: float32[1, 4, 8, 8]  python "t.py:make" }}
task Take {{ in y: {out}  python "t.py:take" }}
network Net from "net.onnx" {{ in x: float32[1, 4, 8, 8] from "x"  out y: {out} from "y" {more} }}
app A {{ m: Make  n: Net  t: Take  m -> n -> t }}
platform two {{ cpu core[2] }}
mapping on two {{ A.n -> {pin} }}
"""


@pytest.fixture
def flow(write: Write) -> Any:
    """Texts with a network of a convolution and a maximum."""

    def made(
        pin: str = "core[0] engine ncnn", more: str = "", out: str = "float32[1, 4, 4, 4]"
    ) -> Path:
        text = write(TEXT.format(pin=pin, more=more, out=out), t_py=PYTHON)
        small(text.parent / "net.onnx")
        return text

    return made


def small(path: Path) -> Path:
    """A network of a convolution and a maximum."""
    nodes = [
        N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        N("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0]),
    ]
    return save(path, nodes, {"x": list(SHAPE)}, {"w": weights(4, 4, 3, 3)}, "y")


def opened(folder: Path, threads: int = 1) -> Ncnn:
    """The small network in a folder."""
    code = Ncnn("net.onnx", ["x"], ["y"], threads=threads)
    code.open(str(folder), [Port("x", "float32", SHAPE)], [Port("y", "float32", (1, 4, 4, 4))])
    return code


# -- what it takes -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param("", None, marks=there),
        ("precision fp16", "does not compute in fp16"),
        ("batch 2", "groups 2 firings"),
    ],
)
def test_pins_keep_to_the_engine(flow: Any, more: str, says: str | None) -> None:
    text = flow(more=more)
    nodes = [N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    save(
        text.parent / "net.onnx",
        nodes,
        {"x": ["n", 4, 8, 8]} if "batch" in more else {"x": SHAPE},
        {},
        "y",
    )
    checked = flowc.check(text, platform="two")
    said = [d for d in checked.diagnostics if d.severity == "error"]
    assert [d.code for d in said] == ([] if says is None else ["F540"])
    assert says is None or says in said[0].message


def test_tensors_without_a_batch_are_refused(flow: Any) -> None:
    text = flow(out="float32[4, 64]")
    nodes = [N("Reshape", ["x", "s"], ["y"])]
    shape = np.array([4, 64], np.int64)
    save(text.parent / "net.onnx", nodes, {"x": list(SHAPE)}, {"s": shape}, "y")
    checked = flowc.check(text, platform="two")
    (said,) = [d for d in checked.diagnostics if d.severity == "error"]
    assert said.code == "F540" and "`y` is [4, 64], and ncnn has one sample" in said.message


@there
def test_other_results_are_found_before_a_build(flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fire = Ncnn.fire
    monkeypatch.setattr(Ncnn, "fire", lambda *given: (fire(*given)[0] + 1,))
    text = flow()
    with pytest.raises(flowc.Errors) as raised:
        flowc.build(text, text.parent / "out", platform="two", measure=False)
    (said,) = raised.value.diagnostics
    assert said.code == "F541" and "ncnn 1." in said.message


# -- programs --------------------------------------------------------------------------------------
@there
def test_a_program_gives_the_results_of_the_reference(flow: Any, tmp_path: Path) -> None:
    out = build(flow(pin="core[0], core[1] engine ncnn"), tmp_path / "out", platform="two")
    assert 'Ncnn("networks/net.onnx", ["x"], ["y"])' in (out / "main.py").read_text()
    assert "pnnx" in (out / "requirements.txt").read_text()
    done = harness(out)
    assert done.returncode == 0, done.stderr
    report = tmp_path / "report.json"
    done = run(out, "--frames", "5", "--report", report)
    assert done.returncode == 0, done.stderr
    assert ", f32" in report.read_text()


@there
@pytest.mark.parametrize("name", ["digits/digits", "spotter/spotter", "detector/yolo"])
def test_networks_of_examples_give_what_onnx_runtime_gives(tmp_path: Path, name: str) -> None:
    file = ROOT / "examples" / f"{name}.onnx"
    reference = session(str(file), 1, False)
    inputs = [
        Port(t.name, "float32", tuple(n if isinstance(n, int) else 1 for n in t.shape))
        for t in reference.get_inputs()
    ]
    given = [np.random.default_rng(1).random(p.shape, np.float32) for p in inputs]
    names = [t.name for t in reference.get_outputs()]
    wanted = reference.run(names, {p.name: a for p, a in zip(inputs, given, strict=True)})
    (tmp_path / "net.onnx").write_bytes(file.read_bytes())
    code = Ncnn("net.onnx", [p.name for p in inputs], names[::-1])
    outputs = [Port(n, "float32", a.shape) for n, a in zip(names, wanted, strict=True)][::-1]
    code.open(str(tmp_path), inputs, outputs)
    for made, one in zip(code.fire(given, 0), wanted[::-1], strict=True):
        np.testing.assert_allclose(made, one, 1e-3, 1e-4)


@there
def test_an_inference_runs_in_the_thread_that_asks_for_it(tmp_path: Path) -> None:
    small(tmp_path / "net.onnx")
    before = set(os.listdir("/proc/self/task"))
    code = opened(tmp_path)
    code.fire([np.ones(SHAPE, np.float32)], 0)
    assert set(os.listdir("/proc/self/task")) <= before


@there
def test_more_threads_than_cores_are_told(tmp_path: Path) -> None:
    small(tmp_path / "net.onnx")
    with pytest.raises(TaskError, match=r"net\.onnx on 9999 threads: this program may use"):
        opened(tmp_path, threads=9999)


# -- what is kept ----------------------------------------------------------------------------------
@there
def test_a_network_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "net.onnx")
    given = np.random.default_rng(0).random(SHAPE, np.float32)
    (first,) = opened(tmp_path).fire([given], 0)
    converted: list[str] = []
    convert = ncnn._converted
    monkeypatch.setattr(ncnn, "_converted", lambda *a: converted.append("") or convert(*a))
    (again,) = opened(tmp_path).fire([given], 0)
    assert not converted and (first == again).all()
    (kept,) = (tmp_path / "engines").glob("*.bin")
    kept.write_bytes(kept.read_bytes()[:-1] + b"!")
    (mended,) = opened(tmp_path).fire([given], 0)
    assert converted == [""] and (first == mended).all()


@there
def test_a_changed_network_is_converted_again(tmp_path: Path) -> None:
    small(tmp_path / "net.onnx")
    opened(tmp_path)
    small(tmp_path / "net.onnx")  # with other weights
    os.utime(tmp_path / "net.onnx", (0, 0))
    opened(tmp_path)
    assert len([*(tmp_path / "engines").glob("*.json")]) == 2


@there
def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "net.onnx")
    monkeypatch.setattr(ncnn, "find_spec", lambda name: None)
    with pytest.raises(TaskError, match="pip install --no-deps pnnx"):
        opened(tmp_path)


@there
def test_what_pnnx_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no network")
    with pytest.raises(TaskError, match=r"refuses net\.onnx"):
        opened(tmp_path)
