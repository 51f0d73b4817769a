"""Open ends of apps: inputs from the caller of the program, and outputs to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...model.application import Task
from ...model.deployment import DeployedTask
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class BorderCode(BuildCode):
    """An open end; `kind` is its direction, `in` or `out`. An `in` with `within_ns` takes requests
    in batches: those that come so long after the first."""

    kind: str = field()
    within_ns: int | None = None

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({_WORDS[self.kind]})

    def requests(self, task: DeployedTask) -> int:
        """See `BuildCode`."""
        return 0 if self.within_ns is None else task.outputs[0].rates[0]

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        within = "" if self.within_ns is None else f"within={self.within_ns}"
        return f"{_WORDS[self.kind]}({within})"


_WORDS = {"in": "Inlet", "out": "Outlet"}


def _make(task: Task, site: CodeSite) -> BorderCode | None:
    if task.border is None:
        return None
    within = task.within_ns
    return BorderCode(task.border, None if within is None else int(within))


KIND = Kind("border", frozenset(_WORDS.values()), CPU, _make)
