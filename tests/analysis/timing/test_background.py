"""Bounds beside work in the background, by hand; against executions: test_bounds.py."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.timing.response_time import bounds, worst_cases, worst_cases_in_time
from flowc.analysis.timing.system import (
    Refused,
    RoundFiring,
    Slowdown,
    TimedBackground,
    TimedGroup,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedWorker,
    utilization,
)
from flowc.model.server import Server
from flowc.model.workload import workload

from event_simulator import Run, play

CPU = TimedProcessor("c", "fixed_priority", "cpu", "cpu")
ORDER = TimedProcessor("o", "static_order", "cpu", "cpu")
GPU = TimedProcessor("g", "fifo", "gpu", "gpu")


def alone(
    task: TimedTask, *background: TimedBackground, slow: Fraction | None = None
) -> TimedSystem:
    """One task every 100 ns beside a background."""
    order = tuple(RoundFiring("A", task.name, k) for k in range(task.firings))
    worker = TimedWorker(task.processor, order)
    slowdowns = () if slow is None else (Slowdown("gpu", "cpu", slow),)
    group = TimedGroup("A", 100, (task,), offset=0)
    return TimedSystem((group,), (CPU, ORDER, GPU), slowdowns, (worker,), background)


def response(system: TimedSystem) -> Fraction | None:
    found = worst_cases(system).groups["A"]
    in_time = worst_cases_in_time(system)
    assert in_time is not None and in_time.groups["A"] == found
    assert bounds(system).groups["A"].response == found
    return found


@pytest.mark.parametrize("processor", ["c", "o"])
def test_a_cpu_does_not_notice_the_background(processor: str) -> None:
    task = TimedTask("t", processor, (30,))
    assert response(alone(task, TimedBackground(processor, 1000))) == 30


def test_each_kernel_waits_for_one_of_each_worker() -> None:
    task = TimedTask("t", "g", (2, 3))
    system = alone(task, TimedBackground("g", 5), TimedBackground("g", 7))
    assert response(system) == 2 + 3 + 2 * (5 + 7)
    # the background asks first at time 0, and again while each kernel runs
    assert play(system, Run({"A": 3}, {"t": (2, 3)})).responses["A"] == (29, 0)
    assert response(alone(task, TimedBackground("c", 5))) == 5


def test_a_curve_counts_a_wait_for_each_firing() -> None:
    curve = workload([10, 2, 2, 2, 2, 2, 2, 2])
    task = TimedTask("t", "g", (10,), (), 4, curve)
    # four firings in the period, the longest one first
    plain, waiting = (alone(task, *b) for b in ((), (TimedBackground("g", 5),)))
    assert curve.longer(5).total(2) == curve.total(2) + 10
    one, other = response(plain), response(waiting)
    assert one is not None and other is not None and one + 5 <= other <= one + 4 * 5


def test_contention_counts_the_background_as_always_busy() -> None:
    task = TimedTask("t", "g", (20,))
    slow = Fraction(3, 2)
    assert response(alone(task, slow=slow)) == 20
    system = alone(task, TimedBackground("c"), slow=slow)
    assert response(system) == 30
    assert play(system, Run({"A": 2}, {"t": (20,)})).responses["A"][0] == 30
    # what waits in the queue is slowed down as well
    assert response(alone(task, TimedBackground("c"), TimedBackground("g", 4), slow=slow)) == 36


def test_a_background_needs_a_processor() -> None:
    with pytest.raises(Refused, match="`x` has a background"):
        worst_cases(alone(TimedTask("t", "c", (1,)), TimedBackground("x")))
    made = alone(TimedTask("t", "c", (1,)), TimedBackground("g"))
    ordered = (CPU, ORDER, replace(GPU, scheduler="static_order"))
    with pytest.raises(Refused, match="no queue"):
        worst_cases(replace(made, processors=ordered))


def served(budget: int, period: int, longest: int, processor: str = "c") -> TimedBackground:
    return TimedBackground(processor, longest, Server(budget, Fraction(period)), "B")


@pytest.mark.parametrize("processor", ["c", "o"])
def test_a_server_takes_its_budgets_and_a_firing(processor: str) -> None:
    task = TimedTask("t", processor, (30,))
    # 59 ns meet at most 1 + ceil(59 / 20) periods: 4 budgets of 6, and a firing of 5
    system = alone(task, served(6, 20, 5, processor))
    assert response(system) == 30 + 4 * 6 + 5
    assert utilization(system)[processor] == Fraction(30, 100) + Fraction(6, 20)
    told = bounds(system)
    assert list(told.groups) == list(worst_cases(system).groups) == ["A"]
    assert told.groups["A"].terms[-1].who == f"B on {processor}"


def test_a_server_that_computes_at_the_end_of_a_period_and_at_once_in_the_next() -> None:
    task = TimedTask("t", "c", (30,))
    system = alone(task, served(6, 20, 5))
    # it has nothing to do from 1 to 19, then 5 again and again: once with what is left, twice with
    # the budget of 20, and once with that of 40, of which 4 are used already
    run = Run({"A": 1}, {"t": (30,)}, background=[(1, *[5] * 9)], pauses=[(18, *[0] * 9)])
    assert play(system, run).responses["A"] == (30 + 1 + 5 + 10 + 5, 0)
    assert response(system) == 59


def test_a_server_without_time_left_leaves_no_bound() -> None:
    system = alone(TimedTask("t", "c", (80,)), served(6, 20, 5))
    assert worst_cases(system).groups["A"] is None
