"""The largest ratio of length to height over the cycles of a graph, exactly.

Howard's policy iteration (Cochet-Terrasson et al., "Numerical computation of spectral elements in max-plus algebra",
1998; Dasdan's comparison, 1999) in whole numbers: with the ratio as a/b, an arc weighs b x length - a x height, so that
no value is ever rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic


@dataclass(frozen=True, slots=True)
class Arc:
    """`length` is time >= 0; `height` is what the period is multiplied with (negative heights are legal)."""

    source: int
    destination: int
    length: int
    height: int
    edge: int


@dataclass(frozen=True, slots=True)
class Critical:
    """The critical cycle (arcs in order) and its ratio; None when no ratio satisfies the cycle (height <= 0)."""

    ratio: Fraction | None
    cycle: tuple[Arc, ...]


class OutOfTime(Exception):
    """The deadline has passed."""


def largest_cycle_ratio(nodes: int, arcs: Sequence[Arc], deadline: float | None = None) -> Critical:
    """The least ratio r >= 0 with length <= r x height on every cycle, with the cycle that dictates it.

    A cycle of height 0 must have length 0, and one of negative height must not exist, unless its length is 0 and so is
    the ratio; the first such cycle is returned with `ratio` None. Raises OutOfTime.
    """
    import networkx as nx

    whole: nx.DiGraph[int] = nx.DiGraph()
    whole.add_edges_from((a.source, a.destination) for a in arcs)
    components = [sorted(c) for c in nx.strongly_connected_components(whole)]
    place = {node: (i, j) for i, component in enumerate(components) for j, node in enumerate(component)}
    inner: list[list[Arc]] = [[] for _ in components]
    for a in arcs:
        (home, source), (other, destination) = place[a.source], place[a.destination]
        if home == other:
            inner[home].append(replace(a, source=source, destination=destination))
    best = Critical(Fraction(0), ())
    for component, own in zip(components, inner, strict=True):
        if own:
            found = ratio_of_connected(len(component), own, deadline)
            cycle = tuple(
                replace(a, source=component[a.source], destination=component[a.destination]) for a in found.cycle
            )
            if found.ratio is None:
                return Critical(None, cycle)
            if not best.cycle or (best.ratio is not None and found.ratio > best.ratio):
                best = Critical(found.ratio, cycle)
    return best


def ratio_of_connected(nodes: int, arcs: Sequence[Arc], deadline: float | None = None) -> Critical:
    """`largest_cycle_ratio` of a graph that is strongly connected."""
    out: list[list[int]] = [[] for _ in range(nodes)]
    into: list[list[int]] = [[] for _ in range(nodes)]
    for i, arc in enumerate(arcs):
        out[arc.source].append(i)
        into[arc.destination].append(i)
    source = [arc.source for arc in arcs]
    target = [arc.destination for arc in arcs]
    length = [arc.length for arc in arcs]
    height = [arc.height for arc in arcs]
    # Start where cycles are likely to be heavy: the longest arc, the lowest among equals.
    policy = [max(choices, key=lambda i: (length[i], -height[i])) for choices in out]
    value = [0] * nodes
    best: tuple[int, int] | None = None
    while True:
        if deadline is not None and monotonic() > deadline:
            raise OutOfTime
        cycle, ratio = _best_cycle(nodes, policy, target, length, height, best)
        if ratio is None:
            return Critical(None, tuple(arcs[i] for i in cycle))
        if best is None or ratio[0] * best[1] > best[0] * ratio[1]:
            best = ratio
        a, b = best
        weight = [b * x - a * h for x, h in zip(length, height, strict=True)]
        # Values along the policy, from the cycle backwards; nodes that do not reach it are led there.
        root = source[cycle[0]]
        value = _values(root, policy, source, target, into, weight, value, nodes)
        improved = False
        for u in range(nodes):
            top, chosen = value[u], -1
            for i in out[u]:
                reached = weight[i] + value[target[i]]
                if reached > top:
                    top, chosen = reached, i
            if chosen >= 0:
                policy[u] = chosen
                improved = True
        if not improved:
            return Critical(Fraction(a, b), tuple(arcs[i] for i in cycle))


def _best_cycle(
    nodes: int,
    policy: list[int],
    target: list[int],
    length: list[int],
    height: list[int],
    known: tuple[int, int] | None,
) -> tuple[list[int], tuple[int, int] | None]:
    """The cycle of the policy with the largest ratio (numerator, denominator); None when one has no ratio.

    A cycle of negative height and no length allows the ratio 0 only: it has none once a larger one is `known`.
    """
    positive = known is not None and known[0] > 0
    backwards: list[int] | None = None
    seen = [0] * nodes
    best: tuple[int, int] | None = None
    found: list[int] = []
    for start in range(nodes):
        if seen[start]:
            continue
        mark = start + 1
        at = start
        while not seen[at]:
            seen[at] = mark
            at = target[policy[at]]
        if seen[at] != mark:
            continue
        cycle = [policy[at]]
        step = target[policy[at]]
        while step != at:
            cycle.append(policy[step])
            step = target[policy[step]]
        long, high = sum(length[i] for i in cycle), sum(height[i] for i in cycle)
        if long > 0 and high <= 0:
            return cycle, None
        if high < 0:
            backwards = cycle
        ratio = (long, high) if long else (0, 1)
        positive = positive or long > 0
        if best is None or ratio[0] * best[1] > best[0] * ratio[1]:
            best, found = ratio, cycle
    if backwards is not None and positive:
        return backwards, None
    assert best is not None
    return found, best


def _values(
    root: int,
    policy: list[int],
    source: list[int],
    target: list[int],
    into: list[list[int]],
    weight: list[int],
    value: list[int],
    nodes: int,
) -> list[int]:
    fresh = [0] * nodes
    known = [False] * nodes
    known[root] = True
    fresh[root] = value[root]
    order = [root]
    waiting: list[int] = []
    for at in order:  # first only along the policy
        for i in into[at]:
            u = source[i]
            if not known[u] and policy[u] == i:
                known[u] = True
                fresh[u] = weight[i] + fresh[at]
                order.append(u)
    if len(order) < nodes:
        waiting = list(order)
        for at in waiting:
            for i in into[at]:
                u = source[i]
                if not known[u]:
                    known[u] = True
                    policy[u] = i
                    fresh[u] = weight[i] + fresh[at]
                    waiting.append(u)
    return fresh
