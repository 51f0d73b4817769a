"""Write the network of the example `detector`: yolo.onnx.

Usage: python make_network.py [FOLDER]   (default: beside this file)

A small network in the manner of YOLOv4-tiny: image float32[1, 3, 192, 256] to two maps of boxes,
`coarse` float32[1, 24, 6, 8] and `fine` float32[1, 24, 12, 16] (3 anchors x (x, y, width, height,
sure, 3 classes)). Weights are random: it takes the time of a real one, and finds things where there
are none. Everything but its first layers and its heads are operators that the DLA of a Jetson runs.
Seeded: every run writes the same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from detector import ANCHORS, CLASSES, HEIGHT, WIDTH
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """An ONNX graph that grows layer by layer; a tensor is its name."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.channels = {"image": 3}

    def add(self, kind: str, *inputs: str, out: str, channels: int, **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [out], name=out, **attributes))
        self.channels[out] = channels
        return out

    def conv(
        self, x: str, out: str, channels: int, size: int = 3, stride: int = 1, active: bool = True
    ) -> str:
        """A convolution, and a rectifier unless it is a head; a batch normalization counts as
        folded into it."""
        shape = (channels, self.channels[x], size, size)
        weights = self.rng.normal(0, np.sqrt((2 if active else 100) / np.prod(shape[1:])), shape)
        if self.channels[x] > 3:
            # else the mean drowns what tells images apart
            weights -= weights.mean(axis=(1, 2, 3), keepdims=True)
        self.weights[f"{out}.weight"] = weights.astype(np.float32)
        self.weights[f"{out}.bias"] = self.rng.normal(0, 0.1, channels).astype(np.float32)
        name = f"{out}.sum" if active else out
        self.add(
            "Conv",
            x,
            f"{out}.weight",
            f"{out}.bias",
            out=name,
            channels=channels,
            kernel_shape=[size] * 2,
            strides=[stride] * 2,
            pads=[size // 2] * 4,
        )
        return self.add("Relu", name, out=out, channels=channels) if active else out

    def join(self, a: str, b: str, out: str) -> str:
        return self.add(
            "Concat", a, b, out=out, channels=self.channels[a] + self.channels[b], axis=1
        )

    def pool(self, x: str, out: str) -> str:
        return self.add(
            "MaxPool", x, out=out, channels=self.channels[x], kernel_shape=[2, 2], strides=[2, 2]
        )

    def block(self, x: str, out: str, channels: int) -> str:
        """Part of the channels takes a way of its own (a cross stage partial block), then the map
        is halved."""
        first = self.conv(x, f"{out}.a", channels)
        second = self.conv(first, f"{out}.b", channels // 2)
        third = self.conv(second, f"{out}.c", channels // 2)
        both = self.join(third, second, f"{out}.bc")
        mixed = self.conv(both, f"{out}.d", channels, 1)
        return self.pool(self.join(first, mixed, f"{out}.ad"), out)


def network() -> onnx.ModelProto:
    g = Graph(seed=7)
    x = g.conv("image", "stem", 16, stride=2)
    x = g.conv(x, "entry", 32, stride=2)
    x = g.block(x, "block1", 32)
    fine = g.block(x, "block2", 64)
    coarse = g.conv(g.conv(g.pool(fine, "deep"), "bottom", 128), "neck", 64, 1)
    outputs = len(ANCHORS[0]) * (5 + CLASSES)
    g.conv(g.conv(coarse, "coarse.in", 128), "coarse", outputs, 1, active=False)
    g.weights["scales"] = np.array([1, 1, 2, 2], np.float32)
    up = g.add(
        "Resize",
        g.conv(coarse, "up.in", 32, 1),
        "",
        "scales",
        out="up",
        channels=32,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    g.conv(g.conv(g.join(up, fine, "both"), "fine.in", 64), "fine", outputs, 1, active=False)
    maps = {
        "coarse": (1, outputs, HEIGHT // 32, WIDTH // 32),
        "fine": (1, outputs, HEIGHT // 16, WIDTH // 16),
    }
    graph = helper.make_graph(
        g.nodes,
        "yolo",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, HEIGHT, WIDTH))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in maps.items()],
        [numpy_helper.from_array(w, n) for n, w in g.weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    onnx.save(network(), folder / "yolo.onnx")
