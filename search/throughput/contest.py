"""Measured runs between configurations: everybody once or twice, then the best ones in turns.

In: designs, from simple to complicated, and a way to run them. Out: the simplest one that none is surely better than. A
machine that others use gets faster and slower: so finalists run in alternation, and all pairs of runs count. Where
several machines measure, as many run side by side.
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

#: Who is within that of the best after one run gets into the final: a single run can be off by that much.
NEAR = 1.2
#: Finalists, and how often each runs at least.
FINALISTS, ROUNDS = 3, 3
#: The simplest is in the final as well, unless it takes so many times as long as the best.
UNLUCKY = 2.0
#: Finals that there may be.
FINALS = 3
#: Runs in turns with the simplest, before somebody takes its place.
CONFIRMING = 3
#: Medians nearer than that are equal, or nearer than the share of their time in which runs had no core: how much others
#: leave depends on the number of threads, and is another one the next time.
EQUAL = 0.005
#: A more complicated design has to win so large a share of all pairs of runs: on a machine that others use, runs of one
#: design differ more than designs do, and the simpler one is right more often.
SURELY = 0.95


@dataclass(eq=False)
class Entry:
    """A design with what its runs showed, in the unit of the objective; `out`: it does not run."""

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
        """Is its median better by more than nothing?"""
        if self.value is None or other.value is None:
            return False
        return self.value < other.value * (1 - max(EQUAL, median(self.delays), median(other.delays)))

    def beats(self, other: Entry) -> bool:
        """Is it better in nearly every pair of their runs (a rank test), so that this is no chance?"""
        won = sum(mine < theirs for mine in self.values for theirs in other.values)
        return self.ahead_of(other) and won >= SURELY * len(self.values) * len(other.values)

    @property
    def contestant(self) -> Contestant:
        """As a row of the table."""
        mapping = self.design.mapping
        pins = as_text(mapping.platform, mapping.placements, mapping.networks)
        return Contestant(self.design.name, self.design.configuration, self.design.predicted, self.value, pins)


class Contest:
    """The `budget` (of runs, where evaluations are counted) ends it, but who entered first has one run."""

    def __init__(self, measure: Measure, objective: Objective, budget: Budget, progress: Progress | None) -> None:
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
        """Run everybody who was passed over for a prediction that is better than what the best ones turned out to be.

        Predictions are wrong in the same direction: what runs takes longer than it should.
        """
        while not self._over():
            best = min((e.value for e in self.entries if e.value is not None), default=inf)
            waiting = [e for e in self.entries if e.value is None and not e.out and e.design.predicted < best]
            if not waiting:
                return
            self._run_each(sorted(waiting, key=lambda e: e.design.predicted)[: self._width])

    def close(self, entry: Entry) -> bool:
        """Could it win? Within a fifth of the best."""
        best = min((e.value for e in self.entries if e.value is not None), default=None)
        return best is not None and entry.value is not None and entry.value < 1.2 * best

    def decide(self) -> Entry:
        """The winner, after the final. Ctrl-C ends the contest with the best so far.

        Where the machine got slower meanwhile, the winner may be behind somebody who has hardly run: then there is
        another final.
        """
        winner = self._final()
        for _ in range(1, FINALS):
            ahead = [e for e in self.entries if len(e.values) < ROUNDS and e.ahead_of(winner)]
            if not ahead or self._over():
                break
            winner = self._final()
        return self._confirmed(winner)

    def _confirmed(self, winner: Entry) -> Entry:
        """Who takes the place of the simplest runs against it a few more times: three good runs in a row may be luck.

        Threads of a library are fast or slow for a whole run, as the scheduler places them.
        """
        done = [e for e in self.entries if e.value is not None]
        simplest, tested = done[0], set[Entry]()
        while winner not in (simplest, *tested) and (simplest.value or 0.0) <= (winner.value or 0.0) * UNLUCKY:
            tested.add(winner)
            self._run_each((simplest, winner) * CONFIRMING)
            winner = _simplest_best([e for e in done if e is simplest or len(e.values) > 1])
        return winner

    def _final(self) -> Entry:
        done = [e for e in self.entries if e.value is not None]
        best = min(e.value or 0.0 for e in done)
        near = sorted((e for e in done if (e.value or 0.0) <= best * NEAR), key=lambda e: e.value or 0.0)[:FINALISTS]
        # The simplest may have had bad luck.
        final = [e for e in done if e in near or (e is done[0] and (e.value or 0.0) <= best * UNLUCKY)]
        running = final
        for _ in range(ROUNDS):
            self._run_each(running if len(running) > 1 else ())
            running = [e for e in running if not any(o.beats(e) for o in running if len(e.values) > 1)]
        return _simplest_best(final)

    def _over(self) -> bool:
        return self.interrupted or self._spending.over

    @property
    def _width(self) -> int:
        """How many run at once."""
        return self._measure.width if isinstance(self._measure, SideBySide) else 1

    def _run_each(self, entries: Sequence[Entry]) -> None:
        """A run of each, in order, as long as there is time; there is for the first of all."""
        waiting = list(entries)
        while waiting and not (self.interrupted or (self.runs and self._spending.over)):
            now, waiting = waiting[: self._width], waiting[self._width :]
            self._run([e for e in now if not e.out])

    def _run(self, entries: Sequence[Entry]) -> None:
        """A run of each, side by side. Raises the Errors of who fails before anybody has run."""
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
        """Out of the race; but where the plainest does not run, nothing does."""
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
    """The one that none is surely better than; entries stand from simple to complicated."""
    winner = entries[0]
    for entry in entries[1:]:
        if entry.beats(winner):
            winner = entry
    return winner
