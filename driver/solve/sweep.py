"""The step that maps a text repeatedly under different suppositions: rates, numbers of cores.

In: a text, and the suppositions. Out: the answer for each, one after the other; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ...model.diagnostic import Diagnostic, Errors
from .map import Answer, find_mapping
from .request import WhatIf

#: Codes of what no mapping can keep.
INFEASIBLE = ("F509", "F503")


@dataclass(frozen=True, slots=True)
class SweptAnswer:
    """The answer under a supposition: a mapping, or the reason why there is none."""

    what_if: WhatIf
    mapped: Answer | None
    faults: tuple[Diagnostic, ...] = ()

    @property
    def verdict(self) -> str:
        """`schedulable`, `too late`, `impossible`; empty if no app has a deadline."""
        if self.mapped is None:
            return "impossible"
        if self.mapped.joint is None and self.mapped.states is None:
            return ""
        return "too late" if self.mapped.late else "schedulable"

    @property
    def utilization(self) -> float | None:
        """The utilization of the busiest processor, over all states."""
        if self.mapped is None:
            return None
        mapping = self.mapped.mapping
        rows = [mapping.utilization, *(s.utilization for s in mapping.states)]
        return max((share for row in rows for _, share in row), default=None)

    @property
    def tightest(self) -> float | None:
        """The largest share of its deadline that an app needs."""
        if self.mapped is None:
            return None
        mapping = self.mapped.mapping
        groups = [*mapping.groups, *(g for s in mapping.states for g in s.groups)]
        return max(
            (g.response_ns / g.deadline_ns for g in groups if g.response_ns and g.deadline_ns),
            default=None,
        )

    @property
    def frames_per_second(self) -> float | None:
        """The frame rate of the slowest app, if none has a deadline: measured, or predicted."""
        if self.mapped is None or self.verdict:
            return None
        best = next(iter(self.mapped.mapping.contestants), None)
        ns = None if best is None else best.measured_ns or best.predicted_ns
        return None if not ns else 1e9 / ns


def suppositions(rates: Iterable[Fraction], cores: Iterable[int], what_if: WhatIf) -> list[WhatIf]:
    """Every rate with every number of cores; other values are those of `what_if`."""
    every_rate: list[Fraction | None] = [*rates] or [what_if.fps]
    every_count: list[int | None] = [*cores] or [what_if.cores]
    return [WhatIf(rate, count, what_if.profile) for rate in every_rate for count in every_count]


def sweep(path: Path, what_ifs: Iterable[WhatIf], **options: Any) -> Iterator[SweptAnswer]:
    """Search under each supposition, with the options of `find_mapping`. Raises Errors if the text
    itself is faulty.

    An infeasible supposition is an answer.
    """
    faults: tuple[Diagnostic, ...]
    mapped: Answer | None
    for what_if in what_ifs:
        try:
            answer = find_mapping(path, what_if=what_if, **options)
            faults = tuple(d for d in answer.diagnostics if d.code in INFEASIBLE)
            mapped = None if faults else answer
        except Errors as errors:
            if not any(d.code in INFEASIBLE for d in errors.diagnostics):
                raise
            mapped, faults = None, tuple(errors.diagnostics)
        yield SweptAnswer(what_if, mapped, faults)
