"""The objectives `utilization` and `cores` in the user's order: searches for the least maximum
utilization, with CPUs left out.

In: the problem of a program, or of each state of a scenario, and a search for the least maximum
utilization. Out: its answer, or the one on the fewest CPUs. Numbers of CPUs are tried from the
least upwards, for each number all ways to take so many from the pools. CPUs of a pool are alike, so
which ones of a pool are left out makes no difference, but for those that pins name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, product
from typing import Generic, TypeVar

from ..budget import Budget
from .loads import RESOLUTION
from .outcome import FewestCores, Outcome
from .problem import JointProblem
from .states import StatesOutcome

#: Of the budget, the share of the search for the least maximum utilization if the fewest CPUs for
#: it are searched as well.
FIRST = 0.5

Found = TypeVar("Found", Outcome, StatesOutcome)
#: A search that leaves some CPUs out, within a budget.
Attempt = Callable[[frozenset[str], Budget], Found]


def by_objectives(
    problems: Collection[JointProblem],
    attempt: Attempt[Found],
    budget: Budget,
    objectives: Sequence[str],
) -> Found:
    """The answer for `utilization` and `cores`, the first one of `objectives` before the other.

    `problems` are those of the states of a scenario, or a single one. With `cores`, the outcome's
    `cores` says how many CPUs are enough, and whether fewer are proved to be too few. If `cores` is
    the first, `bound` and `proved` are about mappings on so many CPUs, else about all mappings.
    """
    order = [name for name in objectives if name in ("utilization", "cores")]
    if "cores" not in order:
        return attempt(frozenset(), budget)
    tries = _Tries(attempt, budget)
    if order[0] == "cores":
        return tries.summed(_fewest_cores(problems, tries))
    least = tries.on(frozenset(), tries.budget.part(FIRST))
    if least.kept_maximum is None:
        return tries.summed(least)
    few = _fewest_cores(problems, tries, least)
    few = replace(few, bound=least.bound)
    return tries.summed(replace(few, proved=_is_optimal(few)))


class _Tries(Generic[Found]):
    """The searches so far, and the budget that they share."""

    def __init__(self, attempt: Attempt[Found], budget: Budget) -> None:
        self._attempt: Attempt[Found] = attempt
        self._outcomes: list[Found] = []
        self.budget = budget
        self.spending = budget.begin(lambda: sum(outcome.counted for outcome in self._outcomes))

    def on(self, left_out: frozenset[str], budget: Budget) -> Found:
        """Search without the CPUs that are left out."""
        outcome = self._attempt(left_out, budget)
        self._outcomes.append(outcome)
        return outcome

    def summed(self, outcome: Found) -> Found:
        """The answer, with the effort of all searches."""
        return replace(
            outcome,
            evaluations=sum(each.evaluations for each in self._outcomes),
            counted=sum(each.counted for each in self._outcomes),
            seconds=self.spending.seconds,
        )


def _fewest_cores(
    problems: Collection[JointProblem], tries: _Tries[Found], least: Found | None = None
) -> Found:
    """The best answer on the fewest CPUs that are enough; on all of them if no number is.

    Enough is to keep all deadlines and limits; after `least`, an answer on all CPUs, to have no
    more maximum utilization than it.
    """
    ways = _ways(problems)
    every_cpu = frozenset(
        p for problem in problems for p in problem.processors if problem.kind[p] == "cpu"
    )
    most = None if least is None else least.kept_maximum
    left = len(ways)
    proved = True
    for count, alike in groupby(ways, key=len):
        outcomes = []
        for kept in alike:
            left_out = every_cpu - kept
            if least is not None and not left_out:
                outcome = least
            else:
                outcome = tries.on(left_out, tries.spending.left.part(1 / left))
            left -= 1
            cores = FewestCores(count, proved, most, left_out)
            outcomes.append(replace(outcome, cores=cores))
        best = _best(outcomes)
        if _is_enough(best, most) or not left:
            return best
        proved = proved and all(_is_never_enough(outcome, most) for outcome in outcomes)
    raise AssertionError("one way keeps all CPUs")


def _ways(problems: Collection[JointProblem]) -> list[frozenset[str]]:
    """All ways to keep some CPUs, the fewest first."""
    one = next(iter(problems))
    pools = [pool for pool in one.platform.pools if pool.kind == "cpu"]
    needed: set[str] = set()
    for problem in problems:
        needed.update(p for p, share in problem.settled.items() if share)
        needed.update(problem.pins.values())
        if problem.roaming:  # the first CPU of a machine fires what has no CPU beside it
            needed.update(cpus[0] for cpus in problem.cpus_of_machine.values())
    orders = [sorted(pool.processors, key=lambda p: p not in needed) for pool in pools]
    numbers = [range(sum(p in needed for p in order), len(order) + 1) for order in orders]
    ways = []
    for chosen in product(*numbers):
        kept = frozenset(p for n, order in zip(chosen, orders, strict=True) for p in order[:n])
        if all(kept.intersection(cpus) for cpus in one.cpus_of_machine.values()):
            ways.append(kept)
    return sorted(ways, key=len)


def _is_enough(outcome: Outcome | StatesOutcome, most: Fraction | None) -> bool:
    if outcome.kept_maximum is None:
        return False
    return most is None or outcome.kept_maximum <= most + RESOLUTION


def _is_never_enough(outcome: Outcome | StatesOutcome, most: Fraction | None) -> bool:
    """Is it proved that no mapping on these CPUs is enough?"""
    if outcome.impossible is not None:
        return True
    return most is not None and outcome.bound is not None and outcome.bound > most + RESOLUTION


def _is_optimal(outcome: Outcome | StatesOutcome) -> bool:
    """Does the answer keep everything, and reach its bound?"""
    if outcome.kept_maximum is None or outcome.bound is None:
        return False
    return outcome.kept_maximum <= outcome.bound + RESOLUTION


def _best(outcomes: list[Found]) -> Found:
    """The best of several answers on as many CPUs, with a bound for all of them."""
    best = min(outcomes, key=_value)
    if len(outcomes) == 1:
        return best
    bounds = [outcome.bound for outcome in outcomes if outcome.impossible is None]
    known = [bound for bound in bounds if bound is not None]
    bound = min(known, default=None) if len(known) == len(bounds) else None
    best = replace(best, bound=bound)
    impossible = all(outcome.impossible is not None for outcome in outcomes)
    return replace(
        best,
        proved=_is_optimal(best),
        impossible=best.impossible if impossible else None,
    )


def _value(outcome: Outcome | StatesOutcome) -> tuple[bool, Fraction]:
    """Answers that keep everything are better than others, and less utilization than more."""
    if outcome.kept_maximum is not None:
        return False, outcome.kept_maximum
    return True, outcome.maximum
