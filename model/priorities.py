"""Which app is more urgent: the numbers of the text, and deadlines where it has none.

In: apps. Out: their order. An app without a number has the number 0; among those the order is
deadline-monotonic (Leung and Whitehead, "On the complexity of fixed-priority scheduling of
periodic, real-time tasks", 1982).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from .application import Application

#: Apps that share a priority.
Level = tuple[str, ...]
#: Where an order comes from: numbers of the text, deadlines, deadlines less work, or a search.
OrderedBy = Literal["text", "deadline", "slack", "search"]


_BY: dict[OrderedBy, str] = {
    "text": "as the text has them",
    "deadline": "by deadline",
    "slack": "by deadline less work",
    "search": "found by search",
}


@dataclass(frozen=True, slots=True)
class Urgency:
    """What decides on the priority of an app: its `number` in the text, larger = more urgent (None:
    it has none), then `due_ns`, less = more urgent (None: it is never due)."""

    name: str
    number: int | None
    due_ns: Fraction | None


@dataclass(frozen=True, slots=True)
class PriorityOrder:
    """The order of all apps with periods, the most urgent first; those of a level share a priority.

    `why`: what the order by deadline would not keep, in words.
    """

    by: OrderedBy
    levels: tuple[Level, ...]
    why: str = ""

    @property
    def numbers(self) -> dict[str, int]:
        """The priority of each app, from 1 up."""
        return numbered(self.levels)

    def __str__(self) -> str:
        return " > ".join(" = ".join(level) for level in self.levels)

    @property
    def in_words(self) -> str:
        """The order, where it comes from, and why."""
        said = f"{self}: {_BY[self.by]}"
        return f"{said}; by deadline, {self.why}" if self.why else said


def priorities(apps: Iterable[Application]) -> dict[str, int]:
    """The priority of each app from 1 up, larger = more urgent.

    An app without a period beside others that have one is in the background: 0.
    """
    apps = tuple(apps)
    foreground = [app for app in apps if app.period_ns is not None] or list(apps)
    levels = by_urgency([Urgency(a.name, a.priority, a.shortest_deadline_ns) for a in foreground])
    return {**dict.fromkeys((app.name for app in apps), 0), **numbered(levels)}


def by_urgency(apps: Sequence[Urgency]) -> list[Level]:
    """The apps by priority, the most urgent first: by number, 0 where there is none, then by what
    they are due, then as they are listed.

    Apps with the same number share a priority, and so do those with neither number nor deadline.
    """
    levels: dict[tuple[int, object], list[tuple[Fraction | None, str]]] = {}
    for app in apps:
        alone = app.number is None and app.due_ns is not None
        level = app.number or 0, app.name if alone else app.number
        levels.setdefault(level, []).append((app.due_ns, app.name))
    found = []
    for (number, _), own in levels.items():
        dues = [due for due, _ in own if due is not None]
        key = -number, not dues, min(dues, default=Fraction(0))
        found.append((key, tuple(name for _, name in own)))
    return [names for _, names in sorted(found, key=lambda level: level[0])]


def numbered(levels: Sequence[Level]) -> dict[str, int]:
    """The priority of each app of these levels, of which the first one is the most urgent."""
    found = {}
    for number, names in enumerate(reversed(levels), start=1):
        found.update(dict.fromkeys(names, number))
    return found


def in_levels(priorities: Mapping[str, int]) -> tuple[Level, ...]:
    """The apps by priority, the most urgent first."""
    levels: dict[int, list[str]] = {}
    for name, number in priorities.items():
        levels.setdefault(number, []).append(name)
    return tuple(tuple(levels[number]) for number in sorted(levels, reverse=True))


def in_order(apps: tuple[Application, ...], order: PriorityOrder | None) -> tuple[Application, ...]:
    """The apps with the priorities of an order, if it has all of them that have a period and keeps
    the numbers of the text."""
    if order is None or not _keeps_numbers(apps, order):
        return apps
    numbers = order.numbers
    return tuple(replace(a, priority=numbers[a.name]) if a.name in numbers else a for a in apps)


def _keeps_numbers(apps: Iterable[Application], order: PriorityOrder) -> bool:
    paced = {app.name: app for app in apps if app.period_ns is not None}
    if paced.keys() != order.numbers.keys():
        return False
    levels = [{paced[name].priority for name in level} for level in order.levels]
    found = [number or 0 for own in levels for number in own]
    given = [number for own in levels for number in own if number is not None]
    alone = all(len(own) == 1 for own in levels) and len(given) == len(set(given))
    return alone and found == sorted(found, reverse=True)
