"""Workload curves: never below what successive firings took together, and what the analyses need of
them."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from flowc.model.workload import WorkloadCurve, is_curve, workload
from hypothesis import given
from hypothesis import strategies as st

TIMES = st.lists(st.integers(0, 1000), min_size=1, max_size=200)


@given(TIMES, st.integers(0, 2000))
def test_no_run_of_firings_takes_more_than_the_curve_says(times: list[int], wcet: int) -> None:
    curve = workload(times, wcet)
    assert is_curve(curve.totals) and curve.longest == max([*times, wcet])
    for count in range(1, len(times) + 1):
        seen = max(sum(times[k : k + count]) for k in range(len(times) - count + 1))
        assert seen <= curve.total(count) <= count * curve.longest
    # Again and again the same: any run of any length.
    rate = Fraction(sum(times), len(times))
    for count in (7, 64, 1000):
        assert curve.total(count) >= rate * count - rate * len(times)


@given(TIMES)
def test_more_firings_never_take_less(times: list[int]) -> None:
    curve = workload(times)
    totals = [curve.total(k) for k in range(500)]
    assert totals[0] == 0 and all(a <= b for a, b in pairwise(totals))


@given(TIMES, st.integers(1, 50))
def test_curves_of_longer_times(times: list[int], tenths: int) -> None:
    curve = workload(times)
    slower = curve.scaled(Fraction(tenths, 10))
    assert all(slower.total(k) * 10 >= curve.total(k) * tenths for k in range(60)) or tenths < 10


def test_an_interruption_is_charged_once() -> None:
    """4 ms once in 100 firings of 1 ms is not 5 ms a firing."""
    curve = workload([1] * 50 + [5] + [1] * 349)
    assert (curve.longest, curve.total(2), curve.total(10), curve.total(96)) == (5, 6, 14, 100)
    assert curve.sustained == Fraction(96 + 4, 96)


def test_there_is_no_curve_of_nothing() -> None:
    with pytest.raises(ValueError, match="no firings"):
        workload([])
    assert (
        not is_curve([]) and not is_curve([3, 2]) and not is_curve([1, 3]) and is_curve([3, 4, 8])
    )
    assert WorkloadCurve((2, 4)).total(5) == 10
