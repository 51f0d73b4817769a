"""A request for a mapping: one value that every step of `map` passes on, for all kinds of problems.

In: options of the command line, or of `flowc.map`. Out: a `MapRequest`; and a text under the
request's suppositions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from ...machines.search_workers import ALONE, SearchWorkers
from ...model.mapping import Supposed
from ...search.budget import Budget
from ...search.events import Listener, heard
from ...search.evolution import Changes, evolution_words
from ...search.objectives import Kind, objectives, words_of
from ..text.check import OnMeasure, Report, Valid, ValidScenario


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Suppositions instead of values of the text: the rate of every app, fewer CPU cores, another
    profile.

    A stored mapping for other rates or fewer cores names them.
    """

    fps: Fraction | None = None
    cores: int | None = None
    profile: Path | None = None

    @property
    def supposed(self) -> Supposed | None:
        """The same in a mapping; None if there are no suppositions."""
        if self.fps is None and self.cores is None:
            return None
        return Supposed(None if self.fps is None else str(self.fps), self.cores)


@dataclass(frozen=True, slots=True)
class MapRequest:
    """What a user asks of a mapping.

    - `search`: a name of `search.registry`.
    - `objective`: a list such as `cores,utilization`, the most important one first
      (`search.objectives`); empty for the default of the text's kind.
    - `budget`: seconds that the search may take. With `evaluations` it tries so many things
      instead, however long they take, and without measured runs the answer depends on `seed` only.
    - `evolution`: numbers of a genetic search, as in `population=128,mutation=0.1`
      (`search.evolution`).
    - `search_workers`: processes that help searches for deadlines.
    - `what_if`: what to suppose instead of the text.
    - `memory`: bytes that networks may take.
    - `measure`: tasks and programs may be run. If not, the times that are known decide, also those
      of another machine.
    - `keep`: a mapping for what is only supposed is stored, too.
    - `on_measure` is told that tasks are going to run (`report` where there is none), `report` gets
      lines of progress, and `on_event` the progress of the search as data.
    """

    search: str = "auto"
    objective: str = ""
    budget: float = 60.0
    evaluations: int | None = None
    seed: int = 0
    evolution: str = ""
    search_workers: SearchWorkers = ALONE
    what_if: WhatIf = WhatIf()
    memory: int | None = None
    measure: bool = True
    keep: bool = False
    slack: bool = False
    on_measure: OnMeasure | None = None
    report: Report | None = None
    on_event: Listener = None

    @property
    def allowance(self) -> Budget:
        """The budget of the search."""
        return Budget(self.budget, self.evaluations)

    def objectives(self, kind: Kind) -> tuple[str, ...]:
        """The objectives of a kind of problem; none for its default. Raises Errors (F538)."""
        return objectives(self.objective, kind)

    @property
    def evolution_changes(self) -> Changes:
        """The changed numbers of a genetic search. Raises Errors (F508)."""
        return evolution_words(self.evolution)

    @property
    def wants_least_memory(self) -> bool:
        """Is the least memory of networks an objective?"""
        return "memory" in words_of(self.objective)

    @property
    def progress(self) -> Listener:
        """The receiver of the search's events; None without one."""
        return heard(self.report, self.on_event)

    @property
    def runs_program(self) -> bool:
        """May the program of a mapping run briefly, to measure what a profile does not contain?"""
        return self.measure and self.what_if.profile is None

    def within(self, budget: Budget) -> MapRequest:
        """The same with that budget."""
        return replace(self, budget=budget.seconds, evaluations=budget.evaluations)

    def part(self, share: float) -> MapRequest:
        """The same with a share of the budget."""
        return self.within(self.allowance.part(share))

    def say(self, text: str) -> None:
        """Report a line of progress."""
        if self.report is not None:
            self.report(text)


def supposed(valid: Valid, what_if: WhatIf) -> Valid:
    """The text with other periods or fewer cores. Deadlines that the text states stay as they
    are."""
    system, platform = valid.system, valid.platform
    if what_if.fps is not None:
        period = Fraction(10**9) / what_if.fps
        apps = tuple(replace(app, period_ns=period) for app in system.apps)
        system = replace(system, apps=apps)
    if what_if.cores is not None:
        pools = tuple(
            replace(p, count=min(p.count, what_if.cores)) if p.kind == "cpu" else p
            for p in platform.pools
        )
        platform = replace(platform, pools=pools)
    found = replace(valid, system=system, platform=platform)
    if not isinstance(found, ValidScenario):
        return found
    states = {name: supposed(state, what_if) for name, state in found.states.items()}
    options: dict[str, tuple[Valid | str, ...]] = {}
    for name, own in found.options.items():
        options[name] = tuple(o if isinstance(o, str) else supposed(o, what_if) for o in own)
    return replace(found, states=states, options=options)
