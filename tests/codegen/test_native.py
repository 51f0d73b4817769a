"""Programs in C++: what they compute, how they end, and what they say.

A few programs are built, each is run many times. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import onnx
import pytest
from flowc.cli import app
from flowc.codegen.native.files import native_files
from flowc.driver.execute.native import record_native, records
from flowc.driver.execute.run import test as run_harness
from flowc.driver.plan.program import deployment
from flowc.driver.show.reporting import RunFiles
from flowc.driver.show.reporting import report as report_of
from flowc.driver.text.check import prepare

from builds import HANGS, ROOT
from limits import next_line
from native import MISTAKES, found
from native_compiler import in_a_hurry
from native_texts import draw

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
GOLDEN = ROOT / "tests/golden/faults.main.cpp"
REWRITE = bool(os.environ.get("FLOWC_REWRITE_GOLDEN"))
TEXT = ROOT / "tests/support/native"
#: Random texts; more of them where that is asked for.
SEEDS = range(int(os.environ.get("FLOWC_FUZZ", "0")) // 100 or 1)


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose tasks fail as they are told."""
    folder = tmp_path_factory.mktemp("faults")
    shutil.copytree(TEXT, folder / "text")
    text = folder / "text/faults.flow"
    flowc.build(text, folder / "build", platform="two", native=True, measure=False)
    return folder / "build"


def start(build: Path, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [build / "main", *words],
        cwd="/",
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # lines that are read here take nothing from what follows
    )


def ended(child: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Its exit status, and what it prints until then."""
    out, said = child.communicate(timeout=HANGS)
    return child.returncode, out.decode(), said.decode()


def run(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Its exit status, and what it prints."""
    return ended(start(build, *words, **variables))


def reported(build: Path, file: Path, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
    status, _, said = run(build, "--quiet", "--report", str(file), *words, **variables)
    assert file.exists(), said
    return status, json.loads(file.read_text())


# -- what it computes ------------------------------------------------------------------------------
def test_main_cpp_is_as_expected() -> None:
    valid = prepare(TEXT / "faults.flow", platform="two").require()
    _, deployed, _, _ = deployment(valid, None, measure=False)
    made = native_files(deployed)["main.cpp"]
    assert isinstance(made, bytes)
    if REWRITE:
        GOLDEN.write_bytes(made)
    assert made.decode() == GOLDEN.read_text()
    assert native_files(deployed)["main.cpp"] == made


def test_a_task_may_be_called_as_its_file_and_function(tmp_path: Path) -> None:
    """`Noise.level`, `level` in noise.c and an app `noise_level` are one name in C++."""
    (tmp_path / "noise.c").write_text(
        "int level(void *state, int64_t *n, const void *p) { *n = 3; return FLOWC_END; }\n"
        "int show(void *state, const int64_t *n, const void *p) { return 0; }\n"
    )
    (tmp_path / "noise.flow").write_text(
        'task Level { out n: int64   c "noise.c:level" }\n'
        'task Show { in n: int64   c "noise.c:show" }\n'
        "app Noise { level: Level   level_init: Show   level -> level_init }\n"
        "app noise_level { level: Level   show: Show   level -> show }\n"
    )
    flowc.build(tmp_path / "noise.flow", tmp_path / "build", native=True, measure=False)
    assert run(tmp_path / "build", "--quiet") == (0, "", "")


def test_texts_of_licenses_go_with_the_program() -> None:
    valid = prepare(ROOT / "examples" / "spotter" / "native.flow").require()
    _, deployed, _, _ = deployment(valid, None, measure=False)
    plan = native_files(deployed)
    assert plan["native/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert {"lib/onnxruntime/LICENSE", "lib/onnxruntime/ThirdPartyNotices.txt"} <= set(plan)


def test_another_mapping_compiles_main_cpp_alone(faults: Path, tmp_path: Path) -> None:
    objects = Path(os.environ["XDG_CACHE_HOME"], "flowc/objects")
    before = set(objects.iterdir())
    shutil.copytree(TEXT, tmp_path / "text")
    text = tmp_path / "text/faults.flow"
    text.write_text(text.read_text().replace("-> core[1]", "-> core[0]"))
    flowc.build(text, tmp_path / "build", platform="two", native=True, measure=False)
    assert (tmp_path / "build/main.cpp").read_bytes() != (faults / "main.cpp").read_bytes()
    assert {file.suffix for file in objects.iterdir() if file not in before} == {".json", ".o"}
    assert len(set(objects.iterdir()) - before) == 2
    flowc.build(text, tmp_path / "again", platform="two", native=True, measure=False)
    assert len(set(objects.iterdir()) - before) == 2
    assert run(tmp_path / "again", "--frames", "1", "--quiet")[0] == 0


@pytest.fixture(scope="module", params=SEEDS)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of a random text, which agrees with the sequential reference."""
    folder = tmp_path_factory.mktemp("drawn")
    text, code = draw(request.param)
    (folder / "app.flow").write_text(text)
    (folder / "app.c").write_text(code)
    tested = run_harness(
        folder / "app.flow",
        folder / "build",
        platform="board",
        native=True,
        measure=False,
        quiet=True,
    )
    assert tested.status == 0, tested.tests
    assert len(tested.tests) == 16  # four of each app
    return folder / "build"


def test_random_texts_equal_the_reference(drawn: Path) -> None:
    assert (drawn / "main").exists()


@pytest.mark.parametrize("kind", ["offset", "order", "zeroing", "stale token where a ring wraps"])
def test_planted_mistakes_are_found(drawn: Path, tmp_path: Path, kind: str) -> None:
    """tests/referees/native.py has more kinds, and more texts."""
    text = (drawn / "main.cpp").read_text()
    changed = MISTAKES[kind](text)
    assert changed != text
    assert found(drawn, changed, tmp_path)
    (drawn / "main.cpp").write_text(text)


CROSS = {
    "CC": "aarch64-linux-gnu-gcc",
    "CXX": "aarch64-linux-gnu-g++",
    "OBJCOPY": "aarch64-linux-gnu-objcopy",
    "LD": "aarch64-linux-gnu-ld",
    "CXXFLAGS": "-O0 -static",
}
QEMU = "qemu-aarch64-static"


@pytest.mark.skipif(
    not (shutil.which(CROSS["CXX"]) and shutil.which(QEMU)),
    reason="no compiler for aarch64, or no qemu: apt install g++-aarch64-linux-gnu qemu-user-static",
)
def test_another_machine_computes_the_same(drawn: Path, tmp_path: Path) -> None:
    """Its build.sh compiles for aarch64; every firing there reads and makes what it does here."""
    other = tmp_path / "other"
    shutil.copytree(drawn, other)
    for words in ([], ["-DFLOWC_RECORD", "-o", "recorder"]):
        command = ["sh", "build.sh", *words]
        subprocess.run(command, cwd=other, env={**os.environ, **CROSS}, check=True, timeout=HANGS)
    command = ["sh", "build.sh", "-DFLOWC_RECORD", "-o", str(tmp_path / "recorder")]
    subprocess.run(command, cwd=drawn, check=True, timeout=HANGS)
    recorded = []
    for run_it in ([str(tmp_path / "recorder")], [QEMU, str(other / "recorder")]):
        variables = {**os.environ, "FLOWC_RECORD": str(tmp_path / "raw")}
        command = [*run_it, "--frames", "10", "--full-speed", "--quiet"]
        subprocess.run(command, env=variables, check=True, timeout=HANGS)
        with open(tmp_path / "raw", "rb") as stream:
            recorded.append(sorted(records(stream)))
    assert recorded[0] == recorded[1] and len(recorded[0]) > 100


# -- how it ends -----------------------------------------------------------------------------------
def test_it_ends_with_its_stream_and_closes_its_tasks(faults: Path) -> None:
    status, out, said = run(faults, "--full-speed", "--quiet", LAST="4")
    assert (status, out, said) == (0, "0\n1\n3\n6\n", "closed\n")


ENDS = {
    1: "returned 3: no signal",
    2: "its process was ended by SIGSEGV (Segmentation fault)",
    3: "its process exited with status 0",
    4: "did not return for 1 s (see --watchdog); A.show waits for data from A.twice; core[1] is in"
    " A.step, firing 5",
    5: "threw no luck with home",
    6: "returned FLOWC_END; only a source may end the stream",
    7: "its process was ended by SIGABRT (Aborted)",
}


@pytest.mark.parametrize("what", ENDS)
def test_a_failure_is_named(faults: Path, tmp_path: Path, what: int) -> None:
    words = ["--set", f"A.step.what={what}", "--watchdog", "1", "--full-speed"]
    file = tmp_path / "report.json"
    status, out, said = run(faults, *words, "--quiet", "--report", str(file))
    reason = ENDS[what] if what in (2, 3, 4, 5, 7) else f"step {ENDS[what]}"
    assert said.splitlines()[-1] == f"flowc: app A, task A.step failed at firing 5: {reason}"
    numbers = [line for line in out.splitlines() if line.isdigit()]
    assert (status, numbers) == (1, ["0", "1", "3", "6", "10"])  # no gap, and in order
    document = json.loads(file.read_text())
    assert [f.name for f in tmp_path.iterdir()] == ["report.json"]
    place = {"app": "A", "task": "A.step", "firing": 5}
    assert document["failure"] == {**place, "reason": reason}
    assert document["status"] == 1


def test_a_deadlock_is_named(faults: Path, tmp_path: Path) -> None:
    """In a program that was changed by hand: a channel between its workers has no room."""
    shutil.copytree(faults, tmp_path / "build")
    main = tmp_path / "build/main.cpp"
    main.write_text(MISTAKES["capacity"](main.read_text()))
    compile_it = ["sh", "build.sh", "-o", "main"]
    subprocess.run(compile_it, cwd=main.parent, check=True, timeout=HANGS)
    status, out, said = run(main.parent, "--full-speed", "--quiet")
    waits = "A.count waits for space from A.step; A.step waits for data from A.count"
    assert (status, out, said) == (1, "", f"closed\nflowc: deadlock: {waits}\n")


def test_a_task_that_does_not_start_is_named(faults: Path) -> None:
    status, _, said = run(faults, NO_MEMORY="1")
    assert status == 1
    assert "app A, task A.count failed: cannot start: count_init returned NULL\n" in said


def test_a_process_that_a_task_forks_is_no_second_program(faults: Path) -> None:
    words = ["--set", "A.step.what=8", "--full-speed", "--quiet", "--frames", "8"]
    status, out, said = run(faults, *words)
    assert (status, out) == (0, "0\n1\n3\n6\n10\n15\n21\n28\n")
    assert "a process that it has forked has come back from there, and is ended" in said


def test_programs_that_tasks_start_heed_signals(faults: Path) -> None:
    words = ["--set", "A.step.what=9", "--full-speed", "--quiet", "--frames", "8"]
    status, _, said = run(faults, *words)
    assert status == 0, said


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "| true"])
def test_it_runs_with_any_of_its_streams_closed(faults: Path, closed: str) -> None:
    command = f"set -o pipefail; LAST=9 {faults}/main --full-speed {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_a_failure(faults: Path) -> None:
    command = f"LAST=4 {faults}/main --full-speed > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=HANGS, check=False)
    assert done.returncode == 1
    assert b"flowc: cannot write to standard output: No space left on device\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_frames_in_flight(faults: Path, number: int) -> None:
    child = start(faults)
    first = next_line(child)
    child.send_signal(number)
    status, out, said = ended(child)
    assert status == 128 + number, said
    numbers = [int(line) for line in out.splitlines() if line.isdigit()]
    assert [int(first), *numbers] == [n * (n + 1) // 2 for n in range(len(numbers) + 1)]
    assert "A.count  " in out and "closed\n" in said
    frames = re.search(r"^A +(\d+) ", out, re.MULTILINE)
    assert frames is not None and int(frames[1]) == len(numbers) + 1


def test_a_source_that_waits_does_not_hold_up_the_end(faults: Path) -> None:
    child = start(faults, WAITS="3")
    assert [next_line(child) for _ in range(2)] == [b"0\n", b"1\n"]
    child.send_signal(signal.SIGTERM)
    status, _, said = ended(child)
    assert status == 143, said


def test_a_task_that_hangs_is_named_at_the_end(faults: Path) -> None:
    child = start(faults, "--full-speed", "--quiet", "--set", "A.step.what=4")
    while next_line(child) != b"hangs\n":
        pass
    child.send_signal(signal.SIGTERM)
    status, _, said = ended(child)
    assert status == 143
    assert "flowc: frames in flight did not end; " in said
    assert "core[1] is in A.step, firing 5" in said


# -- options ---------------------------------------------------------------------------------------
def test_mistakes_in_parameters_are_told_at_once(faults: Path) -> None:
    given = ["A.step.wat=1", "A.show.gain=much", "A.show.on=yes", "A.step.what=1.5", "B.x.y=1"]
    words = [word for text in given for word in ("--set", text)]
    status, out, said = run(faults, *words, FLOWC_SET="A.step.what")
    assert (status, out) == (2, "")
    assert said == (
        "flowc: FLOWC_SET A.step.what: write App.task.parameter=value\n"
        "flowc: --set A.step.wat=1: task A.step has no parameter wat\n"
        "flowc: --set A.show.gain=much: a float is needed, such as 0.5\n"
        "flowc: --set A.show.on=yes: a bool is needed: true or false\n"
        "flowc: --set A.step.what=1.5: an int is needed, such as 3\n"
        "flowc: --set B.x.y=1: there is no app B\n"
        "flowc: parameters that can be set: A.step.what (int, 0), A.step.at (string, 'home'),"
        " A.show.what (int, 0), A.show.gain (float, 0.5), A.show.on (bool, true)\n"
    )


@pytest.mark.parametrize("word", ["--twin", "--frames=-1", "--watchdog=x", "--frames", "x"])
def test_wrong_options_are_refused(faults: Path, word: str) -> None:
    status, _, said = run(faults, word)
    assert status == 2 and said.startswith("usage: main ")


def test_a_report_that_cannot_be_written_stops_it_before_it_begins(faults: Path) -> None:
    status, out, said = run(faults, "--report", "/no/such/folder/report.json")
    assert (status, out) == (1, "")
    assert said == "flowc: cannot write /no/such/folder/report.json: No such file or directory\n"


def test_missed_deadlines_are_counted(faults: Path, tmp_path: Path) -> None:
    status, document = reported(faults, tmp_path / "r.json", "--frames", "20", "--fail-on-miss")
    assert status == document["status"] == 1
    assert document["apps"]["A"]["deadline_misses"] == document["apps"]["A"]["frames"] == 20
    assert document["apps"]["A"]["deadline_ms"] == 0.001
    status, out, said = run(faults, "--frames", "20")
    assert status == 0 and "core[1]" in out
    assert "flowc: warning: deadlines were missed: A 20 of 20; --fail-on-miss makes it" in said
    status, document = reported(
        faults, tmp_path / "s.json", "--frames", "20", "--fail-on-miss", "--full-speed"
    )
    assert status == 0 and document["apps"]["A"]["deadline_misses"] == 0
    assert document["apps"]["A"]["deadline_ms"] is None
    status, out, said = run(faults, "--frames", "20", "--full-speed")
    assert status == 0 and "missed" not in said and re.search(r"^A +20 .* - +0$", out, re.MULTILINE)


def test_missed_deadlines_are_told_while_it_runs(faults: Path) -> None:
    status, _, said = run(faults, "--frames", "1500")
    told = r"flowc: A missed \d+ deadlines in its last \d+ frames \(deadline 0\.001 ms, last frame [\d.]+ ms[;)]"
    assert status == 0 and re.search(told, said)


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_a_source_that_hangs_though_it_is_released_is_ended(
    faults: Path, tmp_path: Path, program: str
) -> None:
    """Releases pass that nothing serves: they are late, and the watchdog ends it."""
    command = [faults / program] if program == "main" else [sys.executable, faults / program]
    report = tmp_path / "r.json"
    words = ["--watchdog", "2", "--report", str(report)]
    variables = {**os.environ, "WAITS": "3"}
    done = subprocess.run(
        [*command, *words], env=variables, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 1
    # three firings in two seconds, which are a share all the same
    assert re.search(r"^A\.count .* 0\.\d*[1-9]\d* %$", done.stdout, re.MULTILINE)
    assert "no frame begins: core[0] is in A.count, firing 3" in done.stderr
    assert "task A.count failed at firing 3: did not return for " in done.stderr
    app = json.loads(report.read_text())["apps"]["A"]
    assert app["frames"] == 3 and app["not_begun"] > 1000
    assert app["deadline_misses"] == 3 + app["not_begun"] and app["overruns"] >= app["not_begun"]


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_releases_that_nothing_served_are_late_at_a_signal(faults: Path, program: str) -> None:
    command = [faults / program] if program == "main" else [sys.executable, faults / program]
    child = subprocess.Popen(
        [*command, "--fail-on-miss", "--quiet"],
        env={**os.environ, "WAITS": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert [next_line(child) for _ in range(3)] == [b"0\n", b"1\n", b"3\n"]
    time.sleep(0.1)  # releases pass
    child.send_signal(signal.SIGTERM)
    status, _, said = ended(child)
    found = re.search(r"deadlines were missed: A (\d+) of (\d+)", said)
    assert status == 143 and found is not None and int(found[1]) == int(found[2]) > 50


def test_real_time_is_asked_of_the_system(faults: Path) -> None:
    child = start(faults, "--real-time", "--quiet", WAITS="3")
    assert next_line(child) == b"0\n"
    policies = set()
    for own in Path("/proc").glob(f"{child.pid}/task/*/children"):
        for pid in own.read_text().split():
            tasks = Path(f"/proc/{pid}/task").iterdir()
            policies |= {os.sched_getscheduler(int(task.name)) for task in tasks}
    child.send_signal(signal.SIGTERM)
    status, _, said = ended(child)
    assert status == 143
    refused = "fixed priorities are not in force ([Errno 1] Operation not permitted)" in said
    assert refused or policies == {os.SCHED_OTHER, os.SCHED_FIFO}, said


RESERVED = """
task Source { out y: int32   wcet 10 us   c "tone.c:source" }
task Sink { in x: int32   wcet 5 us   c "tone.c:sink" }
task Other { in x: int32   c "tone.c:sink" }
app Quick { period 50 us   deadline 50 us   source: Source   sink: Sink   source -> sink }
app Slow { period 20 ms   deadline 10 ms   source: Source   sink: Sink   source -> sink }
app Open { period 20 ms   source: Source   sink: Other   source -> sink }
app Fixed { period 20 ms   source: Source   sink: Sink   source -> sink }
platform four { cpu core[3] type a57   cpu fixed type a57 scheduler fixed_priority }
mapping on four {  Quick.source -> core[0]  Quick.sink -> core[0]
                   Slow.source -> core[1]  Slow.sink -> core[1]
                   Open.source -> core[2]  Open.sink -> core[2]
                   Fixed.source -> fixed    Fixed.sink -> fixed }
"""
RESERVED_C = """int source(void *s, int32_t *y, const source_params *p) { *y = 1; return 0; }
int sink(void *s, const int32_t *x, const sink_params *p) { return 0; }
"""
#: The policy of SCHED_DEADLINE, behind a flag that children have another one.
DEADLINE = 6 | os.SCHED_RESET_ON_FORK


@pytest.fixture(scope="module")
def reserving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker that reserves, one that does so too often for Linux, which takes 100 us as the
    shortest period, one whose work the text does not bound, and one with a fixed priority."""
    folder = tmp_path_factory.mktemp("reserving")
    (folder / "a.flow").write_text(RESERVED)
    (folder / "tone.c").write_text(RESERVED_C)
    built = flowc.build(
        folder / "a.flow", folder / "build", platform="four", native=True, measure=False
    )
    return Path(built.directory)


def test_what_the_text_bounds_is_reserved(reserving: Path) -> None:
    """15 us in each period."""
    workers = json.loads((reserving / "deployment.json").read_text())["processors"]
    wanted = {"work_ns": 15_000, "due_ns": 10_000_000, "period_ns": "20000000"}
    quick = {"work_ns": 15_000, "due_ns": 50_000, "period_ns": "50000"}
    assert [worker.get("reservation") for worker in workers] == [quick, wanted, None, None]
    text = (reserving / "main.cpp").read_text()
    assert "{flow::Scheduling::ORDINARY, 1, 0, 15000, {20000000, 1}, 10000000}" in text
    assert "{flow::Scheduling::ORDINARY, 2, 0}" in text


def test_reservations_are_asked_of_the_system(reserving: Path) -> None:
    child = start(reserving, "--reserve", "--quiet")
    try:
        policies = _policies_of_children(child, 3)
    finally:
        child.send_signal(signal.SIGTERM)
    status, _, said = ended(child)
    assert status == 143
    assert "reservations are not in force ([Errno " in said  # of the quick one
    assert "--reserve: fixed: nothing, the platform has fixed priorities\n" in said
    assert "--reserve: core[2]: nothing, the text does not bound this work\n" in said
    refused = "Operation not permitted" in said
    assert refused or policies == {os.SCHED_OTHER, os.SCHED_FIFO, DEADLINE}, said


def _policies_of_children(child: subprocess.Popen[bytes], kinds: int) -> set[int]:
    """The policies of all threads of the program, once there are so many kinds, or some time
    later."""
    found: set[int] = set()
    for _ in range(200):
        for own in Path("/proc").glob(f"{child.pid}/task/*/children"):
            for pid in own.read_text().split():
                threads = Path(f"/proc/{pid}/task").iterdir()
                found |= {os.sched_getscheduler(int(thread.name)) for thread in threads}
        if len(found) >= kinds:
            break
        time.sleep(0.02)
    return found


# -- compilers -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("variable", "value", "code", "said"),
    [
        ("CXX", "no-such-compiler", "F307", "there is no C++ compiler `no-such-compiler`"),
        ("OBJCOPY", "no-objcopy", "F307", "there is no copier of object files `no-objcopy`"),
        ("LD", "no-such-linker -v", "F307", "there is no linker `no-such-linker`"),
        ("CXXFLAGS", "-no-such-option", "F306", "the native program does not compile"),
    ],
)
def test_a_compiler_that_does_not_do_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    code: str,
    said: str,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(flowc.Errors) as caught:
        text = TEXT / "faults.flow"
        flowc.build(text, tmp_path / "build", platform="two", native=True, measure=False)
    (fault,) = [d for d in caught.value.diagnostics if d.severity == "error"]
    assert fault.code == code and fault.message.startswith(said)
    if code == "F307":
        assert fault.help is not None and fault.help.startswith("install one (`apt install ")
    assert [f.name for f in tmp_path.iterdir()] == []


def test_a_build_stays_as_it_is_without_a_compiler(
    faults: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`run` and `test` need one where the program has to be compiled again."""
    before = {f: f.stat().st_mtime_ns for f in faults.rglob("*") if f.is_file()}
    monkeypatch.setenv("CXX", "no-such-compiler")
    text = str(faults.parent / "text/faults.flow")
    for verb in ("build", "run", "test"):
        words = [text, "--target", "native", "--platform", "two", "--no-measure", "-o", str(faults)]
        assert app([verb, *words], standalone_mode=False) == 1
        said = capfd.readouterr().err
        assert "error[F307]: there is no C++ compiler `no-such-compiler`" in said
        assert "`apt install g++`" in said
    with pytest.raises(flowc.Errors, match="there is no C"):
        record_native(faults, None, faults.parent, silent=True)
    assert {f: f.stat().st_mtime_ns for f in faults.rglob("*") if f.is_file()} == before


# -- what it tells ---------------------------------------------------------------------------------
def shape(document: Any) -> Any:
    """What kinds of values are where; numbers of bins differ."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return [shape(value) for value in document[:1]]
    return float if isinstance(document, int) else type(document)


def test_its_report_is_that_of_the_program_in_python(faults: Path, tmp_path: Path) -> None:
    words = ["--frames", "20", "--full-speed"]
    _, document = reported(faults, tmp_path / "r.json", *words)
    file = tmp_path / "python.json"
    command = [sys.executable, faults / "main.py", "--quiet", "--report", file, *words]
    subprocess.run(command, check=True, timeout=HANGS, capture_output=True)
    expected = json.loads(file.read_text())
    assert list(document) == list(expected)
    assert shape(document["apps"]) == shape(expected["apps"])
    assert document["build"] == expected["build"] is not None
    for name, task in expected["tasks"].items():
        for key in ("processor", "firings", "failed", "skipped"):
            assert document["tasks"][name][key] == task[key]
    assert {n: c["capacity"] for n, c in document["channels"].items()} == {
        n: c["capacity"] for n, c in expected["channels"].items()
    }
    assert document["memory"].keys() == expected["memory"].keys()


def test_a_table_in_a_file_leaves_standard_output_to_the_tasks(
    faults: Path, tmp_path: Path
) -> None:
    words = ["--frames", "3", "--full-speed"]
    _, plain, _ = run(faults, *words, "--quiet")
    for quiet in ([], ["--quiet"]):
        status, printed, _ = run(faults, *words, *quiet, "--table", str(tmp_path / "table"))
        assert (status, printed) == (0, plain)
        assert (tmp_path / "table").read_text().startswith("app ")
    # standard error may be a file, where the program says other things as well
    log = tmp_path / "log"
    command = f'echo before >> {log}; "$0" --frames 3 --full-speed --table /dev/stderr 2>> {log}'
    subprocess.run(["sh", "-c", command, faults / "main"], check=True, timeout=HANGS)
    assert log.read_text().startswith("before\n") and "latency ms" in log.read_text()
    status, printed, said = run(faults, *words, "--table", str(tmp_path / "no" / "table"))
    assert status == 1 and not printed and "cannot write" in said


def test_a_trace_has_every_firing_and_frame(faults: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    status, _, said = run(
        faults, "--frames", "6", "--quiet", "--trace", str(file), "--trace-frames", "1:4"
    )
    assert status == 0, said
    document = json.loads(file.read_text())
    events = document["traceEvents"]
    fired = [(e["name"], e["args"]["firing"]) for e in events if e["ph"] == "X"]
    names = ("A.count", "A.step", "A.twice", "A.show")
    assert sorted(fired) == sorted((name, firing) for name in names for firing in (1, 2, 3))
    assert [e["args"]["frame"] for e in events if e["ph"] == "b"] == [1, 2, 3]
    assert [e["name"] for e in events if e["name"] == "deadline missed"] == 3 * ["deadline missed"]
    report = tmp_path / "report.json"
    run(faults, "--frames", "6", "--quiet", "--report", str(report))
    text = faults.parent / "text/faults.flow"
    answer = report_of(text, platform="two", run=RunFiles(report, file))
    assert [app.name for app in answer.document.apps] == ["A"]
    assert document["otherData"]["first_frame"] == 1 and document["otherData"]["end_frame"] == 4


def test_a_trace_has_arrows_along_tokens_and_the_fill_of_channels(
    drawn: Path, tmp_path: Path
) -> None:
    """Held against lists of tokens, from the firings of deployment.json."""
    file, frames = tmp_path / "trace.json", 12
    words = ["--full-speed", "--frames", str(frames), "--quiet", "--trace", str(file)]
    assert run(drawn, *words)[0] == 0
    events = json.loads(file.read_text())["traceEvents"]
    slices = {(e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    arrows = set()
    for e in events:
        if e["ph"] == "s":
            maker = next(
                s
                for (lane, begin), s in slices.items()
                if lane == e["tid"] and begin <= e["ts"] < begin + s["dur"]
            )
            taker = slices[ends[e["id"]]["tid"], ends[e["id"]]["ts"]]
            arrows.add((e["name"], maker["args"]["firing"], taker["args"]["firing"]))
    fills: dict[str, list[int]] = {}
    for e in sorted((e for e in events if e["ph"] == "C"), key=lambda e: e["ts"]):
        fills.setdefault(e["name"], []).append(e["args"]["tokens"])
    expected = set()
    for document in json.loads((drawn / "deployment.json").read_text())["apps"]:
        tasks = {task["name"]: task for task in document["tasks"]}
        for channel in document["channels"]:
            makers = tokens_of(tasks[channel["source"]], channel["source_port"], frames)
            takers = tokens_of(tasks[channel["destination"]], channel["destination_port"], frames)
            last = {firing: k - channel["delay"] for k, firing in enumerate(takers)}
            expected |= {(channel["name"], makers[k], n) for n, k in last.items() if k >= 0}
            levels = fills[channel["name"]]
            assert levels[-1] == channel["delay"] and min(levels) >= 0
            assert max(levels) <= channel["capacity"]
    assert arrows == expected


def tokens_of(task: dict[str, Any], port: str, frames: int) -> list[int]:
    """The firing of each token at a port."""
    ports = {p["name"]: p["rates"] for p in (*task["inputs"], *task["outputs"])}
    rates = ports[port]
    firings = range(frames * task["firings"])
    return [firing for firing in firings for _ in range(rates[firing % len(rates)])]


# -- networks --------------------------------------------------------------------------------------
def in_batches(folder: Path) -> None:
    """Let the network decide twice at once."""
    model = onnx.load(folder / "spotter.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, folder / "spotter.onnx")
    text = (folder / "native.flow").read_text()
    (folder / "native.flow").write_text(
        text.replace("scores: float32[1, WORDS] }", "scores: float32[1, WORDS]   batch 2 }", 1)
    )


@pytest.fixture(scope="module", params=["single", "batches"])
def spotter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An example with a network on a core of its own, which agrees with the reference."""
    folder = tmp_path_factory.mktemp("spotter")
    for name in ("native.flow", "spotter.c", "mel.c", "sound.wav", "spotter.onnx"):
        shutil.copy(ROOT / "examples/spotter" / name, folder)
    if request.param == "batches":
        in_batches(folder)
    tested = run_harness(
        folder / "native.flow",
        folder / "build",
        platform="two",
        native=True,
        measure=False,
        quiet=True,
    )
    assert tested.status == 0, tested.tests
    return folder / "build"


def test_a_network_finds_the_words_of_a_sound(spotter: Path) -> None:
    status, out, said = run(spotter, "--full-speed", "--quiet")
    assert status == 0, said
    words = [line.split()[2] for line in out.splitlines()[:-1]]
    assert words == ["up", "down", "tone", "hiss", "down", "up", "hiss", "tone", "tone", "up"]
    assert out.splitlines()[-1] == "10 events in 108 decisions"


def test_a_missing_library_or_network_is_named(spotter: Path, tmp_path: Path) -> None:
    status, _, said = run(spotter, FLOWC_ONNXRUNTIME="/no/such/library.so")
    assert status == 1
    assert "task Spotter.words failed: cannot start: ONNX Runtime is missing (" in said
    assert "put libonnxruntime.so.1 into lib/ beside the program, or name it in FLOWC_ONN" in said
    shutil.copytree(spotter, tmp_path / "copy")
    (tmp_path / "copy/networks/spotter.onnx").write_bytes(b"no network")
    status, _, said = run(tmp_path / "copy")
    assert status == 1
    assert "cannot start: ONNX Runtime refuses spotter.onnx: " in said


def test_slots_of_onnx_runtime_are_those_of_its_header() -> None:
    """tests/data/onnxruntime/slots.txt has the names in the order of the header's struct."""
    listed = (ROOT / "tests/data/onnxruntime/slots.txt").read_text().splitlines()[1:]
    source = (ROOT / "templates/native/runtime/network.cpp").read_text()
    slots = re.findall(r"^    (\w+) = (\d+),$", source, re.MULTILINE)
    assert len(slots) > 10
    assert [listed[int(number)] for _, number in slots] == [name for name, _ in slots]


# -- memory ----------------------------------------------------------------------------------------
OF_MANY = """\
type Frame = uint8[480, 640]
task Cam { out frame: Frame   c "many.c:cam" }
task Det { in frame: Frame   out x: float32   c "many.c:det" }
task Stat { in x: float32 rate 300   c "many.c:stat" }
app A { cam: Cam   det: Det   stat: Stat   cam -> det -> stat }
"""
OF_MANY_C = """\
int cam(void *state, uint8_t *frame, const void *p) { frame[0] = 1; return 0; }
int det(void *state, const uint8_t *frame, float *x, const void *p) { *x = frame[0]; return 0; }
int stat(void *state, const float *x, const void *p) { return x[299] != 1; }
"""


def test_channels_take_the_memory_of_their_capacity(tmp_path: Path) -> None:
    """Not that of all tokens of an iteration, which are 92 MB."""
    (tmp_path / "many.flow").write_text(OF_MANY)
    (tmp_path / "many.c").write_text(OF_MANY_C)
    flowc.build(tmp_path / "many.flow", tmp_path / "out", native=True, measure=False)
    words = ["--frames", "2", "--full-speed", "--quiet", "--report", tmp_path / "r.json"]
    subprocess.run([tmp_path / "out/main", *words], check=True, timeout=HANGS)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["channels"]["A.cam.frame->A.det.frame"]["capacity"] == 1
    assert report["memory"]["process"] < 30e6
    sizes = subprocess.run(
        ["size", "-A", tmp_path / "out/main"],
        check=True,
        capture_output=True,
        text=True,
        timeout=HANGS,
    ).stdout
    (zeros,) = re.findall(r"^\.bss +(\d+)", sizes, re.MULTILINE)
    assert 307_200 < int(zeros) < 400_000
