"""The clock of the system may be set while a program runs: nothing waits longer for that, and
nothing ends earlier."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builds import HANGS, Write, build

TEXT = """
task Make { out x: int64   python "t.py:make" }
task See  { in x: int64   python "t.py:see" }
platform two { cpu core[2] }
mapping on two { A.make -> core[0]  A.see -> core[1]  B.make -> core[0]  B.see -> core[1] }
app A { period 5 ms   make: Make   see: See   make -> see }
app B { period 5 ms   make: Make   see: See   make -> see }
scenario Turns { initial state one { run A }  state two { run B }  one -> two after 50 ms  two -> one after 50 ms }
"""
TASKS = "def make(): return 1\ndef see(x): pass\n"
#: The clock of the system is an hour ahead whenever it is looked at, as if it were set back behind
#: each look.
SET_BACK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int status = next(clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += 3600;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("steady", [True, False])
def test_a_clock_that_is_set_back(write: Write, tmp_path: Path, steady: bool) -> None:
    """Also as Python before 3.10 has to wait, which is tried with any."""
    out = build(write(TEXT, t_py=TASKS), tmp_path / "out", platform="two")
    if not steady:
        module = out / "runtime" / "steady.py"
        text = module.read_text()
        assert text.count("STEADY = sys.version_info >= (3, 10)") == 1
        module.write_text(text.replace("STEADY = sys.version_info >= (3, 10)", "STEADY = False"))
    (tmp_path / "set.c").write_text(SET_BACK)
    library = str(tmp_path / "set.so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, str(tmp_path / "set.c"), "-ldl"],
        timeout=HANGS,
        check=True,
    )
    command = [
        sys.executable,
        str(out / "main.py"),
        "--quiet",
        "--frames",
        "60",
        "--report",
        str(tmp_path / "r.json"),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
        env={**os.environ, "LD_PRELOAD": library},
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (
        max(app["frames"] for app in report["apps"].values()) == 60
        and report["apps"]["B"]["frames"] > 0
    )
