"""Results of the analyses: three separate verdicts, each with its witness."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Verdict:
    """`holds` is None when it is not decided; `witness` gives the reason in words.

    If `measured`, times of a profile led to it: it holds for these, and proves nothing.
    """

    holds: bool | None
    witness: str = ""
    measured: bool = False

    @property
    def proved(self) -> bool | None:
        """The same, None if measured times led to it."""
        return None if self.measured else self.holds


@dataclass(frozen=True, slots=True)
class AppVerdicts:
    """Verdicts on a graph. `repetition` has the firings of each task in one iteration; empty unless
    consistent.

    `pace` is the time in ns from one release of a source to the next; empty without a period.
    """

    consistent: Verdict
    deadlock_free: Verdict
    schedulable: Verdict
    repetition: dict[str, int]
    pace: dict[str, Fraction] = field(default_factory=dict)

    @property
    def impossible(self) -> bool:
        """True if one of the verdicts is no, whatever tasks were measured to take."""
        return False in (self.consistent.holds, self.deadlock_free.holds, self.schedulable.proved)
