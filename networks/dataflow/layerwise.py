"""A CNN as a dataflow graph: one actor per layer, or one actor per processor whose phases are parts
of the network.

In: a Cnn, and the processor of every layer. Out: abstract applications (no code, no types, no
times); a token is one element of a tensor. Whether they are consistent and free of deadlock is for
the analysis to say; layers that work by parts are in `by_parts.py`; finding a mapping is left to
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...model.application import Application, Channel, Port, Task
from ...model.span import Span
from ..onnx.layers import Cnn, LayerEdge


@dataclass(frozen=True, slots=True)
class ActorChannel:
    """A channel between actors (short names): tokens per phase of either side; `frees` as in
    `Channel`."""

    source: str
    destination: str
    produced: tuple[int, ...]
    consumed: tuple[int, ...]
    frees: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Phased:
    """`phases` tells the layers of every phase of every actor (full names), in the order in which
    they run."""

    app: Application
    phases: Mapping[str, tuple[tuple[str, ...], ...]]


def application(
    name: str, file: str, actors: Mapping[str, str], arrows: Iterable[ActorChannel]
) -> Application:
    """An abstract application: `actors` are short names and definitions; every arrow has ports of
    its own."""
    span = Span(file, 1, 1, 1, 1)
    inputs: dict[str, list[Port]] = {a: [] for a in actors}
    outputs: dict[str, list[Port]] = {a: [] for a in actors}
    channels = []
    for arrow in arrows:
        source, destination = f"{name}.{arrow.source}", f"{name}.{arrow.destination}"
        made, taken = arrow.produced, arrow.consumed
        out = Port(f"out{len(outputs[arrow.source])}", "out", None, made, made != (1,), span)
        into = Port(f"in{len(inputs[arrow.destination])}", "in", None, taken, taken != (1,), span)
        outputs[arrow.source].append(out)
        inputs[arrow.destination].append(into)
        title = f"{source}.{out.name}->{destination}.{into.name}"
        frees = () if arrow.frees == taken else arrow.frees
        channels.append(
            Channel(title, source, out.name, destination, into.name, 0, (), span, frees)
        )
    tasks = tuple(
        Task(
            f"{name}.{a}",
            d,
            tuple(inputs[a]),
            tuple(outputs[a]),
            (),
            (),
            (),
            False,
            (),
            None,
            "",
            span,
        )
        for a, d in actors.items()
    )
    return Application(name, tasks, tuple(channels), None, None, 0, "", span)


def as_sdf(cnn: Cnn, name: str) -> Application:
    """One actor per layer, one channel per edge that carries |e.data| elements per firing.

    Minakova's thesis, ch. 3, Algorithm 1 (with |e.data|, where the conference version's |X_j| fails
    for concat).
    """
    arrows = []
    for layer in cnn.layers:
        for edge in layer.inputs:
            rate = (edge.elements,)
            arrows.append(ActorChannel(edge.source, layer.name, rate, rate))
    return application(name, cnn.file, {x.name: x.operator for x in cnn.layers}, arrows)


def phased(cnn: Cnn, mapping: Mapping[str, str], name: str) -> Phased:
    """One actor per processor, cut into phases topologically: the default.

    The level of a layer is the largest over its sources of their level, plus 1 where the source is
    on another processor; a layer without sources has level 0. The layers of one processor and one
    level are a phase; phases follow in order of level. An edge between different phases becomes a
    channel that carries |e.data| elements, also when both phases are of one actor.

    There is no deadlock. Levels never fall along an edge, and an edge between different phases
    joins different processors or different levels, so that its level rises. Firing all phases of
    the graph by level is therefore an iteration in which every phase finds its data, and it keeps
    the order of each actor's phases, because they are ordered by level. Within a phase the layers
    run in topological order: what they need of other phases is there.

    Raises KeyError for a layer without processor.
    """
    level: dict[str, int] = {}
    parts: dict[str, dict[int, list[str]]] = {}
    for layer in cnn.layers:
        home = mapping[layer.name]
        level[layer.name] = max(
            (level[e.source] + (mapping[e.source] != home) for e in layer.inputs), default=0
        )
        parts.setdefault(home, {}).setdefault(level[layer.name], []).append(layer.name)
    phases = {
        home: [part for _, part in sorted(by_level.items())] for home, by_level in parts.items()
    }
    return assemble(cnn, mapping, phases, name, None)


def assemble(
    cnn: Cnn,
    mapping: Mapping[str, str],
    phases: Mapping[str, list[list[str]]],
    name: str,
    outer: set[tuple[str, LayerEdge]] | None,
) -> Phased:
    """Make the actors; channels are the edges in `outer` (by destination), or all edges between
    different phases."""
    place: dict[str, tuple[str, int]] = {}
    for home, parts in phases.items():
        for number, part in enumerate(parts):
            place |= dict.fromkeys(part, (home, number))
    arrows = []
    for layer in cnn.layers:
        for edge in layer.inputs:
            start, end = place[edge.source], place[layer.name]
            if outer is None:
                is_channel = start != end
            else:
                is_channel = (layer.name, edge) in outer
            if is_channel:
                made = _in_one_phase(edge.elements, start[1], len(phases[start[0]]))
                taken = _in_one_phase(edge.elements, end[1], len(phases[end[0]]))
                arrows.append(ActorChannel(start[0], end[0], made, taken))
    app = application(name, cnn.file, {home: home for home in phases}, arrows)
    # Breadth-first order is no order to run in: within a phase, that of the network is.
    rank = {layer.name: k for k, layer in enumerate(cnn.layers)}
    order = {}
    for home, parts in phases.items():
        in_order = (tuple(sorted(part, key=rank.__getitem__)) for part in parts)
        order[f"{name}.{home}"] = tuple(in_order)
    return Phased(app, order)


def _in_one_phase(elements: int, phase: int, phases: int) -> tuple[int, ...]:
    """The rates of a port that only one phase uses."""
    rates = [0] * phases
    rates[phase] = elements
    return tuple(rates)
