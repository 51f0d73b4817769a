"""The lists of a text beside the answer of `map`.

In: a text and its profile. Out: for each list that a task writes, how many tokens it had when it
was measured, and with how many a search counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...model.profile import Profile
from ..text.check import Valid


@dataclass(frozen=True, slots=True)
class CountedList:
    """A port of a task with lists `up to` a limit: `mean` and `most` tokens as in the profile
    (None: not measured). The search balanced with `balanced`, proofs count with `limit`."""

    task: str
    port: str
    mean: float | None
    most: int | None
    balanced: float
    limit: int


def counted_lists(valid: Valid, profile: Profile | None) -> Iterator[CountedList]:
    """The lists that the tasks of a text write. Apps with a period are balanced with their worst
    case."""
    entries = () if profile is None else profile.entries
    seen = {(e.subject, s.port): s for e in entries if e.on_cpu for s in e.lists}
    for app in valid.system.apps:
        for task in app.tasks:
            for port in task.list_ports:
                if port.direction == "in":
                    continue
                length, limit = seen.get((task.name, port.name)), port.rates[0]
                if length is None:
                    yield CountedList(task.name, port.name, None, None, limit, limit)
                    continue
                balanced = length.mean if app.period_ns is None else limit
                yield CountedList(task.name, port.name, length.mean, length.most, balanced, limit)
