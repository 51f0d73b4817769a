"""Small ONNX models that tests make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


RNG = np.random.default_rng(3)


N = helper.make_node


X = {"x": [1, 4, 8, 8]}


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[object]],
    constants: Mapping[str, np.ndarray],
    outs: str,
    kinds: Mapping[str, int] = {},
    ir: int = 8,
) -> onnx.ModelProto:
    """A small model; shapes of outputs are left to inference, except where `inputs` tells them."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), d)
            for n, d in inputs.items()
        ],
        [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), inputs.get(n))
            for n in outs.split()
        ],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir)


def save(path: Path, *args: object, **more: object) -> Path:
    onnx.save(model(*args, **more), path)  # type: ignore[arg-type]
    return path


def random_model(
    plan: Sequence[tuple[int, int, int]], outputs: Sequence[int], in_common: bool = True
) -> onnx.ModelProto:
    """Layers (kind, operand, other operand) over tensors of 8 x 8; operands count back from the
    newest tensor. Convolutions of one shape have their weights in common, or each its own."""
    rng = np.random.default_rng(len(plan))
    channels = {"x": 4, "x2": 2}
    names = list(channels)
    constants = {"k": np.full((1, 1, 1), 0.5, np.float32), "one": np.ones(1, np.float32)}
    nodes = [N("Neg", ["k"], ["minus"]), N("Exp", ["minus"], ["scale"])]
    for i, (kind, first, second) in enumerate(plan):
        a, b = names[-1 - first % len(names)], names[-1 - second % len(names)]
        out, c = f"t{i}", channels[a]
        channels[out] = c
        if kind == 0 or (kind == 2 and channels[b] != c):
            width = 1 + second % 4
            w = f"w{c}_{width}" if in_common else f"w{i}"
            constants.setdefault(w, rng.normal(0, 0.3, (width, c, 3, 3)).astype(np.float32))
            nodes.append(N("Conv", [a, w], [out], pads=[1, 1, 1, 1]))
            channels[out] = width
        elif kind == 1:
            nodes.append(N("Relu", [a], [out]))
        elif kind == 2:
            nodes.append(N("Add", [a, b], [out]))
        elif kind == 3:
            nodes.append(N("Concat", [a, b], [out], axis=1))
            channels[out] = c + channels[b]
        elif kind == 4:
            nodes.append(N("MaxPool", [a], [out], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        elif kind == 5:
            nodes.append(N("Mul", [a, "scale"], [out]))
        else:
            nodes += [N("Shape", [a], [f"s{i}"]), N("Reshape", [a, f"s{i}"], [out])]
        names.append(out)
    outs = dict.fromkeys([names[-1], *(names[-1 - o % len(names)] for o in outputs)])
    return model(nodes, {"x": ["n", 4, 8, 8], "x2": [2, 2, 8, 8]}, constants, " ".join(outs))


def stack(path: Path, layers: int = 4, height: int = 64, tail: bool = True) -> Path:
    """Convolutions of 3 x 3 in a row, then a mean over the image."""
    rng = np.random.default_rng(1)
    weights = [
        rng.normal(0, 0.2, (16, 16 if k else 3, 3, 3)).astype(np.float32) for k in range(layers)
    ]
    nodes = [N("Conv", [f"c{k - 1}" if k else "x", f"w{k}"], [f"c{k}"], kernel_shape=[3, 3], pads=[1] * 4)
             for k in range(layers)]  # fmt: skip
    last, shape = f"c{layers - 1}", [1, 16, height, 32]
    if tail:
        nodes, last, shape = [*nodes, N("GlobalAveragePool", [last], ["y"])], "y", [1, 16, 1, 1]
    ends = [("x", [1, 3, height, 32]), (last, shape)]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends]
    kept = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], kept)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path
