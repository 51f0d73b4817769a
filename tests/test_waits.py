"""Nothing waits for ever: neither tests, nor what they start, nor flowc."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builds import ROOT
from limits import HANGS
from waiting import endless

#: Texts and programs that tests compare with.
APART = {"faulty", "golden"}


def files(*rooms: str) -> list[Path]:
    return [
        f for room in rooms for f in sorted((ROOT / room).rglob("*.py")) if not APART & set(f.parts)
    ]


def test_every_wait_of_a_test_has_a_limit() -> None:
    found = [place for file in files("tests") for place in endless(file)]
    assert not found, (
        "give it a limit (tests/support/limits.py), or say `# no limit: why`:\n" + "\n".join(found)
    )


@pytest.mark.parametrize(
    "room", ["cli", "codegen", "driver", "editor", "machines", "profiling", "report", "runtime"]
)
def test_every_wait_of_flowc_has_a_limit_or_a_reason(room: str) -> None:
    found = [place for file in files(room) for place in endless(file)]
    assert not found, "give it a limit, or say `# no limit: why`:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("process.wait()", True),
        ("process.wait(HANGS)", False),
        ("process.communicate('x')", True),
        ("process.communicate(timeout=HANGS)", False),
        ("thread.join()", True),
        ("','.join(names)", False),
        ("queue.get()", True),
        ("names.get('x')", False),
        ("subprocess.run(['cc'])", True),
        ("subprocess.run(['cc'], timeout=HANGS)", False),
        ("subprocess.run(['cc'], **limits)", False),
        ("process.stdout.readline()", True),
        ("stream.readline()", False),
        ("select.select([a], [], [])", True),
        ("select.select([a], [], [], 1)", False),
        ("os.waitpid(child, 0)", True),
        ("os.waitpid(child, os.WNOHANG)", False),
        ("there.recv(10)", True),
        ("there.settimeout(1), there.recv(10)", False),
        ("socket.create_connection(there, timeout=1).recv(10)", False),
        ("process.wait()  # no limit: it was killed", False),
        ("# no limit: it was killed\nprocess.wait()", False),
        ("process.wait()  # no limit:", True),
    ],
)
def test_what_counts_as_a_wait(call: str, waits: bool, tmp_path: Path) -> None:
    file = tmp_path / "t.py"
    file.write_text(call + "\n")
    ast.parse(file.read_text())
    assert bool([*endless(file)]) == waits


def test_children_can_be_interrupted() -> None:
    """Also where the tests themselves are started in the background."""
    script = "import signal; print(*(signal.getsignal(n) is not signal.SIG_IGN for n in (signal.SIGINT, signal.SIGQUIT)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANGS
    )
    assert done.stdout.split() == ["True", "True"]


def _in_the_background() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def test_children_can_be_interrupted_in_the_background() -> None:
    """As a shell starts what stands before `&`."""
    case = f"{__file__}::{test_children_can_be_interrupted.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", case],
        cwd=ROOT,
        preexec_fn=_in_the_background,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("how", ["a wait", "C code"])
def test_a_test_that_hangs_fails_with_its_name_and_its_stacks(how: str, tmp_path: Path) -> None:
    """C code that holds the interpreter can only be ended with its process."""
    wait = (
        "threading.Event().wait()"
        if how == "a wait"
        else "[ctypes.PyDLL(None).sleep(60) for _ in range(9)]"
    )
    (tmp_path / "test_it.py").write_text(
        f"import ctypes, threading\ndef test_hangs():\n    {wait}\ndef test_goes(): ...\n"
    )
    options = ["-o", "faulthandler_timeout=5"] if how == "C code" else ["--timeout=5"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            ROOT / "pyproject.toml",
            "-n",
            "1",
            *options,
            tmp_path,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "test_it.py::test_hangs" in said, said
    assert ("test_it.py" in said and "line 3" in said) or "test_it.py:3" in said, said
    assert ("1 passed" in said) == (how == "a wait"), said
