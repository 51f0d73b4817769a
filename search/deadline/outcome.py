"""What a search for deadlines found."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...model.mapping import Point
from .exact import Impossible
from .problem import Assignment
from .verdict import Verdict


@dataclass(frozen=True, slots=True)
class FewestCores:
    """`count` CPUs are enough; `proved`: fewer are not."""

    count: int
    proved: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """`evaluations` are the assignments that were looked at, `counted` what a budget of evaluations counts: those whose
    response times were bounded, and the steps of the integer program; `limit` is that budget, if there was one.

    `bound` holds for the maximum utilization of all assignments (of the candidates given); None if unknown.

    `proved`: none is better. `impossible`: why there is none that keeps all limits and deadlines, if that is proved.
    `spared`: the least maximum utilization that was found, where fewer processors were preferred to it, and `balanced`
    that answer. `history` is how it was found, `front` what no other one was better than (`genetic.Best.front`).
    `cores`: where few CPUs were the objective, how many they are; `bound` and `proved` speak of so many then.
    """

    search: str
    assignment: Assignment | None
    verdict: Verdict | None
    bound: Fraction | None
    proved: bool
    impossible: Impossible | None
    evaluations: int
    seconds: float
    spared: Fraction | None = None
    balanced: Outcome | None = None
    history: tuple[Point, ...] = ()
    front: tuple[tuple[float, float, Assignment], ...] = ()
    cores: FewestCores | None = None
    counted: int = 0
    limit: int | None = None

    @property
    def objective(self) -> str:
        """What the answer was searched for, as in `--objective`."""
        return "utilization" if self.cores is None else "cores,utilization"

    @property
    def gap(self) -> float | None:
        """How far the answer is above the bound at most, relative to it."""
        if self.verdict is None or not self.bound or not self.verdict.feasible:
            return None
        return float(self.verdict.maximum / self.bound - 1)
