"""Small CNNs with random weights, and data for them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import onnx
from flowc.networks.onnx.interface import read_network
from onnx import TensorProto, helper

from models import N, model

Sample = dict[str, np.ndarray]


IMAGE = {"image": ["n", 3, 32, 32]}


class Growing:
    """A network that grows layer by layer; a tensor is its name."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {"low": np.float32(0), "high": np.float32(6)}  # type: ignore[dict-item]

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(N(kind, list(inputs), [name], **attributes))
        return name

    def weights(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants[name] = self.rng.normal(0, (2 / prod(shape[1:])) ** 0.5, shape).astype(
            np.float32
        )
        return name

    def conv(self, x: str, shape: tuple[int, ...], stride: int = 1, group: int = 1) -> str:
        """A convolution, padded so that stride alone changes sizes."""
        pad = shape[-1] // 2
        return self.add(
            "Conv", x, self.weights(*shape), strides=[stride] * 2, pads=[pad] * 4, group=group
        )

    def norm(self, x: str, channels: int) -> str:
        stem = f"n{len(self.nodes)}"
        for part, (center, width) in {
            "g": (1, 0.1),
            "b": (0, 0.1),
            "m": (0, 0.1),
            "v": (1, 0.1),
        }.items():
            self.constants[stem + part] = self.rng.uniform(
                center - width, center + width, channels
            ).astype(np.float32)
        return self.add("BatchNormalization", x, *(stem + p for p in "gbmv"))

    def scores(self, x: str, channels: int) -> onnx.ModelProto:
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        if channels:
            self.nodes.append(N("Gemm", [x, self.weights(10, channels)], ["scores"], transB=1))
        else:
            self.nodes[-1].output[0] = "scores"
        found = model(self.nodes, IMAGE, self.constants, "scores")
        found.graph.output[0].CopyFrom(
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])
        )
        return found


def mobilenet() -> onnx.ModelProto:
    g = Growing()

    def relu6(x: str) -> str:
        return g.add("Clip", x, "low", "high")

    x = relu6(g.conv("image", (8, 3, 3, 3), 2))
    for _ in range(2):
        y = relu6(g.conv(x, (24, 8, 1, 1)))
        y = relu6(g.conv(y, (24, 1, 3, 3), group=24))
        x = g.add("Add", x, g.conv(y, (8, 24, 1, 1)))
    return g.scores(relu6(g.conv(x, (32, 8, 1, 1))), 32)


def resnet() -> onnx.ModelProto:
    g = Growing()

    def block(x: str, shape: tuple[int, ...], stride: int = 1) -> str:
        return g.norm(g.conv(x, shape, stride), shape[0])

    x = g.add("Relu", block("image", (8, 3, 3, 3), 2))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = block(g.add("Relu", block(x, (8, 8, 3, 3))), (8, 8, 3, 3))
    x = g.add("Relu", g.add("Add", y, x))
    y = block(g.add("Relu", block(x, (16, 8, 3, 3), 2)), (16, 16, 3, 3))
    return g.scores(g.add("Relu", g.add("Add", y, block(x, (16, 8, 1, 1), 2))), 16)


def squeezenet() -> onnx.ModelProto:
    g = Growing()
    x = g.add(
        "MaxPool",
        g.add("Relu", g.conv("image", (8, 3, 3, 3), 2)),
        kernel_shape=[3, 3],
        strides=[2, 2],
    )
    for channels in (8, 16):
        x = g.add("Relu", g.conv(x, (4, channels, 1, 1)))
        x = g.add("Concat", *(g.add("Relu", g.conv(x, (8, 4, k, k))) for k in (1, 3)), axis=1)
    return g.scores(g.add("Relu", g.conv(x, (10, 16, 1, 1))), 0)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet": mobilenet,
    "resnet": resnet,
    "squeezenet": squeezenet,
}


def samples(path: Path, count: int = 8, batch: int = 1) -> list[Sample]:
    rng = np.random.default_rng(5)
    inputs = read_network(path, {}, batch).inputs
    return [
        {b.name: rng.standard_normal(b.shape).astype(b.dtype) for b in inputs} for _ in range(count)
    ]
