"""Networks on NPUs: what the engine takes, where a program puts them, and its twin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import pytest
from flowc import cli
from flowc.driver.measure.devices import measure_devices
from flowc.driver.text.check import prepare
from flowc.machines.host import HERE, Here, has_accelerators
from flowc.model.profile import Profile
from flowc.networks.npu import engine_of
from flowc.runtime import qnn
from flowc.runtime.tokens import Port, TaskError
from flowc.search.deadline.candidates import KernelRow, front, types_for
from typer.testing import CliRunner

from builds import Write, build, harness, run
from models import N, save, weights
from npu_texts import PYTHON, TEXT

INT8 = 'precision int8 calibrate "x.npy"'
BOTH = "hexagon[0], hexagon[1]"


@pytest.fixture
def flow(write: Write) -> Iterator[Any]:
    """Texts with a network of four layers, one of which QNN does not offer (`Erf`)."""

    def made(pin: str = BOTH, more: str = INT8, erf: bool = False, module: str = "") -> Path:
        platform = f"{module} cpu core[2]  npu hexagon[2] engine qnn"
        text = write(TEXT.format(more=more, pin=pin, platform=platform), t_py=PYTHON)
        folder = text.parent
        last = N("Erf" if erf else "Relu", ["c"], ["y"])
        nodes = [
            N("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            N("Relu", ["a"], ["b"]),
            N("Conv", ["b", "v"], ["c"], pads=[1, 1, 1, 1]),
            last,
        ]
        given = {"w": weights(4, 4, 3, 3), "v": weights(4, 4, 3, 3)}
        save(folder / "net.onnx", nodes, {"x": [1, 4, 8, 8]}, given, "y")
        rng = np.random.default_rng(1)
        np.save(folder / "x.npy", rng.random((8, 4, 8, 8), np.float32))
        return text

    yield made


# -- what it takes -------------------------------------------------------------------------------
def test_check_tells_what_an_npu_can_run(flow: Any) -> None:
    text = str(flow(pin='hexagon[0] until "c" | core[0]', erf=True))
    said = CliRunner().invoke(cli.app, ["check", text, "--platform", "board"]).stdout
    assert "Net on an NPU: 3 of 4 layers can run there" in said
    assert "not offered by QNN" in said and "3 layers from a to c" in said
    document = json.loads(
        CliRunner().invoke(cli.app, ["check", text, "--platform", "board", "--json"]).stdout
    )
    assert document["npu"]["Net"]["legal"] == 3 and "dla" not in document


@pytest.mark.parametrize(
    ("more", "erf", "module", "says"),
    [
        (INT8, False, "", None),
        ("precision fp16", False, "", None),
        (INT8, False, "module qcs6490", None),
        ("precision fp16", False, "module qcs6490", "in int8 only"),
        ("", False, "", "in int8 or fp16 only"),
        (INT8, True, "", "Erf `y`: not offered by QNN"),
    ],
)
def test_pins_keep_to_the_engine(
    flow: Any, more: str, erf: bool, module: str, says: str | None
) -> None:
    checked = flowc.check(flow(more=more, erf=erf, module=module), platform="board")
    said = [d for d in checked.diagnostics if d.severity == "error"]
    assert [d.code for d in said] == ([] if says is None else ["F510"])
    assert says is None or says in said[0].message


@pytest.mark.parametrize(
    ("option", "code"), [("streams 2", "F504"), ("threads 2", "F504"), ("engine openvino", "F540")]
)
def test_options_of_other_processors_are_refused(flow: Any, option: str, code: str) -> None:
    checked = flowc.check(flow(pin=f"hexagon[0] {option}"), platform="board")
    assert [d.code for d in checked.diagnostics if d.severity == "error"] == [code]


@pytest.mark.skipif(find_spec("onnxruntime_qnn") is None, reason="there is no QNN")
@pytest.mark.parametrize("op", ["Relu", "Erf", "Sigmoid", "Softplus", "Celu"])
def test_the_table_of_operators_is_that_of_the_provider(tmp_path: Path, op: str) -> None:
    """The provider as the referee: what it takes of a network of this operator alone, besides those
    that it has for others."""
    path = save(tmp_path / "one.onnx", [N(op, ["x"], ["y"])], {"x": [1, 4, 8, 8]}, {}, "y")
    engine = engine_of("qnn")
    try:
        qnn.npu_session(str(path), 0, here=False)
        takes = True
    except TaskError:
        takes = False
    assert takes == (not engine.breaches(path))


# -- programs --------------------------------------------------------------------------------------
def test_a_program_on_two_npus_and_its_twin(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    assert 'Qnn("networks/net.int8-' in (out / "main.py").read_text()
    assert "cores=[0, 1])" in (out / "main.py").read_text()
    assert "onnxruntime-qnn" in (out / "requirements.txt").read_text()
    code = json.loads((out / "deployment.json").read_text())["apps"][0]["tasks"][1]["code"]
    assert (code["kind"], code["on"]) == ("qnn", [["hexagon[0]", 0], ["hexagon[1]", 1]])
    report = tmp_path / "report.json"
    done = run(out, "--twin", "--frames", "6", "--report", report)
    assert done.returncode == 0 and done.stdout.count("got") == 6, done.stderr
    assert json.loads(report.read_text())["tasks"]["A.n"]["firings"] == 6


def test_open_sizes_of_a_file_are_fixed_for_the_npu(flow: Any, tmp_path: Path) -> None:
    """QNN leaves a network to the CPU whose file has any open size."""
    text = flow(more="precision fp16")
    nodes = [N("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    open_batch = {"x": ["batch", 4, 8, 8]}
    save(text.parent / "net.onnx", nodes, open_batch, {"w": weights(4, 4, 3, 3)}, "y")
    out = build(text, tmp_path / "out", platform="board")
    (placed,) = (out / "networks").iterdir()
    (border,) = onnx.load(placed).graph.input
    assert placed.name == "net.npu.onnx"
    assert [d.dim_value for d in border.type.tensor_type.shape.dim] == [1, 4, 8, 8]
    assert run(out, "--twin", "--frames", "2").returncode == 0


def test_a_twin_gives_the_results_of_the_reference(
    flow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    monkeypatch.setenv("FLOWC_TWIN", "1")
    done = harness(out)
    assert done.returncode == 0, done.stderr
    assert "dB asked for" in done.stderr


def test_without_the_provider_the_twin_is_onnx_runtime(
    flow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qnn, "find_spec", lambda name: None)
    folder = flow().parent
    twin = qnn.Qnn("net.onnx", ["x"], ["y"]).twin
    shape = (1, 4, 8, 8)
    twin.open(str(folder), [Port("x", "float32", shape)], [Port("y", "float32", shape)])
    (made,) = twin.fire([np.ones(shape, np.float32)], 0)
    assert made.shape == shape and twin.engine == "ONNX Runtime in place of QNN"


def test_a_program_does_not_take_the_emulator_for_an_npu(flow: Any, tmp_path: Path) -> None:
    out = build(flow(), tmp_path / "out", platform="board")
    done = run(out, "--frames", "2")
    assert done.returncode == 1
    missing = find_spec("onnxruntime_qnn") is None
    reason = "onnxruntime-qnn is missing" if missing else "no Hexagon NPU is here"
    assert reason in done.stderr


def test_each_npu_has_its_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Firings 2k and 2k + 1 are an iteration: iterations go to the cores in turn."""
    used = []

    class Session:
        def __init__(self, core: int) -> None:
            self.core = core

        def run(self, names: Any, feeds: Any, options: Any) -> list[np.ndarray]:
            used.append(self.core)
            return [feeds["x"]]

    def opened(path: str, core: int, here: bool) -> tuple[Session, str]:
        assert here
        return Session(core), "QNN"

    monkeypatch.setattr(qnn, "npu_session", opened)
    code = qnn.Qnn("n.onnx", ["x"], ["y"], cores=[1, 0])
    code.fired_per_iteration(2)
    ports = [Port("x", "float32", (2,))], [Port("y", "float32", (2,))]
    code.open("", *ports)
    monkeypatch.setattr(code, "_made", Through())
    for firing in range(8):
        code.fire([np.ones(2, np.float32)], firing)
    assert used == [1, 1, 0, 0, 1, 1, 0, 0]


class Through:
    """Outputs of a session that needs no memory of ours."""

    def of(self, session: Any, names: Any, arrays: Any) -> Any:
        return session.run(None, dict(zip(names, arrays, strict=True)), None)


def test_a_profile_has_times_of_the_npu(flow: Any, tmp_path: Path) -> None:
    """The board is played: programs run there as twins."""

    class Board(Here):
        def execute(self, command: Any, **how: Any) -> Any:
            more = ["--twin"] if "main.py" in command else []
            return super().execute([*command, *more], **how)

    valid = prepare(flow(pin="core[0]"), platform="board").require()
    played = replace(valid, host=Board())
    found = measure_devices(played, Profile("board", "", ()), 0.01).entries
    assert [(e.processor, e.subject) for e in found] == [("npu", "A.n")]
    assert found[0].mean_ns > 0 and not found[0].estimated
    assert has_accelerators(Board(), valid.platform) == HERE.has_npu()


# -- searches --------------------------------------------------------------------------------------
def test_cuts_are_between_cpu_and_npu(flow: Any) -> None:
    """Layers that the engine does not offer are on the NPU in no candidate."""
    text = flow(pin='hexagon[0] until "c" | core[0]', erf=True)
    checked = prepare(text, platform="board", mapped=False)
    assert checked.ok and checked.platform is not None
    row = KernelRow(
        ("a", "b", "c", "y"),
        {"npu": [1.0, 1.0, 1.0, np.inf], "cpu": [9.0, 9.0, 9.0, 9.0]},
        (1, 2, 3),
    )
    assert types_for(row, checked.platform) == ["npu", "cpu"]
    found = front(row, checked.platform).candidates
    best = min(found, key=lambda c: c.latency)
    assert [s.type for s in best.stages][-1] == "cpu"
    assert {s.type for c in found for s in c.stages if s.end == 4} == {"cpu"}


def test_an_npu_that_takes_all_needs_no_cpu(flow: Any) -> None:
    checked = flowc.check(flow(), platform="board")
    assert checked.platform is not None
    row = KernelRow(("a",), {"npu": [1.0], "cpu": [9.0]}, ())
    assert types_for(row, checked.platform) == ["npu"]
