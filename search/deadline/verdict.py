"""Verdicts on an assignment: utilizations, limits of the board, and bounds compared with deadlines.

In: a joint problem and an assignment. Out: a verdict about the program that the assignment becomes
(`program.timed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ...analysis.timing.system import Refused
from ...analysis.timing.terms import WorstCases
from ...model.priorities import PriorityOrder
from .limits import BrokenLimit, broken_limits
from .orders import FEW_ORDERS, MANY_ORDERS, Ordered, best_order
from .problem import Assignment, JointProblem


@dataclass(frozen=True, slots=True)
class MappingVerdict:
    """The verdict on an assignment.

    `worst` has the bounds of groups and their paths by this `order` of priorities, `broken` the
    limits that are not kept. In `hopeless` are the groups of which some miss deadlines by every
    order that the text allows.
    """

    assignment: Assignment
    utilization: Mapping[str, Fraction]
    worst: WorstCases
    broken: tuple[BrokenLimit, ...]
    order: PriorityOrder
    hopeless: frozenset[str] = frozenset()

    @property
    def feasible(self) -> bool:
        """All limits are kept."""
        return not self.broken

    @property
    def late(self) -> tuple[str, ...]:
        """The groups that do not keep a limit, such as a deadline, or that have no bound."""
        return tuple(dict.fromkeys(b.group for b in self.broken if b.group is not None))

    @property
    def involved(self) -> tuple[str, ...]:
        """The groups that are late, and those that a late chain comes through."""
        others = (name for b in self.broken for name in b.others)
        return tuple(dict.fromkeys((*self.late, *others)))

    @property
    def beyond_board(self) -> tuple[BrokenLimit, ...]:
        """The limits of the board that are not kept."""
        return tuple(b for b in self.broken if b.group is None)

    @property
    def maximum(self) -> Fraction:
        """Utilization of the busiest processor: what is minimized (equation 5.2 of Kim's
        thesis).
        """
        return max(self.utilization.values())


def utilizations(problem: JointProblem, assignment: Assignment) -> dict[str, Fraction]:
    """The share of its time that each processor needs in the worst case, servers included."""
    used = dict(problem.served)
    for network, choice, places in zip(
        problem.networks, assignment.choice, assignment.stages, strict=True
    ):
        for stage, place in zip(network.candidates[choice].stages, places, strict=True):
            used[place] += problem.stage_load(network, stage, place)
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        used[place] += problem.load(task, place)
    return used


def verdict(
    problem: JointProblem,
    assignment: Assignment,
    *,
    patience: Fraction | None = None,
    orders: int = FEW_ORDERS,
) -> MappingVerdict:
    """Utilizations, limits, and the bounds of every group and its paths. Raises Refused for what
    has no bound.

    Priorities that the text leaves open are those by which all deadlines are kept, if there are any
    among so many `orders`.

    With `patience`, as in searches, bounds of groups that are late by more than that factor are
    rough (`worst_cases`), and if a processor is overloaded no group has a bound. Without it each
    group has its own.
    """
    used = utilizations(problem, assignment)
    if patience is not None and max(used.values()) > 1:
        nothing = {t.name: (None,) * len(t.paths) for t in problem.groups}
        chains = {t.name: (None,) * len(t.chains) for t in problem.groups}
        worst = WorstCases(dict.fromkeys(nothing), dict(nothing), dict(chains))
        found = Ordered(problem.order, worst, _overloading(problem, assignment, used))
    else:
        found = best_order(problem, assignment, patience, orders)
    broken = broken_limits(problem, assignment, found.worst)
    return MappingVerdict(assignment, used, found.worst, broken, found.order, found.hopeless)


def judged(problem: JointProblem, assignment: Assignment) -> MappingVerdict | None:
    """The verdict for a proof: by whatever order of priorities is needed; None without bounds."""
    try:
        return verdict(problem, assignment, patience=Fraction(1), orders=MANY_ORDERS)
    except Refused:
        return None


def _overloading(
    problem: JointProblem, assignment: Assignment, used: Mapping[str, Fraction]
) -> frozenset[str]:
    """The groups on processors that have more to do than they have time."""
    found = set()
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        if used[place] > 1:
            found.add(task.group)
    for network, places in zip(problem.networks, assignment.stages, strict=True):
        if any(used[place] > 1 for place in places):
            found.add(network.group)
    return frozenset(found)


def with_bounds(
    problem: JointProblem, verdict: MappingVerdict, worst: WorstCases
) -> MappingVerdict:
    """The verdict with these bounds."""
    return replace(verdict, worst=worst, broken=broken_limits(problem, verdict.assignment, worst))
