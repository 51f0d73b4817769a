"""The search `exact`: the optimum of tasks and cuts together, in the model of times.

In: a problem. Out: for throughput the answer of one integer program for all tasks and networks
(`joint`), or a better one of the optimal partitions of single networks into one stage, two stages,
and so on (`best_partitions`), with the other tasks around it. They generalize the search of the
paper on pipelining with TVM (IEEE Access 11, 2023, Algorithm 1), and answer for latency or energy
as well. Only the winner is run, once, where a function to run it is given.

`Effort.optimal` means for throughput: no placement of tasks on one processor each, with networks
cut into up to four stages on one processor each, has less load on its busiest processor. The bound
of the program shows it. For latency and energy it means that no partition of the only network costs
less while the other tasks stay. It says nothing about mappings of other kinds (threads of the
library, copies), nor about the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from ...model.mapping import Mapping, NetworkPlan
from ...model.scope import Scope
from . import auto
from .design import Design
from .joint import JointPlan, is_single, joint_design, joint_plan
from .partition import (
    MOST_STAGES,
    Costs,
    Objective,
    Partition,
    StagePlace,
    best_partitions,
    configurations,
    evaluate,
    paper_stops,
)
from .plans import whole
from .problem import Divisible, Measure, Problem, Progress
from .request import SearchRequest
from .trials import Over, Trials, as_auto

#: What the joint program is optimal over.
TOGETHER = Scope(
    ("places of tasks", "cuts and places of networks"),
    ("threads and copies", "batches", "precisions", "engines"),
)
#: How often each of several networks is partitioned, around the present plans of the others.
ROUNDS = 3


def search(request: SearchRequest) -> Mapping:
    """The partition with the best prediction, uncut networks included. Deterministic: the seed has
    no effect.

    With `measure` the winner is run once, which decides nothing.
    """
    problem, objective = request.problem, request.objective
    if not problem.networks:
        return as_auto("exact", request)
    trials = Trials(replace(request, measure=None))
    together: JointPlan | None = None
    try:
        for design in proposals(problem, objective):
            trials.value(design)
        if objective == "throughput":
            together = joint_plan(problem, trials.spending.left, trials.best(len(trials)))
        if together is not None:
            trials.value(joint_design(problem, together))
    except (Over, KeyboardInterrupt):
        if trials.empty:
            raise
    (winner,) = trials.best()
    optimal_over, notes = None, list[str]()
    if together is not None:
        notes.append(_said_of_bound(together, winner))
        if is_single(winner) and together.is_least(winner.predicted):
            optimal_over = TOGETHER
    if len(problem.networks) == 1:
        cost, partitions = _referee(problem, winner, objective)
        notes += _counted(problem, partitions)
        if objective != "throughput" and cost <= min(p.cost for p in partitions) * (1 + 1e-9):
            optimal_over = _scope(problem)
    if optimal_over is not None:
        notes.append(f"optimal {optimal_over.in_words}")
    for plan in winner.mapping.networks:
        notes += _skips(problem.networks[plan.task], plan)
    answer = trials.answer("exact", trials.best(2), notes, optimal_over)
    if request.runs is None:
        return answer
    return _run(answer, request.runs, objective, request.progress)


def _said_of_bound(together: JointPlan, winner: Design) -> str:
    """How far the answer is from the bound of the joint program."""
    most = f"{1e9 / together.bound_ns:.4g} frames/s" if together.bound_ns else "any rate"
    said = f"tasks and cuts together, with threads and copies as given, allow {most} at most"
    if together.is_least(winner.predicted):
        return f"{said}: no less than this answer has"
    return f"{said}, {winner.predicted / together.bound_ns - 1:.2%} more than this answer has"


def _scope(problem: Problem) -> Scope:
    """What the partition of the only network is optimal over."""
    (name,) = problem.networks
    held = ["batches", "precisions", "engines", "threads and copies"]
    if len(problem.tasks) > 1:
        held.insert(0, "places of other tasks")
    return Scope((f"cuts and places of `{name}`",), tuple(held))


def proposals(problem: Problem, objective: Objective) -> Iterator[Design]:
    """Optimal partitions of each network in turn, for every number of stages, with the others as
    planned so far.

    With one network these are the partitions of `auto`; with several they are computed again until
    there is no gain.
    """
    plans = {plan.task: plan for plan in whole(problem.networks, problem.cpus[:1])}
    best: Design | None = None
    for _ in range(ROUNDS if len(plans) > 1 else 1):
        before = best
        for name, network in problem.networks.items():
            rest = [plan for task, plan in plans.items() if task != name]
            for design in _partitioned(problem, name, network, rest, objective):
                yield design
                if best is None or design.predicted < best.predicted:
                    best = design
            if best is not None:
                plans = {p.task: p for p in best.mapping.networks}
        if best is before:
            return


def _partitioned(
    problem: Problem,
    name: str,
    network: Divisible,
    rest: list[NetworkPlan],
    objective: Objective,
) -> Iterator[Design]:
    """The optimal partitions of one network, with the other tasks around them."""
    able = auto.places(problem, network)
    for partition in best_partitions(_costs(network, objective), able, objective):
        yield auto.around(problem, name, network, partition, rest, objective)


def _costs(network: Divisible, objective: Objective) -> Costs:
    costs = network.costs_for(objective)
    assert costs is not None  # refused before a search begins
    return costs


def _referee(
    problem: Problem, design: Design, objective: Objective
) -> tuple[float, tuple[Partition, ...]]:
    """The cost of the plan of the only network in the model of `exact`, and the optimal partitions,
    both beside the load of the other tasks."""
    (plan,) = design.mapping.networks
    network = problem.networks[plan.task]
    costs = _costs(network, objective)
    ends = [*_ends(network, plan), costs.count]

    def evaluated(busy: dict[str, float]) -> Partition:
        places = [_place(problem, s.processors, busy) for s in plan.stages]
        return evaluate(costs, ends, places, objective)

    busy = evaluated({}).load_beside(design.load)
    optima = best_partitions(costs, auto.places(problem, network, busy), objective)
    return evaluated(busy).cost, optima


def _place(problem: Problem, processors: tuple[str, ...], busy: dict[str, float]) -> StagePlace:
    type_ = problem.platform.pool_of(processors[0]).type
    return StagePlace(processors, type_, max(busy.get(p, 0.0) for p in processors))


def _ends(network: Divisible, plan: NetworkPlan) -> list[int]:
    """The number of layers before each cut."""
    return [network.end_of(stage) for stage in plan.stages if stage.until is not None]


def _counted(problem: Problem, partitions: Sequence[Partition]) -> Iterator[str]:
    """The number of configurations by the paper, and where its rule would have stopped."""
    (network,) = problem.networks.values()
    parts = len(network.costs.cuts) + 1
    pools = [pool for pool in problem.platform.pools if pool.type in network.costs.layers]
    devices = sum(pool.count for pool in pools)
    stages = range(1, min(MOST_STAGES, parts) + 1)
    counts = ", ".join(str(configurations(parts, devices, s)) for s in stages)
    yield (
        f"equation 2 counts {counts} configurations of 1, 2, ... stages for {parts} parts on"
        f" {devices} processors"
    )
    cost = {len(p.ends): p.cost for p in partitions}
    least = min(cost, key=lambda s: cost[s])
    stop = paper_stops([cost.get(s, inf) for s in stages])
    yield f"the paper's rule stops at {_stages(stop)}, {_missed(cost, stop, least)}"


def _missed(cost: dict[int, float], stop: int, least: int) -> str:
    """What is lost at the number of stages where the paper's rule stops (`cost` is by number)."""
    if stop not in cost:
        return f"which is impossible; the optimum has {_stages(least)}"
    if cost[stop] == cost[least]:
        return "and misses nothing here"
    return f"{cost[stop] / cost[least] - 1:.1%} above the optimum with {_stages(least)}"


def _stages(count: int) -> str:
    return "1 stage" if count == 1 else f"{count} stages"


def _skips(network: Divisible, plan: NetworkPlan) -> Iterator[str]:
    skipping = network.skipping(_ends(network, plan))
    if not skipping:
        return
    names = ", ".join(f"`{tensor}`" for tensor in skipping[:3])
    if len(skipping) > 3:
        names += " and others"
    yield (
        f"{names} skip a stage of `{plan.task}`: they are charged at every cut that they cross,"
        " so that the cost is an upper bound"
    )


def _run(
    answer: Mapping, measure: Measure, objective: Objective, progress: Progress | None
) -> Mapping:
    """The answer with one run of it; Ctrl-C keeps it as it is."""
    begin = time.monotonic()
    try:
        measured = measure(answer)
    except KeyboardInterrupt:
        return answer
    value = measured.value(objective)
    winner, *others = answer.contestants
    if progress is not None:
        text = f"{value / 1e6:8.3f} ms  {winner.name}: {winner.configuration}"
        progress(text, evaluations=answer.effort.evaluations)
    contestants = (replace(winner, measured_ns=value), *others)
    why = (*answer.why, f"the winner was run once: {value / 1e6:.3f} ms")
    seconds = answer.effort.seconds + time.monotonic() - begin
    effort = replace(answer.effort, measured_runs=1, seconds=seconds)
    return replace(answer, contestants=contestants, effort=effort, why=why)
