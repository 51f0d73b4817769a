"""A mapped system at slower clocks: what runs on a processor takes so many times as long.

In: a timed system whose times are those of the highest clock rates. Out: the same at others. That
time goes with the inverse of the rate is safe downwards alone: memory does not slow down with a
core, so what was measured at a slow clock does not get that much shorter at a fast one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from .system import TimedSystem, TimedTask


def slower(system: TimedSystem, factors: Mapping[str, Fraction]) -> TimedSystem:
    """The system with processors that take so many times as long, 1 where they are not named.
    Rounded up to whole ns.

    Best cases stay: what takes longer takes at least that.
    """
    if all(factor == 1 for factor in factors.values()):
        return system
    groups = (
        replace(g, tasks=tuple(_slower(t, factors.get(t.processor, Fraction(1))) for t in g.tasks))
        for g in system.groups
    )
    return replace(system, groups=tuple(groups))


def longer(system: TimedSystem, tasks: Collection[str], factor: Fraction) -> TimedSystem:
    """The system with worst cases of some tasks so many times as long, rounded up to whole ns.

    Best cases stay; with shorter worst cases none are known.
    """
    groups = []
    for group in system.groups:
        own = []
        for task in group.tasks:
            if task.name in tasks:
                task = _slower(task, factor)
                task = task if factor >= 1 else replace(task, bcet=())
            own.append(task)
        groups.append(replace(group, tasks=tuple(own)))
    return replace(system, groups=tuple(groups))


def _slower(task: TimedTask, factor: Fraction) -> TimedTask:
    if factor == 1:
        return task
    wcet = tuple(ceil(time * factor) for time in task.wcet)
    curve = None if task.curve is None else task.curve.scaled(factor)
    if curve is not None and curve.longest != sum(wcet):
        # rounded up one by one: then worst cases count
        curve = None
    phases = tuple(ceil(time * factor) for time in task.phases)
    return replace(task, wcet=wcet, curve=curve, phases=phases)
