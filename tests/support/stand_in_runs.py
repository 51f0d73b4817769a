"""Generated programs on the stand-ins for CUDA and TensorRT."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from builds import HANGS, ROOT
from forks import PROGRAM, forks


def on_stand_in(
    directory: Path, script: str, *arguments: str, **options: object
) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "tests" / "support" / "standins" / "run.py", directory, script, *arguments]
    environment = dict(os.environ, FLOWC_STAND_IN=json.dumps(options), FLOWC_TEST_FRAMES="3")
    return forks(*PROGRAM, "onnx").run(command, cwd=directory, timeout=HANGS, env=environment)
