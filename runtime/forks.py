"""Forks of a process in which a program runs: nothing of the program goes on in the new process.

In: what has to know. Out: its method `forked` is called in each process that is forked from this
one, by the thread that goes on there. All other threads are gone in that process, and locks stay as
they were.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

_known: "weakref.WeakSet[Any]" = weakref.WeakSet()


def at_fork(thing: Any) -> None:
    """Call `thing.forked()` in every process that is forked from now on, as long as the thing is
    there."""
    _known.add(thing)


def _in_the_child() -> None:
    for thing in list(_known):
        thing.forked()


os.register_at_fork(after_in_child=_in_the_child)
