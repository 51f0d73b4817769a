"""What a search for deadlines chooses among.

In: a problem, or those of the states of a scenario. Out: the `Scope` of what is proved of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...model.scope import Scope
from .outcome import FewestCores
from .problem import DeadlineTask, JointProblem


def scope_of(problems: Collection[JointProblem], cores: FewestCores | None = None) -> Scope:
    """What differs between the mappings of these problems, and what is the same in all of them. If
    the number of CPUs comes first, a bound is about mappings on so many."""
    free, networks = _free(problems), [n for problem in problems for n in problem.networks]
    moved = []
    if any(not task.homes for task in free):
        moved.append("places of tasks")
    if networks:
        moved.append("cuts and places of networks")
    if any(task.homes for task in free):
        moved.append("CPUs of shares")
    held = [*_held(problems, cores)]
    if any(problem.ranked and problem.is_open for problem in problems):
        held = held if moved else ["places", *held]
        moved.append("priorities")
    return Scope(tuple(moved), tuple(held))


def _free(problems: Collection[JointProblem]) -> list[DeadlineTask]:
    tasks = ((problem, task) for problem in problems for task in problem.tasks)
    return [task for problem, task in tasks if len(problem.places(task)) > 1]


def _held(problems: Collection[JointProblem], cores: FewestCores | None) -> Iterator[str]:
    """What could be otherwise, and is as the text, or a step before the search, has it."""
    if cores is not None and cores.most is None:
        yield "1 CPU" if cores.count == 1 else f"{cores.count} CPUs"
    if any(problem.pins for problem in problems):
        yield "pins"
    held = filter(None, map(_held_priorities, problems))
    yield from next(held, ())
    yield from _held_of_networks(problems)
    if any(problem.machines for problem in problems):
        yield "machines"
    pools = [pool for problem in problems for pool in problem.platform.pools]
    if any(len(pool.frequencies_hz) > 1 for pool in pools):
        yield "clock rates"


def _held_of_networks(problems: Collection[JointProblem]) -> Iterator[str]:
    """What could be otherwise of the networks that there are."""
    whole = [task for problem in problems for task in problem.tasks if task.engine]
    if whole or any(problem.networks for problem in problems):
        yield from ("batches", "precisions", "engines")
    if whole:
        yield "networks in one piece"
    if any(problem.bands for problem in problems):
        yield "bands"


def _held_priorities(problem: JointProblem) -> tuple[str, ...]:
    """The priorities that the text gives, or that decide only between releases at one time."""
    numbered = any(group.priority is not None for group in problem.groups)
    if len(problem.period) < 2 or (problem.ranked and not numbered):
        return ()
    return ("priorities of the text" if problem.ranked and problem.is_open else "priorities",)
