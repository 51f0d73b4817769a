"""The default search: exact partitions and plain mappings compete, and a few measured runs decide.

In: a problem, and a function that runs a mapping (or None: then predictions decide). Out: the
winner, with a table of all contestants. So the answer is never slower than one processor, the
inference library's own threads, or frames in parallel on all processors, within the accuracy of a
few seconds of running.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf

from ...model.mapping import Mapping, NetworkPlan, Placement, StagePlan
from ..budget import DEFAULT, Budget
from . import greedy
from .contest import Contest, Entry
from .design import Design, complete, fractional_bound
from .partition import Costs, Objective, Partition, Place, best_partition, best_partitions
from .plans import plan_of
from .problem import Divisible, Measure, Measurement, Problem, Progress

#: A Python task with this share of the work gets a process.
HEAVY = 0.1
#: Partitions that are run at first: the most promising ones.
RUN = 3
#: Designs predicted to take HOPELESS times as long as the best are not run at first if networks are
#: at least the share SURE of the work: predictions of networks are a few per cent off. Those whose
#: prediction is better than the best measurement are run later, and one core always.
HOPELESS, SURE = 1.5, 0.9
#: Predictions within this share are equal: without a run, the simpler one wins.
EQUAL = 0.01


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
    objective: Objective = "throughput",
) -> Mapping:
    """The best of the plain ways and the exact partitions; deterministic without `measure`."""
    begin = time.monotonic()
    plain = list(unlike(plain_ways(problem, objective)))
    known = {d.configuration for d in plain}
    cut = [d for d in unlike(partitions(problem, objective)) if d.configuration not in known]
    cut.sort(key=lambda d: d.predicted)
    count = len(plain) + len(cut)
    if measure is None or objective == "energy":
        entries = [Entry(d) for d in (*plain, *sorted(cut, key=stages))]
        least = min(e.design.predicted for e in entries)
        winner, runs = next(e for e in entries if e.design.predicted <= least * (1 + EQUAL)), 0
    else:
        contest = Contest(measure, objective, budget, progress)
        first = (*plain, *cut[:RUN])
        least = min(d.predicted for d in first)
        # Python tasks on several cores delay each other, by an amount that only a run shows.
        total = sum(problem.work_ns(a, t) for a in problem.apps for t in a.tasks)
        nets = sum(
            problem.work_ns(a, t)
            for a in problem.apps
            for t in a.tasks
            if t.name in problem.networks
        )
        sure = nets >= SURE * total
        hopeful = [d for d in first if d is first[0] or d.predicted <= least * HOPELESS or not sure]
        contest.enter_all(
            (design, design in hopeful) for design in (*plain, *sorted(cut, key=stages))
        )
        contest.catch_up()
        for design in apart(problem, contest, objective):
            contest.enter(design)
            count += 1
        for design in refined(problem, contest, objective):
            contest.enter(design)
            count += 1
        winner = contest.decide()
        entries, runs = contest.entries, contest.runs
    bound = fractional_bound(problem) if objective == "throughput" else None
    effort = replace(
        winner.design.mapping.effort,
        objective=objective,
        seed=seed,
        evaluations=count,
        measured_runs=runs,
        seconds=time.monotonic() - begin,
        lower_bound_ns=bound,
        optimal=bound is not None and winner.design.predicted <= bound * 1.0001,
    )
    ordered = sorted(
        entries, key=lambda e: (e is not winner, e.value is None, e.value or e.design.predicted)
    )
    table = tuple(e.contestant for e in ordered)
    mapping = replace(winner.design.mapping, search="auto", contestants=table, effort=effort)
    return replace(mapping, why=why(problem, winner, ordered, objective))


def stages(design: Design) -> int:
    """The number of stages of all networks: a measure of a design's complexity."""
    return sum(len(n.stages) for n in design.mapping.networks)


def unlike(designs: Iterable[Design]) -> Iterator[Design]:
    """The designs without duplicates."""
    seen = set()
    for design in designs:
        if design.configuration not in seen:
            seen.add(design.configuration)
            yield design


# -- proposals -------------------------------------------------------------------------------------
def plain_ways(problem: Problem, objective: Objective) -> Iterator[Design]:
    """The plain mappings that users write by hand, the simplest first.

    A network is on one machine.
    """
    machine_of = problem.platform.machine_of
    for design in _every_plain_way(problem, objective):
        stages = [stage for plan in design.mapping.networks for stage in plan.stages]
        if all(len({machine_of.get(p) for p in stage.processors}) == 1 for stage in stages):
            yield design


def _every_plain_way(problem: Problem, objective: Objective) -> Iterator[Design]:
    cpus = problem.cpus
    tasks = [t.name for a in problem.apps for t in a.tasks if t.name not in problem.networks]
    together = {t: Placement(t, (cpus[0],)) for t in tasks}
    kinds = {pool.kind: pool.processors for pool in problem.platform.pools}

    def plans(processors: tuple[str, ...], threads: int = 1) -> list[NetworkPlan]:
        return [
            NetworkPlan(name, (StagePlan(processors, threads=threads),))
            for name in problem.networks
        ]

    def able(kind: str) -> bool:
        return all(
            kind in n.costs.layers and max(n.costs.layers[kind]) < inf
            for n in problem.networks.values()
        )

    if able("cpu"):
        yield complete(problem, plans(cpus[:1]), "one core", objective, together)
        machine_of = problem.platform.machine_of
        threads = sum(machine_of.get(p) == machine_of.get(cpus[0]) for p in cpus)
        if problem.networks and threads > 1:
            library = plans(cpus[:1], threads)
            yield complete(problem, library, "threads of the library", objective, together)
    for kind, processors in kinds.items():
        if kind != "cpu" and able(kind) and problem.networks:
            yield complete(problem, plans(processors[:1]), f"on {processors[0]}", objective)
            if len(processors) > 1:
                yield complete(
                    problem, plans(processors), f"frames in turn on all {kind}s", objective
                )
    everywhere = [kind for kind in kinds if able(kind)]
    if (
        len(everywhere) > 1 and problem.networks
    ):  # a fast processor waits for a slow one, if their speeds differ too much
        every = tuple(p for kind in everywhere for p in kinds[kind])
        yield complete(problem, plans(every), "frames in turn on everything", objective)
    if able("cpu") and len(cpus) > 1 and problem.networks:
        yield complete(problem, plans(cpus[-1:]), "network on a core of its own", objective)
        yield complete(problem, plans(cpus), "frames in turn", objective)
        yield complete(
            problem, plans(cpus), "frames in turn, others on one core", objective, together
        )
    if not problem.networks:
        yield complete(problem, (), "greedy", objective)


def apart(problem: Problem, contest: Contest, objective: Objective) -> Iterator[Design]:
    """The best so far again, with heavy Python tasks in processes of their own: threads share the
    interpreter.
    """
    total = sum(problem.work_ns(a, t) for a in problem.apps for t in a.tasks)
    python = {
        t.name: problem.work_ns(a, t) * problem.held.get(t.name, 1.0)
        for a in problem.apps
        for t in a.tasks
        if not greedy.runs_without_interpreter(t)
        and t.implementations
        and t.name not in problem.pins
        and not t.open_ports
    }
    heavy = frozenset(t for t, work in python.items() if work > HEAVY * total)
    if not heavy or len(problem.cpus) < 2:
        return
    changed = replace(problem, apart=heavy)
    leaders = sorted(
        (e for e in contest.entries if e.value is not None), key=lambda e: e.value or 0.0
    )[:2]
    for entry in leaders:
        yield complete(
            changed, entry.design.mapping.networks, f"{entry.design.name}, Python apart", objective
        )


def places(
    problem: Problem, network: Divisible, busy: dict[str, float] | None = None
) -> list[Place]:
    """Every processor that has times for a network, and all of a pool together, with their other
    load.
    """
    found = []
    for pool in problem.platform.pools:
        if pool.kind not in network.costs.layers:
            continue
        found += [Place((p,), pool.kind, (busy or {}).get(p, 0.0)) for p in pool.processors]
        if pool.count > 1:
            shared = max((busy or {}).get(p, 0.0) for p in pool.processors)
            found.append(Place(pool.processors, pool.kind, shared))
    return found


def partitions(problem: Problem, objective: Objective) -> Iterator[Design]:
    """Optimal partitions of each network for every number of stages, the others whole.

    The other tasks are placed around the stages, and the stages around the other tasks, until
    nothing changes.
    """
    for name, network in problem.networks.items():
        costs = network.energy if objective == "energy" else network.costs
        if costs is None:
            continue
        rest = [
            NetworkPlan(n, (StagePlan(problem.cpus[:1]),)) for n in problem.networks if n != name
        ]
        for partition in best_partitions(costs, places(problem, network), objective):
            yield around(problem, name, network, partition, rest, objective)


def around(
    problem: Problem,
    name: str,
    network: Divisible,
    partition: Partition,
    rest: list[NetworkPlan],
    objective: Objective,
) -> Design:
    """A partition with the other tasks around it; for throughput it is computed again with their
    load.
    """
    stages = len(partition.ends)
    label = f"{stages} stages" if stages > 1 else "one stage"
    best = complete(problem, [plan_of(name, network, partition), *rest], label, objective)
    if objective != "throughput":
        return best
    for _ in range(3):
        own: dict[str, float] = {}
        for place, cost in zip(partition.places, partition.stage_cost, strict=True):
            for p in place.processors:
                own[p] = own.get(p, 0.0) + cost / len(place.processors)
        busy = {p: max(0.0, load - own.get(p, 0.0)) for p, load in best.load.items()}
        again = best_partition(network.costs, places(problem, network, busy), objective, stages)
        if again is None or (again.ends, again.places) == (partition.ends, partition.places):
            break
        partition = again
        design = complete(problem, [plan_of(name, network, partition), *rest], label, objective)
        if design.predicted >= best.predicted:
            break
        best = design
    return best


def refined(problem: Problem, contest: Contest, objective: Objective) -> Iterator[Design]:
    """Partitions computed again with the measured times of stages that ran together, which correct
    the profile stage by stage."""
    for entry in list(contest.entries):
        plans = entry.design.mapping.networks
        cut = next((p for p in plans if len(p.stages) > 1), None)
        if (
            cut is None
            or entry.last is None
            or objective != "throughput"
            or not contest.close(entry)
        ):
            continue
        network = problem.networks[cut.task]
        corrected = replace(network, costs=_corrected(problem, network, cut, entry.last))
        changed = replace(problem, networks={**problem.networks, cut.task: corrected})
        partition = best_partition(
            corrected.costs, places(problem, corrected), objective, len(cut.stages)
        )
        if partition is None:
            continue
        rest = [p for p in plans if p is not cut]
        design = around(changed, cut.task, corrected, partition, rest, objective)
        if all(design.configuration != e.design.configuration for e in contest.entries):
            yield replace(design, name=f"{design.name}, corrected")


def _corrected(problem: Problem, network: Divisible, plan: NetworkPlan, seen: Measurement) -> Costs:
    """Costs in which every layer is scaled by the measured slowdown of its stage."""
    layers = {kind: list(values) for kind, values in network.costs.layers.items()}
    first = 0
    for k, stage in enumerate(plan.stages, 1):
        end = network.costs.count if stage.until is None else network.layers.index(stage.until) + 1
        measured = seen.firing_ns.get(f"{plan.task}.stage{k}")
        if measured and stage.predicted_ns and len(stage.processors) == 1:
            kind = problem.platform.pool_of(stage.processors[0]).kind
            for i in range(first, end):
                layers[kind][i] *= measured / stage.predicted_ns
        first = end
    return replace(network.costs, layers=layers)


# -- words -----------------------------------------------------------------------------------------
def why(
    problem: Problem, winner: Entry, entries: list[Entry], objective: Objective
) -> tuple[str, ...]:
    """The reasons for the winner, and its bottleneck."""
    design = winner.design
    lines = [f"{design.name}: {design.configuration}"]
    others = [e for e in entries if e is not winner and e.value is not None]
    # Finalists were measured as often as the winner; single runs are not comparable.
    runner = next((e for e in others if len(e.values) == len(winner.values)), None)
    if runner is not None and runner.value and winner.value:
        lines.append(lead(winner.value, runner.value, runner.design.name, len(winner.values)))
    elif len(entries) > 1 and not others:
        other = min((e.design for e in entries if e is not winner), key=lambda d: d.predicted)
        gain = other.predicted / design.predicted - 1
        if gain < 0:
            lines.append(
                f"{other.name} is predicted {-gain:.1%} better but more complex; within the margin"
                " the simpler one wins"
            )
        else:
            lines.append(f"predicted to be {gain:.1%} better than the next, {other.name}")
    lines += _by_kind(problem, objective)
    lines += _limits(problem, design, objective)
    return tuple(lines)


def lead(winner_ns: float, other_ns: float, other: str, runs: int) -> str:
    """The winner's lead over another one, in medians of runs; the simpler one wins ties."""
    medians = f"in medians of {runs} and {runs} runs"
    if other_ns < winner_ns:
        gain = winner_ns / other_ns - 1
        return (
            f"{other} was {gain:.1%} better {medians}, but not significantly, and is more complex"
        )
    return f"{other_ns / winner_ns - 1:.1%} better than the next, {other}, {medians}"


def _by_kind(problem: Problem, objective: Objective) -> Iterator[str]:
    """The time of the whole network on each kind of processor."""
    for name, network in problem.networks.items():
        costs = network.energy if objective == "energy" else network.costs
        if costs is None or len(costs.layers) < 2:
            continue
        unit = "mJ" if objective == "energy" else "ms"
        sums = sorted(
            (sum(values) + costs.overhead[kind], kind) for kind, values in costs.layers.items()
        )
        yield f"`{name}` as a whole: " + ", ".join(
            f"{total / 1e6:.4g} {unit} on a {kind}" if total < inf else f"not possible on a {kind}"
            for total, kind in sums
        )


def _limits(problem: Problem, design: Design, objective: Objective) -> Iterator[str]:
    if objective != "throughput":
        return
    busiest = max(design.load, key=lambda p: design.load[p])
    least = min(design.load, key=lambda p: design.load[p])
    yield (
        f"`{busiest}` is the busiest processor: {design.load[busiest] / 1e6:.3g} ms per frame, "
        f"`{least}` has {design.load[least] / 1e6:.3g} ms"
    )
    for plan in design.mapping.networks:
        network = problem.networks.get(plan.task)
        if network is None or len(plan.stages) < 2:
            continue
        first = 0
        for k, stage in enumerate(plan.stages, 1):
            end = (
                network.costs.count
                if stage.until is None
                else network.layers.index(stage.until) + 1
            )
            if busiest in stage.processors:
                kind = problem.platform.pool_of(stage.processors[0]).kind
                times = network.costs.layers[kind][first:end]
                at = max(range(len(times)), key=lambda i: times[i])
                yield (
                    f"its stage {k} of `{plan.task}` has {end - first} layers; the largest,"
                    f" `{network.layers[first + at]}`, takes {times[at] / 1e6:.3g} ms and cannot be"
                    " split"
                )
            first = end
