"""Ports with a rate `up to N`: as many tokens as there are, wherever tasks run."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.cli import app as cli
from flowc.codegen.deploy import Deployed
from flowc.report.measured import read_run
from flowc.runtime import Fire, Port, Program
from flowc.runtime.code import Code
from flowc.runtime.lifecycle import execute
from flowc.runtime.reference import make_ports
from typer.testing import CliRunner

from builds import Write, build, harness, planned, run, store_profile
from random_counts import Counted, fired, other, random_counts, text_of, token

FRAMES = 7


class Task(Code):
    """Code that needs the number of a firing. A token is a number, or where they are `sized` an
    array of as many places as its last digit says, each of which has the number."""

    sized = False

    def coded(self, value: int) -> np.ndarray:
        """The token of a number."""
        return np.full(1 + value % 9, value, np.int64) if self.sized else np.array(value, np.int64)

    def number(self, token: Any) -> int:
        """The number of a token."""
        assert not token.flags.writeable
        value = int(token.flat[0])
        assert token.tolist() == self.coded(value).tolist()
        return value

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass


class Frames(Task):
    """The number of each frame."""

    def fire(self, inputs: Any, firing: int) -> Any:
        if firing == FRAMES:
            raise StopIteration
        return self.coded(firing)


class Writer(Task):
    """Lists as long as the app says."""

    def __init__(self, app: Counted, name: str) -> None:
        self.app, self.name = app, name

    def fire(self, inputs: Any, firing: int) -> Any:
        frame = self.number(inputs[0])
        length = self.app.length(self.name, frame)
        values = [token(frame, i, self.app.seed) for i in range(length)]
        tokens = [self.coded(value) for value in values]
        if not self.app.twins[self.name]:
            return np.array(values, np.int64) if frame % 2 and not self.sized else tokens
        return tokens, [self.coded(other(value)) for value in values]


class Node(Task):
    """Fires for each token that is there."""

    def __init__(self, written: int) -> None:
        self.written = written

    def fire(self, inputs: Any, firing: int) -> Any:
        made = fired(tuple(self.number(x) for x in inputs), self.written)
        tokens = [self.coded(value) for value in made]
        return tokens[0] if self.written == 1 else tokens


class Reader(Task):
    """Keeps the lists that it reads."""

    def __init__(self) -> None:
        self.seen: list[list[list[int]]] = []

    def fire(self, inputs: Any, firing: int) -> Any:
        assert all(isinstance(x, list) or not x.flags.writeable or not x.size for x in inputs)
        self.seen.append([[self.number(token) for token in x] for x in inputs])


def program(deployed: Deployed, codes: Mapping[str, Code]) -> Program:
    """What a generated main.py makes, with this code."""
    made = Program("t", "")
    (described,) = deployed.deployment.apps
    app = made.app(described.name)
    tasks = {}
    for t in described.tasks:
        sides = [make_ports([asdict(p) for p in side]) for side in (t.inputs, t.outputs)]
        code = codes.get(t.name) or _repeat(t.code)
        tasks[t.name] = app.task(t.name, code, *sides)
    for c in described.channels:
        ends = tasks[c.source], c.source_port, tasks[c.destination], c.destination_port
        made.channel(*ends, c.capacity, c.delay, c.values)
    for w in deployed.deployment.processors:
        order = []
        for e in w.order:
            order.append(Fire(tasks[e.task], e.times, e.first, e.stage, e.replica, e.round))
        made.processor(w.processor, order)
    return made


def _repeat(code: Any) -> Code:
    return flowc.runtime.Repeat(code.count, code.block)


def codes_of(app: Counted, sized: bool) -> tuple[dict[str, Task], dict[str, Reader]]:
    """The code of each task, and of the readers among them."""
    codes: dict[str, Task] = {"A.frame": Frames()}
    for name in app.writers:
        codes[f"A.{name}"] = Writer(app, name)
    for name, (_, _, written) in app.nodes.items():
        codes[f"A.{name}"] = Node(written)
    readers = {name: Reader() for name in app.readers}
    codes.update((f"A.{name}", reader) for name, reader in readers.items())
    for code in codes.values():
        code.sized = sized
    return codes, readers


def held(seed: int, folder: Path, sized: bool) -> None:
    """A random app reads and makes what a few lines over lists say."""
    rng = random.Random(seed)
    app = random_counts(rng)
    flow = folder / f"{seed}.flow"
    (folder / "t.py").write_text("def f(*x, **y): pass\n")
    text = text_of(app, rng)
    flow.write_text(text.replace("int64", "int64[up to 9]") if sized else text)
    checked = flowc.check(flow, platform="some")
    assert checked.ok, (seed, [d.message for d in checked.diagnostics])
    codes, readers = codes_of(app, sized)
    assert execute(program(planned(checked.require(), None), codes), strict=True), seed
    for frame in range(FRAMES):
        expected = app.expected(frame)
        for name, reader in readers.items():
            assert reader.seen[frame] == expected[name], (seed, frame, name)
    assert all(len(reader.seen) == FRAMES for reader in readers.values()), seed


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_apps_see_as_many_tokens_as_there_are(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        held(seed, tmp_path, sized=seed % 2 > 0)


TEXT = """
type Line = float32[1, 4]
task Page { out page: float32[8]  python "t.py:Page" }
task Crop { in page: float32[8]
    out line: Line rate up to 16 by n   out box: int32[4] rate up to 16 by n  python "t.py:crop" }
task Scale { in x: Line  in page: float32[8]  out y: Line  c "s.c:scale" }
task Twice { in x: Line  out y: Line rate 2   stateless  python "t.py:twice" }
network Cls from "cls.onnx" { in x: Line from "x"  out y: float32[1, 2] from "y"  batch 8 }
task Text { in label: float32[1, 2] rate up to 32   in box: int32[4] rate up to 16
    out n: int32  python "t.py:text" }
task Show { in n: int32  python "t.py:Show" }
app A { page: Page  crop: Crop  scale: Scale  twice: Twice  cls: Cls  text: Text  show: Show
    page -> crop.page
    page -> repeat 16 -> scale.page
    crop.line -> scale.x   scale -> twice -> cls -> text.label   crop.box -> text.box  text -> show }
platform two { cpu core[2] }
"""
CODE = """
import numpy as np
class Page:
    def __init__(self): self.r = np.random.default_rng(0)
    def __call__(self): return self.r.random(8).astype(np.float32)
def crop(page):
    k = int(page[0] * 17)
    return [page[None, :4] + i for i in range(k)], np.arange(4 * k, dtype=np.int32).reshape(k, 4)
def twice(x): return [x, x + 1]
def text(label, box):
    assert len(label) == 2 * len(box), (len(label), len(box))
    return np.int32(len(box))
class Show:
    def __init__(self): self.seen = []
    def __call__(self, n): self.seen.append(int(n))
    def close(self): print("seen", self.seen)
"""
IN_C = """
int scale(void *state, const float *x, const float *page, float *y, const scale_params *p)
{
    for (int i = 0; i < 4; i++)
        y[i] = x[i] * page[7];
    return 0;
}
"""
LENGTHS = [int(np.float32(x) * 17) for x in np.random.default_rng(0).random((20, 8))[:, 0]]
PLACES = {
    "one": "",
    "two": "A.scale -> core[1]  A.cls -> core[1]  A.crop -> core[0]  A.text -> core[0]",
    "replicas": "A.twice -> core[0], core[1]  A.cls -> core[0], core[1]",
    "processes": "A.crop -> core[0] process  A.text -> core[1] process  A.twice -> core[1] process",
}


@pytest.fixture
def text(write: Write, tmp_path: Path) -> Callable[..., Path]:
    """A text with a network, a task in C, and tasks in Python between two lists."""

    def written(mapping: str = "", more: str = TEXT, code: str = CODE) -> Path:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        flow = write(more + (f"mapping on two {{ {mapping} }}" if mapping else ""), t_py=code)
        flow.with_name("s.c").write_text(IN_C)
        weights = np.random.default_rng(1).random((4, 2)).astype(np.float32)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
            [numpy_helper.from_array(weights, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.save(model, flow.with_name("cls.onnx"))
        return flow

    return written


@pytest.mark.parametrize("place", PLACES)
def test_code_of_all_kinds_fires_for_what_is_there(
    text: Callable[..., Path], tmp_path: Path, place: str
) -> None:
    flow = text(PLACES[place])
    store_profile(flow, platform="two")
    out = build(flow, tmp_path / "out", platform="two")
    done = run(out, "--frames", "20", "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    assert f"seen {LENGTHS}" in done.stdout
    tasks = json.loads((tmp_path / "r.json").read_text())["tasks"]
    assert tasks["A.scale"]["firings"] == tasks["A.twice"]["firings"] == sum(LENGTHS)
    assert tasks["A.cls"]["firings"] == 2 * sum(LENGTHS)
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr


def test_lists_are_shown_wherever_times_are(text: Callable[..., Path], tmp_path: Path) -> None:
    """Mean and most of what was written; apps without a period are balanced with the mean."""

    def said(verb: str, *more: str) -> str:
        done = CliRunner().invoke(cli, [verb, str(flow), "--platform", "two", *more])
        assert done.exit_code == 0, done.output
        return done.stdout

    flow = text(code=CODE.replace("k = int(page[0] * 17)", "k = 3 + int(page[0] * 2)"))
    assert re.search(r"A\.crop\.line +3\.\d+ +4\n", said("profile", "--seconds", "0.3"))
    (stored,) = flow.parent.glob("*.profile.json")
    entries = {e["subject"]: e for e in json.loads(stored.read_text())["entries"]}
    line, box = entries["A.crop"]["lists"]
    assert line == {**box, "port": "line"} and 3 < line["mean"] < 4 == line["most"]
    assert "lists" not in entries["A.page"]
    for period, balanced in (("", line["mean"]), ("period 1 s", 16)):
        flow.write_text(flow.read_text().replace("app A {", f"app A {{ {period}"))
        lists = json.loads(said("map", "--no-measure", "--evaluations", "9", "--json"))["lists"]
        assert lists[0] == {"task": "A.crop", **line, "balanced": balanced, "limit": 16}
    shown = said("map", "--no-measure", "--evaluations", "9")
    assert re.search(r"A\.crop\.line +3\.\d+ +4 +16 +16\n", shown)
    out = build(flow, tmp_path / "out", platform="two")
    done = run(out, "--frames", "20", "--full-speed", "--report", str(tmp_path / "r.json"))
    assert re.search(r"A\.crop\.line +20 +3\.\d+ +4 +16\n", done.stdout)
    measured = read_run((tmp_path / "r.json").read_bytes())
    assert measured.tasks["A.crop"].lists["line"].most == 4


def test_the_harness_notices_a_token_that_is_lost(
    text: Callable[..., Path], tmp_path: Path
) -> None:
    flow = text(PLACES["two"])
    store_profile(flow, platform="two")
    out = build(flow, tmp_path / "out", platform="two")
    counts = out / "runtime" / "counts.py"
    wrong = counts.read_text().replace("Some([block, Null(most - there)])", "Null(most)")
    counts.write_text(wrong)
    assert harness(out).returncode == 1


ROUNDS = """
task Cut { out y: int32[2] rate up to 4 by n   out z: int32 rate up to 4 by n   python "t.py:Cut" }
task Same { in x: int32[2]   out y: int32[2] rate 2   python "t.py:same" }
task InC { in x: int32[2]   out y: int32   c "s.c:first" }
task All {
    in y: int32 rate up to 8   in w: int32[2] rate up to 4   in z: int32 rate up to 4   in s: int32
    python "t.py:all_"
}
task Stop { out s: int32   python "t.py:Stop" }
app A {
    cut: Cut   same: Same   in_c: InC   all: All   stop: Stop
    cut.y -> same -> in_c -> all.y   cut.y -> all.w   cut.z -> all.z   stop -> all.s
}
"""
ROUNDS_CODE = """
import numpy as np
class Cut:
    def __init__(self): self.n = -1
    def __call__(self):
        self.n += 1
        k = self.n % 5
        return [np.array([self.n, i], np.int32) for i in range(k)], np.arange(k, dtype=np.int32)
def same(x): return [x, x + 1]
def all_(y, w, z, s):
    assert y.tolist() == [s + i for _ in w for i in (0, 1)]
    assert w.tolist() == [[s, i] for i in z] and len(z) == s % 5
class Stop:
    def __init__(self): self.n = -1
    def __call__(self):
        self.n += 1
        if self.n == 43: raise StopIteration
        return np.int32(self.n)
"""


def test_rounds_leave_out_what_is_not_there(write: Write, tmp_path: Path) -> None:
    """On one core, once its order leaves nothing to decide; the stream ends in the middle."""
    flow = write(ROUNDS, t_py=ROUNDS_CODE)
    flow.with_name("s.c").write_text(
        "int first(void *state, const int32_t *x, int32_t *y, const first_params *p)"
        " { *y = *x; return 0; }"
    )
    store_profile(flow)
    out = build(flow, tmp_path / "out")
    done = run(out, "--report", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["apps"]["A"]["frames"] == 43
    there = document["tasks"]["A.same"]["firings"]
    assert there in (sum(n % 5 for n in range(43)), sum(n % 5 for n in range(44)))
    assert document["tasks"]["A.in_c"]["firings"] == 2 * there
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[page[None, :4]] * 17, np.zeros((17, 4), np.int32)", "up to 16 tokens float32[1, 4]"),
        ("[page[None, :4]] * 3, np.zeros((2, 4), np.int32)", "has 3 tokens at port `line` and 2"),
        ("[page] * 3, np.zeros((3, 4), np.int32)", "returned float32[3, 8] for port `line`"),
        ("None, []", "nothing for port `line`; where there is no token, return []\n"),
    ],
)
def test_a_wrong_list_is_told(
    text: Callable[..., Path], tmp_path: Path, returned: str, said: str
) -> None:
    wrong = CODE.replace("    k = int(page[0] * 17)\n", f"    return {returned}\n    k = 0\n")
    flow = text(code=wrong)
    store_profile(flow, platform="two")
    done = run(build(flow, tmp_path / "out", platform="two"), "--frames", "2")
    assert done.returncode != 0 and said in done.stderr, done.stderr


def test_a_failed_firing_leaves_out_the_frame_and_not_the_token(
    text: Callable[..., Path], tmp_path: Path
) -> None:
    """A list with a token whose firing has failed is no list."""
    failing = CODE.replace(
        "def twice(x): return [x, x + 1]",
        "n = 0\ndef twice(x):\n    global n\n    n += 1\n    if n == 12: raise ValueError('no')\n"
        "    return [x, x + 1]",
    )
    flow = text(
        more=TEXT.replace("rate 2   stateless  python", "rate 2   on error skip  python"),
        code=failing,
    )
    store_profile(flow, platform="two")
    out = build(flow, tmp_path / "out", platform="two")
    done = run(out, "--frames", "20")
    assert done.returncode == 0, done.stderr
    assert f"seen {[LENGTHS[0], *LENGTHS[2:]]}" in done.stdout
    checked = harness(out)
    assert checked.returncode == 0, checked.stderr


def test_open_ends_take_and_give_lists(write: Write) -> None:
    flow = write(
        """
        task Cls { in x: float32[4]   out y: int32   python "t.py:cls" }
        app A {
            in line: float32[4] rate up to 16   out label: int32 rate up to 16   cls: Cls
            line -> cls -> label
        }
        """,
        t_py="import numpy as np\ndef cls(x): return np.int32(x.sum())\n",
    )
    store_profile(flow)
    with flowc.open(flow) as opened:
        asked = [opened.ask(np.full((k, 4), k, np.float32)) for k in range(17)]
        for k, future in enumerate(asked):
            assert future.result(30).tolist() == [4 * k] * k
        with pytest.raises(ValueError, match="`line` takes"):
            opened.ask(np.zeros((17, 4), np.float32))
