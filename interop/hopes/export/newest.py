"""`latest` between two apps as channels of HOPES that keep the newest token (`overwritable`).

In: a system. Out: its apps, and the channels. Both ends of a link are tasks that copy a token
between such a channel and a queue; code of HOPES that writes or reads the newest token itself needs
no such task at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ....model.application import Application, Channel, Port, Task
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
        if task.link is None or not task.link.latest:
            continue
        channels = [c for c in app.channels if task.name in (c.source, c.destination)]
        others = {_far(c, task.link.writes) for c in channels if not c.delay}
        if len(channels) == 1 and others <= kept.newest and others:
            gone.add(task.name)
            (name, port), *_ = others
            ends[task.link.name, task.link.writes] = NewestEnd(name, app.task(name).port(port))
        else:
            ends[task.link.name, task.link.writes] = NewestEnd(task.name, port_of(task))
    left = replace(
        app,
        tasks=tuple(t for t in app.tasks if t.name not in gone),
        channels=tuple(c for c in app.channels if not {c.source, c.destination} & gone),
    )
    return left, ends


def _far(channel: Channel, writes: bool) -> tuple[str, str]:
    """The port at the other end of an arrow to or from an end of a link."""
    if writes:
        return channel.source, channel.source_port
    return channel.destination, channel.destination_port


def port_of(task: Task) -> Port:
    """The port of an end that leads to the other app."""
    assert task.link is not None
    own = (*task.inputs, *task.outputs)[0]
    return replace(own, name=PORT, direction="out" if task.link.writes else "in")


def refusals(system: System, kept: KeptNames, looks: tuple[Newest, ...]) -> Iterator[Diagnostic]:
    """Errors for code of HOPES that writes or reads the newest token at a port that is a queue now.
    `system` lacks the replaced ends."""
    used = {(end.task, end.port.name) for look in looks for end in (look.source, look.destination)}
    queues = {
        end
        for app in system.apps
        for c in app.channels
        for end in ((c.source, c.source_port), (c.destination, c.destination_port))
    }
    tasks = {t.name: t for a in system.apps for t in a.tasks}
    for name, port in sorted(kept.newest - (used - queues)):
        if name in tasks:
            file, what = (
                kept.own[name].file.name,
                "as a queue" if (name, port) in queues else "without an arrow",
            )
            message = (
                f"`{name}` runs code of HOPES, `{file}`, which does not support its port `{port}`"
                f" {what}"
            )
            help_text = "join it with another app by `latest`, or give it code of your own"
            yield Diagnostic("F736", message, tasks[name].span, help=help_text)
