"""All searches by name and kind, behind one interface.

A search of kind `throughput` gets a `throughput.problem.Problem` and returns a `Mapping` with its
`contestants`. One of kind `deadlines` gets a `deadline.problem.JointProblem` and returns an
`Outcome`: the assignment, its verdict and a bound; `deadline.answer` converts it to a mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..model.diagnostic import Diagnostic, Errors, one_of
from ..model.extras import require
from ..model.mapping import Mapping
from .budget import Budget
from .events import SearchEvent, Teller
from .evolution import UNCHANGED, Changes
from .objectives import Kind


@dataclass(frozen=True, slots=True)
class Search:
    """A search by name. `about` describes it in a line; `load` imports its libraries and returns
    its function.

    Searches of a `paper` have that word before their name (`paper:jedi`), which may be left out.
    `genetic` ones have the numbers of an evolution; a search with `only_for` has no other
    objective.

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
    paper: bool = False
    genetic: bool = False
    only_for: str = ""

    @property
    def word(self) -> str:
        """The name with the word before it."""
        return f"{PAPER}{self.name}" if self.paper else self.name

    def require(self, objectives: Sequence[str] = (), evolution: Changes = UNCHANGED) -> None:
        """Raises Errors if the library that it `needs` is not installed, and for what it does not
        support (F508)."""
        if self.needs:
            require(self.needs, "search", f"the search `{self.name}` for {self.kind}")
        if self.only_for and self.only_for not in objectives:
            message = (
                f"`{self.name}` looks for the least {self.only_for}: it has no other objective"
            )
            help_text = f"add `--objective {self.only_for}`, or leave `--search` out"
            raise Errors([Diagnostic("F508", message, None, help=help_text)])
        if evolution and not self.genetic:
            able = one_of([other.word for other in searches_for(self.kind) if other.genetic])
            message = f"`--evolution` has no effect on `{self.name}`, where nothing evolves"
            help_text = f"leave it out, or choose {able}"
            raise Errors([Diagnostic("F508", message, None, help=help_text)])

    def run(
        self,
        problem: Any,
        *,
        seed: int,
        budget: Budget,
        progress: Callable[[SearchEvent], None] | None = None,
        evolution: Changes = UNCHANGED,
        **options: Any,
    ) -> Any:
        """Search, and record the history. Raises Errors if the search does not support the
        request.
        """
        teller = Teller(progress)
        if evolution:
            options["evolution"] = evolution
        answer = self.load()(problem, seed=seed, budget=budget, progress=teller, **options)
        if isinstance(answer, Mapping):
            return replace(answer, effort=replace(answer.effort, history=teller.history()))
        return replace(answer, history=teller.history())


def _throughput(module: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        from importlib import import_module

        from .throughput.request import SearchRequest

        search = import_module(f"{__package__}.throughput.{module}").search

        def asked(problem: Any, **words: Any) -> Any:
            return search(SearchRequest(problem, **words))

        return asked

    return load


def _deadlines(name: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        from functools import partial

        from .deadline.auto import search

        return partial(search, name=name)

    return load


#: The word before the names of searches that a paper describes.
PAPER = "paper:"

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
        paper=True,
    ),
    Search(
        "ga-balance",
        "throughput",
        "balanced processors: Minakova's thesis, 3.5.2",
        _throughput("ga_balance"),
        paper=True,
        genetic=True,
    ),
    Search(
        "comprehensive-ga",
        "throughput",
        "everything in one chromosome: Kim's thesis, 3.6.4",
        _throughput("comprehensive_ga"),
        "deap",
        paper=True,
        genetic=True,
    ),
    Search(
        "fine-tuning-ga",
        "throughput",
        "JEDI's cuts, and numbers that evolve: Kim's thesis, 3.6.4",
        _throughput("fine_tuning_ga"),
        "deap",
        paper=True,
        genetic=True,
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
        paper=True,
        genetic=True,
    ),
    Search(
        "entire-ga",
        "deadlines",
        "Kim's thesis, ch. 5: genes for everything",
        _deadlines("entire-ga"),
        paper=True,
        genetic=True,
    ),
    Search(
        "baseline",
        "deadlines",
        "Kim's thesis, ch. 5: networks first, then tasks",
        _deadlines("baseline"),
        paper=True,
        genetic=True,
    ),
    Search(
        "scenario-ga",
        "deadlines",
        "Kim's thesis, ch. 4: the least power over all states, with greedy clocks",
        _deadlines("scenario-ga"),
        paper=True,
        genetic=True,
        only_for="energy",
    ),
)


def searches_for(kind: Kind) -> tuple[Search, ...]:
    """The searches for one kind of problem, the default one first."""
    return tuple(s for s in SEARCHES if s.kind == kind)


def words_for(kind: Kind) -> list[str]:
    """What a user writes for the searches of a kind."""
    return [search.word for search in searches_for(kind)]


def search_named(name: str, kind: Kind) -> Search:
    """The search of that name for one kind of problem. Raises Errors (F508) if there is none."""
    for search in searches_for(kind):
        if name in (search.name, search.word):
            return search
    reasons = {
        "deadlines": "apps with periods are mapped together",
        "throughput": "there are apps without a period",
    }
    message = f"`{name}` is not a search for this text: {reasons[kind]}"
    raise Errors([Diagnostic("F508", message, None, help=f"choose {one_of(words_for(kind))}")])
