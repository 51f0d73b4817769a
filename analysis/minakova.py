"""Buffers shared within and between networks, as in Minakova's thesis, ch. 6: for comparison with `placement`.

In: edges of networks, each in a part of a network that has its own processor. Out: buffers, each with the edges that
use it. Two things of the thesis are left to whoever calls: the schedules, and which parts run at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
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
    edges: tuple[Edge, ...]


def algorithm8(edges: Sequence[Edge], together: Collection[frozenset[int]]) -> tuple[Buffer, ...]:
    """Algorithm 8: every edge, in its turn, into the buffer that grows least, or into one of its own.

    It may share with edges of parts that never run `together` with its own, and with edges of its own part whose steps
    differ. Lines 13 to 16 look for both ends of an edge in one schedule; an edge to another part is read as in use
    until the end of the producer's schedule, and from the start of the consumer's.

    Kept as printed, with its faults. The answer depends on the order of the edges: over random orders of those of
    Table 6.1 it is 24586 to 32768. A tensor that two layers read is there twice. And what it shares is right only if
    the copies of an edge between parts that run together change hands by being copied while both wait: with
    alternating copies a layer reads the next frame's data.
    """
    found: list[tuple[int, list[Edge]]] = []
    for edge in edges:
        fitting = [k for k, (_, there) in enumerate(found) if not any(_apart(edge, z, together) for z in there)]
        if not fitting:
            found.append((edge.size, [edge]))
            continue
        best = min(fitting, key=lambda k: max(edge.size - found[k][0], 0))
        size, there = found[best]
        found[best] = max(size, edge.size), [*there, edge]
    return tuple(Buffer(size, tuple(there)) for size, there in found)


def _apart(one: Edge, other: Edge, together: Collection[frozenset[int]]) -> bool:
    """Do two edges need memory at the same time?"""
    if one.part != other.part:
        return frozenset((one.part, other.part)) in together
    return one.first <= other.last and other.first <= one.last
