"""A server: the time of a CPU that an app without a period gets, whatever the others want.

In: a budget and a period. Out: what it supplies at least, and how long it takes for some work.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Server:
    """`budget_ns` of every `period_ns`, above all apps with a period."""

    budget_ns: int
    period_ns: Fraction

    @property
    def part(self) -> Fraction:
        """The share of a CPU that it takes, and gives, in the long run."""
        return self.budget_ns / self.period_ns

    def supply(self, ns: Fraction) -> int:
        """What it gives at least in any interval of that length (Shin and Lee, "Periodic resource
        model for compositional real-time guarantees", 2003; their linear part left out)."""
        whole = (ns - (self.period_ns - self.budget_ns)) // self.period_ns
        return max(0, self.budget_ns * whole)

    def time_for(self, work_ns: int) -> Fraction:
        """The shortest interval in which it gives so much at least: inverse of `supply`."""
        if work_ns <= 0:
            return Fraction(0)
        budgets = -(-work_ns // self.budget_ns)
        return self.period_ns * (budgets + 1) - self.budget_ns
