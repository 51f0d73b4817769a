"""Networks in 8 bits for TensorRT: what its parser takes, cuts, and ranges in place of Q/DQ
layers."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flowc.driver.build.accelerators import OnAccelerator, accelerator_reports
from flowc.driver.text.check import Checked, check, prepare
from flowc.networks.dla.checks import NOT_OFFERED
from flowc.networks.onnx.cuts import cut_points, read_chain
from flowc.networks.onnx.interface import NetworkError
from flowc.networks.onnx.split import split
from flowc.networks.quantization.half import in_half, rest_in_half
from flowc.networks.quantization.implicit import KEY, LARGEST, ranges_of, with_ranges, without_pairs
from flowc.networks.quantization.quantize import PAIR, TENSORRT, loss, quantize
from flowc.runtime.session import opened
from flowc.targets.dla import broken_rules
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from builds import Write
from cnns import NETWORKS, mobilenet, resnet, samples, squeezenet
from models import N, model, random_model
from split_check import check_split

#: ONNX Runtime rounds a sum in 8 bits otherwise than one in floating point, and makes the one of
#: the other.
ROUNDED = 0.05


def _on_dla(checked: Checked) -> tuple[OnAccelerator, ...]:
    assert checked.platform is not None
    return accelerator_reports(checked.system, checked.platform)


def made(path: Path, network: onnx.ModelProto, batch: int = 1) -> Path:
    """The file of a network in 8 bits for TensorRT, with ranges."""
    onnx.save(network, path)
    data = samples(path, batch=batch)
    result = path.with_name(f"int8.{path.name}")
    result.write_bytes(with_ranges(quantize(path, data, TENSORRT), data))
    return result


def operators(content: bytes) -> list[str]:
    return [n.op_type for n in onnx.load_from_string(content).graph.node]


def runs(content: bytes, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = opened(content, ort.SessionOptions)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, values), strict=True))


def only_what_tensorrt_takes(network: onnx.ModelProto) -> None:
    """Zero points of 0, data of int8, nothing quantized but activations and weights: no biases."""
    constants = {t.name: numpy_helper.to_array(t) for t in network.graph.initializer}
    weights = {
        t for n in network.graph.node if n.input[0] in constants for t in (*n.output, n.input[0])
    }
    for node in network.graph.node:
        if node.op_type in PAIR:
            zero = constants[node.input[2]]
            assert zero.dtype == np.int8 and not zero.any(), node.name
            assert node.input[0] not in constants or constants[node.input[0]].dtype == np.float32, (
                node.name
            )
            assert constants[node.input[1]].ndim == 0 or node.input[0] in weights, node.name


@pytest.mark.parametrize("name", NETWORKS)
def test_cuts_change_next_to_nothing_and_move_bytes(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "n.onnx", NETWORKS[name]())
    network = onnx.load(path)
    onnx.checker.check_model(network, full_check=True)
    only_what_tensorrt_takes(network)
    (lost,) = loss(tmp_path / "n.onnx", path.read_bytes(), samples(tmp_path / "n.onnx"))
    assert lost.decibels > 8 and lost.largest < 0.03
    cuts = cut_points(path)
    chain = read_chain(path)
    # What crosses in floating point is read by no layer that computes in 8 bits.
    floats = {t for c in cuts for t in c.tensors if chain.tensors[t].dtype != "int8"}
    assert all(
        x.operator not in (*TENSORRT.operators, *PAIR)
        for x in chain.layers
        if not floats.isdisjoint(x.reads)
    )
    whole = {c.layer: c.bytes for c in cut_points(tmp_path / "n.onnx")}
    assert all(c.bytes <= whole[c.layer] for c in cuts if c.layer in whole)
    assert sum(c.bytes * 4 == whole.get(c.layer) for c in cuts) > len(cuts) / 3
    for chosen in ([c.layer for c in cuts], *([c.layer] for c in cuts)):
        stages = split(path, {}, 1, chosen)
        assert check_split(path, stages, 2) < ROUNDED
        for stage in stages:
            assert ranges_of(onnx.load_from_string(stage.model)) == ranges_of(network)


def test_what_a_layer_adds_to_stays_with_it(tmp_path: Path) -> None:
    """Of what an Add reads, the skip connection is quantized, and the result of the convolution
    before it is not."""
    network = onnx.load(made(tmp_path / "m.onnx", mobilenet()))
    makers = {t: n for n in network.graph.node for t in n.output}
    for add in (n for n in network.graph.node if n.op_type == "Add"):
        assert sorted(makers[t].op_type for t in add.input) == ["Conv", "DequantizeLinear"]
    # Both come from convolutions: one of them is part of the kernel, the other one is read in 8
    # bits.
    last = [
        n for n in onnx.load(made(tmp_path / "r.onnx", resnet())).graph.node if n.op_type == "Add"
    ]
    assert len(last) == 2 and sum(t.endswith((".1", ".2")) for n in last for t in n.input) == 2


@pytest.mark.parametrize("name", NETWORKS)
def test_without_pairs_it_is_the_network_in_floating_point(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / "n.onnx", NETWORKS[name]())
    plain, ranges = without_pairs(path.read_bytes())
    onnx.checker.check_model(onnx.load_from_string(plain), full_check=True)
    assert set(PAIR).isdisjoint(operators(plain))
    data = samples(tmp_path / "n.onnx")
    for sample in data[:3]:
        wanted = runs((tmp_path / "n.onnx").read_bytes(), sample)["scores"]
        assert np.allclose(runs(plain, sample)["scores"], wanted, atol=1e-4)
    graph = onnx.load_from_string(plain).graph
    constants = {t.name for t in graph.initializer}
    assert set(ranges) >= {
        t for n in graph.node for t in (*n.input, *n.output) if t and t not in constants
    }
    assert KEY not in {p.key for p in onnx.load_from_string(plain).metadata_props}


@pytest.mark.parametrize("name", NETWORKS)
def test_stages_without_pairs_agree_on_what_crosses(tmp_path: Path, name: str) -> None:
    """A stage computes what the one with pairs does, up to the roundings between its layers."""
    path = made(tmp_path / "n.onnx", NETWORKS[name]())
    (sample, *_) = samples(tmp_path / "n.onnx")
    cuts = [c.layer for c in cut_points(path)][:: 2 if name == "squeezenet" else 3]
    tokens: dict[str, np.ndarray] = dict(sample)
    largest: dict[str, float] = {}
    for stage in split(path, {}, 1, cuts):
        plain, ranges = without_pairs(stage.model)
        given = {i.tensor.name: tokens[i.tensor.name] for i in stage.inputs}
        wanted = runs(stage.model, given)
        floats = {
            t: v * np.float32(ranges[t] / LARGEST) if v.dtype == np.int8 else v
            for t, v in given.items()
        }
        assert {
            o.name: o.type.tensor_type.elem_type for o in onnx.load_from_string(plain).graph.output
        } == dict.fromkeys(wanted, TensorProto.FLOAT)
        for tensor, value in runs(plain, floats).items():
            if wanted[tensor].dtype == np.int8:
                value = np.clip(np.rint(value * (LARGEST / ranges[tensor])), -128, 127)
                assert largest.setdefault(tensor, ranges[tensor]) == ranges[tensor]
            off = np.abs(value - wanted[tensor]).max() / max(1e-9, np.abs(wanted[tensor]).max())
            assert off < 0.1, tensor
        tokens |= wanted


def test_a_tensor_that_leaves_in_both_ways(tmp_path: Path) -> None:
    """A result of the network that the next stage reads in 8 bits: one of them is a copy."""
    nodes = [
        N("Conv", ["image", "w"], ["a"]),
        N("Relu", ["a"], ["y"]),
        N("Conv", ["y", "v"], ["z"]),
    ]
    rng = np.random.default_rng(1)
    constants = {
        k: rng.uniform(-1, 1, (4, n, 1, 1)).astype(np.float32) for k, n in {"w": 3, "v": 4}.items()
    }
    path = made(tmp_path / "n.onnx", model(nodes, {"image": [1, 3, 8, 8]}, constants, "y z"))
    (sample, *_) = samples(tmp_path / "n.onnx")
    first, second = split(path, {}, 1, ["y.int8"])
    assert [o.dtype for o in first.outputs] == ["float32", "int8"]
    made_of, ranges = without_pairs(first.model)
    assert operators(made_of) == ["Conv", "Relu", "MaxPool"] and ranges["y"] == ranges["y.int8"]
    values = runs(made_of, sample)
    assert np.array_equal(values["y"], values["y.int8"])
    exact = onnx.load_from_string(path.read_bytes())
    # given out as it is made
    assert {n.op_type for n in exact.graph.node if "y" in n.output} == {"Relu"}
    assert set(PAIR).isdisjoint(operators(without_pairs(second.model)[0]))


def test_ranges_are_what_was_seen(tmp_path: Path) -> None:
    path = made(tmp_path / "n.onnx", squeezenet())
    plain, ranges = without_pairs(path.read_bytes())
    watched = onnx.load_from_string(plain)
    there = {o.name for o in watched.graph.output}
    watched.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(t) for t in ranges if t not in there
    )
    found = dict.fromkeys(ranges, 0.0)
    del watched.graph.output[len(there) :]
    inferred = onnx.shape_inference.infer_shapes(watched)
    kinds = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.input)}
    watched.graph.output.extend(kinds[t] for t in ranges if t in kinds and t != "image")
    for sample in samples(tmp_path / "n.onnx"):
        for tensor, value in (runs(watched.SerializeToString(), sample) | sample).items():
            found[tensor] = max(found[tensor], float(np.abs(value).max()))
    shared = {
        t
        for n in watched.graph.node
        if n.op_type in ("Concat", "MaxPool")
        for t in (*n.input, *n.output)
    }
    assert all(np.isclose(found[t], ranges[t], rtol=0.15) or t in shared for t in ranges), (
        found,
        ranges,
    )
    assert all(ranges[t] >= 0.9 * found[t] for t in ranges)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10
    ),
    st.lists(st.integers(0, 9), max_size=2),
)
def test_random_models(plan: list[tuple[int, int, int]], outputs: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "n.onnx"
        try:
            # the exact mode of `runtime/session.py` takes no others
            path = made(whole, random_model(plan, outputs, in_common=False), 2)
        except NetworkError as fault:
            assert fault.code == "F411" and "runs in 8 bits" in fault.message
            return
        only_what_tensorrt_takes(onnx.load(path))
        after = [c.layer for c in cut_points(path, {}, 2)]
        stages = split(path, {}, 2, after)
        assert check_split(path, stages, 1, {}, 2) < ROUNDED
        (sample, *_) = samples(whole, 1, 2)
        plain, ranges = without_pairs(path.read_bytes())
        exact = runs(whole.read_bytes(), sample)
        for tensor, value in runs(plain, sample).items():
            assert np.allclose(
                value, exact[tensor], atol=1e-3 * max(1, np.abs(exact[tensor]).max())
            )
        for stage in stages:
            plain, ranges = without_pairs(stage.model)
            onnx.checker.check_model(onnx.load_from_string(plain), full_check=True)
            borders = (*(i.tensor for i in stage.inputs), *stage.outputs)
            assert {b.name for b in borders if b.dtype == "int8"} <= set(ranges)


def test_what_is_added_to_all_elements_alike_is_not_quantized(tmp_path: Path) -> None:
    """A HardSwish as MobileNetV3 has it: x * clip(x + 3) / 6."""
    nodes = [
        N("Conv", ["image", "w"], ["a"]),
        N("Add", ["a", "three"], ["b"]),
        N("Clip", ["b", "low", "high"], ["c"]),
        N("Mul", ["a", "c"], ["d"]),
        N("Mul", ["d", "sixth"], ["e"]),
        N("Conv", ["e", "v"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    numbers = {"three": 3, "low": 0, "high": 6, "sixth": 1 / 6}
    constants = {k: np.array(v, np.float32) for k, v in numbers.items()}
    constants |= {
        k: rng.uniform(-1, 1, (4, n, 1, 1)).astype(np.float32) for k, n in {"w": 3, "v": 4}.items()
    }
    path = made(tmp_path / "n.onnx", model(nodes, {"image": [1, 3, 8, 8]}, constants, "y"))
    network = onnx.load(path)
    coded = {n.input[0] for n in network.graph.node if n.op_type == PAIR[0]}
    assert coded == {"image", "w", "e.float", "v"} or coded == {"image", "w", "e", "v"}
    _, ranges = without_pairs(path.read_bytes())
    assert ranges["three"] == 3 and ranges["sixth"] == pytest.approx(1 / 6)


def test_metadata_stays(tmp_path: Path) -> None:
    network = squeezenet()
    network.metadata_props.add(key="names", value="a, b")
    path = made(tmp_path / "n.onnx", network)
    assert {p.key for p in onnx.load(path).metadata_props} == {"names", KEY}
    kept = onnx.load_from_string(without_pairs(path.read_bytes())[0])
    assert [(p.key, p.value) for p in kept.metadata_props] == [("names", "a, b")]


def test_networks_in_fp16_are_refused(tmp_path: Path) -> None:
    onnx.save(onnx.load_from_string(in_half(squeezenet())), tmp_path / "n.onnx")
    with pytest.raises(NetworkError, match="computes in fp16"):
        quantize(tmp_path / "n.onnx", samples(tmp_path / "n.onnx"), TENSORRT)


@pytest.mark.parametrize("name", NETWORKS)
def test_where_types_decide_the_rest_is_fp16(tmp_path: Path, name: str) -> None:
    onnx.save(NETWORKS[name](), tmp_path / "n.onnx")
    data = samples(tmp_path / "n.onnx")
    content = rest_in_half(quantize(tmp_path / "n.onnx", data, TENSORRT))
    (tmp_path / "h.onnx").write_bytes(content)
    network = onnx.load_from_string(content)
    onnx.checker.check_model(network, full_check=True)
    kinds = {t.data_type for t in network.graph.initializer}
    assert (
        TensorProto.FLOAT not in kinds
        and TensorProto.FLOAT16 in kinds
        and PAIR[0] in operators(content)
    )
    (lost,) = loss(tmp_path / "n.onnx", content, data)
    assert lost.decibels > 8 and lost.largest < 0.03
    chain = read_chain(tmp_path / "h.onnx")
    crossing = {chain.tensors[t].dtype for c in cut_points(tmp_path / "h.onnx") for t in c.tensors}
    assert "int8" in crossing and crossing <= {"int8", "float16", "float32"}


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_one_scale_have_one_range(tmp_path: Path, name: str) -> None:
    """A DLA has one scale for all that a Concat or a pooling reads and makes; what comes in 8 bits
    keeps its own."""
    path = made(tmp_path / "n.onnx", NETWORKS[name]())
    lost = 0
    for cuts in ([], *([c.layer] for c in cut_points(path))):
        for stage in split(path, {}, 1, cuts):
            plain, ranges = without_pairs(stage.model)
            network = onnx.load_from_string(plain)
            for node in network.graph.node:
                if node.op_type in ("Concat", "MaxPool", "AveragePool"):
                    around = [ranges.get(t) for t in (*node.input, *node.output)]
                    lost += None in around
                    assert len({*around} - {None}) <= 1, node.name
            scales = {
                n.input[0]: n.input[1]
                for n in onnx.load_from_string(stage.model).graph.node
                if n.op_type == PAIR[1]
            }
            for i in stage.inputs:
                if i.tensor.dtype == "int8":
                    whole = {
                        t.name: t for t in onnx.load_from_string(stage.model).graph.initializer
                    }
                    scale = float(numpy_helper.to_array(whole[scales[i.tensor.name]]))
                    assert ranges[i.tensor.name] == pytest.approx(LARGEST * scale)
    assert lost == 0 or name != "mobilenet"


def order_is_kept(path: Path, content: bytes) -> None:
    """What is left of the names of a network's layers is in their order, so that pins mean what
    they say."""
    (path.parent / "half.onnx").write_bytes(content)
    names = [x.name for x in read_chain(path, {}, 1).layers]
    place = {name: k for k, name in enumerate(names)}
    kept = [
        place[x.name]
        for x in read_chain(path.parent / "half.onnx", {}, 1).layers
        if x.name in place
    ]
    assert kept == sorted(kept) and len(kept) == len(names)


@pytest.mark.parametrize("file", ["detector/yolo.onnx", "detect/ssd.onnx"])
def test_layers_keep_their_order_in_fp16(examples: Path, tmp_path: Path, file: str) -> None:
    order_is_kept(examples / file, in_half(onnx.load(examples / file)))
    coded = tmp_path / "int8.onnx"
    coded.write_bytes(quantize(examples / file, samples(examples / file, 1), TENSORRT))
    order_is_kept(coded, rest_in_half(coded.read_bytes()))


def test_a_result_with_layers_behind_it_keeps_its_place_in_fp16(tmp_path: Path) -> None:
    nodes = [
        N("Conv", ["image", "w"], ["c"]),
        N("Relu", ["c"], ["y"]),
        N("Conv", ["y", "v"], ["z0"]),
    ]
    nodes += [N("Relu", ["z0"], ["z1"]), N("Conv", ["z1", "v"], ["z"])]
    rng = np.random.default_rng(1)
    constants = {
        k: rng.uniform(-1, 1, (4, n, 1, 1)).astype(np.float32) for k, n in {"w": 3, "v": 4}.items()
    }
    network = model(nodes, {"image": [1, 3, 8, 8]}, constants, "y z")
    onnx.save(network, tmp_path / "n.onnx")
    order_is_kept(tmp_path / "n.onnx", in_half(network))
    assert [x.name for x in read_chain(tmp_path / "half.onnx").layers][:4] == [
        *("graph_input_cast_0", "c", "graph_output_cast_0", "y")
    ]
    exact, coarse = (
        runs(p.read_bytes(), samples(p, 1)[0])
        for p in (tmp_path / "n.onnx", tmp_path / "half.onnx")
    )
    assert all(np.allclose(exact[t], coarse[t], atol=0.05) for t in "yz")


# -- rules of a DLA --------------------------------------------------------------------------------
TEXT = """
task In { out x: float32[1, 3, 32, 32]  python "t.py:make" }
network Net from "n.onnx" { in x: float32[1, 3, 32, 32] from "image"  out y from "scores"  precision int8 calibrate "n.npy" }
task Out { in y: float32[1, 10]  python "t.py:take" }
app A { a: In  n: Net  b: Out  a -> n -> b }
platform old { tensorrt "10.3"  cpu core  gpu ampere compute 8.7  dla nvdla }
platform new { module agx_orin  tensorrt "11.4.1"  cpu core  gpu ampere compute 8.7  dla nvdla }
"""


def test_a_dla_sees_no_pairs(write: Write) -> None:
    """Before TensorRT 11 a network in 8 bits breaks on a DLA what the one in floating point does,
    and nothing else."""
    flow = write(TEXT, t_py="def make(): ...\ndef take(y): ...\n")
    onnx.save(squeezenet(), flow.parent / "n.onnx")
    np.save(flow.parent / "n.npy", samples(flow.parent / "n.onnx", 1)[0]["image"])
    path = made(flow.parent / "other.onnx", squeezenet())
    checked = check(flow, platform="old")
    assert checked.platform is not None
    (network,) = (t.network for a in checked.system.apps for t in a.tasks if t.network is not None)

    assert network is not None

    def broken(file: Path) -> set[tuple[str, str]]:
        assert checked.platform is not None and network is not None
        return {
            (b.op, b.rule) for b in broken_rules(checked.platform, replace(network, path=str(file)))
        }

    assert (
        broken(path)
        == broken(flow.parent / "n.onnx")
        == {(op, NOT_OFFERED) for op in ("GlobalAveragePool", "Flatten")}
    )


def test_pairs_are_no_layers_of_a_dla(write: Write) -> None:
    flow = write(TEXT, t_py="def make(): ...\ndef take(y): ...\n")
    onnx.save(squeezenet(), flow.parent / "n.onnx")
    np.save(flow.parent / "n.npy", samples(flow.parent / "n.onnx", 1)[0]["image"])
    (before,) = _on_dla(check(flow, platform="old"))
    (after,) = _on_dla(prepare(flow, platform="old"))
    assert (before.layers, before.legal) == (after.layers, after.legal) == (21, 19)
    (strong,) = _on_dla(prepare(flow, platform="new"))
    assert (strong.layers, strong.legal) == (23, 19)  # with casts at both ends


def test_weights_beside_the_model(write: Write) -> None:
    flow = write(
        TEXT + "mapping on old { A.n -> nvdla fallback gpu }",
        t_py="def make(): ...\ndef take(y): ...\n",
    )
    onnx.save(
        squeezenet(),
        flow.parent / "n.onnx",
        save_as_external_data=True,
        location="n.bin",
        size_threshold=0,
    )
    np.save(flow.parent / "n.npy", samples(flow.parent / "n.onnx", 1)[0]["image"])
    for checked in (check(flow, platform="old"), prepare(flow, platform="old")):
        assert checked.ok and _on_dla(checked)[0].legal == 19
