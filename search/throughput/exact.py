"""The search `exact`: the optimal contiguous partition alone, as it stands in the model of times.

In: a problem. Out: the best of the optimal partitions for one stage, two stages, and so on, with
the other tasks around
it (`best_partitions`). It generalizes the search of the paper on pipelining with TVM (IEEE Access
11, 2023, Algorithm
1) and answers for throughput, latency or energy. Nothing is run but the winner, once, where a
   way to run is given.

`Effort.optimal` says: no contiguous partition of the network into up to four stages, each on a
processor or on all of a pool, costs less in the model of `exact` while everything else keeps its
processors as busy as it keeps them now. It is asked after the search, for the loads that the winner
has, and only for apps with one network that may be cut: with several, each is optimal only for what
the others do. It says nothing about mappings of other kinds (threads of the library, several
networks together), nor about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from ...model.mapping import Mapping, NetworkPlan, StagePlan
from ..budget import DEFAULT, Budget
from . import auto
from .design import Design
from .partition import (
    MOST_STAGES,
    Costs,
    Objective,
    Partition,
    Place,
    best_partitions,
    configurations,
    evaluate,
    paper_stops,
)
from .problem import Divisible, Measure, Problem, Progress
from .trials import Over, Trials, as_auto

#: Times that every network of several is partitioned again for what the others do.
ROUNDS = 3


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
    objective: Objective = "throughput",
) -> Mapping:
    """The partition with the best prediction, whole networks among them; deterministic, and the
    seed has no effect.

    `measured_runs` is 1 where a way to run is given: the winner's, which decides nothing.
    """
    if not problem.networks:
        return as_auto("exact", problem, seed, budget, progress, measure, objective)
    trials = Trials(problem, None, objective, budget, progress)
    try:
        for design in proposals(problem, objective):
            trials.value(design)
    except (Over, KeyboardInterrupt):
        if trials.empty:
            raise
    (winner,) = trials.best()
    optimal, notes = (
        False,
        [
            "every network was partitioned for what the others do: nothing is proved for all"
            " together"
        ],
    )
    if len(problem.networks) == 1:
        cost, partitions = _referee(problem, winner, objective)
        optimal = cost <= min(p.cost for p in partitions) * (1 + 1e-9)
        notes = list(_counted(problem, partitions, optimal))
    for plan in winner.mapping.networks:
        notes += _skips(problem.networks[plan.task], plan)
    found = trials.answer("exact", trials.best(2), seed, notes, optimal)
    return found if measure is None or objective == "energy" else _run(found, measure, progress)


def proposals(problem: Problem, objective: Objective) -> Iterator[Design]:
    """Optimal partitions of each network in turn, for every number of stages, around what the
    others have.

    With one network these are the partitions of `auto`; with several they are found again until
    nothing gains.
    """
    plans = {n: NetworkPlan(n, (StagePlan(problem.cpus[:1]),)) for n in problem.networks}
    best: Design | None = None
    for _ in range(ROUNDS if len(plans) > 1 else 1):
        before = best
        for name, network in problem.networks.items():
            rest = [p for n, p in plans.items() if n != name]
            for partition in best_partitions(
                _costs(network, objective), auto.places(problem, network), objective
            ):
                design = auto.around(problem, name, network, partition, rest, objective)
                if design is not None:
                    yield design
                    best = design if best is None or design.predicted < best.predicted else best
            if best is not None:
                plans = {p.task: p for p in best.mapping.networks}
        if best is before:
            return


def _costs(network: Divisible, objective: Objective) -> Costs:
    if objective != "energy":
        return network.costs
    assert network.energy is not None  # refused before a search begins
    return network.energy


def _referee(
    problem: Problem, design: Design, objective: Objective
) -> tuple[float, tuple[Partition, ...]]:
    """What the plan of the only network costs in the model of `exact`, and the optimal partitions,
    both for what everything else costs the processors."""
    (plan,) = design.mapping.networks
    network = problem.networks[plan.task]
    costs = _costs(network, objective)
    ends = [*_ends(network, plan), costs.count]

    def evaluated(busy: dict[str, float]) -> Partition:
        places = [_place(problem, s.processors, busy) for s in plan.stages]
        return evaluate(costs, ends, places, objective)

    own: dict[str, float] = {}
    for stage, cost in zip(plan.stages, evaluated({}).stage_cost, strict=True):
        for p in stage.processors:
            own[p] = own.get(p, 0.0) + cost / len(stage.processors)
    busy = {p: max(0.0, load - own.get(p, 0.0)) for p, load in design.load.items()}
    return evaluated(busy).cost, best_partitions(
        costs, auto.places(problem, network, busy), objective
    )


def _place(problem: Problem, processors: tuple[str, ...], busy: dict[str, float]) -> Place:
    kind = problem.platform.pool_of(processors[0]).kind
    return Place(processors, kind, max(busy.get(p, 0.0) for p in processors))


def _ends(network: Divisible, plan: NetworkPlan) -> list[int]:
    """Layers in front of each cut."""
    return [network.layers.index(s.until) + 1 for s in plan.stages if s.until is not None]


def _counted(problem: Problem, partitions: Sequence[Partition], optimal: bool) -> Iterator[str]:
    """The paper's count, and where its rule would have stopped."""
    network = next(iter(problem.networks.values()))
    parts = len(network.costs.cuts) + 1
    devices = sum(
        pool.count for pool in problem.platform.pools if pool.kind in network.costs.layers
    )
    stages = range(1, min(MOST_STAGES, parts) + 1)
    counts = ", ".join(f"{configurations(parts, devices, s)}" for s in stages)
    yield (
        f"equation 2 counts {counts} configurations of 1, 2, ... stages for {parts} parts on"
        f" {devices} processors"
    )
    cost = {len(p.ends): p.cost for p in partitions}
    stop = paper_stops([cost.get(s, inf) for s in stages])
    least = min(cost, key=lambda s: cost[s])
    if cost.get(stop) == cost[least]:
        yield f"the paper's rule stops at {_stages(stop)}, and misses nothing here"
    else:
        lost = (
            "which is impossible"
            if stop not in cost
            else f"{cost[stop] / cost[least] - 1:.1%} above"
        )
        yield f"the paper's rule stops at {_stages(stop)}, {lost} the optimum with {_stages(least)}"
    if not optimal:
        yield (
            f"not proved optimal: {_stages(least)} would cost {cost[least] / 1e6:.3g} ms beside"
            " what the other tasks do now, but carried out they cost more, with the hand-overs"
            " that they bring"
        )


def _stages(count: int) -> str:
    return f"{count} stage{'s' if count > 1 else ''}"


def _skips(network: Divisible, plan: NetworkPlan) -> Iterator[str]:
    skipping = network.skipping(_ends(network, plan))
    if skipping:
        names = ", ".join(f"`{t}`" for t in skipping[:3]) + (
            " and others" if len(skipping) > 3 else ""
        )
        yield (
            f"{names} skip a stage of `{plan.task}`: they are charged at every cut that they cross,"
            " so that the cost is an upper bound"
        )


def _run(found: Mapping, measure: Measure, progress: Progress | None) -> Mapping:
    """The answer with one run of it; Ctrl-C keeps it as it is."""
    begin = time.monotonic()
    try:
        seen = measure(found)
    except KeyboardInterrupt:
        return found
    value = max(
        (seen.latency_ns if found.effort.objective == "latency" else seen.period_ns).values()
    )
    if progress is not None:
        text = (
            f"{value / 1e6:8.3f} ms  {found.contestants[0].name}:"
            f" {found.contestants[0].configuration}"
        )
        progress(text, evaluations=found.effort.evaluations)
    first = replace(found.contestants[0], measured_ns=value)
    why = (*found.why, f"the winner was run once: {value / 1e6:.3f} ms")
    effort = replace(
        found.effort, measured_runs=1, seconds=found.effort.seconds + time.monotonic() - begin
    )
    return replace(found, contestants=(first, *found.contestants[1:]), effort=effort, why=why)
