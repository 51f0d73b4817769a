"""Tasks in Python and networks of a project of HOPES, for the C code of its tasks: init, execute
and wrapup of each.

In: the folder of the library, whose deployment.json describes the apps. Out: an object for each
task that is not in C. Order and channels are HOPES' own.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Dict, List, Sequence

from flowc.runtime.fmu import Called
from flowc.runtime.reference import load_deployment
from flowc.runtime.tokens import TaskError

#: Tasks begin one after the other: two of one file would find its module half loaded.
_beginning = threading.Lock()


def load(home: str) -> "List[Task]":
    """The tasks of the library in `home`, in the order of the file. Raises TaskError."""
    try:
        apps = load_deployment(home)["apps"]
    except (OSError, ValueError, KeyError) as error:
        raise TaskError("the library lacks what belongs beside it: %s" % error) from error
    return [Task(home, document) for app in apps for document in app["tasks"]]


class Task(Called):
    """One task: HOPES calls it from one thread. Its parameters are those of the text.

    The program of HOPES ends without ending Python, so what was printed is written out here.
    """

    def __init__(self, home: str, document: Dict[str, Any]) -> None:
        super().__init__(home, document, lambda: None)

    @property
    def given(self) -> List[int]:
        """Bytes of each value that `init` gets: none."""
        return []

    def init(self, values: Sequence[Any]) -> None:
        """Begin. Raises TaskError."""
        with _beginning:
            super().init(values)

    def execute(self, buffers: Sequence[Any]) -> None:
        """One firing. Raises TaskError."""
        try:
            super().execute(buffers)
        except BaseException:
            sys.stdout.flush()
            raise

    def wrapup(self) -> None:
        """End it. Raises TaskError."""
        try:
            super().wrapup()
        finally:
            sys.stdout.flush()
