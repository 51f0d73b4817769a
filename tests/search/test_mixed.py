"""Texts in which some apps have a period and some none: deadlines first, the others in what is
left."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import product
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
import sys
import threading


def tick(): return 1.0


def act(x): pass


def niceness(x):
    # in one piece: threads print at once
    nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    sys.stdout.write("niceness %d." % nice)
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
    assert (
        fast.schedulable
        and slow.schedulable
        and not fast.rests_on("niceness")
        and not slow.rests_on("niceness")
    )
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
    assert all(g.schedulable and g.rests_on("niceness") for g in answer.mapping.groups)
    ran = CliRunner().invoke(
        app, ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s"]
    )
    assert ran.exit_code == 0, ran.output
    assert "niceness holds  " in ran.output and "schedulable if " in ran.output
    assert "in the background  predicted ms between frames" in ran.output
    assert "niceness holds: threads are below others by niceness (nice 19)" in ran.output
    assert "times of these apps are predicted" in ran.output


def test_python_in_the_background_may_hold_the_interpreter(write: Write) -> None:
    path = write(text("fixed_priority"), t_py=CODE)
    command = ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s"]
    ran = CliRunner().invoke(app, [*command, "--explain"])
    assert "schedulable if the interpreter is free" in ran.output
    (said,) = [line for line in ran.output.splitlines() if "waits for the interpreter" in line]
    assert said.endswith("and 2 more may hold")
    assert "the Python of `Fast.tick`, " in ran.output and "`Back.log` may keep" in ran.output
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    for group in document["groups"].values():
        (free,) = [c for c in group["conditions"] if c["condition"] == "interpreter"]
        assert {"Back.make", "Back.log"} <= set(free["of"])


def test_processes_leave_the_interpreter_alone(write: Write) -> None:
    apart = "mapping on board { Back.make -> core[1] process  Back.log -> core[1] process }"
    path = write(text("static_order", apart), t_py=CODE)  # one worker for `Fast` and `Slow`
    assert not any(group.rests_on("interpreter") for group in mapped(path).mapping.groups)


def test_tasks_without_python_leave_the_interpreter_alone(write: Write) -> None:
    bare = text("fixed_priority").replace('python "t.py:tick"', "").replace('python "t.py:act"', "")
    assert not any(group.rests_on("interpreter") for group in mapped(write(bare)).mapping.groups)


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
    conditions = document["groups"]["Fast"]["conditions"]
    assert {"condition": "wakeup", "of": ["core"], "time_ns": None} in conditions
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
    seen = re.findall(r"niceness (-?\d+)\.", done.stdout)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert sorted(seen) == sorted([f"{own}"] * 6 + ["19"] * 3)
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
    (broken,) = Engines().broken(problem, nothing, WorstCases({}, {}, {}))
    assert "more engines" in broken.reason
    one = replace(back, engines=("dla",))
    assert not [
        *Engines().broken(replace(problem, background=(one,)), nothing, WorstCases({}, {}, {}))
    ]


def test_a_place_in_the_order_of_a_device_is_refused(write: Write) -> None:
    device = GPU.replace("gpu gpu", "gpu gpu scheduler static_order").replace("LIMIT", "30")
    with pytest.raises(Errors) as caught:
        mapped(write(device))
    (fault,) = caught.value.diagnostics
    assert fault.code == "F659" and "Back.find" in fault.message and "fifo" in fault.help


IN_C = """
#include <stdint.h>
void NAME(PORTS) { }
"""
#: Only what is in the background is in C: nothing of it waits for the interpreter.
UNEVEN = """
task First { out x: uint8  c "first.c:first"  wcet 6 ms }
task Second { in x: uint8  out y: uint8  c "second.c:second"  wcet 1 ms }
task Third { in y: uint8  c "third.c:third"  wcet 6 ms }
task Final { in x: uint8  c "final.c:final"  wcet 13 ms }
task Tick { out x: uint8  wcet 6 ms }
task Act { in x: uint8  wcet 6 ms }
app Fast { period 20 ms  tick: Tick  act: Act  tick -> act }
app Back { first: First  second: Second  third: Third  first -> second -> third }
app Other { first: First  final: Final  first -> final }
platform board { cpu core[2] scheduler fixed_priority }
"""
PORTS = {
    "first": "uint8_t *x",
    "second": "const uint8_t *x, uint8_t *y",
    "third": "const uint8_t *y",
    "final": "const uint8_t *x",
}
ONE = "void one(void) { }"
FILES = {f"{n}_c": IN_C.replace("NAME", n).replace("PORTS", p) for n, p in PORTS.items()}


def test_single_tasks_of_the_background_go_where_most_is_left(write: Write) -> None:
    pinned = "mapping on board { Fast.tick -> core[0]  Fast.act -> core[0] }"
    answer = mapped(write(UNEVEN + pinned, **FILES))
    predicted = dict(answer.mapping.predicted_period_ns)
    # 32 ms of work: 7 in 0.4 of a core, and 25 in the other; whole apps need 32 at least
    assert max(predicted["Back"], predicted["Other"]) == pytest.approx(25 * MS)


def test_few_cores_for_deadlines_leave_whole_ones(write: Write) -> None:
    """A single task of 13 ms has a core for itself, and not 0.7 of one."""
    kept = [line for line in UNEVEN.splitlines() if not line.startswith("app Back")]
    single = "\n".join(kept).replace("first: First  final: Final  first -> final", "final: Final")
    path = write(single.replace("in x: uint8  c", "c").replace("final", "one"), one_c=ONE, **FILES)
    answer = mapped(path)
    places = {p.task: p.processors for p in answer.mapping.placements}
    assert places["Fast.tick"] == places["Fast.act"] != places["Other.one"]
    assert dict(answer.mapping.predicted_period_ns)["Other"] == 13 * MS
    assert not answer.late and answer.mapping.effort.objective == "cores,utilization"
    asked = find_mapping(path, platform="board", measure=False, budget=2, objective="utilization")
    assert dict(asked.mapping.utilization) == {"core[0]": 0.3, "core[1]": 0.3}


# -- shares ----------------------------------------------------------------------------------------
SHARED = """
task Tick { out x: float32  python "t.py:tick"  wcet 2 ms }
task Act { in x: float32  python "t.py:act"  wcet 3 ms }
task Work { out x: float32  python "t.py:work"  wcet 1 ms }
app Fast { period 20 ms  tick: Tick  act: Act  tick -> act }
app Back { share 30 %  work: Work  log: Log  work -> log }
app Low { work: Work  log: Log  work -> log }
task Log { in x: float32  python "t.py:act"  wcet 1 ms }
platform board { cpu core[COUNT] scheduler SCHEDULER }
"""
WORK = (
    CODE
    + """

def work():
    import time
    time.sleep(0.001)
    return 1.0
"""
)


def shared(scheduler: str = "fixed_priority", count: int = 1, of: str = "") -> str:
    known = SHARED.replace("SCHEDULER", scheduler).replace("COUNT", str(count))
    return known.replace("share 30 %", f"share 30 % {of}")


def test_a_share_is_above_the_apps_with_a_period(write: Write) -> None:
    answer = mapped(write(shared(), t_py=WORK))
    (fast,) = answer.mapping.groups
    # 12 ms meet at most 4 periods of 5 ms, with 1.5 ms each, and a firing of 1 ms
    assert (
        fast.response_ns == (5 + 4 * 1.5 + 1) * MS
        and fast.schedulable
        and not fast.rests_on("niceness")
    )
    assert dict(answer.mapping.utilization) == {"core[0]": pytest.approx(0.55)}
    predicted = dict(answer.mapping.predicted_period_ns)
    assert predicted["Back"] == pytest.approx(2 * MS / 0.3)
    assert predicted["Low"] == pytest.approx(2 * MS / 0.45)


def test_a_long_period_keeps_others_waiting(write: Write) -> None:
    answer = mapped(write(shared(of="of 20 ms"), t_py=WORK))
    assert answer.mapping.groups[0].response_ns == (5 + 2 * 6 + 1) * MS
    late = mapped(write(shared(of="of 40 ms"), t_py=WORK))
    assert late.late and late.mapping.groups[0].response_ns == (5 + 2 * 12 + 1) * MS


def test_the_periodic_apps_go_where_no_share_is(write: Write) -> None:
    alone = shared(count=2).replace("app Low { work: Work  log: Log  work -> log }", "")
    answer = mapped(write(alone, t_py=WORK))
    places = {p.task: p.processors for p in answer.mapping.placements}
    assert places["Back.work"] == places["Back.log"] != places["Fast.tick"]
    assert answer.mapping.groups[0].response_ns == 5 * MS
    assert max(share for _, share in answer.mapping.utilization) == pytest.approx(0.3)


def test_what_map_says_of_shares(write: Write) -> None:
    path = write(shared(), t_py=WORK)
    command = ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s"]
    ran = CliRunner().invoke(app, [*command, "--explain"])
    assert ran.exit_code == 0, ran.output
    assert "Back                 30 %           5" in ran.output
    assert "`Back on core[0]` preempts it: 7.00 ms" in ran.output
    assert "1.50 ms of every 5.00 ms: an iteration takes at most 13.50 ms" in ran.output
    document = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    share = {"part": 0.3, "period_ns": 5 * MS}
    assert document["background"]["Back"]["share"] == share
    assert "share" not in document["background"]["Low"]


def test_without_priorities_nothing_assures_a_share(write: Write) -> None:
    path = write(shared("static_order"), t_py=WORK)
    command = ["map", str(path), "--platform", "board", "--no-measure", "--budget", "2s"]
    ran = CliRunner().invoke(app, [*command, "--explain"])
    assert "nothing assures a share of core[0]:" in ran.output
    assert "takes at most" not in ran.output
    (fast,) = mapped(path).mapping.groups
    assert fast.response_ns == 12 * MS


def test_too_many_shares_are_refused(write: Write) -> None:
    with pytest.raises(Errors) as caught:
        mapped(write(shared().replace("app Low {", "app Low { share 80 %"), t_py=WORK))
    (fault,) = caught.value.diagnostics
    assert fault.code == "F223" and "more than all" in fault.message


def test_a_process_of_its_own_is_refused(write: Write) -> None:
    pinned = "mapping on board { Back.log -> core[0] process }"
    with pytest.raises(Errors) as caught:
        mapped(write(shared() + pinned, t_py=WORK))
    (fault,) = caught.value.diagnostics
    assert fault.code == "F223" and "a process of its own" in fault.message


@pytest.mark.parametrize("scheduler", ["static_order", "fixed_priority"])
def test_a_program_keeps_to_a_share(write: Write, tmp_path: Path, scheduler: str) -> None:
    """In its own time a firing takes 1 ms: 10 ms of every 100 / 3 ms are 10 firings."""
    source = shared(scheduler, 2, "of 100 / 3 ms")
    build(write(source, t_py=WORK), tmp_path / "out", platform="board")
    assert 'Server(10000000, "100000000/3"' in (tmp_path / "out/main.py").read_text()
    document = in_its_own_time(tmp_path / "out", "--frames", "45")
    (share,) = document["shares"]["Back"].values()
    assert share["part"] == 0.3 and document["background"] == ["Low"]
    # the first 10 frames at once, then 10 in each period: the last 5 after four of them
    latest = document["apps"]["Back"]["latency_ms"]["max"]
    assert latest == pytest.approx(100 / 3 - 10 + 1, abs=0.01)
    assert document["apps"]["Low"]["latency_ms"]["max"] == pytest.approx(1, abs=0.01)
    assert "Back has a share of core[" in document["said"]


# -- the place of a share --------------------------------------------------------------------------
def burning(names: dict[str, int]) -> str:
    """Apps of 100 ms, each with one task that takes so many ms, by name."""
    tasks = "".join(f"task {name} {{ wcet {ms} ms }}\n" for name, ms in names.items())
    apps = "".join(f"app On{name} {{ period 100 ms  t: {name} }}\n" for name in names)
    return tasks + apps


def share(part: int, name: str = "Sh") -> str:
    task = f"task W{name} {{ wcet 1 ms }}\n"
    return f"{task}app {name} {{ share {part} % of 10 ms  w: W{name}  k: W{name} }}\n"


TWO = "platform board { cpu core[2] scheduler fixed_priority }\n"
APART = "platform board { cpu core scheduler fixed_priority  cpu lit scheduler fixed_priority }\n"
#: Texts, what is pinned there, the tasks that are not, and the CPUs.
SHARES: dict[str, tuple[str, dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "the share belongs to the longest task": (
        burning({"A": 50, "B": 40, "C": 35}) + share(30) + TWO,
        {"OnA.t": "core[0]"},
        ("OnB.t", "OnC.t", "Sh.w", "Sh.k"),
        ("core[0]", "core[1]"),
    ),
    "two shares": (
        burning({"A": 30, "B": 25}) + share(40) + share(20, "Sm") + TWO,
        {"OnA.t": "core[1]", "Sm.w": "core[0]"},
        ("OnB.t", "Sh.w", "Sh.k", "Sm.k"),
        ("core[0]", "core[1]"),
    ),
    "a share that is half pinned": (
        burning({"A": 30, "B": 60}) + share(30) + APART,
        {"Sh.k": "lit"},
        ("OnA.t", "OnB.t", "Sh.w"),
        ("core", "lit"),
    ),
}


def mapping_on_board(pins: dict[str, str]) -> str:
    return "mapping on board { " + "  ".join(f"{t} -> {p}" for t, p in pins.items()) + " }\n"


@pytest.mark.parametrize("name", SHARES)
def test_the_place_of_a_share_is_searched_as_well(write: Write, name: str) -> None:
    """The least maximum utilization is that of the best of all placements, each pinned; and what
    searches prove holds for all of them."""
    text, pins, free, cpus = SHARES[name]
    kept = []
    for places in product(cpus, repeat=len(free)):
        whole = mapping_on_board({**pins, **dict(zip(free, places, strict=True))})
        with suppress(Errors):  # no CPU has time for a share
            kept += maxima(write(text + whole), "baseline", 1)
    path = write(text + mapping_on_board(pins))
    for search in ("heuristic-ga", "entire-ga", "baseline"):
        assert all(maximum >= min(kept) for maximum in maxima(path, search, 40))
    for search in ("exact", "auto"):
        assert maxima(path, search, 40, proved=True) == [min(kept)]


def maxima(path: Path, search: str, evaluations: int, proved: bool = False) -> list[Fraction]:
    """The maximum utilization of what a search finds, if that keeps all deadlines; `proved` and
    bounded as the least."""
    asked = {"search": search, "evaluations": evaluations, "objective": "utilization"}
    answer = find_mapping(path, platform="board", measure=False, **asked)
    assert answer.joint is not None
    outcome = answer.joint.outcome
    if proved:
        assert outcome.proved and outcome.bound is not None and outcome.impossible is None
        assert outcome.bound <= outcome.maximum
    return [] if answer.late else [outcome.maximum]


def test_a_share_elsewhere_makes_it_possible(write: Write) -> None:
    """75 % of one CPU, and shares of 60 and 20 %: only one way keeps both below 100 %."""
    text = burning({"A": 75}) + share(20) + share(60, "Big") + TWO
    answer = find_mapping(write(text), platform="board", measure=False, search="exact", budget=3)
    assert not answer.late and max(dict(answer.mapping.utilization).values()) <= 0.8
