"""The ends of links between apps, which keep the newest tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from ..names import literal
from .kind import CodeSite, Identifiers, Kind


@dataclass(frozen=True, slots=True)
class LinkCode:
    """`end` is `put`, `latest` (reads the newest token) or `take` (waits for the next one)."""

    link: str
    keep: int
    end: str
    kind: str = "link"

    on_device = False
    batch, moves = 1, False

    @property
    def words(self) -> frozenset[str]:
        """See `Code`."""
        return frozenset({self.end.capitalize(), "Link"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ()

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        return f"{self.end.capitalize()}(Link.of(p, {literal(self.link)}, keep={self.keep}))"


def _serves(task: Task, site: CodeSite) -> bool:
    return task.link is not None


def _make(task: Task, site: CodeSite) -> LinkCode:
    link = task.link
    assert link is not None
    if link.writes:
        return LinkCode(link.name, link.keep, "put")
    return LinkCode(link.name, link.keep, "latest" if link.latest else "take")


KIND = Kind("link", frozenset({"Latest", "Link", "Put", "Take"}), _serves, _make)
