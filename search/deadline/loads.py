"""The integer program of loads: tasks, stages and candidates together, without deadlines.

In: a problem, the candidates that may be used, and the tasks that are not told apart. Out: an
assignment with the least maximum utilization, and a bound that none goes below. OR-Tools' CP-SAT
chooses.

Tasks that are alike load the same processors by the same amount. Where deadlines are left out, only
the number of them on each processor matters: what differs by an exchange of such tasks is one
solution, not thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

from ...analysis.timing.system import TimedBackground
from ..budget import Budget
from .problem import Assignment, JointProblem
from .verdict import utilizations

#: Threads of the solver: its answers depend on their number, so it is not that of the machine.
THREADS = 4
#: The solver's own measure of its steps (about seconds) that is worth a look: bounding the response
#: times of a board.
LOOK = 0.05
#: Utilizations are counted in this unit, rounded up.
UNIT = 10**9
#: An answer that is no farther than this above the bound is the optimum: one millionth of a
#: processor's time.
RESOLUTION = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class LoadAnswer:
    """`status` is `optimal`, `feasible`, `unknown` or `infeasible`; no assignment that is left is
    below `bound`."""

    status: str
    assignment: Assignment | None
    bound: Fraction


def told_apart(problem: JointProblem) -> tuple[tuple[int, ...], ...]:
    """The numbers of all tasks, each alone."""
    return tuple((t,) for t in range(len(problem.tasks)))


def alike(problem: JointProblem) -> tuple[tuple[int, ...], ...]:
    """The numbers of all tasks, together where an exchange of them changes no load and no limit."""
    found: dict[tuple[object, ...], list[int]] = {}
    for t, task in enumerate(problem.tasks):
        places = problem.places(task)
        loads = tuple(problem.load(task, place) for place in places)
        found.setdefault((places, loads, task.engine), []).append(t)
    return tuple(tuple(own) for own in found.values())


class LoadModel:
    """The integer program over `allowed` candidates of each network and over `items`, classes of
    tasks: a number of each class on each processor.

    Processors of one pool are alike: their loads are in descending order unless pinned. The maximum
    utilization is `least` at least.
    """

    def __init__(
        self,
        problem: JointProblem,
        allowed: tuple[tuple[int, ...], ...],
        items: Sequence[tuple[int, ...]],
        least: Fraction,
    ) -> None:
        from ortools.sat.python import cp_model

        self._cp = cp_model
        self._problem = problem
        self._items = items
        self._effort = 0.0
        self._places = [problem.places(problem.tasks[own[0]]) for own in items]
        self._model = cp_model.CpModel()
        self._terms: dict[str, list[tuple[Any, int]]] = {p: [] for p in problem.processors}
        self._choose = [{c: self._model.new_bool_var("") for c in own} for own in allowed]
        self._step: dict[tuple[int, int, int, str], Any] = {}
        self._item: dict[tuple[int, str], Any] = {}
        self._engines: dict[str, list[Any]] = {p: [] for p in problem.processors}
        for n in range(len(problem.networks)):
            self._add_net(n)
        for k in range(len(items)):
            self._add_item(k)
        self._slack = _roundings(problem)
        self._worst = self._model.new_int_var(floor(least * UNIT), UNIT + self._slack, "worst")
        for p, terms in self._terms.items():
            served = floor(problem.served[p] * UNIT)
            self._model.add(sum(v * w for v, w in terms) + served <= self._worst)
        self._limit_engines()
        self._order_alike()
        self._model.minimize(self._worst)

    def _add_net(self, n: int) -> None:
        """One candidate of a network, and one processor for each of its stages."""
        problem, network = self._problem, self._problem.networks[n]
        self._model.add_exactly_one(self._choose[n].values())
        for c, chosen in self._choose[n].items():
            for s, stage in enumerate(network.candidates[c].stages):
                places = problem.of_type[stage.type]
                here = []
                for p in places:
                    var = chosen if len(places) == 1 else self._model.new_bool_var("")
                    self._step[n, c, s, p] = var
                    self._terms[p].append((var, _units(stage.work / problem.period[network.group])))
                    self._engines[p].append(var)
                    here.append(var)
                if len(places) > 1:
                    self._model.add(sum(here) == chosen)

    def _add_item(self, k: int) -> None:
        """A processor for each task of a class."""
        task, count = self._problem.tasks[self._items[k][0]], len(self._items[k])
        here = []
        for p in self._places[k]:
            var = self._model.new_int_var(0, count, "")
            self._item[k, p] = var
            self._terms[p].append((var, _units(self._problem.load(task, p))))
            if task.engine:
                self._engines[p].append(var)
            here.append(var)
        self._model.add(sum(here) == count)

    def _limit_engines(self) -> None:
        for pool in self._problem.platform.pools:
            if pool.engines is None:
                continue
            if pool.engines_total:
                self._model.add(
                    sum(v for p in pool.processors for v in self._engines[p]) <= pool.engines
                )
            else:
                for p in pool.processors:
                    self._model.add(sum(self._engines[p]) <= pool.engines)

    def _alike(self) -> Iterator[list[str]]:
        """Processors that can be exchanged for each other without a difference, pool by pool."""
        special = {*self._problem.pins.values(), *self._problem.left_out}
        if self._problem.roaming:  # the first CPU fires what has no CPU beside it
            special |= {cpus[0] for cpus in self._problem.cpus_of_machine.values()}
        for pool in self._problem.platform.pools:
            alike: dict[frozenset[tuple[TimedBackground, int]], list[str]] = {}
            for p in pool.processors:
                if p not in special:
                    alike.setdefault(self._beside(p), []).append(p)
            yield from alike.values()

    def _beside(self, processor: str) -> frozenset[tuple[TimedBackground, int]]:
        """What apps without a period do on a processor in any assignment."""
        apps = [*self._problem.background]
        for task in self._problem.servers:
            apps += [app for home, app in task.homes.items() if home != processor]
        workers = (worker for app in apps for worker in app.workers)
        here = (worker for worker in workers if worker.processor == processor)
        return frozenset(Counter(replace(worker, processor="") for worker in here).items())

    def _order_alike(self) -> None:
        for free in self._alike():
            for a, b in pairwise(free):
                left = sum(v * w for v, w in self._terms[a])
                self._model.add(left >= sum(v * w for v, w in self._terms[b]))

    def hint(self, assignment: Assignment) -> None:
        """A good assignment to begin with, its processors renamed to the model's order."""
        names = self._renamed(assignment)
        for n, choice in enumerate(assignment.choice):
            for c, var in self._choose[n].items():
                self._model.add_hint(var, c == choice)
            for s, p in enumerate(assignment.stages[n]):
                places = self._problem.of_type[self._problem.type[p]]
                if len(places) > 1:
                    for q in places:
                        self._model.add_hint(self._step[n, choice, s, q], q == names[p])
        for k, own in enumerate(self._items):
            there = [names[assignment.tasks[t]] for t in own]
            for q in self._places[k]:
                self._model.add_hint(self._item[k, q], there.count(q))

    def _renamed(self, assignment: Assignment) -> dict[str, str]:
        used = utilizations(self._problem, assignment)
        names = {p: p for p in self._problem.processors}
        for free in self._alike():
            names.update(zip(sorted(free, key=lambda p: -used[p]), free, strict=True))
        return names

    @property
    def solved(self) -> int:
        """What the solver did so far, in looks that would have taken as long."""
        return ceil(self._effort / LOOK)

    def solve(self, seed: int, left: Budget, threads: int = THREADS) -> LoadAnswer:
        """The best assignment that is not ruled out, as far as it is known."""
        solver = self._cp.CpSolver()
        if left.evaluations is None:
            solver.parameters.max_time_in_seconds = max(0.05, left.seconds)
        else:  # steps are counted, and threads take turns: the same answer on any machine
            solver.parameters.max_deterministic_time = max(1, left.evaluations) * LOOK
            solver.parameters.interleave_search = threads > 1
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = threads
        solver.parameters.absolute_gap_limit = float(RESOLUTION * UNIT / 2)
        status = solver.solve(self._model)
        self._effort += solver.response_proto.deterministic_time
        if status == self._cp.INFEASIBLE:
            return LoadAnswer("infeasible", None, Fraction(0))
        bound = Fraction(max(0, floor(solver.best_objective_bound) - self._slack), UNIT)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return LoadAnswer("unknown", None, bound)
        return LoadAnswer(
            "optimal" if status == self._cp.OPTIMAL else "feasible", self._read(solver), bound
        )

    def _read(self, solver: Any) -> Assignment:
        """The assignment that the solver has found; tasks of a class go to its processors in
        order, so that those of an app are near each other."""
        choice = tuple(
            next(c for c, var in own.items() if solver.boolean_value(var)) for own in self._choose
        )
        stages = []
        for n, c in enumerate(choice):
            places = []
            for s, stage in enumerate(self._problem.networks[n].candidates[c].stages):
                able = self._problem.of_type[stage.type]
                places.append(next(p for p in able if solver.boolean_value(self._step[n, c, s, p])))
            stages.append(tuple(places))
        tasks = [""] * len(self._problem.tasks)
        for k, own in enumerate(self._items):
            there = [p for p in self._places[k] for _ in range(solver.value(self._item[k, p]))]
            for t, p in zip(own, there, strict=True):
                tasks[t] = p
        return Assignment(choice, tuple(stages), tuple(tasks))


def _roundings(problem: JointProblem) -> int:
    """How many terms of an assignment, each rounded up by less than one unit, a processor has at
    most."""
    stages = (max(len(c.stages) for c in network.candidates) for network in problem.networks)
    return len(problem.tasks) + sum(stages)


def _units(share: Fraction) -> int:
    """Rounded up, so that a load that fits here fits in truth."""
    return -(-share.numerator * UNIT // share.denominator)
