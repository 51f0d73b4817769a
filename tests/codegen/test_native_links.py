"""Programs in C++ in which something does not wait for its reader, goes on after errors, or takes
turns: live sources, links between apps, frames that are skipped, replicas.

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flowc.driver.execute.run import test as run_harness

from builds import HANGS, ROOT
from builds import run as run_python
from limits import next_line
from models import N, save
from native_compiler import in_a_hurry
from native_runs import start

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
TEXT = ROOT / "tests/support/native_links"
#: What a sum of the first whole numbers can be.
SUMS = [n * (n + 1) // 2 for n in range(50)]


@pytest.fixture(scope="module", autouse=True)
def _compiled_in_a_hurry(shared: Path) -> Iterator[None]:
    with in_a_hurry(shared):
        yield


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with all of them, which agrees with the sequential reference."""
    return agreed(tmp_path_factory.mktemp("links"), "links.flow", apps=5)


def agreed(folder: Path, text: str, apps: int, platform: str = "two") -> Path:
    """The build of a text, which agrees with the sequential reference."""
    shutil.copytree(TEXT, folder, dirs_exist_ok=True)
    found = run_harness(
        folder / text, folder / "build", platform=platform, native=True, measure=False, quiet=True
    )
    assert found.status == 0, found.tests
    assert len(found.tests) == 4 * apps
    return folder / "build"


def run(build: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Its exit status, and what it prints."""
    child = start(build, *words, **variables)
    out, said = child.communicate(timeout=HANGS)
    return child.returncode, out.decode(), said.decode()


def reported(build: Path, file: Path, **variables: str) -> tuple[dict[str, Any], str]:
    """The report of a run that has not failed, and what it has printed."""
    status, out, said = run(build, "--quiet", "--report", str(file), **variables)
    assert status == 0, said
    return json.loads(file.read_text()), out


def shown(out: str, who: str) -> list[int]:
    """The numbers that a sink has printed."""
    return [int(n) for n in re.findall(rf"^{who} (\d+)$", out, re.MULTILINE)]


def test_streams_end_and_what_reads_them_ends_with_them(links: Path, tmp_path: Path) -> None:
    document, out = reported(links, tmp_path / "r.json")
    assert shown(out, "left") == SUMS
    frames = {name: app["frames"] for name, app in document["apps"].items()}
    assert frames["Left"] == 50 and frames["Plan"] > 1
    assert shown(out, "plan")[0] == 0 or shown(out, "plan")[0] // 1000000 in SUMS


def test_what_is_dropped_is_counted(links: Path, tmp_path: Path) -> None:
    document, out = reported(links, tmp_path / "r.json", SHOW="r5l5")
    dropped = document["dropped"]
    assert list(dropped) == ["Log.from_Left_sum", "Right.cam"]
    for name, app, sink in (("Log.from_Left_sum", "Log", "log"), ("Right.cam", "Right", "right")):
        taken = document["apps"][app]["frames"]
        assert dropped[name] == {"written": 50, "dropped": 50 - taken}
        assert len(shown(out, sink)) == taken
    # a source that makes a frame in a millisecond does not wait for a sink that takes five
    assert dropped["Right.cam"]["dropped"] > 0
    assert shown(out, "log") == sorted(set(shown(out, "log")) & set(SUMS))
    status, out, _ = run(links, SHOW="r5")
    assert status == 0 and re.search(r"^Right\.cam +50 +[1-9]\d*$", out, re.MULTILINE)
    assert re.search(r"^source: firings, link: tokens +written +dropped$", out, re.MULTILINE)


def test_ages_and_reactions_know_when_data_came(links: Path, tmp_path: Path) -> None:
    """A frame of the camera takes 30 ms, so that each is looked at for at least so long."""
    document, _ = reported(links, tmp_path / "r.json", LEFT="T30L8")
    age, reaction = document["apps"]["Plan"]["paths"]
    assert (age["kind"], reaction["kind"]) == ("age", "reaction")
    # frames that come between two looks are overwritten, on a busy machine more of them
    assert age["deadline_misses"] == age["firings"] > reaction["firings"]
    assert 1 <= reaction["firings"] <= 7
    assert age["latency_ms"]["max"] >= 25 - 5  # the period of those who look at it
    assert reaction["latency_ms"]["p50"] >= 25


def test_a_source_that_waits_too_long_is_named(links: Path, tmp_path: Path) -> None:
    """Ages are above their deadline; the program in Python says the same of it."""
    document, _ = reported(links, tmp_path / "r.json", LEFT="T30L8")
    wait = document["tasks"]["Left.cam"]["wait"]
    assert wait["period_us"] == 10_000 and wait["max_us"] > 25_000
    assert document["tasks"]["Right.cam"]["wait"]["period_us"] is None
    status, out, _ = run(links, LEFT="T30L8")
    assert status == 0
    assert re.search(r"^Left\.cam had no data for \d+\.\d ms \(its period: 10\.0 ms\)$", out, re.M)
    assert "Right.cam had no data" not in out


def test_a_source_that_waits_when_it_is_to_end_is_named(links: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    words = ("--quiet", "--seconds", "1.5", "--report", str(report))
    status, _, said = run(links, *words, LEFT="W3", RIGHT="W3")
    assert status == 0, said
    tasks = json.loads(report.read_text())["tasks"]
    assert min(tasks[f"{app}.cam"]["wait"]["max_us"] for app in ("Left", "Right")) > 100_000


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_an_app_is_told_which_of_its_deadlines_it_misses(links: Path, program: str) -> None:
    command = [links / program] if program == "main" else [sys.executable, links / program]
    variables = {**os.environ, "LEFT": "T30L60"}
    done = subprocess.run(
        [*command, "--quiet"], env=variables, capture_output=True, text=True, timeout=HANGS
    )
    told = re.search(r"Plan missed \d+ deadlines in its last \d+ frames \((.*)\)\n", done.stderr)
    assert told is not None, done.stderr
    age = r"age Left\.cam -> show: deadline 0\.000001 ms, last [\d.]+ ms"
    # on a busy machine its frames are late, too, or do not begin
    assert re.fullmatch(
        rf"(deadline 5 ms, last frame [\d.]+ ms; )?{age}(; no frame begins: .+)?", told[1]
    )


def test_its_report_is_that_of_the_program_in_python(links: Path, tmp_path: Path) -> None:
    document, _ = reported(links, tmp_path / "r.json")
    command = [sys.executable, links / "main.py", "--report", tmp_path / "p.json", "--quiet"]
    subprocess.run(command, check=True, timeout=HANGS, capture_output=True)
    expected = json.loads((tmp_path / "p.json").read_text())
    for each in (document, expected):  # whether one stream ends first depends on the moment
        each.pop("after_end", None)
    assert list(document) == list(expected)
    assert document["dropped"].keys() == expected["dropped"].keys()
    assert document["shares"].keys() == expected["shares"].keys()
    ends = ("kind", "source", "task")
    for name, app in expected["apps"].items():
        wanted = [[path[key] for key in ends] for path in app["paths"]]
        assert [[path[key] for key in ends] for path in document["apps"][name]["paths"]] == wanted
        for path in app["paths"]:
            # a run takes less than a minute, and so does everything in it
            assert not path["firings"] or path["latency_ms"]["max"] < 60000


def test_a_limit_on_frames_holds_for_each_app(links: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    status, _, said = run(links, "--frames", "10", "--quiet", "--report", str(file))
    assert status == 0, said
    document = json.loads(file.read_text())
    frames = {name: app["frames"] for name, app in document["apps"].items()}
    assert frames["Left"] == frames["Plan"] == 10
    # those that were dropped count for the limit
    assert 10 >= frames["Right"] > 0 and 10 >= frames["Log"] > 0


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_a_limit_on_seconds_ends_all_apps(links: Path, tmp_path: Path, program: str) -> None:
    """Also one whose source waits for data."""
    command = [links / program] if program == "main" else [sys.executable, links / program]
    words = ["--seconds", "0.4", "--quiet", "--report", str(tmp_path / "r.json")]
    variables = {**os.environ, "LEFT": "L1000000", "RIGHT": "W3", "SHARE": "L1000000"}
    subprocess.run([*command, *words], env=variables, check=True, timeout=HANGS)
    apps = json.loads((tmp_path / "r.json").read_text())["apps"]
    assert apps["Right"]["frames"] <= 3  # a busy machine begins late
    released = apps["Plan"]["frames"] + apps["Plan"]["not_begun"]
    assert released >= 80 and apps["Left"]["frames"] > 0


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_what_is_left_of_an_app_behind_its_limit_has_no_age(
    links: Path, tmp_path: Path, program: str
) -> None:
    """Left makes all of its frames at once, and then Plan looks at the last one for a second."""
    command = [links / program] if program == "main" else [sys.executable, links / program]
    words = ["--frames", "200", "--quiet", "--report", str(tmp_path / "r.json")]
    variables = {**os.environ, "LEFT": "T0L1000", "RIGHT": "T0L1000"}
    subprocess.run([*command, *words], env=variables, check=True, timeout=HANGS)
    apps = json.loads((tmp_path / "r.json").read_text())["apps"]
    age, _ = apps["Plan"]["paths"]
    assert apps["Plan"]["frames"] == apps["Left"]["frames"] == 200
    looks = apps["Left"]["seconds"] / 0.005  # while Left ran, however long that took
    assert age["firings"] <= looks + 20


@pytest.mark.parametrize("program", ["main", "main.py"])
def test_ages_go_on_after_the_end_of_a_stream(links: Path, tmp_path: Path, program: str) -> None:
    """Left ends by itself, and Plan goes on as long as Right does."""
    command = [links / program] if program == "main" else [sys.executable, links / program]
    words = ["--fail-on-miss", "--report", str(tmp_path / "r.json")]
    variables = {**os.environ, "LEFT": "T0L2", "RIGHT": "T40L5"}
    done = subprocess.run(
        [*command, *words], env=variables, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 1
    document = json.loads((tmp_path / "r.json").read_text())
    age, _ = document["apps"]["Plan"]["paths"]
    assert list(document["after_end"]) == ["Plan.from_Left_sum"]
    assert age["deadline_misses"] >= document["after_end"]["Plan.from_Left_sum"] > 0
    assert "\nPlan.from_Left_sum went on with the last token of a stream that " in done.stdout


def test_an_app_keeps_to_its_share(links: Path, tmp_path: Path) -> None:
    """It computes for 20 ms and more, and gets 2 of every 10."""
    document, out = reported(links, tmp_path / "r.json", SHARE="L40")
    assert shown(out, "share") == [*range(40)]
    assert document["apps"]["Share"]["seconds"] >= 0.07
    shares = document["shares"]
    assert list(shares["Share"]) == ["core[0]", "core[1]"]
    for share in shares["Share"].values():
        assert share["part"] == 0.2 and not share["above"]
    assert 0 < shares["Share"]["core[1]"]["used"] < 0.3  # of a run of 70 ms and more
    status, out, _ = run(links, "--full-speed", SHARE="L40")
    assert status == 0
    assert "Share has a share of core[1]: 20.0 %, and used " in out
    assert "%; no priority puts it above the others\n" in out


FAILS = {
    "F": "cam returned 3",
    "C": "its process was ended by SIGABRT (Aborted)",
}


@pytest.mark.parametrize("what", FAILS)
@pytest.mark.parametrize("app", ["Left", "Right"])
def test_a_live_source_that_fails_is_named(links: Path, app: str, what: str) -> None:
    status, out, said = run(links, "--quiet", **{app.upper(): f"{what}5"})
    assert status == 1
    named = rf"flowc: app {app}, task {app}\.cam failed at firing (\d): {re.escape(FAILS[what])}"
    found = re.fullmatch(named, said.splitlines()[-1])
    assert found is not None, said
    # frames that were dropped have no number
    assert 0 < int(found[1]) <= 5 if app == "Right" else int(found[1]) == 5
    numbers = shown(out, app.lower())
    assert len(numbers) <= 5
    if app == "Left":
        assert numbers == SUMS[: len(numbers)]  # no gap, and in order
    else:  # what the source has dropped is missing in the sum
        taken = np.diff([0, *numbers])
        assert set(taken) <= set(range(5)) and (np.diff(taken) > 0).all()


def test_live_sources_that_wait_do_not_hold_up_the_end(links: Path, tmp_path: Path) -> None:
    words = ("--report", str(tmp_path / "r.json"), "--quiet")
    child = start(links, *words, LEFT="W3", RIGHT="W2", SHOW="l20")
    seen: list[bytes] = []
    while b"left 3\n" not in seen or b"right 1\n" not in seen:
        seen.append(next_line(child))
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=HANGS)
    assert child.returncode == 143, said
    assert b"closed" not in said  # it would free what the sources use
    apps = json.loads((tmp_path / "r.json").read_text())["apps"]
    assert apps["Left"]["frames"] == 3 and apps["Right"]["frames"] == 2


# -- errors ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose tasks go on after errors, which agrees with the sequential reference."""
    return agreed(tmp_path_factory.mktemp("errors"), "errors.flow", apps=5)


def words(said: str) -> list[str]:
    """What has been said of failures, whichever came first."""
    return sorted(line for line in said.splitlines() if "failed at firing" in line)


def test_it_goes_on_after_errors_as_the_program_in_python(errors: Path, tmp_path: Path) -> None:
    variables = {"LAST": "100", "ANEW": "1"}
    file = tmp_path / "r.json"
    status, out, said = run(errors, "--quiet", "--report", str(file), **variables)
    assert status == 0, said
    document = json.loads(file.read_text())
    command = [sys.executable, errors / "main.py", "--report", tmp_path / "p.json", "--quiet"]
    done = subprocess.run(
        command, check=True, timeout=HANGS, capture_output=True, env={**os.environ, **variables}
    )
    expected = json.loads((tmp_path / "p.json").read_text())
    assert words(said) == words(done.stderr.decode()) != []
    for who in ("far", "near", "late", "thrown", "half", "two", "radio", "sonar"):
        assert shown(out, who) == shown(done.stdout.decode(), who) != []
    for app in ("A", "B", "C", "D"):
        for key in ("frames", "skipped"):
            assert document["apps"][app][key] == expected["apps"][app][key]
    for name, task in expected["tasks"].items():
        if not name.startswith("E."):  # which may be too slow to get all
            for key in ("firings", "failed", "skipped"):
                assert document["tasks"][name][key] == task[key], (name, key)


def test_failures_are_counted_and_only_the_first_are_told(errors: Path) -> None:
    status, out, said = run(errors, "--frames", "90")
    assert status == 0
    assert re.search(r"^A\.third +30 +0$", out, re.MULTILINE)
    assert re.search(r"^A\.pair +0 +59$", out, re.MULTILINE)
    told = [line for line in words(said) if "task A.third " in line]
    assert len(told) == 20
    at = "flowc: app A, task A.third failed at firing {}: third returned 5: a third one; "
    assert at.format(2) + "its frame is skipped" in told
    assert at.format(59) + "its frame is skipped; more failures of this task are only counted" in (
        told
    )


def test_what_is_thrown_is_a_failure_like_others(errors: Path) -> None:
    status, out, said = run(errors, "--quiet", "--frames", "5", THROWS="1")
    assert status == 0 and shown(out, "thrown") == [0, 3, 4]
    at = "flowc: app A, task A.thrower failed at firing {}: threw {}; its frame is skipped\n"
    assert at.format(1, "no luck") in said and at.format(2, "what is no std::exception") in said


# -- several processors in turn --------------------------------------------------------------------
@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with replicas of tasks and of networks, which agrees with the sequential reference:
    one behind the other, with windows, delays and errors between."""
    folder = tmp_path_factory.mktemp("turns")
    triple = [N("Mul", ["x", "three"], ["y"])], np.array([3], np.float32)
    for name, size in (("net", 1), ("open", "N")):
        save(folder / f"{name}.onnx", triple[0], {"x": [size, 4]}, {"three": triple[1]}, "y")
    return agreed(folder, "turns.flow", apps=2, platform="four")


def test_replicas_do_what_those_in_python_do(turns: Path, tmp_path: Path) -> None:
    words = ["--frames", "60", "--full-speed", "--quiet", "--report"]
    status, _, said = run(turns, *words, str(tmp_path / "r.json"))
    assert status == 0, said
    command = [sys.executable, turns / "main.py", *words, tmp_path / "p.json"]
    subprocess.run(command, check=True, timeout=HANGS, capture_output=True)
    document, expected = (json.loads((tmp_path / f"{x}.json").read_text()) for x in "rp")
    for app in ("A", "B"):
        for key in ("frames", "skipped"):
            assert document["apps"][app][key] == expected["apps"][app][key]
        paths = [(p["source"], p["task"], p["firings"]) for p in document["apps"][app]["paths"]]
        wanted = [(p["source"], p["task"], p["firings"]) for p in expected["apps"][app]["paths"]]
        assert paths == wanted
    for name, task in expected["tasks"].items():
        for key in ("processor", "firings", "failed", "skipped"):
            assert document["tasks"][name][key] == task[key], (name, key)
    assert document["tasks"]["A.slow"]["processor"] == "core[0], core[1], core[2]"
    for name, channel in document["channels"].items():
        assert channel["capacity"] == expected["channels"][name]["capacity"] >= channel["most"] > 0


def test_each_replica_has_its_iterations(turns: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    status, _, said = run(turns, "--frames", "12", "--full-speed", "--quiet", "--trace", str(file))
    assert status == 0, said
    events = json.loads(file.read_text())["traceEvents"]
    lanes: dict[int, set[int]] = {}
    for event in events:
        if event["ph"] == "X" and event["name"] == "A.wide":
            lanes.setdefault(event["tid"], set()).add(event["args"]["frame"])
    assert sorted(map(sorted, lanes.values())) == [[*range(0, 12, 2)], [*range(1, 12, 2)]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("links", ()),
        ("errors", ("--frames", "60")),
        ("turns", ("--frames", "40", "--full-speed")),
    ],
)
def test_the_program_in_python_replays_its_recording(
    name: str, words: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    build, file = request.getfixturevalue(name), tmp_path / "r.mcap"
    status, _, said = run(build, "--record", str(file), *words)
    assert status == 0 and f"channels are in {file}" in said, said
    again = run_python(build, "--replay", str(file))
    assert again.returncode == 0 and "equal, bit for bit" in again.stderr, again.stderr
