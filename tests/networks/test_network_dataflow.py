"""CNNs as dataflow: layers of ONNX models, phases by processor, processing by parts, against papers
and onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flowc.analysis.dataflow.order import iteration_order
from flowc.analysis.dataflow.repetition import repetition
from flowc.model.application import Application, Channel
from flowc.networks.dataflow.by_parts import (
    DoesNotApply,
    algorithm4,
    by_parts,
    layerwise_elements,
    rows_by_phase,
)
from flowc.networks.dataflow.layerwise import Phased, as_sdf, phased
from flowc.networks.dataflow.minakova import minakova
from flowc.networks.onnx.interface import NetworkError
from flowc.networks.onnx.layers import SAME, WHOLE, Cnn, Layer, LayerEdge, Rows, RowWindow
from flowc.networks.onnx.read_layers import read_layers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from minakova_examples import chain, figure_3_2, figure_4_1, table_3_1

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

# -- the papers' examples --------------------------------------------------------------------------


def between(app: Application, source: str, destination: str) -> Channel:
    """The only channel between two actors (short names)."""
    ends = (f"{app.name}.{source}", f"{app.name}.{destination}")
    (found,) = [c for c in app.channels if (c.source, c.destination) == ends]
    return found


def consumed(app: Application, source: str, destination: str) -> list[int]:
    c = between(app, source, destination)
    return list(app.task(c.destination).port(c.destination_port).rates)


def produced(app: Application, source: str, destination: str) -> list[int]:
    c = between(app, source, destination)
    return list(app.task(c.source).port(c.source_port).rates)


def vector(app: Application) -> dict[str, int]:
    found = repetition(app)
    assert found.conflict is None
    return found.vector


def least(app: Application) -> dict[str, int]:
    """Capacities of a chain: raised only when nothing else can fire. A firing claims space first
    and frees it last."""
    wanted, depth = vector(app), {t.name: k for k, t in enumerate(app.tasks)}
    fired = dict.fromkeys(wanted, 0)
    capacity = {c.name: 0 for c in app.channels}
    tokens, held = dict(capacity), dict(capacity)

    def rates(c: Channel) -> tuple[int, int, int]:
        i, o = (
            app.task(c.source).port(c.source_port),
            app.task(c.destination).port(c.destination_port),
        )
        take = o.rate(fired[c.destination])
        return (
            i.rate(fired[c.source]),
            take,
            c.frees[fired[c.destination] % len(c.frees)] if c.frees else take,
        )

    while fired != wanted:
        ready = []
        for name in sorted(depth, key=lambda n: -depth[n]):
            ins = [c for c in app.channels if c.destination == name]
            outs = [c for c in app.channels if c.source == name]
            if fired[name] < wanted[name] and all(tokens[c.name] >= rates(c)[1] for c in ins):
                short = {c.name: held[c.name] + rates(c)[0] for c in outs}
                ready.append(
                    (any(n > capacity[c] for c, n in short.items()), name, ins, outs, short)
                )
        # The last one downstream that has space; if there is none, the last one downstream gets it.
        _, name, ins, outs, short = min(ready, key=lambda r: r[0])
        for c, n in short.items():
            capacity[c] = max(capacity[c], n)
        for c in outs:
            tokens[c.name] += rates(c)[0]
            held[c.name] += rates(c)[0]
        for c in ins:
            tokens[c.name] -= rates(c)[1]
            held[c.name] -= rates(c)[2]
        fired[name] += 1
    assert set(held.values()) == {0}
    return capacity


def test_buffers_of_the_low_memory_figure_4_1() -> None:
    cnn = figure_4_1()
    assert layerwise_elements(cnn) == 2098 == sum(least(as_sdf(cnn, "A")).values())
    ours, theirs = by_parts(cnn, "A"), algorithm4(cnn, "A")
    for app in (ours, theirs):
        assert vector(app) == {"A.1": 32, "A.2": 16, "A.3": 4, "A.4": 1, "A.5": 1}
        assert consumed(app, "2", "3") == [384, 192, 192, 256]
        assert consumed(app, "1", "2") == [544] + [32] * 15
        assert produced(app, "3", "4") == [12] * 4
    assert between(ours, "2", "3").frees == (256, 192, 192, 384)
    assert between(ours, "3", "4").frees == ()
    assert between(ours, "1", "2").name == "A.1.out0->A.2.in0"
    assert produced(theirs, "3", "3") == [128, 128, 128, 0]
    assert consumed(theirs, "3", "3") == [0, 128, 128, 128]
    assert list(least(ours).values()) == [544, 384, 48, 2]
    capacities = least(theirs)
    loops = {c.name for c in theirs.channels if c.source == c.destination}
    assert sum(n for c, n in capacities.items() if c not in loops) == 978
    assert [n for c, n in capacities.items() if c in loops] == [1024, 256]
    looped = by_parts(cnn, "A", loops=True)
    assert [(c.source, c.destination) for c in looped.channels] == [
        (c.source, c.destination) for c in theirs.channels
    ]
    assert not any(c.frees for c in looped.channels) and least(looped) == capacities
    # Ex3 of Table 4.1: layer 3 at once.
    assert list(least(by_parts(figure_4_1((32, 16, 1, 1, 1)), "A")).values()) == [544, 1024, 48, 2]


@pytest.mark.parametrize(
    ("window", "before", "after", "reason"),
    [
        (RowWindow(7, 2, top=3, bottom=3), 224, 112, "phase 112 of 112 would take -1 rows"),
        (RowWindow(3, 2, top=1, bottom=1), 56, 28, "take 55 rows, the data has 56"),
        (RowWindow(1, 2), 56, 28, "take 28 rows, the data has 56"),
        (RowWindow(2, 1, top=3, bottom=1), 5, 8, "phase 1 of 8 would take -1 rows"),
        (WHOLE, 1, 8, "whole rows are no sliding window"),
    ],
)
def test_where_algorithm_4_fails_parts_hold(
    window: Rows, before: int, after: int, reason: str
) -> None:
    data = Layer("in", "input", (1, before, 3, 2), 1, before, ())
    layer = Layer(
        "a/b c", "Conv", (1, after, 1, 1), 1, after, (LayerEdge("in", before * 6, before, window),)
    )
    cnn = Cnn((data, layer), "f")
    with pytest.raises(DoesNotApply, match=reason) as raised:
        algorithm4(cnn, "A")
    assert "'a/b c'" in str(raised.value)
    for loops in (False, True):
        app = by_parts(cnn, "A", loops=loops)
        assert vector(app) == {"A.in": before, "A.a/b c": after}
        assert not iteration_order(app, vector(app)).blocked


def test_phases_of_the_high_throughput_figure_4_1() -> None:
    """Fig. 3.2 and Table 3.1 of Minakova's thesis; the topology is one that fits its text."""
    cnn, mapping = figure_3_2(), table_3_1()
    assert len(cnn.layers) == 23 and len(as_sdf(cnn, "A").channels) == 24
    for make, parts in (
        (minakova, (("8",), ("9", "10", "13"))),
        (phased, (("8", "9", "10"), ("13",))),
    ):
        found = make(cnn, mapping, "A")
        assert len(found.app.tasks) == 5 and len(found.app.channels) == 7
        assert [c.source for c in found.app.channels if c.source == c.destination] == ["A.cpu2"]
        assert found.phases["A.cpu2"] == parts
        assert consumed(found.app, "cpu1", "cpu2") == [187200, 0]
        assert consumed(found.app, "cpu3", "cpu2") == [0, 22500]
        assert runs(found)


def runs(found: Phased) -> bool:
    """Is it free of deadlock? Consistency is asserted: every actor goes through its phases once."""
    firings = vector(found.app)
    assert firings == {actor: len(parts) for actor, parts in found.phases.items()}
    return not iteration_order(found.app, firings).blocked


@pytest.mark.parametrize(
    "edges",
    [
        [("l1", "l2"), ("l2", "l4"), ("l4", "x"), ("l1", "l3"), ("x", "l3")],
        [("l1", "a"), ("a", "l3"), ("l1", "l2"), ("l3", "l2"), ("l3", "x")],
    ],
)
def test_algorithm_2_can_deadlock(edges: list[tuple[str, str]]) -> None:
    cnn = chain(edges)
    mapping = {x.name: "q" if x.name == "x" else "p" for x in cnn.layers}
    assert not runs(minakova(cnn, mapping, "A"))
    assert runs(phased(cnn, mapping, "A"))


def test_algorithm_2_can_lose_an_edge_between_phases() -> None:
    cnn = chain([("l1", "l2"), ("l2", "x"), ("l1", "l3")])
    mapping = {"l1": "p", "l2": "p", "l3": "p", "x": "q"}
    found = minakova(cnn, mapping, "A")
    assert found.phases["A.p"] == (("l1", "l2"), ("l3",))
    assert [c.name for c in found.app.channels] == ["A.p.out0->A.q.in0"]
    # Here l2 runs before its source l3.
    cnn = chain([("l1", "a"), ("x", "l3"), ("a", "l2"), ("l3", "l2")])
    found = minakova(cnn, mapping | {"a": "p"}, "A")
    assert found.phases["A.p"] == (("l1", "a", "l2"), ("l3",))
    assert len(found.app.channels) == 1
    right = phased(cnn, mapping | {"a": "p"}, "A")
    assert right.phases["A.p"] == (("l1", "a"), ("l3", "l2")) and runs(right)


# -- whatever the network --------------------------------------------------------------------------


@st.composite
def mapped(draw: st.DrawFn) -> tuple[Cnn, dict[str, str]]:
    count = draw(st.integers(1, 14))
    layers: list[Layer] = []
    for k in range(count):
        sources = draw(st.sets(st.integers(0, k - 1), max_size=3)) if k else set()
        edges = tuple(LayerEdge(f"l{s}", s + 1, 1, WHOLE) for s in sorted(sources))
        layers.append(Layer(f"l{k}", "Conv", (1, 1, 1, k + 1), 4, 1, edges))
    homes = draw(st.lists(st.sampled_from("pqrs"), min_size=count, max_size=count))
    return Cnn(tuple(layers), "f"), {f"l{k}": home for k, home in enumerate(homes)}


@settings(max_examples=200)
@given(mapped())
def test_topological_phases_never_deadlock(made: tuple[Cnn, dict[str, str]]) -> None:
    cnn, mapping = made
    found = phased(cnn, mapping, "A")
    assert runs(found)
    place = {
        x: (actor, k)
        for actor, parts in found.phases.items()
        for k, part in enumerate(parts)
        for x in part
    }
    assert sorted(place) == sorted(mapping)
    crossing = [e for x in cnn.layers for e in x.inputs if place[e.source] != place[x.name]]
    assert len(found.app.channels) == len(crossing)
    total = sum(sum(found.app.task(c.source).port(c.source_port).rates) for c in found.app.channels)
    assert total == sum(e.elements for e in crossing)


@settings(max_examples=300)
@given(
    window=st.builds(
        RowWindow,
        st.integers(1, 7),
        st.integers(1, 5),
        st.integers(1, 3),
        st.integers(-2, 6),
        st.integers(-2, 6),
    ),
    height=st.integers(1, 40),
    grouping=st.integers(1, 4),
)
def test_parts_take_and_free_exactly_what_the_window_needs(
    window: RowWindow, height: int, grouping: int
) -> None:
    padded = height + window.top + window.bottom
    out = (padded - window.span) // window.stride + 1
    assume(padded >= window.span)
    grouping = grouping if out % grouping == 0 else 1
    taps = [
        {
            q
            for j in range(window.kernel)
            if 0 <= (q := r * window.stride - window.top + j * window.dilation) < height
        }
        for r in range(out)
    ]
    edge = LayerEdge("in", height * 6, height, window)
    for r, rows in enumerate(taps):
        needed = window.needs(r, height)
        assert (min(rows), max(rows)) == (needed[0], needed[-1]) if rows else not needed
    layer = Layer("l", "Conv", (1, out, 1, 1), 1, out // grouping, (edge,))
    taken, freed = rows_by_phase(layer, edge)
    assert len(taken) == len(freed) == layer.phases
    assert sum(taken) == sum(freed) == height and min(*taken, *freed) >= 0
    phases = [set().union(*taps[k : k + grouping]) for k in range(0, out, grouping)]
    there, gone, before = list(accumulate(taken)), list(accumulate(freed)), 0
    for p in range(layer.phases):
        assert gone[p] <= there[p]
        assert phases[p] <= set(range(gone[p - 1] if p else 0, there[p]))
        if p < layer.phases - 1:
            before = max([before, *(r + 1 for r in phases[p])])
            assert there[p] == before
            assert gone[p] == min([there[p], *(r for later in phases[p + 1 :] for r in later)])


def test_a_cnn_is_checked() -> None:
    data = Layer("a", "input", (1, 4, 1, 1), 1, 4, ())
    with pytest.raises(ValueError, match="called 'a'"):
        Cnn((data, data), "f")
    with pytest.raises(ValueError, match="before its source"):
        Cnn((Layer("b", "Relu", (1, 4, 1, 1), 1, 4, (LayerEdge("a", 4, 4, SAME),)), data), "f")
    with pytest.raises(ValueError, match="4 rows in 3 phases"):
        Cnn((Layer("a", "input", (1, 4, 1, 1), 1, 3, ()),), "f")
    with pytest.raises(ValueError, match="do not divide"):
        Cnn((data, Layer("b", "Relu", (1, 4, 1, 1), 1, 4, (LayerEdge("a", 6, 4, SAME),))), "f")


# -- ONNX models -----------------------------------------------------------------------------------

Node = onnx.NodeProto
N = helper.make_node
Weights = Mapping[str, "np.ndarray | list[int] | list[float]"]
RNG = np.random.default_rng(7)


def save(
    path: Path,
    nodes: list[Node],
    inputs: Mapping[str, Sequence[object]],
    weights: Weights,
    opset: int,
    outs: str,
) -> Path:
    """Write a small model; shapes of outputs are left to inference."""
    arrays = {
        n: np.asarray(w, np.int64 if n.startswith("i_") else np.float32) for n, w in weights.items()
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outs.split()],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return path


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def claimed(cnn: Cnn) -> dict[str, list[set[tuple[str, int]]]]:
    """Per layer and output row, the rows of the network's inputs that may have an influence."""
    reach: dict[str, list[set[tuple[str, int]]]] = {}
    for x in cnn.layers:
        rows: list[set[tuple[str, int]]] = [set() for _ in range(x.shape[1])]
        for r in range(x.shape[1]):
            if x.operator == "input":
                rows[r] = {(x.name, r)}
            for e in x.inputs:
                assert (
                    len(reach[e.source]) == e.height
                    or e.height == 1
                    or len(set(map(frozenset, reach[e.source]))) == 1
                )
                for k in e.rows.needs(r, e.height):
                    rows[r] |= reach[e.source][min(k, len(reach[e.source]) - 1)]
        if x.phases == 1:
            rows = [set().union(*rows)] * len(rows)
            for e in x.inputs:
                rows = [rows[0].union(*reach[e.source])] * len(rows)
        reach[x.name] = rows
    return reach


def changed(path: Path, cnn: Cnn) -> dict[str, list[set[tuple[str, int]]]]:
    """Per network output and row, the input rows whose values changed it in onnxruntime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    data = {i.name: RNG.normal(size=i.shape).astype(np.float32) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]

    def run(feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.moveaxis(y, 2, 0) if y.ndim > 2 else y[None] for y in session.run(names, feed)]

    base = run(data)
    found: dict[str, list[set[tuple[str, int]]]] = {
        n: [set() for _ in b] for n, b in zip(names, base, strict=True)
    }
    for name, x in data.items():
        for row in range(x.shape[2] if x.ndim > 2 else 1):
            for push in (50.0, -50.0):
                other = x.copy()
                place = (slice(None), slice(None), row) if x.ndim > 2 else (...,)
                other[place] += push * (1 + RNG.random(other[place].shape))
                for n, b, y in zip(names, base, run({**data, name: other}), strict=True):
                    for r in range(len(b)):
                        if not np.array_equal(b[r], y[r]):
                            found[n][r].add((name, row))
    return found


X = {"x": [1, 2, 13, 4]}
W = {"w": weights(3, 2, 3, 3)}
#: name: nodes, inputs, weights, operator set, phases of the layer y, whether every claimed row has
#: an influence
CASES: dict[str, tuple[list[Node], Mapping[str, Sequence[int]], Weights, int, int, bool]] = {
    "conv": ([N("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], X, W, 17, 13, True),
    "conv, rows": ([N("Conv", ["x", "w"], ["y"])], {"x": [2, 2, 9]}, {"w": weights(3, 2, 3)}, 17, 7, True),
    "conv, volume": ([N("Conv", ["x", "w"], ["y"])], {"x": [1, 1, 6, 3, 3]}, {"w": weights(2, 1, 2, 2, 2)}, 17, 5, True),
    "conv, batch": ([N("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": [3, 2, 7, 4]}, W, 17, 7, True),
    "conv, dilated": (
        [N("Conv", ["x", "w"], ["y"], dilations=[3, 1], pads=[4, 1, 2, 1])], X, W, 17, 13, False,
    ),
    "conv, asymmetric": ([N("Conv", ["x", "w"], ["y"], pads=[0, 0, 5, 2], strides=[2, 1])], X, W, 17, 8, True),
    "conv, stride above kernel": ([N("Conv", ["x", "w"], ["y"], strides=[5, 1])], X, W, 17, 3, True),
    "conv, same upper": ([N("Conv", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")], {"x": [1, 2, 8, 4]}, W, 17, 4, True),
    "conv, same lower": ([N("Conv", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_LOWER")], {"x": [1, 2, 8, 4]}, W, 17, 4, True),
    "conv, valid": ([N("Conv", ["x", "w"], ["y"], auto_pad="VALID")], X, W, 17, 11, True),
    "conv, window of the data's size": ([N("Conv", ["x", "w"], ["y"])], {"x": [1, 2, 3, 3]}, W, 17, 1, True),
    "conv, weights from a tensor": ([N("Conv", ["x", "v"], ["y"])], {"x": [1, 2, 6, 4], "v": [3, 2, 3, 3]}, {}, 17, 1, False),
    "pool, ceil": ([N("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2], ceil_mode=1)], X, {}, 17, 5, True),
    "pool, ceil and pads": (
        [N("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 0])], X, {}, 17, 7, True,
    ),
    "pool, average": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[4, 2], strides=[2, 2], pads=[1, 0, 2, 0])], X, {}, 17, 7, True,
    ),
    "pool, average with ceil": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], ceil_mode=1)], {"x": [1, 1, 8, 4]}, {}, 19, 4, True,
    ),
    "pool, norm": ([N("LpPool", ["x"], ["y"], kernel_shape=[3, 2], p=2)], X, {}, 18, 11, True),
    "pool, dilated": ([N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[4, 1])], X, {}, 17, 9, False),
    "transposed": ([N("ConvTranspose", ["x", "w"], ["y"], strides=[2, 1])], {"x": [1, 2, 5, 4]}, {"w": weights(2, 1, 3, 3)}, 17, 11, True),
    "transposed, gaps": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[4, 1], dilations=[2, 1], pads=[1, 0, 1, 0], output_padding=[2, 0])],
        {"x": [1, 2, 5, 4]}, {"w": weights(2, 1, 2, 2)}, 17, 19, False,
    ),
    "transposed, same": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")],
        {"x": [1, 2, 5, 4]}, {"w": weights(2, 1, 3, 3)}, 17, 10, False,
    ),
    "transposed, same lower": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_LOWER")],
        {"x": [1, 2, 5, 4]}, {"w": weights(2, 1, 4, 4)}, 17, 10, False,
    ),
    "transposed, given shape": (
        [N("ConvTranspose", ["x", "w"], ["y"], strides=[3, 2], output_shape=[12, 8])],
        {"x": [1, 2, 5, 4]}, {"w": weights(2, 1, 3, 3)}, 17, 12, False,
    ),
    "concat, channels": ([N("Relu", ["x"], ["r"]), N("Concat", ["x", "r"], ["y"], axis=1)], X, {}, 17, 13, True),
    "concat, height": (
        [N("Concat", ["x", "c", "z", "x"], ["y"], axis=-2)],
        {"x": [1, 2, 5, 4], "z": [1, 2, 3, 4]}, {"c": weights(1, 2, 2, 4)}, 17, 15, True,
    ),
    "pad": ([N("Pad", ["x", "i_p"], ["y"])], X, {"i_p": [0, 0, 2, 0, 0, 0, 3, 1]}, 17, 18, True),
    "pad, crop": ([N("Pad", ["x", "i_p"], ["y"])], X, {"i_p": [0, 0, -2, 0, 0, 0, 1, 1]}, 17, 12, True),
    "pad, by axes": ([N("Pad", ["x", "i_p", "", "i_a"], ["y"])], X, {"i_p": [1, 4, 2, 0], "i_a": [3, -2]}, 18, 17, True),
    "pad, edge": ([N("Pad", ["x", "i_p"], ["y"], mode="edge")], X, {"i_p": [0, 0, 2, 0, 0, 0, 3, 1]}, 17, 18, True),
    "pad, reflect": ([N("Pad", ["x", "i_p"], ["y"], mode="reflect")], X, {"i_p": [0, 0, 2, 0, 0, 0, 3, 1]}, 17, 1, False),
    "pad, reflect the width": ([N("Pad", ["x", "i_p"], ["y"], mode="reflect")], X, {"i_p": [0, 0, 0, 1, 0, 0, 0, 1]}, 17, 13, True),
    "pad, by attribute": ([N("Pad", ["x"], ["y"], pads=[0, 0, 1, 0, 0, 0, 2, 0])], X, {}, 10, 16, True),
    "slice": (
        [N("Slice", ["x", "i_s", "i_e", "i_a", "i_d"], ["y"])], X,
        {"i_s": [1, -11], "i_e": [4, 2**60], "i_a": [3, 2], "i_d": [1, 3]}, 17, 4, True,
    ),
    "slice, backwards": (
        [N("Slice", ["x", "i_s", "i_e", "i_a", "i_d"], ["y"])], X,
        {"i_s": [-1], "i_e": [-(2**60)], "i_a": [2], "i_d": [-1]}, 17, 1, False,
    ),
    "slice, by attribute": ([N("Slice", ["x"], ["y"], starts=[4], ends=[9], axes=[2])], X, {}, 9, 5, True),
    "upsample x2": (
        [N("Resize", ["x", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        X, {"s": [1, 1, 2, 2]}, 17, 26, True,
    ),
    "upsample x3, defaults": ([N("Resize", ["x", "", "s"], ["y"])], X, {"s": [1, 1, 3, 3]}, 17, 39, False),
    "upsample x2, defaults": ([N("Resize", ["x", "", "s"], ["y"])], X, {"s": [1, 1, 2, 2]}, 17, 26, True),
    "upsample, older": ([N("Upsample", ["x", "s"], ["y"])], X, {"s": [1, 1, 2, 2]}, 9, 26, False),
    "resize, older": ([N("Resize", ["x", "s"], ["y"])], X, {"s": [1, 1, 0.6, 1]}, 10, 7, False),
    "resize to a size": ([N("Resize", ["x", "", "", "i_s"], ["y"])], X, {"i_s": [1, 2, 9, 7]}, 17, 9, False),
    "resize to a size, ceil": (
        [N("Resize", ["x", "", "", "i_s"], ["y"], nearest_mode="ceil", coordinate_transformation_mode="align_corners")],
        X, {"i_s": [1, 2, 20, 7]}, 17, 20, False,
    ),
    "resize, prefer ceil": (
        [N("Resize", ["x", "", "s"], ["y"], nearest_mode="round_prefer_ceil", coordinate_transformation_mode="tf_half_pixel_for_nn")],
        X, {"s": [1, 1, 1.5, 1]}, 13, 19, False,
    ),
    "resize, linear": (
        [N("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")],
        X, {"s": [1, 1, 1.7, 1.3]}, 17, 22, False,
    ),
    "resize, linear down": ([N("Resize", ["x", "", "s"], ["y"], mode="linear")], X, {"s": [1, 1, 0.4, 0.5]}, 17, 5, False),
    "resize, cubic": ([N("Resize", ["x", "", "s"], ["y"], mode="cubic")], X, {"s": [1, 1, 2, 2]}, 17, 26, False),
    "resize, antialias": ([N("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)], X, {"s": [1, 1, 0.4, 0.5]}, 18, 1, False),
    # Cases where onnxruntime goes its own way, found with random models.
    "conv, strides that jump": (
        [N("Conv", ["x", "w"], ["y"], strides=[5, 1], auto_pad="SAME_UPPER")], {"x": [1, 2, 15, 4]}, W, 17, 1, False,
    ),
    "pool, strides that jump": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[1, 1], strides=[4, 1], auto_pad="SAME_UPPER")],
        {"x": [1, 1, 7, 2]}, {}, 19, 1, False,
    ),
    "pool, same and dilated": (
        [N("MaxPool", ["x"], ["y"], kernel_shape=[2, 1], strides=[3, 1], dilations=[3, 1], auto_pad="SAME_LOWER", ceil_mode=1)], X, {}, 17, 1, False,
    ),
    "resize that keeps the size": (
        [N("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="pytorch_half_pixel")],
        {"x": [1, 1, 19, 2]}, {"s": [1, 1, 1.0335342, 1]}, 18, 1, False,
    ),
    "resize past a whole row": (
        [N("Resize", ["x", "", "", "i_s"], ["y"], nearest_mode="ceil")], {"x": [1, 1, 11, 2]}, {"i_s": [1, 1, 13, 2]}, 18, 13, False,
    ),
    "residual": (
        [
            N("Conv", ["x", "v"], ["c"], pads=[1, 1, 1, 1]), N("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"]),
            N("Add", ["b", "x"], ["a"]), N("Relu", ["a"], ["y"]),
        ],
        X, {"v": weights(2, 2, 3, 3), "s": [1, 2]}, 17, 13, False,
    ),
    "squeeze and excite": (
        [N("GlobalAveragePool", ["x"], ["g"]), N("Sigmoid", ["g"], ["s"]), N("Mul", ["x", "s"], ["y"])], X, {}, 17, 13, False,
    ),
    "broadcast of a matrix": ([N("Add", ["x", "m"], ["y"])], {"x": [1, 2, 5, 4], "m": [5, 4]}, {}, 17, 5, False),
    "broadcast of a cube": ([N("Add", ["x", "m"], ["y"])], {"x": [1, 2, 5, 4], "m": [2, 5, 4]}, {}, 17, 1, False),
    "classifier": (
        [
            N("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), N("GlobalAveragePool", ["p"], ["g"]),
            N("Flatten", ["g"], ["f"]), N("Gemm", ["f", "w"], ["y"]),
        ],
        X, {"w": weights(2, 5)}, 17, 1, True,
    ),
    "reshape": ([N("Reshape", ["x", "i_s"], ["r"]), N("Relu", ["r"], ["y"])], X, {"i_s": [1, 4, 13, 2]}, 17, 13, False),
    "reshape by the shape of data": (
        [
            N("Shape", ["x"], ["h"]), N("Concat", ["h", "i_one"], ["k"], axis=0), N("Reshape", ["x", "k"], ["r"]),
            N("Relu", ["r"], ["y"]),
        ],
        X, {"i_one": [1]}, 17, 13, False,
    ),
    "softmax, channels": ([N("Softmax", ["x"], ["y"], axis=1)], X, {}, 17, 13, True),
    "softmax, height": ([N("Softmax", ["x"], ["y"], axis=-2)], X, {}, 17, 1, True),
    "softmax, older": ([N("Softmax", ["x"], ["y"], axis=1)], X, {}, 11, 1, True),
    "transpose that keeps rows": ([N("Transpose", ["x"], ["y"], perm=[0, 3, 2, 1])], X, {}, 17, 13, True),
    "transpose": ([N("Transpose", ["x"], ["y"], perm=[0, 1, 3, 2])], X, {}, 17, 1, True),
    "reduce": ([N("ReduceMean", ["x"], ["y"], axes=[1], keepdims=1)], X, {}, 17, 1, False),
    "split, channels": (
        [N("Split", ["x"], ["a", "b"], axis=1), N("Mul", ["a", "b"], ["y"])], X, {}, 13, 13, True,
    ),
    "split, height": (
        [N("Split", ["x", "i_n"], ["a", "b"], axis=2), N("Concat", ["a", "b"], ["y"], axis=3)],
        {"x": [1, 2, 8, 4]}, {"i_n": [4, 4]}, 13, 4, False,
    ),
    "split, unequal": (
        [N("Split", ["x", "i_n"], ["a", "b"], axis=2), N("Concat", ["b", "a"], ["y"], axis=2)],
        {"x": [1, 2, 8, 4]}, {"i_n": [3, 5]}, 13, 8, False,
    ),
    "depth to space": ([N("DepthToSpace", ["x"], ["y"], blocksize=2)], {"x": [1, 8, 5, 3]}, {}, 17, 10, True),
    "space to depth": ([N("SpaceToDepth", ["x"], ["y"], blocksize=3)], {"x": [1, 1, 9, 3]}, {}, 17, 3, True),
    "norm over channels": ([N("LRN", ["x"], ["y"], size=3)], X, {}, 17, 13, True),
    "norm over everything": ([N("InstanceNormalization", ["x", "s", "s"], ["y"])], X, {"s": [1, 2]}, 17, 1, False),
    "identity of the input": ([N("Identity", ["x"], ["y"])], X, {}, 17, 13, True),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rows_against_onnxruntime(tmp_path: Path, case: str) -> None:
    """Changing an input row changes no output row that is claimed not to need it."""
    nodes, inputs, known, opset, phases, tight = CASES[case]
    path = save(tmp_path / "n.onnx", nodes, inputs, known, opset, "y")
    cnn = read_layers(path)
    assert next(x for x in cnn.layers if x.name == "y").phases == phases
    assert cnn.layers[-1].name == "y:output" and cnn.layers[-1].phases == 1
    claim, real = claimed(cnn)["y"], changed(path, cnn)["y"]
    assert len(claim) == len(real)
    for row, (allowed, seen) in enumerate(zip(claim, real, strict=True)):
        assert seen == allowed if tight else seen <= allowed, f"row {row}"
    app = by_parts(cnn, "N")
    assert vector(app) == {f"N.{x.name}": x.phases for x in cnn.layers}
    assert not iteration_order(app, vector(app)).blocked
    for c in app.channels:
        assert sum(c.frees) in (0, sum(app.task(c.destination).port(c.destination_port).rates))


def test_several_outputs_and_dead_ends(tmp_path: Path) -> None:
    nodes = [
        N("Split", ["x", "i_n"], ["a", "b"], axis=1),
        N("Add", ["a", "a"], ["twice"]),
        N("Sigmoid", ["b"], ["unread"]),
        N("Neg", ["unused"], ["dead"]),
        N("ConstantOfShape", ["i_n"], ["c"]),
        N("Neg", ["c"], ["d"]),
        N("MatMul", ["b", "d"], ["m"]),
    ]
    path = save(
        tmp_path / "n.onnx",
        nodes,
        {"x": ["n", 3, 6, 2], "unused": [1]},
        {"i_n": [2, 1]},
        13,
        "twice m",
    )
    cnn = read_layers(path, {}, 5)
    assert [x.name for x in cnn.layers] == ["x", "a", "twice", "m", "twice:output", "m:output"]
    split, twice, product = cnn.layers[1:4]
    assert (split.operator, split.shape, split.phases, split.bytes) == ("Split", (5, 6, 2, 2), 6, 4)
    assert twice.inputs == (LayerEdge("a", 120, 6, SAME),)
    assert product.inputs == (LayerEdge("a", 60, 6, WHOLE),) and product.phases == 1
    app = by_parts(cnn, "A")
    assert produced(app, "a", "twice") == [20] * 6 and produced(app, "a", "m") == [10] * 6
    assert read_layers(path, {"x": (2, 3, 6, 2)}).layers[0].shape == (2, 6, 2, 3)


def test_unusable_models_are_refused(tmp_path: Path) -> None:
    relu = [N("Relu", ["x"], ["y"])]
    cases = {
        "F401": tmp_path / "none.onnx",
        "F402": save(
            tmp_path / "late.onnx", [N("Neg", ["z"], ["y"]), N("Neg", ["x"], ["z"])], X, {}, 17, "y"
        ),
        "F403": save(tmp_path / "dynamic.onnx", relu, {"x": [1, 2, "h", 4]}, {}, 17, "y"),
    }
    for code, path in cases.items():
        with pytest.raises(NetworkError) as raised:
            read_layers(path)
        assert raised.value.code == code
    wide = [N("MaxPool", ["x"], ["y"], kernel_shape=[20, 1])]
    with pytest.raises(NetworkError, match="negative dimension"):
        read_layers(save(tmp_path / "wide.onnx", wide, X, {}, 17, "y"))
    with pytest.raises(NetworkError, match="depends on an input"):
        read_layers(save(tmp_path / "idle.onnx", [N("Neg", ["c"], ["y"])], X, {"c": [1]}, 17, "y"))
    less = [N("ConvTranspose", ["x", "w"], ["y"], output_shape=[6, 2])]
    with pytest.raises(NetworkError, match="has no shape"):
        read_layers(save(tmp_path / "less.onnx", less, X, {"w": weights(2, 1, 3, 3)}, 17, "y"))
    loose = [N("NonZero", ["x"], ["i"]), N("Cast", ["i"], ["y"], to=TensorProto.FLOAT)]
    with pytest.raises(NetworkError, match=r"`i` of `loose\.onnx` has no fixed shape") as raised:
        read_layers(save(tmp_path / "loose.onnx", loose, X, {}, 17, "y"))
    assert raised.value.code == "F403"


@pytest.mark.parametrize(
    ("name", "layers", "phases", "elements"),
    [
        # Layers and phases of the first three are those of Table 4.3 of the thesis, input and
        # output apart.
        ("vgg19", 46, 2354, 31436752),
        ("inception_v1", 143, 2494, 11760416),
        ("squeezenet", 66, 1870, 7379744),
        ("resnet50", 176, 4603, 43333072),
        ("densenet121", 668, 13505, 89365480),
        ("shufflenet", 203, 2908, 15426720),
    ],
)
def test_known_networks(name: str, layers: int, phases: int, elements: int) -> None:
    cnn = read_layers(LIGHT / f"light_{name}.onnx")
    inner = [x for x in cnn.layers if x.operator not in ("input", "output")]
    assert (len(inner), sum(x.phases for x in inner), layerwise_elements(cnn)) == (
        layers,
        phases,
        elements,
    )
    app = by_parts(cnn, "N")
    firings = vector(app)
    assert firings == {f"N.{x.name}": x.phases for x in cnn.layers}
    assert not iteration_order(app, firings).blocked
    homes = {x.name: f"p{k % 3}" for k, x in enumerate(cnn.layers)}
    assert runs(phased(cnn, homes, "N"))
