"""From a mapping that is late to one that is not: small changes, as long as deadlines are missed by less.

In: a problem and a deadline for the search. Out: the least late assignment found, and feasible ones by their maximum
utilisation. It begins where response times are short: tasks of a group on one core, networks in few stages.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

from .genetic import Best, look
from .problem import Assignment, JointProblem
from .relaxed import Relaxed

#: Candidates of a network that are tried, by how little they raise the bound on the utilisation.
NEAR = 40


def repair(problem: JointProblem, relaxed: Relaxed, *, seed: int, budget: float, best: Best) -> Best:
    """Improve `best` until something feasible is found, or the budget is used up."""
    rng = random.Random(seed)
    end = time.monotonic() + budget
    # Per network: the candidates to choose from, those of few stages first among equals.
    liked = [
        sorted(range(len(n.candidates)), key=lambda c, n=n, r=r: (r[c] > 0.02, len(n.candidates[c].steps), r[c]))[:NEAR]  # type: ignore[misc]
        for n, r in zip(problem.nets, relaxed.rises, strict=True)
    ]
    for start in _starts(problem, liked):
        value = look(problem, start, best)
        here = start
        while time.monotonic() < end and not best.feasible:
            change = _changed(problem, here, liked, rng)
            if change in best.seen:
                if rng.random() < 0.02:  # everything near was tried
                    break
                continue
            other = look(problem, change, best)
            if other < value or rng.random() < 0.01:
                here, value = change, other
        if best.feasible or time.monotonic() >= end:
            break
    return best


def _starts(problem: JointProblem, liked: list[list[int]]) -> Iterator[Assignment]:
    whole = tuple(
        min(own, key=lambda c, n=n: (len(n.candidates[c].steps), n.candidates[c].latency))  # type: ignore[misc]
        for own, n in zip(liked, problem.nets, strict=True)
    )
    for choice in (whole, tuple(own[0] for own in liked)):
        for fast in (True, False):
            items = []
            for item in problem.items:
                places = problem.at_home(item)
                order = sorted(places, key=lambda p: (item.work(problem.kind[p]), p))
                items.append(order[0] if fast else order[-1])
            yield _placed(problem, Assignment(choice, (), tuple(items)))


def _placed(problem: JointProblem, rough: Assignment) -> Assignment:
    """Stages to the processors of their kind with the least to do."""
    used: dict[str, float] = dict.fromkeys(problem.processors, 0.0)
    places: dict[tuple[int, int], str] = {}
    slots = [
        (-float(step.work / problem.period[net.group]), n, s, step.kind)
        for n, (net, c) in enumerate(zip(problem.nets, rough.choice, strict=True))
        for s, step in enumerate(net.candidates[c].steps)
    ]
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
    choice, items = list(here.choice), list(here.items)
    if problem.nets and rng.random() < 0.4:
        n = rng.randrange(len(problem.nets))
        choice[n] = rng.choice(liked[n])
    if problem.items and (rng.random() < 0.7 or not problem.nets):
        t = rng.randrange(len(problem.items))
        item = problem.items[t]
        items[t] = rng.choice(problem.at_home(item) if rng.random() < 0.8 else problem.places(item))
    return _placed(problem, Assignment(tuple(choice), (), tuple(items)))
