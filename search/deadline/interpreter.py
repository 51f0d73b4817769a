"""The groups whose workers may wait for Python's interpreter, which no bound counts.

In: a joint problem, the program of an assignment, and the apps without a period beside it. Out: by
group, the tasks that may hold the interpreter while a thread of the group wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.timing.system import TimedSystem
from .problem import BackgroundApp, JointProblem


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread of the program on a machine: the groups that it works for, and the tasks in it that
    hold the interpreter while they compute."""

    machine: str
    groups: frozenset[str]
    holding: tuple[str, ...] = ()


def waited_for(
    problem: JointProblem, system: TimedSystem, beside: Sequence[BackgroundApp]
) -> dict[str, tuple[str, ...]]:
    """The tasks that each group may have to wait for: those that run in Python without a `process`,
    in other threads of a program that threads of the group are in, too.

    The threads of a machine share an interpreter. Each of them wants it, whatever it fires: around
    code in C, networks and processes is the runtime, which takes microseconds and holds up no other
    thread. A group waits for what its chains come through, too. In programs in C++ nothing is in
    Python.
    """
    threads = [*_threads(problem, system, beside)]
    waits = {group.name: _by_others(group.name, threads) for group in problem.groups}
    found = {}
    for group in problem.groups:
        names = (group.name, *(name for chain in group.chains for name in chain.groups))
        found[group.name] = tuple(dict.fromkeys(task for name in names for task in waits[name]))
    return found


def _by_others(group: str, threads: list[_Thread]) -> tuple[str, ...]:
    """The tasks that hold the interpreter beside some thread of a group."""
    own = [thread for thread in threads if group in thread.groups]
    found: dict[str, None] = {}
    for thread in threads:
        if any(other is not thread and other.machine == thread.machine for other in own):
            found |= dict.fromkeys(thread.holding)
    return tuple(found)


def _threads(
    problem: JointProblem, system: TimedSystem, beside: Sequence[BackgroundApp]
) -> Iterator[_Thread]:
    """The workers, those of the background, and the threads that take what links bring."""
    machine_of, types = problem.machine_of, problem.type
    python = {task.name: task.python for task in problem.tasks}
    arrivals = {wire.processor: wire.destination for wire in problem.platform.wires}
    for worker in system.workers:
        place = worker.processor
        groups = frozenset(firing.group for firing in worker.sequence)
        tasks = dict.fromkeys(firing.task for firing in worker.sequence)
        holding = tuple(name for name in tasks if types[place] in python.get(name, ()))
        yield _Thread(machine_of[place], groups, holding)
        if place in arrivals:
            yield _Thread(arrivals[place], groups)
    for app in beside:
        places = {p.task: p.processors for p in app.placements}
        for task in app.holding:
            for machine in dict.fromkeys(machine_of[p] for p in places[task]):
                yield _Thread(machine, frozenset(), (task,))
