"""The trials of a search: each design is measured or predicted once; the answer with its table.

In: a problem, a function that runs mappings (None: predictions decide), and a budget. Out: values
of designs until the budget is used up, and a `Mapping`. The searches select the designs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from ...model.diagnostic import Diagnostic, Errors
from ...model.mapping import Decision, Effort, Mapping, NetworkPlan, Placement
from ...model.scope import Scope
from . import auto
from .contest import RACE, Contest, ContestEntry
from .design import EVERY_WAY, Design, fractional_bound
from .partition import Objective
from .request import SearchRequest

#: Rows of the table of contestants.
ROWS = 12

Key = tuple[tuple[NetworkPlan, ...], tuple[Placement, ...]]


class Over(Exception):
    """No more trials: the budget is used up, or the user pressed Ctrl-C."""


class Trials:
    """Designs by configuration: none is tried twice, as JEDI reuses its engines.

    A configuration that fails is excluded; if the first one fails, the search fails.
    """

    def __init__(self, request: SearchRequest) -> None:
        self._request, budget = request, request.budget
        self._contest = None
        if request.runs is not None:
            self._contest = Contest(request.runs, request.objective, budget, request.progress)
        self._entries: dict[Key, ContestEntry] = {}
        own = budget if self._contest is None else budget.part(1 - RACE)
        self.spending = own.begin(lambda: len(self._entries))
        self._least = inf

    @property
    def measured(self) -> bool:
        """True if designs are run; energy is always predicted."""
        return self._contest is not None

    def run(self, design: Design) -> ContestEntry:
        """The design with its first run. Raises Over, and the Errors of the first of all runs."""
        key = _key(design)
        entry = self._entries.get(key)
        if entry is None:
            if self._entries and self.spending.over:
                raise Over
            entry = self._entries[key] = self._first(design)
            if self._contest is not None and self._contest.interrupted:
                raise Over
        return entry

    def value(self, design: Design) -> float:
        """Its first run or its prediction, in the unit of the objective; infinite if it cannot run.
        Raises Over.
        """
        return self._value_of(self.run(design))

    @property
    def empty(self) -> bool:
        """True if nothing was tried yet."""
        return not self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def best(self, count: int = 1) -> list[Design]:
        """The best so far, best first."""
        return [e.design for e in sorted(self._entries.values(), key=self._value_of)[:count]]

    def answer(
        self,
        search: str,
        finalists: Iterable[Design],
        notes: Iterable[str],
        optimal_over: Scope | None = None,
    ) -> Mapping:
        """The best of some designs that were tried, sorted from simple to complex; it is known to
        be optimal over a scope, if one is given.

        Measured ones that are close have a race. Raises Errors (F508) if no design can run.
        """
        final = list(dict.fromkeys(self._entries[_key(design)] for design in finalists))
        if self.measured and all(self._value_of(entry) == inf for entry in final):
            message = f"search `{search}` found no configuration that can run"
            help_text = "`--search auto` tries other ones"
            raise Errors([Diagnostic("F508", message, None, help=help_text)])
        winner = self._winner(final)
        rows = sorted(
            self._entries.values(),
            key=lambda e: (e is not winner, e.value is None, e.value or self._value_of(e)),
        )
        final.sort(key=lambda e: e.value or self._value_of(e))
        decision = self._decision
        problem, objective = self._request.problem, self._request.objective
        reasons = [*auto.why(problem, winner, final, objective, decision), *notes]
        if not self.measured:
            reasons.append("predictions decided")
        return replace(
            winner.design.mapping,
            search=search,
            contestants=tuple(e.contestant for e in rows[:ROWS]),
            effort=self._effort(winner, optimal_over),
            why=tuple(reasons),
        )

    def _winner(self, final: list[ContestEntry]) -> ContestEntry:
        if self._contest is None:
            return min(final, key=self._value_of)
        self._contest.entries[:] = final
        return self._contest.decide()

    @property
    def _decision(self) -> Decision:
        return "" if self._contest is None else self._contest.decision

    def _effort(self, winner: ContestEntry, optimal_over: Scope | None) -> Effort:
        asked = self._request
        bound = fractional_bound(asked.problem) if asked.objective == "throughput" else None
        reached = winner.design.reaches(bound)
        return Effort(
            asked.objective,
            asked.seed,
            evaluations=len(self._entries),
            measured_runs=0 if self._contest is None else self._contest.runs,
            seconds=self.spending.seconds,
            lower_bound_ns=bound,
            optimal=reached or optimal_over is not None,
            decision=self._decision,
            scope=EVERY_WAY if reached or optimal_over is None else optimal_over,
        )

    def _value_of(self, entry: ContestEntry) -> float:
        if self._contest is None:
            return entry.design.predicted
        return entry.values[0] if entry.values else inf

    def _first(self, design: Design) -> ContestEntry:
        if self._contest is None or design.predicted == inf:
            self._report(design)
            return ContestEntry(design)
        return self._contest.enter(design)

    def _report(self, design: Design) -> None:
        """Report an improved prediction; there are thousands of predictions."""
        if design.predicted >= self._least:
            return
        self._least = design.predicted
        if self._request.progress is not None:
            text = f"{design.predicted / 1e6:8.3f} predicted  {design.name}: {design.configuration}"
            self._request.progress(text, evaluations=1 + len(self._entries), value=design.predicted)


def _key(design: Design) -> Key:
    return design.mapping.networks, design.mapping.placements


def only_throughput(search: str, objective: Objective) -> None:
    """Refuse other objectives. Raises Errors."""
    if objective != "throughput":
        message = f"`{search}` was published for throughput: it cannot search for {objective}"
        help_text = "leave --objective out, or take --search auto, exact or paper:comprehensive-ga"
        raise Errors([Diagnostic("F508", message, None, help=help_text)])


def as_auto(search: str, request: SearchRequest) -> Mapping:
    """The answer of `auto` under the name of another search, for apps without a network."""
    answer = auto.search(request)
    why = (*answer.why, f"there is no network that may be cut: `{search}` is `auto`")
    return replace(answer, search=search, why=why)
