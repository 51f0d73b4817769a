"""The groups that may delay others: what their bounds rest on as well.

In: the program of an assignment. Out: by group, those that may delay it, directly or through
others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.timing.system import TimedGroup, TimedSystem


def delaying(system: TimedSystem) -> dict[str, set[str]]:
    """The groups that may delay each group, on a processor, by contention or by their tokens, and
    those that delay these."""
    direct = {group.name: set(_directly(group, system)) for group in system.groups}
    found = {}
    for group in system.groups:
        reached, todo = {group.name}, [group.name]
        while todo:
            more = direct[todo.pop()] - reached
            reached |= more
            todo += more
        found[group.name] = reached
    return found


def _directly(group: TimedGroup, system: TimedSystem) -> Iterator[str]:
    """The groups that a group may wait for. Each group keeps its processors busy from the place of
    those that are less urgent."""
    processors = {p.name: p for p in system.processors}
    own = {task.processor for task in group.tasks}
    dragged = set()
    for slow in system.slowdowns:
        if any(processors[name].is_of(slow.victim) for name in own):
            dragged |= {p.name for p in system.processors if p.is_of(slow.aggressor)}
    for other in system.groups:
        theirs = {task.processor for task in other.tasks}
        before = {
            name
            for name in theirs & own
            if processors[name].scheduler != "fixed_priority" or other.priority >= group.priority
        }
        if before or theirs & dragged:
            yield other.name
    yield from group.tied
