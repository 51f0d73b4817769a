"""Darknet networks (`.cfg` and `.weights`) as ONNX models.

In: the two files. Out: an ONNX model with one image as its input, whose tensors are called after
Darknet's layers. What the text says is left to `cfg`, what layers compute to `layers`, decoding
what detection layers give to the user's code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.diagnostic import did_you_mean, one_of
from .cfg import CfgError, Section, is_darknet, read_sections
from .layers import OTHERS, RULES
from .net import INPUT, DarknetLayer, DarknetNet, Shape, Unknown
from .weights import read_weights

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

__all__ = ["CfgError", "is_darknet", "read_darknet"]
#: The oldest in which all operators have their present form: TensorRT 8.0 of JetPack 4 reads it.
OPSET, IR_VERSION = 13, 7
#: Elements of a tensor: beyond this a number is a slip, and others would overflow.
LARGEST = 2**31


def read_darknet(cfg: Path, weights: Path) -> ModelProto:
    """The network of a `.cfg` with the weights of a `.weights` file.

    Its input `image` is float32[1, channels, height, width]: red, green and blue from 0 to 1. Its
    outputs are the detection layers as they come, and layers that no other reads. `metadata_props`
    holds, as JSON, what the detection layers say (`darknet.yolo_30`), what stands in front of the
    weights (`darknet.weights`) and the tensors by tkDNN's layer numbers (`darknet.tkdnn_layers`).
    Same files, same bytes. Raises NetworkError: F401 where the cfg cannot be read, CfgError (F402)
    with everything that is wrong with it, F407 where there are no weights, F402 where these are not
    those of the cfg.
    """
    net = network_of(read_sections(cfg))
    values, header = read_weights(weights, net, cfg)
    return _model(cfg.stem, net, values, header)


# -- the network -----------------------------------------------------------------------------------
def network_of(sections: Sequence[Section]) -> DarknetNet:
    """What the sections of a `.cfg` compute; outputs are the heads, and what no layer reads.

    Raises CfgError with everything that is wrong. A layer behind a faulty one is checked as far as
    it does not depend on its shape.
    """
    first, *rest = sections
    before = len(first.faults)
    channels, height, width = (first.whole(name, None) for name in ("channels", "height", "width"))
    known = len(first.faults) == before and not first.broken
    if len(rest) > 1 and rest[-1].kind == "cost":
        rest.pop()  # the loss, which only training needs
    net = DarknetNet((channels, height, width))
    done = [(INPUT, _checked(first, net.input) if known else None)]
    for index, section in enumerate(rest):
        done.append(_layer(index, section, net, done))
    if first.faults:
        raise CfgError(first.faults)
    net.outputs = _outputs(net, done[1:])
    return net


def _outputs(net: DarknetNet, done: Iterable[tuple[str, Shape | None]]) -> dict[str, Shape]:
    """The heads, and what no layer reads."""
    read = set[str]().union(*(node.inputs for node in net.nodes))
    outputs = {}
    for tensor, shape in done:
        if shape is not None and (tensor in net.heads or tensor not in read):
            outputs[tensor] = shape
    return outputs


def _layer(
    index: int, section: Section, net: DarknetNet, done: Sequence[tuple[str, Shape | None]]
) -> tuple[str, Shape | None]:
    """The last tensor of a layer, and its shape if nothing is wrong with it."""
    stem, rule = RULES.get(section.kind, ("", None))
    name = f"{stem}_{index}"
    if rule is None:
        _refuse_kind(section)
    if rule is None or section.broken:
        return name, None
    x = DarknetLayer(name, section, net, done)
    before = len(section.faults)
    shape: Shape | None = None
    try:
        shape = rule(x)
        x.finish()
    except Unknown:
        pass
    section.refuse_others()
    return name, _checked(section, shape) if len(section.faults) == before else None


def _checked(section: Section, shape: Shape | None) -> Shape | None:
    """The shape, unless the section has faults or gives more than can be."""
    if shape is not None and prod(shape) > LARGEST:
        section.refuse(
            f"a tensor of {'x'.join(map(str, shape))} is too large",
            help="is there a digit too many?",
        )
        return None
    return shape


def _refuse_kind(section: Section) -> None:
    kind = section.kind
    if kind == "cost":
        section.refuse("[cost] is not the last section", help="it is the loss: nothing follows it")
    elif kind in OTHERS:
        section.refuse(
            f"[{kind}] is not supported", help=f"flowc reads {one_of(RULES, len(RULES))}"
        )
    elif kind:
        section.refuse(f"[{kind}] is no section of Darknet", help=did_you_mean(kind, RULES))


# -- the model -------------------------------------------------------------------------------------
def _model(
    name: str,
    net: DarknetNet,
    values: Mapping[str, np.ndarray[Any, Any]],
    header: Mapping[str, Any],
) -> ModelProto:
    import numpy as np
    from onnx import helper, numpy_helper

    tensors = [numpy_helper.from_array(v, t) for t, v in values.items()]
    for constant, entries in net.constants.items():
        array = np.array(entries)
        dtype = np.float32 if array.dtype.kind == "f" else np.int64
        tensors.append(numpy_helper.from_array(array.astype(dtype), constant))
    nodes = []
    for n in net.nodes:
        nodes.append(helper.make_node(n.op, n.inputs, [n.output], n.output, **n.attributes))
    inputs, outputs = _values({INPUT: net.input}), _values(net.outputs)
    name = name.encode(errors="replace").decode()  # names of files may be no text
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        graph, producer_name="flowc", opset_imports=opsets, ir_version=IR_VERSION
    )
    about = {"weights": header, "tkdnn_layers": net.steps, **net.heads}
    helper.set_model_props(
        model, {f"darknet.{key}": json.dumps(value) for key, value in about.items()}
    )
    return model


def _values(shapes: Mapping[str, Shape]) -> list[Any]:
    """Inputs or outputs of the model, one image at a time."""
    from onnx import TensorProto, helper

    values = []
    for tensor, shape in shapes.items():
        values.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, (1, *shape)))
    return values
