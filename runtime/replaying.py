"""What `--replay FILE` means: a recording or a bag of ROS 2, known by what the file begins with, or
else the report of a program with states (outside.py).
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Optional, Sequence

from .options import Mistake
from .recorded_file import MAGIC, RecordedFile
from .replay import Replay

if TYPE_CHECKING:
    from .options import RunOptions
    from .program import Program


def is_report(path: str) -> bool:
    """Is it neither a recording nor a bag?"""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return False
            return os.read(file, len(MAGIC)) != MAGIC  # no limit: a file
        finally:
            os.close(file)
    except OSError:
        return True  # which says why it cannot be read


def replay_of(program: Program, options: RunOptions, settings: Sequence[str]) -> Optional[Replay]:
    """What the program is to do again, if it is. It has not begun. Raises Mistake."""
    path = options.replay
    if path is None:
        return None
    if is_report(path):
        if program.control is None:
            raise Mistake(
                "--replay: %s is no recording, and reports are for programs with states" % path
            )
        return None
    for name in ("start", "events", "control"):
        if getattr(options, name):
            raise Mistake("--replay does again what was done: it does not go with --%s" % name)
    if options.record is not None and os.path.exists(options.record):
        if os.path.samefile(path, options.record):
            raise Mistake("--record would overwrite what --replay reads")
    return Replay(program, RecordedFile(path), settings)
