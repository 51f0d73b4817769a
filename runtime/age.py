"""How old data are that come through several apps, and how soon an output knows of an event.

In: a source and a task, which may be in another app. Out: the latencies of an *age*, from the
release of the newest data of the source behind a firing to the end of that firing; or of a
*reaction*, from an event just after the release of the data that the last output knew, to the end
of the first one that knows newer data.

No stamp travels inside an app: paths tell by arithmetic which firing of a source is behind another
one. Only a token in a mailbox has marks, the releases of the sources that are asked for. Data that
come from before the state that a program is in do not count.
"""

from fractions import Fraction
from typing import List, Optional

from .graph import LONGEST_AGO, App, Path, Task
from .link import Link, Mark, Reader


class Age(Path):
    """From a source to a task; a firing whose data are not known counts as none."""

    kind = "age"
    #: Of several ways, the oldest data count.
    oldest = True

    def __init__(self, source: Task, sink: Task, deadline: Optional[str] = None) -> None:
        super().__init__(source, sink, (), None if deadline is None else Fraction(deadline))
        sink.app.paths.append(self)
        self._origins: List[Origin] = []

    def prepare(self) -> None:
        """Once all tasks are known: find the ways to the source."""
        mark = Mark(self.source.name, self.oldest)
        self._origins = origins(self.sink, self.source, mark)
        if self._origins:
            self.sink.paths.append(self)

    def ended(self, firing: int, time_ns: int) -> None:
        """A firing of the sink is over."""
        release = release_behind(self._origins, firing, self.oldest)
        if release is not None:
            self.took(firing, time_ns - release, time_ns)


class Reaction(Age):
    """From a source to a task; counted at the first firing that knows newer data."""

    kind = "reaction"
    #: Of several ways, the first news count.
    oldest = False
    _known = 0

    def ended(self, firing: int, time_ns: int) -> None:
        """A firing of the sink is over."""
        release = release_behind(self._origins, firing, self.oldest)
        if release is None or release <= self._known:
            return
        before, self._known = self._known, release
        if before and before >= self.sink.app.since:
            self.took(firing, time_ns - before, time_ns)


class Origin:
    """Tells of a firing the release of the newest data of a source behind it, along one path: that
    of the source itself, or the mark of the token that the reader of a mailbox found."""

    def __init__(self, path: Path, reader: Optional[Reader] = None, mark: int = 0) -> None:
        self._path, self._reader, self._mark = path, reader, mark
        if reader is None:
            path.keep_releases()

    def release(self, firing: int) -> Optional[int]:
        """In ns; None where there are no such data yet."""
        number = self._path.number(firing)
        if number < 0:
            return None
        if self._reader is None:
            releases = self._path.source.releases
            return releases[number % len(releases)]
        marks = self._reader.marks[number % LONGEST_AGO]
        release = marks[self._mark] if self._mark < len(marks) else None
        if release is not None and release < self._path.source.app.since:
            return None
        return release


def release_behind(ways: List[Origin], firing: int, oldest: bool) -> Optional[int]:
    """The release of the oldest data along all ways, None where one of them has none yet; or that
    of the newest ones."""
    found: Optional[int] = None
    for way in ways:
        release = way.release(firing)
        if release is None:
            if oldest:
                return None
        elif found is None or (release < found) == oldest:
            found = release
    return found


def origins(task: Task, source: Task, mark: Mark) -> List[Origin]:
    """The ways from a source to a task: within its app, or through the mailboxes that it reads."""
    ways: List[Origin] = []
    for path in (*task.app.paths, *task.app.parts):
        if path.sink is not task or isinstance(path, Age):
            continue
        if path.source is source:
            ways.append(Origin(path))
        elif isinstance(path.source.code, Reader):
            number = _marked(path.source.code.link, source, mark, task.app.beside)
            if number is not None:
                ways.append(Origin(path, path.source.code, number))
    return ways


def _marked(link: Link, source: Task, mark: Mark, apps: List[App]) -> Optional[int]:
    """The place of a mark on a mailbox's tokens, which the app that writes to it makes from now on;
    None if no data of the source come there from these apps."""
    writers = ((put, task) for put in link.puts for task in put.tasks if task.app in apps)
    put, writer = next(writers, (None, None))
    if put is None or writer is None:
        return None
    number = link.place_of(mark)
    if number in put.marked(writer.app):
        return number
    ways = origins(writer, source, mark)
    if not ways:
        return None
    put.mark(writer.app, number, lambda firing: release_behind(ways, firing, mark.oldest))
    return number
