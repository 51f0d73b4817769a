"""Makes the small networks of the faulty texts: `python make_networks.py` writes them beside
itself.

Each has one fault, or is the smallest network that a text needs. The same bytes each time.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parent
FLOAT = TensorProto.FLOAT


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    """A model that also older readers accept."""
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights or [])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name=""
    )


def tensor(name: str, shape: list[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    """A tensor at the border; a text in the shape is a dynamic dimension."""
    return helper.make_tensor_value_info(name, kind, shape)


def relu(shape: list[int | str], name: str = "input") -> onnx.ModelProto:
    """The smallest network: one Relu."""
    return model(
        [helper.make_node("Relu", [name], ["output"])],
        [tensor(name, shape)],
        [tensor("output", shape)],
    )


def linear() -> onnx.ModelProto:
    """A layer from 4 to 2 numbers, and a Relu."""
    nodes = [
        helper.make_node("MatMul", ["input", "weight"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["output"]),
    ]
    weight = helper.make_tensor("weight", FLOAT, [4, 2], [0.5] * 8)
    return model(nodes, [tensor("input", [1, 4])], [tensor("output", [1, 2])], [weight])


def image() -> onnx.ModelProto:
    """Two convolutions over 8 rows, and their mean."""
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["input", "first"], ["edges"], **window),
        helper.make_node("Relu", ["edges"], ["bright"]),
        helper.make_node("Conv", ["bright", "second"], ["corners"], **window),
        helper.make_node("GlobalAveragePool", ["corners"], ["output"]),
    ]
    weights = [
        helper.make_tensor(n, FLOAT, [2, c, 3, 3], [0.1] * 18 * c)
        for n, c in (("first", 1), ("second", 2))
    ]
    return model(nodes, [tensor("input", [1, 1, 8, 8])], [tensor("output", [1, 2, 1, 1])], weights)


def tanh() -> onnx.ModelProto:
    """A layer that ONNX Runtime does not compute in 8 bits."""
    return model(
        [helper.make_node("Tanh", ["input"], ["output"])],
        [tensor("input", [1, 4])],
        [tensor("output", [1, 4])],
    )


def exp() -> onnx.ModelProto:
    """Layers of which a DLA has the first one only."""
    nodes = [
        helper.make_node("Relu", ["input"], ["positive"]),
        helper.make_node("Exp", ["positive"], ["output"]),
    ]
    return model(nodes, [tensor("input", [1, 4])], [tensor("output", [1, 4])])


def external(location: str) -> onnx.ModelProto:
    """A layer whose weights are kept in another file."""
    net = linear()
    weight = net.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return net


def branch() -> onnx.ModelProto:
    """One of two constants, by a condition."""
    bodies = [
        helper.make_graph(
            [helper.make_node("Constant", [], [f"{name}_out"], value_float=value)],
            name,
            [],
            [tensor(f"{name}_out", [])],
        )
        for name, value in (("bright", 1.0), ("dark", 0.0))
    ]
    node = helper.make_node("If", ["day"], ["output"], then_branch=bodies[0], else_branch=bodies[1])
    return model([node], [tensor("day", [], TensorProto.BOOL)], [tensor("output", [])])


def contradiction() -> onnx.ModelProto:
    """A product of matrices that do not fit."""
    node = helper.make_node("MatMul", ["left", "right"], ["output"])
    return model(
        [node], [tensor("left", [2, 3]), tensor("right", [4, 5])], [tensor("output", [2, 5])]
    )


def two_inputs() -> onnx.ModelProto:
    """The sum of two images."""
    node = helper.make_node("Add", ["day", "night"], ["output"])
    return model(
        [node], [tensor("day", [1, 4]), tensor("night", [1, 4])], [tensor("output", [1, 4])]
    )


def strings() -> onnx.ModelProto:
    """Texts go in and out."""
    node = helper.make_node("Identity", ["word"], ["output"])
    kind = TensorProto.STRING
    return model([node], [tensor("word", [1], kind)], [tensor("output", [1], kind)])


def custom() -> onnx.ModelProto:
    """An operator that only its maker has."""
    node = helper.make_node("Spiral", ["input"], ["output"], domain="my.domain")
    net = model([node], [tensor("input", [1, 4])], [tensor("output", [1, 4])])
    net.opset_import.append(helper.make_opsetid("my.domain", 1))
    return net


def sequence() -> onnx.ModelProto:
    """A list of tensors goes out."""
    node = helper.make_node("SplitToSequence", ["input"], ["parts"], axis=0)
    parts = helper.make_tensor_sequence_value_info("parts", FLOAT, [1, 4])
    return model([node], [tensor("input", [3, 4])], [parts])


def nonzero() -> onnx.ModelProto:
    """Places of numbers that are not 0: as many as there are."""
    nodes = [
        helper.make_node("NonZero", ["input"], ["found"]),
        helper.make_node("Transpose", ["found"], ["places"]),
    ]
    return model(
        nodes, [tensor("input", ["batch", 4])], [tensor("places", ["found", 2], TensorProto.INT64)]
    )


def main() -> None:
    """Write all of them."""
    networks = {
        "linear": linear(),
        "image": image(),
        "tanh": tanh(),
        "exp": exp(),
        "dynamic": relu(["batch", 4]),
        "any_size": relu([1, 3, "height", "width"], "image"),
        "branch": branch(),
        "contradiction": contradiction(),
        "two_inputs": two_inputs(),
        "strings": strings(),
        "custom": custom(),
        "sequence": sequence(),
        "nonzero": nonzero(),
        "weights_missing": external("weights.bin"),
        "weights_outside": external("../../weights.bin"),
    }
    for name, net in networks.items():
        (HERE / f"{name}.onnx").write_bytes(net.SerializeToString(deterministic=True))
    (HERE / "truncated.onnx").write_bytes(linear().SerializeToString(deterministic=True)[:100])
    (HERE / "empty.onnx").write_bytes(b"")
    (HERE / "lite.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(20))
    (HERE / "torch.pth").write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2))


if __name__ == "__main__":
    main()
