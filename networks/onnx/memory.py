"""What a network takes in memory when it runs whole: its weights, and what lies between its layers.

In: a network of a text, or a model. Out: `Needs`, in bytes. Nothing is run. There is one account of
networks that ONNX Runtime runs, for plans, pins, checks and searches: by ONNX Runtime's own graph
of the network (`whole`), or where that is not understood, by the layers of the model. For TensorRT,
whose kernels are others, it is by the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...model.application import Network, Tensor
from .cuts import LayerChain, chain_of, size
from .interface import Border, NetworkError, constant_tensors, read_fixed
from .own_graph import bytes_of, weights_of
from .pattern import in_turn
from .whole import Needs, whole_of

_known: dict[tuple[object, ...], Needs | None] = {}


def needs(network: Network) -> Needs | None:
    """What one firing of a network takes in ONNX Runtime; None where its shapes are not known."""
    return _once("onnxruntime", network, needs_of)


def weights_alone(network: Network) -> int:
    """Bytes of its weights, those inside of branches and loops among them; what lies between its
    layers stays unknown."""
    import onnx

    model = onnx.load(network.path, load_external_data=False)
    return sum(bytes_of(t) for t in constant_tensors(model.graph) if t.data_type)


def needs_in_tensorrt(network: Network) -> Needs | None:
    """What it takes in TensorRT, as far as that is known before an engine is built, in 32 bits."""
    return _once("tensorrt", network, lambda chain, model, folder: by_layers(chain, model))


def _once(
    engine: str, network: Network, find: Callable[[LayerChain, Any, Path], Needs]
) -> Needs | None:
    inputs = tuple((t.name, t.type.dtype, t.type.shape) for t in network.inputs)
    key = engine, network.content_hash, network.path, inputs
    if key not in _known:
        try:
            _known[key] = find(*_read(network))
        except NetworkError:
            _known[key] = None
    return _known[key]


def _read(network: Network) -> tuple[LayerChain, Any, Path]:
    """Its layers, its model with fixed inputs, and the folder where weights may lie. Raises
    NetworkError."""
    import onnx

    folder = Path(network.path).parent
    if not network.model:
        interface, model = read_fixed(Path(network.path), network.shapes, 1)
        return chain_of(model, interface.inputs, interface.outputs, network.file), model, folder
    model = onnx.load_model_from_string(network.model)
    inputs, outputs = _borders(network.inputs), _borders(network.outputs)
    return chain_of(model, inputs, outputs, network.file), model, folder


def _borders(ports: Iterable[Tensor]) -> list[Border]:
    return [Border(p.name, p.type.dtype, p.type.shape) for p in ports]


def needs_of(chain: LayerChain, model: Any, folder: Path) -> Needs:
    """What a model with fixed inputs takes in ONNX Runtime."""
    return whole_of(model, folder) or by_layers(chain, model)


def by_layers(chain: LayerChain, model: Any) -> Needs:
    """The same by the layers of a model: what is fused (`cuts.Link.fused`) makes one tensor.

    Each is placed when it is made, and gone after its last reader.
    """
    spans = chain.spans()
    last_of = _last_of_groups(chain, spans)
    fused = {x.fused for x in chain.layers}
    sizes: dict[str, int] = {}
    made: list[list[tuple[int, int]]] = [[] for _ in chain.layers]
    for tensor, (maker, reader) in spans.items():
        border = chain.tensors.get(tensor)
        if maker < 0 or tensor in fused or tensor in chain.outputs:
            continue
        if border is None or not border.fixed:
            continue
        readers = [last_of[k] for k, x in enumerate(chain.layers) if tensor in x.reads]
        sizes[tensor] = size(border)
        made[last_of[maker]].append((sizes[tensor], max(readers, default=reader)))
    most = max(chain.layers, key=lambda x: sum(sizes.get(t, 0) for t in (*x.reads, *x.makes)))
    return Needs(weights_of(model), in_turn(made), most.name)


def _last_of_groups(chain: LayerChain, spans: Mapping[str, tuple[int, int]]) -> list[int]:
    """Per layer the number of the last one that it is fused with."""
    group = list(range(len(chain.layers)))
    for k, layer in enumerate(chain.layers):
        if layer.fused:
            group[k] = group[spans[layer.fused][0]]
    last = {g: k for k, g in enumerate(group)}
    return [last[g] for g in group]
