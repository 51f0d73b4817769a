"""Changes of state without a pause: ten thousand with numbers that stay right, and breaking an
inference off.

Usage: python benchmarks/without_pause.py [CHANGES]

First a program whose two states differ in a variant alone, with replicas, a pipeline, feedback and
a process; its sink holds every number against the formula and raises an event every third frame.
Changes are made with the next frame, then at once. Then what choosing a variant takes for a firing.
Then the time from a change that comes at any moment until the first frame with the other variant
has ended: where the inference under way is broken off, over the same where the next frame is waited
for.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import flowc
import numpy as np
import onnx
from flowc.runtime.code import Code, Network
from flowc.runtime.reference import load_deployment, make_code, make_ports
from flowc.runtime.select import Select
from flowc.runtime.tokens import Port
from onnx import TensorProto, helper
from paired import Spread, alternate
from sharing import exits
from structures import write
from switching import told

SIGNS = """
task Count { out x: float32[1, 4]   python "signs.py:Count" }
task Half { in x: float32[1, 4]   out y: float32[1, 4]   stateless   python "signs.py:half" }
task Add { in y: float32[1, 4]   in before: float32[1, 4]   out sum: float32[1, 4]   python "signs.py:add" }
task Same { in y: float32[1, 4]   out z: float32[1, 4]   python "signs.py:same" }
task Compare { in y: float32[1, 4]   in sum: float32[1, 4]   event often   python "signs.py:Compare" }
network Sign {
    in x: float32[1, 4]   out y: float32[1, 4]
    variant plus from "plus.onnx"
    variant minus from "minus.onnx"
}
app A {
    count: Count   half: Half   sign: Sign   add: Add   same: Same   compare: Compare
    count -> half -> sign -> add.y   add -> delay 1 -> add.before   sign -> same -> compare.y   add -> compare.sum
}
scenario S {
    initial state plus { run A }
    state minus { run A   A.sign = minus }
    plus -> minus on A.compare.often AT_ONCE
    minus -> plus on A.compare.often AT_ONCE
}
platform duo { cpu core[2] }
mapping on duo {
    A.count -> core[0]   A.half -> core[0], core[1]   A.sign.plus -> core[1]   A.sign.minus -> core[1]
    A.add -> core[0]   A.same -> core[0] process   A.compare -> core[1]
}
"""
SIGNS_CODE = """
import numpy as np

class Count:
    def __init__(self): self.n = -1
    def __call__(self):
        self.n += 1
        return np.full((1, 4), 2 * self.n, np.float32)

def half(x): return x / 2
def add(y, before): return np.abs(y) + np.mod(before, 1000)
def same(y): return y

class Compare:
    def __init__(self, often): self.often, self.n, self.sum = often, 0, 0.0
    def __call__(self, y, sum):
        assert abs(y[0, 0]) == self.n, "frame %d has %g" % (self.n, y[0, 0])
        self.sum = self.n + self.sum % 1000
        assert sum[0, 0] == self.sum, "the sum of frame %d is %g" % (self.n, sum[0, 0])
        self.n += 1
        if self.n % 3 == 0:
            self.often()
"""
PAIR = """
type X = float32[1, 3, 224, 224]
type Y = float32[1, 1000]
task Camera { out x: X   python "code.py:Camera" }
task Show { in y: Y   python "code.py:show" }
network Net {
    in x: X   out y: Y
    VARIANTS
}
app A { camera: Camera   net: Net   show: Show   camera -> net -> show }
scenario S {
    event turn
    initial state heavy { run A }
    state light { run A   A.net = LIGHT }
    heavy -> light on turn at once   light -> heavy on turn at once
}
platform one { cpu core }
"""
PAIR_CODE = """
import numpy as np

class Camera:
    def __init__(self): self.x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    def __call__(self): return self.x

def show(y): pass
"""


def changes(count: int, at_once: bool) -> dict[str, object]:
    """Run until there were about so many; the report. Raises CalledProcessError when a number is
    wrong."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name, operator in (("plus", "Identity"), ("minus", "Neg")):
            x, y = (helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 4]) for t in "xy")
            graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], name, [x], [y])
            model = helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
            )
            onnx.save(model, home / f"{name}.onnx")
        (home / "signs.flow").write_text(SIGNS.replace("AT_ONCE", "at once" if at_once else ""))
        (home / "signs.py").write_text(SIGNS_CODE)
        flowc.build(home / "signs.flow", home / "b", platform="duo", measure=False)
        command = [
            sys.executable,
            str(home / "b/main.py"),
            "--quiet",
            "--report",
            "r.json",
            "--frames",
            str(4 * count),
        ]
        subprocess.run(command, cwd=home, check=True)
        found: dict[str, object] = json.loads((home / "r.json").read_text())
        return found


def pair_of(title: str, home: Path) -> list[str]:
    """The lines of two variants, the heavy one first."""
    if title.startswith("ResNet-18"):
        return exits(home, False)
    lines = []
    for name, path in write(home / "nets", ["light_resnet50", "mobilenet"]).items():
        graph = onnx.load(path).graph
        weights = {w.name for w in graph.initializer}
        x = next(v.name for v in graph.input if v.name not in weights)
        lines.append(
            f'variant {name} from "nets/{name}.onnx" {{ in x from "{x}" out y from'
            f' "{graph.output[0].name}" }}'
        )
    return lines


def delays(codes: dict[str, Code], at_once: bool, count: int) -> dict[tuple[str, str], list[float]]:
    """Ms of CPU from a change that comes at any moment until the first frame with the other variant
    has ended.

    Frames follow each other; time is that of the thread that computes them, so that others on the
    machine do not count.
    """
    select = Select([(name, name, code) for name, code in codes.items()])
    select.breaks = at_once
    first, other = codes
    select.pick.begin([(first, 0)])
    ended: list[float] = []
    over = threading.Event()
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)

    def work() -> None:
        while not over.is_set():
            select.fire([x], len(ended))
            ended.append(time.thread_time())

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    assert worker.ident is not None
    clock, rng = time.pthread_getcpuclockid(worker.ident), random.Random(1)
    found: dict[tuple[str, str], list[float]] = {(first, other): [], (other, first): []}
    mark, names = 0, (first, other)
    for _ in range(2 * count):
        while len(ended) < mark + 2:  # its first frame may have begun in the middle
            time.sleep(0.001)
        until = ended[-1] + rng.uniform(0.0, 1.0) * (ended[-1] - ended[-2])
        while time.clock_gettime(clock) < until:
            time.sleep(0.0002)
        asked = time.clock_gettime(clock)
        mark = select.pick.follow(names[1], mark, at_once)
        while len(ended) <= mark:
            time.sleep(0.001)
        found[names].append(1e3 * (ended[mark] - asked))
        names = names[::-1]
    over.set()
    worker.join()
    return found


def breaking_off(title: str, count: int = 30) -> None:
    """Print a line for each way between two variants."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        variants = pair_of(title, home)
        (home / "net.flow").write_text(
            PAIR.replace("VARIANTS", "\n".join(variants)).replace("LIGHT", variants[1].split()[1])
        )
        (home / "code.py").write_text(PAIR_CODE)
        flowc.build(home / "net.flow", home / "b", platform="one", measure=False)
        states = load_deployment(str(home / "b"))["scenario"]["states"]
        codes = {}
        for state in states:
            task = next(
                t for a in state["apps"] for t in a["tasks"] if t["name"].startswith("A.net.")
            )
            code = codes[state["name"]] = make_code(task["code"], str(home / "b"))
            code.open(str(home / "b"), make_ports(task["inputs"]), make_ports(task["outputs"]))
        waits, stops = delays(codes, False, count), delays(codes, True, count)
    for pair in stops:
        ratio = sum(stops[pair]) / sum(waits[pair])
        print(
            f"{title}, {pair[0]} -> {pair[1]}: next frame {Spread.of(waits[pair]).text(1)} ms of"
            f" CPU, at once {Spread.of(stops[pair]).text(1)}, ratio of means {ratio:.2f}",
            flush=True,
        )


def choosing(count: int = 20_000) -> None:
    """Print what it takes to choose the alternative of a firing, and to be able to break it off."""
    with tempfile.TemporaryDirectory() as folder:
        x, y = (helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 4]) for t in "xy")
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "net", [x], [y])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            f"{folder}/net.onnx",
        )
        network = Network("net.onnx", ["x"], ["y"])
        network.open(folder, [Port("x", "float32", (1, 4))], [Port("y", "float32", (1, 4))])
    data, sides = [np.ones((1, 4), np.float32)], dict[str, Callable[[], float]]()

    def fires(code: Code) -> float:
        begin = time.thread_time()
        for firing in range(count // 20):
            code.fire(data, firing)
        return (time.thread_time() - begin) / (count // 20) * 1e6

    for name, breaks in (("alone", None), ("chosen", False), ("can be broken off", True)):
        code: Code = network
        if breaks is not None:
            code = Select([("a", "net.a", network), ("b", "net.b", network)])
            code.pick.begin([("a", 0)])
            code.breaks = breaks
        sides[name] = partial(fires, code)
    spent = {name: Spread.of(values) for name, values in alternate(sides, 20).items()}
    print(
        "us of CPU for a firing: " + ", ".join(f"{name} {s.text(1)}" for name, s in spent.items())
    )


def main(count: int = 10_000) -> None:
    """Print all."""
    for word in ("next", "at once"):
        print(f"{word + ':':<9}" + told(changes(count // 2, word == "at once")))
    choosing()
    for title in ("ResNet-50 and MobileNetV2", "ResNet-18 and its early exit"):
        breaking_off(title)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
