"""What machines read of a run: failures and status in the report, a line a minute in a log."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flowc.runtime.channel import Channel, LocalChannel
from flowc.runtime.options import frames_of
from flowc.runtime.report import histogram
from flowc.runtime.status import LiveStatus, LogStatus
from hypothesis import given
from hypothesis import strategies as st

from builds import Write, build, in_its_own_time, run

TEXT = """
task Count { out n: int64  python "t.py:Count" }
task Keep { in n: int64  c "k.c:keep" }
app A { c: Count  k: Keep  c -> k }
"""
COUNT = """
class Count:
    n = -1
    def __call__(self):
        self.n += 1
        %s
        return self.n
"""
KEEP = "#include <signal.h>\n#include <unistd.h>\nint keep(void *state, const int64_t *n, const keep_params *p) { %s return 0; }\n"


def reported(
    write: Write, tmp_path: Path, python: str, c: str, *words: str
) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a program."""
    out = build(write(TEXT, t_py=COUNT % python, k_c=KEEP % c), tmp_path / "out")
    report = tmp_path / "report.json"
    done = run(out, "--report", str(report), "--quiet", *words)
    return done.returncode, json.loads(report.read_text())


def test_a_run_that_ends_has_no_failure(write: Write, tmp_path: Path) -> None:
    status, document = reported(write, tmp_path, "", "", "--frames", "3")
    assert (status, document["status"], document["failure"]) == (0, 0, None)
    assert document["apps"]["A"]["frames"] == 3


@pytest.mark.parametrize(
    ("python", "c", "task", "firing", "reason", "frames"),
    [
        ("assert self.n < 2, 'no luck'", "", "A.c", 2, "AssertionError: no luck", 2),
        ("", "if (*n == 1) return 7;", "A.k", 1, "keep returned 7", 1),
        # The process that counted frames is gone.
        (
            "",
            "if (*n == 1) raise(SIGSEGV);",
            "A.k",
            1,
            "its process was ended by SIGSEGV (Segmentation fault)",
            None,
        ),
        ("", "if (*n == 1) _exit(0);", "A.k", 1, "its process exited with status 0", None),
    ],
)
def test_a_failure_is_in_the_report(
    python: str,
    c: str,
    task: str,
    firing: int,
    reason: str,
    frames: int | None,
    write: Write,
    tmp_path: Path,
) -> None:
    status, document = reported(write, tmp_path, python, c)
    assert (status, document["status"]) == (1, 1)
    assert document["failure"] == {"app": "A", "task": task, "firing": firing, "reason": reason}
    assert document["apps"]["A"]["frames"] == frames and set(document["tasks"]) == {"A.c", "A.k"}


def test_a_task_that_cannot_start_is_in_the_report(write: Write, tmp_path: Path) -> None:
    status, document = reported(
        write,
        tmp_path,
        "\n    def __init__(self): raise OSError('no camera')\n    def x(self):",
        "",
    )
    assert (status, document["status"]) == (1, 1)
    assert document["failure"] == {
        "app": "A", "task": "A.c", "firing": None, "reason": "cannot start: OSError: no camera",
    }  # fmt: skip


def test_the_status_of_a_signal_is_in_the_report(write: Write, tmp_path: Path) -> None:
    stop = "import os, signal; self.n == 3 and os.kill(os.getppid(), signal.SIGTERM)"
    status, document = reported(write, tmp_path, stop, "")
    assert (status, document["status"], document["failure"]) == (143, 143, None)
    assert document["apps"]["A"]["frames"] >= 3


# -- a line a minute -------------------------------------------------------------------------------
@dataclass
class App:
    name: str
    deadline: object = None
    frames: int = 0
    misses: int = 0
    base: int = 0

    @property
    def done(self) -> int:
        return self.frames


@dataclass
class Running:
    """A program at a time that the test says."""

    running: list[App]
    state_name: str | None = None
    begin: int = 5_000_000_000
    now: int = 5_000_000_000
    said: list[str] = field(default_factory=list)

    def after(self, seconds: float) -> None:
        self.now = self.begin + round(1e9 * seconds)


def test_a_log_gets_a_line_a_minute() -> None:
    spot, free = App("Spot", deadline=1), App("Free")
    running = Running([spot, free])
    status = LogStatus(running.said.append, lambda: running.now)

    def look(seconds: float) -> list[str]:
        running.after(seconds)
        status(running)  # type: ignore[arg-type]
        told, running.said[:] = [*running.said], []
        return told

    assert look(0.05) == look(59.9) == []
    spot.frames, free.frames = 1875, 600
    assert look(60.0) == ["60 s: Spot 1875 frames, 31.2 fps, 0 missed; Free 600 frames, 10.0 fps"]
    assert look(119.9) == []
    spot.frames, spot.misses = 1905, 2
    assert look(120.04) == ["120 s: Spot 1905 frames, 0.5 fps, 2 missed; Free 600 frames, 0.0 fps"]
    # the process was suspended for a while: the rate is that of the time between two lines
    spot.frames = 4905
    assert look(720.04) == ["720 s: Spot 4905 frames, 5.0 fps, 2 missed; Free 600 frames, 0.0 fps"]
    assert look(779.0) == []


# -- figures for pages -----------------------------------------------------------------------------
@given(st.lists(st.integers(0, 10**12), max_size=300))
def test_a_histogram_counts_every_latency_once(values: list[int]) -> None:
    """In bins that hold what they say, from the shortest to the longest."""
    found = histogram(values)
    edges, counts = found["ns"], found["counts"]
    assert sum(counts) == len(values)
    if not values:
        assert edges == counts == []
        return
    assert len(edges) == len(counts) + 1 and len(counts) <= 64
    assert edges == sorted(set(edges)) and (edges[0], edges[-1]) == (min(values), max(values) + 1)
    assert counts == [sum(a <= v < b for v in values) for a, b in pairwise(edges)]


MANY = """
task Count { out n: int64  python "t.py:Count" }
task Pack { in n: int64 rate 3  out p: int64  python "t.py:pack" }
task Keep { in n: int64  c "k.c:keep" }
app A { c: Count  p: Pack  k: Keep  c -> p -> k }
"""


def test_a_report_tells_the_build_and_how_full_channels_were(write: Write, tmp_path: Path) -> None:
    """Written rounds included: what channels need is what the schedule says, however long it
    runs."""
    python = "\nimport numpy\n\ndef pack(n):\n    return numpy.int64(n.sum())\n"
    out = build(write(MANY, t_py=COUNT % "" + python, k_c=KEEP % ""), tmp_path / "out")
    told = []
    for words in (["--frames", "40"], ["--frames", "40", "--trace", str(tmp_path / "t.json")]):
        report = tmp_path / "report.json"
        assert run(out, "--report", str(report), "--quiet", *words).returncode == 0
        told.append(json.loads(report.read_text()))
    assert (
        told[0]["channels"]
        == told[1]["channels"]
        == {
            "A.c.n->A.p.n": {"capacity": 3, "most": 3},
            "A.p.p->A.k.n": {"capacity": 1, "most": 1},
        }
    )
    manifest = json.loads((out / ".flowc-manifest.json").read_text())
    trace = json.loads((tmp_path / "t.json").read_text())
    assert told[0]["build"] == trace["otherData"]["build"] == manifest["identity"]["digest"]
    assert sum(told[0]["apps"]["A"]["histogram"]["counts"]) == 40


PACED = """
task Count { out n: int64  python "t.py:Count" }
task Pack { in n: int64 rate 3  out p: int64  python "t.py:pack" }
app A { period 30 ms  deadline 25 ms  c: Count  p: Pack  c -> p }
"""
SLOW = (
    "\nimport time\n\ndef pack(n):\n    time.sleep(0.004 + 0.020 * (n[0] == 6))\n    return n[0]\n"
)


def test_a_trace_has_frames_releases_misses_and_arrows(write: Write, tmp_path: Path) -> None:
    text = PACED.replace("out p: int64  ", "") + "\n"
    flow = write(text, t_py=COUNT % "" + SLOW.replace("    return n[0]\n", ""))
    out, trace = build(flow, tmp_path / "out"), tmp_path / "t.json"
    in_its_own_time(out, "--frames", "5", "--trace", str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    ms = 1000.0
    released = [(e["ts"] / ms, e["args"]["firing"]) for e in events if e["name"] == "release"]
    assert released == [(10.0 * k, k) for k in range(15)]
    begun = {e["id"]: (e["ts"] / ms, e["args"]["frame"]) for e in events if e["ph"] == "b"}
    ended = {e["id"]: e["ts"] / ms for e in events if e["ph"] == "e"}
    assert sorted(begun.values()) == [(30.0 * k, k) for k in range(5)]
    # Released at 60, its last token at 80 ms, and 24 ms more.
    by_frame = {frame: ended[name] for name, (_, frame) in begun.items()}
    assert by_frame[2] == pytest.approx(104, abs=0.01) and by_frame[1] == pytest.approx(
        54, abs=0.01
    )
    (missed,) = [e for e in events if e["name"] == "deadline missed"]
    assert missed["args"]["frame"] == 2 and missed["args"]["late_us"] == pytest.approx(
        19000, abs=10
    )
    slices = {(e["name"], e["args"]["firing"]): e for e in events if e["ph"] == "X"}
    assert all(
        e["args"]["frame"] == e["args"]["firing"] // (3 if e["name"] == "A.c" else 1)
        for e in slices.values()
    )
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    arrows = [(starts[e["id"]], e) for e in events if e["ph"] == "f"]
    assert len(arrows) == 5
    for start, end in arrows:  # from the third token of each frame
        (to,) = [n for (task, n), e in slices.items() if task == "A.p" and e["ts"] == end["ts"]]
        made = slices["A.c", 3 * to + 2]
        assert made["ts"] <= start["ts"] <= made["ts"] + made["dur"] and start["tid"] == made["tid"]


def test_a_trace_of_some_frames_has_these_only(write: Write, tmp_path: Path) -> None:
    out = build(write(TEXT, t_py=COUNT % "", k_c=KEEP % ""), tmp_path / "out")
    trace = tmp_path / "t.json"
    done = run(out, "--frames", "9", "--trace", str(trace), "--trace-frames", "4:6", "--quiet")
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["args"]["firing"] for e in events if e["ph"] == "X"} == {4, 5}
    assert {e["args"]["frame"] for e in events if e["ph"] == "b"} == {4, 5}
    assert len([e for e in events if e["ph"] == "C"]) == 4
    for words in (["--trace-frames", "4:6"], ["--trace", str(trace), "--trace-frames", "6:4"]):
        assert run(out, *words).returncode == 2


@pytest.mark.parametrize("text", ["", "4", "a:b", "-1:4", "5:5", ":0", "1:2:3"])
def test_what_is_no_range_of_frames(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        frames_of(text)


def test_ranges_of_frames() -> None:
    assert [frames_of(t) for t in ("3:5", ":5", "3:", ":")] == [
        (3, 5),
        (0, 5),
        (3, None),
        (0, None),
    ]


# -- for a process that shows it -------------------------------------------------------------------
@dataclass
class Busy:
    processor: str
    busy: int = 0


def live_program() -> Any:
    """What a status looks at, at a time that the test says."""
    app = SimpleNamespace(name="Spot", frames=0, skipped=0, latencies=deque[int](), late=lambda: 0)
    app.channels = [Channel("a->b", 3), LocalChannel("b->c", 2)]
    workers = [Busy("core[0]"), Busy("core[0]")]
    return SimpleNamespace(
        apps=[app], running=[app], state_name=None, workers=workers, begin=0, now=0
    )


def test_who_shows_a_run_gets_a_line_every_half_second() -> None:
    program = live_program()
    reading, writing = os.pipe()
    status = LiveStatus(writing, lambda: program.now)
    with open(reading) as stream:
        program.now = 400_000_000
        status(program)
        program.now, program.apps[0].frames, program.workers[1].busy = 500_000_000, 20, 250_000_000
        program.apps[0].latencies.append(12_345_678)
        status(program)
        program.now, program.apps[0].frames = 1_500_000_000, 30
        status(program)
        status.clear()
        status.clear()
        lines = [json.loads(line) for line in stream]
    spot = {"frames": 20, "fps": 40.0, "latency_ms": 12.346, "deadline_misses": 0, "skipped": 0}
    assert lines[0] == {
        "seconds": 0.5, "apps": {"Spot": spot}, "processors": {"core[0]": 0.5}, "channels": {"a->b": [0, 3]},
    }  # fmt: skip
    assert (
        len(lines) == 2
        and lines[1]["apps"]["Spot"]["fps"] == 10.0
        and lines[1]["processors"] == {"core[0]": 0.0}
    )


def test_no_run_waits_for_the_process_that_shows_it() -> None:
    """Not while the pipe is full, and not when its other end is gone; lines that come are whole."""
    program = live_program()
    reading, writing = os.pipe()
    status = LiveStatus(writing, lambda: program.now)

    def tell(times: int) -> None:
        for _ in range(times):
            program.now += 500_000_000
            status(program)

    tell(2000)
    held = os.read(reading, 1 << 20)  # no limit: it is full
    assert len(held) <= 1 << 16
    tell(3)
    held += os.read(reading, 1 << 20)  # no limit: lines have come
    seconds = [json.loads(line)["seconds"] for line in held.decode().splitlines()]
    assert seconds == sorted(set(seconds)) and seconds[-1] > 1000
    os.close(reading)
    tell(5)
    with pytest.raises(OSError, match=r"."):
        os.fstat(writing)


@pytest.mark.parametrize(
    "frames, warned", [((), True), (("--frames", "1"), False), (("--quiet",), False)]
)
def test_a_source_that_ends_in_the_middle_of_a_frame_is_named(
    write: Write, tmp_path: Path, frames: tuple[str, ...], warned: bool
) -> None:
    text = """
    task Count { out n: int64  python "t.py:Count" }
    task Show { in n: int64  rate 8  python "t.py:show" }
    app A { c: Count  show: Show  c -> show }
    """
    code = COUNT % "if self.n == 12: raise StopIteration" + "def show(n): pass\n"
    done = run(build(write(text, t_py=code), tmp_path / "out"), *frames)
    told = "warning: A.c ended in the middle of a frame of 8 firings: what the last 4 made was"
    assert done.returncode == 0 and (told in done.stderr) is warned, done.stderr


def test_what_has_no_deadline_has_missed_none(write: Write, tmp_path: Path) -> None:
    """A 0 would say that deadlines were kept."""
    text = TEXT + (
        "app Paced { period 20 ms   deadline 30 ms from c to k   c: Count  k: Keep   c -> k }\n"
        "app Late { period 20 ms   c: Count  k: Keep   c -> k }\n"
    )
    out = build(write(text, t_py=COUNT % "", k_c=KEEP % ""), tmp_path / "out")
    report = tmp_path / "report.json"

    def missed(*words: str) -> dict[str, str]:
        words = ("--frames", "2", "--report", str(report), *words)
        tables = run(out, *words).stdout.split("\n\n")
        rows = [line.split() for rows in tables[:2] for line in rows.splitlines()[2:]]
        return {row[0]: row[-1] if row[0] == "Paced.c" else row[-2] for row in rows}

    counted = {name: number.isdigit() for name, number in missed().items()}
    assert counted == {"A": False, "Paced": False, "Late": True, "Paced.c": True}
    apps = json.loads(report.read_text())["apps"]
    assert {name: app["deadline_ms"] for name, app in apps.items()} == {
        "A": None,
        "Paced": None,
        "Late": 20,
    }
    (path,) = apps["Paced"]["paths"]
    assert path["deadline_ms"] == 30
    # no deadline counts without releases
    assert set(missed("--full-speed").values()) == {"-"}
