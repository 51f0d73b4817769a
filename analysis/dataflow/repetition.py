"""The repetition vector of an SDF or CSDF graph: how often each task fires in one iteration.

Lee and Messerschmitt, "Static Scheduling of Synchronous Data Flow Programs", 1987; for CSDF, Bilsen
et al., "Cyclo-Static Dataflow", 1996: balance whole phase cycles, then multiply by the number of
phases.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from ...model.application import Application, Channel, Task


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why rates cannot balance: `channel` demands `demanded` x `reference`, the path `tree` gave
    `given` x `reference`.

    Both are ratios of firings of the channel's destination (or source, when `of` is the source) to
    the reference task.
    """

    channel: Channel
    of: str
    reference: str
    demanded: Fraction
    given: Fraction
    tree: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """`vector` has the firings per iteration by task name (empty after a conflict)."""

    vector: dict[str, int]
    conflict: Conflict | None


def _mean(rates: tuple[int, ...]) -> Fraction:
    """Average tokens per firing over a whole cycle of phases."""
    return Fraction(sum(rates), len(rates))


def repetition(app: Application) -> Repetition:
    """The least whole repetition vector of each connected component, or the first conflict
    found."""
    tasks = {t.name: t for t in app.tasks}
    touching = _ratios(app, tasks)
    vector: dict[str, int] = {}
    for root in tasks:
        if root not in vector:
            rate = _rates_from(root, touching)
            if isinstance(rate, Conflict):
                return Repetition({}, rate)
            vector.update(_whole(rate, tasks))
    return Repetition({name: vector[name] for name in tasks}, None)


#: For each task its channels: with the task at the other end, and how often that fires for each of
#: its own firings.
_Ratios = dict[str, list[tuple[Channel, str, Fraction]]]


def _ratios(app: Application, tasks: dict[str, Task]) -> _Ratios:
    touching: _Ratios = {name: [] for name in tasks}
    # most channels have rates that others have, too
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Fraction] = {}
    for c in app.channels:
        made = tasks[c.source].port(c.source_port).rates
        taken = tasks[c.destination].port(c.destination_port).rates
        for rates in ((made, taken), (taken, made)):
            if rates not in known:
                known[rates] = _mean(rates[0]) / _mean(rates[1])
        touching[c.source].append((c, c.destination, known[made, taken]))
        touching[c.destination].append((c, c.source, known[taken, made]))
    return touching


def _rates_from(root: str, touching: _Ratios) -> dict[str, Fraction] | Conflict:
    """How often each task connected to the root fires for each of its firings."""
    rate: dict[str, Fraction] = {root: Fraction(1)}
    parent: dict[str, tuple[Channel, str]] = {}
    # Downstream first: a conflict is then found where paths join, which is where people look for
    # it.
    forward, backward = deque([root]), deque([root])
    while forward or backward:
        downstream = bool(forward)
        name = forward.popleft() if downstream else backward.popleft()
        for channel, other, ratio in touching[name]:
            if (channel.source == name) != downstream:
                continue
            demanded = rate[name] if ratio == 1 else rate[name] * ratio
            if other not in rate:
                rate[other] = demanded
                parent[other] = (channel, name)
                forward.append(other)
                backward.append(other)
            elif rate[other] != demanded:
                return _conflict(channel, name, other, demanded, rate, parent)
    return rate


def _whole(rate: dict[str, Fraction], tasks: dict[str, Task]) -> dict[str, int]:
    """Scale to the least integers that are multiples of each task's number of phases."""
    phases = {n: tasks[n].phases for n in rate}
    cycles = {n: r if phases[n] == 1 else r / phases[n] for n, r in rate.items()}
    scale = lcm(*(c.denominator for c in cycles.values()))
    whole = {n: c.numerator * (scale // c.denominator) for n, c in cycles.items()}
    divisor = gcd(*whole.values())
    return {n: w // divisor * phases[n] for n, w in whole.items()}


def _conflict(
    channel: Channel,
    name: str,
    other: str,
    demanded: Fraction,
    rate: dict[str, Fraction],
    parent: dict[str, tuple[Channel, str]],
) -> Conflict:
    """Express both demands relative to the task where the two paths part."""

    def path(task: str) -> list[str]:
        steps = [task]
        while steps[-1] in parent:
            steps.append(parent[steps[-1]][1])
        return steps

    left, right = path(name), path(other)
    common = next(t for t in left if t in set(right))
    tree = []
    for side in (left, right):
        for task in side[: side.index(common)]:
            tree.append(parent[task][0])
    base = rate[common]
    return Conflict(channel, other, common, demanded / base, rate[other] / base, tuple(tree))
