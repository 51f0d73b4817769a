"""Calls of the C compiler, and of what calls it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..machines.children import run

#: Seconds that one gets: for a large file of templates, on a small board that is busy.
COMPILES = 600.0


def failure_of(command: Sequence[str], folder: Path) -> str | None:
    """What a command says in a folder if it fails. It has nothing to read. Raises FileNotFoundError.

    It gets SIGTERM where flowc is gone before it, to remove its temporary files.
    """
    try:
        done = run(command, cwd=folder, by=signal.SIGTERM, limit=COMPILES)
    except subprocess.TimeoutExpired:
        return f"`{command[0]}` has not ended after {COMPILES:g} s"
    return None if done.returncode == 0 else done.stderr + done.stdout
