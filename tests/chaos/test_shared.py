"""What tasks do to what they share with the program: its streams, its limits, and the process
itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from builds import build, with_processes

from .programs import LIMIT

TEXT = """
task Source { out n: int64  python "shared.py:Source" }
task Sink   { in n: int64   python "shared.py:Sink" }
platform two { cpu core[2] }
mapping on two { A.source -> core[0]  A.sink -> core[%d] }
app A { source: Source  sink: Sink   source -> sink }
"""
TASKS = """
import os, sys, time
HOW = os.environ.get("HOW", "")

class Source:
    def __init__(self):
        self.n = -1

    def __call__(self):
        self.n += 1
        return self.n

class Sink:
    def __init__(self):
        if HOW == "forks at the start":
            os.fork()
        while HOW == "hangs":
            time.sleep(0.05)

    def __call__(self, n):
        os.write(1, b"saw %d\\n" % n)
        if n != 3:
            return
        if HOW == "none":
            sys.stdout = sys.stderr = None
        if HOW == "odd":
            sys.stdout = sys.stderr = object()
        if HOW == "closed":
            sys.stdout.close()
            sys.stderr.close()
        if HOW == "fails unheard":
            sys.stderr = None
            os.close(2)
            raise ValueError("no luck")
        if HOW == "shallow":
            sys.setrecursionlimit(50)
        if HOW == "forks":
            os.fork()
        if HOW == "forks and fails" and not os.fork():
            raise ValueError("no luck")
        if HOW == "forks and leaves" and not os.fork():
            sys.exit(7)
        if HOW == "forks well":
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
"""
STRAY = (
    "a process that it has forked has come back from there, and is ended: let it end with os._exit"
)


@pytest.fixture(scope="module", params=["one worker", "two workers", "processes"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "shared.py").write_text(TASKS)
    (folder / "shared.flow").write_text(TEXT % (request.param != "one worker"))
    made = build(folder / "shared.flow", folder / "out", platform="two")
    if request.param == "processes":
        main = made / "main.py"
        text = main.read_text().replace("Python(", "Process(Python(").replace('"Sink")', '"Sink"))')
        with_processes(made, text.replace('"Source")', '"Source"))'))
    return made


def shared(program: Path, how: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it; a process that goes on behind it would hold the pipes, and that would take too
    long."""
    return subprocess.run(
        [sys.executable, str(program / "main.py"), "--frames", "8", *words], cwd="/", capture_output=True, text=True,
        timeout=LIMIT, check=False, env={**os.environ, "HOW": how},
    )  # fmt: skip


@pytest.mark.parametrize("how", ["none", "odd", "closed", "shallow", "forks well"])
def test_the_program_goes_on_and_tells(program: Path, how: str) -> None:
    done = shared(program, how)
    assert (done.returncode, done.stderr) == (0, "")
    seen, _, table = done.stdout.partition("app ")
    assert seen == "".join(f"saw {n}\n" for n in range(8)) and "latency ms" in table


def test_a_failure_is_told_where_a_task_has_closed_the_stream(program: Path) -> None:
    done = shared(program, "fails unheard")
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[-1]
        == "flowc: app A, task A.sink failed at firing 3: ValueError: no luck"
    )


@pytest.mark.parametrize("how", ["forks", "forks and fails", "forks and leaves"])
def test_a_process_that_a_task_has_forked_does_not_go_on(program: Path, how: str) -> None:
    done = shared(program, how)
    assert (done.returncode, done.stderr) == (
        0,
        f"flowc: app A, task A.sink failed at firing 3: {STRAY}\n",
    )
    assert done.stdout.startswith("".join(f"saw {n}\n" for n in range(8)))


def test_nor_does_one_that_was_forked_at_the_start(program: Path) -> None:
    done = shared(program, "forks at the start")
    assert (done.returncode, done.stderr) == (0, f"flowc: app A, task A.sink failed: {STRAY}\n")


@pytest.mark.parametrize("what", ["thread", "control"])
def test_where_there_are_no_more_threads_the_task_is_named(tmp_path: Path, what: str) -> None:
    """As with `ulimit -v`, which numpy and the machine decide the numbers of."""
    (tmp_path / "shared.py").write_text(TASKS)
    scenario = "scenario S { initial state one { run A } }\n" if what == "control" else ""
    (tmp_path / "shared.flow").write_text(TEXT % 1 + scenario)
    program = build(tmp_path / "shared.flow", tmp_path / "out", platform="two")
    report = tmp_path / "r.json"
    for started, task, thread in (
        (0, "source", "core[0]"),
        (1, "sink", "core[1]"),
        (2, "source", "control"),
    )[: 2 + bool(scenario)]:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(started), str(program / "main.py"), "--report", str(report)],
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        words = f"app A, task A.{task} failed: cannot start: no thread for {thread}: can't start new thread"
        assert (done.returncode, done.stderr) == (1, f"flowc: {words}\n")
        assert json.loads(report.read_text())["failure"]["task"] == f"A.{task}"


#: Runs a program that gets so many threads and no more.
LIMITED = """
import runpy, sys, threading
left, sys.argv = int(sys.argv[1]), sys.argv[2:]
start = threading.Thread.start

def limited(self):
    global left
    left -= 1
    if left < 0:
        raise RuntimeError("can't start new thread")
    start(self)

threading.Thread.start = limited
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_start_that_hangs_is_told_without_a_keeper(tmp_path: Path) -> None:
    """Every five seconds, which are shortened to one."""
    (tmp_path / "shared.py").write_text(TASKS)
    (tmp_path / "shared.flow").write_text(TEXT % 1)
    program = build(tmp_path / "shared.flow", tmp_path / "out", platform="two")
    watch = program / "runtime" / "watch.py"
    assert "STARTS = 5.0" in watch.read_text()
    watch.write_text(watch.read_text().replace("STARTS = 5.0", "STARTS = 1.0"))
    opened = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import out; out.open()"
    for words in (["-m", "unittest", "discover", "-s", "tests"], ["-c", opened]):
        with subprocess.Popen(
            [sys.executable, *words],
            cwd=program,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOW": "hangs"},
        ) as running:
            limit = threading.Timer(LIMIT, running.kill)
            limit.start()
            try:
                assert running.stderr is not None
                # no limit: that of the timer
                said = [running.stderr.readline().strip() for _ in range(2)]
            finally:
                limit.cancel()
                running.kill()
        for line in said:
            assert re.fullmatch(r"(flowc: )?no sign of life for \d+ s: A.sink is starting", line), (
                said
            )
