"""What machines read of a run: failures and status in the report, a line a minute in a log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flowc.runtime.status import LogStatus

from builds import Write, build, run

TEXT = """
task Count { out n: int64  python "t.py:Count" }
task Keep { in n: int64  c "k.c:keep" }
app A { c: Count  k: Keep  c -> k }
"""
COUNT = """
class Count:
    n = -1
    def __call__(self):
        self.n += 1
        %s
        return self.n
"""
KEEP = "#include <signal.h>\n#include <unistd.h>\nint keep(void *state, const int64_t *n, const keep_params *p) { %s return 0; }\n"


def reported(write: Write, tmp_path: Path, python: str, c: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a program."""
    out = build(write(TEXT, t_py=COUNT % python, k_c=KEEP % c), tmp_path / "out")
    report = tmp_path / "report.json"
    done = run(out, "--report", str(report), "--quiet", *words)
    return done.returncode, json.loads(report.read_text())


def test_a_run_that_ends_has_no_failure(write: Write, tmp_path: Path) -> None:
    status, document = reported(write, tmp_path, "", "", "--frames", "3")
    assert (status, document["status"], document["failure"]) == (0, 0, None)
    assert document["apps"]["A"]["frames"] == 3


@pytest.mark.parametrize(
    ("python", "c", "task", "firing", "reason", "frames"),
    [
        ("assert self.n < 2, 'no luck'", "", "A.c", 2, "AssertionError: no luck", 2),
        ("", "if (*n == 1) return 7;", "A.k", 1, "keep returned 7", 1),
        # Nobody is left who has counted frames.
        ("", "if (*n == 1) raise(SIGSEGV);", "A.k", 1, "its process was ended by SIGSEGV (Segmentation fault)", 0),
        ("", "if (*n == 1) _exit(0);", "A.k", 1, "its process exited with status 0", 0),
    ],
)
def test_a_failure_is_in_the_report(
    python: str, c: str, task: str, firing: int, reason: str, frames: int, write: Write, tmp_path: Path
) -> None:
    status, document = reported(write, tmp_path, python, c)
    assert (status, document["status"]) == (1, 1)
    assert document["failure"] == {"app": "A", "task": task, "firing": firing, "reason": reason}
    assert document["apps"]["A"]["frames"] == frames and set(document["tasks"]) == {"A.c", "A.k"}


def test_a_task_that_cannot_start_is_in_the_report(write: Write, tmp_path: Path) -> None:
    status, document = reported(
        write, tmp_path, "\n    def __init__(self): raise OSError('no camera')\n    def x(self):", ""
    )
    assert (status, document["status"]) == (1, 1)
    assert document["failure"] == {
        "app": "A", "task": "A.c", "firing": None, "reason": "cannot start: OSError: no camera",
    }  # fmt: skip


def test_the_status_of_a_signal_is_in_the_report(write: Write, tmp_path: Path) -> None:
    stop = "import os, signal; self.n == 3 and os.kill(os.getppid(), signal.SIGTERM)"
    status, document = reported(write, tmp_path, stop, "")
    assert (status, document["status"], document["failure"]) == (143, 143, None)
    assert document["apps"]["A"]["frames"] >= 3


# -- a line a minute ---------------------------------------------------------------------------------------------------
@dataclass
class App:
    name: str
    deadline: object = None
    frames: int = 0
    misses: int = 0
    base: int = 0

    @property
    def done(self) -> int:
        return self.frames


@dataclass
class Running:
    """A program at a time that the test says."""

    running: list[App]
    state_name: str | None = None
    begin: int = 5_000_000_000
    now: int = 5_000_000_000
    said: list[str] = field(default_factory=list)

    def after(self, seconds: float) -> None:
        self.now = self.begin + round(1e9 * seconds)


def test_a_log_gets_a_line_a_minute() -> None:
    spot, free = App("Spot", deadline=1), App("Free")
    running = Running([spot, free])
    status = LogStatus(running.said.append, lambda: running.now)

    def look(seconds: float) -> list[str]:
        running.after(seconds)
        status(running)  # type: ignore[arg-type]
        told, running.said[:] = [*running.said], []
        return told

    assert look(0.05) == look(59.9) == []
    spot.frames, free.frames = 1875, 600
    assert look(60.0) == ["60 s: Spot 1875 frames, 31.2 fps, 0 missed; Free 600 frames, 10.0 fps"]
    assert look(119.9) == []
    spot.frames, spot.misses = 1905, 2
    assert look(120.04) == ["120 s: Spot 1905 frames, 0.5 fps, 2 missed; Free 600 frames, 0.0 fps"]
    spot.frames = 4905  # the process was suspended for a while: the rate is that of the time between two lines
    assert look(720.04) == ["720 s: Spot 4905 frames, 5.0 fps, 2 missed; Free 600 frames, 0.0 fps"]
    assert look(779.0) == []
