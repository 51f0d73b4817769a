"""What `--replay FILE` means: a recording or a bag of ROS 2, known by what the file begins with, or
else the report of a program with states (outside.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Sequence, Union

from .bag import SQLITE, Bag
from .files import beginning
from .options import Mistake
from .recorded_file import MAGIC, RecordedFile
from .replay import Replay

if TYPE_CHECKING:
    from .options import RunOptions
    from .program import Program


def is_report(path: str) -> bool:
    """Is it neither a recording nor a bag?"""
    if os.path.isdir(path):
        return False
    begin = beginning(path, len(SQLITE))
    return not begin.startswith(MAGIC) and begin != SQLITE and not path.endswith(".bag")


def _as_report(path: str) -> str:
    """What to say of a file that may be a report of a run."""
    if beginning(path, len(SQLITE)).lstrip()[:1] == b"{":
        return "; if it is a report: this program has no states, whose changes a report would have"
    return ""


def replay_of(
    program: Program, options: RunOptions, settings: Sequence[str]
) -> Union[Replay, Bag, None]:
    """What the program is to do again, if it is. It has not begun. Raises Mistake."""
    path = options.replay
    if path is None:
        return None
    if not os.path.exists(path):
        raise Mistake("cannot read %s: there is no such file" % path)
    if is_report(path):
        if program.control is None:
            raise Mistake(
                "--replay: %s is no recording of flowc (MCAP) and no bag of ROS 2%s"
                % (path, _as_report(path))
            )
        return None
    for name in ("start", "events", "control"):
        if getattr(options, name):
            raise Mistake("--replay does again what was done: it does not go with --%s" % name)
    if options.record is not None and os.path.exists(options.record):
        if os.path.samefile(path, options.record):
            raise Mistake("--record would overwrite what --replay reads")
    if os.path.isdir(path) or not beginning(path, len(SQLITE)).startswith(MAGIC):
        return Bag(program, path)
    file = RecordedFile(path)
    if file.about:
        return Replay(program, file, settings)
    file.require_index()
    file.close()
    return Bag(program, path)
