"""A bound on the maximum utilization in no time: the same problem with fractions of candidates and
tasks.

In: a problem. Out: a bound that no assignment goes below, and for every candidate by how much the
bound rises if it is chosen at least (its reduced cost). Processors of a pool are one, with as much
time as all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...model.platform import Pool
from .problem import JointProblem

#: The solver computes in floating point: bounds are lowered by this much.
SAFETY = 1e-7


@dataclass(frozen=True, slots=True)
class Relaxed:
    """`bound` for the maximum utilization; `rises[n][c]` adds to it when net n uses candidate c."""

    bound: float
    rises: tuple[tuple[float, ...], ...]


def relax(problem: JointProblem) -> Relaxed | None:
    """None where even the relaxed problem has no solution: an engine limit that no candidates
    keep."""
    program = _LinearProgram(problem)
    chosen = program.choose_candidates()
    program.share_tasks()
    program.limit_loads()
    program.limit_engines()
    return program.solved(chosen)


class _LinearProgram:
    """Fractions of candidates, and of tasks on kinds of processors."""

    def __init__(self, problem: JointProblem) -> None:
        from ortools.linear_solver import pywraplp

        self._lp = pywraplp
        self._problem = problem
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._worst = self._solver.NumVar(0, self._solver.infinity(), "worst")
        self._loads: dict[str, list[tuple[Any, float]]] = {k: [] for k in problem.of_kind}
        self._engines: dict[str, list[Any]] = {k: [] for k in problem.of_kind}

    def choose_candidates(self) -> list[list[Any]]:
        """The fraction of each candidate of each network."""
        chosen = []
        for network in self._problem.networks:
            period = self._problem.period[network.group]
            fractions = [self._solver.NumVar(0, 1, "") for _ in network.candidates]
            self._solver.Add(sum(fractions) == 1)
            for fraction, candidate in zip(fractions, network.candidates, strict=True):
                for stage in candidate.stages:
                    self._loads[stage.kind].append((fraction, float(stage.work / period)))
                    self._engines[stage.kind].append(fraction)
            chosen.append(fractions)
        return chosen

    def share_tasks(self) -> None:
        """Each task in fractions on the kinds of processors that can run it."""
        for task in self._problem.tasks:
            period = self._problem.period[task.group]
            kinds = {self._problem.kind[place] for place in self._problem.places(task)}
            shares = {kind: self._solver.NumVar(0, 1, "") for kind in kinds}
            self._solver.Add(sum(shares.values()) == 1)
            for kind, share in shares.items():
                self._loads[kind].append((share, float(task.work(kind) / period)))

    def limit_loads(self) -> None:
        """The processors of a kind have `worst` of their time for all that is on them."""
        for kind, terms in self._loads.items():
            if terms:
                load = sum(fraction * utilization for fraction, utilization in terms)
                load += float(sum(self._problem.served[p] for p in self._problem.of_kind[kind]))
                self._solver.Add(load <= self._worst * len(self._problem.of_kind[kind]))

    def limit_engines(self) -> None:
        """The processors of a kind hold so many engines."""
        for kind, limit in _limits(self._problem).items():
            if self._engines[kind]:
                self._solver.Add(sum(self._engines[kind]) <= limit)

    def solved(self, chosen: list[list[Any]]) -> Relaxed | None:
        """The bound, and the reduced costs of the fractions of candidates."""
        self._solver.Minimize(self._worst)
        status = self._solver.Solve()
        if status == self._lp.Solver.INFEASIBLE:
            return None
        if status != self._lp.Solver.OPTIMAL:  # the solver gave up: nothing is known
            return Relaxed(0.0, tuple((0.0,) * len(fractions) for fractions in chosen))
        rises = tuple(tuple(max(0.0, f.reduced_cost()) for f in fractions) for fractions in chosen)
        return Relaxed(max(0.0, self._worst.solution_value() - SAFETY), rises)


def _limits(problem: JointProblem) -> dict[str, int]:
    """Engines that all processors of a kind may hold together, where every pool of it has a
    limit."""
    limits: dict[str, int] = {}
    for kind in problem.of_kind:
        pools = [pool for pool in problem.platform.pools if pool.kind == kind]
        if all(pool.engines is not None for pool in pools):
            limits[kind] = sum(_engines_of(pool) for pool in pools)
    return limits


def _engines_of(pool: Pool) -> int:
    """Engines that all processors of a pool may hold together; 0 without a limit."""
    engines = pool.engines or 0
    return engines if pool.engines_total else engines * pool.count


def as_fraction(bound: float) -> Fraction:
    """The bound as an exact number that is not above it."""
    return Fraction(int(bound * 10**9), 10**9)
