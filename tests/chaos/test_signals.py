"""Signals at any moment of a program's life: it ends in order, or it is ended, and says where it
was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builds import ROOT, store_profile
from limits import wait_until_stopped

from .programs import Make, Running, seen, started, written

END = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "status"), END)
def test_before_anything_is_imported(programs: Make, number: signal.Signals, status: int) -> None:
    """Until Python itself is up, the system decides, and a shell shows the same status; or Python
    does, with 1."""
    with started(programs("threads"), "") as running:
        running.send(number)
        found, _, stderr = running.end()
        assert found in (status, -number) or (found == 1 and "KeyboardInterrupt" in stderr)


@pytest.mark.parametrize(("number", "status"), END)
def test_while_it_imports(
    programs: Make, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """A module that numpy or the runtime needs tells the moment."""
    (tmp_path / "fractions.py").write_text(
        "import time\nprint('imports', flush=True)\nwhile True: time.sleep(0.05)\n"
    )
    with started(programs("threads"), "", PYTHONPATH=str(tmp_path)) as running:
        running.until("imports")
        running.send(number)
        assert running.end() == (status, "imports\n", "")


def test_while_it_starts_again_for_its_networks(programs: Make, tmp_path: Path) -> None:
    """Between the two starts a signal waits."""
    (tmp_path / "fractions.py").write_text(
        "import importlib.util as u, os, signal, sys, time\n"
        "if 'GLIBC_TUNABLES' in os.environ:\n    print('imports', flush=True)\n"
        "    while not signal.sigpending(): time.sleep(0.02)\n"
        f"s = u.spec_from_file_location('fractions', {os.path.dirname(os.__file__)!r} + '/fractions.py')\n"
        "m = sys.modules['fractions'] = u.module_from_spec(s)\ns.loader.exec_module(m)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    command = [sys.executable, str(programs("network") / "main.py"), "--quiet"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**environment, "PYTHONPATH": str(tmp_path)},
    ) as process:  # fmt: skip
        running = Running(process)
        running.until("imports")
        running.send(signal.SIGTERM)
        status, _, stderr = running.end()
    assert (status, stderr) == (143, "")


@pytest.mark.parametrize("program", ["threads", "processes"])
@pytest.mark.parametrize(("number", "status"), END)
def test_while_a_task_starts(
    programs: Make, program: str, number: signal.Signals, status: int
) -> None:
    """What has started is closed."""
    with started(programs(program), "middle:start:hang") as running:
        running.until("hangs")
        running.send(number)
        returned, stdout, stderr = running.end()
    assert (returned, stderr) == (status, "")
    assert stdout == "hangs\ncloses source\n"


@pytest.mark.parametrize(("number", "status"), END)
def test_between_frames(programs: Make, number: signal.Signals, status: int) -> None:
    with started(programs("paced"), "") as running:
        running.until("saw 3")
        running.send(number)
        returned, stdout, stderr = running.end()
    assert (returned, stderr) == (status, "")
    assert seen(stdout) > 3
    assert [line for line in stdout.splitlines() if line.startswith("closes")] == [
        "closes source", "closes middle", "closes sink"
    ]  # fmt: skip


def test_a_group_gets_one_signal(programs: Make) -> None:
    """A terminal sends Ctrl-C to the supervisor and to the program, and neither takes it for a
    second one."""
    with started(programs("paced"), "") as running:
        running.until("saw 3")
        os.killpg(running.process.pid, signal.SIGINT)
        status, stdout, stderr = running.end()
    assert (status, stderr) == (130, "") and "closes sink" in stdout


def test_in_a_firing_that_hangs(programs: Make) -> None:
    with started(programs("threads"), "middle:fire:hang") as running:
        running.until("hangs")
        running.send(signal.SIGTERM)
        status, stdout, stderr = running.end()
    assert status == 143 and seen(stdout) <= 2
    assert "frames in flight did not end" in stderr and "is in A.middle, firing 2" in stderr


@pytest.mark.parametrize(
    ("program", "fault", "words"),
    [
        (
            "c",
            "c:start:hang",
            "app A, task A.middle failed: cannot start: did not return within 5 s of",
        ),
        ("threads", "sink:fire:hold", "A.sink"),
        (
            "threads",
            "sink:close:hold",
            "app A, task A.sink failed: close: did not return within 5 s of a signal",
        ),
        (
            "processes",
            "sink:close:hang",
            "app A, task A.sink failed: close: did not return within 5 s of a signal",
        ),
    ],
)
def test_where_no_python_code_can_heed_it(
    programs: Make, program: str, fault: str, words: str
) -> None:
    with started(programs(program), fault, "--frames", "6") as running:
        running.until("hangs")
        running.send(signal.SIGTERM)
        status, stdout, stderr = running.end()
    assert status == 143 and words in stderr, stderr
    assert seen(stdout) == {"start": 0, "fire": 2, "close": 6}[fault.split(":")[1]]


def test_other_signals_reach_the_program(programs: Make) -> None:
    # Not SIGHUP: who starts the tests with nohup has it ignored everywhere.
    with started(programs("paced"), "") as running:
        running.until("saw 3")
        running.send(signal.SIGUSR1)
        status, stdout, stderr = running.end()
    assert (status, stderr) == (128 + signal.SIGUSR1, "") and seen(stdout) > 3


@pytest.mark.parametrize("group", [False, True])
def test_a_program_that_is_stopped_and_goes_on(programs: Make, group: bool) -> None:
    """For longer than the limit of the watchdog; a stopped supervisor stops the program."""
    with started(programs("paced"), "", "--frames", "60", "--watchdog", "3") as running:
        running.until("saw 5")
        pid = running.process.pid
        send = os.killpg if group else os.kill
        send(pid, signal.SIGSTOP)
        wait_until_stopped(pid)
        time.sleep(3.5)
        send(pid, signal.SIGCONT)
        status, stdout, stderr = running.end()
    assert (status, stderr) == (0, "") and seen(stdout) == 60


@pytest.mark.parametrize(
    ("program", "moment"), [("threads", "fire"), ("paced", "fire"), ("threads", "start")]
)
@pytest.mark.parametrize(("number", "status"), END)
def test_the_first_signal_ends_a_program_that_was_stopped(
    programs: Make, program: str, moment: str, number: signal.Signals, status: int
) -> None:
    """It goes on, so that it heeds it."""
    with started(programs(program), f"sink:{moment}:sigstop") as running:
        wait_until_stopped(running.process.pid)
        running.send(number)
        found, stdout, stderr = running.end()
    assert found == status, stderr
    assert "closes source" in stdout


def test_a_program_that_was_stopped_ends_with_its_keeper(programs: Make) -> None:
    with started(programs("threads"), "sink:fire:sigstop") as running:
        stopped = wait_until_stopped(running.process.pid)
        running.send(signal.SIGKILL)
        try:
            assert running.end()[0] == -signal.SIGKILL  # once no process holds the pipes any more
        except subprocess.TimeoutExpired:
            os.kill(stopped, signal.SIGKILL)
            raise


def test_a_program_ends_with_flowc_run(programs: Make, tmp_path: Path) -> None:
    """Whose SIGKILL it learns from the system."""
    flow = written(tmp_path, period="period 10 ms")
    store_profile(flow, platform="two")
    command = [
        sys.executable,
        "-m",
        "flowc",
        "run",
        str(flow),
        "--platform",
        "two",
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(
        command, cwd=ROOT.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "FAULT": ""}
    ) as process:  # fmt: skip
        running = Running(process)
        running.until("saw 3")
        process.kill()
        status, stdout, _ = running.end()  # once no process holds the pipes any more
    assert status == -signal.SIGKILL and "closes sink" in stdout
    shutil.rmtree(tmp_path / "out")
