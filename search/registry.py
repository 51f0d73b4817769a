"""All searches by name and kind, behind one interface.

A search of kind `throughput` gets a `throughput.problem.Problem` and returns a `Mapping` with its
`contestants`. One of kind `deadlines` gets a `deadline.problem.JointProblem` and returns an
`Outcome`: the assignment, its verdict and a bound; `deadline.answer` converts it to a mapping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..model.diagnostic import Diagnostic, Errors, one_of
from ..model.extras import require
from ..model.mapping import Mapping
from .budget import Budget
from .events import SearchEvent, Teller
from .objectives import Kind


@dataclass(frozen=True, slots=True)
class Search:
    """A search by name. `about` describes it in a line; `load` imports its libraries and returns
    its function.

    `run` takes a problem, `seed`, a `budget` and `progress`, which gets the `SearchEvent`s; for
    throughput also `measure` (a function that runs mappings, or None) and `objective`, for
    deadlines `search_workers` (the workers). The answer is the best so far when the budget is used
    up or the user presses Ctrl-C. The function of `load` has the same parameters; its `progress` is
    a `Teller`.
    """

    name: str
    kind: Kind
    about: str
    load: Callable[[], Callable[..., Any]]
    needs: str = ""

    def require(self) -> None:
        """Raises Errors if the library that it `needs` is not installed."""
        if self.needs:
            require(self.needs, "search", f"the search `{self.name}` for {self.kind}")

    def run(
        self,
        problem: Any,
        *,
        seed: int,
        budget: Budget,
        progress: Callable[[SearchEvent], None] | None = None,
        **options: Any,
    ) -> Any:
        """Search, and record the history. Raises Errors if the search does not support the
        request.
        """
        teller = Teller(progress)
        answer = self.load()(problem, seed=seed, budget=budget, progress=teller, **options)
        if isinstance(answer, Mapping):
            return replace(answer, effort=replace(answer.effort, history=teller.history()))
        return replace(answer, history=teller.history())


def _throughput(module: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        from importlib import import_module

        search: Callable[..., Any] = import_module(f"{__package__}.throughput.{module}").search
        return search

    return load


def _deadlines(name: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        from functools import partial

        from .deadline.auto import search

        return partial(search, name=name)

    return load


SEARCHES: tuple[Search, ...] = (
    Search(
        "auto",
        "throughput",
        "plain mappings and exact partitions; measured runs decide",
        _throughput("auto"),
    ),
    Search(
        "exact",
        "throughput",
        "the optimal contiguous partition in the model of times",
        _throughput("exact"),
    ),
    Search(
        "jedi",
        "throughput",
        "JEDI's cut-point explorer: Kim's thesis, ch. 3.5",
        _throughput("jedi"),
    ),
    Search(
        "ga-balance",
        "throughput",
        "balanced processors: Minakova's thesis, 3.5.2",
        _throughput("ga_balance"),
    ),
    Search(
        "ga",
        "throughput",
        "everything in one chromosome: Kim's thesis, 3.6.4",
        _throughput("ga"),
        "deap",
    ),
    Search(
        "auto",
        "deadlines",
        "heuristics, then the exact search as referee",
        _deadlines("auto"),
        "ortools",
    ),
    Search(
        "exact",
        "deadlines",
        "the least maximum utilization, with a proof",
        _deadlines("exact"),
        "ortools",
    ),
    Search(
        "heuristic-ga",
        "deadlines",
        "Kim's thesis, ch. 5: genes for networks only",
        _deadlines("heuristic-ga"),
    ),
    Search(
        "entire-ga",
        "deadlines",
        "Kim's thesis, ch. 5: genes for everything",
        _deadlines("entire-ga"),
    ),
    Search(
        "baseline",
        "deadlines",
        "Kim's thesis, ch. 5: networks first, then tasks",
        _deadlines("baseline"),
    ),
)


def searches_for(kind: Kind) -> tuple[Search, ...]:
    """The searches for one kind of problem, the default one first."""
    return tuple(s for s in SEARCHES if s.kind == kind)


def search_named(name: str, kind: Kind) -> Search:
    """The search of that name for one kind of problem. Raises Errors (F508) if there is none."""
    known = {s.name: s for s in searches_for(kind)}
    if name in known:
        return known[name]
    reasons = {
        "deadlines": "apps with periods are mapped together",
        "throughput": "there are apps without a period",
    }
    message = f"`{name}` is not a search for this text: {reasons[kind]}"
    raise Errors([Diagnostic("F508", message, None, help=f"choose {one_of(known)}")])
