"""The outcome of a search for deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from ...model.mapping import Point
from ...model.scope import NOTHING_MOVED, Scope
from .exact import Impossible
from .problem import Assignment
from .verdict import MappingVerdict

#: Power that is no farther than this part of it above the bound is the least.
NEAR = Fraction(1, 10**5)
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
class PowerPoint:
    """Places that keep all deadlines: the power at their best clock rates; and at the highest ones,
    over all states, the maximum utilization and the largest share of its deadline that an app
    needs. `assignments` has the places by state."""

    watts: Fraction
    maximum: Fraction
    tightest: Fraction
    cpus: int
    assignments: Mapping[str, Assignment]

    def is_no_better(self, other: PowerPoint) -> bool:
        """Is the other one as good or better in everything?"""
        return (
            self.watts >= other.watts
            and self.maximum >= other.maximum
            and self.tightest >= other.tightest
            and self.cpus >= other.cpus
        )


@dataclass(frozen=True, slots=True)
class LeastPower:
    """The mean power of an answer by the model of the platform, at its best clock rates; over all
    states by their weights. No other answer takes less than `bound`.

    `first_w` is that of the places with the least utilization, at their best rates; None if they
    are late. `tests` of deadlines were made. The bound holds over its `scope`; if
    clock rates differ there, it supposes that a slower clock never makes a deadline easier to keep.
    `front` are the places that were found and that no others found are as good as.
    """

    watts: Fraction
    bound: Fraction
    first_w: Fraction | None
    tests: int
    scope: Scope
    front: tuple[PowerPoint, ...] = ()

    @property
    def rates(self) -> bool:
        """Do clock rates differ between answers?"""
        return "clock rates" in self.scope.moved

    @property
    def gap(self) -> float:
        """The maximum relative distance from the bound; infinite without one."""
        if self.watts <= self.bound:
            return 0.0
        return float(self.watts / self.bound - 1) if self.bound else inf

    @property
    def without_bound(self) -> LeastPower:
        """The same where other answers were possible than those that the bound is for."""
        return replace(self, bound=Fraction(0))

    def of_program(self, watts: Fraction) -> LeastPower:
        """With the power of the program that was made; if that is clearly less than the bound says,
        there is none."""
        found = replace(self, watts=watts)
        return found if watts >= self.bound * (1 - NEAR) else found.without_bound

    @property
    def proved(self) -> bool:
        """True if no answer takes clearly less."""
        return self.gap <= NEAR


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
    one, `bound` and `proved` hold for that number. `power`: that of the answer, if energy was the
    objective; then that is what is `proved`, and no `bound` is known.
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
    power: LeastPower | None = None

    @property
    def objective(self) -> str:
        """The objectives of the search, as in `--objective`."""
        if self.power is not None:
            return "energy"
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
