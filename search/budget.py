"""The budget of a search: seconds, or evaluations, which do not depend on the machine.

In: the budget of a search. Out: the part of it that is used up. An evaluation is the main step of a
search for each candidate: bounding response times (deadlines), predicting or running a design
(throughput).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of `seconds`, or of `evaluations` without a limit of time: the answer then depends
    on the seed only.
    """

    seconds: float = 60.0
    evaluations: int | None = None

    @property
    def counted(self) -> bool:
        """True if evaluations are limited, not seconds."""
        return self.evaluations is not None

    def part(self, share: float) -> Budget:
        """This share of it (at least one evaluation)."""
        if self.evaluations is None:
            return Budget(self.seconds * share)
        return Budget(self.seconds, max(1, round(self.evaluations * share)))

    def begin(self, count: Callable[[], int]) -> Spending:
        """Start to spend it; `count` returns the total number of evaluations so far."""
        return Spending(self, count)


#: The default budget of a search.
DEFAULT = Budget()


class Spending:
    """A budget in use."""

    def __init__(self, budget: Budget, count: Callable[[], int]) -> None:
        self.budget, self._count = budget, count
        self._begin, self._first = time.monotonic(), count()

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin

    @property
    def share(self) -> float:
        """The share that is used up: 1 or more at the end."""
        used: float = self.seconds
        whole: float = self.budget.seconds
        if self.budget.evaluations is not None:
            used, whole = self._evaluations, self.budget.evaluations
        return used / whole if whole > 0 else 1.0

    @property
    def over(self) -> bool:
        """True if nothing is left."""
        return self.share >= 1

    @property
    def left(self) -> Budget:
        """The rest of the budget; seconds are never negative."""
        if self.budget.evaluations is None:
            return Budget(max(0.0, self.budget.seconds - self.seconds))
        unused = self.budget.evaluations - self._evaluations
        return Budget(self.budget.seconds, max(0, unused))

    @property
    def _evaluations(self) -> int:
        return self._count() - self._first
