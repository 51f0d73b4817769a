"""Minakova's algorithms for alternatives: the numbers of the thesis, where they are wrong, and that
the safe ones hold."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import pytest
from flowc.analysis.sbrs import (
    Alternative,
    ComparedLayer,
    Edge,
    as_printed,
    delays,
    ends,
    line_6_fails,
    overwritten,
    races,
    safe,
    safe_delays,
    switch,
)
from hypothesis import given
from hypothesis import strategies as st

#: Fig. 5.4: two scenarios of one supergraph, and their edges.
ONE, TWO = ("1", "2", "4", "5", "6"), ("1", "2", "3", "4", "5", "6")
EDGES = {order: tuple(pairwise(order)) for order in (ONE, TWO)}


def layers(*said: tuple[str, str, str, str]) -> tuple[ComparedLayer, ...]:
    return tuple(
        ComparedLayer(name, (("op", op), ("kernel", k), ("parameters", w)))
        for name, op, k, w in said
    )


#: Fig. 5.3.
FIRST = Alternative(
    "first",
    layers(("1", "input", "", ""), ("2", "conv", "3", "W2"), ("3", "conv", "5", "W31"), ("4", "gemm", "", "W4"),
           ("5", "output", "", "")),
    (("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")),
)  # fmt: skip
SECOND = Alternative(
    "second",
    layers(("1", "input", "", ""), ("2", "conv", "3", "W2"), ("3", "pool", "2", ""), ("4", "conv", "5", "W42"),
           ("5", "gemm", "", "W4"), ("6", "output", "", "")),
    (("1", "2"), ("2", "3"), ("3", "4"), ("4", "5"), ("5", "6")),
)  # fmt: skip


def test_figure_5_3_has_six_layers_and_six_edges() -> None:
    found = as_printed([FIRST, SECOND])
    assert (found.layers, found.buffers) == (6, 6)
    assert found.shared_buffers() == 3
    parameters_apart = as_printed([FIRST, SECOND], frozenset({"inputs", "outputs"}))
    assert (parameters_apart.layers, parameters_apart.buffers) == (7, 7)


def test_two_branches_alike_become_one_buffer_with_two_tensors() -> None:
    """As in Inception: as printed, a network overwrites itself even alone."""
    branches = layers(
        ("in", "input", "", ""), ("a", "conv", "3", "A"), ("b", "conv", "3", "B"), ("add", "add", "", ""),
    )  # fmt: skip
    net = Alternative("net", branches, (("in", "a"), ("in", "b"), ("a", "add"), ("b", "add")))
    printed, apart = as_printed([net]), safe([net])
    assert overwritten(net, printed.buffer_of[0]) == ((("a", "add"), ("b", "add")),)
    assert (printed.layers, apart.layers) == (3, 4) and not overwritten(net, apart.buffer_of[0])


def test_delays_of_the_thesis_and_safe_ones() -> None:
    assert delays(ONE, TWO) == (1, 2, 3, 4, 5, 6) and delays(TWO, ONE) == (1, 2, 4, 5, 6)
    assert safe_delays(ONE, TWO, EDGES[ONE], EDGES[TWO]) == (2, 3, 4, 5, 6, 7)
    assert safe_delays(TWO, ONE, EDGES[TWO], EDGES[ONE]) == (2, 3, 5, 6, 7)


def test_it_races_in_its_own_figure() -> None:
    """At step 2 the new first layer writes the buffer that the old second one reads."""
    for old, new in ((ONE, TWO), (TWO, ONE)):
        kept = safe_delays(old, new, EDGES[old], EDGES[new])
        assert races(old, new, EDGES[old], EDGES[new], delays(old, new), 1) > 0
        assert not any(
            races(old, new, EDGES[old], EDGES[new], kept, s) for s in range(1, len(old) + 1)
        )


def fitting() -> list[tuple[Fraction, ...]]:
    """Times of the six layers, multiples of a half up to 4, with the delays 17.5 and 12.5 of the
    text."""
    found = []
    for a, b, c, d, e in product(range(1, 9), repeat=5):
        # in halves; the last one follows from the sum
        f, odd = divmod(36 - 2 * (a + b + d + e) - c, 2)
        end = a + max(b, a) + max(d, b) + max(e, c) + max(f, d) + e + f
        if not odd and 1 <= f <= 8 and a >= 2 and end == 26:
            found.append(tuple(Fraction(x, 2) for x in (a, b, c, d, e, f)))
    return found


def test_the_gain_is_that_of_a_second_processor() -> None:
    """The figure alone has the times: all that fit. Half a unit of the old frame is over when the
    request comes."""
    times = fitting()
    assert len(times) == 498 and sum(all(x.denominator == 1 for x in t) for t in times) == 27
    late, waits, kept = (
        Fraction(1, 2),
        delays(ONE, TWO),
        safe_delays(ONE, TWO, EDGES[ONE], EDGES[TWO]),
    )
    spread = set()
    for t in times:
        of = dict(zip(TWO, t, strict=True))
        old, new = [of[x] for x in ONE], [of[x] for x in TWO]
        asked = switch(len(old), len(new), waits, 1)
        assert ends(asked, old, new)[1] - late == Fraction("12.5")
        # Two layers on one processor take turns: nothing is won over waiting for the old frame.
        assert (
            ends(asked, old, new, sum)[1] - late == sum(old) + sum(new) - late == Fraction("17.5")
        )
        spread.add(ends(switch(len(old), len(new), kept, 1), old, new)[1] - late)
    assert (min(spread), max(spread)) == (Fraction("12.5"), 16)


def test_line_6_counts_to_a_layer_that_there_is_not() -> None:
    assert line_6_fails(5, 3, delays("12348", "567"), 1)
    assert not line_6_fails(5, 6, delays(ONE, TWO), 5)


def test_a_short_alternative_overtakes_the_frame_before_it() -> None:
    old, new = [Fraction(1)] * 6, [Fraction(1)] * 2
    assert ends(switch(6, 2, delays("123456", "78"), 1), old, new) == (6, 3)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
    """Some of twelve layers in order, a chain with some skips."""
    order = tuple(f"{n:02}" for n in sorted(draw(st.sets(st.integers(1, 12), min_size=2))))
    far = [(a, b) for i, a in enumerate(order) for b in order[i + 2 :]]
    more = draw(st.lists(st.sampled_from(far), max_size=3)) if far else []
    return order, tuple(dict.fromkeys([*pairwise(order), *more]))


@given(scenarios(), scenarios(), st.integers(1, 12))
def test_safe_delays_never_race(
    a: tuple[tuple[str, ...], tuple[Edge, ...]],
    b: tuple[tuple[str, ...], tuple[Edge, ...]],
    asked: int,
) -> None:
    (old, old_edges), (new, new_edges) = a, b
    waits = safe_delays(old, new, old_edges, new_edges)
    assert races(old, new, old_edges, new_edges, waits, min(asked, len(old))) == 0
    assert all(x >= y for x, y in zip(waits, delays(old, new), strict=True))


#: Tables 5.4 (memory of each scenario) and 5.5 (all of them: naive, shared with A = {I, O, par} and
#: {I, O}), in MB.
TABLES = {
    "VOC": ((292.61, 210.69, 242.72, 155.48, 130.21), 1031.7, 230, 547, 77.7, 47.0),
    "PAMAP2": ((10.02, 4.30, 4.86, 4.11), 23.29, 22.43, 23.21, 3.65, 0.30),
    "CIFAR": ((52.87, 13.07, 18.30, 28.07), 112.31, 83.3, 107.17, 25.8, 4.6),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_5_4_and_5_5_agree(name: str) -> None:
    """Naive is the sum. All five of VOC are said to take less than the largest of them alone: not
    what is shared."""
    own, naive, most, less, *reductions = TABLES[name]
    assert sum(own) == pytest.approx(naive, abs=0.05)
    found: Sequence[float] = [100 * (1 - shared / sum(own)) for shared in (most, less)]
    assert found == pytest.approx(reductions, abs=0.1)
    assert (most < max(own)) == (name == "VOC")
