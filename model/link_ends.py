"""Ends of arrows between apps (`latest`, `drop oldest`): tasks that belong beside one of their own
app.

In: an app. Out: the task that each end stands beside. An end on a processor of the other app would
wait there for what that app does, and for ever where it hangs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .application import Application
from .mapping import Placement
from .resampling import without_resampling


def neighbors(app: Application) -> dict[str, tuple[str, ...]]:
    """For each end: the tasks that it reads, or that read it, and then all others of its app; other
    ends are left out."""
    plain = without_resampling(app)
    ends = [task.name for task in plain.tasks if task.link is not None]
    others = [task.name for task in plain.tasks if task.link is None]
    found = {}
    for end in ends:
        joined = {c.source for c in plain.channels if c.destination == end}
        joined |= {c.destination for c in plain.channels if c.source == end}
        found[end] = tuple(sorted(others, key=lambda name: name not in joined))
    return found


def linked(apps: Iterable[Application]) -> frozenset[frozenset[str]]:
    """The pairs of apps that arrows join."""
    at: dict[str, set[str]] = {}
    for app in apps:
        for task in app.tasks:
            if task.link is not None:
                at.setdefault(task.link.name, set()).add(app.name)
    return frozenset(frozenset(pair) for pair in at.values() if len(pair) == 2)


def ends_beside(
    apps: Iterable[Application],
    placements: Mapping[str, Placement],
    pinned: Collection[str],
    cpus: Collection[str],
) -> dict[str, Placement]:
    """The placements with ends that are not pinned on the CPU of their neighbor, or where that is
    on none, of some other task of their app."""
    moved = dict(placements)
    for app in apps:
        for end, others in neighbors(app).items():
            if end in pinned or end not in placements:
                continue
            places = [placements[other].processors[0] for other in others]
            beside = next((place for place in places if place in cpus), None)
            if beside is not None:
                moved[end] = Placement(end, (beside,))
    return moved
