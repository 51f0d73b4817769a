"""How long a search may go on: seconds, or evaluations, which every machine counts alike.

In: what somebody gives a search. Out: how much of it is used up. An evaluation is what a search does once for each
thing it tries, and what its time goes into: bounding response times (deadlines), predicting or running a design
(throughput).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """So many `seconds`; or so many `evaluations`, however long they take: then the answer depends on the seed only."""

    seconds: float = 60.0
    evaluations: int | None = None

    @property
    def counted(self) -> bool:
        """Do evaluations count, and not seconds?"""
        return self.evaluations is not None

    def part(self, share: float) -> Budget:
        """This share of it (an evaluation at least)."""
        if self.evaluations is None:
            return Budget(self.seconds * share)
        return Budget(self.seconds, max(1, round(self.evaluations * share)))

    def begin(self, count: Callable[[], int]) -> Spending:
        """Use it up from now on; `count` tells how many evaluations there were so far in all."""
        return Spending(self, count)


#: What a search may use where nobody says anything.
DEFAULT = Budget()


class Spending:
    """A budget that is being used up."""

    def __init__(self, budget: Budget, count: Callable[[], int]) -> None:
        self.budget, self._count = budget, count
        self._begin, self._first = time.monotonic(), count()

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin

    @property
    def share(self) -> float:
        """What is used up of it: 1 and more where that is everything."""
        used: float = self.seconds
        whole: float = self.budget.seconds
        if self.budget.evaluations is not None:
            used, whole = self._count() - self._first, self.budget.evaluations
        return used / whole if whole > 0 else 1.0

    @property
    def over(self) -> bool:
        """Is nothing left?"""
        return self.share >= 1

    @property
    def left(self) -> Budget:
        """What is left; of seconds never less than none."""
        if self.budget.evaluations is None:
            return Budget(max(0.0, self.budget.seconds - self.seconds))
        return Budget(self.budget.seconds, max(0, self.budget.evaluations - (self._count() - self._first)))
