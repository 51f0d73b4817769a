"""A cut that moves in a running program: a core is loaded, the cut moves, frames come faster again, and none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from flowc import steps
from onnx import TensorProto, helper, numpy_helper

from builds import Write, store_profile

pytestmark = pytest.mark.alone

DEPTH, CHANNELS, SIZE, FRAMES = 10, 24, 48, 900
CODE = f"""
import numpy as np
class Source:
    def __init__(self):
        self.left, self.frames = {FRAMES}, np.random.default_rng(3).standard_normal((7, 1, {CHANNELS}, {SIZE}, {SIZE}), np.float32)
    def __call__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.frames[self.left % 7]
class Show:
    def __init__(self): self.sums = []
    def __call__(self, y): self.sums.append(float(y[0, 0, :8, :8].sum()))
"""
TEXT = f"""
type Image = float32[1, {CHANNELS}, {SIZE}, {SIZE}]
task Source {{ out image: Image  python "t.py:Source" }}
task Show {{ in y: Image  python "t.py:Show" }}
network Net from "net.onnx" {{ in image from "x"  out y from "r{DEPTH}" }}
app A {{ source: Source  net: Net  show: Show   source -> net -> show }}
mapping on host {{ A.net -> cpu[0] until "r5" | cpu[1] adapt
    A.source -> cpu[0]   A.show -> cpu[0] }}
"""
#: Each worker stays on the core of its processor, and so does the other program: the kernel cannot make up for it.
DRIVER = """
import importlib.util, json, os, subprocess, sys, threading, time
home, moving = sys.argv[1], sys.argv[2] == "moving"
sys.path.insert(0, home)
spec = importlib.util.spec_from_file_location("m", os.path.join(home, "main.py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from runtime.worker import Worker
cores = sorted(os.sched_getaffinity(0))[:2]
run = Worker.run
def pinned(self):
    os.sched_setaffinity(threading.get_native_id(), {cores[int(self.processor[-2])]})
    run(self)
Worker.run = pinned
program = module.program()
tasks = {t.name: t for a in program.apps for t in a.tasks}
cut = next(t.code.cut for t in tasks.values() if hasattr(t.code, "cut"))
if not moving:
    cut.took = lambda *_: None
first = cut.current
thread = threading.Thread(target=lambda: program.run(full_speed=True))
thread.start()
app = program.apps[0]
while app.frames < 100:
    time.sleep(0.01)
hog = subprocess.Popen([sys.executable, "-c", "import os\\nos.sched_setaffinity(0, {%d})\\nwhile True: pass" % cores[1]])
while app.frames < 500:
    time.sleep(0.01)
last = cut.current
begin = time.monotonic(), app.frames
while app.frames < 800:
    time.sleep(0.01)
rate = (app.frames - begin[1]) / (time.monotonic() - begin[0])
hog.kill()
thread.join()
show = next(t for name, t in tasks.items() if name.endswith("show"))
owner = next(v for v in (vars(show.code) | {}).values() if hasattr(v, "sums"))
print(json.dumps({"first": first, "last": last, "rate": rate, "sums": owner.sums}))
"""


def _network(path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(1, DEPTH + 1):
        kernel = rng.normal(0, 0.07, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{k}"))
        nodes.append(helper.make_node("Conv", [f"r{k - 1}" if k > 1 else "x", f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
    shape = [1, CHANNELS, SIZE, SIZE]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", f"r{DEPTH}")]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def _driven(build: Path, way: str) -> dict[str, Any]:
    command = [sys.executable, "-c", DRIVER, str(build), way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_loaded_core_gets_less_of_the_network(write: Write, tmp_path: Path) -> None:
    """With the second core shared, the cut moves towards the end, and frames come faster than with a fixed cut."""
    flow = write(TEXT, t_py=CODE)
    _network(tmp_path / "net.onnx")
    store_profile(flow, {"A.net.stage1": 2_000_000, "A.net.stage2": 2_000_000})
    build = steps.build(flow, tmp_path / "out").directory
    fixed = _driven(build, "fixed")
    for _ in range(6):  # other programs may load the machine as well
        moving = _driven(build, "moving")
        assert len(moving["sums"]) == len(fixed["sums"]) == FRAMES
        np.testing.assert_allclose(moving["sums"], fixed["sums"], rtol=1e-4)
        if moving["last"] > moving["first"] and moving["rate"] > 1.1 * fixed["rate"]:
            return
    raise AssertionError((moving["first"], moving["last"], moving["rate"], fixed["rate"]))
