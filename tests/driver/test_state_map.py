"""One placement for all states of a scenario: each state is judged like a plain system."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.driver.plan.states import placed_states
from flowc.driver.solve.deadline_problem import joint_problem
from flowc.model.times import times_of
from flowc.search.budget import Budget
from flowc.search.deadline.problem import JointProblem
from flowc.search.deadline.states import search_states
from flowc.search.registry import searches_for

from builds import HANGS, Write, store_profile

APPS = """
task S { out o: int8   wcet 1 ms   python "code.py:s" }
task W { in i: int8   wcet 11 ms   python "code.py:w" }
app A { period 20 ms   s: S   w: W   s -> w }
app B { period 20 ms   s: S   w: W   s -> w }
app C { period 20 ms   s: S   w: W   s -> w }
platform duo { cpu core[2] }
"""
SCENARIO = """
scenario Pairs {
    event turn
    initial state one { run A, B }
    state two { run B, C }
    one -> two on turn   two -> one on turn
}
"""
CODE = "def s(): return 1\ndef w(i): pass\n"


@pytest.fixture
def text(write: Write) -> Path:
    return write(APPS + SCENARIO, code_py=CODE)


def test_what_never_runs_at_once_may_share_a_core(text: Path) -> None:
    """All apps at once are too much for two cores; no state is."""
    found = flowc.map(text, platform="duo", budget=10, measure=False)
    assert not found.late and found.states is not None and found.states.outcome.proved
    assert {s.state: [g.app for g in s.groups] for s in found.mapping.states} == {
        "one": ["A", "B"],
        "two": ["B", "C"],
    }
    core = {p.task[0]: p.processors for p in found.mapping.placements}
    assert len(found.mapping.placements) == 6 and core["A"] == core["C"] != core["B"]
    text.write_text(APPS)
    assert flowc.map(text, platform="duo", budget=1, measure=False).late


def test_builds_use_it_until_a_state_changes(text: Path) -> None:
    path = flowc.map(text, platform="duo", budget=5, measure=False).path
    assert path is not None
    stored = json.loads(path.read_text())
    core = {p["task"]: p["processors"] for p in stored["placements"]}
    placed = placed_states(flowc.check(text, platform="duo").require(), None)
    assert not placed.diagnostics and {p: (b.delay_ns, b.protocol) for p, b in placed.bounds.items()} == {
        ("one", "two"): (24_000_000, "idle"), ("two", "one"): (24_000_000, "idle"),
    }  # fmt: skip
    pins = {
        p.task: list(p.stages[0].processors) for s in placed.states.values() for p in s.system.pins
    }
    assert pins == core
    text.write_text(APPS + SCENARIO.replace("run B, C", "run B, C period 40 ms"))
    placed = placed_states(flowc.check(text, platform="duo").require(), None)
    assert (
        [d.code for d in placed.diagnostics] == ["F609"] and not placed.bounds and not placed.proved
    )


def test_a_state_that_is_too_much_is_late(text: Path) -> None:
    text.write_text(APPS + SCENARIO.replace("run B, C", "run A, B, C"))
    found = flowc.map(text, platform="duo", budget=1, measure=False)
    assert found.late and found.states is not None
    late = {s.state for s in found.mapping.states if not all(g.schedulable for g in s.groups)}
    assert late == {"two"}


def problems(text: Path) -> Iterator[JointProblem]:
    for state in flowc.check(text, platform="duo").require().states.values():
        yield joint_problem(state, times_of(state.system, state.platform))


def test_a_state_alone_is_a_bound_for_all(text: Path) -> None:
    found = dict(zip(("one", "two"), problems(text), strict=True))
    search = next(s for s in searches_for("deadlines") if s.name == "exact")
    outcome = search_states(
        found, lambda p, part: search.run(p, seed=0, budget=part, progress=None), budget=Budget(5)
    )
    worst = max(o.verdict.maximum for o in outcome.states.values() if o.verdict is not None)
    assert (
        outcome.bound is not None
        and worst == Fraction(3, 5)
        and worst >= outcome.bound * (1 - Fraction(1, 10**6))
    )


def test_the_same_seed_writes_the_same_file(examples: Path, tmp_path: Path) -> None:
    """Whatever order Python gives to its sets."""
    folder = tmp_path / "patrol"
    shutil.copytree(examples / "patrol", folder)
    words = ["map", "patrol.flow", "--no-measure", "--evaluations", "5", "--seed", "3"]
    store_profile(folder / "patrol.flow")
    written = set()
    for hash_seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "flowc", *words],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            timeout=HANGS,
            check=True,
        )
        text = (folder / "patrol.host.mapping.json").read_text()
        written.add(re.sub(r'"seconds": [^,}\n]+', "", text))
    assert len(written) == 1
