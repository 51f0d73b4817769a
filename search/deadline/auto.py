"""All joint searches by name, and the default one: heuristics first, then the exact one as referee.

In: a problem. Out: an `Outcome`: the assignment, its verdict, and how far from the optimum it is at
most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from ...analysis.timing.system import Refused
from ...machines.search_workers import ALONE, SearchWorkers
from ..budget import Budget
from ..events import Progress
from .anneal import anneal, relieve
from .cores import by_objectives
from .exact import RESOLUTION, solve
from .genetic import BestSoFar, baseline, entire_ga, heuristic_ga
from .outcome import Outcome
from .problem import Assignment, JointProblem
from .relaxed import relax
from .verdict import verdict

#: Up to this utilization of the busiest processor, fewer processors are worth more than balance.
SLACK = Fraction(3, 10)
#: Of the budget, what the heuristic gets; it usually stops by itself long before.
HEURISTIC = 0.2
#: Of what is left then, what annealing gets where that met no deadlines.
ANNEALING = 0.5
#: Of what is left otherwise, what moving single tasks gets at most, where that still helps.
RELIEF = 0.3
#: Of what is left then, what the exact search gets; the rest is for annealing where that is far
#: above the bound.
EXACT, FAR = 0.7, 1.02


def search(
    problem: JointProblem,
    *,
    name: str,
    seed: int,
    budget: Budget,
    progress: Progress | None = None,
    search_workers: SearchWorkers = ALONE,
    objectives: Sequence[str] = (),
) -> Outcome:
    """Run a search for `objectives`, the most important one first.

    Without any, the least maximum utilization is looked for, and `auto` takes fewer CPUs where that
    leaves slack. Raises KeyError for a name that is none.
    """

    def attempt(left_out: frozenset[str], part: Budget) -> Outcome:
        within = replace(problem, left_out=problem.left_out | left_out)
        return SEARCHES[name](within, seed, part, progress, search_workers)

    found = by_objectives([problem], attempt, budget, objectives)
    found = replace(found, limit=budget.evaluations)
    if found.assignment is None or found.verdict is None:
        return found
    if found.verdict.feasible:
        return _spared(problem, found) if name == "auto" and not objectives else found
    # Searches do not follow bounds beyond the deadlines; what is reported has to be right.
    return replace(found, verdict=verdict(problem, found.assignment))


def _spared(problem: JointProblem, found: Outcome) -> Outcome:
    """The same on as few CPUs as leave slack, networks on CPUs whole: fewer hand-overs, and cores
    for others."""
    assert found.assignment is not None and found.verdict is not None
    used = len(_cpus(problem, found.assignment))
    for count in range(1, used + 1):
        try:
            assignment = _on_few(problem, found.assignment, count)
            told = verdict(problem, assignment, patience=Fraction(1))
        except Refused:
            continue
        fewer = len(_cpus(problem, assignment)), len(_places(assignment))
        if (
            fewer < (used, len(_places(found.assignment)))
            and told.feasible
            and told.maximum <= SLACK
        ):
            return replace(
                found,
                assignment=assignment,
                verdict=told,
                spared=found.verdict.maximum,
                proved=False,
                balanced=found,
            )
    return found


def _cpus(problem: JointProblem, assignment: Assignment) -> set[str]:
    return {p for p in _places(assignment) if problem.kind[p] == "cpu"}


def _places(assignment: Assignment) -> list[str]:
    return [*assignment.tasks, *(p for places in assignment.stages for p in places)]


def _on_few(problem: JointProblem, like: Assignment, count: int) -> Assignment:
    """What is on CPUs there on `count` of them, pinned ones among them: the groups with the most to
    do first."""
    pinned = set(problem.pins.values())
    cores = sorted(problem.of_kind["cpu"], key=lambda p: p not in pinned)[:count]
    used = dict.fromkeys(problem.processors, Fraction(0))
    for task in problem.tasks:
        if task.name in problem.pins:
            place = problem.pins[task.name]
            used[place] += task.work(problem.kind[place]) / problem.period[task.group]
    choice, stages, tasks = list(like.choice), list(like.stages), list(like.tasks)
    work: dict[str, Fraction] = {t.name: Fraction(0) for t in problem.groups}
    for n, network in enumerate(problem.networks):
        if all(s.kind == "cpu" for s in network.candidates[choice[n]].stages):
            whole = [
                c
                for c, made in enumerate(network.candidates)
                if [s.kind for s in made.stages] == ["cpu"]
            ]
            choice[n] = min(whole, key=lambda c: network.candidates[c].latency, default=choice[n])
        work[network.group] += (
            network.candidates[choice[n]].work("cpu") / problem.period[network.group]
        )
    for task, place in zip(problem.tasks, tasks, strict=True):
        if problem.kind[place] == "cpu" and task.name not in problem.pins:
            work[task.group] += task.work("cpu") / problem.period[task.group]
    for group in sorted(work, key=lambda g: (-work[g], g)):
        core = min(cores, key=lambda p: used[p])
        used[core] += work[group]
        for t, task in enumerate(problem.tasks):
            if (
                task.group == group
                and problem.kind[tasks[t]] == "cpu"
                and task.name not in problem.pins
            ):
                tasks[t] = core
        for n, network in enumerate(problem.networks):
            if network.group == group:
                made = network.candidates[choice[n]].stages
                kept = stages[n] if choice[n] == like.choice[n] else (core,) * len(made)
                stages[n] = tuple(
                    core if s.kind == "cpu" else p for s, p in zip(made, kept, strict=True)
                )
    return Assignment(tuple(choice), tuple(stages), tuple(tasks))


def _genetic(name: str, run: Callable[..., BestSoFar]) -> Run:
    def wrapped(
        problem: JointProblem,
        seed: int,
        budget: Budget,
        progress: Progress | None,
        search_workers: SearchWorkers,
    ) -> Outcome:
        best = run(
            problem, seed=seed, budget=budget, progress=progress, search_workers=search_workers
        )
        return _outcome(name, best, best.seconds)

    return wrapped


def _outcome(name: str, best: BestSoFar, seconds: float) -> Outcome:
    front, count = tuple(best.front), best.evaluations + best.looks
    found = Outcome(
        name, best.assignment, best.verdict, None, False, None, count, seconds, front=front
    )
    return replace(found, counted=best.looks)


def _exact(
    problem: JointProblem,
    seed: int,
    budget: Budget,
    progress: Progress | None,
    search_workers: SearchWorkers,
) -> Outcome:
    """The solver has threads of its own, and needs no help."""
    begin = time.monotonic()
    found = solve(problem, seed=seed, budget=budget, progress=progress)
    return Outcome(
        "exact",
        found.assignment,
        found.verdict,
        found.bound,
        found.proved,
        found.impossible,
        found.refused,
        time.monotonic() - begin,
        counted=found.refused + found.solved,
    )


def _auto(
    problem: JointProblem,
    seed: int,
    budget: Budget,
    progress: Progress | None,
    search_workers: SearchWorkers,
) -> Outcome:
    """`heuristic-ga` with an eighth of the thesis' population, annealing if it is late, then
    `exact` from there.

    Where that stays far above its bound, annealing again.
    """
    best, solved = BestSoFar(), 0
    spending = budget.begin(lambda: best.looks + solved)
    relaxed = relax(problem)
    if relaxed is None:
        return Outcome("auto", None, None, None, False, "limits", 0, spending.seconds)
    part = budget.part(HEURISTIC)
    best = heuristic_ga(
        problem,
        seed=seed,
        budget=part,
        progress=progress,
        search_workers=search_workers,
        population=256,
    )
    if best.interrupted:
        return _outcome("auto", best, spending.seconds)
    if not best.feasible:
        if progress is not None:
            progress("no deadline-keeping mapping yet: looking where response times are short")
        part = spending.left.part(ANNEALING)
        best = anneal(
            problem,
            relaxed,
            seed=seed,
            budget=part,
            best=best,
            progress=progress,
            search_workers=search_workers,
        )
        first = spending.left
    else:
        best = relieve(
            problem, seed=seed, budget=spending.left.part(RELIEF), best=best, progress=progress
        )
        first = spending.left.part(EXACT)
    if best.interrupted:
        return _outcome("auto", best, spending.seconds)
    if progress is not None:
        progress("exact: proving how far from the optimum that is")
    try:
        found = solve(
            problem,
            seed=seed,
            budget=first,
            hint=best.assignment if best.feasible else None,
            progress=progress,
        )
    except KeyboardInterrupt:
        return _outcome("auto", best, spending.seconds)
    solved = found.refused + found.solved
    if found.verdict is not None and found.verdict.feasible and found.verdict.maximum <= best.value:
        best.assignment, best.verdict, best.value = (
            found.assignment,
            found.verdict,
            float(found.verdict.maximum),
        )
    if best.feasible and not found.proved and best.value > FAR * found.bound and not spending.over:
        best = anneal(
            problem,
            relaxed,
            seed=seed,
            budget=spending.left,
            best=best,
            progress=progress,
            search_workers=search_workers,
        )
    verdict = best.verdict
    proved = (
        verdict is not None and verdict.feasible and verdict.maximum <= found.bound + RESOLUTION
    )
    return Outcome(
        "auto",
        best.assignment,
        verdict,
        found.bound,
        proved,
        None if best.feasible else found.impossible,
        best.evaluations + best.looks,
        spending.seconds,
        front=tuple(best.front),
        counted=best.looks + solved,
    )


#: Problem, seed, budget, who is told, who helps.
Run = Callable[[JointProblem, int, Budget, "Progress | None", SearchWorkers], Outcome]

SEARCHES: dict[str, Run] = {
    "auto": _auto,
    "exact": _exact,
    "heuristic-ga": _genetic("heuristic-ga", heuristic_ga),
    "entire-ga": _genetic("entire-ga", entire_ga),
    "baseline": _genetic("baseline", baseline),
}
