"""The least maximum utilization, proved: integer programming for tasks, stages and candidates together.

In: a problem. Out: the best assignment that meets all deadlines, and a bound that no assignment goes below. OR-Tools'
CP-SAT chooses; where the response-time bound says no, what made a group late is forbidden and it chooses again (lazy
constraints). A stage more, or one that takes longer, never makes a late group meet its deadline, so the clause forbids
the group's tasks and everybody who shares their processors to stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf
from typing import Any

from ...analysis.timing.system import Refused
from ..budget import Budget
from ..events import Progress
from .problem import Assignment, JointProblem, Verdict, verdict
from .relaxed import Relaxed, as_fraction, relax

#: Candidates per network in the first and the second attempt.
FEW, MANY = 60, 300
#: Assignments in a row that may miss a deadline before something else is tried.
PATIENCE = 20
#: An answer that near to the bound is the optimum for all purposes.
CLOSE = Fraction(1, 10_000)
#: Threads of the solver: its answers depend on their number, so it is not that of the machine.
WORKERS = 4
#: The solver's own measure of its steps (about seconds) that is worth a look: bounding the response times of a board.
LOOK = 0.05
#: Utilizations are counted in this unit, rounded up: 1e-7.
UNIT = 10**7


@dataclass(frozen=True, slots=True)
class Optimum:
    """`assignment` is None where nothing feasible was found; `bound` holds for all assignments.

    `proved` means that no better one exists (among those that the response-time bound admits). `refused` assignments
    were late; `solved` is what the solver did meanwhile, in looks that would have taken as long.
    """

    assignment: Assignment | None
    verdict: Verdict | None
    bound: Fraction
    proved: bool
    refused: int
    infeasible: bool
    solved: int = 0


def solve(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    hint: Assignment | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """Minimize the maximum utilization under engine limits and deadlines within `budget`.

    First among the candidates that the relaxed problem likes best, then, for the proof, among all that could be in a
    better answer: those whose choice alone would not raise the bound above what was found. `hint` has to be feasible.
    """
    refused, solved = 0, 0
    spending = budget.begin(lambda: refused + solved)
    relaxed = relax(problem)
    if relaxed is None:
        return Optimum(None, None, Fraction(1), False, 0, True)
    bound = as_fraction(relaxed.bound)
    best, found = hint, None if hint is None else verdict(problem, hint)
    known: set[tuple[tuple[int, ...], bool]] = set()
    for most, at_home, share in ((FEW, True, 4), (FEW, False, 2), (MANY, False, 2), (None, False, 2)):
        limit = inf if found is None else float(found.maximum) - relaxed.bound
        allowed = _allowed(relaxed, limit, most, best)
        sizes = tuple(len(a) for a in allowed)
        if (sizes, at_home) in known or (found is not None and found.maximum <= bound * (1 + CLOSE)):
            continue
        known.add((sizes, at_home))
        every = _allowed(relaxed, limit, None, best)
        whole = not at_home and all(len(a) == len(b) for a, b in zip(allowed, every, strict=True))
        if spending.over:
            break
        left = spending.left if whole else spending.left.part(1 / share)
        part = _lazily(problem, allowed, at_home, seed, left, best, float(bound), whole)
        refused, solved = refused + part.refused, solved + part.solved
        if whole:
            bound = max(bound, min(part.bound, found.maximum if found is not None else part.bound))
        better = part.verdict is not None and part.verdict.feasible and part.assignment is not None
        if better and (found is None or part.verdict.maximum < found.maximum):  # type: ignore[union-attr]
            best, found = part.assignment, part.verdict
            if progress is not None and found is not None:
                text = f"exact: maximum utilization {float(found.maximum):.4f}, at least {float(bound):.4f}"
                progress(text, evaluations=refused, value=float(found.maximum), bound=float(bound))
        if whole and (part.proved or part.infeasible):
            # What was left out could not have been better either.
            least = found.maximum if found else bound
            return Optimum(best, found, least, found is not None, refused, found is None, solved)
    close = found is not None and found.maximum <= bound * (1 + Fraction(1, 10**6))
    return Optimum(best, found, bound, close, refused, False, solved)


def _allowed(relaxed: Relaxed, limit: float, most: int | None, keep: Assignment | None) -> tuple[tuple[int, ...], ...]:
    chosen = []
    for n, rises in enumerate(relaxed.rises):
        own = _allowed_of(rises, limit, most)
        chosen.append(tuple(sorted({*own, *([keep.choice[n]] if keep is not None else [])})))
    return tuple(chosen)


def _allowed_of(rises: tuple[float, ...], limit: float, most: int | None) -> list[int]:
    """Candidates that may be in a better answer, those first that raise the bound least."""
    order = sorted((c for c, rise in enumerate(rises) if rise <= limit), key=lambda c: rises[c])
    return order[:most]


def _lazily(
    problem: JointProblem,
    allowed: tuple[tuple[int, ...], ...],
    at_home: bool,
    seed: int,
    budget: Budget,
    hint: Assignment | None,
    least: float,
    whole: bool,
) -> Optimum:
    """The integer program over some candidates, solved again for every assignment that misses a deadline.

    `at_home`: with the tasks of a group on one CPU, any, where deadlines are met more easily. What is late is ruled out
    together with what is most likely late too, unless the `whole` problem is to be answered.
    """
    model = _Model(problem, allowed, at_home, least)
    if hint is not None:
        model.hint(hint)
    refused = 0
    bound = Fraction(0)
    spending = budget.begin(lambda: refused + model.solved)
    while True:
        status, assignment, below = model.solve(seed, spending.left)
        bound = max(bound, below)
        if status == "infeasible" or assignment is None:
            return Optimum(None, None, bound, False, refused, status == "infeasible", model.solved)
        try:
            found = verdict(problem, assignment, patience=Fraction(1))
        except Refused:
            found = None
        if found is not None and found.feasible:
            return Optimum(assignment, found, bound, status == "optimal", refused, False, model.solved)
        refused += 1
        model.forbid(assignment, found, whole)
        if spending.over or refused >= PATIENCE:
            return Optimum(None, found, bound, False, refused, False, model.solved)


class _Model:
    """The integer program. Processors of one pool are alike: their loads are in descending order unless pinned."""

    def __init__(
        self, problem: JointProblem, allowed: tuple[tuple[int, ...], ...], at_home: bool, least: float
    ) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._problem = problem
        self._effort = 0.0
        self._places = [problem.places(i) for i in problem.items]
        self._model = cp_model.CpModel()
        self._terms: dict[str, list[tuple[Any, int]]] = {p: [] for p in problem.processors}
        self._fixed = dict.fromkeys(problem.processors, 0)
        self._choose = [{c: self._model.new_bool_var("") for c in own} for own in allowed]
        self._step: dict[tuple[int, int, int, str], Any] = {}
        self._item: dict[tuple[int, str], Any] = {}
        self._worst = self._model.new_int_var(int(least * UNIT), UNIT, "worst")
        engines: dict[str, list[Any]] = {p: [] for p in problem.processors}
        for n, net in enumerate(problem.nets):
            self._model.add_exactly_one(self._choose[n].values())
            for c in self._choose[n]:
                for s, step in enumerate(net.candidates[c].steps):
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
            here = []
            for p in self._places[t]:
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
        if at_home:
            self._homes()
        self._symmetry()
        self._model.minimize(self._worst)

    def _homes(self) -> None:
        """One CPU for each group's tasks that are not pinned."""
        cores = self._problem.of_kind.get("cpu", ())
        homes = {t.name: {p: self._model.new_bool_var("") for p in cores} for t in self._problem.teams}
        for own in homes.values():
            self._model.add_at_most_one(own.values())
        for t, item in enumerate(self._problem.items):
            for p in self._places[t]:
                if p in homes[item.group] and item.name not in self._problem.pins:
                    self._model.add_implication(self._item[t, p], homes[item.group][p])

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
            for c, var in self._choose[n].items():
                self._model.add_hint(var, c == choice)
            for s, p in enumerate(assignment.steps[n]):
                for q in self._problem.of_kind[self._problem.kind[p]]:
                    if len(self._problem.of_kind[self._problem.kind[p]]) > 1:
                        self._model.add_hint(self._step[n, choice, s, q], q == names[p])
        for t, p in enumerate(assignment.items):
            for q in self._places[t]:
                self._model.add_hint(self._item[t, q], q == names[p])

    def _renamed(self, assignment: Assignment) -> dict[str, str]:
        from .problem import utilizations

        used = utilizations(self._problem, assignment)
        pinned = set(self._problem.pins.values())
        names = {p: p for p in self._problem.processors}
        for pool in self._problem.platform.pools:
            free = [p for p in pool.processors if p not in pinned]
            names.update(zip(sorted(free, key=lambda p: -used[p]), free, strict=True))
        return names

    @property
    def solved(self) -> int:
        """What the solver did so far, in looks that would have taken as long."""
        return ceil(self._effort / LOOK)

    def solve(self, seed: int, left: Budget) -> tuple[str, Assignment | None, Fraction]:
        """`optimal`, `feasible`, `unknown` or `infeasible`; the assignment; a proved bound."""
        solver = self._cp.CpSolver()
        if left.evaluations is None:
            solver.parameters.max_time_in_seconds = max(0.05, left.seconds)
        else:  # steps are counted, and workers take turns: the same answer on any machine
            solver.parameters.max_deterministic_time = max(1, left.evaluations) * LOOK
            solver.parameters.interleave_search = True
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = WORKERS
        solver.parameters.relative_gap_limit = float(CLOSE)
        status = solver.solve(self._model)
        self._effort += solver.response_proto.deterministic_time
        if status == self._cp.INFEASIBLE:
            return "infeasible", None, Fraction(1)
        # Rounding up made every load larger by less than one unit a task.
        slack = max((len(terms) for terms in self._terms.values()), default=0)
        bound = Fraction(max(0, round(solver.best_objective_bound) - slack), UNIT)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return "unknown", None, bound
        choice = tuple(next(c for c, var in own.items() if solver.boolean_value(var)) for own in self._choose)
        steps = tuple(
            tuple(
                next(p for p in self._problem.of_kind[step.kind] if solver.boolean_value(self._step[n, c, s, p]))
                for s, step in enumerate(net.candidates[c].steps)
            )
            for n, (net, c) in enumerate(zip(self._problem.nets, choice, strict=True))
        )
        items = tuple(
            next(p for p in places if solver.boolean_value(self._item[t, p])) for t, places in enumerate(self._places)
        )
        return "optimal" if status == self._cp.OPTIMAL else "feasible", Assignment(choice, steps, items), bound

    def forbid(self, assignment: Assignment, found: Verdict | None, surely: bool) -> None:
        """At least one of those who made a group late has to go elsewhere.

        Surely that is one of all who share a processor with the group, who share one with those, and so on: their
        jitter is a part of its response. Most likely it is one of the first.
        """
        problem = self._problem
        involved = set(problem.processors)
        if found is not None and found.late and not problem.platform.contention:
            used: dict[str, set[str]] = {t.name: set() for t in problem.teams}
            for t, p in enumerate(assignment.items):
                used[problem.items[t].group].add(p)
            for n, places in enumerate(assignment.steps):
                used[problem.nets[n].group].update(places)
            involved = set(used[found.late[0]])
            while surely and (met := {p for own in used.values() if own & involved for p in own} - involved):
                involved |= met
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
