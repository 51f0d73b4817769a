"""Files of a build that are missing, empty, cut off or something else: the task that needs them is
named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .programs import Make, hurt

DAMAGES = ("missing", "empty", "cut", "garbage")


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {"empty": b"", "cut": content[: len(content) // 3], "garbage": bytes(range(256)) * 16}[
                how
            ]
        )


FILES = {
    "c": ("c/*.so", "A.middle"),
    "network": ("networks/*.onnx", "A.middle"),
    "threads": ("tasks/faults.py", "A.source"),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("program", FILES)
def test_damaged_files(programs: Make, tmp_path: Path, program: str, how: str) -> None:
    pattern, task = FILES[program]
    home = shutil.copytree(programs(program), tmp_path / "copy")
    (file,) = home.glob(pattern)
    damage(file, how)
    done = hurt(home, "", "--frames", "4")
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"flowc: app A, task {task} failed: cannot start: "
    ), done.stderr
    assert "Traceback" not in done.stderr and "saw" not in done.stdout
