"""Networks in bands of rows: plans against a simulator of rows, a poisoned arena, and the network
as a whole."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from flowc.analysis.minakova import algorithm8
from flowc.analysis.placement import place
from flowc.codegen.kinds import bands as kind
from flowc.model.mapping import Bands
from flowc.model.profile import BandCosts
from flowc.networks.bands import firings
from flowc.networks.bands.blocked import read_blocked
from flowc.networks.bands.choose import Extra, choice_of, exact, extra_of, front
from flowc.networks.bands.firings import BandPlan, CannotBand, View, plan_of
from flowc.networks.bands.fitted import fitted
from flowc.networks.bands.inner import inner_bytes
from flowc.networks.bands.made import Made
from flowc.networks.bands.models import models
from flowc.networks.bands.needs import ending, needs
from flowc.networks.bands.net import BandNet, read_net
from flowc.networks.bands.units import BandUnit, cut_bytes, macs
from flowc.networks.dataflow.reduced import derived
from flowc.networks.onnx.memory import needs_of
from flowc.networks.onnx.own_graph import NCHWC
from flowc.networks.onnx.read_layers import read_layers
from flowc.runtime.bands import _Player as Player
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from models import N, stack


class Drawn:
    """A network that grows by draws; `seen` are tensors with their shapes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        shape = (1, self.draw.choice((1, 3, 16)), self.draw.randint(6, 20), self.draw.randint(3, 8))
        self.seen: list[tuple[str, tuple[int, ...]]] = [("x", shape)]
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(
            numpy_helper.from_array(self.rng.normal(0, 0.3, shape).astype(np.float32), name)
        )
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(N(op, inputs, [name], **attributes))
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)], self.weights,
        )  # fmt: skip
        inferred = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        )
        self.seen.append(
            (name, tuple(d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim))
        )

    def layer(self) -> None:
        """One more."""
        draw = self.draw
        name, (_, channels, height, width) = (
            draw.choice(self.seen[-3:]) if draw.random() < 0.2 else self.seen[-1]
        )
        op = draw.choice(
            (
                "conv",
                "conv",
                "conv",
                "max",
                "mean",
                "relu",
                "add",
                "concat",
                "up",
                "deep",
                "back",
                "scale",
            )
        )
        kernel, dilation = draw.randint(1, 5), draw.randint(1, 2)
        span = (kernel - 1) * dilation + 1
        pads = [draw.randint(0, span - 1), 1 % span, draw.randint(0, span - 1), 1 % span]
        if height + pads[0] + pads[2] < span or width + 2 * (1 % span) < span:
            kernel, dilation, pads = 1, 1, [0] * 4
        window = {"kernel_shape": [kernel] * 2, "strides": [draw.randint(1, 3), 1], "pads": pads}
        alike = [n for n, s in self.seen if s == (1, channels, height, width) and n != name]
        tall = [n for n, s in self.seen if s[2:] == (height, width)]
        if op == "conv":
            out = draw.choice((1, 4, 16))
            self.add(
                "Conv",
                name,
                self.weight(out, channels, kernel, kernel),
                dilations=[dilation] * 2,
                **window,
            )
        elif op == "max":
            pads = [min(p, kernel - 1) for p in pads]
            self.add(
                "MaxPool", name, **{**window, "pads": pads}, ceil_mode=0
            ) if dilation == 1 else self.add("Relu", name)
        elif op == "mean" and dilation == 1:
            self.add("AveragePool", name, **window, count_include_pad=draw.randint(0, 1))
        elif op == "add" and alike:
            self.add("Add", name, draw.choice(alike))
        elif op == "concat" and channels < 40:
            self.add("Concat", name, draw.choice(tall), axis=1)
        elif op == "up" and height < 30:
            self.weights.append(
                numpy_helper.from_array(np.array([1, 1, 2, 1], np.float32), f"w{len(self.weights)}")
            )
            self.add("Resize", name, "", self.weights[-1].name, mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
        elif op == "deep" and channels % 4 == 0 and height < 30:
            self.add("DepthToSpace", name, blocksize=2, mode=draw.choice(("CRD", "DCR")))
        elif op == "back" and height < 30:
            self.add(
                "ConvTranspose",
                name,
                self.weight(channels, 4, 2, 2),
                kernel_shape=[2, 2],
                strides=[2, 2],
            )
        elif op == "scale":
            self.add("Mul", name, self.weight(1, channels, 1, 1))
        else:
            self.add("Relu", name)

    def save(self, path: Path) -> Path:
        """With one or two outputs, and a mean over the image at the end of some."""
        if self.draw.random() < 0.3:
            self.add("GlobalAveragePool", self.seen[-1][0])
        outputs = dict.fromkeys(
            [
                self.seen[-1][0],
                *([self.draw.choice(self.seen[1:])[0]] if self.draw.random() < 0.3 else []),
            ]
        )
        shapes = dict(self.seen)
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in ("x", *outputs)
        ]
        graph = helper.make_graph(self.nodes, "g", ends[:1], ends[1:], self.weights)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            path,
        )
        return path


def drawn(seed: int, folder: Path) -> BandNet:
    """A random network."""
    network = Drawn(seed)
    for _ in range(network.draw.randint(2, 9)):
        network.layer()
    return read_net(network.save(folder / "net.onnx"))


def some_plan(net: BandNet, seed: int) -> tuple[BandPlan, tuple[Bands, ...]] | None:
    """Bands that are possible, if some draws find any."""
    draw = random.Random(seed)
    for _ in range(30):
        good = next((k for k in range(len(net.groups)) if net.why_not(k)), len(net.groups))
        if not good:
            return None
        end = draw.randint(1, good)
        inner = [net.groups[k].makes[0] for k in range(end - 1) if net.groups[k].makes]
        keep = tuple(t for t in inner if draw.random() < 0.5)
        until = None if end == len(net.groups) else (net.groups[end - 1].makes or ("",))[0]
        bands = [Bands(draw.randint(1, 6), until, keep)]
        if draw.random() < 0.3 and end < good:
            bands.append(
                Bands(
                    draw.randint(1, 4),
                    None if good == len(net.groups) else net.groups[good - 1].makes[0],
                )
            )
        try:
            return plan_of(net, bands), tuple(bands)
        except CannotBand as error:
            assert error.code in ("F522", "F523", "F526")
    return None


def simulate(plan: BandPlan) -> None:
    """Rows by name in every stretch of memory: each read finds its rows, and all rows of the
    outputs are made."""
    net = plan.net
    rows: dict[tuple[str | int, ...], list[tuple[str, int] | None]] = {
        ("token", t): [(t, r) for r in range(net.height(t))] for t in net.chain.inputs
    }
    for t in net.chain.outputs:
        rows["token", t] = [None] * net.height(t)

    def seen(view: View) -> list[tuple[str, int] | None]:
        return rows[view.key][view.rows[0] - view.held[0] : view.rows[1] - view.held[0]]

    def put(view: View, what: list[tuple[str, int] | None]) -> None:
        there = rows.get(view.key, [])
        size = view.held[1] - view.held[0]
        there = (there + [None] * size)[:size] if view.key[0] == "line" else there or [None] * size
        first = view.rows[0] - view.held[0]
        rows[view.key] = there[:first] + what + there[first + len(what) :]

    for call in plan.calls:
        for move in call.before:
            put(move.target, seen(move.source))
        for view in call.reads:
            assert seen(view) == [(view.tensor, r) for r in range(*view.rows)], call
        for view in call.makes:
            put(view, [(view.tensor, r) for r in range(*view.rows)])
        for move in call.after:
            put(move.target, seen(move.source))
    for t in net.chain.outputs:
        assert rows["token", t] == [(t, r) for r in range(net.height(t))]


def poisoned(
    plan: BandPlan, sessions: Sequence[ort.InferenceSession], which: Sequence[int], x: np.ndarray
) -> list[np.ndarray]:
    """Call by call, with every byte of the arena that no stretch has now made NaN, and canaries at
    both ends."""
    net = plan.net
    arena = np.full(plan.arena // 4 + 32, np.nan, np.float32)
    tokens = {net.chain.inputs[0]: x} | {
        t: np.full(net.shapes[t], np.nan, np.float32) for t in net.chain.outputs
    }

    def at(view: View) -> np.ndarray:
        if view.key[0] == "token":
            whole = tokens[view.tensor]
        else:
            shape = net.laid(view.tensor, view.held[1] - view.held[0])
            first = 16 + plan.offsets[view.key] // 4
            whole = arena[first : first + int(np.prod(shape))].reshape(shape)
        return (
            whole[:, :, view.rows[0] - view.held[0] : view.rows[1] - view.held[0]]
            if whole.ndim == 4
            else whole
        )

    for now, (call, number) in enumerate(zip(plan.calls, which, strict=True)):
        alive = np.zeros(len(arena), bool)
        for key, item in plan.items.items():
            if item.first <= now <= item.last:
                first = 16 + plan.offsets[key] // 4
                alive[first : first + item.size // 4] = True
        arena[~alive] = np.nan
        for move in call.before:
            at(move.target)[...] = at(move.source).copy()
        shapes = {i.name: i.shape for i in sessions[number].get_inputs()}
        feeds = {v.tensor: at(v).copy().reshape(shapes[v.tensor]) for v in call.reads}
        made = sessions[number].run([v.tensor for v in call.makes], feeds)
        for view, value in zip(call.makes, made, strict=True):
            at(view)[...] = value.reshape(at(view).shape)
        for move in call.after:
            at(move.target)[...] = at(move.source).copy()
        assert np.isnan(arena[:16]).all() and np.isnan(arena[len(arena) - 16 :]).all()
    return [tokens[t] for t in net.chain.outputs]


def played(
    plan: BandPlan, sessions: Sequence[ort.InferenceSession], which: Sequence[int], x: np.ndarray
) -> list[np.ndarray]:
    """By the runtime, from the document that a build has."""
    net = plan.net
    made = Made(plan, tuple(b"" for _ in sessions), tuple(which), ())
    document = kind._form(made, ["" for _ in sessions], net.chain.inputs, net.chain.outputs)
    memory = np.full(plan.arena + 64, 255, np.uint8)[-memory_shift(plan) :]
    player = Player(document, sessions, memory)
    for _ in range(2):  # the second frame finds what the first one left
        outputs = [np.full(net.shapes[t], np.nan, np.float32) for t in net.chain.outputs]
        player.play([x, *outputs])
    return outputs


def memory_shift(plan: BandPlan) -> int:
    """The end of an array that is as long as the arena."""
    return max(plan.arena, 1)


def session(model: bytes | Path, *, optimize: bool = True) -> ort.InferenceSession:
    """On one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = str(model) if isinstance(model, Path) else model
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_bands_make_what_the_network_makes(seed: int) -> None:
    """Random networks in random bands: no row is missing, no life too short, nothing differs."""
    with tempfile.TemporaryDirectory() as folder:
        net = drawn(seed, Path(folder))
        found = some_plan(net, seed)
        if found is None:
            return
        plan, bands = found
        contents, which = models(net, tuple(c.firing for c in plan.calls))
        for content in contents:
            onnx.checker.check_model(onnx.load_model_from_string(content), full_check=True)
        x = np.random.default_rng(seed).standard_normal(net.shapes["x"]).astype(np.float32)
        wanted = session(Path(folder) / "net.onnx").run(list(net.chain.outputs), {"x": x})
        same_as(wanted, plan, [session(c) for c in contents], which, x)
        blocked = read_blocked(net)
        if blocked is None:
            return
        try:
            plan = plan_of(blocked, bands)
        except CannotBand:
            return
        contents, which = models(blocked, tuple(c.firing for c in plan.calls))
        # A convolution that is not in blocks may add in another order for fewer rows.
        exact = not any("Conv" in n.op_type and n.domain != NCHWC for n in blocked.model.graph.node)
        same_as(wanted, plan, [session(c, optimize=False) for c in contents], which, x, exact=exact)


def same_as(
    wanted: Sequence[np.ndarray],
    plan: BandPlan,
    sessions: Sequence[ort.InferenceSession],
    which: Sequence[int],
    x: np.ndarray,
    *,
    exact: bool = False,
) -> None:
    """By a simulator of rows, in a poisoned arena, and by the runtime."""
    simulate(plan)
    for result in (poisoned(plan, sessions, which, x), played(plan, sessions, which, x)):
        for mine, other in zip(result, wanted, strict=True):
            if exact:
                np.testing.assert_array_equal(mine, other)
            np.testing.assert_allclose(mine, other, 1e-4, 1e-4 * max(1e-3, np.abs(other).max()))


def chain(seed: int, folder: Path) -> Path:
    """Convolutions in a row, without padding above and below."""
    network = Drawn(seed)
    for _ in range(network.draw.randint(2, 4)):
        name, (_, channels, height, _) = network.seen[-1]
        kernel = network.draw.choice((1, 2, 3)) if height > 4 else 1
        weight = network.weight(network.draw.choice((2, 5)), channels, kernel, kernel)
        network.add("Conv", name, weight, kernel_shape=[kernel] * 2, pads=[0, kernel // 2] * 2)
    network.draw = random.Random(2)  # one output, and no mean
    return network.save(folder / "net.onnx")


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_the_thesis_is_never_better_at_equal_cost(seed: int) -> None:
    """Every chromosome of its Algorithm 9 for a chain, by Algorithms 10 and 8: bands of one row
    need no more.

    Not where a stride asks for several rows at once: its layers make them one by one, and bands do
    not.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = chain(seed, Path(folder))
        cnn, net = read_layers(path), read_net(path)
        layers = [x.name for x in cnn.layers if x.operator == "Conv"]
        for bits in product((False, True), repeat=len(layers)):
            chosen = [name for name, bit in zip(layers, bits, strict=True) if bit]
            edges, steps = derived(cnn, chosen)
            between = [e for e in edges if "x." not in e.name and "output" not in e.name]
            theirs = sum(b.size for b in algorithm8(between, ()))
            bands = []
            for by_parts, run in groupby(zip(layers, bits, strict=True), key=lambda pair: pair[1]):
                names = [name for name, _ in run]
                bands += (
                    [Bands(1, names[-1], tuple(names[:-1]))]
                    if by_parts
                    else [Bands(net.height(n), n) for n in names]
                )
            plan = plan_of(net, [*bands[:-1], replace(bands[-1], until=None)])
            kept = [i for key, i in plan.items.items() if key[0] in ("whole", "line")]
            assert place(kept).total <= theirs + 64 * len(kept) and len(plan.calls) <= steps, bits


def test_overlap_is_kept_between_units_and_computed_again_inside(tmp_path: Path) -> None:
    """By hand: bands of 8 rows of 64; a unit of two convolutions of 3 x 3 computes two rows again
    at each border."""
    net = read_net(stack(tmp_path / "net.onnx"))
    kept = plan_of(net, [Bands(8, "c3", ("c0", "c1", "c2"))])
    again = plan_of(net, [Bands(8, "c3", ("c1",))])
    assert kept.work == 0 and len({f.firing.unit.out for f in kept.calls}) == 5
    own = sum(s.macs for s in net.steps)
    each = net.steps[1].macs / 64
    # In either unit the first layer makes 10 rows for 8 in the middle; the second unit begins a row
    # later.
    borders = 2 * 7
    assert again.work == pytest.approx(
        (borders * net.steps[0].macs / 64 + borders * each) / own, rel=0.08
    )
    row = 4 * 16 * 32
    line = kept.items["line", "c1"]
    assert line.size == 10 * row  # two rows that stay, and eight new ones
    assert kept.block <= again.block


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_what_units_need_is_worked_out_from_shorter_ones(seed: int) -> None:
    """Of random networks in both forms: as each unit has it by itself, and none is left out."""
    with tempfile.TemporaryDirectory() as folder:
        net = drawn(seed, Path(folder))
        for form in (net, read_blocked(net)):
            for end in range(1, len(form.groups) + 1) if form is not None else ():
                assert form is not None
                at = ending(form, end)
                count = 1 if at is None else min(at.rows, at.factor * (1 + seed % 3))
                seen = [] if at is None else list(needs(form, at, count, 5, {}))
                for n in seen:
                    unit = BandUnit(form, n.first, end)
                    start = max(0, (at.rows - count) // 2) // at.factor * at.factor
                    band = start, start + count
                    rows = unit.ranges(*band)
                    reads = sum(
                        form.bytes(t, rows[t][1] - rows[t][0]) for t in unit.reads if t in rows
                    )
                    assert (n.reads, n.makes, n.inner) == (
                        reads,
                        form.bytes(unit.out, count),
                        inner_bytes(unit, *band),
                    )
                    assert (n.cut, n.macs) == (
                        cut_bytes(unit, *band),
                        pytest.approx(macs(unit, *band)),
                    )
                    assert n.own_macs == sum(s.macs for s in unit.steps)
                    assert n.weights == sum(s.weights for s in unit.steps)
                units = [BandUnit(form, first, end) for first in range(max(0, end - 5), end)]
                good = [
                    u
                    for u in units
                    if not u.why and len(u.makes) == 1 and len(form.shapes[u.out]) == 4
                ]
                named = end == len(form.groups) or form.names is None
                good = [u for u in good if named or u.out in form.names]
                assert [n.first for n in reversed(seen)] == [u.first for u in good]


def test_the_front_offers_less_memory_for_more_time(tmp_path: Path) -> None:
    """From the least memory to the whole network, which is always there; every choice is a plan
    that can be written."""
    net = read_net(stack(tmp_path / "net.onnx", 6, 1024, tail=False))
    whole = needs_of(net.chain, net.model, net.folder)
    found = front(net, whole, seconds=0.2)
    assert front(net, whole, seconds=0.2) == found
    assert found[-1].bands == () and found[-1].time == 1.0
    assert found[0].buffers < found[-1].buffers / 1.3
    assert list(found) == sorted(found, key=lambda c: c.bytes)
    assert [c.time for c in found] == sorted((c.time for c in found), reverse=True)
    for choice in found[:-1]:
        assert exact(net, choice_of(plan_of(net, choice.bands), choice.bands)) == choice


def test_costs_are_found_in_what_plans_take() -> None:
    """Times that follow from prices give these back, as nearly as prices are held to the usual
    ones."""
    plans = [
        (0.1, 4, 100, 2),
        (0.02, 9, 30, 9),
        (0.3, 1, 5, 1),
        (0.0, 2, 200, 20),
        (0.15, 8, 60, 40),
    ]
    extras = [
        Extra(work, 10**6 * copied, firings, 10**6 * again)
        for work, copied, firings, again in plans
    ]
    prices = BandCosts(False, 40_000.0, 0.9, 0.01, 2.0)
    found = fitted([(e, 1 + sum(e.ns(prices, 2e7)) / 2e7) for e in extras], 2e7, False)
    assert found.plans == 5 and found.whole_ns == 2e7 and found.error < 0.02
    assert found.firing_ns == pytest.approx(40_000, rel=0.2) and found.byte_ns == pytest.approx(
        0.9, rel=0.2
    )
    assert found.again == pytest.approx(2, rel=0.2) and found.weight_ns < 0.05


def test_choices_go_by_measured_prices(tmp_path: Path) -> None:
    """And say that they do; of the other form of a network they say nothing."""
    net = read_net(stack(tmp_path / "net.onnx"))
    plan, bands = plan_of(net, [Bands(8, "c3", ("c1",))]), (Bands(8, "c3", ("c1",)),)
    usual, dear = (
        choice_of(plan, bands, 1e7, costs)
        for costs in (None, BandCosts(False, 1e5, 1, 1, 2, 1e7, 5, 0.1))
    )
    assert usual.estimated and not dear.estimated and dear.time > usual.time
    assert dear.time == pytest.approx(
        1 + 2 * plan.work + (sum(extra_of(plan).ns(BandCosts(False, 1e5, 1, 1, 0), 1))) / 1e7
    )
    assert choice_of(plan, bands, 1e7, BandCosts(True, 1e5, 1, 1, 2, 1e7, 5, 0.1)) == usual


def test_prices_stay_as_usual_where_runs_do_not_tell(tmp_path: Path) -> None:
    """Of a plan that copies nothing and fires once, only what it does again can be dear."""
    found = fitted([(Extra(0.2, 0, 0, 0), 1.6), (Extra(0.1, 0, 0, 0), 1.3)], 1e7, True)
    assert (found.firing_ns, found.byte_ns, found.weight_ns) == pytest.approx((12_000, 0.18, 0.07))
    assert found.again == pytest.approx(3, rel=0.05)
    assert fitted([(Extra(0.2, 0, 0, 0), 0.9)], 1e7, True).again == pytest.approx(0, abs=0.1), (
        "never negative"
    )


@pytest.mark.parametrize(
    ("bands", "code", "words"),
    [
        ([Bands(8, "c9")], "F522", "has no tensor `c9`"),
        ([Bands(65, "c3")], "F526", "has 64 rows"),
        ([Bands(1, "c3")], "F526", "bands of 1 are 64, and 20 at most"),
        ([Bands(8)], "F525", "layer `y` (GlobalAveragePool) cannot go by rows"),
        ([Bands(8, "c3", ("c2", "c1"))], "F523", "too early"),
        ([Bands(8, "c1", ("c2",))], "F523", "not made before the bands end"),
        ([Bands(8, None), Bands(8, None)], "F523", "nothing is left"),
    ],
)
def test_bands_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bands: list[Bands], code: str, words: str
) -> None:
    """With what to do instead."""
    monkeypatch.setattr(firings, "MOST_BANDS", 20)
    net = read_net(stack(tmp_path / "net.onnx"))
    with pytest.raises(CannotBand) as caught:
        plan_of(net, bands)
    assert caught.value.code == code and words in str(caught.value) and caught.value.help
