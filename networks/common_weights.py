"""Weights that several models of a program have, in one copy for all of them.

In: models, or networks, with the segments that they share. Out: for each model a second form: the
graph that this machine's ONNX Runtime makes of it, which takes from one file what another place
needs as well. Weights are compared by content in that graph, so they are in the layout that kernels
read, and it makes no difference in which layer or in which network they stand. A part of a tensor
is no tensor: a half of a weight is another weight.

Such a graph holds for one size of blocks and for one version of ONNX Runtime (`own_graph.probe`);
elsewhere the models of the segments run, each with its own copy.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..model.application import CommonWeights, OwnForm, Segments
from .onnx.cuts import tensors_of
from .onnx.interface import inferred
from .onnx.own_graph import block_here, bytes_of, optimized, probe, version_here
from .supergraph import WholeNetwork, digest_of, in_one_segment, shared_parts, tensor_digest

#: Bytes of weights that a file of common weights has to save.
WORTH = 1 << 16
#: What variants have in common.
FILE = "shared=common.weights"
#: Smaller weights stay in each model: they may say something about shapes.
LEAST = 256
#: Where weights begin in the file.
ALIGNED = 64
#: Types that numpy has as well.
DTYPES = frozenset({"float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32"})


def parts_in_program(
    wholes: Sequence[WholeNetwork], folder: str = "", worth: int = WORTH
) -> tuple[Segments | None, ...]:
    """For each network its segments, with what they have in common; None for one that shares
    nothing worth it.

    `worth` are bytes that common weights have to save; their file is to lie in a `folder`. Where a
    network takes some of them and has no other segments, it is one segment.
    """
    parts = shared_parts(wholes)
    single = [
        part or in_one_segment(number, whole)
        for number, (part, whole) in enumerate(zip(parts, wholes, strict=True))
    ]
    models = {s.digest: s.model for part in single if part is not None for s in part.segments}
    common = common_weights(models, str(Path(folder) / FILE), worth)
    if common is None:
        return parts
    taking = {form.digest for form in common.forms}
    found: list[Segments | None] = []
    for part, one in zip(parts, single, strict=True):
        if one is not None and any(s.digest in taking for s in one.segments):
            found.append(replace(one, common=common))
        else:
            found.append(part)
    return tuple(found)


def common_weights(
    models: Mapping[str, bytes], file: str, worth: int = WORTH
) -> CommonWeights | None:
    """What these models, by their digests, have in common, to lie in a file beside them; None if
    that is not worth it."""
    graphs: dict[str, Any] = {}
    for digest, model in models.items():
        graph = _own_graph(model)
        if graph is not None:
            graphs[digest] = graph
    weights: dict[str, Any] = {}
    count: Counter[str] = Counter()
    for graph in graphs.values():
        for weight in filter(_can_be_common, graph.graph.initializer):
            value = tensor_digest(weight)
            weights.setdefault(value, weight)
            count[value] += 1
    shared = {value: weights[value] for value, times in count.items() if times > 1}
    if sum((count[value] - 1) * bytes_of(w) for value, w in shared.items()) < worth:
        return None
    content, tensors = _file(shared)
    names = {value: name for value, (name, *_) in zip(shared, tensors, strict=True)}
    places = {name: at for name, _, _, at in tensors}
    forms = []
    for digest, graph in graphs.items():
        form = _form(digest, graph, names, places, Path(file).name)
        if form.names:
            forms.append(form)
    return CommonWeights(
        file, content, tensors, tuple(forms), probe(), block_here(), tuple(version_here())
    )


def _can_be_common(weight: Any) -> bool:
    """Is a weight large enough, and of a type that numpy has?"""
    from onnx import helper

    dtype = helper.tensor_dtype_to_np_dtype(weight.data_type).name
    return dtype in DTYPES and bytes_of(weight) >= LEAST


def _file(
    shared: Mapping[str, Any],
) -> tuple[bytes, tuple[tuple[str, str, tuple[int, ...], int], ...]]:
    """Weights one after another, with the name, the type, the shape and the first byte of each."""
    from onnx import numpy_helper

    content, tensors = bytearray(), []
    for value, weight in shared.items():
        array = numpy_helper.to_array(weight)
        name = f"common_{value[:16]}"
        tensors.append((name, array.dtype.name, tuple(array.shape), len(content)))
        content += array.tobytes()
        content += bytes(-len(content) % ALIGNED)
    return bytes(content), tuple(tensors)


def _form(
    digest: str, graph: Any, names: Mapping[str, str], places: Mapping[str, int], file: str
) -> OwnForm:
    """A model that takes weights from the file: `names` by values, `places` by these names."""
    from onnx import external_data_helper

    called: dict[str, str] = {}
    kept, own = [], 0
    for weight in graph.graph.initializer:
        name = names.get(tensor_digest(weight), "") if _can_be_common(weight) else ""
        if not name:
            own += bytes_of(weight)
            kept.append(weight)
            continue
        if name not in called.values():
            taken = type(weight)()
            taken.name, taken.data_type = name, weight.data_type
            taken.dims.extend(weight.dims)
            taken.raw_data = b""
            external_data_helper.set_external_data(taken, file, places[name], bytes_of(weight))
            kept.append(taken)
        called[weight.name] = name
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    for node in graph.graph.node:
        node.input[:] = [called.get(t, t) for t in node.input]
    model = graph.SerializeToString(deterministic=True)
    return OwnForm(digest, model, tuple(dict.fromkeys(called.values())), own)


# -- ONNX Runtime's own graph ----------------------------------------------------------------------
def _own_graph(model: bytes) -> Any:
    """What this machine's ONNX Runtime makes of a model; None where it cannot be told."""
    import onnx

    made = onnx.load_model_from_string(model)
    try:
        known = {t: b for t, b in tensors_of(inferred(made)).items() if b.fixed}
        own = optimized(made, known)
    except Exception:  # what ONNX Runtime and onnx raise has no common type
        return None
    weights = {w.name for w in own.graph.initializer}
    if any(a.HasField("g") or a.graphs for n in own.graph.node for a in n.attribute):
        return None
    if not weights.isdisjoint(v.name for v in (*own.graph.input, *own.graph.output)):
        return None
    return _canonical(own)


def _canonical(model: Any) -> Any:
    """The same graph with an order and names that depend on its content alone.

    ONNX Runtime numbers its own tensors as it comes to them, which differs from start to start.
    """
    import onnx

    graph = model.graph
    weights = {tensor_digest(w): w for w in graph.initializer}
    value = {w.name: tensor_digest(w) for w in graph.initializer}
    value |= {v.name: digest_of("input", v.name) for v in graph.input}
    ends = {v.name for v in (*graph.input, *graph.output)}
    nodes: dict[str, Any] = {}
    for node in graph.node:
        made = digest_of(*_words(node), *(value.get(t, "") for t in node.input))
        value |= {t: digest_of(made, str(k)) for k, t in enumerate(node.output) if t}
        # what makes an output is not the same as what makes an equal tensor
        nodes.setdefault(digest_of(made, *sorted(ends.intersection(node.output))), node)
    called = {t: t if t in ends else f"t_{digest[:16]}" for t, digest in value.items()}
    result = onnx.ModelProto(ir_version=model.ir_version)
    result.opset_import.extend(sorted(model.opset_import, key=lambda o: str(o.domain)))
    result.graph.name = "own"
    result.graph.input.extend(graph.input)
    result.graph.output.extend(graph.output)
    for node in nodes.values():
        node.name = node.doc_string = ""
        node.input[:] = [called.get(t, "") for t in node.input]
        node.output[:] = [called.get(t, "") for t in node.output]
    result.graph.node.extend(_in_order(nodes))
    for digest in sorted(weights):
        weight = weights[digest]
        weight.name = called[weight.name]
        result.graph.initializer.append(weight)
    return result


def _words(node: Any) -> list[str]:
    """What a node does, without what it reads."""
    attributes = sorted(node.attribute, key=lambda a: str(a.name))
    texts = [a.SerializeToString(deterministic=True).hex() for a in attributes]
    return [node.domain, node.op_type, str(len(node.output)), *texts]


def _in_order(nodes: Mapping[str, Any]) -> list[Any]:
    """Nodes behind what they read, those that could stand side by side by their digests."""
    makers = {t: digest for digest, node in nodes.items() for t in node.output if t}
    waits = {
        digest: {makers[t] for t in node.input if t in makers} for digest, node in nodes.items()
    }
    readers: dict[str, list[str]] = {digest: [] for digest in nodes}
    for digest, before in waits.items():
        for maker in before:
            readers[maker].append(digest)
    ready = [digest for digest, before in waits.items() if not before]
    heapq.heapify(ready)
    ordered = []
    while ready:
        digest = heapq.heappop(ready)
        ordered.append(nodes[digest])
        for reader in readers[digest]:
            waits[reader].discard(digest)
            if not waits[reader]:
                heapq.heappush(ready, reader)
    return ordered
