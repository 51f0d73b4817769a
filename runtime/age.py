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
from functools import partial
from typing import List, Optional, Set

from .elsewhere import Elsewhere
from .graph import App, Path, Task
from .link import Link, Mark, Reader, Release


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
        mark = Mark(self.source.name, self.oldest, frozenset([self.sink.app.name]))
        self._origins = origins(self.sink, mark)
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
    """Tells of a firing the release of the newest data of a source behind it, along one path.
    `known` tells it of a firing of the path's source."""

    def __init__(self, path: Path, known: Release) -> None:
        self._path, self._known = path, known

    def release(self, firing: int) -> Optional[int]:
        """In ns; None where there are no such data yet."""
        number = self._path.number(firing)
        return None if number < 0 else self._known(number)


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


def origins(task: Task, mark: Mark) -> List[Origin]:
    """The ways to a task from the source of a mark: within its app, or through the mailboxes that
    it reads."""
    ways: List[Origin] = []
    for path in (*task.app.paths, *task.app.parts):
        if path.sink is task and not isinstance(path, Age):
            known = telling(path.source, mark)
            if known is not None:
                ways.append(Origin(path, known))
    return ways


def telling(task: Task, mark: Mark) -> Optional[Release]:
    """Tells of a firing of a task, the source of a path, the release of the data behind it: its
    own, or the mark of the token that it has found. None if no data of the source come there."""
    if task.name == mark.source:
        task.keep_releases()
        return task.release_of
    if isinstance(task, Elsewhere):
        return task.telling(mark)
    if isinstance(task.code, Reader):
        place = _marked(task.code.link, mark, task.app.sibling_apps)
        if place is not None:
            return partial(_mark_of_state, task, task.code, place)
    return None


def _mark_of_state(task: Task, reader: Reader, place: int, firing: int) -> Optional[int]:
    """The mark that a reader has found, unless it is from before the state began."""
    release = reader.mark_of(firing, place)
    return None if release is None or release < task.app.since else release


def _marked(link: Link, mark: Mark, apps: List[App]) -> Optional[int]:
    """The place of a mark on a mailbox's tokens, which the app that writes to it makes from now on;
    None if no data of the source come there from these apps."""
    writers = ((put, task) for put in link.puts for task in put.tasks if task.app in apps)
    put, writer = next(writers, (None, None))
    if put is None or writer is None or writer.app.name in mark.avoided:
        return None
    # where no cycle leads back, all readers ask for the same
    avoided = mark.avoided.union([writer.app.name]).intersection(_before(writer.app, apps))
    mark = mark._replace(avoided=avoided)
    number = link.place_of(mark)
    if number in put.marked(writer.app):
        return number
    ways = origins(writer, mark)
    if not ways:
        return None
    put.mark(writer.app, number, lambda firing: release_behind(ways, firing, mark.oldest))
    return number


def _before(app: App, apps: List[App]) -> Set[str]:
    """The apps whose data come to an app over mailboxes, by name."""
    found: Set[str] = set()
    left = [app]
    while left:
        readers = [t.code for t in left.pop().tasks if isinstance(t.code, Reader)]
        writers = [task.app for r in readers for put in r.link.puts for task in put.tasks]
        for writer in writers:
            if writer in apps and writer.name not in found:
                found.add(writer.name)
                left.append(writer)
    return found
