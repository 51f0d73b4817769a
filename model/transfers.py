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
    machines: dict[str, str] = {}
    for task in app.tasks:
        processors = placed.get(task.name)
        if processors and processors[0] in machine_of:
            machines[task.name] = machine_of[processors[0]]
    known = set(machines)
    for task in app.tasks:
        if task.name not in machines and (task.link is not None or task.border is not None):
            neighbor = _neighbor(task.name, app)
            if neighbor in machines:
                machines[task.name] = machines[neighbor]
    for name, (host, _) in hosts(app).items():
        if host in machines and name not in known:
            machines[name] = machines[host]
    return machines


def _neighbor(task: str, app: Application) -> str:
    """The task at the other end of its first channel; empty without one."""
    for channel in app.channels:
        if channel.destination == task:
            return channel.source
        if channel.source == task:
            return channel.destination
    return ""


def without_transfers(app: Application) -> Application:
    """The app with plain arrows in place of its transfers."""
    transfers = {t.name for t in app.tasks if t.transfer is not None}
    if not transfers:
        return app
    before = {c.destination: c for c in app.channels if c.destination in transfers}
    channels = []
    for channel in app.channels:
        if channel.destination in transfers:
            continue
        if channel.source in transfers:
            first = before[channel.source]
            end = f"{channel.destination}.{channel.destination_port}"
            name = f"{first.source}.{first.source_port}->{end}"
            channel = replace(
                channel, name=name, source=first.source, source_port=first.source_port
            )
        channels.append(channel)
    tasks = tuple(task for task in app.tasks if task.name not in transfers)
    return replace(app, tasks=tasks, channels=tuple(channels))
