"""Programs for GPUs and DLAs, without either: compiled by NVRTC, checked against TensorRT's
bindings, run on stand-ins.

What these tests cannot show is said in docs/gpu.md.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import flowc
import numpy as np
import onnx
import pytest
from flowc.cli import app
from flowc.codegen.nvrtc import compiled, libraries
from flowc.driver.measure import devices as device
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.driver.solve.throughput_problem import problem_of
from flowc.driver.text import store
from flowc.driver.text.check import Checked, Valid, prepare
from flowc.dsl.kernels import kernels
from flowc.machines.host import HERE, Done, Here
from flowc.model.diagnostic import Errors
from flowc.model.profile import LayerTime, Profile, ProfileEntry
from flowc.model.times import times_of
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.tensorrt.referee import is_installed
from flowc.profiling.identity import task_hashes
from flowc.runtime import engines
from flowc.runtime.tokens import Port
from flowc.search.deadline.problem import JointProblem
from flowc.search.throughput.problem import Problem
from onnx import TensorProto, helper
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write, build, harness, placed, run, store_profile
from forks import FLOWC, PROGRAM, forks
from stand_in_runs import on_stand_in
from tensorrt_api import type_faults_of

#: A board for each generation of TensorRT, and the version that stands in for it.
BOARDS = {"trt8": ("xavier", "8.5.2"), "trt10": ("orin", "10.3.0"), "trt11": ("strong", "11.4.1")}
STRONG = """use "detector.flow"
platform strong { module agx_orin  tensorrt "11.4.1"  cpu core[4]  gpu ampere compute 8.7  dla nvdla[2] engines 16 each }
mapping on strong { Detect.find -> ampere until "entry" | nvdla[0], nvdla[1] until "neck" | ampere }
"""
PARTLY = """
task In { out x: float32[1, 3, 8, 8]  python "t.py:make" }
network Net from "n.onnx" { in x: float32[1, 3, 8, 8] from "x"  out y: float32[1, 3, 8, 8] from "y"  precision fp16 }
task Out { in y: float32[1, 3, 8, 8]  python "t.py:take" }
app A { a: In  n: Net  b: Out  a -> n -> b }
platform board { tensorrt "10.3"  cpu core  gpu ampere compute 8.7  dla nvdla }
platform bare { tensorrt "10.3"  cpu core  dla nvdla }
"""
MAKE_AND_TAKE = """
import numpy as np
def make():
    return np.ones((1, 3, 8, 8), np.float32)
def take(y):
    pass
"""
SCRIPTS = ("engines.py", "build_engines.py", "profile_engines.py")


def _problem(valid: Valid, profile: Profile) -> Problem:
    return problem_of(valid, times_of(valid.system, valid.platform, profile), profile)


def _joint(valid: Valid, profile: Profile) -> JointProblem:
    return joint_problem(valid, times_of(valid.system, valid.platform, profile))


@pytest.fixture(scope="module")
def copies(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with all their networks, since profiles are written beside them."""
    folder = tmp_path_factory.mktemp("gpu") / "examples"
    ignored = shutil.ignore_patterns("*.profile.json", "*.mapping.json", "build", ".flowc")
    shutil.copytree(examples, folder, ignore=ignored)
    detector = folder / "detector"
    (detector / "strong.flow").write_text(STRONG)
    small = (
        (detector / "detector.flow")
        .read_text()
        .replace("precision fp16", 'precision int8 calibrate "image.npy"')
    )
    (detector / "int8.flow").write_text(small)
    (detector / "strong8.flow").write_text(STRONG.replace("detector.flow", "int8.flow"))
    np.save(detector / "image.npy", np.random.default_rng(0).random((4, 3, 192, 256), np.float32))
    return folder


@pytest.fixture(scope="module")
def detectors(copies: Path) -> dict[str, Path]:
    """The example `detector`, built for each generation of TensorRT."""
    made = {}
    for dialect, (board, _) in BOARDS.items():
        text = copies / "detector" / ("strong.flow" if board == "strong" else "detector.flow")
        prepare(text, platform=board)
        made[dialect] = build(text, copies.parent / dialect, platform=board)
    return made


@pytest.fixture(scope="module")
def in_8_bits(copies: Path) -> dict[str, Path]:
    """The same in 8 bits."""
    made = {}
    for dialect, (board, _) in BOARDS.items():
        text = copies / "detector" / ("strong8.flow" if board == "strong" else "int8.flow")
        prepare(text, platform=board)
        made[dialect] = build(text, copies.parent / f"{dialect}.int8", platform=board)
    return made


def save(path: Path, nodes: list[onnx.NodeProto], result: list[int]) -> None:
    """A network from x to y with a weight w."""
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, d)
        for n, d in (("x", [1, 3, 8, 8]), ("y", result))
    ]
    weight = onnx.numpy_helper.from_array(
        np.random.default_rng(0).random((3, 3, 3, 3), np.float32), "w"
    )
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [weight])
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path
    )


def first_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


# -- kernels, compiled for boards ------------------------------------------------------------------
@pytest.mark.skipif(not libraries(), reason="no compiler for CUDA: install the extra `cuda`")
@pytest.mark.parametrize("compute", [(7, 2), (8, 7), (9, 0)])
@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/*.cu")), ids=lambda f: f.name)
def test_kernels_of_the_examples_compile(file: Path, compute: tuple[int, int]) -> None:
    found = compiled(file, compute)
    assert found is not None, f"no NVRTC here knows sm_{compute[0]}{compute[1]}"
    code, said = found
    assert code[:4] == b"\x7fELF", said
    for kernel in re.findall(r"__global__ void (\w+)", file.read_text()):
        assert b".text." + kernel.encode() in code


# -- TensorRT, against its bindings ----------------------------------------------------------------
@pytest.mark.parametrize("dialect", BOARDS)
def test_programs_for_tensorrt_fit_its_bindings(
    dialect: str,
    detectors: dict[str, Path],
    in_8_bits: dict[str, Path],
    tensorrt_stubs: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    texts = {script: (detectors[dialect] / script).read_text() for script in SCRIPTS}
    texts["in_8_bits.py"] = (in_8_bits[dialect] / "build_engines.py").read_text()
    texts["wrong.py"] = texts["build_engines.py"].replace(
        "build_serialized_network", "build_serialised_network"
    )
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    shutil.copytree(detectors[dialect] / "runtime", tmp_path / "runtime")
    found = type_faults_of([tmp_path / name for name in texts], tensorrt_stubs(dialect))
    assert found.pop("wrong.py") and found == {name: [] for name in texts if name != "wrong.py"}


@pytest.mark.parametrize("dialect", BOARDS)
def test_programs_for_tensorrt_are_as_expected(
    dialect: str, detectors: dict[str, Path], in_8_bits: dict[str, Path]
) -> None:
    """Golden programs; FLOWC_REWRITE_GOLDEN=1 rewrites them."""
    files = {f"detector.{dialect}.{s}": detectors[dialect] / s for s in SCRIPTS[:2]}
    if dialect == "trt8":
        files |= {
            f"detector.{dialect}.{s}": detectors[dialect] / s for s in ("main.py", SCRIPTS[2])
        }
        files["detector.trt8.int8.build_engines.py"] = in_8_bits[dialect] / "build_engines.py"
    for name, file in files.items():
        # what a model was converted to is called after the version of ONNX Runtime that did it
        text = re.sub(r"fp16-[0-9a-f]{6}", "fp16-012345", file.read_text())
        text = re.sub(r'"int8", 1, "[0-9a-f]{12}"', '"int8", 1, "0123456789ab"', text)
        golden = ROOT / "tests" / "golden" / name
        if os.environ.get("FLOWC_REWRITE_GOLDEN"):
            golden.write_text(text)
        assert text == golden.read_text()


def test_a_program_with_kernels_is_as_expected(denoise: Path) -> None:
    golden = ROOT / "tests" / "golden" / "denoise.main.py"
    if os.environ.get("FLOWC_REWRITE_GOLDEN"):
        golden.write_text((denoise / "main.py").read_text())
    assert (denoise / "main.py").read_text() == golden.read_text()


@pytest.mark.parametrize("dialect", BOARDS)
def test_programs_for_tensorrt_keep_its_protocol(dialect: str, detectors: dict[str, Path]) -> None:
    """Plans are built once; the program gives the twin's results; its harness passes; nothing is
    out of order."""
    directory, version = detectors[dialect], BOARDS[dialect][1]
    missing = on_stand_in(directory, "main.py", "--frames", "6", tensorrt=version)
    assert missing.returncode == 1 and "run python3 build_engines.py" in missing.stderr
    built = on_stand_in(directory, "build_engines.py", tensorrt=version)
    assert built.returncode == 0 and built.stdout.count("built in") == 3, built.stderr
    again = on_stand_in(directory, "build_engines.py", tensorrt=version)
    assert again.stdout.count("is there") == 3
    wanted = first_line(run(directory, "--frames", "6", "--twin"))
    report = directory.with_suffix(".json")
    for shared in (False, True):
        done = on_stand_in(
            directory,
            "main.py",
            "--frames",
            "6",
            "--report",
            str(report),
            tensorrt=version,
            integrated=shared,
        )
        assert "0 violations" in done.stderr
        assert first_line(done) == wanted
    # Stages of one worker share an arena; an engine of the stand-in takes 4096 bytes.
    document = json.loads((directory / "deployment.json").read_text())
    engines = {t["name"] for t in document["apps"][0]["tasks"] if t["code"]["kind"] == "engine"}
    users = [sum(e["task"] in engines for e in w["order"]) for w in document["processors"]]
    shared, apart = sum(n > 0 for n in users), sum(users)
    assert shared < apart
    assert json.loads(report.read_text())["memory"]["arenas"] == {
        "shared": 4096 * shared,
        "apart": 4096 * apart,
    }
    tested = on_stand_in(directory, "tests/test_detect.py", tensorrt=version)
    assert "OK" in tested.stderr and "0 violations" in tested.stderr, tested.stderr


@pytest.mark.parametrize("dialect", BOARDS)
def test_programs_in_8_bits_keep_the_protocol(dialect: str, in_8_bits: dict[str, Path]) -> None:
    """On GPUs and from TensorRT 11 on with Q/DQ layers: the twin's results. DLAs before are told
    ranges: nearly those."""
    directory, version = in_8_bits[dialect], BOARDS[dialect][1]
    for script in ("build_engines.py", "profile_engines.py"):
        done = on_stand_in(directory, script, tensorrt=version)
        assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert re.search(r"stage2\.onnx on a dla: \d+\.\d+ ms", done.stdout)
    done = on_stand_in(directory, "main.py", "--frames", "6", tensorrt=version)
    assert "0 violations" in done.stderr, done.stderr
    told = len(list(directory.glob("networks/*stage2.implicit.*")))
    assert told == (0 if dialect == "trt11" else 2)
    found, wanted = first_line(done), first_line(run(directory, "--frames", "6", "--twin"))
    if told:
        things = [int(re.findall(r"\d+", line)[1]) for line in (found, wanted)]
        assert things[0] == pytest.approx(things[1], rel=0.2)
    else:
        assert found == wanted


def test_a_stage_of_8_bits_may_have_nothing_in_8_bits(write: Write, tmp_path: Path) -> None:
    """Behind the DLA, the GPU has the tail of the network; of scales nothing is said there, and
    nothing is asked."""
    text = write(
        PARTLY.replace("precision fp16", 'precision int8 calibrate "n.npy"')
        .replace('[1, 3, 8, 8] from "y"', '[1, 3, 1, 1] from "y"')
        .replace("in y: float32[1, 3, 8, 8]", "in y: float32[1, 3, 1, 1]")
        + 'mapping on board { A.n -> nvdla until "b" | ampere }',
        t_py=MAKE_AND_TAKE,
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("GlobalAveragePool", ["b"], ["y"], "third"),
    ]
    save(text.parent / "n.onnx", nodes, [1, 3, 1, 1])
    np.save(text.parent / "n.npy", np.ones((1, 3, 8, 8), np.float32))
    prepare(text, platform="board")
    directory = build(text, tmp_path / "out", platform="board")
    done = on_stand_in(directory, "build_engines.py")
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert on_stand_in(directory, "main.py", "--frames", "3").returncode == 0


def test_constants_of_a_stage_in_8_bits_are_told_their_ranges(write: Write, tmp_path: Path) -> None:
    """TensorRT calls a layer after a constant, and not the tensor that the layer makes."""
    pin = 'mapping on board { A.n -> nvdla until "d" | ampere }'
    text = write(
        PARTLY.replace("precision fp16", 'precision int8 calibrate "n.npy"') + pin,
        t_py=MAKE_AND_TAKE,
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node(
            "Constant", [], ["three"], value=onnx.numpy_helper.from_array(np.array(3, np.float32))
        ),
        helper.make_node("Relu", ["a"], ["b"], "rectify"),
        helper.make_node("Mul", ["b", "three"], ["d"], "second"),
        helper.make_node("Conv", ["d", "w"], ["y"], "third", pads=[1] * 4),
    ]
    save(text.parent / "n.onnx", nodes, [1, 3, 8, 8])
    np.save(text.parent / "n.npy", np.ones((1, 3, 8, 8), np.float32))
    prepare(text, platform="board")
    directory = build(text, tmp_path / "out", platform="board")
    script = (directory / "build_engines.py").read_text()
    asked = script.replace(
        "tensor.set_dynamic_range(",
        "print('range', tensor.name, largest); tensor.set_dynamic_range(",
    )
    assert asked != script
    (directory / "build_engines.py").write_text(asked)
    done = on_stand_in(directory, "build_engines.py")
    assert done.returncode == 0 and re.search(
        r"range \(Unnamed Layer\* \d+\) \[Constant\]_output 3\.0", done.stdout
    )


def test_layers_know_their_nodes_where_the_inspector_is_no_strict_json(
    detectors: dict[str, Path],
) -> None:
    directory = detectors["trt8"]
    for script in (
        ["build_engines.py"],
        ["profile_engines.py", "--runs", "2", "--report", "layers.json"],
    ):
        done = on_stand_in(directory, *script, tensorrt="8.6.1")
        assert done.returncode == 0, done.stderr
    first, *_ = json.loads((directory / "layers.json").read_text())
    assert [x["nodes"] for x in first["layers"][:3]] == [
        [],
        ["stem.sum", "stem"],
        ["entry.sum", "entry"],
    ]


def test_a_plan_of_another_version_is_named(detectors: dict[str, Path]) -> None:
    directory = detectors["trt10"]
    on_stand_in(directory, "build_engines.py", tensorrt="10.3.0")
    done = on_stand_in(directory, "main.py", "--frames", "6", tensorrt="10.7.0")
    assert done.returncode == 1
    assert re.search(
        r"was built by TensorRT 10\.3\.0\S*, and this is 10\.7\.0\S*: run python3 build_engines",
        done.stderr,
    )
    program = (directory / "main.py").read_text()
    (directory / "main.py").write_text(re.sub(r'digest="\w+"', 'digest="0123456789ab"', program))
    try:
        done = on_stand_in(directory, "main.py", "--frames", "6", tensorrt="10.3.0")
    finally:
        (directory / "main.py").write_text(program)
    assert "was built from another version of the model" in done.stderr


def test_plans_depend_on_all_that_they_are_built_from(copies: Path, tmp_path: Path) -> None:
    """Shapes, help from the GPU, and weights beside the model."""
    folder = tmp_path / "detector"
    shutil.copytree(copies / "detector", folder)
    model = onnx.load(folder / "yolo.onnx")
    seen = set()
    board = 'use "detector.flow"\nplatform board { tensorrt "10.3"  cpu core[2]  gpu ampere  dla nvdla }\n'
    for pin in ("nvdla", "nvdla fallback gpu", "weights"):
        if pin == "weights":
            onnx.save(
                model,
                folder / "yolo.onnx",
                save_as_external_data=True,
                location="weights.bin",
                size_threshold=1024,
            )
            content = bytearray((folder / "weights.bin").read_bytes())
            content[100] ^= 1
            (folder / "weights.bin").write_bytes(content)
        text = folder / "board.flow"
        text.write_text(
            board + f"mapping on board {{ Detect.find -> {'nvdla' if pin == 'weights' else pin} }}"
        )
        out = build(text, tmp_path / f"out{len(seen)}", platform="board")
        seen |= set(re.findall(r'digest="(\w+)"', (out / "main.py").read_text()))
    assert len(seen) == 3


def test_a_stage_that_the_dla_refuses_is_not_built(detectors: dict[str, Path]) -> None:
    done = on_stand_in(
        detectors["trt8"],
        "build_engines.py",
        "--force",
        tensorrt="8.5.2",
        machine={"on_dla": ["CONVOLUTION"]},
    )
    assert done.returncode == 1
    assert "the DLA cannot run:" in done.stderr and "Traceback" not in done.stderr


# -- kernels on stand-ins --------------------------------------------------------------------------
@pytest.fixture(scope="module")
def denoise(copies: Path) -> Path:
    return build(copies / "denoise" / "denoise.flow", copies.parent / "denoise", platform="xavier")


@pytest.mark.parametrize("shared", [False, True], ids=["own memory", "shared memory"])
def test_kernels_give_the_results_of_their_twins(denoise: Path, shared: bool) -> None:
    done = on_stand_in(denoise, "main.py", "--frames", "3", integrated=shared)
    assert "0 violations" in done.stderr
    assert (
        first_line(done).split("mean")[0]
        == first_line(run(denoise, "--frames", "3", "--twin")).split("mean")[0]
    )


def test_graphs_give_the_same(copies: Path, tmp_path: Path) -> None:
    text = copies / "denoise" / "graphs.flow"
    text.write_text('use "denoise.flow"\nmapping on xavier { Clean.edges -> volta graph }')
    directory = build(text, tmp_path / "graphs", platform="xavier")
    assert "graph=True" in (directory / "main.py").read_text()
    done = on_stand_in(directory, "main.py", "--frames", "3")
    assert "0 violations" in done.stderr
    assert first_line(done) == first_line(
        on_stand_in(directory, "main.py", "--frames", "3", graphs=False)
    )


@pytest.mark.parametrize(
    ("board", "middle", "crossing"),
    [
        ("xavier", "nvdla[0]", 251_904),
        ("orin", "nvdla[0], nvdla[1]", 251_904),
        ("orin_jetpack7", "nvdla[0]", 251_904),
        ("xavier", "carmel[0]", 503_808),  # a CPU reads and makes what its network has
    ],
)
def test_stages_in_fp16_give_each_other_16_bits(
    copies: Path, board: str, middle: str, crossing: int
) -> None:
    text = copies / "detector" / "half.flow"
    start = (copies / "detector" / "detector.flow").read_text().partition("/// GPU, DLA")[0]
    gpu = "volta" if board == "xavier" else "ampere"
    pin = f'{gpu} until "entry" | {middle} until "neck" | {gpu}'
    text.write_text(f"{start}mapping on {board} {{ Detect.find -> {pin} }}")
    assert crossing_bytes(prepare(text, platform=board)) == crossing
    if board == "xavier":  # a native program has no TensorRT: it is measured on a CPU alone
        assert crossing_bytes(prepare(text, platform=board, native=True)) == 503_808


def crossing_bytes(checked: Checked) -> int:
    """Bytes between the stages of the detector."""
    (app,) = checked.require().system.apps
    tasks = [task for task in app.tasks if "stage" in task.name]
    inputs = [p for task in tasks for p in task.inputs if p.name != "image"]
    return sum(port.type.bytes for port in inputs if port.type)


@pytest.fixture(scope="module")
def on_rtx(copies: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The detector for a PC with an RTX card: two parts on the GPU, one on a CPU."""
    start = (copies / "detector" / "detector.flow").read_text().partition("/// GPU, DLA")[0]
    text = copies / "detector" / "rtx.flow"
    pin = 'cuda until "entry" streams 2 graph | core[0] until "neck" | cuda graph buffers 4'
    text.write_text(f"{start}mapping on rtx_pc {{ Detect.find -> {pin} }}")
    return build(text, tmp_path_factory.mktemp("rtx") / "out", platform="rtx_pc")


def test_programs_for_rtx_keep_the_protocol(on_rtx: Path) -> None:
    """A plan is for a compute capability, and is made without a card."""
    assert "tensorrt-rtx==1.7.*" in (on_rtx / "requirements.txt").read_text()
    card = {"tensorrt": "rtx 1.7.1", "capability": (8, 9), "device": "RTX 4070"}
    built = on_stand_in(on_rtx, "build_engines.py", **card)
    assert built.returncode == 0 and "0 violations" in built.stderr, built.stderr
    plans = sorted(file.name.partition(".trt-")[2] for file in (on_rtx / "engines").iterdir())
    assert plans == ["rtx-1.7.1.sm89.plan"] * 2
    wanted = first_line(run(on_rtx, "--frames", "6", "--twin"))
    for graphs in (True, False):
        done = on_stand_in(on_rtx, "main.py", "--frames", "6", graphs=graphs, **card)
        assert "0 violations" in done.stderr and first_line(done) == wanted, done.stderr
    older = on_stand_in(on_rtx, "main.py", **{**card, "capability": (8, 6)})
    assert "was built by TensorRT rtx-1.7.1.sm89, and this is rtx-1.7.1.sm86" in older.stderr
    assert on_stand_in(on_rtx, "build_engines.py", "--compute", "8.6", **card).returncode == 0
    done = on_stand_in(on_rtx, "main.py", "--frames", "6", **{**card, "capability": (8, 6)})
    assert first_line(done) == wanted
    profiled = on_stand_in(on_rtx, "profile_engines.py", "--runs", "2", **card)
    assert profiled.returncode == 0, profiled.stderr


@pytest.mark.skipif(not is_installed(), reason="pip install 'flowc[rtx]'")
def test_plans_for_rtx_are_built_by_tensorrt_itself(on_rtx: Path, tmp_path: Path) -> None:
    """By NVIDIA's builder, for another card than there is here: there is none."""
    copy = shutil.copytree(on_rtx, tmp_path / "out", ignore=shutil.ignore_patterns("engines"))
    command = [sys.executable, copy / "build_engines.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    assert done.stdout.count("built in") == 2
    again = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert again.stdout.count("is there") == 2
    for words, said in (
        ("8.7", "no plans for compute capability 8.7"),
        ("x", "x is no compute capability"),
    ):
        other = subprocess.run(
            [*command, "--compute", words], capture_output=True, text=True, timeout=HANGS
        )
        assert other.returncode == 1 and said in other.stderr and "Traceback" not in other.stderr


def test_networks_in_graphs_give_the_same(copies: Path, tmp_path: Path) -> None:
    """TensorRT's kernels, too; the DLA's part cannot be recorded, and ONNX Runtime's kernels."""
    text = copies / "detector" / "graphs.flow"
    start = (copies / "detector" / "detector.flow").read_text().partition("/// GPU, DLA")[0]
    pin = 'volta until "entry" graph | nvdla[0] until "neck" graph | volta streams 2 graph'
    text.write_text(f"{start}mapping on xavier {{ Detect.find -> {pin} }}")
    messages = [d.message for d in flowc.check(text, platform="xavier").diagnostics]
    assert messages == ["`Detect.find.stage2` starts no kernels that could be recorded"]
    text.write_text(text.read_text().replace('"neck" graph', '"neck"'))
    directory = build(text, tmp_path / "graphs", platform="xavier")
    assert (directory / "main.py").read_text().count("graph=True") == 2
    on_stand_in(directory, "build_engines.py", tensorrt="8.5.2")
    lines = []
    for graphs in (True, False):
        done = on_stand_in(directory, "main.py", "--frames", "6", tensorrt="8.5.2", graphs=graphs)
        assert "0 violations" in done.stderr, done.stderr
        lines.append(first_line(done))
    assert lines == [first_line(run(directory, "--frames", "6", "--twin"))] * 2
    text.write_text(f"{start}mapping on desktop {{ Detect.find -> cuda graph }}")
    messages = [d.message for d in flowc.check(text, platform="desktop").diagnostics]
    assert messages == ["`Detect.find` runs in ONNX Runtime, whose kernels cannot be recorded"]


STATES = """
use "denoise.flow"
graph Seen(seed: int) {
    camera: Camera(seed = seed)   edges: Edges(height = HEIGHT, width = WIDTH)   show: Show
    camera -> edges, show.clean   edges -> show.edges
}
app Left { seen: Seen(seed = 1) }
app Right { seen: Seen(seed = 2) }
scenario S {
    initial state left { run Left }
    state both { run Left, Right }
    left -> both after 1 ms   both -> left after 1 ms
}
"""


def test_kernels_go_on_through_changes_of_state(copies: Path, tmp_path: Path) -> None:
    """Workers of several states share the code of a kernel, each with a stream of its own."""
    text = copies / "denoise" / "states.flow"
    text.write_text(STATES)
    directory = build(text, tmp_path / "states", platform="xavier")
    done = on_stand_in(directory, "main.py", "--frames", "4", "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["apps"]["Left"]["frames"] == 4 and len(document["switches"]) >= 1


def test_a_failing_kernel_is_named(denoise: Path) -> None:
    later = on_stand_in(denoise, "main.py", "--frames", "5", fail=["soften", 2])
    assert later.returncode != 0 and "Clean.edges at firing" in later.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in later.stderr
    # Where several firings are under way, all of them are named.
    assert "--strict" in later.stderr or "in Clean.edges at firing 1 (" in later.stderr
    strict = on_stand_in(denoise, "main.py", "--frames", "5", "--strict", fail=["soften", 2])
    assert re.search(
        r"task Clean\.edges failed at firing 1: CUDA_ERROR_ILLEGAL_ADDRESS.*kernel soften",
        strict.stderr,
    )
    at_once = on_stand_in(
        denoise,
        "main.py",
        "--frames",
        "5",
        fail=["gradient", 3, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", True],
    )
    assert re.search(
        r"task Clean\.edges failed at firing 2: CUDA_ERROR_LAUNCH_OUT_OF.*kernel gradient",
        at_once.stderr,
    )


# -- networks through ONNX Runtime -----------------------------------------------------------------
@pytest.mark.parametrize(
    "pin", ["cuda", "cuda streams 3", 'cuda until "entry" | cuda until "neck" streams 2 | cuda']
)
def test_networks_run_through_the_cuda_provider(copies: Path, tmp_path: Path, pin: str) -> None:
    text = copies / "detector" / "pc.flow"
    text.write_text(f'use "detector.flow"\nmapping on desktop {{ Detect.find -> {pin} }}')
    directory = build(text, tmp_path / "pc", platform="desktop")
    done = on_stand_in(directory, "main.py", "--frames", "6")
    assert "0 violations" in done.stderr, done.stderr
    assert first_line(done) == first_line(run(directory, "--frames", "6", "--twin"))
    assert "OK" in on_stand_in(directory, "tests/test_detect.py").stderr


def test_counts_in_batches_run_through_the_cuda_provider(copies: Path, tmp_path: Path) -> None:
    """Each page has another number of digits, which are read eight at a time."""
    directory = build(copies / "reader" / "reader.flow", tmp_path / "reader", platform="desktop")
    done = on_stand_in(directory, "main.py", "--frames", "6", "--quiet")
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert done.stdout == run(directory, "--frames", "6", "--quiet", "--twin").stdout
    assert "100.0 %" in done.stdout


def test_the_benchmark_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sides run, and what stays on the device needs no way through the host."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "STREAMS", range(2, 3))
    unmeasured = flowc.build

    def built(text: Path, output: Path, platform: str) -> object:
        store_profile(text, platform=platform)
        return unmeasured(text, output, platform=platform)

    monkeypatch.setattr(flowc, "build", built)
    gpu.prepare(tmp_path / "gpu")
    copied = {}
    for name in ("streams2", "device", "host", "launches", "graph"):
        done = on_stand_in(tmp_path / "gpu" / name, "main.py", "--frames", "4")
        assert "0 violations" in done.stderr, done.stderr
        copied[name] = int(re.search(r"(\d+) operations", done.stderr).group(1))  # type: ignore[union-attr]
    assert copied["device"] < copied["host"]


# -- twins -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("board", ["xavier", "orin"])
@pytest.mark.parametrize("name", ["hello", "digits", "twins", "detect", "denoise", "detector"])
def test_twins_give_the_results_of_the_reference(
    copies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, board: str
) -> None:
    directory = build(copies / name / f"{name}.flow", tmp_path / "out", platform=board)
    monkeypatch.setenv("FLOWC_TWIN", "1")
    done = harness(directory)
    assert done.returncode == 0, done.stderr
    gpu = {"xavier": "volta", "orin": "ampere"}[board]
    assert (f'p.processor("{gpu}"' in (directory / "main.py").read_text()) == (name != "hello")


def test_without_a_gpu_the_way_out_is_named(denoise: Path) -> None:
    done = run(denoise, "--frames", "1")
    assert done.returncode == 1 and "--twin" in done.stderr and "Traceback" not in done.stderr
    tested = harness(denoise)
    assert tested.returncode != 0 and "--twin" in tested.stderr


def test_run_compares_the_twin_first(copies: Path, tmp_path: Path) -> None:
    text = copies / "denoise" / "denoise.flow"
    store_profile(text, platform="orin")
    written = tmp_path / "r.json"
    command = ["-m", "flowc", "run", text, "--platform", "orin", "--twin", "--frames", "2"]
    done = forks(*FLOWC).run([*command, "--report", written], cwd=tmp_path, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert "the twin gives the results of the sequential reference" in done.stderr
    assert done.stdout.startswith("2 frames, checksum")
    assert json.loads(written.read_text())["twin"] is True


def test_a_wrong_reference_is_found(copies: Path, tmp_path: Path) -> None:
    """The harness on the stand-in compares kernels with their reference, up to the tolerance of the
    text."""
    folder = tmp_path / "denoise"
    shutil.copytree(copies / "denoise", folder)
    tasks = folder / "pictures.py"
    tasks.write_text(
        tasks.read_text().replace(
            "np.sqrt(across**2 + down**2)", "np.sqrt(across**2 + down**2) + 3"
        )
    )
    directory = build(folder / "denoise.flow", tmp_path / "out", platform="xavier")
    done = on_stand_in(directory, "tests/test_clean.py")
    assert "FAILED" in done.stderr and "input edges of Clean.show" in done.stderr
    right = build(copies / "denoise" / "denoise.flow", tmp_path / "right", platform="xavier")
    assert "OK" in on_stand_in(right, "tests/test_clean.py").stderr


class StandIns(Here):
    """This machine, with a GPU and DLAs that are stood in for."""

    @property
    def python(self) -> list[str]:
        return [sys.executable, str(ROOT / "tests" / "support" / "standins" / "run.py"), "."]

    def execute(
        self,
        words: Sequence[str],
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """As it is there, in a fork."""
        if words[:1] != [sys.executable]:
            return super().execute(words, cwd=cwd, environment=environment)
        environment = {**os.environ, **(environment or {})}
        done = forks(*PROGRAM, "onnx").run(
            [str(w) for w in words[1:]], cwd=cwd or Path.cwd(), timeout=HANGS, env=environment
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices are measured for four frames."""
    monkeypatch.setattr(device, "FEWEST", 4)
    monkeypatch.setattr(device, "MOST", 4)


# -- measuring -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("measuring")
def test_tasks_are_measured_on_their_devices(copies: Path) -> None:
    text = copies / "detector" / "whole.flow"
    text.write_text(
        'use "detector.flow"\nplatform board { tensorrt "10.3"  cpu core[2]  gpu ampere  dla nvdla }'
    )
    checked = flowc.check(text, platform="board")
    store_profile(text, platform="board")
    profile, _ = store.read_profile(checked.require())
    assert profile is not None
    found = device.measure_devices(replace(checked.require(), host=StandIns()), profile, 1.0)
    kinds = {e.processor: e for e in found.entries if e.subject == "Detect.find"}
    assert set(kinds) == {"cpu", "gpu", "dla"} and len(found.entries) == len(profile.entries) + 2
    for kind in ("gpu", "dla"):
        assert (
            kinds[kind].wcet_ns >= kinds[kind].max_ns >= kinds[kind].mean_ns > 0
            and kinds[kind].samples == 4
        )
        assert kinds[kind].content_hash == kinds["cpu"].content_hash
        assert kinds[kind].arena_bytes == 4096
        layers = {x.layer: x.mean_ns for x in kinds[kind].layers}
        chain = read_chain(text.parent / "yolo.onnx")
        assert list(layers) == [x.name for x in chain.layers]
        # What the stand-in says: 1 ms for each layer of the model, 0.25 ms for the conversion in
        # front of it.
        assert sum(layers.values()) == pytest.approx(1e6 * (len(layers) + 0.25))
        assert kind == "dla" or layers["bottom.sum"] + layers["bottom"] == 2e6
    assert not HERE.has_gpu()


@pytest.mark.usefixtures("measuring")
def test_stages_of_a_moving_cut_are_measured_with_all_of_their_engines(write: Write) -> None:
    """Each stage has the largest arena of its parts, and no times of layers: they differ by cut."""
    more = 'mapping on board { A.n -> core until "b" | ampere adapt }'
    text = write(PARTLY + more, t_py=MAKE_AND_TAKE)
    nodes = [
        helper.make_node("Conv", [read, "w"], [made], pads=[1] * 4)
        for read, made in zip("xabcd", "abcdy", strict=True)
    ]
    save(text.parent / "n.onnx", nodes, [1, 3, 8, 8])
    store_profile(text, platform="board")
    valid = flowc.check(text, platform="board").require()
    profile, _ = store.read_profile(valid)
    assert profile is not None
    found = device.measure_devices(replace(valid, host=StandIns()), profile, 1.0)
    entries = {e.subject: e for e in found.entries if e.processor == "gpu"}
    assert entries.keys() == {"A.n.stage1", "A.n.stage2"}
    for entry in entries.values():
        assert entry.samples == 4 and entry.mean_ns > 0
        assert entry.arena_bytes == 4096 and entry.layers == ()


@pytest.mark.usefixtures("measuring")
def test_a_network_that_a_dla_runs_in_part_is_measured_with_the_gpus_help(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layers on the DLA have the times that searches need; it does not fit there as a whole."""
    text = write(PARTLY, t_py=MAKE_AND_TAKE)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("HardSwish", ["b"], ["c"], "third"),
        helper.make_node("Conv", ["c", "w"], ["y"], "", pads=[1] * 4),
    ]
    save(text.parent / "n.onnx", nodes, [1, 3, 8, 8])
    checked = flowc.check(text, platform="board")
    store_profile(text, platform="board")
    profile, _ = store.read_profile(checked.require())
    assert profile is not None
    found = device.measure_devices(replace(checked.require(), host=StandIns()), profile, 1.0)
    (entry,) = (e for e in found.entries if e.processor == "dla")
    # Two pieces on the DLA, each with a conversion in front; one layer on the GPU between them.
    assert {x.layer: x.mean_ns for x in entry.layers} == {
        "a": 2.25e6,
        "b": 0,
        "c": 1e6,
        "y": 1.25e6,
    }
    costs = _problem(checked.require(), found).networks["A.n"].costs.layers["dla"]
    assert [math.isinf(c) for c in costs] == [False, False, True, False]
    pieces = [s for s in found.entries if s.processor == "gpu"]
    assert sum(x.mean_ns for x in pieces[0].layers) == pytest.approx(4.25e6)
    # A search with periods finds a way without the GPU too, although layers were measured on the
    # DLA only.
    text.write_text(text.read_text().replace("app A {", "app A { period 100 ms "))
    paced = flowc.check(text, platform="bare")
    (net,) = _joint(
        paced.require(),
        replace(found, entries=tuple(e for e in found.entries if e.processor != "gpu")),
    ).networks
    assert {c.option for c in net.candidates} == {"cpu"}
    # More pieces than the DLA holds: it stays off, and the rest is known.
    monkeypatch.setenv("FLOWC_STAND_IN", json.dumps({"machine": {"loadables": 1}}))
    said: list[str] = []
    found = device.measure_devices(
        replace(checked.require(), host=StandIns()), profile, 1.0, said.append
    )
    assert {e.processor for e in found.entries if e.subject == "A.n"} == {"cpu", "gpu"}
    assert said[-1].startswith("A.n stays off the dla: ")


@pytest.mark.usefixtures("measuring")
def test_networks_from_one_file_have_times_of_their_own(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = write(
        PARTLY.replace(
            "app A { a: In  n: Net  b: Out  a -> n -> b }",
            'network Exact from "n.onnx" { in x: float32[1, 3, 8, 8] from "x"  out y: float32[1, 3, 8, 8] from "y" }\n'
            "app A { a: In  n: Net  m: Exact  b: Out  a -> n -> m -> b }",
        ),
        t_py=MAKE_AND_TAKE,
    )
    save(text.parent / "n.onnx", [helper.make_node("Relu", ["x"], ["y"], "only")], [1, 3, 8, 8])
    checked = flowc.check(text, platform="board")
    store_profile(text, platform="board")
    profile, _ = store.read_profile(checked.require())
    assert profile is not None

    class Slow(StandIns):
        def read(self, file: str) -> bytes | None:
            """The report, where fp32 takes ten times as long."""
            content = super().read(file)
            if not file.endswith("layers.json"):
                return content
            plans = json.loads(content or b"")
            for plan in plans:
                for layer in plan["layers"] if plan["precision"] == "fp32" else ():
                    layer["ms"] *= 10
            return json.dumps(plans).encode()

    found = device.measure_devices(replace(checked.require(), host=Slow()), profile, 1.0)
    times = {e.subject: e.layers[0].mean_ns for e in found.entries if e.processor == "gpu"}
    assert times == {"A.n": 1.25e6, "A.m": 12.5e6}


@pytest.mark.parametrize(("board", "fits"), [("xavier", False), ("orin", True), ("desktop", True)])
def test_shared_memory_is_that_of_the_platforms_gpu(
    copies: Path, tmp_path: Path, board: str, fits: bool
) -> None:
    """120 KiB for a block: one task has code for a CPU too, another one has not; a desktop does not
    say what it has."""
    folder = tmp_path / "denoise"
    shutil.copytree(copies / "denoise", folder)
    text = folder / "denoise.flow"
    with_c = text.read_text().replace(
        '"bilateral.cu:bilateral"', '"bilateral.cu:bilateral" shared 120 KiB'
    )
    text.write_text(with_c)
    checked = flowc.check(text, platform=board)
    store_profile(text, platform=board)
    profile, _ = store.read_profile(checked.require())
    places = {p.task: p.processors for p in placed(checked.require(), profile).placements}
    assert checked.platform is not None
    assert (checked.platform.pool_of(places["Clean.denoise"][0]).kind == "gpu") == fits
    text.write_text(
        with_c.replace("(grey, soft, height, width)", "(grey, soft, height, width) shared 120 KiB")
    )
    said = [d.message for d in flowc.check(text, platform=board).diagnostics if d.code == "F309"]
    assert said == ([] if fits else ["kernel `soften` asks for 122880 bytes of shared memory"])


# -- DLAs ------------------------------------------------------------------------------------------
def test_check_tells_what_a_dla_can_run(examples: Path, tmp_path: Path) -> None:
    text = str(examples / "detect" / "detect.flow")
    said = CliRunner().invoke(app, ["check", text, "--platform", "orin"]).stdout
    assert "Ssd on a DLA: 142 of 152 layers can run there" in said
    assert re.search(r"Reshape +8 +4 dimensions +reshape_113, .* and 5 more", said)
    assert "longest runs without a cut: 113 layers from conv_0 to transpose_112" in said
    document = json.loads(
        CliRunner().invoke(app, ["check", text, "--platform", "orin", "--json"]).stdout
    )
    assert document["dla"]["Ssd"]["legal"] == 142
    shown = CliRunner().invoke(
        app, ["show", text, "--platform", "orin", "-o", str(tmp_path / "detect.svg")]
    )
    assert "142 of 152 layers" in shown.stdout
    assert "dla" not in json.loads(
        CliRunner().invoke(app, ["check", text, "--platform", "desktop", "--json"]).stdout
    )


@pytest.mark.parametrize(
    ("board", "runs"),
    [("orin", 41), ("orin_jetpack7", 41), ("orin_nx", 41), ("orin_nano", None), ("thor", None)],
)
def test_boards_with_and_without_a_dla(examples: Path, board: str, runs: int | None) -> None:
    text = str(examples / "detector" / "detector.flow")
    result = CliRunner().invoke(app, ["check", text, "--platform", board, "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and document["diagnostics"] == []
    legal = document["dla"]["Yolo"]["legal"] if "dla" in document else None
    assert legal == runs


@pytest.mark.parametrize(("precision", "allowed"), [("fp16", True), ("fp32", False)])
def test_searches_keep_to_the_rules_of_a_dla(examples: Path, precision: str, allowed: bool) -> None:
    """Layers that cannot run on the DLA are in no stage there, however fast a profile says they
    are."""
    folder = examples / "detect"
    text = folder / f"{precision}.flow"
    text.write_text(
        (folder / "detect.flow")
        .read_text()
        .replace("out scores: Scores }", f"out scores: Scores precision {precision} }}")
    )
    checked = flowc.check(text, platform="orin")
    assert checked.ok and checked.platform is not None
    digest = task_hashes(checked.system)["Detect.find"]
    layers = tuple(LayerTime(x.name, 1000.0) for x in read_chain(folder / "ssd.onnx").layers)
    entries = tuple(
        ProfileEntry(
            kind, "Detect.find", "", digest, "", 9, 152 * ns, 0, 152 * ns, 152 * ns, layers=layers
        )
        for kind, ns in (("gpu", 1000), ("dla", 10), ("cpu", 10**6))
    )
    network = _problem(checked.require(), Profile("orin", "", entries)).networks["Detect.find"]
    barred = {
        x
        for x, ns in zip(network.layers, network.costs.layers["dla"], strict=True)
        if ns == math.inf
    }
    assert len(barred) == (10 if allowed else 152)
    assert math.inf not in network.costs.layers["gpu"]


# -- placing ---------------------------------------------------------------------------------------
def test_times_decide_between_a_cpu_and_a_gpu(copies: Path) -> None:
    text = copies / "denoise" / "denoise.flow"
    checked = flowc.check(text, platform="xavier")
    store_profile(text, platform="xavier")
    profile, _ = store.read_profile(checked.require())
    assert profile is not None and checked.platform is not None
    from dataclasses import replace

    for gpu_ns, expected in ((100, "volta"), (10**9, "carmel[0]")):
        entry = next(e for e in profile.entries if e.subject == "Clean.denoise")
        faster = replace(
            profile, entries=(*profile.entries, replace(entry, processor="gpu", mean_ns=gpu_ns))
        )
        mapping = placed(checked.require(), faster)
        assert mapping.of("Clean.denoise") == (expected,)
        assert mapping.of("Clean.edges") == ("volta",)  # it has code for nothing else


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("A.k -> core[0], cuda", "a cpu and a gpu"),
        ("A.k -> cuda streams 2 threads 2", "`threads` means nothing there"),
        ("A.k -> core[0] graph", "starts no kernels"),
        ("A.k -> cuda fallback gpu", "runs on no DLA"),
        ("A.k -> cuda graph", ""),
        ("A.k -> cuda streams 2", ""),
    ],
)
def test_pins_of_kernels(write: Write, tmp_path: Path, pin: str, said: str) -> None:
    flow = write(
        'task S { out x: float32[4]  python "t.py:source" }\n'
        'task K { in x: float32[4]  out y: float32[4]  python "t.py:twice"\n'
        '    on gpu cuda "k.cu:twice"  grid 1  block 4 }\n'
        'task P { in x: float32[4]  python "t.py:sink" }\n'
        "app A { s: S  k: K  p: P  s -> k -> p }\n"
        f"platform pc {{ cpu core[2]  gpu cuda }}\nmapping on pc {{ {pin} }}",
        t_py="import numpy as np\ndef source():\n    return np.ones(4, 'f')\ndef twice(x):\n    return 2 * x\n"
        "def sink(x):\n    assert x.sum() == 8\n",
        k_cu='extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n',
    )
    found = [d.message for d in flowc.check(flow, platform="pc").diagnostics]
    assert any(said in m for m in found) if said else not found
    if not said:
        directory = build(flow, tmp_path / "out", platform="pc")
        assert "0 violations" in on_stand_in(directory, "main.py", "--frames", "9").stderr


def test_what_a_gpu_makes_is_seen_through_a_window(write: Write, tmp_path: Path) -> None:
    """Older tokens stay on the device as long as a task may read them, or as copies; the twin
    sees the same."""
    flow = write(
        'task S { out x: float32[2] rate 3  python "t.py:Source" }\n'
        'task K { in x: float32[2] rate 3  out y: float32[2] rate 3  cuda "k.cu:twice"  grid 1  block 6\n'
        '    reference python "t.py:twice" }\n'
        'task P { in y: float32[2] rate 2 window 5  python "t.py:sink" }\n'
        "app A { s: S  k: K  p: P  s -> k -> delay 1 = 7 -> p }\nplatform pc { cpu core[2]  gpu cuda compute 8.7 }\n",
        t_py="import numpy as np\nclass Source:\n    n = 0\n    def __call__(self):\n        self.n += 3\n"
        "        return np.repeat(np.arange(self.n - 2, self.n + 1, dtype='f')[:, None], 2, 1)\n"
        "def twice(x):\n    return 2 * x\n"
        "def sink(y):\n    assert y.shape == (5, 2) and not y.flags.writeable\n    print(y[:, 1].astype(int).tolist())\n",
        k_cu='extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n',
    )
    directory = build(flow, tmp_path / "out", platform="pc")
    done = on_stand_in(directory, "main.py", "--frames", "2", "--quiet")
    assert "0 violations" in done.stderr, done.stderr
    stream = [0, 0, 0, 0, 0, 7, *range(2, 25, 2)]
    assert done.stdout.splitlines() == [str(stream[k + 2 : k + 7]) for k in range(0, 12, 2)]
    assert run(directory, "--frames", "2", "--quiet", "--twin").stdout == done.stdout
    assert on_stand_in(directory, "tests/test_a.py").returncode == 0


def test_headers_of_kernels_come_along(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task S { out x: float32[4]  python "t.py:source" }\n'
        'task K { in x: float32[4]  state sum: float32[4]  out y: float32[4]  cuda "k.cu:add" (x, sum, y)\n'
        '    grid 1  block 4  reference python "t.py:Add" }\n'
        'task P { in x: float32[4]  python "t.py:sink" }\n'
        "app A { s: S  k: K  p: P  s -> k -> p }\nplatform pc { cpu core[2]  gpu cuda compute 8.7 }\n",
        t_py="import numpy as np\ndef source():\n    return np.ones(4, 'f')\n"
        "class Add:\n    def __init__(self):\n        self.sum = np.zeros(4, 'f')\n"
        "    def __call__(self, x):\n        self.sum = self.sum + x\n        return self.sum\n"
        "def sink(x):\n    print(x.sum())\n",
        k_cu='#include "more.cuh"\nextern "C" __global__ void add(const float *x, float *sum, float *y)\n'
        "{ y[threadIdx.x] = sum[threadIdx.x] = plus(sum[threadIdx.x], x[threadIdx.x]); }\n",
        more_cuh="__device__ static float plus(float a, float b) { return a + b; }\n",
    )
    directory = build(flow, tmp_path / "out", platform="pc")
    assert (directory / "tasks" / "more.cuh").exists()
    done = on_stand_in(directory, "main.py", "--frames", "3", "--quiet")
    assert done.stdout.split() == ["4.0", "8.0", "12.0"], done.stderr
    assert run(directory, "--frames", "3", "--quiet", "--twin").stdout == done.stdout


def test_a_text_without_a_twin_builds_with_the_profile_of_its_board(
    write: Write, tmp_path: Path
) -> None:
    flow = write(
        'task S { out x: float32[4]  python "t.py:source" }\n'
        'task K { in x: float32[4]  out y: float32[4]  cuda "k.cu:twice"  grid 1  block 4 }\n'
        'task P { in x: float32[4]  python "t.py:sink" }\n'
        "app A { s: S  k: K  p: P  s -> k -> p }\nplatform pc { cpu core[2]  gpu cuda }\n",
        t_py="import numpy as np\ndef source():\n    return np.ones(4, 'f')\ndef sink(x):\n    pass\n",
        k_cu='extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n',
    )
    with pytest.raises(Errors, match="code for a GPU only"):
        flowc.build(flow, tmp_path / "none", platform="pc")
    directory = build(flow, tmp_path / "out", platform="pc")
    done = run(directory, "--frames", "1", "--twin")
    assert done.returncode == 1 and "A.k has code for a GPU only" in done.stderr
    assert on_stand_in(directory, "main.py", "--frames", "1").returncode == 0


# -- what a review found ---------------------------------------------------------------------------
SMALL = """
extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""
SMALL_TASKS = """
import numpy as np
class Source:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        return np.full((5, 1, 3), self.n, "f") + np.arange(5, dtype="f")[:, None, None]
def bad():
    bad.n = getattr(bad, "n", 0) + 1
    return np.ones(4 if bad.n < 3 else 2, "f")
def twice(x): return np.float32(2) * x
def sink(x): print(x.tolist(), flush=True)
"""


def affine(path: Path, batch: bool) -> None:
    """y = x + 1 on float32[1, 3], or any number of rows."""
    rows = ["N"] if batch else [1]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [*rows, 3]) for n in "xy"]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])], "net", ports[:1], ports[1:], [one]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )


@pytest.mark.parametrize("rate", [1, 5])
@pytest.mark.parametrize("engine", ['tensorrt "10.3"', ""])
def test_batches_and_slices_reach_networks_from_a_device(
    write: Write, tmp_path: Path, rate: int, engine: str
) -> None:
    """Five tokens in batches of four, made apart or as one block whose parts lie at odd
    addresses."""
    ports, launch = (
        (f"{way}: float32[1, 3] rate {rate}" for way in ("in x", "out y")),
        f"grid 1   block {3 * rate}",
    )
    flow = write(
        'task Source { out x: float32[1, 3] rate 5   python "t.py:Source" }\n'
        f'task Twice {{ {"   ".join(ports)}   cuda "k.cu:twice"   {launch}   reference python "t.py:twice" }}\n'
        'network Net from "net.onnx" { in x: float32[1, 3]   batch 4 }\n'
        'task Sink { in x: float32[1, 3]   python "t.py:sink" }\n'
        "app A { s: Source  t: Twice  n: Net  k: Sink   s -> t -> n -> k }\n"
        f"platform pc {{ {engine}  cpu core[2]  gpu cuda }}\nmapping on pc {{ A.n -> cuda streams 2 }}",
        t_py=SMALL_TASKS,
        k_cu=SMALL,
    )
    affine(tmp_path / "net.onnx", batch=True)
    directory = build(flow, tmp_path / "out", platform="pc")
    if engine:
        assert on_stand_in(directory, "build_engines.py").returncode == 0
    done = on_stand_in(directory, "main.py", "--frames", "3", "--quiet")
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert done.stdout == run(directory, "--frames", "3", "--quiet", "--twin").stdout


ASKED = """
import numpy as np
import main
from runtime.embed import Running
with Running(main.program()) as running:
    futures = [running.ask(np.full((1, 3), k, np.float32)) for k in range(11)]
    print([future.result(timeout=30).tolist() for future in futures])
"""


def test_requests_in_batches_reach_a_network_on_a_device(write: Write, tmp_path: Path) -> None:
    flow = write(
        'network Net from "net.onnx" { in x: float32[1, 3]   out y: float32[1, 3]   batch 4 }\n'
        "app A { batch up to 4 within 1 ms   in x: float32[1, 3]   out y: float32[1, 3]   n: Net   x -> n -> y }\n"
        "platform pc { cpu core[2]  gpu cuda }\nmapping on pc { A.n -> cuda }"
    )
    affine(tmp_path / "net.onnx", batch=True)
    directory = build(flow, tmp_path / "out", platform="pc")
    (directory / "ask.py").write_text(ASKED)
    done = on_stand_in(directory, "ask.py")
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert json.loads(done.stdout) == [[[k + 1.0] * 3] for k in range(11)]


def test_arrays_on_their_way_to_a_device_are_checked(write: Write, tmp_path: Path) -> None:
    flow = write(
        'task Bad { out x: float32[4]   python "t.py:bad" }\n'
        'task Twice { in x: float32[4]   out y: float32[4]   cuda "k.cu:twice"   grid 1   block 4\n'
        '    reference python "t.py:twice" }\ntask Sink { in x: float32[4]   python "t.py:sink" }\n'
        "app A { s: Bad  t: Twice  k: Sink   s -> t -> k }\nplatform pc { cpu core[2]  gpu cuda }",
        t_py=SMALL_TASKS,
        k_cu=SMALL,
    )
    done = on_stand_in(
        build(flow, tmp_path / "out", platform="pc"), "main.py", "--frames", "9", "--quiet"
    )
    assert (
        "task A.s failed at firing 2: returned float32[2] for port `x`, which is float32[4]"
        in done.stderr
    )


def test_a_mapping_that_is_found_can_be_built(copies: Path, tmp_path: Path) -> None:
    """Tasks that have code for a GPU only stay there, in a search for speed and in one for
    deadlines."""
    folder = tmp_path / "denoise"
    shutil.copytree(copies / "denoise", folder)
    for period in ("", "period 40 ms"):
        text = folder / f"found{len(period)}.flow"
        text.write_text(
            (folder / "denoise.flow").read_text().replace("app Clean {", f"app Clean {{ {period}")
        )
        checked = flowc.check(text, platform="xavier")
        times = {"cpu": ("camera", "denoise", "show"), "gpu": ("denoise", "edges")}
        entries = tuple(
            ProfileEntry(
                kind,
                f"Clean.{n}",
                "",
                task_hashes(checked.system)[f"Clean.{n}"],
                "",
                9,
                10**6,
                0,
                10**6,
                10**6,
            )
            for kind, names in times.items()
            for n in names
        )
        assert not store.save_profile(checked.require(), Profile("xavier", "", entries))
        found = CliRunner().invoke(
            app, ["map", str(text), "--platform", "xavier", "--budget", "2s"]
        )
        assert found.exit_code == 0, found.stderr
        built = CliRunner().invoke(
            app,
            [
                "build",
                str(text),
                "--platform",
                "xavier",
                "-o",
                str(tmp_path / f"o{len(period)}"),
                "--json",
            ],
        )
        assert built.exit_code == 0, built.stderr
        assert json.loads(built.stdout)["tasks"]["Clean.edges"] == ["volta"]


@pytest.mark.parametrize("found", [True, False])
def test_a_reference_may_be_placed_where_there_is_no_gpu(
    write: Write, tmp_path: Path, found: bool
) -> None:
    """By a mapping that was found and stored, or by a pin."""
    text = (
        'task S { out x: float32[4]  python "t.py:source" }\n'
        'task K { in x: float32[4]  out y: float32[4]  on gpu cuda "k.cu:twice"  grid 1  block 4\n'
        '    reference python "t.py:twice" }\n'
        'task P { in x: float32[4]  python "t.py:sink" }\n'
        "app A { period 10 ms  s: S  k: K  p: P  s -> k -> p }\nplatform duo { cpu core[2] }\n"
    )
    flow = write(
        text + ("" if found else "mapping on duo { A.k -> core[1] }"),
        t_py="import numpy as np\ndef source():\n    return np.ones(4, 'f')\ndef twice(x):\n    return 2 * x\n"
        "def sink(x):\n    assert x.sum() == 8\n",
        k_cu='extern "C" __global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n',
    )
    store_profile(flow, platform="duo")
    if found:
        words = ["map", str(flow), "--platform", "duo", "--evaluations", "50"]
        assert CliRunner().invoke(app, words).exit_code == 0
    done = flowc.build(flow, tmp_path / "out", platform="duo")
    assert [d.code for d in done.diagnostics] == ["F610"]
    assert run(tmp_path / "out", "--frames", "3").returncode == 0


def test_a_profile_is_stale_when_what_was_measured_has_changed(
    copies: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "denoise"
    shutil.copytree(copies / "denoise", folder)
    kernels = folder / "edges.cu"
    kernels.write_text('#include "more.cuh"\n' + kernels.read_text())
    (folder / "more.cuh").write_text("\n")

    def digest() -> str:
        return task_hashes(flowc.check(folder / "denoise.flow", platform="xavier").system)[
            "Clean.edges"
        ]

    seen = {digest()}
    for file, old, new in (
        ("more.cuh", "\n", "// other\n"),
        ("pictures.py", "def edges", "# other\ndef edges"),
        ("edges.cu", "9.0f", "8.0f"),
    ):
        (folder / file).write_text((folder / file).read_text().replace(old, new, 1))
        seen.add(digest())
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("parameters", "dtypes"),
    [
        ("long long int n, const unsigned long int m", ["int64", "uint64"]),
        ("float x[], const float y[4], float4 const *v", ["float32"] * 3),
        (
            "std::uint64_t q, unsigned u, signed char c, float a = 4",
            ["uint64", "uint32", "int8", "float32"],
        ),
        ("float2 w, Point p, float **rows", [None] * 3),
    ],
)
def test_parameters_of_kernels_are_understood(
    tmp_path: Path, parameters: str, dtypes: list[str | None]
) -> None:
    for k, head in enumerate((f'extern "C" __launch_bounds__(64) __global__ void k({parameters})',
                              f'extern "C" void __global__ k({parameters})',
                              f'extern "C" __global__ void k({parameters});\n__global__ void k({parameters})',
                              f'extern "C" {{\n__global__ void k({parameters})')):  # fmt: skip
        file = tmp_path / f"k{k}.cu"
        file.write_text(f"// k(int)\n{head} {{ }}\n")
        (kernel,) = kernels(file).values()
        assert kernel.plain and [p.dtype for p in kernel.parameters] == dtypes
    file.write_text(f"__global__ void k({parameters}) {{ }}")
    os.utime(file, ns=(0, 0))
    assert not kernels(file)["k"].plain


def test_headers_of_a_toolkit_that_is_not_here_are_a_warning(write: Write, tmp_path: Path) -> None:
    if not libraries():
        pytest.skip("no compiler for CUDA: install the extra `cuda`")
    flow = write(
        'task S { out x: float32[4]   python "t.py:bad" }\n'
        'task K { in x: float32[4]   out y: float32[4]   cuda "k.cu:twice"   grid 1   block 4   reference python "t.py:twice" }\n'
        'task P { in x: float32[4]   python "t.py:sink" }\n'
        "app A { s: S  k: K  p: P  s -> k -> p }\nplatform pc { cpu core[2]  gpu cuda compute 8.7 }",
        t_py=SMALL_TASKS,
        k_cu="#include <no_such_thrust.h>\n" + SMALL,
    )
    store_profile(flow, platform="pc")
    (warning,) = (
        d
        for d in flowc.build(flow, tmp_path / "out", platform="pc").diagnostics
        if d.code == "F310"
    )
    assert warning.severity == "warning" and "no_such_thrust.h" in warning.message
    (tmp_path / "k.cu").write_text(
        "#include <stdint.h>\n#include <cstdint>\n#include <math.h>\n#include <cfloat>\n#include <assert.h>\n"
        "#include <cuda_runtime.h>\n__device__ float f() { assert(1); std::int32_t a = INT32_MAX; uint8_t b = UINT8_MAX;\n"
        "return fminf(INFINITY, M_PI) + FLT_MAX + a + b + (float)(uintptr_t)0; }\n" + SMALL
    )
    store_profile(flow, platform="pc")
    assert not [
        d
        for d in flowc.build(flow, tmp_path / "out", platform="pc").diagnostics
        if d.code == "F310"
    ]


class _Stream:
    """Records what is put into it."""

    handle = 7

    def __init__(self) -> None:
        self.done: list[object] = []

    def zero(self, target: int, nbytes: int) -> None:
        self.done.append(("zeros", target, nbytes))

    def synchronize(self) -> None:
        self.done.append("waited")


class _Context:
    """A context of TensorRT that records its executions."""

    def __init__(self, stream: _Stream) -> None:
        self.stream = stream

    def set_tensor_address(self, name: str, pointer: int) -> bool:
        self.stream.done.append((name, pointer))
        return True

    def execute_async_v3(self, handle: int) -> bool:
        self.stream.done.append(("executed", handle))
        return True


def test_a_plan_runs_once_before_the_clock_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first execution of a plan loads its code: no frame shall wait for that."""
    stream = _Stream()
    addresses = iter(range(1, 10))
    here = SimpleNamespace(processor="", arena=lambda cuda: None)
    monkeypatch.setattr(engines, "lane", lambda: here)
    code = engines.TensorRT("net.onnx", ["x"], ["y"], {"": ("gpu", 0)}, "digest")
    code.inputs = [Port("x", "float32", (2,))]
    code.outputs = [Port("y", "float16", (3,))]
    code.cuda = SimpleNamespace(
        stream=stream,
        memory=lambda nbytes: SimpleNamespace(pointer=next(addresses), nbytes=nbytes),
        free=lambda memory: stream.done.append(("freed", memory.pointer)),
    )
    code._engines[""] = SimpleNamespace(context=lambda arena: _Context(stream))
    code.prepare()
    run = [("x", 1), ("y", 2), ("executed", 7), "waited", ("freed", 1), ("freed", 2)]
    assert stream.done == [("zeros", 1, 8), ("zeros", 2, 6), *run]
