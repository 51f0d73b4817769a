"""Types with a dimension `up to`: tokens with sizes of their own, wherever they lie."""

from __future__ import annotations

import json
import random
from pathlib import Path

import flowc
import numpy as np
import pytest
from flowc.runtime import Sized, SizedUpTo
from flowc.runtime.counts import Null
from flowc.runtime.remote_channel import Incoming, Outgoing

from builds import Write, build, harness, run, store_profile

TEXT = """
type Line = float32[3, up to 480]
task Find { out line: Line   out two: Line rate 2   out lines: Line rate up to 4   python "t.py:Find" }
task Each { in line: Line   out next: Line   python "t.py:each" }
task Show { in line: Line   in two: Line rate 2   in lines: Line rate up to 4   in same: Line rate 3
    python "t.py:Show" }
app A {
    find: Find   each: Each   show: Show
    find.lines -> each -> show.lines
    find.line -> show.line   find.line -> repeat 3 -> show.same   find.two -> show.two
}
platform two { cpu core[2] }
mapping on two { A.find -> core[0]   A.each -> core[1] process   A.show -> core[0] }
"""
CODE = """
import numpy as np
class Find:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 1
        made = [np.full((3, self.n + i), i, np.float32) for i in range(3 + self.n % 5)]
        return made[0], made[1:3], made[3:]
def each(line): return line[:, 1:] + 1
class Show:
    def __init__(self): self.seen = []
    def __call__(self, line, two, lines, same):
        assert isinstance(two, list) and isinstance(lines, list) and not line.flags.writeable
        self.seen.append([[t.shape[1] for t in given] for given in ([line], two, lines, same)])
    def close(self): print("seen", self.seen)
"""
SEEN = [[[n], [n + 1, n + 2], [n + 2 + i for i in range(n % 5)], [n] * 3] for n in range(1, 10)]


def built(write: Write, tmp_path: Path, code: str = CODE) -> Path:
    """The program of the text above."""
    flow = write(TEXT, t_py=code)
    store_profile(flow, platform="two")
    return build(flow, tmp_path / "out", platform="two")


def test_tasks_see_what_is_there(write: Write, tmp_path: Path) -> None:
    out = built(write, tmp_path)
    done = run(out, "--frames", "9")
    assert done.returncode == 0, done.stderr
    assert f"seen {SEEN}" in done.stdout
    described = json.loads((out / "deployment.json").read_text())["apps"][0]["tasks"]
    ports = {p["name"]: p for t in described for p in t["outputs"]}
    assert (ports["line"]["shape"], ports["line"]["bounded"]) == ([3, 480], [1])


def test_the_harness_notices_a_token_of_another_size(write: Write, tmp_path: Path) -> None:
    out = built(write, tmp_path)
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr
    sizes = out / "runtime" / "sizes.py"
    right = "sizes[i] = token.shape\n            np.copyto(np.ndarray(token.shape"
    assert right in sizes.read_text()
    wrong = "token = token[:, :1]\n            " + right
    sizes.write_text(sizes.read_text().replace(right, wrong))
    assert harness(out).returncode == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            "made[0], [np.zeros((3, 481), np.float32)] * 2, []",
            "returned float32[3, 481] for port `two`, whose tokens are float32[3, up to 480]",
        ),
        (
            "made[0].astype(float), made[1:3], []",
            "float64[3, 1] for port `line`, whose tokens are float32[3, up to 480]; `.astype(np.float32)` converts it",
        ),
        ("np.zeros(3, np.float32), made[1:3], []", "returned float32[3] for port `line`"),
        ("made[0].astype(int), made[1:3], []", "returned int64[3, 1] for port `line`"),
        ("made[0], made[:1], []", "returned 1 tokens for port `two`, which has 2"),
        ("made[0], made[:2], made * 2", "tokens for port `lines`, which has up to 4"),
        ("made[0], 7, []", "returned no list of tokens for port `two`"),
    ],
)
def test_a_wrong_size_is_told(write: Write, tmp_path: Path, returned: str, said: str) -> None:
    wrong = CODE.replace("made[0], made[1:3], made[3:]", returned)
    done = run(built(write, tmp_path, wrong), "--frames", "2")
    assert done.returncode != 0 and said in done.stderr, done.stderr


def test_open_ends_take_and_give_sizes(write: Write) -> None:
    flow = write(
        """
        task Half { in x: uint8[up to 64, up to 64]   out y: uint8[up to 64]   python "t.py:half" }
        app A {
            in x: uint8[up to 64, up to 64] rate up to 4   out y: uint8[up to 64] rate up to 4
            half: Half   x -> half -> y
        }
        """,
        t_py="def half(x): return x[0]\n",
    )
    store_profile(flow)
    with flowc.open(flow) as opened:
        given = [np.full((k + 1, k), k, np.uint8) for k in range(4)]
        assert [t.tolist() for t in opened.ask(given).result(30)] == [[k] * k for k in range(4)]
        assert opened.ask([]).result(30) == []
        with pytest.raises(ValueError, match=r"`x` takes uint8\[up to 64, up to 64\]"):
            opened.ask([np.zeros((65, 1), np.uint8)])


NET = """
type Line = float32[1, 3, 8, up to 64]
task Find { out line: Line rate up to 4   out page: float32[1, 3, 8, up to 64]   python "n.py:Find" }
network Rec from "rec.onnx" { in line: Line from "x"   out y: float32[1, up to 32, 4] from "y" }
network Bare from "rec.onnx" { in x: Line }
network Post from "rec.onnx" { in x: Line   out sum: float32[up to 32] from "y" post "n.py:post" }
task Show { in y: float32[1, up to 32, 4] rate up to 4   in z: float32[1, up to 32, 4]
    in sum: float32[up to 32]   python "n.py:show" }
app A {
    find: Find   rec: Rec   bare: Bare   post: Post   show: Show
    find.line -> rec -> show.y   find.page -> bare -> show.z   find.page -> post -> show.sum
}
platform two { cpu core[2] }
mapping on two { A.find -> core[0]   A.rec -> core[0], core[1]   A.bare -> core[1] }
"""
NET_CODE = """
import numpy as np
class Find:
    def __init__(self): self.r = np.random.default_rng(1)
    def line(self): return self.r.random((1, 3, 8, self.r.integers(1, 65))).astype(np.float32)
    def __call__(self): return [self.line() for _ in range(self.r.integers(0, 5))], self.line()
def post(y): return y.sum(2)[0]
def show(y, z, sum):
    print(*(a.shape[1] for a in (*y, z)), *sum.shape)
    assert np.allclose(z.sum(2)[0], sum)
"""


def save_network(folder: Path) -> None:
    """A network whose output is half as wide as its input, whatever that is."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).random((4, 3, 8, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[0, 0, 0, 1], strides=[1, 2]),
        helper.make_node("Squeeze", ["c", "axis"], ["s"]),
        helper.make_node("Transpose", ["s"], ["y"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([2]), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "rec.onnx")


def test_networks_run_what_is_there(write: Write, tmp_path: Path) -> None:
    flow = write(NET, n_py=NET_CODE)
    save_network(flow.parent)
    store_profile(flow, platform="two")
    out = build(flow, tmp_path / "out", platform="two")
    done = run(out, "--frames", "8")
    assert done.returncode == 0, done.stderr
    random = np.random.default_rng(1)
    for line in done.stdout.splitlines()[:8]:
        widths = []
        for _ in range(int(random.integers(0, 5)) + 1):
            widths.append(int(random.integers(1, 65)))
            random.random((1, 3, 8, widths[-1]))
        halves = [(width + 1) // 2 for width in widths]
        assert line == " ".join(map(str, [*halves, halves[-1]]))
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr
    (app,) = flowc.check(flow, platform="two").system.apps
    networks = [task for task in app.tasks if task.network is not None]
    assert [str(task.outputs[0].type) for task in networks] == ["float32[1, up to 32, 4]"] * 3
    assert not any(task.network and task.network.cuttable for task in networks)


def _random_block(rng: random.Random, port: Sized) -> list[np.ndarray]:
    length = rng.randint(0, port.rates[0]) if port.count else port.rates[0]
    return [
        np.full((rng.randint(0, 5), 3, rng.randint(0, 7)), rng.randint(0, 99), np.int16)
        for _ in range(length)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_memory_and_messages_carry_shapes(seed: int) -> None:
    rng = random.Random(seed)
    most = rng.randint(1, 4)
    of_list = SizedUpTo("p", "int16", (5, 3, 7), (0, 2), most, "n")
    of_rate = Sized("p", "int16", (5, 3, 7), (0, 2), (most,), True)
    for port in (of_list, of_rate):
        block = _random_block(rng, port)
        memory = np.zeros(port.room, np.uint8)
        port.write(memory, 0, port.accept(block, 0))
        for there in (port.read(memory, 0), port.unpacked(port.packed(block).data, len(block))):
            assert [t.tolist() for t in there] == [t.tolist() for t in block]
            assert [t.shape for t in there] == [t.shape for t in block]


def test_a_stranger_gets_no_token_in_that_does_not_fit() -> None:
    """Whatever bytes come from another machine: tokens of the type, or ValueError."""
    rng = random.Random(3)
    port = Sized("p", "int16", (5, 3, 7), (0, 2))
    good = bytes(port.packed(np.ones((2, 3, 4), np.int16)))
    for _ in range(300):
        wrong = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            wrong[rng.randrange(len(wrong))] = rng.randrange(256)
        if rng.random() < 0.5:
            wrong = wrong[: rng.randrange(len(wrong))]
        try:
            (token,) = port.unpacked(bytes(wrong), 1)
        except ValueError:
            continue
        assert token.shape[0] <= 5 and token.shape[1] == 3 and token.shape[2] <= 7


def test_null_tokens_and_sizes_travel_together() -> None:
    port = SizedUpTo("p", "int16", (5,), (0,), 4, "n")
    came = Incoming(1, "c", 8, port, 0, (), lambda number, count: None)
    came.view = port.view()

    def send(number: int, block: object, count: int) -> None:
        for piece in getattr(block, "pieces", [block]):
            data = piece if isinstance(piece, Null) else port.packed(piece).data
            came.arrived(data, len(piece))

    leaves = Outgoing(1, "c", 8, port, 0, send)
    tokens = port.accept([[1, 2], [], [3]], 0)
    leaves.commit(port.laid(tokens), 4, True)
    there = came.acquire(4, True, None)  # type: ignore[arg-type]
    assert [t.tolist() for t in there] == [[1, 2], [], [3]]


ASKED = """
type Line = float32[1, up to 32]
task Find { out x: Line   python "n.py:Find" }
network Rec from "rec.onnx" { in x: Line   out y: float32[up to 32, up to 1] }
task Show { in y: float32[up to 32, up to 1]   python "n.py:show" }
app A { find: Find   rec: Rec   show: Show   find -> rec -> show }
"""
ASKED_CODE = """
import numpy as np
class Find:
    def __init__(self): self.n = 0
    def __call__(self):
        self.n += 5
        return np.arange(self.n % 32, dtype=np.float32)[None]
def show(y): print(y.shape[0], int(y.sum()))
"""


def test_sizes_that_only_a_run_knows_vary_as_well(write: Write, tmp_path: Path) -> None:
    """The shape of the output is computed, by arithmetic that inference does not follow: what ONNX
    Runtime says of the largest input is its bound, and not its size."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    flow = write(ASKED, n_py=ASKED_CODE)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["real", "turned"], ["swapped"]),
        helper.make_node("Cast", ["swapped"], ["wanted"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "rec",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["width", "one"])],
        [numpy_helper.from_array(np.array([1, 0]), "turned")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, flow.parent / "rec.onnx")
    store_profile(flow)
    done = run(build(flow, tmp_path / "out"), "--frames", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == ["5 10", "10 45", "15 105", "20 190"]
