"""The processor of every layer of a network, as a file says it.

In: JSON, `{PROCESSOR: [LAYER, ...]}`, or `{PROCESSOR: {LAYER: ns}}` with the time of each layer
there. Out: `LayerPlaces`. What to make of them is left to `layerwise`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...model.diagnostic import did_you_mean, one_of
from ...model.json_reader import parse_object, shown
from ..onnx.interface import NetworkError
from ..onnx.layers import Cnn

CODE = "F414"
_FORM = 'write `{"cpu": ["conv_0", "conv_1"], "gpu": ["conv_2"]}`, or times in ns of the layers'


@dataclass(frozen=True, slots=True)
class LayerPlaces:
    """`processor` has every layer of the network. `ns` are times of layers; empty if the file has
    none: then each layer that it names counts 1 ns, so that periods are in layers."""

    processor: Mapping[str, str]
    ns: Mapping[str, int]
    timed: bool


def read_places(cnn: Cnn, text: bytes, file: str) -> LayerPlaces:
    """The places of all layers; `file` is for messages.

    A layer that the file does not name is where the layer is that its first input comes from, and
    takes no time; an input of the network is where its first reader is. Raises NetworkError (F414).
    """
    try:
        document = parse_object(text)
    except ValueError as error:
        raise _faulty(file, str(error), _FORM) from error
    processor: dict[str, str] = {}
    ns: dict[str, int] = {}
    known = {layer.name for layer in cnn.layers}
    for place, layer, time in _entries(document, file):
        if layer not in known:
            help_text = did_you_mean(layer, known) or f"the layers are {one_of(sorted(known)[:8])}"
            raise _faulty(file, f"the network has no layer `{layer}`", help_text)
        if layer in processor:
            message = f"layer `{layer}` is on `{processor[layer]}` and on `{place}`"
            raise _faulty(file, message, "name each layer once")
        processor[layer] = place
        if time is not None:
            ns[layer] = time
    if not processor:
        raise _faulty(file, "it names no layer", _FORM)
    timed = bool(ns)
    if timed and len(ns) < len(processor):
        layer = next(name for name in processor if name not in ns)
        raise _faulty(file, f"layer `{layer}` has no time, others have one", "give all or none")
    return LayerPlaces(_completed(cnn, processor), ns or dict.fromkeys(processor, 1), timed)


def _entries(document: dict[str, Any], file: str) -> Iterator[tuple[str, str, int | None]]:
    """Processor, layer and time of each entry."""
    for place, layers in document.items():
        if isinstance(layers, list):
            for layer in layers:
                if not isinstance(layer, str):
                    raise _faulty(file, f"`{place}` has {shown(layer)} among its layers", _FORM)
                yield place, layer, None
        elif isinstance(layers, dict):
            for layer, time in layers.items():
                if not isinstance(time, int) or isinstance(time, bool) or time < 0:
                    message = f"the time of layer `{layer}` is {shown(time)}"
                    raise _faulty(file, message, "write whole ns, such as 1200000")
                yield place, layer, time
        else:
            raise _faulty(file, f"`{place}` is {shown(layers)}", _FORM)


def _completed(cnn: Cnn, named: Mapping[str, str]) -> dict[str, str]:
    """The same for all layers."""
    places = dict(named)
    for layer in cnn.layers:
        if layer.name not in places and layer.inputs and layer.inputs[0].source in places:
            places[layer.name] = places[layer.inputs[0].source]
    # What is left has no named layer before it: inputs, and layers that follow them.
    for layer in reversed(cnn.layers):
        for edge in layer.inputs:
            if layer.name in places:
                places.setdefault(edge.source, places[layer.name])
    first = next(iter(named.values()))
    return {layer.name: places.get(layer.name, first) for layer in cnn.layers}


def _faulty(file: str, message: str, help_text: str) -> NetworkError:
    return NetworkError(CODE, f"`{file}`: {message}", help_text)
