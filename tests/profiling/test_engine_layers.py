"""Times of an engine's layers, led back to the layers of the model that they were made of."""

from __future__ import annotations

import pytest
from flowc.networks.onnx.cuts import ChainedLayer
from flowc.profiling.engine_layers import EngineLayer, led_back
from hypothesis import given
from hypothesis import strategies as st

#: name, multiplications
LAYERS = [("c1", 30), ("r1", 0), ("pool", 0), ("c10", 10), ("r10", 0), ("out.a", 20), ("out", 0)]
CHAIN = [ChainedLayer(name, "", (), (name,), "", macs) for name, macs in LAYERS]
NODES = {"Conv_1": ["c1"], "Relu_1": ["r1"], "/b/Pool": ["pool"], "Conv_10": ["c10"], "Relu_10": ["r10"],
         "out.a": ["out.a"], "out": ["out"]}  # fmt: skip


def times(*reported: EngineLayer) -> dict[str, float]:
    return {name: ns for name, ns in led_back(reported, CHAIN, NODES).items() if ns}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Conv_1 + Relu_1", {"c1": 12}),
        ("Relu_1 + /b/Pool", {"pool": 12}),
        ("Conv_10", {"c10": 12}),
        ("PWN(Relu_1, Relu_10)", {"r10": 12}),
        ("Conv_1 || Conv_10", {"c1": 9, "c10": 3}),
        ("Reformatting CopyNode for Input Tensor 0 to Conv_10 + Relu_10", {"c10": 12}),
        ("out.a", {"out.a": 12}),
        ("out", {"out": 12}),
        ("{ForeignNode[Conv_1...Relu_10]}", {"c1": 9, "c10": 3}),
        ("{ForeignNode[Relu_1.../b/Pool]}", {"pool": 12}),
        ("{ForeignNode[Conv_10...out]}", {"c10": 4, "out.a": 8}),
        ("{ForeignNode[out.a...out]}", {"out.a": 12}),
        ("__myl_MulAdd_0xdeadbeef", {"c1": 12}),
        ("Conv_100", {"c1": 12}),
    ],
)
def test_names_of_layers(name: str, found: dict[str, float]) -> None:
    assert times(EngineLayer(name, 12)) == pytest.approx(found)


def test_what_the_engine_says_goes_before_its_names() -> None:
    assert times(EngineLayer("__myl_FcRelu_myl0_3", 8, ("Conv_10", "Relu_10", "w_clone_0"))) == {
        "c10": 8
    }
    assert times(EngineLayer("{ForeignNode[Conv_1...out]}", 8, ("Conv_1", "Conv_10"))) == {
        "c1": 6,
        "c10": 2,
    }
    assert times(EngineLayer("Conv_1", 8, ("unknown",))) == {"c1": 8}


def test_what_has_no_name_goes_to_its_neighbor() -> None:
    nvm = [
        EngineLayer(n, 1)
        for n in ("input to nvm", "{ForeignNode[Conv_10...Relu_10]}", "output from nvm")
    ]
    assert times(*nvm) == {"c10": 3}
    assert times(EngineLayer("Conv_1 + Relu_1", 5), *nvm, EngineLayer("out", 2)) == {
        "c1": 6,
        "c10": 2,
        "out": 2,
    }


def test_a_piece_leaves_out_what_ran_elsewhere() -> None:
    piece = EngineLayer("{ForeignNode[Conv_1...out.a]}", 50)
    assert times(piece, EngineLayer("Conv_10 + Relu_10", 7)) == {"c1": 30, "c10": 7, "out.a": 20}


def test_nodes_of_one_name() -> None:
    found = led_back([EngineLayer("Conv", 4)], CHAIN, {"Conv": ["c1", "c10"], "": ["out"]})
    assert (found["c1"], found["c10"], sum(found.values())) == (3, 1, 4)
    assert sum(led_back([EngineLayer("x", 4)], CHAIN, {}).values()) == 4


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([*NODES, "copy", "x"]), min_size=1, max_size=4),
            st.sampled_from([" + ", " || ", "..."]),
            st.integers(1, 1000),
            st.booleans(),
        )
    )
)
def test_nothing_is_lost(parts: list[tuple[list[str], str, int, bool]]) -> None:
    reported = [
        EngineLayer(
            f"{{ForeignNode[{names[0]}...{names[-1]}]}}" if way == "..." else way.join(names),
            ns,
            tuple(names) if told else (),
        )
        for names, way, ns, told in parts
    ]
    found = led_back(reported, CHAIN, NODES)
    assert list(found) == [name for name, _ in LAYERS]
    assert min(found.values()) >= 0 and sum(found.values()) == pytest.approx(
        sum(ns for _, _, ns, _ in parts)
    )
