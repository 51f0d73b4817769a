"""A first mapping in no time: a few plain shapes, compared by the shared evaluator.

The shapes: each app on a core of its own (longest first); all tasks cut into as many runs along the
data flow as there are cores; frames of the heavy stateless tasks shared by all cores. Simpler
shapes win unless another is clearly better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Mapped
from itertools import accumulate

import networkx as nx

from ...analysis.dataflow.order import components, levels, task_graph
from ...model.application import Application, Task
from ...model.mapping import Mapping
from ...model.mapping import Placement as Placed
from ..budget import DEFAULT, Budget
from .problem import UTILIZATION, Measure, Problem, Progress, loads, mapping_of, overhead_ns, scale

#: A more complicated shape has to promise this much.
CLEARLY = 0.9
#: Below this utilization no balance is needed.
RELAXED = 0.6 * UTILIZATION
#: Python tasks of different threads hand the interpreter to each other; measured on
#: examples/digits: 1.2 to 1.4.
CONTENTION = 1.3

Placement = dict[str, tuple[str, ...]]
Whole = Mapped[str, Placed]


def search(
    problem: Problem,
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Progress | None = None,
    measure: Measure | None = None,
) -> Mapping:
    """The best of the plain shapes. Deterministic: `seed`, `budget` and `measure` are not
    needed."""
    best, best_cost = None, 0.0
    for name, placement, cost in shapes(problem):
        if progress is not None:
            progress(f"{name}: {cost / 1e6:.3f} ms on the busiest core")
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
    return {
        **{t: Placed(t, p, process=t in problem.apart) for t, p in places.items()},
        **problem.pins,
    }


def cost(problem: Problem, placement: Whole) -> float:
    """Load of the busiest processor, or of the interpreter's lock, which Python tasks of all
    processors share."""
    # Python tasks hold the interpreter: on several cores together they are slower than on one.
    interpreted = [
        (a, t)
        for a in problem.apps
        for t in a.tasks
        if not runs_without_interpreter(t) and not placement[t.name].process
    ]
    python = sum(
        scale(app) * problem.work_ns(app, task) * problem.held.get(task.name, 1.0)
        for app, task in interpreted
    )
    if len({p for _, task in interpreted for p in placement[task.name].processors}) > 1:
        python *= CONTENTION
    # So does the runtime between firings, whatever they are.
    python += sum(scale(a) * overhead_ns(problem, a, t) for a in problem.apps for t in a.tasks)
    total = max(python, *loads(problem, placement).values())
    if all(a.period_ns is not None for a in problem.apps):
        return max(total, RELAXED)
    return total


def runs_without_interpreter(task: Task) -> bool:
    """Networks and C code release Python's lock while they compute."""
    return task.network is not None or any(i.language == "c" for i in task.implementations)


def _work(problem: Problem, app: Application) -> float:
    return scale(app) * sum(problem.work_ns(app, t) for t in app.tasks)


def _apps_apart(problem: Problem) -> Iterator[Placement]:
    load = dict.fromkeys(problem.cpus, 0.0)
    placement: Placement = {}
    for app in sorted(problem.apps, key=lambda a: -_work(problem, a)):
        core = min(load, key=lambda p: load[p])
        load[core] += _work(problem, app)
        placement.update({t.name: (core,) for t in app.tasks})
    yield placement


def _pipeline(problem: Problem) -> Iterator[Placement]:
    """Cut the sequence of all tasks (cycles kept whole) into runs of least maximum work: exact, by
    bisection."""
    groups: list[tuple[list[str], float]] = []
    for app in problem.apps:
        depth = levels(app)
        cycle = {name: i for i, c in enumerate(components(app)) for name in c}
        seen: dict[int, int] = {}
        for task in sorted(app.tasks, key=lambda t: depth[t.name]):
            work = scale(app) * problem.work_ns(app, task)
            at = seen.get(cycle[task.name]) if task.name in cycle else None
            if at is not None:
                groups[at] = ([*groups[at][0], task.name], groups[at][1] + work)
                continue
            if task.name in cycle:
                seen[cycle[task.name]] = len(groups)
            groups.append(([task.name], work))
    for count in range(2, len(problem.cpus) + 1):
        placement: Placement = {}
        for core, names in zip(problem.cpus, _cut(groups, count), strict=False):
            placement.update(dict.fromkeys(names, (core,)))
        yield placement


def _cut(groups: list[tuple[list[str], float]], count: int) -> list[list[str]]:
    sums = [0.0, *accumulate(w for _, w in groups)]
    if len(groups) <= 64:
        candidates = sorted({b - a for i, a in enumerate(sums) for b in sums[i + 1 :]})
    else:  # fine enough for measured times
        candidates = [sums[-1] * (1 + k) / (64 * count) for k in range(64 * count)]

    def runs(limit: float) -> list[list[str]]:
        result: list[list[str]] = [[]]
        filled = 0.0
        for names, work in groups:
            if result[-1] and filled + work > limit * (1 + 1e-9):
                result.append([])
                filled = 0.0
            result[-1].extend(names)
            filled += work
        return result

    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if len(runs(candidates[middle])) <= count:
            high = middle
        else:
            low = middle + 1
    cut = runs(candidates[low])
    return [*cut[: count - 1], [n for part in cut[count - 1 :] for n in part]]


def _frames_shared(problem: Problem) -> Iterator[Placement]:
    """Every heavy task without state on all cores, frames in turn; the rest on the core with the
    least to do."""
    cores = problem.cpus
    if len(cores) < 2:
        return
    total = sum(_work(problem, a) for a in problem.apps)
    shared: dict[str, Task] = {}
    for app in problem.apps:
        cyclic = {n for c in components(app) for n in c}
        for task in app.tasks:
            heavy = scale(app) * problem.work_ns(app, task) > 0.1 * total / len(cores)
            free = task.name not in cyclic and task.name not in problem.pins
            if task.replicable and heavy and free and runs_without_interpreter(task):
                shared[task.name] = task
    if not shared:
        return
    placement: Placement = dict.fromkeys(shared, cores)
    load = dict.fromkeys(cores, 0.0)
    for app in problem.apps:
        core = min(load, key=lambda p: load[p])
        for task in app.tasks:
            if task.name not in shared:
                load[core] += scale(app) * problem.work_ns(app, task)
                placement[task.name] = (core,)
    yield placement


def _around_pins(problem: Problem) -> Iterator[Placement]:
    """What comes before pinned tasks on one core and the rest on another (or the same): the best of
    all pairs."""
    free = [t for a in problem.apps for t in a.tasks if t.name not in problem.pins]
    if not problem.pins or not free or not problem.cpus:
        return
    before: set[str] = set()
    for app in problem.apps:
        graph = task_graph(app)
        before |= {a for t in problem.pins if t in graph for a in nx.ancestors(graph, t)}
    best: tuple[float, Placement] | None = None
    for first in problem.cpus:
        for second in problem.cpus:
            places: Placement = {t.name: ((first if t.name in before else second),) for t in free}
            total = cost(problem, _placed(problem, places))
            if best is None or total < best[0]:
                best = total, places
    assert best is not None
    yield best[1]


SHAPES: dict[str, Callable[[Problem], Iterator[Placement]]] = {
    "around pins": _around_pins,
    "apps apart": _apps_apart,
    "pipeline": _pipeline,
    "frames shared": _frames_shared,
}
