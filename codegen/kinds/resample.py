"""Operators on arrows: `repeat` and `last`."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from ..names import option
from .kind import CodeSite, Identifiers, Kind, several


@dataclass(frozen=True, slots=True)
class ResampleCode:
    """`kind` is `repeat` or `last`: `count` copies of every block of tokens, or the last one of
    `count` blocks."""

    kind: str
    count: int
    block: int

    on_device = False
    batch, moves = 1, False

    @property
    def words(self) -> frozenset[str]:
        """See `Code`."""
        return frozenset({self.kind.capitalize()})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ()

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        block = option("block", several(self.block))
        return f"{self.kind.capitalize()}({self.count}{block})"


def _serves(task: Task, site: CodeSite) -> bool:
    return task.resampling is not None


def _make(task: Task, site: CodeSite) -> ResampleCode:
    what = task.resampling
    assert what is not None
    return ResampleCode(what.word, what.count, what.block)


KIND = Kind("resample", frozenset({"Repeat", "Last"}), _serves, _make)
