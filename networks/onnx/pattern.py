"""Where the memory pattern of ONNX Runtime places what lies between the nodes of a graph: each
tensor when it is made, into the smallest gap that takes it.

In: bytes and lives. Out: the end of all.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

#: Arrays of ONNX Runtime begin at multiples of it.
ALIGNED = 256


def in_turn(steps: Iterable[Iterable[tuple[int, int]]]) -> int:
    """The end of memory where each step takes (bytes, last step that needs them), each into the
    smallest gap."""
    # begin, end and last step of each, from the first byte on
    there: list[tuple[int, int, int]] = []
    most = 0
    for now, made in enumerate(steps):
        for count, until in made:
            wanted = aligned(count)
            at = _gap(there, wanted, most)
            insort(there, (at, at + wanted, until))
            most = max(most, at + wanted)
        there = [x for x in there if x[2] > now]
    return most


def aligned(count: int) -> int:
    """So many bytes, up to where the next array may begin."""
    return -(-count // ALIGNED) * ALIGNED


def _gap(there: list[tuple[int, int, int]], wanted: int, most: int) -> int:
    """The beginning of the smallest gap, that up to `most` among them, or the end of all."""
    free, gap, begin = 0, None, 0
    for at, end, _ in there:
        if at - free >= wanted and (gap is None or at - free < gap):
            gap, begin = at - free, free
        free = max(free, end)
    if gap is None or wanted <= most - free < gap:
        return free
    return begin
