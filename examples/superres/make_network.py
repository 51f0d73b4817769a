"""Write the network of the example `superres`: superres.onnx.

Usage: python make_network.py [FOLDER]   (default: beside this file)

The structure of EDSR (Lim et al. 2017) with 4 blocks of 32 channels: small float32[1, 3, 180, 320]
to large float32[1, 3, 360, 640]. It is not trained: bicubic interpolation, written as a
convolution, makes the picture, and the residual blocks, with random weights, add a little noise to
it. They take the time and the memory of trained ones. Needs numpy and onnx. Seeded: every run
writes the same weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEIGHT, WIDTH, CHANNELS, BLOCKS = 180, 320, 32, 4
#: Taps of a Catmull-Rom spline a quarter of a pixel before and behind a pixel.
BEFORE = (-0.0234375, 0.2265625, 0.8671875, -0.0703125, 0.0)
BEHIND = BEFORE[::-1]


class Graph:
    """An ONNX graph that grows layer by layer; a tensor is its name."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {"black": np.float32(0), "white": np.float32(1)}

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes) -> str:
        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, weights: np.ndarray) -> str:
        name = f"conv_{len(self.nodes)}"
        self.weights[f"{name}.weight"] = weights.astype(np.float32)
        size = weights.shape[2]
        return self.add(
            "Conv", x, f"{name}.weight", kernel_shape=[size, size], pads=[size // 2] * 4
        )

    def drawn(self, cin: int, cout: int, gain: float = 1.0) -> np.ndarray:
        return self.rng.standard_normal((cout, cin, 3, 3)) * gain * np.sqrt(2 / (9 * cin))


def interpolation() -> np.ndarray:
    """Each color to the four pixels that one becomes, as DepthToSpace (CRD) wants them."""
    kernels = [np.outer(down, across) for down in (BEFORE, BEHIND) for across in (BEFORE, BEHIND)]
    weights = np.zeros((12, 3, 5, 5))
    for color in range(3):
        weights[4 * color : 4 * color + 4, color] = kernels
    return weights


def network() -> onnx.ModelProto:
    g = Graph(7)
    x = head = g.conv("small", g.drawn(3, CHANNELS))
    for _ in range(BLOCKS):
        inner = g.add("Relu", g.conv(x, g.drawn(CHANNELS, CHANNELS)))
        x = g.add("Add", g.conv(inner, g.drawn(CHANNELS, CHANNELS, 0.1)), x)
    x = g.add("Add", g.conv(x, g.drawn(CHANNELS, CHANNELS, 0.1)), head)
    x = g.add("Add", g.conv(x, g.drawn(CHANNELS, 12, 0.004)), g.conv("small", interpolation()))
    g.add("Clip", g.add("DepthToSpace", x, blocksize=2, mode="CRD"), "black", "white", out="large")
    small = helper.make_tensor_value_info("small", TensorProto.FLOAT, (1, 3, HEIGHT, WIDTH))
    large = helper.make_tensor_value_info("large", TensorProto.FLOAT, (1, 3, 2 * HEIGHT, 2 * WIDTH))
    weights = [numpy_helper.from_array(np.asarray(w, np.float32), n) for n, w in g.weights.items()]
    graph = helper.make_graph(g.nodes, "superres", [small], [large], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    model = network()
    onnx.save(model, folder / "superres.onnx")
    count = sum(int(np.prod(w.dims)) for w in model.graph.initializer)
    print(f"superres.onnx: {len(model.graph.node)} nodes, {count} weights")


if __name__ == "__main__":
    main()
