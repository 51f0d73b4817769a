"""Standard streams that are closed, disks that are full, destinations that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import LIMIT, Make, hurt, started


def shell(
    directory: Path, words: str, fault: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `main.py WORDS` in a shell, which can close streams."""
    command = ["sh", "-c", f'exec "$0" "$1" {words}', sys.executable, str(directory / "main.py")]
    return subprocess.run(
        command, cwd="/", capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**os.environ, "FAULT": fault, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("program", "closed"),
    [
        ("threads", "2>&-"),
        ("threads", ">&-"),
        ("threads", "<&-"),
        ("threads", "<&- >&- 2>&-"),
        ("processes", "<&- 2>&-"),
    ],
)
def test_streams_may_be_closed(programs: Make, tmp_path: Path, program: str, closed: str) -> None:
    report = tmp_path / "r.json"
    done = shell(programs(program), f"--frames 5 --report {report} {closed}")
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["apps"]["A"]["frames"] == 5
    if ">&-" not in closed.split():
        assert "saw 4" in done.stdout


def test_a_fault_has_its_status_where_no_process_reads(programs: Make) -> None:
    for fault in ("sink:fire:raise", "sink:fire:segv", "sink:start:sysexit"):
        assert shell(programs("threads"), "--frames 5 2>&-", fault).returncode == 1
    with started(programs("threads"), "sink:fire:raise") as running:
        assert running.process.stderr is not None
        running.process.stderr.close()
        assert running.process.wait(LIMIT) == 1


@pytest.mark.parametrize("option", ["--trace", "--report"])
def test_a_full_disk_costs_nothing_else(programs: Make, tmp_path: Path, option: str) -> None:
    other, file = "--report" if option == "--trace" else "--trace", tmp_path / "o.json"
    done = shell(programs("threads"), f"--frames 5 {option} /dev/full {other} {file}")
    assert done.returncode == 1
    assert done.stderr == "flowc: cannot write /dev/full: No space left on device\n"
    assert "latency ms" in done.stdout and json.loads(file.read_text())


def test_a_full_disk_for_what_is_printed(programs: Make, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    done = shell(programs("threads"), f"--frames 5 --report {file} > /dev/full")
    assert done.returncode == 1 and "OSError: [Errno 28]" in done.stderr
    done = shell(programs("threads"), f"--frames 5 --report {file} > /dev/full", QUIET="1")
    assert (done.returncode, done.stderr) == (
        1,
        "flowc: cannot write to standard output: No space left on device\n",
    )
    assert json.loads(file.read_text())["apps"]["A"]["frames"] == 5


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "Is a directory"),
        ("none/r.json", "No such file or directory"),
        ("file/r.json", "Not a directory"),
    ],
)
@pytest.mark.parametrize("option", ["--trace", "--report"])
def test_destinations_are_tried_before_the_run(
    programs: Make, tmp_path: Path, option: str, where: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / where)
    done = hurt(programs("threads"), "", option, path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"flowc: cannot write {path}: {reason}\n"


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_the_watchdog_is_a_number(programs: Make, seconds: str) -> None:
    done = hurt(programs("threads"), "", f"--watchdog={seconds}")
    assert done.returncode == 2 and "argument --watchdog: " in done.stderr
