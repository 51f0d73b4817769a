"""Write the network of the example `detect`: ssd.onnx.

Usage: python make_network.py [FOLDER]   (default: beside this file)

MobileNetV2 1.0 with the heads of SSDLite: image float32[1, 3, 224, 224] to boxes float32[1, 1002,
4] and scores float32[1, 1002, 21]. The weights are random: it takes the time of a real one, and
finds things where there are none. Needs numpy, onnx and onnxruntime. Seeded: every run writes the
same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from detect import CLASSES, MAPS, SIDE, SURE, Camera, prepare
from onnx import TensorProto, helper, numpy_helper

#: The share of all boxes that shall be surely some thing, and how much the classes differ.
SHARE, CONTRAST = 0.01, 3


class Graph:
    """An ONNX graph that grows layer by layer; a tensor is its name."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {"zero": np.float32(0), "six": np.float32(6)}

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out or name], name=name, **attributes))
        return out or name

    def conv(
        self,
        x: str,
        cin: int,
        cout: int,
        size: int = 1,
        stride: int = 1,
        group: int = 1,
        gain: float = 2,
    ) -> str:
        """A convolution with bias; a batch normalization behind it counts as folded into its
        weights."""
        name = f"conv_{len(self.nodes)}"
        shape = (cout, cin // group, size, size)
        weights = self.rng.normal(0, np.sqrt(gain / np.prod(shape[1:])), shape)
        if shape[1] > 1:
            # Behind a rectifier all is positive. Unless a filter sums to zero, its mean drowns,
            # layer by layer, what tells one image from another.
            weights -= weights.mean(axis=(1, 2, 3), keepdims=True)
        self.weights[name + ".weight"] = weights.astype(np.float32)
        self.weights[name + ".bias"] = self.rng.normal(0, 0.1, cout).astype(np.float32)
        size_and_stride = {
            "kernel_shape": [size] * 2,
            "strides": [stride] * 2,
            "pads": [size // 2] * 4,
        }
        return self.add("Conv", x, name + ".weight", name + ".bias", group=group, **size_and_stride)

    def relu6(self, x: str) -> str:
        return self.add("Clip", x, "zero", "six")

    def separable(self, x: str, cin: int, cout: int, stride: int = 1, gain: float = 2) -> str:
        """3 x 3 on each channel, then 1 x 1 over all."""
        return self.conv(self.relu6(self.conv(x, cin, cin, 3, stride, cin)), cin, cout, gain=gain)

    def model(self, outputs: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "ssd",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in outputs.items()
            ],
            [numpy_helper.from_array(value, name) for name, value in self.weights.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def features(g: Graph) -> list[tuple[str, int]]:
    """MobileNetV2 1.0 (Sandler et al. 2018) and two smaller maps behind it: tensors with 14, 7, 4
    and 2 cells a side, and their channels."""
    x, cin, fine = g.relu6(g.conv("image", 3, 32, 3, 2)), 32, ""
    blocks = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for expansion, cout, repeats, first_stride in blocks:
        for stride in [first_stride] + [1] * (repeats - 1):
            wide = cin * expansion
            y = x if expansion == 1 else g.relu6(g.conv(x, cin, wide))
            fine = y if (stride, cout) == (2, 160) else fine  # 576 channels
            y = g.separable(y, wide, cout, stride)
            x, cin = g.add("Add", x, y) if stride == 1 and cin == cout else y, cout
    x = g.relu6(g.conv(x, cin, 1280))
    smaller = g.relu6(g.separable(g.relu6(g.conv(x, 1280, 256)), 256, 512, 2))
    smallest = g.relu6(g.separable(g.relu6(g.conv(smaller, 512, 128)), 128, 256, 2))
    return [(fine, 576), (x, 1280), (smaller, 512), (smallest, 256)]


def ssd(frames: list[np.ndarray]) -> onnx.ModelProto:
    """The whole network, levelled on `frames`: no class and no kind of box leads on average, and
    few are sure."""
    g = Graph(seed=1)
    flat: dict[str, list[str]] = {"boxes": [], "logits": []}
    raw: dict[str, tuple[int, ...]] = {}
    for (x, channels), (cells, sizes) in zip(features(g), MAPS, strict=True):
        for what, values, gain in (("boxes", 4, 2), ("logits", CLASSES, 2 * CONTRAST)):
            y = g.separable(x, channels, len(sizes) * values, gain=gain)
            raw[y] = (1, len(sizes) * values, cells, cells)
            shape = f"{y}.shape"
            g.weights[shape] = np.array([1, cells * cells * len(sizes), values])
            flat[what].append(g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 3, 1]), shape))
    count = sum(cells * cells * len(sizes) for cells, sizes in MAPS)
    g.add("Concat", *flat["boxes"], out="boxes", axis=1)
    g.add("Softmax", g.add("Concat", *flat["logits"], axis=1), out="scores", axis=2)
    outputs = {"boxes": (1, count, 4), "scores": (1, count, CLASSES)}

    # The last convolutions: subtract what their channels are on average, then prefer the
    # background.
    makers = {n.output[0]: n for n in g.nodes}
    for name, values in zip(raw, run(g.model(raw), frames), strict=True):
        g.weights[makers[name].input[2]] -= values.mean(axis=(0, 2, 3))
    (scores,) = run(g.model({"scores": outputs["scores"]}), frames)
    for name in list(raw)[1::2]:
        g.weights[makers[name].input[2]].reshape(-1, CLASSES)[:, 0] += preference(scores)
    return g.model(outputs)


def preference(scores: np.ndarray) -> np.float32:
    """What has to be added to the logit of the background for `SHARE` of all boxes to be sure of a
    thing."""
    best, background = scores[..., 1:].max(axis=-1), scores[..., 0]
    low, high = -20.0, 20.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        sure = best / (1 + background * (np.exp(middle) - 1)) > SURE
        low, high = (middle, high) if sure.mean() > SHARE else (low, middle)
    return np.float32(high)


def run(model: onnx.ModelProto, frames: list[np.ndarray]) -> list[np.ndarray]:
    """Every output of a model, over all frames."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    results = [session.run(None, {"image": prepare(frame)}) for frame in frames]
    return [np.concatenate(values) for values in zip(*results, strict=True)]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    camera = Camera(seed=3)
    model = ssd([camera() for _ in range(60)][::10])
    path = folder / "ssd.onnx"
    path.write_bytes(model.SerializeToString())
    weights = sum(int(np.prod(w.dims)) for w in model.graph.initializer)
    print(
        f"{path.name}: {len(model.graph.node)} nodes, {weights} weights,"
        f" {path.stat().st_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
