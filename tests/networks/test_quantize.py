"""Networks in 8 bits: what is lost, names of layers, cuts that change nothing, calibration data,
faults."""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import inf, prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flowc.networks.onnx.cuts import cut_points, read_chain
from flowc.networks.onnx.interface import Border, NetworkError, read_network
from flowc.networks.onnx.split import NoSuchLayer, split
from flowc.networks.quantization.calibration import calibration
from flowc.networks.quantization.quantize import QuantizationLoss, loss, quantize
from flowc.profiling.layers import layer_times
from flowc.runtime.session import opened
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from builds import ROOT
from cnns import IMAGE, NETWORKS, Sample, resnet, samples, squeezenet
from limits import HANGS
from models import LIGHT, N, model, random_model
from split_check import check_split


def made(
    path: Path, network: onnx.ModelProto, batch: int = 1
) -> tuple[Path, tuple[QuantizationLoss, ...]]:
    """The file of a network in 8 bits, and what it loses."""
    onnx.save(network, path)
    data = samples(path, batch=batch)
    result = path.with_name(f"int8.{path.name}")
    result.write_bytes(quantize(path, data))
    return result, loss(path, result.read_bytes(), data)


def kernels(path: Path) -> list[str]:
    """Operators that ONNX Runtime makes of a model."""

    def options() -> ort.SessionOptions:
        made = ort.SessionOptions()
        made.log_severity_level = 3
        made.optimized_model_filepath = str(path.with_suffix(".optimized"))
        return made

    opened(str(path), options)
    return [n.op_type for n in onnx.load(path.with_suffix(".optimized")).graph.node]


def cuts_are_exact(path: Path, batch: int = 1) -> None:
    """Every cut alone, and all at once."""
    after = [c.layer for c in cut_points(path, {}, batch)]
    for chosen in ([], after, *([a] for a in after)):
        assert check_split(path, split(path, {}, batch, chosen), 3, {}, batch) == 0, chosen


# -- whole networks --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_cuts_move_a_quarter_and_change_nothing(tmp_path: Path, name: str) -> None:
    path, (lost,) = made(tmp_path / "n.onnx", NETWORKS[name]())
    onnx.checker.check_model(onnx.load(path), full_check=True)
    # Weights are random: most of the scores is the same for all samples, and no signal.
    assert (lost.name, lost.decibels > 8, lost.largest < 0.02) == ("scores", True, True)
    whole = tmp_path / "n.onnx"
    before, after = read_network(whole, {}, None), read_network(path, {}, None)
    assert (before.inputs, before.outputs, before.opset) == (
        after.inputs,
        after.outputs,
        after.opset,
    )
    assert {"Conv", "Add", "Concat", "MaxPool", "GlobalAveragePool", "Gemm"}.isdisjoint(
        kernels(path)
    )

    chain = read_chain(path)
    assert sum(x.macs for x in chain.layers) == sum(x.macs for x in read_chain(whole).layers) > 0
    exact, coarse = cut_points(whole), {c.layer: c for c in cut_points(path)}
    assert [c.layer for c in exact] == [c for c in coarse if c in {c.layer for c in exact}]
    assert [c.bytes for c in exact] == [4 * coarse[c.layer].bytes for c in exact]
    assert {chain.tensors[t].dtype for c in coarse.values() for t in c.tensors} == {"uint8"}
    cuts_are_exact(path)


@pytest.mark.parametrize("name", NETWORKS)
def test_times_of_layers(tmp_path: Path, name: str) -> None:
    path, _ = made(tmp_path / "n.onnx", NETWORKS[name]())
    chain = read_chain(path)
    times = layer_times(path, chain, 0.02)
    read = {t for x in chain.layers for t in x.reads}
    for layer in chain.layers:
        kernel = layer.operator not in ("QuantizeLinear", "DequantizeLinear")
        border = not set(layer.reads).isdisjoint(chain.inputs) or layer.name not in read
        # What passes 8 bits on unchanged may be no kernel at all.
        assert layer.operator == "Flatten" or bool(times.mean_ns[layer.name]) == (
            kernel or border
        ), layer.name


def test_names_of_layers(tmp_path: Path) -> None:
    nodes = [
        N("Conv", ["image", "w"], ["a"]),
        N("BatchNormalization", ["a", "g", "g", "g", "g"], ["b"]),
        N("Relu", ["b"], ["c"]),
        N("Dropout", ["c"], ["d"]),
        N("Conv", ["d", "v"], ["e"]),
        N("Add", ["e", "d"], ["f"]),
        N("Relu", ["f"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    constants = {
        k: rng.uniform(-1, 1, (4, n, 1, 1)).astype(np.float32) for k, n in {"w": 3, "v": 4}.items()
    }
    constants["g"] = np.full(4, 0.5, np.float32)
    path, _ = made(tmp_path / "n.onnx", model(nodes, IMAGE, constants, "y"))
    assert [x.name for x in read_chain(path).layers] == [
        *(
            "image.int8",
            "image.int8.1",
            "b",
            "c",
            "c.1",
            "e.float",
            "e",
            "e.1",
            "c.2",
            "f",
            "y.int8",
            "y",
        )
    ]
    assert [c.layer for c in cut_points(path)] == ["image.int8", "c", "e", "y.int8"]
    for gone in ("a", "d"):
        with pytest.raises(NoSuchLayer):
            split(path, {}, 1, [gone])
    for inside in ("b", "f"):
        assert check_split(path, split(path, {}, 1, [inside]), 1) < 0.02
    with pytest.raises(NoSuchLayer, match=r"did you mean `image.int8`"):
        split(path, {}, 1, ["image.int"])


def test_a_dynamic_batch_stays(tmp_path: Path) -> None:
    path, _ = made(tmp_path / "n.onnx", squeezenet())
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    three = np.concatenate([s["image"] for s in samples(tmp_path / "n.onnx", 3)])
    (together,) = session.run(None, {"image": three})
    assert np.array_equal(
        together, np.concatenate([session.run(None, {"image": x[None]})[0] for x in three])
    )
    assert check_split(path, split(path, {}, 3, ["concat9"]), 1, {}, 3) == 0


def test_same_bytes_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "n.onnx"
    onnx.save(resnet(), path)
    handlers, disabled = list(logging.root.handlers), logging.root.manager.disable
    (tmp_path / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "work"))
        first = quantize(path, samples(path))
    assert capfd.readouterr() == ("", "")
    assert (logging.root.handlers, logging.root.manager.disable) == (handlers, disabled)
    assert list((tmp_path / "work").iterdir()) == []
    code = (
        "import sys; sys.path[:0] = sys.argv[1:2]; from pathlib import Path; import cnns; from flowc.networks.quantization.quantize import quantize;"
        "path = Path(sys.argv[2]); sys.stdout.buffer.write(quantize(path, cnns.samples(path)))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "tests/support"), str(path)]
    again = subprocess.run(
        command,
        env={"PYTHONHASHSEED": "1", "PATH": ""},
        capture_output=True,
        check=True,
        timeout=HANGS,
    )
    assert again.stdout == first


# -- parts of networks -----------------------------------------------------------------------------


RNG = np.random.default_rng(11)
SQUARE = {"x": ["n", 4, 6, 6]}
CONSTANTS = {
    "w": RNG.normal(0, 0.5, (4, 4, 1, 1)).astype(np.float32),
    "m": RNG.normal(0, 0.5, (6, 6)).astype(np.float32),
    "k": RNG.normal(0, 0.5, (4, 1, 1)).astype(np.float32),
    "half": np.float32(0.5),
    "twice": np.float32([1, 1, 2, 2]),
}
PARTS: dict[str, tuple[list[onnx.NodeProto], str, str, str]] = {
    "an output that others read": (
        [N("Conv", ["x", "w"], ["a"]), N("Relu", ["a"], ["y"]), N("Conv", ["y", "w"], ["b"]), N("Add", ["b", "y"], ["z"])],
        "y z",
        "x.int8 y.int8 y b z.int8",
        "QLinearConv QLinearConv QLinearAdd",
    ),
    "an output that a rectifier reads": (
        [N("Conv", ["x", "w"], ["y"]), N("Relu", ["y"], ["a"]), N("Conv", ["a", "w"], ["z"])],
        "y z",
        "x.int8 y.int8 y a z.int8",
        "QLinearConv QLinearConv",
    ),
    "an input that is an output": (
        [N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "x"], ["y"])],
        "y x",
        "x.int8 a y.int8",
        "QLinearConv QLinearAdd",
    ),
    "read twice by one layer": (
        [N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "a"], ["b"]), N("Sum", ["b", "a"], ["y"])],
        "y",
        "x.int8 a b y.int8",
        "QLinearConv QLinearAdd QLinearAdd",
    ),
    "several outputs of a layer": (
        [N("Conv", ["x", "w"], ["a"]), N("Split", ["a"], ["b", "c"], axis=1), N("Mul", ["b", "c"], ["y"])],
        "y",
        "x.int8 a c y.int8",
        "QLinearConv Split QLinearMul",
    ),
    "a swish, and what only floating point has": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("Sigmoid", ["a"], ["b"]),
            N("Mul", ["a", "b"], ["c"]),
            N("Exp", ["c"], ["d"]),
            N("Conv", ["d", "w"], ["y"]),
        ],
        "y",
        "x.int8 a b c d y.int8",
        "QLinearConv QLinearSigmoid QLinearMul Exp QLinearConv",
    ),
    "constants of channels": (
        [N("MaxPool", ["x"], ["a"], kernel_shape=[1, 1]), N("Conv", ["a", "w"], ["b"]), N("Relu", ["b"], ["c"]),
         N("Mul", ["c", "k"], ["d"]), N("Mul", ["c", "half"], ["e"]), N("Add", ["d", "e"], ["y"])],
        "y",
        "a c d e y.int8",
        "MaxPool QLinearConv Mul QLinearMul QLinearAdd",
    ),
    "a sum at the end": (
        [N("MatMul", ["x", "m"], ["a"]), N("MatMul", ["a", "m"], ["y"]), N("Softmax", ["y"], ["z"])],
        "y z",
        "x.int8 a y",
        "QLinearMatMul MatMulIntegerToFloat Softmax",
    ),
    "a sum and a rectifier at the end": (
        [N("MatMul", ["x", "m"], ["a"]), N("Relu", ["a"], ["y"])],
        "y",
        "x.int8 y.int8",
        "QLinearMatMul",
    ),
    "enlarged and leaky": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("LeakyRelu", ["a"], ["b"]),
            N("Resize", ["b", "", "twice"], ["y"], mode="nearest"),
        ],
        "y",
        "x.int8 a b y.int8",
        "QLinearConv QLinearLeakyRelu Resize",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_networks(tmp_path: Path, case: str) -> None:
    nodes, outs, cuts, expected = PARTS[case]
    path, lost = made(tmp_path / "n.onnx", model(nodes, SQUARE, CONSTANTS, outs), batch=2)
    assert [c.layer for c in cut_points(path, {}, 2)] == cuts.split()
    # How conversions, layouts and what is only a range are optimized away differs.
    free = {"QuantizeLinear", "DequantizeLinear", "Transpose", "Relu"}
    assert sorted(k for k in kernels(path) if k not in free) == sorted(expected.split())
    assert [x.name for x in lost] == outs.split() and min(x.decibels for x in lost) > 25
    cuts_are_exact(path, 2)


def test_a_head_of_boxes_and_scores_keeps_its_scores(tmp_path: Path) -> None:
    """With one scale for boxes up to hundreds and scores up to 1, no score would be left."""
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.normal(0, 0.3, (16, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(0, 0.3, (4, 16, 1, 1)).astype(np.float32),
        "c": rng.normal(0, 0.3, (6, 16, 1, 1)).astype(np.float32),
        "stride": np.full((1, 4, 1), 320, np.float32),
        "flat4": np.int64([1, 4, 64]),
        "flat6": np.int64([1, 6, 64]),
    }
    nodes = [
        N("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]),
        N("Relu", ["h"], ["r"]),
        N("Conv", ["r", "b"], ["b0"]),
        N("Reshape", ["b0", "flat4"], ["b1"]),
        N("Mul", ["b1", "stride"], ["boxes"]),
        N("Conv", ["r", "c"], ["c0"]),
        N("Reshape", ["c0", "flat6"], ["c1"]),
        N("Sigmoid", ["c1"], ["scores"]),
        N("Concat", ["boxes", "scores"], ["y"], axis=1),
    ]
    path, lost = made(tmp_path / "head.onnx", model(nodes, {"x": [1, 3, 8, 8]}, constants, "y"))
    assert [x.name for x in lost] == ["y[:, 0:4]", "y[:, 4:10]"]
    assert min(x.decibels for x in lost) > 10
    graph = onnx.load(path).graph
    assert {n.op_type for n in graph.node if n.name in ("boxes", "scores", "y")} == {
        "Mul",
        "Sigmoid",
        "Concat",
    }
    assert any(n.op_type == "QuantizeLinear" for n in graph.node)


def test_a_sum_goes_beyond_what_was_seen(tmp_path: Path) -> None:
    path, _ = made(
        tmp_path / "n.onnx", model([N("MatMul", ["x", "m"], ["y"])], {"x": [1, 6]}, CONSTANTS, "y")
    )
    x = np.float32([[1, -1, 1, 1, -1, 1]])
    (found,) = opened(str(path), ort.SessionOptions).run(None, {"x": x})
    assert np.abs(found - x @ CONSTANTS["m"]).max() < 0.02


def test_models_quantized_elsewhere(tmp_path: Path) -> None:
    """What converts from 8 bits goes with its only reader, what converts to them with what it
    reads."""

    def pair(tensor: str) -> list[onnx.NodeProto]:
        coded = f"{tensor}q"
        return [
            N("QuantizeLinear", [tensor, "half", "zero"], [coded]),
            N("DequantizeLinear", [coded, "half", "zero"], [f"{tensor}d"]),
        ]

    nodes = [
        *pair("x"),
        *(N("Conv", ["xd", "w"], ["a"]), N("Relu", ["a"], ["b"]), *pair("b")),
        *(N("Conv", ["bd", "w"], ["c"]), *pair("c")),
        *(N("Neg", ["bd"], ["d"]), *pair("d")),
        N("Add", ["cd", "dd"], ["y"]),
    ]
    path = tmp_path / "n.onnx"
    onnx.save(model(nodes, SQUARE, {**CONSTANTS, "zero": np.uint8(9)}, "y"), path)  # type: ignore[dict-item]
    # None after `cq`: from the conversion of `cq` on, everything goes with the sum.
    assert [c.layer for c in cut_points(path)] == ["xq", "bq", "bd", "cq"]
    cuts_are_exact(path)


def test_other_operators(tmp_path: Path) -> None:
    """Types of what only ONNX Runtime knows are taken from the file."""
    nodes = [
        N("Conv", ["x", "w"], ["a"]),
        N("Gelu", ["a"], ["b"], domain="com.microsoft"),
        N("Conv", ["b", "w"], ["y"]),
    ]
    network = model(nodes, {"x": [1, 4, 6, 6]}, CONSTANTS, "y")
    network.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    network.graph.value_info.append(
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4, 6, 6])
    )
    network.metadata_props.add(key="k", value="v")
    network.model_version = 3
    path, _ = made(tmp_path / "n.onnx", network)
    assert kernels(path).count("QLinearConv") == 2
    assert [c.layer for c in cut_points(path)] == ["x.int8", "a", "b", "y.int8"]
    found = onnx.load(path)
    assert (found.model_version, found.metadata_props[0].value, len(found.opset_import)) == (
        3,
        "v",
        2,
    )


def test_old_files() -> None:
    """Operator set 9; weights are listed as inputs, and made by ConstantOfShape."""
    path = LIGHT / "light_squeezenet.onnx"
    found = onnx.load_from_string(quantize(path, samples(path, 1)))
    onnx.checker.check_model(found, full_check=True)
    assert ([v.name for v in found.graph.input], found.opset_import[0].version) == (["data_0"], 13)
    assert sum(n.op_type == "Conv" for n in found.graph.node) == 26


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10
    ),
    st.lists(st.integers(0, 9), max_size=2),
)
def test_random_models(plan: list[tuple[int, int, int]], outputs: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        network = random_model(plan, outputs)
        whole = Path(folder) / "n.onnx"
        if {n.op_type for n in network.graph.node}.isdisjoint(("Conv", "Add", "Concat")):
            return
        path, lost = made(whole, network, 2)
        assert max(x.largest for x in lost) < 0.2
        after = [c.layer for c in cut_points(path, {}, 2)]
        kept = {c.layer for c in cut_points(whole, {}, 2)} & set(after)
        assert [c.layer for c in cut_points(whole, {}, 2) if c.layer in kept] == [
            c for c in after if c in kept
        ]
        assert check_split(path, split(path, {}, 2, after), 1, {}, 2) == 0


# -- what is lost ----------------------------------------------------------------------------------


def test_what_is_lost(tmp_path: Path) -> None:
    def scaled(name: str, factor: float) -> Path:
        path = tmp_path / name
        constants = {"k": np.float32([factor, 1, 1]), "o": np.float32([0])}
        nodes = [
            N("Mul", ["x", "k"], ["scores"]),
            N("Mul", ["x", "o"], ["zero"]),
            N("Flatten", ["x"], ["map"], axis=0),
        ]
        onnx.save(
            model(
                nodes,
                {"x": [2, 3]},
                {k: np.asarray(v) for k, v in constants.items()},
                "scores zero map",
            ),
            path,
        )
        return path

    data = [{"x": np.float32([[3, 4, 0], [0, 1, 0]])}, {"x": np.float32([[0, 0, 0], [2, 1, 0]])}]
    found = loss(scaled("a.onnx", 1), scaled("b.onnx", 1.5).read_bytes(), data)
    assert [x.name for x in found] == ["scores", "zero", "map"]
    # Off by 1.5 and 1 among 3, 4, 1, 2, 1, whose square sum is 31, 14.5 of it around their mean; in
    # one row of four, 4.5 takes the place of 4.
    assert found[0].largest == pytest.approx(1.5 / 4) and found[0].rms == pytest.approx(
        (3.25 / 14.5) ** 0.5
    )
    assert found[0].same_best == 0.75 and found[0].decibels == pytest.approx(6.495, abs=0.001)
    assert (
        found[1:] == (QuantizationLoss("zero", 0, 0, 1), QuantizationLoss("map", 0, 0, 1))
        and found[1].decibels == inf
    )
    other = tmp_path / "c.onnx"
    onnx.save(model([N("Relu", ["x"], ["y"])], {"x": ["n", 2, 2]}, {}, "y"), tmp_path / "r.onnx")
    onnx.save(model([N("Abs", ["x"], ["y"])], {"x": ["n", 2, 2]}, {}, "y"), other)
    negative = [{"x": np.full((1, 2, 2), -1, np.float32)}]
    assert loss(tmp_path / "r.onnx", other.read_bytes(), negative) == (
        QuantizationLoss("y", inf, inf, None),
    )


# -- calibration data ------------------------------------------------------------------------------

ONE = [Border("x", "float32", (1, 2, 3))]
TWO = [*ONE, Border("i", "int64", (4,))]


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(prod(shape)).reshape(shape).astype(dtype)


def test_files_of_samples(tmp_path: Path) -> None:
    (tmp_path / "data" / "b").mkdir(parents=True)
    np.save(tmp_path / "data" / "b" / "one.npy", array(1, 2, 3, dtype="float64"))
    np.save(tmp_path / "data" / "along.npy", array(4, 2, 3))
    np.save(tmp_path / "data" / "ahead.npy", array(5, 1, 2, 3, dtype=">f4"))
    np.savez(tmp_path / "data" / "named.npz", x=array(1, 2, 3), y=array(9))
    np.save(tmp_path / "other.npy", array(7))
    found = calibration("data/**/*.np?", tmp_path, ONE)
    assert len(found) == 5 + 4 + 1 + 1
    assert {(k, v.dtype.str, v.shape) for s in found for k, v in s.items()} == {
        ("x", "<f4", (1, 2, 3))
    }
    firsts = [s["x"].flat[0] for s in found]
    assert firsts == [0, 6, 12, 18, 24, 0, 6, 12, 18, 0, 0]  # ahead, along, b/one, named


def test_files_for_several_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=array(3, 2, 3), i=array(3, 4, dtype="int64"))
    np.savez(tmp_path / "b.npz", x=array(1, 2, 3), i=array(4, dtype="int64"))
    found = calibration("*.npz", tmp_path, TWO)
    assert [(s["x"].shape, s["i"].tolist()) for s in found] == [
        *(((1, 2, 3), list(range(k, k + 4))) for k in (0, 4, 8, 0)),
    ]


class Pickled:
    """It must not be brought back."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (exec, ("raise SystemExit('it was run')",))


BAD: dict[str, tuple[Callable[[Path], object], list[Border], str, str]] = {
    "none": (
        lambda p: None,
        ONE,
        'no file matches "*.np?"',
        "patterns are relative to the .flow file",
    ),
    "shape": (
        lambda p: np.save(p / "a.npy", array(2, 1, 3)),
        ONE,
        "`a.npy` has shape [2, 1, 3], the network takes [1, 2, 3]",
        "several samples lie along one more axis in front",
    ),
    "scalar": (
        lambda p: np.save(p / "a.npy", array()),
        [Border("x", "float32", (1,))],
        "`a.npy` has shape [], the network takes [1]",
        "several samples lie along one more axis in front",
    ),
    "empty": (
        lambda p: np.save(p / "a.npy", array(0, 1, 2, 3)),
        ONE,
        "`a.npy` holds no sample",
        "remove the file",
    ),
    "type": (
        lambda p: np.save(p / "a.npy", array(1, 2, 3, dtype="uint8")),
        ONE,
        "`a.npy` has type uint8, the network takes float32",
        "convert it",
    ),
    "type of integers": (
        lambda p: np.savez(p / "a.npz", x=array(1, 2, 3), i=array(4, dtype="int32")),
        TWO,
        "`i` in `a.npz` has type int32, the network takes int64",
        "convert it",
    ),
    "infinite": (
        lambda p: np.save(p / "a.npy", np.full((1, 2, 3), np.inf, np.float32)),
        ONE,
        "`a.npy` holds values that are infinite or no numbers",
        "remove such samples",
    ),
    "too large for float32": (
        lambda p: np.save(p / "a.npy", np.full((1, 2, 3), 1e300)),
        ONE,
        "`a.npy` holds values that are infinite or no numbers",
        "remove such samples",
    ),
    "pickled": (
        lambda p: np.save(p / "a.npy", np.array([Pickled()], object), allow_pickle=True),
        ONE,
        "`a.npy` cannot be read: Object arrays cannot be loaded when allow_pickle=False",
        "write plain arrays of numbers with `numpy.save` or `numpy.savez`",
    ),
    "pickled among others": (
        lambda p: np.savez(p / "a.npz", x=np.array([Pickled()], object), allow_pickle=True),
        ONE,
        "`a.npz` cannot be read: Object arrays cannot be loaded when allow_pickle=False",
        "write plain arrays of numbers with `numpy.save` or `numpy.savez`",
    ),
    "cut off": (
        lambda p: (p / "a.npz").write_bytes(b"PK\x03\x04 and no more"),
        ONE,
        "`a.npz` cannot be read: File is not a zip file",
        "write plain arrays of numbers with `numpy.save` or `numpy.savez`",
    ),
    "nameless": (
        lambda p: np.save(p / "a.npy", array(1, 2, 3)),
        TWO,
        "`a.npy` holds one array without a name, the network has 2 inputs",
        "write an .npz with `x` float32[1, 2, 3], `i` int64[4]",
    ),
    "misnamed": (
        lambda p: np.savez(p / "a.npz", x=array(1, 2, 3), j=array(4)),
        TWO,
        "`a.npz` has no array `i`",
        "the network takes `x` float32[1, 2, 3], `i` int64[4]",
    ),
    "numbers": (
        lambda p: np.savez(p / "a.npz", x=array(3, 2, 3), i=array(2, 4, dtype="int64")),
        TWO,
        "arrays of `a.npz` hold different numbers of samples: 2, 3",
        "every input needs as many",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_calibration_data_that_do_not_fit(tmp_path: Path, case: str) -> None:
    write, inputs, message, help_text = BAD[case]
    write(tmp_path)
    with pytest.raises(NetworkError) as raised:
        calibration("*.np?", tmp_path, inputs)
    assert (raised.value.code, raised.value.message, raised.value.help) == (
        "F410",
        message,
        help_text,
    )


@pytest.mark.parametrize("pattern", ["", "/tmp/*.npy"])
def test_patterns_of_files(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(
        NetworkError, match=f'"{pattern}" is no pattern of files'.replace("*", r"\*")
    ):
        calibration(pattern, tmp_path, ONE)


# -- faults ----------------------------------------------------------------------------------------


def test_networks_that_cannot_be_quantized(tmp_path: Path) -> None:
    good, text, plain, odd = (tmp_path / f"{n}.onnx" for n in ("good", "text", "plain", "odd"))
    onnx.save(squeezenet(), good)
    text.write_text("no network")
    onnx.save(model([N("Exp", ["x"], ["y"])], SQUARE, {}, "y"), plain)
    odd_network = model(
        [N("Own", ["x"], ["y"], domain="own")], SQUARE, {}, "y", {"y": TensorProto.FLOAT}
    )
    odd_network.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(odd_network, odd)
    (tmp_path / "again.onnx").write_bytes(quantize(good, samples(good)))
    x = [{"x": np.zeros((1, 4, 6, 6), np.float32)}]
    cases: list[tuple[Path, list[Sample], str, str]] = [
        (tmp_path / "none.onnx", [], "F401", "`none.onnx` does not exist"),
        (text, [], "F402", "`text.onnx` (10 bytes) is not an ONNX file"),
        (good, [], "F411", "`good.onnx` cannot be quantized: No data is collected."),
        (
            good,
            [{"image": np.zeros((1, 4, 32, 32), np.float32)}],
            "F411",
            "`good.onnx` cannot be quantized: ",
        ),
        (tmp_path / "again.onnx", [], "F411", "`again.onnx` is quantized already"),
        (plain, x, "F411", "no layer of `plain.onnx` runs in 8 bits"),
        (odd, x, "F411", "`odd.onnx` cannot be quantized: "),
    ]
    for path, data, code, message in cases:
        with pytest.raises(NetworkError) as raised:
            quantize(path, data)
        assert (raised.value.code, raised.value.message[: len(message)]) == (code, message)
