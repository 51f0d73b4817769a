"""Calls of the C compiler, and of what calls it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

#: Seconds that one gets: for a large file of templates, on a small board that is busy.
COMPILES = 600.0


def failure_of(command: Sequence[str], folder: Path) -> str | None:
    """What a command says in a folder if it fails. It has nothing to read. Raises FileNotFoundError."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=COMPILES,
        )
    except subprocess.TimeoutExpired:
        return f"`{command[0]}` has not ended after {COMPILES:g} s"
    return None if done.returncode == 0 else done.stderr + done.stdout
