"""The current directory of the program in `flowc test`: that of the caller, as in `flowc run`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from flowc.driver.execute.run import test as run_harness

from builds import Write, store_profile

TEXT = """
task Read(folder: string) { out n: int32   python "t.py:Read" }
task Write(path: string) { in n: int32   python "t.py:Write" }
app A { read: Read(folder = "images")   write: Write(path = "out.csv")   read -> write }
"""
CODE = """
import os
import numpy as np
class Read:
    def __init__(self, folder): self.files = iter(sorted(os.listdir(folder)) if os.path.isdir(folder) else [])
    def __call__(self): return np.int32(len(next(self.files)))
class Write:
    def __init__(self, path): self.path = path
    def __call__(self, n):
        with open(self.path, "a") as file: file.write("%d\\n" % n)
"""


@pytest.fixture
def text(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    flow = write(TEXT, t_py=CODE)
    store_profile(flow)
    monkeypatch.chdir(tmp_path)
    return flow


def test_the_harness_runs_the_program_where_run_does(text: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a", "bb"):
        (tmp_path / "images" / name).touch()
    tested = run_harness(text, "out", quiet=True)
    assert tested.status == 0, tested.tests
    assert (tmp_path / "out.csv").read_text() == "1\n2\n"
    assert run_harness(text, "out", quiet=True).status == 0, "nothing was left in the build"


def test_without_a_frame_it_says_which_source_ended(text: Path, tmp_path: Path) -> None:
    tested = run_harness(text, "out", quiet=True)
    found = next(t for t in tested.tests if t.outcome == "failed")
    assert "A.read fired 0 times of the 1 of a frame" in found.message
    assert f"ran in {os.fspath(tmp_path)}" in found.message
