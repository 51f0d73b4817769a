"""Ends of arrows between apps stand beside tasks of their own app, so that one goes on where the
other hangs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import flowc
import pytest
from flowc.cli._deadlines import joint_table
from flowc.driver.plan.program import place
from flowc.driver.solve.map import Answer
from flowc.driver.text.check import prepare
from flowc.model.times import times_of

from builds import Write

#: Two apps that `latest` joins; times in ms.
APPS = """
task source {{ out o: int8   wcet {source} ms   python "code.py:source" }}
task both   {{ in i: int8   out o: int8   wcet {both} ms   python "code.py:both" }}
task sink   {{ in i: int8   wcet {sink} ms   python "code.py:sink" }}
app W {{ PERIOD   a: source }}
app R {{ PERIOD   W.a -> latest wcet {end} ms -> b   b: both   c: sink   b -> c }}
platform p {{ {cores} }}
"""
CODE = "def source(): return 1\ndef both(i): return i\ndef sink(i): pass\n"
TIMES = {"source": 5.0, "both": 2.0, "sink": 1.0, "end": 1.0}
CORES = "cpu core[4] scheduler fixed_priority"


def text(
    write: Write,
    more: str = "",
    cores: str = CORES,
    period: str = "period 10 ms   deadline 100 ms",
    **times: float,
) -> Path:
    made = APPS.format(cores=cores, **(TIMES | times)).replace("PERIOD", period)
    return write(made + more, code_py=CODE)


def placed(path: Path) -> dict[str, str]:
    """Where a build has the tasks, without a mapping."""
    valid = prepare(path, platform="p").require()
    found = place(valid, times_of(valid.system, valid.platform)).placements
    return {p.task: p.processors[0] for p in found}


def answered(path: Path, objective: str = "") -> Answer:
    """What `map` finds."""
    options = {"objective": objective} if objective else {}
    return flowc.map(path, platform="p", budget=5, measure=False, **options)


def mapped(path: Path) -> dict[str, str]:
    """Where `map` has all tasks."""
    return places_of(answered(path))


def places_of(answer: Answer) -> dict[str, str]:
    """Where an answer has all tasks."""
    return {p.task: p.processors[0] for p in answer.mapping.placements}


def at_home(places: dict[str, str]) -> bool:
    """Are both ends beside the tasks of their apps that they are joined to?"""
    return places["W.to_R"] == places["W.a"] and places["R.from_W_a"] == places["R.b"]


def test_ends_go_with_the_pins_of_their_apps(write: Write) -> None:
    pins = "mapping on p { W.a -> core[0]   R.b -> core[1]   R.c -> core[1] }"
    path = text(write, pins)
    assert at_home(placed(path)) and at_home(mapped(path))


def test_a_pin_of_an_end_stands(write: Write) -> None:
    pins = "mapping on p { W.a -> core[0]   R.b -> core[1]   R.from_W_a -> core[3] }"
    path = text(write, pins)
    assert placed(path)["R.from_W_a"] == mapped(path)["R.from_W_a"] == "core[3]"


def test_ends_go_with_pins_on_several_machines(write: Write) -> None:
    cores = "machine m { cpu core[2] }   machine n { cpu core }   link m n 1 MB/s 1 ms"
    path = text(write, "mapping on p { W.a -> m.core[1]   R.b -> m.core[0] }", cores)
    assert at_home(placed(path)) and at_home(mapped(path))


def test_without_periods_ends_are_at_home(write: Write) -> None:
    path = text(write, period="")
    assert at_home(placed(path)) and at_home(mapped(path))


def test_the_least_utilization_is_that_with_ends_at_home(write: Write) -> None:
    """Held against all placements; with ends anywhere it would be 50 %."""
    work = {"W.a": 5 + 1, "R.b": 2 + 1, "R.c": 1}
    least = min(
        max(sum(ns for name, ns in work.items() if at[name] == core) for core in (0, 1))
        for at in (dict(zip(work, cores, strict=True)) for cores in product((0, 1), repeat=3))
    )
    path = text(write, cores="cpu core[2] scheduler fixed_priority")
    answer = answered(path, "utilization")
    most = max(share for _, share in answer.mapping.utilization)
    assert at_home(places_of(answer)) and most == pytest.approx(least / 10) == 0.6


def test_few_cpus_are_not_few_enough_for_two_apps_to_wait_for_each_other(write: Write) -> None:
    path = text(write, source=0.5, both=0.2, sink=0.1, end=0.1)
    places = mapped(path)
    used = [{cpu for task, cpu in places.items() if task.startswith(app)} for app in "WR"]
    assert at_home(places) and used[0].isdisjoint(used[1])
    assert [len(cpus) for cpus in used] == [1, 1]


@pytest.mark.parametrize(("cores", "shared"), [("cpu core", True), (CORES, False)])
def test_apps_that_share_a_cpu_by_necessity_are_named(
    write: Write, cores: str, shared: bool
) -> None:
    path = text(write, cores=cores, source=0.5, both=0.2, sink=0.1, end=0.1)
    joint = answered(path).joint
    assert joint is not None
    said = "`R` and `W` share core: where a task of one hangs, the other may stop"
    assert (said in joint_table(joint)) is shared


@pytest.mark.parametrize(("scale", "apart"), [(1, True), (2, False)])
def test_apps_are_apart_where_that_leaves_slack(write: Write, scale: int, apart: bool) -> None:
    """Mixed, two CPUs have 12 % of their time taken, apart 20 %; and twice as much."""
    times = {"source": 0.19 * scale, "both": 0.99 * scale, "sink": 1.0 * scale, "end": 0.01 * scale}
    answer = answered(text(write, cores="cpu core[2] scheduler fixed_priority", **times))
    most = max(share for _, share in answer.mapping.utilization)
    assert most == pytest.approx(0.2 if apart else 0.24)
    assert answer.joint is not None
    said = joint_table(answer.joint)
    assert ("CPUs of their own for apps that arrows join, and 12.0000% without" in said) is apart
    assert ("where a task of one hangs" in said) is not apart
