"""A model as a text means it: constants in place of inputs, fixed shapes, no outputs that nothing
carries, and what follows from all that computed. Runs in a process of its own.

In: a folder with `request.json`, a `Request`. Out: `model.onnx` beside it if there is anything to
change, or `refused.txt`, with the reason of ONNX Runtime. A model may ask for any time and memory:
this process has limits, and the one that waits for it has not loaded the model.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...model.files import scratch
from ...model.json_reader import parse, read
from .branches import without_constant_branches
from .extract import needed
from .interface import CONTROL_FLOW

#: Seconds of computing, and bytes of memory.
SECONDS, MEMORY = 120, 16 << 30
#: Rounds of branches and constants, which make room for each other.
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What to do with the model in `path`.

    `shapes` of inputs (-1: left open), `constants` in place of inputs with all their numbers in
    words (`True`, `False`), outputs to be `cut` off, and whether to compute what follows from
    constants (`fold`). `known`: ONNX Runtime has all of its operators, and is asked.
    """

    path: str
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, tuple[str, ...]]
    cut: tuple[str, ...]
    fold: bool
    known: bool


class Refused(Exception):
    """What onnx or ONNX Runtime say against a model."""


def main(folder: str | None = None) -> None:
    """Carry out the request in a folder, the first argument of the process."""
    place = Path(folder or sys.argv[1])
    request = read(Request, parse((place / "request.json").read_bytes()))
    try:
        model = _changed(request)
    except Refused as refused:
        (place / "refused.txt").write_text(str(refused))
        return
    except MemoryError:
        (place / "refused.txt").write_text("it takes too much memory to prepare")
        return
    if model is not None:
        (place / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))


def limited_main() -> None:
    """The same in a process with limits."""
    limit()
    main()


def limit() -> None:
    """Limit the time and the memory of this process."""
    for kind, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, MEMORY)):
        _, hard = resource.getrlimit(kind)
        own = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (own, own))


def _changed(request: Request) -> Any:
    """The model that is meant; None where that is the one in the file."""
    import onnx
    import onnx.inliner

    try:
        model: Any = onnx.load(request.path)
    except Exception as error:  # weights in other files: onnx raises types of its own
        raise Refused(str(error)) from error
    changed = bool(request.constants)
    if model.functions:
        try:
            model = onnx.inliner.inline_local_functions(model)
        except Exception as error:  # onnx raises types of its own
            raise Refused(f"functions of the model: {error}") from error
        changed = True
    for value in model.graph.input:
        _fix(value, request.shapes.get(value.name, ()))
    for name, numbers in request.constants.items():
        _set(model.graph, name, numbers)
    if request.cut:
        _cut(model, set(request.cut), known=request.known)
        changed = True
    if request.fold and request.known:
        before = onnx.ModelProto()
        before.CopyFrom(model)
        folded, more = _folded(model)
        if more and _runs(folded):
            return folded
        model = before
    if not changed:
        return None
    if request.known:
        _outputs(model, _whole())  # raises the reason why it cannot run
    return model


def _fix(value: Any, shape: tuple[int, ...]) -> None:
    """Put sizes into the dimensions that are open."""
    if shape and -1 not in shape and not value.type.tensor_type.HasField("shape"):
        for size in shape:
            value.type.tensor_type.shape.dim.add(dim_value=size)
    for dimension, size in zip(value.type.tensor_type.shape.dim, shape, strict=False):
        if size >= 0 and not dimension.HasField("dim_value"):
            dimension.dim_value = size


def _set(graph: Any, name: str, words: tuple[str, ...]) -> None:
    """Make an input a weight; one number fills it."""
    import numpy as np
    from onnx import helper, numpy_helper

    value = next(v for v in graph.input if v.name == name)
    kind = value.type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    numbers: Any = words if dtype.kind != "b" else [word == "True" for word in words]
    if len(words) == 1:
        whole: Any = np.full(shape, np.array(numbers[0]).astype(dtype), dtype)
    else:
        whole = np.array(numbers).astype(dtype).reshape(shape)
    graph.input.remove(value)
    graph.initializer.append(numpy_helper.from_array(whole, name))


def _cut(model: Any, cut: set[str], *, known: bool) -> None:
    """Take outputs away, with what only they need. A map of numbers by class becomes its numbers.

    `ZipMap` writes a dictionary per row: an output that one makes stays, as the rows it was given.
    """
    from onnx import helper

    graph = model.graph
    maps = {n.output[0]: n for n in graph.node if n.op_type == "ZipMap" and n.output[0] in cut}
    for tensor, node in maps.items():
        node.CopyFrom(helper.make_node("Identity", [node.input[0]], [tensor]))
        ending = next(v for v in graph.output if v.name == tensor)
        ending.type.Clear()
    kept = [v for v in graph.output if v.name not in cut or v.name in maps]
    del graph.output[:]
    graph.output.extend(kept)
    numbers = needed(model, [v.name for v in kept])
    nodes = [graph.node[k] for k in numbers]
    del graph.node[:]
    graph.node.extend(nodes)
    if maps and known:
        _type_outputs(model, _outputs(model, _plain()))


def _folded(model: Any) -> tuple[Any, bool]:
    """The model with what follows from constants computed, and whether that changes anything.

    What ONNX Runtime cannot fold stays as it is.
    """
    import onnx

    changed = False
    for _ in range(ROUNDS):
        inlined = without_constant_branches(model)
        changed |= inlined
        try:
            with scratch() as place:
                file = place / "folded.onnx"
                outputs = _outputs(model, _basic(file))
                folded = onnx.load(str(file))
            _outputs(folded, _whole())
        except Refused:  # if it is refused without folding too, the last session says why
            return model, changed
        _type_outputs(folded, outputs)
        if _control(folded) and not inlined and _control(folded) == _control(model):
            return model, changed  # what stays in one piece stays as it was written
        model, changed = folded, True
        if not _control(model):
            break
    return model, changed


def _control(model: Any) -> list[str]:
    return sorted(n.op_type for n in model.graph.node if n.op_type in CONTROL_FLOW)


def _type_outputs(model: Any, outputs: list[Any]) -> None:
    """Note the types and sizes of outputs that ONNX Runtime has found."""
    from onnx import TensorProto, helper

    found = {o.name: o for o in outputs}
    for value in model.graph.output:
        own = found[value.name]
        word = own.type.removeprefix("tensor(").removesuffix(")")
        if not own.type.startswith("tensor("):
            continue
        name = {"float": "FLOAT", "double": "DOUBLE"}.get(word, word.upper())
        kind = TensorProto.DataType.Value(name)
        # ONNX Runtime says the same of a scalar and of a tensor of which it knows no shape.
        known = own.shape or value.type.tensor_type.HasField("shape")
        sizes = [d if isinstance(d, int | str) else None for d in own.shape] if known else None
        value.type.CopyFrom(helper.make_tensor_type_proto(kind, sizes))


def _plain() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _runs(model: Any) -> bool:
    """Is a model accepted? ONNX Runtime is stricter where it knows more about sizes."""
    try:
        _outputs(model, _whole())
    except Refused:
        return False
    return True


def _whole() -> Any:
    """Options as programs have them."""
    import onnxruntime

    options = _plain()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return options


def _basic(file: Path) -> Any:
    import onnxruntime

    options = _plain()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(file)
    return options


def _outputs(model: Any, options: Any) -> list[Any]:
    """What a session of ONNX Runtime says of the outputs. Raises Refused."""
    import onnxruntime

    content = model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises types of its own
        raise Refused(str(error)) from error
    return list(session.get_outputs())


if __name__ == "__main__":
    limited_main()
