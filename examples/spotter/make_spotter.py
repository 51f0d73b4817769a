"""Write the network of the example `spotter`: spotter.onnx.

Usage: python make_spotter.py [FOLDER]   (default: beside this file)

picture float32[1, 1, 49, 40] to scores float32[1, 5]: a depthwise-separable CNN whose filters are
random, and a last layer that is fitted to words by ridge regression. Needs numpy, onnx and a C
compiler. Seeded: every run writes the same weights, up to rounding.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from make_sound import LENGTH, track
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from plain import FRAME, FRAMES, HOP, MELS, STEP, load_mel
from spotter import NAMES, picture, spectrum

CHANNELS, BLOCKS = 64, 3
TRACKS, WORDS_IN_TRACK = 30, 10
# parts of a word: as much of it has to be seen, and no more of it may be seen to be none
INSIDE, OUTSIDE = 0.8, 0.3
RIDGE, SHARPNESS = 1.0, 10


def examples(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What the network sees of random words, and which of them it is (0: none)."""
    mel = load_mel()
    pictures, labels = [], []
    for _ in range(TRACKS):
        kinds = rng.integers(1, len(NAMES), WORDS_IN_TRACK)
        sound, begins = track(tuple(NAMES[k] for k in kinds), rng)
        frames = sliding_window_view(sound.astype(np.float32) / np.float32(32768), FRAME)[::HOP]
        mels = np.stack(
            [np.zeros(MELS, np.float32)] * (FRAMES - STEP) + [mel(spectrum(x)) for x in frames]
        )
        for first in range(0, len(mels) - FRAMES, STEP):
            begin, end = (first - FRAMES + STEP) * HOP, (first + STEP) * HOP + FRAME - HOP
            seen = [min(end, b + LENGTH) - max(begin, b) for b in begins]
            most = int(np.argmax(seen))
            if seen[most] < OUTSIDE * LENGTH or seen[most] > INSIDE * LENGTH:
                pictures.append(picture(mels[first : first + FRAMES]))
                labels.append(kinds[most] if seen[most] > INSIDE * LENGTH else 0)
    return np.concatenate(pictures), np.array(labels)


class Network:
    """Layers, each of which is computed for all examples as soon as it is added."""

    def __init__(self, x: np.ndarray, rng: np.random.Generator):
        self.x, self.rng = x, rng
        self.name, self.nodes, self.weights = "picture", [], {}

    def add(self, kind: str, *weights: np.ndarray, name: str = "", **attributes) -> None:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        inputs = [self.name, *(f"{name}.{'wb'[i]}" for i in range(len(weights)))]
        self.weights.update(zip(inputs[1:], weights, strict=True))
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.name = name

    def conv(self, size: tuple[int, int], stride: int = 1, depthwise: bool = False) -> None:
        """A convolution without padding and with a rectifier; each channel has mean 0 and variance
        1 before it."""
        cin = self.x.shape[1]
        group = cin if depthwise else 1
        w = self.rng.normal(0, 1, (CHANNELS, cin // group, *size)).astype(np.float32)
        views = sliding_window_view(self.x, size, axis=(2, 3))[:, :, ::stride, ::stride]
        if depthwise:
            y = np.einsum("nchwij,cij->nchw", views, w[:, 0], optimize=True)
        else:
            y = np.moveaxis(np.tensordot(views, w, axes=((1, 4, 5), (1, 2, 3))), 3, 1)
        scale, shift = 1 / y.std(axis=(0, 2, 3)), -y.mean(axis=(0, 2, 3)) / y.std(axis=(0, 2, 3))
        self.add("Conv", w * scale[:, None, None, None], shift, group=group, strides=[stride] * 2)
        self.add("Relu")
        self.x = np.maximum(y * scale[:, None, None] + shift[:, None, None], 0)

    def read_out(self, labels: np.ndarray) -> None:
        """The means of all channels, and the straight lines through them that miss the labels
        least."""
        self.add("GlobalAveragePool")
        self.add("Flatten")
        means = self.x.mean(axis=(2, 3), dtype=np.float64)
        x = np.column_stack([means, np.ones(len(means))])
        wanted = np.eye(len(NAMES))[labels] - 0.5
        # words are seldom; none of them is missed more
        balance = (len(labels) / np.bincount(labels))[labels][:, None]
        w = np.linalg.solve(
            x.T @ (balance * x) + RIDGE * np.eye(x.shape[1]), x.T @ (balance * wanted)
        )
        print(
            "right: %.1f %% of %d" % (100 * np.mean((x @ w).argmax(axis=1) == labels), len(labels))
        )
        w = (SHARPNESS * w).astype(np.float32)
        self.add("Gemm", w[:-1], w[-1])
        self.add("Softmax", name="scores", axis=1)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "spotter",
            [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 1, FRAMES, MELS])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(NAMES)])],
            [
                numpy_helper.from_array(value.astype(np.float32), name)
                for name, value in self.weights.items()
            ],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    rng = np.random.default_rng(2)
    pictures, labels = examples(rng)
    network = Network(pictures, rng)
    network.conv((8, 6), stride=2)
    for _ in range(BLOCKS):
        network.conv((3, 3), depthwise=True)
        network.conv((1, 1))
    network.read_out(labels)
    path = folder / "spotter.onnx"
    path.write_bytes(network.model().SerializeToString())
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
