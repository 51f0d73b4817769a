"""A text whose states differ in variants alone to a program that changes them between two frames,
or at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.cli import app
from typer.testing import CliRunner

from builds import build, harness, run
from models import N, save, weights

SIZE = 512
TEXT = """
type X = float32[1, 512]
type Y = float32[1, 4]
task Camera { out x: X   python "code.py:Camera" }
task Sum { in y: Y   in before: Y   out after: Y   python "code.py:add" }
task Watch { in y: Y   event often   python "code.py:Watch" }
network See {
    in x: X   out y: Y
    variant whole from "net.onnx" { out y from "late" }
    variant early from "net.onnx" { out y from "soon" }
    variant tiny from "tiny.onnx"
}
app A {
    camera: Camera   see: See   sum: Sum   watch: Watch
    camera -> see -> sum.y   sum -> delay 1 -> sum.before   sum -> watch
}
scenario S {
    event turn
    initial state good { run A   A.see = whole }
    state saving { run A   A.see = early }
    state low { run A   A.see = tiny }
    good -> saving on turn, A.watch.often   saving -> low on turn, A.watch.often at once
    low -> good on turn, A.watch.often at once
}
platform duo { cpu core[2] }
mapping on duo {
    A.camera -> core[0]   A.sum -> core[0]   A.watch -> core[0]
    A.see.whole -> core[1]   A.see.early -> core[1]   A.see.tiny -> core[1]
}
"""
CODE = """
import numpy as np

class Camera:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.full((1, 512), self.n % 7, np.float32)

def add(y, before): return (before + y) / 2

class Watch:
    def __init__(self, often): self.often, self.n = often, 0
    def __call__(self, y):
        self.n += 1
        if self.n % 3 == 0:
            self.often()
"""


def networks(folder: Path) -> None:
    """A trunk of 1 MB with an early and a late exit, and a small network."""
    trunk = {
        "w": weights(SIZE, SIZE) / SIZE,
        "v": weights(SIZE, 4),
        "late_w": weights(SIZE, SIZE) / SIZE,
    }
    nodes = [
        N("Gemm", ["x", "w"], ["h"]), N("Relu", ["h"], ["r"]), N("MatMul", ["r", "v"], ["soon"]),
        N("MatMul", ["r", "late_w"], ["s"]), N("MatMul", ["s", "v"], ["late"]),
    ]  # fmt: skip
    save(folder / "net.onnx", nodes, {"x": [1, SIZE]}, trunk, "soon late")
    save(
        folder / "tiny.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, SIZE]},
        {"w": weights(SIZE, 4)},
        "y",
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pause")
    networks(folder)
    (folder / "app.flow").write_text(TEXT)
    (folder / "code.py").write_text(CODE)
    return build(folder / "app.flow", folder / "b", platform="duo")


def report(built: Path, *arguments: object) -> dict[str, Any]:
    done = run(built, *map(str, arguments), "--quiet", "--report", str(built / "r.json"))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((built / "r.json").read_text())
    return document


def test_the_harness_goes_through_all_of_it(built: Path) -> None:
    done = harness(built)
    assert done.returncode == 0, done.stderr


def test_events_change_it_without_a_pause_and_a_report_repeats_it(built: Path) -> None:
    document = report(built, "--frames", 200)
    protocols = {(s["from"], s["to"]): s["protocol"] for s in document["switches"]}
    assert protocols[("good", "saving")] == "next" and protocols[("saving", "low")] == "at once"
    assert len(document["switches"]) > 20 and document["apps"]["A"]["frames"] == 200
    firings = {n: t["firings"] for n, t in document["tasks"].items() if n.startswith("A.see")}
    assert (
        set(firings) == {"A.see.whole", "A.see.early", "A.see.tiny"}
        and sum(firings.values()) == 200
    )
    memory = document["memory"]
    assert (
        memory["shared"]
        == json.loads((built / "deployment.json").read_text())["scenario"]["weights"]
    )
    assert 0 < memory["proportional"] <= memory["process"]
    (built.parent / "first.json").write_text(json.dumps(document))
    again = report(built, "--replay", built.parent / "first.json")
    assert again["stays"] == document["stays"]


def test_weights_that_variants_share_are_there_once(built: Path) -> None:
    deployment = json.loads((built / "deployment.json").read_text())
    codes = {
        t["name"]: t["code"]
        for s in deployment["scenario"]["states"]
        for a in s["apps"]
        for t in a["tasks"]
    }
    whole, early, tiny = (codes[f"A.see.{name}"] for name in ("whole", "early", "tiny"))
    assert whole["segments"][0]["file"] == early["segments"][0]["file"] and tiny["kind"] == "onnx"
    assert deployment["planned"]["weights"] < 4 * (2 * SIZE * SIZE + 20 * SIZE)
    assert len(list((built / "networks").iterdir())) == 4  # trunk, both ends, tiny
    weights = deployment["scenario"]["weights"]
    assert (
        weights["separate"] - weights["built"] == 4 * SIZE * SIZE
        and weights["distinct"] <= weights["built"]
    )


def test_each_variant_computes_what_its_file_does(built: Path) -> None:
    import onnxruntime
    from flowc.runtime.reference import make_code, make_ports

    session = onnxruntime.InferenceSession(
        built.parent / "net.onnx", providers=["CPUExecutionProvider"]
    )
    x = np.random.default_rng(1).normal(size=(1, SIZE)).astype(np.float32)
    wanted = dict(zip(("soon", "late"), session.run(["soon", "late"], {"x": x}), strict=True))
    deployment = json.loads((built / "deployment.json").read_text())
    tasks = {
        t["name"]: t
        for s in deployment["scenario"]["states"]
        for a in s["apps"]
        for t in a["tasks"]
    }
    for name, output in (("whole", "late"), ("early", "soon")):
        task = tasks[f"A.see.{name}"]
        code = make_code(task["code"], str(built))
        code.open(str(built), make_ports(task["inputs"]), make_ports(task["outputs"]))
        np.testing.assert_allclose(code.fire([x], 0)[0], wanted[output], 1e-5, 1e-6)


def test_an_exit_is_a_model_without_what_lies_behind_it(built: Path) -> None:
    checked = flowc.check(built.parent / "app.flow", platform="duo")
    networks = {
        n: t.network
        for c in checked.states.values()
        for a in c.system.apps
        for n, t in [(t.name, t) for t in a.tasks]
    }
    sizes = {n: len(networks[f"A.see.{n}"].model) for n in ("whole", "early", "tiny")}  # type: ignore[union-attr]
    assert (
        sizes["whole"] > 8 * SIZE * SIZE > 5 * SIZE * SIZE > sizes["early"] > 4 * SIZE * SIZE
        and not sizes["tiny"]
    )


def test_variants_in_different_places_wait_for_frames_under_way(tmp_path: Path) -> None:
    networks(tmp_path)
    (tmp_path / "code.py").write_text(CODE)
    text = TEXT.replace("A.see.early -> core[1]", "A.see.early -> core[0]").replace(" at once", "")
    (tmp_path / "app.flow").write_text(text)
    other = build(tmp_path / "app.flow", tmp_path / "b", platform="duo")
    deployment = json.loads((other / "deployment.json").read_text())
    protocols = {
        (t["source"], t["target"]): t["protocol"] for t in deployment["scenario"]["transitions"]
    }
    assert protocols == {
        ("good", "saving"): "idle",
        ("saving", "low"): "idle",
        ("low", "good"): "next",
    }


def test_analyze_says_what_variants_share(built: Path) -> None:
    done = CliRunner().invoke(
        app, ["analyze", str(built.parent / "app.flow"), "--platform", "duo", "--json"]
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["variants"]
    assert (found["network"], found["variants"]) == ("See", ["whole", "early", "tiny"])
    trunk = 4 * SIZE * SIZE
    assert found["weights"]["separate"] - found["weights"]["built"] == trunk
    ways = {(s["source"], s["target"]): s for s in found["switches"]}
    assert len(ways) == 6 and ways["whole", "early"]["races"] > 0
    assert all(s["steps"] <= s["safe_steps"] <= s["steps_in_turn"] for s in ways.values())
