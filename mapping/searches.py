"""All searches by name. One face: `search(problem, *, seed, budget, progress, measure, objective) -> Mapping`."""

from __future__ import annotations

from typing import Protocol

from ..model.mapping import Mapping
from . import auto, balance, ga, jedi, optimum
from .exact import Objective
from .problem import Measure, Problem, Progress


class Search(Protocol):
    """What every search looks like; `budget` is in seconds, the answer is the best so far when it is used up."""

    def __call__(
        self,
        problem: Problem,
        *,
        seed: int,
        budget: float,
        progress: Progress | None,
        measure: Measure | None,
        objective: Objective,
    ) -> Mapping: ...


SEARCHES: dict[str, Search] = {
    "auto": auto.search,
    "exact": optimum.search,
    "jedi": jedi.search,
    "ga-balance": balance.search,
    "ga": ga.search,
}
