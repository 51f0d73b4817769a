"""What does not wait for its reader: the newest tokens between two apps, and those of a source.

Nothing else in a program is ever dropped. What is dropped here is counted.
"""

from __future__ import annotations

import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Sequence,
)

import numpy as np

from .code import Code
from .fresh import Chooser, Sampler
from .graph import FOREVER, LONGEST_AGO, App, Task
from .mailbox import Marks, NewestTokens
from .tokens import Port

if TYPE_CHECKING:
    from .program import Program
    from .run import Run
    from .scenario import State

#: Tells of a firing the release of the data behind it.
Release = Callable[[int], Optional[int]]
#: Seconds in which a source that goes on by itself may see that the program ends.
PATIENCE = 0.15


class Mark(NamedTuple):
    """What is asked for of the data of a source behind a token: of several ways, the release of the
    `oldest` ones, or of the newest. No way leads through the apps that are `avoided`."""

    source: str
    oldest: bool
    avoided: FrozenSet[str] = frozenset()


class Link:
    """The newest tokens of a task for another app. They stay where a state of the program stops one
    of the two."""

    def __init__(self, program: Program, name: str, keep: int) -> None:
        self.run, self.name = program.run, name
        self.place = NewestTokens(keep)
        #: All of the program, this one among them.
        self.all = program.links
        #: Does its reader look at the newest token, whether it has seen it or not? Then nothing
        #: counts as dropped.
        self.looked_at = False
        #: The app that reads, and the one that writes: in a program with states, as each of them
        #: has it.
        self.reader = ""
        self.writers: List[App] = []
        #: The tasks that write, and what marks its tokens, in all states.
        self.puts: List[Put] = []
        #: How often its reader has looked at the last token of a stream that had ended.
        self.after_end = 0
        self.marks: List[Mark] = []

    @staticmethod
    def of(program: Program, name: str, keep: int) -> Link:
        """The link of that name, which both its ends ask for."""
        link: Link = program.links.setdefault(name, Link(program, name, keep))
        return link

    def place_of(self, mark: Mark) -> int:
        """The place of a mark among those of a token."""
        if mark not in self.marks:
            self.marks.append(mark)
        return self.marks.index(mark)

    def ended(self) -> bool:
        """The stream of its writer has ended, in whatever state: an app that a state stops goes on
        later."""
        return any(app.exhausted and app.done >= app.limit for app in self.writers)

    def cut(self) -> bool:
        """Has its writer made all frames that were asked for, though its stream goes on? Not in a
        program with states, where an app goes on later."""
        in_states = self.run.state is not None
        return not in_states and bool(self.writers) and self.dry() and not self.ended()

    def dry(self) -> bool:
        """Its writer has made all frames that it will make; only for programs without states."""
        return all(app.limit < FOREVER and app.done >= app.limit for app in self.writers)


class _End(Code):
    def __init__(self, link: Link) -> None:
        self.link = link

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        pass


class Put(_End):
    """A sink that puts each token on a link."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        #: The task that it is in each state.
        self.tasks: List[Task] = []
        self._releases: Dict[App, Dict[int, Release]] = {}
        #: What marks tokens while the apps of a state run.
        self._making: Dict[Optional[State], List[Optional[Release]]] = {}

    def meet(self, task: Any, run: Any) -> None:
        self.tasks.append(task)
        self.link.writers.append(task.app)
        if self not in self.link.puts:
            self.link.puts.append(self)

    def marked(self, app: App) -> Dict[int, Release]:
        """The marks that it makes while that app runs, by their places."""
        return self._releases.setdefault(app, {})

    def mark(self, app: App, number: int, release: Release) -> None:
        """While that app runs, make one more mark, which `release` tells of a firing."""
        self.marked(app)[number] = release

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        marks: Marks = ()
        if self._releases:
            made = self._made(self.link.run)
            marks = tuple([None if release is None else release(firing) for release in made])
        self.link.place.put(inputs[0], None, marks)

    def _made(self, run: Run) -> List[Optional[Release]]:
        """What makes the marks in the state that the program is in."""
        made = self._making.get(run.state)
        if made is None:
            running = [self._releases[app] for app in run.running if app in self._releases]
            releases = running[0] if running else {}
            made = [releases.get(number) for number in range(len(self.link.marks))]
            self._making[run.state] = made
        return made


class Reader(_End):
    """A source that reads a link; it knows the marks of the tokens of its latest firings."""

    hands_on = True

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._marks: List[Marks] = [()] * LONGEST_AGO
        #: Who is told which token a firing found (None: none yet), where that is recorded; and its
        #: marks, where another part asks for them.
        self.told: Optional[Callable[[int, Optional[int]], None]] = None
        self.told_marks: Optional[Callable[[int, Marks], None]] = None
        #: The task that it is in each state.
        self.tasks: List[Task] = []

    @property
    def finds_in(self) -> Any:
        return self.link

    def meet(self, task: Any, run: Any) -> None:
        self.tasks.append(task)
        self.link.reader = task.app.name

    def found(self, firing: int, marks: Marks) -> None:
        """A firing has found a token with these marks."""
        self._marks[firing % LONGEST_AGO] = marks
        if self.told_marks is not None:
            self.told_marks(firing, marks)

    def mark_of(self, firing: int, place: int) -> Optional[int]:
        """One mark of the token that a firing has found; None where it has no such."""
        marks = self._marks[firing % LONGEST_AGO]
        return marks[place] if place < len(marks) else None


class Latest(Reader, Chooser):
    """A source that looks at the newest token of a link, again and again; before the first one it
    hands on zeros, or an empty list.

    It ends with the last stream that its own app looks at. A limit on frames holds for its own app
    as for any other.
    """

    def meet(self, task: Any, run: Any) -> None:
        super().meet(task, run)
        self.link.looked_at = True

    def chooses_in(self, app: App) -> bool:
        return app.period is None

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        port = outputs[0]
        self._first: Any = [] if port.count else np.zeros(port.shape, port.dtype)
        reader = self.link.reader
        self._links = [link for link in self.link.all.values() if link.reader == reader]

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        found = self.link.place.newest(firing, self._over)
        if self.told is not None:
            self.told(firing, None if found is None else found.number)
        if found is None:
            self.found(firing, ())
            return self._first
        self.link.after_end += self.link.ended()
        # no other token overwrites the last one that was asked for, whose age says nothing
        self.found(firing, () if self.link.cut() else found.marks)
        return found.token

    def _over(self) -> bool:
        return all(link.ended() for link in self._links)


class Take(Reader, Sampler):
    """A source that takes each token of a link once, and waits for the next."""

    _arrived: Optional[int] = None

    @property
    def mailbox(self) -> NewestTokens:
        place: NewestTokens = self.link.place
        return place

    def holds(self, count: int) -> bool:
        return self.link.place.holds(count) or self.link.run.ending or self.link.dry()

    def meet(self, task: Any, run: Any) -> None:
        super().meet(task, run)
        self.link.looked_at = False

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        run, place = self.link.run, self.link.place
        found = place.take(firing, lambda: run.ending or self.link.dry())
        if self.told is not None:
            self.told(firing, found.number)
        self._arrived, self.taken = found.came, firing + 1
        self.found(firing, found.marks)
        return found.token

    def arrived(self) -> Optional[int]:
        return self._arrived


class Dropping(Sampler):
    """A source that goes on while its tokens are not taken: the newest `keep` of them wait, older
    ones are dropped."""

    def __init__(self, program: Program, code: Code, keep: int) -> None:
        self.run, self.code, self.place = program.run, code, NewestTokens(keep)
        self.inner = code
        self._thread: Optional[threading.Thread] = None
        self._failed: List[BaseException] = []
        self._arrived: Optional[int] = None

    def open(self, home: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.code.open(home, inputs, outputs)

    @property
    def mailbox(self) -> NewestTokens:
        place: NewestTokens = self.place
        return place

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="source", daemon=True)
            self._thread.start()

    def holds(self, count: int) -> bool:
        return self.place.holds(count) or self.run.ending

    def fire(self, inputs: Sequence[np.ndarray], firing: int) -> Any:
        self.begin()
        try:
            found = self.place.take(firing, lambda: self.run.ending)
        except StopIteration:
            if not self._failed:
                raise
            # where the task goes on after errors, its next firing lets the source go on
            error = self._failed.pop()
            if self._thread is not None:
                # it has closed the place, which is the last thing it does
                self._thread.join(PATIENCE)
            self._thread, self.place.closed = None, False
            raise error from None
        self._arrived, self.taken = found.came, firing + 1
        return found.token

    def _run(self) -> None:
        number = 0
        try:
            while not self.run.ending:
                token = self.code.fire((), number)
                self.place.put(token, self.code.arrived())
                number += 1
        except StopIteration:
            pass
        except BaseException as error:  # it is the source's failure, told by who waits for it
            self._failed.append(error)
        self.place.close()

    def arrived(self) -> Optional[int]:
        return self._arrived

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE)
        if self.code.closes_inside or self._thread is None or not self._thread.is_alive():
            self.code.close()
