"""The arena that networks share, outputs in memory of our own, and what was planned beside what is
taken."""

from __future__ import annotations

import gc
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.networks.onnx.whole import whole_of
from flowc.runtime import memory
from flowc.runtime.code import Network
from flowc.runtime.tokens import Port
from onnx import TensorProto, helper, numpy_helper

from builds import build, run
from forks import PROGRAM, forks

SHAPE = (1, 4, 256, 256)


def network(path: Path, layers: int = 3, shape: tuple[int, ...] = SHAPE) -> Path:
    """Layers in a row that do not work in place."""
    names = ["x", *(f"t{k}" for k in range(1, layers)), "y"]
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("AveragePool", [a], [b], **window) for a, b in pairwise(names)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def opened(path: Path, shape: tuple[int, ...] = SHAPE) -> Network:
    """A network that is ready to fire."""
    code = Network(path.name, ["x"], ["y"])
    code.open(str(path.parent), [Port("x", "float32", shape)], [Port("y", "float32", shape)])
    return code


def test_memory_of_a_large_output_is_used_again_only_when_no_array_refers_to_it(
    tmp_path: Path,
) -> None:
    """A row of a token keeps all of it."""
    code = opened(network(tmp_path / "net.onnx"))
    inputs = [np.full(SHAPE, v, np.float32) for v in (0.0, 3.0)]
    first, second = (code.fire([x], 0)[0] for x in inputs)
    wanted = [np.array(a) for a in (first, second)]
    assert not np.array_equal(*wanted)
    place, row = first.ctypes.data, first[0, 1:2, 7]
    del first
    third = code.fire([inputs[1]], 0)[0]
    assert third.ctypes.data != place, "a view of it is alive"
    assert np.array_equal(row, wanted[0][0, 1:2, 7]) and np.array_equal(third, wanted[1])
    del row
    gc.collect()
    fourth = code.fire([inputs[0]], 0)[0]
    assert fourth.ctypes.data == place
    assert np.array_equal(fourth, wanted[0]) and np.array_equal(second, wanted[1])


def test_inputs_may_lie_anyhow(tmp_path: Path) -> None:
    """Every other row of an array."""
    code = opened(network(tmp_path / "net.onnx"))
    wide = np.random.default_rng(0).standard_normal((1, 4, 512, 256)).astype(np.float32)
    seen = code.fire([wide[:, :, ::2]], 0)[0]
    assert np.array_equal(seen, code.fire([np.ascontiguousarray(wide[:, :, ::2])], 0)[0])


def test_what_is_rehearsed() -> None:
    """All learn and give back; then all run, the largest block first. Each session runs once, and
    errors of a rehearsal are reported for no task."""
    seen: list[tuple[str, bool]] = []

    class Options:
        def __init__(self) -> None:
            self.entries: dict[str, str] = {}

        def add_run_config_entry(self, key: str, value: str) -> None:
            self.entries[key] = value

        def get_run_config_entry(self, key: str) -> str:
            return self.entries.get(key, "")

    class Session:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, wanted: object, feeds: dict[str, np.ndarray], options: Options) -> None:
            assert feeds["x"].tolist() == [1, 1]
            seen.append((self.name, bool(options.get_run_config_entry(memory.GIVE_BACK[0]))))
            raise ValueError("it does not like ones")

    import onnxruntime

    small, large = Session("small"), Session("large")
    feeds = {"x": ((2,), np.dtype("int64"))}
    runs = [
        memory.Rehearsal(s, block, feeds, memory.Outputs((), ()))
        for s, block in ((small, 1), (large, 9), (small, 1))
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnxruntime, "RunOptions", Options)
        for _, step in memory.rehearsed((None, r) for r in runs):
            step()
    assert seen == [("small", True), ("large", True), ("large", False), ("small", False)]


MEASURE = """
import ctypes, sys
from flowc.runtime import memory
from flowc.runtime.code import session

class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "a b c d hblkhd f g uordblks i j".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
used = lambda: libc.mallinfo2().uordblks + libc.mallinfo2().hblkhd
runs = [r for path in sys.argv[2:] for r in memory.LoadedSession(session(path, 1, False)).rehearsals(0)]
for run in runs:
    run.run(True)
before = used()
for run in runs if sys.argv[1] == "largest" else runs[::-1]:
    run.run(False)
print(used() - before)
"""


def test_one_arena_holds_the_largest_block_if_that_comes_first(tmp_path: Path) -> None:
    """Counted by malloc itself. With the smallest first, blocks lie side by side: the reason for
    the order."""
    import ctypes

    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("only glibc counts")
    (tmp_path / "measure.py").write_text(MEASURE)
    paths = [
        network(tmp_path / f"net{side}.onnx", 6, (1, 4, side, side)) for side in (512, 480, 448)
    ]
    wholes = [whole_of(onnx.load(p)) for p in paths]
    blocks = [w.block for w in wholes if w is not None]
    assert blocks == sorted(blocks, reverse=True)
    taken = {}
    for order in ("largest", "smallest"):
        command = [tmp_path / "measure.py", order, *paths]
        done = forks(*PROGRAM).run(command, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        taken[order] = int(done.stdout)
    assert taken["largest"] <= 1.1 * blocks[0] + 300_000 < taken["smallest"]


COUNT = """
import json, sys
import onnxruntime
from flowc.runtime import memory
from flowc.runtime.own_graph import own_options

taken = []
for path in sys.argv[1:]:
    options = own_options(1)
    memory.share(options, path)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (run,) = memory.LoadedSession(session, own=True).rehearsals(0)
    run.run(True)
    before = memory._heap()
    run.run(False)
    taken.append(memory._heap() - before)
    run.run(True)
print(json.dumps(taken))
"""


def test_what_a_firing_takes_follows_from_the_graph(tmp_path: Path) -> None:
    """Of each model of a network in bands, counted by malloc: with residual blocks, whose rows are
    cut out inside."""
    from flowc.model.mapping import Bands
    from flowc.networks.bands.blocked import read_blocked
    from flowc.networks.bands.made import forms
    from flowc.networks.bands.net import read_net

    net = read_net(residual(tmp_path / "net.onnx"))
    blocked = read_blocked(net)
    if blocked is None or not memory._heap():
        pytest.skip("no blocks, or no count of the heap")
    found = forms(net, blocked, [Bands(8, "a1", ()), Bands(16, "a3", ("a2",))])
    assert found.blocked is not None, found.why
    (tmp_path / "count.py").write_text(COUNT)
    paths = []
    for k, model in enumerate(found.blocked.models):
        paths.append(tmp_path / f"{k}.onnx")
        paths[-1].write_bytes(model)
    done = forks(*PROGRAM).run([tmp_path / "count.py", *paths], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    for taken, planned in zip(json.loads(done.stdout), found.blocked.blocks, strict=True):
        assert abs(taken - planned) <= 0.01 * planned + 4096


def residual(path: Path) -> Path:
    """Four sums of a convolution of two others with what it began with, then a mean."""
    rng = np.random.default_rng(0)
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes, x = [helper.make_node("Conv", ["x", "stem.w"], ["stem"], **window)], "stem"
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.1, (32, 3, 3, 3)).astype(np.float32), "stem.w")
    ]
    for k in range(4):
        for name, data in ((f"b{k}", x), (f"c{k}", f"r{k}")):
            weights.append(
                numpy_helper.from_array(
                    rng.normal(0, 0.1, (32, 32, 3, 3)).astype(np.float32), f"{name}.w"
                )
            )
            nodes.append(helper.make_node("Conv", [data, f"{name}.w"], [name], **window))
            nodes += [helper.make_node("Relu", [f"b{k}"], [f"r{k}"])] if name == f"b{k}" else []
        nodes.append(helper.make_node("Add", [f"c{k}", x], [f"a{k}"]))
        x = f"a{k}"
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"]))
    shapes = {"x": (1, 3, 64, 48), "y": (1, 32, 1, 1)}
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def test_planned_memory_stands_beside_what_the_process_takes(tmp_path: Path) -> None:
    """In main.py, deployment.json and the report."""
    network(tmp_path / "net.onnx", 5, (1, 4, 64, 64))
    (tmp_path / "tasks.py").write_text(
        "import numpy as np\ndef source():\n    return np.ones((1, 4, 64, 64), np.float32)\ndef sink(y):\n    pass\n"
    )
    flow = tmp_path / "net.flow"
    flow.write_text(
        'type T = float32[1, 4, 64, 64]\ntask Source { out x: T python "tasks.py:source" }\n'
        'network Net from "net.onnx" { in x: T out y: T }\ntask Sink { in y: T python "tasks.py:sink" }\n'
        "app A { source: Source net: Net sink: Sink source -> net -> sink }\n"
        "mapping on host { A.source -> cpu[0] A.net -> cpu[0] A.sink -> cpu[0] }\n"
    )
    out = build(flow, tmp_path / "out")
    planned = json.loads((out / "deployment.json").read_text())["planned"]
    image = 4 * 4 * 64 * 64
    between = 2 * image * 33 // 32  # the arena has a table of what is in it
    assert planned == {"weights": 0, "buffers": between, "tokens": 2 * image}
    done = run(out, "--frames", "3", "--report", str(tmp_path / "report.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "report.json").read_text())["memory"]
    assert found["planned"] == {**planned, "total": between + 2 * image}
    assert found["process"] >= found["resident"] > 0 and found["process"] > found["before_networks"]
    assert "memory MB" in done.stdout
