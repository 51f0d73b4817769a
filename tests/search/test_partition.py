"""The exact partition against brute force, and the counts and rules of the papers."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from math import inf, isclose

import pytest
from flowc.search.throughput.partition import (
    Costs,
    Objective,
    Partition,
    StagePlace,
    best_partitions,
    configurations,
    evaluate,
    paper_stops,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from builds import in_a_moment

KINDS = ("cpu", "gpu", "dla")


@st.composite
def networks(draw: st.DrawFn) -> tuple[Costs, list[StagePlace]]:
    """Small chains: some layers cannot run somewhere, some cuts are missing, some places are groups
    or busy."""
    layers = draw(st.integers(1, 6))
    kinds = KINDS[: draw(st.integers(1, 3))]
    time_or_never = st.one_of(
        st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.just(inf)
    )
    times = {k: draw(st.lists(time_or_never, min_size=layers, max_size=layers)) for k in kinds}
    cuts = tuple((i, draw(st.integers(0, 9))) for i in range(1, layers) if draw(st.integers(0, 4)))
    price = draw(st.sampled_from([0, 1, 3]))
    costs = Costs(
        times,
        {k: draw(st.integers(0, 2)) for k in kinds},
        cuts,
        lambda a, b, count: price * (count + (a != b)),
    )
    places = []
    for k in kinds:
        for i in range(draw(st.integers(1, 2))):
            places.append(StagePlace((f"{k}[{i}]",), k, draw(st.sampled_from([0, 0, 5]))))
        if draw(st.booleans()):
            places.append(StagePlace((f"{k}[0]", f"{k}[1]"), k))
    return costs, places


def brute_force(
    costs: Costs, places: list[StagePlace], objective: Objective, stages: int
) -> Partition | None:
    """All cuts and all orders; places that share a processor do not come together for
    throughput."""
    found: Partition | None = None
    for ends in combinations([after for after, _ in costs.cuts], stages - 1):
        for order in product(places, repeat=stages):
            if any(a == b for a, b in pairwise(order)):
                continue
            together = {*order}
            if objective == "throughput" and sum(len(p.processors) for p in together) > len(
                {name for p in together for name in p.processors}
            ):
                continue
            answer = evaluate(costs, (*ends, costs.count), order, objective)
            if answer.cost < (found.cost if found else inf):
                found = answer
    return found


@settings(max_examples=150)
@given(networks(), st.sampled_from(["throughput", "latency"]))
def test_nothing_is_better(problem: tuple[Costs, list[StagePlace]], objective: Objective) -> None:
    costs, places = problem
    answers = {len(p.ends): p for p in best_partitions(costs, places, objective)}
    for stages in range(1, 5):
        expected = brute_force(costs, places, objective, stages)
        answer = answers.get(stages)
        assert (answer is None) == (expected is None)
        if answer is not None and expected is not None:
            assert isclose(answer.cost, expected.cost)
            assert answer == evaluate(costs, answer.ends, answer.places, objective)


def test_two_stages_on_one_processor_count_their_sum() -> None:
    costs = Costs(
        {"cpu": [4, 1, 4], "gpu": [9, 1, 9]},
        {"cpu": 0, "gpu": 0},
        ((1, 0), (2, 0)),
        lambda a, b, c: 0,
    )
    cpu, gpu = StagePlace(("cpu",), "cpu"), StagePlace(("gpu",), "gpu")
    assert evaluate(costs, (1, 2, 3), (cpu, gpu, cpu), "throughput").cost == 8


def test_the_paper_stops_too_early_where_only_the_middle_gains() -> None:
    costs = Costs(
        {"a": [4, 8, 4], "b": [inf, 2, inf]}, {"a": 0, "b": 0}, ((1, 0), (2, 0)), lambda a, b, c: 0
    )
    found = best_partitions(costs, [StagePlace(("a",), "a"), StagePlace(("b",), "b")], "throughput")
    assert [(len(p.ends), p.cost) for p in found] == [(1, 16), (3, 8)]
    assert paper_stops([16, 16, 8]) == 1


def test_equation_2() -> None:
    assert [configurations(31, 2, s) for s in (1, 2, 3)] == [2, 120, 3480]


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_a_long_network_on_three_kinds_of_processors_is_solved_at_once(
    objective: Objective,
) -> None:
    """The benchmark measures it; here only that it is not quadratically off."""
    layers = 500
    times = {k: [(7 * i * s + 3) % 11 + 1.0 for i in range(layers)] for s, k in enumerate(KINDS, 1)}
    cuts = tuple((i, i * 37 % 101) for i in range(1, layers))
    costs = Costs(times, dict.fromkeys(KINDS, 0.5), cuts, lambda a, b, count: 0.3 + 0.01 * count)
    with in_a_moment():
        found = best_partitions(costs, [StagePlace((k,), k) for k in KINDS], objective)
    assert [len(p.ends) for p in found] == [1, 2, 3, 4]
