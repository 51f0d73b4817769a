"""Limits on mappings of apps with deadlines: each one names what of an answer does not keep it.

A new limit is a class here and its entry in `LIMITS`: no search calls an answer feasible that
breaks one, and `map` reports its reasons. Memory and power are limits on whole programs, which a
driver plans first (`search.memory`, `driver.solve.clocks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from ...analysis.timing.system import TimedChain, TimedPath
from ...analysis.timing.terms import WorstCases
from ...targets.engines import crowded
from .problem import Assignment, JointProblem, TaskGroup


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    """A `limit` that is not kept.

    `group` is the app that does not keep it. None: the board cannot hold the mapping, which is
    therefore not stored. `reason` is for the user, `remedy` may help. It depends on the `others` as
    well, which are groups that a chain comes through.
    """

    limit: MappingLimit
    group: str | None
    reason: str
    remedy: str = ""
    others: tuple[str, ...] = ()


class MappingLimit(Protocol):
    """A limit on an assignment.

    What it says of a group may depend on the bounds of that group, and on the placement of groups
    that share processors with it, directly or through others: `exact` rules out all assignments
    that are alike in this. A limit that depends on more is one of the board (`group` None): then
    `exact` rules out single assignments.
    """

    def broken(
        self, problem: JointProblem, assignment: Assignment, worst: WorstCases
    ) -> Iterator[BrokenLimit]:
        """What does not keep it; `worst` are the bounds of response times."""


class Deadlines:
    """Every app, and each of its paths, has a bound that is within its deadline."""

    def broken(
        self, problem: JointProblem, assignment: Assignment, worst: WorstCases
    ) -> Iterator[BrokenLimit]:
        """The apps and paths that are late, or that have no bound."""
        for group in problem.groups:
            for each in held(group, worst):
                if each.bound is None:
                    reason = f"{each.name(group)} has no bound"
                    if each.chain is not None:
                        reason += f": {each.unbounded}"
                    yield BrokenLimit(self, group.name, reason, others=each.others)
                elif not each.met:
                    reason = (
                        f"{each.name(group)} takes up to {in_ms(each.bound)}, and has"
                        f" {in_ms(each.due)}"
                    )
                    yield BrokenLimit(self, group.name, reason, others=each.others)


class Engines:
    """A pool holds only so many engines: each network, or stage of one, is an engine."""

    def broken(
        self, problem: JointProblem, assignment: Assignment, worst: WorstCases
    ) -> Iterator[BrokenLimit]:
        """The pools with too many."""
        places = [place for stages in assignment.stages for place in stages]
        for task, place in zip(problem.tasks, assignment.tasks, strict=True):
            if task.engine:
                places.append(place)
        for app in problem.beside(assignment):
            places += app.engines
        engines = {str(number): (place,) for number, place in enumerate(places)}
        for pool, _, _ in crowded(problem.platform, engines):
            reason = f"`{pool.name}` would hold more engines than it can"
            yield BrokenLimit(self, None, reason, "cut networks less often")


LIMITS: tuple[MappingLimit, ...] = (Deadlines(), Engines())


def broken_limits(
    problem: JointProblem, assignment: Assignment, worst: WorstCases
) -> tuple[BrokenLimit, ...]:
    """Everything that does not keep some limit."""
    found: list[BrokenLimit] = []
    for limit in LIMITS:
        found += limit.broken(problem, assignment, worst)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Held:
    """The bound of a group, of one of its paths, or of a chain that ends in it, and its deadline.
    `due` is None without a deadline.

    Every iteration needs a finite bound, even without a deadline.
    """

    bound: Fraction | None
    due: Fraction | None
    path: TimedPath | None = None
    chain: TimedChain | None = None

    @property
    def others(self) -> tuple[str, ...]:
        """The groups that a chain comes through."""
        return () if self.chain is None else self.chain.groups

    @property
    def unbounded(self) -> str:
        """What a chain needs to have a bound."""
        return (
            "all apps on its way need periods, and one with `drop oldest` in front a pace that is"
            " not slower than its tokens"
        )

    @property
    def met(self) -> bool:
        """True if the deadline is proved to be met."""
        return self.bound is not None and (self.due is None or self.bound <= self.due)

    def name(self, group: TaskGroup) -> str:
        """The app, its path, or a chain that ends in it."""
        if self.path is None:
            return f"`{group.name}`"
        if self.chain is not None and self.chain.kind == "reaction":
            return f"the reaction `{self.path.source} -> {self.path.sink}`"
        return f"`{self.path.source} -> {self.path.sink}`"


def held(group: TaskGroup, worst: WorstCases) -> tuple[Held, ...]:
    """The bound of a group, and those of its paths and chains, each with its deadline."""
    found = [Held(worst.groups[group.name], group.due_ns)]
    for path, bound in zip(group.paths, worst.paths[group.name], strict=True):
        due = None if path.deadline is None else Fraction(path.deadline)
        found.append(Held(bound, due, path))
    for chain, bound in zip(group.chains, worst.chains[group.name], strict=True):
        as_path = TimedPath(chain.source, chain.sink, (), chain.deadline)
        found.append(Held(bound, chain.deadline, as_path, chain))
    return tuple(found)


def tightest(problem: JointProblem, worst: WorstCases) -> Fraction:
    """The largest share of its deadline that an app, path or chain needs."""
    shares = [Fraction(0)]
    for group in problem.groups:
        for each in held(group, worst):
            if each.bound and each.due:
                shares.append(each.bound / each.due)
    return max(shares)


def in_ms(ns: Fraction | None) -> str:
    """Nanoseconds in words."""
    return f"{float(ns or 0) / 1e6:.2f} ms"
