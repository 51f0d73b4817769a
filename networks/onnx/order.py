"""Nodes of a graph in an order in which each comes after those that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from .nodes import read_inside


def in_order(nodes: Sequence[Any], places: Sequence[float]) -> list[Any]:
    """The nodes by their places, as far as what they read allows; equal places in the order
    given."""
    makers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        makers |= {t: number for t in node.output if t}
    readers: list[list[int]] = [[] for _ in nodes]
    waits = [0] * len(nodes)
    for number, node in enumerate(nodes):
        for maker in {makers[t] for t in (*node.input, *read_inside(node)) if t in makers}:
            readers[maker].append(number)
            waits[number] += 1
    ready = [(places[k], k) for k, count in enumerate(waits) if not count]
    heapify(ready)
    ordered = []
    while ready:
        _, number = heappop(ready)
        ordered.append(nodes[number])
        for reader in readers[number]:
            waits[reader] -= 1
            if not waits[reader]:
                heappush(ready, (places[reader], reader))
    return ordered
