"""Ages of data over several groups: known answers, and bounds against simulations."""

from __future__ import annotations

import random
from bisect import bisect_right
from fractions import Fraction

import pytest
from flowc.analysis.timing.chains import TimedChain, TimedPart, age_terms, largest_age, largest_gap
from flowc.analysis.timing.response_time import worst_cases
from flowc.analysis.timing.simulate import Choices, simulate
from flowc.analysis.timing.system import (
    TimedGroup,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
)
from flowc.analysis.timing.terms import WorstCases


def row(*parts: tuple[int, int, str, int]) -> TimedSystem:
    """Groups A, B, ... of one task: period, worst case, processor and priority."""
    groups = []
    for name, (period, time, processor, priority) in zip("ABCD", parts, strict=False):
        task = TimedTask(name.lower(), processor, (time,), (1,))
        path = TimedPath(name.lower(), name.lower(), (0,))
        groups.append(
            TimedGroup(name, period, (task,), (), None, priority, offset=0, paths=(path,))
        )
    names = sorted({processor for _, _, processor, _ in parts})
    return TimedSystem(
        tuple(groups), tuple(TimedProcessor(name, "fixed_priority") for name in names)
    )


def chain_over(system: TimedSystem) -> TimedChain:
    """From the first group to the last one."""
    way = tuple(TimedPart(g.name, 0, Fraction(g.period)) for g in system.groups)
    return TimedChain("A.a", "Z.z", (way,), Fraction(1000))


def bound(system: TimedSystem) -> Fraction:
    age = largest_age(chain_over(system), worst_cases(system))
    assert age is not None
    return age


def oldest_seen(system: TimedSystem, seed: int) -> int:
    """The largest age in a simulation: each group reads when it starts, and writes when it ends."""
    longest = max(int(g.period) for g in system.groups)
    rng = random.Random(seed)
    execution = rng.choice(("worst", "random", "extreme"))
    seen = simulate(system, 12 * longest, Choices(execution=execution), rng, keep=True)
    spans: dict[str, dict[int, tuple[int, int]]] = {g.name: {} for g in system.groups}
    for s in seen.slices:
        begin, end = spans[s.group].get(s.iteration, (int(s.start), 0))
        spans[s.group][s.iteration] = min(begin, int(s.start)), max(end, int(s.end))
    before: list[tuple[int, int | None]] = []
    for number, group in enumerate(system.groups):
        written = []
        for iteration, (start, end) in sorted(spans[group.name].items()):
            if number == 0:
                newest: int | None = iteration * int(group.period)
            else:
                known = bisect_right(before, start, key=lambda token: token[0])
                newest = before[known - 1][1] if known else None
            written.append((end, newest))
        before = written
    return max((end - newest for end, newest in before if newest is not None), default=0)


def test_a_known_age() -> None:
    """Example of a camera (8, 3) and a controller (5, 2) on processors of their own: 8 + 3 + 2."""
    assert bound(row((8, 3, "c", 0), (5, 2, "d", 0))) == 13


def test_a_chain_within_one_group_waits_for_nothing() -> None:
    assert bound(row((10, 3, "c", 0))) == 3


def test_the_oldest_of_several_ways_counts() -> None:
    system = row((8, 3, "c", 0), (5, 2, "d", 0), (20, 1, "e", 0))
    worst = worst_cases(system)
    short = TimedPart("A", 0, 8), TimedPart("C", 0, 20)
    long = TimedPart("A", 0, 8), TimedPart("B", 0, 5), TimedPart("C", 0, 20)
    chain = TimedChain("A.a", "C.c", (short, long), Fraction(1))
    assert largest_age(chain, worst) == 8 + 3 + 5 + 2 + 1
    assert age_terms(long, worst) == [3, 8, 2, 5, 1]


def test_without_a_bound_of_a_part_there_is_none() -> None:
    system = row((8, 3, "c", 0), (5, 2, "d", 0))
    waiting = TimedPart("A", 0, None), TimedPart("B", 0, 5)
    worst = worst_cases(system)
    assert largest_age(TimedChain("A.a", "B.b", (waiting,), Fraction(1)), worst) is None
    left_out = WorstCases({"B": Fraction(2)}, {"B": (Fraction(2),)})
    assert largest_age(chain_over(system), left_out) is None
    assert largest_age(TimedChain("A.a", "B.b", (), Fraction(1)), worst) is None


@pytest.mark.parametrize(
    ("newest", "firings", "gap"),
    [((0,), 1, 30), ((2, 4), 5, 18), ((0, 1, 1), 3, 20), ((-1,), 1, 30)],
)
def test_the_largest_gap_is_between_firings_that_are_passed_on(
    newest: tuple[int, ...], firings: int, gap: int
) -> None:
    assert largest_gap(newest, firings, Fraction(30)) == gap


def test_no_simulation_shows_older_data() -> None:
    ratios = []
    for seed in range(120):
        rng = random.Random(seed)
        parts = []
        for priority in rng.sample(range(4), rng.randint(2, 4)):
            period = rng.choice((60, 80, 100, 120, 200, 240))
            parts.append((period, rng.randint(2, period // 5), rng.choice("cd"), priority))
        system = row(*parts)
        age = largest_age(chain_over(system), worst_cases(system))
        if age is None:
            continue
        seen = max(oldest_seen(system, seed + k) for k in range(4))
        assert seen <= age, seed
        if seen:
            ratios.append(age / seen)
    ratios.sort()
    assert len(ratios) > 100 and ratios[len(ratios) // 2] < 1.6
