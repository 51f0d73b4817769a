"""The first mapping: plain shapes, chosen by predicted load."""

from __future__ import annotations

from flowc.analysis.dataflow.repetition import repetition
from flowc.model.application import Application
from flowc.model.mapping import Placement
from flowc.model.platform import Platform, Pool
from flowc.search.throughput import greedy
from flowc.search.throughput.problem import Problem

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
