"""`repeat` and `last` on arrows: tasks of the graph that a mapping does not place.

In: an app. Out: the tasks whose processors fire them, a graph without them for searches, and their
placements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from .application import Application
from .mapping import Placement
from .platform import Platform


def hosts(app: Application) -> dict[str, tuple[str, str]]:
    """For each `repeat` and `last`: the tasks at both ends of its arrow, first its host.

    The host is the reader of a `repeat` and the writer of a `last`: each token changes processors
    once, and discarded tokens do not.
    """
    resampling = {t.name: t.resampling for t in app.tasks if t.resampling is not None}
    before = {c.destination: c.source for c in app.channels if c.destination in resampling}
    after = {c.source: c.destination for c in app.channels if c.source in resampling}
    ends = {}
    for name, what in resampling.items():
        source, destination = _end(name, before), _end(name, after)
        ends[name] = (destination, source) if what.word == "repeat" else (source, destination)
    return ends


def resampled(apps: Iterable[Application]) -> frozenset[str]:
    """The names of the apps that have a `repeat` or `last`."""
    return frozenset(a.name for a in apps if any(t.resampling is not None for t in a.tasks))


def _end(name: str, way: dict[str, str]) -> str:
    while name in way:
        name = way[name]
    return name


def without_resampling(app: Application) -> Application:
    """The app with plain arrows instead, whose rates do not balance: for uses of its topology
    only.
    """
    resampling = {t.name for t in app.tasks if t.resampling is not None}
    if not resampling:
        return app
    after = {c.source: c for c in app.channels if c.source in resampling}
    channels = []
    for first in (c for c in app.channels if c.source not in resampling):
        last = first
        while last.destination in after:
            last = after[last.destination]
        channels.append(
            replace(first, destination=last.destination, destination_port=last.destination_port)
        )
    tasks = tuple(t for t in app.tasks if t.name not in resampling)
    return replace(app, tasks=tasks, channels=tuple(channels))


def with_resampling(
    apps: Iterable[Application], platform: Platform, placements: Iterable[Placement]
) -> tuple[Placement, ...]:
    """The placements of tasks, and of each `repeat` and `last` between them: on its host's CPU,
    else on that of the task at the other end of the arrow, else on the first CPU of the platform.
    """
    kept = {p.task: p for p in placements}
    machine_of = platform.machine_of
    for app in apps:
        for name, ends in hosts(app).items():
            cores = [kept[end].processors[0] for end in ends]
            cpus = _cpus_of(machine_of[cores[0]], platform)
            core = next((core for core in cores if core in cpus), cpus[0])
            kept[name] = Placement(name, (core,))
    return tuple(kept.values())


def _cpus_of(machine: str, platform: Platform) -> list[str]:
    """The CPUs of a machine; those of all machines, if it has none."""
    pools = [pool for pool in platform.pools if pool.kind == "cpu"]
    own = [pool for pool in pools if pool.machine == machine]
    return list(chain.from_iterable(pool.processors for pool in own or pools))
