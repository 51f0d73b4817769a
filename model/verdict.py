"""Answers of the analyses: three verdicts kept apart, each with its witness."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Verdict:
    """`holds` is None when it is not decided; `witness` says why, in words."""

    holds: bool | None
    witness: str = ""


@dataclass(frozen=True, slots=True)
class AppVerdicts:
    """What a graph can do. `repetition` is empty unless consistent: firings of each task in one iteration.

    `pace` is the time in ns from one release of a source to the next; empty without a period.
    """

    consistent: Verdict
    deadlock_free: Verdict
    schedulable: Verdict
    repetition: dict[str, int]
    pace: dict[str, Fraction] = field(default_factory=dict)

    @property
    def impossible(self) -> bool:
        """Is one of the verdicts no?"""
        return False in (self.consistent.holds, self.deadlock_free.holds, self.schedulable.holds)
