"""What the parts of a program tell each other of times, so that each measures the paths that end in
it.

In: the deployment of the whole program, and the machine of each task. Out: the tasks on other
machines that are the sources of paths, with what is asked about them: the releases of their
firings, and the marks of tokens that readers of mailboxes find. The ways of ages and reactions are
walked as `runtime/age.py` walks them when the program starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..model.deployment import DeployedPath, DeployedStamp, Deployment
from .kinds.link import LinkCode
from .statements import END_TO_END


@dataclass(slots=True)
class _Asked:
    """What a machine asks about a task of another one."""

    releases: bool = False
    ages: set[str] = field(default_factory=set)
    reactions: set[str] = field(default_factory=set)

    def marks(self, kind: str) -> set[str]:
        """The sources of marks of a kind."""
        return self.ages if kind == "age" else self.reactions


def stamps(whole: Deployment, where: Mapping[str, str], machine: str) -> Iterator[DeployedStamp]:
    """What the part on a machine tells and is told."""
    firings = {task.name: task.firings for task in whole.tasks}
    for (asking, task), asked in sorted(_Times(whole, where).asked.items()):
        if machine in (asking, where[task]):
            outgoing = machine == where[task]
            known = asked.releases, tuple(sorted(asked.ages)), tuple(sorted(asked.reactions))
            if not outgoing or any(known):
                peer = asking if outgoing else where[task]
                yield DeployedStamp(outgoing, peer, task, firings[task], *known)


class _Times:
    """What machines ask of tasks elsewhere, by the machine and the task."""

    def __init__(self, whole: Deployment, where: Mapping[str, str]) -> None:
        self._where = where
        self._paths = [path for app in whole.apps for path in app.paths]
        #: The task that writes to each mailbox, and the mailbox of each reader.
        self._writers: dict[str, str] = {}
        self._readers: dict[str, str] = {}
        for task in whole.tasks:
            if isinstance(task.code, LinkCode):
                if task.code.end == "put":
                    self._writers[task.code.link] = task.name
                else:
                    self._readers[task.name] = task.code.link
        self.asked: dict[tuple[str, str], _Asked] = {}
        for path in self._paths:
            if path.kind == "path" and self._crosses(path):
                self._of(path).releases = True
            elif path.kind in END_TO_END:
                if self._crosses(path):
                    self._of(path)
                self._follow(path.sink, path, frozenset())

    def _crosses(self, path: DeployedPath) -> bool:
        return self._where[path.source] != self._where[path.sink]

    def _of(self, path: DeployedPath) -> _Asked:
        """What the machine where a path ends asks about its source."""
        return self.asked.setdefault((self._where[path.sink], path.source), _Asked())

    def _follow(self, task: str, chain: DeployedPath, before: frozenset[str]) -> bool:
        """Do data of the source of an age or a reaction come to a task? Ask for the times on all
        of their ways."""
        found = False
        for path in self._paths:
            if path.sink != task or path.kind in END_TO_END:
                continue
            if path.source == chain.source:
                found = True
                if self._crosses(path):
                    self._of(path).releases = True
                continue
            writer = self._writers.get(self._readers.get(path.source, ""))
            if writer is None or writer in before:
                continue
            if self._follow(writer, chain, before | {writer}):
                found = True
                if self._crosses(path):
                    self._of(path).marks(chain.kind).add(chain.source)
        return found
