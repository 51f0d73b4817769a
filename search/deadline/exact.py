"""The least maximum utilization, proved: integer programming for tasks, stages and candidates
together.

In: a problem. Out: the best assignment that meets all deadlines, and a bound that no such
assignment goes below. OR-Tools' CP-SAT chooses. Where the response times of the program that an
assignment becomes are not proved to be in time, that assignment is ruled out, and it chooses again
(lazy constraints, as in logic-based Benders decomposition: Hooker and Ottosson, 2003). It begins
without deadlines, with tasks that are alike counted (`loads`): a bound for all of that, and often
the answer.

Two kinds of constraints are added to the whole problem, and both rule out only what is late or has
no proof:

- `rule_out`: a late group and all groups that can reach it are placed as now, and no other group
  comes to their processors. The bound of a group depends on nothing else.
- `too_long`: all tasks of a path take at least as long as now, where these times alone exceed the
  deadline. No sound bound is shorter than the path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, Literal

from ...analysis.timing.system import Refused
from ..budget import Budget
from ..events import Progress
from .least_late import violation
from .lengths import latencies, longest_path
from .loads import RESOLUTION, LoadModel, alike, told_apart
from .orders import MANY_ORDERS
from .otherwise import all_groups, otherwise, reaching
from .problem import Assignment, JointProblem
from .relaxed import Relaxed, as_fraction, relax
from .verdict import MappingVerdict, judged, verdict

#: Candidates per network in the first and the second attempt.
FEW, MANY = 60, 300
#: Attempts one after the other: candidates per network (None: all), each group's tasks on one CPU,
#: and the share of what is left of the budget (one in so many) where that is not the whole problem.
ATTEMPTS: tuple[tuple[int | None, bool, int], ...] = (
    (FEW, True, 4),
    (FEW, False, 2),
    (MANY, False, 2),
    (None, False, 1),
)
#: Of what is left of the budget, what the bound without deadlines gets at most.
COUNTING = 0.4
#: Assignments in a row that may miss a deadline before something else is tried, where a part of the
#: problem is solved.
PATIENCE = 20
#: Rounding errors of the relaxed problem, which is solved in floating point.
ROUNDING = 1e-7

#: Why there is no mapping: what processors can hold (work, engines), or deadlines.
Impossible = Literal["limits", "deadlines"]


@dataclass(frozen=True, slots=True)
class Optimum:
    """`assignment` is None where nothing feasible was found; `bound` holds for all feasible ones.

    `late` are the assignments that were late, each with its violation (`least_late`).

    `proved`: none is better by more than RESOLUTION. `impossible` says why there is none at all,
    where that is proved. `refused` assignments were late; `solved` is what the solver did
    meanwhile, in looks that would have taken as long.
    """

    assignment: Assignment | None
    verdict: MappingVerdict | None
    bound: Fraction
    proved: bool
    refused: int
    solved: int = 0
    impossible: Impossible | None = None
    late: Mapping[Assignment, float] = field(default_factory=dict)


def solve(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    hint: Assignment | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """Minimize the maximum utilization under engine limits and deadlines within `budget`.

    First among the candidates that the relaxed problem likes best, then, for the proof, among all
    that could be in a better answer: those whose choice alone would not raise the bound above what
    was found. `hint` has to be feasible.
    """
    return _Proof(problem, seed, hint, progress).within(budget)


class _Proof:
    """A search for the optimum in attempts, each among more candidates than the one before."""

    def __init__(
        self,
        problem: JointProblem,
        seed: int,
        hint: Assignment | None,
        progress: Progress | None,
    ) -> None:
        self._problem, self._seed, self._progress = problem, seed, progress
        self._best = hint
        self._found: MappingVerdict | None = None
        self._late: dict[Assignment, float] = {}
        self._bound = Fraction(0)
        self._refused, self._solved = 0, 0

    def within(self, budget: Budget) -> Optimum:
        """The best assignment, as far as it is known when the budget is used up."""
        spending = budget.begin(lambda: self._refused + self._solved)
        relaxed = relax(self._problem)
        if relaxed is None:
            return Optimum(None, None, Fraction(0), False, 0, impossible="limits")
        self._bound = as_fraction(relaxed.bound)
        if self._bound > 1:  # even with fractions of tasks, some processor has too much work
            return Optimum(None, None, self._bound, False, 0, impossible="limits")
        if self._best is not None:
            self._found = verdict(self._problem, self._best, orders=MANY_ORDERS)
        self._count_alike(relaxed, spending.left.part(COUNTING))
        known: set[tuple[tuple[int, ...], bool]] = set()
        for most, at_home, share in ATTEMPTS:
            allowed, every = self._allowed(relaxed, most), self._allowed(relaxed, None)
            sizes = tuple(len(candidates) for candidates in allowed)
            if (sizes, at_home) in known or _reached(self._found, self._bound):
                continue
            known.add((sizes, at_home))
            whole = not at_home and sizes == tuple(len(candidates) for candidates in every)
            if spending.over:
                break
            left = spending.left if whole else spending.left.part(1 / share)
            part = _lazily(
                self._problem, allowed, at_home, self._seed, left, self._best, self._bound, whole
            )
            self._refused += part.refused
            self._solved += part.solved
            self._take(part)
            if whole and part.impossible is not None and self._found is None:
                return self._optimum(part.impossible)
            if not at_home:
                self._raise_bound(min(part.bound, _left_out(relaxed, allowed)))
        return self._optimum()

    def _allowed(self, relaxed: Relaxed, most: int | None) -> tuple[tuple[int, ...], ...]:
        """The candidates that could be in a better answer, at most so many of each network."""
        limit = inf
        if self._found is not None:
            limit = float(self._found.maximum) - relaxed.bound + ROUNDING
        return _allowed(relaxed, limit, most, self._best)

    def _count_alike(self, relaxed: Relaxed, budget: Budget) -> None:
        """Raise the bound to the least load without deadlines, where tasks that are alike make it
        easier to find; its assignment may keep all deadlines."""
        items = alike(self._problem)
        if len(items) == len(self._problem.tasks):
            return
        allowed = self._allowed(relaxed, FEW)
        model = LoadModel(self._problem, allowed, items, self._bound)
        if self._best is not None:
            model.hint(self._best)
        answer = model.solve(self._seed, budget, threads=1)  # several only try the same more often
        self._solved += model.solved
        self._raise_bound(min(answer.bound, _left_out(relaxed, allowed)))
        if answer.assignment is not None:
            found = judged(self._problem, answer.assignment)
            if found is not None and found.feasible:
                self._take(Optimum(answer.assignment, found, answer.bound, False, 0))
            else:
                self._refused += 1
                self._late.update(_late(self._problem, found))

    def _take(self, part: Optimum) -> None:
        """Keep the answer of an attempt if it is better than the best one, and what was late."""
        self._late.update(part.late)
        if part.verdict is None:
            return
        if self._found is None or part.verdict.maximum < self._found.maximum:
            self._best, self._found = part.assignment, part.verdict
            self._report(part.verdict.maximum)

    def _report(self, maximum: Fraction) -> None:
        if self._progress is None:
            return
        value, bound = float(maximum), float(self._bound)
        text = f"exact: maximum utilization {value:.4f}, at least {bound:.4f}"
        self._progress(text, evaluations=self._refused, value=value, bound=bound)

    def _raise_bound(self, bound: Fraction) -> None:
        """Take a bound for all that could be better than the best."""
        if self._found is not None:
            bound = min(bound, self._found.maximum)
        self._bound = max(self._bound, bound)

    def _optimum(self, impossible: Impossible | None = None) -> Optimum:
        refused, solved, bound = self._refused, self._solved, self._bound
        if self._found is None:
            return Optimum(None, None, bound, False, refused, solved, impossible, self._late)
        proved = _reached(self._found, bound)
        return Optimum(self._best, self._found, bound, proved, refused, solved, late=self._late)


def _reached(found: MappingVerdict | None, bound: Fraction) -> bool:
    """Is an answer as good as the bound says that one can be?"""
    return found is not None and found.maximum <= bound + RESOLUTION


def _allowed(
    relaxed: Relaxed, limit: float, most: int | None, keep: Assignment | None
) -> tuple[tuple[int, ...], ...]:
    """The candidates of each network that may be in a better answer, and those of `keep`."""
    allowed = []
    for n, rises in enumerate(relaxed.rises):
        own = set(_allowed_of(rises, limit, most))
        if keep is not None:
            own.add(keep.choice[n])
        allowed.append(tuple(sorted(own)))
    return tuple(allowed)


def _allowed_of(rises: tuple[float, ...], limit: float, most: int | None) -> list[int]:
    """Candidates that may be in a better answer, those first that raise the bound least."""
    able = (c for c, rise in enumerate(rises) if rise <= limit and rise < inf)
    order = sorted(able, key=lambda c: rises[c])
    return order[:most]


def _left_out(relaxed: Relaxed, allowed: tuple[tuple[int, ...], ...]) -> Fraction:
    """A bound for what uses a candidate that is not allowed; one processor's time if all are."""
    least = 1.0
    for own, rises in zip(map(set, allowed), relaxed.rises, strict=True):
        left = (relaxed.bound + rise for c, rise in enumerate(rises) if c not in own)
        least = min(least, min(left, default=1.0) - ROUNDING)
    return as_fraction(max(0.0, least))


def _lazily(
    problem: JointProblem,
    allowed: tuple[tuple[int, ...], ...],
    at_home: bool,
    seed: int,
    budget: Budget,
    hint: Assignment | None,
    least: Fraction,
    whole: bool,
) -> Optimum:
    """The integer program over some candidates, solved again for every assignment that misses a
    deadline.

    `at_home`: with the tasks of a group on one CPU, any, where deadlines are met more easily.
    Unless the `whole` problem is to be answered, what is late is ruled out together with what is
    most likely late too, and only PATIENCE assignments are looked at: the bound, which is for all
    assignments of these candidates, is that of the steps before.
    """
    model = _Model(problem, allowed, at_home, least)
    if hint is not None:
        model.hint(hint)
    refused = 0
    bound, guessed = least, False
    every_late: dict[Assignment, float] = {}
    spending = budget.begin(lambda: refused + model.solved)
    while True:
        answer = model.solve(seed, spending.left)
        if not guessed:
            bound = max(bound, answer.bound)
        if answer.assignment is None:
            impossible: Impossible | None = None
            if answer.status == "infeasible" and not (guessed and whole):
                impossible = "deadlines" if refused else "limits"
            return Optimum(None, None, bound, False, refused, model.solved, impossible, every_late)
        found = judged(problem, answer.assignment)
        if found is not None and found.feasible:
            proved = _reached(found, bound)
            return Optimum(
                answer.assignment, found, bound, proved, refused, model.solved, late=every_late
            )
        refused += 1
        late = set() if found is None else set(found.involved)
        every_late.update(_late(problem, found))
        if not model.too_long(answer.assignment, late):
            hopeless = set[str]() if found is None else late & found.hopeless
            if whole and (hopeless or not late):
                model.rule_out(answer.assignment, hopeless)
            else:
                model.avoid(answer.assignment, late)
                guessed = True
        if spending.over or (refused >= PATIENCE and not whole):
            return Optimum(None, None, bound, False, refused, model.solved, late=every_late)


def _late(problem: JointProblem, found: MappingVerdict | None) -> dict[Assignment, float]:
    """An assignment that is late with its violation; nothing where it has no bounds."""
    if found is None:
        return {}
    try:
        return {found.assignment: violation(problem, found.assignment, found)}
    except Refused:
        return {}


class _Model(LoadModel):
    """The integer program with all tasks told apart, from which late assignments can be ruled
    out."""

    def __init__(
        self,
        problem: JointProblem,
        allowed: tuple[tuple[int, ...], ...],
        at_home: bool,
        least: Fraction,
    ) -> None:
        super().__init__(problem, allowed, told_apart(problem), least)
        if at_home:
            self._keep_at_home()

    def _keep_at_home(self) -> None:
        """One CPU for each group's tasks that are not pinned."""
        cores = self.problem.cpus
        homes = {
            t.name: {p: self.model.new_bool_var("") for p in cores} for t in self.problem.groups
        }
        for own in homes.values():
            self.model.add_at_most_one(own.values())
        for t, task in enumerate(self.problem.tasks):
            for p in self.places[t] if task.group in homes else ():
                if p in homes[task.group] and task.name not in self.problem.pins:
                    self.model.add_implication(self.item[t, p], homes[task.group][p])

    # -- what is ruled out -------------------------------------------------------------------------
    def rule_out(self, assignment: Assignment, late: set[str]) -> None:
        """Rule out what is proved to be late, or to have no proof: nothing that could be
        accepted."""
        groups = set(sorted(late)[:1]) or all_groups(self.problem)
        groups = reaching(self.problem, assignment, groups)
        self.model.add_bool_or(otherwise(self, assignment, groups, exactly=True))

    def avoid(self, assignment: Assignment, late: set[str]) -> None:
        """Rule out what is most likely late as well: a late group as it is, whatever else shares
        its processors."""
        groups = set(sorted(late)[:1]) or all_groups(self.problem)
        self.model.add_bool_or(otherwise(self, assignment, groups, exactly=False))

    def too_long(self, assignment: Assignment, late: set[str]) -> bool:
        """Rule out that all tasks of a path take as long as now, if that alone is too long for the
        deadline."""
        for group in self.problem.groups:
            if group.name in late and group.due_ns is not None:
                path, length = longest_path(self.problem, group, assignment)
                if length > group.due_ns:
                    self.model.add_bool_or([*self._quicker(path, assignment)])
                    return True
        return False

    def _quicker(self, path: Sequence[str], assignment: Assignment) -> Iterator[Any]:
        """That a task or a network of a path takes less time than now."""
        for t, task in enumerate(self.problem.tasks):
            if task.name in path:
                now = task.last_ns(self.problem.type[assignment.tasks[t]])
                for p in self.places[t]:
                    if task.last_ns(self.problem.type[p]) < now:
                        yield self.item[t, p]
        for n, network in enumerate(self.problem.networks):
            if network.name in path:
                group = next(g for g in self.problem.groups if g.name == network.group)
                own = latencies(group, network)
                for c, var in self.choose[n].items():
                    if own[c] < own[assignment.choice[n]]:
                        yield var
