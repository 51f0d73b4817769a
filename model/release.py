"""Releases: what makes the data of an app with a period come, and when.

In: apps and how often their tasks fire in an iteration. Out: the release of each app with a period,
with its sources, and the conditions that flowc adds to what the text says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Literal

from .application import Application, Task
from .conditions import Condition

#: A timer of the program, data from outside, or the tokens of another app, each taken once.
SourceKind = Literal["timer", "live", "tokens"]


@dataclass(frozen=True, slots=True)
class Source:
    """A task without inputs: what releases it, the time in ns between its firings, and how many of
    its data wait at most (None: it waits itself). `writer` makes its tokens."""

    task: str
    kind: SourceKind
    period_ns: Fraction
    keep: int | None = None
    writer: str = ""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The task whose firings make the tokens that release an app, and its app."""

    app: str
    task: str


@dataclass(frozen=True, slots=True)
class Release:
    """What releases the iterations of an app, one in each `period_ns`.

    Apps on the program's clock are released together (`clocked`). Of others the phase is not known,
    unless a `trigger` releases them: in `bursts`, if it makes several tokens in an iteration.
    """

    period_ns: Fraction
    sources: tuple[Source, ...] = ()
    clocked: bool = True
    trigger: Trigger | None = None
    bursts: bool = False
    conditions: tuple[Condition, ...] = ()

    @property
    def paced(self) -> tuple[Condition, ...]:
        """What ages and reactions through the app suppose."""
        outside = [s for s in self.sources if s.kind == "live"]
        pace = tuple(Condition("pace", (s.task,), ceil(s.period_ns)) for s in outside)
        return (*pace, *self.taken)

    @property
    def taken(self) -> tuple[Condition, ...]:
        """That no data are dropped of an app that takes several in an iteration, or of several
        sources: later ones would take their places."""
        dropping = tuple(s.task for s in self.sources if s.keep is not None)
        often = any(s.period_ns != self.period_ns for s in self.sources)
        if dropping and (often or self.bursts or len(self.sources) > 1):
            return (Condition("taken", dropping),)
        return ()


def kind_of(task: Task) -> SourceKind | None:
    """What releases a task; None for one with inputs, which data of its app release."""
    if task.inputs:
        return None
    if task.link is not None and not task.link.latest:
        return "tokens"
    return "live" if task.live or task.border is not None else "timer"


def releases_of(
    apps: Iterable[Application], repetition: Mapping[str, Mapping[str, int]]
) -> dict[str, Release]:
    """The release of each app with a period."""
    return _Releases(tuple(apps), repetition).found


class _Releases:
    """The releases of apps, those of writers before those of their readers."""

    def __init__(
        self, apps: tuple[Application, ...], repetition: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._apps = {app.name: app for app in apps}
        self._firings = repetition
        self._writers: dict[str, Trigger] = {}
        for app in apps:
            for task in app.tasks:
                if task.link is not None and task.link.writes:
                    self._writers[task.link.name] = Trigger(app.name, task.name)
        self.found: dict[str, Release] = {}
        for app in apps:
            if app.period_ns is not None:
                self.found[app.name] = self._release(app, app.period_ns, ())

    def _release(self, app: Application, period_ns: Fraction, asking: tuple[str, ...]) -> Release:
        """The release of an app, while those that are `asking` wait for it."""
        if app.name in self.found:
            return self.found[app.name]
        sources = tuple(self._sources(app, period_ns))
        outside = [s for s in sources if s.kind != "timer"]
        if not outside:
            return Release(period_ns, sources)
        names = tuple(s.task for s in outside)
        if len(outside) < len(sources):
            in_phase = (Condition("phase", names), *self._whole(app, sources))
            return Release(period_ns, sources, conditions=in_phase)
        if len(outside) > 1:
            return self._free(period_ns, sources, (Condition("together", names),), app)
        (source,) = outside
        trigger = self._writers.get(source.writer) if source.kind == "tokens" else None
        writer = None if trigger is None else self._apps[trigger.app]
        if trigger is None or writer is None or writer.period_ns is None:
            return self._free(period_ns, sources, (), app)
        if writer.name in (*asking, app.name):
            in_phase = (Condition("phase", names), *self._whole(app, sources))
            return Release(period_ns, sources, conditions=in_phase)
        theirs = self._release(writer, writer.period_ns, (*asking, app.name))
        self.found[writer.name] = theirs
        apart = theirs.period_ns / self._firings[writer.name][trigger.task]
        own = apart * self._firings[app.name][source.task]
        conditions = (*theirs.conditions, *self._whole(app, sources))
        if self._waits_for_more(app, sources):
            conditions += tuple(replace(c, name="pace") for c in conditions if c.name == "apart")
            if any(task.on_error != "stop" for task in writer.tasks):
                conditions += (Condition("skips", (writer.name,)),)
        bursts = self._firings[writer.name][trigger.task] > 1
        return Release(own, sources, False, trigger, bursts, conditions)

    def _waits_for_more(self, app: Application, sources: Iterable[Source]) -> bool:
        """Does a firing count on an earlier frame, or on several of one iteration? Then a pause is
        as bad as data that come too soon. It counts on an earlier frame behind a `delay`, and where
        it reads nothing in its first phase."""
        first = {(t.name, port.name): port.rates[0] for t in app.tasks for port in t.inputs}
        for c in app.channels:
            if c.source == c.destination:
                continue
            if c.delay or not first[c.destination, c.destination_port]:
                return True
        return any(self._firings[app.name][s.task] > 1 for s in sources)

    def _whole(self, app: Application, sources: Sequence[Source]) -> tuple[Condition, ...]:
        """That no data are dropped of an iteration that takes several, or before one that counts on
        an earlier frame: older or later ones would take their places."""
        dropping = tuple(s.task for s in sources if s.keep is not None)
        if dropping and (len(sources) > 1 or self._waits_for_more(app, sources)):
            return (Condition("taken", dropping),)
        return ()

    def _free(
        self,
        period_ns: Fraction,
        sources: tuple[Source, ...],
        conditions: tuple[Condition, ...],
        app: Application,
    ) -> Release:
        """A release by data from outside."""
        more = self._waits_for_more(app, sources)
        name: Literal["pace", "apart"] = "pace" if more else "apart"
        each = tuple(Condition(name, (s.task,), ceil(s.period_ns)) for s in sources)
        conditions = (*each, *conditions, *self._whole(app, sources))
        return Release(period_ns, sources, clocked=False, conditions=conditions)

    def _sources(self, app: Application, period_ns: Fraction) -> Iterable[Source]:
        for task in app.tasks:
            kind = kind_of(task)
            if kind is None:
                continue
            link = task.link
            keep = task.keep if link is None else link.keep
            writer = "" if link is None or link.latest else link.name
            every = period_ns / self._firings[app.name][task.name]
            yield Source(task.name, kind, every, keep, writer)
