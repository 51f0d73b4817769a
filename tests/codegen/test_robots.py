"""Programs as nodes of dora and of ROS 2.

With dora itself where it is installed (the extra `dora`); ROS 2 is a stand-in that takes what rclpy
documents.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from flowc.cli import app
from flowc.codegen.dora import DORA
from flowc.codegen.robots import Robot
from flowc.codegen.ros2 import ROS2
from flowc.driver.build.build import build as driver_build
from typer.testing import CliRunner

from builds import HANGS, ROOT, Write, run, store_profile
from forks import PROGRAM, forks
from rigs import TASKS, TEXT

BIN = Path(sys.prefix) / "bin"
#: What nodes import.
NODE = (*PROGRAM, "zmq")
with_dora = pytest.mark.skipif(
    not (BIN / "dora").exists(), reason="dora is not installed: the extra `dora` has it"
)


def built(flow: Path, output: Path, robot: Robot, platform: str = "host") -> Path:
    store_profile(flow, platform=platform)
    driver_build(flow, output, platform=platform, robot=robot)
    return output


def blocks(kind: str) -> dict[str, str]:
    """The files of docs/robots.md, by name."""
    page = (ROOT / "docs" / "robots.md").read_text()
    found = re.findall(rf"^```{kind}\n(?://|#) (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("page")
    for name, text in {**blocks("flow"), **blocks("python"), **blocks("yaml")}.items():
        (folder / name).write_text(text)
    store_profile(folder / "eye.flow")
    return folder


@pytest.mark.parametrize(
    ("target", "files", "said"),
    [
        (
            "dora",
            ("module.yml", "node.py", "README.md"),
            "`module: {}/module.yml` makes it a node of a dataflow",
        ),
        (
            "ros2",
            ("package.xml", "setup.py", "launch/eye.launch.py", "README.md"),
            "put {} into a workspace",
        ),
    ],
)
def test_what_is_written_is_as_expected(
    page: Path, target: str, files: tuple[str, ...], said: str
) -> None:
    """FLOWC_REWRITE_GOLDEN=1 rewrites it."""
    out = page / "build" / f"eye-{target}"
    words = ["build", str(page / "eye.flow"), "--target", target, "-o", str(out)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0 and said.format(out) in shown.stdout, shown.output
    assert "  input image: uint8[48, 64]\n  output brightness: float32\n" in shown.stdout
    for file in files:
        golden = ROOT / "tests" / "golden" / f"eye.{target}.{file.replace('/', '.')}"
        if os.environ.get("FLOWC_REWRITE_GOLDEN"):
            golden.write_text((out / file).read_text())
        assert (out / file).read_text() == golden.read_text()
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert not document["fresh"]
    assert document["ends"][0] == {
        "task": "Eye.image", "name": "image", "incoming": True, "dtype": "uint8", "shape": [48, 64],
    }  # fmt: skip


# -- dora ------------------------------------------------------------------------------------------
def dora(dataflow: Path, *words: str) -> subprocess.Popen[str]:
    """A running dataflow, with what its nodes say."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.Popen(
        [BIN / "dora", "run", dataflow.name, *words], cwd=dataflow.parent, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def to_its_end(child: subprocess.Popen[str]) -> tuple[int, str]:
    """Its status, and what was said."""
    try:
        said, _ = child.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    return child.returncode, said


@with_dora
def test_the_page_is_right(page: Path) -> None:
    built(page / "eye.flow", page / "build" / "eye-dora", DORA)
    status, said = to_its_end(dora(page / "robot.yml"))
    assert status == 0, said
    shown = re.findall(r"show: .*?(\d+) (\d+)\s*$", said, re.MULTILINE)
    assert shown == [(str(n), str(n)) for n in range(100)], said


IMAGE = {"type": "INPUT", "id": "image", "value": [255] * 3072, "dtype": "uint8"}
STOP = {"type": "STOP", "id": "MANUAL"}


def numbered(*numbers: int) -> list[dict[str, object]]:
    """Images with their numbers."""
    return [{**IMAGE, "metadata": {"shape": [48, 64], "token": n}} for n in numbers]


@pytest.fixture(scope="module")
def module(page: Path) -> Path:
    """The module of the page's example, and of one that takes its time."""
    slow = page / "slow.flow"
    slow.write_text((page / "eye.flow").read_text().replace("eye.py:mean", "slow.py:mean"))
    (page / "slow.py").write_text("import time\ndef mean(x):\n    time.sleep(60)")
    built(slow, page / "slow", DORA)
    return built(page / "eye.flow", page / "eye", DORA)


def hear(
    folder: Path, module: Path, *cases: Sequence[object]
) -> list[subprocess.CompletedProcess[str]]:
    """Nodes that hear one of these each, side by side to their ends."""
    environments = []
    for number, events in enumerate(cases):
        (folder / f"{number}.json").write_text(json.dumps(events))
        file = {"DORA_NODE_CONFIG": "", "FLOWC_STAND_IN_EVENTS": str(folder / f"{number}.json")}
        environments.append({**os.environ, **file})
    command = [
        ROOT / "tests" / "support" / "standins" / "robots" / "run.py",
        module,
        "node",
        "--quiet",
    ]
    return forks(*NODE).at_once([command] * len(cases), cwd=folder, timeout=HANGS, env=environments)


def test_a_stream_ends_behind_its_last_token(module: Path, tmp_path: Path) -> None:
    closed = {"type": "INPUT_CLOSED", "id": "image"}
    (ended,) = hear(
        tmp_path,
        module,
        [*numbered(0, 1), closed, *numbered(2), {"type": "STOP", "id": "ALL_INPUTS_CLOSED"}],
    )
    assert ended.returncode == 0, ended.stderr
    counted = [line for line in ended.stdout.splitlines() if line.startswith("image.taken")]
    assert counted == [f"image.taken [{n}] {{}}" for n in (1, 2, 3)]
    lines = [
        f'brightness [1.0] {{"dtype": "float32", "shape": [], "token": {n}}}' for n in range(3)
    ]
    assert [line for line in ended.stdout.splitlines() if line not in counted] == lines


#: What ends a program, and what it says then.
FAULTS: dict[str, list[object]] = {
    "task Eye.image failed: token 7 came at `image` where 6 was next": [*numbered(4, 5, 7)],
    "task Eye.image failed: `image` takes uint8[48, 64], and was given float32[3072]": [
        {**IMAGE, "dtype": "float32", "metadata": {}}
    ],
    "task Eye.image failed: `image` takes uint8[48, 64], and was given uint8[64, 48]": [
        {**IMAGE, "metadata": {"shape": [64, 48]}}
    ],
    "node camera has failed: exited with code 3": [
        {"type": "NODE_FAILED", "id": "camera", "value": {"error": "exited with code 3"}}
    ],
    "dora says: no memory": [{"type": "ERROR", "error": "no memory"}],
    "dora is gone": [None],
}


def test_what_cannot_be_taken_ends_the_program(module: Path, tmp_path: Path) -> None:
    for said, ended in zip(FAULTS, hear(tmp_path, module, *FAULTS.values()), strict=True):
        assert ended.returncode == 1 and said in ended.stderr, ended.stderr


def test_a_stop_finishes_what_has_begun(module: Path, tmp_path: Path) -> None:
    (ended,) = hear(tmp_path, module, [*numbered(0), STOP])
    assert ended.returncode == 0 and ended.stdout.count("brightness") <= 1, ended.stderr


def test_a_reader_that_says_what_it_has_taken_is_waited_for(module: Path, tmp_path: Path) -> None:
    taken = {
        "type": "INPUT",
        "id": "brightness.taken",
        "value": [5],
        "dtype": "int64",
        "metadata": {},
    }
    closed = [{"type": "INPUT_CLOSED", "id": name} for name in ("brightness.taken", "image")]
    failed = {"type": "NODE_FAILED", "id": "camera", "value": {"error": "killed"}}
    images = numbered(*range(40))
    waits, free = hear(
        tmp_path,
        module,
        [*images, taken, {"after": ["brightness", 21]}, failed],
        [*images, taken, *closed],
    )
    assert waits.returncode == 1 and waits.stdout.count("brightness") == 21, waits.stderr
    assert free.returncode == 0 and free.stdout.count("brightness") == 40, free.stderr


def test_a_program_that_is_too_slow_says_so(module: Path, tmp_path: Path) -> None:
    (ended,) = hear(tmp_path, module.parent / "slow", [{**IMAGE, "metadata": {}, "times": 1100}])
    assert ended.returncode == 1
    assert "tokens wait at `image`: they come faster than the program takes them" in ended.stderr


def test_a_node_does_not_run_by_itself(module: Path) -> None:
    alone = forks(*NODE).run([module / "node.py"], cwd="/", timeout=HANGS)
    assert alone.returncode == 2
    assert (
        "dora-rs is missing" in alone.stderr
        or "start its dataflow, with `dora run dataflow.yml`" in alone.stderr
    )


#: Every type that an Arrow array has, each through an app of its own chain.
TYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
ECHO = "\n".join(
    [
        *(
            f'task T_{t} {{ in x: {t}[2, 3]   out y: {t}[2, 3]   python "echo.py:echo" }}'
            for t in TYPES
        ),
        "app Echo {",
        *(
            f"    in in_{t}: {t}[2, 3]   out out_{t}: {t}[2, 3]   t_{t}: T_{t}   in_{t} -> t_{t} -> out_{t}"
            for t in TYPES
        ),
        "}",
    ]
)
ECHO_NODE = """
import sys
import numpy as np
import pyarrow as pa
from dora import Node
types = sys.argv[1:]
node = Node()
sent = {}
for n in range(20):
    for t in types:
        sent[t, n] = (np.arange(6).reshape(2, 3) * n % 100).astype(t)
        node.send_output("to_" + t, pa.array(sent[t, n].reshape(-1)), {"shape": [2, 3], "token": n})
got = dict.fromkeys(types, 0)
while min(got.values()) < 20:
    event = node.next()
    if event["type"] != "INPUT":
        continue
    t, data = event["id"][5:], event["metadata"]
    array = event["value"].to_numpy(zero_copy_only=False).reshape(data["shape"])
    assert array.dtype == t == data["dtype"] and data["token"] == got[t] and (array == sent[t, got[t]]).all(), event
    got[t] += 1
print("all equal", sum(got.values()), flush=True)
"""


@with_dora
def test_every_type_goes_through(write: Write, tmp_path: Path) -> None:
    built(write(ECHO, echo_py="def echo(x): return x"), tmp_path / "echo", DORA)
    (tmp_path / "node.py").write_text(ECHO_NODE)
    edges = [
        f"      from_{t}: {{source: echo/out_{t}, queue_size: 100, queue_policy: backpressure}}"
        for t in TYPES
    ]
    lines = [
        "nodes:", "  - id: node", "    path: node.py", f"    args: {' '.join(TYPES)}", "    inputs:", *edges,
        f"    outputs: [{', '.join('to_' + t for t in TYPES)}]", "  - id: echo", "    module: echo/module.yml",
        "    inputs:", *(f"      in_{t}: node/to_{t}" for t in TYPES),
    ]  # fmt: skip
    (tmp_path / "flow.yml").write_text("\n".join(lines))
    status, said = to_its_end(dora(tmp_path / "flow.yml"))
    assert status == 0 and f"all equal {20 * len(TYPES)}" in said, said


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program on two machines, without an end."""
    folder = tmp_path_factory.mktemp("rig")
    (folder / "app.flow").write_text(TEXT.replace("count: int = 40", "count: int = 1000000"))
    (folder / "tasks.py").write_text(TASKS)
    return built(folder / "app.flow", folder / "out", DORA, "rig")


def lines_of(said: str) -> list[str]:
    """What tasks have printed, without the names of nodes in front."""
    return re.findall(r"(?<!\S)(-?\d+ \d+|odd \d+)\s*$", said, re.MULTILINE)


@with_dora
def test_parts_are_nodes_that_give_what_one_process_gives(rig: Path) -> None:
    alone = run(rig, "--quiet", "--frames", "30")
    nodes = (rig / "module.yml").read_text().partition("\nnodes:")[2]
    (rig / "short.yml").write_text("nodes:" + nodes.replace("--quiet", "--quiet --frames 30"))
    status, said = to_its_end(dora(rig / "short.yml"))
    assert status == 0, said
    assert lines_of(said) == alone.stdout.splitlines() and len(alone.stdout.splitlines()) == 61


def flowing(child: subprocess.Popen[str]) -> Iterator[str]:
    """What is said until results come."""
    assert child.stdout is not None
    for line in child.stdout:
        yield line
        if lines_of(line):
            return


@with_dora
def test_a_part_that_is_killed_ends_all(rig: Path) -> None:
    child = dora(rig / "dataflow.yml")
    assert list(flowing(child))
    os.kill(nodes_of(rig / "parts" / "front" / "node.py")[0], signal.SIGKILL)
    status, said = to_its_end(child)
    assert status != 0
    assert "front" in said and not nodes_of(rig)


@with_dora
def test_an_interrupt_ends_all(rig: Path) -> None:
    child = dora(rig / "dataflow.yml")
    assert list(flowing(child))
    child.send_signal(signal.SIGINT)
    _, said = to_its_end(child)
    assert "Traceback" not in said and not nodes_of(rig), said


def nodes_of(path: Path) -> list[int]:
    """Processes of nodes whose files lie there, those that were started first in front."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words, state = (
                (entry / "cmdline").read_bytes(),
                (entry / "stat").read_text().rpartition(") ")[2],
            )
        except OSError:  # it has ended meanwhile
            continue
        if str(path).encode() in words and not state.startswith("Z"):
            found.append(int(entry.name))
    return sorted(found)


# -- ROS 2 -----------------------------------------------------------------------------------------
#: A node of another author: sends pictures in rows that are filled up, waits for all answers, and
#: prints them.
CAMERA = """
import array
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image
from std_msgs.msg import Float32MultiArray

def main():
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("camera")
    quality = QoSProfile(depth=10, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
    pictures = node.create_publisher(Image, "camera/image", quality)
    got = []
    node.create_subscription(Float32MultiArray, "brightness", lambda message: got.append(message.data[0]), quality)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not pictures.get_subscription_count():
        executor.spin_once(timeout_sec=0.01)
    for n in range(COUNT):
        rows = bytes([n] * 64 + [9] * 6) * HEIGHT
        pictures.publish(Image(height=HEIGHT, width=64, encoding="8UC1", step=70, data=array.array("B", rows)))
    while len(got) < WANTED:
        executor.spin_once(timeout_sec=1)
    node.destroy_node()
    print([round(255 * x) for x in got])
"""


@pytest.fixture(scope="module")
def eye(page: Path) -> Path:
    """The package of the page's example."""
    return built(page / "eye.flow", page / "build" / "eye-ros2", ROS2)


def on_stand_in(
    folder: Path, package: Path, words: Sequence[str], **numbers: int
) -> list[subprocess.CompletedProcess[str]]:
    """The camera, and beside it the node of the page's example, to their ends."""
    text = CAMERA
    for word, value in numbers.items():
        text = text.replace(word.upper(), str(value))
    (folder / "camera.py").write_text(text)
    return in_forks(folder, [[folder, "camera"], [package, "eye.node", *words]])


def in_forks(
    folder: Path, commands: Sequence[Sequence[str | Path]]
) -> list[subprocess.CompletedProcess[str]]:
    """Entry points, each with its folder in front, on the stand-in."""
    script = ROOT / "tests" / "support" / "standins" / "robots" / "run.py"
    environment = {**os.environ, "FLOWC_STAND_IN_BUS": str(folder / "bus")}
    words = [[script, *command] for command in commands]
    return forks(*NODE).at_once(words, cwd=folder, timeout=HANGS, env=environment)


RENAMED = ["--ros-args", "-r", "image:=camera/image"]


def test_topics_carry_every_token_in_order(eye: Path, tmp_path: Path) -> None:
    words = ["--frames", "120", "--quiet", *RENAMED]
    camera, program = on_stand_in(tmp_path, eye, words, count=120, height=48, wanted=120)
    assert program.returncode == camera.returncode == 0, program.stderr + camera.stderr
    assert camera.stdout.strip() == str([*range(120)])


def test_a_message_that_does_not_fit_ends_the_program(eye: Path, tmp_path: Path) -> None:
    camera, program = on_stand_in(tmp_path, eye, RENAMED, count=1, height=47, wanted=0)
    assert program.returncode == 1 and camera.returncode == 0
    assert (
        "task Eye.image failed: `image` takes uint8[48, 64], and was given uint8[47, 64]"
        in program.stderr
    )


#: Two machines between two open ends: numbers in and out, as arrays with a shape.
PAIR = """
task Twice { in x: int64[2, 2]   out y: int64[2, 2]   python "pair.py:twice" }
task Is { in y: int64[2, 2]   out big: bool[2, 2]   python "pair.py:big" }
app Pair { in x: int64[2, 2]   out y: int64[2, 2]   out big: bool[2, 2]   twice: Twice   is: Is
    x -> twice -> y   twice -> is -> big }
platform rig { machine a { cpu core[2] }   machine b { cpu core[2] }   link a b 1 GB/s 20 us }
mapping on rig { Pair.x -> a.core[0]   Pair.twice -> a.core[0]   Pair.is -> b.core[0]   Pair.big -> b.core[0] }
"""
PAIR_TASKS = """
def twice(x): return 2 * x
def big(y): return y > 4
"""
NUMBERS = """
import array
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Int64MultiArray, MultiArrayDimension, MultiArrayLayout, UInt8MultiArray

def main():
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("numbers")
    quality = QoSProfile(depth=10, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE)
    out = node.create_publisher(Int64MultiArray, "x", quality)
    got = {"y": [], "big": []}
    for name, kind in (("y", Int64MultiArray), ("big", UInt8MultiArray)):
        node.create_subscription(kind, name, got[name].append, quality)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not out.get_subscription_count():
        executor.spin_once(timeout_sec=0.01)
    dim = [MultiArrayDimension(label="rows", size=2, stride=4), MultiArrayDimension(label="columns", size=2, stride=2)]
    for n in range(30):
        layout = MultiArrayLayout(dim=dim)
        out.publish(Int64MultiArray(layout=layout, data=array.array("q", [n, n - 1, n - 2, n - 3])))
    while min(map(len, got.values())) < 30:
        executor.spin_once(timeout_sec=1)
    node.destroy_node()
    for n, (y, big) in enumerate(zip(got["y"], got["big"])):
        assert [d.size for d in y.layout.dim] == [2, 2] and [d.stride for d in y.layout.dim] == [4, 2]
        assert list(y.data) == [2 * n, 2 * n - 2, 2 * n - 4, 2 * n - 6], y.data
        assert list(big.data) == [int(x > 4) for x in y.data], big.data
    print("all equal")
"""


def test_parts_find_each_other_by_a_topic(write: Write, tmp_path: Path) -> None:
    package = built(write(PAIR, pair_py=PAIR_TASKS), tmp_path / "pair", ROS2, "rig")
    (tmp_path / "foreign.py").write_text(NUMBERS)
    nodes = [
        [package, f"app.parts.{part}.node", "--frames", "30", "--quiet"] for part in ("a", "b")
    ]
    foreign, *parts = in_forks(tmp_path, [[tmp_path, "foreign"], *nodes])
    assert [p.returncode for p in parts] == [0, 0], parts[0].stderr + parts[1].stderr
    assert foreign.stdout == "all equal\n", foreign.stderr
    part = package / "app" / "parts" / "a"
    alone = run(part)
    assert (
        alone.returncode == 2
        and "start all parts together, as nodes: dora or ROS 2 starts node.py" in alone.stderr
    )
    assert "starts: its README is in the folder of package.xml" in (part / "README.md").read_text()
