"""Texts in which some apps have a period and some none: deadlines first, the others in what is
left."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from flowc.analysis.timing.terms import WorstCases
from flowc.cli import app
from flowc.driver.solve.map import Answer, find_mapping
from flowc.model.diagnostic import Errors
from flowc.model.platform import Platform, Pool
from flowc.search.deadline.limits import Engines
from flowc.search.deadline.problem import Assignment, BackgroundApp, JointProblem
from typer.testing import CliRunner

from builds import Write, build, in_its_own_time, run

MS = 1_000_000
CODE = """import os
import threading


def tick(): return 1.0


def act(x): pass


def niceness(x): print("niceness", os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
"""
TASKS = """
task Tick { out x: float32  python "t.py:tick"  wcet 2 ms }
task Act { in x: float32  python "t.py:act"  wcet 3 ms }
task Make { out x: float32  python "t.py:tick"  wcet 6 ms }
task Log { in x: float32  python "t.py:act"  wcet 4 ms }
"""
APPS = """
app Fast { period 20 ms  deadline 12 ms  priority 2  tick: Tick  act: Act  tick -> act }
app Slow { period 40 ms  tick: Tick  act: Act  tick -> act }
app Back { make: Make  log: Log  make -> log }
"""
#: Both apps with a period on one core: 5 of 20 and 5 of 40 ms, which leave 62.5 %.
ONE_CORE = """
platform board { cpu core[2] scheduler SCHEDULER }
mapping on board {
    Fast.tick -> core[0]  Fast.act -> core[0]  Slow.tick -> core[0]  Slow.act -> core[0]
}
"""


def text(scheduler: str, more: str = "") -> str:
    return TASKS + APPS + ONE_CORE.replace("SCHEDULER", scheduler) + more


def mapped(path: Path) -> Answer:
    return find_mapping(path, platform="board", measure=False, budget=3)


def test_deadlines_are_bounded_as_if_there_were_no_background(write: Write) -> None:
    answer = mapped(write(text("fixed_priority"), t_py=CODE))
    fast, slow = answer.mapping.groups
    # `Slow` waits for `Fast`, which is released with it: 5 + 5 ms
    assert (fast.response_ns, slow.response_ns) == (5 * MS, 10 * MS)
    assert fast.schedulable and slow.schedulable and not fast.niceness and not slow.niceness
    assert not answer.late and answer.fits
    # the other core is free: all of it for `Back`, 10 ms a frame
    places = {p.task: p.processors for p in answer.mapping.placements}
    assert places["Back.make"] == places["Back.log"] == ("core[1]",)
    assert dict(answer.mapping.predicted_period_ns)["Back"] == 10 * MS


def test_beside_apps_with_periods_the_rest_of_a_core_is_predicted(write: Write) -> None:
    pinned = "mapping on board { Back.make -> core[0]  Back.log -> core[0] }"
    answer = mapped(write(text("fixed_priority", pinned), t_py=CODE))
    assert [g.response_ns for g in answer.mapping.groups] == [5 * MS, 10 * MS]
    assert dict(answer.mapping.predicted_period_ns)["Back"] == pytest.approx(10 * MS / 0.625)


def test_where_niceness_alone_keeps_it_below_the_proof_says_so(write: Write) -> None:
    path = write(text("static_order"), t_py=CODE)
    answer = mapped(path)
    assert all(g.schedulable and g.niceness for g in answer.mapping.groups)
    ran = CliRunner().invoke(
        app, ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s"]
    )
    assert ran.exit_code == 0, ran.output
    assert "schedulable if niceness holds" in ran.output
    assert "in the background  predicted ms between frames" in ran.output
    assert "not proved" in ran.output and "times of these apps are predicted" in ran.output


def test_an_app_that_is_late_beside_others_is_reported(write: Write) -> None:
    late = APPS.replace("period 40 ms", "period 40 ms  deadline 8 ms")
    answer = mapped(write(text("fixed_priority").replace(APPS, late), t_py=CODE))
    assert answer.late and [g.app for g in answer.mapping.groups if not g.schedulable] == ["Slow"]


def test_the_answer_as_data(write: Write) -> None:
    path = write(text("fixed_priority"), t_py=CODE)
    command = ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s", "--json"]
    document = json.loads(CliRunner().invoke(app, command).stdout)
    assert document["background"] == {"Back": {"predicted_period_ns": 10 * MS}}
    assert set(document["groups"]) == {"Fast", "Slow"}
    assert document["groups"]["Fast"]["niceness"] is False
    assert document["tasks"]["Back.make"] == "core[1]"


GPU = """
task See { out x: float32  wcet 1 ms }
task Find { in x: float32  out y: float32 }
task Act { in y: float32  wcet 1 ms }
app Fast { period 40 ms  deadline LIMIT ms  see: See  find: Find  act: Act  see -> find -> act }
app Back { see: See  find: Find  act: Act  see -> find -> act }
platform board { cpu core[2] scheduler fixed_priority  gpu gpu }
mapping on board {
    Fast.find -> gpu wcet 10 ms
    Back.find -> gpu wcet 7 ms
}
"""


def test_in_a_queue_one_kernel_of_the_background_is_waited_for(write: Write) -> None:
    answer = mapped(write(GPU.replace("LIMIT", "30")))
    (fast,) = answer.mapping.groups
    assert fast.response_ns == (1 + 10 + 7 + 1) * MS and fast.schedulable
    late = mapped(write(GPU.replace("LIMIT", "18")))
    assert late.late


def noticing(scheduler: str) -> str:
    """The text with ends that print how nice their threads are."""
    return text(scheduler).replace("t.py:act", "t.py:niceness")


def test_a_program_runs_the_background_below_all_others(write: Write, tmp_path: Path) -> None:
    path = write(text("static_order"), t_py=CODE)
    assert mapped(path).path is not None
    build(path, tmp_path / "out", platform="board")
    assert (tmp_path / "out/main.py").read_text().count("], Background(") == 1
    assert in_its_own_time(tmp_path / "out", "--frames", "5")["background"] == ["Back"]


@pytest.mark.parametrize(
    ("scheduler", "pin"),
    [
        ("static_order", ""),
        ("fixed_priority", ""),
        ("static_order", "mapping on board { Back.log -> core[1] process }"),
    ],
)
def test_the_background_is_nice(write: Write, tmp_path: Path, scheduler: str, pin: str) -> None:
    """Also what runs in a process of its own."""
    build(write(noticing(scheduler) + pin, t_py=CODE), tmp_path / "out", platform="board")
    done = run(tmp_path / "out", "--frames", "3")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("niceness")]
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert sorted(lines) == sorted([f"niceness {own}"] * 6 + ["niceness 19"] * 3)
    assert "in the background, with what the others leave (nice 19): Back" in done.stdout


def test_engines_of_the_background_count() -> None:
    pools = (
        Pool("arm", "cpu", 1, True, "fixed_priority"),
        Pool("dla", "dla", 1, False, "fifo", engines=1),
    )
    back = BackgroundApp("B", (), (), (), ("dla", "dla"), 1.0)
    problem = JointProblem(
        Platform("board", pools, (), "", None), (), (), (), {}, (), background=(back,)
    )
    nothing = Assignment((), (), ())
    (broken,) = Engines().broken(problem, nothing, WorstCases({}, {}))
    assert "more engines" in broken.reason
    one = replace(back, engines=("dla",))
    assert not [*Engines().broken(replace(problem, background=(one,)), nothing, WorstCases({}, {}))]


def test_a_place_in_the_order_of_a_device_is_refused(write: Write) -> None:
    device = GPU.replace("gpu gpu", "gpu gpu scheduler static_order").replace("LIMIT", "30")
    with pytest.raises(Errors) as caught:
        mapped(write(device))
    (fault,) = caught.value.diagnostics
    assert fault.code == "F659" and "Back.find" in fault.message and "fifo" in fault.help
