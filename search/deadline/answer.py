"""The answer of a deadline search as a mapping: places, plans of networks, bounds of apps.

In: a problem, the outcome of a search, the verdict that holds. Out: a `Mapping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import replace
from fractions import Fraction
from math import ceil, isfinite

from ...analysis.timing.system import TimedChain, TimedSystem
from ...model.conditions import Condition, together
from ...model.mapping import (
    MOST_POINTS,
    Bands,
    Effort,
    FrontPoint,
    GroupBound,
    Mapping,
    NetworkPlan,
    PathBound,
    Pin,
    Placement,
    StagePlan,
    as_text,
    on_engine,
    placed_on_engine,
)
from ...profiling.measure import MeasuredTimes
from .conditions import conditions
from .limits import Held, held
from .outcome import LeastPower, Outcome
from .problem import Assignment, BackgroundApp, JointProblem, TaskGroup
from .program import timed
from .verdict import MappingVerdict


def mapping_of(
    problem: JointProblem,
    outcome: Outcome,
    verdict: MappingVerdict | None,
    seed: int,
    seen: MeasuredTimes | None = None,
    program: TimedSystem | None = None,
) -> Mapping:
    """The mapping that an outcome means, with the bounds of a verdict, and what a run of the
    program showed. Without a `program` the bounds are those of the one that is planned."""
    effort = Effort(
        outcome.objective,
        seed,
        outcome.evaluations,
        0,
        outcome.seconds,
        None,
        outcome.proved,
        outcome.history,
        _front(problem, outcome),
        scope=outcome.scope,
    )
    found = outcome.assignment
    empty = Mapping(problem.platform.name, (), (), outcome.search, effort=effort)
    if found is None or verdict is None:
        return empty
    system = program or timed(problem, found)
    held_if = conditions(problem, found, system)
    groups = tuple(_bound(problem, g, verdict, seen, held_if[g.name]) for g in problem.groups)
    return replace(
        empty,
        placements=_placements(problem, found),
        predicted_period_ns=_periods(problem, problem.beside(found)),
        networks=_plans(problem, found),
        utilization=tuple((p, float(u)) for p, u in verdict.utilization.items()),
        groups=groups,
        bound=None if outcome.bound is None else float(outcome.bound),
        priorities=problem.order if problem.ranked else None,
    )


def assignment_of(problem: JointProblem, pins: Iterable[Pin]) -> Assignment:
    """The assignment that pins mean which `mapping_of` has put in words.

    Raises KeyError with a task that they do not place, or cut where no candidate does.
    """
    stages = {p.task: p.stages for p in pins}
    choice, steps = [], []
    for network in problem.networks:
        places = tuple(s.processors[0] for s in stages[network.name])
        cut = [(problem.type[s.processors[0]], s.until) for s in stages[network.name]]
        shapes = [[(s.type, s.last_layer) for s in c.stages] for c in network.candidates]
        if cut not in shapes:
            raise KeyError(network.name)
        choice.append(shapes.index(cut))
        steps.append(places)
    tasks = (problem.pins.get(i.name) or stages[i.name][0].processors[0] for i in problem.tasks)
    return Assignment(tuple(choice), tuple(steps), tuple(tasks))


def _periods(
    problem: JointProblem, beside: Iterable[BackgroundApp]
) -> tuple[tuple[str, float], ...]:
    """The period of each group, and the predicted ones of what is in the background."""
    periods = [(group.name, float(group.period_ns)) for group in problem.groups]
    periods += [(a.name, a.predicted_period_ns) for a in beside]
    return tuple(period for period in periods if isfinite(period[1]))


def _bound(
    problem: JointProblem,
    group: TaskGroup,
    verdict: MappingVerdict,
    seen: MeasuredTimes | None,
    held_if: tuple[Condition, ...],
) -> GroupBound:
    whole, *paths = held(group, verdict.worst)
    name = group.name
    latencies = () if seen is None else seen.paths.get(name, ())
    return GroupBound(
        name,
        _up(whole.bound),
        _up(whole.due),
        name not in verdict.late,
        None if seen is None else seen.longest_ns.get(name),
        0 if seen is None else seen.frames.get(name, 0),
        0 if seen is None else seen.misses.get(name, 0),
        tuple(_path_bounds(problem, paths, latencies)),
        held_if,
    )


def _path_bounds(
    problem: JointProblem,
    paths: Sequence[Held],
    latencies: Sequence[tuple[int | None, int, int]],
) -> Iterator[PathBound]:
    """The bounds of paths, with what was measured of them as far as it is known."""
    for n, path_held in enumerate(paths):
        path = path_held.path
        if path is not None:
            bound = PathBound(
                path.source, path.sink, _up(path_held.bound), _up(path_held.due), path_held.met
            )
            if path_held.chain is not None:
                chain = path_held.chain
                bound = replace(bound, kind=chain.kind, conditions=_of_chain(problem, chain))
            if n < len(latencies):
                seen_ns, firings, missed = latencies[n]
                bound = replace(bound, seen_ns=seen_ns, firings=firings, missed=missed)
            yield bound


def _of_chain(problem: JointProblem, chain: TimedChain) -> tuple[Condition, ...]:
    """What an age or a reaction supposes beside the verdict on its app."""
    releases = {g.name: g.release for g in problem.groups if g.release is not None}
    made = [Condition("skips", (name,)) for name in chain.skipping]
    for name in chain.groups:
        if name in releases:
            made += releases[name].paced
    return together(made)


def _up(ns: Fraction | None) -> int | None:
    """In whole ns, never less."""
    return None if ns is None else ceil(ns)


def _front(problem: JointProblem, outcome: Outcome) -> tuple[FrontPoint, ...]:
    """The answers that no other one beats in everything, the least power first if it counted."""
    if outcome.power is not None:
        return power_front({"": problem}, outcome.power)
    front = sorted(outcome.front, key=lambda point: point[:2])
    return tuple(_point(problem, *point) for point in front[:MOST_POINTS])


def power_front(
    problems: MappingABC[str, JointProblem], power: LeastPower
) -> tuple[FrontPoint, ...]:
    """The same of all states: what is in several of them has one place."""
    found = []
    for point in power.front[:MOST_POINTS]:
        placements: dict[str, Placement] = {}
        plans: dict[str, NetworkPlan] = {}
        for name, problem in problems.items():
            assignment = point.assignments[name]
            placements |= {p.task: p for p in _placements(problem, assignment)}
            plans |= {plan.task: plan for plan in _plans(problem, assignment)}
        platform = next(iter(problems.values())).platform.name
        pins = as_text(platform, tuple(placements.values()), tuple(plans.values()))
        shares = float(point.maximum), float(point.tightest)
        found.append(FrontPoint(*shares, pins, float(point.watts), point.cpus))
    return tuple(found)


def _point(
    problem: JointProblem, utilization: float, tightest: float, found: Assignment
) -> FrontPoint:
    pins = as_text(problem.platform.name, _placements(problem, found), _plans(problem, found))
    return FrontPoint(utilization, tightest, pins)


def _placements(problem: JointProblem, found: Assignment) -> tuple[Placement, ...]:
    placements = []
    cpus = _cpus(problem)
    for task, place in zip(problem.tasks, found.tasks, strict=True):
        if task.homes:
            continue
        bands = problem.bands.get(task.name, ()) if problem.kind[place] == "cpu" else ()
        placed = Placement(task.name, (place,), bands=bands)
        placements.append(placed_on_engine(placed, problem.engines.get(task.name), cpus))
    at = {task.name: place for task, place in zip(problem.tasks, found.tasks, strict=True)}
    ends = (follower for follower in problem.followers if follower.task is not None)
    placements += (Placement(end.name, (at[end.source],)) for end in ends)
    for app in problem.beside(found):
        placements += app.placements
    return tuple(placements)


def _plans(problem: JointProblem, found: Assignment) -> tuple[NetworkPlan, ...]:
    return tuple(_plan(problem, found, n) for n in range(len(problem.networks)))


def _plan(problem: JointProblem, found: Assignment, n: int) -> NetworkPlan:
    network = problem.networks[n]
    made = network.candidates[found.choice[n]]
    bands: tuple[Bands, ...] = ()
    if made.whole_on in problem.cpu_types:
        bands = problem.bands.get(network.name, ())
    stages = (
        StagePlan((place,), stage.last_layer, predicted_ns=float(stage.firing), bands=bands)
        for stage, place in zip(made.stages, found.stages[n], strict=True)
    )
    plan = NetworkPlan(network.name, tuple(stages))
    return on_engine(plan, problem.engines.get(network.name), _cpus(problem))


def _cpus(problem: JointProblem) -> frozenset[str]:
    return frozenset(p for p, kind in problem.kind.items() if kind == "cpu")
