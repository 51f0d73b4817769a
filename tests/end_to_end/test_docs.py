"""Python in the pages of `docs`: every block is run, and prints what its page says. So does the
first text of docs/analysis.md.

The only block of docs/fmu.md is run in `tests/codegen/test_fmu_files.py`, those of the tutorial in
`test_tutorial.py`.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import flowc
import numpy as np
import onnx
import pytest
from flowc.cli import app
from onnx import TensorProto, helper, numpy_helper

from builds import ROOT, store_profile
from limits import HANGS

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?://|#) (\w+\.\w+)\n")
#: How many blocks of Python each page has: those that the tests below run.
RUN = {
    "embedding": 7,
    "fmu": 1,
    "language": 1,
    "program": 1,
    "robots": 3,
    "scenarios": 2,
    "tasks": 4,
}


#: Instead of OpenCV: one camera, which is unplugged after three frames.
CV2 = """
import numpy as np

CAP_PROP_FRAME_WIDTH, CAP_PROP_FRAME_HEIGHT = 3, 4


class VideoCapture:
    def __init__(self, device):
        self.there, self.size, self.frames = device == 0, {}, 0

    def isOpened(self):
        return self.there

    def set(self, which, value):
        self.size[which] = value

    def read(self):
        if self.frames == 3:
            return False, None
        rows, columns = self.size[CAP_PROP_FRAME_HEIGHT], self.size[CAP_PROP_FRAME_WIDTH]
        self.frames += 1
        return True, np.full((rows, columns, 3), self.frames - 1, np.uint8)

    def release(self):
        assert self.frames == 3
"""
#: A text around the `post` of a network whose outputs have as many rows as the data want.
FIND = """
task Camera { out x: float32[2, 3]     python "search.py:camera" }
task Show   { in places: int64[4, 2]   python "search.py:show" }
network Find from "find.onnx" { in x   out four: int64[4, 2] from "places" post "find.py:four" }
app Search { camera: Camera   find: Find   show: Show   camera -> find -> show }
"""
SEARCH = """
import numpy as np


def camera():
    return np.array([[0, 1, 0], [0, 0, 1]], np.float32)


def show(places):
    print(places.tolist())
"""


def store_network(
    path: str,
    nodes: list[tuple[str, list[str], list[str]]],
    data: tuple[str, list[int]],
    result: tuple[str, list[int | str]],
    kind: int = TensorProto.FLOAT,
) -> None:
    """A small network with an input of float32, an output and the weights `W`."""
    graph = helper.make_graph(
        [helper.make_node(*node) for node in nodes],
        "graph",
        [helper.make_tensor_value_info(data[0], TensorProto.FLOAT, data[1])],
        [helper.make_tensor_value_info(result[0], kind, result[1])],
        [numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "W")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block."""
    return BLOCK.findall((DOCS / f"{page}.md").read_text())


def scripts(page: str) -> list[str]:
    """Python that no file has."""
    return [
        text for language, text in blocks(page) if language == "python" and not NAME.match(text)
    ]


def write_files(page: str, folder: Path) -> None:
    """The files of a page: blocks that begin with a name."""
    for _, text in blocks(page):
        if name := NAME.match(text):
            (folder / name[1]).write_text(text)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, and the modules of before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in {"service", "other"} & (set(sys.modules) - before):
        del sys.modules[name]


def test_every_block_of_python_is_run() -> None:
    found = {
        page.stem: sum(language == "python" for language, _ in blocks(page.stem))
        for page in sorted(DOCS.glob("*.md"))
    }
    assert {page: count for page, count in found.items() if count} == RUN, (
        "run the new ones here as well"
    )


def run(flow: str, capfd: pytest.CaptureFixture[str], *options: str, fails: str = "") -> str:
    """What the tasks of a text print, also where it fails with an error that says so."""
    store_profile(Path(flow))
    capfd.readouterr()
    status = app(["run", flow, "--quiet", *options], standalone_mode=False)
    said = capfd.readouterr()
    assert (status or 0) == bool(fails) and fails in said.err, said.err
    return said.out


def test_analysis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files("analysis", tmp_path)
    assert app(["analyze", "track.flow"], standalone_mode=False) == 0
    assert ("", capsys.readouterr().out) in blocks("analysis")


def test_embedding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files("embedding", tmp_path)
    (tmp_path / "other.flow").write_text(
        'task T { out x: int64 python "other.py:one" }\ntask S { in x: int64 python "other.py:none" }\n'
        "app Other { t: T   s: S   t -> s }\n"
    )
    (tmp_path / "other.py").write_text("def one(): return 1\n\n\ndef none(x): pass\n")
    (tmp_path / "strict.flow").write_text(
        'task T { in x: uint8   out y: uint8   on error skip   python "strict.py:bright" }\n'
        "app Strict { in x: uint8   out y: uint8   t: T   x -> t -> y }\n"
    )
    (tmp_path / "strict.py").write_text(
        "def bright(x):\n    if not x: raise ValueError('the image is dark')\n    return x\n"
    )
    for flow in ("service.flow", "other.flow", "strict.flow"):
        store_profile(Path(flow))
    open_it, alone, ask, without_ends, skipped, spans = scripts("embedding")
    exec(open_it, {})
    exec(
        alone.replace("/opt/programs", str(tmp_path / "build")),
        {"image": np.full((48, 64), 255, np.uint8)},
    )
    exec(ask, {})
    exec(without_ends, {"flowc": flowc})
    with flowc.open("strict.flow") as service:
        exec(skipped, {"service": service, "image": 0})
        exec(skipped, {"service": service, "image": 7})
    if importlib.util.find_spec("opentelemetry"):
        opened: dict[str, Any] = {"flowc": flowc}
        exec(spans, opened)
        opened["service"].stop()
    first, second, third, report, dark, light = capsys.readouterr().out.splitlines()
    assert (first, second, third) == ("1.0", "1.0", "100 0.0")
    assert (dark, light) == ("ValueError: the image is dark", "7")
    assert "Other" in report


def test_language(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_files("language", tmp_path)
    assert re.fullmatch(r"(\d\.\d{3}\n){2}", run("tone.flow", capfd, "--frames", "2"))


def test_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcap_ros2")
    write_files("language", tmp_path)
    run("tone.flow", capfd, "--frames", "1", "--record", "run.mcap")
    (script,) = scripts("program")
    exec(script, {})
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(len(lines))] and lines
    assert all(re.fullmatch(r"\d+ \d+ \[-?[\d.e-]+\]", line) for line in lines)


def test_robots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without dora; with it, `tests/codegen/test_robots.py` runs them."""
    sent: list[tuple[str, Any, dict[str, Any]]] = []

    class Node(list[Any]):
        def send_output(self, name: str, data: Any, metadata: dict[str, Any]) -> None:
            sent.append((name, data, metadata))

    class Scalar(float):
        def as_py(self) -> float:
            return float(self)

    dora, arrow = ModuleType("dora"), ModuleType("pyarrow")
    vars(dora)["Node"], vars(arrow)["array"] = Node, np.asarray
    monkeypatch.setitem(sys.modules, "dora", dora)
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    write_files("robots", tmp_path)
    eye = runpy.run_path("eye.py")
    runpy.run_path("camera.py")
    assert len(sent) == 100 and {name for name, _, _ in sent} == {"image"}
    events = [
        {
            "type": "INPUT",
            "metadata": more,
            "value": [Scalar(eye["mean"](eye["scale"](data.reshape(more["shape"]))))],
        }
        for _, data, more in sent
    ]
    vars(dora)["Node"] = lambda: [*events, {"type": "STOP"}]
    runpy.run_path("show.py")
    assert capsys.readouterr().out == "".join(f"{n} {n}\n" for n in range(100))


def test_scenarios(tmp_path: Path) -> None:
    write_files("scenarios", tmp_path)
    said: list[str] = []
    watch = runpy.run_path("patrol.py")["Watch"](
        lambda: said.append("noise"), lambda: said.append("clear")
    )
    watch(np.full((4, 6), 0.9))
    watch(np.zeros((4, 6)))
    assert said == ["noise", "clear"]
    (tmp_path / "patrol.flow").write_text(
        'task T { out x: int64 python "patrol.py:one" }\ntask S { in x: int64 python "patrol.py:none" }\n'
        "app A { period 5 ms   t: T   s: S   t -> s }\n"
        "scenario P { event turn   initial state cruise { run A }   state turning { run A }   cruise -> turning on turn }\n"
    )
    (tmp_path / "patrol.py").write_text("def one(): return 1\n\n\ndef none(x): pass\n")
    store_profile(Path("patrol.flow"))
    (script,) = scripts("scenarios")
    exec(script, {"flowc": flowc})


def test_tasks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_files("tasks", tmp_path)
    assert ("", run("steps.flow", capfd)) in blocks("tasks")
    store_network("scores.onnx", [("MatMul", ["x", "W"], ["y"])], ("x", [1, 4]), ("y", [1, 3]))
    assert run("sort.flow", capfd, "--frames", "2") == "2\n2\n"
    (tmp_path / "cv2.py").write_text(CV2)
    frames = "(480, 640, 3) 0.0\n(480, 640, 3) 1.0\n(480, 640, 3) 2.0\n"
    assert run("look.flow", capfd, "--frames", "3") == frames
    assert frames.startswith(run("look.flow", capfd, fails="the camera is gone"))
    other = ("--set", "Look.camera.device=2")
    assert run("look.flow", capfd, *other, fails="no camera answers at 2") == ""
    nodes = [("NonZero", ["x"], ["found"]), ("Transpose", ["found"], ["places"])]
    store_network("find.onnx", nodes, ("x", [2, 3]), ("places", ["found", 2]), TensorProto.INT64)
    Path("find.flow").write_text(FIND)
    Path("search.py").write_text(SEARCH)
    assert run("find.flow", capfd, "--frames", "2") == "[[0, 1], [1, 2], [-1, -1], [-1, -1]]\n" * 2


def test_one_firing_is_in_the_program_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "one_firing.md").read_text()
    pieces = BLOCK.findall(page)
    for language, text in pieces:
        if language in ("flow", "c"):
            Path(f"one.{language}").write_text(text)
    said = {}
    for words in ("check", "build --no-measure --target native -o b"):
        verb, *options = words.split()
        with pytest.raises(SystemExit) as ended:
            app([verb, "one.flow", "--platform", "board", *options])
        assert not ended.value.code
        said[verb] = capfd.readouterr().out
    (told,) = (text for language, text in pieces if language == "text")
    assert told in said["check"]
    program = Path("b/main.cpp").read_text().splitlines()
    lines = [line for language, text in pieces if language == "cpp" for line in text.splitlines()]
    assert len(lines) == 8
    for line in lines:
        assert line in program, line
    done = subprocess.run(
        ["b/main", "--frames", "2", "--quiet"], capture_output=True, text=True, timeout=HANGS
    )
    assert done.stdout == "0 0.5\n1 1.5\n"
