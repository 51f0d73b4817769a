"""The groups whose bounds rest on times that were measured with less than bounds count.

In: a joint problem, and the program of an assignment. Out: by group, the tasks with such times, and
with what they were measured.
"""

from __future__ import annotations

from ...analysis.timing.system import TimedSystem, TimedTask
from .delaying import delaying
from .problem import JointProblem


def partly_measured(problem: JointProblem, system: TimedSystem) -> dict[str, dict[str, str]]:
    """The tasks of a group, and those of others that may delay it."""
    if not problem.partly:
        return {group.name: {} for group in system.groups}
    own = {
        group.name: {task.name: words for task in group.tasks if (words := _words(problem, task))}
        for group in system.groups
    }
    near = delaying(system)
    return {
        name: {
            task: words
            for other, tasks in own.items()
            if other in near[name]
            for task, words in tasks.items()
        }
        for name in own
    }


def _words(problem: JointProblem, task: TimedTask) -> str:
    """With what a task was measured, or the network whose stage it is; empty if with as much."""
    whole = task.name.rpartition(".stage")[0]
    known = problem.partly.get(task.name) or problem.partly.get(whole, {})
    return known.get(problem.type[task.processor], "")
