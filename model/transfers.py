"""Transfers between machines: tasks of the graph, on links, that flowc adds.

In: an app and the placement of its tasks. Out: the machine of each task, and the app without its
transfers, for searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .application import Application
from .resampling import hosts


def machines_of(
    app: Application, machine_of: Mapping[str, str], placed: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The machine of each task, if known; with several processors, that of the first one.

    `machine_of` has the machines of processors, `placed` the processors of tasks.

    A `repeat` or `last` is on the machine of its host; the ends of links between apps, and open
    ends, are on that of the task that they are joined to.
    """
    names = [t.name for t in app.tasks if t.name in placed]
    found = {n: machine_of[placed[n][0]] for n in names if placed[n] and placed[n][0] in machine_of}
    known = set(found)
    for task in app.tasks:
        if task.name not in found and (task.link is not None or task.border is not None):
            joined = (c for c in app.channels if task.name in (c.source, c.destination))
            beside = next(
                (c.source if c.destination == task.name else c.destination for c in joined), ""
            )
            found |= {task.name: found[beside]} if beside in found else {}
    for name, (host, _) in hosts(app).items():
        if host in found and name not in known:
            found[name] = found[host]
    return found


def without_transfers(app: Application) -> Application:
    """The app with plain arrows in place of its transfers."""
    transfers = {t.name for t in app.tasks if t.transfer is not None}
    if not transfers:
        return app
    before = {c.destination: c for c in app.channels if c.destination in transfers}
    channels = []
    for c in app.channels:
        if c.source in transfers:
            first = before[c.source]
            name = f"{first.source}.{first.source_port}->{c.destination}.{c.destination_port}"
            c = replace(c, name=name, source=first.source, source_port=first.source_port)
        if c.destination not in transfers:
            channels.append(c)
    return replace(
        app, tasks=tuple(t for t in app.tasks if t.name not in transfers), channels=tuple(channels)
    )
