"""Networks whose outputs have a size that depends on data: read by a `post`, checked at every
firing otherwise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import flowc
import numpy as np
import pytest
from flowc.driver.build.external import build_external
from flowc.model.diagnostic import Errors
from flowc.model.types import OPEN, TensorType
from flowc.networks.quantization.quantize import loss
from flowc.runtime import Port
from flowc.runtime.tokens import TaskError
from onnx import TensorProto

from builds import Write, build, harness, placed, pretend_runs, run, store_profile
from models import N, save

DETECTOR = """
network Detect from "detector.onnx" {
    in boxes   in scores   out found: float32[20, 4] from "chosen", "picked" post "t.py:fixed"
}
task Camera { out boxes: float32[1, 30, 4]   out scores: float32[1, 1, 30]   python "t.py:Camera" }
task Keep { in found: float32[20, 4]   python "t.py:Keep" }
app A { camera: Camera   net: Detect   keep: Keep
    camera.boxes -> net.boxes   camera.scores -> net.scores   net -> keep }
"""
TASKS = """
import numpy as np

class Camera:
    "Every fourth picture is empty."
    def __init__(self): self.n, self.rng = 0, np.random.default_rng(3)
    def __call__(self):
        self.n += 1
        boxes = self.rng.random((1, 30, 4)).astype(np.float32)
        return boxes, (self.rng.random((1, 1, 30)) * (self.n % 4) / 3).astype(np.float32)

def fixed(chosen, picked):
    assert chosen.shape[1:] == (3,) and picked.shape == (1, len(chosen), 4)
    found = np.zeros((20, 4), np.float32)
    found[: len(chosen)] = picked[0]
    return found

class Keep:
    def __init__(self): self.seen = []
    def __call__(self, found): self.seen.append(int(found.any(1).sum()))
    def close(self): print("seen", self.seen)
"""


def write_detector(file: Path, overlap: float = 0.5) -> None:
    """A network that ends in NonMaxSuppression."""
    constants = {
        "most": np.array([20]), "overlap": np.array([overlap], np.float32), "least": np.array([0.5], np.float32),
        "column": np.array(2), "one": np.ones(1, np.float32),
    }  # fmt: skip
    nodes = [
        N("Mul", ["boxes", "one"], ["scaled"]),
        N("Relu", ["scores"], ["sure"]),
        N("NonMaxSuppression", ["scaled", "sure", "most", "overlap", "least"], ["chosen"]),
        N("Gather", ["chosen", "column"], ["index"], axis=1),
        N("Gather", ["scaled", "index"], ["picked"], axis=1),
    ]
    shapes = {"boxes": [1, 30, 4], "scores": [1, 1, 30]}
    save(file, nodes, shapes, constants, "chosen picked", {"chosen": TensorProto.INT64})


def write_finder(file: Path, shape: list[object]) -> None:
    """Where a matrix is not 0: a row for each place."""
    nodes = [N("NonZero", ["x"], ["found"]), N("Transpose", ["found"], ["places"])]
    save(file, nodes, {"x": shape}, {}, "places", {"places": TensorProto.INT64})


@pytest.fixture
def detector(write: Write, tmp_path: Path) -> Path:
    """A text with a detector, beside its files."""
    write_detector(tmp_path / "detector.onnx")
    return write(DETECTOR, t_py=TASKS)


def seen(out: Path) -> list[int]:
    done = run(out, "--frames", "12", "--strict")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("seen "))
    return list(json.loads(line[5:]))


def mapped(flow: Path, pins: str, board: str = "cpu core[2]") -> Path:
    flow.write_text(f"{DETECTOR}platform two {{ {board} }}\nmapping on two {{ {pins} }}\n")
    return flow


def refused(flow: Path) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in flowc.check(flow, platform="two").diagnostics]


def test_a_post_makes_a_fixed_size_of_what_is_found(detector: Path, tmp_path: Path) -> None:
    """Also when both are shared by processors, and when the network is cut in front of what depends
    on data."""
    found = []
    for k, pins in enumerate(
        [
            "A.net -> core[0]",
            "A.net -> core[0], core[1]   A.net.post -> core[1], core[0]",
            'A.net -> core[0] until "sure" | core[1]',
            'A.net -> core[0] until "sure" | core[1]   adapt',
        ]
    ):
        out = build(mapped(detector, pins), tmp_path / f"out{k}", platform="two")
        found.append(seen(out))
        checked = harness(out)
        assert checked.returncode == 0, checked.stderr
    assert found == [found[0]] * 4
    assert len(set(found[0])) > 3 and found[0][3::4] == [0, 0, 0]


def test_the_harness_compares_what_has_no_fixed_size(detector: Path, tmp_path: Path) -> None:
    """Whatever `post` makes of it."""
    detector.with_name("t.py").write_text(
        TASKS.replace("    found[: len(chosen)] = picked[0]\n", "")
    )
    out = build(mapped(detector, "A.net -> core[0]"), tmp_path / "out", platform="two")
    assert harness(out).returncode == 0
    write_detector(out / "networks" / "other.onnx", overlap=0.9)
    main = (out / "main.py").read_text()
    assert "networks/detector.onnx" in main
    (out / "main.py").write_text(main.replace("networks/detector.onnx", "networks/other.onnx"))
    checked = harness(out)
    assert checked.returncode == 1 and "input chosen of A.net.post" in checked.stderr


def test_what_cannot_be_done_with_it_is_said(detector: Path) -> None:
    pin = "A.net.post -> core[0] process"
    assert refused(mapped(detector, pin)) == [
        ("F504", "`A.net.post` reads `chosen`, whose size depends on data")
    ]
    board = 'cpu core[2]  gpu ampere compute 8.7  dla nvdla  tensorrt "10.3"'
    for kind, place in (("gpu", "ampere"), ("dla", "nvdla")):
        message = f"cannot run on a {kind}: the size of `chosen` depends on data"
        assert refused(mapped(detector, f"A.net -> {place}", board)) == [
            ("F503", f"`A.net` {message}")
        ]
        stages = f'A.net -> ampere until "sure" | {place}'
        assert refused(mapped(detector, stages, board)) == [("F503", f"`A.net.stage2` {message}")]
    assert refused(mapped(detector, 'A.net -> ampere until "sure" | core[0]', board)) == []
    ((code, message),) = refused(mapped(detector, 'A.net -> core[0] until "chosen" | core[1]'))
    assert code == "F403" and "tensor `chosen` of `detector.onnx`" in message
    with pytest.raises(Errors) as raised:
        build_external(detector)
    assert [d.code for d in raised.value.diagnostics] == ["F403"]


def test_without_a_pin_it_stays_on_a_cpu(detector: Path) -> None:
    flow = mapped(detector, "", "cpu core[2]  gpu ampere compute 8.7")
    valid = flowc.check(flow, platform="two").require()
    assert placed(valid, None).of("A.net")[0].startswith("core")


def test_a_search_keeps_a_post_in_the_program(
    detector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However heavy it is: other Python tasks of that weight are tried in processes of their
    own."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    runs: list[str] = []
    pretend_runs(monkeypatch, lambda build: runs.append((build / "main.py").read_text()) or 1e6)
    store_profile(detector, {"A.net.post": 10**7, "A.keep": 10**7})
    flowc.map(detector, budget=60.0)
    apart = [text for text in runs if "Process(" in text]
    assert apart and all('Process(Python("tasks/t.py", "Keep"' in text for text in apart)
    assert not any('Process(Python("tasks/t.py", "fixed"' in text for text in runs)


def test_in_8_bits(detector: Path, tmp_path: Path) -> None:
    """Outputs that find other boxes than before have no loss."""
    rng = np.random.default_rng(0)
    for k in range(2):
        boxes, scores = rng.random((1, 30, 4)), rng.random((1, 1, 30))
        np.savez(
            tmp_path / f"{k}.npz", boxes=boxes.astype(np.float32), scores=scores.astype(np.float32)
        )
    text = DETECTOR.replace(
        "in boxes   in scores   out",
        'in boxes   in scores   precision int8   calibrate "*.npz"   out',
    )
    detector.write_text(text)
    assert flowc.build(detector, tmp_path / "out").directory.is_dir()
    assert len(seen(tmp_path / "out")) == 12
    write_detector(tmp_path / "coarse.onnx", overlap=0.9)
    samples = [dict(np.load(tmp_path / "0.npz"))]
    assert (
        len(loss(tmp_path / "detector.onnx", (tmp_path / "detector.onnx").read_bytes(), samples))
        == 2
    )
    assert loss(tmp_path / "detector.onnx", (tmp_path / "coarse.onnx").read_bytes(), samples) == ()


def test_the_advice_helps(write: Write, tmp_path: Path) -> None:
    """What F403 tells to write is right, but for the names in it."""
    write_finder(tmp_path / "find.onnx", [1, 3])
    flow = write(
        'network Find from "find.onnx" { out places }\n', t_py="def function(places): pass\n"
    )
    (fault,) = flowc.check(flow).diagnostics
    assert fault.code == "F403"
    line = next(text for text in fault.help.split("`") if text.startswith("out "))
    line = line.replace("SIZE0", "7").replace("file.py", "t.py")
    for port in (line, line.partition(" post ")[0]):
        flow.write_text(f'network Find from "find.onnx" {{ {port} }}\napp A {{ find: Find }}\n')
        assert [d.code for d in flowc.check(flow).diagnostics if d.code != "F208"] == ["F202"], port


@pytest.mark.parametrize(("core", "rate"), [(0, 1), (1, 1), (1, 4)])
def test_a_size_that_changes_later_is_the_fault_of_the_network(
    write: Write, tmp_path: Path, core: int, rate: int
) -> None:
    """In one worker, in two, and in batches: a declared size is held to at every firing."""
    write_finder(tmp_path / "find.onnx", ["n", 2])
    text = f"""
        network Find from "find.onnx" {{ in x: float32[1, 2]   out places: int64[1, 2]   batch {rate} }}
        task Camera {{ out x: float32[1, 2] rate {rate}   python "t.py:Camera" }}
        task Keep {{ in places: int64[1, 2]   python "t.py:keep" }}
        app A {{ camera: Camera   net: Find   keep: Keep   camera -> net -> keep }}
        platform two {{ cpu core[2] }}
        mapping on two {{ A.camera -> core[0]   A.net -> core[{core}]   A.keep -> core[0] }}
    """
    code = f"""
import numpy as np
class Camera:
    "One number of each row is not 0, but of row 6 both."
    def __init__(self): self.n = 0
    def __call__(self):
        rows = range(self.n, self.n + {rate})
        self.n += {rate}
        made = np.array([[[1, n == 6]] for n in rows], np.float32)
        return made if len(made) > 1 else made[0]
def keep(places): print("kept", places.shape)
"""
    done = run(build(write(text, t_py=code), tmp_path / "out", platform="two"))
    assert done.returncode == 1
    firing, found = (4, 5) if rate > 1 else (6, 2)
    said = f"task A.net failed at firing {firing}: returned int64[{found}, 2] for port `places`, which is int64[{rate}, 2]"
    assert said in done.stderr


def test_open_dimensions_of_a_port() -> None:
    port = Port("found", "float32", (1, OPEN, 4))
    for size in (0, 1, 7):
        array = np.zeros((1, size, 4), np.float32)
        assert port.accept(array, 0) is array
    for shape, dtype in (
        ((2, 3, 4), "float32"),
        ((1, 3, 5), "float32"),
        ((1, 4), "float32"),
        ((1, 3, 4), "int64"),
    ):
        with pytest.raises(TaskError, match=r"which is float32\[1, \?, 4\]"):
            port.accept(np.zeros(shape, dtype), 0)
    kind = TensorType("float32", (1, OPEN, 4))
    assert (str(kind), kind.bytes, kind.open) == ("float32[1, ?, 4]", 16, True)
