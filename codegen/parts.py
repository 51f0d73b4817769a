"""A program for several machines, split: the tasks of each, and the channels between them.

In: the deployment of the whole program. Out: one for each machine with tasks. Orders and capacities
stay: the order of a machine is a projection of the one sequence that all follow, so a deadlock is
only possible if one process would deadlock too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from ..model.deployment import DeployedApp, DeployedCrossing, DeployedPart, Deployment
from ..model.platform import Platform
from .memory import planned


def split(whole: Deployment, platform: Platform) -> Iterator[Deployment]:
    """The parts, in the order in which the platform declares its machines; none for one machine."""
    if not platform.machines:
        return
    machine_of = platform.machine_of
    where = {e.task: machine_of[w.processor] for w in whole.processors for e in w.order}
    used = tuple(m for m in platform.machines if m in where.values())
    digest = hashlib.sha256(whole.to_json().encode()).hexdigest()
    hub = _hub(whole, where, used)
    for machine in used:
        apps = tuple(a for a in (_own(app, where, machine) for app in whole.apps) if a.tasks)
        workers = tuple(
            w for w in whole.processors if w.order and machine_of[w.processor] == machine
        )
        peers = tuple(m for m in used if m != machine)
        led = tuple(
            a.name
            for a in whole.apps
            if _elsewhere([t.name for t in a.tasks if not t.inputs], where, machine)
        )
        passed = tuple(a.name for a in whole.apps if _elsewhere(list(_last(a)), where, machine))
        part = DeployedPart(
            machine, peers, digest, led, passed, tuple(_crossings(whole, where, machine)), hub
        )
        yield replace(
            whole, apps=apps, processors=workers, planned=planned(apps, workers), part=part
        )


def _hub(whole: Deployment, where: dict[str, str], used: tuple[str, ...]) -> str | None:
    """The part with channels to the most others; None if each is connected to all others anyway."""
    near: dict[str, set[str]] = {m: set() for m in used}
    for c in (c for app in whole.apps for c in app.channels):
        a, b = where[c.source], where[c.destination]
        if a != b:
            near[a].add(b)
            near[b].add(a)
    hub = max(used, key=lambda m: len(near[m]))
    return None if all(near[m] | {m, hub} == set(used) for m in used if m != hub) else hub


def _elsewhere(tasks: list[str], where: dict[str, str], machine: str) -> bool:
    """Are there such tasks, and none of them here?"""
    return bool(tasks) and all(where[t] != machine for t in tasks)


def _last(app: DeployedApp) -> Iterator[str]:
    """The tasks that end a frame: no task reads their tokens in the same iteration. Transfers do
    not count."""
    inside = set()
    for c in app.channels:
        task = next(t for t in app.tasks if t.name == c.source)
        rates = next(p.rates for p in task.outputs if p.name == c.source_port)
        if c.delay < sum(rates) * task.firings // len(rates):
            inside.add(c.source)
    yield from (t.name for t in app.tasks if t.name not in inside and t.code.kind != "transfer")


def _own(app: DeployedApp, where: dict[str, str], machine: str) -> DeployedApp:
    """The tasks and channels of an app on a machine."""
    return replace(
        app,
        tasks=tuple(t for t in app.tasks if where[t.name] == machine),
        channels=tuple(
            c for c in app.channels if where[c.source] == where[c.destination] == machine
        ),
        paths=tuple(p for p in app.paths if where[p.source] == where[p.sink] == machine),
    )


def _crossings(
    whole: Deployment, where: dict[str, str], machine: str
) -> Iterator[DeployedCrossing]:
    """The channels between a machine and others; numbers are unique in the program."""
    crossing = [
        c for a in whole.apps for c in a.channels if where[c.source] != where[c.destination]
    ]
    for number, c in enumerate(crossing):
        if where[c.source] == machine:
            yield DeployedCrossing(
                number, True, where[c.destination], c.source, c.source_port, c.destination, c
            )
        elif where[c.destination] == machine:
            yield DeployedCrossing(
                number, False, where[c.source], c.destination, c.destination_port, c.source, c
            )
