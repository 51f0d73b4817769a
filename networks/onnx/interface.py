"""The border of an ONNX model: names, shapes and dtypes of its inputs and outputs, checked and made
fixed.

In: a path, and the dimensions that the `.flow` text fixes. Out: a NetworkInterface, or the reasons
why not. Weights are not loaded; nothing is run. What a port is called and which tensors it carries
is the DSL's business.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.files import read_bytes
from ...model.types import DTYPES, MOST_ALONG, MOST_BYTES, OPEN
from .custom import foreign
from .file_kinds import FileKind, kind_of, kind_of_folder
from .order import in_order
from .well_formed import STANDARD, type_name, why_not

if TYPE_CHECKING:
    from onnx import ModelProto

#: Bytes of a message of protobuf: larger models keep their weights outside.
LARGEST = 1 << 31
#: Weights with so many elements may be shapes, or rows to pick, from which other shapes follow.
TELLING = 1 << 12
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
#: Operators whose work, or the size of whose results, may depend on the values of their data.
DATA_DEPENDENT = frozenset({"If", "Loop", "NonMaxSuppression", "NonZero", "Unique", "Compress"})
#: Operators that read or make lists of tensors, and tensors that may be missing.
LISTS = frozenset(
    {
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceInsert",
        "SequenceErase",
        "SequenceAt",
        "SequenceLength",
        "SplitToSequence",
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
    }
)
#: The only dimension of a tensor whose number of dimensions is not known.
ANY_RANK = "..."
#: The words for what is at a border and is no tensor.
SEQUENCE = "a sequence or map"


class NetworkError(Exception):
    """A reason why a model cannot be imported; `code` is the diagnostic's."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


@dataclass(frozen=True, slots=True)
class Border:
    """A tensor at the border: a dimension is a number, or a name ("?" when nameless) if it is
    dynamic."""

    name: str
    dtype: str
    dims: tuple[int | str, ...]

    @property
    def carried(self) -> bool:
        """True if channels can carry it; else `dtype` is a word for what it is."""
        return self.dtype in DTYPES

    @property
    def fixed(self) -> bool:
        """True when every dimension is a number."""
        return all(isinstance(d, int) for d in self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of a fixed tensor."""
        return tuple(d for d in self.dims if isinstance(d, int))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """`content_hash` covers the file and its external data files (paths relative to the model).

    `one_piece` says why the model cannot be cut and looked at layer by layer; empty if it can.
    `zipped` are outputs that a `ZipMap` makes. `foreign` are operators that neither ONNX nor
    ONNX Runtime has.
    """

    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    opset: int
    external: tuple[str, ...]
    content_hash: str
    one_piece: str = ""
    zipped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def read_network(
    path: Path, fixed: Mapping[str, tuple[int, ...]], batch: int | None
) -> NetworkInterface:
    """Import the border of a model.

    `fixed` gives shapes of input tensors (`OPEN` leaves a dimension as it is), `batch` the first
    dimension of every input where it is dynamic (1 for the shapes of one firing). Raises
    NetworkError.
    """
    try:
        there = path.is_file()
    except (OSError, ValueError):  # a path that no file system takes
        there = False
    if not there:
        if os.path.isfile(path / "saved_model.pb"):
            raise _other(path.name, kind_of_folder(path.name))
        raise NetworkError("F401", f"`{path.name}` does not exist", _who_makes(path))
    return _read(str(path), path.stat().st_mtime_ns, tuple(sorted(fixed.items())), batch)


def read_fixed(
    path: Path, fixed: Mapping[str, tuple[int, ...]], batch: int | None
) -> tuple[NetworkInterface, Any]:
    """The border of a model, and the model itself with the shapes of its inputs put in; external
    weights stay outside, and tensors of `Constant` nodes are weights.

    Raises NetworkError: the faults of `read_network`, F403 for an input without fixed shape, F404
    for a model that stays in one piece, F408 for a tensor that numpy does not have.
    """
    import onnx

    interface = read_network(path, fixed, batch)
    require_layers(path, interface)
    model = onnx.load(str(path), load_external_data=False)
    _open_unknown(model)
    _constants_to_weights(model.graph)
    borders = {b.name: b for b in interface.inputs}
    for value in (*model.graph.input, *model.graph.output):  # a tensor may be both
        if value.name in borders:
            border = borders[value.name]
            if not border.fixed:
                message = f"input `{border.name}` of `{path.name}` is not fixed: {border}"
                sizes = "x".join(str(d) if isinstance(d, int) else "SIZE" for d in border.dims)
                help_text = (
                    f"give its sizes, `--shape {border.name}={sizes}`, or fix them in a text"
                )
                raise NetworkError("F403", message, help_text)
            kind = value.type.tensor_type.elem_type
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind, border.shape))
    return interface, model


def _who_makes(path: Path) -> str:
    """A missing network is often made by a script beside it: name the script that mentions the
    file."""
    if os.path.isdir(path.parent):
        for script in sorted(path.parent.glob("*.py")):
            try:
                text = read_bytes(script).decode(errors="ignore")
            except OSError:
                continue
            exports = script.stem.startswith(("make", "train", "export"))
            if path.name in text or (".onnx" in text and exports):
                return f"it may be made by `python3 {script.name}` in its folder"
    return "check the path: it is relative to the .flow file"


@lru_cache(maxsize=64)
def _read(
    path: str, modified: int, fixed: tuple[tuple[str, tuple[int, ...]], ...], batch: int | None
) -> NetworkInterface:
    file = Path(path)
    model = _load(file)
    external = _external(model, file)
    one_piece = why_in_one_piece(model)
    weights = {t.name for t in model.graph.initializer}
    weights.update(t.values.name for t in model.graph.sparse_initializer)
    wanted = dict(fixed)
    for value in model.graph.input:
        if value.name not in weights:
            _fix(value, wanted.get(value.name), batch)
    try:
        graph = inferred(model, strict=_standard(model) and not one_piece)
    except Exception as error:  # the C++ checker raises its own types
        raise NetworkError(
            "F402", f"`{file.name}` is not a valid network: {_first_line(error)}"
        ) from error
    _require_sizes(graph, file)
    inputs = tuple(_border(v) for v in graph.input if v.name not in weights)
    outputs = tuple(_border(v) for v in graph.output)
    opset = max((o.version for o in model.opset_import if o.domain in STANDARD), default=0)
    zipped = tuple(str(n.output[0]) for n in model.graph.node if n.op_type == "ZipMap")
    content = _hash(file, external)
    others = foreign(model)
    return NetworkInterface(inputs, outputs, opset, external, content, one_piece, zipped, others)


def why_in_one_piece(model: ModelProto) -> str:
    """Why a model cannot be cut and looked at layer by layer; empty if it can."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    found = {str(n.op_type) for n in nodes}
    control = sorted(found & CONTROL_FLOW)
    if control:
        return f"control flow ({', '.join(control)})"
    lists = sorted(found & LISTS)
    if lists:
        return f"lists of tensors ({', '.join(lists)})"
    return ""


def data_dependent(content: bytes) -> str:
    """An operator of a model whose work may depend on the values of its data; empty if there is
    none."""
    import onnx

    model = onnx.load_model_from_string(content)
    graphs = [model.graph, *model.functions]
    while graphs:
        for node in graphs.pop().node:
            if node.op_type in DATA_DEPENDENT:
                return str(node.op_type)
            for attribute in node.attribute:
                graphs += [inner for inner in (attribute.g, *attribute.graphs) if inner.node]
    return ""


def require_layers(path: Path, interface: NetworkInterface) -> None:
    """Raise NetworkError for a model that cannot be looked at layer by layer."""
    if interface.one_piece:
        message = f"`{path.name}` has {interface.one_piece}: it stays in one piece"
        help_text = "make the inputs that decide constants: `in NAME = VALUE` in a text"
        raise NetworkError("F404", message, help_text)
    for border in (*interface.inputs, *interface.outputs):
        if not border.carried:
            raise NetworkError("F408", *not_carried(border))


def not_carried(border: Border) -> tuple[str, str]:
    """Message and help for a tensor that no channel carries."""
    if border.dtype == SEQUENCE:
        return f"`{border.name}` is {border.dtype}, not a tensor", "export it as tensors"
    message = f"tensor `{border.name}` has type {border.dtype}, which numpy does not have"
    return message, "cast it"


def inferred(model: ModelProto, *, strict: bool = False) -> Any:
    """The graph with the shapes that the standard's inference finds. Raises whatever onnx raises,
    if `strict`.

    What is in large weights says nothing about shapes, so it stays behind: inference copies models
    several times. If the shapes that a file notes of inner tensors contradict its operators, they
    are left out, as ONNX Runtime does.
    """
    noted = light(model)
    if not strict and not _standard(model):
        return _inferred(noted, strict=False)
    try:
        return _inferred(noted, strict=True)
    except Exception:  # the C++ checker raises its own types
        plain = light(model)
        for value in plain.graph.value_info:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        with contextlib.suppress(Exception):
            return _inferred(plain, strict=True)
        if strict:
            raise
        return _inferred(noted, strict=False)


def _inferred(model: ModelProto, *, strict: bool) -> Any:
    import onnx

    return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True).graph


def _standard(model: ModelProto) -> bool:
    """Are all operators standard ones, which can be held to their rules?"""
    return all(node.domain in STANDARD for node in model.graph.node)


def light(model: ModelProto) -> ModelProto:
    """A copy of a model in which large weights have a shape and no numbers, sparse weights are
    dense, and nodes are in order, as inference wants them."""
    import onnx

    copy = onnx.ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    graph = copy.graph
    graph.name = model.graph.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(model.graph, field))
    _make_usual(graph)
    for weight in (*model.graph.initializer, *map(_dense, model.graph.sparse_initializer)):
        if prod(weight.dims) <= TELLING:
            graph.initializer.append(weight)
        else:
            graph.initializer.add(name=weight.name, data_type=weight.data_type, dims=weight.dims)
    return copy


def _dense(sparse: Any) -> Any:
    """A sparse weight as a dense one; without its numbers where it is large."""
    import numpy as np
    import onnx

    values = sparse.values
    if prod(sparse.dims) > TELLING or values.external_data:
        return onnx.TensorProto(name=values.name, data_type=values.data_type, dims=sparse.dims)
    numbers = onnx.numpy_helper.to_array(values)
    places = onnx.numpy_helper.to_array(sparse.indices)
    if places.ndim > 1:
        places = np.ravel_multi_index(tuple(places.T), tuple(sparse.dims))
    whole = np.zeros(prod(sparse.dims), numbers.dtype)
    whole[places] = numbers
    return onnx.numpy_helper.from_array(whole.reshape(sparse.dims), values.name)


def _make_usual(graph: Any) -> None:
    """Give the domain of standard operators one name, and put each node behind those that it reads;
    nodes in a cycle stay where they are."""
    for node in graph.node:
        if node.domain in STANDARD:
            node.domain = ""
    nodes = in_order(graph.node, range(len(graph.node)))
    if len(nodes) == len(graph.node):
        ordered = type(graph)(node=nodes)
        del graph.node[:]
        graph.node.extend(ordered.node)


def _load(file: Path) -> ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        content = read_bytes(file, LARGEST)
        model = onnx.load_model_from_string(content)
    except OSError as error:
        raise NetworkError(
            "F401", f"`{file.name}` cannot be read: {error.strerror}", "check the path"
        ) from error
    except DecodeError as error:
        known = kind_of(file.name, content)
        if known is not None:
            raise _other(file.name, known) from error
        message = f"`{file.name}` ({len(content)} bytes) is not an ONNX file, or it is truncated"
        raise NetworkError("F402", message, "fetch or export it again") from error
    empty = not model.graph.node and not model.graph.output
    reason = why_not(model)
    if empty or reason:
        known = kind_of(file.name, content)
        if known is not None:
            raise _other(file.name, known)
    if empty:
        raise NetworkError("F402", f"`{file.name}` holds no network", "fetch or export it again")
    if reason:
        raise NetworkError(
            "F402", f"`{file.name}` is not a valid network: {reason}", "export it again"
        )
    _open_unknown(model)
    return model


def _other(name: str, kind: FileKind) -> NetworkError:
    """The fault of a file that is something else."""
    return NetworkError("F402", f"`{name}` is {kind.what}, not an ONNX file", kind.help)


def _open_unknown(model: ModelProto) -> None:
    """Sizes below 0 mean that they are not known, to some exporters; shape inference ends the
    process over them."""
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_value < 0:
                dimension.ClearField("dim_value")


def _constants_to_weights(graph: Any) -> None:
    """Some exporters write weights as `Constant` nodes: they take the same memory."""
    nodes = []
    for node in graph.node:
        values = [a.t for a in node.attribute if a.name == "value"]
        if node.op_type == "Constant" and values and node.domain in STANDARD:
            graph.initializer.append(values[0])
            graph.initializer[-1].name = node.output[0]
        else:
            nodes.append(node)
    if len(nodes) < len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)


def _external(model: ModelProto, file: Path) -> tuple[str, ...]:
    """Files of external tensors; each must exist below the model's folder (the path comes from a
    stranger)."""
    names: dict[str, None] = {}
    for tensor in constant_tensors(model.graph):
        for entry in tensor.external_data:
            if entry.key == "location":
                names[entry.value] = None
    folder = file.parent.resolve()
    for name in names:
        place, there = folder / name, False
        with contextlib.suppress(OSError, ValueError):
            # a path that no file system takes is no file
            place = place.resolve()
            there = place.is_file()
        if not place.is_relative_to(folder):
            raise NetworkError(
                "F407",
                f"`{file.name}` keeps weights outside its folder: {name!r}",
                "move them beside it",
            )
        if not there:
            raise NetworkError(
                "F407",
                f"weights of `{file.name}` are missing: {name!r}",
                "copy that file beside it",
            )
    return tuple(sorted(names))


def constant_tensors(graph: Any) -> Iterator[Any]:
    """All constant tensors of a graph: initializers, and those in attributes of nodes (also in
    inner graphs)."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                if inner.node or inner.initializer:
                    yield from constant_tensors(inner)


def _fix(value: Any, shape: tuple[int, ...] | None, batch: int | None) -> None:
    if shape is not None and not value.type.tensor_type.HasField("shape"):
        for size in shape:
            value.type.tensor_type.shape.dim.add(dim_value=size)
    dims = value.type.tensor_type.shape.dim
    if shape is not None and len(shape) == len(dims):
        for dim, size in zip(dims, shape, strict=True):
            if not dim.HasField("dim_value") and size != OPEN:
                dim.dim_value = size
    elif batch is not None and len(dims) and not dims[0].HasField("dim_value"):
        dims[0].dim_value = batch


def _require_sizes(graph: Any, file: Path) -> None:
    """Every tensor, as far as its shape is known, fits into some memory. Raises NetworkError."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim if d.HasField("dim_value")]
        if max(dims, default=0) > MOST_ALONG or prod(dims) > MOST_BYTES:
            sizes = " x ".join(map(str, dims))
            message = (
                f"tensor `{value.name}` of `{file.name}` would have {sizes} elements: no memory"
                " holds them"
            )
            raise NetworkError(
                "F402", message, "give its inputs smaller shapes, or export it again"
            )


def _border(value: Any) -> Border:
    if not value.type.HasField("tensor_type"):
        return Border(value.name, SEQUENCE, ("?",))
    tensor = value.type.tensor_type
    name = type_name(tensor.elem_type).lower()
    dtype = {"float": "float32", "double": "float64"}.get(name, name)
    if not tensor.HasField("shape"):
        return Border(value.name, dtype, (ANY_RANK,))
    return Border(value.name, dtype, dims_of(tensor))


def dims_of(tensor: Any) -> tuple[int | str, ...]:
    """The dimensions of a type as a `Border` has them."""
    dims: list[int | str] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param or "?")
    return tuple(dims)


def _hash(file: Path, external: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in (file, *(file.parent / name for name in external)):
        with part.open("rb") as stream:
            for block in iter(lambda s=stream: s.read(1 << 20), b""):  # type: ignore[misc]
                digest.update(block)
    return digest.hexdigest()[:16]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
