"""Generated programs on the stand-ins for CUDA and TensorRT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from builds import HANGS, ROOT


def on_stand_in(directory: Path, script: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(ROOT / "tests" / "support" / "standins" / "run.py"),
        str(directory),
        script,
        *arguments,
    ]
    environment = dict(os.environ, FLOWC_STAND_IN=json.dumps(options), FLOWC_TEST_FRAMES="5")
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=HANGS, check=False, env=environment
    )
