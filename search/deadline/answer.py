"""The answer of a deadline search as a mapping: places, plans of networks, bounds of apps.

In: a problem, the outcome of a search, the verdict that holds. Out: a `Mapping`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

from ...model.mapping import Effort, GroupBound, Mapping, NetworkPlan, Placement, StagePlan
from ...profiling.measure import Seen
from .auto import Outcome
from .problem import Assignment, JointProblem, Verdict


def mapping_of(
    problem: JointProblem, outcome: Outcome, verdict: Verdict | None, seed: int, seen: Seen | None = None
) -> Mapping:
    """The mapping that an outcome means, with the bounds of a verdict, and what a run of the program showed."""
    effort = Effort("utilization", seed, outcome.evaluations, 0, outcome.seconds, None, outcome.proved)
    found = outcome.assignment
    empty = Mapping(problem.platform.name, (), (), outcome.search, effort=effort)
    if found is None or verdict is None:
        return empty
    groups = tuple(
        GroupBound(
            t.name,
            None if verdict.response_ns[t.name] is None else ceil(Fraction(verdict.response_ns[t.name] or 0)),
            ceil(t.deadline_ns or t.period_ns),
            t.name not in verdict.late,
            t.name in verdict.conditional,
            None if seen is None else seen.longest_ns.get(t.name),
            0 if seen is None else seen.frames.get(t.name, 0),
            0 if seen is None else seen.misses.get(t.name, 0),
        )
        for t in problem.teams
    )
    return replace(
        empty,
        placements=tuple(Placement(i.name, (p,)) for i, p in zip(problem.items, found.items, strict=True)),
        predicted_period_ns=tuple((t.name, float(t.period_ns)) for t in problem.teams),
        networks=tuple(_plan(problem, found, n) for n in range(len(problem.nets))),
        utilization=tuple((p, float(u)) for p, u in verdict.utilization.items()),
        groups=groups,
        bound=None if outcome.bound is None else float(outcome.bound),
    )


def _plan(problem: JointProblem, found: Assignment, n: int) -> NetworkPlan:
    steps = problem.nets[n].candidates[found.choice[n]].steps
    stages = (
        StagePlan((place,), step.last_layer, predicted_ns=float(step.firing))
        for step, place in zip(steps, found.steps[n], strict=True)
    )
    return NetworkPlan(problem.nets[n].name, tuple(stages))
