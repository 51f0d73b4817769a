"""Programs in C++ that tests start and look at while they run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def start(build: Path, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    """Its `main`; `variables` are added to the environment."""
    return subprocess.Popen(
        [build / "main", *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # lines that are read here take nothing from what follows
    )
