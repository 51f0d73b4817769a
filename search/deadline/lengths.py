"""How long an iteration of a group takes at least: its tasks and networks one after another.

In: a problem. Out: what waits for what inside of an iteration, and the longest row of that. No
sound bound on a response is shorter than such a row by itself, so that none of an assignment that
is proved to be in time exceeds its deadline. Queues and other groups are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from .problem import Assignment, JointProblem, TaskGroup
from .program import names_of


@dataclass(frozen=True, slots=True)
class Precedence:
    """What waits for what inside of an iteration of a group.

    `before` has each task, network and follower with those whose last firing its own last firing
    waits for; these come first. An iteration `ends` with what no other one reads.
    """

    before: dict[str, tuple[str, ...]]
    ends: frozenset[str]

    def through(self, times: Mapping[str, int]) -> dict[str, int]:
        """The time of the longest row through each name that leads to an end, if each takes so
        long."""
        head: dict[str, int] = {}
        for name, before in self.before.items():
            head[name] = times[name] + max((head[other] for other in before), default=0)
        tail = dict.fromkeys(self.ends, 0)
        for name, before in reversed(self.before.items()):
            if name in tail:
                for other in before:
                    tail[other] = max(tail.get(other, 0), times[name] + tail[name])
        return {name: head[name] + time for name, time in tail.items()}


def precedence(problem: JointProblem, group: TaskGroup) -> Precedence:
    """Only channels without delay are followed, between tasks with one rate each: the last firing
    of the reader needs what the last one of the writer makes."""
    before: dict[str, list[str]] = {name: [] for name in names_of(problem, group)}
    for c in group.channels:
        if not c.delay and len(set(c.produced)) == len(set(c.consumed)) == 1:
            before[c.destination].append(c.source)
    order = TopologicalSorter(before).static_order()
    read = {c.source for c in group.channels if c.source != c.destination}
    return Precedence({name: tuple(before[name]) for name in order}, frozenset(before) - read)


def longest_path(
    problem: JointProblem, group: TaskGroup, assignment: Assignment
) -> tuple[tuple[str, ...], int]:
    """The tasks and networks one after another that no iteration of a group is quicker than, and
    their time in ns. One firing of each counts."""
    times = dict.fromkeys(names_of(problem, group), 0)
    for task, place in zip(problem.tasks, assignment.tasks, strict=True):
        if task.group == group.name:
            times[task.name] = task.last_ns(problem.type[place])
    for network, choice in zip(problem.networks, assignment.choice, strict=True):
        if network.group == group.name:
            times[network.name] = network.candidates[choice].latency
    order = precedence(problem, group)
    longest: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name, before in order.before.items():
        length, path = max((longest[other] for other in before), default=(0, ()))
        longest[name] = length + times[name], (*path, name)
    length, path = max((longest[name] for name in longest if name in order.ends), default=(0, ()))
    return path, length
