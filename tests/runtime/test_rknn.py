"""Networks on the NPU of an RK3588, without one: what the engine takes, the script that converts
networks, programs and twins on stand-ins for Rockchip's packages, and what the real toolkit takes
where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc import cli
from flowc.driver.text.check import prepare
from flowc.networks.npu import engine_of
from flowc.runtime.code import session
from flowc.runtime.noise import Noise
from flowc.runtime.rknn import Model, Simulated, converted
from flowc.runtime.tokens import Port, TaskError
from flowc.targets.npu import keeps_whole
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write, build, harness, run
from models import N, save, weights
from npu_texts import PYTHON, TEXT

STAND_INS = ROOT / "tests" / "support" / "standins" / "rockchip"
SHELL = "sh -c 'for last; do :; done; exec sh -c \"$last\"' ssh"
SHAPE = (1, 4, 8, 8)
INT8, FP16 = 'precision int8 calibrate "x.npy"', "precision fp16"
ALL = "rk[0], rk[2], rk[1]"
in_toolkit = pytest.mark.skipif(find_spec("rknn") is None, reason="there is no rknn-toolkit2")


@pytest.fixture
def flow(write: Write) -> Iterator[Any]:
    """Texts with a network of four layers, the last of which RKNN may not offer (`Tan`)."""

    def made(pin: str = ALL, more: str = FP16, last: str = "Relu", cores: int = 3) -> Path:
        platform = f"cpu core[2]  npu rk[{cores}] engine rknn"
        text = write(TEXT.format(more=more, pin=pin, platform=platform), t_py=PYTHON)
        nodes = [
            N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            N("Relu", ["a"], ["b"]),
            N("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
            N(last, ["c"], ["y"]),
        ]
        given = {"w": weights(4, 4, 3, 3), "v": weights(4, 4, 3, 3)}
        save(text.parent / "net.onnx", nodes, {"x": list(SHAPE)}, given, "y")
        rng = np.random.default_rng(1)
        np.save(text.parent / "x.npy", rng.random((8, 4, 8, 8), np.float32))
        return text

    yield made


def on_board(
    out: Path, script: str, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """A script of a build where the stand-ins are installed."""
    environment = {**os.environ, "PYTHONPATH": str(STAND_INS), **more}
    command = [sys.executable, str(out / script), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=HANGS, check=False
    )


# -- what it takes -------------------------------------------------------------------------------
def test_check_tells_what_the_npu_can_run(flow: Any) -> None:
    text = str(flow(pin='rk[0] until "c" | core[0]', last="Tan"))
    said = CliRunner().invoke(cli.app, ["check", text, "--platform", "board"]).stdout
    assert "Net on an NPU: 3 of 4 layers can run there" in said
    assert "not offered by RKNN" in said and "3 layers from a to c" in said


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"more": INT8}, None),
        ({"more": ""}, "in int8 or fp16 only"),
        ({"last": "Tan"}, "Tan `y`: not offered by RKNN"),
        ({"cores": 4}, "`rk` has 4 cores, and RKNN knows 3"),
        ({"pin": 'rk[0] until "b" | rk[1]'}, None),
        (
            {"pin": 'rk[0] until "b" | rk[1]', "more": INT8},
            "is a piece of a network in 8 bits, and RKNN takes and gives",
        ),
    ],
)
def test_pins_keep_to_the_engine(flow: Any, changed: dict[str, Any], says: str | None) -> None:
    checked = flowc.check(flow(**changed), platform="board")
    said = [d for d in checked.diagnostics if d.severity == "error"]
    assert {d.code for d in said} == (set() if says is None else {"F510"})
    assert says is None or says in said[0].message


@pytest.mark.parametrize(("more", "whole"), [(INT8, True), (FP16, False)])
def test_searches_do_not_cut_what_its_cuts_keep_off_the_npu(
    flow: Any, more: str, whole: bool
) -> None:
    checked = prepare(flow(more=more), platform="board")
    network = checked.require().tasks["A.n"].network
    assert network is not None and checked.platform is not None
    assert keeps_whole(network, checked.platform) == whole


def test_the_board_that_comes_with_flowc_has_three_cores(flow: Any) -> None:
    text = flow()
    text.write_text(text.read_text().replace("mapping on board", "mapping on rk3588"))
    checked = flowc.check(text, platform="rk3588")
    assert checked.ok and checked.platform is not None
    assert checked.platform.processors[-3:] == ("rk[0]", "rk[1]", "rk[2]")


# -- programs --------------------------------------------------------------------------------------
def test_a_program_is_converted_and_runs_on_three_cores(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    assert "cores=[0, 2, 1])" in (out / "main.py").read_text()
    assert "rknn-toolkit-lite2" in (out / "requirements.txt").read_text()
    assert "python3 build_engines.py" in (out / "README.md").read_text()
    code = json.loads((out / "deployment.json").read_text())["apps"][0]["tasks"][1]["code"]
    assert (code["kind"], code["on"]) == ("rknn", [["rk[0]", 0], ["rk[2]", 2], ["rk[1]", 1]])

    missing = on_board(out, "main.py", "--frames", "1")
    assert (
        missing.returncode == 1 and "is not there: run `python3 build_engines.py`" in missing.stderr
    )
    made = on_board(out, "build_engines.py")
    assert made.returncode == 0 and "converted in" in made.stdout, made.stderr
    assert "is there" in on_board(out, "build_engines.py").stdout

    used, report = tmp_path / "cores", tmp_path / "report.json"
    given = {"RKNN_CORES": str(used)}
    done = on_board(out, "main.py", "--frames", "6", "--report", str(report), **given)
    assert done.returncode == 0 and done.stdout.count("got") == 6, done.stderr
    assert sorted(used.read_text().split()) == ["1", "1", "2", "2", "4", "4"]
    assert "RKNN 2.5.0, NPU" in report.read_text()


def test_a_board_converts_before_it_runs(
    flow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell is the ssh, and the stand-ins are the packages of the board."""
    used, far = tmp_path / "cores", tmp_path / "far"
    monkeypatch.setenv("FLOWC_SSH", SHELL)
    monkeypatch.setenv("PYTHONPATH", str(STAND_INS))
    monkeypatch.setenv("RKNN_CORES", str(used))
    command = ["run", str(flow()), "--platform", "board", "--board", f"board{far}"]
    command += ["--board-python", sys.executable, "--frames", "6", "--no-measure"]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 0, done.output
    assert sorted(used.read_text().split()) == ["1", "1", "2", "2", "4", "4"]
    assert len([*(far / "engines").glob("*.rknn")]) == 1


def test_a_changed_network_is_converted_again(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    assert on_board(out, "build_engines.py").returncode == 0
    build(flow(last="Sigmoid"), tmp_path / "out", platform="board")
    assert "is not there" in on_board(out, "main.py", "--frames", "1").stderr
    assert "converted in" in on_board(out, "build_engines.py").stdout


def test_refusals_are_told(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    refused = on_board(out, "build_engines.py", RKNN_REFUSES="1")
    assert refused.returncode == 1
    assert "RKNN refuses networks/net.onnx" in refused.stderr
    assert "Not support 'Foo' of opset-9!" in refused.stderr
    assert not [*(out / "engines").iterdir()]
    assert on_board(out, "build_engines.py").returncode == 0
    refused = on_board(out, "main.py", "--frames", "1", RKNN_REFUSES="1")
    assert refused.returncode == 1 and "its reason is above" in refused.stderr


@pytest.mark.skipif(find_spec("rknn") is not None, reason="rknn-toolkit2 is there")
def test_what_is_missing_is_told(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    said = subprocess.run(
        [sys.executable, str(out / "build_engines.py")],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert said.returncode == 1 and "rknn-toolkit2 is missing: pip install" in said.stderr
    assert on_board(out, "build_engines.py").returncode == 0
    done = run(out, "--frames", "1")
    assert done.returncode == 1
    assert "pip install rknn-toolkit-lite2, on the board" in done.stderr


# -- twins -----------------------------------------------------------------------------------------
def test_a_twin_runs_in_the_simulator(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    report = tmp_path / "report.json"
    done = on_board(out, "main.py", "--twin", "--frames", "6", "--report", str(report))
    assert done.returncode == 0 and done.stdout.startswith("got (1, 4, 8, 8)\n" * 6), done.stderr
    assert "noise" in done.stderr and "noise" not in done.stdout
    assert "RKNN 2.5.0 simulator" in report.read_text()


@pytest.mark.parametrize("more", [INT8, FP16])
def test_a_twin_gives_the_results_of_the_reference(
    flow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    out = build(flow(more=more), tmp_path / "out", platform="board")
    monkeypatch.setenv("FLOWC_TWIN", "1")
    done = harness(out)
    assert done.returncode == 0, done.stderr
    assert "dB asked for" in done.stderr


@pytest.mark.skipif(find_spec("rknn") is not None, reason="rknn-toolkit2 is there")
def test_without_the_toolkit_the_twin_is_onnx_runtime(flow: Any) -> None:
    twin = Simulated("net.onnx", ["x"], ["y"])
    twin.open(str(flow().parent), [Port("x", "float32", SHAPE)], [Port("y", "float32", SHAPE)])
    (made,) = twin.fire([np.ones(SHAPE, np.float32)], 0)
    assert made.shape == SHAPE and twin.engine == "ONNX Runtime in place of RKNN"
    twin.close()


# -- the real toolkit ------------------------------------------------------------------------------
@in_toolkit
def test_its_simulator_gives_outputs_in_the_order_of_ports(tmp_path: Path) -> None:
    nodes = [N("Relu", ["x"], ["a"]), N("MaxPool", ["a"], ["b"], kernel_shape=[2, 2])]
    save(tmp_path / "net.onnx", nodes, {"x": ["n", 4, 8, 8]}, {}, "a b")
    ports = [Port("b", "float32", (1, 4, 7, 7)), Port("a", "float32", SHAPE)]
    twin = Simulated("net.onnx", ["x"], ["b", "a"])
    twin.open(str(tmp_path), [Port("x", "float32", SHAPE)], ports)
    assert twin.engine.endswith(" simulator")
    noise, exact = Noise(), session(str(tmp_path / "net.onnx"), 1, False)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(SHAPE, np.float32)
        noise.add(exact.run(["b", "a"], {"x": x}), twin.fire([x], seed))
    twin.close()
    assert noise.within(40)


@in_toolkit
@pytest.mark.parametrize("op", ["Relu", "Erf", "Sigmoid", "Softplus", "HardSwish", "Elu", "Tanh"])
def test_its_compiler_takes_what_the_table_has(tmp_path: Path, op: str) -> None:
    path = save(tmp_path / "one.onnx", [N(op, ["x"], ["y"])], {"x": list(SHAPE)}, {}, "y")
    assert not engine_of("rknn").breaches(path)
    converted(Model("one.onnx", [("x", SHAPE)], ["y"], ""), str(tmp_path)).release()


@in_toolkit
def test_what_its_compiler_refuses_is_told(tmp_path: Path) -> None:
    save(tmp_path / "one.onnx", [N("NonZero", ["x"], ["y"])], {"x": list(SHAPE)}, {}, "y")
    with pytest.raises(TaskError, match=r"RKNN refuses one\.onnx"):
        converted(Model("one.onnx", [("x", SHAPE)], ["y"], ""), str(tmp_path))
