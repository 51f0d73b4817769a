"""From a mapping that is late to one that is not, and on to lower utilization: simulated annealing.

In: a problem. Out: the best assignment found. A step gives a network another candidate, or a task
another place. What is late is worth as much as it is late, so that small gains count. It begins
where response times are short: tasks of a group on one core, networks in few stages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import exp

from ...machines.search_workers import ALONE, SearchWorkers
from ..budget import Budget, Spending
from ..events import Progress
from .genetic import BestSoFar, look
from .problem import Assignment, DeadlineNetwork, JointProblem
from .relaxed import Relaxed
from .verdict import utilizations

#: Candidates of a network that are tried, by each of some rules.
NEAR = 25
#: Temperatures at the start: of lateness, and of utilization.
LATE, USED = 0.03, 0.01
#: After so many steps in a row that were looked at before, there is nothing new.
KNOWN = 300
#: What meets its deadlines is changed on its busiest processor so often, and anywhere otherwise.
RELIEF = 0.5
#: Looks in a row that bring nothing, after which relieving ends.
VAIN = 20
#: Walks where evaluations are counted, and not seconds.
WALKS = 8
#: After so many seconds, or looks, walks compare.
LEG, LEG_LOOKS = 2.0, 10


@dataclass
class Walk:
    """One of several walks through assignments: where it is, what it saw, its own lots.

    `known` counts the steps in a row that it had looked at before.
    """

    here: Assignment
    value: float
    best: BestSoFar
    rng: random.Random
    known: int = 0


@dataclass(frozen=True, slots=True)
class Leg:
    """How far a walk goes before all of them compare: `budget`, in which the whole gets from one
    share to another."""

    budget: Budget
    begin: float
    end: float


#: What walks share: the problem, and the candidates of each network to choose from.
Ground = tuple[JointProblem, list[list[int]]]


def anneal(
    problem: JointProblem,
    relaxed: Relaxed,
    *,
    seed: int,
    budget: Budget,
    best: BestSoFar,
    progress: Progress | None = None,
    search_workers: SearchWorkers = ALONE,
) -> BestSoFar:
    """Improve `best` until the budget is used up. Ctrl-C returns the best so far.

    Each worker walks alone, and after each leg the walk that is behind goes on from the best of
    all. Where evaluations are counted there are always `WALKS` of them, so that the answer does not
    depend on the number of workers.
    """
    spending = budget.begin(lambda: best.looks)
    liked = [_liked(n, r) for n, r in zip(problem.networks, relaxed.rises, strict=True)]
    ground: Ground = (problem, liked)
    walks: list[Walk] = []
    try:
        start, value = _best_start(ground, best)
        count = WALKS if budget.counted else search_workers.size
        for k in range(count):
            own = replace(best, looks=0, seen=dict(best.seen))
            walks.append(Walk(start, value, own, random.Random(seed + k)))
        while not spending.over and any(w.known < KNOWN for w in walks):
            leg = _leg(spending, count)
            walks = search_workers.run(_walked, ground, [(w, leg) for w in walks])
            for walk in walks:
                best.join(walk.best)
            last = max(walks, key=lambda w: w.value)
            if last.value > best.value and best.assignment is not None:
                last.here, last.value = best.assignment, best.value
            if progress is not None:
                best.tell(progress, f"annealing: {best.text}")
    except KeyboardInterrupt:
        best.interrupted = True
        for walk in walks:
            best.join(walk.best)
    return best


def _best_start(ground: Ground, best: BestSoFar) -> tuple[Assignment, float]:
    """Where walks begin, with its value: the best so far if it meets all deadlines."""
    problem, liked = ground
    if best.feasible and best.assignment is not None:
        return best.assignment, look(problem, best.assignment, best)
    starts = {look(problem, start, best): start for start in _starts(problem, liked)}
    value = min(starts)
    return starts[value], value


def _leg(spending: Spending, count: int) -> Leg:
    """The next part of what is left, for each of so many walks."""
    begin, left = spending.share, spending.left
    if left.evaluations is None:
        budget = Budget(min(LEG, left.seconds))
        return Leg(budget, begin, begin + budget.seconds / spending.budget.seconds)
    looks = max(1, min(LEG_LOOKS, left.evaluations // count))
    return Leg(
        Budget(evaluations=looks), begin, begin + looks * count / (spending.budget.evaluations or 1)
    )


def _walked(ground: Ground, own: tuple[Walk, Leg]) -> Walk:
    """A walk after a leg."""
    (problem, liked), (walk, leg) = ground, own
    rng, best = walk.rng, walk.best
    spending = leg.budget.begin(lambda: best.looks)
    while not spending.over and walk.known < KNOWN:
        change = None
        if walk.value < 2 and rng.random() < RELIEF:
            change = _relieved(problem, walk.here, rng)
        if change is None:
            change = _changed(problem, walk.here, liked, rng)
        walk.known = walk.known + 1 if change in best.seen else 0
        other = look(problem, change, best)
        heat = max(1e-9, 1 - leg.begin - (leg.end - leg.begin) * spending.share) * (
            LATE if walk.value >= 2 else USED
        )
        if other <= walk.value or rng.random() < exp((walk.value - other) / heat):
            walk.here, walk.value = change, other
    return walk


def relieve(
    problem: JointProblem,
    *,
    seed: int,
    budget: Budget,
    best: BestSoFar,
    progress: Progress | None = None,
) -> BestSoFar:
    """Move tasks of the busiest processor elsewhere as long as deadlines are met. Ctrl-C returns
    the best so far.

    For large systems: nearly every look is a step forward.
    """
    rng = random.Random(seed)
    spending, vain = budget.begin(lambda: best.looks), 0
    try:
        while best.feasible and best.assignment is not None and not spending.over and vain < VAIN:
            change = _relieved(problem, best.assignment, rng)
            if change is None:
                break
            before = best.value
            look(problem, change, best)
            vain = 0 if best.value < before else vain + 1
    except KeyboardInterrupt:
        best.interrupted = True
    if progress is not None:
        best.tell(progress, f"relieving the busiest processor: {best.text}")
    return best


def _liked(network: DeadlineNetwork, rises: tuple[float, ...]) -> list[int]:
    """The candidates of a network to choose from: those that could be in a good answer, and those
    that are fast.

    Time on the GPU counts more: it is what other networks wait for.
    """
    of, all_of_them = network.candidates, range(len(network.candidates))
    rules: tuple[Callable[[int], tuple[float, ...]], ...] = (
        lambda c: (rises[c] > 0.02, len(of[c].stages), rises[c]),
        lambda c: (of[c].latency,),
        lambda c: (float(of[c].latency + of[c].work("gpu")),),
        lambda c: (float(of[c].latency + 3 * of[c].work("gpu")),),
    )
    return sorted({c for rule in rules for c in sorted(all_of_them, key=rule)[:NEAR]})


def _starts(problem: JointProblem, liked: list[list[int]]) -> Iterator[Assignment]:
    whole = tuple(
        min(own, key=partial(_stages_and_latency, n))
        for own, n in zip(liked, problem.networks, strict=True)
    )
    fast = tuple(
        min(own, key=partial(_latency, n)) for own, n in zip(liked, problem.networks, strict=True)
    )
    for choice in dict.fromkeys((whole, fast)):
        for best in (True, False):
            tasks = []
            for task in problem.tasks:
                places = problem.at_home(task)
                order = sorted(places, key=lambda p: (problem.load(task, p), p))
                tasks.append(order[0] if best else order[-1])
            yield _placed(problem, Assignment(choice, (), tuple(tasks)))


def _stages_and_latency(network: DeadlineNetwork, candidate: int) -> tuple[int, int]:
    made = network.candidates[candidate]
    return len(made.stages), made.latency


def _latency(network: DeadlineNetwork, candidate: int) -> int:
    return network.candidates[candidate].latency


def _placed(problem: JointProblem, rough: Assignment) -> Assignment:
    """Stages that have no place yet to the processors of their type with the least to do."""
    used = {p: float(part) for p, part in problem.served.items()}
    for task, place in zip(problem.tasks, rough.tasks, strict=True):
        used[place] += float(problem.load(task, place))
    places: dict[tuple[int, int], str] = {}
    slots = []
    for n, (network, c) in enumerate(zip(problem.networks, rough.choice, strict=True)):
        for s, stage in enumerate(network.candidates[c].stages):
            load = float(stage.work / problem.period[network.group])
            if rough.stages and rough.stages[n]:
                places[n, s] = rough.stages[n][s]
                used[places[n, s]] += load
            else:
                slots.append((-load, n, s, stage.type))
    for load, n, s, type_ in sorted(slots):
        place = min(problem.of_type[type_], key=lambda p: used[p])
        used[place] -= load
        places[n, s] = place
    stages = tuple(
        tuple(places[n, s] for s in range(len(network.candidates[c].stages)))
        for n, (network, c) in enumerate(zip(problem.networks, rough.choice, strict=True))
    )
    return replace(rough, stages=stages)


def _changed(
    problem: JointProblem, here: Assignment, liked: list[list[int]], rng: random.Random
) -> Assignment:
    """Another candidate for a network, another place for a task (at home rather than elsewhere), or
    both."""
    choice, tasks, stages = list(here.choice), list(here.tasks), list(here.stages)
    if problem.networks and rng.random() < 0.4:
        n = rng.randrange(len(problem.networks))
        choice[n], stages[n] = rng.choice(liked[n]), ()
    if problem.tasks and (rng.random() < 0.7 or not problem.networks):
        t = rng.randrange(len(problem.tasks))
        task = problem.tasks[t]
        tasks[t] = rng.choice(problem.at_home(task) if rng.random() < 0.8 else problem.places(task))
    return _placed(problem, Assignment(tuple(choice), tuple(stages), tuple(tasks)))


def _relieved(problem: JointProblem, here: Assignment, rng: random.Random) -> Assignment | None:
    """A task of the busiest processor to where it does the least harm; None if no move helps that
    processor."""
    used = utilizations(problem, here)
    busiest = max(used, key=lambda p: used[p])
    moves = []
    for t, task in enumerate(problem.tasks):
        if here.tasks[t] == busiest:
            share = {p: used[p] + problem.load(task, p) for p in problem.places(task)}
            best = min((p for p in share if p != busiest), key=lambda p: share[p], default=busiest)
            if best != busiest and share[best] < used[busiest]:
                moves.append((t, best))
    if not moves:
        return None
    t, place = rng.choice(moves)
    return replace(here, tasks=(*here.tasks[:t], place, *here.tasks[t + 1 :]))
