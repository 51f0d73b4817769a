"""Minakova's algorithms for alternatives: the numbers of the thesis, where they are wrong, and that
the safe ones hold."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from flowc.analysis.sbrs import (
    Alternative,
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

from minakova_examples import (
    EDGES,
    FIRST,
    ONE,
    SECOND,
    TABLES_5_4_AND_5_5,
    TWO,
    compared,
    times_of_figure_5_5,
)


def test_figure_5_3_has_six_layers_and_six_edges() -> None:
    found = as_printed([FIRST, SECOND])
    assert (found.layers, found.buffers) == (6, 6)
    assert found.shared_buffers() == 3
    parameters_apart = as_printed([FIRST, SECOND], frozenset({"inputs", "outputs"}))
    assert (parameters_apart.layers, parameters_apart.buffers) == (7, 7)


def test_two_branches_alike_become_one_buffer_with_two_tensors() -> None:
    """As in Inception: as printed, a network overwrites itself even alone."""
    branches = compared(
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


def test_the_gain_is_that_of_a_second_processor() -> None:
    """The figure alone has the times: all that fit. Half a unit of the old frame is over when the
    request comes."""
    times = times_of_figure_5_5()
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


@pytest.mark.parametrize("name", TABLES_5_4_AND_5_5)
def test_tables_5_4_and_5_5_agree(name: str) -> None:
    """Naive is the sum. All five of VOC are said to take less than the largest of them alone: not
    what is shared."""
    own, naive, most, less, *reductions = TABLES_5_4_AND_5_5[name]
    assert sum(own) == pytest.approx(naive, abs=0.3)
    found: Sequence[float] = [100 * (1 - shared / sum(own)) for shared in (most, less)]
    assert found == pytest.approx(reductions, abs=0.3)
    assert (most < max(own)) == (name == "VOC")
