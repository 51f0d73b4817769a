"""Whole frames in turn: each core takes every n-th frame, like the workers of a pool by hand.

In: a problem. Out: of the mappings whose cores share the frames of some tasks, with the other tasks
on one of these cores or apart, and whose predicted throughput is nearly the best of these, the one
with the lowest latency. Where frames in turn meet on one core on their way, they wait there for
those before them, several times as long as they take. With sources and sinks in one order, no
source runs ahead: hardly more frames are in flight than there are cores, however their times vary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from statistics import mean

from ...model.application import Application, Task
from ...model.mapping import Placement
from .cycles import cyclic
from .design import Design, complete
from .executed import latencies
from .greedy import cost
from .plans import whole
from .problem import Problem

#: Predictions of throughput up to this share worse than the best are nearly equal.
NEARLY = 0.03
#: Mappings that are looked at; of larger problems, only the one with all of the tasks in turn.
MOST_LOOKS = 1024
#: Firings of an iteration that are executed in total, over all mappings that are.
MOST_EXECUTED = 1000
#: At least so many mappings are executed.
LEAST_EXECUTED = 8

Places = dict[str, Placement]


def whole_frames(problem: Problem) -> Iterator[Design]:
    """The mapping with the lowest mean latency, if there is any."""
    if len(problem.apps) > 1 or problem.platform.machines or cyclic(problem):
        return
    app = problem.apps[0]
    near = sorted(_near(problem, app), key=lambda found: found[0])
    firings = sum(problem.repetition[app.name].values())
    best: tuple[float, Places] | None = None
    for _, places in near[: max(LEAST_EXECUTED, MOST_EXECUTED // firings)]:
        found = latencies(problem, places)
        if found and (best is None or mean(found) < best[0]):
            best = mean(found), places
    if best is None:
        return
    plans = [whole([name], best[1][name].processors)[0] for name in problem.networks]
    others = {name: p for name, p in best[1].items() if name not in problem.networks}
    yield complete(problem, plans, "whole frames in turn", "throughput", others)


def _near(problem: Problem, app: Application) -> list[tuple[float, Places]]:
    """The mappings with frames in turn that are nearly the fastest by their predictions, with
    these."""
    found = []
    for cores in (problem.cpus, problem.cpus[1:]):
        options = [_options(problem, task, cores) for task in app.tasks]
        choices: Iterable[tuple[Placement, ...]] = product(*options)
        if prod(map(len, options)) > MOST_LOOKS:
            choices = [tuple(own[-1] for own in options)]
        for chosen in choices:
            if any(len(place.processors) > 1 for place in chosen):
                places = {place.task: place for place in chosen}
                found.append((cost(problem, places), places))
    limit = (1 + NEARLY) * min((predicted for predicted, _ in found), default=0.0)
    return [each for each in found if each[0] <= limit]


def _options(problem: Problem, task: Task, cores: tuple[str, ...]) -> list[Placement]:
    """Where a task may be: as pinned, or on the first core with the other tasks, or on `cores` in
    turn."""
    if task.name in problem.pins:
        return [problem.pins[task.name]]
    places = [Placement(task.name, problem.cpus[:1])]
    if task.name in problem.networks or (task.replicable and not task.built_in):
        places.append(Placement(task.name, cores))
    return places
