"""What a network takes in memory when ONNX Runtime runs it whole: its weights, and what lies between its layers.

In: a network of a text. Out: `Needs`, in bytes. Nothing is run. What is fused (`cuts.Link.fused`) makes one tensor;
tensors are placed as ONNX Runtime places them: in the order of the layers, each into the smallest gap that takes it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from ...model.application import Network
from .cuts import Chain, chain_of, read_chain, size
from .interface import Border, NetworkError

#: Arrays of ONNX Runtime begin at multiples of it.
ALIGNED = 256


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of the `weights`, and of the `block` for what lies between the layers (without inputs and outputs)."""

    weights: int
    block: int


_known: dict[tuple[object, ...], Needs | None] = {}


def needs(network: Network) -> Needs | None:
    """What one firing of a network takes; None where its shapes are not known."""
    shapes = tuple((t.name, t.type.dtype, t.type.shape) for t in network.inputs)
    key = network.content_hash, network.path, shapes
    if key not in _known:
        try:
            _known[key] = _needs(network)
        except NetworkError:
            _known[key] = None
    return _known[key]


def _needs(network: Network) -> Needs:
    from pathlib import Path

    import onnx

    if network.model:
        model = onnx.load_model_from_string(network.model)
        inputs, outputs = (
            [Border(x.name, x.type.dtype, x.type.shape) for x in side] for side in (network.inputs, network.outputs)
        )
        chain = chain_of(model, inputs, outputs, network.file)
    else:
        path = Path(network.path)
        chain, model = read_chain(path, network.shapes), onnx.load(str(path), load_external_data=False)
    return Needs(weights_of(model), block_of(chain))


def weights_of(model: Any) -> int:
    """Bytes of the weights of a model."""
    from onnx import helper

    return sum(prod(w.dims) * helper.tensor_dtype_to_np_dtype(w.data_type).itemsize for w in model.graph.initializer)


def block_of(chain: Chain) -> int:
    """The end of all tensors between the layers, each placed when it is made and gone after its last reader."""
    group = list(range(len(chain.layers)))
    spans = chain.spans()
    for k, layer in enumerate(chain.layers):
        if layer.fused:
            group[k] = group[spans[layer.fused][0]]
    last_of = {g: k for k, g in enumerate(group)}
    fused = {x.fused for x in chain.layers}
    made: dict[int, list[tuple[str, int]]] = {}
    for tensor, (maker, reader) in spans.items():
        border = chain.tensors.get(tensor)
        if maker < 0 or tensor in fused or tensor in chain.outputs or border is None or not border.fixed:
            continue
        until = max((last_of[group[k]] for k, x in enumerate(chain.layers) if tensor in x.reads), default=reader)
        made.setdefault(last_of[group[maker]], []).append((tensor, until))
    return in_turn(
        [(size(chain.tensors[tensor]), until) for tensor, until in made.get(k, ())] for k in range(len(chain.layers))
    )


def in_turn(steps: Iterable[Iterable[tuple[int, int]]]) -> int:
    """The end of memory where each step takes (bytes, last step that needs them), each into the smallest gap."""
    there: list[tuple[int, int, int]] = []  # begin, end and last step of each, from the first byte on
    most = 0
    for now, made in enumerate(steps):
        for count, until in made:
            wanted = -(-count // ALIGNED) * ALIGNED
            at = _gap(there, wanted, most)
            insort(there, (at, at + wanted, until))
            most = max(most, at + wanted)
        there = [x for x in there if x[2] > now]
    return most


def _gap(there: list[tuple[int, int, int]], wanted: int, most: int) -> int:
    """The beginning of the smallest gap, that up to `most` among them, or the end of all."""
    free, gap, found = 0, None, 0
    for at, end, _ in there:
        if at - free >= wanted and (gap is None or at - free < gap):
            gap, found = at - free, free
        free = max(free, end)
    if gap is None or wanted <= most - free < gap:
        return free
    return found
