"""Priorities of apps that the text does not number: an order by which all deadlines are kept.

In: a problem, an assignment. Out: priorities and the bounds by them; where an app is late
nevertheless, for which apps that is so by every order.

An order is sought for the apps that share processors, directly or through others:

1. by deadline (Leung and Whitehead 1982), the order that the problem comes with;
2. by what an app can wait: its deadline less its work (deadline minus computation);
3. from the bottom (Audsley, "On priority assignment in static priority pre-emptive scheduling",
   2001): some app that is in time below all the others, and so on. His proof needs a test that does
   not depend on the order of those above (Davis and Burns, "Improved optimal priority assignment
   for fixed priority pre-emptive systems", 2011), and these bounds do: they use when rivals end;
4. from the top, depth first. On CPUs a bound depends on those above alone, so the
   bounds of what has a place are final; and what is late directly below these is late anywhere
   below them, since rivals never make a bound shorter. So one such app rules out all orders that
   begin like that.

The last one looks at all orders, or says that it did not. Numbers of the text are kept: apps that
have them stay in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import factorial

from ...analysis.timing.response_time import worst_cases, worst_cases_in_time
from ...analysis.timing.system import TimedSystem, utilization
from ...analysis.timing.terms import WorstCases
from ...model.platform import RANKED
from ...model.priorities import (
    Level,
    OrderedBy,
    PriorityOrder,
    Urgency,
    by_urgency,
    in_levels,
    numbered,
)
from .limits import held, in_ms
from .problem import Assignment, JointProblem
from .program import timed

#: Orders beside that by deadline that are looked at for an assignment: by searches that look at
#: many assignments, and by those whose answer is final or a proof.
FEW_ORDERS, MANY_ORDERS = 1, 2000
#: Of components with more apps so many orders are looked at; of those with apps whose releases are
#: not known, or with a common order of firings, so many: each look takes long.
MOST_APPS, OF_MANY, OF_SLOW = 7, 60, 24
#: In orders of which some app is late anyway, bounds beyond so many deadlines are not followed.
ROUGH = Fraction(2)


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order of all groups, and the bounds by it.

    `hopeless` are the groups of components in which some group is late by every order.
    """

    order: PriorityOrder
    worst: WorstCases
    hopeless: frozenset[str] = frozenset()


def best_order(
    problem: JointProblem, assignment: Assignment, patience: Fraction | None, most: int
) -> Ordered:
    """The first order by which all deadlines are kept, of at most `most` that are looked at for
    each component; else that by deadline. Raises Refused."""
    system = timed(problem, assignment)
    first = Ordered(problem.order, worst_cases(system, patience=patience))
    late = _late(problem, first.worst)
    if not late:
        return first
    hopeless = set[str]()
    numbers, changes = dict(problem.priorities), list[OrderedBy]()
    for names in components(system):
        if not names & set(late):
            continue
        orders = _Orders(problem, assignment, _part(system, names), most)
        found = orders.found()
        if found is not None:
            numbers |= _in_places_of(found[1], numbers)
            changes.append(found[0])
        elif orders.complete:
            hopeless |= names
    if not changes:
        return replace(first, hopeless=frozenset(hopeless))
    by: OrderedBy = "search" if "search" in changes else "slack"
    order = PriorityOrder(by, in_levels(numbers), next(iter(late.values())))
    system = timed(problem.in_order(order), assignment)
    return Ordered(order, worst_cases(system, patience=patience), frozenset(hopeless))


def components(system: TimedSystem) -> list[set[str]]:
    """The groups whose bounds depend on each other: they share processors, slow each other down, or
    release each other, directly or through others."""
    left = [group.name for group in system.groups]
    if system.slowdowns:
        return [set(left)]
    used = {g.name: {task.processor for task in g.tasks} for g in system.groups}
    tied = {g.name: {g.name, *g.tied} for g in system.groups}
    found: list[set[str]] = []
    for name in left:
        own = {name} | tied[name]
        near = [c for c in found if c & own or _places(c, used) & _places(own, used)]
        found = [c for c in found if c not in near]
        found.append(own.union(*near))
    return found


def _places(names: set[str], used: Mapping[str, set[str]]) -> set[str]:
    return set().union(*(used[name] for name in names))


def _late(problem: JointProblem, worst: WorstCases) -> dict[str, str]:
    """The groups with a deadline that is not kept, and which one, in words."""
    late = {}
    for group in problem.groups:
        for each in held(group, worst):
            if not each.met and group.name not in late:
                due = "has no bound" if each.due is None else f"is late for its {in_ms(each.due)}"
                late[group.name] = f"{each.name(group)} {due}"
    return late


def _in_places_of(levels: Sequence[Level], given: Mapping[str, int]) -> dict[str, int]:
    """The numbers that these apps have, given to them in this order."""
    names = [name for level in levels for name in level]
    numbers = sorted({given[name] for name in names}, reverse=True)
    return {name: number for level, number in zip(levels, numbers, strict=True) for name in level}


class _Enough(Exception):
    """So many orders were looked at."""


class _Orders:
    """The orders of the apps of a component. `complete`: all of them were looked at."""

    def __init__(
        self, problem: JointProblem, assignment: Assignment, system: TimedSystem, most: int
    ) -> None:
        self._problem, self._assignment, self._most = problem, assignment, most
        self._system = system
        self._names = {group.name for group in system.groups}
        self._rebuilt = any(len({f.group for f in w.sequence}) > 1 for w in system.workers)
        self._cuts = not self._rebuilt and not any(g.trigger for g in system.groups)
        # what is below delays what is above where kernels are not interrupted
        self._cuts = self._cuts and all(p.scheduler != "priority" for p in system.processors)
        self._text = {g.name: g.priority for g in problem.groups}
        if len(system.groups) > MOST_APPS:
            self._most = min(self._most, OF_MANY)
        if not self._cuts or any(g.offset is None for g in system.groups):
            self._most = min(self._most, OF_SLOW)
        self._given = list(in_levels({g.name: g.priority for g in system.groups}))
        self._open = {name for name in self._names if self._text[name] is None}
        self._looks = 0
        self.complete = False

    def found(self) -> tuple[OrderedBy, list[Level]] | None:
        """An order by which all deadlines are kept, and where it comes from."""
        if not self._is_choice or any(share > 1 for share in utilization(self._system).values()):
            self.complete = True
            return None
        try:
            slack = self._by_slack()
            if self._is_in_time(slack):
                return "slack", slack
            below = self._from_below()
            if below is not None and self._is_in_time(below):
                return "search", below
            above = self._from_above([], self._given)
        except _Enough:
            return None
        self.complete = above is None
        return None if above is None else ("search", above)

    @property
    def _is_choice(self) -> bool:
        """Are there apps without a number in the text whose order matters on a CPU?"""
        if len(self._given) < 2 or not self._open:
            return False
        used = [{task.processor for task in group.tasks} for group in self._system.groups]
        ranked = (p.name for p in self._system.processors if p.scheduler in RANKED)
        return any(sum(name in own for own in used) > 1 for name in ranked)

    def _by_slack(self) -> list[Level]:
        """The apps by what they are due, less all that they do in an iteration."""
        found = []
        for group in self._system.groups:
            dues = [group.due, *(path.deadline for path in group.paths)]
            dues += [chain.deadline for chain in group.chains]
            due = min((Fraction(d) for d in dues if d is not None), default=Fraction(group.period))
            work = sum((task.work for task in group.tasks), start=Fraction(0))
            found.append(Urgency(group.name, self._text[group.name], due - work))
        return by_urgency(found)

    def _from_below(self) -> list[Level] | None:
        """Audsley's order: each time the one that is least urgent by deadline of those that are in
        time below the others. None where there is none."""
        left, below = list(self._given), list[Level]()
        while left:
            for level in reversed(left):
                rest = [other for other in left if other != level]
                if self._may_be_last(level, left) and self._keeps(level, [*rest, level], below):
                    left, below = rest, [level, *below]
                    break
            else:
                return None
        return below

    def _from_above(self, above: list[Level], left: list[Level]) -> list[Level] | None:
        """An order that begins with these; None if there is none."""
        if not left:
            return above if self._is_in_time(above) else None
        following = [level for level in left if self._may_be_first(level, left)]
        if self._cuts:
            for level in following:
                if not self._is_begin([*above, level]):
                    return None  # nothing can be less urgent and in time either
        elif factorial(len(self._given)) > self._most:
            raise _Enough
        for level in following:
            order = self._from_above([*above, level], [o for o in left if o != level])
            if order is not None:
                return order
        return None

    # -- numbers of the text stay in their order ---------------------------------------------------
    def _number(self, level: Level) -> int:
        return self._text[level[0]] or 0

    def _may_be_first(self, level: Level, left: Sequence[Level]) -> bool:
        return self._number(level) == max(map(self._number, left))

    def _may_be_last(self, level: Level, left: Sequence[Level]) -> bool:
        return self._number(level) == min(map(self._number, left))

    # -- looks -------------------------------------------------------------------------------------
    def _is_in_time(self, order: Sequence[Level]) -> bool:
        """Are all deadlines kept by an order of all apps?"""
        return worst_cases_in_time(self._timed(order)) is not None

    def _is_begin(self, above: Sequence[Level]) -> bool:
        """Are the deadlines of these apps kept, where the others are less urgent?

        Ages and reactions may depend on the others: they count when all have a place. In queues
        the others delay these as well, which a complete order shows.
        """
        return worst_cases_in_time(_alone(self._timed(above), above)) is not None

    def _keeps(self, level: Level, left: Sequence[Level], below: Sequence[Level]) -> bool:
        """Does a level keep its own deadlines at the end of those that are left?"""
        system = self._timed([*left, *below])
        if self._cuts:
            system = _alone(system, left)
        groups = tuple(replace(group, chains=()) for group in system.groups)
        worst = worst_cases(replace(system, groups=groups), patience=ROUGH)
        for group in self._problem.groups:
            if group.name in level:
                own = held(replace(group, chains=()), worst)
                if not all(each.met for each in own):
                    return False
        return True

    def _timed(self, order: Sequence[Level]) -> TimedSystem:
        """The system by an order. Raises _Enough."""
        self._looks += 1
        if self._looks > self._most:
            raise _Enough
        numbers = numbered(order)
        if self._rebuilt:
            whole = {
                **self._problem.priorities,
                **_in_places_of(order, self._problem.priorities),
            }
            ordered = self._problem.in_order(PriorityOrder("search", in_levels(whole)))
            return _part(timed(ordered, self._assignment), self._names)
        groups = [replace(g, priority=numbers.get(g.name, 0)) for g in self._system.groups]
        return replace(self._system, groups=tuple(groups))


def _part(system: TimedSystem, names: Collection[str]) -> TimedSystem:
    """The system with these groups alone."""
    workers = []
    for worker in system.workers:
        if any(firing.group in names for firing in worker.sequence):
            workers.append(worker)
    groups = tuple(group for group in system.groups if group.name in names)
    return replace(system, groups=groups, workers=tuple(workers))


def _alone(system: TimedSystem, levels: Sequence[Level]) -> TimedSystem:
    """These apps alone, without ages and reactions that may come through others."""
    part = _part(system, {name for level in levels for name in level})
    return replace(part, groups=tuple(replace(group, chains=()) for group in part.groups))
