"""Measured runs of configurations: each once or twice, then the best ones in turns.

In: designs, from simple to complex, and a function that runs them. Out: the simplest one that no
other is significantly better than. The speed of a shared machine varies: so finalists run in
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

#: Designs within this factor of the best after one run are finalists: a single run can be off by
#: that much.
NEAR = 1.2
#: Maximum number of finalists, and minimum number of runs of each.
FINALISTS, ROUNDS = 3, 3
#: The simplest design is a finalist as well, unless it takes this many times as long as the best.
UNLUCKY = 2.0
#: Maximum number of finals.
FINALS = 3
#: Alternating runs against the simplest design before another one replaces it.
CONFIRMING = 3
#: Medians nearer than that are equal, or nearer than the share of their time in which runs had no
#: core: how much others leave depends on the number of threads, and is another one the next time.
EQUAL = 0.005
#: The share of all pairs of runs that a more complex design has to win: on a shared machine, runs
#: of one design differ more than designs do, and the simpler one is the right answer more often.
SURELY = 0.95


@dataclass(eq=False)
class Entry:
    """A design with the results of its runs, in the unit of the objective; `out`: it does not
    run.
    """

    design: Design
    values: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    last: Measurement | None = None
    out: bool = False

    @property
    def value(self) -> float | None:
        """The median of its runs."""
        return median(self.values) if self.values else None

    def ahead_of(self, other: Entry) -> bool:
        """True if its median is better by more than the tolerance."""
        if self.value is None or other.value is None:
            return False
        return self.value < other.value * (
            1 - max(EQUAL, median(self.delays), median(other.delays))
        )

    def beats(self, other: Entry) -> bool:
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
    """The `budget` (of runs, if evaluations are counted) ends it, but the first contestant has one
    run.
    """

    def __init__(
        self, measure: Measure, objective: Objective, budget: Budget, progress: Progress | None
    ) -> None:
        self._measure, self._objective, self._progress = measure, objective, progress
        self.entries: list[Entry] = []
        self.runs = 0
        self._spending = budget.begin(lambda: self.runs)
        self.interrupted = False

    def enter(self, design: Design, *, run: bool = True) -> Entry:
        """A new contestant, with a first run if there is time."""
        entry = Entry(design)
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
            best = min((e.value for e in self.entries if e.value is not None), default=inf)
            waiting = [
                e
                for e in self.entries
                if e.value is None and not e.out and e.design.predicted < best
            ]
            if not waiting:
                return
            self._run_each(sorted(waiting, key=lambda e: e.design.predicted)[: self._width])

    def close(self, entry: Entry) -> bool:
        """True if it could win: within a fifth of the best."""
        best = min((e.value for e in self.entries if e.value is not None), default=None)
        return best is not None and entry.value is not None and entry.value < 1.2 * best

    def decide(self) -> Entry:
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

    def _confirmed(self, winner: Entry) -> Entry:
        """A candidate must beat the simplest design in a few more alternating runs: three good runs
        may be chance.

        Threads of a library are fast or slow for a whole run, depending on where the scheduler
        places them.
        """
        done = [e for e in self.entries if e.value is not None]
        simplest, tested = done[0], set[Entry]()
        while (
            winner not in (simplest, *tested)
            and (simplest.value or 0.0) <= (winner.value or 0.0) * UNLUCKY
        ):
            tested.add(winner)
            self._run_each((simplest, winner) * CONFIRMING)
            winner = _simplest_best([e for e in done if e is simplest or len(e.values) > 1])
        return winner

    def _final(self) -> Entry:
        done = [e for e in self.entries if e.value is not None]
        best = min(e.value or 0.0 for e in done)
        near = sorted(
            (e for e in done if (e.value or 0.0) <= best * NEAR), key=lambda e: e.value or 0.0
        )[:FINALISTS]
        # The simplest may have had bad luck.
        final = [
            e for e in done if e in near or (e is done[0] and (e.value or 0.0) <= best * UNLUCKY)
        ]
        running = final
        for _ in range(ROUNDS):
            self._run_each(running if len(running) > 1 else ())
            running = [
                e for e in running if not any(o.beats(e) for o in running if len(e.values) > 1)
            ]
        return _simplest_best(final)

    def _over(self) -> bool:
        return self.interrupted or self._spending.over

    @property
    def _width(self) -> int:
        """The number of parallel runs."""
        return self._measure.width if isinstance(self._measure, SideBySide) else 1

    def _run_each(self, entries: Sequence[Entry]) -> None:
        """A run of each, in order, while budget is left; the very first one always runs."""
        waiting = list(entries)
        while waiting and not (self.interrupted or (self.runs and self._spending.over)):
            now, waiting = waiting[: self._width], waiting[self._width :]
            self._run([e for e in now if not e.out])

    def _run(self, entries: Sequence[Entry]) -> None:
        """A run of each, in parallel. Raises the Errors of a design that fails before any other has
        run.
        """
        mappings = [e.design.mapping for e in entries]
        try:
            if isinstance(self._measure, SideBySide):
                found = self._measure.each(mappings)
            else:
                found = [self._tried(m) for m in mappings]
        except KeyboardInterrupt:
            if not any(e.values for e in self.entries):
                raise
            self.interrupted = True
            return
        for entry, seen in zip(entries, found, strict=True):
            if isinstance(seen, Errors):
                self._refuse(entry, seen)
            else:
                self._note(entry, seen)

    def _tried(self, mapping: Mapping) -> Measurement | Errors:
        try:
            return self._measure(mapping)
        except Errors as faults:
            return faults

    def _refuse(self, entry: Entry, faults: Errors) -> None:
        """Exclude a design that fails; if the plainest one fails, the search fails."""
        if not any(e.values for e in self.entries):
            raise faults
        entry.out = True
        if self._progress is not None:
            self._progress(f"does not run: {entry.design.configuration}: {faults}")

    def _note(self, entry: Entry, seen: Measurement) -> None:
        self.runs += 1
        entry.last = seen
        value = max((seen.latency_ns if self._objective == "latency" else seen.period_ns).values())
        entry.values.append(value)
        entry.delays.append(seen.delayed)
        if self._progress is not None:
            text = f"{value / 1e6:8.3f} ms  {entry.design.name}: {entry.design.configuration}"
            self._progress(text, evaluations=len(self.entries), value=value)


def _simplest_best(entries: list[Entry]) -> Entry:
    """The simplest entry that no other is significantly better than; entries are sorted from simple
    to complex.
    """
    winner = entries[0]
    for entry in entries[1:]:
        if entry.beats(winner):
            winner = entry
    return winner
