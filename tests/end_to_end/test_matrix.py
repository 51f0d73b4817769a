"""Every kind of arrow, port and feature in every kind of program: it runs and is right, or is
refused with a code.

What there is, and what comes of it, stands in tests/support/matrix.py, from which docs/generated/matrix.md is
written. `FLOWC_REWRITE_GOLDEN=1` rewrites that page.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import runpy
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import flowc
import numpy as np
import onnx
import pytest
from flowc.codegen.dora import DORA
from flowc.codegen.robots import Robot
from flowc.codegen.ros2 import ROS2
from flowc.driver.build.build import build as build_program
from flowc.driver.build.external import build_external
from flowc.driver.build.fmu import build_fmu
from flowc.driver.execute.run import run as run_program
from flowc.model.catalogue import CODES
from flowc.model.diagnostic import Errors
from flowc.runtime.external import load
from onnx import TensorProto, helper

import fmus
import matrix
from builds import HANGS, ROOT, build, harness, run, store_profile
from fmus import COMPILER, compiled_quickly
from forks import PROGRAM, forks
from matrix import (
    FAR,
    FEATURES,
    KINDS,
    LAST,
    NOTHING,
    PAUSES,
    STATES,
    TOGETHER,
    Both,
    Feature,
    Numbers,
)
from models import N, save
from rigs import joined, sites

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")

#: What nodes and parts import.
NODE = (*PROGRAM, "zmq")
STAND_IN = ROOT / "tests" / "support" / "standins" / "robots" / "run.py"
GIVEN = [*range(1, LAST + 1)]
#: Of a token.
SHAPE = (1, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What all texts name."""
    made = tmp_path_factory.mktemp("matrix")
    for name, content in {
        "t.py": matrix.PYTHON,
        "t.c": matrix.C,
        "n.c": matrix.NATIVE_C,
        "i.c": matrix.INC_IN_C,
        "t.cu": matrix.CUDA,
        "table.txt": "50",
    }.items():
        (made / name).write_text(content)
    nodes = [N("MatMul", ["x", "w"], ["h"]), N("Abs", ["h"], ["y"])]
    for name, factor, size in (
        ("three", 3, 1),
        ("two", 2, 1),
        ("open", 3, "n"),
        ("open_two", 2, "n"),
    ):
        save(
            made / f"{name}.onnx",
            nodes,
            {"x": [size, 4]},
            {"w": factor * np.eye(4, dtype=np.float32)},
            "y",
        )
    rows = [N("Conv", [a, "w"], [b], pads=[1, 0, 1, 0]) for a, b in ("xh", "hy")]
    for name, column in (("rows", [1, 1, 1]), ("rows_two", [1, 0, 1])):
        weights = np.array(column, np.float32).reshape(1, 1, 3, 1)
        save(made / f"{name}.onnx", rows, {"x": [1, 1, 8, 4]}, {"w": weights}, "y")
    places = [N("NonZero", ["x"], ["found"]), N("Transpose", ["found"], ["places"])]
    save(made / "places.onnx", places, {"x": [1, 4]}, {}, "places", {"places": TensorProto.INT64})
    _save_loop(made / "loop.onnx")
    with compiled_quickly():
        yield made


def _save_loop(path: Path) -> None:
    """Doubles, as many times as its second input says."""
    x, y = (helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 4]) for t in "xy")
    times = helper.make_tensor_value_info("times", TensorProto.INT64, [])
    names = [("i", TensorProto.INT64), ("go", TensorProto.BOOL)]
    counts = [helper.make_tensor_value_info(t, kind, []) for t, kind in names]
    still = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
    inner = [N("Identity", ["go"], ["still"]), N("Add", ["a", "a"], ["b"])]
    a, b = (helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 4]) for t in "ab")
    body = helper.make_graph(inner, "body", [*counts, a], [still, b])
    loop = N("Loop", ["times", "", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "loop", [x, times], [y])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


# -- what programs are made and run for ------------------------------------------------------------
class Case:
    """A feature in a kind of program; `beside`: in a program of that kind, too."""

    def __init__(self, feature: Feature, kind: str, folder: Path, beside: str = "") -> None:
        self.feature, self.kind, self.beside = feature, kind, beside
        self.out = folder / "-".join(filter(None, (feature.name, kind, beside)))
        self.flow = self.out.with_name(f"{self.out.name.replace('-', '_')}.flow")
        self.flow.write_text(matrix.text(feature, kind, beside))
        self.has_ends = kind in matrix.OPEN and beside not in STATES

    @property
    def is_replayed(self) -> bool:
        """Is it recorded, and its recording replayed? Every other feature is in one kind of program;
        with FLOWC_FUZZ in the environment all of them are in each."""
        if "FLOWC_FUZZ" in os.environ:
            return True
        kinds, feature = ("one", "several", *STATES), FEATURES.index(self.feature)
        return feature % 2 == 0 and kinds[feature // 2 % len(kinds)] == self.kind

    @property
    def settings(self) -> list[str]:
        """Values of parameters."""
        return [f"A.{name}={value}" for name, value in self.feature.settings.items()]

    @property
    def words(self) -> list[str]:
        """The same, on a command line."""
        return [word for setting in self.settings for word in ("--set", setting)]

    def end(self, name: str, separator: str) -> str:
        """What an open end is called outside: with its app in front where several have some."""
        app = "A" if name == "x" else self.feature.sink
        return f"{app}{separator}{name}" if self.feature.reader else name

    def judge(self, got: Numbers, *, whole: bool = True) -> None:
        """Is that what the sink has to have got?"""
        endless = self.feature.reader or self.beside in STATES or self.kind in STATES
        given = [*range(1, FAR + 1)] if endless and self.kind != "fmu" else GIVEN
        assert self.feature.is_right(given, got), got
        assert self.feature.is_whole(given, got) if whole else got, got

    def judge_said(self, said: str) -> None:
        """The same for what sinks of its own have printed; where there are states, no source has
        come to its end."""
        states = [kind for kind in (self.kind, self.beside) if kind in STATES]
        self.judge(_kept(said, self.feature.sink), whole=not states or bool(self.feature.reader))
        beside = _kept(said, "B") if states or "several" in (self.kind, self.beside) else []
        if states and states[0] != "pause":
            assert {v / (k + 1) for k, v in enumerate(beside)} == {2, 3}
        else:
            assert beside == [n + 2 for n in range(len(beside))]


def _kept(said: str, app: str) -> Numbers:
    """What the sink of an app has printed."""
    (found,) = re.findall(rf"^kept {app} (\[.*\])$", said, re.MULTILINE)
    numbers: Numbers = json.loads(found)
    return numbers


def _require_sound(flow: Path, platform: str) -> None:
    """Without errors, and without warnings. Raises Errors."""
    checked = flowc.check(flow, platform=platform)
    if not checked.ok:
        raise Errors(checked.diagnostics)
    assert not checked.diagnostics


def _own(case: Case) -> str:
    """A program with a source and a sink of its own; how it changes states, if it does."""
    if case.feature.name == "ends":
        return _refused(case, "duo")
    built, report = build(case.flow, case.out, platform="duo"), case.out / "r.json"
    file = case.out / "r.mcap"
    recorded = ["--record", file] if case.is_replayed else []
    done = run(built, *case.words, "--report", report, *recorded)
    assert done.returncode == 0, done.stderr
    case.judge_said(done.stdout)
    if recorded:
        again = run(built, "--replay", file)
        assert again.returncode == 0 and "equal, bit for bit" in again.stderr, again.stderr
    if case.kind in ("one", "pause") or (case.kind == "next" and case.feature.other is not None):
        tested = harness(built)
        assert tested.returncode == 0, tested.stderr
    changes = {change["protocol"] for change in json.loads(report.read_text()).get("switches", ())}
    assert len(changes) == (case.kind in STATES)
    return "".join(changes)


def _refused(case: Case, platform: str) -> str:
    """It is built, and does not run. Raises Errors."""
    store_profile(case.flow, platform=platform)
    machines = sites(case.flow.parent, "a", "b") if platform == "rig" else None
    run_program(case.flow, case.out, platform=platform, machines=machines, quiet=True)
    return ""


def _parts(case: Case) -> str:
    if case.feature.name == "ends":
        return _refused(case, "rig")
    built = build(case.flow, case.out, platform="rig")
    environments = [{**os.environ, **e} for e in joined(["a", "b"]).values()]
    commands = [
        [built / "parts" / name / "main.py", *(case.words if name == "b" else [])]
        for name in ("a", "b")
    ]
    parts = forks(*NODE).at_once(commands, cwd="/", timeout=HANGS, env=environments)
    assert [p.returncode for p in parts] == [0, 0], parts[0].stderr + parts[1].stderr
    case.judge_said(parts[0].stdout + parts[1].stdout)
    return ""


def _opened(case: Case) -> str:
    """Numbers go in and come out one by one, so that who looks at an app has seen something before
    it ends."""
    got: Numbers = []
    with flowc.open(build(case.flow, case.out, platform="duo"), settings=case.settings) as running:
        ends, results = running.app("A"), running.app(case.feature.sink)
        for number in GIVEN if case.feature.source == "Count" else ():
            ends.put(np.full(SHAPE, number, np.float32), timeout=HANGS)
            got += [int(results.get(timeout=HANGS).flat[0])] if case.feature.reader else []
        ends.end()
        with suppress(running.Closed):
            while True:
                got.append(int(results.get(timeout=HANGS).flat[0]))
    case.judge(got)
    return ""


def _simulated(file: Path, steps: list[Numbers], settings: Mapping[str, str]) -> dict[str, Numbers]:
    """What comes out of a unit, by name. A process of its own starts its Python."""
    tokens = [np.array([np.full(SHAPE, n) for n in step]).tolist() for step in steps]
    inputs = [{"x": token if len(token) > 1 else token[0]} for token in tokens]
    told = file.with_suffix(".json")
    told.write_text(
        json.dumps([inputs, {name.replace(".", "__"): float(v) for name, v in settings.items()}])
    )
    done = forks("fmus").run([fmus.__file__, file, told], cwd=file.parent, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    return {
        name: [int(v[0]) for step in made for v in np.reshape(step[name], (-1, 4))]
        for name in made[0]
    }


def _unit(case: Case) -> str:
    made = build_fmu(case.flow, "A" if case.has_ends else "G", case.out.with_suffix(".fmu"))
    size = case.feature.per_frame
    steps = [GIVEN[k : k + size] for k in range(0, LAST, size)]
    if case.feature.outcome("fmu") == "F608":
        # a step that fails is the simulator's business: before the third one
        assert [d.code for d in made.diagnostics] == ["F608"]
        steps = steps[:2]
    case.judge(
        _simulated(made.file, steps, case.feature.settings)["y"], whole=len(steps) * size == LAST
    )
    return ""


def _external(case: Case) -> str:
    """The networks that the apps have, without the shim in C."""
    made = build_external(case.flow, case.out, platform="duo")
    named = {
        network.name: function
        for network, function in zip(made.external.networks, load(str(case.out)), strict=True)
    }
    factors = {"B.n.three": 3, "A.n.three": 3, "B.n.two": 2, "A.n.two": 2}
    assert named
    for name, network in named.items():
        shape = (1, 1, 8, 4) if case.feature.name in ("bands", "memory") else SHAPE
        network.init()
        for number in GIVEN:
            given, results = np.full(shape, number, np.float32), np.zeros(shape, np.float32)
            network.execute([memoryview(given).cast("B"), memoryview(results).cast("B")])
            assert case.feature.network is not None
            wanted = factors[name] * number if name in factors else case.feature.network(number)
            assert results.flat[-13 if len(shape) > 2 else 0] == wanted
        network.wrapup()
    return ""


def _node(case: Case, robot: Robot) -> Path:
    store_profile(case.flow, platform="duo")
    build_program(case.flow, case.out, platform="duo", robot=robot)
    return case.out


def _dora(case: Case) -> str:
    built, x, y = _node(case, DORA), case.end("x", "."), case.end("y", ".")
    events: list[dict[str, object]] = []
    for k, n in enumerate(GIVEN if case.has_ends and case.feature.source == "Count" else ()):
        metadata = {"shape": SHAPE, "token": k}
        events += [
            {"type": "INPUT", "id": x, "value": [n] * 4, "dtype": "float32", "metadata": metadata}
        ]
        events += [{"after": [y, k + 1]}] if case.feature.reader else []
    events += [{"type": "INPUT_CLOSED", "id": x}] if events else []
    told = case.out.with_suffix(".json")
    told.write_text(json.dumps(events))
    environment = {**os.environ, "DORA_NODE_CONFIG": "", "FLOWC_STAND_IN_EVENTS": str(told)}
    words = [STAND_IN, built, "node", "--quiet", *case.words]
    done = forks(*NODE).run(words, cwd=case.out, timeout=HANGS, env=environment)
    assert done.returncode == 0, done.stderr
    if not case.has_ends:
        case.judge_said(done.stdout)
        return ""
    sent = re.findall(rf"^{re.escape(y)} \[([\d.]+)", done.stdout, re.MULTILINE)
    case.judge([int(float(n)) for n in sent])
    return ""


#: Another node: sends numbers and prints what comes, or leaves when it has seen enough.
FOREIGN = """
import array
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Float32MultiArray

def main():
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("foreign")
    quality = QoSProfile(depth=100, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
    got = []
    node.create_subscription(Float32MultiArray, OUT, lambda message: got.append(int(message.data[0])), quality)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    if NUMBERS:
        out = node.create_publisher(Float32MultiArray, IN, quality)
        while not out.get_subscription_count():
            executor.spin_once(timeout_sec=0.01)
    for n in NUMBERS:
        out.publish(Float32MultiArray(data=array.array("f", [n] * 4)))
        while ONE_BY_ONE and len(got) < n:
            executor.spin_once(timeout_sec=1)
    while len(got) < WANTED:
        executor.spin_once(timeout_sec=1)
    node.destroy_node()
    print("kept %s %s" % (SINK, got))
"""


def _ros2(case: Case) -> str:
    built, feature = _node(case, ROS2), case.feature
    environment = {**os.environ, "FLOWC_STAND_IN_BUS": str(case.out / "bus")}
    program = [STAND_IN, built, f"{case.flow.stem}.node", "--quiet", *case.words]
    if not case.has_ends:
        node = forks(*NODE).run(program, cwd=case.out, timeout=HANGS, env=environment)
        assert node.returncode == 0, node.stderr
        case.judge_said(node.stdout)
        return ""
    few = 1 if feature.loses else len(feature.wanted(GIVEN)) - feature.ahead
    values = {
        "NUMBERS": GIVEN if feature.source == "Count" else [], "ONE_BY_ONE": bool(feature.reader), "SINK": feature.sink,
        "WANTED": LAST if feature.reader else few, "OUT": case.end("y", "/"), "IN": case.end("x", "/"),
    }  # fmt: skip
    (case.out / "foreign.py").write_text(
        re.sub(r"\b[A-Z_]{2,}\b", lambda w: _shown(w[0], values), FOREIGN)
    )
    commands = [
        [STAND_IN, case.out, "foreign"],
        [*program, "--frames", str(LAST // feature.per_frame)],
    ]
    foreign, node = forks(*NODE).at_once(commands, cwd=case.out, timeout=HANGS, env=environment)
    assert node.returncode == foreign.returncode == 0, node.stderr + foreign.stderr
    case.judge(_kept(foreign.stdout, feature.sink), whole=not feature.loses)
    return ""


def _shown(word: str, values: Mapping[str, object]) -> str:
    return repr(values[word]) if word in values else word


def _native(case: Case) -> str:
    """What is refused, and open ends, which are a library. Raises Errors."""
    build_program(case.flow, case.out, platform="duo", native=True, measure=False)
    library, name = ctypes.CDLL(str(case.out / f"lib{case.flow.stem}.so")), case.flow.stem
    program, got = ctypes.c_void_p(), []
    assert library[f"{name}_create"](ctypes.byref(program), None, None) == 0
    for number in GIVEN:
        given, result = np.full(SHAPE, number, np.float32), np.zeros(SHAPE, np.float32)
        for word, array in (("feed_x", given), ("fetch_y", result)):
            pointer = array.ctypes.data_as(ctypes.c_void_p)
            call = library[f"{name}_{word}"]
            assert call(program, pointer, ctypes.c_double(HANGS)) == 0
        got.append(int(result[0, 0]))
    assert library[f"{name}_close"](program) == 0
    case.judge(got)
    return ""


#: Each raises Errors where it is refused; how the program changes states, if it does.
PROGRAMS: dict[str, Callable[[Case], str]] = {
    **dict.fromkeys(("one", "several", *STATES), _own),
    "parts": _parts, "open": _opened, "fmu": _unit, "external": _external, "dora": _dora, "ros2": _ros2,
    "native": _native,
}  # fmt: skip


# -- pairs -----------------------------------------------------------------------------------------
def _what_comes(case: Case) -> str:
    """A code, a word, or nothing: it runs, and is right."""
    try:
        _require_sound(case.flow, "rig" if case.kind == "parts" else "duo")
        change = PROGRAMS[case.kind](case)
    except Errors as errors:
        faults = [d for d in errors.diagnostics if d.severity == "error"]
        assert all(d.help for d in faults)
        (code,) = {d.code for d in faults}
        return code
    return PAUSES if case.kind in ("next", "once") and change == "idle" else ""


@pytest.fixture(scope="module")
def simulated(folder: Path) -> dict[str, Numbers]:
    """What comes out of a unit with all features that are alike."""
    flow = folder / "unit.flow"
    flow.write_text(matrix.unit())
    made = build_fmu(flow, "A", folder / "unit.fmu")
    settings = {f"f{f.name}.{key}": v for f in FEATURES for key, v in f.settings.items()}
    return _simulated(made.file, [[n] for n in GIVEN], settings)


@pytest.fixture(scope="module")
def said_natively(folder: Path) -> str:
    """What the sinks of a native program with all features have printed."""
    (folder / "native.flow").write_text(matrix.native())
    _require_sound(folder / "native.flow", "duo")
    out = folder / "native"
    build_program(folder / "native.flow", out, platform="duo", native=True, measure=False)
    words = [f"--set=A{f.name}.{key}={v}" for f in FEATURES for key, v in f.settings.items()]
    done = subprocess.run(
        [out / "main", "--quiet", *words],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("kind", [k.name for k in KINDS])
@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_a_feature_runs_and_is_right_or_is_refused(
    feature: Feature, kind: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    wanted = feature.outcome(kind)
    if wanted == NOTHING:
        pytest.skip("there is no such pair")
    if feature.needs and find_spec(feature.needs) is None:
        pytest.skip(f"{feature.needs} is not installed")
    case = Case(feature, kind, folder)
    if kind == "fmu" and matrix.alike(feature):
        case.judge(request.getfixturevalue("simulated")[f"y{feature.name}"])
        return
    if kind == "native" and not wanted and feature.name != "ends":
        said = request.getfixturevalue("said_natively")
        case.judge(_kept(said, f"{feature.sink}{feature.name}"))
        return
    assert _what_comes(case) == (wanted if wanted != "F608" else "")


@pytest.mark.parametrize("kind", matrix.PLACES)
@pytest.mark.parametrize("both", TOGETHER, ids=lambda b: b.name)
def test_several_apps_and_states_run_in_other_programs_or_are_refused(
    both: Both, kind: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = Case(next(f for f in FEATURES if f.name == "network"), kind, folder, both.name)
    if kind == "open" and both.name in STATES:
        with flowc.open(build(case.flow, case.out, platform="duo")) as running:
            late = threading.Timer(HANGS, running.stop)
            late.start()
        late.cancel()
        case.judge_said(capfd.readouterr().out)
        return
    assert _what_comes(case) == both.outcome(kind)


# -- the page --------------------------------------------------------------------------------------
def test_every_code_there_is_one() -> None:
    outcomes = {c for f in FEATURES for c in f.comes.values()} - {""}
    assert outcomes - {NOTHING, PAUSES} <= CODES.keys()


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "make_matrix.py"))["page"]()
    target = ROOT / "docs" / "generated" / "matrix.md"
    if os.environ.get("FLOWC_REWRITE_GOLDEN"):
        target.write_text(page)
    assert target.read_text() == page, "run `python docs/make_matrix.py`"
