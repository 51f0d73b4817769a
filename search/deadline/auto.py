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
from ..evolution import UNCHANGED, Changes
from .anneal import anneal, relieve
from .cores import by_objectives
from .energy import of_least_power, places_to_begin_with
from .exact import Optimum, solve
from .genetic import THESIS, BestSoFar, baseline, entire_ga, heuristic_ga
from .least_late import least_late
from .loads import RESOLUTION
from .outcome import Outcome
from .place import plain
from .problem import Assignment, DeadlineTask, JointProblem, in_common
from .relaxed import Relaxed, relax
from .scenario_ga import THESIS as SCENARIO_THESIS
from .scenario_ga import scenario_ga_of_one
from .scope import scope_of
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
    evolution: Changes = UNCHANGED,
) -> Outcome:
    """Run a search for `objectives`, the most important one first.

    With `energy`, the least mean power is looked for by the problem's model. Without any, the
    least maximum utilization is looked for, and `auto` takes fewer CPUs where that leaves slack.
    `evolution` changes numbers of a genetic search. Raises KeyError for a name that is none.
    """

    def run(
        other: JointProblem,
        part: Budget,
        told: Progress | None = None,
    ) -> Outcome:
        changes = {"evolution": evolution} if evolution else {}
        return SEARCHES[name](other, seed, part, told, search_workers, **changes)

    def attempt(left_out: frozenset[str], part: Budget) -> Outcome:
        within = replace(problem, left_out=problem.left_out | left_out)
        return run(within, part, progress)

    if name in POWER_SEARCHES:
        return replace(run(problem, budget, progress), limit=budget.evaluations)
    if "energy" in objectives:
        first, left = places_to_begin_with(lambda part: run(problem, part), budget)
        found = of_least_power(first, problem, run, seed=seed, budget=left, progress=progress)
        if found.power is None:
            found = replace(found, scope=scope_of([problem]))
        return replace(found, limit=budget.evaluations)
    outcome = by_objectives([problem], attempt, budget, objectives)
    scope = scope_of([problem], outcome.cores)
    outcome = replace(outcome, limit=budget.evaluations, scope=scope)
    if outcome.assignment is None or outcome.verdict is None:
        return outcome
    if outcome.verdict.feasible and name == "auto" and not objectives:
        return _spared(problem, outcome)
    return outcome


def _spared(problem: JointProblem, found: Outcome) -> Outcome:
    """The same on as few CPUs as leave slack, networks on CPUs whole: fewer hand-overs, and cores
    for others. Groups that arrows join get none in common, as long as there are enough."""
    assert found.assignment is not None and found.verdict is not None
    extent = _extent(problem, found.assignment)
    common = len(in_common(problem, found.assignment))
    most = len(problem.cpus) if common else extent[0]
    candidates: list[tuple[int, tuple[int, int], Assignment]] = []
    for type_ in problem.platform.types_of("cpu"):
        for count in range(1, min(most, len(problem.of_type[type_])) + 1):
            assignment = _on_few(problem, found.assignment, type_, count)
            if assignment is not None:
                shared = len(in_common(problem, assignment))
                candidates.append((shared, _extent(problem, assignment), assignment))
    for shared, size, assignment in sorted(candidates, key=lambda each: each[:2]):
        if (shared, size) >= (common, extent):
            break
        try:
            judged = verdict(problem, assignment, patience=Fraction(1))
        except Refused:
            continue
        if judged.feasible and judged.maximum <= SLACK:
            return replace(
                found,
                assignment=assignment,
                verdict=judged,
                spared=found.verdict.maximum,
                proved=False,
                balanced=found,
                apart=shared < common,
            )
    return found


def _extent(problem: JointProblem, assignment: Assignment) -> tuple[int, int]:
    """How many CPUs an assignment uses, and how many tasks and stages it has."""
    return len(_cpus(problem, assignment)), len(_places(assignment))


def _cpus(problem: JointProblem, assignment: Assignment) -> set[str]:
    return {p for p in _places(assignment) if problem.kind[p] == "cpu"}


def _places(assignment: Assignment) -> list[str]:
    return [*assignment.tasks, *(p for places in assignment.stages for p in places)]


def _on_few(problem: JointProblem, like: Assignment, type_: str, count: int) -> Assignment | None:
    """What is on CPUs there on `count` of one type, pinned ones among them: the groups with the
    most to do first. None where some task cannot run on these."""
    choice = _whole_on_cpus(problem, like, type_)
    pinned = set(problem.pins.values())
    cores = sorted(problem.of_type[type_], key=lambda p: p not in pinned)[:count]
    tasks = list(like.tasks)
    moving = [t for t, task in enumerate(problem.tasks) if _movable(problem, task, tasks[t])]
    if any(type_ not in problem.tasks[t].wcet_ns for t in moving):
        return None
    for t in moving:
        tasks[t] = cores[0]
    home = _homes(problem, _movable_work(problem, tasks, choice), cores)
    for t in moving:
        tasks[t] = home[problem.tasks[t].group]
    stages = list(like.stages)
    for n, network in enumerate(problem.networks):
        core = home[network.group]
        made = network.candidates[choice[n]].stages
        places = stages[n] if choice[n] == like.choice[n] else (core,) * len(made)
        stages[n] = tuple(
            core if stage.type == type_ else place
            for stage, place in zip(made, places, strict=True)
        )
    return Assignment(choice, tuple(stages), tuple(tasks))


def _movable(problem: JointProblem, task: DeadlineTask, place: str) -> bool:
    """Is a task on a CPU that no pin asks for?"""
    return problem.kind[place] == "cpu" and task.name not in problem.pins


def _whole_on_cpus(problem: JointProblem, like: Assignment, type_: str) -> tuple[int, ...]:
    """The candidates of an assignment, but the fastest uncut one on this type for networks that
    only use CPUs."""
    choice = list(like.choice)
    for n, network in enumerate(problem.networks):
        stages = network.candidates[choice[n]].stages
        if not problem.cpu_types.issuperset(stage.type for stage in stages):
            continue
        latencies = {}
        for c, candidate in enumerate(network.candidates):
            if candidate.whole_on == type_:
                latencies[c] = candidate.latency
        if latencies:
            choice[n] = min(latencies, key=lambda c: latencies[c])
    return tuple(choice)


def _movable_work(
    problem: JointProblem, tasks: Sequence[str], choice: tuple[int, ...]
) -> dict[str, Fraction]:
    """The utilization that each group has on CPUs and may take to others."""
    work = dict.fromkeys(problem.period, Fraction(0))
    for network, c in zip(problem.networks, choice, strict=True):
        on_cpus = network.candidates[c].work(problem.cpu_types)
        work[network.group] += on_cpus / problem.period[network.group]
    for task, place in zip(problem.tasks, tasks, strict=True):
        if _movable(problem, task, place):
            work[task.group] += problem.load(task, place)
    return work


def _homes(
    problem: JointProblem, work: dict[str, Fraction], cores: Sequence[str]
) -> dict[str, str]:
    """The CPU of each group: the group with the most work first, to the CPU with the least."""
    used = dict(problem.settled)
    home = {}
    for group in sorted(work, key=lambda name: (-work[name], name)):
        home[group] = min(cores, key=lambda p: used[p])
        used[home[group]] += work[group]
    return home


def _genetic(name: str, run: Callable[..., BestSoFar]) -> Run:
    def wrapped(
        problem: JointProblem,
        seed: int,
        budget: Budget,
        progress: Progress | None,
        search_workers: SearchWorkers,
        evolution: Changes = UNCHANGED,
    ) -> Outcome:
        best = run(
            problem,
            seed=seed,
            budget=budget,
            progress=progress,
            search_workers=search_workers,
            numbers=THESIS.changed(evolution),
        )
        best.settle(problem, budget)
        return _outcome(name, best, best.seconds)

    return wrapped


def _scenario_ga(
    problem: JointProblem,
    seed: int,
    budget: Budget,
    progress: Progress | None,
    search_workers: SearchWorkers,
    evolution: Changes = UNCHANGED,
) -> Outcome:
    numbers = SCENARIO_THESIS.changed(evolution)
    return scenario_ga_of_one(problem, seed=seed, budget=budget, progress=progress, numbers=numbers)


def _outcome(name: str, best: BestSoFar, seconds: float) -> Outcome:
    front, count = tuple(best.front), best.evaluations + best.looks
    outcome = Outcome(
        name, best.assignment, best.verdict, None, False, None, count, seconds, front=front
    )
    return replace(outcome, counted=best.looks)


def _exact(
    problem: JointProblem,
    seed: int,
    budget: Budget,
    progress: Progress | None,
    search_workers: SearchWorkers,
) -> Outcome:
    """The solver has threads of its own, and needs no help. Where it looked at nothing, because the
    work does not fit, the answer is spread evenly."""
    begin = time.monotonic()
    optimum = solve(problem, seed=seed, budget=budget, progress=progress)
    answer = optimum.assignment, optimum.verdict
    if optimum.verdict is None:
        late = optimum.late or {plain(problem, (0,) * len(problem.networks))[1]: 0.0}
        answer = least_late(problem, late, budget) or answer
    return Outcome(
        "exact",
        *answer,
        optimum.bound,
        optimum.proved,
        optimum.impossible,
        optimum.refused,
        time.monotonic() - begin,
        counted=optimum.refused + optimum.solved,
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
    return _Staged(problem, seed, budget, progress, search_workers).outcome()


class _Staged:
    """The searches of `auto`, which share a budget and the best assignment so far."""

    def __init__(
        self,
        problem: JointProblem,
        seed: int,
        budget: Budget,
        progress: Progress | None,
        search_workers: SearchWorkers,
    ) -> None:
        self._problem, self._seed, self._budget = problem, seed, budget
        self._progress, self._search_workers = progress, search_workers
        self._best = BestSoFar()
        self._solved = 0
        self._spending = budget.begin(lambda: self._best.looks + self._solved)

    def outcome(self) -> Outcome:
        """Run one search after the other; Ctrl-C ends all of them."""
        spending = self._spending
        relaxed = relax(self._problem)
        if relaxed is None:
            return Outcome("auto", None, None, None, False, "limits", 0, spending.seconds)
        self._best = heuristic_ga(
            self._problem,
            seed=self._seed,
            budget=self._budget.part(HEURISTIC),
            progress=self._progress,
            search_workers=self._search_workers,
            numbers=replace(THESIS, population=256),
        )
        if self._best.interrupted:
            return self._interrupted()
        if self._best.feasible:
            self._relieve()
            for_exact = spending.left.part(EXACT)
        else:
            self._tell("no deadline-keeping mapping yet: looking where response times are short")
            self._anneal(relaxed, spending.left.part(ANNEALING))
            for_exact = spending.left
        if self._best.interrupted:
            return self._interrupted()
        self._tell("exact: proving how far from the optimum that is")
        try:
            optimum = self._solve(for_exact)
        except KeyboardInterrupt:
            return self._interrupted()
        if self._is_far_above(optimum) and not spending.over:
            self._anneal(relaxed, spending.left)
        return self._rated(optimum)

    def _tell(self, text: str) -> None:
        if self._progress is not None:
            self._progress(text)

    def _interrupted(self) -> Outcome:
        self._best.settle(self._problem, self._budget)
        return _outcome("auto", self._best, self._spending.seconds)

    def _relieve(self) -> None:
        self._best = relieve(
            self._problem,
            seed=self._seed,
            budget=self._spending.left.part(RELIEF),
            best=self._best,
            progress=self._progress,
        )

    def _anneal(self, relaxed: Relaxed, budget: Budget) -> None:
        self._best = anneal(
            self._problem,
            relaxed,
            seed=self._seed,
            budget=budget,
            best=self._best,
            progress=self._progress,
            search_workers=self._search_workers,
        )

    def _solve(self, budget: Budget) -> Optimum:
        """The answer of the exact search, taken over where it is not worse; what it saw that is
        late is kept."""
        best = self._best
        optimum = solve(
            self._problem,
            seed=self._seed,
            budget=budget,
            hint=best.assignment if best.feasible else None,
            progress=self._progress,
        )
        self._solved = optimum.refused + optimum.solved
        best.seen.update((late, 2 + value) for late, value in optimum.late.items())
        judged = optimum.verdict
        if judged is not None and judged.maximum <= best.value:
            best.assignment, best.verdict = optimum.assignment, judged
            best.value = float(judged.maximum)
        return optimum

    def _is_far_above(self, optimum: Optimum) -> bool:
        """Could a mapping that keeps all deadlines be much better than the best one?"""
        best = self._best
        return best.feasible and not optimum.proved and best.value > FAR * optimum.bound

    def _rated(self, optimum: Optimum) -> Outcome:
        """The best assignment, with what the exact search has proved."""
        self._best.settle(self._problem, self._budget)
        best, judged = self._best, self._best.verdict
        within = optimum.bound + RESOLUTION
        return Outcome(
            "auto",
            best.assignment,
            judged,
            optimum.bound,
            judged is not None and judged.feasible and judged.maximum <= within,
            None if best.feasible else optimum.impossible,
            best.evaluations + best.looks,
            self._spending.seconds,
            front=tuple(best.front),
            counted=best.looks + self._solved,
        )


#: Problem, seed, budget, who is told, who helps; for genetic ones the changed numbers.
Run = Callable[..., Outcome]

#: Those that look for the least power and for nothing else.
POWER_SEARCHES = ("scenario-ga",)

SEARCHES: dict[str, Run] = {
    "auto": _auto,
    "exact": _exact,
    "heuristic-ga": _genetic("heuristic-ga", heuristic_ga),
    "entire-ga": _genetic("entire-ga", entire_ga),
    "baseline": _genetic("baseline", baseline),
    "scenario-ga": _scenario_ga,
}
