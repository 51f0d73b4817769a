"""The default search: exact partitions and plain mappings compete, and a few measured runs decide.

In: a problem, and a function that runs a mapping (None: predictions decide). Out: the winner, with
a table of all contestants. So the answer is never slower than one processor, the inference
library's own threads, or frames in parallel on all processors, within the accuracy of a few seconds
of runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from statistics import median

from ...analysis.dataflow.order import components
from ...model.mapping import Decision, Mapping, NetworkPlan, Placement, is_lower
from ...model.stateless import could_overlap, overlap_advice
from .contest import Contest, ContestEntry, by_latency
from .cycles import MOST_FIRINGS, MOST_SPREAD, cyclic, executed_ns, is_spread, least_ns
from .design import EVERY_WAY, Design, complete, fractional_bound
from .joint import together
from .partition import Costs, Objective, Partition, StagePlace, best_partition, best_partitions
from .plans import plan_of, stage_names, whole
from .problem import (
    Divisible,
    Measurement,
    Problem,
    runs_without_interpreter,
    scale,
)
from .race import LEVEL, least_gain
from .request import SearchRequest
from .whole_frames import whole_frames

#: A Python task with this share of the work gets a process.
HEAVY = 0.1
#: The number of partitions that run first: those with the best predictions.
RUN = 3
#: Designs predicted to take HOPELESS times as long as the best do not run at first if networks are
#: at least the share SURE of the work, as predictions of networks err by a few per cent. Designs
#: whose prediction is better than the best measurement run later; plain ones always run.
HOPELESS, SURE = 1.5, 0.9
#: Of the budget, what the integer program for tasks and cuts together gets at most.
TOGETHER = 0.1
#: Predictions within this share are equal: without runs, the simpler design wins.
EQUAL = 0.01


def search(request: SearchRequest) -> Mapping:
    """The best of the plain ways and the exact partitions; deterministic without `measure`."""
    problem, objective, measure = request.problem, request.objective, request.runs
    begin = time.monotonic()
    plain = list(unlike(plain_ways(problem, objective)))
    known = {d.configuration for d in plain}
    divided = [*_all_partitions(problem, objective)]
    if objective == "throughput" and problem.networks:
        divided += together(problem, request.budget.part(TOGETHER), [*plain, *divided])
    cut = [d for d in unlike(divided) if d.configuration not in known]
    runs = 0
    decision: Decision = ""
    if measure is None:
        entries = [ContestEntry(design) for design in (*plain, *_simplest_first(cut))]
        winner = _least_predicted(entries, objective)
    else:
        contest = Contest(measure, objective, request.budget, request.progress)
        _compete(problem, contest, plain, cut, objective)
        winner = contest.decide()
        entries, runs, decision = contest.entries, contest.runs, contest.decision
    bound = fractional_bound(problem) if objective == "throughput" else None
    effort = replace(
        winner.design.mapping.effort,
        objective=objective,
        seed=request.seed,
        evaluations=len(entries),
        measured_runs=runs,
        seconds=time.monotonic() - begin,
        lower_bound_ns=bound,
        optimal=winner.design.reaches(bound),
        decision=decision,
        scope=EVERY_WAY,
    )
    ordered = sorted(
        entries, key=lambda e: (e is not winner, e.value is None, e.value or e.design.predicted)
    )
    return replace(
        winner.design.mapping,
        search="auto",
        contestants=tuple(e.contestant for e in ordered),
        effort=effort,
        why=why(problem, winner, ordered, objective, decision),
    )


def _all_partitions(problem: Problem, objective: Objective) -> Iterator[Design]:
    """The exact partitions; those of networks that another engine does not cut on ONNX Runtime."""
    yield from partitions(problem, objective)
    if problem.default is not None:
        for design in partitions(problem.default, objective):
            if stages(design) > len(design.mapping.networks):
                yield replace(design, name=f"{design.name}, on ONNX Runtime")


def _least_predicted(entries: Sequence[ContestEntry], objective: Objective) -> ContestEntry:
    """Of the entries whose predictions equal the least one, for throughput the one with the lowest
    latency, and of equal ones the simplest."""
    least = min(e.design.predicted for e in entries)
    equal = [e for e in entries if e.design.predicted <= least * (1 + EQUAL)]
    if objective == "throughput":
        return by_latency(equal, [e.design.latency_ns for e in equal])[0]
    return equal[0]


def _compete(
    problem: Problem,
    contest: Contest,
    plain: list[Design],
    cut: list[Design],
    objective: Objective,
) -> None:
    """Enter the proposed designs, and then those that their measurements lead to."""
    best_cuts = sorted(cut, key=lambda d: d.predicted)[:RUN]
    hopeful = _hopeful(problem, [*plain, *best_cuts])
    contest.enter_all((design, design in hopeful) for design in (*plain, *_simplest_first(cut)))
    contest.catch_up()
    for design in apart(problem, contest, objective):
        contest.enter(design)
    for design in refined(problem, contest, objective):
        contest.enter(design)
    for design in on_default_engine(problem, contest, objective):
        contest.enter(design)


def _hopeful(problem: Problem, designs: list[Design]) -> list[Design]:
    """The plain designs, and those that may win by their predictions.

    These are all designs where much of the work is not that of networks: Python tasks on several
    cores delay each other, by an amount that only a run shows.
    """
    work = {task.name: problem.work_ns(app, task) for app, task in problem.tasks}
    of_networks = sum(ns for task, ns in work.items() if task in problem.networks)
    if of_networks < SURE * sum(work.values()):
        return designs
    limit = HOPELESS * min(d.predicted for d in designs)
    return [d for d in designs if d.plain or d.predicted <= limit]


def _simplest_first(designs: Iterable[Design]) -> list[Design]:
    """By the number of stages; designs with equally many by their predictions."""
    return sorted(designs, key=lambda d: (stages(d), d.predicted))


def stages(design: Design) -> int:
    """The number of stages of all networks: the complexity of a design."""
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
    """The plain mappings that users write by hand, and two variants of them, the simplest first.

    A network is on one machine.
    """
    for design in _every_plain_way(problem, objective):
        if all(_on_one_machine(problem, plan) for plan in design.mapping.networks):
            yield design


def _on_one_machine(problem: Problem, plan: NetworkPlan) -> bool:
    """True if the processors of each stage are on the same machine."""
    machine_of = problem.platform.machine_of
    return all(len({machine_of.get(p) for p in s.processors}) == 1 for s in plan.stages)


def _every_plain_way(problem: Problem, objective: Objective) -> Iterator[Design]:
    if not problem.networks:
        pinned = all(task.name in problem.pins for _, task in problem.tasks)
        first = "as pinned" if pinned else "one core"
        yield _plain(complete(problem, (), first, objective, _on_one_core(problem)))
        yield _plain(complete(problem, (), "greedy", objective))
        if objective == "throughput" and len(problem.cpus) > 1:
            yield from map(_plain, whole_frames(problem))
        return
    kinds = problem.platform.kinds
    able = {type_: problem.of_type(type_) for type_ in kinds if problem.runs_networks_on(type_)}
    on_cpus = any(kinds[type_] == "cpu" for type_ in able)
    if on_cpus:
        yield from _on_the_first_core(problem, objective)
    for type_, processors in able.items():
        if kinds[type_] != "cpu":
            yield from _on_accelerators(problem, kinds[type_], processors, objective)
    if len(able) > 1:
        # A fast processor waits for a slow one if their speeds differ too much.
        everything = tuple(chain.from_iterable(able.values()))
        plans = whole(problem.networks, everything)
        yield _plain(complete(problem, plans, "frames in turn on everything", objective))
    if on_cpus and len(problem.cpus) > 1:
        yield from _on_other_cores(problem, objective)


def _plain(design: Design) -> Design:
    """The design as one of those that the answer has to beat."""
    return replace(design, plain=True)


def _on_one_core(problem: Problem) -> dict[str, Placement]:
    """All tasks but the networks on the first core that can run them."""
    tasks = [task.name for _, task in problem.tasks if task.name not in problem.networks]
    return {name: Placement(name, (problem.first_core,)) for name in tasks}


def _on_the_first_core(problem: Problem, objective: Objective) -> Iterator[Design]:
    """Everything on one core, without and with threads of the inference library on the other cores
    of its machine."""
    core, others = (problem.first_core,), _on_one_core(problem)
    plans = whole(problem.networks, core)
    yield _plain(complete(problem, plans, "one core", objective, others))
    machine_of = problem.platform.machine_of
    threads = sum(machine_of.get(p) == machine_of.get(core[0]) for p in problem.cpus)
    if threads > 1:
        plans = whole(problem.networks, core, threads)
        yield _plain(complete(problem, plans, "threads of the library", objective, others))


def _on_accelerators(
    problem: Problem, kind: str, processors: tuple[str, ...], objective: Objective
) -> Iterator[Design]:
    """The networks on the first processor of a kind, or on all of them."""
    plans = whole(problem.networks, processors[:1])
    yield _plain(complete(problem, plans, f"on {processors[0]}", objective))
    if len(processors) > 1:
        plans = whole(problem.networks, processors)
        yield _plain(complete(problem, plans, f"frames in turn on all {kind}s", objective))


def _on_other_cores(problem: Problem, objective: Objective) -> Iterator[Design]:
    """The networks on the last core, or their frames on all cores in turn."""
    plans = whole(problem.networks, problem.cpus[-1:])
    yield complete(problem, plans, "network on a core of its own", objective)
    plans = whole(problem.networks, problem.cpus)
    yield _plain(complete(problem, plans, "frames in turn", objective))
    if objective == "throughput":
        yield from map(_plain, whole_frames(problem))
    others = _on_one_core(problem)
    yield complete(problem, plans, "frames in turn, others on one core", objective, others)


def on_default_engine(problem: Problem, contest: Contest, objective: Objective) -> Iterator[Design]:
    """The best one so far with all networks on ONNX Runtime: times of single inferences have chosen
    their engines, and the race has the last word."""
    measured = contest.measured
    if problem.default is None or not measured:
        return
    best = min(measured, key=lambda e: e.score).design
    name = f"{best.name}, on ONNX Runtime"
    others = {p.task: p for p in best.mapping.placements}
    yield _plain(complete(problem.default, best.mapping.networks, name, objective, others))


def apart(problem: Problem, contest: Contest, objective: Objective) -> Iterator[Design]:
    """The best two so far, with heavy Python tasks in processes of their own: threads share the
    interpreter.
    """
    heavy = _heavy_python_tasks(problem)
    if not heavy or len(problem.cpus) < 2:
        return
    changed = replace(problem, apart=heavy)
    for entry in sorted(contest.measured, key=lambda e: e.score)[:2]:
        name = f"{entry.design.name}, Python apart"
        yield complete(changed, entry.design.mapping.networks, name, objective)


def _heavy_python_tasks(problem: Problem) -> frozenset[str]:
    """Tasks that may have a process of their own, and hold the interpreter for long."""
    limit = HEAVY * sum(problem.work_ns(app, task) for app, task in problem.tasks)
    heavy = set()
    for app, task in problem.tasks:
        fixed = task.name in problem.pins or task.open_ports or not task.implementations
        if fixed or runs_without_interpreter(task):
            continue
        if problem.work_ns(app, task) * problem.held.get(task.name, 1.0) > limit:
            heavy.add(task.name)
    return frozenset(heavy)


def places(
    problem: Problem, network: Divisible, busy: dict[str, float] | None = None
) -> list[StagePlace]:
    """Every processor that has times for a network, and all of a pool together, with their load by
    other tasks (`busy`).
    """
    load = busy or {}
    able = []
    for pool in problem.platform.pools:
        if pool.type not in network.costs.layers:
            continue
        able += [StagePlace((p,), pool.type, load.get(p, 0.0)) for p in pool.processors]
        if pool.count > 1:
            most = max(load.get(p, 0.0) for p in pool.processors)
            able.append(StagePlace(pool.processors, pool.type, most))
    return able


def partitions(problem: Problem, objective: Objective) -> Iterator[Design]:
    """Optimal partitions of each network for every number of stages; the other networks are whole.

    The other tasks are placed around the stages, and the stages around the other tasks, until
    nothing changes.
    """
    for name, network in problem.networks.items():
        costs = network.costs_for(objective)
        if costs is None:
            continue
        rest = whole([n for n in problem.networks if n != name], problem.cpus[:1])
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
    """A partition with the other tasks around it; for throughput it is computed again with the load
    of these tasks.
    """
    stages = len(partition.ends)
    label = f"{stages} stages" if stages > 1 else "one stage"
    best = complete(problem, [plan_of(name, network, partition), *rest], label, objective)
    if objective != "throughput":
        return best
    for _ in range(3):
        busy = partition.load_beside(best.load)
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
    if objective != "throughput":
        return
    for entry in list(contest.entries):
        if entry.last is None or not contest.close(entry):
            continue
        design = _refined(problem, entry.design, entry.last, objective)
        known = [e.design.configuration for e in contest.entries]
        if design is not None and design.configuration not in known:
            yield replace(design, name=f"{design.name}, corrected")


def _refined(
    problem: Problem, design: Design, measured: Measurement, objective: Objective
) -> Design | None:
    """The design with the first network that is cut partitioned again; None if no network is."""
    plans = design.mapping.networks
    cut = next((plan for plan in plans if len(plan.stages) > 1), None)
    if cut is None:
        return None
    problem = problem.of(cut)
    network = problem.networks[cut.task]
    corrected = replace(network, costs=_corrected(problem, network, cut, measured))
    changed = replace(problem, networks={**problem.networks, cut.task: corrected})
    able = places(problem, corrected)
    partition = best_partition(corrected.costs, able, objective, len(cut.stages))
    if partition is None:
        return None
    rest = [plan for plan in plans if plan is not cut]
    return around(changed, cut.task, corrected, partition, rest, objective)


def _corrected(
    problem: Problem, network: Divisible, plan: NetworkPlan, measured: Measurement
) -> Costs:
    """Costs in which every layer is scaled by the measured slowdown of its stage."""
    layers = {type_: list(values) for type_, values in network.costs.layers.items()}
    stretches = network.stretches(plan)
    for name, stage, (first, end) in zip(stage_names(plan), plan.stages, stretches, strict=True):
        ns = measured.firing_ns.get(name)
        if ns and stage.predicted_ns and len(stage.processors) == 1:
            type_ = problem.platform.pool_of(stage.processors[0]).type
            for i in range(first, end):
                layers[type_][i] *= ns / stage.predicted_ns
    return replace(network.costs, layers=layers)


# -- words -----------------------------------------------------------------------------------------
def why(
    problem: Problem,
    winner: ContestEntry,
    entries: list[ContestEntry],
    objective: Objective,
    decision: Decision,
) -> tuple[str, ...]:
    """The reasons for the winner, and its bottleneck."""
    design = winner.design
    return (
        f"{design.name}: {design.configuration}",
        *_comparison(winner, [e for e in entries if e is not winner], decision),
        *_by_kind(problem, objective),
        *_limits(problem, design, objective),
    )


def _comparison(
    winner: ContestEntry, others: list[ContestEntry], decision: Decision
) -> Iterator[str]:
    """The winner's lead over each other design of the race, or over the next by predictions where
    nothing ran."""
    if decision:
        yield decided(decision)
    racers = [e for e in others if e.race]
    if winner.race and decision in ("tie", "lower latency", "out of budget"):
        level = LEVEL / max(1, len(racers))
        gain = max((least_gain(e.race, winner.race, level) for e in racers), default=0.0)
        yield f"its runs could have shown a configuration that is {gain:.1%} better, and no less"
    if winner.race:
        for racer in sorted(racers, key=lambda e: e.score):
            yield lead(winner, racer)
    if others and not any(e.values for e in others):
        next_best = min((e.design for e in others), key=lambda d: d.predicted)
        yield _predicted_lead(winner.design, next_best)


def decided(decision: Decision) -> str:
    """How the race ended, in a sentence."""
    return {
        "": "there was no race",
        "separated": "the race separated it from every other configuration in it",
        "tie": "the race was a tie, which goes to the simpler configuration",
        "lower latency": (
            "the race was a tie, which goes to the configuration with the lower latency"
        ),
        "out of budget": (
            "undecided: the budget ended before the race separated the configurations in it; the"
            " answer is the plain way that is best by all runs, and of nearly equal ones the one"
            " with the lowest latency, or the best where there is none"
        ),
    }[decision]


def _predicted_lead(winner: Design, other: Design) -> str:
    gain = other.predicted / winner.predicted - 1
    if gain < 0 and is_lower(winner.latency_ns, other.latency_ns):
        return (
            f"{other.name} is predicted {-gain:.1%} better, but with a higher latency; within the"
            " margin the lower latency wins"
        )
    if gain < 0:
        return (
            f"{other.name} is predicted {-gain:.1%} better but more complex; within the margin"
            " the simpler one wins"
        )
    return f"predicted to be {gain:.1%} better than the next, {other.name}"


def lead(winner: ContestEntry, other: ContestEntry) -> str:
    """The winner's lead over another one in the rounds that both of them ran."""
    rounds = min(len(winner.race), len(other.race))
    pairs = zip(winner.race, other.race, strict=False)
    gain = median(theirs.time / mine.time for mine, theirs in pairs) - 1
    better = f"{gain:.1%} better than" if gain >= 0 else f"{-gain:.1%} behind"
    runs = "1 pair" if rounds == 1 else f"{rounds} pairs"
    return f"{better} {other.design.name}, in the median of {runs} of runs"


def _by_kind(problem: Problem, objective: Objective) -> Iterator[str]:
    """The time of the whole network on each kind of processor."""
    unit = "mJ" if objective == "energy" else "ms"
    for name, network in problem.networks.items():
        costs = network.costs_for(objective)
        if costs is None or len(costs.layers) < 2:
            continue
        totals = {kind: sum(ns) + costs.overhead[kind] for kind, ns in costs.layers.items()}
        words = []
        for kind, total in sorted(totals.items(), key=lambda item: (item[1], item[0])):
            amount = f"{total / 1e6:.4g} {unit}" if total < inf else "not possible"
            words.append(f"{amount} on a {kind}")
        yield f"`{name}` as a whole: {', '.join(words)}"


def _limits(problem: Problem, design: Design, objective: Objective) -> Iterator[str]:
    """The busiest processor, and the largest layers of the stages on it."""
    if objective != "throughput":
        return
    busiest = max(design.load, key=lambda p: design.load[p])
    least = min(design.load, key=lambda p: design.load[p])
    yield (
        f"`{busiest}` is the busiest processor: {design.load[busiest] / 1e6:.3g} ms per frame, "
        f"`{least}` has {design.load[least] / 1e6:.3g} ms"
    )
    yield from _feedback(problem, design)
    yield from _one_at_a_time(problem, design, busiest)
    for plan in design.mapping.networks:
        network = problem.of(plan).networks.get(plan.task)
        if network is not None and len(plan.stages) > 1:
            yield from _largest_layers(problem, network, plan, busiest)


def _feedback(problem: Problem, design: Design) -> Iterator[str]:
    """The apps that wait for their own results rather than for a processor, and those whose cycles
    were kept together."""
    placement = {p.task: p for p in design.mapping.placements}
    for app in cyclic(problem):
        if not is_spread(problem, app):
            yield (
                f"cycles of `{app.name}` stay on one core each, unless pinned: they are spread in"
                f" an app alone, of {MOST_SPREAD} tasks and {MOST_FIRINGS} firings at most"
            )
        taken = executed_ns(problem, placement, app)
        if taken > max(design.load.values()):
            yield (
                f"feedback in `{app.name}` lets a frame end every {taken / 1e6:.4g} ms with these"
                f" orders, and every {least_ns(problem, app) / 1e6:.4g} ms at best on any places"
            )


def _one_at_a_time(problem: Problem, design: Design, busiest: str) -> Iterator[str]:
    """Tasks with more to do than an even share of all work, which searches would share with the
    other processors if the text said `stateless`."""
    even = sum(design.load[p] for p in problem.cpus) / max(1, len(problem.cpus))
    there = {p.task for p in design.mapping.placements if p.processors == (busiest,)}
    for app in problem.apps:
        fixed = {name for component in components(app) for name in component} | {*problem.pins}
        for task in app.tasks:
            work = scale(app) * problem.work_ns(app, task)
            if task.name not in there - fixed or work <= even:
                continue
            if runs_without_interpreter(task) and could_overlap(app, task):
                yield f"`{task.name}` takes {work / 1e6:.3g} ms of it: {overlap_advice(task)}"


def _largest_layers(
    problem: Problem, network: Divisible, plan: NetworkPlan, processor: str
) -> Iterator[str]:
    stretches = network.stretches(plan)
    for k, (stage, (first, end)) in enumerate(zip(plan.stages, stretches, strict=True), 1):
        if processor not in stage.processors:
            continue
        times = network.costs.layers[problem.platform.pool_of(stage.processors[0]).type]
        largest = max(range(first, end), key=lambda i: times[i])
        yield (
            f"its stage {k} of `{plan.task}` has {end - first} layers; the largest,"
            f" `{network.layers[largest]}`, takes {times[largest] / 1e6:.3g} ms and cannot be split"
        )
