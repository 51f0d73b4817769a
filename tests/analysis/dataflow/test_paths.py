"""Deadlines of paths without any mapping: what `check` refuses, and what it says one processor is
enough for."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path as File

import flowc
import pytest
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.dependence import DependencePath, newest, spans
from flowc.analysis.dataflow.graph import graph_of
from flowc.analysis.dataflow.latency import latency
from flowc.analysis.dataflow.liveness import Execution
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.throughput import least_period
from flowc.model.application import PathDeadline
from flowc.model.times import AppTimes
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs

MS = 10**6
SPOT = """
task Mic { out x: float32 rate 512  wcet 1 ms }
task Frame { in x: float32 rate 160  out y: float32  wcet 1 ms }
task Net { in y: float32 rate 8  out p: float32  wcet 1 ms }
task Log { in p: float32  wcet 1 ms }
app A { CLAUSES   mic: Mic EVERY  frame: Frame  net: Net  log: Log   mic -> frame -> DELAY net -> log }
"""


def checked(
    folder: File, clauses: str, every: str = "every 32 ms", delay: str = ""
) -> tuple[bool | None, list[str]]:
    """The verdict of `schedulable`, and the diagnostics."""
    text = SPOT.replace("CLAUSES", clauses).replace("EVERY", every).replace("DELAY", delay)
    (folder / "spot.flow").write_text(text)
    found = flowc.check(folder / "spot.flow")
    return found.verdicts["A"].schedulable.holds, [
        f"{d.severity} {d.code} {d.span.line}" for d in found.diagnostics if d.span
    ]


# The second decision hears the fifth firing of the microphone, released at 128 ms: four frames
# after it, then `net` and `log`, are 1 + 4 + 1 + 1 ms. On one processor the decision before it is
# long done.
@pytest.mark.parametrize(
    ("clauses", "holds"),
    [
        ("deadline 7 ms from mic to log", True),
        ("deadline 6999999 ns from mic to log", False),
        ("deadline 6 ms from mic to net   deadline 7 ms from mic to log", True),
        ("deadline 135 ms   deadline 7 ms from mic to log", True),
        ("deadline 134 ms   deadline 7 ms from mic to log", False),
        # the shorter one counts
        ("deadline 9 ms from mic to log   deadline 6 ms from mic to log", False),
    ],
)
def test_a_path_through_several_rates(tmp_path: File, clauses: str, holds: bool) -> None:
    assert checked(tmp_path, clauses) == (holds, [] if holds else ["error F216 6"])


def test_all_deadlines_that_cannot_be_kept_are_told_at_once(tmp_path: File) -> None:
    clauses = "deadline 100 ms\n deadline 1 ms from mic to log\n deadline 7 ms from mic to log\n deadline 2 ms from mic to net"
    assert checked(tmp_path, clauses) == (False, ["error F216 6", "error F216 7", "error F216 9"])


def test_paths_with_deadlines_stand_for_the_deadline_of_an_iteration(tmp_path: File) -> None:
    """Which would be its period: too short where one iteration is still at work when the next
    begins."""
    assert checked(tmp_path, "period 20 ms", "") == (False, ["warning F216 6"])
    assert checked(tmp_path, "period 20 ms   deadline 30 ms from mic to log", "")[1] == []


def test_data_behind_a_delay_are_not_older_than_they_are(tmp_path: File) -> None:
    """The first frames of an iteration hear what the iteration before heard."""
    assert checked(tmp_path, "deadline 7 ms from mic to log", delay="delay 24 ->")[1] == []
    assert checked(tmp_path, "deadline 6 ms from mic to log", delay="delay 24 ->")[1] == [
        "error F216 6"
    ]


def test_without_a_period_only_the_way_counts(tmp_path: File) -> None:
    """Firings on other ways, or before it, may come later or earlier on some mapping."""
    assert checked(tmp_path, "deadline 4 ms from mic to log", "") == (None, [])
    assert checked(tmp_path, "deadline 3 ms from mic to log", "") == (False, ["error F216 6"])


def test_the_pace_of_sources(tmp_path: File) -> None:
    for every, pace in (("every 32 ms", 32 * MS), ("", 40 * MS)):
        checked(tmp_path, "" if every else "period 200 ms", every)
        assert flowc.check(tmp_path / "spot.flow").verdicts["A"].pace == {"A.mic": pace}


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_what_the_best_mapping_keeps_is_not_refused(seed: int) -> None:
    """The latency is exact: a deadline as long as it is possible, and nothing below it."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=4)
    app = replace(app, tasks=tuple(replace(t, stateless=False) for t in app.tasks))
    vector, times = repetition(app).vector, graphs.times(rng, app)
    graph = graph_of(app, vector, times)
    if not Execution(graph).run() or sum(vector.values()) > 40:
        return
    ways = [
        DependencePath(t.name, sink, behind, None)
        for t in app.tasks
        if not t.inputs
        for sink, behind in newest(app, vector, t.name).items()
    ]
    if not ways:
        return
    period = graph.ns(least_period(graph).lower) * rng.choice((1, Fraction(5, 4), 2)) + 1
    way = rng.choice(ways)
    (longest,) = latency(graph, period * graph.per_ns, spaced=True, paths=[way]).paths
    assert longest is not None
    exact = graph.ns(longest)
    chain = max(spans(app, vector, way.source, times)[way.sink])
    assert chain <= exact
    for asked in (exact, exact - Fraction(1, 1000)):
        if asked <= 0:
            continue
        late = replace(
            app, period_ns=period, paths=(PathDeadline(way.source, way.sink, asked, app.span),)
        )
        verdicts, told = check(late, AppTimes(times, "wcet"))
        assert ("F216" in [d.code for d in told]) == (asked < exact)
        assert verdicts.schedulable.holds in ((False,) if asked < exact else (True, None))
