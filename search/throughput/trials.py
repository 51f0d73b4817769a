"""The trials of a search: every design once, measured or predicted, and the answer with its table.

In: a problem, a function that runs mappings (or None: then predictions count), and a budget. Out:
values of designs while budget is left, and a `Mapping`. The searches select the designs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Effort, Mapping, NetworkPlan, Placement
from ..budget import Budget
from . import auto
from .contest import Contest, Entry
from .design import Design, fractional_bound
from .partition import Objective
from .problem import Measure, Problem, Progress

#: Rows of the table of contestants.
ROWS = 12
#: The part of the budget that is kept for runs of the finalists in turns.
FINAL = 0.15

Key = tuple[tuple[NetworkPlan, ...], tuple[Placement, ...]]


class Over(Exception):
    """No more trials: the budget is used up, or the user pressed Ctrl-C."""


class Trials:
    """Designs by configuration: none is run twice, as JEDI reuses its engines.

    A configuration that fails is excluded, unless it is the first one: then the search fails.
    """

    def __init__(
        self,
        problem: Problem,
        measure: Measure | None,
        objective: Objective,
        budget: Budget,
        progress: Progress | None,
    ) -> None:
        self._problem, self._objective, self._progress = problem, objective, progress
        self._contest = None
        if measure is not None and objective != "energy":
            self._contest = Contest(measure, objective, budget, progress)
        self._entries: dict[Key, Entry] = {}
        own = budget if self._contest is None else budget.part(1.0 - FINAL)
        self.spending = own.begin(lambda: len(self._entries))
        self._least = inf

    @property
    def measured(self) -> bool:
        """True if designs are run; energy is always predicted."""
        return self._contest is not None

    def run(self, design: Design) -> Entry:
        """The design with its first run. Raises Over, and the Errors of the first of all runs."""
        key = design.mapping.networks, design.mapping.placements
        entry = self._entries.get(key)
        if entry is None:
            if self._entries and self.spending.over:
                raise Over
            entry = self._entries[key] = self._first(design)
            if self._contest is not None and self._contest.interrupted:
                raise Over
        return entry

    def value(self, design: Design) -> float:
        """Its first run or its prediction, in the unit of the objective; infinite where it cannot
        run. Raises Over.
        """
        return self._of(self.run(design))

    @property
    def empty(self) -> bool:
        """True if nothing was tried yet."""
        return not self._entries

    def best(self, count: int = 1) -> list[Design]:
        """The best so far, best first."""
        return [e.design for e in sorted(self._entries.values(), key=self._of)[:count]]

    def answer(
        self,
        search: str,
        finalists: Iterable[Design],
        seed: int,
        notes: Iterable[str],
        optimal: bool = False,
    ) -> Mapping:
        """The best of some designs that were tried, given from simple to complicated.

        Measured ones that are close run again in turns, and medians count; nearly equal means that
        the simpler wins.
        """
        final = list(
            dict.fromkeys(
                self._entries[d.mapping.networks, d.mapping.placements] for d in finalists
            )
        )
        winner = (
            min(final, key=self._of)
            if self._contest is None
            else self._decided(self._contest, final)
        )
        rows = sorted(
            self._entries.values(),
            key=lambda e: (e is not winner, e.value is None, e.value or self._of(e)),
        )
        bound = fractional_bound(self._problem) if self._objective == "throughput" else None
        effort = Effort(
            self._objective,
            seed,
            len(self._entries),
            0 if self._contest is None else self._contest.runs,
            self.spending.seconds,
            bound,
            optimal or (bound is not None and winner.design.predicted <= bound * 1.0001),
        )
        final.sort(key=lambda e: e.value or self._of(e))
        said = [*auto.why(self._problem, winner, final, self._objective), *notes]
        said += [] if self.measured else ["predictions decided"]
        return replace(
            winner.design.mapping,
            search=search,
            contestants=tuple(e.contestant for e in rows[:ROWS]),
            effort=effort,
            why=tuple(said),
        )

    def _decided(self, contest: Contest, final: list[Entry]) -> Entry:
        contest.entries[:] = final
        return contest.decide()

    def _of(self, entry: Entry) -> float:
        if self._contest is None:
            return entry.design.predicted
        return entry.values[0] if entry.values else inf

    def _first(self, design: Design) -> Entry:
        if self._contest is None or design.predicted == inf:
            self._report(design)
            return Entry(design)
        return self._contest.enter(design)

    def _report(self, design: Design) -> None:
        """Predictions come by thousands: only improvements are reported."""
        if design.predicted < self._least:
            self._least = design.predicted
            if self._progress is not None:
                text = (
                    f"{design.predicted / 1e6:8.3f} predicted  {design.name}:"
                    f" {design.configuration}"
                )
                self._progress(text, evaluations=1 + len(self._entries), value=design.predicted)


def only_throughput(search: str, objective: Objective) -> None:
    """Refuse other objectives. Raises Errors."""
    if objective != "throughput":
        message = f"`{search}` was published for throughput: it cannot search for {objective}"
        help_text = "leave --objective out, or take --search auto, exact or ga"
        raise Errors([Diagnostic("F508", message, None, help=help_text)])


def as_auto(
    search: str,
    problem: Problem,
    seed: int,
    budget: Budget,
    progress: Progress | None,
    measure: Measure | None,
    objective: Objective,
) -> Mapping:
    """The answer of `auto` under another name, for apps without a network."""
    found = auto.search(
        problem, seed=seed, budget=budget, progress=progress, measure=measure, objective=objective
    )
    return replace(
        found,
        search=search,
        why=(*found.why, f"there is no network that may be cut: `{search}` is `auto`"),
    )
