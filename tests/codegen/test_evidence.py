"""What the report of a run has for decisions on a product: frames that were left out, declared
times that did not hold, what is unknown after a crash, and where it ran. Both programs of one
build, with the same tasks in C. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flowc
import pytest
from flowc.driver.execute.joining import joined
from flowc.machines.whoami import processor_name
from flowc.report.measured import read_run
from flowc.report.written import written
from flowc.runtime.digits import plain
from flowc.runtime.report import table

from builds import HANGS, in_its_own_time
from native_compiler import in_a_hurry

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """
task Count { out n: int64   state next: int64   wcet 3 ms   c "evidence.c:count" }
task Step { in n: int64   out m: int64   on error skip   c "evidence.c:step" }
task Show { in m: int64   wcet 1 ms   c "evidence.c:show" }

app A {
    period 5 ms   deadline 60 s
    count: Count   step: Step   show: Show
    count -> step -> show
}

platform one { cpu core }
"""
CODE = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int does(const char *what)
{
    const char *said = getenv("STEP");
    return said && !strcmp(said, what);
}

int count(void *state, int64_t *n, const void *p)
{
    count_state *s = state;
    *n = s->next++;
    return 0;
}

int step(void *state, const int64_t *n, int64_t *m, const void *p)
{
    *m = *n;
    if (*n == 5 && does("crashes"))
        *(volatile int *)0 = 1;
    return *n >= 5 && does("fails") ? 3 : 0;
}

int show(void *state, const int64_t *m, const void *p)
{
    if (*m == 7 && does("is slow"))
        usleep(4000);
    return 0;
}
"""
FRAMES = 20
PERIOD = 0.005


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "evidence.flow").write_text(TEXT)
    (folder / "evidence.c").write_text(CODE)
    with in_a_hurry(shared):
        where = folder / "build"
        flowc.build(folder / "evidence.flow", where, platform="one", native=True, measure=False)
        yield where


@pytest.fixture(params=["main.py", "main"])
def program(build: Path, request: pytest.FixtureRequest) -> list[str]:
    """How one of the two is started."""
    found = str(build / request.param)
    return [sys.executable, found] if request.param == "main.py" else [found]


def ran(
    program: list[str], file: Path, *words: str, **variables: str
) -> tuple[int, str, dict[str, Any]]:
    """Its exit status, its own last words, and its report."""
    done = subprocess.run(
        [*program, "--report", str(file), *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    return done.returncode, done.stderr, json.loads(file.read_text())


# -- frames that were left out ---------------------------------------------------------------------
LEFT_OUT = f"15 of {FRAMES} frames of A were left out by `on error`"
PACED = ("--frames", str(FRAMES))


def test_frames_that_were_left_out_are_told_last(program: list[str], tmp_path: Path) -> None:
    status, said, report = ran(program, tmp_path / "r.json", *PACED, STEP="fails")
    assert status == report["status"] == 0
    assert said.endswith(f"flowc: warning: {LEFT_OUT}; --fail-on-miss makes it a failure\n")
    _, said, _ = ran(program, tmp_path / "r.json", *PACED, "--full-speed", STEP="fails")
    assert said.endswith(f"flowc: warning: {LEFT_OUT}\n")
    assert "left out" not in ran(program, tmp_path / "r.json", *PACED)[1]


def test_a_frame_that_was_left_out_is_late(program: list[str], tmp_path: Path) -> None:
    words = (*PACED, "--fail-on-miss", "--quiet")
    status, said, report = ran(program, tmp_path / "r.json", *words, STEP="fails")
    assert status == report["status"] == 1
    assert said.endswith(f"flowc: {LEFT_OUT}\n")
    assert ran(program, tmp_path / "r.json", *words)[0] == 0
    assert ran(program, tmp_path / "r.json", *words, "--full-speed", STEP="fails")[0] == 0


def test_frames_that_were_left_out_took_their_time(program: list[str], tmp_path: Path) -> None:
    """From the first release on to the end of the last frame, which was left out."""
    _, _, report = ran(program, tmp_path / "r.json", *PACED, STEP="fails")
    app = report["apps"]["A"]
    assert (app["frames"], app["skipped"]) == (FRAMES, 15)
    assert app["seconds"] >= (FRAMES - 1) * PERIOD


def test_frames_that_were_left_out_count_for_the_rate(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEP", "fails")
    assert in_its_own_time(build, *PACED)["apps"]["A"]["fps"] == 1 / PERIOD


# -- declared times --------------------------------------------------------------------------------
def test_a_firing_above_its_declared_wcet_is_told(program: list[str], tmp_path: Path) -> None:
    status, said, report = ran(program, tmp_path / "r.json", *PACED, STEP="is slow")
    above = []
    for name, wcet in (("A.count", 3000), ("A.show", 1000)):
        task = report["tasks"][name]
        assert task["wcet_us"] == wcet
        if task["max_us"] > wcet:
            above.append(f"{name} {plain(task['max_us'] / 1e3)} ms instead of {wcet // 1000} ms")
    assert status == 0 and report["tasks"]["A.show"]["max_us"] >= 4000
    told = "firings took longer than the `wcet` that bounds rest on, or were interrupted: "
    assert f"flowc: warning: {told}{', '.join(above)}\n" in said
    assert "wcet_us" not in report["tasks"]["A.step"]
    assert told not in ran(program, tmp_path / "r.json", *PACED, "--quiet", STEP="is slow")[1]


# -- what is unknown after a crash -----------------------------------------------------------------
KNOWN = {"wcet_us", "deadline_ms", "capacity", "processor"}


def numbers(value: Any) -> Iterator[Any]:
    """What a part of a report has counted."""
    if not isinstance(value, dict):
        yield value
        return
    for key, one in value.items():
        if key not in KNOWN:
            yield from numbers(one)


def test_what_a_crashed_program_has_counted_is_unknown(program: list[str], tmp_path: Path) -> None:
    status, _, report = ran(program, tmp_path / "r.json", *PACED, STEP="crashes")
    assert status == report["status"] == 1
    assert (report["failure"]["task"], report["failure"]["firing"]) == ("A.step", 5)
    assert report["apps"]["A"]["frames"] is None
    for part in ("apps", "processors", "tasks", "channels", "dropped"):
        assert not [one for one in numbers(report[part]) if one not in (None, [])], part
    assert report["tasks"]["A.show"]["wcet_us"] == 1000
    assert report["apps"]["A"]["deadline_ms"] == 60_000
    assert report["memory"]["resident"] is None
    read = read_run((tmp_path / "r.json").read_bytes())
    assert read.failure.startswith("A.step: ") and not (read.apps or read.tasks)
    assert ran(program, tmp_path / "r.json", *PACED)[2]["apps"]["A"]["frames"] == FRAMES


def test_a_part_that_has_crashed_leaves_its_apps_unknown(build: Path, tmp_path: Path) -> None:
    program = [sys.executable, str(build / "main.py")]
    good = ran(program, tmp_path / "good.json", *PACED)[2]
    bad = ran(program, tmp_path / "bad.json", *PACED, STEP="crashes")[2]
    assert written((tmp_path / "bad.json").read_bytes())[0].apps["A"].frames is None
    for reports in ({"a": good, "b": bad}, {"a": bad, "b": good}):
        together = joined(reports, 1, "")
        assert together["apps"]["A"]["frames"] is None
        assert "\nA " in table(together)


# -- where it ran ----------------------------------------------------------------------------------
def test_a_report_says_where_and_when_it_was_made(program: list[str], tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    found = ran(program, tmp_path / "r.json", "--frames", "1")[2]["where"]
    started = datetime.strptime(found.pop("started"), "%Y-%m-%dT%H:%M:%S%z")
    assert before <= started <= datetime.now(UTC)
    made_by = found.pop("python" if program[0] == sys.executable else "compiler")
    assert re.search(r"\d+\.\d+", made_by)
    system = os.uname()
    assert found == {
        "machine": system.nodename,
        "processor": f"{processor_name()} ({system.machine})",
        "kernel": f"{system.sysname} {system.release}",
        "flowc": flowc.__version__,
    }
