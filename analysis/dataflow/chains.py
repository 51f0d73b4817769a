"""Chains: ways of data through several apps, over the mailboxes between them.

In: apps, a source in one of them and a task in another. Out: all ways from the one to the other,
app by app. Cause-effect chains in the words of Becker et al., "End-to-end timing analysis of
cause-effect chains in automotive embedded systems", 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...model.application import Application, reached

#: So many ways of a chain are looked at.
MOST_WAYS = 64


@dataclass(frozen=True, slots=True)
class ChainPart:
    """The part of a chain in one app: the task at which it enters, a source of the app, and the one
    with which it leaves. `keep`: from a mailbox in front of it a reader takes each of so many
    tokens once; None where it looks at the newest one, or at the source of the chain."""

    app: str
    entry: str
    exit: str
    keep: int | None = None


def chain_ways(
    apps: Sequence[Application], source: str, sink: str
) -> tuple[tuple[ChainPart, ...], ...]:
    """All ways from a source to a task, MOST_WAYS at most. None comes through an app twice."""
    found = []
    for way in _Ways(apps, sink).from_task(source, None, ()):
        found.append(way)
        if len(found) == MOST_WAYS:
            break
    return tuple(found)


class _Ways:
    """The ways to a task."""

    def __init__(self, apps: Sequence[Application], sink: str) -> None:
        self.sink = sink
        self.app_of = {t.name: app for app in apps for t in app.tasks}
        self.readers = {}
        for app in apps:
            for task in app.tasks:
                if task.link is not None and not task.link.writes:
                    self.readers[task.link.name] = task

    def from_task(
        self, entry: str, keep: int | None, before: tuple[ChainPart, ...]
    ) -> Iterator[tuple[ChainPart, ...]]:
        """The ways that enter an app at a task; none where the app is not there."""
        app = self.app_of.get(entry)
        if app is None or app.name in (part.app for part in before):
            return
        behind = {entry} | reached(entry, app.channels)
        if self.sink in behind:
            yield (*before, ChainPart(app.name, entry, self.sink, keep))
        for task in app.tasks:
            if task.name not in behind or task.link is None or not task.link.writes:
                continue
            reader = self.readers.get(task.link.name)
            if reader is not None and reader.link is not None:
                part = ChainPart(app.name, entry, task.name, keep)
                taken = None if reader.link.latest else reader.link.keep
                yield from self.from_task(reader.name, taken, (*before, part))
