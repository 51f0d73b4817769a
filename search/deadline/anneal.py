"""From a mapping that is late to one that is not, and on to lower utilization: simulated annealing.

In: a problem. Out: the best assignment found. A step gives a network another candidate, or a task another place. What
is late is worth as much as it is late, so that small gains count. It begins where response times are short: tasks of a
group on one core, networks in few stages.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import exp

from ..events import Progress
from .genetic import Best, look
from .problem import Assignment, JointProblem, Net, utilizations
from .relaxed import Relaxed

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
#: Seconds between two words of progress.
PAUSE = 1.0


def anneal(
    problem: JointProblem,
    relaxed: Relaxed,
    *,
    seed: int,
    budget: float,
    best: Best,
    progress: Progress | None = None,
) -> Best:
    """Improve `best` until the budget is used up. Ctrl-C returns the best so far."""
    rng = random.Random(seed)
    begin = said = time.monotonic()
    liked = [_liked(n, r) for n, r in zip(problem.nets, relaxed.rises, strict=True)]
    try:
        given = [best.assignment] if best.feasible and best.assignment is not None else _starts(problem, liked)
        starts = {look(problem, start, best): start for start in given}
        value = min(starts)
        here = starts[value]
        known = 0
        while (spent := time.monotonic() - begin) < budget and known < KNOWN:
            change = _relieved(problem, here, rng) if value < 2 and rng.random() < RELIEF else None
            change = change or _changed(problem, here, liked, rng)
            known = known + 1 if change in best.seen else 0
            other = look(problem, change, best)
            heat = (1 - spent / budget) * (LATE if value >= 2 else USED)
            if other <= value or rng.random() < exp((value - other) / heat):
                here, value = change, other
            if progress is not None and time.monotonic() - said > PAUSE:
                said = time.monotonic()
                best.tell(progress, f"annealing: {best.text}")
    except KeyboardInterrupt:
        best.interrupted = True
    return best


def relieve(problem: JointProblem, *, seed: int, budget: float, best: Best, progress: Progress | None = None) -> Best:
    """Move tasks of the busiest processor elsewhere as long as deadlines are met. Ctrl-C returns the best so far.

    For large systems: nearly every look is a step forward.
    """
    rng = random.Random(seed)
    end, vain = time.monotonic() + budget, 0
    try:
        while best.feasible and best.assignment is not None and time.monotonic() < end and vain < VAIN:
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


def _liked(net: Net, rises: tuple[float, ...]) -> list[int]:
    """The candidates of a network to choose from: those that could be in a good answer, and those that are fast.

    Time on the GPU counts more: it is what other networks wait for.
    """
    of, all_of_them = net.candidates, range(len(net.candidates))
    rules: tuple[Callable[[int], tuple[float, ...]], ...] = (
        lambda c: (rises[c] > 0.02, len(of[c].steps), rises[c]),
        lambda c: (of[c].latency,),
        lambda c: (float(of[c].latency + of[c].work("gpu")),),
        lambda c: (float(of[c].latency + 3 * of[c].work("gpu")),),
    )
    return sorted({c for rule in rules for c in sorted(all_of_them, key=rule)[:NEAR]})


def _starts(problem: JointProblem, liked: list[list[int]]) -> Iterator[Assignment]:
    whole = tuple(
        min(own, key=lambda c, n=n: (len(n.candidates[c].steps), n.candidates[c].latency))  # type: ignore[misc]
        for own, n in zip(liked, problem.nets, strict=True)
    )
    fast = tuple(
        min(own, key=lambda c, n=n: n.candidates[c].latency)  # type: ignore[misc]
        for own, n in zip(liked, problem.nets, strict=True)
    )
    for choice in dict.fromkeys((whole, fast)):
        for best in (True, False):
            items = []
            for item in problem.items:
                places = problem.at_home(item)
                order = sorted(places, key=lambda p: (item.work(problem.kind[p]), p))
                items.append(order[0] if best else order[-1])
            yield _placed(problem, Assignment(choice, (), tuple(items)))


def _placed(problem: JointProblem, rough: Assignment) -> Assignment:
    """Stages that have no place yet to the processors of their kind with the least to do."""
    used = dict.fromkeys(problem.processors, 0.0)
    for item, place in zip(problem.items, rough.items, strict=True):
        used[place] += float(item.work(problem.kind[place]) / problem.period[item.group])
    places: dict[tuple[int, int], str] = {}
    slots = []
    for n, (net, c) in enumerate(zip(problem.nets, rough.choice, strict=True)):
        for s, step in enumerate(net.candidates[c].steps):
            load = float(step.work / problem.period[net.group])
            if rough.steps and rough.steps[n]:
                places[n, s] = rough.steps[n][s]
                used[places[n, s]] += load
            else:
                slots.append((-load, n, s, step.kind))
    for load, n, s, kind in sorted(slots):
        place = min(problem.of_kind[kind], key=lambda p: used[p])
        used[place] -= load
        places[n, s] = place
    steps = tuple(
        tuple(places[n, s] for s in range(len(net.candidates[c].steps)))
        for n, (net, c) in enumerate(zip(problem.nets, rough.choice, strict=True))
    )
    return replace(rough, steps=steps)


def _changed(problem: JointProblem, here: Assignment, liked: list[list[int]], rng: random.Random) -> Assignment:
    """Another candidate for a network, another place for a task (at home rather than elsewhere), or both."""
    choice, items, steps = list(here.choice), list(here.items), list(here.steps)
    if problem.nets and rng.random() < 0.4:
        n = rng.randrange(len(problem.nets))
        choice[n], steps[n] = rng.choice(liked[n]), ()
    if problem.items and (rng.random() < 0.7 or not problem.nets):
        t = rng.randrange(len(problem.items))
        item = problem.items[t]
        items[t] = rng.choice(problem.at_home(item) if rng.random() < 0.8 else problem.places(item))
    return _placed(problem, Assignment(tuple(choice), tuple(steps), tuple(items)))


def _relieved(problem: JointProblem, here: Assignment, rng: random.Random) -> Assignment | None:
    """A task of the busiest processor to where it does the least harm; None if no move helps that processor."""
    used = utilizations(problem, here)
    busiest = max(used, key=lambda p: used[p])
    moves = []
    for t, item in enumerate(problem.items):
        if here.items[t] == busiest:
            share = {p: used[p] + item.work(problem.kind[p]) / problem.period[item.group] for p in problem.places(item)}
            best = min((p for p in share if p != busiest), key=lambda p: share[p], default=busiest)
            if best != busiest and share[best] < used[busiest]:
                moves.append((t, best))
    if not moves:
        return None
    t, place = rng.choice(moves)
    return replace(here, items=(*here.items[:t], place, *here.items[t + 1 :]))
