"""What would help where a deadline is missed: changes of the text, each of which was tested to keep
all deadlines, the least one first.

In: an answer that is late. Out: changes in words. Those of times are tested on the program that the
bounds are of, the others by a verdict on the changed problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from ...analysis.timing.response_time import worst_cases_in_time
from ...analysis.timing.slack import slack
from ...analysis.timing.slower import longer
from ...analysis.timing.system import Refused, TimedSystem
from ...search.budget import Budget, Spending
from ...search.deadline.auto import search
from ...search.deadline.orders import FEW_ORDERS
from ...search.deadline.problem import Assignment, JointProblem, slowed
from ...search.deadline.verdict import MappingVerdict, verdict

#: Changes that are told at most, and pins and tasks that are tried.
TOLD, TRIED = 5, 24
#: Seconds for all changes, and for the search on one more core.
SECONDS, LONGEST = 20.0, 5.0
#: Times are told in whole µs.
STEP = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """A change that keeps all deadlines, in `words`; `size` is the factor by which something
    changes, 1 for what changes no time."""

    size: Fraction
    words: str


def tested_changes(
    problem: JointProblem, assignment: Assignment, system: TimedSystem
) -> list[Change]:
    """The least changes, each of which keeps all deadlines alone; after `SECONDS` no more are
    tried."""
    spending = Budget(SECONDS).begin(lambda: 0)
    found: list[Change] = []
    for change in chain(
        _of_priorities(problem, assignment),
        _of_pins(problem, assignment, spending),
        _of_times(problem, system, spending),
        _of_periods(problem, assignment),
        _of_cores(problem, spending),
    ):
        found.append(change)
        if spending.over:
            break
    return sorted(found, key=lambda change: change.size)[:TOLD]


def _verdict(problem: JointProblem, assignment: Assignment) -> MappingVerdict | None:
    """The verdict, if all deadlines and limits are kept."""
    try:
        found = verdict(problem, assignment, patience=Fraction(1), orders=FEW_ORDERS)
    except Refused:
        return None
    return found if found.feasible else None


def _of_priorities(problem: JointProblem, assignment: Assignment) -> Iterator[Change]:
    """Another order than that of the text's numbers."""
    numbered = any(group.priority is not None for group in problem.groups)
    if not problem.ranked or not numbered:
        return
    groups = tuple(replace(group, priority=None) for group in problem.groups)
    found = _verdict(replace(problem, groups=groups, chosen=None), assignment)
    if found is not None:
        yield Change(Fraction(1), f"other priorities: {found.order}")


def _of_pins(problem: JointProblem, assignment: Assignment, spending: Spending) -> Iterator[Change]:
    """Another place for a task than its pin."""
    tried = 0
    for number, task in enumerate(problem.tasks):
        if task.name not in problem.pins:
            continue
        pins = {name: place for name, place in problem.pins.items() if name != task.name}
        for place in replace(problem, pins=pins).places(task):
            if place == problem.pins[task.name] or tried == TRIED or spending.over:
                continue
            tried += 1
            tasks = (*assignment.tasks[:number], place, *assignment.tasks[number + 1 :])
            if _verdict(problem, replace(assignment, tasks=tasks)) is not None:
                yield Change(Fraction(1), f"`{task.name}` on {place} instead of its pin")
                break


def _of_times(problem: JointProblem, system: TimedSystem, spending: Spending) -> Iterator[Change]:
    """A shorter worst case of one task, or of all, where they are now."""
    tasks = [task for group in system.groups for task in group.tasks if task.cost]
    several = len(problem.platform.types_of("cpu")) > 1
    for task in sorted(tasks, key=lambda task: -task.work)[:TRIED]:
        cost = Fraction(task.cost)
        most_ns = None if spending.over else _most_ns(system, task.name, cost)
        if most_ns:
            words = f"`{task.name}` in at most {_ms(most_ns)} instead of {_ms(cost)}"
            where = f" on {task.processor}, with the places above" if several else ""
            yield Change(cost / most_ns, words + where)
    names = {task.name for task in tasks}
    found = slack(system, "all", names, Fraction(1))
    if found.factor is not None and found.factor < 1:
        factor = Fraction(found.factor * 1000 // 1, 1000)
        if factor and worst_cases_in_time(longer(system, names, factor)) is not None:
            yield Change(1 / factor, f"all times x {float(factor):.3f}, as by faster processors")


def _most_ns(system: TimedSystem, task: str, cost: Fraction) -> Fraction | None:
    """The longest time of a task with which all deadlines are kept; None where no shorter one
    helps."""
    found = slack(system, task, {task}, cost)
    if found.most_ns is None or found.fails_at is None or found.most_ns >= cost:
        return None
    for ns, step in ((found.fails_at * cost, 10 * STEP), (found.most_ns, STEP)):
        told_ns = Fraction(ns // step * step)
        if told_ns and worst_cases_in_time(longer(system, {task}, told_ns / cost)) is not None:
            return told_ns
    return None


def _of_periods(problem: JointProblem, assignment: Assignment) -> Iterator[Change]:
    """All periods longer, deadlines as they are."""
    for factor in (2, 4, 8):
        if _verdict(slowed(problem, factor), assignment) is not None:
            yield Change(Fraction(factor), f"all periods x {factor}, with the same deadlines")
            return


def _of_cores(problem: JointProblem, spending: Spending) -> Iterator[Change]:
    """One more core in a pool of CPUs, everything placed anew."""
    budget = Budget(min(LONGEST, spending.left.seconds))
    for pool in problem.platform.pools:
        if spending.over:
            return
        renamed = not pool.indexed and pool.name in problem.pins.values()
        if pool.kind != "cpu" or problem.left_out or renamed:
            continue
        more = replace(pool, count=pool.count + 1, indexed=True)
        pools = [more if p == pool else p for p in problem.platform.pools]
        larger = replace(problem, platform=replace(problem.platform, pools=tuple(pools)))
        try:
            found = search(larger, name="auto", seed=0, budget=budget)
        except Refused:
            continue
        if found.verdict is not None and found.verdict.feasible:
            factor = Fraction(pool.count + 1, pool.count)
            yield Change(factor, f"{pool.count + 1} cores in `{pool.name}`")


def _ms(ns: Fraction | int) -> str:
    return f"{float(ns) / 1e6:.3f} ms"
