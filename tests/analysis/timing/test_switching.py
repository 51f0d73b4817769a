"""Bounds on changes of state against machines that are played through, with requests at bad
moments."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.switching import Halves, ahead, halves, played
from flowc.analysis.timing.system import (
    Refused,
    TimedChannel,
    TimedGroup,
    TimedProcessor,
    TimedSystem,
    TimedTask,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import systems

GPU = TimedProcessor("gpu", "fifo", "volta", "gpu")
CPUS = TimedProcessor("c", "fixed_priority", "cpu"), TimedProcessor("d", "fixed_priority", "cpu")
#: More of them: FLOWC_FUZZ=400 plays some ten thousand changes.
MACHINES = int(os.environ.get("FLOWC_FUZZ", "12"))


def on_gpu(*apps: tuple[str, int]) -> TimedSystem:
    groups = (
        TimedGroup(n, 30, (TimedTask(f"{n}.t", "gpu", (cost,)),), offset=0) for n, cost in apps
    )
    return TimedSystem(tuple(groups), (GPU,))


def test_two_states_that_keep_their_deadlines_miss_one_where_their_frames_meet() -> None:
    """So what is proved of states says nothing of a change at which frames of both are under
    way."""
    one, other = on_gpu(("A", 10), ("B", 18)), on_gpu(("A", 10), ("C", 18))
    for state in (one, other):
        assert max(worst_cases(state).groups.values()) == 28
    meeting = on_gpu(("A", 10), ("B", 18), ("C", 18))
    assert simulate(meeting, 30, Choices(against="A"), random.Random(0)).groups["A"] == 46
    assert halves(one) == halves(other) == Halves(28, 28)
    rng = random.Random(1)
    seen = list(
        played(
            {"one": one, "other": other},
            [("one", "other"), ("other", "one")],
            "one",
            rng,
            changes=60,
        )
    )
    assert max(p.drained for p in seen) == 28 and max(p.first for p in seen) == 28
    assert max(time for p in seen for time in p.seen.groups.values()) <= 28


def test_frames_that_begin_before_a_late_app_does_are_waited_for() -> None:
    """C begins after 50, when A is in its second frame: from a request at the beginning, that takes
    more than 55."""
    a = TimedGroup("A", 30, (TimedTask("A.t", "c", (29,)),), offset=0)
    b = TimedGroup("B", 100, (TimedTask("B.t", "d", (50,)),), priority=1, offset=0)
    c = TimedGroup("C", 100, (TimedTask("C.t", "d", (5,)),), offset=0)
    state = TimedSystem((a, b, c), CPUS)
    assert max(worst_cases(state).groups.values()) == 55
    assert simulate(state, 200, Choices(asked=0), random.Random(0)).over == 59
    assert halves(state) == Halves(59, 55)


def test_what_is_begun_ahead_of_its_release_is_waited_for() -> None:
    tasks = TimedTask("A.s", "c", (4,)), TimedTask("A.w", "d", (7,))
    state = TimedSystem(
        (TimedGroup("A", 30, tasks, (TimedChannel("A.s", "A.w", delay=2),), offset=0),), CPUS
    )
    assert ahead(state.groups[0]) == 2
    assert simulate(state, 200, Choices(asked=14), random.Random(0)).over == 64
    assert halves(state) == Halves(67, 7)


@pytest.mark.parametrize(
    ("channels", "iterations"),
    [
        ((TimedChannel("s", "a"), TimedChannel("a", "a", delay=1)), 0),
        (
            (
                TimedChannel("s", "a", delay=3),
                TimedChannel("s", "b"),
                TimedChannel("b", "a", delay=1),
            ),
            1,
        ),
        ((TimedChannel("s", "a", delay=1), TimedChannel("a", "b", delay=1)), 2),
        ((TimedChannel("s", "a", (4,), (2,), delay=1), TimedChannel("a", "b")), 0),
        ((TimedChannel("s", "a", (4,), (2,), delay=2), TimedChannel("a", "b")), 1),
    ],
)
def test_how_far_ahead(channels: tuple[TimedChannel, ...], iterations: int) -> None:
    firings = {"a": 2} if channels[0].produced == (4,) else {}
    tasks = tuple(TimedTask(n, "c", (1,), (), firings.get(n, 1)) for n in ("s", "a", "b"))
    if firings:
        channels = (channels[0], replace(channels[1], consumed=(2,)))
    fed = {c.destination for c in channels}
    assert (
        ahead(
            TimedGroup("A", 30, tuple(t for t in tasks if t.name in fed or t.name == "s"), channels)
        )
        == iterations
    )


def test_live_sources_take_a_period_more() -> None:
    assert halves(on_gpu(("A", 10), ("B", 18)), {"B"}) == Halves(Fraction(88), Fraction(58))


def machine(rng: random.Random) -> dict[str, TimedSystem]:
    """Two or three states that have bounds; all apps of a state begin together, as in programs."""
    found: dict[str, TimedSystem] = {}
    while len(found) < 3:
        made = systems.random_system(rng, most_groups=3, most_tasks=4)
        groups = tuple(replace(g, jitter=0, offset=0, paths=()) for g in made.groups)
        made = replace(made, groups=groups)
        try:
            halves(made)
        except Refused:
            continue
        found[str(len(found))] = made
    return found


# The same machines every time, unless there are to be many: some random ones take long.
@settings(max_examples=MACHINES, deadline=None, derandomize=MACHINES < 100)
@given(st.integers(0, 2**32))
def test_no_change_takes_longer_than_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    states = machine(rng)
    known = {name: halves(state) for name, state in states.items()}
    transitions = [(a, b) for a in states for b in states if a != b]
    for change in played(states, transitions, "0", rng, changes=25 if MACHINES > 100 else 6):
        before, after = known[change.source], known[change.target]
        assert before is None or change.drained <= before.leaving, change
        assert after is None or change.first <= after.entering, change
        worst = worst_cases(states[change.source]).groups
        for name, time in change.seen.groups.items():
            bound = worst[name]
            assert bound is None or time <= bound
