"""All joint searches by name, and the default one: heuristics first, then the exact one as referee.

In: a problem. Out: an `Outcome`: the assignment, its verdict, and how far from the optimum it is at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from .anneal import anneal, relieve
from .genetic import Best, baseline, entire_ga, heuristic_ga
from .optimum import solve
from .problem import Assignment, JointProblem, Verdict, verdict
from .relaxed import relax

Progress = Callable[[str], None]
#: Of the budget, what the heuristic gets; it usually stops by itself long before.
HEURISTIC = 0.2
#: Of what is left then, what annealing gets where that met no deadlines.
ANNEALING = 0.5
#: Of what is left otherwise, what moving single tasks gets at most, where that still helps.
RELIEF = 0.3
#: Of what is left then, what the exact search gets; the rest is for annealing where that is far above the bound.
EXACT, FAR = 0.7, 1.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """`bound` holds for the maximum utilisation of all assignments (of the candidates given); None if unknown.

    `proved`: none is better. `impossible`: not even the limits of the board can be kept.
    """

    search: str
    assignment: Assignment | None
    verdict: Verdict | None
    bound: Fraction | None
    proved: bool
    impossible: bool
    evaluations: int
    seconds: float

    @property
    def gap(self) -> float | None:
        """How far the answer is above the bound at most, relative to it."""
        if self.verdict is None or not self.bound or not self.verdict.feasible:
            return None
        return float(self.verdict.maximum / self.bound - 1)


def search(problem: JointProblem, name: str, *, seed: int, budget: float, progress: Progress | None = None) -> Outcome:
    """Run a search. Raises KeyError for a name that is none."""
    found = SEARCHES[name](problem, seed, budget, progress)
    if found.assignment is None or found.verdict is None or found.verdict.feasible:
        return found
    # Searches do not follow bounds beyond the deadlines; what is reported has to be right.
    return replace(found, verdict=verdict(problem, found.assignment))


def _genetic(name: str, run: Callable[..., Best]) -> Callable[[JointProblem, int, float, Progress | None], Outcome]:
    def wrapped(problem: JointProblem, seed: int, budget: float, progress: Progress | None) -> Outcome:
        best = run(problem, seed=seed, budget=budget, progress=progress)
        return _outcome(name, best, best.seconds)

    return wrapped


def _outcome(name: str, best: Best, seconds: float) -> Outcome:
    return Outcome(name, best.assignment, best.verdict, None, False, False, best.evaluations, seconds)


def _exact(problem: JointProblem, seed: int, budget: float, progress: Progress | None) -> Outcome:
    begin = time.monotonic()
    found = solve(problem, seed=seed, budget=budget, progress=progress)
    return Outcome(
        "exact", found.assignment, found.verdict, found.bound, found.proved, found.infeasible, found.refused,
        time.monotonic() - begin,
    )  # fmt: skip


def _auto(problem: JointProblem, seed: int, budget: float, progress: Progress | None) -> Outcome:
    """`heuristic-ga` with an eighth of the thesis' population, annealing if it is late, then `exact` from there.

    Where that stays far above its bound, annealing again.
    """
    begin = time.monotonic()
    relaxed = relax(problem)
    if relaxed is None:
        return Outcome("auto", None, None, None, False, True, 0, time.monotonic() - begin)
    best = heuristic_ga(problem, seed=seed, budget=HEURISTIC * budget, progress=progress, population=256)

    def left() -> float:
        return budget - (time.monotonic() - begin)

    if best.interrupted:
        return _outcome("auto", best, time.monotonic() - begin)
    if not best.feasible:
        if progress is not None:
            progress("no deadline-keeping mapping yet: looking where response times are short")
        best = anneal(problem, relaxed, seed=seed, budget=ANNEALING * left(), best=best, progress=progress)
        first = left()
    else:
        best = relieve(problem, seed=seed, budget=RELIEF * left(), best=best, progress=progress)
        first = EXACT * left()
    if best.interrupted:
        return _outcome("auto", best, time.monotonic() - begin)
    if progress is not None:
        progress("exact: proving how far from the optimum that is")
    try:
        found = solve(
            problem, seed=seed, budget=first, hint=best.assignment if best.feasible else None, progress=progress
        )
    except KeyboardInterrupt:
        return _outcome("auto", best, time.monotonic() - begin)
    if found.verdict is not None and found.verdict.feasible and found.verdict.maximum <= best.value:
        best.assignment, best.verdict, best.value = found.assignment, found.verdict, float(found.verdict.maximum)
    if best.feasible and not found.proved and best.value > FAR * found.bound and left() > 0:
        best = anneal(problem, relaxed, seed=seed, budget=left(), best=best, progress=progress)
    told = best.verdict
    proved = told is not None and told.feasible and (found.proved or told.maximum <= found.bound)
    return Outcome(
        "auto", best.assignment, told, found.bound, proved, found.infeasible and not best.feasible,
        best.evaluations + len(best.seen), time.monotonic() - begin,
    )  # fmt: skip


SEARCHES: dict[str, Callable[[JointProblem, int, float, Progress | None], Outcome]] = {
    "auto": _auto,
    "exact": _exact,
    "heuristic-ga": _genetic("heuristic-ga", heuristic_ga),
    "entire-ga": _genetic("entire-ga", entire_ga),
    "baseline": _genetic("baseline", baseline),
}
