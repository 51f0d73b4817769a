"""How long one iteration takes from its release to its end, when iterations follow each other at a steady period.

The graph is unfolded to one node per firing of an iteration. A firing starts as late as the longest path into it says,
where an arc that reaches back `h` iterations counts `h` periods less (max-plus algebra: Baccelli et al.,
"Synchronization and Linearity", 1992), and a path may begin at any firing, since none of the first iteration starts
before time 0. So the answer is the latest over all iterations, the first ones included. At any period the graph can
keep, no path grows without end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from time import monotonic

import networkx as nx

from .cycle_ratio import OutOfTime
from .graph import Graph
from .throughput import MOST_ARCS, MOST_NODES, useful_pairs


@dataclass(frozen=True, slots=True)
class Latency:
    """`longest` in the graph's unit of time, from the release of an iteration to the end of its last `sink`.

    No iteration takes longer, and one takes as long.
    """

    longest: Fraction
    sink: int


def sources_and_sinks(graph: Graph) -> tuple[list[int], list[int]]:
    """Tasks that an iteration starts and ends with; of a cycle that nothing feeds, the first task counts as source."""
    whole: nx.DiGraph[int] = nx.DiGraph()
    whole.add_nodes_from(range(len(graph.names)))
    whole.add_edges_from((e.source, e.destination) for e in graph.edges if e.kind == "data")
    condensed = nx.condensation(whole)
    members = condensed.nodes(data="members")
    sources = sorted(min(m) for c, m in members if condensed.in_degree(c) == 0)
    sinks = sorted(t for c, m in members if condensed.out_degree(c) == 0 for t in m)
    return sources, sinks


def latency(graph: Graph, period: Fraction, *, spaced: bool, seconds: float | None = None) -> Latency | None:
    """The worst latency of an iteration at this period, which the graph must be able to keep.

    Sources are released at the start of each iteration, their firings evenly over the period when `spaced`.
    None when the graph is too large, or time is up.
    """
    deadline = None if seconds is None else monotonic() + seconds
    try:
        return _latency(graph, period, spaced, deadline)
    except OutOfTime:
        return None


def _latency(graph: Graph, period: Fraction, spaced: bool, deadline: float | None) -> Latency:
    if sum(graph.firings) > MOST_NODES:
        raise OutOfTime
    first = [0]
    for n in graph.firings:
        first.append(first[-1] + n)
    sources, sinks = sources_and_sinks(graph)
    apart = [period / graph.firings[t] if spaced else Fraction(0) for t in sources]
    scale = lcm(period.denominator, *(x.denominator for x in apart))
    whole_period = int(period * scale)
    out: list[list[tuple[int, int]]] = [[] for _ in range(first[-1])]
    count = 0
    in_order = {e.source for e in graph.edges if e.kind == "serial"}
    for e in graph.edges:
        traffic = sum(e.produced) * graph.cycles[e.source]
        times = graph.times[e.source]
        one_at_a_time = e.source in in_order and e.destination in in_order
        repeats = graph.cycles[e.source], graph.cycles[e.destination]
        for p, q, lag in useful_pairs(e, *repeats, one_at_a_time, deadline):
            weight = times[p % len(times)] * scale + lag // traffic * whole_period
            out[first[e.source] + p].append((first[e.destination] + q, weight))
            count += 1
        if count > MOST_ARCS or (deadline is not None and monotonic() > deadline):
            raise OutOfTime
    start = [0] * first[-1]
    for t, gap in zip(sources, apart, strict=True):
        for k in range(graph.firings[t]):
            start[first[t] + k] = int(gap * scale) * k
    _longest_paths(out, start, deadline)
    ends = []
    for t in sinks:
        times = graph.times[t]
        ends += [(start[first[t] + k] + times[k % len(times)] * scale, t) for k in range(graph.firings[t])]
    longest, sink = max(ends, key=lambda e: e[0])
    return Latency(Fraction(longest, scale), sink)


def _longest_paths(out: list[list[tuple[int, int]]], start: list[int], deadline: float | None) -> None:
    """Label-correcting search; raises `start` to the longest path into every node."""
    work = deque(range(len(start)))
    queued = [True] * len(start)
    steps = 0
    while work:
        at = work.popleft()
        queued[at] = False
        here = start[at]
        steps += 1
        if deadline is not None and steps % 4096 == 0 and monotonic() > deadline:
            raise OutOfTime
        for to, weight in out[at]:
            if here + weight > start[to]:
                start[to] = here + weight
                if not queued[to]:
                    queued[to] = True
                    work.append(to)
