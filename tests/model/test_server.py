"""What a server supplies, against every way in which it can."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flowc.model.server import Server


@pytest.mark.parametrize(("budget", "period"), [(1, 1), (1, 5), (3, 5), (2, 7), (4, 4)])
def test_the_least_supply(budget: int, period: int) -> None:
    server = Server(budget, Fraction(period))
    # the worst: it has just given a budget as early as it can, and gives all others late
    given = [n < budget for n in range(period)]
    for _ in range(8):
        given += [n >= period - budget for n in range(period)]
    for ns in range(6 * period):
        supply = server.supply(Fraction(ns))
        for begin in range(period):
            assert supply <= sum(given[begin : begin + ns])
        # linear in between: whole budgets at their ends are exact
        if supply and server.supply(Fraction(ns - 1)) < supply:
            assert supply == sum(given[budget : budget + ns])


@pytest.mark.parametrize("work", range(1, 20))
def test_the_time_for_some_work(work: int) -> None:
    server = Server(3, Fraction(7, 2))
    time = server.time_for(work)
    assert server.supply(time) >= work > server.supply(time - Fraction(1, 100))
    assert server.time_for(0) == 0
