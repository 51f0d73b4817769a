"""Networks that pins cut into stages: the graph they become, and programs that compute what the
whole computes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.dependence import paths
from flowc.analysis.dataflow.repetition import repetition
from flowc.cli import app
from flowc.driver.show import networks
from flowc.passes.stages import with_stages
from flowc.profiling.layers import LayerTimes
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from builds import Write, harness, run, store_profile

SINK = """
import numpy as np
class Source:
    def __init__(self, count):
        self.left, self.rng = count, np.random.default_rng(3)
    def __call__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.rng.standard_normal((1, 3, 224, 224)).astype(np.float32)
def show(logits):
    print("best", int(logits.argmax()), format(float(logits.max()), ".3f"))
"""
NETWORK = """
task Source(count: int = 4) {{ out image: float32[1, 3, 224, 224]  python "sink.py:Source" }}
task Show {{ in logits: float32[1, 1000]  python "sink.py:show" }}
network Net from "mobilenet.onnx"
app A {{ source: Source  net: Net  show: Show  source -> net -> show }}
platform two {{ cpu core[2] }}
mapping on two {{ {pin} }}
"""


@pytest.fixture
def mobile(write: Write, examples: Path, tmp_path: Path) -> Write:
    """A text with MobileNetV2, whose skip connections cross many cuts."""
    shutil.copy(examples / "twins" / "mobilenet.onnx", tmp_path)

    def made(pin: str, **others: str) -> Path:
        return write(NETWORK.format(pin=pin), sink_py=SINK, **others)

    return made


def built(flow: Path, output: Path) -> Path:
    store_profile(flow, platform="two")
    flowc.build(flow, output, platform="two")
    return output


def test_stages_become_tasks(mobile: Write) -> None:
    checked = flowc.check(
        mobile('A.net -> core[0] until "conv_9" | core[1] until "clip_11" | core[0]'),
        platform="two",
    )
    assert checked.ok
    cut = checked.system.apps[0]
    assert [t.name for t in cut.tasks] == [
        "A.source",
        "A.net.stage1",
        "A.net.stage2",
        "A.net.stage3",
        "A.show",
    ]
    # conv_9 is added to what follows clip_11: it goes past the second stage, straight to the third.
    assert {(c.source, c.source_port, c.destination) for c in cut.channels} == {
        ("A.source", "image", "A.net.stage1"),
        ("A.net.stage1", "conv_9", "A.net.stage2"),
        ("A.net.stage1", "conv_9", "A.net.stage3"),
        ("A.net.stage2", "clip_11", "A.net.stage3"),
        ("A.net.stage3", cut.task("A.net.stage3").outputs[0].name, "A.show"),
    }
    assert all(check(a)[0].deadlock_free.holds for a in checked.system.apps)
    assert {p.task for p in checked.system.pins} == {f"A.net.stage{k}" for k in (1, 2, 3)}
    other = flowc.check(checked.system.path)  # on the host nothing was pinned
    assert [t.name for t in other.system.apps[0].tasks] == ["A.source", "A.net", "A.show"]


@pytest.mark.parametrize(
    "pin",
    [
        'A.net -> core[0] until "conv_20" | core[1]',
        'A.net -> core[0] until "clip_11" | core[1] until "clip_13" | core[0]',
        'A.net -> core[0], core[1] until "conv_9" | core[1]',
    ],
)
def test_a_program_with_stages_computes_what_the_whole_computes(
    mobile: Write, tmp_path: Path, pin: str
) -> None:
    whole = run(built(mobile(""), tmp_path / "whole"))
    cut = run(built(mobile(pin), tmp_path / "cut"))
    assert whole.returncode == cut.returncode == 0, cut.stderr
    answers = [line for line in cut.stdout.splitlines() if line.startswith("best")]
    assert len(answers) == 4
    assert answers == [line for line in whole.stdout.splitlines() if line.startswith("best")]
    declared = json.loads((tmp_path / "cut" / "deployment.json").read_text())
    assert "A.net.stage2" in [t["name"] for t in declared["apps"][0]["tasks"]]
    assert not any((tmp_path / "cut" / "networks").glob("mobilenet.onnx"))
    assert harness(tmp_path / "cut").returncode == 0


def test_frames_flow_through_stages_in_a_multirate_app(examples: Path, tmp_path: Path) -> None:
    shutil.copytree(
        examples / "digits", tmp_path / "digits", ignore=shutil.ignore_patterns("build")
    )
    flow = tmp_path / "digits" / "digits.flow"
    flow.write_text(
        flow.read_text()
        + '\nplatform two { cpu core[2] }\nmapping on two { Reader.digits -> core[0] until "layer4.out" | core[1] }\n'
    )
    ended = run(built(flow, tmp_path / "out"), "--frames", "60", "--full-speed")
    assert ended.returncode == 0, ended.stderr
    assert "digits right" in ended.stdout
    right, total = (
        int(w) for w in ended.stdout.split("read ")[-1].split(" digits")[0].split(" of ")
    )
    assert total == 300 and right >= 285


def test_the_same_text_gives_the_same_bytes(mobile: Write, tmp_path: Path) -> None:
    flow = mobile('A.net -> core[0] until "conv_20" | core[1]')
    first, second = built(flow, tmp_path / "a"), built(flow, tmp_path / "b")
    # it has time stamps
    files = [p for p in first.rglob("*") if p.is_file() and p.name != ".flowc-manifest.json"]
    for file in sorted(p for p in files if "__pycache__" not in p.parts):
        assert file.read_bytes() == (second / file.relative_to(first)).read_bytes(), file


def test_a_group_of_firings_is_not_cut(mobile: Write) -> None:
    flow = mobile('A.net -> core[0] until "conv_20" | core[1]')
    app = flowc.check(flow).system.apps[0]
    pins = flowc.check(flow).system.pins
    platform = flowc.check(flow, platform="two").require().platform
    net = app.task("A.net")
    assert net.network is not None
    grouped = replace(net, network=replace(net.network, batch=4))
    tasks = tuple(grouped if t.name == "A.net" else t for t in app.tasks)
    staged = with_stages([replace(app, tasks=tasks)], platform, pins)
    assert [d.code for d in staged.diagnostics] == ["F505"]


def test_layers_are_measured_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution that has nearly all the time, and the cut behind it that says so."""
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Conv", ["pooled", "w"], ["convolved"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["convolved"], ["positive"]),
            helper.make_node("MaxPool", ["positive"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 16, 16])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "net.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    found = CliRunner().invoke(app, ["profile", str(path), "--seconds", "0.3", "--json"])
    assert found.exit_code == 0
    document = json.loads(found.stdout)
    times = {x["layer"]: x["mean_ns"] for x in document["layers"]}
    assert list(times) == ["pooled", "convolved", "positive", "y"]
    assert min(times["pooled"], times["convolved"] + times["positive"], times["y"]) > 0
    assert [c["layer"] for c in document["cuts"]] == ["pooled", "positive"]
    assert not list(tmp_path.glob("*.json"))
    shown = CliRunner().invoke(app, ["profile", str(path), "--seconds", "0.1"])
    assert "time before" in shown.stdout
    heavy = LayerTimes(
        {"pooled": 100_000.0, "convolved": 800_000.0, "positive": 0.0, "y": 100_000.0}, 0.0, 9
    )
    monkeypatch.setattr(networks, "layer_times", lambda *_: heavy)
    document = json.loads(CliRunner().invoke(app, ["profile", str(path), "--json"]).stdout)
    assert [c["share"] for c in document["cuts"]] == pytest.approx([0.1, 0.9])


def test_a_network_that_does_not_run_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no network")
    assert CliRunner().invoke(app, ["profile", str(tmp_path / "net.onnx")]).exit_code == 1


SMALL = """
task Source {{ out x: float32[1, 4]  python "small.py:Source" }}
task Show {{ in a: float32[1, 4]  in b: float32[1, 4]  python "small.py:show" }}
network Net from "small.onnx" {{ in x from "x"  out y from "y" }}
app A {{
    source: Source  net[1]: Net  net_0_: Net  show: Show
    source -> net[0] -> show.a   source -> net_0_ -> show.b
}}
mapping on host {{ {pins} }}
"""
CODE = """
import numpy as np
class Source:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.full((1, 4), self.n, np.float32)
def show(a, b):
    print("sum", float(a.sum()), float(b.sum()))
"""


@pytest.fixture
def small(write: Write, tmp_path: Path) -> Write:
    """Two instances whose names are alike, of a network that has an output more than the text
    uses."""
    node = helper.make_node
    graph = helper.make_graph(
        [node("Relu", ["x"], ["h"]), node("Add", ["h", "h"], ["y"]), node("Neg", ["y"], ["a; b"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in ("y", "a; b")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "small.onnx")
    return lambda pins: write(SMALL.format(pins=pins), small_py=CODE)


def test_stages_of_instances_with_similar_names_keep_apart(small: Write, tmp_path: Path) -> None:
    pins = 'A.net[0] -> cpu[0] until "h" | cpu[0]   A.net_0_ -> cpu[0] until "h" | cpu[0]'
    flow = small(pins)
    store_profile(flow)
    flowc.build(flow, tmp_path / "out")
    assert len(list((tmp_path / "out" / "networks").glob("*.onnx"))) == 4
    ended = run(tmp_path / "out", "--frames", "3")
    assert [line for line in ended.stdout.splitlines() if line.startswith("sum")] == [
        "sum 8.0 8.0", "sum 16.0 16.0", "sum 24.0 24.0",
    ]  # fmt: skip


@pytest.mark.parametrize("adapt", ["", " adapt"])
def test_a_path_to_a_network_ends_where_its_last_stage_ends(small: Write, adapt: str) -> None:
    flow = small(f'A.net[0] -> cpu[0] until "h" | cpu[0]{adapt}')
    text = flow.read_text().replace("app A {", "app A { deadline 1 s from source to net[0]")
    flow.write_text(text)
    (app,) = flowc.check(flow).require().system.apps
    assert [(p.source, p.sink) for p in app.paths] == [("A.source", "A.net[0].stage2")]
    assert paths(app, repetition(app).vector)[0].deadline == 10**9


@pytest.mark.parametrize(
    ("pin", "message", "hint"),
    [
        ('-> cpu[0] until "y" | cpu[0]', "the outputs of this stage are not read", "leave it out"),
        ('-> cpu[0] until "a; c" | cpu[0]', 'no layer "a; c"', 'did you mean `"a; b"`?'),
        (
            '-> cpu[0] until "y" | cpu[0] until "h" | cpu[0]',
            'layer "h" comes before "y"',
            "from front to back",
        ),
        (
            '-> cpu[0] until "nothing like it" | cpu[0] streams 2',
            'no layer "nothing like it"',
            "--cuts` lists layers",
        ),
    ],
)
def test_cuts_that_cannot_be(small: Write, pin: str, message: str, hint: str) -> None:
    (fault,) = flowc.check(small(f"A.net_0_ {pin}")).diagnostics
    assert fault.code == "F507" and message in fault.message and hint in fault.help
