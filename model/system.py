"""The contents of one `.flow` text with the files it includes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .application import Application, Task, all_tasks
from .mapping import ClockPin, Pin
from .platform import Platform
from .scenario import Scenario


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """A declared task, with the arguments of one of its instances or with its defaults. `guessed`:
    it has neither, and its sizes depend on them."""

    task: Task
    guessed: bool


@dataclass(frozen=True, slots=True)
class System:
    """The compiled text. `stem` names the outputs; `sources` are the texts read, for excerpts (path
    -> text).

    `others` are the apps with other variants of their networks, so that each variant occurs;
    `other_pins` are for tasks that occur only there. With a `scenario`, `apps` are all apps as they
    are without states, and `clocks` the clock rates that the text sets. `in_c` are the tasks with
    code in C that the text declares, also without an instance in `apps`.
    """

    stem: str
    path: str
    apps: tuple[Application, ...]
    platforms: tuple[Platform, ...]
    pins: tuple[Pin, ...]
    sources: dict[str, str]
    others: tuple[tuple[Application, ...], ...] = ()
    other_pins: tuple[Pin, ...] = ()
    scenario: Scenario | None = None
    clocks: tuple[ClockPin, ...] = ()
    in_c: tuple[DeclaredTask, ...] = ()

    def with_apps(self, apps: tuple[Application, ...]) -> System:
        """The same text with these apps alone, and their pins."""
        names = {task.name for task in all_tasks(apps)}
        pins = tuple(p for p in (*self.pins, *self.other_pins) if p.task in names)
        return replace(self, apps=apps, pins=pins, others=(), other_pins=(), scenario=None)
