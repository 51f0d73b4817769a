"""A cut that moves in a running program: when, where to, and that no frame is lost on the way; also
between CPUs and a GPU, on stand-ins. Time is the tests' own."""

from __future__ import annotations

import ctypes
import gc
import json
import shutil
import subprocess
import sys
from pathlib import Path

import flowc
import numpy as np
import onnx
import onnxruntime
import pytest
from flowc.cli import app
from flowc.driver.plan.memory import beyond_platform
from flowc.model.diagnostic import Errors
from flowc.runtime import adapt, memory
from flowc.runtime.reference import load_deployment
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from builds import HANGS, Write, harness, planned, run, store_profile
from stand_in_runs import on_stand_in

DEPTH, CHANNELS, SIZE, FRAMES = 10, 4, 8, 400
CODE = f"""
import numpy as np
class Source:
    def __init__(self):
        self.left, self.frames = {FRAMES}, np.load({{file!r}})
    def __call__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.frames[self.left % 7]
class Show:
    def __init__(self): self.sums = []
    def __call__(self, y): self.sums.append(float(y.sum()))
    def close(self): np.save({{file!r}} + ".sums", self.sums)
"""
TEXT = f"""
type Image = float32[1, CHANNELS, {SIZE}, {SIZE}]
task Source {{ out image: Image  python "t.py:Source" }}
task Show {{ in y: Image  python "t.py:Show" }}
network Net from "net.onnx" {{ in image from "x"  out y from "r{DEPTH}" }}
app A {{ source: Source  net: Net  show: Show   source -> net -> show }}
platform pc {{ cpu cpu[3]  gpu gpu compute 7.2 }}
platform board {{ tensorrt "8.5"  cpu cpu[3]  gpu gpu compute 7.2 MEMORY  dla dla[2] }}
platform phone {{ cpu cpu[3]  npu npu engine qnn }}
mapping on PLATFORM {{ A.net -> STAGES adapt
    A.source -> cpu[0]   A.show -> cpu[0] }}
"""
#: The first frames find the last core three times as slow as planned, the others find it as
#: planned.
DRIVER = """
import json, runpy, sys, types
home, loaded = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, home)
from runtime import adapt
now, seen = 10**9, 0
adapt.time = types.SimpleNamespace(perf_counter_ns=lambda: now)
took, said = adapt.Cut.took, []
def as_planned(self, side, variant, ns):
    global now, seen
    work = self.variants[variant].work
    slow = 3 if seen < loaded else 1
    unit = 10_000_000 / sum(work)
    spent = [int(unit * w) for w in work[:-1]] + [int(unit * slow * work[-1])]
    self.say = said.append
    if side == self.last:
        seen += 1
        now += max(sum(ns for ns, p in zip(spent, self.places) if p == k) for k in self.places)
    took(self, side, variant, spent[side])
adapt.Cut.took = as_planned
sys.argv = ["main.py", "--quiet"]
try:
    runpy.run_path(home + "/main.py", run_name="__main__")
finally:
    print(json.dumps(said))
"""


def _network(path: Path, channels: int) -> None:
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(1, DEPTH + 1):
        kernel = rng.normal(0, (2 / (9 * channels)) ** 0.5, (channels, channels, 3, 3))
        weights.append(numpy_helper.from_array(kernel.astype(np.float32), f"w{k}"))
        nodes.append(
            helper.make_node(
                "Conv", [f"r{k - 1}" if k > 1 else "x", f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
    shape = [1, channels, SIZE, SIZE]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", f"r{DEPTH}")]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )


TWO = 'cpu[0] until "r5" | cpu[1]'
THREE = 'cpu[0] until "r3" | cpu[1] until "r7" | cpu[0]'


def text_in(
    write: Write,
    folder: Path,
    stages: str = TWO,
    platform: str = "host",
    channels: int = CHANNELS,
    code: str = "",
    memory: str = "",
) -> Path:
    """A text with its network, and with a profile in which all stages take the same time."""
    words = {"CHANNELS": str(channels), "STAGES": stages, "PLATFORM": platform, "MEMORY": memory}
    text = TEXT
    for word, value in words.items():
        text = text.replace(word, value)
    flow = write(text, t_py=code or CODE.format(file=""))
    _network(folder / "net.onnx", channels)
    times = {f"A.net.stage{k}": 2_000_000 for k in range(1, stages.count("|") + 2)}
    store_profile(flow, times, platform)
    return flow


def built(write: Write, folder: Path, channels: int, code: str = "", stages: str = TWO) -> Path:
    """The program, whose stages take the same time as far as it knows."""
    flow = text_in(write, folder, stages, channels=channels, code=code)
    return flowc.build(flow, folder / "out").directory


def made_elsewhere(build: Path) -> None:
    """As if the program had been built with another ONNX Runtime: weights are not in common."""
    listed = build / "networks" / "net=A.net.json"
    document = json.loads(listed.read_text()) | {"onnxruntime": ["0", "1"]}
    listed.write_text(json.dumps(document))


def moves_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The layers behind which `DRIVER` saw the cuts move. There may be some on the way: a window may
    lie on both sides of a change."""
    said = json.loads(done.stdout.splitlines()[-1])
    return [line.removeprefix("the cut of A.net moved to ") for line in said]


@pytest.mark.parametrize(
    ("stages", "common", "first", "last"),
    [
        (TWO, True, "`r7`", ["`r5`"]),
        (TWO, False, "`r7`", ["`r5`"]),
        (THREE, True, "`r2`, `r9`", ["`r1`, `r7`", "`r2`, `r8`", "`r3`, `r9`"]),
    ],
)
def test_no_frame_is_lost_while_the_cut_of_a_program_moves(
    write: Write, tmp_path: Path, stages: str, common: bool, first: str, last: list[str]
) -> None:
    """A core is loaded, later it is free again: the cut moves, and comes back; every frame is what
    it would be."""
    file = tmp_path / "frames.npy"
    channels = 16  # their weights are worth a common file on each kind of CPU
    frames = np.random.default_rng(3).standard_normal((7, 1, channels, SIZE, SIZE), np.float32)
    np.save(file, frames)
    build = built(write, tmp_path, channels, CODE.format(file=str(file)), stages)
    if not common:
        made_elsewhere(build)
    command = [sys.executable, "-c", DRIVER, str(build), str(FRAMES // 2)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    moves = moves_of(done)
    assert moves[0] == first and moves[-1] in last
    whole = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    sums = [float(whole.run(None, {"x": x})[0].sum()) for x in frames]
    expected = [sums[left % 7] for left in reversed(range(FRAMES))]
    np.testing.assert_allclose(np.load(f"{file}.sums.npy"), expected, rtol=1e-4, atol=1e-4)


def test_all_cuts_have_one_copy_of_the_weights(write: Write, tmp_path: Path) -> None:
    """Else each cut has a whole network of its own."""
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("only glibc counts")
    build = built(write, tmp_path, 64)
    tasks = {t["name"]: t for t in load_deployment(str(build))["apps"][0]["tasks"]}
    code = tasks["A.net.stage1"]["code"]
    variants = [adapt.Variant(v["layers"], v["parts"], v["work"]) for v in code["variants"]]
    heap = []
    for home in (build, tmp_path / "elsewhere"):
        if home != build:
            shutil.copytree(build, home)
            made_elsewhere(home)
        cut = adapt.Cut("A.net", variants, 0, common=code["common"])
        gc.collect()
        before = memory._heap()
        sides = [adapt.Stage(cut, 0, ["x"]), adapt.Stage(cut, 1, [f"r{DEPTH}"])]
        for side in sides:
            side.open(str(home), [], [])
            assert bool(side.layout) == (home != build)
        gc.collect()
        heap.append(memory._heap() - before)
    whole = DEPTH * 64 * 64 * 9 * 4
    saved = (len(variants) - 1) * whole
    assert len(variants) > 3 and heap[1] - heap[0] > 0.95 * saved


# -- the cut alone ---------------------------------------------------------------------------------
class Clock:
    """Time that passes while a side of the cut works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        monkeypatch.setattr(adapt.time, "perf_counter_ns", lambda: self.now)


def pipeline(cut: adapt.Cut, clock: Clock, slow: tuple[float, float], frames: int) -> float:
    """Two stages at work, slower than planned by these factors; returns the mean time between
    frames."""
    begin = clock.now
    for _ in range(frames):
        number = cut.current
        spent = [int(w * s) for w, s in zip(cut.variants[number].work, slow, strict=True)]
        cut.took(0, number, spent[0])
        clock.now += max(spent)
        cut.took(1, number, spent[1])
    return (clock.now - begin) / frames


def variants() -> list[adapt.Variant]:
    nothing = ("", (), ())
    return [
        adapt.Variant([f"l{k}"], [nothing, nothing], (k * 10e6, (10 - k) * 10e6))
        for k in range(3, 8)
    ]


def test_the_cut_moves_when_a_core_is_loaded_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    cut = adapt.Cut("A.net", variants(), 2)
    said: list[str] = []
    cut.say = said.append
    assert pipeline(cut, clock, (1, 1), 100) == 50e6 and cut.current == 2
    assert pipeline(cut, clock, (1, 2), 30) > 70e6  # until it is noticed
    pipeline(cut, clock, (1, 2), 60)
    assert (
        cut.variants[cut.current].layers[0] == "l7"
        and pipeline(cut, clock, (1, 2), 30) == 70e6 < 100e6
    )
    pipeline(cut, clock, (1, 1), 100)
    assert cut.current == 2 and pipeline(cut, clock, (1, 1), 30) == 50e6
    assert (
        said[0] == "the cut of A.net moved to `l7`" and said[-1] == "the cut of A.net moved to `l5`"
    )


def test_a_move_that_makes_frames_slower_is_taken_back_and_not_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The front seems slow, but what it waits for does not move with the cut; the back is slower
    with more layers than can be told."""
    clock = Clock(monkeypatch)
    cut = adapt.Cut("A.net", variants(), 2)
    tried = 0
    for _ in range(600):
        number, before = cut.current, cut.current
        back = 50_000_000 if number == 2 else 120_000_000
        cut.took(0, number, 100_000_000)
        clock.now += max(100_000_000, back)
        cut.took(1, number, back)
        tried += cut.current != before
    assert cut.current == 2 and cut.moves == 0 and 2 <= tried <= 14


def test_two_stages_of_one_processor_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last stage have 8 of 12 layers, on one processor."""
    clock = Clock(monkeypatch)
    start = next(k for k, v in enumerate(three()) if v.layers == ["l4", "l8"])
    cut = adapt.Cut("A.net", three(), start, places=[0, 1, 0])
    for _ in range(300):
        number = cut.current
        a, b, c = (int(w) for w in cut.variants[number].work)
        cut.took(0, number, a)
        cut.took(1, number, b)
        clock.now += max(a + c, b)
        cut.took(2, number, c)
    front, middle, back = cut.variants[cut.current].work
    assert front + back == middle


def test_what_other_tasks_do_on_a_processor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    cut = adapt.Cut("A.net", variants(), 2, others=(40e6, 0.0))
    for _ in range(100):
        number = cut.current
        front, back = cut.variants[number].work
        cut.took(0, number, int(front))
        clock.now += int(max(front + 40e6, back))
        cut.took(1, number, int(back))
    assert cut.variants[cut.current].layers[0] == "l3"


# -- three stages ----------------------------------------------------------------------------------
def three() -> list[adapt.Variant]:
    """Twelve layers of a millisecond in three stages."""
    nothing = ("", (), ())
    return [
        adapt.Variant([f"l{a}", f"l{b}"], [nothing] * 3, (a * 1e6, (b - a) * 1e6, (12 - b) * 1e6))
        for a in range(2, 7)
        for b in range(a + 1, 11)
    ]


def frames_of(cut: adapt.Cut, clock: Clock, loads: list[tuple[float, ...]], seconds: float) -> int:
    """Frames of a pipeline whose processors are slower by other factors after each time."""
    count = 0
    for slow in loads:
        end = clock.now + seconds * 1e9
        while clock.now < end:
            number = cut.current
            spent = [int(w * s) for w, s in zip(cut.variants[number].work, slow, strict=True)]
            for stage in range(cut.last):
                cut.took(stage, number, spent[stage])
            clock.now += max(spent)
            cut.took(cut.last, number, spent[-1])
            count += 1
    return count


def test_two_cuts_follow_a_load_that_changes_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another program takes half of a processor, and then of another one: compared with the best
    cuts that stay."""
    clock = Clock(monkeypatch)
    loads = [(1, 1, 1), (2, 1, 1), (1, 1, 1), (1, 2, 1), (1, 1, 2), (1, 1, 1)]
    fixed = []
    for number in range(len(three())):
        stays = adapt.Cut("A.net", [three()[number]], 0)
        fixed.append(frames_of(stays, clock, loads, 5))
    start = next(k for k, v in enumerate(three()) if v.layers == ["l4", "l8"])
    moves = adapt.Cut("A.net", three(), start)
    said: list[str] = []
    moves.say = said.append
    assert frames_of(moves, clock, loads, 5) >= 1.18 * max(fixed)
    assert said[0] == "the cut of A.net moved to `l2`, `l7`" and moves.moves >= 4


# -- a GPU -----------------------------------------------------------------------------------------
#: Cuts move after every third frame that the last stage has ended, to each choice in turn.
CHURN = """
import runpy, sys
from runtime import adapt
seen = []
def took(self, stage, variant, ns):
    assert ns > 0
    if stage == self.last:
        seen.append(variant)
        self.current = len(seen) // 3 % len(self.variants)
adapt.Cut.took = took
sys.argv = ["main.py", *sys.argv[1:]]
try:
    runpy.run_path(sys.path[0] + "/main.py", run_name="__main__")
finally:
    print(len(set(seen)))
"""
GPU = 'cpu[1] until "r5" | gpu'


def on_gpu(write: Write, folder: Path, platform: str, stages: str) -> tuple[Path, Path]:
    """The program, with plans where it needs some, and the file of what it computes."""
    file = folder / "frames.npy"
    shape = 7, 1, CHANNELS, SIZE, SIZE
    np.save(file, np.random.default_rng(3).standard_normal(shape, np.float32))
    flow = text_in(write, folder, stages, platform, code=CODE.format(file=str(file)))
    directory = flowc.build(flow, folder / "out", platform=platform).directory
    (directory / "driver.py").write_text(DRIVER)
    (directory / "churn.py").write_text(CHURN)
    if platform == "board":
        done = on_stand_in(directory, "build_engines.py", tensorrt="8.5.2")
        assert done.returncode == 0, done.stderr
    return directory, folder / "frames.npy.sums.npy"


def expected_sums(folder: Path, count: int) -> list[float]:
    """What the whole network makes of so many frames."""
    whole = onnxruntime.InferenceSession(folder / "net.onnx")
    frames = np.load(folder / "frames.npy")
    sums = [float(whole.run(None, {"x": x})[0].sum()) for x in frames]
    return [sums[left % 7] for left in reversed(range(FRAMES - count, FRAMES))]


@pytest.mark.parametrize(
    ("platform", "stages", "integrated", "choices"),
    [
        ("pc", GPU, False, 5),
        ("board", 'gpu streams 2 until "r5" | cpu[1], cpu[2]', True, 5),
        ("board", 'gpu until "r3" | cpu[1] until "r7" | gpu', False, 24),
    ],
)
def test_no_frame_is_lost_while_a_cut_moves_between_cpus_and_a_gpu(
    write: Write, tmp_path: Path, platform: str, stages: str, integrated: bool, choices: int
) -> None:
    """In ONNX Runtime and in TensorRT: frames are those of the whole network, of the twin as well,
    and every access to memory of the device is ordered."""
    directory, sums = on_gpu(write, tmp_path, platform, stages)
    count = 10 * choices  # those under way while a cut moves do not count
    words = "--quiet", "--frames", str(count)
    done = on_stand_in(directory, "churn.py", *words, tensorrt="8.5.2", integrated=integrated)
    assert done.returncode == 0 and "0 violations" in done.stderr, done.stderr
    assert int(done.stdout) == choices
    found = np.load(sums)
    np.testing.assert_allclose(found, expected_sums(tmp_path, count), rtol=1e-4)
    assert min(found) > 1
    sums.unlink()
    assert run(directory, *words, "--twin").returncode == 0
    np.testing.assert_allclose(np.load(sums), found, rtol=1e-4)


@pytest.mark.parametrize("platform", ["pc", "board"])
def test_a_loaded_gpu_gives_layers_to_the_cpu_and_takes_them_back(
    write: Write, tmp_path: Path, platform: str
) -> None:
    directory, _ = on_gpu(write, tmp_path, platform, GPU)
    half = str(FRAMES // 2)
    done = on_stand_in(directory, "driver.py", str(directory), half, tensorrt="8.5.2")
    moves = moves_of(done)
    assert moves[0] == "`r7`" and moves[-1] == "`r5`", done.stderr


def test_the_harness_runs_the_twin_of_a_moving_cut(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = on_gpu(write, tmp_path, "pc", GPU)
    monkeypatch.setenv("FLOWC_TWIN", "1")
    done = harness(directory)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("memory", "fits"), [("17 kB", True), ("16 kB", False)])
def test_a_gpu_has_room_for_the_weights_of_all_cuts(
    write: Write, tmp_path: Path, memory: str, fits: bool
) -> None:
    """3 to 7 layers of 4 x 4 x 3 x 3 weights are on it, with what lies between two of them."""
    flow = text_in(write, tmp_path, GPU, "board", memory=f"memory {memory}")
    valid = flowc.check(flow, platform="board").require()
    deployed = planned(valid, None)
    known = deployed.deployment.planned
    weights = 4 * (3 + 4 + 5 + 6 + 7) * CHANNELS * CHANNELS * 9
    image = 4 * CHANNELS * SIZE * SIZE
    assert known is not None and (known.weights, known.arenas) == (weights, 2 * image)
    faults = beyond_platform(deployed, valid.platform)
    assert [f.code for f in faults] == ([] if fits else ["F513"])


@pytest.mark.parametrize(
    ("platform", "stages", "where"),
    [
        ("board", 'cpu[0] until "r5" | dla[0]', "a dla"),
        ("board", 'gpu until "r5" | dla[0]', "a dla"),
        ("phone", 'npu until "r5" | cpu[0]', "a npu"),
    ],
)
def test_no_cut_moves_to_an_accelerator_with_engines_for_one_cut(
    write: Write, tmp_path: Path, platform: str, stages: str, where: str
) -> None:
    flow = text_in(write, tmp_path, stages, platform)
    with pytest.raises(Errors) as caught:
        planned(flowc.check(flow, platform=platform).require(), None)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F505" and f"cannot run on {where}: its cut moves" in fault.message


def test_native_programs_and_libraries_for_c_have_no_moving_cut_on_a_gpu(
    write: Write, tmp_path: Path
) -> None:
    flow = text_in(write, tmp_path, GPU, "board")
    for target, code in (("native", "F661"), ("hopes-external", "F603")):
        done = CliRunner().invoke(
            app, ["build", str(flow), "--platform", "board", "--target", target]
        )
        assert done.exit_code == 1 and f"error[{code}]" in done.stderr
