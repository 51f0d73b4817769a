"""The answer of searches where no mapping keeps all deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest
from flowc.driver.solve.map import find_mapping
from flowc.model.platform import Platform, Pool
from flowc.search.budget import Budget
from flowc.search.deadline.auto import search
from flowc.search.deadline.problem import (
    Assignment,
    DeadlineTask,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from flowc.search.deadline.verdict import MappingVerdict, verdict
from flowc.search.registry import searches_for

from builds import Write

MS = 1_000_000


def posed(
    times: Sequence[int], arrows: Sequence[tuple[int, int]], period: int, due: int
) -> JointProblem:
    """An app with tasks of these times in ms, on three cores."""
    cores = Pool("core", "cpu", 3, True, "fixed_priority")
    tasks = [DeadlineTask(f"A.t{i}", "A", {"cpu": ms * MS}) for i, ms in enumerate(times)]
    channels = tuple(JointChannel(f"A.t{a}", f"A.t{b}") for a, b in arrows)
    group = TaskGroup("A", Fraction(period * MS), Fraction(due * MS), 1, channels, ())
    return JointProblem(Platform("board", (cores,), (), "", None), (group,), tuple(tasks), (), {})


def response(found: MappingVerdict | None) -> Fraction | None:
    return None if found is None else found.worst.groups["A"]


# The first two have mappings that are as late at half the rate, but not at their own: there they are
# later, or have no bound. The last one is so late that no bound at all might look like less.
@pytest.mark.parametrize("name", ["auto", "entire-ga"])
@pytest.mark.parametrize(
    ("times", "arrows", "period", "due"),
    [
        ((3, 5, 2, 6), ((0, 1), (1, 2), (2, 3)), 8, 7),
        ((5, 2, 3, 2, 6), ((0, 1), (0, 3), (0, 4), (2, 3)), 7, 7),
        ((12, 12), ((0, 1),), 20, 1),
    ],
)
def test_where_all_are_late_the_least_late_is_the_answer(
    name: str,
    times: Sequence[int],
    arrows: Sequence[tuple[int, int]],
    period: int,
    due: int,
) -> None:
    problem = posed(times, arrows, period, due)
    every = []
    for places in product(*(problem.places(task) for task in problem.tasks)):
        every.append(response(verdict(problem, Assignment((), (), places))))
    least = min(bound for bound in every if bound is not None)
    assert due * MS < least and any(bound is None or bound > least for bound in every)
    found = search(problem, name=name, seed=0, budget=Budget(evaluations=300))
    assert found.assignment is not None and found.verdict is not None
    assert response(found.verdict) == least
    assert response(verdict(problem, found.assignment)) == least  # not a rough one of the search


def test_what_the_exact_search_saw_counts_as_well() -> None:
    problem = posed((3, 5, 2, 6), ((0, 1), (1, 2), (2, 3)), 8, 7)
    found = search(problem, name="exact", seed=0, budget=Budget(evaluations=300))
    bound = response(found.verdict)
    assert found.assignment is not None and found.impossible == "deadlines"
    assert bound is not None and bound == response(verdict(problem, found.assignment))


@pytest.mark.parametrize("live", ["live", ""])
def test_more_work_than_time_gets_a_mapping_as_well(write: Write, live: str) -> None:
    """Worst cases that are together too long may be rare: a program runs where `map` has it, and not
    by a rule of thumb."""
    text = f"""
task Cam {{ out f  {live}  wcet 1 ms }}
task Net {{ in f  wcet 30 ms }}
task Other {{ wcet 30 ms }}
task Log {{ wcet 20 ms }}
app A {{ period 33 ms  cam: Cam  net: Net  cam -> net }}
app B {{ period 33 ms  other: Other }}
app C {{ period 33 ms  log: Log }}
platform board {{ cpu core[2] scheduler fixed_priority }}
"""
    for each in searches_for("deadlines"):
        if each.only_for:
            continue
        answer = find_mapping(
            write(text), platform="board", measure=False, search=each.name, evaluations=10
        )
        assert answer.late and answer.path is not None
        places = {p.task: p.processors for p in answer.mapping.placements}
        assert places["A.net"] != places["B.other"], "nothing is later than it has to be"
        assert [d.code for d in answer.diagnostics if d.code == "F509"] == ["F509"]
