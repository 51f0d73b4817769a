"""A core that another program half occupies: frames per second with a fixed cut, and with one that
moves.

Ten equal convolutions in two stages on two cores. Each worker is kept on the core of its processor,
and so is the other program, which never stops: the kernel cannot compensate for it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import flowc
import numpy as np
import onnx
from flowc.driver.text import store
from flowc.machines.whoami import description, host_hash
from flowc.model.profile import Profile, ProfileEntry
from flowc.profiling.identity import task_hashes
from onnx import TensorProto, helper, numpy_helper
from paired import Others, Spread, alternate, execute, machine, ratio, rounds, table, verdict

DEPTH, CHANNELS, SIZE, FRAMES = 10, 24, 48, 900
#: As docs/mapping.md has it.
AIM = 1.1
CODE = f"""
import numpy as np
class Source:
    def __init__(self):
        shape = 7, 1, {CHANNELS}, {SIZE}, {SIZE}
        self.left, self.frames = {FRAMES}, np.random.default_rng(3).standard_normal(shape, np.float32)
    def __call__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return self.frames[self.left % 7]
def show(y): pass
"""
TEXT = f"""
type Image = float32[1, {CHANNELS}, {SIZE}, {SIZE}]
task Source {{ out image: Image  python "t.py:Source" }}
task Show {{ in y: Image  python "t.py:show" }}
network Net from "net.onnx" {{ in image from "x"  out y from "r{DEPTH}" }}
app A {{ source: Source  net: Net  show: Show   source -> net -> show }}
mapping on host {{ A.net -> cpu[0] until "r5" | cpu[1] adapt
    A.source -> cpu[0]   A.show -> cpu[0] }}
"""
DRIVER = """
import importlib.util, json, os, subprocess, sys, threading, time
home, moving = sys.argv[1], sys.argv[2] == "moving"
sys.path.insert(0, home)
spec = importlib.util.spec_from_file_location("m", os.path.join(home, "main.py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from runtime.lifecycle import execute
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
thread = threading.Thread(target=lambda: execute(program, full_speed=True))
thread.start()
app = program.apps[0]
while app.frames < 100:
    time.sleep(0.01)
busy = "import os\\nos.sched_setaffinity(0, {%d})\\nwhile True: pass" % cores[1]
hog = subprocess.Popen([sys.executable, "-c", busy])
while app.frames < 500:
    time.sleep(0.01)
begin = time.monotonic(), app.frames
while app.frames < 800:
    time.sleep(0.01)
rate = (app.frames - begin[1]) / (time.monotonic() - begin[0])
hog.kill()
thread.join()
print(json.dumps(rate))
"""


def network(path: Path) -> None:
    """Convolutions of equal work, one after the other."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for k in range(1, DEPTH + 1):
        kernel = rng.normal(0, 0.07, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{k}"))
        nodes.append(
            helper.make_node(
                "Conv", [f"r{k - 1}" if k > 1 else "x", f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
    shape = [1, CHANNELS, SIZE, SIZE]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", f"r{DEPTH}")]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )


def built(folder: Path) -> Path:
    """The program, with a profile in which both stages take the same time."""
    flow = folder / "app.flow"
    flow.write_text(TEXT)
    (folder / "t.py").write_text(CODE)
    network(folder / "net.onnx")
    checked = flowc.check(flow)
    assert checked.platform is not None, checked.diagnostics
    entries = tuple(
        ProfileEntry("cpu", name, "", digest, host_hash(), 10, 2_000_000, 0, 2_000_000, 2_000_000)
        for name, digest in task_hashes(checked.system).items()
    )
    store.save_profile(checked.require(), Profile(checked.platform.name, description(), entries))
    return flowc.build(flow, folder / "out").directory


def main() -> None:
    """Both ways in turns."""
    count, others = rounds(__doc__, 9), Others()
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("this needs two cores")
    with tempfile.TemporaryDirectory() as folder:
        build = built(Path(folder))

        def rate(way: str) -> float:
            return float(execute(sys.executable, "-c", DRIVER, build, way))

        found = alternate({way: partial(rate, way) for way in ("fixed", "moving")}, count)
    gain = ratio(found["moving"], found["fixed"])
    rows = [
        ["cut", "frames per second"],
        *([way, Spread.of(values).text(0)] for way, values in found.items()),
    ]
    print(
        machine() + "; " + others.text(),
        f"{count} rounds: median [quartiles] least..most",
        "",
        sep="\n",
    )
    print(
        table(rows),
        "",
        f"moving over fixed: {gain.text()}, {verdict(gain.median, least=AIM)}",
        sep="\n",
    )


if __name__ == "__main__":
    main()
