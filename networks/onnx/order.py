"""Nodes of a graph in an order in which each comes after those that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any


def in_order(nodes: Sequence[Any], places: Sequence[float]) -> list[Any]:
    """The nodes by their places, as far as what they read allows; equal places in the order
    given."""
    makers = {t: k for k, n in enumerate(nodes) for t in n.output if t}
    behind: list[list[int]] = [[] for _ in nodes]
    waits = [0] * len(nodes)
    for k, node in enumerate(nodes):
        for maker in {makers[t] for t in node.input if t in makers}:
            behind[maker].append(k)
            waits[k] += 1
    ready = [(places[k], k) for k, n in enumerate(waits) if not n]
    heapify(ready)
    found = []
    while ready:
        _, k = heappop(ready)
        found.append(nodes[k])
        for b in behind[k]:
            waits[b] -= 1
            if not waits[b]:
                heappush(ready, (places[b], b))
    return found
