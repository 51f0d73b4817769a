"""Write the detector of the example `tracker`: detector.onnx.

Usage: python make_network.py [FOLDER]   (default: beside this file)

image float32[1, 1, 96, 128] to heat float32[1, 3, 48, 64], a map of scores for each of disc, square
and cross: about 1 where there is one. Nothing is trained: edges in eight directions, then filters
that were computed so that they answer to the edges of one shape and not to those of the others.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tracker import HEIGHT, KINDS, WIDTH, shape

SIZE = 11


def edges():
    """Filters 5 x 5 for edges in eight directions."""
    y, x = np.mgrid[-2:3, -2:3].astype(float)
    angles = np.arange(8) * np.pi / 4
    kernels = [(np.cos(a) * x + np.sin(a) * y) * np.exp(-(x**2 + y**2) / 3) for a in angles]
    return np.stack([k / np.abs(k).sum() for k in kernels])[:, None].astype(np.float32)


def answer(picture, kernels):
    """What the first layer says of a picture, one of two pixels."""
    padded = np.pad(picture, 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))[::2, ::2]
    return np.maximum(np.einsum("ijkl,nkl->nij", windows, kernels[:, 0]), 0)


def patches(kernels, random):
    """Edges around each shape in the middle of a patch, and around the others beside it."""
    half = SIZE // 2
    inputs, wanted = [], []
    for number, kind in enumerate(KINDS):
        for _ in range(150):
            row, column = HEIGHT // 2 + random.integers(0, 2), WIDTH // 2 + random.integers(0, 2)
            seen = 120 / 128 * shape(kind, row, column) + random.normal(0, 6 / 128, (HEIGHT, WIDTH))
            map_ = answer(seen, kernels)
            for off in ((0, 0), *random.integers(-6, 7, (5, 2))):
                y, x = HEIGHT // 4 + off[0], WIDTH // 4 + off[1]
                inputs.append(map_[:, y - half : y + half + 1, x - half : x + half + 1].ravel())
                near = np.exp(-(off[0] ** 2 + off[1] ** 2) / 1.0)
                wanted.append(np.eye(3)[number] * near)
    return np.array(inputs), np.array(wanted)


def detector():
    kernels = edges()
    inputs, wanted = patches(kernels, np.random.default_rng(3))
    weights = np.linalg.solve(inputs.T @ inputs + 0.3 * np.eye(inputs.shape[1]), inputs.T @ wanted)
    filters = weights.T.reshape(3, 8, SIZE, SIZE).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "kernels"], ["slopes"], strides=[2, 2], pads=[2] * 4),
        helper.make_node("Relu", ["slopes"], ["edges"]),
        helper.make_node("Conv", ["edges", "filters"], ["answers"], pads=[SIZE // 2] * 4),
        helper.make_node("Relu", ["answers"], ["heat"]),
    ]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("heat", TensorProto.FLOAT, [1, 3, HEIGHT // 2, WIDTH // 2])],
        [
            numpy_helper.from_array(value, name)
            for name, value in (("kernels", kernels), ("filters", filters))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    onnx.save(detector(), folder / "detector.onnx")
