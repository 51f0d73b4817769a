"""What verbs say of a text with a scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flowc.cli import app
from typer.testing import CliRunner

from builds import Write

TEXT = """
task S { out o: int8   wcet 1 ms   python "code.py:s" }
task W { in i: int8   event tired   wcet 11 ms   python "code.py:W" }
app A { period 20 ms   s: S   w: W   s -> w }
app B { period 20 ms   s: S   w: W   s -> w }
scenario Pairs {
    event turn
    initial state one { run A   weight 3 / 4 }
    state two { run A, B period 40 ms }
    one -> two on turn   two -> one on A.w.tired, B.w.tired   two -> one after 2 s
}
platform duo { cpu core[2] }
"""
CODE = "def s(): return 1\nclass W:\n    def __init__(self, tired): pass\n    def __call__(self, i): pass\n"


@pytest.fixture
def text(write: Write) -> str:
    return str(write(TEXT, code_py=CODE))


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.stdout


def test_check_lists_states_and_transitions(text: str) -> None:
    status, said = call("check", text)
    assert status == 0
    assert (
        "one (initial)  A every 20 ms" in said
        and "two            A every 40 ms, B every 40 ms" in said
    )
    assert (
        "75%" in said
        and "two   one  A.w.tired, B.w.tired" in said
        and "two   one  after 2 s" in said
    )
    scenario = json.loads(call("check", text, "--json")[1])["scenario"]
    assert scenario["initial"] == "one" and scenario["events"] == ["turn"]
    assert scenario["states"]["two"]["periods_ns"] == {"A": "40000000", "B": "40000000"}
    assert scenario["states"]["one"]["apps"]["A"]["schedulable"] is not False
    assert scenario["transitions"][0] == {
        "from": "one",
        "to": "two",
        "events": ["turn"],
        "after_ns": None,
        "at_once": False,
    }
    assert scenario["transitions"][2]["after_ns"] == "2000000000"


def test_map_bounds_changes(text: str) -> None:
    status, said = call(
        "map", text, "--platform", "duo", "--no-measure", "--budget", "3s", "--explain"
    )
    assert status == 0, said
    assert (
        "state two" in said
        and "change ms, at most" in said
        and "one placement for all states" in said
    )
    document = json.loads(
        call("map", text, "--platform", "duo", "--no-measure", "--budget", "3s", "--json")[1]
    )
    assert set(document["states"]) == {"one", "two"}
    bounds = [
        max(g["response_time_ns"] for g in s["groups"].values())
        for s in document["states"].values()
    ]
    assert {t["delay_ns"] for t in document["transitions"]} == {sum(bounds)}


def test_without_periods_map_says_where_everything_is(text: str) -> None:
    Path(text).write_text(TEXT.replace("period 20 ms   ", "").replace(" period 40 ms", ""))
    status, said = call("map", text, "--platform", "duo", "--no-measure", "--budget", "1s")
    assert status == 0 and "A.w   core[" in said


def test_the_machine_is_drawn(text: str, tmp_path: Path) -> None:
    assert call("show", text, "--scenario", "-o", str(tmp_path / "m.svg"))[0] == 0
    assert (tmp_path / "m.svg").read_text().startswith("<?xml")
    Path(text).write_text(TEXT[: TEXT.index("scenario")])
    assert call("show", text, "--scenario", "-o", str(tmp_path / "m.svg"))[0] == 1


def test_analyze_tells_what_apps_can_do_in_each_state(text: str) -> None:
    status, said = call("analyze", text)
    assert status == 0, said
    assert [
        line.split()[:5] for line in said.splitlines() if line.startswith(("one ", "two "))
    ] == [
        ["one", "A", "20", "11", "11"],
        ["two", "A", "40", "11", "11"],
        ["two", "B", "40", "11", "11"],
    ]
    states = json.loads(call("analyze", text, "--json")[1])["states"]
    assert states["two"]["B"]["latency_at_period"] == "40000000" and set(states["one"]) == {"A"}
    Path(text).write_text(TEXT.replace("period 40 ms", "period 10 ms"))
    assert "too fast" in call("analyze", text)[1] and call("analyze", text)[0] == 1
