"""Operators on arrows: `repeat` and `last`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...model.application import Task
from ..names import option
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind, several


@dataclass(frozen=True, slots=True)
class ResampleCode(BuildCode):
    """`kind` is `repeat` or `last`: `count` copies of every block of tokens, or the last one of
    `count` blocks."""

    kind: str = field()
    count: int
    block: int

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({self.kind.capitalize()})

    @property
    def passes_on(self) -> tuple[int, int | None]:
        """See `BuildCode`."""
        return (1, self.block) if self.kind == "last" else (self.count, None)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        block = option("block", several(self.block))
        return f"{self.kind.capitalize()}({self.count}{block})"


def _make(task: Task, site: CodeSite) -> ResampleCode | None:
    what = task.resampling
    return None if what is None else ResampleCode(what.word, what.count, what.block)


KIND = Kind("resample", frozenset({"Repeat", "Last"}), CPU, _make)
