"""What a search for throughput is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..budget import DEFAULT, Budget
from ..evolution import Changes
from .partition import Objective
from .problem import Measure, Problem, Progress


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A problem, and how it is searched: for which `objective`, within which `budget`.

    `measure` runs mappings (None: predictions decide), `progress` is told what was found, and
    `evolution` changes numbers of a genetic search.
    """

    problem: Problem
    seed: int = 0
    budget: Budget = DEFAULT
    progress: Progress | None = None
    measure: Measure | None = None
    objective: Objective = "throughput"
    evolution: Changes = field(default_factory=dict)

    @property
    def runs(self) -> Measure | None:
        """What runs mappings to compare them; None if predictions decide, as always for energy."""
        return None if self.objective == "energy" else self.measure
