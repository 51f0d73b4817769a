"""The predicted latency of frames: known answers, which programs of tasks that sleep have shown."""

from __future__ import annotations

import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.model.mapping import Placement
from flowc.model.platform import Platform, Pool
from flowc.search.throughput.executed import latency_ns
from flowc.search.throughput.problem import Problem

from problems import chain

#: Camera, detector, crops, classifier, tracker.
MS = (1.0, 28.0, 1.0, 1.0, 1.0)
FIRST, SECOND, BOTH = ("core[0]",), ("core[1]",), ("core[0]", "core[1]")


def latency_ms(*places: tuple[str, ...], period: int | None = None) -> float | None:
    app = chain("A", "ccccc", stateless=True, period=period)
    platform = Platform("p", (Pool("core", "cpu", 2, True, "static_order"),), (), "", None)
    times = {t.name: {"cpu": ms * 1e6} for t, ms in zip(app.tasks, MS, strict=True)}
    problem = Problem((app,), platform, {"A": repetition(app).vector}, times, {})
    placement = {t.name: Placement(t.name, own) for t, own in zip(app.tasks, places, strict=True)}
    found = latency_ns(problem, placement)
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


def test_an_app_that_waits_for_its_period_is_not_executed() -> None:
    assert latency_ms(*[FIRST] * 5, period=100_000_000) is None
