"""Mappings whose networks fit into a memory: their bands and processors.

In: a problem, the front of each network that may be split into bands (`networks.bands.choose`), and
a function that gives the memory of a mapping. Out: the fastest mapping within a limit, or the one
with the least memory.

Networks of one worker share the buffers between layers, so the largest one counts: for every buffer
size, each network takes its fastest choice that is not larger, and all plain mappings of the
networks are evaluated with the times of those choices. Without a limit on the choices, partitions
into stages compete as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from ..model.deployment import PlannedMemory
from ..model.diagnostic import Diagnostic, Errors
from ..model.mapping import Contestant, Decision, NetworkPlan
from ..model.mapping import Mapping as Answer
from ..model.quantity import in_bytes
from ..networks.bands.choose import Choice
from .budget import DEFAULT, Budget
from .events import SearchEvent, Teller
from .throughput.auto import HOPELESS, partitions, plain_ways, unlike
from .throughput.contest import Contest
from .throughput.design import Design
from .throughput.problem import Measure, Problem

Fronts = Mapping[str, tuple[Choice, ...]]
Chosen = dict[str, Choice]

#: Maximum number of sizes tried, and of rows of the table if nothing is run.
MOST_SIZES, MOST_SHOWN = 14, 10


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Networks take at most `bytes` (None: no limit).

    `least`: minimize memory, otherwise time. `period_ns` limits the time of a frame.
    """

    bytes: int | None = None
    least: bool = False
    period_ns: float | None = None

    def allows(self, memory: PlannedMemory) -> bool:
        """True if it is within the limit."""
        return self.bytes is None or memory.total <= self.bytes


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A design with the choices of its networks, and its memory."""

    design: Design
    chosen: Chosen
    memory: PlannedMemory


def search(
    problem: Problem,
    fronts: Fronts,
    limit: MemoryLimit,
    planned: Callable[[Answer], PlannedMemory],
    *,
    seed: int = 0,
    budget: Budget = DEFAULT,
    progress: Callable[[SearchEvent], None] | None = None,
    measure: Measure | None = None,
) -> Answer:
    """The mapping. Raises Errors (F521) if none is small enough."""
    begin = time.monotonic()
    teller = Teller(progress)
    fitting, looked = _fitting(list(_designs(problem, fronts)), limit, planned)
    best, runs = fitting[0], 0
    decision: Decision = ""
    contestants = tuple(
        Contestant(
            each.design.name,
            each.design.configuration,
            each.design.predicted,
            predicted_latency_ns=each.design.latency_ns,
        )
        for each in fitting[:MOST_SHOWN]
    )
    if measure is not None and not limit.least:
        contest = Contest(measure, "throughput", budget, teller)
        best, contestants = _fastest_by_runs(fitting, contest)
        runs, decision = contest.runs, contest.decision
    effort = replace(
        best.design.mapping.effort,
        objective="memory" if limit.least else "throughput",
        seed=seed,
        evaluations=looked,
        measured_runs=runs,
        seconds=time.monotonic() - begin,
        history=teller.history(),
        decision=decision,
    )
    return replace(
        best.design.mapping,
        search="auto",
        contestants=contestants,
        effort=effort,
        why=tuple(_why(fronts, best)),
        memory=best.memory,
    )


def _fastest_by_runs(
    fitting: list[_Fitting], contest: Contest
) -> tuple[_Fitting, tuple[Contestant, ...]]:
    """The design that is fastest when it runs, and all that took part, the winner first."""
    least = fitting[0].design.predicted
    contest.enter_all((f.design, f.design.predicted <= HOPELESS * least) for f in fitting)
    winner = contest.decide()
    best = next(f for f in fitting if f.design is winner.design)
    order = sorted(contest.entries, key=lambda entry: (entry is not winner, entry.value or 0.0))
    return best, tuple(entry.contestant for entry in order)


def sizes(fronts: Fronts) -> list[int]:
    """Buffer sizes of all choices, in descending order; a selection if there are many."""
    choices = chain.from_iterable(fronts.values())
    every_size = sorted({choice.buffers for choice in choices}, reverse=True)
    if len(every_size) <= MOST_SIZES:
        return every_size
    step = (len(every_size) - 1) / (MOST_SIZES - 1)
    return [every_size[round(k * step)] for k in range(MOST_SIZES)]


def _designs(problem: Problem, fronts: Fronts) -> Iterator[tuple[Design, Chosen]]:
    """All evaluated designs, with bands."""
    for design in unlike(partitions(problem, "throughput")):
        yield design, {}
    for size in sizes(fronts) or [0]:
        chosen = {task: fastest(front, size) for task, front in fronts.items()}
        cpus = problem.platform.types_of("cpu")
        slower = {
            task: _slower(problem.firing_ns[task], c.time, cpus) for task, c in chosen.items()
        }
        changed = replace(problem, firing_ns={**problem.firing_ns, **slower})
        for design in plain_ways(changed, "throughput"):
            plans = tuple(_with_bands(problem, n, chosen) for n in design.mapping.networks)
            yield replace(design, mapping=replace(design.mapping, networks=plans)), chosen


def fastest(front: tuple[Choice, ...], size: int) -> Choice:
    """The fastest choice within the buffer size, else the one with the smallest buffer."""
    small = [c for c in front if c.buffers <= size]
    return min(small, key=lambda c: c.time) if small else min(front, key=lambda c: c.buffers)


def _slower(times: Mapping[str, float], factor: float, cpus: Collection[str]) -> dict[str, float]:
    return {type_: ns * factor if type_ in cpus else ns for type_, ns in times.items()}


def _with_bands(problem: Problem, plan: NetworkPlan, chosen: Chosen) -> NetworkPlan:
    """The plan of a network that runs whole on CPUs, in the selected bands."""
    choice = chosen.get(plan.task)
    kinds = {problem.platform.pool_of(p).kind for s in plan.stages for p in s.processors}
    if choice is None or len(plan.stages) > 1 or kinds != {"cpu"}:
        return plan
    return replace(plan, stages=(replace(plan.stages[0], bands=choice.bands),))


def _fitting(
    designs: list[tuple[Design, Chosen]],
    limit: MemoryLimit,
    planned: Callable[[Answer], PlannedMemory],
) -> tuple[list[_Fitting], int]:
    """Designs within the limits, the best first, and the number of those that were evaluated.

    Raises Errors (F521) if there are none.
    """
    quick = sorted(designs, key=lambda pair: pair[0].predicted)
    if limit.period_ns is not None:
        fastest_design, _ = quick[0]
        quick = [pair for pair in quick if pair[0].predicted <= limit.period_ns]
        if not quick:
            raise Errors([_too_slow(fastest_design, limit.period_ns)])
    seen: set[str] = set()
    shapes: set[str] = set()
    evaluated: list[_Fitting] = []
    fitting: list[_Fitting] = []
    for design, chosen in quick:
        # Predictions decide within a shape of mapping, runs between shapes.
        if design.configuration in seen or (design.name in shapes and not limit.least):
            continue
        seen.add(design.configuration)
        one = _Fitting(design, chosen, planned(design.mapping))
        evaluated.append(one)
        if limit.allows(one.memory):
            fitting.append(one)
            shapes.add(design.name)
    if not fitting:
        smallest = min(evaluated, key=lambda each: each.memory.total)
        raise Errors([too_much(limit, smallest.memory, smallest.chosen)])
    if limit.least:
        fitting.sort(key=lambda each: each.memory.total)
    return fitting, len(evaluated)


def _too_slow(fastest: Design, period_ns: float) -> Diagnostic:
    message = f"no evaluated mapping reaches {1e9 / period_ns:.4g} frames/s"
    return Diagnostic(
        "F521",
        message,
        None,
        help=f"the fastest is predicted to reach {1e9 / fastest.predicted:.4g}",
    )


def too_much(
    limit: MemoryLimit, memory: PlannedMemory, chosen: Chosen, aim: str = ""
) -> Diagnostic:
    """The fault with the least memory found, and the layer that determines it; `aim` names another
    limit.
    """
    most = in_bytes(limit.bytes or 0)
    message = f"networks need {in_bytes(memory.total)} at least{aim}, the limit is {most}"
    parts = f"{in_bytes(memory.weights)} for weights, {in_bytes(memory.buffers)} between layers"
    parts += f", {in_bytes(memory.tokens)} for tokens"
    if memory.arenas:
        parts += f", {in_bytes(memory.arenas)} between layers on devices"
    if memory.sessions:
        parts += f", {in_bytes(memory.sessions)} for sessions"
    if chosen:
        task, choice = max(chosen.items(), key=lambda c: c[1].block)
        parts += f"; the layers that make `{choice.dictated_by}` of `{task}` determine it"
    return Diagnostic("F521", message, None, help=f"it is {parts}")


def _why(fronts: Fronts, best: _Fitting) -> Iterator[str]:
    """The front of each network, with the selected choice marked."""
    for task, front in fronts.items():
        known = "estimated" if front[0].estimated else "from measurements here"
        yield f"{task}: buffers, time relative to the unsplit network ({known}), firings"
        for c in front:
            mark = "->" if best.chosen.get(task) == c else "  "
            yield f"{mark} {in_bytes(c.buffers):>9}  {c.time:.2f}  {c.firings} firings"
