"""Ages of data and reactions over several apps: what a program measures, beside what is proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flowc.cli import app
from typer.testing import CliRunner

from builds import Write, build, harness, run
from rigs import sites

TEXT = """
task Cam {{ out f: int32   wcet 1 ms   python "code.py:cam" }}
task Look {{ in f: int32   out t: int32   wcet 6 ms   python "code.py:look" }}
task Plan {{ in t: int32   out c: int32   wcet 3 ms   python "code.py:plan" }}
task Motor {{ in c: int32   wcet 1 ms   python "code.py:motor" }}
app Robot {{
    deadline {due} from Left.cam to motor
    reaction 150 ms from Left.cam to motor
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

#: The ways of the age and the reaction lead over three machines.
RIG = """
platform rig {
    machine eye { cpu core }   machine brain { cpu core[2] }   machine arm { cpu core }
    link eye brain 1 GB/s 20 us   link brain arm 1 GB/s 20 us
}
mapping on rig {
    Left.cam -> eye.core   Left.look -> brain.core[0]   Robot.plan -> brain.core[1]   Robot.motor -> arm.core
}
"""

#: Each app reads the one before it, in a circle, and looks at data from two apps before.
CIRCLE = """
task Cam { out f: int32   wcet 1 ms   python "code.py:cam" }
task Mix { in f: int32   in b: int32   out t: int32   wcet 1 ms   python "code.py:mix" }
app A { period 20 ms   deadline 190 ms from B.x to mix   x: Cam   mix: Mix   x -> mix.f   C.mix -> latest wcet 10 us -> mix.b }
app B { period 20 ms   deadline 190 ms from C.x to mix   x: Cam   mix: Mix   x -> mix.f   A.mix -> latest wcet 10 us -> mix.b }
app C { period 20 ms   deadline 190 ms from A.x to mix   x: Cam   mix: Mix   x -> mix.f   B.mix -> latest wcet 10 us -> mix.b }
platform board { cpu core[4] scheduler fixed_priority }
"""

Text = Callable[..., Path]


@pytest.fixture
def text(write: Write) -> Text:
    """Writes the text with its code."""

    def written(arrow: str = DIRECT, due: str = "70 ms", more: str = "") -> Path:
        flow = write(TEXT.format(arrow=arrow, due=due) + more)
        (flow.parent / "code.py").write_text(CODE)
        return flow

    return written


def age_of(document: dict[str, Any], kind: str = "age", source: str = "Left.cam") -> dict[str, Any]:
    """What a report says of the age, or of the reaction."""
    (found,) = (p for p in document["apps"]["Robot"]["paths"] if p["kind"] == kind)
    assert (found["source"], found["task"]) == (source, "Robot.motor")
    return dict(found)


def bounded(flow: Path, kind: str = "age") -> tuple[int, dict[str, Any], str]:
    """The exit status of `map`, what it says of the age or the reaction, and its table with
    reasons."""
    command = ["map", str(flow), "--platform", "board", "--no-measure", "--budget", "2s"]
    shown = CliRunner().invoke(app, [*command, "--explain"])
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == shown.exit_code, done.stderr
    paths = json.loads(done.stdout)["groups"]["Robot"]["paths"]
    (found,) = (p for p in paths if p["kind"] == kind)
    assert (found["source"], found["task"]) == ("Left.cam", "Robot.motor")
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


@pytest.mark.parametrize("arrow", [DIRECT, OVER_ANOTHER])
def test_a_program_measures_reactions(text: Text, tmp_path: Path, arrow: str) -> None:
    """Each frame of 40 ms makes one, from the release of the frame before."""
    out = build(text(arrow), tmp_path / "b")
    assert "Reaction(left_cam, robot_motor" in (out / "main.py").read_text()
    reaction = age_of(ran(out), "reaction")
    assert 1 <= reaction["firings"] <= 39
    assert reaction["latency_ms"]["p50"] >= 40


def test_parts_of_ages_are_not_measured(text: Text, tmp_path: Path) -> None:
    out = build(text(), tmp_path / "b")
    assert "part(robot_from_left_look, robot_motor, newest=[0])" in (out / "main.py").read_text()
    document = ran(out)
    assert {path["kind"] for path in document["apps"]["Robot"]["paths"]} == {"age", "reaction"}


def test_the_last_token_of_a_stream_does_not_get_older(text: Text, tmp_path: Path) -> None:
    """Robot goes on for two frames of `Left`, which has ended: what it finds there says nothing."""
    more = "scenario Modes { initial state all { run Left, Middle, Robot } }"
    out = build(text(more=more), tmp_path / "b")
    document = ran(out)
    assert document["apps"]["Left"]["frames"] == 40
    age = age_of(document)
    assert 0 < age["firings"] <= 40 and age["latency_ms"]["max"] < 200


def test_what_is_too_old_is_counted(text: Text, tmp_path: Path) -> None:
    out = build(text(due="25 ms"), tmp_path / "b")
    document = ran(out)
    age = age_of(document)
    assert 0 < age["deadline_misses"] <= age["firings"]
    assert f"age Left.cam -> motor {age['deadline_misses']} of {age['firings']}" in document["said"]
    assert run(out, "--frames", "20", "--fail-on-miss").returncode == 1


@pytest.mark.parametrize(("arrow", "longest"), [(DIRECT, 65), (OVER_ANOTHER, 90)])
def test_map_bounds_an_age(text: Text, arrow: str, longest: int) -> None:
    status, age, shown = bounded(text(arrow, due="100 ms"))
    assert status == 0 and age["met"] and age["deadline_ns"] == 100_000_000
    assert "age Left.cam -> motor" in shown
    assert 40 < age["latency_ns"] / 1e6 <= longest


@pytest.mark.parametrize("arrow", [DIRECT, OVER_ANOTHER])
def test_map_bounds_a_reaction(text: Text, arrow: str) -> None:
    flow = text(arrow, due="100 ms")
    _, age, _ = bounded(flow)
    status, reaction, shown = bounded(flow, "reaction")
    assert status == 0 and reaction["met"] and reaction["deadline_ns"] == 150_000_000
    assert "reaction Left.cam -> motor" in shown
    assert age["latency_ns"] < reaction["latency_ns"] <= 110_000_000


@pytest.mark.parametrize(("task", "kind"), [("Look", "age"), ("Plan", "reaction")])
def test_a_bound_of_an_age_supposes_that_no_frame_is_skipped(
    text: Text, task: str, kind: str
) -> None:
    flow = text()
    _, whole, said = bounded(flow, kind)
    assert whole["met"] and not whole["conditions"] and "is skipped" not in said
    begin = f"task {task} {{"
    flow.write_text(flow.read_text().replace(begin, f"{begin} on error skip"))
    status, skipped, said = bounded(flow, kind)
    assert status == 0 and skipped == {**whole, "conditions": skipped["conditions"]}
    assert [condition["condition"] for condition in skipped["conditions"]] == ["skips"]
    assert said.count(" met if no frame is skipped and the interpreter is free ") == 2


def test_an_age_that_may_be_too_large_is_late(text: Text) -> None:
    status, age, shown = bounded(text(due="40 ms"))
    assert status == 1 and not age["met"] and age["latency_ns"] > 40_000_000
    assert "`Left.cam -> Robot.motor` is the tightest" in shown
    assert "after up to 40.00 ms until a newer token is there" in shown
    assert "a deadline of" in shown and "would be proved" in shown


def test_a_reader_that_takes_each_token_is_released_by_it(text: Text) -> None:
    """`Robot` may fire every 10 ms, and tokens come every 40 ms."""
    status, age, _ = bounded(text(EACH_ONCE))
    assert status == 0 and 7 < age["latency_ns"] / 1e6 <= 16
    _, reaction, _ = bounded(text(EACH_ONCE), "reaction")
    assert reaction["latency_ns"] == age["latency_ns"] + 40_000_000


def test_a_reader_that_takes_each_token_has_their_pace_in_bounds(text: Text) -> None:
    """A program has it, too: the period of the text is only a deadline then."""
    flow = text(EACH_ONCE)
    flow.write_text(flow.read_text().replace("period 10 ms", "period 50 ms"))
    status, age, shown = bounded(flow)
    assert status == 0 and age["latency_ns"] is not None and age["met"]
    assert "schedulable" in shown


def test_a_program_measures_what_takes_each_token(text: Text, tmp_path: Path) -> None:
    out = build(text(EACH_ONCE), tmp_path / "b")
    document = ran(out)
    age, reaction = age_of(document), age_of(document, "reaction")
    assert 30 <= age["firings"] <= 40 and reaction["firings"] == age["firings"] - 1
    # a reaction begins where the token before came, 40 ms earlier
    longer = reaction["latency_ms"]["mean"] - age["latency_ms"]["mean"]
    assert longer > 20 and reaction["latency_ms"]["p50"] >= 40
    assert age["latency_ms"]["p50"] < reaction["latency_ms"]["p50"]


def test_each_state_measures_its_ages(text: Text, tmp_path: Path) -> None:
    """State two has no `Middle`: the way over it is there in the other state only."""
    out = build(text(OVER_ANOTHER, more=STATES), tmp_path / "b")
    assert (out / "main.py").read_text().count("Age(left") == 2
    events = out / "events.txt"
    events.write_text("10 Left turn\n40 Left turn\n50 Left turn\n80 Left turn\n")
    document = ran(out, "--events", str(events), "--frames", "90")
    entered = {name: state["entered"] for name, state in document["states"].items()}
    assert entered["two"] >= 1
    age, reaction = age_of(document), age_of(document, "reaction")
    assert age["firings"] > 5 and reaction["firings"] > 0
    # What lay in a mailbox during another state, for 1.2 s, does not count.
    assert age["latency_ms"]["p99"] < 1100 and reaction["latency_ms"]["p99"] < 1100


def test_parts_on_several_machines_measure_what_ends_in_them(text: Text, tmp_path: Path) -> None:
    """The middle one is told when the camera was released, the last one what the reader found."""
    flow = text(more=RIG)
    left = "app Left { deadline 40 ms from cam to look "
    flow.write_text(flow.read_text().replace("app Left {", left))
    out = build(flow, tmp_path / "out", platform="rig")
    middle = (out / "parts" / "brain" / "main.py").read_text()
    assert (
        'stamps.tell("arm", robot_from_left_look, ages=["Left.cam"], reactions=["Left.cam"])'
        in middle
    )
    assert 'stamps.elsewhere("eye", "Left.cam", firings=1, releases=True)' in middle
    words = [
        "run",
        str(flow),
        "--platform",
        "rig",
        "--machines",
        str(sites(tmp_path, "eye", "brain", "arm")),
    ]
    done = CliRunner().invoke(app, [*words, "--frames", "40", "--no-measure", "--json"])
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    (path,) = (p for p in document["apps"]["Left"]["paths"] if p["task"] == "Left.look")
    assert (path["kind"], path["source"], path["task"], path["firings"]) == (
        "path",
        "Left.cam",
        "Left.look",
        40,
    )
    age, reaction = age_of(document), age_of(document, "reaction")
    assert age["firings"] >= 1 and age["latency_ms"]["max"] >= 30
    assert reaction["firings"] >= 1 and reaction["latency_ms"]["p50"] >= 40


def test_data_that_go_round_in_a_circle_of_apps_have_one_age(write: Write, tmp_path: Path) -> None:
    """What comes through an app twice does not count, as in bounds: it never gets younger."""
    flow = write(CIRCLE, code_py="def cam(): return 7\ndef mix(f, b): return f\n")
    out = build(flow, tmp_path / "out", platform="board")
    apps = ran(out, "--full-speed")["apps"]
    found = {
        (p["source"], p["task"])
        for app in apps.values()
        for p in app["paths"]
        if p["kind"] == "age"
    }
    assert found == {("B.x", "A.mix"), ("C.x", "B.mix"), ("A.x", "C.mix")}


def test_check_names_the_deadlines(text: Text) -> None:
    done = CliRunner().invoke(app, ["check", str(text())])
    assert done.exit_code == 0
    assert "age            Left.cam to motor within 70 ms" in done.stdout
    assert "reaction       Left.cam to motor within 150 ms" in done.stdout


def test_a_reaction_within_an_app(write: Write, tmp_path: Path) -> None:
    """From its own source: an event waits for the next release."""
    flow = write("""
task Cam { out f: int32   wcet 1 ms   python "code.py:cam" }
task Motor { in c: int32   wcet 1 ms   python "code.py:motor" }
app Robot { period 20 ms   reaction 30 ms from cam to motor   cam: Cam   motor: Motor
            cam -> motor }
platform board { cpu core[2] scheduler fixed_priority }
""")
    (flow.parent / "code.py").write_text("def cam(): return 7\ndef motor(c): pass\n")
    command = ["map", str(flow), "--platform", "board", "--no-measure", "--budget", "1s", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    paths = json.loads(done.stdout)["groups"]["Robot"]["paths"]
    (found,) = (p for p in paths if p["kind"] == "reaction")
    assert found["latency_ns"] == 22_000_000 and found["met"]
    out = build(flow, tmp_path / "b")
    report = out / "r.json"
    assert run(out, "--frames", "20", "--report", str(report)).returncode == 0
    reaction = age_of(json.loads(report.read_text()), "reaction", "Robot.cam")
    assert reaction["firings"] == 19 and reaction["latency_ms"]["p50"] >= 20
