"""What the parts of a program tell each other of times, so that each measures the paths that end in
it.

In: the deployment of the whole program, and the machine of each task. Out: the tasks on other
machines that are the sources of paths, with what is asked about them: the releases of their
firings, and the marks of tokens that readers of mailboxes find (`marks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..model.deployment import DeployedPath, DeployedStamp, Deployment
from .marks import marks_of


@dataclass(slots=True)
class _Asked:
    """What a machine asks about a task of another one."""

    releases: bool = False
    ages: set[str] = field(default_factory=set)
    reactions: set[str] = field(default_factory=set)

    def marks(self, *, oldest: bool) -> set[str]:
        """The sources of marks of the oldest or of the newest data."""
        return self.ages if oldest else self.reactions


def stamps(whole: Deployment, where: Mapping[str, str], machine: str) -> Iterator[DeployedStamp]:
    """What the part on a machine tells and is told."""
    firings = {task.name: task.firings for task in whole.tasks}
    for (asking, task), asked in sorted(_asked(whole, where).items()):
        if machine in (asking, where[task]):
            outgoing = machine == where[task]
            known = asked.releases, tuple(sorted(asked.ages)), tuple(sorted(asked.reactions))
            if not outgoing or any(known):
                peer = asking if outgoing else where[task]
                yield DeployedStamp(outgoing, peer, task, firings[task], *known)


def _asked(whole: Deployment, where: Mapping[str, str]) -> dict[tuple[str, str], _Asked]:
    """What machines ask of tasks elsewhere, by the machine and the task."""
    found: dict[tuple[str, str], _Asked] = {}

    def of(path: DeployedPath) -> _Asked | None:
        """What the machine where a path ends asks about its source; None if that is there too."""
        machine = where[path.sink]
        if machine == where[path.source]:
            return None
        return found.setdefault((machine, path.source), _Asked())

    for app in whole.apps:
        for path in app.paths:
            if path.kind != "part" and (asked := of(path)) is not None and path.kind == "path":
                asked.releases = True
    for way, purpose in marks_of(whole).ways:
        if (asked := of(way.path)) is None:
            continue
        if way.mark is None:
            asked.releases = True
        else:
            asked.marks(oldest=purpose.oldest).add(purpose.source)
    return found
