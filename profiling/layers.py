"""Times of a network's layers on a CPU of a machine, by the profiler of ONNX Runtime.

In: a model file. Out: mean times by layer. ONNX Runtime makes one kernel of several layers and
names it after one of them: nodes are renamed first, and kernels of its blocked layout are named
after the tensor they make, so that each leads back to a layer. The others of a group have no time
of their own; up to the end of a group, sums are right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..machines.answers import Ns, printed_as
from ..machines.host import HERE, Host
from ..model.files import scratch
from ..model.json_reader import Between
from ..networks.onnx.cuts import LayerChain
from .measure import MeasurementFailed
from .there import kernels


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Mean ns per inference by layer (0 for a layer that is part of another one's kernel), over
    `runs`.

    `overhead_ns` is the time of an inference beyond its kernels.
    """

    mean_ns: dict[str, float]
    overhead_ns: float
    runs: int


@dataclass(frozen=True, slots=True)
class _Printed:
    """The output of `there/kernels.py`."""

    events: tuple[tuple[str, Ns], ...]
    runs: Annotated[int, Between(1, 1 << 40)]
    wall_ns: Ns


def layer_times(path: Path, chain: LayerChain, seconds: float, host: Host = HERE) -> LayerTimes:
    """Run a network on random data for about `seconds`, one thread, and time its layers.

    Raises ONNX Runtime's exception for a model that it cannot run, for another machine
    MeasurementFailed.
    """
    model, layers = numbered(path, chain)
    maker: dict[str, int] = {}
    for number, node in enumerate(model.graph.node):
        maker |= dict.fromkeys(node.output, number)
    with scratch() as folder:
        events, runs, wall = _run(model, chain, folder / "layers", seconds, host)
    mean = dict.fromkeys((x.name for x in chain.layers), 0.0)
    computing = 0.0
    at = chain.layers[0].name
    for name, ns in events:
        # A conversion between layouts has a name of its own: it counts to the layer before it.
        at = layers.get(_node_of(name, maker), at)
        mean[at] += ns / runs
        computing += ns / runs
    return LayerTimes(mean, max(0.0, wall / runs - computing), runs)


def numbered(path: Path, chain: LayerChain) -> tuple[Any, dict[int, str]]:
    """The model with nodes called `flowc0`, `flowc1`, ..., and the layer of each number."""
    import onnx

    model = onnx.load(str(path))
    made_in = {tensor: layer.name for layer in chain.layers for tensor in layer.makes}
    layers: dict[int, str] = {}
    for number, node in enumerate(model.graph.node):
        node.name = f"flowc{number}"
        for tensor in node.output:
            if tensor in made_in:
                layers[number] = made_in[tensor]
    return model, layers


def _node_of(event: str, maker: Mapping[str, int]) -> int:
    """The number of the node whose kernel an event tells of; -1 where there is none."""
    numbered = re.fullmatch(r"flowc(\d+)(?:_.*)?_kernel_time", event)
    if numbered:
        return int(numbered.group(1))
    return maker.get(event.removesuffix("_kernel_time").removesuffix("_nchwc"), -1)


def _run(
    model: Any, chain: LayerChain, folder: Path, seconds: float, host: Host
) -> kernels.Kernels:
    """The output of `there/kernels.py` for a model in a folder."""
    inputs = [chain.tensors[name] for name in chain.inputs]
    folder.mkdir()
    (folder / kernels.MODEL).write_bytes(model.SerializeToString())
    (folder / kernels.INPUTS).write_text(json.dumps([(i.name, i.dtype, i.shape) for i in inputs]))
    nodes = len(model.graph.node)
    if host is HERE:
        return kernels.kernels(str(folder), nodes, seconds)

    def told() -> kernels.Kernels:
        done = host.module(
            "profiling.there.kernels", [host.put(folder, "layers"), str(nodes), str(seconds)]
        )
        if done.status:
            raise MeasurementFailed(
                done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no word"
            )
        try:
            seen = printed_as(_Printed, done.stdout)
        except ValueError as error:
            raise MeasurementFailed(f"the times of layers cannot be read: {error}") from error
        return list(seen.events), seen.runs, seen.wall_ns

    return host.steadily(told)
