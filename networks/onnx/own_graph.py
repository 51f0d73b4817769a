"""The graph that this machine's ONNX Runtime makes of a model: fused kernels, tensors in blocks of
channels.

In: a model with its weights. Out: that graph, and what flows in it, since ONNX Runtime does not
write shapes. It holds for one size of blocks, and for one version of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from ...model.files import scratch
from ...runtime.session import opened
from .cuts import shape_value, size
from .interface import TELLING, Border, light
from .nodes import first_output

#: ONNX Runtime's own operators, whose tensors lie in blocks of channels.
NCHWC = "com.microsoft.nchwc"
#: What every version of the format describes.
STANDARD = ("", "ai.onnx")
#: More weights do not fit into one message of protobuf.
MOST_WEIGHTS = 1 << 30
#: A file of nothing but zeros.
ZEROS = "zeros"


class TooManyConstants(ValueError):
    """A model has more constants than can be handed over."""


def bytes_of(weight: Any) -> int:
    """Of an initializer."""
    from onnx import helper

    return int(prod(weight.dims) * helper.tensor_dtype_to_np_dtype(weight.data_type).itemsize)


def weights_of(model: Any) -> int:
    """Bytes of the weights of a model."""
    return sum(map(bytes_of, model.graph.initializer))


def _require_small(model: Any, known: Mapping[str, Border]) -> None:
    """ONNX Runtime computes what follows from constants alone, and keeps it: that has to have a
    size, and a small one.

    `known` are the tensors of the model. Raises TooLarge.
    """
    constant = {""}
    constant.update(w.name for w in model.graph.initializer)
    constant.update(w.values.name for w in model.graph.sparse_initializer)
    total = 0
    for node in model.graph.node:
        if constant.issuperset(node.input) or shape_value(node, known) is not None:
            constant.update(node.output)
            total += sum(_bytes_if_known(t, known) for t in node.output if t)
    if total > MOST_WEIGHTS:
        raise TooManyConstants


def _bytes_if_known(tensor: str, known: Mapping[str, Border]) -> int:
    """Bytes of a tensor; too many where its size is not known."""
    border = known.get(tensor)
    if border is None or not border.fixed:
        return MOST_WEIGHTS + 1
    return size(border)


def optimized(model: Any, known: Mapping[str, Border]) -> Any:
    """What ONNX Runtime makes of a model, with nodes that are called after what they make.

    ONNX Runtime keeps these names (`source_of`); the model is changed. `known` are its tensors.
    Raises TooLarge, and whatever ONNX Runtime raises.
    """
    import onnx

    if weights_of(model) > MOST_WEIGHTS:
        raise TooManyConstants
    _require_small(model, known)
    _call_after_results(model)
    with scratch() as place:
        file = place / "optimized.onnx"
        opened(model.SerializeToString(), lambda: _options(file))
        return onnx.load(str(file))


def outlined(model: Any, folder: Path, known: Mapping[str, Border]) -> Any:
    """The same without large weights, which are not needed: zeros that take no memory replace them.

    Weights outside of the model lie in a folder. The model stays as it is. Raises as `optimized`.
    """
    import onnx

    _require_small(model, known)
    outline = light(model)
    _call_after_results(outline)
    large = [w for w in outline.graph.initializer if prod(w.dims) > TELLING]
    for weight in large:
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", ZEROS), ("offset", "0"), ("length", str(bytes_of(weight)))):
            weight.external_data.add(key=key, value=value)
    for weight in outline.graph.initializer:
        if weight.external_data and prod(weight.dims) <= TELLING:
            onnx.external_data_helper.load_external_data_for_tensor(weight, str(folder))
            weight.ClearField("data_location")
            weight.ClearField("external_data")
    with scratch() as place:
        file, made = place / "outline.onnx", place / "optimized.onnx"
        with (place / ZEROS).open("wb") as zeros:
            zeros.truncate(max(map(bytes_of, large), default=0))
        file.write_bytes(outline.SerializeToString())
        opened(str(file), lambda: _options_of_outlines(made))
        return onnx.load(str(made), load_external_data=False)


def _call_after_results(model: Any) -> None:
    for node in model.graph.node:
        node.name = first_output(node)


def _options(file: Path) -> Any:
    """Those of a session that writes its graph into a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.optimized_model_filepath = str(file)
    return options


def _options_of_outlines(file: Path) -> Any:
    options = _options(file)
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", "weights"
    )
    options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def source_of(node: Any, known: Container[str]) -> str:
    """The tensor of the model after which a node of the optimized graph is called; empty if it is
    new.
    """
    name: str = node.name
    while name:
        if name in known:
            return name
        name = name.rpartition("_")[0]
    return next((t for t in node.output if t in known), "")


def flows_of(model: Any, known: Mapping[str, Border]) -> dict[str, Border]:
    """What nodes of an optimized graph read and make, but its weights; `known` is what flows in the
    model.

    In blocks there are as many channels as fill them. Raises KeyError for what is not understood,
    and what onnx raises.
    """
    flows = _Flows(model, known)
    for node in model.graph.node:
        flows.add(node)
    return flows.found


class _Flows:
    """What flows in an optimized graph, node by node."""

    def __init__(self, model: Any, known: Mapping[str, Border]) -> None:
        self._known = known
        self._weights = {w.name: w for w in model.graph.initializer}
        opsets = [o.version for o in model.opset_import if o.domain in STANDARD]
        self._opset = opsets[0] if opsets else 1
        self.found = {v.name: known[v.name] for v in model.graph.input if v.name in known}

    def add(self, node: Any) -> None:
        """What a node makes; those that make what it reads were added before."""
        self.found |= {t: self._known[t] for t in node.output if t in self._known}
        fresh = [t for t in node.output if t and t not in self._known]
        if not fresh:
            return
        if node.domain in STANDARD:
            made = self._inferred(node)
            self.found |= {t: made[t] for t in fresh}
        else:
            read = [self.found[t] for t in node.input if t in self.found]
            self.found |= {t: self._own(t, node, read) for t in fresh}

    def _inferred(self, node: Any) -> dict[str, Border]:
        """What a standard node makes, by the rules of the standard."""
        import numpy as np
        from onnx import defs, helper, shape_inference

        types, data = {}, {}
        for t in node.input:
            weight = self._weights.get(t)
            if t in self.found:
                kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.found[t].dtype))
                types[t] = helper.make_tensor_type_proto(kind, self.found[t].shape)
            elif weight is not None:
                types[t] = helper.make_tensor_type_proto(weight.data_type, weight.dims)
            if weight is not None and not weight.external_data:
                data[t] = weight
        schema = defs.get_schema(node.op_type, self._opset, "")
        made = shape_inference.infer_node_outputs(schema, node, types, data)
        inferred = {}
        for t, kind in made.items():
            dims = [d.dim_value for d in kind.tensor_type.shape.dim if d.HasField("dim_value")]
            if len(dims) == len(kind.tensor_type.shape.dim):
                dtype = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type).name
                inferred[t] = Border(t, dtype, tuple(dims))
        return inferred

    def _own(self, tensor: str, node: Any, read: Sequence[Border]) -> Border:
        """What a node makes that only ONNX Runtime knows."""
        dtype = read[0].dtype
        if node.domain != NCHWC:
            like = self._known[source_of(node, self._known)].shape
            if any(a.name == "channels_last" and a.i for a in node.attribute):
                like = (like[0], *like[2:], like[1])
            return Border(tensor, dtype, like)
        batch, channels, *rest = read[0].shape
        if node.op_type == "ReorderInput":
            blocks = -(-channels // block_here())
            return Border(tensor, dtype, (batch, blocks * block_here(), *rest))
        like = self._known[source_of(node, self._known)].shape
        if node.op_type == "Conv":
            channels = self._weights[node.input[1]].dims[0]
        return Border(tensor, dtype, (like[0], channels, *like[2:]))


# -- blocks ----------------------------------------------------------------------------------------
def probe() -> bytes:
    """A model whose answer to 0, 1, 2, ... shows how many channels a block has: where the 1
    stands.
    """
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(t, TensorProto.FLOAT, [1, 32, 1, 2]) for t in ("x", "y")]
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=NCHWC)
    graph = helper.make_graph([node], "probe", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(NCHWC, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))


@lru_cache(maxsize=1)
def block_here() -> int:
    """The channels of a block of this machine's ONNX Runtime; 0: it has none."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(probe(), options, providers=["CPUExecutionProvider"])
        made = session.run(None, {"x": np.arange(64, dtype=np.float32).reshape(1, 32, 1, 2)})[0]
    except Exception:  # what ONNX Runtime raises has no common type
        return 0
    return int(np.argmax(made.ravel() == 1))


def version_here() -> list[str]:
    """The first two numbers of ONNX Runtime's version: another one may have other kernels."""
    import onnxruntime

    return list(onnxruntime.__version__.split(".")[:2])
