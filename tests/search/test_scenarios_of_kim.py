"""What the tables of Kim's thesis (ch. 4) say of each other, and what holds for its three ways to
map states.

PR has one mapping, judged state by state; GB has one that is judged for all apps at once; LC has a
mapping for each state. Figures are those that the thesis prints.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from flowc.model.platform import Platform, Pool
from flowc.search.budget import Budget
from flowc.search.deadline.outcome import Outcome
from flowc.search.deadline.problem import Assignment, DeadlineTask, JointProblem, TaskGroup
from flowc.search.deadline.states import search_states
from flowc.search.deadline.verdict import verdict

from kim_examples import BS, EVALUATION, FSM, GB, PR, TABLE_4_4, TABLE_4_7, WHOLE


def test_the_tables_agree_with_each_other() -> None:
    assert prod(map(len, TABLE_4_7.values())) == 1120
    # Pareto fronts among the candidates of Yolov2, Yolov3 and the two tiny ones.
    shares = [100 * pareto / every for _, _, every, pareto in TABLE_4_4.values()]
    assert [round(share, 2) for share in shares] == [5.53, 0.19, 8.6, 6.33]
    over = [round(100 * (a / b - 1), 1) for a, b in zip(PR, BS, strict=True)]
    assert (min(over), max(over)) == (15.2, 86.7)
    over = [round(100 * (a / b - 1), 1) for a, b in zip(PR, GB, strict=True)]
    assert (min(over), max(over)) == (0.0, 40.0)
    for (fast, slow), limits in ((EVALUATION, (26.0, 34.0)), (WHOLE, (28.3, 42.2))):
        ratios = [round(b / a, 1) for a, b in zip(fast, slow, strict=True)]
        assert (min(ratios), max(ratios)) == pytest.approx(limits, abs=0.11)


def test_a_machine_with_a_state_of_all_apps_gains_nothing() -> None:
    """FSM-D is the last of each case: what all apps at once reach is what its last state
    reaches."""
    assert [(PR[n], GB[n]) for n in (3, 7)] == [(40, 40), (28, 28)]
    assert [any(len(s) == 4 for s in states) for states in FSM.values()] == [False, False, True]


def whole(rng: random.Random) -> JointProblem:
    """Four apps of a few tasks each, on two cores."""
    costs = {
        f"A{app}.t{k}": rng.randint(1, 9) for app in range(4) for k in range(2 if app % 2 else 1)
    }
    items = tuple(
        DeadlineTask(name, name.partition(".")[0], {"cpu": cost}) for name, cost in costs.items()
    )
    teams = tuple(TaskGroup(f"A{app}", Fraction(100), None, app, ()) for app in range(4))
    return JointProblem(
        Platform("duo", (Pool("c", "cpu", 2, True, "fixed_priority"),), (), "", None),
        teams,
        items,
        (),
        {},
    )


def of(problem: JointProblem, apps: Sequence[int]) -> JointProblem:
    """A state."""
    names = {f"A{app}" for app in apps}
    teams = tuple(t for t in problem.groups if t.name in names)
    return replace(problem, groups=teams, tasks=tuple(i for i in problem.tasks if i.group in names))


def least(problem: JointProblem, part: Budget) -> Outcome:
    """The placement with the least maximum utilization, by trying all."""
    free = [
        [problem.pins[i.name]] if i.name in problem.pins else list(problem.processors)
        for i in problem.tasks
    ]
    every = (Assignment((), (), places) for places in itertools.product(*free))
    told, found = min(((verdict(problem, a), a) for a in every), key=lambda pair: pair[0].maximum)
    return Outcome(
        "all", found, told, told.maximum if not problem.pins else None, True, None, 1, 0.0
    )


@pytest.mark.parametrize("seed", range(3))
def test_state_by_state_is_between_one_mapping_for_all_and_one_for_each(seed: int) -> None:
    problem = whole(random.Random(seed))
    every = [
        dict(zip((i.name for i in problem.tasks), p, strict=True))
        for p in itertools.product(problem.processors, repeat=len(problem.tasks))
    ]

    def most(places: dict[str, str], apps: Sequence[int]) -> Fraction:
        mine = of(problem, apps).tasks
        return max(
            sum((i.work("cpu") for i in mine if places[i.name] == p), Fraction(0)) / 100
            for p in problem.processors
        )

    gb = min(most(places, range(4)) for places in every)
    for name, states in FSM.items():
        lc = max(min(most(places, apps) for places in every) for apps in states)
        pr = min(max(most(places, apps) for apps in states) for places in every)
        assert lc <= pr <= gb
        found = search_states(
            {str(n): of(problem, apps) for n, apps in enumerate(states)},
            least,
            budget=Budget(evaluations=100),
        )
        reached = max(o.verdict.maximum for o in found.states.values() if o.verdict is not None)
        assert found.bound is not None and found.bound <= lc and reached >= pr
        assert reached == gb if name == "D" else reached <= gb * Fraction(5, 4)
