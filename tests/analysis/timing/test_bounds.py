"""Bounds against executions by a simulator that shares no code with them (tests/referees/bounds).

Thousands of systems: `python tests/referees/bounds.py`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from flowc.analysis.timing.response_time import bounds, worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    RoundFiring,
    Slowdown,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedWorker,
)
from flowc.analysis.timing.terms import WorstCases

import bound_failures
import tokens
from bound_failures import Failure, python_text, smallest, told
from bounds import enumerated, hunted
from event_simulator import Run, Stuck, play
from random_programs import KINDS, TINY, random_program


@pytest.mark.parametrize("kind", KINDS)
def test_no_execution_exceeds_a_bound(kind: str) -> None:
    small = replace(KINDS[kind], periods=(1200, 2400), most_firings=12)
    found = hunted(small, range(10), per_end=1)
    assert not found.refused
    assert not found.failures, told(smallest(found.failures[0]))
    assert found.responses.ratios


def test_the_bound_of_an_app_alone_with_times_by_phase_is_reached() -> None:
    kind = replace(KINDS["lists-alone"], staged=0.0, most_firings=12)
    held = 0
    for seed in range(40):
        system = random_program(random.Random(seed), kind)
        (group,) = system.groups
        response = worst_cases(system).groups[group.name]
        shared = len({w.processor for w in system.workers}) < len(system.workers)
        timeless = any(0 in (*t.phases, *t.wcet) for t in group.tasks)
        if shared or timeless or response is None or not any(t.phases for t in group.tasks):
            continue
        held += 1
        times = {t.name: t.phases or t.wcet for t in group.tasks}
        seen = play(system, Run({group.name: 20}, times))
        assert response == seen.responses[group.name][0], seed
    assert held > 10


@pytest.mark.parametrize("kind", TINY)
def test_no_combination_of_times_exceeds_a_bound(kind: str) -> None:
    found = enumerated(TINY[kind], range(4), independent=8)
    assert not found.refused
    assert not found.failures, told(smallest(found.failures[0]))


@pytest.mark.parametrize("kind", ["equal", "staged", "fifo", "contention", "lists", "wakeups"])
def test_no_execution_with_tokens_exceeds_a_bound(kind: str) -> None:
    found = tokens.hunted(KINDS[kind], range(3), runs=6)
    assert not found.failures, min(found.failures, key=len)
    assert found.ratios["outside"]
    assert found.ratios["tokens"]


@pytest.mark.parametrize("kind", ["equal", "staged", "fifo", "contention", "lists", "wakeups"])
def test_bounds_of_readers_of_tokens_are_taken_apart(kind: str) -> None:
    for seed in range(3):
        made = tokens.random_readers(random.Random(seed), KINDS[kind])
        _hold_terms(made)


@pytest.mark.parametrize("kind", KINDS)
def test_terms_add_up_to_the_bound(kind: str) -> None:
    for seed in range(2):
        _hold_terms(random_program(random.Random(seed), replace(KINDS[kind], most_firings=12)))


def _hold_terms(made: TimedSystem) -> None:
    """Bounds that are taken apart are those of `worst_cases`, and the sums of their terms."""
    worst_case = worst_cases(made)
    for name, group in bounds(made).groups.items():
        assert group.response == worst_case.groups[name]
        if group.response is not None:
            assert sum(term.total for term in group.terms) == group.response
        for path, latency in zip(group.paths, worst_case.paths[name], strict=True):
            assert path.latency == latency
            if path.latency is not None:
                assert sum(term.total for term in path.terms) == path.latency


# -- the referee itself ----------------------------------------------------------------------------
def order(processor: str, *firings: tuple[str, int]) -> TimedWorker:
    """A worker of one app that fires tasks (app.task, stage) once each."""
    entries = []
    for task, stage in firings:
        entries.append(RoundFiring(task.partition(".")[0], task, 0, 0, stage))
    return TimedWorker(processor, tuple(entries))


def cpus(*names: str) -> tuple[TimedProcessor, ...]:
    return tuple(TimedProcessor(name, "fixed_priority", "core", "cpu") for name in names)


def worst(system: TimedSystem, **iterations: int) -> Run:
    """Everything at its worst."""
    return Run(iterations, {t.name: t.wcet for g in system.groups for t in g.tasks})


def row(app: str, *tasks: tuple[str, str, int]) -> tuple[tuple[TimedTask, ...], list[TimedChannel]]:
    """Tasks (name, processor, time) one behind the other."""
    made = tuple(TimedTask(f"{app}.{name}", place, (time,)) for name, place, time in tasks)
    return made, [TimedChannel(a.name, b.name) for a, b in pairwise(made)]


def test_an_end_lets_later_stages_come_earlier() -> None:
    """In each round `z` waits until `x` has fired, two iterations later. At the end there is no
    such `x`, and `low` is preempted by two iterations of `z`.
    """
    tasks, channels = row("H", ("s", "c", 1), ("x", "c", 10), ("y", "d", 5), ("z", "c", 10))
    high = TimedGroup("H", 100, tasks, tuple(channels), priority=1, offset=0)
    low = TimedGroup("L", 100, (TimedTask("L.low", "c", (20,)),), offset=0)
    workers = (
        order("c", ("H.s", 0)),
        order("c", ("H.z", 2), ("H.x", 0)),
        order("d", ("H.y", 1)),
        order("c", ("L.low", 0)),
    )
    made = TimedSystem((high, low), cpus("c", "d"), (), workers)
    assert play(made, worst(made, H=9, L=5)).responses["L"] == (41, 1)
    assert play(made, worst(made, H=5, L=5)).responses["L"] == (51, 4)
    # as at the end where a source says that there is no more data: it takes its time once more
    run = replace(worst(made, H=5, L=5), exhausted=True)
    assert play(made, run).responses["L"] == (41, 1)
    assert (worst_cases(made).groups["L"] or 0) >= 51


def test_the_first_round_may_be_the_worst() -> None:
    """`B.t` has nothing to do in the first round, so that `C.t` starts with the program, on an
    initial token, and `C.s` waits. Later `C.t` has ended before `C.s` is released.
    """
    ahead, channels = row("B", ("s", "d", 10), ("t", "c", 5))
    first = TimedGroup("B", 100, ahead, tuple(channels), priority=1, offset=0)
    tasks = (
        TimedTask("C.s", "c", (1,)),
        TimedTask("C.t", "c", (40,)),
        TimedTask("C.u", "c", (1,)),
    )
    arrows = (TimedChannel("C.s", "C.t", delay=1), TimedChannel("C.s", "C.u"))
    second = TimedGroup("C", 100, tasks, arrows, offset=0)
    processors = tuple(TimedProcessor(name, "static_order", "core", "cpu") for name in "cd")
    shared = order("c", ("B.t", 1), ("C.t", 0), ("C.s", 0), ("C.u", 0))
    made = TimedSystem((first, second), processors, (), (shared, order("d", ("B.s", 0))))
    assert play(made, worst(made, B=5, C=5)).responses["C"] == (42, 0)
    assert (worst_cases(made).groups["C"] or 0) >= 42


def test_what_ends_has_ended_before_anything_comes() -> None:
    high = TimedGroup("H", 10, (TimedTask("H.h", "c", (4,)),), priority=1, offset=0)
    low = TimedGroup("L", 20, (TimedTask("L.l", "c", (6,)),), offset=0)
    made = TimedSystem((high, low), cpus("c"), (), (order("c", ("H.h", 0)), order("c", ("L.l", 0))))
    assert play(made, worst(made, H=4, L=2)).responses == {"H": (4, 0), "L": (10, 0)}
    longer = replace(low, tasks=(TimedTask("L.l", "c", (7,)),))
    made = replace(made, groups=(high, longer))
    assert play(made, worst(made, H=4, L=2)).responses == {"H": (4, 0), "L": (15, 0)}


def test_kernels_queue_and_contention_slows_down() -> None:
    groups = (
        TimedGroup("A", 100, (TimedTask("A.a", "g", (3, 4)),), offset=0),
        TimedGroup("B", 100, (TimedTask("B.b", "g", (10,)),), offset=1),
        TimedGroup("C", 100, (TimedTask("C.c", "c", (30,)),), offset=0),
    )
    processors = (TimedProcessor("g", "fifo", "gpu", "gpu"), *cpus("c"))
    workers = (order("g", ("A.a", 0)), order("g", ("B.b", 0)), order("c", ("C.c", 0)))
    slow = Slowdown("cpu", "gpu", Fraction(3, 2))
    made = TimedSystem(groups, processors, (slow,), workers)
    seen = play(made, worst(made, A=1, B=1, C=1)).responses
    # 17 ns beside the GPU do 34/3 of the work
    assert seen == {"A": (17, 0), "B": (12, 0), "C": (17 + 30 - Fraction(34, 3), 0)}


def test_room_is_waited_for_and_a_deadlock_is_noticed() -> None:
    tasks, _ = row("A", ("s", "c", 1), ("t", "d", 30))
    full = TimedChannel("A.s", "A.t", capacity=1)
    path = TimedPath("A.s", "A.t", (0,))
    group = TimedGroup("A", 20, tasks, (full,), offset=0, paths=(path,))
    workers = (order("c", ("A.s", 0)), order("d", ("A.t", 0)))
    made = TimedSystem((group,), cpus("c", "d"), (), workers)
    seen = play(made, worst(made, A=3))
    # sources start at 0, 31 and 62, when the room is given back
    assert seen.responses == {"A": (93 - 40, 2)} and seen.latencies == {("A", 0): (93 - 40, 2)}
    stuck = replace(group, channels=(replace(full, consumed=(2,)),))
    with pytest.raises(Stuck):
        play(replace(made, groups=(stuck,)), worst(made, A=1))


@pytest.mark.parametrize("kind", ["alone", "shared", "staged", "orders", "contention-orders"])
def test_two_simulators_agree(kind: str) -> None:
    """Where there is nothing to choose: flowc's own simulation sees the same."""
    for seed in range(10):
        rng = random.Random(seed)
        made = random_program(rng, replace(KINDS[kind], priorities="distinct"))
        if _has_equals(made):
            continue
        horizon = 3 * max(int(g.period) for g in made.groups)
        run = worst(made, **{g.name: -(-horizon // int(g.period)) for g in made.groups})
        mine, other = play(made, run), simulate(made, horizon, Choices(), rng)
        assert {app: time for app, (time, _) in mine.responses.items()} == other.groups
        for group in made.groups:
            for number, path in enumerate(group.paths):
                latency = mine.latencies.get((group.name, number), (0, 0))[0]
                assert latency == other.paths.get((path.source, path.sink), 0)


def _has_equals(system: TimedSystem) -> bool:
    """Do workers share a processor that nothing decides between?"""
    ranks: list[tuple[str, int]] = []
    priority = {g.name: g.priority for g in system.groups}
    fixed = {p.name for p in system.processors if p.scheduler == "fixed_priority"}
    for w in system.workers:
        rank = priority[w.sequence[0].group] if w.processor in fixed else 0
        ranks.append((w.processor, rank))
    return len(set(ranks)) < len(ranks)


def test_a_failure_is_made_small_and_told_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bounds that forget who is more urgent, the smallest failure has two tasks."""

    def forgetful(system: TimedSystem) -> WorstCases:
        groups: dict[str, Fraction | None] = {}
        for g in system.groups:
            alone = tuple(w for w in system.workers if w.sequence[0].group == g.name)
            groups |= worst_cases(replace(system, groups=(g,), workers=alone)).groups
        nothing = {g.name: () for g in system.groups}
        return WorstCases(
            groups, {g.name: (None,) * len(g.paths) for g in system.groups}, dict(nothing)
        )

    monkeypatch.setattr(bound_failures, "worst_cases", forgetful)
    failures: list[Failure] = []
    for seed in range(20):
        made = random_program(random.Random(seed), KINDS["shared"])
        run = worst(made, **{g.name: 3 for g in made.groups})
        failure = bound_failures.failing(made, run)
        if failure is not None:
            failures.append(smallest(failure))
    assert failures
    assert min(_tasks(f.system) for f in failures) == 2
    shown = {**globals(), "Run": Run, "Fraction": Fraction}
    for failure in failures:
        assert eval(python_text(failure.system), shown) == failure.system
        assert "and its bound is" in told(failure)


def _tasks(system: TimedSystem) -> int:
    return sum(len(g.tasks) for g in system.groups)
