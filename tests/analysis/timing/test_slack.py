"""How much longer tasks may take: known answers, and every time below against the bounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from flowc.analysis.timing.response_time import worst_cases_in_time
from flowc.analysis.timing.slack import MOST, slack, slack_of_all
from flowc.analysis.timing.slower import longer
from flowc.analysis.timing.system import TimedGroup, TimedProcessor, TimedSystem, TimedTask
from hypothesis import given, settings
from hypothesis import strategies as st

US = 1000


def system(*apps: tuple[str, int, int], deadline: int | None = None) -> TimedSystem:
    """Apps of one task on one CPU, each with a period and a time in µs, the most urgent first."""
    groups = []
    for number, (name, period, time) in enumerate(apps):
        task = TimedTask(f"{name}.t", "c", (time * US,))
        due = None if deadline is None else Fraction(deadline * US)
        groups.append(
            TimedGroup(
                name, Fraction(period * US), (task,), (), due, priority=-number, offset=Fraction(0)
            )
        )
    return TimedSystem(tuple(groups), (TimedProcessor("c", "fixed_priority", "c", "cpu"),))


def test_known_answers() -> None:
    """A and B have 1 of 5 and 8 of 20 ms: B ends after 4 of A, if 4 a + b <= 20."""
    rows = {row.of: row for row in slack_of_all(system(("A", 5000, 1000), ("B", 20000, 8000)))}
    assert (rows["A.t"].factor, rows["A.t"].late) == (3, ("B",))
    assert (rows["B.t"].factor, rows["B.t"].late) == (2, ("B",))
    found = rows["all"]
    assert found.factor is not None and found.fails_at is not None
    assert found.factor <= Fraction(5, 3) < found.fails_at <= found.factor + Fraction(1, 1000)
    assert rows["B.t"].most_ns == 16_000 * US


def test_what_is_late_has_to_take_less() -> None:
    found = slack(system(("A", 10, 8), ("B", 20, 8)), "A.t", {"A.t"}, Fraction(8000))
    assert found.factor is not None and found.factor < Fraction(6, 8) < Fraction(
        found.fails_at or 0
    )
    hopeless = slack(system(("A", 10, 1), ("B", 20, 30)), "A.t", {"A.t"}, Fraction(1000))
    assert hopeless.factor is None and hopeless.most_ns is None and hopeless.late == ("B",)
    idle = slack(system(("A", 10_000, 1), ("B", 20, 1)), "A.t", {"A.t"}, Fraction(1000))
    assert idle.late == ("B",)
    free = system(("A", 10_000, 1))
    assert slack(free, "A.t", {"A.t"}, Fraction(1000)).fails_at is None
    assert slack(free, "A.t", {"A.t"}, Fraction(1000)).factor == MOST


apps = st.lists(
    st.tuples(st.sampled_from([10, 20, 30, 40, 60]), st.integers(1, 12)), min_size=1, max_size=3
)


@settings(max_examples=40, deadline=None)
@given(apps, st.sampled_from([None, 25]))
def test_every_hundredth_below_keeps_the_deadlines(
    drawn: list[tuple[int, int]], deadline: int | None
) -> None:
    made = system(*((f"A{k}", *each) for k, each in enumerate(drawn)), deadline=deadline)
    for row in slack_of_all(made):
        names = {t.name for g in made.groups for t in g.tasks if row.of in (t.name, g.name, "all")}
        if row.factor is not None:
            for hundredths in range(1, int(row.factor * 100) + 1, 7):
                assert worst_cases_in_time(longer(made, names, Fraction(hundredths, 100)))
        if row.fails_at is not None:
            assert worst_cases_in_time(longer(made, names, row.fails_at)) is None
            assert row.late


def test_best_cases_are_given_up_for_shorter_worst_cases() -> None:
    made = system(("A", 10, 8))
    task = replace(made.groups[0].tasks[0], bcet=(6 * US,))
    made = replace(made, groups=(replace(made.groups[0], tasks=(task,)),))
    assert longer(made, {"A.t"}, Fraction(1, 2)).groups[0].tasks[0].bcet == ()
    assert longer(made, {"A.t"}, Fraction(5, 4)).groups[0].tasks[0].bcet == (6 * US,)
