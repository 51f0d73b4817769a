"""Where everything runs: what the user pinned, and what a search decided."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .span import Span


@dataclass(frozen=True, slots=True)
class PinStage:
    """One stage of a pin: `processors` share its firings; `until` names its last layer (None = to the end)."""

    processors: tuple[str, ...]
    until: str | None
    streams: int
    span: Span


@dataclass(frozen=True, slots=True)
class Pin:
    """The user's wish for one task on one platform. `wcet_ns` replaces measuring."""

    platform: str
    task: str
    stages: tuple[PinStage, ...]
    wcet_ns: Fraction | None
    buffers: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class Placement:
    """`processors[i % n]` runs iteration i of the task; more than one means that frames run in parallel."""

    task: str
    processors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """The answer of a search: one placement per task, and the period per app it predicts (ns, measured times)."""

    platform: str
    placements: tuple[Placement, ...]
    predicted_period_ns: tuple[tuple[str, float], ...]
    search: str

    def of(self, task: str) -> tuple[str, ...]:
        """The processors of a task. Raises KeyError."""
        for p in self.placements:
            if p.task == task:
                return p.processors
        raise KeyError(task)
