"""What flowc starts ends with it, also where it is killed and can do nothing any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from flowc.machines.children import run

from builds import HANGS, ROOT, Write, store_profile

#: Writes its number to a file of the folder where it is, and wants to stay for ever.
STAYS = """
import os, pathlib, time
mark = pathlib.Path({mark})
mark.with_suffix(".new").write_text(str(os.getpid()))
os.rename(mark.with_suffix(".new"), mark)
while True:
    time.sleep(0.05)
"""
TEXT = 'task S { out x: int64 python "t.py:make" } task D { in x: int64 %s } app A { s: S d: D s -> d }\n'
TASK = """
def make():
    return 1

def show(x):
    exec(STAYS)
"""
CREW = """
import sys
sys.path.insert(0, {folder!r})
from flowc.machines.search_workers import processes
import job

if __name__ == "__main__":
    with processes(2) as search_workers:
        search_workers.run(job.stay, None, ["a", "b"])
"""


def stays(mark: Path) -> str:
    return STAYS.format(mark=repr(str(mark)))


@contextmanager
def killed(words: Sequence[str], marks: Sequence[Path], **environment: str) -> Iterator[list[int]]:
    """Start Python with these words, kill it once there are all marks, and hand over the numbers in
    them."""
    environment = {**os.environ, **environment}
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT.parent, env=environment, stdin=subprocess.DEVNULL
    ) as parent:
        try:
            deadline = time.monotonic() + HANGS
            while not all(mark.exists() for mark in marks):
                assert parent.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            parent.kill()
    yield [int(mark.read_text()) for mark in marks]


def wait_for_the_end_of(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + HANGS
    while alive := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """A process that has not been waited for yet has ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("verb", ["profile", "build"])
def test_tasks_that_are_measured(verb: str, write: Write, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    flow = write(TEXT % 'python "t.py:show"', t_py=f"STAYS = {stays(mark)!r}\n{TASK}")
    with killed(["-m", "flowc", verb, str(flow)], [mark]) as pids:
        wait_for_the_end_of(pids)


def test_a_compiler(write: Write, tmp_path: Path) -> None:
    mark, compiler = tmp_path / "mark", tmp_path / "cc.py"
    compiler.write_text(stays(mark))
    flow = write(
        TEXT % 'c "t.c:d"',
        t_py="def make(): return 1\n",
        t_c="int d(void *s, long *x, void *p) { return 0; }\n",
    )
    store_profile(flow)
    with killed(
        ["-m", "flowc", "build", str(flow)], [mark], CC=f"{sys.executable} {compiler}"
    ) as pids:
        wait_for_the_end_of(pids)


def test_workers_of_a_search(tmp_path: Path) -> None:
    marks = [tmp_path / "a", tmp_path / "b"]
    code = STAYS.format(mark="mark")
    (tmp_path / "job.py").write_text(
        f"def stay(_, name):\n    exec({code!r}, {{'mark': {str(tmp_path)!r} + '/' + name}})\n"
    )
    script = tmp_path / "search_workers.py"
    script.write_text(CREW.format(folder=str(tmp_path)))
    with killed([str(script)], marks) as pids:
        wait_for_the_end_of(pids)


def test_what_a_command_leaves_running_holds_nobody_up() -> None:
    """It has the same output as the command, and may never end."""
    begin = time.monotonic()
    done = run(["sh", "-c", f"sleep {HANGS} & echo $!; echo why >&2"], cwd=None)
    left = int(done.stdout.split()[0])
    os.kill(left, signal.SIGKILL)
    assert time.monotonic() - begin < HANGS / 2
    assert (done.returncode, done.stderr) == (0, "why\n")
