"""Write the networks of the example `twins`: mobilenet.onnx and squeezenet.onnx.

Usage: python make_networks.py [FOLDER]   (default: beside this file)

Both have the structure of the original (MobileNetV2 1.0, SqueezeNet 1.1), image float32[1, 3, 224, 224] to
logits float32[1, 1000], and random weights: they take the time of the real networks and recognize nothing.
Needs numpy, onnx and ONNX Runtime. Seeded: every run writes the same weights, but for rounding of the last bias.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from twins import Camera, prepare


class Graph:
    """An ONNX graph that grows layer by layer; a tensor is its name."""

    def __init__(self, name: str, seed: int):
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rectified = {"image": False}  # tensor: has it passed a rectifier?

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out or name], name=name, **attributes))
        kept = kind in ("Concat", "MaxPool", "GlobalAveragePool", "Flatten") and self.rectified[inputs[0]]
        self.rectified[out or name] = kept or kind in ("Relu", "Clip")
        return out or name

    def constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def he(self, x: str, shape: tuple[int, ...]) -> np.ndarray:
        """Random weights [out, in, ...] that keep the variance from one layer's sum to the next one's."""
        fan_in = int(np.prod(shape[1:]))
        weights = self.rng.normal(0, np.sqrt((2 if self.rectified[x] else 1) / fan_in), shape)
        if self.rectified[x] and shape[1] > 1:
            # Rectified inputs are all positive. Unless a filter sums to zero, their mean drowns, layer by layer,
            # what tells one image from another.
            weights -= weights.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        return weights

    def conv(self, x: str, cin: int, cout: int, size: int = 1, stride: int = 1, pad: int = 0, group: int = 1) -> str:
        """A convolution with bias; a batch normalization behind it counts as folded into its weights."""
        name = f"conv_{len(self.nodes)}"
        weight = self.constant(name + ".weight", self.he(x, (cout, cin // group, size, size)))
        bias = self.constant(name + ".bias", self.rng.normal(0, 0.1, cout))
        return self.add(
            "Conv", x, weight, bias, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4, group=group
        )

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def mobilenet() -> onnx.ModelProto:
    """MobileNetV2 1.0 (Sandler et al. 2018)."""
    g = Graph("mobilenet", seed=1)
    low, high = g.constant("zero", np.array(0)), g.constant("six", np.array(6))

    def relu6(x: str) -> str:
        return g.add("Clip", x, low, high)

    x, cin = relu6(g.conv("image", 3, 32, 3, stride=2, pad=1)), 32
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, cout, repeats, first_stride in blocks:
        for stride in [first_stride] + [1] * (repeats - 1):
            wide = cin * expansion
            y = x if expansion == 1 else relu6(g.conv(x, cin, wide))
            y = relu6(g.conv(y, wide, wide, 3, stride=stride, pad=1, group=wide))
            y = g.conv(y, wide, cout)
            x, cin = g.add("Add", x, y) if stride == 1 and cin == cout else y, cout
    x = g.add("Flatten", g.add("GlobalAveragePool", relu6(g.conv(x, cin, 1280))))
    weight = g.constant("classifier.weight", g.he(x, (1000, 1280)))
    g.add("Gemm", x, weight, g.constant("classifier.bias", np.zeros(1000)), out="logits", transB=1)
    return g.model()


def squeezenet() -> onnx.ModelProto:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    g = Graph("squeezenet", seed=2)

    def pool(x: str) -> str:
        return g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])

    def fire(x: str, cin: int, squeeze: int, expand: int) -> str:
        x = g.add("Relu", g.conv(x, cin, squeeze))
        one = g.add("Relu", g.conv(x, squeeze, expand))
        three = g.add("Relu", g.conv(x, squeeze, expand, 3, pad=1))
        return g.add("Concat", one, three, axis=1)

    x = pool(g.add("Relu", g.conv("image", 3, 64, 3, stride=2)))
    x = pool(fire(fire(x, 64, 16, 64), 128, 16, 64))
    x = pool(fire(fire(x, 128, 32, 128), 256, 32, 128))
    x = fire(fire(x, 256, 48, 192), 384, 48, 192)
    x = fire(fire(x, 384, 64, 256), 512, 64, 256)
    x = g.add("GlobalAveragePool", g.add("Relu", g.conv(x, 512, 1000)))
    g.add("Flatten", x, out="logits")
    return g.model()


def level(model: onnx.ModelProto, frames: list[np.ndarray]) -> None:
    """Shift the last bias so that no class leads on average over `frames`: the best one then depends on the image."""
    network = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    logits = np.mean([network.run(None, {"image": prepare(frame)})[0][0] for frame in frames], axis=0)
    bias = model.graph.initializer[-1]
    shifted = numpy_helper.to_array(bias) - (logits - logits.mean())
    bias.CopyFrom(numpy_helper.from_array(shifted.astype(np.float32), bias.name))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    camera = Camera(seed=3)
    frames = [camera() for _ in range(60)][::10]
    for model in (mobilenet(), squeezenet()):
        level(model, frames)
        path = folder / f"{model.graph.name}.onnx"
        path.write_bytes(model.SerializeToString())
        weights = sum(int(np.prod(w.dims)) for w in model.graph.initializer)
        print(f"{path.name}: {len(model.graph.node)} nodes, {weights} weights, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
