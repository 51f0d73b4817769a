"""A first mapping within milliseconds: a few plain shapes, compared by the shared evaluator.

In: a problem. Out: the best of these shapes: tasks before pinned ones on one core and the rest on
another; each app on a core of its own (longest first); all tasks cut along the data flow into a
part for each of some cores; the tasks of an app with feedback spread as far as that lets them work
at once; frames of the heavy stateless tasks shared by all cores. A simpler shape wins unless
another is clearly better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from itertools import accumulate, chain, combinations, product
from math import inf

from ...analysis.dataflow.order import components, levels
from ...model.application import Application
from ...model.mapping import Mapping
from ...model.mapping import Placement as Placed
from . import cycles
from .problem import (
    UTILIZATION,
    Problem,
    interpreter_load,
    loads,
    mapping_of,
    runs_without_interpreter,
    scale,
)

#: A more complex shape wins below this share of the cost of a simpler one.
CLEARLY = 0.9
#: Mappings below this utilization are equally good.
RELAXED = 0.6 * UTILIZATION

Placement = dict[str, tuple[str, ...]]
Whole = Mapped[str, Placed]


def search(problem: Problem) -> Mapping:
    """The best of the plain shapes. Deterministic."""
    best, best_cost = None, 0.0
    for _, placement, cost in shapes(problem):
        if best is None or cost < best_cost * CLEARLY:
            best, best_cost = placement, cost
    assert best is not None
    return mapping_of(problem, best, "greedy")


def shapes(problem: Problem) -> Iterator[tuple[str, Whole, float]]:
    """All plain shapes with their predicted costs: load of the busiest core, and of the
    interpreter's lock."""
    for name, shape in SHAPES.items():
        for places in shape(problem):
            placement = _placed(problem, places)
            yield name, placement, cost(problem, placement)


def _placed(problem: Problem, places: Placement) -> Whole:
    able = places if len(problem.platform.types_of("cpu")) < 2 else _where_able(problem, places)
    own = {t: Placed(t, p, process=t in problem.apart) for t, p in able.items()}
    return {**own, **problem.pins}


def _where_able(problem: Problem, places: Placement) -> Placement:
    """The places on CPUs that have times for the tasks; others go to the first CPU that has, of
    those the one with the fewest tasks."""
    types = problem.platform.types
    used = Counter(core for cores in places.values() for core in cores)
    found = dict(places)
    for app, task in problem.tasks:
        able = [p for p in problem.cpus if problem.work_ns(app, task, types[p]) < inf]
        here = tuple(p for p in places.get(task.name, ()) if p in able)
        if task.name in places and here != places[task.name] and able:
            found[task.name] = here or (min(able, key=lambda p: used[p]),)
            used.update(found[task.name])
    return found


def cost(problem: Problem, placement: Whole) -> float:
    """Load of the busiest processor, or of the interpreter's lock, which Python tasks of a machine
    share; with feedback, at least the time between frames when it is executed."""
    total = max(interpreter_load(problem, placement), *loads(problem, placement).values())
    for app in cycles.cyclic(problem):
        total = max(total, cycles.executed_ns(problem, placement, app))
    if all(a.period_ns is not None for a in problem.apps):
        return max(total, RELAXED)
    return total


def _work(problem: Problem, app: Application, core: str | None = None) -> float:
    """The work of an app on a core, on the slowest CPUs without one."""
    type_ = None if core is None else problem.platform.pool_of(core).type
    return scale(app) * sum(problem.work_ns(app, t, type_) for t in app.tasks)


def _apps_apart(problem: Problem) -> Iterator[Placement]:
    load = dict.fromkeys(problem.cpus, 0.0)
    placement: Placement = {}
    for app in sorted(problem.apps, key=lambda a: -_work(problem, a)):
        work = {p: _work(problem, app, p) for p in load}
        core = min(load, key=lambda p: load[p] + work[p])
        load[core] += work[core]
        placement.update({t.name: (core,) for t in app.tasks})
    yield placement


@dataclass(slots=True)
class _Group:
    """Tasks that stay on one core: a single one, or all of a cycle."""

    tasks: list[str]
    work: float


def _groups(problem: Problem) -> list[_Group]:
    """All tasks along the data flow, those of a cycle together."""
    groups: list[_Group] = []
    for app in problem.apps:
        depth = levels(app)
        cycle_of = _cycles(app)
        group_of_cycle: dict[int, _Group] = {}
        for task in sorted(app.tasks, key=lambda t: depth[t.name]):
            cycle = cycle_of.get(task.name)
            group = None if cycle is None else group_of_cycle.get(cycle)
            if group is None:
                group = _Group([], 0.0)
                groups.append(group)
            if cycle is not None:
                group_of_cycle[cycle] = group
            group.tasks.append(task.name)
            group.work += scale(app) * problem.work_ns(app, task)
    return groups


def _cycles(app: Application) -> dict[str, int]:
    """The number of the component of each task that is in a cycle."""
    cycle_of: dict[str, int] = {}
    for number, component in enumerate(components(app)):
        cycle_of.update(dict.fromkeys(component, number))
    return cycle_of


def _pipeline(problem: Problem) -> Iterator[Placement]:
    """Cut the sequence of all tasks (but no cycle) into parts of least maximum work: exact, by
    bisection."""
    groups = _groups(problem)
    for count in range(2, len(problem.cpus) + 1):
        placement: Placement = {}
        for core, names in zip(problem.cpus, _cut(groups, count), strict=False):
            placement.update(dict.fromkeys(names, (core,)))
        yield placement


def _cut(groups: list[_Group], count: int) -> list[list[str]]:
    """The tasks of each of `count` parts, or of fewer."""
    sums = [0.0, *accumulate(group.work for group in groups)]
    if len(groups) <= 64:
        candidates = sorted({end - begin for begin, end in combinations(sums, 2)})
    else:  # fine enough for measured times
        candidates = [sums[-1] * (1 + k) / (64 * count) for k in range(64 * count)]

    def parts_within(limit: float) -> list[list[str]]:
        parts: list[list[str]] = [[]]
        filled = 0.0
        for group in groups:
            if parts[-1] and filled + group.work > limit * (1 + 1e-9):
                parts.append([])
                filled = 0.0
            parts[-1].extend(group.tasks)
            filled += group.work
        return parts

    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if len(parts_within(candidates[middle])) <= count:
            high = middle
        else:
            low = middle + 1
    parts = parts_within(candidates[low])
    return [*parts[: count - 1], list(chain.from_iterable(parts[count - 1 :]))]


def _cycles_spread(problem: Problem) -> Iterator[Placement]:
    """The tasks of an app with feedback: from one core, moved one by one and in pairs while that
    makes it clearly quicker."""
    for app in cycles.cyclic(problem):
        if not cycles.is_spread(problem, app) or len(problem.cpus) < 2:
            continue
        places = {t.name: problem.cpus[0] for t in app.tasks}
        best = cost(problem, _placed(problem, {t: (p,) for t, p in places.items()}))
        for _ in app.tasks:
            found = [
                (cost(problem, _placed(problem, {t: (p,) for t, p in near.items()})), near)
                for near in cycles.neighbors(problem, app, places)
            ]
            least, nearest = min(found, key=lambda f: f[0], default=(best, places))
            if least >= best:
                break
            best, places = least, nearest
        yield {t: (p,) for t, p in places.items()}


def _heavy_stateless_tasks(problem: Problem) -> list[str]:
    """Tasks without a pin that may run on all cores, with a tenth of the mean work of a core."""
    threshold = 0.1 * sum(_work(problem, app) for app in problem.apps) / len(problem.cpus)
    heavy = []
    for app in problem.apps:
        fixed = {*_cycles(app), *problem.pins}
        for task in app.tasks:
            shareable = task.replicable and task.name not in fixed
            if not shareable or not runs_without_interpreter(task):
                continue
            if scale(app) * problem.work_ns(app, task) > threshold:
                heavy.append(task.name)
    return heavy


def _frames_shared(problem: Problem) -> Iterator[Placement]:
    """Every heavy task without state on all cores, frames in turn; the rest of each app on the core
    with the least load."""
    cores = problem.cpus
    if len(cores) < 2:
        return
    shared = _heavy_stateless_tasks(problem)
    if not shared:
        return
    placement: Placement = dict.fromkeys(shared, cores)
    load = dict.fromkeys(cores, 0.0)
    for app in problem.apps:
        core = min(load, key=lambda p: load[p])
        for task in app.tasks:
            if task.name not in placement:
                load[core] += scale(app) * problem.work_ns(app, task)
                placement[task.name] = (core,)
    yield placement


def _around_pins(problem: Problem) -> Iterator[Placement]:
    """The tasks before pinned ones on one core and the rest on another or the same: the best of all
    pairs."""
    free = [task.name for _, task in problem.tasks if task.name not in problem.pins]
    if not problem.pins or not free or not problem.cpus:
        return
    before = _before_pins(problem).intersection(free)

    def places(front: str, rest: str) -> Placement:
        return {**dict.fromkeys(free, (rest,)), **dict.fromkeys(before, (front,))}

    candidates = (places(front, rest) for front, rest in product(problem.cpus, repeat=2))
    yield min(candidates, key=lambda places: cost(problem, _placed(problem, places)))


def _before_pins(problem: Problem) -> set[str]:
    """The tasks from which a path leads to a task with a pin."""
    import networkx as nx  # importing it is slow

    before: set[str] = set()
    for app in problem.apps:
        graph = nx.DiGraph((c.source, c.destination) for c in app.channels)
        for pinned in problem.pins:
            if pinned in graph:
                before |= nx.ancestors(graph, pinned)
    return before


SHAPES: dict[str, Callable[[Problem], Iterator[Placement]]] = {
    "around pins": _around_pins,
    "apps apart": _apps_apart,
    "pipeline": _pipeline,
    "frames shared": _frames_shared,
    "cycles spread": _cycles_spread,
}
