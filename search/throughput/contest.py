"""Measured runs of designs: one of each, then a race of the best one against the plain ones.

In: designs, and a function that runs each in a process of its own. Out: the winner of the race
(`race`). A fixed share of the budget is kept for it; if the budget ends before it is decided, the
answer is the best plain design so far. Several machines run designs in parallel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median

from ...model.diagnostic import Errors
from ...model.mapping import Contestant, Decision, Mapping, as_text, is_lower
from ..budget import Budget
from .design import Design
from .partition import Objective
from .problem import Measure, Measurement, Progress, SideBySide
from .race import SOME, Run, rule

#: The share of the budget that is kept for the race.
RACE = 0.5
#: Designs within this factor of the best after one run may race: a single run can err by that.
NEAR = 1.2
#: Maximum number of those beside the leader and the plain ones.
FINALISTS = 1
#: Plain designs race unless they take this many times as long as the best.
UNLUCKY = 2.0
#: Designs within this factor of the best are nearly equal, if the budget ends before the race does.
SO_FAR = 1.05


@dataclass(eq=False)
class ContestEntry:
    """A design with the results of its runs, in the unit of the objective.

    `values` are those of all runs, `race` those of the rounds of the race, `latencies` the median
    latencies of all runs in ns. `seconds` is how long its last run took, start and end included;
    `out`: a run failed.
    """

    design: Design
    values: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    race: list[Run] = field(default_factory=list)
    seconds: float = 0.0
    last: Measurement | None = None
    out: bool = False

    @property
    def value(self) -> float | None:
        """The median of its runs in the race; before it, of its first run."""
        if self.race:
            return median(run.time for run in self.race)
        return median(self.values) if self.values else None

    @property
    def score(self) -> float:
        """The same, infinite without any run."""
        value = self.value
        return inf if value is None else value

    @property
    def latency(self) -> float | None:
        """The median latency of its frames, in the median of all runs; None if it is unknown."""
        return median(self.latencies) if self.latencies else None

    @property
    def last_run(self) -> Run:
        """Its last run, as one of the race."""
        return Run(self.values[-1], 0.0 if self.last is None else self.last.delayed)

    @property
    def contestant(self) -> Contestant:
        """As a row of the table."""
        mapping = self.design.mapping
        pins = as_text(mapping.platform, mapping.placements, mapping.networks)
        return Contestant(
            self.design.name,
            self.design.configuration,
            self.design.predicted,
            self.value,
            pins,
            len(self.values),
            self.latency,
            self.design.latency_ns,
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
        self._before_race = budget.part(1 - RACE).begin(lambda: self.runs)
        #: How the race ended; empty before it.
        self.decision: Decision = ""
        self.interrupted = False

    def enter(self, design: Design, *, run: bool = True) -> ContestEntry:
        """A new contestant, with a first run if there is time."""
        entry = ContestEntry(design)
        self.entries.append(entry)
        if run:
            self._first_runs([entry])
        return entry

    def enter_all(self, designs: Iterable[tuple[Design, bool]]) -> None:
        """New contestants, and whether they have a first run if there is time."""
        entered = [(self.enter(design, run=False), run) for design, run in designs]
        self._first_runs([entry for entry, run in entered if run])

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
            self._first_runs(sorted(hopeful, key=lambda e: e.design.predicted)[: self._width])

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
        """The winner of the race. Ctrl-C ends the race as the end of the budget does."""
        racing = self._racers()
        among = len(racing)
        beaten = False
        tied: list[ContestEntry] = []
        while len(racing) > 1:
            if not self._affords(racing) or not self._ran_all(racing):
                self.decision = "out of budget"
                return self._best_plain(racing)
            racing = self._preferred([entry for entry in racing if not entry.out])
            ruling = rule([entry.race for entry in racing], among)
            beaten = beaten or bool(ruling.beaten)
            tied += [racing[k] for k in ruling.tied]
            gone = {*ruling.beaten, *ruling.tied}
            racing = [entry for k, entry in enumerate(racing) if k not in gone]
        winner = racing[0]
        simplest = min([winner, *tied], key=self._simplest_first.index)
        if simplest is not winner:
            self.decision = "lower latency"
        elif tied:
            self.decision = "tie"
        elif beaten:
            self.decision = "separated"
        return winner

    def _best_plain(self, racing: Sequence[ContestEntry]) -> ContestEntry:
        """The best of the plain designs that are still in the race, by the rounds so far; of all,
        if no other is plain. For throughput, of nearly equal ones the one with the lowest latency.
        """
        plain = [entry for entry in racing if entry.design.plain] or list(racing)
        best_first = sorted(plain, key=lambda e: e.score)
        if self._objective != "throughput":
            return best_first[0]
        near = [e for e in best_first if e.score <= best_first[0].score * SO_FAR]
        return by_latency(near, [e.latency for e in near])[0]

    def _preferred(self, racing: Sequence[ContestEntry]) -> list[ContestEntry]:
        """The order in which designs of equal throughput win: those with the lowest latency first,
        and of equal latencies the simplest. For another objective latency does not count."""
        ordered = [entry for entry in self._simplest_first if entry in racing]
        if self._objective != "throughput":
            return ordered
        return by_latency(ordered, [e.latency for e in ordered])

    @property
    def _simplest_first(self) -> list[ContestEntry]:
        return sorted(self.entries, key=lambda e: e.design.complexity)

    def _racers(self) -> list[ContestEntry]:
        """The leader, the plain designs, the simplest one, and others near the leader as far as the
        budget is enough for some rounds, the one with the lowest latency among them; at least two.
        """
        best_first = sorted((e for e in self.measured if not e.out), key=lambda e: e.score)
        leader = best_first[0]
        simplest = min(best_first, key=lambda e: e.design.complexity)
        chosen = []
        others = []
        for entry in best_first:
            if entry is leader or entry.design.plain or entry is simplest:
                if entry.score < leader.score * UNLUCKY:
                    chosen.append(entry)
            elif entry.score <= leader.score * NEAR:
                others.append(entry)
        for entry in self._finalists(others):
            if self._affords([*chosen, entry], SOME):
                chosen.append(entry)
        if len(chosen) < 2:
            chosen = best_first[:2]
        return self._preferred([e for e in self.entries if e in chosen])

    def _finalists(self, others: list[ContestEntry]) -> list[ContestEntry]:
        """Of designs near the leader, best first, those that may race beside the plain ones."""
        best = others[:FINALISTS]
        known = [e for e in others if e.latency is not None]
        if self._objective == "throughput" and known:
            best.append(min(known, key=lambda e: e.latency or 0.0))
        return list(dict.fromkeys(best))

    def _affords(self, racing: Sequence[ContestEntry], rounds: int = 1) -> bool:
        """True if the budget is enough for so many rounds, which take as long as the last runs."""
        left = self._spending.left
        if left.evaluations is not None:
            return rounds * len(racing) <= left.evaluations
        return rounds * sum(entry.seconds for entry in racing) / self._width <= left.seconds

    def _ran_all(self, racing: Sequence[ContestEntry]) -> bool:
        """Run a round of the race; False if it was interrupted, or all runs failed. The order turns
        around each time, so that a machine that becomes slower does so for all of them."""
        rounds = len(racing[0].race)
        waiting = list(racing) if rounds % 2 else list(racing)[::-1]
        while waiting and not self.interrupted:
            now, waiting = waiting[: self._width], waiting[self._width :]
            for entry in self._run(now):
                entry.race.append(entry.last_run)
        return not self.interrupted and not all(entry.out for entry in racing)

    def _over(self) -> bool:
        return self.interrupted or self._before_race.over

    @property
    def _width(self) -> int:
        """The number of parallel runs."""
        return self._measure.width if isinstance(self._measure, SideBySide) else 1

    def _first_runs(self, entries: Sequence[ContestEntry]) -> None:
        """A run of each, in order, while the race does not need the budget; the very first one
        always runs."""
        waiting = list(entries)
        while waiting and not (self.interrupted or (self.runs and self._before_race.over)):
            now, waiting = waiting[: self._width], waiting[self._width :]
            self._run(now)

    def _run(self, entries: Sequence[ContestEntry]) -> list[ContestEntry]:
        """A run of each, in parallel; returns those that did not fail. Raises the Errors of a
        design that fails before any other has run.
        """
        begin = time.monotonic()
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
            return []
        seconds = time.monotonic() - begin
        for entry, result in zip(entries, results, strict=True):
            entry.seconds = seconds
            if isinstance(result, Errors):
                self._refuse(entry, result)
            else:
                self._note(entry, result)
        return [entry for entry in entries if not entry.out]

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
        if measurement.latency is not None:
            entry.latencies.append(measurement.latency)
        if self._progress is not None:
            text = f"{value / 1e6:8.3f} ms  {entry.design.name}: {entry.design.configuration}"
            self._progress(text, evaluations=len(self.entries), value=value)


def by_latency(
    entries: Sequence[ContestEntry], latencies: Sequence[float | None]
) -> list[ContestEntry]:
    """The entries with the lowest latencies first; equal ones stay in their order, and all do where
    a latency is unknown."""
    known = {id(e): ns for e, ns in zip(entries, latencies, strict=True) if ns is not None}
    if len(known) < len(entries):
        return list(entries)
    ordered: list[ContestEntry] = []
    rest = list(entries)
    while rest:
        least = min(known[id(e)] for e in rest)
        ordered += [e for e in rest if not is_lower(least, known[id(e)])]
        rest = [e for e in rest if is_lower(least, known[id(e)])]
    return ordered
