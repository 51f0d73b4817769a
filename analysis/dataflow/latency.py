"""How long iterations and paths take from release to end, when iterations follow each other at a
steady period.

The graph is unfolded to one node per firing of an iteration. A firing starts as late as the longest
path into it says, where an arc that reaches back `h` iterations counts `h` periods less (max-plus
algebra: Baccelli et al., "Synchronization and Linearity", 1992), and a path may begin at any
firing, since none of the first iteration starts before time 0. So the answer is the latest over all
iterations, the first ones included. At any period the graph can keep, no path grows without end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import lcm
from time import monotonic
from typing import TYPE_CHECKING

from .dependence import DependencePath
from .graph import Graph, condensed

if TYPE_CHECKING:
    from .cycle_ratio import Arcs


@dataclass(frozen=True, slots=True)
class IterationLatency:
    """`longest` in the graph's unit of time, from the release of an iteration to the end of its
    last `sink`.

    `paths` are the longest latencies of the paths that were asked for, from the release of the
    newest data; None where delays hold data for too many iterations. No iteration takes longer, and
    one takes as long; so do paths.
    """

    longest: Fraction
    sink: int
    paths: tuple[Fraction | None, ...]


def sources_and_sinks(graph: Graph) -> tuple[list[int], list[int]]:
    """Tasks that an iteration starts and ends with. Of a cycle that nothing feeds, the first task
    counts as source. It ends with tasks of which no other task reads in an iteration what they
    make there, as in programs; where there are none, with the cycles that feed nothing, and the
    first task."""
    arrows = [(e.source, e.destination) for e in graph.edges if e.kind == "data"]
    home, components = condensed(len(graph.names), arrows)
    fed = {home[b] for a, b in arrows if home[a] != home[b]}
    feeding = {home[a] for a, b in arrows if home[a] != home[b]}
    sources = sorted(min(tasks) for c, tasks in enumerate(components) if c not in fed)
    inside = {
        e.source
        for e in graph.edges
        if e.kind == "data"
        and e.source != e.destination
        and e.tokens < sum(e.produced) * graph.cycles[e.source]
    }
    sinks = {t for t in range(len(graph.names)) if t not in inside}
    if not sinks:
        sinks = {0}.union(*(tasks for c, tasks in enumerate(components) if c not in feeding))
    return sources, sorted(sinks)


def latency(
    graph: Graph,
    period: Fraction,
    *,
    spaced: bool,
    paths: Sequence[DependencePath] = (),
    seconds: float | None = None,
) -> IterationLatency:
    """The worst latency of an iteration and of paths at this period, which the graph must be able
    to keep.

    Sources are released at the start of each iteration, their firings evenly over the period when
    `spaced`. If not, nothing but data paces the firings of a source, and paths count from their
    starts. Raises OutOfTime after `seconds`, or TooLarge.
    """
    from .cycle_ratio import longest_paths, numbers
    from .expansion import MOST_ARCS, Expander

    deadline = None if seconds is None else monotonic() + seconds
    sources, sinks = sources_and_sinks(graph)
    gaps = {t: period / graph.firings[t] if spaced else Fraction(0) for t in sources}
    scale = lcm(period.denominator, *(gap.denominator for gap in gaps.values()))
    index = {name: t for t, name in enumerate(graph.names)}
    # The first iteration to which a firing has data; from an iteration on, the starts of those
    # before do not count.
    begun = [[max(0, -(n // graph.firings[index[p.source]])) for n in p.newest] for p in paths]
    everything = range(len(graph.names)), range(len(graph.edges))
    expansion = Expander(graph, *everything, deadline).expand(dict(enumerate(graph.cycles)))
    arcs = expansion.arcs.reversed()
    nodes = _Nodes(graph)
    layers = min(
        1 + max((max(iterations) for iterations in begun), default=0),
        1 + MOST_ARCS // max(len(arcs.source), nodes.count),
    )
    whole_period = int(period * scale)
    steps = {t: int(gap * scale) for t, gap in gaps.items()}
    released = nodes.released(steps, layers, whole_period)
    starts = longest_paths(_layered(arcs, layers), scale, whole_period, numbers(released), deadline)

    def ends(task: int, layer: int = 0) -> list[int]:
        begins = starts[nodes.of(task, layer)].tolist()
        spent = graph.times[task] * graph.cycles[task]
        return [start + time * scale for start, time in zip(begins, spent, strict=True)]

    longest, sink = max(((max(ends(t)), t) for t in sinks), key=lambda e: e[0])
    taken: list[Fraction | None] = []
    for path, since in zip(paths, begun, strict=True):
        if max(since) >= layers:
            taken.append(None)
            continue
        source, last = index[path.source], index[path.sink]
        by_layer = {layer: ends(last, layer) for layer in set(since)}
        path_ends = [Fraction(by_layer[layer][j], scale) for j, layer in enumerate(since)]
        counted = released[nodes.of(source)] if spaced else starts[nodes.of(source)].tolist()
        begins = [Fraction(x, scale) for x in counted]
        taken.append(max(path.latencies(path_ends, period, begins)))
    return IterationLatency(Fraction(longest, scale), sink, tuple(taken))


class _Nodes:
    """Where firings lie among the nodes: the firings of an iteration by task, once per layer."""

    def __init__(self, graph: Graph) -> None:
        self._firings = graph.firings
        self._first = list(accumulate(graph.firings, initial=0))
        self.count = self._first[-1]

    def of(self, task: int, layer: int = 0) -> slice:
        """The firings of a task in a layer."""
        begin = layer * self.count
        return slice(begin + self._first[task], begin + self._first[task + 1])

    def released(self, steps: Mapping[int, int], layers: int, period: int) -> list[int]:
        """The earliest start of each node: firings of sources follow each other by their `steps`
        in each layer, others do not start before the first iteration.
        """
        starts: list[int] = []
        for layer in range(layers):
            starts += [-layer * period] * self.count
        for task, step in steps.items():
            releases = [step * k for k in range(self._firings[task])]
            for layer in range(layers):
                starts[self.of(task, layer)] = releases
        return starts


def _layered(arcs: Arcs, layers: int) -> Arcs:
    """The arcs from firings to those that they wait for, once per layer.

    A path begins in layer n at a firing of the n-th iteration or a later one. An arc back over h
    iterations leads h layers down, at most to layer 0; what ends above it has ended in the first
    iteration, so many periods earlier.
    """
    import numpy as np

    from .cycle_ratio import by_source

    if layers == 1:
        return arcs
    layer = np.arange(layers).repeat(len(arcs.source))
    source, destination, edge = (
        np.tile(column, layers) for column in (arcs.source, arcs.destination, arcs.edge)
    )
    length, height = np.tile(arcs.length, layers), np.tile(arcs.height, layers)
    below = np.maximum(layer - height, 0).astype(np.intp)
    nodes = arcs.nodes
    return by_source(
        layers * nodes, source + layer * nodes, destination + below * nodes, length, height, edge
    )
