"""`latest` between two apps as channels of HOPES that keep the newest token (`overwritable`).

In: a system. Out: its apps, and the channels. Both ends of a link are tasks that copy a token
between such a channel and a queue; code of HOPES that writes or reads the newest token itself needs
no such task at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....model.application import Application, Channel, Link, Port, Task, all_tasks
from ....model.diagnostic import Diagnostic
from ....model.system import System
from .kept import KeptNames

#: The port of an end of a link that leads to the other app.
PORT = "newest"


@dataclass(frozen=True, slots=True)
class NewestEnd:
    """A port that writes or reads the newest token, of a task of the text."""

    task: str
    port: Port


@dataclass(frozen=True, slots=True)
class Newest:
    """A channel between two apps that keeps the newest token."""

    source: NewestEnd
    destination: NewestEnd


def joined(system: System, kept: KeptNames) -> tuple[System, tuple[Newest, ...]]:
    """The system without the ends that code of HOPES replaces, and the channels that keep the
    newest token."""
    ends: dict[tuple[str, bool], NewestEnd] = {}
    apps = []
    for app in system.apps:
        left, found = _ends(app, kept)
        apps.append(left)
        ends |= found
    names = dict.fromkeys(name for name, _ in ends)
    return replace(system, apps=tuple(apps)), tuple(
        Newest(ends[n, True], ends[n, False]) for n in names
    )


def _ends(
    app: Application, kept: KeptNames
) -> tuple[Application, dict[tuple[str, bool], NewestEnd]]:
    """Name of a link, and whether this is its writing end."""
    ends: dict[tuple[str, bool], NewestEnd] = {}
    gone: set[str] = set()
    for task in app.tasks:
        link = task.link
        if link is None or not link.latest:
            continue
        replacing = _replacing(task, link, app, kept)
        if replacing is None:
            replacing = NewestEnd(task.name, port_of(task, link))
        else:
            gone.add(task.name)
        ends[link.name, link.writes] = replacing
    left = replace(
        app,
        tasks=tuple(t for t in app.tasks if t.name not in gone),
        channels=tuple(c for c in app.channels if not {c.source, c.destination} & gone),
    )
    return left, ends


def _replacing(task: Task, link: Link, app: Application, kept: KeptNames) -> NewestEnd | None:
    """The port of code of HOPES that does the work of an end of a link; None if there is none."""
    channels = [c for c in app.channels if task.name in (c.source, c.destination)]
    if len(channels) != 1 or channels[0].delay:
        return None
    name, port = _far(channels[0], link.writes)
    if (name, port) not in kept.newest:
        return None
    return NewestEnd(name, app.task(name).port(port))


def _far(channel: Channel, writes: bool) -> tuple[str, str]:
    """The port at the other end of an arrow to or from an end of a link."""
    if writes:
        return channel.source, channel.source_port
    return channel.destination, channel.destination_port


def port_of(task: Task, link: Link) -> Port:
    """The port of an end of a link that leads to the other app."""
    own = (*task.inputs, *task.outputs)[0]
    return replace(own, name=PORT, direction="out" if link.writes else "in")


def refusals(system: System, kept: KeptNames, looks: tuple[Newest, ...]) -> Iterator[Diagnostic]:
    """Errors for code of HOPES that writes or reads the newest token at a port that is a queue now.
    `system` lacks the replaced ends."""
    used = set()
    for look in looks:
        for end in (look.source, look.destination):
            used.add((end.task, end.port.name))
    queues = set()
    for app in system.apps:
        for c in app.channels:
            queues.add((c.source, c.source_port))
            queues.add((c.destination, c.destination_port))
    spans = {task.name: task.span for task in all_tasks(system.apps)}
    for name, port in sorted(kept.newest - (used - queues)):
        if name in spans:
            what = "without an arrow"
            if (name, port) in queues:
                what = "as a queue"
            message = (
                f"`{name}` runs code of HOPES, `{kept.own[name].file.name}`, which does not support"
                f" its port `{port}` {what}"
            )
            help_text = "join it with another app by `latest`, or give it code of your own"
            yield Diagnostic("F736", message, spans[name], help=help_text)
