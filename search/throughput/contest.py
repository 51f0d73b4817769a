"""Measured runs of designs: one or two of each, then more of the best ones in alternation.

In: designs, from simple to complex, and a function that runs them. Out: the simplest design that no
other one significantly beats. The speed of a shared machine varies, so finalists run in
alternation, and all pairs of runs count. Several machines run designs in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median

from ...model.diagnostic import Errors
from ...model.mapping import Contestant, Mapping, as_text
from ..budget import Budget
from .design import Design
from .partition import Objective
from .problem import Measure, Measurement, Progress, SideBySide

#: Designs within this factor of the best after one run are finalists: a single run can err by that.
NEAR = 1.2
#: Maximum number of finalists, and minimum number of runs of each.
FINALISTS, ROUNDS = 3, 3
#: The simplest design is a finalist as well, unless it takes this many times as long as the best.
UNLUCKY = 2.0
#: Maximum number of finals.
FINALS = 3
#: Alternating runs against the simplest design before another one replaces it.
CONFIRMING = 3
#: Medians that differ by less are equal; so are those that differ by less than the share of time in
#: which the runs had no core. How much time other programs leave depends on the number of threads,
#: and differs the next time.
EQUAL = 0.005
#: The share of all pairs of runs that a more complex design has to win: on a shared machine, runs
#: of one design differ more than designs do, and the simpler one is the right answer more often.
SURELY = 0.95


@dataclass(eq=False)
class ContestEntry:
    """A design with the results of its runs, in the unit of the objective; `out`: a run failed."""

    design: Design
    values: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    last: Measurement | None = None
    out: bool = False

    @property
    def value(self) -> float | None:
        """The median of its runs."""
        return median(self.values) if self.values else None

    @property
    def score(self) -> float:
        """The median of its runs, infinite without any."""
        return median(self.values) if self.values else inf

    def ahead_of(self, other: ContestEntry) -> bool:
        """True if its median is better by more than the tolerance."""
        if not self.values or not other.values:
            return False
        tolerance = max(EQUAL, median(self.delays), median(other.delays))
        return self.score < other.score * (1 - tolerance)

    def beats(self, other: ContestEntry) -> bool:
        """True if it is better in nearly every pair of their runs (a rank test)."""
        won = sum(mine < theirs for mine in self.values for theirs in other.values)
        return self.ahead_of(other) and won >= SURELY * len(self.values) * len(other.values)

    @property
    def contestant(self) -> Contestant:
        """As a row of the table."""
        mapping = self.design.mapping
        pins = as_text(mapping.platform, mapping.placements, mapping.networks)
        return Contestant(
            self.design.name, self.design.configuration, self.design.predicted, self.value, pins
        )


class Contest:
    """Designs compete until the `budget` (of runs, if evaluations are counted) is used up; the
    first one always has a run."""

    def __init__(
        self, measure: Measure, objective: Objective, budget: Budget, progress: Progress | None
    ) -> None:
        self._measure, self._objective, self._progress = measure, objective, progress
        self.entries: list[ContestEntry] = []
        self.runs = 0
        self._spending = budget.begin(lambda: self.runs)
        self.interrupted = False

    def enter(self, design: Design, *, run: bool = True) -> ContestEntry:
        """A new contestant, with a first run if there is time."""
        entry = ContestEntry(design)
        self.entries.append(entry)
        if run:
            self._run_each([entry])
        return entry

    def enter_all(self, designs: Iterable[tuple[Design, bool]]) -> None:
        """New contestants, and whether they have a first run if there is time."""
        entered = [(self.enter(design, run=False), run) for design, run in designs]
        self._run_each([entry for entry, run in entered if run])

    def catch_up(self) -> None:
        """Run all skipped designs whose prediction is better than the best measurement.

        Predictions err in one direction: measured times are longer.
        """
        while not self._over():
            best = self._best()
            skipped = [e for e in self.entries if not e.values and not e.out]
            hopeful = [e for e in skipped if e.design.predicted < best]
            if not hopeful:
                return
            self._run_each(sorted(hopeful, key=lambda e: e.design.predicted)[: self._width])

    def close(self, entry: ContestEntry) -> bool:
        """True if it could win: within a fifth of the best."""
        return entry.score < NEAR * self._best()

    def _best(self) -> float:
        return min((e.score for e in self.entries), default=inf)

    @property
    def measured(self) -> list[ContestEntry]:
        """The entries that have run."""
        return [e for e in self.entries if e.values]

    def decide(self) -> ContestEntry:
        """The winner, after the final. Ctrl-C ends the contest with the best so far.

        If the machine became slower meanwhile, a design with few runs may be ahead of the winner:
        then there is another final.
        """
        winner = self._final()
        for _ in range(1, FINALS):
            ahead = [e for e in self.entries if len(e.values) < ROUNDS and e.ahead_of(winner)]
            if not ahead or self._over():
                break
            winner = self._final()
        return self._confirmed(winner)

    def _confirmed(self, winner: ContestEntry) -> ContestEntry:
        """A candidate must beat the simplest design in a few more alternating runs: three good runs
        may be chance.

        Threads of a library are fast or slow for a whole run, depending on where the scheduler
        places them.
        """
        measured = self.measured
        simplest = measured[0]
        tested = {simplest}
        while winner not in tested and simplest.score <= winner.score * UNLUCKY:
            tested.add(winner)
            self._run_each((simplest, winner) * CONFIRMING)
            winner = _simplest_best([e for e in measured if e is simplest or len(e.values) > 1])
        return winner

    def _final(self) -> ContestEntry:
        """The winner of the finalists, which run in alternation until one is beaten."""
        finalists = self._finalists()
        running = finalists
        for _ in range(ROUNDS):
            if len(running) > 1:
                self._run_each(running)
            running = _unbeaten(running)
        return _simplest_best(finalists)

    def _finalists(self) -> list[ContestEntry]:
        """The entries near the best, and the simplest one, which may have had bad luck."""
        measured = self.measured
        best = self._best()
        near = [e for e in measured if e.score <= best * NEAR]
        chosen = sorted(near, key=lambda e: e.score)[:FINALISTS]
        simplest = measured[0]
        if simplest.score <= best * UNLUCKY:
            chosen.append(simplest)
        return [e for e in measured if e in chosen]

    def _over(self) -> bool:
        return self.interrupted or self._spending.over

    @property
    def _width(self) -> int:
        """The number of parallel runs."""
        return self._measure.width if isinstance(self._measure, SideBySide) else 1

    def _run_each(self, entries: Sequence[ContestEntry]) -> None:
        """A run of each, in order, while budget is left; the very first one always runs."""
        waiting = list(entries)
        while waiting and not (self.interrupted or (self.runs and self._spending.over)):
            now, waiting = waiting[: self._width], waiting[self._width :]
            self._run([e for e in now if not e.out])

    def _run(self, entries: Sequence[ContestEntry]) -> None:
        """A run of each, in parallel. Raises the Errors of a design that fails before any other has
        run.
        """
        mappings = [e.design.mapping for e in entries]
        try:
            if isinstance(self._measure, SideBySide):
                results = self._measure.each(mappings)
            else:
                results = [self._tried(m) for m in mappings]
        except KeyboardInterrupt:
            if not self.measured:
                raise
            self.interrupted = True
            return
        for entry, result in zip(entries, results, strict=True):
            if isinstance(result, Errors):
                self._refuse(entry, result)
            else:
                self._note(entry, result)

    def _tried(self, mapping: Mapping) -> Measurement | Errors:
        try:
            return self._measure(mapping)
        except Errors as faults:
            return faults

    def _refuse(self, entry: ContestEntry, faults: Errors) -> None:
        """Exclude a design that fails; if the plainest one fails, the search fails."""
        if not self.measured:
            raise faults
        entry.out = True
        if self._progress is not None:
            self._progress(f"does not run: {entry.design.configuration}: {faults}")

    def _note(self, entry: ContestEntry, measurement: Measurement) -> None:
        self.runs += 1
        entry.last = measurement
        value = measurement.value(self._objective)
        entry.values.append(value)
        entry.delays.append(measurement.delayed)
        if self._progress is not None:
            text = f"{value / 1e6:8.3f} ms  {entry.design.name}: {entry.design.configuration}"
            self._progress(text, evaluations=len(self.entries), value=value)


def _unbeaten(entries: list[ContestEntry]) -> list[ContestEntry]:
    """Those that no other one beats; a single run excludes none."""
    return [e for e in entries if len(e.values) < 2 or not any(o.beats(e) for o in entries)]


def _simplest_best(entries: list[ContestEntry]) -> ContestEntry:
    """The simplest entry that no other one significantly beats, of entries sorted from simple to
    complex."""
    winner = entries[0]
    for entry in entries[1:]:
        if entry.beats(winner):
            winner = entry
    return winner
