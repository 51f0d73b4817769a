"""Variants with a common part: memory that sharing saves, and its cost in time.

Usage: python benchmarks/sharing.py [--rounds N]

Three heads on one ResNet-18, and a ResNet-18 with an early exit, as variants of a network whose
states follow each other. The peer is the same program whose networks have trunks of other weights
each, so that there is nothing to share: a session for each variant. Memory is PSS above a process
that has loaded the library; times are CPU times of firings.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import flowc
import numpy as np
import onnx
from flowc.runtime.reference import load_deployment, make_code, make_ports
from onnx import TensorProto, helper, numpy_helper
from paired import Spread, alternate, rounds
from structures import NETWORKS
from variant_texts import text_of

#: Frames in each state, and firings that are timed.
FRAMES, FIRINGS = 12, 20
CODE = """
import ctypes, gc, json
import numpy as np
import onnxruntime

def pss():
    gc.collect(); ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) * 1024

BEFORE = []

class Camera:
    def __init__(self):
        BEFORE.append(pss())
        self.x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    def __call__(self): return self.x

class Show:
    def __init__(self): self.n = 0
    def __call__(self, y):
        self.n += 1
        if self.n == FRAMES:
            with open("pss.json", "w") as stream:
                json.dump(pss() - BEFORE[0], stream)
"""


def trunk() -> tuple[onnx.ModelProto, int]:
    """ResNet-18, and the number of its node behind which a head begins."""
    net = NETWORKS["resnet18"]()
    return net, next(k for k, n in enumerate(net.graph.node) if n.op_type == "Flatten")


def with_ends(
    net: onnx.ModelProto, ends: dict[str, tuple[int, str, int]], rng: np.random.Generator
) -> onnx.ModelProto:
    """The network up to the last of the `ends`: for each output the number of a node, its tensor
    and the features."""
    last = max(k for k, _, _ in ends.values())
    nodes, weights, outputs = list(net.graph.node[: last + 1]), list(net.graph.initializer), []
    for name, (_, tensor, features) in ends.items():
        weight = rng.normal(0, 0.05, (features, 1000)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"{name}_w"))
        nodes.append(helper.make_node("GlobalAveragePool", [tensor], [f"{name}_p"]))
        nodes.append(helper.make_node("Flatten", [f"{name}_p"], [f"{name}_f"]))
        nodes.append(helper.make_node("MatMul", [f"{name}_f", f"{name}_w"], [name]))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1000]))
    read = {t for n in nodes for t in n.input}
    graph = helper.make_graph(
        nodes, "net", net.graph.input, outputs, [w for w in weights if w.name in read]
    )
    return helper.make_model(graph, opset_imports=net.opset_import, ir_version=net.ir_version)


def relus(net: onnx.ModelProto) -> list[tuple[int, str]]:
    """Where one tensor alone goes on: the ends of blocks."""
    nodes = list(net.graph.node)
    found = []
    for k, node in enumerate(nodes):
        before = {t for n in nodes[: k + 1] for t in n.output}
        if (
            node.op_type == "Relu"
            and len({t for n in nodes[k + 1 :] for t in n.input if t in before}) == 1
        ):
            found.append((k, node.output[0]))
    return found


def redrawn(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The same with a little added to all weights, so that none is that of another network."""
    rng = np.random.default_rng(seed)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for weight in other.graph.initializer:
        array = numpy_helper.to_array(weight)
        weight.CopyFrom(
            numpy_helper.from_array(
                array + rng.normal(0, 1e-6, array.shape).astype(array.dtype), weight.name
            )
        )
    return other


def heads(folder: Path, apart: bool) -> list[str]:
    """Three networks that differ in their heads; the lines of the variants."""
    net, flat = trunk()
    tensor = net.graph.node[flat - 1].input[0]
    for k in range(3):
        made = with_ends(net, {"y": (flat - 2, tensor, 512)}, np.random.default_rng(k))
        onnx.save(redrawn(made, k) if apart else made, folder / f"head{k}.onnx")
    return [
        f'variant v{k} from "head{k}.onnx" {{ in x from "{net.graph.input[0].name}" }}'
        for k in range(3)
    ]


def exits(folder: Path, apart: bool) -> list[str]:
    """A network and its exit after 70 % of its blocks; the lines of the variants."""
    net, flat = trunk()
    ends = relus(net)
    k, tensor = ends[int(0.7 * len(ends))]
    features = next(
        w.dims[0]
        for n in reversed(net.graph.node[: k + 1])
        if n.op_type == "Conv"
        for w in net.graph.initializer
        if w.name == n.input[1]
    )
    last = net.graph.node[flat - 1].input[0]
    both = with_ends(
        net,
        {"soon": (k, tensor, features), "late": (flat - 2, last, 512)},
        np.random.default_rng(0),
    )
    onnx.save(both, folder / "net.onnx")
    onnx.save(redrawn(both, 1) if apart else both, folder / "other.onnx")
    x = net.graph.input[0].name
    files = ("net", "other") if apart else ("net", "net")
    return [
        f'variant {name} from "{file}.onnx" {{ in x from "{x}" out y from "{name}" }}'
        for name, file in zip(("late", "soon"), files, strict=True)
    ]


def built(home: Path, variants: list[str]) -> Path:
    """The program of a text with these variants, whose states follow each other."""
    frames = FRAMES * len(variants)
    (home / "net.flow").write_text(text_of(variants, 224, 1000))
    (home / "code.py").write_text(CODE.replace("FRAMES", str(frames)))
    (home / "events").write_text("".join(f"{k * FRAMES} A turn\n" for k in range(1, len(variants))))
    flowc.build(home / "net.flow", home / "b", platform="one", measure=False)
    return home


def ran(home: Path) -> float:
    """PSS in bytes, of a run in which each variant has had its frames."""
    count = FRAMES * (1 + (home / "events").read_text().count("turn"))
    command = [
        sys.executable,
        "b/main.py",
        "--quiet",
        "--report",
        "r.json",
        "--events",
        "events",
        "--frames",
        str(count),
    ]
    subprocess.run(command, cwd=home, check=True)
    return float(json.loads((home / "pss.json").read_text()))


def firing(home: Path) -> Callable[[], float]:
    """CPU seconds of one firing of every variant, one after another, in this process."""
    states = load_deployment(str(home / "b"))["scenario"]["states"]
    tasks = {
        t["name"]: t
        for s in states
        for a in s["apps"]
        for t in a["tasks"]
        if t["name"].startswith("A.net.")
    }
    codes = []
    for task in tasks.values():
        codes.append(make_code(task["code"], str(home / "b")))
        codes[-1].open(str(home / "b"), make_ports(task["inputs"]), make_ports(task["outputs"]))
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)

    def fire() -> float:
        begin = time.thread_time()
        for code in codes:
            code.fire([x], 0)
        return time.thread_time() - begin

    fire()
    return fire


def main() -> None:
    """Print a line for each of both."""
    count = rounds(__doc__, 5)
    for title, make in (
        ("three heads on one ResNet-18", heads),
        ("ResNet-18 and its early exit", exits),
    ):
        with tempfile.TemporaryDirectory() as folder:
            homes = {}
            for way in ("separate", "shared"):
                home = Path(folder) / way
                home.mkdir()
                homes[way] = built(home, make(home, way == "separate"))
            pss = alternate({way: partial(ran, home) for way, home in homes.items()}, count)
            memory = [b / a for a, b in zip(pss["separate"], pss["shared"], strict=True)]
            spent = alternate({way: firing(home) for way, home in homes.items()}, FIRINGS)
            times = [b / a for a, b in zip(spent["separate"], spent["shared"], strict=True)]
            mb = {way: Spread.of(values).median / 1e6 for way, values in pss.items()}
            print(
                f"{title}: PSS {mb['separate']:.1f} MB separate, {mb['shared']:.1f} MB shared, "
                f"ratio {Spread.of(memory).text()}; time {Spread.of(times).text(3)}"
            )


if __name__ == "__main__":
    main()
