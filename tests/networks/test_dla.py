"""Which layers a DLA takes through TensorRT: each rule at its limit and just above, whole networks,
runs and tables."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.networks.accelerators.breaches import Breach, LegalRun, Row, legal_runs, summary
from flowc.networks.dla.limits import GENERATIONS, OFFERED, Version
from flowc.networks.dla.rules import breaches
from flowc.networks.onnx.cuts import read_chain
from flowc.networks.onnx.interface import NetworkError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
N = helper.make_node
X = (1, 4, 8, 8)
NOT_OFFERED = "not offered by TensorRT for a DLA"


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[object]],
    constants: Mapping[str, np.ndarray] = {},
    opset: int = 17,
    kinds: Mapping[str, int] = {},
) -> Path:
    """A model whose outputs are the tensors without readers."""
    read = {t for n in nodes for t in n.input}
    outs = [t for n in nodes for t in n.output if t and t not in read]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [
            helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), d)
            for n, d in inputs.items()
        ],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path
    )
    return path


def check(
    path: Path, generation: str = "orin", tensorrt: Version = (10, 3), precision: str = "fp16"
) -> tuple[Breach, ...]:
    return breaches(
        path, generation=GENERATIONS[generation], tensorrt=tensorrt, precision=precision
    )


def verdict(
    node: onnx.NodeProto,
    shapes: Mapping[str, Sequence[int]],
    constants: Mapping[str, np.ndarray] = {},
    opset: int = 17,
    kinds: Mapping[str, int] = {},
    **target: object,
) -> list[tuple[str, str]]:
    """Rules and details of a network of one layer."""
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "one.onnx", [node], shapes, constants, opset, kinds)
        found = check(path, **target)  # type: ignore[arg-type]
    assert all((b.layer, b.op) == (node.output[0], node.op_type) for b in found)
    return [(b.rule, b.detail) for b in found]


def conv(
    size: int = 40, weights: tuple[int, ...] = (4, 4, 3, 3), op: str = "Conv", **more: object
) -> list[str]:
    shapes = {"x": (1, weights[0] if op == "ConvTranspose" else 4, size, size)}
    found = verdict(N(op, ["x", "w"], ["y"], **more), shapes, {"w": zeros(*weights)})
    return [f"{rule}: {detail}" for rule, detail in found]


@pytest.mark.parametrize(
    ("legal", "illegal", "rule"),
    [
        ({"weights": (4, 4, 32, 32)}, {"weights": (4, 4, 33, 33)}, "kernel 1 to 32: kernel 33x33"),
        ({"weights": (4, 4, 1, 32)}, {"weights": (4, 4, 1, 33)}, "kernel 1 to 32: kernel 1x33"),
        ({"strides": [8, 8]}, {"strides": [8, 9]}, "stride 1 to 8: stride 8x9"),
        (
            {"weights": (4, 4, 32, 32), "pads": [31] * 4},
            {"weights": (4, 4, 32, 32), "pads": [0, 0, 0, 32]},
            "padding 0 to 31: padding 0x32",
        ),
        (
            {"pads": [2, 2, 2, 2]},
            {"pads": [0, 0, 3, 0]},
            "padding below the kernel: padding 3x0, kernel 3x3",
        ),
        (
            {"size": 80, "dilations": [32, 32]},
            {"size": 80, "dilations": [33, 1]},
            "dilation 1 to 32: dilation 33x1",
        ),
        (
            {"weights": (8192, 4, 1, 1)},
            {"weights": (8193, 4, 1, 1)},
            "dimension 1 to 8192: dimension 8193",
        ),
        (
            {"auto_pad": "SAME_UPPER", "dilations": [2, 2]},
            {"auto_pad": "SAME_LOWER", "dilations": [3, 3]},
            "padding below the kernel: padding 3x3, kernel 3x3",
        ),
    ],
)
def test_convolution(legal: dict[str, object], illegal: dict[str, object], rule: str) -> None:
    assert conv(**legal) == []  # type: ignore[arg-type]
    assert rule in conv(**illegal)  # type: ignore[arg-type]


def test_convolution_with_groups_or_without_padding() -> None:
    assert conv(weights=(8, 1, 3, 3), group=4) == []
    assert conv(auto_pad="VALID") == []


def test_convolution_of_other_than_two_dimensions() -> None:
    node = N("Conv", ["x", "w"], ["y"])
    assert verdict(node, {"x": (1, 4, 8)}, {"w": zeros(4, 4, 3)}) == [
        ("4 dimensions", "3 to 3 dimensions")
    ]
    assert (
        verdict(node, {"x": (1, 4, 8, 8, 8)}, {"w": zeros(4, 4, 3, 3, 3)})[0][0] == "4 dimensions"
    )


def test_weights_that_are_computed() -> None:
    node = N("Conv", ["x", "w"], ["y"])
    assert verdict(node, {"x": X, "w": (4, 4, 3, 3)}) == [("weights constant", "`w` is computed")]


@pytest.mark.parametrize(
    ("legal", "illegal", "rule"),
    [
        ({"weights": (4, 4, 32, 1)}, {"weights": (4, 4, 33, 1)}, "kernel 1 to 32: kernel 33x1"),
        ({"strides": [32, 32]}, {"strides": [33, 32]}, "stride 1 to 32: stride 33x32"),
        ({"pads": [0] * 4}, {"pads": [1, 1, 1, 1]}, "no padding: 2x2 rows and columns cut off"),
        (
            {"auto_pad": "VALID", "strides": [3, 3]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            "no padding: 1x1 rows and columns cut off",
        ),
        (
            {"strides": [2, 2]},
            {"strides": [2, 2], "output_padding": [1, 0]},
            "no output padding: output padding 1x0",
        ),
        ({"dilations": [1, 1]}, {"dilations": [2, 1]}, "no dilation: dilation 2x1"),
        ({"group": 1}, {"group": 2}, "one group: 2 groups"),
    ],
)
def test_transposed_convolution(
    legal: dict[str, object], illegal: dict[str, object], rule: str
) -> None:
    assert conv(5, op="ConvTranspose", **{"weights": (4, 4, 3, 3), **legal}) == []  # type: ignore[arg-type]
    assert conv(5, op="ConvTranspose", **{"weights": (4, 4, 3, 3), **illegal}) == [rule]  # type: ignore[arg-type]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools(op: str) -> None:
    def pool(**more: object) -> list[tuple[str, str]]:
        return verdict(N(op, ["x"], ["y"], **more), {"x": (1, 4, 40, 40)})

    assert pool(kernel_shape=[8, 8], strides=[16, 16], pads=[7, 7, 7, 7]) == []
    assert pool(kernel_shape=[8, 9]) == [("kernel 1 to 8", "kernel 8x9")]
    assert pool(kernel_shape=[2, 2], strides=[17, 1]) == [("stride 1 to 16", "stride 17x1")]
    assert ("padding 0 to 7", "padding 8x0") in pool(kernel_shape=[9, 1], pads=[8, 0, 0, 0])


def test_pools_that_no_pool_of_tensorrt_is() -> None:
    pool = N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 1])
    assert verdict(pool, {"x": X}) == [("no dilation", "dilation 2x1")]
    pool = N("MaxPool", ["x"], ["y", "places"], kernel_shape=[2, 2])
    found = verdict(pool, {"x": X}, kinds={"places": TensorProto.INT64})
    assert ("one output", "2 outputs") in found
    assert ("data in fp16 or int8", "int64") in found


def test_averages_on_xavier_count_their_padding() -> None:
    def average(**more: object) -> list[tuple[str, str]]:
        node = N("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], **more)
        assert verdict(node, {"x": X}) == []
        return verdict(node, {"x": X}, generation="xavier", tensorrt=(8, 5))

    assert average() == average(pads=[1, 1, 1, 1], count_include_pad=1) == []
    assert average(pads=[1, 1, 1, 1]) == [("padding counted in averages", "count_include_pad 0")]


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Abs"])
def test_activations(op: str) -> None:
    node = N(op, ["x"], ["y"])
    for shape in (X, (1, 4), (1, 4, 8)):
        assert verdict(node, {"x": shape}) == verdict(node, {"x": shape}, precision="int8") == []
    assert verdict(node, {"x": (1, 4, 8, 8, 8)}) == [("at most 4 dimensions", "5 to 5 dimensions")]


def test_clip() -> None:
    def clip(**ends: float) -> list[tuple[str, str]]:
        names = [n if n in ends else "" for n in ("min", "max")]
        node = N("Clip", ["x", *names], ["y"])
        return verdict(node, {"x": X}, {n: np.array(v, np.float32) for n, v in ends.items()})

    rule = "clip from 0 to at most 127"
    assert clip(min=0, max=6) == clip(min=0, max=127) == []
    assert clip(min=0, max=128) == [(rule, "clip from 0 to 128")]
    assert clip(min=-1, max=1) == [(rule, "clip from -1 to 1")]
    assert clip(min=0) == [(rule, "clip from 0 to unknown")]
    assert verdict(N("Clip", ["x"], ["y"], min=0.0, max=6.0), {"x": X}, opset=6) == []


def test_slope_of_prelu() -> None:
    node = N("PRelu", ["x", "s"], ["y"])
    assert verdict(node, {"x": X}, {"s": zeros(4, 1, 1)}) == []
    assert verdict(node, {"x": X, "s": (4, 1, 1)}) == [("weights constant", "`s` is computed")]


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min"])
def test_operands(op: str) -> None:
    node = N(op, ["x", "z"], ["y"])
    for shape in (X, (1, 4, 1, 1), (1, 1, 1, 1)):
        assert verdict(node, {"x": X, "z": shape}) == []
    assert verdict(node, {"x": X, "z": (1, 1, 8, 8)}) == [
        ("operands NCHW, NC11 or N111", "1x1x8x8 for 1x4x8x8")
    ]
    for constant in (zeros(), zeros(4, 1, 1), zeros(4, 8, 8), zeros(1, 4, 1, 1)):
        assert verdict(node, {"x": (2, 4, 8, 8)}, {"z": constant}) == []
    assert verdict(node, {"x": (2, 4)}, {"z": zeros(4)}) == []
    assert verdict(node, {"x": (2, 4, 8, 8)}, {"z": zeros(8)}) == [
        ("operands NCHW, NC11 or N111", "8 for 2x4x8x8"),
    ]


def test_a_constant_that_comes_first(tmp_path: Path) -> None:
    one = N("Constant", [], ["one"], value=numpy_helper.from_array(zeros()))
    nodes = [one, N("Identity", ["one"], ["two"]), N("Sub", ["two", "x"], ["y"])]
    assert check(save(tmp_path / "c.onnx", nodes, {"x": X})) == ()


def test_division_and_power_in_int8() -> None:
    int8: dict[str, object] = {"precision": "int8"}
    assert verdict(N("Div", ["x", "z"], ["y"]), {"x": X, "z": X}, **int8) == []
    assert verdict(N("Div", ["x", "z"], ["y"]), {"x": X, "z": X}) == [("int8 only", "fp16")]
    power = N("Pow", ["x", "z"], ["y"])
    assert verdict(power, {"x": X}, {"z": zeros()}, **int8) == []
    assert verdict(power, {"x": X, "z": X}, **int8) == [
        ("one constant operand", "no constant operand")
    ]


def test_comparisons_go_to_a_cast_in_int8(tmp_path: Path) -> None:
    nodes = [N("Greater", ["x", "z"], ["b"]), N("Cast", ["b"], ["y"], to=TensorProto.FLOAT)]
    path = save(tmp_path / "c.onnx", nodes, {"x": X, "z": X})
    assert check(path, precision="int8") == ()
    assert [b.rule for b in check(path)] == ["int8 only"]
    path = save(tmp_path / "d.onnx", nodes[:1], {"x": X, "z": X}, kinds={"b": TensorProto.BOOL})
    assert check(path, precision="int8") == (
        Breach("b", "Greater", "result for a Cast alone", "read by an output"),
    )
    path = save(
        tmp_path / "e.onnx",
        [N("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)],
        {"x": X},
        kinds={"y": 10},
    )
    assert [b.rule for b in check(path)] == [NOT_OFFERED]


def test_concatenation() -> None:
    def concat(axis: int, shape: tuple[int, ...] = X) -> list[tuple[str, str]]:
        return verdict(N("Concat", ["x", "z"], ["y"], axis=axis), {"x": shape, "z": shape})

    assert concat(1) == concat(-3) == []
    assert concat(2) == concat(-2) == [("concatenation on channels only", "axis 2")]
    assert concat(1, (1, 4, 8)) == [("4 dimensions", "3 to 3 dimensions")]


def resize(scales: Sequence[float], **more: object) -> list[tuple[str, str]]:
    return verdict(
        N("Resize", ["x", "", "s"], ["y"], **more), {"x": X}, {"s": np.array(scales, np.float32)}
    )


NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
WORDS = "coordinates asymmetric with floor, or half_pixel"


def test_resize() -> None:
    assert resize([1, 1, 2, 32], **NEAREST) == resize([1, 1, 1, 4], mode="linear") == []
    assert resize([1, 1, 33, 1], **NEAREST) == [("nearest scale 1 to 32", "scale 33x1")]
    assert resize([1, 1, 1, 5], mode="linear") == [("linear scale 1 to 4", "scale 1x5")]
    assert resize([1, 1, 2.5, 2], **NEAREST) == [("nearest scale 1 to 32", "scale 5/2x2")]
    assert resize([1, 1, 0.5, 1], **NEAREST) == [("nearest scale 1 to 32", "scale 1/2x1")]
    assert resize([1, 2, 2, 2], **NEAREST) == [("batch and channels not resized", "scale 1x2")]
    assert resize([1, 1, 2, 2], mode="cubic") == [("nearest or linear", "cubic")]
    assert resize([1, 1, 2, 2]) == []
    assert resize([1, 1, 2, 2], nearest_mode="ceil") == [(WORDS, "nearest half_pixel ceil")]
    assert (
        resize([1, 1, 2, 2], mode="linear", coordinate_transformation_mode="align_corners")[0][0]
        == WORDS
    )


def test_upsample() -> None:
    scales = {"s": np.array([1, 1, 2, 2], np.float32)}
    assert verdict(N("Upsample", ["x", "s"], ["y"]), {"x": X}, scales, opset=9) == []
    found = verdict(N("Upsample", ["x", "s"], ["y"], mode="linear"), {"x": X}, scales, opset=9)
    assert found == [(WORDS, "linear asymmetric")]


def test_softmax() -> None:
    def softmax(shape: tuple[int, ...], axis: int, opset: int = 17) -> list[str]:
        node = N("Softmax", ["x"], ["y"], axis=axis)
        return [detail for _, detail in verdict(node, {"x": shape}, opset=opset)]

    assert (
        softmax((4, 1024, 2, 1), 1) == softmax((4, 8192, 1, 1), 1) == softmax((2, 8192), -1) == []
    )
    assert softmax((4, 1025, 2, 1), 1) == ["1025 along axis 1"]
    assert softmax((4, 2, 1, 1025), -1) == ["1025 along axis 3"]
    assert softmax(X, 0) == ["axis 0"]
    assert softmax((1, 64, 8, 8), 1, opset=11) == []  # everything is one vector
    node = N("Softmax", ["x"], ["y"])
    assert verdict(node, {"x": X}, generation="xavier", tensorrt=(8, 5)) == [
        (NOT_OFFERED, "not on xavier")
    ]


@pytest.mark.parametrize("window", range(1, 12))
def test_windows_of_lrn(window: int) -> None:
    found = verdict(N("LRN", ["x"], ["y"], size=window), {"x": X})
    assert found == ([] if window in (3, 5, 7, 9) else [("window 3, 5, 7, 9", f"window {window}")])


def test_matrices() -> None:
    gemm, product = N("Gemm", ["x", "w"], ["y"], transB=1), N("MatMul", ["x", "w"], ["y"])
    assert verdict(gemm, {"x": (2, 4)}, {"w": zeros(3, 4)}) == []
    assert verdict(product, {"x": (2, 4)}, {"w": zeros(4, 3)}) == []
    assert verdict(product, {"x": (2, 4), "w": (4, 3)}) == [("weights constant", "`w` is computed")]
    assert verdict(product, {"x": (2, 5, 4)}, {"w": zeros(4, 3)})[0][1] == "3 and 2 dimensions"
    assert verdict(gemm, {"x": (2, 8193)}, {"w": zeros(3, 8193)}) == [
        ("dimension 1 to 8192", "dimension 8193")
    ]
    across = N("Gemm", ["x", "w"], ["y"], transA=1)
    assert verdict(across, {"x": (4, 2)}, {"w": zeros(4, 3)}) == [
        ("first operand not transposed", "transA 1")
    ]


def test_batch_normalization() -> None:
    node = N("BatchNormalization", ["x", *"abcd"], ["y"])
    constants = {n: zeros(4) for n in "abcd"}
    assert verdict(node, {"x": X}, constants) == []
    del constants["c"]
    assert verdict(node, {"x": X, "c": (4,)}, constants) == [
        ("weights constant", "`c` is computed")
    ]
    node = N("BatchNormalization", ["x", *"abcd"], ["y", "m", "v"], training_mode=1)
    found = verdict(node, {"x": X}, {n: zeros(4) for n in "abcd"})
    assert ("statistics of the training", "training_mode 1") in found


def test_slices() -> None:
    def cut(start: int, end: int, axis: int, **target: object) -> list[tuple[str, str]]:
        constants = {"s": ints(start), "e": ints(end), "a": ints(axis)}
        return verdict(
            N("Slice", ["x", "s", "e", "a"], ["y"]), {"x": (2, 4, 8, 8)}, constants, **target
        )

    assert cut(0, 2, 1) == cut(1, 5, -1) == []
    assert cut(0, 1, 0) == [("batch not sliced", "1 of 2")]
    assert cut(0, 2, 1, precision="int8") == [("fp16 only", "int8")]
    assert cut(0, 2, 1, tensorrt=(8, 4)) == [(NOT_OFFERED, "from TensorRT 8.5 on")]
    assert verdict(N("Split", ["x"], ["y", "z"], axis=1), {"x": X}) == []
    assert verdict(N("Split", ["x"], ["y", "z"], axis=0), {"x": (2, 4, 8, 8)}) == [
        ("batch not sliced", "1 of 2")
    ]


def test_shapes_that_are_computed() -> None:
    node = N("Slice", ["x", "s", "e"], ["y"])
    kinds = {"s": TensorProto.INT64, "e": TensorProto.INT64}
    found = verdict(node, {"x": X, "s": (4,), "e": (4,)}, kinds=kinds)
    assert found == [("static shapes", "`y` has no fixed shape")]


def test_reshape_and_transpose(tmp_path: Path) -> None:
    def reshape(*shape: int) -> list[tuple[str, str]]:
        return verdict(N("Reshape", ["x", "s"], ["y"]), {"x": (2, 4, 8, 8)}, {"s": ints(*shape)})

    assert reshape(2, 8, 4, 8) == []
    assert reshape(1, 8, 8, 8) == [("batch not reshaped", "2 to 1")]
    assert reshape(2, -1) == [("4 dimensions", "4 to 2 dimensions")]
    assert verdict(N("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]), {"x": X}) == []
    assert verdict(N("Transpose", ["x"], ["y"]), {"x": X}) == [
        ("batch not transposed", "order 3, 2, 1, 0")
    ]
    nodes = [N("Concat", ["x", "x"], ["c"], axis=1), N("Reshape", ["c", "s"], ["y"])]
    path = save(tmp_path / "near.onnx", nodes, {"x": X}, {"s": ints(1, 4, 16, 8)})
    rule = "reshape not next to slices and concatenations"
    assert check(path) == (Breach("y", "Reshape", rule, "next to Concat"),)


def test_maxima() -> None:
    def largest(axes: list[int], tensorrt: Version = (10, 3)) -> list[tuple[str, str]]:
        return verdict(N("ReduceMax", ["x"], ["y"], axes=axes), {"x": X}, tensorrt=tensorrt)

    assert largest([2, 3]) == largest([-1, 1]) == []
    assert largest([0, 1])[0][1] == "axes 0, 1"
    assert largest([2, 3], (8, 6)) == [(NOT_OFFERED, "from TensorRT 10.3 on")]
    assert verdict(N("ReduceMax", ["x"], ["y"]), {"x": X})[0][1] == "axes unknown or all"
    node = N("GlobalMaxPool", ["x"], ["y"])
    assert verdict(node, {"x": X}) == []
    assert verdict(node, {"x": X}, tensorrt=(8, 6)) == [(NOT_OFFERED, "from TensorRT 8.6.12 on")]


@pytest.mark.parametrize(
    "op",
    [
        *(
            "GlobalAveragePool",
            "ReduceMean",
            "Flatten",
            "HardSwish",
            "HardSigmoid",
            "Mish",
            "Elu",
            "Erf",
            "Exp",
        ),
        *("LogSoftmax", "Dropout", "Sqrt", "Softplus"),
    ],
)
def test_operators_that_are_not_offered(op: str) -> None:
    assert verdict(N(op, ["x"], ["y"]), {"x": X}, opset=18 if op == "Mish" else 17) == [
        (NOT_OFFERED, op)
    ]


def test_operators_that_can_be_rebuilt() -> None:
    found = verdict(N("DepthToSpace", ["x"], ["y"], blocksize=2), {"x": X})
    assert found == [(NOT_OFFERED, "can be rebuilt from other operators")]


def test_operators_from_elsewhere(tmp_path: Path) -> None:
    node = N("Relu", ["x"], ["y"], domain="strange")
    graph = helper.make_graph(
        [node, N("Relu", ["y"], ["z"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, X)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("strange", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "s.onnx")
    assert check(tmp_path / "s.onnx") == (
        Breach("y", "strange::Relu", NOT_OFFERED, "strange::Relu"),
        Breach("z", "Relu", "static shapes", "`y` has no fixed shape"),
    )


def test_quantized_networks_need_strong_typing(tmp_path: Path) -> None:
    constants = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    path = save(tmp_path / "q.onnx", nodes, {"x": X}, constants)
    assert check(path, tensorrt=(11, 4, 1), precision="int8") == ()
    assert [b.rule for b in check(path, precision="int8")] == [NOT_OFFERED] * 2


def test_batches() -> None:
    node = N("Relu", ["x"], ["y"])
    assert verdict(node, {"x": (4096, 1, 1, 1)}) == []
    assert verdict(node, {"x": (4097, 1, 1, 1)}) == [("batch 1 to 4096", "batch 4097")]
    assert verdict(node, {"x": (1, 1, 8192, 1)}) == []
    assert verdict(node, {"x": (1, 1, 8193, 1)}) == [("dimension 1 to 8192", "dimension 8193")]
    double = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    assert verdict(node, {"x": X}, kinds=double) == [("data in fp16 or int8", "float64")]


def test_dynamic_shapes_are_fixed_or_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "d.onnx", [N("Relu", ["x"], ["y"])], {"x": ["n", 4, "h", 8]})
    orin = GENERATIONS["orin"]
    with pytest.raises(NetworkError, match="not fixed"):
        check(path)
    shapes = {"x": (5000, 4, 8, 8)}
    (breach,) = breaches(path, shapes, generation=orin, tensorrt=(10, 3), precision="fp16")
    assert breach.rule == "batch 1 to 4096"
    assert not breaches(
        path, {"x": (7, 4, 8, 8)}, generation=orin, tensorrt=(10, 3), precision="fp16", batch=None
    )


@pytest.mark.parametrize(
    ("generation", "works", "fails"),
    [
        ("xavier", [(8, 0), (8, 5), (8, 5, 2)], [(7, 2), (8, 6), (10, 3)]),
        ("orin", [(8, 4), (8, 6), (10, 7, 0), (11, 4, 1)], [(8, 2), (10, 8), (11, 3), (11, 4, 0)]),
    ],
)
def test_tensorrt_that_knows_the_dla(
    generation: str, works: list[Version], fails: list[Version]
) -> None:
    assert all(GENERATIONS[generation].works_with(v) for v in works)
    assert not any(GENERATIONS[generation].works_with(v) for v in fails)
    with pytest.raises(ValueError, match=f"has no DLA of {generation}"):
        check(LIGHT / "light_resnet50.onnx", generation, fails[0])


def test_precisions() -> None:
    with pytest.raises(ValueError, match="fp16 or int8, not in fp32"):
        check(LIGHT / "light_resnet50.onnx", precision="fp32")


def test_an_ordinary_tail_leaves_the_dla(tmp_path: Path) -> None:
    nodes = [
        N("Conv", ["x", "k"], ["a"]),
        N("Relu", ["a"], ["b"]),
        N("GlobalAveragePool", ["b"], ["c"]),
        N("Flatten", ["c"], ["d"]),
        N("Gemm", ["d", "w"], ["e"]),
    ]
    path = save(tmp_path / "tail.onnx", nodes, {"x": X}, {"k": zeros(4, 4, 3, 3), "w": zeros(4, 3)})
    found = check(path)
    assert [(b.layer, b.rule) for b in found] == [("c", NOT_OFFERED), ("d", NOT_OFFERED)]
    assert legal_runs("abcde", found) == (LegalRun("a", "b", 2), LegalRun("e", "e", 1))


def test_shape_arithmetic_is_no_layer(tmp_path: Path) -> None:
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "first"], ["batch"]),
        N("Concat", ["batch", "rest"], ["target"], axis=0),
        N("Reshape", ["x", "target"], ["y"]),
    ]
    path = save(tmp_path / "s.onnx", nodes, {"x": X}, {"first": ints(0), "rest": ints(8, 4, 8)})
    assert check(path) == ()


def test_networks() -> None:
    """ResNet-50 runs up to its Reshape; the channel shuffles of ShuffleNet cut it into pieces."""
    path = LIGHT / "light_resnet50.onnx"
    names = [x.name for x in read_chain(path).layers]
    found = check(path)
    assert summary(found) == (Row("Reshape", 1, "4 dimensions", "r173"),)
    assert legal_runs(names, found)[0] == LegalRun(names[0], names[172], 173)
    assert len(names) == 176
    path = LIGHT / "light_shufflenet.onnx"
    found = check(path)
    assert summary(found)[0] == Row("Reshape", 33, "4 dimensions", "r7, r9, r20 and 30 more")
    assert legal_runs([x.name for x in read_chain(path).layers], found)[0].count < 12


def test_table() -> None:
    found = [
        Breach("a", "Pad", "r", ""),
        *(Breach(n, "Exp", "r", "") for n in "bcde"),
        Breach("f", "Exp", "s", ""),
    ]
    rows = (Row("Exp", 4, "r", "b, c and 2 more"), Row("Pad", 1, "r", "a"), Row("Exp", 1, "s", "f"))
    assert summary(found, shown=2) == rows
    assert summary(found, shown=4)[0].layers == "b, c, d, e"
    assert summary([]) == ()


def test_every_operator_is_standard() -> None:
    assert set(OFFERED) <= {
        schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain
    }


CHAINED = {
    "Relu": True,
    "Sigmoid": True,
    "Exp": False,
    "Erf": False,
    "LRN": True,
    "Identity": False,
}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(sorted(CHAINED)), min_size=1, max_size=12))
def test_runs_cover_all_legal_layers(operators: list[str]) -> None:
    nodes = [
        N(op, [f"t{k}" if k else "x"], [f"t{k + 1}"], **({"size": 5} if op == "LRN" else {}))
        for k, op in enumerate(operators)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "chain.onnx", nodes, {"x": X})
        names = [x.name for x in read_chain(path).layers]
        found = check(path)
    illegal = {b.layer for b in found}
    assert illegal == {n for n, op in zip(names, operators, strict=True) if not CHAINED[op]}
    runs = legal_runs(names, found)
    inside = [names[names.index(r.first) : names.index(r.last) + 1] for r in runs]
    assert (
        [len(i) for i in inside]
        == [r.count for r in runs]
        == sorted((r.count for r in runs), reverse=True)
    )
    covered = [n for i in inside for n in i]
    assert sorted(covered) == sorted(set(names) - illegal)
    assert not illegal & set(covered)
    for run in runs:  # none can be longer
        before, after = names.index(run.first) - 1, names.index(run.last) + 1
        assert before < 0 or names[before] in illegal
        assert after == len(names) or names[after] in illegal
