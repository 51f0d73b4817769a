"""Why a program stops: what failed where, in words.

In: whatever code raises. Out: a `Failure`.
"""

from __future__ import annotations

import os
import traceback
from typing import Optional

from .tokens import TaskError


class Failure:
    """Why a program stopped: app, task and firing (counted from 0), and the reason with its
    traceback."""

    def __init__(
        self, app: str, task: str, firing: Optional[int], reason: str, details: str = ""
    ) -> None:
        self.app, self.task, self.firing = app, task, firing
        self.reason, self.details = reason, details

    def __str__(self) -> str:
        if not self.task:
            return self.reason
        where = "" if self.firing is None else " at firing %d" % self.firing
        return "app %s, task %s failed%s: %s" % (self.app, self.task, where, self.reason)


#: What becomes of a process that a task forks, if it does not end in the task's code: it would be a
#: second program.
STRAY = (
    "a process that it has forked has come back from there, and is ended: let it end with os._exit"
)
#: The modules of a build beside the runtime's with what workers do in each round.
ROUNDS, RECORDED_ROUNDS = "rounds.py", "recorded_rounds.py"
#: What is wrong with any other task that ends the stream.
NO_SOURCE = "raised StopIteration; only a source may end the stream"
ENDS = "returned FLOWC_END; only a source may end the stream"


def describe(error: BaseException) -> str:
    if isinstance(error, TaskError):
        return str(error)
    try:
        said = str(error)
    except BaseException as another:  # other people's code as well
        said = "(it has no words: its own __str__ raises %s)" % type(another).__name__
    text = "%s: %s" % (type(error).__name__, said)
    if "read-only" in said:
        text += (
            " (arrays on a channel are read-only: copy an input before changing it, return a new"
            " array each firing)"
        )
    return text


def details_of(error: BaseException) -> str:
    """The traceback from the task's own code on."""
    if isinstance(error, TaskError):
        return getattr(error, "details", "")  # of a failure in another process, as told there
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.abspath(__file__))
    written = [os.path.join(os.path.dirname(here), name) for name in (ROUNDS, RECORDED_ROUNDS)]
    ours = (here, *written)
    own = [f for f in frames if not os.path.abspath(f.filename).startswith(ours)]
    return "".join(traceback.format_list(own))
