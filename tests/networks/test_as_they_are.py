"""Networks as they come: control flow, open sizes, lists, maps and operators of their own.

ONNX Runtime on the untouched file says what is right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import onnx
import onnxruntime
import pytest
from flowc.driver.measure.measure import may_be_cut
from flowc.networks.onnx.interface import NetworkError, read_network
from flowc.networks.onnx.memory import weights_alone
from flowc.networks.onnx.prepared import Wishes, prepared
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from builds import Write, build, harness, run

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
N = helper.make_node
Value = onnx.ValueInfoProto


def value(name: str, shape: list[Any] | None, kind: int = FLOAT) -> Value:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: Path, nodes: list[Any], ins: list[Value], outs: list[Value], **weights: np.ndarray
) -> Path:
    """Write a model."""
    tensors = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", ins, outs, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    opsets += [helper.make_opsetid(d, 1) for d in ("ai.onnx.contrib", "my.domain")]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def branch(name: str, nodes: list[Any], out: str, weights: tuple[Any, ...] = ()) -> Any:
    return helper.make_graph(nodes, name, [], [Value(name=out)], list(weights))


def by_rate(path: Path) -> Path:
    """Doubles or negates, by a rate. One branch hands out what was made before it, the other has a
    weight of its own, and a branch in it with the same names."""
    minus = numpy_helper.from_array(np.float32(-1), "minus")
    inner = N(
        "If",
        ["narrow"],
        ["turned"],
        then_branch=branch("a", [N("Mul", ["x", "minus"], ["m"])], "m"),
        else_branch=branch("b", [N("Neg", ["x"], ["m"])], "m"),
    )
    nodes = [
        N("Add", ["x", "x"], ["twice"]),
        N("Equal", ["sr", "wide"], ["is_wide"]),
        N("Not", ["is_wide"], ["narrow"]),
        N(
            "If",
            ["is_wide"],
            ["y"],
            then_branch=branch("wide_part", [N("Identity", ["twice"], ["m"])], "m"),
            else_branch=branch("narrow_part", [inner], "turned", (minus,)),
        ),
    ]
    ends = [value("x", [1, 4]), value("sr", [], INT)]
    return save(path, nodes, ends, [value("y", None)], wide=np.array(16000, np.int64))


def counting(path: Path) -> Path:
    """Adds a weight three times, in a loop."""
    body = helper.make_graph(
        [N("Add", ["sum", "step"], ["next"]), N("Identity", ["go_on"], ["still"])],
        "body",
        [value("i", [], INT), value("go_on", [], TensorProto.BOOL), value("sum", None)],
        [value("still", [], TensorProto.BOOL), value("next", None)],
        [numpy_helper.from_array(np.full((1, 4), 0.5, np.float32), "step")],
    )
    nodes = [N("Loop", ["three", "", "x"], ["y"], body=body)]
    three = np.array(3, np.int64)
    return save(path, nodes, [value("x", [1, 4])], [value("y", None)], three=three)


def expected(path: Path, feeds: dict[str, np.ndarray], output: str) -> list[float]:
    """What ONNX Runtime makes of the untouched file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [float(n) for n in session.run([output], feeds)[0].ravel()]


CODE = """
import numpy as np
class Rows:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.arange(4, dtype=np.float32)[None] - self.n
def photo(): return np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
def planes(photo): return photo.transpose(2, 0, 1)[None].astype(np.float32)
class Show:
    def __init__(self): self.seen = []
    def __call__(self, out): self.seen += np.ravel(out).tolist()
    def close(self): print("seen", self.seen)
"""
TEXT = """
task Rows {{ out row: float32[1, 4]   python "t.py:Rows" }}
task Show {{ in out: {out}   python "t.py:Show" }}
network Net from "n.onnx" {net}
app A {{ r: Rows  n: Net  s: Show   r -> n -> s }}
"""


def text(net: str = "", out: str = "float32[1, 4]") -> str:
    return TEXT.format(net=net, out=out)


def seen(flow: Path, tmp_path: Path) -> list[float]:
    """What a program of two frames has shown; it equals the reference."""
    out = build(flow, tmp_path / "out")
    compared = harness(out)
    assert compared.returncode == 0, compared.stderr
    result = run(out, "--frames", "2")
    assert result.returncode == 0, result.stderr
    line = next(x for x in result.stdout.splitlines() if x.startswith("seen "))
    found = json.loads(line.removeprefix("seen "))
    assert isinstance(found, list)
    return found


FRAMES = [np.arange(4, dtype=np.float32)[None] - n for n in (1, 2)]


@pytest.mark.parametrize("rate", [16000, 8000])
def test_a_constant_input_decides_branches(rate: int, write: Write, tmp_path: Path) -> None:
    path = by_rate(tmp_path / "n.onnx")
    flow = write(text(f"{{ in x: float32[1, 4]  in sr = {rate} }}"), t_py=CODE)
    system = flowc.load(flow)
    (task,) = (t for t in system.apps[0].tasks if t.network is not None)
    assert task.network is not None and not task.network.one_piece and may_be_cut(task)
    assert [t.name for t in task.network.inputs] == ["x"]
    feeds = {"sr": np.array(rate, np.int64)}
    wanted = [n for x in FRAMES for n in expected(path, {"x": x, **feeds}, "y")]
    assert seen(flow, tmp_path) == wanted


def test_a_port_is_the_input_that_no_constant_is(write: Write, tmp_path: Path) -> None:
    by_rate(tmp_path / "n.onnx")
    flow = write(text("{ in frame: float32[1, 4]  in sr = 16000 }"), t_py=CODE)
    (task,) = (t for t in flowc.load(flow).apps[0].tasks if t.network is not None)
    assert task.network is not None and [t.name for t in task.network.inputs] == ["x"]


def test_what_was_prepared_is_kept_and_the_file_stays(write: Write, tmp_path: Path) -> None:
    path = by_rate(tmp_path / "n.onnx")
    before = path.read_bytes()
    flow = write(text("{ in x: float32[1, 4]  in sr = 16000 }"), t_py=CODE)
    assert flowc.check(flow).ok
    (made,) = (tmp_path / ".flowc").glob("*/n.*.onnx")
    changed = made.stat().st_mtime_ns
    assert flowc.check(flow).ok and made.stat().st_mtime_ns == changed
    assert path.read_bytes() == before


def test_a_loop_stays_in_one_piece(write: Write, tmp_path: Path) -> None:
    path = counting(tmp_path / "n.onnx")
    flow = write(text("{ out y: float32[1, 4] }"), t_py=CODE)
    (task,) = (t for t in flowc.load(flow).apps[0].tasks if t.network is not None)
    assert task.network is not None
    assert task.network.one_piece == "control flow (Loop)" and not may_be_cut(task)
    assert task.network.path == str(path), "nothing in it could be decided"
    assert weights_alone(task.network) == 4 * 4 + 8
    wanted = [n for x in FRAMES for n in expected(path, {"x": x}, "y")]
    assert seen(flow, tmp_path) == wanted


def test_check_and_map_say_that_a_network_stays_whole(write: Write, tmp_path: Path) -> None:
    from flowc.cli import app

    counting(tmp_path / "n.onnx")
    flow = write(text("{ out y: float32[1, 4] }"), t_py=CODE)
    said = CliRunner().invoke(app, ["check", str(flow)]).stdout
    assert "one piece      n stays whole, on a CPU: it has control flow (Loop)" in said
    document = json.loads(CliRunner().invoke(app, ["check", str(flow), "--json"]).stdout)
    assert document["one_piece"] == {"A.n": "control flow (Loop)"}
    build(flow, tmp_path / "out")  # with times
    words = ["map", str(flow), "--explain", "--budget", "2s"]
    said = CliRunner().invoke(app, words).output
    assert "A.n stays whole, on a CPU: it has control flow (Loop)" in said


def test_sizes_stand_at_the_tensor_that_pre_makes(write: Write, tmp_path: Path) -> None:
    sizes = [1, 3, "height", "width"]
    nodes = [N("ReduceMean", ["image"], ["y"], axes=[2, 3], keepdims=0)]
    path = save(tmp_path / "n.onnx", nodes, [value("image", sizes)], [value("y", None)])
    flow = write(
        """
task Photo { out photo: uint8[2, 2, 3]   python "t.py:photo" }
task Show { in out: float32[1, 3]   python "t.py:Show" }
const SIDE = 2
network Net from "n.onnx" {
    in photo: uint8[2, 2, 3] from "image" [1, 3, SIDE, SIDE] pre "t.py:planes"
}
app A { r: Photo  n: Net  s: Show   r -> n -> s }
""",
        t_py=CODE,
    )
    photo = np.arange(12, dtype=np.float32).reshape(2, 2, 3).transpose(2, 0, 1)[None]
    assert seen(flow, tmp_path) == expected(path, {"image": photo}, "y") * 2


def test_onnx_runtime_is_asked_for_sizes_that_onnx_does_not_infer(
    write: Write, tmp_path: Path
) -> None:
    nodes = [
        N("Shape", ["x"], ["sizes"]),
        N("Gather", ["sizes", "last"], ["width"]),
        N("Cast", ["width"], ["wide"], to=FLOAT),
        N("Sqrt", ["wide"], ["root"]),
        N("Cast", ["root"], ["side"], to=INT),
        N("Concat", ["side", "side"], ["square"], axis=0),
        N("Reshape", ["x", "square"], ["y"]),
    ]
    last = np.array([1], np.int64)
    path = save(tmp_path / "n.onnx", nodes, [value("x", ["n", 4])], [value("y", None)], last=last)
    flow = write(text("{ batch 1 }", "float32[2, 2]"), t_py=CODE)
    (task,) = (t for t in flowc.load(flow).apps[0].tasks if t.network is not None)
    assert task.network is not None and str(task.network.outputs[0].type) == "float32[2, 2]"
    assert seen(flow, tmp_path) == [n for x in FRAMES for n in expected(path, {"x": x}, "y")]


def classifier(path: Path) -> Path:
    """As converters of scikit-learn write one: a text for the class, and a map of probabilities."""
    label = helper.make_tensor_value_info("label", TensorProto.STRING, [1])
    maps = helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, None))
    by_class = helper.make_value_info("by_class", helper.make_sequence_type_proto(maps))
    nodes = [
        N("Softmax", ["x"], ["probabilities"]),
        N("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        N(
            "LabelEncoder",
            ["best"],
            ["label"],
            domain="ai.onnx.ml",
            keys_int64s=[0, 1, 2, 3],
            values_strings=["a", "b", "c", "d"],
        ),
        N(
            "ZipMap",
            ["probabilities"],
            ["by_class"],
            domain="ai.onnx.ml",
            classlabels_int64s=[0, 1, 2, 3],
        ),
    ]
    return save(path, nodes, [value("x", ["rows", 4])], [label, by_class])


@pytest.mark.parametrize(
    ("net", "name"),
    [("{ batch 1 }", "by_class"), ('{ batch 1  out chances from "by_class" }', "chances")],
)
def test_outputs_that_no_channel_carries_are_cut_off(
    net: str, name: str, write: Write, tmp_path: Path
) -> None:
    path = classifier(tmp_path / "n.onnx")
    flow = write(text(net), t_py=CODE)
    (task,) = (t for t in flowc.load(flow).apps[0].tasks if t.network is not None)
    assert [p.name for p in task.outputs] == [name], "the rows that ZipMap was given"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = []
    for frame in FRAMES:
        (row,) = session.run(["by_class"], {"x": frame})[0]
        wanted += [row[k] for k in range(4)]
    assert seen(flow, tmp_path) == pytest.approx(wanted, rel=1e-6)


def test_an_output_that_a_port_names_has_to_be_carried(write: Write, tmp_path: Path) -> None:
    classifier(tmp_path / "n.onnx")
    checked = flowc.check(write(text("{ batch 1  out label }"), t_py=CODE))
    assert [d.code for d in checked.diagnostics] == ["F408"]


def test_constants_take_part_in_batches(write: Write, tmp_path: Path) -> None:
    nodes = [N("Mul", ["x", "gain"], ["y"])]
    ends = [value("x", ["rows", 4]), value("gain", [4])]
    path = save(tmp_path / "n.onnx", nodes, ends, [value("y", ["rows", 4])])
    flow = write(text("{ in gain = [0.5, 2, -1, 1 / 4]  batch 2 }"), t_py=CODE)
    gain = np.array([0.5, 2, -1, 0.25], np.float32)
    wanted = [n for x in FRAMES for n in expected(path, {"x": x, "gain": gain}, "y")]
    assert seen(flow, tmp_path) == wanted


def sparse(name: str, shape: list[int], places: Any, *numbers: float, kind: int = FLOAT) -> Any:
    values = helper.make_tensor(name, kind, [len(numbers)], numbers)
    at = numpy_helper.from_array(np.array(places, np.int64), f"{name} at")
    return helper.make_sparse_tensor(values, at, shape)


def odd(case: str) -> Any:
    """A model that ONNX Runtime takes, though it is written in a way that few exporters choose."""
    x, y, nodes = value("x", [1, 4]), value("y", [1, 4]), [N("MatMul", ["x", "w"], ["y"])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    square, functions, notes = [sparse("w", [4, 4], [0, 5, 7], 1, 2, 3)], [], []
    relus = [N("Relu", ["x"], ["a"]), N("Neg", ["a"], ["y"])]
    if case == "rows and columns":
        square = [sparse("w", [4, 4], [[0, 0], [1, 1], [1, 3]], 1, 2, 3)]
    elif case == "large":
        nodes = [N("MatMul", ["x", "w"], ["a"]), N("ReduceSum", ["a", "axes"], ["y"])]
        square = [sparse("w", [4, 4000], [0, 15999], 1, 2), sparse("axes", [1], [0], 1, kind=INT)]
        y = value("y", [1, 1])
    elif case == "whole numbers":
        nodes = [N("Gather", ["x", "w"], ["y"], axis=1)]
        square = [sparse("w", [4], [1, 3], 3, 2, kind=INT)]
    elif case == "a function's attribute":
        leaky = N("LeakyRelu", ["a"], ["b"])
        leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
        functions = [
            helper.make_function("my", "Leak", ["a"], ["b"], [leaky], opsets[:1], ["slope"])
        ]
        nodes = [N("Leak", ["x"], ["y"], domain="my", slope=0.3)]
    elif case == "order":
        nodes = relus[::-1]
    elif case == "domain":
        nodes = [N("Relu", ["x"], ["a"], domain="ai.onnx"), relus[1]]
    elif case == "wrong notes":
        nodes, notes = relus, [value("a", [7])]
    elif case == "constants of one name":
        ones = [N("Constant", [], [t], name="n", value_float=1.0) for t in "ab"]
        nodes = [*ones, N("Add", ["x", "a"], ["c"]), N("Add", ["c", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], value_info=notes, sparse_initializer=square)
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


@pytest.mark.parametrize(
    "case",
    [
        "sparse", "rows and columns", "large", "whole numbers", "a function's attribute", "order",
        "domain", "wrong notes", "constants of one name",
    ],
)  # fmt: skip
def test_what_onnx_runtime_takes_is_read_with_its_sizes(case: str, tmp_path: Path) -> None:
    path = tmp_path / "n.onnx"
    onnx.save(odd(case), path)
    (made,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": FRAMES[0]})
    (ending,) = read_network(path, {}, None).outputs
    assert (ending.dtype, ending.shape) == (made.dtype.name, made.shape)


def test_a_sparse_weight_is_computed_with(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "n.onnx"
    onnx.save(odd("sparse"), path)
    flow = write(text(), t_py=CODE)
    wanted = [n for x in FRAMES for n in expected(path, {"x": x}, "y")]
    assert seen(flow, tmp_path) == wanted


def test_a_model_that_onnx_runtime_refuses_is_refused_with_its_reason(tmp_path: Path) -> None:
    path = by_rate(tmp_path / "n.onnx")
    model = onnx.load(path)
    model.graph.node[0].input[1] = "sr"  # a sum of two types
    onnx.save(model, path)
    look = read_network(path, {}, None)
    wishes = Wishes({"x": (1, 4)}, {"sr": ("16000",)}, frozenset())
    with pytest.raises(NetworkError) as raised:
        prepared(path, look, wishes, tmp_path)
    assert raised.value.code == "F402" and "ONNX Runtime refuses" in raised.value.message
    assert not (tmp_path / ".flowc").exists()


def test_what_is_too_large_to_change_stays_as_it_is(tmp_path: Path) -> None:
    path = by_rate(tmp_path / "n.onnx")
    model = onnx.load(path)
    whole = np.zeros(1 << 10, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(whole, "beside"))
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=1024)
    with (tmp_path / "w.bin").open("r+b") as weights:
        weights.truncate((1 << 31) + 4096)  # on paper: nothing is written
    look = read_network(path, {}, None)
    assert look.external == ("w.bin",)
    shapes = {"x": (1, 4)}
    assert prepared(path, look, Wishes(shapes, {}, frozenset()), tmp_path) == path
    with pytest.raises(NetworkError) as raised:
        prepared(path, look, Wishes(shapes, {"sr": ("16000",)}, frozenset()), tmp_path)
    assert raised.value.code == "F402" and "larger than 2 GB" in raised.value.message


def test_what_a_loop_reads_from_outside_stays(tmp_path: Path) -> None:
    path = counting(tmp_path / "n.onnx")
    model = onnx.load(path)
    (loop,) = model.graph.node
    body = loop.attribute[0].g
    body.node[0].input[1] = "outside"
    model.graph.node.insert(0, N("Neg", ["x"], ["outside"]))
    model.graph.output.append(value("word", [1], TensorProto.STRING))
    word = helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])
    model.graph.node.append(N("Constant", [], ["word"], value=word))
    onnx.save(model, path)
    look = read_network(path, {}, None)
    made = prepared(path, look, Wishes({"x": (1, 4)}, {}, frozenset()), tmp_path)
    assert made != path
    x = FRAMES[0]
    assert expected(made, {"x": x}, "y") == expected(path, {"x": x}, "y")


def test_a_library_of_operators_goes_with_the_build(write: Write, tmp_path: Path) -> None:
    extensions = pytest.importorskip("onnxruntime_extensions")
    library = Path(extensions.get_library_path())
    (tmp_path / "ops.so").write_bytes(library.read_bytes())
    nodes = [
        N("Reshape", ["x", "two"], ["square"]),
        N("Inverse", ["square"], ["y"], domain="ai.onnx.contrib"),
    ]
    two = np.array([2, 2], np.int64)
    path = save(tmp_path / "n.onnx", nodes, [value("x", [1, 4])], [value("y", [2, 2])], two=two)
    flow = write(text('{ library "ops.so" }', "float32[2, 2]"), t_py=CODE)
    (task,) = (t for t in flowc.load(flow).apps[0].tasks if t.network is not None)
    assert task.network is not None
    assert task.network.one_piece == "operators of its own (ai.onnx.contrib.Inverse)"
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    wanted = [float(n) for x in FRAMES for n in session.run(None, {"x": x})[0].ravel()]
    assert seen(flow, tmp_path) == wanted
    assert (tmp_path / "out/networks/ops.so").is_file()


def test_sizes_of_a_file_stand_on_the_command_line(tmp_path: Path) -> None:
    from flowc.cli import app

    nodes = [
        N("Shape", ["x"], ["sizes"]),
        N("Gather", ["sizes", "order"], ["turned"]),
        N("Relu", ["x"], ["r"]),
        N("Reshape", ["r", "turned"], ["y"]),
    ]
    ends = [value("x", ["rows", "columns"])], [value("y", None)]
    path = save(tmp_path / "n.onnx", nodes, *ends, order=np.array([1, 0], np.int64))

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, [words[0], str(path), *words[1:]])

    open_ = call("analyze", "--cuts")
    assert open_.exit_code == 1 and "--shape x=1xSIZE" in open_.stderr
    cuts = json.loads(call("analyze", "--cuts", "--json", "--shape", "x=2x3").stdout)["cuts"]
    assert [(c["layer"], c["bytes"]) for c in cuts] == [("r", 24)]
    assert call("profile", "--shape", "x=2x3", "--seconds", "0.1").exit_code == 0
    for wrong, said in (
        ("z=2x3", "F405"),
        ("x=2", "F406"),
        ("x=two", "--shape"),
        ("2x3", "--shape"),
    ):
        refused = call("analyze", "--shape", wrong)
        assert refused.exit_code != 0 and said in refused.output, wrong
