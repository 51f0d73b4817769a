"""Bounds of paths against hand calculations and simulations, and the orders that they suppose
against those of programs.

That no simulation of random systems exceeds them is in test_response_time.py: its systems have
paths.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.dataflow.check import check
from flowc.analysis.dataflow.dependence import newest
from flowc.analysis.dataflow.graph import graph_of
from flowc.analysis.dataflow.liveness import Execution
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.static_order import schedule
from flowc.analysis.timing.response_time import bounds, worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    Refused,
    TimedChannel,
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    iteration_sequence,
    needs,
)
from flowc.model.application import Application, PathDeadline
from flowc.model.times import AppTimes
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import systems

SEEDS = st.integers(0, 2**32)
CPU = TimedProcessor("c", "fixed_priority", "cpu")
CPU2 = TimedProcessor("d", "fixed_priority", "cpu")


def spotting(
    *processors: str, deadline: int | None = None, delay: int = 0, jitter: int = 0
) -> TimedGroup:
    """512 samples every 32 ms, windows of 160 of them, a decision after 8 windows: all firings take
    1 ms."""
    names = ("mic", "frame", "net", "log")
    tasks = tuple(
        TimedTask(n, p, (1,), (), q)
        for n, p, q in zip(names, processors, (5, 16, 2, 2), strict=True)
    )
    channels = (
        TimedChannel("mic", "frame", (512,), (160,)),
        TimedChannel("frame", "net", (1,), (8,), delay),
        TimedChannel("net", "log"),
    )
    behind = (-6, -3) if delay == 24 else (2, 4)
    return TimedGroup(
        "K", 160, tasks, channels, None, 1, jitter, 0, (TimedPath("mic", "log", behind, deadline),)
    )


def seen(made: TimedSystem, **choices: object) -> dict[tuple[str, str], object]:
    return dict(simulate(made, 2000, Choices(**choices), random.Random(0)).paths)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheduler", ["fixed_priority", "static_order", "fifo"])
def test_a_path_through_several_rates_takes_a_few_milliseconds(scheduler: str) -> None:
    """The second decision hears the fifth firing of the microphone: that, 4 windows, the network,
    the log."""
    made = TimedSystem((spotting("c", "c", "c", "c"),), (TimedProcessor("c", scheduler),))  # type: ignore[arg-type]
    found = worst_cases(made)
    assert found.paths == {"K": (7,)} and found.groups == {"K": 135}
    assert seen(made) == {("mic", "log"): 7}
    split = TimedSystem(
        (spotting("c", "d", "d", "c"),),
        (replace(CPU, scheduler=scheduler), replace(CPU2, scheduler=scheduler)),
    )  # type: ignore[type-var]
    assert worst_cases(split).paths == {"K": (7,)} and seen(split) == {("mic", "log"): 7}


def test_a_rival_takes_its_time_from_a_path_once() -> None:
    """The rival comes once in 160 ms, at the worst just when the fifth firing is released."""
    rival = TimedGroup("R", 160, (TimedTask("r", "c", (9,)),), (), None, 2)
    made = TimedSystem((spotting("c", "c", "c", "c", deadline=16), rival), (CPU,))
    found = bounds(made).groups["K"]
    assert found.paths[0].latency == 16 and found.schedulable
    assert seen(made, offsets={"R": 128})["mic", "log"] == 16
    assert sum(t.total for t in found.paths[0].terms) == 16
    assert [(t.who, t.times, t.total) for t in found.paths[0].terms if t.kind == "higher"] == [
        ("r", 1, 9)
    ]
    late = replace(made, groups=(spotting("c", "c", "c", "c", deadline=15), rival))
    assert not bounds(late).groups["K"].schedulable and bounds(late).groups["K"].deadline is None


def test_data_of_an_earlier_iteration() -> None:
    """Behind 24 windows, the first decision of an iteration hears what was recorded 192 ms before
    its release.

    It comes as soon as the work before it is done, which is late in the iteration before. Only in
    the first iteration, on initial tokens, the decisions come after its release.
    """
    made = TimedSystem((spotting("c", "c", "c", "c", delay=24),), (CPU,))
    (latency,) = worst_cases(made).paths["K"]
    assert latency == seen(made)["mic", "log"] == 192 + 1 + 1 - (160 - 133)


@pytest.mark.parametrize("offset", [0, None])
def test_data_that_come_before_their_release(offset: int | None) -> None:
    """Behind two initial tokens, `k` works as soon as `s` has ended, two periods before its own
    release. A rival, released with it, takes its time once; the first firings have no latency."""
    s, k, r = TimedTask("s", "c", (6,)), TimedTask("k", "d", (1,)), TimedTask("r", "d", (3,))
    path = TimedPath("s", "k", (-2,), 15)
    app = TimedGroup("A", 30, (s, k), (TimedChannel("s", "k", delay=2),), paths=(path,))
    rival = TimedGroup("R", 30, (r,), priority=1)
    for rivals, latency in ((), 7), ((rival,), 7 if offset == 0 else 10):
        groups = tuple(replace(g, offset=offset) for g in (app, *rivals))
        made = TimedSystem(groups, (CPU, replace(CPU, name="d")))
        found = bounds(made).groups["A"]
        assert worst_cases(made).paths["A"] == (latency,) and found.schedulable
        assert sum(term.total for term in found.paths[0].terms) == latency
        assert latency >= seen(made)["s", "k"]


def test_late_releases_make_data_of_earlier_iterations_older() -> None:
    a, b = TimedTask("a", "c", (1,)), TimedTask("b", "c", (2,))
    path = TimedPath("a", "b", (-1,))
    made = TimedGroup("A", 20, (a, b), (TimedChannel("a", "b", delay=1),), None, 0, 5, 0, (path,))
    for jitter in (0, 5):
        late = TimedSystem((replace(made, jitter=jitter),), (CPU,))
        (bound,) = worst_cases(late).paths["A"]
        assert bound == 20 + jitter + 3
        latest = max(
            simulate(late, 400, Choices(lateness="random"), random.Random(n)).paths["a", "b"]
            for n in range(30)
        )
        assert 20 <= latest <= bound


def test_without_a_bound_of_an_iteration_there_is_none_of_its_paths() -> None:
    made = TimedGroup("A", 10, (TimedTask("a", "c", (11,)),), (), None, 0, 0, 0, ())
    fed = replace(
        made,
        tasks=(TimedTask("a", "c", (1,)), TimedTask("b", "c", (11,))),
        channels=(TimedChannel("a", "b"),),
    )
    fed = replace(fed, paths=(TimedPath("a", "b", (0,), 50),))
    assert worst_cases(TimedSystem((fed,), (CPU,))).paths == {"A": (None,)}
    assert not bounds(TimedSystem((fed,), (CPU,))).groups["A"].schedulable


def test_with_patience_a_late_path_is_still_late() -> None:
    rival = TimedGroup("R", 30, (TimedTask("r", "c", (20,)),), (), None, 2)
    made = TimedSystem((spotting("c", "c", "c", "c", deadline=12), rival), (CPU,))
    (bound,) = worst_cases(made, patience=Fraction(1)).paths["K"]
    assert bound is None or bound > 12


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            TimedPath("frame", "log", (0, 0)),
            "the path from `frame` to `log` has no source or no end",
        ),
        (TimedPath("mic", "lag", (0, 0)), "the path from `mic` to `lag` has no source or no end"),
        (
            TimedPath("mic", "log", (0,)),
            "the path from `mic` to `log` does not say which data its firings depend on",
        ),
        (
            TimedPath("mic", "log", (0, 5)),
            "the path from `mic` to `log` does not say which data its firings depend on",
        ),
        (
            TimedPath("mic", "log", (2, 4), 0),
            "the deadline of the path from `mic` to `log` is 0, not above 0",
        ),
    ],
)
def test_faulty_paths_are_named(path: TimedPath, words: str) -> None:
    made = TimedSystem((replace(spotting("c", "c", "c", "c"), paths=(path,)),), (CPU,))
    with pytest.raises(Refused) as refused:
        worst_cases(made)
    assert refused.value.faults == (words,)


# -- programs, and what `check` says of them -------------------------------------------------------
def group_of(
    app: Application, vector: dict[str, int], wcet: dict[str, Fraction], processor: str
) -> TimedGroup:
    """The app on one processor."""
    assert app.period_ns is not None
    rates = {(t.name, p.name): p.rates for t in app.tasks for p in (*t.inputs, *t.outputs)}
    return TimedGroup(
        app.name,
        app.period_ns,
        tuple(TimedTask(t.name, processor, (wcet[t.name],), (), vector[t.name]) for t in app.tasks),
        tuple(
            TimedChannel(c.source, c.destination, rates[c.source, c.source_port],
                         rates[c.destination, c.destination_port], c.delay)
            for c in app.channels
        ),
        app.deadline_ns,
        offset=0,
        paths=tuple(
            TimedPath(p.source, p.sink, newest(app, vector, p.source)[p.sink], p.deadline_ns) for p in app.paths
        ),
    )  # fmt: skip


def paced(seed: int) -> tuple[Application, dict[str, int], dict[str, Fraction]] | None:
    """A random app whose sources fire several times in an iteration, and which one processor can
    keep up with."""
    rng = random.Random(seed)
    app, _ = graphs.consistent(rng, most_tasks=5)
    vector = repetition(app).vector
    sources = [t.name for t in app.tasks if not t.inputs]
    if (
        not Execution(graph_of(app, vector)).run()
        or all(vector[s] == 1 for s in sources)
        or sum(vector.values()) > 60
    ):
        return None
    wcet = {t.name: Fraction(rng.randint(1, 6)) for t in app.tasks}
    work = sum(wcet[name] * q for name, q in vector.items())
    ways = [(s, sink) for s in sources for sink in newest(app, vector, s)]
    # windows end where there is time left
    period = work * rng.choice((Fraction(5, 4), Fraction(3, 2), 4))
    chosen = rng.sample(ways, min(2, len(ways)))
    deadlines = tuple(
        PathDeadline(s, sink, Fraction(rng.randint(1, int(2 * period))), app.span)
        for s, sink in chosen
    )
    return replace(app, period_ns=period, paths=deadlines), vector, wcet


@settings(max_examples=150)
@given(SEEDS)
def test_the_orders_that_are_bounded_are_those_of_the_program(seed: int) -> None:
    found = paced(seed)
    if found is None:
        return
    app, vector, wcet = found
    try:
        made = group_of(app, vector, wcet, "c")
        needs(made)
    except StopIteration:
        return
    (order,) = schedule(
        [app], {app.name: vector}, {t.name: ("c",) for t in app.tasks}, {}
    ).orders.values()
    program = [(s.task, k) for s in order for k in range(s.first, s.first + s.times)]
    assert iteration_sequence(made) == program


@settings(max_examples=150)
@given(SEEDS)
def test_where_check_says_that_one_processor_is_enough_it_is(seed: int) -> None:
    """By the bounds of `map` and in a simulation. A graph has no bound where no period paces some
    task."""
    found = paced(seed)
    if found is None:
        return
    app, vector, wcet = found
    verdicts, told = check(app, AppTimes({name: (ns,) for name, ns in wcet.items()}, "wcet"))
    made = TimedSystem((group_of(app, vector, wcet, "c"),), (CPU,))
    try:
        worst = bounds(made).groups[app.name]
    except Refused:
        return
    held = (
        simulate(made, 12 * app.period_ns, Choices(), random.Random(seed)).paths
        if app.period_ns
        else {}
    )
    late = [p for p in app.paths if held.get((p.source, p.sink), 0) > p.deadline_ns]
    if verdicts.schedulable.holds:
        assert worst.schedulable and not late
    if "F216" in [d.code for d in told]:
        assert not worst.schedulable and late


def test_random_systems_have_paths_of_all_kinds() -> None:
    """What the hunt for exceeded bounds looks at."""
    made = [g for seed in range(60) for g in systems.random_system(random.Random(seed)).groups]
    paths = [p for g in made for p in g.paths]
    assert any(p.deadline is not None for p in paths) and any(len(set(p.newest)) > 1 for p in paths)
    assert any(min(p.newest) < 0 for p in paths) and any(g.jitter and g.paths for g in made)
