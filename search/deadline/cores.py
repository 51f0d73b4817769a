"""The fewest CPUs that are enough: a search for the least maximum utilization, with CPUs left out.

In: a problem, and any search for it. Out: the answer on the fewest CPUs that keeps all deadlines
and limits, and on these the one with the least maximum utilization. Numbers of CPUs are tried from
the least upwards, for each number all ways to take so many from the pools. CPUs of a pool are
alike, so which ones of a pool are left out makes no difference, but for those that pins name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, product
from typing import TypeVar

from ..budget import Budget, Spending
from .exact import RESOLUTION
from .outcome import FewestCores, Outcome
from .problem import JointProblem

A = TypeVar("A")
Run = Callable[[JointProblem, Budget], Outcome]


def fewest_cores(
    problem: JointProblem, run: Run, budget: Budget, most: Fraction | None = None
) -> Outcome:
    """The answer on the fewest CPUs whose maximum utilization is at most `most` (None: any that
    keeps all deadlines).

    `Outcome.cores` says how many these are, and whether fewer are proved to be too few; `bound` and
    `proved` are about mappings on so many CPUs. Where no number is enough, the answer is that on
    all CPUs.
    """
    spent = 0

    def attempt(left_out: frozenset[str], part: Budget) -> Outcome:
        nonlocal spent
        outcome = run(replace(problem, left_out=left_out), part)
        spent += outcome.counted
        return outcome

    spending = budget.begin(lambda: spent)
    found, cores = on_fewest(
        [problem],
        attempt,
        spending,
        lambda o: _is_enough(o, most),
        lambda o: _is_never_enough(o, most),
    )
    return replace(
        _best(found), cores=cores, evaluations=spent, counted=spent, seconds=spending.seconds
    )


def on_fewest(
    problems: Collection[JointProblem],
    attempt: Callable[[frozenset[str], Budget], A],
    spending: Spending,
    is_enough: Callable[[A], bool],
    is_never_enough: Callable[[A], bool],
) -> tuple[list[A], FewestCores]:
    """Answers on the fewest CPUs of which one is enough, one for each way to take so many; else
    those on all CPUs.

    `problems` are those of the states of a scenario, or a single one. An `attempt` leaves CPUs out,
    and has a budget.
    """
    ways = _ways(problems)
    every_cpu = frozenset(
        p for problem in problems for p in problem.processors if problem.kind[p] == "cpu"
    )
    left = len(ways)
    cores = FewestCores(0, True)
    found: list[A] = []
    for count, alike in groupby(ways, key=len):
        cores = replace(cores, count=count)
        found = []
        for kept in alike:
            found.append(attempt(every_cpu - kept, spending.left.part(1 / left)))
            left -= 1
        if any(is_enough(answer) for answer in found):
            break
        if left and not all(is_never_enough(answer) for answer in found):
            cores = replace(cores, proved=False)
    return found, cores


def _ways(problems: Collection[JointProblem]) -> list[frozenset[str]]:
    """All ways to keep some CPUs, the fewest first."""
    one = next(iter(problems))
    pools = [pool for pool in one.platform.pools if pool.kind == "cpu"]
    needed: set[str] = set()
    for problem in problems:
        needed.update(problem.pins.values())
        if problem.followers:  # the first CPU of a machine fires what has no CPU beside it
            needed.update(cpus[0] for cpus in problem.cpus_of_machine.values())
    orders = [sorted(pool.processors, key=lambda p: p not in needed) for pool in pools]
    numbers = [range(sum(p in needed for p in order), len(order) + 1) for order in orders]
    ways = []
    for chosen in product(*numbers):
        kept = frozenset(p for n, order in zip(chosen, orders, strict=True) for p in order[:n])
        if all(kept.intersection(cpus) for cpus in one.cpus_of_machine.values()):
            ways.append(kept)
    return sorted(ways, key=len)


def _is_enough(found: Outcome, most: Fraction | None) -> bool:
    if found.verdict is None or not found.verdict.feasible:
        return False
    return most is None or found.verdict.maximum <= most + RESOLUTION


def _is_never_enough(found: Outcome, most: Fraction | None) -> bool:
    """Is it proved that no mapping on these CPUs is enough?"""
    if found.impossible is not None:
        return True
    return most is not None and found.bound is not None and found.bound > most + RESOLUTION


def _best(found: list[Outcome]) -> Outcome:
    """The best of several answers on as many CPUs, with a bound for all of them."""

    def value(outcome: Outcome) -> tuple[bool, Fraction]:
        if outcome.verdict is None:
            return True, Fraction(2)
        return not outcome.verdict.feasible, outcome.verdict.maximum

    best = min(found, key=value)
    if len(found) == 1:
        return best
    bounds = [outcome.bound for outcome in found if outcome.impossible is None]
    bound = None if None in bounds else min((b for b in bounds if b is not None), default=None)
    feasible = best.verdict is not None and best.verdict.feasible
    proved = (
        feasible
        and bound is not None
        and best.verdict is not None
        and best.verdict.maximum <= bound + RESOLUTION
    )
    impossible = best.impossible if all(outcome.impossible for outcome in found) else None
    return replace(best, bound=bound, proved=proved, impossible=impossible)
