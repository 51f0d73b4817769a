"""Response-time bounds against published answers, hand calculations and simulations that look for
the worst."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.dataflow.repetition import repetition
from flowc.analysis.dataflow.static_order import schedule
from flowc.analysis.timing import by_windows, response_time
from flowc.analysis.timing.busy_window import EventStream
from flowc.analysis.timing.by_streams import StreamSolver
from flowc.analysis.timing.response_time import bounds, worst_cases, worst_cases_in_time
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    Refused,
    RoundFiring,
    Slowdown,
    Time,
    TimedChannel,
    TimedGroup,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    TimedTrigger,
    TimedWorker,
    iteration_sequence,
    utilization,
)
from flowc.analysis.timing.unfolding import unfold
from flowc.model.application import Application
from flowc.model.workload import workload
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphs
import slow
import systems
from paper_bounds import paper_4_2, paper_5_3, paper_5_4, paper_response_times
from workers import workers_from

SEEDS = st.integers(0, 2**32)
CPU = TimedProcessor("c", "fixed_priority", "cpu")
CPU2 = TimedProcessor("d", "fixed_priority", "cpu")
GPU = TimedProcessor("g", "fifo", "gpu")


def task(name: str, processor: str, *wcet: Time, best: Time = 0, firings: int = 1) -> TimedTask:
    return TimedTask(name, processor, wcet, (best, *(0 for _ in wcet[1:])) if best else (), firings)


def group(
    name: str, period: Time, *tasks: TimedTask, arrows: str = "", **more: object
) -> TimedGroup:
    """`arrows` such as "a b, b c" are channels of rate 1."""
    channels = tuple(TimedChannel(*arrow.split()) for arrow in arrows.split(", ") if arrow)
    return TimedGroup(name, period, tasks, channels, **more)  # type: ignore[arg-type]


def system(
    *groups: TimedGroup, processors: tuple[TimedProcessor, ...] = (CPU, CPU2, GPU)
) -> TimedSystem:
    return TimedSystem(groups, processors)


def response_times(
    made: TimedSystem, patience: Fraction | None = None
) -> dict[str, Fraction | None]:
    return worst_cases(made, patience=patience).groups


def seen(made: TimedSystem, horizon: Time = 1000, **choices: object) -> dict[str, Time]:
    """Responses of the groups in one simulation, everything at its worst."""
    return simulate(made, horizon, Choices(**choices), random.Random(0)).groups  # type: ignore[arg-type]


PYCPA = system(
    group(
        "A",
        30,
        task("T11", "c", 10, best=5),
        task("T21", "d", 2, best=2),
        arrows="T11 T21",
        priority=2,
        jitter=5,
    ),
    group(
        "B",
        15,
        task("T12", "c", 3, best=1),
        task("T22", "d", 9, best=4),
        arrows="T12 T22",
        priority=1,
        jitter=6,
    ),
)
LEHOCZKY = system(
    group("A", 70, task("a", "c", 26), priority=2), group("B", 100, task("b", "c", 62), priority=1)
)


def test_two_processors_with_published_response_times() -> None:
    found = bounds(PYCPA).tasks
    assert [found[t].response for t in ("T11", "T12", "T21", "T22")] == [10, 13, 2, 19]
    assert [found[t].jitter for t in ("T11", "T12", "T21", "T22")] == [5, 6, 10, 18]


def test_responses_longer_than_the_period() -> None:
    """Lehoczky 1990: 114, 102, 116, 104, 118, 106, 94 are the responses of the first busy
    period."""
    assert response_times(LEHOCZKY) == {"A": 26, "B": 118} == seen(LEHOCZKY)
    late = replace(LEHOCZKY, groups=(LEHOCZKY.groups[0], replace(LEHOCZKY.groups[1], deadline=118)))
    assert bounds(late).groups["B"].schedulable and not bounds(LEHOCZKY).groups["B"].schedulable


TWO_AND_GPU = (TimedProcessor("x", "fixed_priority"), TimedProcessor("y", "fixed_priority"), GPU)


def _there_and_back(name: str, offset: Time | None) -> TimedGroup:
    """GPU, a CPU of that name, GPU."""
    tasks = task(name + "1", "g", 3), task(name + "2", name, 2), task(name + "3", "g", 4)
    return group(name, 30, *tasks, arrows=f"{name}1 {name}2, {name}2 {name}3", offset=offset)


def test_a_bound_is_taken_apart() -> None:
    found = bounds(LEHOCZKY).tasks["b"]
    assert [(t.kind, t.who, t.times, t.each) for t in found.terms] == [
        ("own", "b", 1, 62),
        ("earlier", "b", 4, 62),
        ("higher", "a", 8, 26),
    ]
    assert found.window == 518 and found.start == -400 and found.after == "release"
    whole = bounds(PYCPA).groups["B"]
    assert whole.path == ("T12", "T22") and sum(t.total for t in whole.terms) == whole.response


def test_a_bound_over_a_whole_path_is_taken_apart() -> None:
    """Both take the GPU twice; each meets all of the other's work once."""
    made = system(_there_and_back("x", 0), _there_and_back("y", 0), processors=TWO_AND_GPU)
    found = bounds(made).groups["x"]
    assert [(t.kind, t.who, t.times, t.total) for t in found.terms] == [
        ("own", "x1", 1, 3),
        ("own", "x2", 1, 2),
        ("own", "x3", 1, 4),
        ("queue", "y3", 1, 4),
        ("queue", "y1", 1, 3),
    ]


def test_what_the_end_waits_for_comes_first() -> None:
    """Of two readers on a core, the one with a long way to go behind it; data decide where they
    have to."""
    made = group(
        "A",
        100,
        task("a", "c", 1),
        task("save", "c", 9),
        task("b", "c", 2),
        task("d", "d", 8),
        arrows="a save, a b, b d",
    )
    assert [t for t, _ in iteration_sequence(made)] == ["a", "b", "save", "d"]
    assert response_times(system(made)) == {"A": 12} == seen(system(made))


def test_late_releases_let_activations_meet() -> None:
    made = system(group("A", 10, task("a", "c", 6), jitter=6))
    assert response_times(made) == {"A": 8} == seen(made, lateness="first")


def test_jitter_of_a_rival_counts() -> None:
    """Its release is up to 9 late and the next one on time: it comes twice in 11."""
    made = system(
        group("A", 20, task("a", "c", 5), priority=2, jitter=15),
        group("B", 100, task("b", "c", 5), priority=1),
    )
    assert response_times(made)["B"] == 15 == seen(made, lateness="first", offsets={"B": 15})["B"]


@pytest.mark.parametrize("patience", [None, Fraction(100)])
def test_windows_that_meet_too_much_are_given_up(
    patience: Fraction | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds by streams remain: they are never below those by both."""
    made, same = (systems.random_system(random.Random(1)) for _ in range(2))
    both = response_times(made, patience)
    monkeypatch.setattr(by_windows, "MOST_MEETINGS", 0)
    response_time._without_patience.cache_clear()
    by_streams = response_times(same, patience)
    response_time._without_patience.cache_clear()
    for name, response in by_streams.items():
        tighter = both[name]
        assert tighter is not None and (response is None or response >= tighter)
    assert by_streams != both


def test_equal_priorities_wait_for_each_other() -> None:
    made = system(group("A", 10, task("a", "c", 4)), group("B", 10, task("b", "c", 4)))
    assert response_times(made) == {"A": 8, "B": 8}
    assert seen(made, against="A")["A"] == 8 == seen(made, against="B")["B"]


def test_work_that_takes_no_time_waits_for_its_turn() -> None:
    """One firing comes when the one before ends, and may go first: both are waited for (and one
    unit of time)."""
    tasks = task("s", "d", 118, best=118, firings=2), task("a", "c", 57, best=57, firings=3)
    made = system(
        TimedGroup("A", 350, tasks, (TimedChannel("s", "a", (3,), (2,)),)),
        group("B", 600, task("b", "c", 0)),
    )
    assert seen(made, 300, offsets={"B": 293}, against="B")["B"] == 114
    assert response_times(made)["B"] == 114 + Fraction(1, 3)


def test_own_earlier_work_keeps_an_equal_waiting() -> None:
    """While a1 runs, two activations of the equal collect, and both run before a3."""
    made = system(
        group(
            "A",
            100,
            task("a1", "c", 10),
            task("a2", "g", 1),
            task("a3", "c", 1),
            arrows="a1 a2, a2 a3",
        ),
        group("B", 6, task("b", "c", 2)),
    )
    observed = simulate(made, 100, Choices({"B": 1}), random.Random(0))
    assert (observed.ends["a3"], observed.tasks["a3"]) == (17, 6)
    assert bounds(made).tasks["a3"].end >= 17 and bounds(made).tasks["a3"].response >= 6
    elsewhere = replace(made.groups[0], tasks=(task("a1", "d", 10), *made.groups[0].tasks[1:]))
    assert bounds(replace(made, groups=(elsewhere, made.groups[1]))).tasks["a3"].response == 3


def test_own_earlier_rounds_keep_an_equal_waiting() -> None:
    """a3 of a late round runs until just before the next release, and two activations of the equal
    have collected."""
    own = group(
        "A",
        41,
        task("a1", "c", 1),
        task("a2", "g", 1),
        task("a3", "c", 10),
        arrows="a1 a2, a2 a3",
        jitter=28,
    )
    made = system(own, group("B", 6, task("b", "c", 2)))
    assert (
        simulate(made, 80, Choices({"B": 1}, lateness="first"), random.Random(0)).tasks["a1"] >= 5
    )
    solver = StreamSolver(unfold(made))
    solver.solve()
    (first,) = (j for j, job in enumerate(solver.net.jobs) if (job.group, job.task) == (0, 0))
    rivals = solver.rivals(solver.net.lanes[solver.net.jobs[first].worker].cluster)
    assert solver.stretch([first], rivals[solver.net.jobs[first].worker]).window >= 5


def test_fifo_lets_one_sub_task_of_each_rival_ahead() -> None:
    """Three own kernels wait for three of five at most, for one if the rival has one; for the
    longest ones."""
    own = group("A", 200, task("a", "g", 1, 1, 1))
    five = group("B", 200, task("b", "g", 10, 9, 8, 7, 6))
    assert response_times(system(own, group("B", 200, task("b", "g", 10))))["A"] == 13
    made = system(own, five)
    assert response_times(made)["A"] == 30 == seen(made, against="A")["A"]
    (term,) = (t for t in bounds(made).tasks["a"].terms if t.kind == "queue")
    assert (term.who, term.times, term.total) == ("B", 3, 27)


def test_fifo_counts_what_can_come() -> None:
    """More own kernels than the rival has in all: the rival's period limits."""
    made = system(group("A", 200, task("a", "g", *[1] * 20)), group("B", 200, task("b", "g", 5, 5)))
    assert response_times(made)["A"] == 30 == seen(made, against="A")["A"]


def test_a_rival_without_bound_disturbs_a_queue_and_stops_a_processor() -> None:
    """On a FIFO processor it has one kernel in the queue, whatever it does."""
    wild = group("W", 10, task("w", "g", 6), task("v", "d", 11), priority=3)
    calm = group("A", 50, task("a", "g", 2), task("b", "c", 3), arrows="a b")
    low = group("L", 100, task("l", "d", 1))
    found = bounds(system(wild, calm, low))
    assert found.groups["W"].response is None and found.groups["L"].response is None
    assert "`d` is overloaded: 1.1 of its time is wanted" in found.groups["W"].reason
    assert "`d` is overloaded" in found.groups["L"].reason
    assert found.groups["A"].response == 11


def test_a_join_waits_for_the_latest() -> None:
    made = system(
        group(
            "A",
            100,
            task("a", "c", 1),
            task("b", "d", 7),
            task("c", "g", 4),
            task("e", "c", 2),
            arrows="a b, a c, b e, c e",
        )
    )
    found = bounds(made)
    assert found.groups["A"].response == 10 == seen(made)["A"]
    assert found.groups["A"].path == ("a", "b", "e")
    assert found.tasks["e"].after == "b" and found.tasks["e"].start == 8


def test_several_firings_come_as_a_burst() -> None:
    """Four firings behind one: their worker takes them one after the other, and a lower group waits
    for all."""
    burst = TimedGroup(
        "A",
        100,
        (task("a", "d", 1), task("b", "c", 3, firings=4)),
        (TimedChannel("a", "b", (4,), (1,)),),
        priority=1,
    )
    made = system(burst, group("B", 100, task("z", "c", 5)))
    assert (
        response_times(made)
        == {"A": 13, "B": 17}
        == {"A": 13, "B": seen(made, offsets={"B": 1})["B"]}
    )


def test_firings_of_a_source_are_spread() -> None:
    """Released every 25, so only one is in the way of a short job."""
    made = system(
        group("A", 100, task("a", "c", 3, firings=4), priority=1),
        group("B", 100, task("b", "c", 5)),
    )
    assert response_times(made) == {"A": 78, "B": 8} == seen(made)


def test_firings_of_a_late_source_come_close_to_the_next_ones() -> None:
    """The last firing of a late iteration is released at 90, the first of the next one at 100."""
    made = system(
        group("A", 100, task("a", "c", 3, firings=4), priority=1, jitter=15),
        group("B", 100, task("b", "c", 8)),
    )
    assert (
        response_times(made)["B"] == 14 == seen(made, 300, lateness="first", offsets={"B": 90})["B"]
    )


def test_room_is_waited_for() -> None:
    """With room for one token the second firing of `a` starts when the first of `b` ends."""
    channel = TimedChannel("a", "b", (2,), (1,), 0, 2)
    source = TimedChannel("s", "a", (2,), (1,))
    made = TimedSystem(
        (
            TimedGroup(
                "A",
                100,
                (task("s", "c", 1), task("a", "c", 1, firings=2), task("b", "d", 10, firings=4)),
                (source, channel),
            ),
        ),
        (CPU, CPU2),
    )
    assert response_times(made)["A"] == 43 == seen(made)["A"]
    roomy = replace(
        made, groups=(replace(made.groups[0], channels=(source, replace(channel, capacity=None))),)
    )
    assert response_times(roomy)["A"] == 42 == seen(roomy)["A"]


def test_initial_tokens_carry_over_iterations() -> None:
    """`b` works on the iteration before: the response is that of `a` and of `b` apart."""
    made = system(
        TimedGroup(
            "A", 10, (task("a", "c", 8), task("b", "d", 9)), (TimedChannel("a", "b", delay=1),)
        )
    )
    assert response_times(made)["A"] == 9 >= seen(made)["A"]
    behind = system(
        TimedGroup("A", 10, (task("a", "c", 8), task("b", "d", 9)), (TimedChannel("a", "b"),))
    )
    assert response_times(behind)["A"] == 17 == seen(behind)["A"]


def test_late_data_of_the_iteration_before() -> None:
    """The first release is 6 late, so its data is there 4 after the second one. The task in front
    of the delay ends an iteration as well: the second one 12 after its release, since it waits."""
    made = system(
        TimedGroup(
            "A",
            10,
            (task("a", "c", 8), task("b", "d", 1)),
            (TimedChannel("a", "b", delay=1),),
            jitter=6,
        )
    )
    assert seen(made, 20, lateness="first")["A"] == 12 <= bounds(made).groups["A"].response
    assert bounds(made).tasks["b"].end >= 5


def test_data_can_be_there_long_before() -> None:
    """At the start there is data for several firings: the task is activated long before its
    iteration's release."""
    tasks = (task("a", "c", 235), task("b", "d", 12), task("e", "g", 240), task("f", "g", 1))
    channels = (
        TimedChannel("a", "b", delay=2),
        TimedChannel("b", "e"),
        TimedChannel("b", "f", delay=1),
    )
    made = system(TimedGroup("A", 450, tasks, channels))
    observed = simulate(made, 4000, Choices({"A": 449}), random.Random(0))
    assert observed.tasks["f"] > 900
    assert observed.tasks["f"] <= bounds(made).tasks["f"].response
    order = (
        TimedWorker("c", (RoundFiring("A", "b", 0), RoundFiring("A", "s", 0))),
        TimedWorker("d", (RoundFiring("A", "a", 0),)),
    )
    tasks = (task("a", "d", 77), task("b", "c", 130), task("s", "c", 1))
    made = replace(
        system(TimedGroup("A", 500, tasks, (TimedChannel("a", "b", delay=2),))), workers=order
    )
    observed = simulate(made, 4000, Choices({"A": 490}), random.Random(0))
    assert 600 < observed.tasks["b"] <= bounds(made).tasks["b"].response


def test_a_cycle_with_a_token_is_bounded() -> None:
    arrows = (TimedChannel("s", "a"), TimedChannel("a", "b"), TimedChannel("b", "a", delay=1))
    made = system(
        TimedGroup("A", 20, (task("s", "c", 1), task("a", "c", 5), task("b", "d", 6)), arrows)
    )
    assert response_times(made)["A"] == 12 == seen(made)["A"]


def test_a_path_pays_a_rare_rival_once() -> None:
    """Window by window, each of three visits to the processor would wait for the rival: 3 x 10 +
    8."""
    rare = group("R", 1000, task("r", "c", 10), priority=1)
    names = [("a", "c"), ("b", "d"), ("e", "c"), ("f", "d"), ("h", "c")]
    made = group("A", 25, *(task(n, p, 1) for n, p in names), arrows="a b, b e, e f, f h")
    found = bounds(system(rare, made))
    assert (
        found.groups["A"].response == 15 and found.tasks["h"].capped and not found.tasks["a"].capped
    )
    assert max(seen(system(rare, made), offsets={"R": n})["A"] for n in range(5)) == 15


def test_contention_costs_the_time_that_the_other_is_busy() -> None:
    """Half of the 4 in which the GPU runs is lost; if it never rests, all takes twice as long."""
    rare = system(group("A", 100, task("a", "c", 10)), group("B", 100, task("b", "g", 4)))
    rare = replace(rare, slowdowns=(Slowdown("cpu", "gpu", Fraction(2)),))
    assert response_times(rare)["A"] == 12 == seen(rare)["A"]
    often = replace(rare, groups=(rare.groups[0], group("B", 4, task("b", "g", 4))))
    assert response_times(often)["A"] == 20 == seen(often)["A"]
    (term,) = (t for t in bounds(often).tasks["a"].terms if t.kind == "contention")
    assert (term.who, term.total) == ("gpu", 10)
    slowed = replace(
        system(
            *rare.groups,
            group("C", 4, task("e", "d", 4)),
            processors=(CPU, GPU, TimedProcessor("d", "fifo", "dla")),
        ),
        slowdowns=(Slowdown("cpu", "gpu", Fraction(2)), Slowdown("gpu", "dla", Fraction(2))),
    )
    # the GPU is slowed down itself, and busy for 8
    assert response_times(slowed)["A"] == 14 == seen(slowed)["A"]
    own = replace(rare, slowdowns=(Slowdown("cpu", "cpu", Fraction(2)),))
    assert response_times(own)["A"] == 10  # a processor does not slow itself down


HOST = (TimedProcessor("p", "static_order", "cpu"), TimedProcessor("q", "static_order", "cpu"))


def test_static_order_of_two_groups() -> None:
    """p: A0 B0 A1 A2 B1 B2 (periods 20 and 30 in 60); no task preempts, so B waits for its turn."""
    made = TimedSystem((group("A", 20, task("a", "p", 8)), group("B", 30, task("b", "p", 9))), HOST)
    assert response_times(made) == {"A": 8, "B": 17} == seen(made)
    first = replace(made, groups=(made.groups[0], replace(made.groups[1], priority=1)))
    assert response_times(first) == {"A": 17, "B": 9} == seen(first)


def test_static_orders_of_a_program() -> None:
    """The orders that programs are generated from; the second processor works on an earlier
    iteration."""
    app = graphs.app(
        [graphs.task("A.a", {}, {"o": [1]}), graphs.task("A.b", {"i": [1]}, {})],
        [("A.a", "o", "A.b", "i", 0)],
    )
    app = replace(app, period_ns=Fraction(10), deadline_ns=Fraction(30))
    made = TimedSystem(
        (group("A", 10, task("A.a", "p", 7), task("A.b", "q", 8), arrows="A.a A.b"),),
        HOST,
        (),
        _workers(app, 0.0),
    )
    assert response_times(made) == {"A": 15} == seen(made)
    lagging = replace(made, workers=_workers(app, 31.0))
    assert any(p.stage for w in lagging.workers for p in w.sequence)
    # The capacities of a pipelined program let it start as soon as data is there.
    assert response_times(lagging) == {"A": 15} == seen(lagging)


def _workers(app: Application, work: float) -> tuple[TimedWorker, ...]:
    placement = {"A.a": ("p",), "A.b": ("q",)}
    return workers_from(schedule([app], {"A": repetition(app).vector}, placement, {"A.a": work}))


def test_replicas_are_refused() -> None:
    app = graphs.app([graphs.task("A.a", {}, {})], [])
    with pytest.raises(Refused, match="alternate between processors"):
        workers_from(schedule([app], {"A": {"A.a": 1}}, {"A.a": ("p", "q")}, {}))


FAULTY = [
    (group("A", 0, task("a", "c", 1)), "period of `A` is 0"),
    (group("A", 10, task("a", "c", 1), jitter=-1), "jitter of `A` is -1"),
    (group("A", 10, task("a", "c", 1), deadline=0), "deadline of `A` is 0"),
    (group("A", 10, task("a", "c", 1), offset=-1), "offset of `A` is -1"),
    (group("A", 10, task("a", "x", 1)), "`x`, which is no processor"),
    (group("A", 10, task("a", "c", 1, best=2)), "best-case times of `a`"),
    (group("A", 10, task("a", "c")), "no execution time"),
    (group("A", 10, task("a", "c", 1), task("a", "c", 1)), "same name"),
    (group("A", 10, task("a", "c", 1), arrows="a b"), "`b`, which is no task"),
    (TimedGroup("A", 10, (task("a", "c", 1), task("b", "c", 1)), (TimedChannel("a", "b", (2,)),)), "makes 2 tokens"),
    (TimedGroup("A", 10, (task("a", "c", 1), task("b", "c", 1)), (TimedChannel("a", "b", delay=2, capacity=1),)), "capacity 1"),
    (group("A", 10, task("a", "c", 1), task("b", "c", 1), arrows="a b, b a"), "no source paces a, b"),
    (group("A", 10, task("s", "c", 1), task("a", "c", 1), task("b", "c", 1), arrows="s a, a b, b a"), "wait for each other"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "words"), FAULTY)
def test_faults_are_named(made: TimedGroup, words: str) -> None:
    with pytest.raises(Refused, match=words):
        response_times(system(made))


def test_a_writer_takes_no_time_from_the_reader_of_its_token() -> None:
    """With either priority, each iteration of a reader follows that of its writer. A firing of the
    writer behind the token still counts."""
    for writing, taking in itertools.product((1, 2), repeat=2):
        first = group("A", 10, task("a", "c", 4), priority=writing)
        second = replace(reading("B", "A", "a"), priority=taking)
        assert response_times(system(first, second)) == {"A": 4, "B": 1}
        longer = group(
            "A", 10, task("a", "c", 3), task("z", "c", 1), arrows="a z", priority=writing
        )
        expected = {"A": 4 + (taking >= writing), "B": 1 + (writing >= taking)}
        assert response_times(system(longer, second)) == expected


def test_a_writer_that_works_for_the_next_token_delays_its_reader() -> None:
    """The token of an iteration that ends at 9 meets the next one, released at 10: 8 in all. The
    bound also lets tokens follow each other closely, after 1."""
    first = group("A", 10, task("s", "d", 4), task("a", "c", 5), arrows="s a", priority=2)
    second = replace(reading("B", "A", "a"), tasks=(task("b", "c", 3),), priority=1)
    assert response_times(system(first, second)) == {"A": 9, "B": 10}


def reading(name: str, writer: str, of: str) -> TimedGroup:
    """A group with one task, which takes the tokens of a task of another."""
    made = group(name, 10, task(name.lower(), "c", 1), offset=0)
    return replace(made, trigger=TimedTrigger(writer, of))


def test_groups_that_release_each_other_in_a_circle_are_refused() -> None:
    circle = system(reading("A", "B", "b"), reading("B", "A", "a"), reading("C", "A", "a"))
    alone = system(reading("A", "A", "a"))
    unknown = system(group("A", 10, task("a", "c", 1)), reading("B", "A", "x"))
    for made, words in (
        (circle, "`A`, `B`, `C` wait for tokens of each other"),
        (alone, "`A` wait"),
        (unknown, "no task makes the tokens that release `B`"),
    ):
        for play in (worst_cases, worst_cases_in_time, bounds, seen):
            with pytest.raises(Refused, match=words):
                play(made)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Refused) as refused:
        response_times(
            system(group("A", 0, task("a", "x", 1)), group("B", -1, task("b", "c", 1), jitter=-1))
        )
    assert len(refused.value.faults) == 4


def test_orders_that_deadlock_or_lack_a_firing_are_refused() -> None:
    made = group(
        "A", 10, task("a", "c", 1), task("b", "d", 1), task("e", "c", 1), arrows="a b, b e"
    )
    order = [RoundFiring("A", "e", 0), RoundFiring("A", "a", 0)]
    rest = TimedWorker("d", (RoundFiring("A", "b", 0),))
    with pytest.raises(Refused, match="deadlock: a, b, e wait"):
        response_times(replace(system(made), workers=(TimedWorker("c", tuple(order)), rest)))
    with pytest.raises(Refused, match="no worker has firing 0 of `e`"):
        response_times(replace(system(made), workers=(TimedWorker("c", tuple(order[1:])), rest)))
    with pytest.raises(Refused, match="too many"):
        response_times(replace(system(made), workers=(TimedWorker("c", tuple(order * 2)), rest)))


def test_with_patience_late_is_still_late() -> None:
    overloaded = system(group("A", 10, task("a", "g", 6)), group("B", 10, task("b", "g", 6)))
    assert set(response_times(overloaded).values()) == {None}
    assert any(
        r is None or r > 10 for r in response_times(overloaded, patience=Fraction(1)).values()
    )


def test_event_streams() -> None:
    stream = EventStream(Fraction(10), Fraction(25), Fraction(2))
    assert [stream.most(Fraction(x)) for x in (0, 1, 2, 3, 8, 16)] == [0, 1, 1, 2, 4, 5]
    assert [stream.apart(n) for n in (1, 2, 3, 4, 5)] == [0, 2, 4, 6, 15]


# -- the paper's equations -------------------------------------------------------------------------
def test_equation_5_3_is_exceeded() -> None:
    """It looks at one activation: the smallest system is one task whose release jitters."""
    made = system(group("A", 3, task("a", "c", 2), jitter=3))
    assert paper_5_3(2, [], 1000) == 2 and paper_response_times(made) == {"A": 2}
    assert seen(made, lateness="first") == {"A": 4} == response_times(made)
    assert paper_response_times(LEHOCZKY)["B"] == 114 < seen(LEHOCZKY)["B"] == 118


def test_equation_5_4_is_exceeded() -> None:
    """It counts neither own earlier activations, nor that the others can come late and then at
    once."""
    made = system(group("A", 3, task("a", "g", 2), jitter=3))
    assert paper_response_times(made) == {"A": 2} and seen(made, lateness="first") == {
        "A": 4
    } == response_times(made)
    made = system(
        group("A", 10, task("a", "g", *[1] * 5)), group("B", 10, task("b", "g", 2), jitter=20)
    )
    assert paper_5_4(10, [1] * 5, [(10, [2])]) == 9 == paper_response_times(made)["A"]
    late = seen(made, lateness="first", offsets={"A": 20}, against="A")["A"]
    assert late == 13 and response_times(made)["A"] >= 13


def test_equation_5_4_as_the_paper_explains_it() -> None:
    """Five own sub-tasks, two of the other, which comes twice: min(5, 2 x 2) of them."""
    assert paper_5_4(10, [1] * 5, [(10, [3, 2])]) == 5 + 3 + 3 + 2 + 2
    assert paper_5_4(20, [1] * 5, [(10, [3, 2])]) == 5 + 3 + 3 + 3 + 2 + 2


def test_equation_4_2_is_exceeded_inside_of_a_frame() -> None:
    """The last kernels of one frame and the first ones of the next: `successive` has to mean those,
    too."""
    e, f, j = (43, [10, 1, 1, 1, 10]), (1000, [3] * 50), (30, [1] * 3)
    assert paper_4_2(*j, [e, f], wrap=False) == 24 and paper_4_2(*j, [e, f], wrap=True) == 33
    groups = [
        group(n, period, task(n.lower(), "g", *parts))
        for n, (period, parts) in zip("EFJ", (e, f, j), strict=True)
    ]
    rng = random.Random(0)
    longest = 0
    for n in range(20):
        made = system(*(replace(g, offset=rng.randrange(int(g.period))) for g in groups))
        longest = max(
            longest,
            simulate(made, 2000, Choices(execution="worst", shuffle=n % 2 == 1), rng).groups["J"],
        )
    assert longest == 33 > 30
    bound = response_times(system(*groups))["J"]
    assert bound is not None and bound >= 33


# -- offsets ---------------------------------------------------------------------------------------
def test_who_shares_a_clock_and_is_not_there_does_not_count() -> None:
    """A runs from 0 to 4 in every 10, B from 5 on."""
    a, b = group("A", 10, task("a", "c", 4), priority=1), group("B", 10, task("b", "c", 3))
    assert response_times(system(a, b))["B"] == 7
    assert response_times(system(replace(a, offset=0), replace(b, offset=5)))["B"] == 3
    assert response_times(system(replace(a, offset=0), b))["B"] == 7
    # what is left of a
    assert response_times(system(replace(a, offset=0), replace(b, offset=2)))["B"] == 3 + 2
    # a is over at 6
    assert (
        response_times(system(replace(a, offset=0, jitter=2), replace(b, offset=5)))["B"] == 3 + 1
    )


def test_offsets_count_by_the_phases_that_occur() -> None:
    """A is there from 0 to 4 in every 10; B comes at 4, and with a period of 15 at 9 as well."""
    a = group("A", 10, task("a", "c", 4), priority=1, offset=0)
    assert response_times(system(a, group("B", 15, task("b", "c", 1), offset=4)))["B"] == 1
    assert response_times(system(a, group("B", 15, task("b", "c", 2), offset=4)))["B"] == 2 + 4
    assert response_times(system(a, group("B", 20, task("b", "c", 6), offset=4)))["B"] == 6
    assert response_times(system(a, group("B", 20, task("b", "c", 7), offset=4)))["B"] == 11
    for period in (15, 20):
        made = system(a, group("B", period, task("b", "c", 5), offset=4))
        assert seen(made)["B"] <= response_times(made)["B"]  # type: ignore[operator]


def test_each_rival_counts_once_where_all_begin_together() -> None:
    """GPU, CPU, GPU: with a clock, the others' GPU time comes once in a period that all of them end
    in."""

    together = response_times(
        system(_there_and_back("x", 0), _there_and_back("y", 0), processors=TWO_AND_GPU)
    )
    apart = response_times(
        system(_there_and_back("x", None), _there_and_back("y", None), processors=TWO_AND_GPU)
    )
    assert together == {"x": 9 + 7, "y": 9 + 7}
    assert apart["x"] > 16  # type: ignore[operator]


def test_one_static_order_has_one_offset() -> None:
    made = TimedSystem(
        (group("A", 10, task("a", "p", 3), offset=5), group("B", 10, task("b", "p", 3), offset=0)),
        HOST,
    )
    with pytest.raises(Refused, match="not their offset"):
        response_times(made)


def test_too_much_work_ends_in_no_bound() -> None:
    """Also where no other group is there to push a window beyond its limit."""
    assert response_times(system(group("A", 10, task("a", "g", 11)))) == {"A": None}
    assert response_times(system(group("A", 10, task("a", "c", 10), jitter=1)))["A"] in (None, 11)


def test_equals_on_a_cpu_are_named_as_such_over_whole_paths() -> None:
    made = system(group("A", 20, task("a", "c", 3), task("b", "d", 1), task("e", "c", 4), arrows="a b, b e", offset=0),
                  group("B", 20, task("x", "c", 2), offset=0))  # fmt: skip
    kinds = {t.kind for t in bounds(made).groups["A"].terms}
    assert kinds == {"own", "equal"}


# -- simulation as referee -------------------------------------------------------------------------
@settings(max_examples=24)
@given(SEEDS)
def test_no_simulation_exceeds_the_bounds(seed: int) -> None:
    assert not slow.soundness(seed, runs=4).exceeded


@settings(max_examples=24)
@example(2028316)
@given(SEEDS)
def test_no_simulation_exceeds_bounds_by_workload_curves(seed: int) -> None:
    assert not slow.soundness(seed, runs=4, bursty=True).exceeded


def test_a_long_firing_is_charged_once() -> None:
    """A task that fires 16 times: 8 ms once in a while, else 1 ms. Sixteen of them are 23, and a
    rival pays no more.

    Firings that may take no time count 1 ns.
    """
    ms = 1_000_000
    curve = workload(([ms] * 63 + [8 * ms]) * 8)
    rare = replace(task("s", "c", 8 * ms), firings=16, curve=curve)
    source = task("m", "c", ms)
    made = system(
        replace(
            group("A", 64 * ms, source, rare, priority=2),
            channels=(TimedChannel("m", "s", (16,), (1,)),),
        ),
        group("B", 64 * ms, task("b", "c", 30 * ms), priority=1),
    )
    plain = replace(
        made,
        groups=(replace(made.groups[0], tasks=(source, replace(rare, curve=None))), made.groups[1]),
    )
    assert response_times(plain)["B"] is None
    found = response_times(made)
    assert all(
        least * ms <= (found[g] or 0) <= least * ms + 32 for g, least in (("A", 24), ("B", 54))
    )
    assert utilization(made)["c"] < 1 < utilization(plain)["c"]
    bound = bounds(made).tasks["s"]
    assert sum(t.total for t in bound.terms) == bound.window


@pytest.mark.parametrize("seed", [16, 58, 96, 551, 10104, 20063, 20214])
def test_what_was_exceeded_while_this_was_written(seed: int) -> None:
    assert not slow.soundness(seed, runs=8).exceeded


@settings(max_examples=24)
@given(SEEDS)
def test_no_more_runs_in_a_window_than_counted(seed: int) -> None:
    """Windows between the slices of a job of several iterations, against the streams that
    contention counts with."""
    rng = random.Random(seed)
    made = systems.random_system(rng)
    try:
        solver = StreamSolver(unfold(made))
    except Refused:
        return
    solver.solve()
    net = solver.net
    offsets = {g.name: rng.randrange(int(g.period)) for g in made.groups}
    if any(len(c.groups) > 1 for c in net.clusters):
        offsets = dict.fromkeys(offsets, 0)
    choices = Choices(offsets, "worst", "first", against=rng.choice(made.groups).name)
    spans: dict[tuple[str, int, int], list[Time]] = {}
    for s in simulate(made, 6 * max(g.period for g in made.groups), choices, rng, keep=True).slices:
        if s.end > s.start:
            spans.setdefault((s.task, s.iteration, s.firing), [s.start, s.end])[1] = s.end
    for lane, demands in zip(net.lanes, solver.demands, strict=True):
        if lane.cluster in solver.reasons:
            continue
        for d in demands:
            job = net.jobs[d.first]
            group_of, per_round = made.groups[job.group], net.clusters[lane.cluster].round
            if (
                d.spacing == per_round
                and len(net.clusters[lane.cluster].groups) == 1
                and job.firing == 0
            ):
                name = group_of.tasks[job.task].name
                runs = sorted(
                    v
                    for (t, _, k), v in spans.items()
                    if t == name and k % group_of.tasks[job.task].firings == 0
                )
                for (i, a), (k, b) in itertools.combinations(enumerate(runs), 2):
                    window = max(0, int((b[0] - a[1]) * net.unit)) + 1
                    assert k - i + 1 <= (window + d.ran) // d.spacing


@settings(max_examples=24)
@given(SEEDS)
def test_the_simulation_equals_one_that_goes_tick_by_tick(seed: int) -> None:
    rng = random.Random(seed)
    made = systems.random_system(rng, most_groups=3, most_tasks=5)
    made = systems.distinct(made)
    offsets = dict.fromkeys((g.name for g in made.groups), 0)
    try:
        expected = slow.tick_by_tick(made, 1500)
    except Refused:
        return
    assert simulate(made, 1500, Choices(offsets), rng).ends == expected


def test_slices_are_a_schedule() -> None:
    """They do not overlap on a processor, and last as long as the work."""
    made = replace(systems.random_system(random.Random(3)), slowdowns=())
    horizon = 2000
    observed = simulate(made, horizon, Choices(), random.Random(3), keep=True)
    for p in made.processors:
        own = sorted((s.start, s.end) for s in observed.slices if s.processor == p.name)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))
    for g in made.groups:
        for t in g.tasks:
            spent = sum(s.end - s.start for s in observed.slices if s.task == t.name)
            iterations = -(-horizon // g.period)
            assert spent == iterations * t.firings * t.cost


def test_a_preempted_firing_has_two_slices() -> None:
    made = system(
        group("A", 100, task("a", "c", 2), priority=1), group("B", 100, task("b", "c", 5))
    )
    observed = simulate(made, 50, Choices({"A": 3}), random.Random(0), keep=True)
    assert [(s.task, s.start, s.end) for s in observed.slices] == [
        ("b", 0, 3),
        ("a", 3, 5),
        ("b", 5, 7),
    ]


def test_utilization_is_exact() -> None:
    made = system(
        group("A", 30, task("a", "c", 1, firings=3)),
        group("B", 7, task("b", "c", 2), task("e", "g", 1, 2)),
    )
    assert utilization(made) == {"c": Fraction(1, 10) + Fraction(2, 7), "d": 0, "g": Fraction(3, 7)}
