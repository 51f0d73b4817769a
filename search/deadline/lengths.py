"""How long an iteration of a group takes at least: its tasks and networks one after another.

In: a problem. Out: what waits for what inside of an iteration, and the longest row of that. No
sound bound on a response is shorter than such a row by itself, so that none of an assignment that
is proved to be in time exceeds its deadline. Queues and other groups are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import TopologicalSorter

from .problem import (
    Assignment,
    CandidateStage,
    DeadlineNetwork,
    JointChannel,
    JointProblem,
    TaskGroup,
)
from .program import CutNet, names_of


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
    of the reader needs what the last one of the writer makes. What leaves a network may not need
    what comes in, if stages of some candidate run side by side: then nothing is before it."""
    before: dict[str, list[str]] = {name: [] for name in names_of(problem, group)}
    for c in group.channels:
        if not c.delay and len(set(c.produced)) == len(set(c.consumed)) == 1:
            before[c.destination].append(c.source)
    for network in problem.networks:
        if network.group == group.name and None in rows(group, network):
            before[network.name] = []
    order = TopologicalSorter(before).static_order()
    read = {c.source for c in group.channels if c.source != c.destination}
    return Precedence({name: tuple(before[name]) for name in order}, frozenset(before) - read)


#: A time in ns, and the numbers of the stages that take it.
_Way = tuple[int, tuple[int, ...]]


def rows(group: TaskGroup, network: DeadlineNetwork) -> tuple[tuple[int, ...] | None, ...]:
    """For each candidate of a network the stages of a row that data take at least from where they
    come in to where they leave; None if some data leave that need none of some that come in."""
    ins = tuple(c for c in group.channels if c.destination == network.name and not c.delay)
    outs = tuple(c for c in group.channels if c.source == network.name and not c.delay)
    return _rows(network, ins, outs)


def latencies(group: TaskGroup, network: DeadlineNetwork) -> list[int]:
    """What such a row takes by itself, for each candidate."""
    found = []
    for candidate, row in zip(network.candidates, rows(group, network), strict=True):
        found.append(sum(candidate.stages[k].firing for k in row or ()))
    return found


@lru_cache(maxsize=256)
def _rows(
    network: DeadlineNetwork, ins: tuple[JointChannel, ...], outs: tuple[JointChannel, ...]
) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(_row(network, candidate.stages, ins, outs) for candidate in network.candidates)


def _row(
    network: DeadlineNetwork,
    stages: tuple[CandidateStage, ...],
    ins: tuple[JointChannel, ...],
    outs: tuple[JointChannel, ...],
) -> tuple[int, ...] | None:
    """The shortest of the longest rows from each arrow in to each arrow out."""
    if len(stages) == 1:
        return (0,)
    cut = CutNet(network, stages)
    number = {name: k for k, name in enumerate(cut.names)}
    before: list[list[int]] = [[] for _ in stages]
    for c in cut.inner:
        before[number[c.destination]].append(number[c.source])
    first = [k for k, own in enumerate(before) if not own]
    entries = [[number[name] for name in cut.readers(c.readers)] for c in ins] or [first]
    exits = [[number[cut.maker(c.maker)]] for c in outs] or [[*range(len(stages))]]
    found: list[_Way] = []
    for entry in entries:
        ways = _ways_from(entry, stages, before)
        for own in exits:
            reached = [ways[k] for k in own if k in ways]
            if not reached:
                return None
            found.append(max(reached))
    return min(found)[1]


def _ways_from(
    entry: list[int],
    stages: tuple[CandidateStage, ...],
    before: list[list[int]],
) -> dict[int, _Way]:
    """The longest way from an entry to each stage that needs what comes in there."""
    longest: dict[int, _Way] = {}
    for k, own in enumerate(before):
        ways = [longest[b] for b in own if b in longest]
        if k in entry:
            ways.append((0, ()))
        if ways:
            length, way = max(ways)
            longest[k] = length + stages[k].firing, (*way, k)
    return longest


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
            times[network.name] = latencies(group, network)[choice]
    order = precedence(problem, group)
    longest: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name, before in order.before.items():
        length, path = max((longest[other] for other in before), default=(0, ()))
        longest[name] = length + times[name], (*path, name)
    length, path = max((longest[name] for name in longest if name in order.ends), default=(0, ()))
    return path, length
