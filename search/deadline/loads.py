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
from typing import Any, Literal

from ...analysis.timing.system import TimedBackground
from ..budget import Budget
from .problem import Assignment, JointProblem
from .verdict import utilizations

#: Threads of the solver: its answers depend on their number, so it is not that of the machine.
THREADS = 4
#: The solver's own measure of its steps (about seconds) that is worth a look: bounding the response
#: times of a board.
LOOK = 0.05
#: What the solver says of a program.
Status = Literal["optimal", "feasible", "unknown", "infeasible"]
#: Utilizations are counted in this unit, rounded up.
UNIT = 10**9
#: An answer that is no farther than this above the bound is the optimum: one millionth of a
#: processor's time.
RESOLUTION = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class LoadAnswer:
    """No assignment that is left is below `bound`."""

    status: Status
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


class Placing:
    """A processor for each task and stage, and one of the `allowed` candidates for each network, as
    variables of an integer program; `items` are classes of tasks: a number of each class on each
    processor.

    `choose[n][c]` is 1 for the candidate of network n, `step[n, c, s, p]` for the processor of its
    stage, `item[k, p]` the number of a class there. `terms` has what each variable adds to the load
    of a processor. Programs of several problems may share a `model`.
    """

    def __init__(
        self,
        problem: JointProblem,
        allowed: tuple[tuple[int, ...], ...],
        items: Sequence[tuple[int, ...]],
        model: Any,
    ) -> None:
        self.problem, self.items, self.model = problem, items, model
        self.places = [problem.places(problem.tasks[own[0]]) for own in items]
        self.terms: dict[str, list[tuple[Any, Fraction]]] = {p: [] for p in problem.processors}
        self.choose = [{c: model.new_bool_var("") for c in own} for own in allowed]
        self.step: dict[tuple[int, int, int, str], Any] = {}
        self.item: dict[tuple[int, str], Any] = {}
        self._engines: dict[str, list[Any]] = {p: [] for p in problem.processors}
        for n in range(len(problem.networks)):
            self._add_net(n)
        for k in range(len(items)):
            self._add_item(k)
        self._limit_engines()

    def _add_net(self, n: int) -> None:
        """One candidate of a network, and one processor for each of its stages."""
        problem, network = self.problem, self.problem.networks[n]
        self.model.add_exactly_one(self.choose[n].values())
        for c, chosen in self.choose[n].items():
            for s, stage in enumerate(network.candidates[c].stages):
                places = problem.of_type[stage.type]
                here = []
                for p in places:
                    var = chosen if len(places) == 1 else self.model.new_bool_var("")
                    self.step[n, c, s, p] = var
                    self.terms[p].append((var, problem.stage_load(network, stage, p)))
                    self._engines[p].append(var)
                    here.append(var)
                if len(places) > 1:
                    self.model.add(sum(here) == chosen)

    def _add_item(self, k: int) -> None:
        """A processor for each task of a class."""
        task, count = self.problem.tasks[self.items[k][0]], len(self.items[k])
        here = []
        for p in self.places[k]:
            var = self.model.new_int_var(0, count, "")
            self.item[k, p] = var
            self.terms[p].append((var, self.problem.load(task, p)))
            if task.engine:
                self._engines[p].append(var)
            here.append(var)
        self.model.add(sum(here) == count)

    def _limit_engines(self) -> None:
        for pool in self.problem.platform.pools:
            if pool.engines is None:
                continue
            if pool.engines_total:
                self.model.add(
                    sum(v for p in pool.processors for v in self._engines[p]) <= pool.engines
                )
            else:
                for p in pool.processors:
                    self.model.add(sum(self._engines[p]) <= pool.engines)

    def alike(self) -> Iterator[list[str]]:
        """Processors that can be exchanged for each other without a difference, pool by pool."""
        special = {*self.problem.pins.values(), *self.problem.left_out}
        if self.problem.roaming:  # the first CPU fires what has no CPU beside it
            special |= {cpus[0] for cpus in self.problem.cpus_of_machine.values()}
        for pool in self.problem.platform.pools:
            alike: dict[frozenset[tuple[TimedBackground, int]], list[str]] = {}
            for p in pool.processors:
                if p not in special:
                    alike.setdefault(self._beside(p), []).append(p)
            yield from alike.values()

    def _beside(self, processor: str) -> frozenset[tuple[TimedBackground, int]]:
        """What apps without a period do on a processor in any assignment."""
        apps = [*self.problem.background]
        for task in self.problem.servers:
            apps += [app for home, app in task.homes.items() if home != processor]
        workers = (worker for app in apps for worker in app.workers)
        here = (worker for worker in workers if worker.processor == processor)
        return frozenset(Counter(replace(worker, processor="") for worker in here).items())

    def hint(self, assignment: Assignment) -> None:
        """A good assignment to begin with, its processors as they are."""
        for n, choice in enumerate(assignment.choice):
            for c, var in self.choose[n].items():
                self.model.add_hint(var, c == choice)
            for s, p in enumerate(assignment.stages[n]):
                places = self.problem.of_type[self.problem.type[p]]
                if len(places) > 1:
                    for q in places:
                        self.model.add_hint(self.step[n, choice, s, q], q == p)
        for k, own in enumerate(self.items):
            there = [assignment.tasks[t] for t in own]
            for q in self.places[k]:
                self.model.add_hint(self.item[k, q], there.count(q))

    def read(self, solver: Any) -> Assignment:
        """The assignment that the solver has found; tasks of a class go to its processors in
        order, so that those of an app are near each other."""
        choice = tuple(
            next(c for c, var in own.items() if solver.boolean_value(var)) for own in self.choose
        )
        stages = []
        for n, c in enumerate(choice):
            places = []
            for s, stage in enumerate(self.problem.networks[n].candidates[c].stages):
                able = self.problem.of_type[stage.type]
                places.append(next(p for p in able if solver.boolean_value(self.step[n, c, s, p])))
            stages.append(tuple(places))
        tasks = [""] * len(self.problem.tasks)
        for k, own in enumerate(self.items):
            there = [p for p in self.places[k] for _ in range(solver.value(self.item[k, p]))]
            for t, p in zip(own, there, strict=True):
                tasks[t] = p
        return Assignment(choice, tuple(stages), tuple(tasks))


class LoadModel(Placing):
    """The integer program of the least maximum utilization, which is `least` at least.

    Processors of one pool are alike: their loads are in descending order unless pinned.
    """

    def __init__(
        self,
        problem: JointProblem,
        allowed: tuple[tuple[int, ...], ...],
        items: Sequence[tuple[int, ...]],
        least: Fraction,
    ) -> None:
        from ortools.sat.python import cp_model

        super().__init__(problem, allowed, items, cp_model.CpModel())
        self._solver = Solver()
        self._slack = _roundings(problem)
        worst = self.model.new_int_var(floor(least * UNIT), UNIT + self._slack, "worst")
        loads = {p: sum(v * _units(w) for v, w in terms) for p, terms in self.terms.items()}
        for p, load in loads.items():
            self.model.add(load + floor(problem.served[p] * UNIT) <= worst)
        for free in self.alike():
            for a, b in pairwise(free):
                self.model.add(loads[a] >= loads[b])
        self.model.minimize(worst)

    def hint(self, assignment: Assignment) -> None:
        """A good assignment to begin with, its processors renamed to the model's order."""
        used = utilizations(self.problem, assignment)
        names = {p: p for p in self.problem.processors}
        for free in self.alike():
            names.update(zip(sorted(free, key=lambda p: -used[p]), free, strict=True))
        stages = (tuple(names[p] for p in places) for places in assignment.stages)
        tasks = tuple(names[p] for p in assignment.tasks)
        super().hint(Assignment(assignment.choice, tuple(stages), tasks))

    @property
    def solved(self) -> int:
        """What the solver did so far, in looks that would have taken as long."""
        return self._solver.solved

    def solve(self, seed: int, left: Budget, threads: int = THREADS) -> LoadAnswer:
        """The best assignment that is not ruled out, as far as it is known."""
        gap = float(RESOLUTION * UNIT / 2)
        status, solver = self._solver.run(self.model, seed, left, gap, threads)
        if status == "infeasible":
            return LoadAnswer("infeasible", None, Fraction(0))
        bound = Fraction(max(0, floor(solver.best_objective_bound) - self._slack), UNIT)
        found = None if status == "unknown" else self.read(solver)
        return LoadAnswer(status, found, bound)


class Solver:
    """CP-SAT within a budget; it counts what it did."""

    def __init__(self) -> None:
        self._effort = 0.0

    @property
    def solved(self) -> int:
        """What it did so far, in looks that would have taken as long."""
        return ceil(self._effort / LOOK)

    def run(
        self,
        model: Any,
        seed: int,
        left: Budget,
        gap: float,
        threads: int = THREADS,
    ) -> tuple[Status, Any]:
        """The status, and the solver with the values, to within the `gap`."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        if left.evaluations is None:
            solver.parameters.max_time_in_seconds = max(0.05, left.seconds)
        else:  # steps are counted, and threads take turns: the same answer on any machine
            solver.parameters.max_deterministic_time = max(1, left.evaluations) * LOOK
            solver.parameters.interleave_search = threads > 1
        solver.parameters.random_seed = seed
        solver.parameters.num_workers = threads
        solver.parameters.absolute_gap_limit = gap
        status = solver.solve(model)
        self._effort += solver.response_proto.deterministic_time
        named: dict[Any, Status] = {
            cp_model.INFEASIBLE: "infeasible",
            cp_model.OPTIMAL: "optimal",
            cp_model.FEASIBLE: "feasible",
        }
        return named.get(status, "unknown"), solver


def _roundings(problem: JointProblem) -> int:
    """How many terms of an assignment, each rounded up by less than one unit, a processor has at
    most."""
    stages = (max(len(c.stages) for c in network.candidates) for network in problem.networks)
    return len(problem.tasks) + sum(stages)


def _units(share: Fraction) -> int:
    """Rounded up, so that a load that fits here fits in truth."""
    return -(-share.numerator * UNIT // share.denominator)
