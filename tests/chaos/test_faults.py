"""A task goes wrong in every way there is, when it starts, fires or is closed: the program ends,
and says which one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import flowc
import pytest
from flowc.profiling.measure import MeasurementFailed, run_build

from builds import Write

from .programs import Make, hurt, seen, started

FRAMES = 6
#: Firings before the one that goes wrong.
BEFORE = 2
WHERE = ("source", "middle", "sink")
MOMENTS = ("start", "fire", "close")
#: What is said of a fault in Python code.
WORDS = {
    "raise": "ValueError: no luck",
    "wordless": "Wordless: (it has no words: its own __str__ raises RuntimeError)",
    "sysexit": "SystemExit: 0",
    "stop": "StopIteration",
    "interrupt": "KeyboardInterrupt",
    "memory": "Unable to allocate",
    "recursion": "RecursionError",
    "os_exit": "its process exited with status 0",
    "c_exit": "its process exited with status 0",
    "segv": "its process was ended by SIGSEGV (Segmentation fault)",
    "abort": "its process was ended by SIGABRT (Aborted)",
    "kill": "its process was ended by SIGKILL (Killed)",
    "hang": "did not return for",
    "c_hang": "did not return for",
    "hold": "did not return for",
    "shape": "returned int64[3] for port",
    "dtype": "returned float32[] for port",
    "count": "returned 2 values for 1 port",
    "none": "returned nothing for port",
}
RETURNED = ("shape", "dtype", "count", "none")
HANGING = ("hang", "c_hang", "hold")
#: After these nothing of the program is left that could close tasks.
DEADLY = ("os_exit", "c_exit", "segv", "abort", "kill", *HANGING)


def spread() -> list[str]:
    """Every kind in a firing, and either at the start or at the end, each time in another task."""
    found = []
    for i, kind in enumerate(WORDS):
        where = WHERE[i % 3]
        if kind in RETURNED and where == "sink":
            where = "middle"  # what a sink returns does not matter
        if kind in (*HANGING, "stop") and where == "source":
            where = "sink"  # a source may wait for data, and end the stream
        found.append(f"{where}:fire:{kind}")
        if kind not in RETURNED:
            found.append(f"{WHERE[(i + 1) % 3]}:{MOMENTS[i % 2 * 2]}:{kind}")
    return found


def arguments(kind: str, seconds: int) -> list[str]:
    """Only what hangs is given a short time, and no shorter than what others need to start on a
    busy machine."""
    waiting = ["--watchdog", str(seconds)] if kind in HANGING else []
    return [
        "--frames",
        str(FRAMES),
        *waiting,
        *(["--strict"] if kind in ("shape", "dtype") else []),
    ]


def told(stderr: str, where: str, moment: str, words: str) -> bool:
    """Is it the last line, with the task, the moment and the reason?"""
    at = {
        "start": " failed: cannot start: ",
        "fire": f" failed at firing {BEFORE}: ",
        "close": " failed: close: ",
    }
    last = stderr.splitlines()[-1]
    single = f"flowc: app A, task A.{where}{at[moment]}"
    # Where several tasks were in a firing when the process ended, it is unknown which one failed.
    several = rf"flowc: one of .*A\.{where} \(firing {BEFORE}\).* failed: "
    return words in last and (last.startswith(single) or re.match(several, last) is not None)


def check(stdout: str, where: str, moment: str) -> None:
    """The sink saw what was finished before, in order."""
    frames = seen(stdout)
    if moment == "fire" and where != "sink":
        assert frames <= BEFORE
    else:
        assert frames == {"start": 0, "fire": BEFORE, "close": FRAMES}[moment]


@pytest.mark.parametrize("fault", spread())
def test_threads(programs: Make, fault: str) -> None:
    where, moment, kind = fault.split(":")
    done = hurt(programs("threads"), fault, *arguments(kind, 5))
    assert done.returncode == 1, done.stderr
    assert told(done.stderr, where, moment, WORDS[kind]), done.stderr
    assert "Traceback" not in done.stderr
    check(done.stdout, where, moment)
    if kind not in DEADLY:
        begun = WHERE[: WHERE.index(where)] if moment == "start" else WHERE
        assert [w for w in WHERE if f"closes {w}\n" in done.stdout] == list(begun)


@pytest.mark.parametrize(
    "fault",
    [
        *spread()[:-10:3],
        "middle:start:hang",
        "sink:fire:hold",
        "source:close:c_hang",
    ],
)
def test_processes(programs: Make, fault: str) -> None:
    where, moment, kind = fault.split(":")
    done = hurt(programs("processes"), fault, *arguments(kind, 15))
    assert done.returncode == 1, done.stderr
    assert told(done.stderr, where, moment, WORDS[kind]), done.stderr
    check(done.stdout, where, moment)
    if kind not in DEADLY:
        begun = WHERE[: WHERE.index(where)] if moment == "start" else WHERE
        assert [w for w in WHERE if f"closes {w}\n" in done.stdout] == list(begun)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_watchdog_ends_what_was_suspended(programs: Make, moment: str) -> None:
    done = hurt(programs("threads"), f"sink:{moment}:sigstop", "--frames", "6", "--watchdog", "5")
    assert done.returncode == 1
    words = r"flowc: the program was suspended and did not return for \d s \(see --watchdog\)\n"
    assert re.fullmatch(words, done.stderr), done.stderr


def test_the_watchdog_ends_a_process_that_was_suspended(programs: Make) -> None:
    """The program itself is at work."""
    done = hurt(programs("processes"), "sink:fire:sigstop", *arguments("hang", 15))
    assert done.returncode == 1
    assert told(done.stderr, "sink", "fire", WORDS["hang"]), done.stderr


def test_a_source_ends_its_stream(programs: Make) -> None:
    for kind in ("threads", "processes"):
        done = hurt(programs(kind), "source:fire:stop")
        assert (done.returncode, seen(done.stdout)) == (0, BEFORE), done.stderr


@pytest.mark.parametrize(
    ("moments", "kind", "words"),
    [
        ("start", "status", "middle_init returned NULL"),
        ("fire", "status", "middle returned 7"),
        ("start fire close", "exit", "its process exited with status 0"),
        ("fire", "_exit", "its process exited with status 0"),
        ("start fire close", "segv", "its process was ended by SIGSEGV"),
        ("start", "fpe", "its process was ended by SIGFPE"),
        ("close", "abort", "its process was ended by SIGABRT"),
        ("start fire close", "hang", "did not return for"),
    ],
)
def test_c_code(programs: Make, moments: str, kind: str, words: str) -> None:
    for moment in moments.split():
        in_c(programs("c"), moment, kind, words)


def in_c(program: Path, moment: str, kind: str, words: str) -> None:
    done = hurt(program, f"c:{moment}:{kind}", *arguments(kind, 5))
    assert done.returncode == 1, done.stderr
    assert told(done.stderr, "middle", moment, words), done.stderr
    check(done.stdout, "middle", moment)


def test_the_line_that_crashed_is_shown(programs: Make) -> None:
    done = hurt(programs("threads"), "sink:fire:segv")
    calls = [line.rpartition(" in ")[2] for line in done.stderr.splitlines()[:-1]]
    assert calls == ["__call__", "fired", "<lambda>", "string_at"], done.stderr


def test_what_takes_long_is_named_before_it_is_ended(programs: Make, tmp_path: Path) -> None:
    """With the ten seconds, and the five, shortened to one."""
    home = shutil.copytree(programs("threads"), tmp_path / "copy")
    for name, long, short in (
        ("supervisor", "SILENT = 10.0", "SILENT = 1.0"),
        ("watch", "STARTS = 5.0", "STARTS = 1.0"),
    ):
        file = home / "runtime" / f"{name}.py"
        text = file.read_text()
        assert text.count(long) == 1
        file.write_text(text.replace(long, short))
    for fault, words in (
        ("middle:start:hang", "A.middle is starting"),
        ("sink:close:c_hang", "A.sink is closing"),
        ("sink:fire:hold", r".*A.sink \(firing 2\) is in a firing"),
    ):
        done = hurt(home, fault, "--frames", str(FRAMES), "--watchdog", "6")
        assert done.returncode == 1
        assert re.search(
            rf"^flowc: no sign of life for \d+ s: {words}$", done.stderr, re.MULTILINE
        ), done.stderr


# -- while it is measured --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("program", "fault", "words"),
    [
        (
            "c",
            "c:fire:segv",
            r"task A\.middle failed at firing 2: its process was ended by SIGSEGV",
        ),
        (
            "c",
            "c:start:exit",
            r"task A\.middle failed: cannot start: its process exited with status 0",
        ),
        ("threads", "sink:fire:os_exit", r"A\.sink .*its process exited with status 0"),
        ("threads", "source:close:sysexit", r"task A\.source failed: close: SystemExit: 0"),
    ],
)
def test_measuring_names_the_task(
    programs: Make, monkeypatch: pytest.MonkeyPatch, program: str, fault: str, words: str
) -> None:
    monkeypatch.setenv("FAULT", fault)
    with pytest.raises(MeasurementFailed) as failure:
        run_build(programs(program), 0.2, strict=True)
    assert re.search(words, str(failure.value)), str(failure.value)


def test_a_crash_while_measuring_is_shown_in_the_text(write: Write, tmp_path: Path) -> None:
    from flowc.model.diagnostic import Errors

    code = "int f(void *s, const int64_t *n, const void *p) { return *(volatile int *)8; }"
    text = 'task S { out n: int64  python "s.py:s" }\ntask F { in n: int64  c "f.c:f" }\napp A { s: S  f: F  s -> f }\n'
    flow = write(text, s_py="def s():\n    return 1\n", f_c=code)
    with pytest.raises(Errors) as faults:
        flowc.build(flow, tmp_path / "out")
    (diagnostic,) = faults.value.diagnostics
    assert diagnostic.code == "F606" and "task A.f failed at firing 0" in diagnostic.message
    assert diagnostic.span is not None and diagnostic.span.line == 3


def test_nothing_is_left_when_the_keeper_is_killed(programs: Make) -> None:
    """Its end of the pipe is closed when the program is gone."""
    for program, fault in (("threads", "sink:fire:hold"), ("processes", "sink:close:hang")):
        with started(programs(program), fault, "--frames", "6") as running:
            running.until("hangs")
            running.process.kill()
            assert running.end()[0] == -9
