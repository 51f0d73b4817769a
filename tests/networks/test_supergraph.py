"""What networks have in common: equal by content, never by name, and every network computes what
its own file does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from flowc.networks.supergraph import WholeNetwork, saved, shared_parts, tensor_digest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from models import N, model, weights

SHAPE = (1, 4, 8, 8)


def whole(made: Any, *outputs: str) -> WholeNetwork:
    return WholeNetwork(
        made, ((made.graph.input[0].name, SHAPE),), outputs or (made.graph.output[0].name,)
    )


def run(content: bytes, names: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return list(session.run(list(names), feeds))


def played(parts: Any, x: Any) -> list[Any]:
    """What segments make, one after another."""
    values = {0: x}
    for s in parts.segments:
        made = run(s.model, [t for t, _ in s.makes], {t: values[k] for t, k in s.reads})
        values |= {k: y for (_, k), y in zip(s.makes, made, strict=True)}
    return [values[k] for k in parts.outputs]


def weights_of(segment: Any) -> list[Any]:
    return list(onnx.load_model_from_string(segment.model).graph.initializer)


def read_of(net: Any) -> set[int]:
    """The numbers of weights that the output follows from."""
    wanted = {net.graph.output[0].name}
    for node in reversed(net.graph.node):
        if node.output[0] in wanted:
            wanted.update(node.input)
    return {k for k, w in enumerate(net.graph.initializer) if w.name in wanted}


#: Ways to make a tensor of the same shape out of others.
KINDS = ("conv", "relu", "add", "neg")


def network(plan: Sequence[tuple[str, int, int]], taken: Sequence[np.ndarray], prefix: str) -> Any:
    """Layers (kind, operand from the back, number of the weight); tensors and weights are called as
    `prefix` says."""
    names, nodes, used = [f"{prefix}x"], [], {}
    for k, (kind, operand, number) in enumerate(plan):
        source, name = names[-1 - operand % len(names)], f"{prefix}t{k}"
        if kind == "conv":
            weight = f"{prefix}w{k}"
            used[weight] = taken[number]
            nodes.append(N("Conv", [source, weight], [name], pads=[1, 1, 1, 1]))
        else:
            reads = [source, names[-1]] if kind == "add" else [source]
            nodes.append(N({"relu": "Relu", "add": "Add", "neg": "Neg"}[kind], reads, [name]))
        names.append(name)
    return model(nodes, {f"{prefix}x": SHAPE}, used, names[-1])


LAYER = st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, 2))
TAKEN = [weights(4, 4, 3, 3) for _ in range(3)]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(LAYER, min_size=1, max_size=5),
    st.lists(st.lists(LAYER, min_size=1, max_size=3), min_size=2, max_size=3),
)
def test_segments_make_what_each_file_makes(trunk: Any, heads: Any) -> None:
    """Whatever is common by chance as well: names differ in all of them."""
    nets = [network([*trunk, *head], TAKEN, f"n{k}_") for k, head in enumerate(heads)]
    wholes = [whole(net) for net in nets]
    parts = shared_parts(wholes, worth=1)
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    for net, found in zip(nets, parts, strict=True):
        (wanted,) = run(
            net.SerializeToString(), [net.graph.output[0].name], {net.graph.input[0].name: x}
        )
        if found is not None:
            np.testing.assert_allclose(played(found, x)[0], wanted, 1e-5, 1e-5)
    told = saved(wholes, parts)
    assert told.distinct <= told.built <= told.separate
    assert (told.built < told.separate) == any(p is not None for p in parts)


@settings(max_examples=12, deadline=None)
@given(st.lists(LAYER, min_size=2, max_size=6), st.integers(0, 5), st.integers(0, 143))
def test_one_other_weight_is_never_shared(plan: Any, layer: int, place: int) -> None:
    """The last bit of one weight, in one of two equal networks."""
    plan = [*plan, ("conv", 0, 0)]
    convs = [k for k, (kind, _, _) in enumerate(plan) if kind == "conv"]
    other = convs[layer % len(convs)]
    nets = [network(plan, TAKEN, prefix) for prefix in ("a_", "b_")]
    changed = next(w for w in nets[1].graph.initializer if w.name == f"b_w{other}")
    array = numpy_helper.to_array(changed).copy()
    array.reshape(-1)[place] = np.nextafter(array.reshape(-1)[place], np.float32(9))
    changed.CopyFrom(numpy_helper.from_array(array, changed.name))
    for net, found in zip(nets, shared_parts([whole(n) for n in nets], worth=1), strict=True):
        if found is not None:
            own = {
                tensor_digest(w) for k, w in enumerate(net.graph.initializer) if k in read_of(net)
            }
            held = {tensor_digest(w) for s in found.segments for w in weights_of(s)}
            assert held == own


def test_three_heads_share_one_trunk() -> None:
    trunk = [("conv", 0, 0), ("relu", 0, 0), ("conv", 0, 1)]
    nets = [network([*trunk, (kind, 0, 2)], TAKEN, kind) for kind in ("conv", "neg", "relu")]
    parts = shared_parts([whole(n) for n in nets], worth=1)
    assert all(p is not None and len(p.segments) == 2 for p in parts)
    assert len({p.segments[0].digest for p in parts if p is not None}) == 1
    one = 4 * 4 * 9 * 4
    told = saved([whole(n) for n in nets], parts)
    assert (told.separate, told.distinct, told.built) == (7 * one, 3 * one, 3 * one)


def test_an_early_exit_is_the_part_that_both_have() -> None:
    net = network([("conv", 0, 0), ("relu", 0, 0), ("conv", 0, 1)], TAKEN, "")
    net.graph.output.extend([onnx.helper.make_tensor_value_info("t1", 1, SHAPE)])
    exits = [whole(net, "t2"), whole(net, "t1")]
    late, early = shared_parts(exits, worth=1)
    assert (
        late is not None
        and early is not None
        and len(late.segments) == 2
        and len(early.segments) == 1
    )
    assert late.segments[0].digest == early.segments[0].digest


@pytest.mark.parametrize("worth", [2 * 4 * 4 * 9 * 4, 2 * 4 * 4 * 9 * 4 + 1])
def test_little_is_not_worth_a_segment(worth: int) -> None:
    nets = [
        network([("conv", 0, 0), ("conv", 0, 1), (kind, 0, 2)], TAKEN, kind)
        for kind in ("neg", "relu")
    ]
    parts = shared_parts([whole(n) for n in nets], worth)
    assert (parts[0] is None) == (worth > 2 * 4 * 4 * 9 * 4)


def test_what_is_drawn_anew_each_time_is_not_common() -> None:
    nodes = [N("RandomNormalLike", ["x"], ["r"]), N("Conv", ["r", "w"], ["y"], pads=[1, 1, 1, 1])]
    nets = [
        model([*nodes, N(kind, ["y"], ["z"])], {"x": SHAPE}, {"w": TAKEN[0]}, "z")
        for kind in ("Neg", "Relu")
    ]
    assert shared_parts([whole(n) for n in nets], worth=1) == (None, None)
