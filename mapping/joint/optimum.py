"""The least maximum utilisation, proved: integer programming for tasks, stages and candidates together.

In: a problem. Out: the best assignment that meets all deadlines, and a bound that no assignment goes below. OR-Tools'
CP-SAT chooses; where the response-time bound says no, what made a group late is forbidden and it chooses again (lazy
constraints). A stage more, or one that takes longer, never makes a late group meet its deadline, so the clause forbids
the group's tasks and everybody who shares their processors to stay where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from ...analysis.timing import Refused
from .problem import Assignment, JointProblem, Verdict, verdict

#: Utilisations are counted in this unit, rounded up: 1e-7.
UNIT = 10**7


@dataclass(frozen=True, slots=True)
class Optimum:
    """`assignment` is None where nothing feasible was found; `bound` holds for all assignments.

    `proved` means that no better one exists (among those that the response-time bound admits).
    """

    assignment: Assignment | None
    verdict: Verdict | None
    bound: Fraction
    proved: bool
    refused: int
    infeasible: bool


def solve(
    problem: JointProblem,
    *,
    seed: int,
    budget: float,
    hint: Assignment | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Optimum:
    """Minimise the maximum utilisation under engine limits and deadlines within `budget` seconds."""
    begin = time.monotonic()
    model = _Model(problem)
    if hint is not None:
        model.hint(hint)
    refused = 0
    bound = Fraction(0)
    while True:
        left = budget - (time.monotonic() - begin)
        status, assignment, least = model.solve(seed, max(0.05, left))
        bound = max(bound, least)
        if status == "infeasible":
            return Optimum(None, None, bound, False, refused, True)
        if assignment is None:
            return Optimum(None, None, bound, False, refused, False)
        try:
            found = verdict(problem, assignment)
        except Refused:
            found = None
        if found is not None and found.feasible:
            return Optimum(assignment, found, bound, status == "optimal", refused, False)
        refused += 1
        model.forbid(assignment, found)
        if time.monotonic() - begin > budget or stop():
            return Optimum(None, found, bound, False, refused, False)


class _Model:
    """The integer program. Processors of one pool are alike: their loads are in descending order unless pinned."""

    def __init__(self, problem: JointProblem) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._problem = problem
        self._model = cp_model.CpModel()
        self._terms: dict[str, list[tuple[Any, int]]] = {p: [] for p in problem.processors}
        self._fixed = dict.fromkeys(problem.processors, 0)
        self._choose = [[self._model.new_bool_var("") for _ in net.candidates] for net in problem.nets]
        self._step: dict[tuple[int, int, int, str], Any] = {}
        self._item: dict[tuple[int, str], Any] = {}
        self._worst = self._model.new_int_var(0, UNIT, "worst")
        engines: dict[str, list[Any]] = {p: [] for p in problem.processors}
        for n, net in enumerate(problem.nets):
            self._model.add_exactly_one(self._choose[n])
            for c, candidate in enumerate(net.candidates):
                for s, step in enumerate(candidate.steps):
                    places = problem.of_kind[step.kind]
                    here = []
                    for p in places:
                        var = self._choose[n][c] if len(places) == 1 else self._model.new_bool_var("")
                        self._step[n, c, s, p] = var
                        self._terms[p].append((var, _units(step.work / problem.period[net.group])))
                        engines[p].append(var)
                        here.append(var)
                    if len(places) > 1:
                        self._model.add(sum(here) == self._choose[n][c])
        for t, item in enumerate(problem.items):
            places = problem.places(item)
            here = []
            for p in places:
                var = self._model.new_bool_var("")
                self._item[t, p] = var
                self._terms[p].append((var, _units(item.work(problem.kind[p]) / problem.period[item.group])))
                here.append(var)
            self._model.add_exactly_one(here)
        for terms in self._terms.values():
            self._model.add(sum(v * w for v, w in terms) <= self._worst)
        for pool in problem.platform.pools:
            if pool.engines is None:
                continue
            if pool.engines_total:
                self._model.add(sum(v for p in pool.processors for v in engines[p]) <= pool.engines)
            else:
                for p in pool.processors:
                    self._model.add(sum(engines[p]) <= pool.engines)
        self._symmetry()
        self._model.minimize(self._worst)

    def _symmetry(self) -> None:
        pinned = set(self._problem.pins.values())
        for pool in self._problem.platform.pools:
            free = [p for p in pool.processors if p not in pinned]
            for a, b in pairwise(free):
                left = sum(v * w for v, w in self._terms[a])
                self._model.add(left >= sum(v * w for v, w in self._terms[b]))

    def hint(self, assignment: Assignment) -> None:
        """A good assignment to begin with, its processors renamed to the model's order."""
        names = self._renamed(assignment)
        for n, choice in enumerate(assignment.choice):
            for c, var in enumerate(self._choose[n]):
                self._model.add_hint(var, c == choice)
            for s, p in enumerate(assignment.steps[n]):
                for q in self._problem.of_kind[self._problem.kind[p]]:
                    if len(self._problem.of_kind[self._problem.kind[p]]) > 1:
                        self._model.add_hint(self._step[n, choice, s, q], q == names[p])
        for t, p in enumerate(assignment.items):
            for q in self._problem.places(self._problem.items[t]):
                self._model.add_hint(self._item[t, q], q == names[p])

    def _renamed(self, assignment: Assignment) -> dict[str, str]:
        from .problem import utilisations

        used = utilisations(self._problem, assignment)
        pinned = set(self._problem.pins.values())
        names = {p: p for p in self._problem.processors}
        for pool in self._problem.platform.pools:
            free = [p for p in pool.processors if p not in pinned]
            names.update(zip(sorted(free, key=lambda p: -used[p]), free, strict=True))
        return names

    def solve(self, seed: int, seconds: float) -> tuple[str, Assignment | None, Fraction]:
        """`optimal`, `feasible`, `unknown` or `infeasible`; the assignment; a proved bound."""
        solver = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = 2
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:
            return "infeasible", None, Fraction(1)
        # Rounding up made every load larger by less than one unit a task.
        slack = max((len(terms) for terms in self._terms.values()), default=0)
        bound = Fraction(max(0, round(solver.best_objective_bound) - slack), UNIT)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return "unknown", None, bound
        choice = tuple(next(c for c, var in enumerate(vars_) if solver.boolean_value(var)) for vars_ in self._choose)
        steps = tuple(
            tuple(
                next(p for p in self._problem.of_kind[step.kind] if solver.boolean_value(self._step[n, c, s, p]))
                for s, step in enumerate(net.candidates[c].steps)
            )
            for n, (net, c) in enumerate(zip(self._problem.nets, choice, strict=True))
        )
        items = tuple(
            next(p for p in self._problem.places(item) if solver.boolean_value(self._item[t, p]))
            for t, item in enumerate(self._problem.items)
        )
        return "optimal" if status == self._cp.OPTIMAL else "feasible", Assignment(choice, steps, items), bound

    def forbid(self, assignment: Assignment, found: Verdict | None) -> None:
        """At least one of those who made a group late has to go elsewhere."""
        problem = self._problem
        involved = set(problem.processors)
        if found is not None and found.late and not problem.platform.contention:
            late = found.late[0]
            involved = {p for t, p in enumerate(assignment.items) if problem.items[t].group == late}
            involved |= {
                p for n, places in enumerate(assignment.steps) if problem.nets[n].group == late for p in places
            }
        literals = []
        for t, p in enumerate(assignment.items):
            if p in involved:
                literals.append(self._item[t, p])
        for n, places in enumerate(assignment.steps):
            if involved & set(places):
                literals.append(self._choose[n][assignment.choice[n]])
                literals += [
                    self._step[n, assignment.choice[n], s, p]
                    for s, p in enumerate(places)
                    if len(problem.of_kind[problem.kind[p]]) > 1
                ]
        self._model.add_bool_or([literal.negated() for literal in literals])


def _units(share: Fraction) -> int:
    """Rounded up, so that a load that fits here fits in truth."""
    return -(-share.numerator * UNIT // share.denominator)
