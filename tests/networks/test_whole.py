"""What a network takes whole is what malloc counts: of sums, skips, scaled images, 8 bits and dead
ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.networks.bands.net import read_net
from flowc.networks.onnx.executed import ExecutedNode, held, order
from flowc.networks.onnx.memory import by_layers, needs_of
from flowc.networks.onnx.own_graph import block_here
from flowc.networks.onnx.whole import whole_of
from flowc.runtime import memory
from onnx import numpy_helper

from forks import PROGRAM, forks
from grown import WINDOW, Built, residual, unet
from models import N


def element_wise() -> onnx.ModelProto:
    """Nothing works in place but activations."""
    b = Built(24)
    x = b.add("AveragePool", "x", **WINDOW)
    for op in ("Add", "Mul", "Sub"):
        x = b.add(op, x, b.weight(1, 24, 1, 1))
    x = b.add("Exp", b.add("Sigmoid", x))
    return b.model(b.add("AveragePool", x, **WINDOW))


def parted() -> onnx.ModelProto:
    """A layer with two results, one without readers, and a layer that leads nowhere."""
    b = Built()
    x = b.conv("x", 3, 32)
    b.nodes.append(N("Split", [x], ["left", "right"], axis=1))
    b.add("Exp", "left")
    return b.model(b.conv(b.add("Mul", b.add("Sigmoid", "left"), "right"), 16, 8))


def normalized() -> onnx.ModelProto:
    """Local response normalization, and a convolution with 17 channels, which has no blocks."""
    b = Built()
    x = b.add("LRN", b.conv("x", 3, 16), size=5)
    one = b.conv(x, 16, 1)
    return b.model(b.conv(b.add("Concat", x, one, axis=1), 17, 4))


def in_8_bits() -> onnx.ModelProto:
    """Convolutions between conversions: rows are laid out for some, and sums of 32 bits."""
    b = Built()
    for name, dtype, value in (
        ("scale", np.float32, 0.05),
        ("zero", np.uint8, 128),
        ("none", np.int8, 0),
    ):
        b.weights.append(numpy_helper.from_array(np.array(value, dtype), name))

    def wrapped(x: str) -> str:
        return b.add(
            "DequantizeLinear", b.add("QuantizeLinear", x, "scale", "zero"), "scale", "zero"
        )

    x = wrapped("x")
    for channels, filters in ((3, 16), (16, 16), (16, 8), (8, 32)):
        weights = b.weight(filters, channels, 3, 3)
        b.weights[-1].CopyFrom(
            numpy_helper.from_array(
                b.rng.integers(-9, 9, (filters, channels, 3, 3)).astype(np.int8), weights
            )
        )
        x = wrapped(b.add("Conv", x, b.add("DequantizeLinear", weights, "scale", "none"), **WINDOW))
    return b.model(x)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "residual": residual,
    "unet": unet,
    "element_wise": element_wise,
    "parted": parted,
    "normalized": normalized,
    "in_8_bits": in_8_bits,
}

COUNT = """
import json, sys
from flowc.runtime import memory
from flowc.runtime.code import session

taken = []
for path in sys.argv[1:]:
    opened = session(path, 1, False)
    (run,) = memory.LoadedSession(opened, own=True).rehearsals(0)
    run.run(True)
    run.run(True)
    before = memory._heap()
    run.run(False)
    run.run(False)
    taken.append(memory._heap() - before)
    run.run(True)
    del opened, run
print(json.dumps(taken))
"""


def test_malloc_counts_what_is_planned(tmp_path: Path) -> None:
    """Within 3 %, and a kernel's part of a matrix: ONNX Runtime's own graph tells what it takes."""
    if not memory._heap() or not block_here():
        pytest.skip("no count of the heap, or kernels are others")
    (tmp_path / "count.py").write_text(COUNT)
    paths = []
    for name, make in NETWORKS.items():
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(make(), paths[-1])
    done = forks(*PROGRAM).run([tmp_path / "count.py", *paths], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    for path, taken in zip(paths, json.loads(done.stdout), strict=True):
        whole = whole_of(onnx.load(path))
        assert whole is not None, path.stem
        assert abs(whole.block - taken) <= 0.03 * taken + 70_000, (path.stem, whole.block, taken)


def test_layers_alone_do_not_tell(tmp_path: Path) -> None:
    """Of sums they say too much, of skips that fill no blocks too little: the reason for asking
    ONNX Runtime."""
    if not block_here():
        pytest.skip("there are no blocks")
    ratios = []
    for make in (residual, unet):
        onnx.save(make(), tmp_path / "net.onnx")
        net = read_net(tmp_path / "net.onnx")
        ratios.append(
            by_layers(net.chain, net.model).block / needs_of(net.chain, net.model, net.folder).block
        )
    assert ratios[0] > 1.2 and ratios[1] < 0.8


def test_what_is_not_understood_is_told_by_the_layers(tmp_path: Path) -> None:
    """An operator that ONNX Runtime does not have."""
    b = Built(4)
    b.nodes.append(N("Strange", [b.add("Exp", "x")], ["y"], domain="of.mine"))
    assert whole_of(b.model("y")) is None


def test_weights_outside_are_not_read(tmp_path: Path) -> None:
    """Zeros stand for what is large: the same answer with and without the file."""
    model = unet()
    onnx.save(model, tmp_path / "inside.onnx")
    onnx.save(
        model,
        tmp_path / "outside.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    inside, outside = (whole_of(onnx.load(tmp_path / f"{n}.onnx", load_external_data=False), tmp_path)
                       for n in ("inside", "outside"))  # fmt: skip
    assert inside == outside is not None


def test_order_and_lives_by_hand() -> None:
    """Later nodes go first. A result without readers stays, and does not keep other nodes from
    working in place."""
    reads, makes = [["x"], ["x"], ["a", "b"]], [["a"], ["b"], ["c"]]
    assert order(reads, makes, range(3)) == [1, 0, 2]
    assert order(reads, makes, [1, 0, 2]) == [0, 1, 2]

    def kernel(
        made: str, *reads: str, over: bool = False, own: tuple[int, ...] = ()
    ) -> ExecutedNode:
        return ExecutedNode(reads, made, 3200, (1, 800), reads if over else (), own=own)

    tensor = -(-3200 // 256) * 256
    chain = [kernel("a", "x"), kernel("b", "a"), kernel("c", "b"), kernel("y", "c")]
    assert held(chain, {"x", "y"}) == 2 * tensor * 33 // 32
    dead = [chain[0], kernel("left", "x"), *chain[1:]]
    assert held(dead, {"x", "y"}) == 3 * tensor * 33 // 32
    ended = [chain[0], kernel("left", "a", over=True), kernel("y", "x")]
    assert held(ended, {"x", "y"}) == tensor * 33 // 32
    alone = [
        kernel("a", "x", own=(256, 512)),
        kernel("b", "a", own=(512, 256)),
        kernel("y", "b", own=(1024,)),
    ]
    assert held(alone, {"x", "y"}) == (2 * tensor + 256 + 512 + 1024) * 33 // 32
