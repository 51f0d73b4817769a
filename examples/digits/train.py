"""Train the network of the example `digits`; writes digits.onnx and glyphs.npz beside this file.

Needs numpy, scikit-learn, torch and onnx. Takes a few minutes on a CPU. Seeded: the same versions
on the same machine give the same files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from vision import Camera, segment

HERE = Path(__file__).resolve().parent
SEED = 1
FRAMES = 10000  # of five digits each, for training
EPOCHS = 16
BATCH = 128


def crops(
    images: np.ndarray, labels: np.ndarray, frames: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw frames of glyphs uint8[n, 8, 8] and cut them up: float32[5 * frames, 1, 28, 28] and
    int64[5 * frames].

    The camera itself varies contrast, light, noise, place and scale, so training sees what the
    program will see.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "glyphs.npz"
        np.savez(path, images=images, labels=labels)
        camera = Camera(str(path), seed)
    pairs = [camera() for _ in range(frames)]
    x = np.concatenate([segment(frame)[:, 0] for frame, _ in pairs])
    return torch.from_numpy(x), torch.from_numpy(np.concatenate([truth for _, truth in pairs]))


def network() -> nn.Sequential:
    """The network to train: float32[n, 1, 28, 28] to logits float32[n, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(64 * 3 * 3, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 10),
    )


def train(model: nn.Sequential, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = EPOCHS * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    model.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for chosen in torch.randperm(len(x))[: len(x) // BATCH * BATCH].split(BATCH):
            # A crop may be off its digit by a pixel or two: shift it further, and not always the
            # same way.
            dy, dx = (int(n) for n in torch.randint(-2, 3, (2,)))
            loss = loss_of(model(torch.roll(x[chosen], (dy, dx), (2, 3))), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * BATCH
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {total / len(x):.4f}", flush=True)
    model.eval()


def to_onnx(model: nn.Sequential) -> onnx.ModelProto:
    """Build the ONNX graph from the trained layers: input ["batch", 1, 28, 28] to logits ["batch",
    10]."""
    nodes, weights, last = [], [], "input"
    layers = [layer for layer in model if not isinstance(layer, nn.Dropout)]
    for i, layer in enumerate(layers):
        inputs, attributes, kind = [last], {}, type(layer).__name__
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            for part in ("weight", "bias"):
                inputs.append(f"layer{i}.{part}")
                weights.append(
                    numpy_helper.from_array(getattr(layer, part).detach().numpy(), inputs[-1])
                )
        if isinstance(layer, nn.Conv2d):
            kind, attributes = "Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        elif isinstance(layer, nn.Linear):
            kind, attributes = "Gemm", {"transB": 1}
        elif isinstance(layer, nn.MaxPool2d):
            kind, attributes = "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}
        elif isinstance(layer, nn.ReLU):
            kind = "Relu"
        last = f"layer{i}.out" if i + 1 < len(layers) else "logits"
        nodes.append(helper.make_node(kind, inputs, [last], name=f"layer{i}", **attributes))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def main() -> None:
    torch.manual_seed(SEED)
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    seen, held_out = train_test_split(
        np.arange(len(labels)), test_size=500, stratify=labels, random_state=SEED
    )
    np.savez_compressed(HERE / "glyphs.npz", images=images[held_out], labels=labels[held_out])

    x, y = crops(images[seen], labels[seen], FRAMES, SEED + 1)
    model = network()
    print(
        f"{sum(p.numel() for p in model.parameters())} parameters, {len(x)} crops of {len(seen)}"
        " glyphs"
    )
    train(model, x, y)
    # The held-out glyphs are looked at once, after training: nothing was chosen by this number.
    x, y = crops(images[held_out], labels[held_out], 2000, SEED + 2)
    with torch.no_grad():
        print(f"held out: {100 * (model(x).argmax(1) == y).float().mean():.2f} % right")
    path = HERE / "digits.onnx"
    path.write_bytes(to_onnx(model).SerializeToString())
    print(f"wrote {path.name}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
