"""Some layers of a network by parts, the others at once, each edge in its least buffer: Minakova's
thesis, ch. 6.

In: a Cnn, and the layers that go by parts. Out: edges with sizes and lives, which
`analysis.minakova` shares buffers among. Lines 2 to 7 of the thesis's Algorithm 10, but with rates
that follow from the rows that are needed (`by_parts`), as Algorithm 4 fails on the first layer of
ordinary networks. `reduction` asks what all of that comes to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ...analysis.dataflow.buffers import least_capacities
from ...analysis.dataflow.graph import bounded, graph_of
from ...analysis.dataflow.liveness import Execution
from ...analysis.dataflow.repetition import repetition
from ...analysis.minakova import POPULATION, BufferedEdge, Reduced, algorithm8, algorithm9
from ..onnx.layers import Cnn
from .by_parts import by_parts


def derived(
    cnn: Cnn, chosen: Collection[str], part: int = 0
) -> tuple[tuple[BufferedEdge, ...], int]:
    """The edges of a network of which the `chosen` layers go by parts, and the steps of its
    schedule.

    Sizes are bytes; an edge is in use from the first step of its source to the last one of its
    reader. Equation 6.1: a layer that is not chosen has one phase. Raises as `least_capacities`.
    """
    phased = replace(
        cnn, layers=tuple(x if x.name in chosen else replace(x, phases=1) for x in cnn.layers)
    )
    app = by_parts(phased, "Net")
    sizes = {f"Net.{x.name}": x.bytes for x in cnn.layers}
    graph = graph_of(app, repetition(app).vector, overlap=True)
    capacities = least_capacities(graph).capacities
    runs: list[tuple[int, int]] = []
    Execution(bounded(graph, capacities)).run(record=runs)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    steps = 0
    for task, count in runs:
        first.setdefault(task, steps + 1)
        steps += count
        last[task] = steps
    edges = []
    for e in graph.edges:
        if e.kind == "data":
            size = capacities[e.channel] * sizes[app.channels[e.channel].source]
            name = graph.channels[e.channel]
            edges.append(BufferedEdge(name, part, size, first[e.source], last[e.destination]))
    return tuple(edges), steps


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the thesis's rules need between the layers of a network, in bytes; its input counts, as
    there.

    `edges`: every layer by parts, every edge in a buffer of its own (ch. 4). `whole` and `parts`:
    Algorithm 10 with none and with all of the layers by parts, where edges share buffers by
    Algorithm 8; `steps` are those of a frame by parts. `least` is the smallest that Algorithm 9 has
    found in so many `looks`, with `chosen` layers by parts and the steps of a frame; None where it
    was not asked.
    """

    edges: int
    whole: int
    parts: int
    steps: int
    least: Reduced | None = None
    chosen: int = 0
    looks: int = 0


def reduction(
    cnn: Cnn,
    enough: Callable[[int], bool] | None = None,
    seed: int = 0,
    population: int = POPULATION,
) -> Reduction:
    """All of it; Algorithm 9 (with the library DEAP) until so many looks are `enough`. Raises as
    `derived`."""
    names = [x.name for x in cnn.layers]
    looks: list[Reduced] = []

    def look(chosen: tuple[bool, ...]) -> Reduced:
        edges, steps = derived(cnn, [name for name, bit in zip(names, chosen, strict=True) if bit])
        looks.append(Reduced(chosen, _shared(edges), (float(steps),)))
        return looks[-1]

    edges, steps = derived(cnn, names)
    without_search = Reduction(
        sum(e.size for e in edges), look((False,) * len(names)).memory, _shared(edges), steps
    )
    if enough is None:
        return without_search
    least = algorithm9(
        len(names),
        look,
        0,
        (float("inf"),),
        random.Random(seed),
        population=population,
        enough=lambda: enough(len(looks)),
    )
    return replace(without_search, least=least, chosen=sum(least.chosen), looks=len(looks))


def _shared(edges: Collection[BufferedEdge]) -> int:
    return sum(b.size for b in algorithm8(list(edges), ()))
