"""Whether an assignment keeps its deadlines at clock rates.

In: a problem with a power model, an assignment. Out: the answer for each combination of rates.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...analysis.timing.least import Least
from ...analysis.timing.response_time import worst_cases_in_time
from ...analysis.timing.slower import slower
from ...analysis.timing.system import Refused
from ...model.priorities import PriorityOrder
from ..frequency.problem import Levels
from .orders import MANY_ORDERS
from .power import PowerModel
from .problem import Assignment, JointProblem
from .program import timed
from .verdict import MappingVerdict, verdict


class Rates:
    """An assignment at clock rates: is everything in time there, by some order of priorities?
    `verdict` is the one at the highest rates; None if it has no bounds there."""

    def __init__(self, problem: JointProblem, power: PowerModel, assignment: Assignment) -> None:
        self._problem, self._power, self._assignment = problem, power, assignment
        self.verdict = judged(problem, assignment)
        self._orders: dict[Levels, PriorityOrder] = {}
        if self.verdict is not None:
            ordered = problem.in_order(self.verdict.order)
            self._system = timed(ordered, assignment)
            pools = enumerate(problem.platform.pools)
            clock_of = {p: number for number, pool in pools for p in pool.processors}
            self._least = Least(self._system, clock_of)

    def holds(self, levels: Levels) -> bool:
        """Is every deadline proved to be kept?"""
        if self.verdict is None:
            return False
        clocks = zip(self._power.clocks, levels, strict=True)
        if self._least.missed([clock.slowness(level) for clock, level in clocks]):
            return False
        slowness = self._power.slowness(levels)
        try:
            if worst_cases_in_time(slower(self._system, slowness)) is not None:
                return True
        except Refused:
            return False
        if not self._problem.is_open:
            return False
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


def judged(problem: JointProblem, assignment: Assignment) -> MappingVerdict | None:
    """The verdict on an assignment, whatever order of priorities it needs; None without bounds."""
    try:
        return verdict(problem, assignment, patience=Fraction(1), orders=MANY_ORDERS)
    except Refused:
        return None
