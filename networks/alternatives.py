"""Networks as alternatives of SBRS (analysis.sbrs): layers with what its Algorithm 5 compares, and
edges.

In: a network as a model. Out: an `Alternative`. Constants are no layers; the input is one, as in
the thesis.
"""

from __future__ import annotations

from typing import Any

from ..analysis.sbrs import Alternative, Layer
from .onnx.cuts import chain_of
from .onnx.interface import Border
from .supergraph import Whole, fixed_model, tensor_digest


def alternative(name: str, whole: Whole) -> Alternative:
    """Layers that the outputs need, in the order of the file. Raises NetworkError where there are
    none.

    What has to be equal is the operator with its attributes, and the shapes of weights and data:
    whether shapes of data count the thesis does not say, and buffers of another size could not be
    shared. `parameters` are the weights.
    """
    model = fixed_model(whole)
    given = {v.name: v for v in (*model.graph.input, *model.graph.output)}
    inputs = [_border(given[t]) for t, _ in whole.inputs]
    chain = chain_of(model, inputs, [_border(given[t]) for t in whole.outputs], name)
    nodes = {next(t for t in n.output if t): n for n in model.graph.node if any(n.output)}
    weights = {w.name: w for w in model.graph.initializer}
    layers = [
        Layer(t, (("operator", "input"), ("shapes", str(shape)), ("parameters", "")))
        for t, shape in whole.inputs
    ]
    edges = []
    maker = {t: t for t, _ in whole.inputs}
    for link in chain.layers:
        node = nodes[link.name]
        own = [weights[t] for t in node.input if t in weights]
        shapes = [
            str(chain.tensors[t].dims) if t in chain.tensors else "?"
            for t in (*link.reads, *link.makes)
        ]
        hyper = sorted(a.SerializeToString(deterministic=True).hex() for a in node.attribute)
        attributes = (
            ("operator", f"{node.domain}:{node.op_type}"),
            ("hyper", (*hyper, *(str(tuple(w.dims)) for w in own))),
            ("shapes", tuple(shapes)),
            ("parameters", tuple(tensor_digest(w) for w in own)),
        )
        layers.append(Layer(link.name, attributes))
        edges += [(maker[t], link.name) for t in link.reads if t in maker]
        maker |= dict.fromkeys(link.makes, link.name)
    return Alternative(name, tuple(layers), tuple(dict.fromkeys(edges)))


def _border(value: Any) -> Border:
    from onnx import helper

    kind = value.type.tensor_type
    dims = tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim
    )
    return Border(value.name, helper.tensor_dtype_to_np_dtype(kind.elem_type).name, dims)
