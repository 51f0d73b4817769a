"""Places of its own for a state that the common placement of all states leaves late.

In: the problem of a state, and where everything is in all states. Out: other CPUs for some of it,
with which every deadline and limit of that state is kept. What moves is code that every thread can
run: tasks on CPUs, and networks that run whole on one. Engines of GPUs and DLAs, stages, bands, and
what the text pins stay where they are in all states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from ...analysis.timing.system import Refused
from ..budget import Budget
from .outcome import Outcome
from .problem import JointProblem
from .states import CommonPlaces, Run, StatesOutcome, is_least, outcome_of, pinned_in
from .verdict import MappingVerdict, verdict

#: Of the budget, what moving one thing gets; the search has the rest, and a second at least.
ONE = 0.5


def own_places(problem: JointProblem, common: Outcome, run: Run, budget: Budget) -> Outcome | None:
    """A state with places of its own, searched within `budget`; `run` does it for one problem.
    None: none were found.

    One task that moves is tried first, so that little differs between states. Raises Refused.
    """
    assert common.assignment is not None
    placed = CommonPlaces().with_answer(problem, common.assignment)
    free = _movable(problem, placed)
    if not free:
        return None
    rest = budget.part(1 - ONE)
    rest = replace(rest, seconds=max(1.0, rest.seconds))
    own = _with_one_moved(problem, placed, free, budget.part(ONE)) or _searched(
        problem, placed, free, run, rest
    )
    if own is None:
        return None
    found = outcome_of(problem, own, common.bound, common)
    return found if found.verdict is not None and found.verdict.feasible else None


def with_own(outcome: StatesOutcome, own: Mapping[str, Outcome]) -> StatesOutcome:
    """The states with those that have places of their own; the bound holds for any places."""
    if not own:
        return outcome
    changed = replace(outcome, states={**outcome.states, **own})
    return replace(changed, proved=is_least(changed))


def _movable(problem: JointProblem, placed: CommonPlaces) -> list[str]:
    """What may be on another CPU in one state."""
    on_cpu = set(problem.cpus)
    movable = []
    for task in problem.tasks:
        if task.name not in problem.pins and placed.tasks[task.name] in on_cpu:
            movable.append(task.name)
    for network in problem.networks:
        _, places = placed.networks[network.name]
        if len(places) == 1 and places[0] in on_cpu:
            movable.append(network.name)
    return [name for name in movable if name not in problem.bands]


def _moved(placed: CommonPlaces, places: Mapping[str, str]) -> CommonPlaces:
    """With some things on other processors."""
    networks = {
        n: (choice, (places[n],) if n in places else stages)
        for n, (choice, stages) in placed.networks.items()
    }
    return CommonPlaces({n: places.get(n, p) for n, p in placed.tasks.items()}, networks)


def _with_one_moved(
    problem: JointProblem, placed: CommonPlaces, free: list[str], budget: Budget
) -> CommonPlaces | None:
    """The best of the placements in which one thing is elsewhere; None: a deadline is missed in all
    of them."""
    looked = 0
    spending = budget.begin(lambda: looked)
    best: tuple[Fraction, CommonPlaces] | None = None
    for other in _neighbors(problem, placed, free):
        if spending.over:
            break
        looked += 1
        verdict = _told(problem, other)
        if verdict is not None and verdict.feasible and (best is None or verdict.maximum < best[0]):
            best = verdict.maximum, other
    return None if best is None else best[1]


def _neighbors(
    problem: JointProblem, placed: CommonPlaces, free: list[str]
) -> Iterator[CommonPlaces]:
    for name in free:
        at = placed.networks[name][1][0] if name in placed.networks else placed.tasks[name]
        yield from (_moved(placed, {name: p}) for p in _able(problem, name, at) if p != at)


def _able(problem: JointProblem, name: str, at: str) -> tuple[str, ...]:
    """The CPUs that a task, or a network that is whole on one, may go to."""
    for task in problem.tasks:
        if task.name == name:
            return tuple(p for p in problem.cpus if problem.type[p] in task.wcet_ns)
    return problem.of_type[problem.type[at]]


def _told(problem: JointProblem, placed: CommonPlaces) -> MappingVerdict | None:
    try:
        return verdict(problem, placed.of(problem), patience=Fraction(1))
    except Refused:
        return None


def _searched(
    problem: JointProblem, placed: CommonPlaces, free: list[str], run: Run, budget: Budget
) -> CommonPlaces | None:
    """What a search finds for all that may move, the rest pinned where it is."""
    fixed = pinned_in(problem, placed)
    cpus = problem.cpu_types
    tasks = tuple(i.only_on(cpus) if i.name in free else i for i in fixed.tasks)
    pins = {name: p for name, p in fixed.pins.items() if name not in free}
    found = run(replace(fixed, tasks=tasks, pins=pins), budget).assignment
    if found is None:
        return None
    places = {i.name: p for i, p in zip(tasks, found.tasks, strict=True) if i.name in free}
    return _with_few_moved(problem, placed, places)


def _with_few_moved(
    problem: JointProblem, placed: CommonPlaces, places: dict[str, str]
) -> CommonPlaces:
    """With what stays where it was, as long as all is in time and the busiest processor has no more
    to do."""
    best = _told(problem, _moved(placed, places))
    for name in [*places]:
        fewer = {n: p for n, p in places.items() if n != name}
        verdict = _told(problem, _moved(placed, fewer))
        if (
            best is not None
            and verdict is not None
            and verdict.feasible
            and verdict.maximum <= best.maximum
        ):
            places = fewer
    return _moved(placed, places)
