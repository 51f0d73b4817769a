"""Sharing between alternative networks, and switching between them, after Minakova's thesis
(chapter 5): SBRS.

In: alternatives as layers and edges. Out: what Algorithm 5 would make one layer or one buffer of,
the delays that Algorithm 6 finds for a switch, and the switch itself step by step (Algorithm 7),
each as printed and in a way that is safe. flowc runs none of it: as printed, layers overwrite what
others still read. It is here for comparison, and `flowc analyze` shows it beside what flowc does.

Steps are counted from 1, as in the thesis; a step of a scenario executes its next layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")
#: From a layer to one that reads it.
Edge = tuple[str, str]
#: What the thesis lets differ between layers that are one: where they read and write, and their
#: weights.
ADAPTIVE = frozenset({"inputs", "outputs", "parameters"})


@dataclass(frozen=True, slots=True)
class ComparedLayer:
    """`attributes` are what Algorithm 5 compares, as pairs of a name and a value."""

    name: str
    attributes: tuple[tuple[str, object], ...]

    def without(self, adaptive: frozenset[str]) -> tuple[tuple[str, object], ...]:
        """The attributes that have to be equal."""
        return tuple(sorted((k, v) for k, v in self.attributes if k not in adaptive))


@dataclass(frozen=True, slots=True)
class Alternative:
    """A network: its layers in the order in which they are executed."""

    name: str
    layers: tuple[ComparedLayer, ...]
    edges: tuple[Edge, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Names of its layers."""
        return tuple(x.name for x in self.layers)


# -- Algorithm 5: what is shared -------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Supergraph:
    """Numbers for layers and for buffers; `layer_of` and `buffer_of` say, for each alternative,
    which is whose."""

    layers: int
    buffers: int
    layer_of: tuple[Mapping[str, int], ...]
    buffer_of: tuple[Mapping[Edge, int], ...]

    def shared_layers(self) -> int:
        """How many belong to more than one alternative."""
        return _in_several([set(own.values()) for own in self.layer_of])

    def shared_buffers(self) -> int:
        """The same of buffers."""
        return _in_several([set(own.values()) for own in self.buffer_of])


def _in_several(sets: Sequence[set[int]]) -> int:
    holders: Counter[int] = Counter()
    for numbers in sets:
        holders.update(numbers)
    return sum(count > 1 for count in holders.values())


def as_printed(
    alternatives: Sequence[Alternative], adaptive: frozenset[str] = ADAPTIVE
) -> Supergraph:
    """Algorithm 5: each layer is the first one of the supergraph that is like it, or a new one.

    Layers of one alternative may become one as well. No two layers are executed in parallel here,
    so that its line 4 excludes nothing.
    """
    keys: list[object] = []
    pairs: list[tuple[int, int]] = []
    layer_of: list[dict[str, int]] = []
    buffer_of: list[dict[Edge, int]] = []
    for alternative in alternatives:
        own = {x.name: _number(keys, x.without(adaptive)) for x in alternative.layers}
        layer_of.append(own)
        buffer_of.append({(a, b): _number(pairs, (own[a], own[b])) for a, b in alternative.edges})
    return Supergraph(len(keys), len(pairs), tuple(layer_of), tuple(buffer_of))


def _number(known: list[T], key: T) -> int:
    if key not in known:
        known.append(key)
    return known.index(key)


def overwritten(
    alternative: Alternative, buffer_of: Mapping[Edge, int]
) -> tuple[tuple[Edge, Edge], ...]:
    """Pairs of edges of one alternative that are in one buffer while both hold something that is
    still to be read."""
    position = {name: k for k, name in enumerate(alternative.order)}
    pairs = []
    for k, first in enumerate(alternative.edges):
        for second in alternative.edges[k + 1 :]:
            if buffer_of[first] != buffer_of[second] or first[0] == second[0]:
                # one tensor with two readers
                continue
            (a, b), (c, d) = first, second
            if position[a] <= position[d] and position[c] <= position[b]:
                pairs.append((first, second))
    return tuple(pairs)


def safe(alternatives: Sequence[Alternative], adaptive: frozenset[str] = ADAPTIVE) -> Supergraph:
    """The same, but layers of one alternative stay apart, and an edge is in a buffer that holds
    nothing else then.

    So each alternative computes what it would compute alone.
    """
    keys: list[object] = []
    layer_of: list[dict[str, int]] = []
    buffers: list[tuple[int, int]] = []
    buffer_of: list[dict[Edge, int]] = []
    for alternative in alternatives:
        own: dict[str, int] = {}
        for x in alternative.layers:
            key, taken = x.without(adaptive), set(own.values())
            number = next((n for n, k in enumerate(keys) if k == key and n not in taken), len(keys))
            if number == len(keys):
                keys.append(key)
            own[x.name] = number
        layer_of.append(own)
        buffer_of.append({(a, b): _number(buffers, (own[a], own[b])) for a, b in alternative.edges})
    return Supergraph(len(keys), len(buffers), tuple(layer_of), tuple(buffer_of))


# -- Algorithm 6: how long the next alternative waits ----------------------------------------------
def delays(old: Sequence[str], new: Sequence[str]) -> tuple[int, ...]:
    """Algorithm 6: X, the steps that each layer of the new alternative waits, since the old one
    still needs it."""
    last = {layer: j for j, layer in enumerate(old, 1)}
    steps, step = [], 0
    for layer in new:
        step = max(step, last.get(layer, 0))
        steps.append(step)
        step += 1
    return tuple(steps)


def safe_delays(
    old: Sequence[str], new: Sequence[str], old_edges: Sequence[Edge], new_edges: Sequence[Edge]
) -> tuple[int, ...]:
    """The same where a layer also waits for the last old reader of every shared edge that it
    writes."""
    last = {layer: j for j, layer in enumerate(old, 1)}
    shared = set(old_edges)
    steps, step = [], 0
    for layer in new:
        step = max(step, last.get(layer, 0))
        for edge in new_edges:
            if edge[0] == layer and edge in shared:
                step = max(step, last[edge[1]])
        steps.append(step)
        step += 1
    return tuple(steps)


# -- Algorithm 7: the switch -----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ControlStep:
    """A control step: the numbers of the layers that are executed side by side, of the old and the
    new alternative."""

    old: int | None
    new: int | None


def switch(old: int, new: int, waits: Sequence[int], asked: int) -> tuple[ControlStep, ...]:
    """Algorithm 7: the control steps from the one in which a switch is asked for, the `asked`-th of
    `old` layers, on.

    Its line 6 counts modulo the number of layers, which from 1 on leads to a layer 0 that there is
    not; here the new alternative goes on to its end, as the text says it.
    """
    steps = [ControlStep(asked, None)]
    i, j = 1, asked + 1
    while j <= old or i <= new:
        q = len(steps) + 1
        starts = i <= new and (j > old or q >= waits[i - 1] - asked + 2)
        steps.append(ControlStep(j if j <= old else None, i if starts else None))
        i, j = i + starts, j + 1
    return tuple(steps)


def ends(
    steps: Sequence[ControlStep],
    old: Sequence[Fraction],
    new: Sequence[Fraction],
    together: Callable[[Sequence[Fraction]], Fraction] = max,
) -> tuple[Fraction, Fraction]:
    """When the old frame and the first new one end, from the beginning of the first step.

    Layers of a step wait for each other. `together` is the time of those: `max` of two that have a
    processor each, `sum` of two that share one.
    """
    now, end_old, end_new = Fraction(0), Fraction(0), Fraction(0)
    for step in steps:
        times = []
        if step.old is not None:
            times.append(old[step.old - 1])
        if step.new is not None:
            times.append(new[step.new - 1])
        now += together(times)
        if step.old is not None:
            end_old = now
        if step.new is not None:
            end_new = now
    return end_old, end_new


def line_6_fails(old: int, new: int, waits: Sequence[int], asked: int) -> bool:
    """Does line 6 of Algorithm 7, as printed, reach layer 0: is the last new layer but one beside
    one of the old?"""
    last = max(1, new - 1)
    return any(step.new == last and step.old is not None for step in switch(old, new, waits, asked))


def races(
    old: Sequence[str],
    new: Sequence[str],
    old_edges: Sequence[Edge],
    new_edges: Sequence[Edge],
    waits: Sequence[int],
    asked: int,
) -> int:
    """How often a layer reads what belongs to the other frame, or shares its buffer or itself with
    one of it.

    A layer reads and writes all through its step.
    """
    content = {e: "old" for e in old_edges if e[0] in old[:asked]}
    count = 0
    for step in switch(len(old), len(new), waits, asked)[1:]:
        old_layer = None if step.old is None else old[step.old - 1]
        new_layer = None if step.new is None else new[step.new - 1]
        old_reads = {e for e in old_edges if e[1] == old_layer}
        new_reads = [e for e in new_edges if e[1] == new_layer]
        new_writes = [e for e in new_edges if e[0] == new_layer]
        count += sum(content.get(e) != "old" for e in old_reads)
        count += sum(content.get(e) != "new" for e in new_reads)
        count += sum(e in old_reads for e in new_writes)
        count += old_layer is not None and old_layer == new_layer
        content |= {e: "old" for e in old_edges if e[0] == old_layer}
        content |= dict.fromkeys(new_writes, "new")
    return count
