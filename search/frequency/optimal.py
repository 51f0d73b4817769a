"""The least power at which every deadline is met, with a certificate: combinations of rates are
tested by increasing power.

A combination fails if a deadline is missed. It is then made faster, clock by clock, as long as it
fails. The result is a witness: every combination that is faster in no domain fails as well. So few
combinations are tested, and the witnesses are the proof: every combination with less power lies
below one of them.

This assumes that a slower clock never helps a deadline. Bounds on response times do not always
behave like that: if a task arrives later, fewer others may be before it in a queue. So combinations
that witnesses excluded are checked afterwards: some of those with less power than the answer are
tested as well, by increasing power. If all of them were tested, the answer does not depend on the
assumption. Combinations that are surely late need no test.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from ..budget import Budget
from .problem import ClockProblem, FrequencyPlan, Levels

#: How many combinations are tested although a witness excludes them.
DOUBTS = Budget(evaluations=100)


def optimal(
    problem: ClockProblem,
    *,
    infeasible_levels: Iterable[Levels] = (),
    retest_budget: Budget = DOUBTS,
) -> FrequencyPlan:
    """The combination with the least power. What failed with longer periods fails here as well:
    `infeasible_levels` are such witnesses."""
    search = _Search(problem, infeasible_levels)
    best = search.cheapest()
    if best is None:
        return FrequencyPlan(None, None, len(search.known), True, tuple(search.witnesses))
    witnesses = search.witnesses
    better, whole = search.doubted(best, retest_budget)
    if better is not None:
        best = better
        witnesses = [w for w in witnesses if not _nowhere_faster(better, w)]
    tests = len(search.known)
    return FrequencyPlan(best, problem.watts(best), tests, True, tuple(witnesses), whole)


class _Search:
    """The results of all tests, and the witnesses."""

    def __init__(self, problem: ClockProblem, infeasible_levels: Iterable[Levels]) -> None:
        self._problem, self.witnesses = problem, [*infeasible_levels]
        self.known: dict[Levels, bool] = {}

    def holds(self, levels: Levels) -> bool:
        """True if every deadline is met at these levels."""
        if levels not in self.known:
            self.known[levels] = self._problem.holds(levels)
        return self.known[levels]

    def cheapest(self) -> Levels | None:
        """The combination with the least power below no witness; None if the highest rates miss a
        deadline."""
        if self._ruled_out(self._problem.highest) or not self.holds(self._problem.highest):
            self.witnesses.append(self._problem.highest)
            return None
        for levels in self._problem.cheapest_first():
            if not self._ruled_out(levels) and not self._problem.surely_late(levels):
                if self.holds(levels):
                    return levels
                self.witnesses.append(self._raised(levels))
        return self._problem.highest

    def doubted(self, answer: Levels, budget: Budget) -> tuple[Levels | None, bool]:
        """A combination with less power that passes although a witness excludes it; and whether all
        before it were tested."""
        spending = budget.begin(lambda: len(self.known))
        for levels in takewhile(lambda x: x != answer, self._problem.cheapest_first()):
            if levels in self.known or self._problem.surely_late(levels):
                continue
            if spending.over:
                return None, False
            if self.holds(levels):
                return levels, True
        return None, True

    def _ruled_out(self, levels: Levels) -> bool:
        return any(_nowhere_faster(levels, witness) for witness in self.witnesses)

    def _raised(self, levels: Levels) -> Levels:
        """Levels that fail as well, each as high as it can be with the others."""
        raised = list(levels)
        for n, top in enumerate(self._problem.highest):
            fails, passes = raised[n], top + 1
            while passes - fails > 1:
                middle = (fails + passes) // 2
                if self.holds((*raised[:n], middle, *raised[n + 1 :])):
                    passes = middle
                else:
                    fails = middle
            raised[n] = fails
        return tuple(raised)


def _nowhere_faster(levels: Levels, witness: Levels) -> bool:
    return all(k <= w for k, w in zip(levels, witness, strict=True))
