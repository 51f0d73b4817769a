"""The predicted latency of frames: known answers, which programs of tasks that sleep have shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.model.mapping import Placement
from flowc.model.platform import Platform, Pool
from flowc.search.throughput.auto import plain_ways
from flowc.search.throughput.executed import latency_ns
from flowc.search.throughput.problem import Problem
from flowc.search.throughput.whole_frames import whole_frames

from problems import chain

#: Camera, detector, crops, classifier, tracker.
MS = (1.0, 28.0, 1.0, 1.0, 1.0)
FIRST, SECOND, BOTH = ("core[0]",), ("core[1]",), ("core[0]", "core[1]")


def problem(stateless: str, period: int | None = None) -> Problem:
    """Tasks in a row, of which some are stateless, on two cores."""
    app = chain("A", "ccccc", period=period)
    tasks = tuple(
        replace(t, stateless=letter == "s") for t, letter in zip(app.tasks, stateless, strict=True)
    )
    app = replace(app, tasks=tasks)
    platform = Platform("p", (Pool("core", "cpu", 2, True, "static_order"),), (), "", None)
    times = {t.name: {"cpu": ms * 1e6} for t, ms in zip(app.tasks, MS, strict=True)}
    return Problem((app,), platform, {"A": repetition(app).vector}, times, {})


def latency_ms(*places: tuple[str, ...], period: int | None = None) -> float | None:
    given = problem("sssss", period)
    names = [task.name for _, task in given.tasks]
    placement = {name: Placement(name, own) for name, own in zip(names, places, strict=True)}
    found = latency_ns(given, placement)
    return None if found is None else found / 1e6


@pytest.mark.parametrize(
    ("places", "ms"),
    [
        # one frame at a time
        ((FIRST, FIRST, FIRST, FIRST, FIRST), 32),
        # two stages: a frame waits for the slower one, and is done there
        ((FIRST, SECOND, FIRST, FIRST, FIRST), 56),
        # whole frames in turn
        ((FIRST, BOTH, BOTH, BOTH, FIRST), 36),
        # frames in turn that meet on one core in between wait there for frames before them
        ((FIRST, BOTH, FIRST, BOTH, SECOND), 95),
    ],
)
def test_a_frame_waits_for_its_turn(places: tuple[tuple[str, ...], ...], ms: float) -> None:
    assert latency_ms(*places) == pytest.approx(ms, rel=0.05)


@pytest.mark.parametrize(
    ("stateless", "in_turn", "ms"),
    [
        ("-sss-", [1, 2, 3], 36),  # a pool by hand: 32 in 2 workers, and camera and tracker
        ("-s-s-", [1], 40),  # frames meet at the crops: the classifier stays there
    ],
)
def test_whole_frames_in_turn_wait_hardly(stateless: str, in_turn: list[int], ms: float) -> None:
    (design,) = whole_frames(problem(stateless))
    places = {p.task: p.processors for p in design.mapping.placements}
    for k in range(len(MS)):
        assert places[f"A.t{k}"] == (BOTH if k in in_turn else FIRST)
    assert design.latency_ns == pytest.approx(ms * 1e6, rel=0.01)
    assert design in [replace(d, plain=False) for d in plain_ways(problem(stateless), "throughput")]


def test_where_the_other_tasks_need_a_core_they_have_one() -> None:
    given = problem("-sss-")
    times = {**given.firing_ns, "A.t0": {"cpu": 10e6}}
    (pool,) = given.platform.pools
    platform = replace(given.platform, pools=(replace(pool, count=4),))
    (design,) = whole_frames(replace(given, platform=platform, firing_ns=times))
    places = {p.task: p.processors for p in design.mapping.placements}
    assert places["A.t0"] == places["A.t4"] == FIRST
    assert places["A.t1"] == ("core[1]", "core[2]", "core[3]")


def test_without_a_task_to_share_there_are_no_whole_frames_in_turn() -> None:
    assert not list(whole_frames(problem("-----")))


def test_an_app_that_waits_for_its_period_is_not_executed() -> None:
    assert latency_ms(*[FIRST] * 5, period=100_000_000) is None
