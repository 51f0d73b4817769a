"""Clock rates by Algorithm 6 of Kim's thesis, for comparison: one clock after the other.

All clocks begin at their maximum. Twice, for GPUs, CPUs and DLAs in this order: a clock is set to
its maximum and goes down while deadlines are kept; it stays at the slowest rate that keeps them,
and the cheapest combination that was seen is the answer. It misses the optimum wherever another
clock would have to be faster for that.
"""

from __future__ import annotations

from .problem import ClockProblem, Clocks

ROUNDS = 2
ORDER = ("gpu", "cpu", "dla")


def greedy(problem: ClockProblem) -> Clocks:
    """The cheapest combination that was seen; nothing is proved of it."""
    levels, best, tests = list(problem.highest), None, 0
    order = sorted(range(len(levels)), key=lambda n: ORDER.index(problem.domains[n].kind))
    for n in order * ROUNDS:
        top = levels[n] = problem.highest[n]
        while True:
            tests += 1
            if not problem.holds(tuple(levels)):
                levels[n] = min(levels[n] + 1, top)
                break
            if best is None or problem.watts(tuple(levels)) < problem.watts(best):
                best = tuple(levels)
            if not levels[n]:
                break
            levels[n] -= 1
    return Clocks(best, None if best is None else problem.watts(best), tests)
