"""Some layers of a network by parts, the others at once, each edge in its least buffer: Minakova's thesis, ch. 6.

In: a Cnn, and the layers that go by parts. Out: edges with sizes and lives, which `analysis.minakova` shares buffers
among. Lines 2 to 7 of the thesis's Algorithm 10, but with rates that follow from the rows that are needed
(`by_parts`), as Algorithm 4 fails on the first layer of ordinary networks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...analysis.dataflow.buffers import least_capacities
from ...analysis.dataflow.graph import bounded, graph_of
from ...analysis.dataflow.liveness import Execution
from ...analysis.dataflow.repetition import repetition
from ...analysis.minakova import Edge
from ..onnx.layers import Cnn
from .by_parts import by_parts


def derived(cnn: Cnn, chosen: Collection[str], part: int = 0) -> tuple[tuple[Edge, ...], int]:
    """The edges of a network of which the `chosen` layers go by parts, and the steps of its schedule.

    Sizes are elements; an edge is in use from the first step of its source to the last one of its reader. Equation 6.1:
    a layer that is not chosen has one phase. Raises as `least_capacities`.
    """
    phased = replace(cnn, layers=tuple(x if x.name in chosen else replace(x, phases=1) for x in cnn.layers))
    app = by_parts(phased, "Net")
    graph = graph_of(app, repetition(app).vector, overlap=True)
    found = least_capacities(graph)
    runs: list[tuple[int, int]] = []
    Execution(bounded(graph, found.capacities)).run(record=runs)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    steps = 0
    for task, count in runs:
        first.setdefault(task, steps + 1)
        steps += count
        last[task] = steps
    edges = tuple(
        Edge(graph.channels[e.channel], part, found.capacities[e.channel], first[e.source], last[e.destination])
        for e in graph.edges
        if e.kind == "data"
    )
    return edges, steps
