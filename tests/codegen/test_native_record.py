"""Recordings of programs in C++: they hold what those of the program in Python hold, the program in
Python replays them, and nothing is lost without a word.

One program is built and run many times; others are recorded beside their own tests
(test_native_links.py, test_native_states.py). Needs a C++ compiler.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc.cli import app
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from typer.testing import CliRunner

from builds import HANGS
from builds import run as run_python
from native_compiler import in_a_hurry
from native_runs import start

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = """\
type Picture = uint8[4, 5, 3]
task Camera { out p: Picture   out gray: uint16[4, 5]   state n: int64   c "t.c:camera" }
task Mean   { in p: Picture   out m: float32   c "t.c:mean" }
task Count(last: int) { out n: int64 rate [1, 0, 2]   state n: int64   c "t.c:count" }
task Sum    { in n: int64 window 4   out s: int64   out odd: bool   out half: float16[2]   c "t.c:sum" }
task Twice(by: int) { in s: int64   out d: int64[2, 1]   stateless   c "t.c:twice" }
task Seen   { in m: float32   c "t.c:seen" }
task Shown  { in d: int64[2, 1]   c "t.c:shown" }

app Eye { period 1 ms   camera: Camera   mean: Mean   seen: Seen   camera.p -> mean -> seen }
app A {
    count: Count(last = 300)   sum: Sum   twice: Twice(by = 3)   shown: Shown
    count -> delay 2 = [7, 8] -> sum   sum.s -> twice -> shown
}
platform two { cpu core[2] }
mapping on two { A.count -> core[0]   A.sum -> core[1]   A.twice -> core[0], core[1] }
"""
CODE = """\
int camera(void *own, uint8_t *p, uint16_t *gray, const void *none)
{
    camera_state *state = own;
    state->n++;
    for (int i = 0; i < 60; i++)
        p[i] = (uint8_t)(state->n * 7 + i);
    for (int i = 0; i < 20; i++)
        gray[i] = (uint16_t)(state->n * 300 + i);
    return 0;
}
int mean(void *state, const uint8_t *p, float *m, const void *none)
{
    for (int i = 0; i < 60; i++)
        *m += p[i] / 64.0f;
    return 0;
}
int count(void *own, int64_t *n, const count_params *given)
{
    count_state *state = own;
    if (state->n / 3 == given->last)
        return FLOWC_END;
    const int tokens[] = {1, 0, 2};
    for (int i = 0; i < tokens[state->n % 3]; i++)
        n[i] = state->n * 10 + i;
    state->n++;
    return 0;
}
int sum(void *state, const int64_t *n, int64_t *s, _Bool *odd, uint16_t *half, const void *none)
{
    *s = n[0] + n[1] + n[2] + n[3];
    *odd = *s & 1;
    half[0] = 0x3C00;
    half[1] = (uint16_t)(*s & 0x3FF);
    return 0;
}
int twice(void *state, const int64_t *s, int64_t *d, const twice_params *given)
{
    d[0] = 2 * *s;
    d[1] = given->by * *s;
    return 0;
}
int seen(void *state, const float *m, const void *none) { return 0; }
int shown(void *state, const int64_t *d, const void *none) { return 0; }
"""
#: Tokens of `A.count.n` in a frame.
IN_FRAME = 3


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    """Both programs of a text with all forms of messages."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "t.flow").write_text(TEXT)
    (folder / "t.c").write_text(CODE)
    with in_a_hurry(shared):
        flowc.build(folder / "t.flow", folder / "b", platform="two", native=True, measure=False)
        yield folder / "b"


def run(build: Path, *words: str | Path, **variables: str) -> tuple[int, str]:
    """Its exit status, and what it says, without the table."""
    child = start(build, *map(str, words), **variables)
    _, said = child.communicate(timeout=HANGS)
    return child.returncode, said.decode()


@pytest.fixture(scope="module")
def recorded(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of 60 frames of it."""
    file = tmp_path_factory.mktemp("file") / "r.mcap"
    status, said = run(build, "--record", file, "--frames", "60", "--set", "A.twice.by=5")
    assert status == 0, said
    tokens = 60 * (3 + IN_FRAME * 5)
    assert f"flowc: {tokens:,} tokens of 8 channels are in {file} (0.1 MB)" in said
    return file


def messages(file: Path) -> list[tuple[Any, Any, Any]]:
    """Channels, messages and what they say, read by the package `mcap`."""
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return [(channel, m, said) for _, channel, m, said in reader.iter_decoded_messages()]


def described(file: Path) -> tuple[Any, ...]:
    """All that a file says of itself and of its channels."""
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        channels = [
            (c, summary.schemas[c.schema_id]) for c in sorted(summary.channels.values(), key=lambda c: c.id)
        ]  # fmt: skip
        return reader.get_header(), channels, list(reader.iter_metadata())


def writer_of(child: subprocess.Popen[bytes], file: Path) -> int:
    """The process that writes the file of a program."""
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        if file.exists() and file.stat().st_size:
            (program,) = _children(child.pid)
            return _children(program)[0]
        time.sleep(0.005)
    raise AssertionError("nothing is written")


def until_it_rests(child: subprocess.Popen[bytes]) -> None:
    """Wait until no thread of a program has anything left to do, or its process is gone; one that
    only waits for a processor has. Its main thread looks around every few milliseconds, and
    threads that wait for room in the recording do, too: beside others they wait for a processor
    most of the time. What they have left to do takes 0.07 s of one: the program rests after half a
    second of one, too, or after 6 s, since it gives its writer up after 10."""
    deadline, rests = time.monotonic() + 6, 0
    (program,) = _children(child.pid)
    begin = _worked(program)
    while rests < 5 and time.monotonic() < deadline and _worked(program) - begin < 0.5:
        states = []
        for task in Path(f"/proc/{program}/task").glob("*"):
            if int(task.name) != program:
                with contextlib.suppress(OSError):
                    states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        rests = 0 if set(states) & set("RD") else rests + 1
        time.sleep(0.02)


def _worked(process: int) -> float:
    """The seconds of processors that a process has had; none if it is gone."""
    try:
        spent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, timeout=HANGS, check=True)  # fmt: skip
    return [int(word) for word in listed.stdout.split()]


# -- what is in the file ---------------------------------------------------------------------------
def test_it_says_of_its_channels_what_a_recording_of_python_says(
    build: Path, recorded: Path, tmp_path: Path
) -> None:
    words = ("--frames", "60", "--quiet", "--set", "A.twice.by=5")
    done = run_python(build, "--record", str(tmp_path / "p"), *words)
    assert done.returncode == 0, done.stderr
    assert described(recorded) == described(tmp_path / "p")
    # and of every token the same, but for its times
    own, other = (
        sorted((c.topic, m.sequence, m.data[12:]) for c, m, _ in messages(file) if "flowc" not in c.topic)
        for file in (recorded, tmp_path / "p")
    )  # fmt: skip
    assert own == other and len(own) == 60 * (3 + IN_FRAME * 5)


def test_readers_of_mcap_and_ros_find_all_tokens(recorded: Path) -> None:
    found = Counter(channel.topic for channel, _, _ in messages(recorded))
    with AnyReader([recorded]) as reader:
        again = Counter(connection.topic for connection, _, _ in reader.messages())
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)
    assert again == found and found["/A/twice/d"] == 60 * IN_FRAME


def test_a_picture_has_the_release_of_its_frame_as_its_stamp(recorded: Path) -> None:
    rows = [(m, said) for c, m, said in messages(recorded) if c.topic == "/Eye/camera/p"]
    stamps = [said.header.stamp.sec * 10**9 + said.header.stamp.nanosec for _, said in rows]
    assert stamps == [m.publish_time for m, _ in rows]
    assert {b - a for a, b in pairwise(stamps)} == {1_000_000}
    assert all(m.log_time >= m.publish_time for m, _ in rows)
    assert {(p.height, p.width, p.encoding, p.step) for _, p in rows} == {(4, 5, "rgb8", 15)}
    assert [p.data[0] for _, p in rows] == [7 * n % 256 for n in range(1, 61)]


def test_the_program_in_python_replays_it(build: Path, recorded: Path) -> None:
    done = run_python(build, "--replay", str(recorded), "--quiet")
    assert done.returncode == 0, done.stderr
    done = run_python(build, "--replay", str(recorded))
    assert f"{60 * (1 + 4 * IN_FRAME)} of" in done.stderr and "equal, bit for bit" in done.stderr
    other = run_python(build, "--replay", str(recorded), "--set", "A.twice.by=4")
    assert other.returncode == 1 and "first difference: A.twice.d token" in other.stderr


def test_flowc_run_records(build: Path, tmp_path: Path) -> None:
    flow, file = build.parent / "t.flow", tmp_path / "r"
    words = ["-o", build, "--platform", "two", "--target", "native", "--no-measure"]
    words += ["--quiet", "--frames", "5", "--record", file, "--channels", "mean.m"]
    done = CliRunner().invoke(app, ["run", str(flow), *map(str, words)])
    assert done.exit_code == 0, done.output
    assert sum(c.topic == "/Eye/mean/m" for c, _, _ in messages(file)) == 5


def test_channels_are_chosen_by_patterns(build: Path, tmp_path: Path) -> None:
    words = ("--frames", "5", "--quiet", "--record", tmp_path / "r", "--channels")
    assert run(build, *words, "mean.m, A.*")[0] == 0
    topics = {channel.topic for channel, _, _ in messages(tmp_path / "r")}
    assert topics - {"/flowc/decisions"} == {
        *("/Eye/mean/m", "/A/count/n", "/A/sum/s", "/A/sum/odd", "/A/sum/half", "/A/twice/d")
    }
    status, said = run(build, *words, "camera.x")
    assert status == 2 and "there is no channel `camera.x`; there is Eye.camera.p," in said
    status, said = run(build, "--channels", "A.*")
    assert status == 2 and "--channels: it is about --record FILE" in said


def test_a_recording_is_replayed_by_python_alone(
    build: Path, recorded: Path, tmp_path: Path
) -> None:
    status, said = run(build, "--replay", recorded)
    command = f"`python3 {build}/main.py --replay {recorded}`"
    assert (
        status == 2 and f"is a recording, which the program in Python replays: {command}\n" in said
    )
    (tmp_path / "r").write_text("{}")
    status, said = run(build, "--replay", tmp_path / "r", "--record", tmp_path / "r")
    assert status == 2 and "--record would overwrite what --replay reads" in said


# -- programs that end otherwise -------------------------------------------------------------------
@pytest.mark.parametrize("victim", ["all", "supervisor", "program"])
def test_what_a_killed_program_has_recorded_is_replayed(
    build: Path, tmp_path: Path, victim: str
) -> None:
    file = tmp_path / "r"
    words = ("--quiet", "--record", str(file), "--set", "A.count.last=1000000000")
    child = start(build, *words)
    writer = writer_of(child, file)
    deadline = time.monotonic() + HANGS
    while file.stat().st_size < 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (program,) = _children(child.pid)
    if victim == "all":
        os.kill(writer, signal.SIGKILL)
    os.kill(child.pid if victim == "supervisor" else program, signal.SIGKILL)
    child.communicate(timeout=HANGS)
    while victim != "all" and file.read_bytes()[-8:] != b"\x89MCAP0\r\n":
        assert time.monotonic() < deadline, "the process that writes did not finish the file"
        time.sleep(0.01)
    done = run_python(build, "--replay", str(file))
    assert done.returncode == 0 and "equal, bit for bit" in done.stderr, done.stderr
    assert ("is replayed as far as it goes" in done.stderr) == (victim == "all")


def test_a_signal_ends_program_and_recording(build: Path, tmp_path: Path) -> None:
    file = tmp_path / "r"
    child = start(build, "--record", str(file), "--set", "A.count.last=1000000000")
    writer_of(child, file)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=HANGS)
    assert child.returncode == 130 and f"channels are in {file}" in said.decode()
    last = [json.loads(s.data) for c, _, s in messages(file) if c.topic == "/flowc/decisions"][-1]
    assert last["ended"]


# -- when the file is not written ------------------------------------------------------------------
def test_files_that_cannot_be_written_are_found_at_the_start(build: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, wanted, reason in (
        (tmp_path / "no" / "r", 1, f"cannot write {tmp_path}/no/r: No such file or directory"),
        (tmp_path, 1, "Is a directory"),
        (tmp_path / "pipe", 1, "No such device"),
        (Path("/dev/null"), 2, "--record: /dev/null is no file"),
    ):
        status, said = run(build, "--record", path)
        assert status == wanted and reason in said


def test_a_full_disk_ends_the_recording_and_not_the_program(build: Path, tmp_path: Path) -> None:
    file = tmp_path / "r"

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [build / "main", "--record", file, "--full-speed", "--frames", "2000"]
    done = subprocess.run(
        command, preexec_fn=small, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 1 and re.search(r"^Eye +2000 ", done.stdout, re.MULTILINE)
    assert f"the recording {file} is not complete: File too large; " in done.stderr
    assert " tokens are missing" in done.stderr


def test_firings_wait_at_full_speed(build: Path, tmp_path: Path) -> None:
    """Its writer stands still until all room is taken."""
    file, frames = tmp_path / "r", 20_000
    words = ("--record", str(file), "--full-speed", "--watchdog", "0", "--frames", str(frames))
    child = start(build, *words, "--set", f"A.count.last={frames}")
    writer = writer_of(child, file)
    os.kill(writer, signal.SIGSTOP)
    until_it_rests(child)
    os.kill(writer, signal.SIGCONT)
    _, said = child.communicate(timeout=HANGS)
    assert child.returncode == 0 and "; firings waited " in said.decode(), said
    with file.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None and summary.statistics is not None
    counts = {summary.channels[n].topic: c for n, c in summary.statistics.channel_message_counts.items()}  # fmt: skip
    assert counts["/A/twice/d"] == IN_FRAME * frames and counts["/Eye/mean/m"] == frames


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGSTOP, "it was not written in time"), (signal.SIGKILL, "its process has ended")])  # fmt: skip
def test_in_real_time_nothing_waits_and_what_is_lost_is_counted(
    build: Path, tmp_path: Path, number: int, reason: str
) -> None:
    """Its writer stands still, or is gone."""
    file, frames = tmp_path / "r", 20_000
    words = ("--record", str(file), "--full-speed", "--real-time", "--frames", str(frames))
    child = start(build, *words, "--set", f"A.count.last={frames}")
    writer = writer_of(child, file)
    os.kill(writer, number)
    until_it_rests(child)
    if number == signal.SIGSTOP:
        os.kill(writer, signal.SIGCONT)
    _, out = child.communicate(timeout=HANGS)
    said = out.decode()
    assert child.returncode == 1, said
    assert f"the recording {file} is not complete: {reason}; " in said
    missing = int(said.split(f"{reason}; ")[1].split()[0].replace(",", ""))
    if number == signal.SIGSTOP:
        there = sum(c.topic != "/flowc/decisions" for c, _, _ in messages(file))
        assert there + missing == frames * (3 + 5 * IN_FRAME)
    assert missing > 0


def test_no_number_is_lost_in_a_value(recorded: Path) -> None:
    """Numbers that ROS 2 has none of are their bytes, and truth values are 0 and 1."""
    halves = [s for c, _, s in messages(recorded) if c.topic == "/A/sum/half"]
    sums = [s.data[0] for c, _, s in messages(recorded) if c.topic == "/A/sum/s"]
    odd = [s.data[0] for c, _, s in messages(recorded) if c.topic == "/A/sum/odd"]
    assert odd == [s & 1 for s in sums]
    read = [np.frombuffer(bytes(h.data), np.float16) for h in halves]
    assert [h[0] for h in read] == [1.0] * len(sums)
    assert [h.view(np.uint16)[1] for h in read] == [s & 0x3FF for s in sums]
