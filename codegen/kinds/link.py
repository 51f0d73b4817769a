"""The ends of links between apps, which keep the newest tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ..names import literal
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class LinkCode(BuildCode):
    """`end` is `put`, `latest` (reads the newest token) or `take` (waits for the next one)."""

    link: str
    keep: int
    end: str
    kind: str = "link"

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return frozenset({self.end.capitalize(), "Link"})

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        return f"{self.end.capitalize()}(Link.of(p, {literal(self.link)}, keep={self.keep}))"


def _make(task: Task, site: CodeSite) -> LinkCode | None:
    link = task.link
    if link is None:
        return None
    if link.writes:
        return LinkCode(link.name, link.keep, "put")
    return LinkCode(link.name, link.keep, "latest" if link.latest else "take")


KIND = Kind("link", frozenset({"Latest", "Link", "Put", "Take"}), CPU, _make)
