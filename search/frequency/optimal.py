"""The least power at which every deadline is kept, with a certificate: the cheapest combinations of
rates first.

A combination that fails is made faster, clock by clock, for as long as it fails. What comes out is
a witness: whatever is nowhere faster fails as well. So few combinations are tested, and the
witnesses are the proof: every cheaper combination lies below one of them.

That supposes that slower clocks never make a deadline easier to keep. Bounds on response times are
not quite so: where something arrives later, less may be ahead of it in a queue. So what witnesses
have ruled out is doubted afterwards: of the combinations that are cheaper than the answer some are
tested as well, cheapest first. Where these were all of them, the answer stands without that
supposition. What is surely late needs neither test nor doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from ..budget import Budget
from .problem import ClockProblem, Clocks, Levels

#: So many combinations are tested although a witness rules them out.
DOUBTS = Budget(evaluations=100)


def optimal(
    problem: ClockProblem, *, failing: Iterable[Levels] = (), doubts: Budget = DOUBTS
) -> Clocks:
    """The cheapest combination. What fails at longer periods fails at these: `failing` are
    witnesses from there."""
    search = _Search(problem, failing)
    found = search.cheapest()
    if found is None:
        return Clocks(None, None, len(search.known), True, tuple(search.witnesses))
    better, whole = search.doubted(found, doubts)
    told = tuple(w for w in search.witnesses if better is None or not _nowhere_faster(better, w))
    best = found if better is None else better
    return Clocks(best, problem.watts(best), len(search.known), True, told, whole)


class _Search:
    """What is known of combinations: which were tested, and the witnesses."""

    def __init__(self, problem: ClockProblem, failing: Iterable[Levels]) -> None:
        self._problem, self.witnesses = problem, [*failing]
        self.known: dict[Levels, bool] = {}

    def holds(self, levels: Levels) -> bool:
        """Is every deadline kept there?"""
        if levels not in self.known:
            self.known[levels] = self._problem.holds(levels)
        return self.known[levels]

    def cheapest(self) -> Levels | None:
        """The cheapest combination below no witness; None where not even the highest rates keep the
        deadlines."""
        if self._ruled_out(self._problem.highest) or not self.holds(self._problem.highest):
            self.witnesses.append(self._problem.highest)
            return None
        for levels in self._problem.cheapest_first():
            if not self._ruled_out(levels) and not self._problem.surely_late(levels):
                if self.holds(levels):
                    return levels
                self.witnesses.append(self._raised(levels))
        return self._problem.highest

    def doubted(self, found: Levels, budget: Budget) -> tuple[Levels | None, bool]:
        """One that is cheaper and passes although a witness rules it out; were all that are cheaper
        tested?"""
        spending = budget.begin(lambda: len(self.known))
        for levels in takewhile(lambda x: x != found, self._problem.cheapest_first()):
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
        found = list(levels)
        for n, top in enumerate(self._problem.highest):
            fails, passes = found[n], top + 1
            while passes - fails > 1:
                middle = (fails + passes) // 2
                if self.holds((*found[:n], middle, *found[n + 1 :])):
                    passes = middle
                else:
                    fails = middle
            found[n] = fails
        return tuple(found)


def _nowhere_faster(levels: Levels, witness: Levels) -> bool:
    return all(k <= w for k, w in zip(levels, witness, strict=True))
