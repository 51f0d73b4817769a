"""The variables of written rounds: each is a word of the text and an identifier of a task, or an
identifier of an output and a number, so that no two are equal whatever names users chose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...runtime.plan import Block, name_of
from ..names import identifiers
from .order import Task

#: Names that the text uses by themselves.
# fmt: off
OWN = frozenset((
    "DONE", "EndOfStream", "Stopped", "TELL", "address", "again", "app", "ascontiguousarray",
    "at", "begin", "block", "blocks", "busy", "came", "chain", "clock", "cpu", "ctx", "d",
    "done", "e", "empty", "error", "fire", "flush_stats", "freeze", "join", "k", "late",
    "latencies", "leave", "line", "longest", "n", "ndarray", "paced", "path", "problem", "r",
    "release", "rounds",
    "run", "since", "spent", "squares", "t", "take", "why", "worker",
))
#: First words of variables that belong to a task or to a block.
_WORDS = (
    "accept", "acquire", "agree", "busy", "call", "claim", "commit", "copy", "counted", "dtype",
    "empty", "first", "flushed", "gone", "have", "in", "left", "length", "longest", "number",
    "of", "over", "paths", "ready", "release", "seen", "squares", "taken", "task", "tokens",
)
# fmt: on
_BEGINS = re.compile(rf"(?:{'|'.join(_WORDS)})\d*(?:_|\W|$)|(?:at|chain|fire|why)\d+$")


class Names:
    """The variables of the rounds of an order."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        short = [task.name.partition(".")[2] for task in tasks]
        ids = identifiers([_apart(name) for name in short], OWN)
        self.tasks = [ids[_apart(name)] for name in short]
        ports = []
        for task, own in zip(tasks, self.tasks, strict=True):
            ports.append([_apart(f"{own}.{port.name}") for port in task.outputs])
        unique = identifiers([name for names in ports for name in names], OWN)
        #: Of each output of each task: how variables of its blocks begin.
        self.outputs = [[unique[name] for name in names] for names in ports]

    def block(self, block: Block) -> str:
        """The variable of a block."""
        return name_of(self.outputs, block)

    def of(self, word: str, task: int) -> str:
        """A variable that belongs to a task; `word` is one of the words, with numbers behind it."""
        return f"{word}_{self.tasks[task]}"


def _apart(name: str) -> str:
    """The same where it cannot begin as a variable of ours does."""
    return f"task_{name}" if _BEGINS.match(name.lower()) else name
