"""The groups whose bounds rest on times that were measured with less than bounds count.

In: a joint problem, and the program of an assignment. Out: by group, the tasks with such times, and
with what they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.timing.system import TimedSystem, TimedTask
from .problem import JointProblem


def partly_measured(problem: JointProblem, system: TimedSystem) -> dict[str, dict[str, str]]:
    """The tasks of a group, and those of others that may delay it: on its processors, and on those
    of groups that may delay these. Where processors slow each other down, these are all."""
    if not problem.partly:
        return {group.name: {} for group in system.groups}
    own = {
        group.name: {task.name: words for task in group.tasks if (words := _words(problem, task))}
        for group in system.groups
    }
    places = {group.name: {task.processor for task in group.tasks} for group in system.groups}
    return {
        name: {
            task: words
            for other in _near(name, places, together=bool(system.slowdowns))
            for task, words in own[other].items()
        }
        for name in own
    }


def _words(problem: JointProblem, task: TimedTask) -> str:
    """With what a task was measured, or the network whose stage it is; empty if with as much."""
    whole = task.name.rpartition(".stage")[0]
    known = problem.partly.get(task.name) or problem.partly.get(whole, {})
    return known.get(problem.kind[task.processor], "")


def _near(name: str, places: Mapping[str, set[str]], *, together: bool) -> list[str]:
    """A group, and those that may delay it."""
    if together:
        return list(places)
    near, used = {name}, set(places[name])
    while found := {o for o, theirs in places.items() if o not in near and theirs & used}:
        near |= found
        used.update(*(places[other] for other in found))
    return [other for other in places if other in near]
