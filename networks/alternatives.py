"""Networks as alternatives of SBRS (analysis.sbrs): layers with what its Algorithm 5 compares, and
edges.

In: a network as a model. Out: an `Alternative`. Constants are no layers; the input is one, as in
the thesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis.sbrs import Alternative, ComparedLayer
from .onnx.cuts import ChainedLayer, chain_of, declared
from .onnx.interface import Border
from .onnx.nodes import first_output
from .supergraph import WholeNetwork, fixed_model, tensor_digest


def alternative(name: str, whole: WholeNetwork) -> Alternative:
    """Layers that the outputs need, in the order of the file. Raises NetworkError where there are
    none.

    What has to be equal is the operator with its attributes, and the shapes of weights and data:
    whether shapes of data count the thesis does not say, and buffers of another size could not be
    shared. `parameters` are the weights.
    """
    model = fixed_model(whole)
    values = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    inputs = [declared(values[t]) for t, _ in whole.inputs]
    chain = chain_of(model, inputs, [declared(values[t]) for t in whole.outputs], name)
    nodes = {first_output(n): n for n in model.graph.node}
    weights = {w.name: w for w in model.graph.initializer}
    layers = []
    maker: dict[str, str] = {}
    for tensor, shape in whole.inputs:
        attributes = (("operator", "input"), ("shapes", str(shape)), ("parameters", ""))
        layers.append(ComparedLayer(tensor, attributes))
        maker[tensor] = tensor
    edges = []
    for link in chain.layers:
        layers.append(_layer(link, nodes[link.name], weights, chain.tensors))
        edges += [(maker[t], link.name) for t in link.reads if t in maker]
        maker |= dict.fromkeys(link.makes, link.name)
    return Alternative(name, tuple(layers), tuple(dict.fromkeys(edges)))


def _layer(
    link: ChainedLayer, node: Any, weights: Mapping[str, Any], tensors: Mapping[str, Border]
) -> ComparedLayer:
    """A layer with what has to be equal."""
    own = [weights[t] for t in node.input if t in weights]
    hyper = sorted(a.SerializeToString(deterministic=True).hex() for a in node.attribute)
    shapes = []
    for t in (*link.reads, *link.makes):
        shapes.append(str(tensors[t].dims) if t in tensors else "?")
    attributes = (
        ("operator", f"{node.domain}:{node.op_type}"),
        ("hyper", (*hyper, *(str(tuple(w.dims)) for w in own))),
        ("shapes", tuple(shapes)),
        ("parameters", tuple(tensor_digest(w) for w in own)),
    )
    return ComparedLayer(link.name, attributes)
