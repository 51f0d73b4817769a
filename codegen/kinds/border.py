"""Open ends of apps: inputs from the caller of the program, and outputs to it."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from .kind import CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class BorderCode:
    """An open end; `kind` is its direction, `in` or `out`."""

    kind: str

    on_device = False
    batch, moves = 1, False

    @property
    def words(self) -> frozenset[str]:
        """See `Code`."""
        return frozenset({_WORDS[self.kind]})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ()

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        return f"{_WORDS[self.kind]}()"


_WORDS = {"in": "Inlet", "out": "Outlet"}


def _serves(task: Task, site: CodeSite) -> bool:
    return task.border is not None


def _make(task: Task, site: CodeSite) -> BorderCode:
    assert task.border is not None
    return BorderCode(task.border)


KIND = Kind("border", frozenset(_WORDS.values()), _serves, _make)
