"""Programs in C++ with states: what they compute, what changes them, what they say of it.

One program is built and run many times. Needs a C++ compiler.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flowc
import numpy as np
import pytest
from flowc import Errors

from builds import HANGS, ROOT
from builds import run as run_python
from limits import next_line
from models import N, save
from native import disagreement_of, disagreement_with_states, of_both
from native_compiler import in_a_hurry
from native_runs import start

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = ROOT / "tests/support/native_states"
#: Random texts, where that is asked for.
SEEDS = range(int(os.environ.get("FLOWC_FUZZ", "0")) // 100)
#: In every second state other tasks are on one core with each other.
ELSEWHERE = (
    "Front.third -> core[1]   Front.pair -> core[0]   Front.both -> core[1]",
    "Front.third -> core[0]   Front.pair -> core[2]   Front.both -> core[0]",
)
SCRIPT = """\
10 Front turn      # from cruise to turning
90 Front pace 200
180 Front straight # to search
270 Front turn     # to cruise
360 Front straight # which leads nowhere
"""


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def patrol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build of a text with states, every second of which has places of its own; it agrees with
    the sequential reference."""
    folder = tmp_path_factory.mktemp("states")
    shutil.copytree(TEXT, folder, dirs_exist_ok=True)
    for name, factor in (("careful", 3), ("quick", 2)):
        layers = [N("Mul", ["x", "by"], ["y"])]
        save(folder / f"{name}.onnx", layers, {"x": [1, 4]}, {"by": np.float32([factor])}, "y")
    (folder / "script").write_text(SCRIPT)
    text = (folder / "states.flow").read_text()
    (folder / "elsewhere.flow").write_text(text.replace(*ELSEWHERE))
    build = of_both(folder, "states.flow", "elsewhere.flow", platform="four")
    assert disagreement_of(build, folder / "record") == ""
    return build


def run(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Its exit status, and what it prints."""
    out, said = (child := start(build, *words, **variables)).communicate(timeout=HANGS)
    return child.returncode, out.decode(), said.decode()


def in_python(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """The same of the program in Python."""
    done = subprocess.run(
        [sys.executable, build / "main.py", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def shown(out: str, who: str) -> list[int]:
    """The numbers that a sink has printed."""
    return [int(n) for n in re.findall(rf"^{who} (-?\d+)$", out, re.MULTILINE)]


def states_of(document: dict[str, Any]) -> list[str]:
    """The states that it was in, one after the other."""
    return [stay["state"] for stay in document["stays"]]


# -- what it computes ------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", SEEDS)
def test_random_texts_with_states_equal_the_reference(seed: int, tmp_path: Path) -> None:
    assert disagreement_with_states(seed, tmp_path) == ""


#: All states, some of them twice.
STAYS: list[dict[str, Any]] = [
    {"state": "cruise", "frames": {"Front": 10}},
    {"state": "turning[0]", "frames": {"Front": 7, "Left": 5, "Plan": 3}},
    {"state": "turning[1]", "frames": {"Front": 4, "Left": 8, "Plan": 5}},
    {"state": "search", "frames": {"Front": 9, "Ear": 6, "Plan": 4}},
    {"state": "turning[0]", "frames": {"Front": 1, "Left": 3, "Plan": 2}},
    {"state": "cruise", "frames": {"Front": 5}},
]


def test_it_does_in_states_what_the_program_in_python_does(patrol: Path, tmp_path: Path) -> None:
    given, made = tmp_path / "stays.json", tmp_path / "made.json"
    given.write_text(json.dumps({"stays": STAYS}))
    words = ["--replay", str(given), "--full-speed", "--quiet", "--report", str(made)]
    status, out, said = run(patrol, *words)
    assert status == 0, said
    document = json.loads(made.read_text())
    status, expected_out, expected_said = in_python(patrol, *words)
    assert status == 0, expected_said
    expected = json.loads(made.read_text())
    assert list(document) == list(expected)
    assert document["stays"] == expected["stays"] == STAYS
    assert [c["to"] for c in document["switches"]] == [c["to"] for c in expected["switches"]]
    for who in ("far", "near", "left", "rows", "heard"):
        assert shown(out, who) == shown(expected_out, who) != [], who
    for name, app in expected["apps"].items():
        for key in ("frames", "skipped"):
            assert document["apps"][name][key] == app[key]
    for name, task in expected["tasks"].items():
        for key in ("processor", "firings", "failed", "skipped"):
            assert document["tasks"][name][key] == task[key], (name, key)
    for name, channel in expected["channels"].items():
        assert document["channels"][name]["capacity"] == channel["capacity"], name
    assert sorted(said.splitlines()) == sorted(expected_said.splitlines()) != []


def test_events_of_a_script_count_in_their_order(patrol: Path, tmp_path: Path) -> None:
    """States in which some app has not begun are skipped where the next event has come, so that a
    busy machine may leave some out."""
    file, script = tmp_path / "r.json", str(patrol.parent / "script")
    words = ["--events", script, "--full-speed", "--quiet", "--report", str(file)]
    status, _, said = run(patrol, *words, LAST="800", SLOW="300")
    assert status == 0, said
    document = json.loads(file.read_text())
    seen, way = states_of(document), ["cruise", "turning[0]", "turning[1]", "search", "cruise"]
    assert seen[0] == seen[-1] == "cruise"
    left = iter(way)
    assert all(state in left for state in seen), seen
    assert document["events"] == {"ignored": {"straight": 1}}
    assert document["apps"]["Front"]["frames"] == 400
    for change in document["switches"]:
        assert change["drain_ms"] >= 0 and change["protocol"] == "idle"
    assert sum(s["entered"] for s in document["states"].values()) == len(seen)


def test_the_newest_token_is_kept_while_its_writer_does_not_run(
    patrol: Path, tmp_path: Path
) -> None:
    """In `search` nothing writes what Plan looks at: it sees the last token of `turning`."""
    stays = [
        {"state": "turning[0]", "frames": {"Front": 5, "Left": 9, "Plan": 9}},
        {"state": "search", "frames": {"Front": 5, "Ear": 2, "Plan": 3}},
    ]
    (tmp_path / "r.json").write_text(json.dumps({"stays": stays}))
    status, out, said = run(patrol, "--replay", str(tmp_path / "r.json"), "--full-speed", "--quiet")
    assert status == 0, said
    assert len(shown(out, "look")) == 12
    assert shown(out, "look")[-3:] == [shown(out, "left")[-1]] * 3
    assert shown(out, "heard") == [0, 1]


def test_a_stream_that_ends_ends_its_app_for_good(patrol: Path, tmp_path: Path) -> None:
    file, script = tmp_path / "r.json", tmp_path / "script"
    script.write_text("4 Front turn\n0 s turn\n")
    words = ["--events", str(script), "--full-speed", "--quiet", "--frames", "30"]
    status, _, said = run(patrol, *words, "--report", str(file))
    assert status == 0, said
    document = json.loads(file.read_text())
    frames = {name: app["frames"] for name, app in document["apps"].items()}
    assert frames["Front"] == 30
    for stay in document["stays"][:-1]:
        assert sum(stay["frames"].values()) > 0


# -- from outside ----------------------------------------------------------------------------------
def test_events_come_in_at_a_socket(patrol: Path, tmp_path: Path) -> None:
    place, file = tmp_path / "c", tmp_path / "r.json"
    child = start(patrol, "--control", str(place), "--report", str(file), "--start", "search",
                  "--full-speed", "--quiet", SLOW="500")  # fmt: skip
    deadline = time.monotonic() + HANGS
    while not place.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert place.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for word in (b"trun", b"pace much", b"turn\n"):
            sender.sendto(word, str(place))
    assert (
        next_line(child, errors=True) == b"flowc: there is no event `trun`; did you mean `turn`?\n"
    )
    needs = b"flowc: `pace much` needs a number of frames per second: `pace 20`\n"
    assert next_line(child, errors=True) == needs
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=HANGS)
    assert child.returncode == 143, said.decode()
    document = json.loads(file.read_text())
    assert document["events"] == {"ignored": {"pace much": 1, "trun": 1}}
    assert states_of(document)[0] == "search"
    assert not place.exists()


def test_a_crash_leaves_no_socket(patrol: Path, tmp_path: Path) -> None:
    place = tmp_path / "c"
    child = start(patrol, "--control", str(place), "--full-speed", SLOW="500")
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    own: list[str] = []
    deadline = time.monotonic() + HANGS
    while not (place.exists() and own) and time.monotonic() < deadline:
        time.sleep(0.01)
        own = children.read_text().split()
    os.kill(int(own[0]), signal.SIGKILL)
    _, said = child.communicate(timeout=HANGS)
    assert child.returncode == 1 and b"SIGKILL" in said
    assert not place.exists()


@pytest.mark.parametrize(
    "words, script",
    [
        (["--start", "crusie"], ""),
        (["--events", "script"], "\n5 s trun  # a word\n"),
        (["--events", "script"], "soon s turn\n"),
        (["--events", "script"], "5 s pace fast\n"),
        (["--replay", "other", "--start", "search"], ""),
    ],
)
def test_mistakes_are_told_in_the_words_of_the_program_in_python(
    patrol: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], script: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script").write_text(script)
    (tmp_path / "other").write_text('{"stays": []}')
    found, expected = run(patrol, *words), in_python(patrol, *words)
    assert found == expected
    assert found[0] == 2 and found[2]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "is no report of a program with states: it is no JSON"),
        ('{"version": 1}', "is no report of a program with states: it has no `stays`"),
        (
            '{"stays": [{"state": "cruise", "frames": {}}]}',
            "is the report of another program: its state `cruise` is not this one's",
        ),
    ],
)
def test_a_report_that_is_none_of_this_program_is_refused(
    patrol: Path, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "r").write_text(text)
    status, _, said = run(patrol, "--replay", str(tmp_path / "r"))
    assert (status, said) == (2, f"flowc: {tmp_path / 'r'} {reason}\n")


# -- what there is not -----------------------------------------------------------------------------
def test_the_program_in_python_replays_its_recording(patrol: Path, tmp_path: Path) -> None:
    file, script = tmp_path / "r.mcap", str(patrol.parent / "script")
    words = ("--frames", "400", "--quiet", "--record", str(file))
    status, _, said = run(patrol, "--events", script, *words)
    assert status == 0, said
    again = run_python(patrol, "--replay", str(file))
    assert again.returncode == 0 and " of 7 channels equal, bit for bit" in again.stderr


REFUSED = """\
task Count { out n: float32[1, 4]   c "a.c:count" }
task Show { in n: float32[1, 4]   c "a.c:show" }
network Net {
    in x: float32[1, 4] from "x"   out y: float32[1, 4] from "y"
    variant careful from "careful.onnx"   variant quick from "quick.onnx"
}
app A { c: Count   n: Net   s: Show   c -> n -> s }
app B { s: Show   reaction 1 min from A.c to s   period 1 ms   A.n -> latest -> s }
scenario S {
    event go, back
    initial state one { run A, B }
    state two { run A, B   A.n = quick }
    one -> two on go   two -> one on back
}
platform duo { cpu core[2] }
"""


def test_what_states_have_not_is_refused_at_once(patrol: Path, tmp_path: Path) -> None:
    for name in ("careful.onnx", "quick.onnx"):
        shutil.copy(patrol.parent / name, tmp_path)
    (tmp_path / "a.flow").write_text(REFUSED)
    code = "int count(void *s, float *n, const void *p) { return 0; }\n"
    code += "int show(void *s, const float *n, const void *p) { return 0; }\n"
    (tmp_path / "a.c").write_text(code)
    with pytest.raises(Errors) as refused:
        flowc.build(tmp_path / "a.flow", tmp_path / "b", platform="duo", native=True, measure=False)
    faults = [d for d in refused.value.diagnostics if d.severity == "error"]
    assert [d.code for d in faults] == ["F661"], [d.message for d in faults]
    assert "the reaction of `B.s` leads over several apps with states" in faults[0].message
