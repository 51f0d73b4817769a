"""The conditions of verdicts: what the bounds of each group rest on beside the text.

In: a joint problem, an assignment, and the program that it becomes. Out: the conditions by group:
those of its own sources, times and processors, and those of all groups that may delay it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.timing.system import TimedSystem
from ...model.conditions import Condition, together
from ...model.platform import Platform
from .delaying import delaying
from .interpreter import waited_for
from .partly_measured import partly_measured
from .problem import Assignment, DeadlineTask, JointProblem, TaskGroup

#: Conditions by group.
GroupConditions = Mapping[str, tuple[Condition, ...]]


def conditions(
    problem: JointProblem, assignment: Assignment, system: TimedSystem
) -> GroupConditions:
    """The conditions of each group's verdict."""
    own = {group.name: tuple(_own(problem, assignment, group)) for group in problem.groups}
    waits = waited_for(problem, system, problem.beside(assignment))
    partly = partly_measured(problem, system)
    near = delaying(system)
    found = {}
    for group in problem.groups:
        others = (n for n in own if n in near[group.name] and n != group.name)
        names = (group.name, *others)
        made = [condition for name in names for condition in own[name]]
        if waits[group.name]:
            made.append(Condition("interpreter", waits[group.name]))
        if partly[group.name]:
            made.append(Condition("full", tuple(partly[group.name])))
        if problem.below_by_niceness:
            made.append(Condition("niceness"))
        found[group.name] = together(made)
    return found


def _own(problem: JointProblem, assignment: Assignment, group: TaskGroup) -> Iterator[Condition]:
    """The conditions of a group's own sources, times and processors."""
    if group.release is not None:
        yield from group.release.conditions
    used: dict[str, None] = {}
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        if task.group == group.name:
            used[place] = None
            yield from _of_times(problem, task, place)
    for network, choice, places in zip(
        problem.networks, assignment.choice, assignment.stages, strict=True
    ):
        if network.group == group.name:
            used |= dict.fromkeys(places)
            stages = network.candidates[choice].stages
            guessed = any(stage.estimated for stage in stages)
            yield Condition("estimated" if guessed else "measured", (network.name,))
            for stage, place in zip(stages, places, strict=True):
                if stage.of_kind:
                    yield from _of_equals(problem.platform, place)
    yield from _of_gpus(problem.platform, used)
    yield from _of_wakeups(problem.platform, used)


def _of_times(problem: JointProblem, task: DeadlineTask, place: str) -> Iterator[Condition]:
    """What the times of a task suppose at its place."""
    type_ = problem.type[place]
    if type_ in task.estimated:
        yield Condition("estimated", (task.name,))
    elif type_ not in task.by_text:
        yield Condition("measured", (task.name,))
    if type_ in task.of_kind and task.work(type_):
        yield from _of_equals(problem.platform, place)


def _of_equals(platform: Platform, place: str) -> Iterator[Condition]:
    """That all types of a kind of processors are as fast as each other."""
    kind = platform.pool_of(place).kind
    pools = tuple(pool.name for pool in platform.pools if pool.kind == kind)
    yield Condition("equal", pools)


def _of_gpus(platform: Platform, used: Mapping[str, None]) -> Iterator[Condition]:
    """How a GPU is shared, which its driver decides: priorities of streams are hints to it."""
    for pool in {platform.pool_of(place).name: platform.pool_of(place) for place in used}.values():
        if pool.scheduler == "priority":
            yield Condition("streams", (pool.name,))
        if pool.slice is not None:
            yield Condition("slices", (pool.name,), pool.slice.length_ns)


def _of_wakeups(platform: Platform, used: Mapping[str, None]) -> Iterator[Condition]:
    """That threads on CPUs go on at once, where the platform does not say how late they do."""
    pools = {platform.pool_of(place).name: platform.pool_of(place) for place in used}
    at_once = tuple(name for name, pool in pools.items() if not platform.wakeup_ns(pool))
    if at_once:
        yield Condition("wakeup", at_once)
