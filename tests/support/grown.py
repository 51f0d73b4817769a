"""Networks that grow layer by layer: sums with what was there before, skips over what is scaled."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import N

WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


class Built:
    """A network that grows layer by layer; a tensor is its name."""

    def __init__(self, channels: int = 3, side: int = 96) -> None:
        self.shape = [1, channels, side, side]
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(N(op, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int, dtype: type = np.float32) -> str:
        self.weights.append(
            numpy_helper.from_array(
                self.rng.normal(0, 0.1, shape).astype(dtype), f"w{len(self.weights)}"
            )
        )
        return self.weights[-1].name

    def conv(self, x: str, channels: int, filters: int, **attributes: object) -> str:
        return self.add("Conv", x, self.weight(filters, channels, 3, 3), **{**WINDOW, **attributes})

    def model(self, *outputs: str) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        made = [helper.make_tensor_value_info(t, TensorProto.FLOAT, None) for t in outputs]
        graph = helper.make_graph(self.nodes, "g", ends, made, self.weights)
        opsets = [helper.make_opsetid(*version) for version in (("", 17), ("of.mine", 1))]
        found = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(found)


def residual(side: int = 96, channels: int = 16, blocks: int = 3) -> onnx.ModelProto:
    """Sums of a convolution of two others with what it began with."""
    b = Built(side=side)
    x = b.add("Relu", b.conv("x", 3, channels))
    for _ in range(blocks):
        y = b.conv(b.add("Relu", b.conv(x, channels, channels)), channels, channels)
        x = b.add("Relu", b.add("Add", y, x))
    return b.model(b.add("GlobalAveragePool", x))


def unet(side: int = 96, base: int = 8, depths: int = 3) -> onnx.ModelProto:
    """Skips over what is scaled down and up again; its kernels take memory for themselves."""
    b = Built(side=side)
    x, channels, skips = "x", 3, []
    for depth in range(depths):
        x, channels = b.add("Relu", b.conv(x, channels, base << depth)), base << depth
        skips.append((x, channels))
        x = b.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x, channels = b.add("Relu", b.conv(x, channels, base << depths)), base << depths
    for skip, fewer in reversed(skips):
        x = b.add(
            "ConvTranspose", x, b.weight(channels, fewer, 2, 2), kernel_shape=[2, 2], strides=[2, 2]
        )
        x, channels = (
            b.add("Relu", b.conv(b.add("Concat", x, skip, axis=1), 2 * fewer, fewer)),
            fewer,
        )
    return b.model(b.conv(x, channels, 1))
