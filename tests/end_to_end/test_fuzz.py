"""A fixed number of the fuzzer's inputs: `python -m tests.fuzz` tries others, and as many as there
is time for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from builds import ROOT


def fuzz(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def test_inputs_of_all_kinds_find_nothing(tmp_path: Path) -> None:
    done = fuzz("--inputs", "300", "--jobs", "1", "--seed", "home", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert len(rows) == 11 and sum(int(row[1]) for row in rows) == 300
    # each kind is accepted and refused
    assert all(int(row[2]) > 0 and int(row[3]) > 0 for row in rows), done.stdout
