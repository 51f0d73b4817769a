"""Open ends of apps: inputs from the caller of the program, and outputs to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...model.application import Task
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class BorderCode(BuildCode):
    """An open end; `kind` is its direction, `in` or `out`."""

    kind: str = field()

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({_WORDS[self.kind]})

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        return f"{_WORDS[self.kind]}()"


_WORDS = {"in": "Inlet", "out": "Outlet"}


def _make(task: Task, site: CodeSite) -> BorderCode | None:
    return None if task.border is None else BorderCode(task.border)


KIND = Kind("border", frozenset(_WORDS.values()), CPU, _make)
