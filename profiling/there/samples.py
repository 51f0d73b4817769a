"""When the times of a task's firings are enough to count with.

In: times in ns, in order. Out: those without the first ones, and how well their mean is known.
"""

from __future__ import annotations

import math
from typing import Iterable, Sequence

#: First firings are slower (caches, buffers, threads, lazy initialization): this share of them is
#: left out, and at least the very first one.
WARM_UP = 0.2
#: A mean of fewer samples decides nothing without a note.
FEWEST = 5
#: Half of the 95 % confidence interval of a mean, as a share of it, that is small enough; and the
#: standard deviations of a mean in that half.
CLOSE, DEVIATIONS = 0.05, 1.96
#: Tasks with a smaller share of all time need not be known that well.
SHARE = 0.05
#: For how many times as long as was asked a run goes on at most: while some task has too few
#: samples, and while some mean is not known well.
FOR_SAMPLES, FOR_MEANS = 2.0, 0.5


def warm(samples: Sequence[int]) -> Sequence[int]:
    """The samples without the first ones; a single one stays."""
    cold = max(1, int(len(samples) * WARM_UP))
    return samples[cold:] or samples


class Spread:
    """The mean of a task's firings but the first, and its confidence interval, firing by firing."""

    def __init__(self) -> None:
        self.count = -1
        self.total = self.squares = 0

    def add(self, ns: int) -> None:
        """The next firing took that long."""
        self.count += 1
        if self.count:
            self.total += ns
            self.squares += ns * ns

    @property
    def width(self) -> float:
        """Half of the confidence interval, as a share of the mean."""
        if self.count < 2 or not self.total:
            return math.inf if self.total else 0.0
        mean = self.total / self.count
        variance = max(0.0, self.squares / self.count - mean * mean)
        return DEVIATIONS * math.sqrt(variance / (self.count - 1)) / mean


def go_on(spreads: Iterable[Spread]) -> float:
    """For how many times as long as was asked a run of these tasks is worth going on: for ever
    until each has a sample that is not cold.
    """
    tasks = list(spreads)
    if any(task.count < 1 for task in tasks):
        return math.inf
    if any(task.count < FEWEST for task in tasks):
        return FOR_SAMPLES
    least = SHARE * sum(task.total for task in tasks)
    if any(task.total >= least and task.width > CLOSE for task in tasks):
        return FOR_MEANS
    return 0.0
