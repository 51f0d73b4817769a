"""The first mapping: plain shapes, chosen by predicted load."""

from __future__ import annotations

from flowc.analysis.dataflow.repetition import repetition
from flowc.driver.solve.map import find_mapping
from flowc.model.application import Application
from flowc.model.mapping import Placement
from flowc.model.platform import Platform, Pool
from flowc.search.throughput import greedy
from flowc.search.throughput.problem import Problem

from builds import Write
from problems import chain


def place(
    apps: list[Application], ms: dict[str, float], cores: int = 2, **pins: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    platform = Platform("p", (Pool("core", "cpu", cores, True, "static_order"),), (), "", None)
    vectors = {a.name: repetition(a).vector for a in apps}
    times = {t.name: {"cpu": ms[t.name] * 1e6} for a in apps for t in a.tasks}
    placed = {k.replace("__", "."): Placement(k.replace("__", "."), v) for k, v in pins.items()}
    problem = Problem(tuple(apps), platform, vectors, times, placed)
    return {p.task: p.processors for p in greedy.search(problem).placements}


def test_one_light_app_stays_on_one_core() -> None:
    placed = place([chain("A", "ccc")], {"A.t0": 0.01, "A.t1": 0.01, "A.t2": 0.01})
    assert len({p for places in placed.values() for p in places}) == 1


def test_a_heavy_chain_of_c_tasks_is_cut_in_the_middle() -> None:
    placed = place([chain("A", "cccc")], {"A.t0": 5, "A.t1": 5, "A.t2": 5, "A.t3": 5})
    assert placed["A.t0"] == placed["A.t1"] != placed["A.t2"] == placed["A.t3"]


def test_python_tasks_are_not_spread_because_they_hold_the_interpreter() -> None:
    placed = place([chain("A", "ppcp")], {"A.t0": 0.4, "A.t1": 1.8, "A.t2": 0.3, "A.t3": 0.01})
    assert len({p for places in placed.values() for p in places}) == 1


def test_the_frames_of_one_heavy_task_are_shared() -> None:
    placed = place([chain("A", "pcp", stateless=True)], {"A.t0": 0.1, "A.t1": 20, "A.t2": 0.1})
    assert len(placed["A.t1"]) == 2 and len(placed["A.t0"]) == len(placed["A.t2"]) == 1


def test_apps_of_similar_size_get_a_core_each() -> None:
    ms = {"A.t0": 0.1, "A.t1": 7.2, "A.t2": 0.1, "B.t0": 0.1, "B.t1": 6.8, "B.t2": 0.1}
    placed = place([chain("A", "pcp"), chain("B", "pcp")], ms)
    assert {p for n, p in placed.items() if n[0] == "A"} != {
        p for n, p in placed.items() if n[0] == "B"
    }
    assert all(len({placed[f"{app}.t{i}"] for i in range(3)}) == 1 for app in "AB")


def test_a_relaxed_periodic_app_is_left_together() -> None:
    app = chain("A", "cccc", period=100_000_000)
    placed = place([app], {"A.t0": 5, "A.t1": 5, "A.t2": 5, "A.t3": 5})
    assert len({p for places in placed.values() for p in places}) == 1


def test_pins_are_kept() -> None:
    placed = place([chain("A", "ccc")], {"A.t0": 1, "A.t1": 1, "A.t2": 1}, A__t1=("core[1]",))
    assert placed["A.t1"] == ("core[1]",)


# -- feedback --------------------------------------------------------------------------------------
TRIO = """
task A { in f    out b rate [1, 2]  out e rate [1, 0]  wcet [2, 1] ms }
task B { in a  in d  out c rate 2  wcet 1 ms }
task C { in b rate [3, 0, 3]  out d rate [0, 2, 1]  out e rate [1, 1, 0]  wcet [2, 1, 3] ms }
task D { in c rate 3  out b rate 3  wcet 4 ms }
task E { in a  in c rate 2  out f rate 2  wcet 5 ms }
task F { in e  out a  wcet 1 ms }
app Trio {
    a: A  b: B  c: C  d: D  e: E  f: F   a.b -> b.a  a.e -> e.a  b.c -> c.b  c.d -> d.c  c.e -> e.c
    d.b -> delay 3 -> b.d   e.f -> f.e   f.a -> delay 2 -> a.f
}
platform three { cpu core[3] }
"""
PINS = """
mapping on three { Trio.a -> core[0]  Trio.b -> core[0]  Trio.f -> core[0]  Trio.c -> core[1]
    Trio.d -> core[2]  Trio.e -> core[2] }
"""


def test_tasks_with_feedback_are_spread_as_far_as_it_lets_them(write: Write) -> None:
    """Trying all places and orders by hand finds 13 ms, the least period of the graph."""
    mapping = find_mapping(write(TRIO), platform="three", measure=False).mapping
    assert mapping.effort.lower_bound_ns == 13e6 and mapping.effort.optimal
    (period,) = dict(mapping.predicted_period_ns).values()
    assert period == mapping.contestants[0].predicted_ns and 13e6 <= period < 13.01e6
    assert [c.predicted_ns for c in mapping.contestants[1:]] == [23e6]


def test_a_prediction_is_the_pace_of_the_orders_of_the_program(write: Write) -> None:
    """A simulation by hand: 22 ms, though the busiest core has 9 ms of work."""
    mapping = find_mapping(write(TRIO + PINS), platform="three", measure=False).mapping
    (only,) = mapping.contestants
    assert only.name == "as pinned" and only.predicted_ns == 22e6
    assert dict(mapping.predicted_period_ns) == {"Trio": 22e6}


def test_cycles_that_are_not_spread_are_named(write: Write) -> None:
    """Two apps: each cycle stays together, and `--explain` says so."""
    other = "app Other { a: A  b: B  c: C  d: D  e: E  f: F   a.b -> b.a  a.e -> e.a  b.c -> c.b\n"
    other += "c.d -> d.c  c.e -> e.c  d.b -> delay 3 -> b.d  e.f -> f.e  f.a -> delay 2 -> a.f }\n"
    mapping = find_mapping(write(TRIO + other), platform="three", measure=False).mapping
    for app in ("Trio", "Other"):
        own = {p.processors for p in mapping.placements if p.task.startswith(app)}
        assert len(own) == 1
        assert any(line.startswith(f"cycles of `{app}` stay on one core") for line in mapping.why)
