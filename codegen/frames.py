"""Which tasks begin and end the frames of an app, as `runtime/graph.py: App.prepare` has it, and
when sources that drop tokens fire, as `runtime/fresh.py` has it.

In: an app of a deployment. Out: the same that a program in Python finds when it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from ..model.deployment import (
    DeployedApp,
    DeployedChannel,
    DeployedPort,
    DeployedTask,
    DeployedWorker,
    Entry,
)
from .kinds.link import LinkCode


def starts_frame(app: DeployedApp, task: DeployedTask) -> bool:
    """Sources do, or all tasks where there are none."""
    return not task.inputs or all(t.inputs for t in app.tasks)


def opens(app: DeployedApp, task: DeployedTask) -> bool:
    """Can it be the first to fire in an iteration, as it begins with initial tokens?"""
    fed = list(fed_by(app, task))
    return bool(fed) and all(channel.delay >= port.rates[0] for channel, port in fed)


def fed_by(app: DeployedApp, task: DeployedTask) -> Iterator[tuple[DeployedChannel, DeployedPort]]:
    """The channels that a task reads, with its ports."""
    for channel in app.channels:
        if channel.destination == task.name:
            yield channel, next(p for p in task.inputs if p.name == channel.destination_port)


def is_latest(task: DeployedTask) -> bool:
    """Does it look at the newest token of another app, again and again?"""
    return isinstance(task.code, LinkCode) and task.code.end == "latest"


def samples(app: DeployedApp, task: DeployedTask) -> bool:
    """Does a source choose its token when it fires?"""
    if isinstance(task.code, LinkCode):
        return task.code.end == "take" or (is_latest(task) and app.period_ns is None)
    return task.keep is not None


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets a source that drops tokens fire once a task waits for tokens of the iteration, from it
    or from one of the sources `beside` it, fewer than `under_way` iterations are under way (None:
    any number), and the sources beside it have a token, too."""

    task: DeployedTask
    under_way: int | None
    beside: tuple[DeployedTask, ...]


def gates(app: DeployedApp, workers: Sequence[DeployedWorker]) -> Iterator[Gate]:
    """The gates of an app whose tasks these workers fire."""
    sources = [task for task in app.tasks if samples(app, task)]
    if not sources:
        return
    names = {task.name for task in app.tasks}
    orders = [w.order for w in workers if any(entry.task in names for entry in w.order)]
    parts = _parts(app)
    under_way = None
    if len(set(parts.values())) == 1:
        under_way = _under_way(app, sources, [e for order in orders for e in order])
    for task in sources:
        beside = tuple(
            other
            for other in sources
            if other is not task and parts[other.name] == parts[task.name]
        )
        if len(orders) > 1 or beside:
            yield Gate(task, under_way, beside)


def _parts(app: DeployedApp) -> dict[str, str]:
    """Which tasks are connected by channels, whatever their direction."""
    part = {task.name: task.name for task in app.tasks}
    for channel in app.channels:
        one, other = part[channel.source], part[channel.destination]
        part = {name: one if of == other else of for name, of in part.items()}
    return part


def _under_way(
    app: DeployedApp, sources: Sequence[DeployedTask], entries: Sequence[Entry]
) -> int | None:
    """Iterations that may be under way at once: one for each stage, and for each replica of the
    last one. A deadline may allow more, and an app with a period and without one any number."""
    fresh = {task.name for task in sources}
    readers = {c.destination for c in app.channels if c.source in fresh}
    own = [e for e in entries if e.task in {task.name for task in app.tasks}]
    first = min([e.stage for e in own if e.task in readers] or [0])
    behind = [e.stage + e.replica[1] for e in own if e.task not in fresh]
    stages = max(behind or [first + 1]) - first
    if app.period_ns is None:
        return stages
    if app.deadline_ns is None:
        return None
    return max(stages, ceil(Fraction(app.deadline_ns) / Fraction(app.period_ns)))


def enders(app: DeployedApp) -> list[str]:
    """The tasks that end a frame; the first one where there are none."""
    return [t.name for t in app.last_tasks] or [app.tasks[0].name]
