"""Clock rates by Algorithm 6 of Kim's thesis, for comparison: one clock after the other.

In: a clock problem. Out: the combination with the least power among those tested. All clocks begin
at their maximum. Twice, for GPUs, CPUs and DLAs in this order: a clock is set to its maximum and
reduced while every deadline is met; it stays at the slowest rate that meets them. The algorithm
misses an optimum for which another clock has to be faster.
"""

from __future__ import annotations

from .problem import ClockProblem, FrequencyPlan, Levels

ROUNDS = 2
ORDER = ("gpu", "cpu", "dla", "npu")


def greedy(problem: ClockProblem) -> FrequencyPlan:
    """The combination with the least power among those tested, without a proof."""
    levels = list(problem.highest)
    best: Levels | None = None
    tests = 0
    order = sorted(range(len(levels)), key=lambda n: ORDER.index(problem.domains[n].kind))
    for n in order * ROUNDS:
        top = levels[n] = problem.highest[n]
        while True:
            tests += 1
            tested = tuple(levels)
            if not problem.holds(tested):
                levels[n] = min(levels[n] + 1, top)
                break
            if best is None or problem.watts(tested) < problem.watts(best):
                best = tested
            if not levels[n]:
                break
            levels[n] -= 1
    if best is None:
        return FrequencyPlan(None, None, tests)
    return FrequencyPlan(best, problem.watts(best), tests)
