"""A bound on the maximum utilization in no time: the same problem with fractions of candidates and
tasks.

In: a problem. Out: a bound that no assignment goes below which is proved to be in time, and for
every candidate by how much the bound rises if it is chosen at least (its reduced cost). Processors
of a pool are one, with as much time as all of them; but the busiest has no less to do than the one
with the largest task. Of deadlines it knows that no row of tasks may take longer by itself
(`lengths`); a network is then a mixture of its candidates, and what is too long with the fastest
others is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

from ...model.platform import Pool
from .lengths import Precedence, latencies, precedence
from .problem import DeadlineNetwork, DeadlineTask, JointProblem

#: The solver computes in floating point: bounds are lowered by this much.
SAFETY = 1e-7
#: For the same reason, deadlines are longer by this part.
LONGER = 1e-6


@dataclass(frozen=True, slots=True)
class Relaxed:
    """`bound` for the maximum utilization; `rises[n][c]` adds to it when net n uses candidate c,
    which is infinite where that is always late."""

    bound: float
    rises: tuple[tuple[float, ...], ...]


def relax(problem: JointProblem) -> Relaxed | None:
    """None where even the relaxed problem has no solution: an engine limit that no candidates
    keep.

    Deadlines count where they raise the bound, but not above 1: that says that work does not fit.
    """
    loads = _LinearProgram(problem, in_time=False).solved()
    if loads is None or loads.bound > 1:
        return loads
    both = _LinearProgram(problem, in_time=True).solved()
    if both is None or not loads.bound + SAFETY < both.bound <= 1:
        return loads
    return both


class _LinearProgram:
    """Fractions of candidates, and of tasks on types of processors."""

    def __init__(self, problem: JointProblem, *, in_time: bool) -> None:
        from ortools.linear_solver import pywraplp

        self._lp = pywraplp
        self._problem = problem
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._worst = self._solver.NumVar(0, self._solver.infinity(), "worst")
        self._loads: dict[str, list[tuple[Any, float]]] = {k: [] for k in problem.of_type}
        self._engines: dict[str, list[Any]] = {k: [] for k in problem.of_type}
        #: By task, network and follower: what it is a fraction of, and the ns of a firing of that.
        self._times: dict[str, list[tuple[Any, int]]] = {f.name: [] for f in problem.followers}
        self._latencies: list[list[int]] = []
        self._chosen = [self._choose_candidate(network) for network in problem.networks]
        self._late: set[tuple[int, int]] = set()
        #: By task: its fractions on types of processors.
        self._shares: dict[str, dict[str, Any]] = {}
        for task in problem.tasks:
            self._share(task)
        self._limit_loads()
        self._limit_each()
        self._limit_engines()
        if in_time:
            self._limit_lengths()

    def _choose_candidate(self, network: DeadlineNetwork) -> list[Any]:
        """The fraction of each candidate of a network."""
        period = self._problem.period[network.group]
        fractions = [self._solver.NumVar(0, 1, "") for _ in network.candidates]
        self._solver.Add(sum(fractions) == 1)
        for fraction, candidate in zip(fractions, network.candidates, strict=True):
            for stage in candidate.stages:
                self._loads[stage.type].append((fraction, float(stage.work / period)))
                self._engines[stage.type].append(fraction)
        group = next(g for g in self._problem.groups if g.name == network.group)
        self._latencies.append(latencies(group, network))
        self._times[network.name] = list(zip(fractions, self._latencies[-1], strict=True))
        return fractions

    def _share(self, task: DeadlineTask) -> None:
        """A task in fractions on the types of processors that can run it."""
        types = sorted({self._problem.type[place] for place in self._problem.places(task)})
        shares = {type_: self._solver.NumVar(0, 1, "") for type_ in types}
        self._solver.Add(sum(shares.values()) == 1)
        self._shares[task.name] = shares
        for type_, share in shares.items():
            self._loads[type_].append((share, self._least(task, type_)))
        self._times[task.name] = [(share, task.last_ns(type_)) for type_, share in shares.items()]

    def _least(self, task: DeadlineTask, type_: str) -> float:
        """The least load by a task on a processor of a type."""
        problem = self._problem
        here = (place for place in problem.places(task) if problem.type[place] == type_)
        return float(min(problem.load(task, place) for place in here))

    def _limit_loads(self) -> None:
        """The processors of a type have `worst` of their time for all that is on them."""
        for type_, terms in self._loads.items():
            if terms:
                load = sum(fraction * utilization for fraction, utilization in terms)
                load += float(sum(self._problem.served[p] for p in self._problem.of_type[type_]))
                self._solver.Add(load <= self._worst * len(self._problem.of_type[type_]))

    def _limit_each(self) -> None:
        """The busiest processor has as much to do as each of them by pins, and as one that has the
        largest task beside its pins."""
        problem, settled = self._problem, self._problem.settled
        self._solver.Add(self._worst >= float(max(settled.values())))
        for task in problem.tasks:
            if task.name not in problem.pins:
                with_it: dict[str, Fraction] = {}
                for place in problem.places(task):
                    type_, load = problem.type[place], settled[place] + problem.load(task, place)
                    with_it[type_] = min(with_it.get(type_, load), load)
                shares = self._shares[task.name]
                self._solver.Add(
                    self._worst >= sum(shares[k] * float(v) for k, v in with_it.items())
                )
        emptiest = {
            type_: min((settled[p] for p in own), default=Fraction(0))
            for type_, own in problem.of_type.items()
        }
        for network, fractions in zip(problem.networks, self._chosen, strict=True):
            period = problem.period[network.group]
            largest = [
                float(max(emptiest[stage.type] + stage.work / period for stage in each.stages))
                for each in network.candidates
            ]
            loads = zip(fractions, largest, strict=True)
            self._solver.Add(self._worst >= sum(fraction * load for fraction, load in loads))

    def _limit_engines(self) -> None:
        """The processors of a type hold so many engines."""
        for type_, limit in _limits(self._problem).items():
            if self._engines[type_]:
                self._solver.Add(sum(self._engines[type_]) <= limit)

    def _limit_lengths(self) -> None:
        """No row of tasks and networks takes longer than its deadline, which is the unit here."""
        least = {name: min((ns for _, ns in own), default=0) for name, own in self._times.items()}
        for group in self._problem.groups:
            if group.due_ns is not None:
                order = precedence(self._problem, group)
                self._limit_rows(order, float(group.due_ns))
                self._leave_out_late(order.through(least), least, group.due_ns)

    def _limit_rows(self, order: Precedence, due: float) -> None:
        end: dict[str, Any] = {}
        for name, before in order.before.items():
            time = sum(fraction * (ns / due) for fraction, ns in self._times[name])
            end[name] = self._solver.NumVar(0, self._solver.infinity(), "")
            self._solver.Add(end[name] >= time)
            for other in before:
                self._solver.Add(end[name] >= end[other] + time)
            if name in order.ends:
                self._solver.Add(end[name] <= 1 + LONGER)

    def _leave_out_late(
        self, rows: Mapping[str, int], least: Mapping[str, int], due: Fraction
    ) -> None:
        """No candidate that is late even if all else is as fast as it can be."""
        for n, network in enumerate(self._problem.networks):
            if network.name in rows:
                others = rows[network.name] - least[network.name]
                for c, latency in enumerate(self._latencies[n]):
                    if others + latency > due:
                        self._chosen[n][c].SetUb(0)
                        self._late.add((n, c))

    def solved(self) -> Relaxed | None:
        """The bound, and the reduced costs of the fractions of candidates."""
        self._solver.Minimize(self._worst)
        status = self._solver.Solve()
        if status == self._lp.Solver.INFEASIBLE:
            return None
        if status != self._lp.Solver.OPTIMAL:  # the solver gave up: nothing is known
            return Relaxed(0.0, tuple((0.0,) * len(own) for own in self._chosen))
        rises = tuple(
            tuple(
                inf if (n, c) in self._late else max(0.0, fraction.reduced_cost())
                for c, fraction in enumerate(own)
            )
            for n, own in enumerate(self._chosen)
        )
        return Relaxed(max(0.0, self._worst.solution_value() - SAFETY), rises)


def _limits(problem: JointProblem) -> dict[str, int]:
    """Engines that all processors of a type may hold together, where every pool of it has a
    limit."""
    limits: dict[str, int] = {}
    for type_ in problem.of_type:
        pools = [pool for pool in problem.platform.pools if pool.type == type_]
        if all(pool.engines is not None for pool in pools):
            limits[type_] = sum(_engines_of(pool) for pool in pools)
    return limits


def _engines_of(pool: Pool) -> int:
    """Engines that all processors of a pool may hold together; 0 without a limit."""
    engines = pool.engines or 0
    return engines if pool.engines_total else engines * pool.count


def as_fraction(bound: float) -> Fraction:
    """The bound as an exact number that is not above it."""
    return Fraction(int(bound * 10**9), 10**9)
