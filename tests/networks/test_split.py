"""Cuts of ONNX models and the stages between them: counts, fused groups, skips, and parts that
compute the whole."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from flowc.networks.onnx.cuts import Cut, cut_points, jedi_allows, read_chain, size, skips
from flowc.networks.onnx.interface import NetworkError
from flowc.networks.onnx.split import (
    EmptyStage,
    NoSuchLayer,
    OutOfOrder,
    SplitError,
    Stage,
    StageTooLarge,
    TooManyStages,
    split,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from models import LIGHT, RNG, N, X, model, random_model, save, weights
from paper_counts import candidate_count, cut_tuple_count
from split_check import check_split


def loaded(stage: Stage) -> onnx.ModelProto:
    """The model of a stage, checked, with the border that the stage tells."""
    found = onnx.load_from_string(stage.model)
    onnx.checker.check_model(found, full_check=True)
    kept = {t.name for t in found.graph.initializer}
    assert [v.name for v in found.graph.input if v.name not in kept] == [
        i.tensor.name for i in stage.inputs
    ]
    assert [v.name for v in found.graph.output] == [o.name for o in stage.outputs]
    return found


def holds(
    path: Path, after: Sequence[str], batch: int | None = 1, tolerance: float = 1e-5
) -> tuple[Stage, ...]:
    """Split, check against the whole and against the cuts."""
    stages = split(path, {}, batch, after)
    assert [s.layers[-1] for s in stages[:-1]] == list(after)
    chain = read_chain(path, {}, batch)
    assert [x for s in stages for x in s.layers] == [x.name for x in chain.layers]
    cuts = {c.layer: c for c in chain.cuts()}
    for k, name in enumerate(after):
        crossing = {
            i.tensor
            for s in stages[k + 1 :]
            for i in s.inputs
            if i.from_stage is None or i.from_stage <= k
        }
        assert {t.name for t in crossing} == set(cuts[name].tensors)
        assert sum(map(size, crossing)) == cuts[name].bytes
    for k, stage in enumerate(stages):
        loaded(stage)
        for i in stage.inputs:
            if i.from_stage is None:
                assert i.tensor.name in chain.inputs
            else:
                assert i.from_stage < k and i.tensor in stages[i.from_stage].outputs
    assert check_split(path, stages, 1, {}, batch) <= tolerance
    return stages


# -- counts and rules ------------------------------------------------------------------------------


def test_counts_of_the_papers() -> None:
    assert [candidate_count(n) for n in (22, 78, 10, 0)] == [2025, 82161, 221, 1]
    assert [cut_tuple_count(n) for n in (54, 24, 1)] == [27666, 2576, 0]


def test_jedi_allows_no_arc_over_two_cuts() -> None:
    """Like Fig. 3.7 (d): an arc from the first stage to the last."""
    a, b, c, d = (
        Cut(0, "a", ("a",), 4),
        Cut(1, "b", ("a", "b"), 8),
        Cut(2, "c", ("c", "b"), 8),
        Cut(3, "d", ("d", "b"), 8),
    )
    assert jedi_allows(()) and jedi_allows((a,)) and jedi_allows((a, c))
    assert not jedi_allows((a, b)) and not jedi_allows((a, b, c)) and not jedi_allows((b, c, d))
    assert skips((a, c)) == ((),) and skips((b, c, d)) == (("b",), ("b",)) and skips((a,)) == ()


def test_what_crosses_a_cut(tmp_path: Path) -> None:
    nodes = [
        N("Conv", ["x", "w"], ["a"]),
        N("Relu", ["a"], ["early"]),
        N("Neg", ["early"], ["dead"]),
        N("Add", ["early", "late"], ["s"]),
        N("Slice", ["w", "i0", "i2", "i1"], ["minus"]),
        N("Conv", ["s", "minus"], ["c"]),
        N("MatMul", ["c", "m"], ["y"]),
    ]
    inputs = {**X, "late": [1, 2, 8, 8], "through": [3]}
    outs = "early y through minus"
    constants = {
        "w": weights(2, 4, 1, 1),
        "m": weights(8, 5),
        "i0": np.array([0]),
        "i1": np.array([1]),
    }
    path = save(tmp_path / "n.onnx", nodes, inputs, {**constants, "i2": np.array([2])}, outs)
    chain = read_chain(path)
    assert [(x.name, x.fused, x.macs) for x in chain.layers] == [
        ("a", "", 2 * 64 * 4),
        ("early", "a", 0),
        ("s", "", 0),
        ("c", "", 2 * 64 * 2),
        ("y", "", 16 * 8 * 5),
    ]
    data = 2 * 64 * 4
    assert list(chain.cuts()) == [
        Cut(0, "a", ("late", "through", "a"), 2 * data + 12),
        Cut(1, "early", ("late", "through", "early"), 2 * data + 12),
        Cut(2, "s", ("through", "s"), data + 12),
        Cut(3, "c", ("through", "c"), data + 12),
    ]
    assert [c.layer for c in cut_points(path)] == ["early", "s", "c"]
    first, middle, last = holds(path, ["early", "s"])
    assert [(i.tensor.name, i.from_stage) for i in middle.inputs] == [("late", None), ("early", 0)]
    assert [o.name for o in first.outputs] == ["early"]
    assert [o.name for o in last.outputs] == ["y", "through", "minus"]
    (alone,) = holds(path, [])
    assert [o.name for o in alone.outputs] == ["early", "y", "through", "minus"]


BN = ["g", "g", "g", "v"]
GROUPS: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "conv bn relu": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("BatchNormalization", ["a", *BN], ["b"]),
            N("Relu", ["b"], ["c"]),
            N("Neg", ["c"], ["y"]),
        ],
        "c",
    ),
    "scale and bias": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("Mul", ["a", "k"], ["b"]),
            N("Add", ["k", "b"], ["c"]),
            N("Clip", ["c"], ["d"]),
            N("LeakyRelu", ["d"], ["y"]),
        ],
        "d",
    ),
    "sum with a skip connection": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("Conv", ["x", "w"], ["b"]),
            N("Add", ["a", "b"], ["c"]),
            N("Relu", ["c"], ["y"]),
        ],
        "a",
    ),
    "sum of another shape": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("GlobalAveragePool", ["x"], ["b"]),
            N("Add", ["a", "b"], ["c"]),
            N("Relu", ["c"], ["y"]),
        ],
        "a b c",
    ),
    "read twice": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("Relu", ["a"], ["b"]),
            N("Neg", ["a"], ["c"]),
            N("Add", ["b", "c"], ["y"]),
        ],
        "a b c",
    ),
    "squared": (
        [N("Conv", ["x", "w"], ["a"]), N("Mul", ["a", "a"], ["b"]), N("Relu", ["b"], ["y"])],
        "a b",
    ),
    "swish": (
        [
            N("Conv", ["x", "w"], ["a"]),
            N("Sigmoid", ["a"], ["b"]),
            N("Mul", ["a", "b"], ["c"]),
            N("HardSwish", ["c"], ["y"]),
        ],
        "c",
    ),
    "no gate": (
        [
            N("Neg", ["x"], ["a"]),
            N("Sigmoid", ["a"], ["b"]),
            N("Mul", ["b", "a"], ["c"]),
            N("Relu", ["c"], ["y"]),
        ],
        "a b c",
    ),
    "gate of something else": (
        [
            N("GlobalAveragePool", ["x"], ["p"]),
            N("Conv", ["p", "w"], ["a"]),
            N("Sigmoid", ["a"], ["b"]),
            N("Mul", ["b", "x"], ["y"]),
        ],
        "p b",
    ),
    "lone normalization": (
        [
            N("BatchNormalization", ["x", *BN], ["b"]),
            N("Relu", ["b"], ["c"]),
            N("Conv", ["c", "w"], ["y"]),
        ],
        "c",
    ),
}


@pytest.mark.parametrize("case", GROUPS)
def test_fused_groups_are_not_cut(tmp_path: Path, case: str) -> None:
    nodes, expected = GROUPS[case]
    constants = {
        "w": weights(4, 4, 1, 1),
        "g": weights(4),
        "v": np.ones(4, np.float32),
        "k": weights(4, 1, 1),
    }
    path = save(tmp_path / "n.onnx", nodes, X, constants, "y")
    assert [c.layer for c in cut_points(path)] == expected.split()
    everywhere = cut_points(path, inside_fused=True)
    assert [c.layer for c in everywhere] == [n.output[0] for n in nodes[:-1]]
    holds(path, [c.layer for c in everywhere])


# -- random models ---------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=14
    ),
    st.lists(st.integers(0, 9), max_size=2),
    st.data(),
)
def test_parts_compute_the_whole(
    plan: list[tuple[int, int, int]], outputs: list[int], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "n.onnx"
        onnx.save(random_model(plan, outputs), path)
        layers = [x.name for x in read_chain(path, {}, 2).layers]
        chosen = (
            data.draw(st.sets(st.sampled_from(layers[:-1]), max_size=4))
            if len(layers) > 1
            else set()
        )
        stages = holds(path, [x for x in layers if x in chosen], 2)
        cuts = [c for c in cut_points(path, {}, 2, inside_fused=True) if c.layer in chosen]
        past = {
            i.tensor.name
            for k, s in enumerate(stages)
            for i in s.inputs
            if (i.from_stage or 0) < k - 1
        }
        assert {t for s in skips(cuts) for t in s} == past
        assert jedi_allows(cuts) == (not past)


# -- models of the ONNX package --------------------------------------------------------------------


def light(name: str, path: Path, external: bool = False) -> Path:
    """A model with random weights in place of its constant ones; what is normalized stays of size
    one."""
    found = onnx.load(LIGHT / f"light_{name}.onnx")
    shapes = {t.name: numpy_helper.to_array(t) for t in found.graph.initializer}
    rng = np.random.default_rng(5)
    kept = []
    for node in found.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = tuple(shapes[node.input[0]])
        fan = int(np.prod(shape[1:]))
        array = (
            rng.standard_normal(shape, np.float32) * np.float32(fan**-0.5)
            if len(shape) > 1
            else rng.uniform(0.5, 1.5, shape)
        )
        found.graph.initializer.append(
            numpy_helper.from_array(array.astype(np.float32), node.output[0])
        )
    del found.graph.node[:]
    found.graph.node.extend(kept)
    if kept[-1].op_type == "Softmax":  # it may hide differences
        found.graph.output.append(
            helper.make_tensor_value_info(kept[-1].input[0], TensorProto.FLOAT, None)
        )
    found.ir_version = 4
    onnx.save(found, path, save_as_external_data=external, location=f"{path.stem}.bin")
    return path


@pytest.mark.parametrize(
    ("name", "layers", "free", "count"),
    [
        ("squeezenet", 66, 39, 4),
        ("shufflenet", 203, 110, 4),
        ("inception_v2", 371, 94, 1),
        ("densenet121", 668, 245, 1),
        ("resnet50", 176, 57, 3),
    ],
)
def test_models_of_the_onnx_package(
    tmp_path: Path, name: str, layers: int, free: int, count: int
) -> None:
    path = light(name, tmp_path / "n.onnx", external=name == "resnet50")
    points, inside = cut_points(path), cut_points(path, inside_fused=True)
    assert (len(inside) + 1, len(points)) == (layers, free)
    assert set(points) < set(inside)
    rng = np.random.default_rng(layers)
    chosen = rng.choice(len(inside), count, replace=False)
    after = [c.layer for k, c in enumerate(inside) if k in chosen]
    stages = holds(path, after, tolerance=1e-4)
    weighted = [
        sum(t.ByteSize() for t in onnx.load_from_string(s.model).graph.initializer) for s in stages
    ]
    whole = sum(t.ByteSize() for t in onnx.load(path).graph.initializer)
    assert sum(weighted) <= whole * 1.01


# -- what models may bring along -------------------------------------------------------------------


def test_old_weights_listed_as_inputs(tmp_path: Path) -> None:
    """The files as they are: weights of version 3 of the format, made by ConstantOfShape, which
    goes with its users."""
    path = LIGHT / "light_squeezenet.onnx"
    stages = holds(path, ["r20"], tolerance=1e-4)
    made = [{n.op_type for n in loaded(s).graph.node} for s in stages]
    assert all("ConstantOfShape" in m for m in made)
    assert {n for s in stages for n in s.layers if n.endswith("_w_0")} == set()


def test_what_a_model_says_of_itself_is_kept(tmp_path: Path) -> None:
    nodes = [
        N("Twice", ["x"], ["a"], domain="own"),
        N("DequantizeLinear", ["q", "scale"], ["w"]),
        N("Conv", ["a", "w"], ["b"]),
        N("Twice", ["b"], ["y"], domain="own"),
    ]
    constants = {"q": RNG.integers(-9, 9, (4, 4, 1, 1)).astype(np.int8), "scale": np.float32(0.1)}
    made = model(nodes, X, {k: np.asarray(v) for k, v in constants.items()}, "y")
    made.opset_import.append(helper.make_opsetid("own", 1))
    twice = helper.make_function(
        "own", "Twice", ["i"], ["o"], [N("Add", ["i", "i"], ["o"])], [helper.make_opsetid("", 17)]
    )
    made.functions.append(twice)
    made.producer_name, made.doc_string, made.model_version = "maker", "about", 7
    made.metadata_props.add(key="k", value="v")
    made.graph.value_info.append(
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4, 8, 8])
    )
    note = made.graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    onnx.save(made, tmp_path / "n.onnx")
    stages = holds(tmp_path / "n.onnx", ["a"])
    for stage, names in zip(stages, ([], ["w"]), strict=True):
        found = loaded(stage)
        for field in ("ir_version", "producer_name", "doc_string", "model_version"):
            assert getattr(found, field) == getattr(made, field)
        for field in ("opset_import", "functions", "metadata_props"):
            assert list(getattr(found, field)) == list(getattr(made, field))
        assert [a.tensor_name for a in found.graph.quantization_annotation] == names
    assert [v.name for v in loaded(stages[1]).graph.value_info] == ["b"]
    assert split(tmp_path / "n.onnx", {}, 1, ["a"]) == stages


def test_fixed_shapes_become_constants(tmp_path: Path) -> None:
    nodes = [
        N("Relu", ["x"], ["a"]),
        N("Shape", ["x"], ["rows"], start=0, end=1),
        N("Concat", ["rows", "rest"], ["to"], axis=0),
        N("Reshape", ["a", "to"], ["flat"]),
        N("Size", ["a"], ["n"]),
        N("Add", ["n", "i"], ["more"]),
        N("Cast", ["more"], ["scale"], to=TensorProto.FLOAT),
        N("Mul", ["flat", "scale"], ["y"]),
    ]
    inputs = {"x": ["n", 4, "h", 8], "i": ["n", 1]}
    kinds = dict.fromkeys(("i", "to", "n"), TensorProto.INT64)
    path = save(tmp_path / "n.onnx", nodes, inputs, {"rest": np.array([-1])}, "y to n", kinds)
    with pytest.raises(NetworkError, match=r"input `x` of `n.onnx` is not fixed") as raised:
        cut_points(path)
    assert raised.value.code == "F403"
    fixed = {"x": (3, 4, 2, 8)}
    stages = split(path, fixed, 3, ["a", "flat"])
    assert [s.layers for s in stages] == [("a",), ("flat",), ("more", "scale", "y")]
    assert [n.op_type for n in loaded(stages[1]).graph.node] == ["Constant", "Concat", "Reshape"]
    assert [n.op_type for n in loaded(stages[2]).graph.node][:3] == [
        "Constant",
        "Concat",
        "Constant",
    ]
    assert [(i.tensor.name, i.tensor.shape) for i in stages[1].inputs] == [("a", (3, 4, 2, 8))]
    assert check_split(path, stages, 4, fixed, 3) == 0


def test_tensors_of_unknown_size_are_not_cut(tmp_path: Path) -> None:
    nodes = [
        N("Relu", ["x"], ["a"]),
        N("NonZero", ["a"], ["places"]),
        N("Neg", ["places"], ["y"]),
    ]
    made = model(nodes, X, {}, "y", {"y": TensorProto.INT64})
    made.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.INT64, [4, "count"])
    )
    path = tmp_path / "n.onnx"
    onnx.save(made, path)
    assert [c.layer for c in cut_points(path)] == ["a"]
    holds(path, ["a"])
    with pytest.raises(
        NetworkError, match=r"tensor `places` of `n.onnx` has no fixed shape"
    ) as raised:
        split(path, {}, 1, ["places"])
    assert raised.value.code == "F403"


def test_random_numbers_are_drawn_once(tmp_path: Path) -> None:
    nodes = [
        N("RandomNormal", [], ["r"], shape=[1, 4, 8, 8]),
        N("Add", ["x", "r"], ["a"]),
        N("Sub", ["a", "r"], ["b"]),
        N("Sub", ["b", "x"], ["y"]),
    ]
    stages = split(save(tmp_path / "n.onnx", nodes, X, {}, "y"), {}, 1, ["a"])
    assert [s.layers for s in stages] == [("r", "a"), ("b", "y")]
    assert [o.name for o in stages[0].outputs] == ["r", "a"]


def test_kinds_of_numbers(tmp_path: Path) -> None:
    kinds = {
        "f": TensorProto.FLOAT16,
        "d": TensorProto.DOUBLE,
        "u": TensorProto.UINT8,
        "b": TensorProto.BOOL,
    }
    nodes = [N("Cast", [n], [f"{n}1"], to=TensorProto.DOUBLE) for n in "fdub"] + [
        N("Sum", ["f1", "d1", "u1", "b1"], ["y"])
    ]
    path = save(
        tmp_path / "n.onnx",
        nodes,
        {n: [5] for n in kinds},
        {},
        "y",
        {**kinds, "y": TensorProto.DOUBLE},
    )
    holds(path, ["f1", "d1", "u1", "b1"], tolerance=0)


# -- faults ----------------------------------------------------------------------------------------


def chain_of(path: Path, names: str) -> Path:
    return save(
        path,
        [N("Relu", [a], [b]) for a, b in zip("x" + names, names, strict=False)],
        X,
        {},
        names[-1],
    )


FAULTS: dict[str, tuple[list[str], type[SplitError], str]] = {
    "unknown": (["layer_b", "c"], NoSuchLayer, "`n.onnx` has no layer `layer_b`"),
    "order": (
        ["c", "a"],
        OutOfOrder,
        "layer `a` comes before `c`: name the last layers of stages from front to back",
    ),
    "twice": (["a", "c", "c"], EmptyStage, "no layer is left for the stage after `c`"),
    "last": (["a", "d"], EmptyStage, "no layer is left for the stage after `d`"),
    "many": (["a", "b", "c", "d"], TooManyStages, "`n.onnx` has 4 layers: too few for 5 stages"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(tmp_path: Path, case: str) -> None:
    after, kind, message = FAULTS[case]
    with pytest.raises(kind) as raised:
        split(chain_of(tmp_path / "n.onnx", "abcd"), {}, 1, after)
    assert str(raised.value) == message and isinstance(raised.value, ValueError)


def test_faults_carry_the_facts(tmp_path: Path) -> None:
    path = chain_of(tmp_path / "n.onnx", "abcd")
    with pytest.raises(NoSuchLayer, match="did you mean `r1`") as unknown:
        split(LIGHT / "light_vgg19.onnx", {}, 1, ["r1_"])
    assert unknown.value.close[0] == "r1" and unknown.value.layer == "r1_"
    with pytest.raises(OutOfOrder) as order:
        split(path, {}, 1, ["c", "a"])
    assert (order.value.first, order.value.then) == ("c", "a")
    with pytest.raises(EmptyStage) as empty:
        split(path, {}, 1, ["d"])
    assert (empty.value.stage, empty.value.layer) == (1, "d")
    with pytest.raises(TooManyStages) as many:
        split(path, {}, 1, ["a", "b", "c", "d"])
    assert (many.value.stages, many.value.layers) == (5, 4)


def test_a_stage_must_fit_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights in another file count, and go to their stage only."""
    nodes = [
        N("MatMul", ["x", "v"], ["a"]),
        N("MatMul", ["a", "w"], ["b"]),
        N("Add", ["b", "c"], ["y"]),
    ]
    constants = {"v": weights(64, 64), "w": weights(64, 64), "c": weights(64)}
    found = model(nodes, {"x": [1, 64]}, constants, "y")
    found.graph.node.insert(
        2, N("Constant", [], ["k"], value=numpy_helper.from_array(weights(64, 64)))
    )
    found.graph.node[3].input[1] = "k"
    path = tmp_path / "n.onnx"
    onnx.save(found, path, save_as_external_data=True, location="w", convert_attribute=True)
    assert path.stat().st_size < 1000
    monkeypatch.setattr("flowc.networks.onnx.split.LIMIT", 20000)
    holds(path, ["a", "b"])
    with pytest.raises(
        StageTooLarge, match=r"stage 1 has 3\d{4} bytes of weights, a file holds 20000"
    ) as raised:
        split(path, {}, 1, ["a"])
    assert raised.value.stage == 1 and raised.value.bytes >= 2 * 64 * 64 * 4


def test_models_that_cannot_be_read(tmp_path: Path) -> None:
    nodes = [N("Relu", ["z"], ["y"]), N("Relu", ["x"], ["z"])]
    cases = {
        "F401": tmp_path / "none.onnx",
        "F402": save(tmp_path / "late.onnx", nodes, X, {}, "y"),
        "F403": save(tmp_path / "dynamic.onnx", nodes[::-1], {"x": [1, 2, "h", 4]}, {}, "y"),
    }
    for code, path in cases.items():
        for call in (lambda p: cut_points(p), lambda p: split(p, {}, 1, [])):
            with pytest.raises(NetworkError) as raised:
                call(path)
            assert raised.value.code == code
    with pytest.raises(NetworkError, match=r"no output of `idle.onnx` depends on an input"):
        read_chain(
            save(tmp_path / "idle.onnx", [N("Neg", ["c"], ["y"])], X, {"c": weights(1)}, "y")
        )


def test_a_wrong_part_is_noticed(tmp_path: Path) -> None:
    path, other = chain_of(tmp_path / "n.onnx", "abc"), tmp_path / "m.onnx"
    first, last = split(path, {}, 1, ["b"])

    def changed(*nodes: onnx.NodeProto) -> tuple[Stage, Stage]:
        save(
            other,
            [N("Relu", ["x"], ["a"]), N("Relu", ["a"], ["b"]), *nodes],
            X,
            {"k": np.float32([1.5]), "o": np.float32([np.nan])},
            "c",
        )
        return first, split(other, {}, 1, ["b"])[1]

    assert check_split(path, (first, last), 0) == 0
    assert check_split(path, changed(N("Mul", ["b", "k"], ["c"])), 0) == pytest.approx(0.5)
    assert check_split(path, changed(N("Mul", ["b", "o"], ["c"])), 0) == float("inf")
    assert check_split(path, changed(N("Flatten", ["b"], ["c"])), 0) == float("inf")
