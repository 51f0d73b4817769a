"""Threads of a platform that wake up late: `wakeup`, from the text to all that counts with it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import flowc
import pytest
from flowc.driver.text.check import prepare
from flowc.model.times import times_of

from builds import Write

US = 1000
APP = """
task s { out o: int8   wcet 1 ms }
task w { in i: int8   wcet 2 ms }
app A { period 10 ms   DEADLINE   s: s   w: w   s -> w }
platform b { cpu core[2] scheduler fixed_priority WAKEUP   cpu other   gpu g }
mapping on b { PINS }
"""
TOGETHER, APART = "A.s -> core[0]   A.w -> core[0]", "A.s -> core[0]   A.w -> core[1]"


def text(
    write: Write, pins: str = TOGETHER, wakeup: str = "wakeup 80 us", deadline: str = ""
) -> Path:
    made = APP.replace("PINS", pins).replace("WAKEUP", wakeup).replace("DEADLINE", deadline)
    return write(made)


def response(path: Path) -> int | None:
    """The bound of the app on its pins."""
    answer = flowc.map(path, platform="b", budget=1, measure=False)
    (group,) = answer.mapping.groups
    return group.response_ns


@pytest.mark.parametrize(
    ("pins", "wakeup", "late"),
    [
        (TOGETHER, "", 0),
        (TOGETHER, "wakeup 80 us", 80 * US),
        (APART, "wakeup 80 us", 160 * US),
        ("A.s -> core[0]   A.w -> other", "wakeup 80 us", 80 * US),
        (TOGETHER, "wakeup 80.5 ns", 81),  # rounded up
    ],
)
def test_bounds_count_each_time_that_a_thread_sleeps(
    write: Write, pins: str, wakeup: str, late: int
) -> None:
    assert response(text(write, pins, wakeup)) == 3_000 * US + late


def test_a_stored_mapping_is_stale_with_another_latency(write: Write) -> None:
    path = text(write)
    response(path)
    assert not warnings(path)
    path.write_text(path.read_text().replace("80 us", "90 us"))
    (warning,) = warnings(path)
    assert "is stale" in warning


def warnings(path: Path) -> list[str]:
    """What is said of a stored mapping."""
    found = prepare(path, platform="b").diagnostics
    return [d.message for d in found if d.severity == "warning" and "mapping" in d.message]


def test_check_counts_the_latency_of_the_release(write: Write) -> None:
    """`other` wakes its threads at once: no mapping has to be late, but one on `core` is."""
    some = text(write, "", "wakeup 80 us", "deadline 3.05 ms")
    verdict = flowc.check(some, platform="b").verdicts["A"].schedulable
    assert verdict.holds is None
    every = some.read_text().replace("cpu other", "cpu other wakeup 60 us")
    some.write_text(every)
    (fault,) = flowc.check(some, platform="b").diagnostics
    assert fault.code == "F216" and "3.06 ms" in fault.message


def test_analyze_counts_the_latency_of_the_release(write: Write) -> None:
    path = text(write, "", "wakeup 80 us")
    path.write_text(path.read_text().replace("cpu other", "cpu other wakeup 60 us"))
    (analysis,) = flowc.analyze(path, platform="b").apps.values()
    assert analysis.latency == analysis.latency_lower == Fraction(3_060 * US)


def test_threads_of_accelerators_and_links_wake_up_on_cpus(write: Write) -> None:
    path = write(
        "task s { out o: int8   wcet 1 ms }   app A { s: s }"
        "platform r {"
        "    machine left { cpu a wakeup 1 us   cpu b wakeup 5 us   gpu g }"
        "    machine right { cpu c wakeup 7 us   npu n engine qnn }"
        "    machine third { cpu d   dla e }"
        "    link left right 1 MB/s 1 ms   link left third 1 MB/s 1 ms"
        "}"
    )
    platform = prepare(path, platform="r").platform
    late = {pool.name: platform.wakeup_ns(pool) // US for pool in platform.pools}
    assert late == {
        **{"left.a": 1, "left.b": 5, "left.g": 5, "right.c": 7, "right.n": 7},
        **{"third.d": 0, "third.e": 0},
        **{"left->right": 7, "right->left": 7, "left->third": 5, "third->left": 5},
    }


def test_times_know_the_latencies_of_all_cpus(write: Write) -> None:
    valid = prepare(text(write), platform="b")
    assert times_of(valid.system, valid.platform).wakeup_ns == (0, 80 * US)


def test_the_word_is_a_name_elsewhere(write: Write) -> None:
    path = write(
        "task s { out wakeup: int8   wcet 1 ms }   task t { in wakeup: int8 }"
        "app A { wakeup: s   t: t   wakeup.wakeup -> t.wakeup }   platform b { cpu core }"
    )
    assert flowc.check(path, platform="b").ok


def test_states_count_it_and_so_do_changes_between_them(write: Write) -> None:
    path = write(
        "task s { out o: int8   wcet 1 ms }   task w { in i: int8   wcet 2 ms }"
        "app A { period 10 ms   s: s   w: w   s -> w }   app B { period 10 ms   s: s }"
        "scenario Two { event turn   initial state one { run A }   state two { run B }"
        "    one -> two on turn   two -> one on turn }"
        "platform b { cpu core scheduler fixed_priority wakeup 80 us }"
        "mapping on b { A.s -> core   A.w -> core   B.s -> core }"
    )
    mapping = flowc.map(path, platform="b", budget=1, measure=False).mapping
    responses = {g.app: g.response_ns for state in mapping.states for g in state.groups}
    assert responses == {"A": 3_080 * US, "B": 1_080 * US}
    (change,) = (c for c in mapping.transitions if c.source == "one")
    assert change.delay_ns == (3_080 + 1_080) * US


def test_an_age_counts_it_where_it_makes_a_difference(write: Write) -> None:
    """`B.w` looks at what `A.s` made a period before: that was there in time, late as it is."""
    text = (
        "task s { out o: int8   wcet 1 ms }   task w { in i: int8   wcet 2 ms }"
        "app A { period 10 ms   s: s }"
        "app B { period 10 ms   A.s -> latest wcet 1 us -> w   w: w"
        "    deadline 60 ms from A.s to w }"
        "platform b { cpu core[2] scheduler fixed_priority WAKEUP }"
        "mapping on b { A.s -> core[0]   B.w -> core[1] }"
    )
    ages = []
    for wakeup in ("", "wakeup 80 us"):
        path = write(text.replace("WAKEUP", wakeup))
        mapping = flowc.map(path, platform="b", budget=1, measure=False).mapping
        ages += [p.latency_ns for g in mapping.groups for p in g.paths if p.kind == "age"]
    on_time, late = ages
    assert on_time is not None and late is not None and late - on_time == 80 * US
