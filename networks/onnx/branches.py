"""`If` with a condition that is known before anything runs: the branch that is taken replaces it.

In: a model with its weights, and the shapes of its inputs put in. Out: the same model, with fewer
`If`. ONNX Runtime does this too, as it folds constants, but refuses some models in which a branch
is inside of another (silero-vad's), and has no other order: a condition may follow from a branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cuts import RANDOM, folded, tensors_of
from .interface import inferred
from .nodes import first_output

#: Branches inside of branches, one round for each.
MOST_ROUNDS = 64


def without_constant_branches(model: Any) -> bool:
    """Put the branches that are taken into the graph; False where there are none."""
    changed = False
    for _ in range(MOST_ROUNDS):
        taken = _conditions(model)
        if not taken:
            break
        _take(model.graph, taken)
        changed = True
    return changed


def _conditions(model: Any) -> dict[str, bool]:
    """The conditions of `If` nodes that follow from weights and fixed shapes, with their values."""
    graph = model.graph
    wanted = {n.input[0] for n in graph.node if n.op_type == "If"}
    if not wanted:
        return {}
    try:
        nodes, known = _constant(model)
        wanted &= known
        return _evaluated(model, nodes, wanted) if wanted else {}
    except Exception:  # onnx and ONNX Runtime raise types of their own: what is not known stays
        return {}


def _constant(model: Any) -> tuple[list[Any], set[str]]:
    """The nodes whose results do not depend on inputs, and all tensors that do not."""
    tensors = tensors_of(inferred(model))
    known = {"", *(w.name for w in model.graph.initializer)}
    nodes = []
    for original in model.graph.node:
        node = folded(original, tensors)
        inner = any(a.HasField("g") or a.graphs for a in node.attribute)
        if not inner and node.op_type not in RANDOM and known.issuperset(node.input):
            nodes.append(node)
            known.update(node.output)
    return nodes, known


def _evaluated(model: Any, nodes: list[Any], wanted: set[str]) -> dict[str, bool]:
    """The values of some conditions, as ONNX Runtime computes them."""
    import onnx
    import onnxruntime

    kept, read = [], set(wanted)
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            read.update(node.input)
            kept.append(node)
    weights = [w for w in model.graph.initializer if w.name in read]
    names = sorted(wanted)
    ends = [onnx.ValueInfoProto(name=name) for name in names]
    part = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    part.opset_import.extend(model.opset_import)
    part.graph.name = "conditions"
    part.graph.node.extend(kept[::-1])
    part.graph.initializer.extend(weights)
    part.graph.output.extend(ends)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        part.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    values = session.run(names, {})
    return {name: bool(value.ravel()[0]) for name, value in zip(names, values, strict=True)}


def _take(graph: Any, taken: Mapping[str, bool]) -> None:
    """Replace each `If` with a known condition by the nodes of its branch."""
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type == "If" and node.input[0] in taken:
            word = "then_branch" if taken[node.input[0]] else "else_branch"
            branch = next(a.g for a in node.attribute if a.name == word)
            nodes += _inlined(graph, branch, node)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    # What was noted of the tensors holds for both branches.
    del graph.value_info[:]


def _inlined(graph: Any, branch: Any, node: Any) -> list[Any]:
    """The nodes of a branch under names of their own; its weights become those of the graph."""
    import onnx

    room = first_output(node)
    made = {t for n in branch.node for t in n.output if t}
    weights = [w.name for w in branch.initializer]
    weights += [w.values.name for w in branch.sparse_initializer]
    names = {t: f"{room}/{t}" for t in (*made, *weights)}
    copied = []
    for inner, outer in zip(branch.output, node.output, strict=True):
        if outer and inner.name in made and names[inner.name] == f"{room}/{inner.name}":
            names[inner.name] = outer
        elif outer:
            copied.append((inner.name, outer))
    nodes = []
    for own in branch.node:
        nodes.append(onnx.NodeProto())
        nodes[-1].CopyFrom(own)
        _rename(nodes[-1], names)
    for weight in branch.initializer:
        graph.initializer.append(weight)
        graph.initializer[-1].name = names[weight.name]
    for sparse in branch.sparse_initializer:
        graph.sparse_initializer.append(sparse)
        graph.sparse_initializer[-1].values.name = names[sparse.values.name]
    for tensor, outer in copied:
        source = names.get(tensor, tensor)
        nodes.append(onnx.helper.make_node("Identity", [source], [outer]))
    return nodes


def _rename(node: Any, names: Mapping[str, str]) -> None:
    """Put other names in place of some, in the graphs inside of a node too."""
    for field in (node.input, node.output):
        for number, tensor in enumerate(field):
            field[number] = names.get(tensor, tensor)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _rename(inner, names)
            for value in graph.output:
                value.name = names.get(value.name, value.name)
