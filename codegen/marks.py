"""What is measured over several apps: the ways from a source to a task, and the marks that tokens
between apps bear for them.

In: a deployment. Out: what `runtime/age.py` finds when a program in Python starts, for programs in
C++, and for what the parts of a program tell each other (`stamps.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..model.deployment import DeployedApp, DeployedPath, Deployment
from .kinds.link import LinkCode


@dataclass(frozen=True, slots=True)
class Way:
    """From the source of a path to its sink. That source is the one that is asked for, or it reads
    a link, whose tokens have the release as this mark."""

    path: DeployedPath
    mark: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """What tokens of a link bear: of several ways from a source, the release of the `oldest` data
    or of the newest. `put` is the task that writes them; no way leads through `avoided` apps."""

    link: str
    put: str
    source: str
    oldest: bool
    avoided: frozenset[str]
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """An age or a reaction, with the ways from its source to its sink."""

    path: DeployedPath
    ways: tuple[Way, ...]

    @property
    def source(self) -> str:
        """The task whose releases count."""
        return self.path.source

    @property
    def oldest(self) -> bool:
        """Of several ways, do the oldest data count?"""
        return self.path.kind == "age"


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything that is measured over several apps; the marks of each link by their numbers."""

    measured: tuple[EndToEnd, ...]
    of_link: Mapping[str, tuple[Mark, ...]]

    @property
    def ways(self) -> Iterator[tuple[Way, EndToEnd | Mark]]:
        """All ways, each with what it is for."""
        for measured in self.measured:
            yield from ((way, measured) for way in measured.ways)
        for marks in self.of_link.values():
            for mark in marks:
                yield from ((way, mark) for way in mark.ways)

    @property
    def released_by(self) -> frozenset[str]:
        """The tasks whose releases are asked for."""
        return frozenset(way.path.source for way, _ in self.ways if way.mark is None)


def marks_of(deployment: Deployment) -> Marks:
    """What is measured in a program without states."""
    search = _Search(deployment)
    measured = []
    for app in deployment.apps:
        for path in app.paths:
            if path.kind in ("age", "reaction"):
                avoided = frozenset([app.name])
                ways = search.ways(path.sink, path.source, path.kind == "age", avoided)
                measured.append(EndToEnd(path, ways))
    return Marks(tuple(measured), {link: tuple(marks) for link, marks in search.marks.items()})


class _Search:
    def __init__(self, deployment: Deployment) -> None:
        self.marks: dict[str, list[Mark]] = {}
        self._apps: dict[str, DeployedApp] = {}
        self._links: dict[str, LinkCode] = {}
        self._puts: dict[str, str] = {}
        for app in deployment.apps:
            for task in app.tasks:
                self._apps[task.name] = app
                if isinstance(task.code, LinkCode):
                    self._links[task.name] = task.code
                    if task.code.end == "put":
                        self._puts[task.code.link] = task.name

    def ways(
        self, sink: str, source: str, oldest: bool, avoided: frozenset[str]
    ) -> tuple[Way, ...]:
        """The ways from a source to a task: within its app, or through the links that it reads."""
        found = []
        for path in self._apps[sink].paths:
            if path.sink != sink or path.kind not in ("path", "part"):
                continue
            if path.source == source:
                found.append(Way(path, None))
            elif path.source in self._links:
                link = self._links[path.source].link
                number = self._number(link, source, oldest, avoided)
                if number is not None:
                    found.append(Way(path, number))
        return tuple(found)

    def _number(self, link: str, source: str, oldest: bool, avoided: frozenset[str]) -> int | None:
        """The number of a mark on a link; None if no data of the source come there."""
        put = self._puts[link]
        app = self._apps[put].name
        if app in avoided:
            return None
        # where no cycle leads back, all readers ask for the same
        avoided = (avoided | {app}) & self._before(app)
        known = self.marks.setdefault(link, [])
        for number, mark in enumerate(known):
            if (mark.source, mark.oldest, mark.avoided) == (source, oldest, avoided):
                return number
        ways = self.ways(put, source, oldest, avoided)
        if not ways:
            return None
        known.append(Mark(link, put, source, oldest, avoided, ways))
        return len(known) - 1

    def _before(self, app: str) -> set[str]:
        """The apps whose data come to an app over links."""
        found: set[str] = set()
        left = [app]
        while left:
            name = left.pop()
            for task, code in self._links.items():
                if self._apps[task].name == name and code.end != "put":
                    writer = self._apps[self._puts[code.link]].name
                    if writer not in found:
                        found.add(writer)
                        left.append(writer)
        return found
