"""How long one iteration takes from its release to its end, when iterations follow each other at a steady period.

The graph is unfolded to one node per firing of an iteration. A firing starts as late as the longest path into it says,
where an arc that reaches back `h` iterations counts `h` periods less (max-plus algebra: Baccelli et al.,
"Synchronization and Linearity", 1992), and a path may begin at any firing, since none of the first iteration starts
before time 0. So the answer is the latest over all iterations, the first ones included. At any period the graph can
keep, no path grows without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
from time import monotonic

from .graph import Graph, condensed


@dataclass(frozen=True, slots=True)
class Latency:
    """`longest` in the graph's unit of time, from the release of an iteration to the end of its last `sink`.

    No iteration takes longer, and one takes as long.
    """

    longest: Fraction
    sink: int


def sources_and_sinks(graph: Graph) -> tuple[list[int], list[int]]:
    """Tasks that an iteration starts and ends with; of a cycle that nothing feeds, the first task counts as source."""
    arrows = [(e.source, e.destination) for e in graph.edges if e.kind == "data"]
    home, components = condensed(len(graph.names), arrows)
    fed = {home[b] for a, b in arrows if home[a] != home[b]}
    feeding = {home[a] for a, b in arrows if home[a] != home[b]}
    sources = sorted(min(tasks) for c, tasks in enumerate(components) if c not in fed)
    sinks = sorted(t for c, tasks in enumerate(components) if c not in feeding for t in tasks)
    return sources, sinks


def latency(graph: Graph, period: Fraction, *, spaced: bool, seconds: float | None = None) -> Latency:
    """The worst latency of an iteration at this period, which the graph must be able to keep.

    Sources are released at the start of each iteration, their firings evenly over the period when `spaced`.
    Raises OutOfTime after `seconds`, or TooLarge.
    """
    from .cycle_ratio import longest_paths, numbers
    from .expansion import Expander

    deadline = None if seconds is None else monotonic() + seconds
    tasks = range(len(graph.names))
    expansion = Expander(graph, tasks, range(len(graph.edges)), deadline).expand(dict(enumerate(graph.cycles)))
    first = list(accumulate(graph.firings, initial=0))
    sources, sinks = sources_and_sinks(graph)
    apart = [period / graph.firings[t] if spaced else Fraction(0) for t in sources]
    scale = lcm(period.denominator, *(x.denominator for x in apart))
    released = [0] * first[-1]
    for t, gap in zip(sources, apart, strict=True):
        released[first[t] : first[t + 1]] = [int(gap * scale) * k for k in range(graph.firings[t])]
    starts = longest_paths(expansion.arcs.reversed(), scale, int(period * scale), numbers(released), deadline)
    ends = []
    for t in sinks:
        times = graph.times[t] * graph.cycles[t]
        last = max(
            start + spent * scale for start, spent in zip(starts[first[t] : first[t + 1]].tolist(), times, strict=True)
        )
        ends.append((last, t))
    longest, sink = max(ends, key=lambda e: e[0])
    return Latency(Fraction(longest, scale), sink)
