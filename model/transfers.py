"""What carries tokens from machine to machine: tasks of the graph, on links, that nobody writes.

In: an app and where its tasks are. Out: on which machine each of them is, and the app without its transfers, for who
looks for places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .application import Application
from .resampling import hosts


def machines_of(app: Application, machine_of: Mapping[str, str], placed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The machine of each task, as far as it is known; of what is shared by several, that of its first processor.

    `machine_of` has those of processors, `placed` the processors of tasks.

    What stands on an arrow is where it is fired; the ends of links between apps, and open ends, are beside the task
    that they are joined to.
    """
    names = [t.name for t in app.tasks if t.name in placed]
    found = {n: machine_of[placed[n][0]] for n in names if placed[n] and placed[n][0] in machine_of}
    known = set(found)
    for task in app.tasks:
        if task.name not in found and (task.link is not None or task.border is not None):
            joined = (c for c in app.channels if task.name in (c.source, c.destination))
            beside = next((c.source if c.destination == task.name else c.destination for c in joined), "")
            found |= {task.name: found[beside]} if beside in found else {}
    for name, (host, _) in hosts(app).items():
        if host in found and name not in known:
            found[name] = found[host]
    return found


def without_transfers(app: Application) -> Application:
    """The app with the arrows that its transfers stand on."""
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
    return replace(app, tasks=tuple(t for t in app.tasks if t.name not in transfers), channels=tuple(channels))
