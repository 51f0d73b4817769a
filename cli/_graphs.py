"""A network as a dataflow graph, as text: actors with their phases, channels with their rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ._common import number
from ._tables import folded

if TYPE_CHECKING:
    from ..driver.show.mapped_network import MappedActor, MappedGraph

_RULES = {
    "layers": "a task per layer",
    "levels": "a task per processor, phases by levels",
    "minakova": "the same by Algorithm 2 of Minakova's thesis",
}


def graph_tables(graphs: Iterable[MappedGraph]) -> str:
    """All graphs, one below the other."""
    return "\n\n".join("\n".join(_lines(graph)) for graph in graphs)


def _lines(graph: MappedGraph) -> Iterator[str]:
    from ..runtime.report import columns

    counts = f"{number(len(graph.actors), 'actor')}, {number(len(graph.channels), 'channel')}"
    yield f"{_RULES[graph.rule]}: {counts}; {_speed(graph)}"
    for actor in graph.actors:
        yield folded(f"  {actor.name}: {_phases(actor)}", 4)
    rows = [["channel", "produced", "consumed"]]
    for c in graph.channels:
        rows.append([f"{c.source} -> {c.target}", _rates(c.produced), _rates(c.consumed)])
    if graph.channels:
        yield columns(rows)


def _speed(graph: MappedGraph) -> str:
    if not graph.deadlock_free:
        return "it deadlocks"
    if graph.period_ns is None:
        return "no least period was found"
    if graph.timed and graph.period_ns:
        period = float(graph.period_ns)
        return f"least period {period / 1e6:.6g} ms, {1e9 / period:.6g} frames/s"
    unit = "firing" if graph.rule == "layers" else "layer"
    if graph.period_ns.denominator == 1:
        return f"least period {number(int(graph.period_ns), unit)}"
    return f"least period {graph.period_ns} {unit}s"


def _phases(actor: MappedActor) -> str:
    return " | ".join(" ".join(part) for part in actor.phases)


def _rates(rates: Sequence[int]) -> str:
    """`187200, 0`, and `0 for 9, 75` where many are equal."""
    words = []
    for rate, run in groupby(rates):
        count = len([*run])
        words += [f"{rate} for {count}"] if count > 2 else [str(rate)] * count
    return ", ".join(words)
