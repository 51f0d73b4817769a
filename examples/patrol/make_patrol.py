"""Write the networks of the example `patrol`: careful.onnx and quick.onnx.

Usage: python make_patrol.py [FOLDER]   (default: beside this file)

x float32[1, 1, 96, 128] to heat float32[1, 1, 12, 16]: filters for a bright spot, above 0 where
there is one. The careful one looks at every pixel with several sizes of filters, the quick one at
one of four pixels with one. Nothing is trained: thresholds lie between what empty pictures and full
ones give. Seeded: every run writes the same weights.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from patrol import HEIGHT, RADIUS, WIDTH, picture, tensor

PICTURES = 300


def spot(size, radius):
    """A filter: a bright spot on its dark surroundings, of sum 0."""
    y, x = np.mgrid[:size, :size] - size // 2
    kernel = np.exp(-(y**2 + x**2) / (2 * radius**2))
    kernel -= kernel.mean()
    return (kernel / np.abs(kernel).sum()).astype(np.float32)


def network(kernels, stride, threshold):
    """Filters, the strongest answer of all of them in each square, less a threshold."""
    count, size = len(kernels), kernels[0].shape[0]
    mean = np.full((1, count, 1, 1), 1 / count, np.float32)
    nodes = [
        helper.make_node(
            "Conv", ["x", "kernels"], ["answers"], strides=[stride] * 2, pads=[size // 2] * 4
        ),
        helper.make_node("Relu", ["answers"], ["bright"]),
        helper.make_node("Conv", ["bright", "mean"], ["together"]),
        helper.make_node(
            "MaxPool",
            ["together"],
            ["most"],
            kernel_shape=[8 // stride] * 2,
            strides=[8 // stride] * 2,
        ),
        helper.make_node("Sub", ["most", "threshold"], ["heat"]),
    ]
    weights = {
        "kernels": np.stack(kernels)[:, None],
        "mean": mean,
        "threshold": np.array(threshold, np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "look",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("heat", TensorProto.FLOAT, [1, 1, HEIGHT // 8, WIDTH // 8])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def heats(model, rng):
    """The strongest answers to empty pictures and to full ones."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [
        np.array(
            [
                session.run(None, {"x": tensor(picture(rng, there))})[0].max()
                for _ in range(PICTURES)
            ]
        )
        for there in (False, True)
    ]


def fitted(kernels, stride):
    """The network with the threshold that is right most often, and how often it is right about
    other pictures."""
    empty, full = heats(network(kernels, stride, 0.0), np.random.default_rng(100))
    tried = np.sort(np.concatenate([empty, full]))
    threshold = max(tried, key=lambda t: (empty < t).sum() + (full >= t).sum())
    model = network(kernels, stride, threshold)
    empty, full = heats(model, np.random.default_rng(200))
    return model, ((empty < 0).sum() + (full > 0).sum()) / (2 * PICTURES)


def main(folder):
    ways = {
        "careful": ([spot(17, r * RADIUS) for r in np.linspace(0.7, 1.3, 16)], 1),
        "quick": ([spot(9, RADIUS)], 4),
    }
    for name, (kernels, stride) in ways.items():
        model, accuracy = fitted(kernels, stride)
        onnx.save(model, folder / f"{name}.onnx")
        print(f"{name}: right about {accuracy:.2f} of pictures")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
