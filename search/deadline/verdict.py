"""Verdicts on an assignment: utilizations, limits of the board, and bounds compared with deadlines.

In: a joint problem and an assignment. Out: a verdict about the program that the assignment becomes
(`program.timed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ...analysis.timing.response_time import worst_cases
from ...analysis.timing.terms import WorstCases
from .limits import BrokenLimit, broken_limits
from .problem import Assignment, JointProblem
from .program import timed


@dataclass(frozen=True, slots=True)
class MappingVerdict:
    """The verdict on an assignment.

    `worst` has the bounds of groups and their paths, `broken` the limits that are not kept.
    """

    assignment: Assignment
    utilization: Mapping[str, Fraction]
    worst: WorstCases
    broken: tuple[BrokenLimit, ...]

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
            used[place] += stage.work / problem.period[network.group]
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        used[place] += problem.load(task, place)
    return used


def verdict(
    problem: JointProblem, assignment: Assignment, *, patience: Fraction | None = None
) -> MappingVerdict:
    """Utilizations, limits, and the bounds of every group and its paths. Raises Refused for what
    has no bound.

    With `patience`, as in searches, bounds of groups that are late by more than that factor are
    rough (`worst_cases`), and if a processor is overloaded no group has a bound. Without it each
    group has its own.
    """
    used = utilizations(problem, assignment)
    if patience is not None and max(used.values()) > 1:
        nothing = {t.name: (None,) * len(t.paths) for t in problem.groups}
        chains = {t.name: (None,) * len(t.chains) for t in problem.groups}
        worst = WorstCases(dict.fromkeys(nothing), dict(nothing), dict(chains))
    else:
        worst = worst_cases(timed(problem, assignment), patience=patience)
    broken = broken_limits(problem, assignment, worst)
    return MappingVerdict(assignment, used, worst, broken)


def with_bounds(
    problem: JointProblem, verdict: MappingVerdict, worst: WorstCases
) -> MappingVerdict:
    """The verdict with these bounds."""
    return replace(verdict, worst=worst, broken=broken_limits(problem, verdict.assignment, worst))
