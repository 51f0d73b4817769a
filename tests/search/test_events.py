"""What searches tell while they run, and what a mapping keeps of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from flowc.driver.solve.map import find_mapping
from flowc.driver.text.check import check
from flowc.model.mapping import MOST_POINTS, Mapping
from flowc.search.events import SearchEvent, Teller
from hypothesis import given
from hypothesis import strategies as st

from builds import Write

NUMBERS = st.none() | st.floats(0, 1e6)


@given(st.lists(st.tuples(st.integers(0, 99), NUMBERS, NUMBERS), max_size=40))
def test_best_values_fall_and_bounds_rise(
    told: list[tuple[int, float | None, float | None]],
) -> None:
    heard: list[SearchEvent] = []
    teller = Teller(heard.append)
    for count, value, bound in told:
        teller(f"{count}", evaluations=count, value=value, bound=bound)
    assert [str(e) for e in heard] == [str(count) for count, _, _ in told]
    for before, after in pairwise(heard):
        assert before.seconds <= after.seconds and before.evaluations <= after.evaluations
    values = [v for _, v, _ in told if v is not None]
    bounds = [b for _, _, b in told if b is not None]
    history = teller.history()
    if values or bounds:
        assert (history[-1].value, history[-1].bound) == (
            min(values, default=None),
            max(bounds, default=None),
        )
    assert len(history) == len({(p.value, p.bound) for p in history})


def test_a_long_history_is_thinned_and_keeps_its_end() -> None:
    teller = Teller()
    for k in range(5000, 0, -1):
        teller("", evaluations=5000 - k, value=float(k))
    history = teller.history()
    assert 100 < len(history) <= MOST_POINTS and (history[0].value, history[-1].value) == (
        5000.0,
        1.0,
    )


TEXT = """
task A { out x: int32  wcet 1 ms }
task B { in x: int32  out y: int32  wcet 4 ms }
task C { in y: int32  wcet 2 ms }
platform two { cpu core[2] }
app Fast { period 10 ms  a: A  b: B  c: C  a -> b -> c }
app Slow { period 40 ms  a: A  b: B  c: C  a -> b -> c }
"""


def pinned_again(flow: Path, pins: str) -> dict[str, tuple[str, ...]]:
    """What a text with these pins says of its tasks."""
    again = flow.with_name("again.flow")
    again.write_text(flow.read_text() + pins + "\n")
    valid = check(again, platform="two").require()
    return {p.task: p.stages[0].processors for p in valid.system.pins if p.platform == "two"}


def test_a_mapping_keeps_how_it_was_found_and_what_else_there_was(write: Write) -> None:
    flow = write(TEXT)
    said: list[str] = []
    found = find_mapping(
        flow, platform="two", search="heuristic-ga", budget=20.0, measure=False, report=said.append
    ).mapping
    assert said and all(isinstance(line, str) for line in said)
    effort = found.effort
    assert effort.history
    assert all(p.value is None or 0 < p.value <= 1 for p in effort.history)
    front = effort.front
    assert front == tuple(sorted(front, key=lambda p: p.utilization))
    assert all(
        a.utilization < b.utilization and a.tightest > b.tightest for a, b in pairwise(front)
    )
    best = max(share for _, share in found.utilization)
    assert front[0].utilization <= best + 1e-9 and all(0 < p.tightest <= 1 for p in front)
    for point in front:
        assert set(pinned_again(flow, point.pins)) == {
            f"{app}.{task}" for app in ("Fast", "Slow") for task in "abc"
        }
    assert Mapping.from_json(found.to_json({}))[0].effort == effort


def test_a_contestant_says_what_to_write_for_it(write: Write) -> None:
    flow = write(TEXT.replace("period 10 ms", "").replace("period 40 ms", ""))
    found = find_mapping(flow, platform="two", budget=5.0, measure=False).mapping
    best, *_ = found.contestants
    assert pinned_again(flow, best.pins) == {p.task: p.processors for p in found.placements}
