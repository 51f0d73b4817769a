"""The cheapest clock rates against all combinations, and against one clock after the other."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.search.budget import Budget
from flowc.search.frequency.greedy import greedy
from flowc.search.frequency.optimal import optimal
from flowc.search.frequency.problem import ClockProblem, Domain, FrequencyPlan, Levels
from hypothesis import given, settings
from hypothesis import strategies as st

from kim_examples import TABLE_4_7


def drawn(
    rng: random.Random, rates: dict[str, tuple[float, ...]], period: Fraction | None = None
) -> ClockProblem:
    """Responses a / f_gpu + b / f_cpu + c / f_dla of some apps, and powers that rise as voltages
    do."""
    period = period or Fraction(rng.randint(20, 70))
    apps = [[Fraction(rng.randint(1, 30)) for _ in rates] for _ in range(rng.randint(1, 4))]
    apps = [[x * Fraction(rng.randint(30, 95), 100) * 40 / sum(own) for x in own] for own in apps]
    speeds = [[Fraction(f) / Fraction(own[-1]) for f in own] for own in rates.values()]

    def holds(levels: Levels) -> bool:
        return all(
            sum(x / speeds[n][k] for n, (x, k) in enumerate(zip(own, levels, strict=True)))
            <= period
            for own in apps
        )

    domains = []
    for (name, own), speed in zip(rates.items(), speeds, strict=True):
        idle, busy, share = rng.uniform(0.2, 3), rng.uniform(1, 12), rng.uniform(0.1, 0.7)
        volts = [0.65 + 0.35 * float(f) for f in speed]
        watts = [
            idle * (v + v * v * float(f)) / 2 + busy * v * v * share
            for v, f in zip(volts, speed, strict=True)
        ]
        domains.append(
            Domain(name, name, tuple(Fraction(f) for f in own), tuple(map(Fraction, watts)))
        )
    return ClockProblem(tuple(domains), Fraction(4), holds)


def all_of(problem: ClockProblem) -> list[Levels]:
    return list(itertools.product(*(range(len(d.hz)) for d in problem.domains)))


def certified(problem: ClockProblem, found: FrequencyPlan) -> bool:
    """Does every witness fail, and does every cheaper combination lie below one?"""
    below = [
        levels
        for levels in all_of(problem)
        if any(all(a <= b for a, b in zip(levels, w, strict=True)) for w in found.witnesses)
    ]
    cheaper = {x for x in all_of(problem) if found.watts is None or problem.watts(x) < found.watts}
    return not any(problem.holds(w) for w in found.witnesses) and cheaper <= set(below)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_optimum_is_that_of_all_combinations(seed: int) -> None:
    rng = random.Random(seed)
    rates = {kind: own[:: rng.randint(2, 5)] for kind, own in TABLE_4_7.items()}
    problem = drawn(rng, rates)
    found = optimal(problem)
    held = [problem.watts(x) for x in all_of(problem) if problem.holds(x)]
    assert found.watts == min(held, default=None) and found.proved
    assert found.levels is None or (
        problem.holds(found.levels) and problem.watts(found.levels) == found.watts
    )
    assert certified(problem, found)
    other = greedy(problem)
    assert (other.watts is None) == (found.watts is None)
    assert other.watts is None or found.watts is None or other.watts >= found.watts


def test_what_witnesses_rule_out_is_doubted() -> None:
    """Bounds are not quite monotone: here, one combination keeps the deadlines although faster ones
    do not."""
    tested: set[Levels] = set()
    rates = {kind: own[::2] for kind, own in TABLE_4_7.items()}
    problem = next(
        p
        for n in range(20)
        if not optimal(
            p := drawn(random.Random(n), rates), retest_budget=Budget(evaluations=0)
        ).whole
    )

    def noted(levels: Levels) -> bool:
        tested.add(levels)
        return problem.holds(levels)

    first = optimal(replace(problem, holds=noted), retest_budget=Budget(evaluations=0))
    assert first.watts is not None and optimal(problem).whole
    odd = next(x for x in all_of(problem) if x not in tested and problem.watts(x) < first.watts)
    other = replace(problem, holds=lambda levels: levels == odd or problem.holds(levels))
    assert optimal(other, retest_budget=Budget(evaluations=0)).levels == first.levels
    found = optimal(other)
    assert found.levels == odd and found.whole


def test_all_combinations_come_in_order() -> None:
    problem = drawn(random.Random(1), {kind: own[::3] for kind, own in TABLE_4_7.items()})
    order = list(problem.cheapest_first())
    assert sorted(order) == all_of(problem) and len(order) == problem.combinations
    watts = [problem.watts(x) for x in order]
    assert watts == sorted(watts)


def test_few_of_the_combinations_of_a_xavier_are_tested() -> None:
    """1,120 of them; Kim's greedy rule misses the optimum in about half of the cases."""
    tests, missed, there = [], 0, 0
    for seed in range(12):
        problem = drawn(random.Random(seed), TABLE_4_7)
        assert problem.combinations == 1120
        found, other = optimal(problem), greedy(problem)
        tests.append(found.tests)
        there += found.watts is not None
        missed += other.watts != found.watts
    assert max(tests) < 400 and there >= 8 and missed >= 2


def test_witnesses_of_longer_periods_are_worth_something_at_shorter_ones() -> None:
    slow, fast = (drawn(random.Random(5), TABLE_4_7, Fraction(p)) for p in (60, 48))
    first = optimal(slow)
    alone, helped = optimal(fast), optimal(fast, infeasible_levels=first.witnesses)
    assert first.watts is not None and alone.watts == helped.watts and helped.tests <= alone.tests


@pytest.mark.parametrize("find", [optimal, greedy])
def test_where_nothing_keeps_the_deadlines_there_is_no_answer(find: object) -> None:
    problem = drawn(
        random.Random(2), {kind: own[::4] for kind, own in TABLE_4_7.items()}, Fraction(1)
    )
    assert find(problem).levels is None  # type: ignore[operator]
