"""Times of a network's layers in OpenVINO on this machine's CPU, by its performance counters.

In: a model file. Out: mean times by layer. OpenVINO names what it executes after nodes of the file,
and for what it has fused it knows all of them: such a kernel counts to the first one. What lays out
a tensor anew has no node: it counts to the layer that reads it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..networks.onnx.cuts import LayerChain
from ..runtime.openvino import imported
from .layers import LayerTimes, numbered
from .there.kernels import WARM_UP, random_value


def openvino_layer_times(
    path: Path, chain: LayerChain, precision: str, seconds: float
) -> LayerTimes:
    """Run a network on random data for about `seconds`, one thread, and time its layers.

    Raises OpenVINO's exception for a model that it cannot run.
    """
    model, layers = numbered(path, chain)
    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
        "PERF_COUNT": True,
    }
    core = imported().Core()
    source = core.read_model(model.SerializeToString())
    inputs = {name: chain.tensors[name] for name in chain.inputs}
    source.reshape({name: list(border.shape) for name, border in inputs.items()})
    compiled = core.compile_model(source, "CPU", settings)
    request = compiled.create_infer_request()
    random = np.random.default_rng(0)
    values = {n: random_value(random, b.dtype, b.shape) for n, b in inputs.items()}
    for _ in range(WARM_UP):
        request.infer(values)
    kernels = dict(_nodes(compiled))
    mean = dict.fromkeys((layer.name for layer in chain.layers), 0.0)
    runs = wall = 0
    end = time.monotonic() + seconds
    while not runs or time.monotonic() < end:
        begin = time.perf_counter_ns()
        request.infer(values)
        wall += time.perf_counter_ns() - begin
        runs += 1
        for layer, ns in _by_layer(request.profiling_info, kernels, layers):
            mean[layer] += ns
    mean = {layer: ns / runs for layer, ns in mean.items()}
    return LayerTimes(mean, max(0.0, wall / runs - sum(mean.values())), runs)


def _nodes(compiled: Any) -> Iterator[tuple[str, list[int]]]:
    """What is executed by name, and the numbers of the nodes of the file that are in it."""
    for executed in compiled.get_runtime_model().get_ordered_ops():
        info = executed.get_rt_info()
        names = info["originalLayersNames"].astype(str) if "originalLayersNames" in info else ""
        yield executed.get_friendly_name(), [int(n) for n in re.findall(r"\bflowc(\d+)\b", names)]


def _by_layer(
    executed: Any, kernels: Mapping[str, list[int]], layers: Mapping[int, str]
) -> Iterator[tuple[str, float]]:
    """The time of each kernel of an inference in ns, with its layer."""
    waiting = 0.0
    last = next(iter(layers.values()))
    for kernel in executed:
        waiting += kernel.real_time.total_seconds() * 1e9
        found = [layers[n] for n in sorted(kernels.get(kernel.node_name, ())) if n in layers]
        if found:
            last = found[0]
            yield last, waiting
            waiting = 0.0
    yield last, waiting
