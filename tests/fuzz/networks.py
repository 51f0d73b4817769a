"""ONNX files: small networks with fields, bytes and external data changed; through check and the
analyses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from flowc.cli.analyze import analyze
from flowc.cli.check import check

from . import mutate
from .faces import face

FLOAT = 1
#: Sizes that are none.
HUGE = (2**31, 2**63, 10**30, 65536, 2**31 - 1)


def prepare(folder: Path) -> None:
    """Data outside of a file, as large models have it."""
    (folder / "data.bin").write_bytes(bytes(4096))


def row(kinds: Sequence[str]) -> Any:
    """A network of one layer after the other."""
    import numpy as np
    from onnx import helper, numpy_helper

    names = ["x", *(f"r{i}" for i in range(1, len(kinds))), "y"]
    ends = [helper.make_tensor_value_info(n, FLOAT, [1, 2, 8, 8]) for n in ("x", "y")]
    nodes = [
        helper.make_node("Conv", [a, "w"], [b], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        if kind == "Conv"
        else helper.make_node(kind, [a], [b])
        for kind, a, b in zip(kinds, names, names[1:], strict=False)
    ]
    weights = numpy_helper.from_array(np.zeros((2, 2, 3, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seeds(rng: Random) -> Any:
    """A small network: convolutions in a row, branches, a fully connected end, external weights."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    info = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.zeros((2, 2, 3, 3), np.float32), "w")
    batch = rng.choice((1, 1, 1, "N", 4))
    shape = [batch, 2, 8, 8]
    nodes, last = [], "x"
    for i in range(rng.randrange(1, 6)):
        kind = rng.choice(
            ("Conv", "Conv", "Relu", "MaxPool", "Add", "Concat", "Sigmoid", "Identity", "Clip")
        )
        out = f"r{i}"
        if kind == "Conv":
            place = rng.choice(({"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"}))
            nodes.append(helper.make_node("Conv", [last, "w"], [out], kernel_shape=[3, 3], **place))
        elif kind == "MaxPool":
            nodes.append(
                helper.make_node("MaxPool", [last], [out], kernel_shape=[1, 1], strides=[1, 1])
            )
        elif kind == "Add":
            nodes.append(helper.make_node("Add", [last, rng.choice((last, "x"))], [out]))
        elif kind == "Concat":
            nodes += [helper.make_node("Concat", [last, last], [out + "c"], axis=1),
                      helper.make_node("Slice", [out + "c", "from", "to", "axes"], [out])]  # fmt: skip
        else:
            nodes.append(helper.make_node(kind, [last], [out]))
        last = out
    constants = [
        numpy_helper.from_array(np.array([v], np.int64), n)
        for n, v in (("from", 0), ("to", 2), ("axes", 1))
    ]
    if rng.random() < 0.5:
        gemm = numpy_helper.from_array(np.zeros((128, 3), np.float32), "g")
        nodes += [
            helper.make_node("Flatten", [last], ["flat"]),
            helper.make_node("Gemm", ["flat", "g"], ["y"]),
        ]
        constants.append(gemm)
    else:
        nodes.append(helper.make_node("Relu", [last], ["y"]))
    if rng.random() < 0.3:
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "data.bin"), ("offset", "0"), ("length", "144")):
            weights.external_data.add(key=key, value=value)
    values = [info(n.output[0], FLOAT, shape) for n in nodes if rng.random() < 0.3]
    output = info("y", FLOAT, [batch, 3] if nodes[-1].op_type == "Gemm" else shape)
    graph = helper.make_graph(
        nodes, "g", [info("x", FLOAT, shape)], [output], [weights, *constants], value_info=values
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def make(rng: Random, folder: Path) -> None:
    """`net.onnx`, and a text that uses it."""
    model = seeds(rng)
    if rng.random() < 0.95:
        mutate.protobuf(rng, model)
    content = model.SerializeToString()
    (folder / "net.onnx").write_bytes(mutate.data(rng, content) if rng.random() < 0.1 else content)
    batch = rng.choice(("", "", "  batch 2", "", "", f"  batch {rng.choice(HUGE)}"))
    precision = rng.choice(("", "", "  precision fp16", '  precision int8 calibrate "*.npy"'))
    ports = rng.choice(("", "", "", "  in x  out y", "  in x: float32[1, 2, 8, 8]", '  in image from "x"',
                        f"  in x: float32[{rng.choice(HUGE)}, 2, 8, {rng.choice((8, *HUGE))}]"))  # fmt: skip
    pin = rng.choice(
        ("", "", "memory 1 kB", "memory 20 kB", "memory 9 GB", 'bands 2 until "r0"', "bands 1")
    )
    pins = f"mapping on host {{ A.n -> cpu[0] {pin} }}\n" if pin else ""
    (folder / "app.flow").write_text(
        f'network Net from "net.onnx" {{{ports}{batch}{precision} }}\n'
        "task S { out x: float32[1, 2, 8, 8] }\ntask E { in y }\n"
        "task F { in y }\n"
        f"app A {{ s: S  n: Net  f: F  s -> n{rng.choice(('', ' -> f'))} }}\n{pins}"
    )


def run(rng: Random, folder: Path) -> bool:
    """Everything that reads a network without running it."""
    file = folder / "net.onnx"
    done = [
        face(
            check,
            folder / "app.flow",
            platform=rng.choice(("host", "orin", "xavier")),
            as_json=True,
        )
    ]
    done.append(face(analyze, file, seconds=0.3, as_json=rng.random() < 0.5))
    done.append(face(analyze, file, cuts=True, as_json=rng.random() < 0.5))
    if rng.random() < 0.5:
        done.append(face(analyze, file, by_parts=True, seconds=0.3))
    if rng.random() < 0.3:
        done.append(face(analyze, file, memory=True, seconds=0.3, as_json=rng.random() < 0.5))
    return any(done)
