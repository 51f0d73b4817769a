"""Priorities that a text leaves open: by deadline, or in another order that keeps all deadlines."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from flowc.cli import app
from flowc.model.priorities import Urgency, by_urgency
from typer.testing import CliRunner

from builds import Write

#: By deadline A1 > A2 > A0 of these is late, by what each can wait as well.
FOUND = """
task T00 { out y: int32 wcet 3384 us }
task T01 { in x: int32 out y: int32 wcet 2335 us }
task T02 { in x: int32 wcet 2876 us }
task T10 { wcet 13215 us }
task T20 { wcet 8311 us }
app A0 { period 30 ms deadline 25725 us NUMBER t0: T00  t1: T01  t2: T02  t0 -> t1 -> t2 }
app A1 { period 20 ms deadline 17692 us t0: T10 }
app A2 { period 10 ms deadline 11784 us t0: T20 }
platform p { cpu c[2] scheduler fixed_priority wakeup 1 ns }
mapping on p { A0.t0 -> c[0]  A2.t0 -> c[0]  A0.t1 -> c[1]  A0.t2 -> c[1]  A1.t0 -> c[1] }
"""
#: By deadline A2 of these is late, less work it is not.
BY_SLACK = """
task T00 { out y: int32 wcet 13213 us }
task T01 { in x: int32 wcet 9629 us }
task T10 { wcet 8262 us }
task T20 { wcet 36144 us }
task T30 { wcet 7932 us }
app A0 { period 60 ms deadline 41572 us t0: T00  t1: T01  t0 -> t1 }
app A1 { period 20 ms deadline 20415 us t0: T10 }
app A2 { period 60 ms deadline 48949 us t0: T20 }
app A3 { period 40 ms deadline 45201 us t0: T30 }
platform p { cpu c[2] scheduler fixed_priority }
mapping on p { A0.t0 -> c[1]  A0.t1 -> c[1]  A1.t0 -> c[1]  A2.t0 -> c[0]  A3.t0 -> c[0] }
"""
TWO = """
task T1 { wcet 1 ms }
task T2 { wcet 8 ms }
app B { period 20 ms %s t: T2 }
app A { period 5 ms %s t: T1 }
platform p { cpu c[1] scheduler fixed_priority }
"""


CODE = "def source(): return 1\ndef middle(x): return x\ndef sink(x): pass\n"


def in_python(text: str) -> str:
    """The text with Python code for its tasks."""
    for task, ports, name in (
        ("T00", "out y: int32", "source"),
        ("T01", "in x: int32 out y: int32", "middle"),
        ("T02", "in x: int32", "sink"),
        ("T10", "", "source"),
        ("T20", "", "source"),
    ):
        text = text.replace(
            f"task {task} {{ {ports}", f'task {task} {{ {ports} python "t.py:{name}"'
        )
    return text


def mapped(path: Path, *words: str) -> tuple[int, str]:
    command = ["map", str(path), "--platform", "p", "--no-measure", "--evaluations", "60", *words]
    done = CliRunner().invoke(app, command)
    return done.exit_code, done.stdout


def found(path: Path) -> dict[str, object]:
    status, out = mapped(path, "--json")
    order = json.loads(out).get("priorities")
    return {"kept": status == 0, "by": order["by"], "levels": order["levels"]}


def test_an_app_without_a_number_is_as_urgent_as_its_deadline_is_short(write: Write) -> None:
    path = write(TWO % ("", ""))
    status, out = mapped(path)
    rows = {line.split()[0]: line.split() for line in out.splitlines() if "schedulable" in line}
    assert status == 0 and "priorities A > B: by deadline" in out
    assert (rows["A"][2], rows["B"][2]) == ("1.00", "10.00")
    path.write_text(TWO % ("priority 1", "priority 1"))
    status, out = mapped(path)
    assert status == 1 and "priorities B = A: as the text has them" in out
    assert "apps that share a priority may delay each other" in out


def test_numbers_of_the_text_are_kept(write: Write) -> None:
    """An app without a number has 0; among those deadlines decide."""
    assert found(write(TWO % ("priority 2", "priority 1"))) == {
        "kept": False,
        "by": "text",
        "levels": [["B"], ["A"]],
    }
    assert found(write(TWO % ("priority 1", "")))["levels"] == [["B"], ["A"]]
    assert found(write(TWO % ("priority -1", "")))["levels"] == [["A"], ["B"]]
    free = [Urgency(name, None, Fraction(due)) for name, due in (("slow", 9), ("fast", 3))]
    above, below = Urgency("above", 1, None), Urgency("below", -1, Fraction(1))
    equal = [Urgency(name, 0, Fraction(5)) for name in ("one", "other")]
    never = [Urgency(name, None, None) for name in ("this", "that")]
    assert by_urgency([*never, below, *equal, *free, above]) == [
        ("above",),
        ("fast",),
        ("one", "other"),
        ("slow",),
        ("this", "that"),
        ("below",),
    ]


@pytest.mark.parametrize(
    ("text", "by", "order"),
    [
        (FOUND.replace("NUMBER", ""), "search", ["A1", "A0", "A2"]),
        (BY_SLACK, "slack", ["A1", "A0", "A2", "A3"]),
    ],
)
def test_another_order_is_found_where_that_by_deadline_is_late(
    write: Write, text: str, by: str, order: list[str]
) -> None:
    path = write(text)
    assert found(path) == {"kept": True, "by": by, "levels": [[name] for name in order]}
    out = mapped(path, "--explain")[1]
    assert f"priorities {' > '.join(order)}: " in out and "; by deadline, `A" in out


def test_where_no_order_is_in_time_it_is_said_whether_all_were_tried(write: Write) -> None:
    """A1 > A0 > A2 is the only order in time."""
    path = write(FOUND.replace("NUMBER", "priority 1"))
    status, out = mapped(path, "--explain")
    assert status == 1 and "ruled out by these bounds, over priorities" in out
    assert (
        "with these places, no order of priorities that the text allows keeps all deadlines" in out
    )
    path.write_text(path.read_text().replace("17692 us", "17692 us priority 2"))
    assert found(path)["kept"]


def test_a_build_has_the_order_that_was_found(write: Write) -> None:
    """Until the text has a number that contradicts it."""
    text = in_python(FOUND.replace("NUMBER", ""))
    path = write(text, t_py=CODE)
    assert mapped(path)[0] == 0
    assert ranks(path) == {"A0": 2, "A1": 3, "A2": 1}
    path.write_text(text.replace("deadline 11784 us", "deadline 11784 us priority 9"))
    assert ranks(path) == {"A2": 3, "A1": 2, "A0": 1}


def ranks(path: Path) -> dict[str, int]:
    """The priorities of threads in the program that a build writes, by app."""
    out = path.parent / "built"
    command = ["build", str(path), "--platform", "p", "--no-measure", "-o", str(out), "--force"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.stderr
    deployment = json.loads((out / "deployment.json").read_text())
    return {
        worker["order"][0]["task"].partition(".")[0]: worker["fixed_priority"][1]
        for worker in deployment["processors"]
    }


def test_an_age_depends_on_both_of_its_apps(write: Write) -> None:
    """The reader is late beside another app: its writer may stay where it is."""
    text = """
    task W { out x: int32  wcet 1 ms }
    task R { in x: int32  wcet 2 ms }
    task H { wcet 12 ms }
    task L { wcet 7 ms }
    app A { period 10 ms  priority 5  w: W }
    app B { period 10 ms deadline 40 ms priority 3  deadline 22 ms from A.w to r
            r: R   A.w -> latest wcet 20 us -> r }
    app C { period 40 ms priority 4  h: H }
    app D { period 10 ms priority 1  l: L }
    app E { period 10 ms priority 6  l: L }
    platform p { cpu c[3] scheduler fixed_priority }
    mapping on p { A.w -> c[0]  C.h -> c[1]  D.l -> c[2]  E.l -> c[0] }
    """
    status, out = mapped(write(text), "--search", "exact")
    assert status == 0 and "maximum utilization 90.2000%: proved" in out


def test_slack_and_what_would_help_are_tested_changes(write: Write) -> None:
    path = write(TWO % ("priority 1", "priority 1"))
    status, out = mapped(path, "--explain")
    head = out.index("each of these alone keeps all deadlines, by the same bounds:\n")
    assert status == 1 and out[head:].splitlines()[1:5] == [
        "  other priorities: A > B",
        "  all times x 0.555, as by faster processors",
        "  `B.t` in at most 4.000 ms instead of 8.000 ms",
        "  2 cores in `c`",
    ]
    path.write_text(TWO % ("", ""))
    rows = [line.split() for line in mapped(path, "--slack")[1].splitlines()]
    assert ["A.t", "1.00", "3.00", "3.000", "B"] in rows
    assert ["B.t", "8.00", "16.00", "2.000", "B"] in rows
    found = json.loads(mapped(path, "--slack", "--json")[1])["slack"]
    assert [row["of"] for row in found] == ["B.t", "A.t", "all"]
    assert found[1] == {
        "of": "A.t",
        "now_ns": 10**6,
        "most_ns": 3 * 10**6,
        "factor": 3.0,
        "late": ["B"],
    }
    path.write_text("task T { wcet 1 ms }\napp A { t: T }\nplatform p { cpu c }\n")
    done = CliRunner().invoke(app, ["map", str(path), "--platform", "p", "--slack"])
    assert done.exit_code == 1 and "only times of apps with periods have slack" in done.stderr


def test_the_report_has_the_order_and_the_slack(write: Write) -> None:
    path = write(TWO % ("", ""))
    mapped(path, "--slack")
    done = CliRunner().invoke(app, ["report", str(path), "--platform", "p", "--json"])
    document = json.loads(done.stdout)
    assert document["search"]["priorities"] == "A > B: by deadline"
    rows = {row["of"]: row for row in document["slack"]}
    assert rows["B.t"]["most_ns"] == 16 * 10**6 and rows["all"]["late"] == ["B"]


def test_each_state_has_an_order_of_its_own(write: Write) -> None:
    states = """
    scenario Drive {
        event go, back
        initial state one { run A0, A1, A2 }
        state two { run A0, A2 }
        one -> two on go   two -> one on back
    }
    """
    path = write(in_python(FOUND.replace("NUMBER", "")) + states, t_py=CODE)
    status, out = mapped(path)
    assert status == 0
    assert "priorities A1 > A0 > A2: found" in out and "priorities A0 > A2: found" in out
    built = path.parent / "built"
    command = ["build", str(path), "--platform", "p", "--no-measure", "-o", str(built)]
    assert CliRunner().invoke(app, command).exit_code == 0
    found = json.loads((built / "deployment.json").read_text())["scenario"]["states"]
    orders = [{a["name"]: a["priority"] for a in state["apps"]} for state in found]
    assert orders == [{"A0": 2, "A1": 3, "A2": 1}, {"A0": 2, "A2": 1}]


def test_what_is_late_is_told_which_times_would_do(write: Write) -> None:
    path = write(TWO % ("priority 1", "priority 1"))
    status, out = mapped(path, "--slack")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert status == 1 and rows["B.t"][3:] == ["0.499", "A"] and "A.t" not in rows
    assert "1 tasks and apps: no time of them alone that was tried keeps all deadlines" in out
