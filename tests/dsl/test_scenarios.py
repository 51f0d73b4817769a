"""Scenarios: what the states of a text are, and that each is checked like a plain system."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.dsl.format import format_text

from builds import Write
from models import N, save, weights

TEXT = """
type X = float32[1, 8]
task Camera { out x: X   python "code.py:camera" }
task Watch { in y: float32[1, 4]   event noise   wcet 4 ms   python "code.py:Watch" }
network See {
    in x: X   out y
    variant careful from "net.onnx"
    variant quick from "net.onnx"
}
app A { period 20 ms   camera: Camera   see: See   watch: Watch   camera -> see -> watch }
app B { camera: Camera   see: See   watch: Watch   camera -> see -> watch }
scenario Patrol {
    event turn, state
    initial state cruise { run A   A.see = quick   weight 0.7 }
    state event { run A period 10 ms   run B period 1 / 20 s deadline 30 ms }
    state run { run B }
    cruise -> event on turn, state   event -> cruise on turn
    cruise, event -> run on A.watch.noise
    run -> cruise after 1.5 s
}
"""
CODE = """
import numpy as np
def camera(): return np.ones((1, 8), np.float32)
class Watch:
    def __init__(self, noise): self.noise = noise
    def __call__(self, y): self.noise()
"""


@pytest.fixture
def text(write: Write, tmp_path: Path) -> Path:
    save(
        tmp_path / "net.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, 8]},
        {"w": weights(8, 4)},
        "y",
    )
    return write(TEXT, code_py=CODE)


def test_a_state_is_apps_with_periods_and_variants(text: Path) -> None:
    scenario = flowc.check(text).system.scenario
    assert scenario is not None and (scenario.initial, scenario.events) == (
        "cruise",
        ("turn", "state"),
    )
    ms = 10**6
    assert {s.name: [(a.name, a.period_ns, a.due_ns) for a in s.apps] for s in scenario.states} == {
        "cruise": [("A", 20 * ms, 20 * ms)],
        "event": [("A", 10 * ms, 10 * ms), ("B", 50 * ms, 30 * ms)],
        "run": [("B", None, None)],
    }
    assert [dict(s.choices) for s in scenario.states] == [
        {"A.see": "quick"}, {"A.see": "careful", "B.see": "careful"}, {"B.see": "careful"},
    ]  # fmt: skip
    assert [s.weight for s in scenario.states] == [
        Fraction(7, 10),
        Fraction(3, 20),
        Fraction(3, 20),
    ]
    assert [(t.source, t.target, t.events, t.after_ns) for t in scenario.transitions] == [
        ("cruise", "event", ("turn", "state"), None), ("event", "cruise", ("turn",), None),
        ("cruise", "run", ("A.watch.noise",), None), ("event", "run", ("A.watch.noise",), None),
        ("run", "cruise", (), 1500 * ms),
    ]  # fmt: skip


def test_each_state_has_verdicts_of_its_own(text: Path) -> None:
    text.write_text(TEXT.replace("period 10 ms", "period 3 ms"))
    checked = flowc.check(text)
    schedulable = {
        n: {a: v.schedulable.holds for a, v in c.verdicts.items()}
        for n, c in checked.states.items()
    }
    assert schedulable["cruise"]["A"] is not False and schedulable["event"]["A"] is False
    assert checked.impossible and [d.code for d in checked.diagnostics] == ["F211"]


def test_pins_of_any_variant_are_those_of_its_states(text: Path) -> None:
    text.write_text(TEXT + "mapping on host { A.see.quick -> cpu[0]   A.see.careful -> cpu[0] }")
    states = flowc.check(text).states
    assert {n: [p.task for p in c.system.pins] for n, c in states.items()} == {
        "cruise": ["A.see.quick"], "event": ["A.see.careful"], "run": [],
    }  # fmt: skip


def test_formatting_keeps_items_of_states_apart(text: Path) -> None:
    crowded = TEXT.replace("   A.see = quick   weight 0.7", "  A . see=quick  weight 0.7")
    assert format_text("t.flow", crowded) == format_text("t.flow", TEXT) == TEXT.lstrip("\n")


LEVELS = """
task S { out o: int8   wcet 1 ms   python "code.py:camera" }
app A { period 20 ms   s: S }
app B { period 20 ms   s: S }
scenario Patrol {
    event turn, pace
    initial state cruise { run A   run B period [10, 20, 40] ms   weight 0.6 }
    state turning { run A }
    cruise -> turning on turn   turning -> cruise on turn
}
"""


def test_a_state_with_a_list_of_periods_is_one_for_each(text: Path) -> None:
    text.write_text(LEVELS)
    scenario = flowc.check(text).require().system.scenario
    assert scenario is not None and scenario.initial == "cruise[0]"
    periods = {s.name: [int(a.period_ns or 0) // 10**6 for a in s.apps] for s in scenario.states}
    assert periods == {
        "cruise[0]": [20, 10],
        "cruise[1]": [20, 20],
        "cruise[2]": [20, 40],
        "turning": [20],
    }
    assert [s.weight for s in scenario.states] == [Fraction(1, 5)] * 3 + [Fraction(2, 5)]
    ways = {(t.source, t.target): t.events for t in scenario.transitions}
    assert len(ways) == 3 + 3 + 6 and ways["cruise[2]", "cruise[0]"] == ("pace",)
    assert ways["turning", "cruise[1]"] == ways["cruise[1]", "turning"] == ("turn",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", pace", "", "no event selects among the periods of `cruise`"),
        ("[10, 20, 40]", "[10, 40, 20]", "the periods of `cruise` do not rise"),
        ("run A   run B", "run A period [10, 20] ms   run B", "lists of 2 and of 3 periods"),
        (
            "on turn   turning",
            "on turn, pace   turning",
            "`pace` selects among the periods of a state",
        ),
    ],
)
def test_what_a_list_of_periods_needs(text: Path, old: str, new: str, said: str) -> None:
    text.write_text(LEVELS.replace(old, new))
    assert any(said in d.message for d in flowc.check(text).diagnostics)


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("after 1.5 s", "after 1.5 s   run -> event after 2 s", "F808", "twice after some time"),
        ("after 1.5 s", "after 0 s", "F105", "a time of 0"),
        ("weight 0.7", "weight -0.7", "F105", "weight"),
        ("period 10 ms", "period 0 ms", "F105", "a period of 0"),
        ("period 10 ms", "period [] ms", "F001", ""),
        ("run -> cruise", "run, cruise -> cruise", "F808", "`cruise` leads to itself"),
        ("A.see = quick", "A.see = quick   A.see = best", "F115", "selected twice"),
        ("A.see = quick", "A.see = best", "F812", "variant `careful` of `See` has no `accuracy`"),
        ("A.see = quick", "A.see = bst", "F804", "`bst` is no variant of `A.see`"),
        ("A.see = quick", "B.see = best", "F804", "`B` does not run in `cruise`"),
        ("variant quick from", "variant best from", "F102", "no variant can be called `best`"),
    ],
)
def test_faults_have_reasons(text: Path, old: str, new: str, code: str, said: str) -> None:
    text.write_text(TEXT.replace(old, new))
    assert any(d.code == code and said in d.message for d in flowc.check(text).diagnostics)


def test_all_weights_cannot_be_nothing(text: Path) -> None:
    given = TEXT.replace("weight 0.7", "weight 0").replace(
        "deadline 30 ms", "deadline 30 ms   weight 0"
    )
    text.write_text(given.replace("state run { run B }", "state run { run B   weight 0 }"))
    assert [(d.code, d.message) for d in flowc.check(text).diagnostics] == [
        ("F105", "all weights are 0")
    ]


def test_a_power_below_nothing_is_told_once(text: Path) -> None:
    text.write_text(
        TEXT + "platform b { cpu c frequencies [1, 2] GHz idle [1, -1] W busy [1, 2] W }\n"
    )
    assert [d.code for d in flowc.check(text).diagnostics] == ["F105"]
