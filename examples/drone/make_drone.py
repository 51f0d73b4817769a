"""Write the networks of the example `drone`: traffic.onnx and tiny.onnx.

Usage: python make_drone.py [FOLDER]   (default: beside this file)

image float32[1, 1, 96, 128] to float32[1, 4]: above 0 for each quarter of the picture with a
vehicle in it. traffic.onnx has an early exit: `exit1` reads features that a trunk makes, `exit2`
those and others, which take more than as much time again. tiny.onnx looks at one of four pixels.
Filters are random, or spots drawn by a formula; only what an exit makes of the strongest answers in
a quarter is fitted, by least squares. Seeded: every run writes the same weights.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from drone import HEIGHT, RADIUS, WIDTH, picture
from onnx import TensorProto, helper, numpy_helper

PICTURES = 600


def spots(count, size, rng, radius):
    """Filters for bright spots of about that radius, of sum 0, no two of them the same."""
    y, x = np.mgrid[:size, :size] - size // 2
    found = []
    for own in np.linspace(0.5, 1.5, count) * radius:
        kernel = np.exp(-(y**2 + x**2) / (2 * own**2)) + rng.normal(0, 0.05, (size, size))
        kernel -= kernel.mean()
        found.append(kernel / np.abs(kernel).sum())
    return np.stack(found)[:, None].astype(np.float32)


def mixed(rng, outputs, inputs, size):
    """Random filters."""
    spread = (2 / (inputs * size * size)) ** 0.5
    return rng.normal(0, spread, (outputs, inputs, size, size)).astype(np.float32)


class Model:
    """Layers one after another, with their weights."""

    def __init__(self):
        self.nodes, self.weights = [], {}

    def layer(self, operator, reads, makes, weights=None, **attributes):
        if weights is not None:
            self.weights[f"w_{makes}"] = weights
            reads = [*reads, f"w_{makes}"]
        self.nodes.append(helper.make_node(operator, reads, [makes], **attributes))
        return makes

    def conv(self, reads, makes, weights, stride=1):
        pads = [weights.shape[-1] // 2] * 4
        self.layer("Conv", [reads], f"{makes}_c", weights, strides=[stride] * 2, pads=pads)
        return self.layer("Relu", [f"{makes}_c"], makes)

    def quarters(self, reads, makes, step):
        """The strongest answer in each quarter."""
        size = [HEIGHT // step // 2, WIDTH // step // 2]
        return self.layer("MaxPool", [reads], makes, kernel_shape=size, strides=size)

    def model(self, outputs, shapes):
        values = {
            n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()
        }
        weights = [numpy_helper.from_array(w, n) for n, w in self.weights.items()]
        graph = helper.make_graph(
            self.nodes, "traffic", [values["image"]], [values[o] for o in outputs], weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pictures(seed):
    """Pictures as the networks read them, and where something is in them."""
    rng = np.random.default_rng(seed)
    there = rng.random((PICTURES, 4)) < 0.4
    return [
        (picture(rng, t)[None, None].astype(np.float32) / 127.5 - 1).astype(np.float32)
        for t in there
    ], there


def answers(model, outputs, images):
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [
        np.concatenate(made)
        for made in zip(*(session.run(outputs, {"image": i}) for i in images), strict=True)
    ]


def with_exit(net, features, name, channels, seen):
    """Add an exit that weighs the features of each quarter, and a bias, as least squares say."""
    shapes = {"image": [1, 1, HEIGHT, WIDTH], features: [1, channels, 2, 2]}
    (made,) = answers(net.model([features], shapes), [features], seen[0])
    rows = made.transpose(0, 2, 3, 1).reshape(-1, channels).astype(np.float64)
    spread = rows.std(0) + 1e-6
    x = np.c_[rows / spread, np.ones(len(rows))]
    y = np.where(seen[1].reshape(-1), 1.0, -1.0)
    fitted = np.linalg.solve(x.T @ x + 300 * np.eye(channels + 1), x.T @ y)
    weights = (fitted[:-1] / spread).astype(np.float32).reshape(1, channels, 1, 1)
    net.weights[f"b_{name}"] = np.array([fitted[-1]], np.float32)
    net.weights[f"w_{name}"] = weights
    net.nodes.append(helper.make_node("Conv", [features, f"w_{name}", f"b_{name}"], [f"{name}_q"]))
    net.nodes.append(helper.make_node("Flatten", [f"{name}_q"], [name]))


def traffic(seen):
    rng, net = np.random.default_rng(1), Model()
    net.conv("image", "a", spots(32, 9, rng, RADIUS / 2), 2)
    net.conv("a", "b", mixed(rng, 64, 32, 5), 2)
    net.conv("b", "c", mixed(rng, 448, 64, 3), 2)
    net.quarters("c", "coarse", 8)
    with_exit(net, "coarse", "exit1", 448, seen)
    net.conv("b", "d", mixed(rng, 64, 64, 5))
    net.conv("image", "e", spots(24, 25, rng, RADIUS), 2)
    net.quarters("d", "deep", 4)
    net.quarters("e", "fine", 2)
    net.layer("Concat", ["coarse", "deep", "fine"], "all", axis=1)
    with_exit(net, "all", "exit2", 448 + 64 + 24, seen)
    return net, ["exit1", "exit2"]


def tiny(seen):
    net = Model()
    net.conv("image", "a", spots(8, 9, np.random.default_rng(2), RADIUS / 2), 4)
    net.quarters("a", "coarse", 4)
    with_exit(net, "coarse", "logits", 8, seen)
    return net, ["logits"]


def main(folder):
    seen, others = pictures(100), pictures(200)
    for name, make in (("traffic", traffic), ("tiny", tiny)):
        net, exits = make(seen)
        model = net.model(exits, {"image": [1, 1, HEIGHT, WIDTH], **{e: [1, 4] for e in exits}})
        onnx.save(model, folder / f"{name}.onnx")
        for output, made in zip(exits, answers(model, exits, others[0]), strict=True):
            print(
                f"{name}.onnx, {output}: right about {((made > 0) == others[1]).mean():.3f} of"
                " quarters"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
