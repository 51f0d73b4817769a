"""The age of data that come through several apps: what a program measures, beside what is proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from typer.testing import CliRunner

from builds import Write, build, harness, run

TEXT = """
task Cam {{ out f: int32   wcet 1 ms   python "code.py:cam" }}
task Look {{ in f: int32   out t: int32   wcet 6 ms   python "code.py:look" }}
task Plan {{ in t: int32   out c: int32   wcet 3 ms   python "code.py:plan" }}
task Motor {{ in c: int32   wcet 1 ms   python "code.py:motor" }}
app Robot {{
    deadline {due} from Left.cam to motor
    period 10 ms
    plan: Plan   motor: Motor
    {arrow}
    plan -> motor
}}
app Middle {{ period 20 ms   plan: Plan   Left.look -> latest wcet 100 us -> plan }}
app Left {{ cam: Cam every 40 ms   look: Look   cam -> look }}
platform board {{ cpu core[4] scheduler fixed_priority }}
"""
STATES = """
scenario Modes {
    event turn
    initial state all { run Left, Middle, Robot }
    state two { run Left, Robot }
    all -> two on turn
    two -> all on turn
}
"""
CODE = """
import time

def cam(): return 7
def look(f):
    time.sleep(0.005)
    return f
def plan(t):
    time.sleep(0.002)
    return t
def motor(c): pass
"""
DIRECT = "Left.look -> latest wcet 100 us -> plan"
OVER_ANOTHER = "Middle.plan -> latest wcet 100 us -> plan"
EACH_ONCE = "Left.look -> drop oldest 4 wcet 100 us -> plan"

Text = Callable[..., Path]


@pytest.fixture
def text(write: Write) -> Text:
    """Writes the text with its code."""

    def written(arrow: str = DIRECT, due: str = "70 ms", more: str = "") -> Path:
        flow = write(TEXT.format(arrow=arrow, due=due) + more)
        (flow.parent / "code.py").write_text(CODE)
        return flow

    return written


def age_of(document: dict[str, Any]) -> dict[str, Any]:
    """What a report says of the age."""
    (found,) = (p for p in document["apps"]["Robot"]["paths"] if p["source"] == "Left.cam")
    assert found["task"] == "Robot.motor"
    return dict(found)


def bounded(flow: Path) -> tuple[int, dict[str, Any], str]:
    """The exit status of `map`, what it says of the age, and its table with reasons."""
    command = ["map", str(flow), "--platform", "board", "--no-measure", "--budget", "2s"]
    shown = CliRunner().invoke(app, [*command, "--explain"])
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == shown.exit_code, done.stderr
    paths = json.loads(done.stdout)["groups"]["Robot"]["paths"]
    (found,) = (p for p in paths if p["source"] == "Left.cam")
    return done.exit_code, dict(found), shown.stdout


def ran(out: Path, *arguments: str) -> dict[str, Any]:
    """What a run of 40 frames reports."""
    report = out / "r.json"
    done = run(out, "--frames", "40", "--report", str(report), *arguments)
    assert done.returncode == 0, done.stderr
    return {**json.loads(report.read_text()), "said": done.stderr}


@pytest.mark.parametrize("arrow", [DIRECT, OVER_ANOTHER])
def test_a_program_measures_the_age_of_data(text: Text, tmp_path: Path, arrow: str) -> None:
    """A frame of 40 ms is looked at four times: the last time it is 30 ms older than the first."""
    out = build(text(arrow), tmp_path / "b")
    assert "Age(left_cam, robot_motor" in (out / "main.py").read_text()
    age = age_of(ran(out))
    assert 1 <= age["firings"] <= 40
    assert age["latency_ms"]["max"] >= 30
    assert harness(out).returncode == 0


def test_what_is_too_old_is_counted(text: Text, tmp_path: Path) -> None:
    out = build(text(due="25 ms"), tmp_path / "b")
    document = ran(out)
    age = age_of(document)
    assert 0 < age["deadline_misses"] <= age["firings"]
    assert f"Left.cam -> motor {age['deadline_misses']} of {age['firings']}" in document["said"]
    assert run(out, "--frames", "20", "--fail-on-miss").returncode == 1


@pytest.mark.parametrize(("arrow", "longest"), [(DIRECT, 65), (OVER_ANOTHER, 90)])
def test_map_bounds_an_age(text: Text, arrow: str, longest: int) -> None:
    status, age, shown = bounded(text(arrow, due="100 ms"))
    assert status == 0 and age["met"] and age["deadline_ns"] == 100_000_000
    assert "Left.cam -> motor" in shown
    assert 40 < age["latency_ns"] / 1e6 <= longest


def test_an_age_that_may_be_too_large_is_late(text: Text) -> None:
    status, age, shown = bounded(text(due="40 ms"))
    assert status == 1 and not age["met"] and age["latency_ns"] > 40_000_000
    assert "`Left.cam -> Robot.motor` is the tightest" in shown
    assert "and its next token comes 40.00 ms later" in shown
    assert "a deadline of" in shown and "would be met" in shown


def test_a_reader_that_waits_for_each_token_has_no_bound(text: Text) -> None:
    status, age, _ = bounded(text(EACH_ONCE))
    assert status == 1 and age["latency_ns"] is None and not age["met"]


def test_a_text_with_states_runs_without_measuring_ages(text: Text, tmp_path: Path) -> None:
    out = build(text(more=STATES), tmp_path / "b")
    assert "Age(" not in (out / "main.py").read_text()
    assert run(out, "--frames", "8").returncode == 0


def test_check_names_the_deadline(text: Text) -> None:
    done = CliRunner().invoke(app, ["check", str(text())])
    assert done.exit_code == 0 and "age            Left.cam to motor within 70 ms" in done.stdout
