"""Which layers a GPU takes through TensorRT: rules at their limits, whole networks, and NVIDIA's own
parser beside them, where the extra `rtx` is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.driver.build.accelerators import accelerator_reports
from flowc.driver.build.engine_memory import engine_memory
from flowc.networks.tensorrt import referee
from flowc.networks.tensorrt.operators import NOT_IN_RTX, OFFERED, Version
from flowc.networks.tensorrt.rules import breaches
from flowc.targets import tensorrt as target
from flowc.targets.accelerators import barred_from
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from builds import ROOT, Write

N = helper.make_node
X = (1, 4, 8, 8)
FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
INT8, UINT8, INT64, BOOL = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT64, TensorProto.BOOL
asks_nvidia = pytest.mark.skipif(not referee.is_installed(), reason="pip install 'flowc[rtx]'")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    outputs: Mapping[str, int] = {},
    constants: Mapping[str, np.ndarray] = {},
    opset: int = 17,
) -> onnx.ModelProto:
    """A network with types of its outputs (float32 if not given): the tensors without readers."""
    read = {t for n in nodes for t in n.input}
    outs = [t for n in nodes for t in n.output if t and t not in read]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, kind, dims) for n, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(n, outputs.get(n, FLOAT), None) for n in outs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


#: One layer: its network, the rule that it breaks on TensorRT 11 (empty: none), and how it is let
#: through.
LAYERS: dict[str, tuple[onnx.ModelProto, str]] = {
    "a pool": (
        model([N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], {"x": (FLOAT, X)}),
        "",
    ),
    "a pool with holes": (
        model(
            [N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 1])],
            {"x": (FLOAT, X)},
        ),
        "no dilation",
    ),
    "an average with holes": (
        model(
            [N("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2])],
            {"x": (FLOAT, X)},
            opset=19,
        ),
        "no dilation",
    ),
    "indices of a pool": (
        model(
            [N("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])],
            {"x": (FLOAT, X)},
            {"i": INT64},
        ),
        "one output",
    ),
    "a determinant": (model([N("Det", ["x"], ["y"])], {"x": (FLOAT, X)}), "offered by TensorRT"),
    "an old sum": (
        model([N("Add", ["x", "z"], ["y"])], {"x": (FLOAT, X), "z": (FLOAT, X)}, opset=6),
        "operator set 7 or later",
    ),
    "an old activation": (model([N("Relu", ["x"], ["y"])], {"x": (FLOAT, X)}, opset=6), ""),
    "a reshape": (
        model([N("Reshape", ["x", "s"], ["y"])], {"x": (FLOAT, X)}, {}, {"s": ints(4, 64)}),
        "",
    ),
    "a reshape by its own sizes": (
        model(
            [
                N("Shape", ["x"], ["s"]),
                N("Gather", ["s", "k"], ["g"], axis=0),
                N("Reshape", ["x", "g"], ["y"]),
            ],
            {"x": (FLOAT, X)},
            {},
            {"k": ints(0, 1, 3, 2)},
        ),
        "",
    ),
    "a reshape by data": (
        model([N("Reshape", ["x", "s"], ["y"])], {"x": (FLOAT, X), "s": (INT64, (4,))}),
        "input 1 known",
    ),
    "a sum over computed axes": (
        model([N("ReduceSum", ["x", "a"], ["y"])], {"x": (FLOAT, X), "a": (INT64, (1,))}),
        "input 1 constant",
    ),
    "bytes between layers": (
        model(
            [N("Cast", ["x"], ["b"], to=UINT8), N("Cast", ["b"], ["y"], to=FLOAT)],
            {"x": (FLOAT, X)},
        ),
        "uint8 at the border alone",
    ),
    "bytes that come in": (
        model([N("Cast", ["x"], ["y"], to=FLOAT)], {"x": (UINT8, X)}),
        "",
    ),
    "a product of bytes": (
        model([N("Mul", ["x", "x"], ["y"])], {"x": (UINT8, X)}, {"y": UINT8}),
        "data in floats, integers, int8",
    ),
    "a logical and": (
        model([N("And", ["x", "x"], ["y"])], {"x": (BOOL, X)}, {"y": BOOL}),
        "",
    ),
    "scattered sums": (
        model(
            [N("ScatterND", ["x", "i", "u"], ["y"], reduction="add")],
            {"x": (FLOAT, (4, 4)), "i": (INT64, (2, 1)), "u": (FLOAT, (2, 4))},
        ),
        "no reduction",
    ),
    "smooth shrinking": (
        model(
            [N("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)],
            {"x": (FLOAT, X)},
            {},
            {"s": np.array([1, 1, 0.5, 0.5], np.float32)},
            opset=18,
        ),
        "no antialiasing",
    ),
    "a cubic resize": (
        model(
            [N("Resize", ["x", "", "s"], ["y"], mode="cubic")],
            {"x": (FLOAT, X)},
            {},
            {"s": np.array([1, 1, 2, 2], np.float32)},
        ),
        "",
    ),
    "a remainder of floats": (
        model([N("Mod", ["x", "x"], ["y"], fmod=0)], {"x": (FLOAT, X)}),
        "fmod 1 for floats",
    ),
    "a cubic norm": (
        model([N("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=3)], {"x": (FLOAT, X)}),
        "norm 1 or 2",
    ),
}


def broken(network: onnx.ModelProto, tmp_path: Path, version: Version = (11, 4, 1)) -> list[str]:
    path = tmp_path / "net.onnx"
    onnx.save(network, path)
    return [*dict.fromkeys(breach.rule for breach in breaches(path, tensorrt=version))]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_breaks_a_rule_or_none(name: str, tmp_path: Path) -> None:
    network, rule = LAYERS[name]
    assert broken(network, tmp_path) == ([rule] if rule else [])


@asks_nvidia
def test_nvidias_parser_says_the_same(tmp_path: Path) -> None:
    """The referee shares nothing with the rules: it is TensorRT."""
    paths = []
    for name, (network, _) in LAYERS.items():
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(network, paths[-1])
    said = referee.answers(paths, build=True)
    assert [None if a is None else bool(a.built) for a in said] == [
        not rule for _, rule in LAYERS.values()
    ]


@pytest.mark.parametrize(
    ("operator", "version", "says"),
    [
        ("HardSwish", (8, 5), ["offered by TensorRT"]),
        ("HardSwish", (8, 6), []),
        ("Mish", (8, 6), ["offered by TensorRT"]),
        ("Mish", (10, 3), []),
    ],
)
def test_operators_come_with_versions(
    operator: str, version: Version, says: list[str], tmp_path: Path
) -> None:
    network = model([N(operator, ["x"], ["y"])], {"x": (FLOAT, X)}, opset=18)
    assert broken(network, tmp_path, version) == says


@pytest.mark.parametrize(
    ("kind", "version", "says"),
    [
        (DOUBLE, (11, 4, 1), ["no float64 at the border"]),
        (DOUBLE, (8, 5), ["no float64 at the border"]),
        (INT64, (8, 5), ["no int64 at the border before TensorRT 10"]),
        (INT64, (10, 3), []),
        (HALF, (8, 5), []),
        (
            TensorProto.UINT16,
            (11, 4, 1),
            ["data in floats, integers, bool, int8", "types of TensorRT"],
        ),
    ],
)
def test_borders_keep_their_types(
    kind: int, version: Version, says: list[str], tmp_path: Path
) -> None:
    """A plan would have another type than the program expects, which would end it at its start."""
    network = model([N("Identity", ["x"], ["y"])], {"x": (kind, X)}, {"y": kind})
    assert broken(network, tmp_path, version) == says


@asks_nvidia
def test_float64_becomes_float32_in_tensorrt(tmp_path: Path) -> None:
    """Why flowc is stricter than the parser there: a fact of TensorRT, not of flowc."""
    network = model([N("Identity", ["x"], ["y"])], {"x": (DOUBLE, X)}, {"y": DOUBLE})
    path = tmp_path / "net.onnx"
    onnx.save(network, path)
    script = (
        "import sys, tensorrt_rtx as t; g = t.Logger(t.Logger.ERROR); b = t.Builder(g);"
        " n = b.create_network(0); p = t.OnnxParser(n, g); p.parse_from_file(sys.argv[1]);"
        " print(n.get_input(0).dtype)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60
    )
    assert said.stdout.strip() == "DataType.FLOAT"


@asks_nvidia
def test_every_operator_that_is_offered_is_one_of_the_parser() -> None:
    script = (
        "import sys, tensorrt_rtx as t; g = t.Logger(t.Logger.ERROR); b = t.Builder(g);"
        " n = b.create_network(0); p = t.OnnxParser(n, g);"
        " print(*(o for o in sys.argv[1:] if not p.supports_operator(o)))"
    )
    words = [sys.executable, "-c", script, *sorted(OFFERED)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0
    assert set(said.stdout.split()) <= NOT_IN_RTX


TEXT = """
task In { out x: float32[1, 4, 8, 8]  python "t.py:make" }
network Net from "net.onnx" { in x: float32[1, 4, 8, 8] from "x"  out y: float32[1, 4, 8, 8] from "y" }
task Out { in y: float32[1, 4, 8, 8]  python "t.py:take" }
app A { a: In  n: Net  b: Out  a -> n -> b }
platform board { tensorrt "11.4"  cpu core  gpu ampere compute 8.9 }
platform plain { cpu core  gpu ampere compute 8.9 }
"""
CODE = "def make(): return None\ndef take(y): pass\n"


def written(write: Write, network: onnx.ModelProto, pin: str = "") -> Path:
    flow = write(TEXT + pin, t_py=CODE)
    onnx.save(network, flow.parent / "net.onnx")
    return flow


def partly() -> onnx.ModelProto:
    """Relu, a pool with holes, Relu: all as large as before."""
    return model(
        [
            N("Relu", ["x"], ["a"]),
            N(
                "MaxPool",
                ["a"],
                ["b"],
                kernel_shape=[3, 3],
                dilations=[2, 2],
                pads=[2, 2, 2, 2],
            ),
            N("Relu", ["b"], ["y"]),
        ],
        {"x": (FLOAT, X)},
    )


def faults(flow: Path, platform: str) -> list[str]:
    found = flowc.check(flow, platform=platform).diagnostics
    return [f"{d.code}: {d.message}" for d in found if d.severity == "error"]


def test_a_pin_to_the_gpu_is_refused_with_the_layer(write: Write) -> None:
    flow = written(write, partly(), "mapping on board { A.n -> ampere }\n")
    (fault,) = faults(flow, "board")
    assert fault == (
        "F510: `A.n` cannot run on a GPU with TensorRT 11.4: MaxPool `b`: no dilation"
        " (dilation 2x2)"
    )


def test_stages_around_the_layer_run_on_the_gpu(write: Write) -> None:
    pin = 'mapping on board { A.n -> ampere until "a" | core until "b" | ampere }\n'
    assert faults(written(write, partly(), pin), "board") == []


def test_without_tensorrt_the_gpu_takes_it(write: Write) -> None:
    flow = written(write, partly(), "mapping on plain { A.n -> ampere }\n")
    assert faults(flow, "plain") == []


def test_check_prints_the_layers_only_where_some_are_refused(write: Write) -> None:
    checked = flowc.check(written(write, partly()), platform="board").require()
    (report,) = accelerator_reports(checked.system, checked.platform)
    assert (report.kind, report.layers, report.legal) == ("gpu", 3, 2)
    whole = model([N("Relu", ["x"], ["y"])], {"x": (FLOAT, X)})
    checked = flowc.check(written(write, whole), platform="board").require()
    assert accelerator_reports(checked.system, checked.platform) == ()


def test_searches_keep_the_layer_off_the_gpu(write: Write) -> None:
    valid = flowc.check(written(write, partly()), platform="board").require()
    barred = barred_from(valid.tasks["A.n"], valid.platform)
    assert [barred("gpu", layer) for layer in "aby"] == [False, True, False]
    assert not barred("cpu", "b")


def test_what_the_parser_alone_refuses_counts_too(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra, TensorRT's own words stand in the message."""
    said = (referee.Breach("a", "Relu", referee.RULE, "not on a Sunday"),)
    monkeypatch.setattr(target, "is_installed", lambda: True)
    monkeypatch.setattr(target, "refused", lambda path, passed: said)
    whole = model([N("Relu", ["x"], ["a"]), N("Relu", ["a"], ["y"])], {"x": (FLOAT, X)})
    (fault,) = faults(written(write, whole, "mapping on board { A.n -> ampere }\n"), "board")
    assert fault.endswith("Relu `a`: TensorRT's parser takes it (not on a Sunday)")


def test_a_parser_that_crashes_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(partly(), path)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert referee.ask(path) is None
    assert referee.refused(path) == ()


@asks_nvidia
def test_every_refused_layer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(partly(), path)
    (breach,) = referee.refused(path)
    assert (breach.layer, breach.op) == ("b", "MaxPool")
    assert "dilations" in breach.detail


@asks_nvidia
@pytest.mark.parametrize("platform", ["xavier", "orin", "orin_jetpack7"])
def test_tensorrt_builds_every_file_that_a_build_writes(platform: str, tmp_path: Path) -> None:
    """Stages, types and 8 bits as each generation gets them; benchmarks/tensorrt_files.py has all."""
    directory = tmp_path / "out"
    flowc.build(
        ROOT / "examples/detector/detector.flow", directory, platform=platform, measure=False
    )
    files = [*(directory / "networks").glob("*.onnx")]
    assert files
    for file, answer in zip(files, referee.answers(files, build=True), strict=True):
        assert answer is not None and answer.built, (file.name, answer)


def test_tensorrt_for_rtx_lacks_some_operators(write: Write) -> None:
    """Its own version counts from 1, and its parser is that of TensorRT 11."""
    nonzero = model([N("NonZero", ["x"], ["y"])], {"x": (FLOAT, (4,))}, {"y": INT64})
    flow = write("")
    onnx.save(nonzero, flow.parent / "n.onnx")
    found = {v: breaches(flow.parent / "n.onnx", tensorrt=v) for v in ((11, 4), (1, 7))}
    assert found[11, 4] == ()
    assert [b.rule for b in found[1, 7]] == ["offered by TensorRT for RTX"]


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("rtx 1.7", ""),
        ("1.7", "TensorRT 1.7 has no `execute_async_v3`"),
        ("rtx 10.3", "`rtx 10.3` is no version"),
        ("rtx", "`rtx` is no version"),
    ],
)
def test_versions_in_platforms(write: Write, version: str, said: str) -> None:
    text = f'platform p {{ tensorrt "{version}"  cpu core  gpu g compute 8.9 }}'
    found = [d.message for d in flowc.check(write(text), platform="p").diagnostics]
    assert found == ([said] if said else [])


@asks_nvidia
def test_the_builders_memory_stands_beside_the_plan(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights are the same bytes, rounded up; what lies between layers is the builder's matter."""
    net = model(
        [N("Conv", ["x", "w"], ["c"], pads=[1] * 4), N("Relu", ["c"], ["y"])],
        {"x": (FLOAT, X)},
        {},
        {"w": np.ones((16, 4, 3, 3), np.float32)},
    )
    text = write(
        'network Net from "n.onnx" { in x: float32[1, 4, 8, 8]   out y: float32[1, 16, 8, 8] }\n'
        'task S { out x: float32[1, 4, 8, 8]   python "t.py:s" }\n'
        'task P { in y: float32[1, 16, 8, 8]   python "t.py:p" }\n'
        "app A { s: S   n: Net   p: P   s -> n -> p }\n"
        'platform roomy { tensorrt "11.4.1"  cpu core memory 1 GiB  gpu ampere compute 8.7 }\n'
        'platform bare { tensorrt "11.4.1"  cpu core  gpu ampere compute 8.7 }\n',
        t_py="def s():\n    pass\ndef p(y):\n    pass\n",
    )
    onnx.save(net, text.parent / "n.onnx")
    valid = flowc.check(text, platform="roomy").require()
    (memory,) = engine_memory([valid.system, valid.system], valid.platform)
    assert memory.network == "Net" and memory.planned_weights == 16 * 4 * 9 * 4
    assert 0 <= memory.weights - memory.planned_weights < 1024
    assert memory.planned_between == 0 <= memory.between
    bare = flowc.check(text, platform="bare").require()
    assert engine_memory([bare.system], bare.platform) == ()
    shown = CliRunner().invoke(app, ["check", str(text), "--platform", "roomy"])
    assert "Net in TensorRT for RTX: 0.00 MB of weights" in shown.stdout
    done = CliRunner().invoke(app, ["check", str(text), "--platform", "roomy", "--json"])
    assert json.loads(done.stdout)["tensorrt"][0]["weights"] == memory.weights
    net.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(net, text.parent / "n.onnx")
    alone = CliRunner().invoke(app, ["analyze", str(text.parent / "n.onnx"), "--memory", "--json"])
    assert json.loads(alone.stdout)["tensorrt"]["between"] == memory.between
