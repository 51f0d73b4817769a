"""Tasks whose firings could overlap, if their text promised that they keep nothing in between.

In: a task of an app. Out: whether the promise is all that is missing, and advice that says so.
"""

from __future__ import annotations

from dataclasses import replace

from .application import Application, Task


def could_overlap(app: Application, task: Task) -> bool:
    """Would `stateless` in its text let several processors share the firings of a task with code?

    An arrow from the task to itself keeps its firings apart whatever it promises.
    """
    if not task.implementations or task.replicable:
        return False
    if any(c.source == c.destination == task.name for c in app.channels):
        return False
    return replace(task, stateless=True).replicable


def overlap_advice(task: Task) -> str:
    """What to write into its text, and when."""
    return (
        f"`stateless` in task `{task.definition}`, if it keeps nothing between firings, would let"
        " them overlap on several processors"
    )
