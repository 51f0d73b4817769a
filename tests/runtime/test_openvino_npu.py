"""Networks on Intel's NPUs, without one: the twin, what is said, and the calls of OpenVINO on a
stand-in that computes on the CPU."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.driver.build.accelerators import accelerator_reports
from flowc.runtime.openvino import OpenVinoNpu
from flowc.runtime.tokens import Port, TaskError

from builds import Write, build, harness, run
from models import N, save, weights

pytestmark = pytest.mark.skipif(find_spec("openvino") is None, reason="there is no OpenVINO")

PYTHON = """
import numpy as np

def make(firings=[]):
    firings.append(0)
    return np.random.default_rng(len(firings)).random((1, 4, 8, 8), np.float32)

def take(y):
    pass
"""
TEXT = """
task Make { out x: float32[1, 4, 8, 8]  python "t.py:make" }
task Take { in y: float32[1, 4, 8, 8]  python "t.py:take" }
network Net from "net.onnx" { in x: float32[1, 4, 8, 8] from "x"  out y: float32[1, 4, 8, 8] from "y" precision fp16 }
app A { m: Make  n: Net  t: Take  m -> n -> t }
mapping on core_ultra { A.n -> boost }
"""
SHAPE = (1, 4, 8, 8)


@pytest.fixture
def flow(write: Write) -> Path:
    """A text with a convolution on the NPU."""
    text = write(TEXT, t_py=PYTHON)
    nodes = [N("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    save(text.parent / "net.onnx", nodes, {"x": SHAPE}, {"w": weights(4, 4, 3, 3)}, "y")
    return text


def test_its_twin_gives_the_results_of_the_reference(
    flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = build(flow, tmp_path / "out", platform="core_ultra")
    assert 'OpenVinoNpu("networks/net.onnx", ["x"], ["y"])' in (out / "main.py").read_text()
    done = run(out, "--frames", "1")
    assert done.returncode == 1 and "OpenVINO finds no NPU here: --twin" in done.stderr
    monkeypatch.setenv("FLOWC_TWIN", "1")
    done = harness(out)
    assert done.returncode == 0, done.stderr
    assert "dB asked for" in done.stderr


def test_what_an_npu_takes_is_not_told_without_its_driver(flow: Path) -> None:
    """Its compiler belongs to the driver: no table claims to know."""
    checked = flowc.check(flow, platform="core_ultra")
    assert checked.ok and checked.platform is not None
    assert accelerator_reports(checked.system, checked.platform) == ()


class StandIn:
    """OpenVINO with an NPU that computes on the CPU."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.calls: list[tuple[str, str]] = []
        self.available_devices = ["CPU", "NPU"]
        self.read_model = self._core.read_model

    def get_property(self, device: str, name: str) -> Any:
        assert (device, name) == ("NPU", "NPU_DRIVER_VERSION")
        return 7

    def compile_model(self, model: Any, device: str, settings: dict[str, Any]) -> Any:
        self.calls.append(("compile", device))
        assert all(not i.get_partial_shape().is_dynamic for i in model.inputs)
        return self._core.compile_model(model, "CPU", settings)

    def import_model(self, stream: Any, device: str, settings: dict[str, Any]) -> Any:
        self.calls.append(("import", device))
        return self._core.import_model(stream, "CPU", settings)


def test_a_model_is_compiled_for_the_npu_once(
    flow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openvino

    core = StandIn(openvino.Core())
    monkeypatch.setattr(openvino, "Core", lambda: core)
    (tmp_path / "net.onnx").write_bytes((flow.parent / "net.onnx").read_bytes())
    ports = [Port("x", "float32", SHAPE)], [Port("y", "float32", SHAPE)]
    x = np.random.default_rng(0).random(SHAPE, np.float32)
    made = []
    for _ in range(2):
        code = OpenVinoNpu("net.onnx", ["x"], ["y"])
        code.open(str(tmp_path), *ports)
        made.append(code.fire([x], 0)[0].copy())
        assert code.engine.endswith(", NPU")
        code.close()
    assert core.calls == [("compile", "NPU"), ("import", "NPU")]
    twin = code.twin
    assert twin is not None
    monkeypatch.undo()
    twin.open(str(tmp_path), *ports)
    wanted = twin.fire([x], 0)[0]
    for one in made:  # without a word OpenVINO takes 16 bits on some CPUs
        np.testing.assert_allclose(one, wanted, 0.02, 0.02 * np.abs(wanted).max())


def test_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    core = StandIn(openvino.Core())
    monkeypatch.setattr(openvino, "Core", lambda: core)
    (tmp_path / "net.onnx").write_bytes(b"no network")
    code = OpenVinoNpu("net.onnx", ["x"], ["y"])
    with pytest.raises(TaskError, match=r"OpenVINO refuses net\.onnx"):
        code.open(str(tmp_path), [Port("x", "float32", SHAPE)], [Port("y", "float32", SHAPE)])
