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
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    worst = solver.NumVar(0, solver.infinity(), "worst")
    loads: dict[str, list[tuple[Any, float]]] = {k: [] for k in problem.of_kind}
    engines: dict[str, list[tuple[Any, int]]] = {k: [] for k in problem.of_kind}
    chosen = []
    for network in problem.networks:
        variables = [solver.NumVar(0, 1, "") for _ in network.candidates]
        solver.Add(sum(variables) == 1)
        for variable, candidate in zip(variables, network.candidates, strict=True):
            for stage in candidate.stages:
                loads[stage.kind].append(
                    (variable, float(stage.work / problem.period[network.group]))
                )
                engines[stage.kind].append((variable, 1))
        chosen.append(variables)
    for task in problem.tasks:
        kinds = {problem.kind[p] for p in problem.places(task)}
        shares = {kind: solver.NumVar(0, 1, "") for kind in kinds}
        solver.Add(sum(shares.values()) == 1)
        for kind, share in shares.items():
            loads[kind].append((share, float(task.work(kind) / problem.period[task.group])))
    for kind, terms in loads.items():
        if terms:
            solver.Add(sum(v * w for v, w in terms) <= worst * len(problem.of_kind[kind]))
    for kind, limit in _limits(problem).items():
        if engines[kind]:
            solver.Add(sum(v * n for v, n in engines[kind]) <= limit)
    solver.Minimize(worst)
    status = solver.Solve()
    if status == pywraplp.Solver.INFEASIBLE:
        return None
    if status != pywraplp.Solver.OPTIMAL:  # the solver gave up: nothing is known
        return Relaxed(0.0, tuple((0.0,) * len(network.candidates) for network in problem.networks))
    rises = tuple(tuple(max(0.0, v.reduced_cost()) for v in variables) for variables in chosen)
    return Relaxed(max(0.0, worst.solution_value() - SAFETY), rises)


def _limits(problem: JointProblem) -> dict[str, int]:
    """Engines that all processors of a kind may hold together, where every pool of it has a
    limit."""
    found: dict[str, int] = {}
    for kind in problem.of_kind:
        pools = [p for p in problem.platform.pools if p.kind == kind]
        if all(p.engines is not None for p in pools):
            found[kind] = sum((p.engines or 0) * (1 if p.engines_total else p.count) for p in pools)
    return found


def as_fraction(bound: float) -> Fraction:
    """The bound as an exact number that is not above it."""
    return Fraction(int(bound * 10**9), 10**9)
