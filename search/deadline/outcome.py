"""The outcome of a search for deadlines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ...model.mapping import Point
from ...model.scope import NOTHING_MOVED, Scope
from .exact import Impossible
from .problem import Assignment
from .verdict import MappingVerdict

#: A utilization above all possible ones.
NOTHING = Fraction(10**6)


@dataclass(frozen=True, slots=True)
class FewestCores:
    """`count` CPUs are enough; `proved`: fewer are not.

    Enough is to keep all deadlines and limits; with `most`, an answer to the objectives
    `utilization,cores`, also to have no more maximum utilization than that. `left_out` are the
    other CPUs.
    """

    count: int
    proved: bool
    most: Fraction | None = None
    left_out: frozenset[str] = frozenset()

    @property
    def objective(self) -> str:
        """The objectives of the search, as in `--objective`."""
        return "cores,utilization" if self.most is None else "utilization,cores"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`evaluations` are the assignments that were evaluated, `counted` those that a budget of
    evaluations counts: with bounded response times, and the steps of the integer program; `limit`
    is that budget, if there was one.

    `bound` holds for the maximum utilization of all assignments (of the candidates given); None if
    unknown.

    `proved`: none in the `scope` is better. `impossible`: why no assignment meets all limits and
    deadlines, if that is proved. `spared`: the best utilization found, if an answer with fewer
    processors was preferred, and `balanced` that assignment; `apart`: fewer groups that arrows join
    share a CPU in the answer. `history` is the progress of the search, `front` the Pareto front
    (`genetic.Best.front`). `cores`: the number of CPUs, if it was an objective; if it was the first
    one, `bound` and `proved` hold for that number.
    """

    search: str
    assignment: Assignment | None
    verdict: MappingVerdict | None
    bound: Fraction | None
    proved: bool
    impossible: Impossible | None
    evaluations: int
    seconds: float
    spared: Fraction | None = None
    balanced: Outcome | None = None
    apart: bool = False
    history: tuple[Point, ...] = ()
    front: tuple[tuple[float, float, Assignment], ...] = ()
    cores: FewestCores | None = None
    counted: int = 0
    limit: int | None = None
    scope: Scope = NOTHING_MOVED

    @property
    def objective(self) -> str:
        """The objectives of the search, as in `--objective`."""
        return "utilization" if self.cores is None else self.cores.objective

    @property
    def maximum(self) -> Fraction:
        """The maximum utilization; above any possible one if nothing was found."""
        return NOTHING if self.verdict is None else self.verdict.maximum

    @property
    def kept_maximum(self) -> Fraction | None:
        """The maximum utilization, if the answer keeps all deadlines and limits."""
        return None if self.verdict is None or not self.verdict.feasible else self.verdict.maximum

    @property
    def without_proof(self) -> Outcome:
        """The same for a problem of which only a part was searched."""
        cores = None if self.cores is None else replace(self.cores, proved=False)
        return replace(self, bound=None, proved=False, impossible=None, cores=cores)

    @property
    def gap(self) -> float | None:
        """The maximum relative distance of the answer from the bound."""
        if self.verdict is None or not self.bound or not self.verdict.feasible:
            return None
        return float(self.verdict.maximum / self.bound - 1)
