"""`= best`: the most accurate variants with which a state keeps its deadlines, from the text to the
program."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import flowc
import onnx
import pytest
from flowc.cli import app
from flowc.driver.solve.map import Answer
from flowc.dsl.format import format_text
from flowc.model.diagnostic import Errors
from typer.testing import CliRunner

from builds import Write, run
from models import N, save, weights

TEXT = """
type X = float32[1, 8]
task Camera { out x: X   wcet 1 ms   python "code.py:camera" }
task Watch { in y: float32[1, 4]   wcet 1 ms   python "code.py:watch" }
network See {
    in x: X   out y
    variant tiny from "exits.onnx" { out y from "soon" } accuracy 0.5
    variant careful from "net.onnx" accuracy 0.9
    variant quick from "net.onnx" accuracy 0.75
}
app A { period 20 ms   camera: Camera   see: See   watch: Watch   camera -> see -> watch }
app B { period 20 ms   camera: Camera   see: See   watch: Watch   camera -> see -> watch }
scenario Pairs {
    event turn
    initial state one { run A   A.see = best }
    state two { run A, B   A.see = best   B.see = best }
    one -> two on turn   two -> one on turn
}
platform duo { cpu core[2] }
mapping on duo {
    A.camera -> core[0]   A.watch -> core[0]   B.camera -> core[0]   B.watch -> core[0]
    A.see.careful -> core[0] wcet 12 ms   A.see.quick -> core[0] wcet 6 ms   A.see.tiny -> core[0] wcet 3 ms
    B.see.careful -> core[0] wcet 12 ms   B.see.quick -> core[0] wcet 6 ms   B.see.tiny -> core[0] wcet 3 ms
}
"""
CODE = "import numpy as np\ndef camera(): return np.ones((1, 8), np.float32)\ndef watch(y): pass\n"


@pytest.fixture
def text(write: Write, tmp_path: Path) -> Path:
    save(
        tmp_path / "net.onnx",
        [N("Gemm", ["x", "w"], ["y"])],
        {"x": [1, 8]},
        {"w": weights(8, 4)},
        "y",
    )
    exits = [N("Gemm", ["x", "w"], ["soon"]), N("Relu", ["soon"], ["late"])]
    save(tmp_path / "exits.onnx", exits, {"x": [1, 8]}, {"w": weights(8, 4)}, "soon late")
    return write(TEXT, code_py=CODE)


def mapped(text: Path) -> Answer:
    return flowc.map(text, platform="duo", budget=2, measure=False)


def choices(found: Answer) -> dict[str, dict[str, str]]:
    return {s.state: dict(s.choices) for s in found.mapping.states}


def test_options_come_by_what_they_are_worth(text: Path) -> None:
    scenario = flowc.check(text).system.scenario
    assert scenario is not None
    one, two = scenario.states
    assert [dict(o.choices)["A.see"] for o in one.options] == ["careful", "quick", "tiny"]
    assert one.best == ("A.see",) and dict(one.choices) == {"A.see": "careful"}
    assert [float(o.accuracy) for o in two.options] == sorted(
        (float(o.accuracy) for o in two.options), reverse=True
    )
    assert len(two.options) == 9
    assert format_text("t.flow", TEXT.replace("A.see = best", "A . see=best")) == format_text(
        "t.flow", TEXT
    )


@pytest.mark.parametrize("times", [(9, 8, 7), (15, 11, 1), (17, 17, 8)])
def test_a_state_has_the_most_accurate_variants_that_are_in_time(
    text: Path, times: tuple[int, int, int]
) -> None:
    known = dict(zip(("careful", "quick", "tiny"), times, strict=True))
    accuracy = {"careful": 0.9, "quick": 0.75, "tiny": 0.5}
    for was, name in ((12, "careful"), (6, "quick"), (3, "tiny")):
        text.write_text(
            text.read_text().replace(
                f"see.{name} -> core[0] wcet {was} ms",
                f"see.{name} -> core[0] wcet {known[name]} ms",
            )
        )
    found = mapped(text)
    # One processor and one period: what is to be done in it has to fit.
    pairs = [(a, b) for a, b in itertools.product(known, known) if 4 + known[a] + known[b] <= 20]
    best = max((accuracy[a] + accuracy[b] for a, b in pairs), default=None)
    assert choices(found)["one"] == {"A.see": next(n for n in known if 2 + known[n] <= 20)}
    two = choices(found)["two"]
    assert found.late == (best is None)
    if best is not None:
        assert accuracy[two["A.see"]] + accuracy[two["B.see"]] == best


def test_everybody_goes_by_what_was_found(text: Path) -> None:
    found = mapped(text)
    assert choices(found) == {
        "one": {"A.see": "careful"},
        "two": {"A.see": "quick", "B.see": "quick"},
    }
    said = CliRunner().invoke(app, ["check", str(text), "--platform", "duo"]).stdout
    assert "A.see = quick (best), B.see = quick (best)" in said
    flowc.build(text, text.parent / "b", platform="duo", measure=False)
    (text.parent / "events").write_text("4 A turn\n")
    report = text.parent / "r.json"
    done = run(
        text.parent / "b",
        "--events",
        str(text.parent / "events"),
        "--frames",
        "9",
        "--report",
        str(report),
    )
    assert done.returncode == 0, done.stderr
    fired = {
        name: t["firings"]
        for name, t in json.loads(report.read_text())["tasks"].items()
        if ".see" in name
    }
    assert fired["B.see.quick"] == 9 and fired["A.see.careful"] >= 4 and "A.see.tiny" not in fired
    text.write_text(TEXT.replace("accuracy 0.75", "accuracy 0.76"))
    assert [
        d.code
        for d in flowc.build(text, text.parent / "b", platform="duo", measure=False).diagnostics
    ] == ["F609"]


@pytest.mark.parametrize(
    ("prefer", "one"),
    [
        ("accuracy 3", "careful"),
        ("throughput 1", "tiny"),
        ("memory 0.5, accuracy 0.1", "careful"),  # the file of `tiny` has one more layer
        ("accuracy 0.8, throughput 0.2", "careful"),  # 0.85, 0.77, 0.64
        ("accuracy 0.5, throughput 0.5", "tiny"),  # 0.63, 0.67, 0.78
        ("energy 2, accuracy 1", "tiny"),
    ],
)
def test_a_state_has_what_it_prefers(text: Path, prefer: str, one: str) -> None:
    """Of 12, 6 and 3 ms, and accuracies of 0.9, 0.75 and 0.5."""
    changed = TEXT.replace("run A   A.see = best }", f"run A   A.see = best   prefer {prefer} }}")
    changed = changed.replace("cpu core[2]", "cpu core[2] idle [1] W busy [3] W")
    assert format_text("t.flow", changed).count(f"prefer {prefer}") == 1
    text.write_text(changed)
    found = mapped(text)
    assert not found.late and choices(found)["one"] == {"A.see": one}
    scenario = flowc.check(text, platform="duo").system.scenario
    assert scenario is not None
    assert sum(weight for _, weight in scenario.states[0].prefers) == 1
    assert dict(scenario.states[0].choices) == {"A.see": one}  # as it is stored
    words = ["map", str(text), "--platform", "duo", "--no-measure", "--explain"]
    said = CliRunner().invoke(app, [*words, "--evaluations", "20"]).stdout
    assert f"A.see = {one}: no option is preferred to it" in said


def test_all_files_of_a_network_are_its_memory(text: Path) -> None:
    """Weights in a file of their own count as well."""
    model = onnx.load(text.with_name("net.onnx"))
    onnx.save(
        model,
        text.with_name("apart.onnx"),
        save_as_external_data=True,
        location="apart.bin",
        size_threshold=0,
    )
    with text.with_name("apart.bin").open("ab") as file:
        file.write(bytes(10_000))
    changed = TEXT.replace('careful from "net.onnx"', 'careful from "apart.onnx"')
    changed = changed.replace("run A   A.see = best", "run A   A.see = best   prefer memory 1")
    text.write_text(changed)
    assert text.with_name("apart.onnx").stat().st_size < text.with_name("net.onnx").stat().st_size
    assert choices(mapped(text))["one"] == {"A.see": "quick"}


def test_tasks_before_a_network_belong_to_it(text: Path) -> None:
    """`tiny` takes 3 ms and 10 before it, `quick` 6."""
    text.with_name("code.py").write_text(CODE + "def slow(x): return x\n")
    before = '{ in x: X pre "code.py:slow"   out y from "soon" }'
    changed = TEXT.replace('{ out y from "soon" }', before)
    pin = "A.see.tiny -> core[0] wcet 3 ms"
    both = "A.see.tiny.pre -> core[0] wcet 10 ms   B.see.tiny.pre -> core[0] wcet 10 ms"
    changed = changed.replace(pin, f"{pin}   {both}")
    changed = changed.replace("run A   A.see = best", "run A   A.see = best   prefer throughput 1")
    text.write_text(changed)
    assert choices(mapped(text))["one"] == {"A.see": "quick"}


def test_a_mapping_for_what_energy_is_preferred_goes_by_powers(text: Path) -> None:
    """Another power may make another variant the best one."""
    changed = TEXT.replace("run A   A.see = best", "run A   A.see = best   prefer energy 1")
    changed = changed.replace("cpu core[2]", "cpu core[2] idle [1] W busy [3] W")
    text.write_text(changed)
    assert not mapped(text).late

    def codes() -> list[str]:
        made = flowc.build(text, text.parent / "b", platform="duo", measure=False)
        return [d.code for d in made.diagnostics]

    assert codes() == []
    text.write_text(changed.replace("busy [3] W", "busy [4] W"))
    assert codes() == ["F609"]


def test_a_preference_for_what_is_not_known_is_refused(text: Path) -> None:
    text.write_text(TEXT.replace("run A   A.see = best", "run A   A.see = best   prefer energy 1"))
    with pytest.raises(Errors) as caught:
        mapped(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "F607" and "no energy of `A.see" in fault.message and fault.help


def test_without_a_mapping_the_best_one_that_may_be_in_time_counts(text: Path) -> None:
    text.write_text(TEXT.replace("careful -> core[0] wcet 12 ms", "careful -> core[0] wcet 21 ms"))
    checked = flowc.check(text, platform="duo")
    scenario = checked.system.scenario
    assert scenario is not None and checked.ok
    assert [dict(s.choices)["A.see"] for s in scenario.states] == ["quick", "quick"]
    flowc.build(text, text.parent / "b", platform="duo", measure=False)
    assert "A.see.careful" not in (text.parent / "b/main.py").read_text()


def test_reasons_are_told(text: Path) -> None:
    words = ["map", str(text), "--platform", "duo", "--no-measure", "--budget", "2s"]
    said = CliRunner().invoke(app, [*words, "--explain"]).stdout
    assert "state two: A.see = quick, B.see = quick" in said
    assert "A.see = careful: no option is more accurate" in said
    for refused, share in (("careful, B.see = careful", 140), ("careful, B.see = quick", 110)):
        assert (
            f"A.see = {refused} does not keep its deadlines and limits: with `B` it needs {share} %"
            " of the time of `core[0]` by declared times"
        ) in said
    document: dict[str, Any] = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    two = document["states"]["two"]
    assert two["best"] == {"A.see": "quick", "B.see": "quick"}
    assert [(r["choices"]["A.see"], r["choices"]["B.see"]) for r in two["refused"]] == [
        ("careful", "careful"), ("careful", "quick"), ("quick", "careful"),
    ]  # fmt: skip


def test_a_limit_of_power_counts_as_well(text: Path) -> None:
    powers = (
        "platform duo { cpu core[2] frequencies [1000] MHz idle [0.1] W busy [4] W   power 1 W }"
    )
    limited = TEXT.replace("platform duo { cpu core[2] }", powers).replace(
        "{ run A   A.see", "{ run A   power 3 W   A.see"
    )
    text.write_text(limited)
    found = mapped(text)
    # 1 W, 0.2 W, and 4 W for 14, 8 or 5 ms of 20.
    assert choices(found)["one"] == {"A.see": "quick"}
    assert found.states is not None
    why = next(r.why for r in found.states.refused if r.state == "one")
    assert "take 4 W in `one`" in why and "its limit of 3 W" in why


def test_each_pace_has_its_own(text: Path) -> None:
    text.write_text(
        TEXT.replace("event turn", "event turn, pace").replace(
            "run A   A.see", "run A period [6, 9, 20] ms   A.see"
        )
    )
    found = choices(mapped(text))
    assert {s: c["A.see"] for s, c in found.items() if s != "two"} == {
        "one[0]": "tiny", "one[1]": "quick", "one[2]": "careful",
    }  # fmt: skip


def test_a_fault_of_a_variant_is_told_alone(text: Path) -> None:
    """Pins of the other ones are no faults, although their tasks are unknown."""
    text.write_text(TEXT.replace("accuracy 0.75", "accuracy -1"))
    assert [d.code for d in flowc.check(text, platform="duo").diagnostics] == ["F105"]
