"""Buffers shared within and between networks, as in Minakova's thesis, ch. 6: for comparison with
`placement`.

In: edges of networks, each in a part of a network that has its own processor. Out: buffers, each
with the edges that use it; and which layers should go by parts (Algorithm 9; what Algorithm 10
derives is made by `networks.dataflow.reduced`). Two things of the thesis are left to the caller:
the schedules, and which parts run concurrently.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BufferedEdge:
    """`size` is in use from step `first` to step `last` of the schedule of its `part`."""

    name: str
    part: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """As large as the largest of its edges (eq. 2.8 of the thesis)."""

    size: int
    edges: tuple[BufferedEdge, ...]


def algorithm8(
    edges: Sequence[BufferedEdge], together: Collection[frozenset[int]]
) -> tuple[Buffer, ...]:
    """Algorithm 8: every edge, in its turn, into the buffer that grows least, or into one of its
    own.

    It may share with edges of parts that never run `together` with its own, and with edges of its
    own part whose steps differ. Lines 13 to 16 look for both ends of an edge in one schedule; an
    edge to another part is read as in use until the end of the producer's schedule, and from the
    start of the consumer's.

    Kept as printed, with its faults. The answer depends on the order of the edges: over random
    orders of those of Table 6.1 it is 24586 to 32768. A tensor that two layers read is there twice.
    And what it shares is right only if the copies of an edge between parts that run together change
    hands by being copied while both wait: with alternating copies a layer reads the next frame's
    data.
    """
    buffers: list[tuple[int, list[BufferedEdge]]] = []
    for edge in edges:
        fitting = []
        for k, (_, there) in enumerate(buffers):
            if not any(_apart(edge, other, together) for other in there):
                fitting.append(k)
        if not fitting:
            buffers.append((edge.size, [edge]))
            continue
        best = min(fitting, key=lambda k: max(edge.size - buffers[k][0], 0))
        size, there = buffers[best]
        buffers[best] = max(size, edge.size), [*there, edge]
    return tuple(Buffer(size, tuple(there)) for size, there in buffers)


def _apart(one: BufferedEdge, other: BufferedEdge, together: Collection[frozenset[int]]) -> bool:
    """Do two edges need memory at the same time?"""
    if one.part != other.part:
        return frozenset((one.part, other.part)) in together
    return one.first <= other.last and other.first <= one.last


@dataclass(frozen=True, slots=True)
class Reduced:
    """A chromosome of Algorithm 9: per layer whether it goes by parts, and what that means.

    `memory` is that of all buffers, `times` are what a frame of each network takes (their inverse
    is its throughput).
    """

    chosen: tuple[bool, ...]
    memory: int
    times: tuple[float, ...]


#: Chromosomes of a generation.
POPULATION = 100

Evaluate = Callable[[tuple[bool, ...]], Reduced]


def algorithm9(
    layers: int,
    evaluate: Evaluate,
    limit: int,
    slowest: Sequence[float],
    rng: random.Random,
    *,
    population: int = POPULATION,
    generations: int = 100,
    printed: bool = True,
    enough: Callable[[], bool] = lambda: False,
) -> Reduced:
    """Algorithm 9: which layers go by parts, so that networks take at most `limit` and no longer
    than `slowest`.

    `evaluate` is Algorithm 10 with Equation 2.5: edges derived for a chromosome, and Algorithm 8 on
    them. If nothing by parts is small enough, that is the answer (lines 1 to 5); else NSGA-II looks
    for a front (selection by DEAP, crossover of two parents, mutation of one gene), from which
    `selected` chooses. The first two chromosomes have no layer and all layers by parts, others are
    random. Line 16 returns an answer even if it violates the limit: the caller has to
    check. With `enough`, NSGA-II ends early.
    """
    evaluated: dict[tuple[bool, ...], Reduced] = {}

    def of(chosen: tuple[bool, ...]) -> Reduced:
        if chosen not in evaluated:
            evaluated[chosen] = evaluate(chosen)
        return evaluated[chosen]

    whole = of((False,) * layers)
    if whole.memory <= limit:
        return whole
    return selected(
        _front(layers, of, rng, population, generations, enough), limit, slowest, printed=printed
    )


def selected(
    front: Sequence[Reduced], limit: int, slowest: Sequence[float], *, printed: bool = True
) -> Reduced:
    """Lines 9 to 16: of those within the limits the one with the least memory, else of all.

    That is what is `printed`. It contradicts the thesis's own examples, whose answers take more
    memory than others within the limit (Table 6.3: 19712 under 20000, where all of CNN1 by parts
    takes less; Table 6.6: 14.98 MB at 41 fps under 15 MB beside 14.90 at 40.5). Meant is the
    highest throughput within the limits: with `printed` off.
    """
    fitting = []
    for c in front:
        in_time = all(time <= most for time, most in zip(c.times, slowest, strict=True))
        if c.memory <= limit and in_time:
            fitting.append(c)
    if fitting and not printed:
        return min(fitting, key=lambda c: (sum(c.times), c.memory))
    return min(fitting or front, key=lambda c: c.memory)


def _front(
    layers: int,
    of: Evaluate,
    rng: random.Random,
    population: int,
    generations: int,
    enough: Callable[[], bool],
) -> tuple[Reduced, ...]:
    """What no other one beats in memory and in every time, of all that NSGA-II has looked at."""
    from deap import base, tools

    class Fitness(base.Fitness):  # type: ignore[misc]
        weights: tuple[float, ...] = ()

    class BufferIndividual:
        def __init__(self, chosen: tuple[bool, ...]) -> None:
            self.reduced = of(chosen)
            values = (self.reduced.memory, *self.reduced.times)
            Fitness.weights = (-1.0,) * len(values)
            self.fitness = Fitness(values)

    def child() -> BufferIndividual:
        one, other = (rng.choice(people).reduced.chosen for _ in range(2))
        at = rng.randrange(layers + 1)
        genes = [*one[:at], *other[at:]]
        at = rng.randrange(layers)
        genes[at] = not genes[at]
        return BufferIndividual(tuple(genes))

    def some(make: Callable[[], BufferIndividual]) -> list[BufferIndividual]:
        return [make() for k in range(population) if k == 0 or not enough()]

    people = [BufferIndividual((by_parts,) * layers) for by_parts in (False, True)]
    people += some(lambda: BufferIndividual(tuple(rng.random() < 0.5 for _ in range(layers))))[2:]
    for _ in range(generations):
        if enough():
            break
        people = tools.selNSGA2(people + some(child), population)
    known = {p.reduced.chosen: p.reduced for p in people}
    return tuple(c for c in known.values() if not any(_beats(d, c) for d in known.values()))


def _beats(one: Reduced, other: Reduced) -> bool:
    mine, yours = (one.memory, *one.times), (other.memory, *other.times)
    return mine != yours and all(a <= b for a, b in zip(mine, yours, strict=True))
