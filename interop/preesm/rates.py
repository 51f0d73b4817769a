"""The firings of the actors of one graph, as PREESM counts them: each level for itself, then fitted
to its interfaces.

In: fifos with their rates. Out: firings in one firing of the graph, or a fifo that cannot balance.
The rule for interfaces is the one of PREESM's `PiBRV` (plugins/org.preesm.model.pisdf, brv): a part
fires as often as necessary, so that no input interface keeps tokens and no output interface lacks
any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class RatedEdge:
    """`source` makes `made` tokens in a firing, `target` takes `taken`."""

    source: str
    made: int
    target: str
    taken: int


class Unbalanced(Exception):
    """No numbers of firings balance this edge with the others."""

    def __init__(self, edge: int) -> None:
        super().__init__(edge)
        self.edge = edge


def level_firings(
    nodes: Iterable[str], edges: Sequence[RatedEdge], interfaces: Sequence[tuple[str, int, int]]
) -> Mapping[str, int]:
    """Firings of each node. `interfaces` are (node, tokens in its firing, tokens of the interface).

    Raises Unbalanced.
    """
    around: dict[str, list[tuple[str, Fraction]]] = {n: [] for n in nodes}
    for e in edges:
        around[e.source].append((e.target, Fraction(e.made, e.taken)))
        around[e.target].append((e.source, Fraction(e.taken, e.made)))
    ratio: dict[str, Fraction] = {}
    found: dict[str, int] = {}
    for start in around:
        if start in ratio:
            continue
        counts = _least(_part(start, around, ratio), ratio)
        scale = 1
        for node, rate, tokens in interfaces:
            if node in counts:
                scale = max(scale, math.ceil(Fraction(tokens, rate * counts[node])))
        for node, count in counts.items():
            found[node] = count * scale
    for i, e in enumerate(edges):
        if e.made * found[e.source] != e.taken * found[e.target]:
            raise Unbalanced(i)
    return found


def _least(part: Iterable[str], ratio: Mapping[str, Fraction]) -> dict[str, int]:
    """The least whole numbers with these ratios."""
    common = math.lcm(*(ratio[node].denominator for node in part))
    counts = {node: int(ratio[node] * common) for node in part}
    least = math.gcd(*counts.values())
    return {node: count // least for node, count in counts.items()}


def _part(
    start: str, around: Mapping[str, list[tuple[str, Fraction]]], ratio: dict[str, Fraction]
) -> list[str]:
    """The nodes that are connected with one, with their firings for one of it."""
    ratio[start] = Fraction(1)
    part = [start]
    for node in part:
        for other, factor in around[node]:
            if other not in ratio:
                ratio[other] = ratio[node] * factor
                part.append(other)
    return part
