"""How old data are that come through several apps: from the release of the newest data of a source
behind a firing, over the mailboxes between apps, to the end of that firing.

No stamp travels inside an app: paths tell by arithmetic which firing of a source is behind another
one. Only a token in a mailbox has marks, the release of each source that is asked for.
"""

from fractions import Fraction
from typing import List, Optional

from .graph import LONGEST_AGO, Path, Task
from .link import Link, Reader


class Age(Path):
    """From a source of another app to a task; a firing whose data are not known counts as none."""

    def __init__(self, source: Task, sink: Task, deadline: Optional[str] = None) -> None:
        super().__init__(source, sink, (), None if deadline is None else Fraction(deadline))
        sink.app.paths.append(self)
        self._origins: List[Origin] = []

    def prepare(self) -> None:
        """Once all tasks are known: find the ways to the source."""
        self._origins = origins(self.sink, self.source)
        self.sink.paths.append(self)

    def ended(self, firing: int, time_ns: int) -> None:
        """A firing of the sink is over."""
        release = oldest(self._origins, firing)
        if release is not None:
            self.took(firing, time_ns - release, time_ns)


class Origin:
    """Tells of a firing the release of the newest data of a source behind it, along one path: that
    of the source itself, or the mark of the token that the reader of a mailbox found."""

    def __init__(self, path: Path, reader: Optional[Reader] = None, mark: int = 0) -> None:
        self._path, self._reader, self._mark = path, reader, mark

    def release(self, firing: int) -> Optional[int]:
        """In ns; None where there are no such data yet."""
        number = self._path.number(firing)
        if number < 0:
            return None
        if self._reader is None:
            releases = self._path.source.releases
            return releases[number % len(releases)]
        marks = self._reader.marks[number % LONGEST_AGO]
        return marks[self._mark] if self._mark < len(marks) else None


def oldest(ways: List[Origin], firing: int) -> Optional[int]:
    """The earliest of the releases along all ways; None where one of them has no data yet."""
    earliest: Optional[int] = None
    for way in ways:
        release = way.release(firing)
        if release is None:
            return None
        if earliest is None or release < earliest:
            earliest = release
    return earliest


def origins(task: Task, source: Task) -> List[Origin]:
    """The ways from a source to a task: within its app, or through the mailboxes that it reads."""
    ways: List[Origin] = []
    for path in task.app.paths:
        if path.sink is not task or isinstance(path, Age):
            continue
        if path.source is source:
            ways.append(Origin(path))
        elif isinstance(path.source.code, Reader):
            mark = _marked(path.source.code.link, source)
            if mark is not None:
                ways.append(Origin(path, path.source.code, mark))
    return ways


def _marked(link: Link, source: Task) -> Optional[int]:
    """The place among the marks of a mailbox's tokens of that source; None if its data do not come
    there."""
    if source in link.marked:
        return link.marked.index(source)
    put = next((put for put in link.puts if put.task is not None), None)
    if put is None or put.task is None:
        return None
    link.marked.append(source)
    number = len(link.marked) - 1
    ways = origins(put.task, source)
    if not ways:
        link.marked.pop()
        return None
    put.mark(lambda firing: oldest(ways, firing))
    return number
