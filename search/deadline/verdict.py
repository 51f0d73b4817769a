"""Verdicts on an assignment: utilizations, limits of the board, and bounds compared with deadlines.

In: a joint problem and an assignment. Out: a verdict about the program that the assignment becomes
(`program.timed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ...analysis.timing.response_time import WorstCases, worst_cases
from ...analysis.timing.system import TimedPath
from ...targets.engines import crowded
from .problem import Assignment, JointProblem, Team
from .program import timed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on an assignment. `worst` has the bounds of groups and their paths; `engines`
    violated limits.

    `late` are groups of which a deadline is not proved; `conditional` groups rest on estimated
    times.
    """

    utilization: Mapping[str, Fraction]
    worst: WorstCases
    late: tuple[str, ...]
    engines: tuple[str, ...]
    conditional: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Every group meets its deadline, and no limit is broken."""
        return not self.late and not self.engines

    @property
    def maximum(self) -> Fraction:
        """Utilization of the busiest processor: what is minimized (equation 5.2 of Kim's
        thesis).
        """
        return max(self.utilization.values())


def utilizations(problem: JointProblem, assignment: Assignment) -> dict[str, Fraction]:
    """The share of its time that each processor needs in the worst case."""
    used = dict.fromkeys(problem.processors, Fraction(0))
    for net, choice, places in zip(problem.nets, assignment.choice, assignment.steps, strict=True):
        for step, place in zip(net.candidates[choice].steps, places, strict=True):
            used[place] += step.work / problem.period[net.group]
    for item, place in zip(problem.items, assignment.items, strict=True):
        used[place] += item.work(problem.kind[place]) / problem.period[item.group]
    return used


def broken_limits(problem: JointProblem, assignment: Assignment) -> tuple[str, ...]:
    """Pools with more engines than they may hold: each network, or stage of one, is an engine."""
    stages = [place for places in assignment.steps for place in places]
    stages += [
        place for item, place in zip(problem.items, assignment.items, strict=True) if item.engine
    ]
    engines = {str(k): (place,) for k, place in enumerate(stages)}
    return tuple(pool.name for pool, _ in crowded(problem.platform, engines))


def verdict(
    problem: JointProblem, assignment: Assignment, *, patience: Fraction | None = None
) -> Verdict:
    """Utilizations, limits, and the bounds of every group and its paths. Raises Refused for what
    has no bound.

    With `patience`, as in searches, bounds of groups that are late by more than that factor are
    rough (`worst_cases`), and if a processor is overloaded no group has a bound. Without it each
    group has its own.
    """
    used = utilizations(problem, assignment)
    if patience is not None and max(used.values()) > 1:
        nothing = {t.name: (None,) * len(t.paths) for t in problem.teams}
        worst = WorstCases(dict.fromkeys(nothing), dict(nothing))
    else:
        worst = worst_cases(timed(problem, assignment), patience=patience)
    guessed = {i.group for i in problem.items if i.estimated}
    guessed |= {
        n.group
        for n, c in zip(problem.nets, assignment.choice, strict=True)
        if any(s.estimated for s in n.candidates[c].steps)
    }
    told = Verdict(used, worst, (), broken_limits(problem, assignment), tuple(sorted(guessed)))
    return with_bounds(problem, told, worst)


def with_bounds(problem: JointProblem, told: Verdict, worst: WorstCases) -> Verdict:
    """The verdict with these bounds."""
    late = tuple(t.name for t in problem.teams if not all(h.met for h in held(t, worst)))
    return replace(told, worst=worst, late=late)


@dataclass(frozen=True, slots=True)
class Held:
    """The bound of a group or of one of its paths, and its deadline. `due` is None without a
    deadline.

    Every iteration needs a finite bound, even without a deadline.
    """

    bound: Fraction | None
    due: Fraction | None
    path: TimedPath | None = None

    @property
    def met(self) -> bool:
        """True if the deadline is proved to be met."""
        return self.bound is not None and (self.due is None or self.bound <= self.due)


def held(team: Team, worst: WorstCases) -> tuple[Held, ...]:
    """The bound of a group, and those of its paths, each with its deadline."""
    paths = zip(team.paths, worst.paths[team.name], strict=True)
    return (
        Held(worst.groups[team.name], team.due_ns),
        *(
            Held(bound, None if p.deadline is None else Fraction(p.deadline), p)
            for p, bound in paths
        ),
    )
