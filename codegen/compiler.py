"""Calls of the C compiler, and of tools that call it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..machines.children import run

#: Seconds for one call: enough for a large file of templates on a small, busy board.
COMPILES = 600.0


def failure_of(command: Sequence[str], folder: Path) -> str | None:
    """The output of a failed command in a folder, else empty. It has no input. Raises
    FileNotFoundError.

    It gets SIGTERM if flowc ends first, to remove its temporary files.
    """
    try:
        done = run(command, cwd=folder, by=signal.SIGTERM, limit=COMPILES)
    except subprocess.TimeoutExpired:
        return f"`{command[0]}` has not ended after {COMPILES:g} s"
    return None if done.returncode == 0 else done.stderr + done.stdout
