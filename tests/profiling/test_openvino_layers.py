"""Times of layers in OpenVINO."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from flowc.networks.onnx.cuts import read_chain
from flowc.profiling.openvino_layers import openvino_layer_times
from flowc.search.throughput.divisible import divisible, transfer_model
from flowc.search.throughput.problem import HOP_NS

from models import N, save, weights

pytestmark = pytest.mark.skipif(find_spec("openvino") is None, reason="there is no OpenVINO")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two convolutions with activations, and a pooling between them."""
    nodes = [
        N("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        N("Relu", ["a"], ["b"]),
        N("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Conv", ["c", "w"], ["d"], pads=[1, 1, 1, 1]),
        N("Relu", ["d"], ["y"]),
    ]
    kernels = {"v": weights(32, 16, 3, 3), "w": weights(32, 32, 3, 3)}
    save(tmp_path / "net.onnx", nodes, {"x": [1, 16, 64, 64]}, kernels, "y")
    return tmp_path / "net.onnx"


def test_kernels_count_to_the_first_layer_in_them(network: Path) -> None:
    times = openvino_layer_times(network, read_chain(network), "fp32", 0.05)
    assert [layer for layer, ns in times.mean_ns.items() if ns > 0] == ["a", "c", "d"]
    assert list(times.mean_ns) == ["a", "b", "c", "d", "y"]
    assert times.runs > 0
    assert times.overhead_ns >= 0


def test_a_cut_costs_what_lies_otherwise_inside_of_the_engine(network: Path) -> None:
    costs = divisible(read_chain(network), {}, transfer_model((), {}), cut_ns_per_byte=0.5).costs
    assert costs.transfer("cpu", "cpu", 1000) == HOP_NS + 500
