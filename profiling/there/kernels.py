"""Runs a network under the profiler of ONNX Runtime, and prints its kernels, as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

import numpy as np

from ...runtime.session import opened

#: Runs before the measurement: buffers are allocated, caches filled.
WARM_UP = 3
#: The profiler of ONNX Runtime keeps a million events; longer runs would lose the last ones.
MOST_EVENTS = 500_000
#: The content of a directory: the model, and its inputs, each a name, a type and a shape.
MODEL, INPUTS = "model.onnx", "inputs.json"

Kernels = Tuple[List[Tuple[str, float]], int, float]


def kernels(directory: str, nodes: int, seconds: float) -> Kernels:
    """(kernel, ns) in order of execution, the number of runs, and their total time, with random
    data, one thread."""
    import onnxruntime as ort

    def options() -> Any:
        made = ort.SessionOptions()
        made.intra_op_num_threads = made.inter_op_num_threads = 1
        made.enable_profiling = True
        made.log_severity_level = 3
        made.profile_file_prefix = os.path.join(folder, "profile")
        return made

    with tempfile.TemporaryDirectory() as folder:
        session = opened(os.path.join(directory, MODEL), options)
        values = random_inputs(directory)
        for _ in range(WARM_UP):
            session.run(None, values)
        runs = 0
        begin = now = time.perf_counter_ns()
        while runs == 0 or (now - begin < seconds * 1e9 and runs * nodes < MOST_EVENTS):
            session.run(None, values)
            runs += 1
            now = time.perf_counter_ns()
        with open(session.end_profiling(), encoding="utf-8") as file:
            document: List[Dict[str, Any]] = json.load(file)
    return _kernel_times(document), runs, float(now - begin)


def _kernel_times(document: List[Dict[str, Any]]) -> List[Tuple[str, float]]:
    """(kernel, ns) in order of execution, from ONNX Runtime's document, without warming up."""
    begin = [e for e in document if e.get("name") == "model_run"][WARM_UP]["ts"]
    events = [e for e in document if _is_kernel(e) and e["ts"] >= begin]
    events.sort(key=lambda e: e["ts"])
    return [(e["name"], e["dur"] * 1e3) for e in events]


def _is_kernel(event: Dict[str, Any]) -> bool:
    return bool(event.get("cat") == "Node" and event["name"].endswith("_kernel_time"))


def random_inputs(directory: str) -> Dict[str, Any]:
    """Random data for the model in a directory."""
    with open(os.path.join(directory, INPUTS), encoding="utf-8") as file:
        inputs = json.load(file)
    rng = np.random.default_rng(0)
    return {name: random_value(rng, dtype, tuple(shape)) for name, dtype, shape in inputs}


def random_value(rng: np.random.Generator, dtype: str, shape: Tuple[int, ...]) -> Any:
    """Random data for an input. Integers of more than one byte are 0 or 1: they may be indices."""
    if dtype.startswith(("float", "complex")):
        return rng.standard_normal(shape).astype(dtype)
    low, high = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype, (0, 2))
    return rng.integers(low, high, shape).astype(dtype)


if __name__ == "__main__":
    events, runs, wall_ns = kernels(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write("\n" + json.dumps({"events": events, "runs": runs, "wall_ns": wall_ns}))
