"""What networks have in common, by content: segments that several of them begin with, so that
weights exist once.

In: networks as models. Out: for each the segments that compute what it computes, some of which it
shares. Nodes are hashed from the inputs on: operator, attributes, weights and the hashes of what
they read. So equal hashes are equal values whatever tensors are called, and what is common is
closed towards the inputs.

A segment is made where the weights that it saves are worth it; each one is a model that runs by
itself. What ONNX Runtime shares between sessions itself (initializers) takes more memory, not less:
each session reorders its own copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.application import Segment, Segments
from .onnx.cuts import RANDOM
from .onnx.extract import LIMIT, extract, needed
from .onnx.nodes import read_by
from .onnx.own_graph import bytes_of

#: Bytes of weights that a segment has to save.
WORTH = 1_000_000


@dataclass(frozen=True, slots=True)
class WholeNetwork:
    """A network: a model with its weights in it, and the tensors of its ports, with the shapes of
    its inputs."""

    model: Any
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes of weights: of every network for itself, of what is different, and as the segments have
    them."""

    separate: int
    distinct: int
    built: int


def shared_parts(wholes: Sequence[WholeNetwork], worth: int = WORTH) -> tuple[Segments | None, ...]:
    """For each network its segments, None for one that shares nothing worth it."""
    graphs = [_Graph(k, w) for k, w in enumerate(wholes)]
    shared = []
    for group in _groups(graphs, worth):
        wanted = _leaving(graphs, group)
        shared.append((group, _model_of(graphs[min(group.members)], group.hashes, wanted)))
    parts = []
    for number, graph in enumerate(graphs):
        own = [s for s in shared if number in s[0].members]
        parts.append(_parts(graph, own) if own else None)
    return tuple(parts)


def in_one_segment(number: int, whole: WholeNetwork) -> Segments | None:
    """A network as one segment, without what its outputs do not need; None for one that is too
    large. `number` tells networks apart that draw random numbers."""
    return _parts(_Graph(number, whole), [])


def saved(wholes: Sequence[WholeNetwork], parts: Sequence[Segments | None]) -> Saved:
    """What segments save of the weights."""
    graphs = [_Graph(k, w) for k, w in enumerate(wholes)]
    distinct: dict[str, int] = {}
    built: dict[str, int] = {}
    separate = 0
    for number, (graph, own) in enumerate(zip(graphs, parts, strict=True)):
        total = sum(graph.weights.values())
        separate += total
        distinct |= graph.weights
        if own is None:
            built[f"whole {number}"] = total
            continue
        built |= {s.digest: s.weights for s in own.segments}
        if own.common is not None:
            built |= {form.digest: form.weights for form in own.common.forms}
            built["common"] = own.common.weights
    return Saved(separate, sum(distinct.values()), sum(built.values()))


# -- hashes ----------------------------------------------------------------------------------------
def tensor_digest(tensor: Any) -> str:
    """Type, shape and bytes of a weight, however the file writes them."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    # texts are pointers to numpy
    content = repr(array.tolist()) if array.dtype == object else array.tobytes()
    return digest_of("tensor", str(tensor.data_type), str(tuple(tensor.dims)), content)


def digest_of(*parts: str | bytes) -> str:
    """One of several parts, which cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class _Graph:
    """What a network computes, each value once: nodes that make the same as an earlier one are left
    out.

    `hash` has a hash for each node, `value` one for each tensor: what is equal there is equal.
    """

    def __init__(self, number: int, whole: WholeNetwork) -> None:
        import onnx

        self.inputs, self._number = [name for name, _ in whole.inputs], number
        model = fixed_model(whole)
        nodes = [model.graph.node[k] for k in needed(model, whole.outputs)]
        weights = _weights_read(model, nodes, whole.outputs)
        self.value = {name: tensor_digest(w) for name, w in weights.items()}
        #: Bytes of weights that are read, by their values.
        self.weights = {self.value[name]: bytes_of(w) for name, w in weights.items()}
        kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
        for k, (name, shape) in enumerate(whole.inputs):
            self.value[name] = digest_of("input", str(k), str(kinds[name]), str(shape))
        self.hash: list[str] = []
        self.model = self._canonical(model, nodes)
        self.outputs = [self.value.get(name, "") for name in whole.outputs]
        inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True).graph
        #: What is known of tensors.
        self.info = {v.name: v for v in (*inferred.value_info, *inferred.output, *inferred.input)}

    def _canonical(self, model: Any, nodes: Sequence[Any]) -> Any:
        """The model with one tensor for each value."""
        import onnx

        opsets = {o.domain or "ai.onnx": o.version for o in model.opset_import}
        tensor = {value: name for name, value in reversed(self.value.items())}
        kept, seen = [], set[str]()
        for node in nodes:
            made = self._node(node, opsets)
            values = [digest_of(made, str(k)) for k in range(len(node.output))]
            self.value |= {t: v for t, v in zip(node.output, values, strict=True) if t}
            if made in seen:
                continue
            seen.add(made)
            self.hash.append(made)
            one = onnx.NodeProto()
            one.CopyFrom(node)
            del one.input[:]
            one.input.extend(tensor.get(self.value.get(t, ""), t) for t in node.input)
            tensor |= {v: t for t, v in zip(node.output, values, strict=True) if t}
            kept.append(one)
        del model.graph.node[:]
        model.graph.node.extend(kept)
        return model

    def _node(self, node: Any, opsets: Mapping[str, int]) -> str:
        """The hash of what a node computes; of one that is not known to be a function of its
        inputs, its own."""
        domain = node.domain or "ai.onnx"
        reads = [self.value.get(t) if t else "-" for t in node.input]
        if domain != "ai.onnx" or None in reads or not _is_function(node):
            return digest_of("own", str(self._number), *node.output)
        attributes = []
        for attribute in sorted(node.attribute, key=lambda a: str(a.name)):
            attributes += [attribute.name, _attribute_text(attribute)]
        return digest_of(
            "node", node.op_type, str(opsets.get(domain, 0)), *attributes, "reads", *map(str, reads)
        )

    def _nodes(self, hashes: Collection[str]) -> list[Any]:
        """The nodes of these hashes."""
        return [n for n, h in zip(self.model.graph.node, self.hash, strict=True) if h in hashes]

    def made(self, hashes: Collection[str]) -> dict[str, str]:
        """What nodes of these hashes make: tensors by their values."""
        made: dict[str, str] = {}
        for node in self._nodes(hashes):
            made |= {self.value[t]: t for t in node.output if t}
        return made

    def leaving(self, hashes: Collection[str]) -> list[str]:
        """Values that nodes of these hashes make, and others read or the network gives."""
        others = self._nodes(set(self.hash).difference(hashes))
        read = {self.value.get(t) for t in read_by(others)}
        read.update(self.outputs)
        return [v for v in self.made(hashes) if v in read]

    def weights_of(self, hashes: Collection[str]) -> int:
        """Bytes of what nodes of these hashes read of the weights."""
        values = {self.value.get(t, "") for t in read_by(self._nodes(set(hashes)))}
        return sum(size for value, size in self.weights.items() if value in values)

    def twice(self, hashes: Collection[str]) -> int:
        """Bytes of weights that are read both by nodes of these hashes and by others."""
        rest = set(self.hash).difference(hashes)
        return self.weights_of(hashes) + self.weights_of(rest) - self.weights_of(self.hash)

    def fixed(self, value: str, hashes: Collection[str]) -> bool:
        """Has a value that nodes of these hashes make a type and a shape, so that a model can give
        it?"""
        info = self.info.get(self.made(hashes)[value])
        if info is None:
            return False
        kind = info.type.tensor_type
        return (
            bool(kind.elem_type)
            and kind.HasField("shape")
            and all(d.dim_value > 0 for d in kind.shape.dim)
        )


def _weights_read(model: Any, nodes: Iterable[Any], outputs: Iterable[str]) -> dict[str, Any]:
    """The weights that nodes read or that are outputs themselves."""
    read = read_by(nodes).union(outputs)
    return {w.name: w for w in model.graph.initializer if w.name in read}


def _is_function(node: Any) -> bool:
    """Is a standard node known to be a function of its inputs and attributes?"""
    drawn = node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2)
    return not drawn and not any(a.HasField("g") or a.graphs for a in node.attribute)


def _attribute_text(attribute: Any) -> str:
    if attribute.HasField("t"):
        return tensor_digest(attribute.t)
    return str(attribute.SerializeToString(deterministic=True).hex())


def fixed_model(whole: WholeNetwork) -> Any:
    """The model with the shapes of its inputs put in."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(whole.model)
    shapes = dict(whole.inputs)
    for value in model.graph.input:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind, shapes[value.name]))
    return model


# -- groups of networks ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Group:
    """Networks that begin with the same nodes, which no larger group has already."""

    members: frozenset[int]
    hashes: frozenset[str]


def _groups(graphs: Sequence[_Graph], worth: int) -> list[_Group]:
    """Larger groups first; each is inside of every other one, or apart from it."""
    owners: dict[str, set[int]] = {}
    for number, graph in enumerate(graphs):
        for made in graph.hash:
            owners.setdefault(made, set()).add(number)
    candidates = {frozenset(o) for o in owners.values() if len(o) > 1}
    groups: list[_Group] = []
    for members in sorted(candidates, key=lambda m: (-len(m), sorted(m))):
        if not all(members <= g.members or members.isdisjoint(g.members) for g in groups):
            continue
        taken = set[str]().union(*(g.hashes for g in groups if members <= g.members))
        common = {h for h, o in owners.items() if members <= o}
        group = _Group(members, frozenset(common - taken))
        if _saves(graphs, group) >= worth and _can_leave(graphs, group):
            groups.append(group)
    return groups


def _saves(graphs: Sequence[_Graph], group: _Group) -> int:
    """Bytes of weights that a segment of a group saves, less those that are then there twice."""
    once = graphs[min(group.members)].weights_of(group.hashes)
    twice = sum(graphs[k].twice(group.hashes) for k in group.members)
    return once * (len(group.members) - 1) - twice


def _leaving(graphs: Sequence[_Graph], group: _Group) -> set[str]:
    """The values that a segment of a group gives to one of its networks."""
    return set[str]().union(*(graphs[k].leaving(group.hashes) for k in group.members))


def _can_leave(graphs: Sequence[_Graph], group: _Group) -> bool:
    """Are types and shapes of all these values known?"""
    leaving = _leaving(graphs, group)
    for number in group.members:
        if not all(graphs[number].fixed(value, group.hashes) for value in leaving):
            return False
    return True


# -- segments --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Model:
    """A segment whose tensors have values, not yet numbers."""

    content: bytes
    weights: int
    reads: tuple[tuple[str, str], ...]
    makes: tuple[tuple[str, str], ...]


def _model_of(graph: _Graph, hashes: Collection[str], wanted: Collection[str]) -> _Model:
    """The nodes of these hashes as a model that makes the wanted values."""
    numbers = [k for k, h in enumerate(graph.hash) if h in hashes]
    made = graph.made(hashes)
    known = {"", *made.values()}
    known.update(w.name for w in graph.model.graph.initializer)
    known.update(w.values.name for w in graph.model.graph.sparse_initializer)
    outer: dict[str, str] = {}
    for number in numbers:
        node = graph.model.graph.node[number]
        outer |= {t: graph.value[t] for t in node.input if t not in known}
    makes = {t: v for v, t in made.items() if v in wanted}
    model = extract(
        graph.model, numbers, [graph.info[t] for t in outer], [graph.info[t] for t in makes]
    )
    return _Model(
        model.SerializeToString(deterministic=True),
        sum(bytes_of(w) for w in model.graph.initializer),
        tuple(outer.items()),
        tuple(makes.items()),
    )


def _parts(graph: _Graph, shared: Sequence[tuple[_Group, _Model]]) -> Segments | None:
    """The segments of a network: those that it shares, the one of most networks first, and what is
    left."""
    models = [model for _, model in shared]
    rest = set(graph.hash).difference(*(group.hashes for group, _ in shared))
    if rest:
        models.append(_model_of(graph, rest, set(graph.outputs)))
    if any(len(model.content) > LIMIT for model in models):
        return None
    slots = {graph.value[name]: k for k, name in enumerate(graph.inputs)}
    segments = []
    for model in models:
        reads = tuple((t, slots[value]) for t, value in model.reads)
        makes = tuple((t, slots.setdefault(value, len(slots))) for t, value in model.makes)
        digest = hashlib.sha256(model.content).hexdigest()[:16]
        segments.append(Segment(model.content, digest, model.weights, reads, makes))
    if any(value not in slots for value in graph.outputs):
        return None
    return Segments(tuple(segments), tuple(slots[value] for value in graph.outputs))
