"""What the parts of a program tell each other of times, for paths over several machines.

In: tasks whose releases, or whose marks of tokens, another part asks for; and messages of such.
Out: messages of 8 bytes for each time behind a header, ahead of the tokens that they are about, and
what `elsewhere.py` keeps of them. A path is measured by the part where it ends.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Sequence

from .age import telling
from .elsewhere import Elsewhere
from .graph import Task
from .link import Mark, Reader
from .mailbox import Marks

if TYPE_CHECKING:
    from .program import Program
    from .transport import Transport

#: A time that is not known.
NOT_KNOWN = 0


class Asked(NamedTuple):
    """What a part asks for of a task here."""

    part: str
    task: Task
    releases: bool
    marks: Sequence[Mark]


class Stamps:
    """The times that a part tells others, and is told by them."""

    def __init__(self, program: Program, transport: Transport) -> None:
        self._run, self._transport = program.run, transport
        transport.stamps = self
        self._asked: List[Asked] = []
        self._elsewhere: Dict[str, Elsewhere] = {}
        self._told_by: Dict[str, str] = {}

    # -- construction ------------------------------------------------------------------------------
    def tell(
        self,
        part: str,
        task: Task,
        releases: bool = False,
        ages: Sequence[str] = (),
        reactions: Sequence[str] = (),
    ) -> None:
        """Tell a part the releases of a task's firings, or the marks of tokens that it finds: for
        ages and reactions from those tasks."""
        self._asked.append(Asked(part, task, releases, _marks(ages, reactions)))
        self._transport.told.add(part)

    def elsewhere(
        self,
        part: str,
        name: str,
        firings: int = 1,
        releases: bool = False,
        ages: Sequence[str] = (),
        reactions: Sequence[str] = (),
    ) -> Elsewhere:
        """A task of another part, with so many firings per iteration, which tells that of it."""
        marks = _marks(ages, reactions)
        task = self._elsewhere[name] = Elsewhere(self._run, name, firings, marks)
        if releases or marks:
            self._told_by[name] = part
            self._transport.told.add(part)
        return task

    def prepare(self) -> None:
        """Once all tasks know their readers: tell from now on."""
        for task in {id(asked.task): asked.task for asked in self._asked}.values():
            asked = [a for a in self._asked if a.task is task]
            parts = [a.part for a in asked if a.releases]
            if parts:
                task.keep_releases()
                task.told = partial(self._tell_release, parts, task.name)
            marks = [_Telling(a, task) for a in asked if a.marks]
            if marks:
                assert isinstance(task.code, Reader)
                task.code.told_marks = partial(self._tell_marks, marks, task.name)

    # -- messages ----------------------------------------------------------------------------------
    def _tell_release(self, parts: Sequence[str], name: str, firing: int, time: int) -> None:
        for part in parts:
            self._tell(part, False, firing, [time], name)

    def _tell_marks(
        self, tellings: Sequence[_Telling], name: str, firing: int, marks: Marks
    ) -> None:
        for told in tellings:
            self._tell(told.part, True, firing, told.of(firing), name)

    def _tell(
        self, part: str, of_marks: bool, firing: int, times: Sequence[Optional[int]], name: str
    ) -> None:
        known = [NOT_KNOWN if time is None else time for time in times]
        body = struct.pack("<%dq" % len(known), *known) + name.encode()
        self._transport.stamp(part, of_marks, firing, len(known), body)

    def heard(
        self, part: str, offset: int, of_marks: bool, firing: int, count: int, body: bytes
    ) -> None:
        """A part whose clock is `offset` ahead tells of a firing. Raises ValueError for what was
        not asked for, LookupError for a task that is not known."""
        times = struct.unpack_from("<%dq" % count, body)
        name = body[8 * count :].decode()
        if self._told_by[name] != part:
            raise ValueError("part %s tells of %s" % (part, name))
        here = [None if time == NOT_KNOWN else time - offset for time in times]
        self._elsewhere[name].heard(of_marks, firing, here)


class _Telling:
    """Which marks of a reader's tokens a part is told."""

    def __init__(self, asked: Asked, task: Task) -> None:
        self.part = asked.part
        self._marks = [telling(task, mark) for mark in asked.marks]

    def of(self, firing: int) -> List[Optional[int]]:
        """Those of a firing."""
        return [None if mark is None else mark(firing) for mark in self._marks]


def _marks(ages: Sequence[str], reactions: Sequence[str]) -> List[Mark]:
    return [*(Mark(name, True) for name in ages), *(Mark(name, False) for name in reactions)]
