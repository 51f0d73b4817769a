"""How long each layer of a network takes on a CPU of this machine, by the profiler of ONNX Runtime.

In: a model file. Out: mean times by layer. ONNX Runtime makes one kernel of several layers and names it after one of
them: nodes are given names of our own, and kernels of its blocked layout are called after the tensor they make, so that
each leads back to a layer. The others of a group have no time of their own; up to the end of a group, sums are right.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..networks.onnx.cuts import Chain

if TYPE_CHECKING:
    import numpy as np

#: Runs before the measurement: buffers are allocated, caches filled.
WARM_UP = 3
#: The profiler of ONNX Runtime keeps a million events; longer runs would lose the last ones.
MOST_EVENTS = 500_000


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Mean ns per inference by layer (0 for a layer that is part of another one's kernel), over `runs`.

    `overhead_ns` is what an inference takes beyond its kernels.
    """

    mean_ns: dict[str, float]
    overhead_ns: float
    runs: int


def layer_times(path: Path, chain: Chain, seconds: float) -> LayerTimes:
    """Run a network on random data for about `seconds`, one thread, and time its layers.

    Raises whatever ONNX Runtime raises for a model that it cannot run.
    """
    import onnx

    model = onnx.load(str(path))
    maker = {t: n for n in range(len(model.graph.node)) for t in model.graph.node[n].output}
    for number, node in enumerate(model.graph.node):
        node.name = f"flowc{number}"
    layers = {maker[t]: x.name for x in chain.layers for t in x.makes if t in maker}
    with tempfile.TemporaryDirectory() as folder:
        events, runs, wall = _run(model, chain, Path(folder), seconds)
    mean = dict.fromkeys((x.name for x in chain.layers), 0.0)
    kernels = 0.0
    at = chain.layers[0].name
    for name, ns in events:
        own = re.fullmatch(r"flowc(\d+)(?:_.*)?_kernel_time", name)
        number = int(own.group(1)) if own else maker.get(name.removesuffix("_kernel_time").removesuffix("_nchwc"), -1)
        # What converts between layouts has a name of its own: it counts to the layer before it.
        at = layers.get(number, at)
        mean[at] += ns / runs
        kernels += ns / runs
    return LayerTimes(mean, max(0.0, wall / runs - kernels), runs)


def _run(model: Any, chain: Chain, folder: Path, seconds: float) -> tuple[list[tuple[str, float]], int, float]:
    """(kernel, ns) in order of execution, the number of runs, and their time in all."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = [chain.tensors[name] for name in chain.inputs]
    values = {i.name: random_value(rng, i.dtype, i.shape) for i in inputs}
    for _ in range(WARM_UP):
        session.run(None, values)
    runs = 0
    begin = now = time.perf_counter_ns()
    while runs == 0 or (now - begin < seconds * 1e9 and runs * len(model.graph.node) < MOST_EVENTS):
        session.run(None, values)
        runs += 1
        now = time.perf_counter_ns()
    document = json.loads(Path(session.end_profiling()).read_text())
    first = [e for e in document if e.get("name") == "model_run"][WARM_UP]["ts"]
    kernels = [
        e for e in document if e.get("cat") == "Node" and e["name"].endswith("_kernel_time") and e["ts"] >= first
    ]
    return [(e["name"], e["dur"] * 1e3) for e in sorted(kernels, key=lambda e: e["ts"])], runs, float(now - begin)


def random_value(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Random data for an input. Integers of more than one byte are 0 or 1: they may be indices."""
    if dtype.startswith(("float", "complex")):
        return rng.standard_normal(shape).astype(dtype)
    low, high = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype, (0, 2))
    return rng.integers(low, high, shape).astype(dtype)
