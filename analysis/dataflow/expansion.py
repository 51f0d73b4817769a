"""Which firings wait for which: a graph of tasks as one of firings, in columns.

In: a graph, and how many cycles of each task are told apart. Out: one node per phase and
repetition, one arc per pair of firings where one has to wait for the other (Bodin, Munier-Kordon,
Dupont de Dinechin, "Optimal and fast throughput evaluation of CSDF", 2016, theorem 1). What is
computed on it is left to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd, lcm
from time import monotonic

import numpy as np

from .cycle_ratio import WORD, Arcs, Indices, Numbers, by_source, numbers
from .graph import Edge, Graph
from .unfinished import OutOfTime, TooLarge

#: A larger expansion is not built: nodes, and arcs.
MOST_NODES = 1_000_000
MOST_ARCS = 4_000_000

ONLY: Indices = np.zeros(1, dtype=np.intp)

#: Firings of the source, of the destination, and the laps between them.
Pairs = tuple[Indices, Indices, Numbers]


@dataclass(frozen=True, slots=True)
class Expansion:
    """`owner` is the task of every node; heights of arcs are in 1/`scale` iterations."""

    arcs: Arcs
    owner: Indices
    scale: int


class Expander:
    """Expansions of some tasks and edges among them; what stays the same from one to the next is
    kept."""

    def __init__(
        self,
        graph: Graph,
        tasks: Sequence[int],
        edges: Sequence[int],
        deadline: float | None = None,
    ) -> None:
        self._graph, self._tasks, self._edges, self._deadline = graph, tasks, edges, deadline
        serial = {graph.edges[i].source for i in edges if graph.edges[i].kind == "serial"}
        self._in_order = {
            i: {graph.edges[i].source, graph.edges[i].destination} <= serial for i in edges
        }
        self._pairs: dict[int, tuple[tuple[int, int], Pairs]] = {}

    def expand(self, repeats: Mapping[int, int]) -> Expansion:
        """So many cycles of a task follow each other, and then the same again; each divides those
        of an iteration.

        Raises OutOfTime or TooLarge.
        """
        graph, edges = self._graph, [self._graph.edges[i] for i in self._edges]
        sizes = [repeats[t] * graph.phases[t] for t in self._tasks]
        if sum(sizes) > MOST_NODES:
            raise TooLarge
        pairs = list(self._useful(repeats))
        counts = [len(p) for p, _, _ in pairs]
        first = dict(zip(self._tasks, accumulate(sizes, initial=0), strict=False))
        rounds = {t: graph.cycles[t] // repeats[t] for t in self._tasks}
        scale = lcm(*rounds.values())
        units = numbers([-(scale // lcm(rounds[e.source], rounds[e.destination])) for e in edges])
        source, destination, laps = (np.concatenate(c) for c in zip(*pairs, strict=True))
        source = source + np.repeat([first[e.source] for e in edges], counts)
        destination = destination + np.repeat([first[e.destination] for e in edges], counts)
        spent = np.concatenate([np.tile(numbers(graph.times[t]), repeats[t]) for t in self._tasks])
        if int(abs(units).max()) * int(abs(laps).max()) >= WORD:
            laps = laps.astype(object)
        height = laps * np.repeat(units, counts)
        arcs = by_source(
            sum(sizes), source, destination, spent[source], height, np.repeat(self._edges, counts)
        )
        return Expansion(arcs, np.repeat(self._tasks, sizes), scale)

    def _useful(self, repeats: Mapping[int, int]) -> Iterator[Pairs]:
        left = MOST_ARCS
        for i in self._edges:
            edge = self._graph.edges[i]
            key = repeats[edge.source], repeats[edge.destination]
            kept = self._pairs.get(i)
            if kept is None or kept[0] != key:
                if self._deadline is not None and monotonic() > self._deadline:
                    raise OutOfTime
                kept = self._pairs[i] = (key, useful_pairs(edge, *key, self._in_order[i], left))
            left -= len(kept[1][0])
            yield kept[1]


def useful_pairs(edge: Edge, k_source: int, k_destination: int, in_order: bool, most: int) -> Pairs:
    """The useful precedences of an edge: firings of the source, firings of the destination, laps.

    Firing p of the source produces tokens (I, I + P], firing q of the destination consumes (O - C,
    O], both repeated every so often; they meet when a multiple of the common divisor of both totals
    lies in the window below, and the largest one, in `laps` of that divisor, gives the tightest
    constraint. Where both tasks fire one at a time, pairs that follow from others are left out.
    Raises TooLarge where there are more than `most`.
    """
    if max(len(edge.produced) * k_source, len(edge.consumed) * k_destination) > MOST_NODES:
        raise TooLarge
    if edge.kind == "serial":  # each before the next, the last before the first of the next lap
        p = np.arange(len(edge.produced) * k_source)
        return p, np.roll(p, -1), np.where(p == len(p) - 1, -1, 0)
    if len(edge.produced) * k_source == len(edge.consumed) * k_destination == 1:
        laps = (edge.consumed[0] - edge.tokens - 1) // gcd(edge.produced[0], edge.consumed[0])
        return ONLY, ONLY, numbers([laps])
    totals = sum(edge.produced) * k_source, sum(edge.consumed) * k_destination
    common = gcd(*totals)
    kind = np.int64 if edge.tokens + sum(totals) < WORD else object
    produced, consumed = (
        np.array(rates, dtype=kind) if k == 1 else np.tile(np.array(rates, dtype=kind), k)
        for rates, k in ((edge.produced, k_source), (edge.consumed, k_destination))
    )
    makers, takers = produced.nonzero()[0], consumed.nonzero()[0]
    amount, before = produced[makers], (produced.cumsum() - produced)[makers] + edge.tokens
    wanted, last = consumed[takers], consumed.cumsum()[takers] - 1
    # For each maker, the takers whose last token lies in its window, modulo g.
    by_rest = (last % common).argsort(kind="stable")
    rests = (last % common)[by_rest]
    window = np.minimum(
        np.minimum(amount, wanted.max()) if in_order else amount + wanted.max() - 1, common
    )
    begin = before % common
    end = begin + window
    low, high = rests.searchsorted(begin), rests.searchsorted(np.minimum(end, common))
    matches = high - low + rests.searchsorted(np.maximum(end - common, 0))
    if int(matches.sum()) > most:
        raise TooLarge
    maker = np.arange(len(makers)).repeat(matches)
    place = np.arange(len(maker)) + (low - matches.cumsum() + matches)[maker]
    taker = by_rest[place % len(rests)]
    need = last[taker] - before[maker]
    rest = need % common
    bound = (
        np.minimum(amount[maker], wanted[taker]) if in_order else amount[maker] + wanted[taker] - 1
    )
    kept = rest < bound
    return makers[maker[kept]], takers[taker[kept]], (need // common)[kept]
