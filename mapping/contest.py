"""Measured runs between configurations: everybody once or twice, then the best ones in turns.

In: designs, and a way to run them. Out: the one with the best median. A machine that others use gets faster and
slower: so finalists run in alternation, and medians count.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from math import inf
from statistics import median

from ..model.mapping import Contestant
from .design import Design
from .exact import Objective
from .problem import Measure, Measurement, Progress

#: Who is within that of the best after one run gets into the final: a single run can be off by that much.
NEAR = 1.2
#: Finalists, and how often each runs at least.
FINALISTS, ROUNDS = 3, 3
#: Whose median is so many times the best one runs no more in a final.
BEHIND = 1.05
#: Finals that there may be.
FINALS = 3
#: Medians nearer than that are equal: the simpler one wins. So it does where runs of one design differ by more, on a
#: machine that others use, up to a limit.
EQUAL, SCATTER = 0.005, 0.1


@dataclass(eq=False)
class Entry:
    """A design with what its runs showed, in the unit of the objective."""

    design: Design
    values: list[float] = field(default_factory=list)
    last: Measurement | None = None

    @property
    def value(self) -> float | None:
        """The median of its runs."""
        return median(self.values) if self.values else None

    @property
    def scatter(self) -> float:
        """How far its median may be off: the median deviation of a run from it, relative, by the root of the runs."""
        middle = self.value
        if not middle or len(self.values) < 2:
            return 0.0
        apart: float = median(abs(v - middle) for v in self.values)
        return apart / middle / math.sqrt(len(self.values))

    @property
    def contestant(self) -> Contestant:
        """As a row of the table."""
        return Contestant(self.design.name, self.design.configuration, self.design.predicted, self.value)


class Contest:
    """`deadline` (monotonic seconds) ends it, but everybody who entered before to run has one run."""

    def __init__(self, measure: Measure, objective: Objective, deadline: float, progress: Progress | None) -> None:
        self._measure, self._objective = measure, objective
        self._deadline, self._progress = deadline, progress
        self.entries: list[Entry] = []
        self.runs = 0
        self.interrupted = False

    def enter(self, design: Design, *, run: bool = True) -> Entry:
        """A new contestant, with a first run if there is time."""
        entry = Entry(design)
        self.entries.append(entry)
        if run and (time.monotonic() < self._deadline or not self.runs):
            self._run(entry)
        return entry

    def catch_up(self) -> None:
        """Run everybody who was passed over for a prediction that is better than what the best ones turned out to be.

        Predictions are wrong in the same direction: what runs takes longer than it should.
        """
        while time.monotonic() < self._deadline and not self.interrupted:
            best = min((e.value for e in self.entries if e.value is not None), default=inf)
            waiting = [e for e in self.entries if e.value is None and e.design.predicted < best]
            if not waiting:
                return
            self._run(min(waiting, key=lambda e: e.design.predicted))

    def close(self, entry: Entry) -> bool:
        """Could it win? Within a fifth of the best."""
        best = min((e.value for e in self.entries if e.value is not None), default=None)
        return best is not None and entry.value is not None and entry.value < 1.2 * best

    def decide(self) -> Entry:
        """The winner, after the final. Ctrl-C ends the contest with the best so far.

        Where the machine got slower meanwhile, the winner may be behind somebody who was not in the final: then there
        is another one. Without time for it, the best median wins.
        """
        for _ in range(FINALS):
            winner = self._final()
            least = min(e.value for e in self.entries if e.value is not None)
            if winner.value is not None and winner.value <= least * (1 + self._equal()):
                return winner
        return min(self.entries, key=lambda e: inf if e.value is None else e.value)

    def _final(self) -> Entry:
        done = [e for e in self.entries if e.value is not None]
        best = min(e.value or 0.0 for e in done)
        final = sorted((e for e in done if (e.value or 0.0) <= best * NEAR), key=lambda e: e.value or 0.0)[:FINALISTS]
        running = final
        for _ in range(ROUNDS):
            for entry in running if len(running) > 1 else ():
                if time.monotonic() < self._deadline and not self.interrupted:
                    self._run(entry)
            least = min(e.value or 0.0 for e in running)
            running = [e for e in running if (e.value or 0.0) <= least * BEHIND]
        best = min(e.value or 0.0 for e in final)
        # Entries stand from simple to complicated.
        return next(e for e in self.entries if e in final and (e.value or 0.0) <= best * (1 + self._equal()))

    def _equal(self) -> float:
        """Medians nearer than that say nothing."""
        return max(EQUAL, min(SCATTER, max(e.scatter for e in self.entries)))

    def _run(self, entry: Entry) -> None:
        if self.interrupted:
            return
        try:
            seen = self._measure(entry.design.mapping)
        except KeyboardInterrupt:
            if not any(e.values for e in self.entries):
                raise
            self.interrupted = True
            return
        self.runs += 1
        entry.last = seen
        value = max((seen.latency_ns if self._objective == "latency" else seen.period_ns).values())
        entry.values.append(value)
        if self._progress is not None:
            self._progress(f"{value / 1e6:8.3f} ms  {entry.design.name}: {entry.design.configuration}")
