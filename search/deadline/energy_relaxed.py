"""The program of the least mean power in fractions: a bound for any number of candidates.

In: the program (`energy_model`) by pools. Out: a bound, and by how much it rises at least if a
candidate of a network is taken (its reduced cost). GLOP solves it. Variables and rows are scaled,
because powers, times and choices differ by many orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .energy_model import EnergyModel

#: The solver computes in floating point: bounds are lowered by this part.
SAFETY = Fraction(1, 10**6)
#: Bounds of rows from here on are none.
NONE = 2**62


@dataclass(frozen=True, slots=True)
class RelaxedPower:
    """No answer takes less than `bound` watts; `rises[network][candidate]` more with that one."""

    bound: Fraction
    rises: Mapping[str, Mapping[int, float]]

    def left_out(self, allowed: Mapping[str, tuple[int, ...]]) -> Fraction | None:
        """A bound for all that uses a candidate that is not allowed; None if all are."""
        rises = []
        for name, own in self.rises.items():
            kept = set(allowed[name])
            rises += [rise for c, rise in own.items() if c not in kept]
        return self.bound + Fraction(max(0.0, min(rises))) * (1 - SAFETY) if rises else None

    def few(self, most: int) -> dict[str, tuple[int, ...]]:
        """The candidates of each network with which the bound rises least."""
        found = {}
        for name, own in self.rises.items():
            order = sorted(own, key=lambda c: own[c])
            found[name] = tuple(sorted(order[:most]))
        return found


def relaxed_power(model: EnergyModel) -> RelaxedPower | None:
    """The bound in fractions; None if the solver has none, as where nothing is possible."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    proto = model.proto
    largest = [max(1, *variable.domain) for variable in proto.variables]
    variables = []
    for variable, most in zip(proto.variables, largest, strict=True):
        least, *_, greatest = variable.domain
        variables.append(solver.NumVar(least / most, greatest / most, ""))
    for row in proto.constraints:
        if row.has_linear():
            _add_row(solver, variables, largest, row.linear)
        elif row.has_exactly_one():
            chosen = solver.Constraint(1, 1)
            for number in row.exactly_one.literals:
                chosen.SetCoefficient(variables[number], 1)
    watts = solver.Objective()
    for number, weight in zip(proto.objective.vars, proto.objective.coeffs, strict=True):
        scaled = float(weight * largest[number] * model.watts_of_unit)
        watts.SetCoefficient(variables[number], scaled + watts.GetCoefficient(variables[number]))
    watts.SetMinimization()
    if solver.Solve() != solver.OPTIMAL:
        return None
    bound = model.base_w + Fraction(watts.Value()) * (1 - SAFETY)
    rises = {}
    for name, chosen in model.candidates.items():
        rises[name] = {c: variables[var.index].reduced_cost() for c, var in chosen.items()}
    return RelaxedPower(bound, rises)


def _add_row(solver: Any, variables: list[Any], largest: list[int], row: Any) -> None:
    """A sum of scaled variables, divided by its largest term."""
    weights: dict[int, int] = {}
    for number, weight in zip(row.vars, row.coeffs, strict=True):
        weights[number] = weights.get(number, 0) + weight * largest[number]
    most = max((abs(weight) for weight in weights.values()), default=0) or 1
    least, *_, greatest = row.domain
    made = solver.Constraint(
        least / most if least > -NONE else -solver.infinity(),
        greatest / most if greatest < NONE else solver.infinity(),
    )
    for number, weight in weights.items():
        made.SetCoefficient(variables[number], weight / most)
