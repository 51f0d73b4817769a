"""When a source that drops tokens fires: when a task waits for tokens of the iteration, so that the
token is the newest one at that moment, and does not become old while it waits for its reader.

Sources whose tokens come together in a task fire for the same demand, the first one: a source that
waited until its own reader has all else would begin late, and its time would add to the others'. In
an app with a period they wait for no demand, only for iterations before: bounds count from data.

In: a wired program. Out: a `Gate` for each source that drops (`drop oldest`, a live source that
drops, and `latest` in an app without a period). `codegen/frames.py` has the same for C++.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Sequence, Set, Tuple

from .channel import LocalChannel, WaitingPlace
from .code import Code
from .mailbox import LOOK, NewestTokens

if TYPE_CHECKING:
    from .channel import Channel, Waiter
    from .graph import App, Fire, Task
    from .program import Program


class Chooser(Code):
    """A source that chooses its token when it fires."""

    def chooses_in(self, app: App) -> bool:
        """Does it choose in that app, too?"""
        return True

    def wired(self, task: Any, program: Any) -> None:
        # a recording says what a source finds
        if self.chooses_in(task.app) and not program.run.replayed:
            _add_gate(program, task)


class Sampler(Chooser):
    """A source whose tokens wait in a mailbox until it fires; `taken` counts its firings."""

    taken = 0

    @property
    @abc.abstractmethod
    def mailbox(self) -> NewestTokens:
        """Where its tokens wait."""

    @abc.abstractmethod
    def holds(self, count: int) -> bool:
        """Are so many tokens there, as many as are kept, or all that will come?"""

    def begin(self) -> None:
        """Let what it reads go on by itself, if it does not yet."""


class Gate(WaitingPlace):
    """Lets a source fire once a task waits for tokens of that iteration, from it or from one of the
    sources `beside` it, fewer than `under_way` iterations of its app are under way (None: any
    number), and the sources beside it have a token, too."""

    def __init__(self, task: Task, under_way: Optional[int], beside: Sequence[Task]) -> None:
        WaitingPlace.__init__(self)
        self._app, self._under_way = task.app, under_way
        self._code = task.code
        self._per_iteration = task.per_iteration
        #: Where tasks wait for tokens, and how many of them an iteration has.
        self._places = [place for source in (task, *beside) for place in _places(source)]
        #: Does it wait for no demand? With a period, an iteration begins when it may.
        self._asked = task.app.period is not None or not self._places
        self._asked |= not all(_waits(channel) for channel, _ in self._places)
        self._beside = [(t.per_iteration, t.code) for t in beside if isinstance(t.code, Sampler)]
        self.destination = task.name
        self.source = ", ".join(dict.fromkeys(c.destination for c, _ in self._places))
        for channel, _ in self._places:
            channel.gates.append(self)
        if under_way is not None:
            task.app.gates.append(self)
        for _, other in self._beside:
            other.mailbox.gates.append(self)

    def enter(self, firing: int, waiter: Waiter) -> None:
        """Wait until that firing may begin."""
        if self._code.shut is not None:
            return  # the task is opened again first, whatever its readers want
        if isinstance(self._code, Sampler):
            self._code.begin()
        iteration = firing // self._per_iteration
        if self._is_wanted(iteration) and self._has_company(iteration):
            return
        with self._changed:
            while not self._is_wanted(iteration):
                self._wait(waiter, "demand")
            while firing % self._per_iteration == 0 and not self._has_company(iteration):
                waiter.check()
                # data from outside may take as long as they like, which is no deadlock
                self._changed.wait(LOOK)
                waiter.check()

    def _is_wanted(self, iteration: int) -> bool:
        if self._under_way is not None and iteration - self._app.done >= self._under_way:
            return False
        return self._asked or any(c.asked > iteration * tokens for c, tokens in self._places)

    def _has_company(self, iteration: int) -> bool:
        """Has every source beside it the first token of that iteration, or read it before?"""
        for per_iteration, other in self._beside:
            missing = iteration * per_iteration + 1 - other.taken
            if missing > 0 and not other.holds(missing):
                return False
        return True


def _places(source: Task) -> Iterator[Tuple[Channel, int]]:
    """Where the tokens of a source go, and how many it writes there in an iteration."""
    for port, channels in zip(source.outputs, source.readers):
        for channel in channels:
            yield channel, source.per_iteration * port.rates[0]


def _waits(channel: Channel) -> bool:
    """Does the reader of a source's tokens wait for those of its iteration? Tasks in the worker of
    the source fire after it, and behind initial tokens they take those of an earlier one."""
    return not isinstance(channel, LocalChannel) and not channel.delay


def _add_gate(program: Program, task: Task) -> None:
    """Give a source that chooses its gate, where another worker or source may let it wait."""
    app = task.app
    sources = [t for t in app.tasks if isinstance(t.code, Chooser) and t.code.chooses_in(app)]
    workers = [p.order for p in program.processors if any(e.task.app is app for e in p.order)]
    parts = _parts(program, app)
    beside = [
        other
        for other in sources
        if other is not task and parts[other.number] == parts[task.number]
    ]
    if len(workers) > 1 or beside:
        whole = len(set(parts.values())) == 1 and program.run.transport is None
        under_way = _under_way(app, sources, workers) if whole else None
        task.gate = Gate(task, under_way, beside)
        program.run.wakers.append(task.gate.wake)


def _parts(program: Program, app: App) -> Dict[int, int]:
    """Of the tasks of an app, by number: which of them are connected by arrows, whatever their
    direction."""
    part = {task.number: task.number for task in app.tasks}
    for arrow in program.arrows:
        if arrow.source.app is app:
            one, other = part[arrow.source.number], part[arrow.destination.number]
            part = {number: one if of == other else of for number, of in part.items()}
    return part


def _under_way(
    app: App, sources: Sequence[Task], workers: Sequence[Sequence[Fire]]
) -> Optional[int]:
    """Iterations that may be under way at once: one for each stage, and for each replica of the
    last one. A deadline may allow more, and an app with a period and without one any number."""
    fresh = {task.number for task in sources}
    readers: Set[str] = {c.destination for task in sources for cs in task.readers for c in cs}
    entries = [e for order in workers for e in order if e.task.app is app]
    first = min([e.stage for e in entries if e.task.name in readers] or [0])
    behind = [e.stage + e.replicas for e in entries if e.task.number not in fresh]
    stages = max(behind or [first + 1]) - first
    if app.period is None:
        return stages
    return None if app.deadline is None else max(stages, math.ceil(app.deadline / app.period))
