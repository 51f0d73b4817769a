"""Sources that wait for data, what is dropped, and what goes on after an error. Each test builds a
program and runs it.

Nothing here depends on how long anything takes: who waits is let go by an event, a file, or another
task.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flowc.report.measured import read_run
from flowc.runtime.report import pauses, table, waits_of

from builds import HANGS, Write, build, harness, in_its_own_time, run
from limits import next_line

CODE = """
import os, sys, time
import numpy as np

class Camera:
    '''Delivers `count` frames, then waits for ever; or ends.'''
    def __init__(self, count=20, ends=False):
        self.n, self.count, self.ends = 0, count, ends

    def __call__(self):
        if self.n == self.count:
            if self.ends:
                raise StopIteration
            sys.stdout.write("waits\\n")  # as one piece: others print as well
            sys.stdout.flush()
            while True:
                time.sleep(0.01)
        self.n += 1
        return self.n - 1

    def close(self):
        print("camera closed", flush=True)

class Keep:
    def __init__(self):
        self.seen, self.file = [], open(os.environ.get("SEEN", os.devnull), "w")

    def __call__(self, n):
        self.seen.append(int(n))
        self.file.write("%d\\n" % n)

    def close(self):
        self.file.close()
        print("kept", self.seen, flush=True)

def double(n):
    return 2 * n

def odd(n):
    if n % 2 == 0:
        raise ValueError("even: %d" % n)
    return n

class Third:
    '''Fails at each third firing since it began.'''
    def __init__(self):
        self.n = 0

    def __call__(self, n):
        self.n += 1
        if self.n == 3:
            raise RuntimeError("third")
        return 100 * self.n + n

def file(count):
    return 1

def both(a, b):
    return a + b

def slow(n):
    time.sleep(0.005)
    return n
"""
TASKS = """
type N = int64
task Camera(count: int = 20, ends: bool = false) { live   out n: N   python "t.py:Camera" }
task File(count: int = 20) { out n: N   python "t.py:file" }
task Double { in n: N   out m: N   python "t.py:double" }
task Slow { in n: N   out m: N   python "t.py:slow" }
task Odd { in n: N   out m: N   python "t.py:odd"   on error skip }
task Third { in n: N   out m: N   python "t.py:Third"   on error restart }
task Both { in a: N   in b: N   out c: N   python "t.py:both" }
task Keep { in n: N   python "t.py:Keep" }
"""


def kept(text: str) -> list[list[int]]:
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("kept ")]


def report_of(out: Path, *arguments: str) -> dict[str, Any]:
    done = run(out, "--report", str(out.parent / "r.json"), *arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((out.parent / "r.json").read_text())
    return {**document, "out": done.stdout, "err": done.stderr}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("pins", ["", "A.c -> core[0]  A.d -> core[1]  A.k -> core[0]"])
def test_a_source_that_waits_does_not_hold_up_the_end(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, pins: str
) -> None:
    """Finished results have left, everybody is closed, and everything is written, though nothing
    ever comes."""
    text = (
        TASKS
        + "app A { c: Camera  d: Double  k: Keep   c -> d -> k }\nplatform two { cpu core[2] }\n"
    )
    out = build(
        write(text + f"mapping on two {{ {pins} }}", t_py=CODE), tmp_path / "out", platform="two"
    )
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.txt"))
    command = [sys.executable, str(out / "main.py")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert next_line(process) == "waits\n"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=HANGS)
    assert process.returncode == 128 + number and stderr == ""
    assert kept(stdout) == [[2 * n for n in range(20)]] and "camera closed" in stdout
    assert (tmp_path / "seen.txt").read_text().split() == [str(2 * n) for n in range(20)]


def test_results_leave_while_the_source_waits(write: Write, tmp_path: Path) -> None:
    """Every stage is through with the last frame before another one comes."""
    seen = (
        "import sys\ndef show(n):\n    sys.stdout.write('out %d\\n' % n)\n    sys.stdout.flush()\n"
    )
    text = TASKS + (
        'task Show { in n: N   python "s.py:show" }\nplatform two { cpu core[2] }\n'
        "app A { c: Camera  d: Double  e: Double  s: Show   c -> d -> e -> s }\n"
        "mapping on two { A.c -> core[0]  A.d -> core[1]  A.e -> core[0]  A.s -> core[1] }"
    )
    out = build(write(text, t_py=CODE, s_py=seen), tmp_path / "out", platform="two")
    with subprocess.Popen(
        [sys.executable, str(out / "main.py")], stdout=subprocess.PIPE, text=True
    ) as process:
        lines = [next_line(process) for _ in range(21)]  # all twenty, and "waits"
        process.terminate()
        process.communicate(timeout=HANGS)
    assert [x for x in lines if x != "waits\n"] == [f"out {4 * n}\n" for n in range(20)]


def test_data_release_a_live_source(write: Write, tmp_path: Path) -> None:
    """Its period is what analyses take: a device whose clock runs otherwise makes nothing late.
    Timestamps count."""
    text = (
        TASKS
        + 'task Device { live   out n: N   python "d.py:Device" }\n'
        + "app A { period 20 ms   l: Device  k: Keep   l -> k }"
    )
    device = """
import time
class Device:
    def __init__(self):
        self.n = 0
    def __call__(self):
        time.sleep(0.0204)
        self.n += 1
        self.timestamp = time.perf_counter_ns() - 7_000_000
        return self.n
"""
    out = build(write(text, t_py=CODE, d_py=device), tmp_path / "out")
    app = in_its_own_time(out, "--frames", "100")["apps"]["A"]
    assert (app["frames"], app["deadline_misses"], app["overruns"]) == (100, 0, 0)
    assert app["fps"] == pytest.approx(1 / 0.0204, abs=0.01)
    assert app["latency_ms"]["p50"] == app["latency_ms"]["max"] == 7
    text = text.replace("period 20 ms", "period 20 ms   deadline 9 ms from l to k")
    out = build(write(text, t_py=CODE, d_py=device), tmp_path / "paths")
    (path,) = in_its_own_time(out, "--frames", "100")["apps"]["A"]["paths"]
    assert (path["firings"], path["deadline_misses"]) == (100, 0)
    assert path["latency_ms"]["p50"] == path["latency_ms"]["max"] == 7


def test_apps_see_the_newest_token_of_others(write: Write, tmp_path: Path) -> None:
    """Zero before the first; then whatever came last. The harness plays back what was seen."""
    text = TASKS + (
        "app Front { c: Camera(count = 30, ends = true)  d: Slow  k: Keep   c -> d -> k }\n"
        "app Rear { c: Camera(count = 15, ends = true)  d: Slow  k: Keep   c -> d -> k }\n"
        "app Plan { period 10 ms  b: Both  k: Keep   Front.d -> latest -> b.a   Rear.d.m -> latest -> b.b   b -> k }"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out")
    document = report_of(out)
    assert document["apps"]["Front"]["frames"] == 30 and document["apps"]["Rear"]["frames"] == 15
    plan = next(x for x in kept(document["out"]) if x not in (list(range(30)), list(range(15))))
    assert plan == sorted(plan) and plan[-1] <= 29 + 14 and document["dropped"] == {}
    assert harness(out).returncode == 0


PAUSING = """
import os, time
class Device:
    '''Delivers nothing for some time before its third frame.'''
    n = 0
    def __call__(self):
        self.n += 1
        time.sleep(float(os.environ["PAUSE"]) if self.n == 3 else 0)
        return self.n
"""


@pytest.mark.parametrize("words", [(), ("--trace", "/dev/null")], ids=["rounds", "steps"])
@pytest.mark.parametrize(
    "pause, way",
    [(0.2, ""), (0.2, "drop oldest 1"), (600, ""), (600, "drop oldest 1")],
    ids=["goes on", "drops", "until the end", "drops until the end"],
)
def test_a_source_that_pauses_is_named_where_data_are_late(
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    pause: float,
    way: str,
) -> None:
    monkeypatch.setenv("PAUSE", str(pause))
    text = (
        TASKS
        + 'task Device { live   out n: N   python "d.py:Device" }\n'
        + f"app A {{ period 20 ms   l: Device {way}  d: Double   k: Keep   l -> d -> k }}\n"
        + "app B { period 10 ms   deadline 1 ns from A.l to k   k: Keep   A.d -> latest -> k }"
    )
    out = build(write(text, t_py=CODE, d_py=PAUSING), tmp_path / "out")
    ends = ("--seconds", "0.5") if pause == 600 else ("--frames", "9")
    document = report_of(out, *ends, *words)
    wait = document["tasks"]["A.l"]["wait"]
    assert wait["period_us"] == 20_000 and 1e3 * wait["max_us"] > 0.15e9
    assert "wait" not in document["tasks"]["B.k"]
    read = read_run((tmp_path / "r.json").read_bytes()).tasks["A.l"]
    assert (read.wait_us, read.period_us) == (wait["max_us"], 20_000)
    named = r"^A\.l had no data for \d+\.\d ms \(its period: 20\.0 ms\)$"
    assert re.search(named, document["out"], re.MULTILINE)
    assert pauses(waits_of({"A.l": {"wait": {**wait, "max_us": 40_000}}})) == []


def test_dropping_between_apps_keeps_order_and_counts(write: Write, tmp_path: Path) -> None:
    text = TASKS + (
        "app Fast { c: Camera(count = 200, ends = true)  d: Double  k: Keep   c -> d -> k }\n"
        "app Log { s: Slow  k: Keep   Fast.d -> drop oldest 3 -> s -> k }"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out")
    document = report_of(out)
    fast, log = sorted(kept(document["out"]), key=len, reverse=True)
    counts = document["dropped"]["Log.from_Fast_d"]
    assert fast == [2 * n for n in range(200)] and log == sorted(set(log)) and set(log) <= set(fast)
    assert counts["written"] == 200 and counts["dropped"] == 200 - len(log) and log[-1] == 398
    assert harness(out).returncode == 0


def test_an_app_that_gets_too_little_for_a_frame_is_not_tested(
    write: Write, tmp_path: Path
) -> None:
    many = "def many(n):\n    pass\n"
    text = TASKS + (
        'task Many { in n: N rate 64   python "m.py:many" }\n'
        "app Fast { c: Camera(count = 200, ends = true)  k: Keep   c -> k }\n"
        "app Log { m: Many   Fast.c -> drop oldest 3 -> m }"
    )
    done = harness(build(write(text, t_py=CODE, m_py=many), tmp_path / "out"))
    assert done.returncode == 0 and "OK (skipped=1)" in done.stderr


def test_a_source_that_drops_does_not_wait(write: Write, tmp_path: Path) -> None:
    text = (
        TASKS
        + "app A { c: Camera(count = 300, ends = true) drop oldest 2   s: Slow  k: Keep   c -> s -> k }"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out")
    document = report_of(out)
    (seen,) = kept(document["out"])
    assert seen == sorted(set(seen)) and seen[-1] == 299
    assert document["dropped"]["A.c"] == {"written": 300, "dropped": 300 - len(seen)}
    head = r"^source: firings, link: tokens +written +dropped\n[- ]+\n"
    assert re.search(rf"{head}A\.c +300 +{300 - len(seen)}$", table(document), re.MULTILINE)
    assert document["apps"]["A"]["deadline_misses"] == 0
    assert harness(out).returncode == 0


def test_timestamps_and_parameters_of_a_source_that_drops_count(
    write: Write, tmp_path: Path
) -> None:
    device = """
import time
class Device:
    def __init__(self, count):
        self.left = count
    def __call__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        self.timestamp = time.perf_counter_ns() - 5_000_000_000
        return self.left
"""
    text = (
        TASKS.replace('"t.py:Camera"', '"d.py:Device"')
        + "app A { c: Camera(count = 9) latest   k: Keep   c -> k }"
    )
    document = report_of(
        build(write(text, t_py=CODE, d_py=device), tmp_path / "out"), "--set", "A.c.count=4"
    )
    assert document["dropped"]["A.c"]["written"] == 4
    assert document["apps"]["A"]["latency_ms"]["p50"] > 5000


def test_what_a_source_raises_while_it_drops_is_its_failure(write: Write, tmp_path: Path) -> None:
    text = (
        TASKS.replace('"t.py:Camera"', '"b.py:Bad"')
        + "app A { c: Camera latest   k: Keep   c -> k }"
    )
    bad = (
        "class Bad:\n    def __init__(self, count, ends):\n        self.n = 0\n    def __call__(self):\n"
        "        self.n += 1\n        import time; time.sleep(0.001)\n"
        "        if self.n == 9: raise OSError('unplugged')\n        return self.n\n"
    )
    out = build(write(text, t_py=CODE, b_py=bad), tmp_path / "out")
    done = run(out)
    assert (
        done.returncode == 1
        and "task A.c failed" in done.stderr
        and "OSError: unplugged" in done.stderr
    )


def test_a_source_that_drops_goes_on_after_an_error(write: Write, tmp_path: Path) -> None:
    text = (
        TASKS
        + 'task Bad { live   out n: N   on error restart   python "b.py:Bad" }\n'
        + "app A { c: Bad drop oldest 99   k: Keep   c -> k }"
    )
    bad = (
        "class Bad:\n    n = 0\n    def __call__(self):\n"
        "        Bad.n += 1\n"
        "        if Bad.n == 30: raise StopIteration\n"
        "        if Bad.n % 10 == 0: raise OSError('unplugged')\n        return Bad.n\n"
    )
    out = build(write(text, t_py=CODE, b_py=bad), tmp_path / "out")
    document = report_of(out)
    assert kept(document["out"]) == [[n for n in range(1, 30) if n % 10]]
    assert document["tasks"]["A.c"]["failed"] == document["apps"]["A"]["skipped"] == 2


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "cores", ["", "A.c -> core[0]  A.o -> core[1]  A.d -> core[0]  A.k -> core[1]"]
)
def test_frames_are_skipped(write: Write, tmp_path: Path, cores: str) -> None:
    """What has failed is left out up to the sink, and all else arrives; the reference skips the
    same."""
    text = TASKS + (
        "app A { c: Camera(count = 11, ends = true)  o: Odd  d: Double  k: Keep   c -> o -> d -> k }\n"
        f"platform two {{ cpu core[2] }}\nmapping on two {{ {cores} }}"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out", platform="two")
    document = report_of(out)
    assert kept(document["out"]) == [[2 * n for n in range(1, 11, 2)]]
    app, tasks = document["apps"]["A"], document["tasks"]
    assert (app["frames"], app["skipped"]) == (11, 6)
    assert (tasks["A.o"]["failed"], tasks["A.d"]["skipped"], tasks["A.k"]["skipped"]) == (6, 6, 6)
    assert "A.o failed at firing 0: ValueError: even: 0; its frame is skipped" in document["err"]
    assert harness(out).returncode == 0


def test_a_task_begins_anew(write: Write, tmp_path: Path) -> None:
    text = TASKS + "app A { c: Camera(count = 8, ends = true)  t: Third  k: Keep   c -> t -> k }"
    out = build(write(text, t_py=CODE), tmp_path / "out")
    document = report_of(out)
    assert kept(document["out"]) == [[100, 201, 103, 204, 106, 207]]
    assert document["tasks"]["A.t"]["failed"] == 2 and "it begins anew" in document["err"]
    assert harness(out).returncode == 0


def test_a_task_that_cannot_be_opened_again_at_once_is_tried_later(
    write: Write, tmp_path: Path
) -> None:
    text = (
        TASKS
        + 'task Bad { live   out n: N   on error restart 2 every 1 ms   python "b.py:Bad" }\n'
        + "app A { c: Bad   k: Keep   c -> k }"
    )
    bad = (
        "class Bad:\n    n = opened = 0\n    def __init__(self):\n"
        "        Bad.opened += 1\n"
        "        if Bad.opened == 2: raise OSError('not there')\n"
        "    def __call__(self):\n        Bad.n += 1\n"
        "        if Bad.n == 9: raise StopIteration\n"
        "        if Bad.n == 5: raise OSError('unplugged')\n        return Bad.n\n"
        "    def close(self): raise OSError('gone')\n"
    )
    out = build(write(text, t_py=CODE, b_py=bad), tmp_path / "out")
    done = run(out)
    assert kept(done.stdout) == [[1, 2, 3, 4, 6, 7, 8]]
    assert "A.c failed at firing 4: close: OSError: gone" in done.stderr
    assert (
        "cannot begin anew: OSError: not there; 1 try is left, the next in 0.001 s" in done.stderr
    )
    assert done.returncode == 1 and done.stderr.splitlines()[-1].endswith("close: OSError: gone")


def test_with_several_rates_only_what_needs_it_is_skipped(write: Write, tmp_path: Path) -> None:
    pairs = "def pair(n):\n    return n.sum()\n"
    text = TASKS + (
        'task Pair { in n: N rate 2   out m: N   python "p.py:pair" }\n'
        'task Some { in n: N   out m: N   python "p2.py:some"   on error skip }\n'
        "app A { c: Camera(count = 12, ends = true)  o: Some  p: Pair  k: Keep   c -> o -> p -> k }"
    )
    some = "def some(n):\n    if n in (3, 8):\n        raise KeyError(int(n))\n    return n\n"
    out = build(write(text, t_py=CODE, p_py=pairs, p2_py=some), tmp_path / "out")
    document = report_of(out)
    assert kept(document["out"]) == [[1, 9, 13, 21]]
    assert document["tasks"]["A.p"]["skipped"] == 2
    assert harness(out).returncode == 0


# -- what a program says of its deadlines ----------------------------------------------------------
def test_missed_deadlines_can_be_a_failure(write: Write, tmp_path: Path) -> None:
    text = TASKS + (
        "app A { period 2 ms   deadline 1 ms   c: File  s: Slow  k: Keep   c -> s -> k }\n"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out")
    good, bad = run(out, "--frames", "5"), run(out, "--frames", "5", "--fail-on-miss")
    assert (good.returncode, bad.returncode) == (0, 1)
    how_many = "deadlines were missed: A 5 of 5"
    assert bad.stderr.endswith(f"flowc: {how_many}\n")
    assert good.stderr.endswith(f"flowc: warning: {how_many}; --fail-on-miss makes it a failure\n")
    assert how_many not in run(out, "--frames", "5", "--quiet").stderr
    in_time = run(out, "--frames", "5", "--fail-on-miss", "--full-speed")
    assert in_time.returncode == 0 and "missed" not in in_time.stderr


def test_missed_deadlines_of_paths_are_counted(write: Write, tmp_path: Path) -> None:
    text = TASKS + (
        "app A { deadline 1 ms from c to k   c: File every 2 ms  s: Slow  k: Keep   c -> s -> k }\n"
    )
    out = build(write(text, t_py=CODE), tmp_path / "out")
    assert "warning: deadlines were missed: A.c -> k 5 of 5;" in run(out, "--frames", "5").stderr


def test_paths_are_measured_from_the_newest_data(write: Write, tmp_path: Path) -> None:
    """Four releases an iteration, 10 ms apart; pairs of them reach the sink: it waits for none but
    its own."""
    pairs = "import time\ndef pair(n):\n    time.sleep(0.003)\n    return n.sum()\n"
    text = TASKS + (
        'task Pair { in n: N rate 2   out m: N   python "f.py:pair" }\ntask Both2 { in m: N rate 2   python "t.py:Keep2" }\n'
        "app A { deadline 5 ms from c to p   deadline 1 ms from c to k\n"
        "    c: File every 10 ms   p: Pair  k: Both2   c -> p -> k }"
    )
    code = CODE + "\nclass Keep2:\n    def __call__(self, m):\n        time.sleep(0.001)\n"
    out = build(write(text, t_py=code, f_py=pairs), tmp_path / "out")
    app = in_its_own_time(out, "--frames", "10")["apps"]["A"]
    pair, sink = app["paths"]
    assert (
        pair["firings"],
        pair["latency_ms"]["p50"],
        pair["latency_ms"]["max"],
        pair["deadline_misses"],
    ) == (
        20,
        3,
        3,
        0,
    )
    assert (sink["firings"], sink["latency_ms"]["max"], sink["deadline_misses"]) == (10, 4, 10)
    assert app["latency_ms"]["max"] == 34 and app["deadline_misses"] == 0
