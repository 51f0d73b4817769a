"""Whether deadlines are kept at clock rates.

In: a timed system, or an assignment, and the clocks of a platform. Out: the answer for each
combination of rates.
"""

from __future__ import annotations

from dataclasses import replace

from ...analysis.timing.least import Least
from ...analysis.timing.response_time import worst_cases_in_time
from ...analysis.timing.slower import slower
from ...analysis.timing.system import Refused, TimedSystem
from ...analysis.timing.terms import WorstCases
from ...model.priorities import PriorityOrder
from ..frequency.problem import Levels
from .power import PowerModel
from .problem import Assignment, JointProblem
from .program import timed
from .verdict import MappingVerdict, judged


class SystemAtRates:
    """A system at the rates of its clocks; `fastest` is the one at the highest."""

    def __init__(self, system: TimedSystem, power: PowerModel) -> None:
        self.fastest, self._power = system, power
        clocks = enumerate(power.clocks)
        self._least = Least(system, {p: n for n, clock in clocks for p in clock.pool.processors})

    def at(self, levels: Levels) -> TimedSystem:
        """The system at these rates."""
        return slower(self.fastest, self._power.slowness(levels))

    def surely_late(self, levels: Levels) -> bool:
        """A quick test: if true, a deadline is missed."""
        clocks = zip(self._power.clocks, levels, strict=True)
        return self._least.missed([clock.slowness(level) for clock, level in clocks])

    def bounds_in_time(self, levels: Levels) -> WorstCases | None:
        """The bounds at these rates; None if they are not all in time, or not known."""
        if self.surely_late(levels):
            return None
        try:
            return worst_cases_in_time(self.at(levels))
        except Refused:
            return None


class Rates:
    """An assignment at clock rates: is everything in time there, by some order of priorities?
    `verdict` is the one at the highest rates; None if it has no bounds there."""

    def __init__(self, problem: JointProblem, power: PowerModel, assignment: Assignment) -> None:
        self._problem, self._power, self._assignment = problem, power, assignment
        self.verdict = judged(problem, assignment)
        self._orders: dict[Levels, PriorityOrder] = {}
        if self.verdict is not None:
            system = timed(problem.in_order(self.verdict.order), assignment)
            self._system = SystemAtRates(system, power)

    def holds(self, levels: Levels) -> bool:
        """Is every deadline proved to be kept?"""
        if self.verdict is None or self._system.surely_late(levels):
            return False
        if self._system.bounds_in_time(levels) is not None:
            return True
        if not self._problem.is_open:
            return False
        slowness = self._power.slowness(levels)
        found = judged(replace(self._problem, slowness=slowness), self._assignment)
        if found is None or not found.feasible:
            return False
        self._orders[levels] = found.order
        return True

    def in_order(self, levels: Levels) -> MappingVerdict:
        """The verdict at the highest rates by the order that holds at these."""
        assert self.verdict is not None
        order = self._orders.get(levels)
        if order is None:
            return self.verdict
        return judged(self._problem.in_order(order), self._assignment) or self.verdict
