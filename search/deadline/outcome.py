"""The outcome of a search for deadlines."""

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
    """`evaluations` are the assignments that were evaluated, `counted` those that a budget of
    evaluations counts: with bounded response times, and the steps of the integer program; `limit`
    is that budget, if there was one.

    `bound` holds for the maximum utilization of all assignments (of the candidates given); None if
    unknown.

    `proved`: none is better. `impossible`: why no assignment meets all limits and deadlines, if
    that is proved. `spared`: the best utilization found, if an answer with fewer processors was
    preferred, and `balanced` that assignment. `history` is the progress of the search, `front` the
    Pareto front (`genetic.Best.front`). `cores`: the number of CPUs, if it was an objective;
    `bound` and `proved` then hold for that number.
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
        """The objectives of the search, as in `--objective`."""
        return "utilization" if self.cores is None else "cores,utilization"

    @property
    def gap(self) -> float | None:
        """The maximum relative distance of the answer from the bound."""
        if self.verdict is None or not self.bound or not self.verdict.feasible:
            return None
        return float(self.verdict.maximum / self.bound - 1)
