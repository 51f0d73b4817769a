"""Everything that one `.flow` text (with what it uses) says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .application import Application
from .mapping import ClockPin, Pin
from .platform import Platform
from .scenario import Scenario


@dataclass(frozen=True, slots=True)
class System:
    """The compiled text. `stem` names the outputs; `sources` are the texts read, for excerpts (path -> text).

    `others` are the apps again with other variants of their networks, so that each variant is somewhere; `other_pins`
    speak of tasks that are there only. With a `scenario`, `apps` are all of them, each as it is without states, and
    `clocks` are clock rates that the text asks for.
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

    def with_apps(self, apps: tuple[Application, ...]) -> System:
        """The same text as if it had these apps alone, with the pins that speak of them."""
        names = {t.name for a in apps for t in a.tasks}
        pins = tuple(p for p in (*self.pins, *self.other_pins) if p.task in names)
        return replace(self, apps=apps, pins=pins, others=(), other_pins=(), scenario=None)
