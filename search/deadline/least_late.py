"""Of assignments that are all late, the one that is least late.

In: a problem, and the assignments that searches have looked at. Out: one of them, with its verdict.

Searches rank what is late by bounds at half the rate (`violation`): these exist where iterations
run into each other, and tell what is nearer to being met. Many assignments that are alike there are
not at the text's own rates, and the answer is the least late there.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ...analysis.timing.system import Refused
from ...analysis.timing.terms import WorstCases
from ..budget import Budget
from .limits import held
from .orders import MANY_ORDERS
from .problem import Assignment, JointProblem, slowed
from .verdict import MappingVerdict, verdict

#: Of the budget of a search, what the answer may take in addition where everything is late.
SHARE = 0.15
#: What a search counts for a deadline without a bound, or an engine too many.
HOPELESS = 10.0


def violation(problem: JointProblem, assignment: Assignment, found: MappingVerdict) -> float:
    """0 for a feasible one; else by how much deadlines are missed at half the rate, and HOPELESS
    per engine too many.

    Where iterations run into each other, bounds grow beyond all measure. The bounds at half the
    rate say how far it is from being met; where there is none either, a group counts HOPELESS.
    """
    if found.maximum > 1 or not found.late:
        return _weighed(problem, found, found.worst)
    at_half = verdict(slowed(problem, 2), assignment, patience=Fraction(2), orders=0).worst
    return 0.01 * len(found.late) + _weighed(problem, found, at_half)


def least_late(
    problem: JointProblem, violations: Mapping[Assignment, float], budget: Budget
) -> tuple[Assignment, MappingVerdict] | None:
    """The least late of these assignments by their bounds at the text's own rates; None where there
    is none with a verdict.

    One with a bound for every deadline is less late than any without. Those with the least
    violation come first, as many as SHARE of the `budget` is enough for, or until Ctrl-C. What is
    later than the least late so far is not followed to its end.
    """
    looks = 0
    spending = budget.part(SHARE).begin(lambda: looks)
    least = (len(problem.groups) + 1, 0.0)
    answer: Assignment | None = None
    patience: Fraction | None = None
    for assignment in sorted(violations, key=lambda a: violations[a]):
        if looks and spending.over:
            break
        looks += 1
        try:
            found = verdict(problem, assignment, patience=patience, orders=0)
        except Refused:
            continue
        except KeyboardInterrupt:
            break
        late = _lateness(problem, found, found.worst)
        if late < least:
            least, answer = late, assignment
            patience = None if late[0] else 1 + Fraction(late[1])
    return None if answer is None else (answer, verdict(problem, answer, orders=MANY_ORDERS))


def _weighed(problem: JointProblem, found: MappingVerdict, worst: WorstCases) -> float:
    """A lateness in one number."""
    unbounded, late = _lateness(problem, found, worst)
    return HOPELESS * unbounded + late


def _lateness(problem: JointProblem, found: MappingVerdict, worst: WorstCases) -> tuple[int, float]:
    """The number of engines too many and of groups with a deadline that has no bound; and of the
    other groups the sum of the largest shares by which these bounds exceed a deadline."""
    unbounded, total = len(found.beyond_board), 0.0
    for group in problem.groups:
        late = [h for h in held(group, worst) if not h.met]
        shares = [h.bound / h.due - 1 for h in late if h.bound and h.due]
        if len(shares) < len(late):
            unbounded += 1
        else:
            total += float(max(shares, default=0))
    return unbounded, total
