"""What has to differ from an assignment that is late: the clauses that rule it out, and all that is
late for the same reason.

In: the variables of a program (`loads.Placing`), an assignment, the groups that are late. Out:
literals of which at least one is true in every assignment that may be better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from .loads import Placing
from .problem import Assignment, JointProblem


def all_groups(problem: JointProblem) -> set[str]:
    """All groups, and servers that are tasks, each of them for itself."""
    return set(problem.period)


def used_by(problem: JointProblem, assignment: Assignment) -> dict[str, set[str]]:
    """The processors of each group."""
    used: dict[str, set[str]] = {name: set() for name in all_groups(problem)}
    for t, p in enumerate(assignment.tasks):
        used[problem.tasks[t].group].add(p)
    for n, places in enumerate(assignment.stages):
        used[problem.networks[n].group].update(places)
    for follower in problem.roaming:  # which may be fired there
        used[follower.group] |= {cpus[0] for cpus in problem.cpus_of_machine.values()}
    return used


def reaching(problem: JointProblem, assignment: Assignment, groups: set[str]) -> set[str]:
    """The groups that the bounds of these depend on: they share a processor, or their tokens come
    from one to the other, directly or through others."""
    if problem.platform.contention:
        return all_groups(problem)
    used = used_by(problem, assignment)
    tied = [{group.name, *group.tied} for group in problem.groups]
    while True:
        places = {p for g in groups for p in used[g]}
        reached = {g for g, own in used.items() if own & places}
        reached = reached.union(*(own for own in tied if own & groups)) - groups
        if not reached:
            return groups
        groups = groups | reached


def otherwise(
    placing: Placing,
    assignment: Assignment,
    groups: Collection[str],
    exactly: bool,
) -> list[Any]:
    """One of these groups changes, or, if `exactly` this is ruled out, another group comes to
    them."""
    problem = placing.problem
    literals = []
    for t, p in enumerate(assignment.tasks):
        if problem.tasks[t].group in groups:
            literals.append(placing.item[t, p])
    for n, places in enumerate(assignment.stages):
        if problem.networks[n].group in groups:
            literals.append(placing.choose[n][assignment.choice[n]])
            literals += _steps_at(placing, n, assignment.choice[n], places)
    others = [literal.negated() for literal in literals]
    if exactly:
        used = used_by(problem, assignment)
        others += _coming(placing, groups, {p for g in groups for p in used[g]})
    return others


def _steps_at(placing: Placing, n: int, c: int, places: tuple[str, ...]) -> Iterator[Any]:
    """That the stages of a candidate are where they are, as far as they could be elsewhere."""
    problem = placing.problem
    for s, p in enumerate(places):
        if len(problem.of_type[problem.type[p]]) > 1:
            yield placing.step[n, c, s, p]


def _coming(placing: Placing, groups: Collection[str], places: set[str]) -> Iterator[Any]:
    """That something of another group is on one of these processors."""
    problem = placing.problem
    for (t, p), var in placing.item.items():
        if p in places and problem.tasks[t].group not in groups:
            yield var
    for (n, _, _, p), var in placing.step.items():
        if p in places and problem.networks[n].group not in groups:
            yield var
