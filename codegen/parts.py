"""A program for several machines, split: the tasks of each, and the channels between them.

In: the deployment of the whole program. Out: one for each machine with tasks. Orders and capacities
stay: the order of a machine is a projection of the one sequence that all follow, so a deadlock is
only possible if one process would deadlock too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedCrossing,
    DeployedPart,
    Deployment,
)
from ..model.platform import Platform
from .memory import planned
from .stamps import stamps


def split(whole: Deployment, platform: Platform) -> Iterator[tuple[str, Deployment]]:
    """The part of each machine, in the order in which the platform declares them; none for one
    machine."""
    if not platform.machines:
        return
    machine_of = platform.machine_of
    where = _machines(whole, machine_of)
    used = tuple(m for m in platform.machines if m in where.values())
    digest = hashlib.sha256(whole.to_json().encode()).hexdigest()
    hub = _hub(whole, where, used)
    for machine in used:
        apps = [_own(app, where, machine) for app in whole.apps]
        workers = [w for w in whole.processors if w.order and machine_of[w.processor] == machine]
        part = DeployedPart(
            machine,
            peers=tuple(m for m in used if m != machine),
            whole=digest,
            led=_apps_elsewhere(whole, _sources, where, machine),
            passed=_apps_elsewhere(whole, _last, where, machine),
            crossings=tuple(_crossings(whole, where, machine)),
            hub=hub,
            stamps=tuple(stamps(whole, where, machine)),
        )
        own = tuple(a for a in apps if a.tasks)
        memory = planned(own, workers)
        yield (
            machine,
            replace(whole, apps=own, processors=tuple(workers), planned=memory, part=part),
        )


def _machines(whole: Deployment, machine_of: Mapping[str, str]) -> dict[str, str]:
    """The machine of each task."""
    where = {}
    for worker in whole.processors:
        for entry in worker.order:
            where[entry.task] = machine_of[worker.processor]
    return where


def _hub(whole: Deployment, where: dict[str, str], used: tuple[str, ...]) -> str | None:
    """The part with channels to the most others; None if each is connected to all others anyway."""
    near: dict[str, set[str]] = {m: set() for m in used}
    for c in _crossing(whole, where):
        a, b = where[c.source], where[c.destination]
        near[a].add(b)
        near[b].add(a)
    hub = max(used, key=lambda m: len(near[m]))
    if all(near[m] | {m, hub} == set(used) for m in used if m != hub):
        return None
    return hub


def _apps_elsewhere(
    whole: Deployment,
    tasks_of: Callable[[DeployedApp], Collection[str]],
    where: dict[str, str],
    machine: str,
) -> tuple[str, ...]:
    """The apps with such tasks, of which none is on the machine."""
    names = []
    for app in whole.apps:
        tasks = tasks_of(app)
        if tasks and all(where[t] != machine for t in tasks):
            names.append(app.name)
    return tuple(names)


def _sources(app: DeployedApp) -> list[str]:
    return [t.name for t in app.tasks if not t.inputs]


def _last(app: DeployedApp) -> list[str]:
    """The tasks that end a frame. Transfers do not count."""
    return [t.name for t in app.last_tasks if t.code.kind != "transfer"]


def _own(app: DeployedApp, where: dict[str, str], machine: str) -> DeployedApp:
    """The tasks and channels of an app on a machine."""
    return replace(
        app,
        tasks=tuple(t for t in app.tasks if where[t.name] == machine),
        channels=tuple(
            c for c in app.channels if where[c.source] == where[c.destination] == machine
        ),
        paths=tuple(p for p in app.paths if where[p.sink] == machine),
    )


def _crossings(
    whole: Deployment, where: dict[str, str], machine: str
) -> Iterator[DeployedCrossing]:
    """The channels between a machine and others; numbers are unique in the program."""
    for number, c in enumerate(_crossing(whole, where)):
        if where[c.source] == machine:
            yield DeployedCrossing(
                number, True, where[c.destination], c.source, c.source_port, c.destination, c
            )
        elif where[c.destination] == machine:
            yield DeployedCrossing(
                number, False, where[c.source], c.destination, c.destination_port, c.source, c
            )


def _crossing(whole: Deployment, where: dict[str, str]) -> list[DeployedChannel]:
    """All channels between machines."""
    crossing = []
    for app in whole.apps:
        crossing += [c for c in app.channels if where[c.source] != where[c.destination]]
    return crossing
