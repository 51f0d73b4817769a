"""How faults end: the list of docs/program.md in both programs of one build, with the same tasks in
C. Both say the same, word for word, and exit with the same status. All tasks are on one core, so
that no other one fires when a process ends. Needs a C++ compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import flowc
import pytest

from builds import HANGS
from limits import next_line, wait_until_stopped
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """
task Count { out n: int64   state next: int64   c "faults.c:count" }
task Step { in n: int64   out m: int64   c "faults.c:step" }
task Show { in m: int64   c "faults.c:show" }

app A {
    count: Count   step: Step   show: Show
    count -> step -> show
}

platform one { cpu core }
"""
CODE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the variable of that name says. */
static int does(const char *where, const char *what)
{
    const char *said = getenv(where);
    return said && !strcmp(said, what);
}

static void fault(const char *where)
{
    if (does(where, "crashes"))
        *(volatile int *)0 = 1;
    if (does(where, "aborts"))
        abort();
    if (does(where, "is killed"))
        kill(getpid(), SIGKILL);
    if (does(where, "exits"))
        exit(0);
    if (does(where, "is suspended"))
        kill(getpid(), SIGSTOP);
    if (does(where, "leaves"))
        pthread_exit(0);
    if (does(where, "hangs")) {
        (void)!write(1, "hangs\n", 6);
        for (;;)
            pause();
    }
}

int count(void *state, int64_t *n, const void *p)
{
    count_state *s = state;
    *n = s->next++;
    return *n == 8 ? FLOWC_END : 0;
}

void *step_init(const void *p)
{
    static int nothing;
    fault("START");
    return does("START", "refuses") ? NULL : &nothing;
}

int step(void *state, const int64_t *n, int64_t *m, const void *p)
{
    *m = *n;
    if (*n != 5)
        return 0;
    fault("FIRING");
    if (does("FIRING", "ends"))
        return FLOWC_END;
    return does("FIRING", "fails") ? 3 : 0;
}

void step_exit(void *state)
{
    fault("CLOSE");
}

const char *step_error(void *state)
{
    return "no luck";
}

int show(void *state, const int64_t *m, const void *p)
{
    printf("%lld\n", (long long)*m);
    fflush(stdout);
    return 0;
}
"""


@pytest.fixture(scope="module")
def programs(
    tmp_path_factory: pytest.TempPathFactory, shared: Path
) -> Iterator[tuple[list[str], list[str]]]:
    """How the program in Python and the one in C++ are started."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.flow").write_text(TEXT)
    (folder / "faults.c").write_text(CODE)
    with in_a_hurry(shared):
        where = folder / "build"
        flowc.build(folder / "faults.flow", where, platform="one", native=True, measure=False)
        yield [sys.executable, str(where / "main.py")], [str(where / "main")]


def start(program: list[str], *words: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*program, "--full-speed", "--quiet", *words],
        cwd="/",
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # lines that are read here take nothing from what follows
    )


def hanging(program: list[str]) -> subprocess.Popen[bytes]:
    """A program whose task does not return."""
    child = start(program, FIRING="hangs")
    line = next_line(child)
    while line not in (b"hangs\n", b""):
        line = next_line(child)
    return child


def ended(child: subprocess.Popen[bytes]) -> tuple[int, list[str], list[int]]:
    """Its exit status, its own messages, and the numbers that the sink has seen. The messages do
    not tell by how much a busy machine was later than two seconds."""
    out, said = child.communicate(timeout=HANGS)
    own = [line for line in said.decode().splitlines() if line.startswith("flowc: ")]
    own = [re.sub(r"return for \d+ s", "return for 2 s", line) for line in own]
    return child.returncode, own, [int(n) for n in re.findall(r"^\d+$", out.decode(), re.MULTILINE)]


BY = "its process was ended by "
FIRES = {
    "fails": "step returned 3: no luck",
    "ends": "step returned FLOWC_END; only a source may end the stream",
    "crashes": f"{BY}SIGSEGV (Segmentation fault)",
    "aborts": f"{BY}SIGABRT (Aborted)",
    "is killed": f"{BY}SIGKILL (Killed)",
    "exits": "its process exited with status 0",
    "leaves": "ended its thread",
    "hangs": "did not return for 2 s (see --watchdog); core is in A.step, firing 5",
}
IN_FIRING = {("FIRING", what): f"failed at firing 5: {why}" for what, why in FIRES.items()}
AT_THE_ENDS = {
    (when, what): f"failed: {begins}{FIRES[what]}"
    for when, begins in (("START", "cannot start: "), ("CLOSE", "close: "))
    for what in ("crashes", "exits")
}
HANGS_AT_THE_ENDS = {
    ("START", "hangs"): "failed: cannot start: did not return for 2 s (see --watchdog)",
    ("CLOSE", "hangs"): "failed: close: did not return for 2 s (see --watchdog)",
    ("START", "refuses"): "failed: cannot start: step_init returned NULL",
}
FAULTS = {**IN_FIRING, **AT_THE_ENDS, **HANGS_AT_THE_ENDS}


@pytest.mark.parametrize("fault", FAULTS, ids=" ".join)
def test_a_fault_ends_both_programs_alike(
    programs: tuple[list[str], list[str]], fault: tuple[str, str]
) -> None:
    when, what = fault
    watched = ["--watchdog", "2"] if what == "hangs" else []
    children = [start(program, *watched, **{when: what}) for program in programs]
    for status, said, numbers in map(ended, children):
        assert (status, said) == (1, [f"flowc: app A, task A.step {FAULTS[fault]}"])
        assert numbers == list(range(len(numbers)))  # no gap, and in order
        assert len(numbers) == {"START": 0, "FIRING": 5, "CLOSE": 8}[when]


def test_the_watchdog_ends_both_programs_where_they_are_suspended(
    programs: tuple[list[str], list[str]],
) -> None:
    words = {"FIRING": "is suspended"}
    children = [start(program, "--watchdog", "2", **words) for program in programs]
    reason = "the program was suspended and did not return for 2 s (see --watchdog)"
    for status, said, numbers in map(ended, children):
        # the thread that stops its process goes on until the kernel reaches it
        assert (status, said) == (1, [f"flowc: {reason}"]) and len(numbers) >= 5


def test_a_signal_lets_both_programs_go_on(programs: tuple[list[str], list[str]]) -> None:
    """They heed it, unless their stream has ended before."""
    children = [start(program, FIRING="is suspended") for program in programs]
    for child in children:
        wait_until_stopped(child.pid)
        child.send_signal(signal.SIGTERM)
    for status, said, numbers in map(ended, children):
        assert status in (0, 143) and not said and len(numbers) >= 5


def test_a_second_signal_ends_both_programs_at_once(
    programs: tuple[list[str], list[str]],
) -> None:
    children = [hanging(program) for program in programs]
    for number in (signal.SIGINT, signal.SIGTERM):
        for child in children:
            child.send_signal(number)
        time.sleep(1)  # two within 0.15 s count as one
    assert [ended(child)[0] for child in children] == [128 + signal.SIGINT] * 2


def test_a_program_ends_with_its_supervisor(programs: tuple[list[str], list[str]]) -> None:
    child = hanging(programs[1])
    child.kill()
    ended(child)  # its streams are closed, so that no process has them any more
