"""Threads that wake up late, by hand and against executions; random systems: test_bounds.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from flowc.analysis.timing.response_time import bounds, worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    RoundFiring,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedWorker,
    workers_of,
)
from flowc.model.workload import WorkloadCurve

from bound_failures import compared
from event_simulator import Run, play
from executions import hunting_runs
from random_programs import KINDS, random_program

LATE = 10
CPUS = {name: TimedProcessor(name, "fixed_priority", "core", "cpu", LATE) for name in "cd"}
GPU = TimedProcessor("g", "fifo", "gpu", "gpu", LATE)


def row(*places: str, time: int = 3) -> TimedSystem:
    """An app whose tasks follow each other on these processors."""
    tasks = tuple(TimedTask(f"A.t{n}", place, (time,)) for n, place in enumerate(places))
    channels = tuple(TimedChannel(a.name, b.name) for a, b in pairwise(tasks))
    path = TimedPath("A.t0", tasks[-1].name, (0,))
    group = TimedGroup("A", 1000, tasks, channels, offset=0, paths=(path,))
    used = tuple(p for p in (*CPUS.values(), GPU) if p.name in places)
    made = TimedSystem((group,), used)
    return replace(made, workers=workers_of(made))


def latest(system: TimedSystem, iterations: int = 3) -> Run:
    """All worst cases, and all threads as late as they can be."""
    of = {p.name: p.wakeup for p in system.processors}
    times = {t.name: t.phases or t.wcet for g in system.groups for t in g.tasks}
    wakeups = [(of[w.processor],) for w in system.workers]
    return Run({g.name: iterations for g in system.groups}, times, wakeups=wakeups)


@pytest.mark.parametrize(
    ("places", "slept"),
    [
        ("c", 1),
        ("ccc", 1),  # what follows on the same worker never waits
        ("cd", 2),
        ("cdc", 3),
        ("cg", 3),  # the thread of the GPU wakes up to begin, and to see the end
        ("cgc", 4),
    ],
)
def test_a_thread_is_late_once_for_each_time_that_it_sleeps(places: str, slept: int) -> None:
    system = row(*places)
    bound = 3 * len(places) + slept * LATE
    worst = worst_cases(system)
    assert worst.groups == {"A": bound} and worst.paths == {"A": (bound,)}
    assert play(system, latest(system)).responses["A"][0] == bound


def test_charts_show_threads_that_are_late() -> None:
    system = row("c", "d", "c")
    for execution, late in (("worst", 3 * LATE), ("best", 0)):
        choices = Choices(execution=execution)  # type: ignore[arg-type]
        timed = replace(system.groups[0], tasks=tuple(map(fixed, system.groups[0].tasks)))
        seen = simulate(replace(system, groups=(timed,)), 2000, choices, random.Random(0))
        assert seen.groups == {"A": 9 + late}


def fixed(task: TimedTask) -> TimedTask:
    """A task that always takes as long."""
    return replace(task, bcet=task.wcet)


def test_a_rival_has_the_processor_while_a_thread_wakes_up() -> None:
    """`low` is preempted by what `high` takes, and not by its lateness; but two of its firings may
    come closer together."""
    high = TimedGroup("H", 50, (TimedTask("H.h", "c", (20,)),), priority=1, offset=0)
    low = TimedGroup("L", 100, (TimedTask("L.l", "c", (25,)),), offset=0)
    system = TimedSystem((high, low), (CPUS["c"],))
    system = replace(system, workers=workers_of(system))
    assert worst_cases(system).groups == {"H": 30, "L": 10 + 20 + 25 + 20}
    run = replace(latest(system), wakeups=[(LATE, 0), (LATE,)])
    assert play(system, run).responses["L"][0] == 75


def test_times_with_a_curve_are_late_as_well() -> None:
    """A firing of three that is long: two firings on the GPU are known late twice."""
    curve = WorkloadCurve((9, 12, 15))
    tasks = (TimedTask("A.s", "c", (1,)), TimedTask("A.n", "g", (9,), firings=2, curve=curve))
    group = TimedGroup("A", 1000, tasks, (TimedChannel("A.s", "A.n", (2,), (1,)),), offset=0)
    assert worst_cases(TimedSystem((group,), (CPUS["c"], GPU))).groups == {"A": 11 + 10 + 12 + 20}


def test_terms_say_how_often_a_thread_is_late() -> None:
    terms = bounds(row("c", "c", "d")).groups["A"].terms
    assert [(t.who, t.total) for t in terms if t.kind == "wakeup"] == [("A.t0", 10), ("A.t2", 10)]
    assert sum(t.total for t in terms) == 29


def test_other_systems_have_no_such_terms() -> None:
    system = row("c", "d")
    on_time = replace(system, processors=tuple(replace(p, wakeup=0) for p in system.processors))
    assert {t.kind for t in bounds(on_time).groups["A"].terms} == {"own"}


def exceeded(kind: str, counted: Fraction) -> Iterator[str]:
    """Apps and paths of some random systems that take longer than bounds that count that much of
    the latencies."""
    small = replace(KINDS[kind], periods=(1200, 2400), most_firings=12)
    for seed in range(25):
        rng = random.Random(seed)
        system = random_program(rng, small)
        some = tuple(replace(p, wakeup=int(p.wakeup * counted)) for p in system.processors)
        worst = worst_cases(replace(system, processors=some))
        for run in hunting_runs(system, rng, 1):
            for app, path, time, bound in compared(play(system, run), worst):
                if bound is not None and time > bound:
                    yield f"{seed} {app} {path}"


@pytest.mark.parametrize("kind", ["wakeups-alone", "wakeups-orders"])
@pytest.mark.parametrize("counted", [Fraction(0), Fraction(3, 4)])
def test_bounds_that_count_less_are_exceeded(kind: str, counted: Fraction) -> None:
    assert next(exceeded(kind, counted), None) is not None


def test_the_first_firing_is_late_as_all_others() -> None:
    """An initial token is there when the program begins, and its reader sleeps until then."""
    tasks = (TimedTask("A.s", "c", (2,)), TimedTask("A.t", "d", (5,)))
    group = TimedGroup("A", 100, tasks, (TimedChannel("A.s", "A.t", delay=1),), offset=0)
    order = [TimedWorker(p, (RoundFiring("A", t, 0),)) for p, t in (("c", "A.s"), ("d", "A.t"))]
    system = TimedSystem((group,), tuple(CPUS.values()), workers=tuple(order))
    run = latest(system, 1)
    assert worst_cases(system).groups["A"] == LATE + 5 == play(system, run).responses["A"][0]
