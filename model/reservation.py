"""A reservation: the time of a CPU that a thread gets in each period, whatever runs beside it.

In: what its firings take at most, by the text. Out: what SCHED_DEADLINE of Linux asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Reservation:
    """`work_ns` in every `period_ns`, each time within `due_ns` of its beginning."""

    work_ns: int
    due_ns: int
    period_ns: Fraction
