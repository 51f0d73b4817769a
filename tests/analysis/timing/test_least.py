"""What is surely late at slower clocks is so by every bound, and in an execution."""

from __future__ import annotations

import random
from fractions import Fraction

from flowc.analysis.timing.least import Least
from flowc.analysis.timing.response_time import worst_cases, worst_cases_in_time
from flowc.analysis.timing.slower import slower
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

CPUS = TimedProcessor("c", "fixed_priority", "cpu"), TimedProcessor("d", "fixed_priority", "cpu")
CLOCK = {"c": 0, "d": 1}


def test_the_longest_path_by_itself() -> None:
    tasks = (
        TimedTask("s", "c", (2,)),
        TimedTask("a", "c", (6,)),
        TimedTask("b", "d", (7,)),
        TimedTask("t", "c", (1,)),
    )
    arrows = tuple(TimedChannel(*pair) for pair in (("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")))
    least = Least(TimedSystem((TimedGroup("G", 30, tasks, arrows, deadline=12),), CPUS), CLOCK)
    assert not least.missed([Fraction(1), Fraction(1)])
    assert least.missed([Fraction(3, 2), Fraction(1)]) and not least.missed(
        [Fraction(4, 3), Fraction(8, 7)]
    )
    assert least.missed([Fraction(1), Fraction(10, 7)]) and not least.missed(
        [Fraction(1), Fraction(9, 7)]
    )


def test_more_to_do_than_there_is_time() -> None:
    groups = tuple(TimedGroup(n, 10, (TimedTask(n, "c", (4,)),), deadline=100) for n in "AB")
    least = Least(TimedSystem(groups, CPUS), CLOCK)
    assert least.missed([Fraction(13, 10), Fraction(1)]) and not least.missed(
        [Fraction(5, 4), Fraction(9)]
    )


def test_what_stands_behind_initial_tokens_may_have_begun_before() -> None:
    tasks = TimedTask("s", "c", (2,)), TimedTask("t", "d", (9,))
    group = TimedGroup("G", 10, tasks, (TimedChannel("s", "t", delay=1),))
    assert not Least(TimedSystem((group,), CPUS), CLOCK).missed([Fraction(4), Fraction(1)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_bounds_agree(seed: int) -> None:
    rng = random.Random(seed)
    system = systems.random_system(rng)
    least = Least(system, {p.name: n for n, p in enumerate(system.processors)})
    factors = [Fraction(rng.randint(4, 16), 4) for _ in system.processors]
    late = slower(system, {p.name: f for p, f in zip(system.processors, factors, strict=True)})
    try:
        worst = worst_cases(late)
    except Refused:
        return
    held = [
        (worst.groups[g.name], *((g.due,) if g.due is not None else (None,))) for g in late.groups
    ]
    held += [
        (b, p.deadline)
        for g in late.groups
        for b, p in zip(worst.paths[g.name], g.paths, strict=True)
    ]
    kept = all(bound is not None and (due is None or bound <= due) for bound, due in held)
    assert not (kept and least.missed(factors))
    found = worst_cases_in_time(late)
    assert (found is not None) == kept
