"""Importing ONNX models, and networks inside programs: pre, post, batches, several tensors."""

from __future__ import annotations

import json
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.networks.onnx.interface import NetworkError, read_fixed, read_network
from onnx import TensorProto, helper, numpy_helper

from builds import Write, build, harness, run

FLOAT = TensorProto.FLOAT


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    ins: dict[str, list[object]],
    outs: dict[str, list[object]],
    **weights: np.ndarray,
) -> Path:
    """Write a small model; dimensions are numbers or names."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, d) for n, d in ins.items()],
        [helper.make_tensor_value_info(n, FLOAT, d) for n, d in outs.items()],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def dense(path: Path, batch: object = "batch") -> Path:
    """y = x W with W 3 x 2."""
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    return save(
        path,
        [helper.make_node("MatMul", ["x", "W"], ["y"])],
        {"x": [batch, 3]},
        {"y": [batch, 2]},
        W=w,
    )


def test_shapes_are_inferred_once_the_batch_is_fixed(tmp_path: Path) -> None:
    path = dense(tmp_path / "d.onnx")
    assert str(read_network(path, {}, None).inputs[0]) == "float32[batch, 3]"
    fixed = read_network(path, {}, 1)
    assert (str(fixed.inputs[0]), str(fixed.outputs[0]), fixed.opset) == (
        "float32[1, 3]",
        "float32[1, 2]",
        17,
    )
    assert str(read_network(path, {"x": (5, 3)}, None).outputs[0]) == "float32[5, 2]"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda p: p.write_bytes(b"not a network at all"), "F402"),
        (lambda p: p.write_bytes(dense(p).read_bytes()[:60]), "F402"),
        (lambda p: p.write_bytes(b""), "F402"),
        (lambda p: None, "F401"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, make: object, code: str) -> None:
    path = tmp_path / "d.onnx"
    make(path)  # type: ignore[operator]
    with pytest.raises(NetworkError) as raised:
        read_network(path, {}, None)
    assert raised.value.code == code


def test_control_flow_has_no_layers(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["b"])],
        "b",
        [],
        [helper.make_tensor_value_info("b", FLOAT, [1])],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", FLOAT, [1]),
        ],
        [helper.make_tensor_value_info("y", FLOAT, [1])],
    )
    onnx.save(helper.make_model(graph), tmp_path / "c.onnx")
    assert read_network(tmp_path / "c.onnx", {}, None).one_piece == "control flow (If)"
    with pytest.raises(NetworkError) as raised:
        read_fixed(tmp_path / "c.onnx", {}, None)
    assert raised.value.code == "F404" and "If" in raised.value.message


def test_external_weights_stay_below_the_folder_and_reach_the_build(
    write: Write, tmp_path: Path
) -> None:
    path = dense(tmp_path / "d.onnx", 1)
    onnx.save_model(
        onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert read_network(path, {}, None).external == ("weights.bin",)
    out = build(write(TEXT, t_py=CODE), tmp_path / "out")
    assert (out / "networks" / "weights.bin").is_file()
    assert run(out, "--frames", "2").returncode == 0
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../etc/passwd"
    onnx.save(model, tmp_path / "evil.onnx")
    with pytest.raises(NetworkError) as raised:
        read_network(tmp_path / "evil.onnx", {}, None)
    assert raised.value.code == "F407"


TEXT = """
type Row = float32[1, 3]
type Out = float32[1, 2]
task Rows { out row: Row   python "t.py:Rows" }
task Show { in out: Out   python "t.py:Show" }
network Dense from "d.onnx"
app A { r: Rows  d: Dense  s: Show   r -> d -> s }
"""
CODE = """
import numpy as np
class Rows:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.full((1, 3), self.n, np.float32)
class Burst(Rows):
    def __call__(self):
        return np.stack([Rows.__call__(self) for _ in range(5)])
class Show:
    def __init__(self): self.seen = []
    def __call__(self, out): self.seen.append(out.ravel().tolist())
    def close(self): print("seen", self.seen)
def before(image): return image.astype(np.float32)[None] / 2, np.ones((1, 3), np.float32)
def after(y, z): return np.int64(round(float(y.sum() - z.sum())))
class Bytes:
    def __call__(self): return np.array([2, 4, 6], np.uint8)
class Last:
    def __call__(self, n): print("got", n)
"""


def test_a_dynamic_batch_is_fixed_by_batch_1(write: Write, tmp_path: Path) -> None:
    dense(tmp_path / "d.onnx")
    flow = write(TEXT, t_py=CODE)
    assert [d.code for d in flowc.check(flow).diagnostics] == ["F403"]
    flow.write_text(TEXT.replace('"d.onnx"', '"d.onnx" { batch 1 }'))
    done = run(build(flow, tmp_path / "out"), "--frames", "2")
    assert "seen [[6.0, 9.0], [12.0, 18.0]]" in done.stdout, done.stderr


@pytest.mark.parametrize("places", ["core[0]", "core[0], core[1]"])
def test_a_batch_groups_firings_and_changes_nothing_else(
    write: Write, tmp_path: Path, places: str
) -> None:
    dense(tmp_path / "d.onnx")
    flow = write(
        TEXT.replace('"d.onnx"', '"d.onnx" { batch 3 }')
        .replace("out row: Row ", "out row: Row rate 5")
        .replace('Rows"', 'Burst"')
        + f"platform two {{ cpu core[2] }}\nmapping on two {{ A.r -> core[0]  A.d -> {places}  A.s -> core[1] }}",
        t_py=CODE,
    )
    out = build(flow, tmp_path / "out", platform="two")
    assert "batch=3" in (out / "main.py").read_text()
    done = run(out, "--frames", "3")
    assert done.returncode == 0, done.stderr
    seen = json.loads(
        next(line for line in done.stdout.splitlines() if line.startswith("seen"))[5:]
    )
    assert seen == [[6.0 * n, 9.0 * n] for n in range(1, 16)]
    assert harness(out).returncode == 0


def test_pre_and_post_are_tasks_around_the_network(write: Write, tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"]), helper.make_node("Mul", ["a", "b"], ["z"])]
    save(tmp_path / "two.onnx", nodes, {"a": [1, 3], "b": [1, 3]}, {"y": [1, 3], "z": [1, 3]})
    flow = write(
        """
        task Bytes { out image: uint8[3]   python "t.py:Bytes" }
        task Last { in n: int64   python "t.py:Last" }
        network Two from "two.onnx" {
            in image: uint8[3] from "a", "b"   pre "t.py:before"
            out count: int64 from "y", "z"     post "t.py:after"
        }
        app A { b: Bytes  two: Two  k: Last   b -> two -> k }
        """,
        t_py=CODE,
    )
    checked = flowc.check(flow)
    assert [t.name for t in checked.system.apps[0].tasks] == [
        "A.b",
        "A.two.pre",
        "A.two",
        "A.two.post",
        "A.k",
    ]
    out = build(flow, tmp_path / "out")
    done = run(out, "--frames", "1")
    assert "got 3" in done.stdout, done.stderr
    assert harness(out).returncode == 0


def test_a_port_of_another_type_needs_a_pre(write: Write, tmp_path: Path) -> None:
    dense(tmp_path / "d.onnx", 1)
    flow = write(TEXT.replace('"d.onnx"', '"d.onnx" { in x: uint8[1, 3] }'), t_py=CODE)
    assert [d.code for d in flowc.check(flow).diagnostics] == ["F406"]


def test_checking_runs_no_code_of_a_text(write: Write, tmp_path: Path) -> None:
    dense(tmp_path / "d.onnx", 1)
    flow = write(TEXT, t_py="raise RuntimeError('executed')\n" + CODE)
    assert flowc.check(flow).ok
    from flowc.report.graph import draw

    draw(flowc.check(flow).system, tmp_path / "g.svg", {})
