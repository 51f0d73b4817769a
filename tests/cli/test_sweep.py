"""`map --sweep`: what if, for several values at once; and searches whose evaluations are
counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flowc.cli import app
from flowc.cli._deadlines import joint_table
from flowc.search.deadline.outcome import Outcome
from typer.testing import CliRunner

from builds import Write

TEXT = """
task Camera { out x wcet 2 ms }
task Filter { in x out y wcet 4 ms }
task Show   { in y wcet 1 ms }
app Left  { period 20 ms  priority 2  c: Camera f: Filter s: Show  c -> f -> s }
app Right { period 50 ms  priority 1  c: Camera f: Filter s: Show  c -> f -> s }
platform two { cpu core[2] scheduler fixed_priority }
"""


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["map", *(str(w) for w in words)])
    return done.exit_code, done.stdout, done.stderr


def test_a_row_for_each_supposition(write: Write, tmp_path: Path) -> None:
    options = write(TEXT), "--platform", "two", "--evaluations", 5
    sweep = "--sweep", "fps=10,100,1000", "--sweep", "cores=1,2"
    status, out, _ = call(*options, *sweep, "--json")
    found = json.loads(out)
    assert status == 0 and not list(tmp_path.glob("*.mapping.json"))
    assert [(f["fps"], f["cores"], f["verdict"]) for f in found] == [
        (10, 1, "schedulable"), (10, 2, "schedulable"), (100, 1, "impossible"), (100, 2, "schedulable"),
        (1000, 1, "impossible"), (1000, 2, "impossible"),
    ]  # fmt: skip
    assert found[0]["max_utilization"] == pytest.approx(0.14) and found[0][
        "tightest"
    ] == pytest.approx(0.14)
    assert found[2]["why"] == ["work that only a cpu can do needs 1.40 of them, but there are 1"]
    status, out, _ = call(*options, *sweep)
    first, _, *rows = out.splitlines()
    assert first.split() == [
        "fps",
        "cores",
        "busiest",
        "processor",
        "of",
        "the",
        "tightest",
        "deadline",
    ]
    assert rows[0].split() == ["10", "1", "schedulable", "14.00%", "14.00%"]
    assert rows[-1] == "work that only a cpu can do needs 14.00 of them, but there are 2"


@pytest.mark.parametrize(
    "sweep", ["fps", "fps=", "fps=0", "rate=3", "cores=1.5", "cores=two", "fps=1/0"]
)
def test_no_sweep(write: Write, sweep: str) -> None:
    status, _, err = call(write(TEXT), "--sweep", sweep)
    assert status == 2 and "is not a sweep" in err.replace("\n", " ")


def test_counted_searches_find_the_same_again(write: Write) -> None:
    words = write(TEXT), "--platform", "two", "--evaluations", 20, "--seed", 4, "--json"
    one, two = (json.loads(call(*words)[1]) for _ in range(2))
    assert one["search"].pop("seconds") is not None and two["search"].pop("seconds") is not None
    assert one == two and 0 < one["search"]["counted"] <= one["search"]["evaluations"]


def test_what_is_counted_stands_beside_its_limit() -> None:
    outcome = Outcome("auto", None, None, None, False, None, 2991, 4.0, counted=301, limit=300)
    joint: Any = SimpleNamespace(
        mapping=SimpleNamespace(groups=()), outcome=outcome, problem=SimpleNamespace(networks=())
    )
    said = "auto: 301 evaluations (300 asked for), 2,991 assignments looked at in 4.0 s"
    assert joint_table(joint).splitlines()[0] == said
    joint.outcome = replace(outcome, limit=None)
    assert joint_table(joint).splitlines()[0] == "auto: 2,991 assignments looked at in 4.0 s"


def test_workers_do_not_help_where_programs_run(write: Write) -> None:
    flow = write(TEXT.replace("period 20 ms", "").replace("period 50 ms", ""))
    status, _, err = call(flow, "--platform", "two", "--no-measure", "--workers", 2)
    assert status == 0 and "warning[F647]" in err
    assert call(flow, "--workers", 2, "--cluster", "tcp://127.0.0.1:9")[0] == 2


@pytest.mark.parametrize(
    ("stated", "due_ms"), [("", 100), ("deadline 9 ms", 9), ("deadline 90 ms", 90)]
)
def test_another_rate_keeps_the_deadline_that_the_text_states(
    write: Write, stated: str, due_ms: int
) -> None:
    text = TEXT.replace("period 20 ms", f"period 20 ms {stated}")
    options = write(text), "--platform", "two", "--evaluations", 5, "--json"
    status, out, _ = call(*options, "--fps", 10)
    groups = json.loads(out)["groups"]
    assert status == 0
    assert {name: g["deadline_ns"] for name, g in groups.items()} == {
        "Left": due_ms * 10**6,
        "Right": 100 * 10**6,
    }
    (row,) = json.loads(call(*options, "--sweep", "fps=10")[1])
    of_left = groups["Left"]["response_time_ns"] / (due_ms * 1e6)
    of_right = groups["Right"]["response_time_ns"] / 100e6
    assert row["tightest"] == pytest.approx(max(of_left, of_right))
