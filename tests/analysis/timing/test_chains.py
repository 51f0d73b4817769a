"""Ages and reactions over several groups: known answers, and bounds against a simulator."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from flowc.analysis.timing.chains import bound_in_any_phases, chain_terms, largest_gap, over_ways
from flowc.analysis.timing.response_time import worst_cases, worst_cases_in_time
from flowc.analysis.timing.system import (
    TimedChain,
    TimedChannel,
    TimedGroup,
    TimedPart,
    TimedPath,
    TimedProcessor,
    TimedSystem,
    TimedTask,
    with_its_workers,
)

from chains import CLOCKS, in_any_phases, programs, rows, with_chains
from random_programs import KINDS


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
    processors = tuple(TimedProcessor(name, "fixed_priority") for name in names)
    return with_its_workers(TimedSystem(tuple(groups), processors))


def over_all(system: TimedSystem) -> TimedSystem:
    """With an age and a reaction from the first group to the last one."""
    return with_chains(system, [(g.name, 0) for g in system.groups])


def bounds(system: TimedSystem) -> tuple[Fraction | None, ...]:
    """The bound of the age and that of the reaction."""
    return worst_cases(system).chains[system.groups[-1].name]


CAMERA_AND_CONTROL = row((8, 3, "c", 0), (5, 2, "d", 0))


def test_known_bounds_in_any_phases() -> None:
    """A camera (8, 3) and a controller (5, 2) on processors of their own: 8 + 3 + 2, and 5 more."""
    assert bounds(in_any_phases(over_all(CAMERA_AND_CONTROL))) == (13, 18)


def test_known_phases_say_more() -> None:
    """Of the camera's ends at 3, 11 and 19, the controller that starts at 5, 15 and 20 knows."""
    twice = row((10, 3, "c", 0), (5, 2, "d", 0))
    assert bounds(over_all(twice)) == (12, 17)
    assert bounds(in_any_phases(over_all(twice))) == (15, 20)


def test_what_comes_before_in_the_order_of_a_worker_is_found() -> None:
    """Whatever the times are: one worker fires the one, then the other."""
    system = row((20, 3, "c", 1), (20, 2, "c", 0))
    in_order = replace(system, processors=(TimedProcessor("c", "static_order"),), workers=())
    assert bounds(over_all(with_its_workers(in_order))) == (5, 25)
    turned = [replace(g, priority=1 - g.priority) for g in in_order.groups]
    late = with_its_workers(replace(in_order, groups=tuple(turned)))
    assert bounds(over_all(late)) == (22, 42)


def test_what_a_more_urgent_app_makes_is_found() -> None:
    """Released together on one processor: the less urgent one starts when the other has ended."""
    assert bounds(over_all(row((20, 1, "c", 1), (40, 2, "c", 0)))) == (3, 43)
    assert bounds(over_all(row((20, 1, "c", 0), (40, 2, "c", 1)))) == (22, 62)
    assert bounds(over_all(row((20, 1, "c", 1), (40, 2, "d", 0)))) == (22, 62)


def test_a_more_urgent_app_that_waits_elsewhere_may_not_be_found() -> None:
    """Its last task waits for another processor, on which the data are made."""
    made, put = TimedTask("a", "d", (4,)), TimedTask("w", "c", (1,))
    writer = TimedGroup(
        "A", 20, (made, put), (TimedChannel("a", "w"),), None, 1, 0, 0, (TimedPath("a", "w", (0,)),)
    )
    plain = row((20, 1, "c", 1), (20, 2, "c", 0))
    processors = TimedProcessor("c", "fixed_priority"), TimedProcessor("d", "fixed_priority")
    system = TimedSystem((writer, plain.groups[1]), processors)
    assert bounds(over_all(with_its_workers(system))) == (23, 43)
    woken = replace(plain, processors=(TimedProcessor("c", "fixed_priority", wakeup=2),))
    assert bounds(over_all(woken)) == (25, 45)


def test_a_live_source_has_no_known_phase() -> None:
    twice = over_all(row((10, 3, "c", 0), (5, 2, "d", 0)))
    last = twice.groups[-1]
    live = tuple(replace(chain, clocked=False) for chain in last.chains)
    assert bounds(replace(twice, groups=(twice.groups[0], replace(last, chains=live)))) == (15, 20)


def test_a_reaction_within_one_group_waits_for_the_next_release() -> None:
    assert bounds(over_all(row((10, 3, "c", 0)))) == (3, 13)


def test_the_oldest_of_several_ways_counts_and_the_first_news() -> None:
    system = row((8, 3, "c", 0), (5, 2, "d", 0), (20, 1, "e", 0))
    paths = worst_cases(system).paths
    short = TimedPart("A", 0, 8), TimedPart("C", 0, 20)
    long = TimedPart("A", 0, 8), TimedPart("B", 0, 5), TimedPart("C", 0, 20)
    found = {}
    for kind in ("age", "reaction"):
        chain = TimedChain(kind, "A.a", "C.c", (short, long), Fraction(1))
        ways = [bound_in_any_phases(chain, way, paths) for way in chain.ways]
        found[kind] = over_ways(chain, ways)
    assert found == {"age": 8 + 3 + 5 + 2 + 1, "reaction": 8 + 3 + 20 + 1}
    age = TimedChain("age", "A.a", "C.c", (long,), Fraction(1))
    assert chain_terms(age, long, paths) == [(0, 3), (8, 2), (5, 1)]
    reaction = replace(age, kind="reaction")
    assert chain_terms(reaction, long, paths) == [(8, 3), (5, 2), (20, 1)]


def test_a_part_that_takes_each_token_is_released_by_it() -> None:
    system = row((8, 3, "c", 0), (8, 2, "d", 0), (20, 1, "e", 0))
    paths = worst_cases(system).paths
    way = TimedPart("A", 0, 8), TimedPart("B", 0, 8, True), TimedPart("C", 0, 20)
    age = TimedChain("age", "A.a", "C.c", (way,), Fraction(1), clocked=False)
    assert chain_terms(age, way, paths) == [(0, 3), (0, 2), (8, 1)]
    assert bound_in_any_phases(age, way, paths) == 14
    reaction = replace(age, kind="reaction")
    assert chain_terms(reaction, way, paths) == [(8, 3), (0, 2), (20, 1)]


def test_without_a_bound_of_a_part_there_is_none() -> None:
    system = row((8, 3, "c", 0), (5, 2, "d", 0))
    waiting = TimedPart("A", 0, None), TimedPart("B", 0, 5)
    elsewhere = TimedPart("Z", 0, 8), TimedPart("B", 0, 5)
    for way in (waiting, elsewhere):
        chain = TimedChain("age", "A.a", "B.b", (way,), Fraction(1))
        last = replace(system.groups[-1], chains=(chain,))
        assert bounds(replace(system, groups=(system.groups[0], last))) == (None,)
    chain = TimedChain("age", "A.a", "B.b", (), Fraction(1))
    assert over_ways(chain, []) is None
    assert over_ways(chain, [Fraction(1), None]) is None
    assert over_ways(replace(chain, kind="reaction"), [Fraction(1), None]) == 1


def test_a_late_chain_is_late() -> None:
    """In searches as well, which ask only whether all deadlines are kept."""
    chained = over_all(CAMERA_AND_CONTROL)
    assert worst_cases_in_time(chained) is not None
    last = chained.groups[-1]
    for deadline in (Fraction(13), Fraction(25, 2)):
        tight = tuple(replace(chain, deadline=deadline) for chain in last.chains[:1])
        system = replace(chained, groups=(chained.groups[0], replace(last, chains=tight)))
        kept = bounds(system)[0]
        assert kept is not None
        assert (worst_cases_in_time(system) is not None) == (kept <= deadline)


def test_a_chain_through_slower_groups_has_longer_gaps() -> None:
    chain = over_all(CAMERA_AND_CONTROL).groups[-1].chains[0].slowed(3)
    assert [part.gap for part in chain.ways[0]] == [24, 15]


@pytest.mark.parametrize(
    ("newest", "firings", "gap"),
    [((0,), 1, 30), ((2, 4), 5, 18), ((0, 1, 1), 3, 20), ((-1,), 1, 30), ((-1, 1), 2, 30)],
)
def test_the_largest_gap_is_between_firings_that_are_passed_on(
    newest: tuple[int, ...], firings: int, gap: int
) -> None:
    assert largest_gap(newest, firings, Fraction(30)) == gap


def test_no_simulation_of_a_row_is_above_its_bound() -> None:
    tallies = rows(chains=40, phases=3, seed=7)
    assert [line for tally in tallies.values() for line in tally.below] == []
    for name, tally in tallies.items():
        most = 1.05 if CLOCKS[0] in name else 1.3
        ratios = sorted(tally.ratios)
        assert len(ratios) >= 40 and ratios[len(ratios) // 2] <= most, name


@pytest.mark.parametrize("kind", ["shared", "staged", "orders", "fifo", "contention"])
def test_no_simulation_of_a_program_is_above_its_bound(kind: str) -> None:
    tallies = programs(12, 5, {kind: KINDS[kind]})
    assert [line for tally in tallies.values() for line in tally.below] == []
    assert all(len(tally.ratios) >= 6 for tally in tallies.values())
