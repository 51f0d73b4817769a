"""A graph with its sub-graphs and values becomes a design: declarations, instances and arrows.

In: the top `PiGraph`, those inside on demand, and values that a scenario gives. Out: a
`PreesmDesign`, or faults. A broadcast that only forwards is several arrows, other special actors
are tasks that copy. `level` computes the content of one level; this module traverses the hierarchy,
and checks the whole app at the end.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from ...model.span import Span
from ..names import identifiers, reserved_words, shown
from .design import Formal, Leaf, PreesmDesign, PreesmGraph, Way
from .files import PreesmCollector, PreesmProject
from .graph import PiActor, PiGraph, read_graph
from .level import Level, LevelPart, level_of
from .scenario import GivenValue
from .types import PreesmToken, token_of
from .values import Value, Values

_DEEPEST, _MOST = 24, 20_000


def design_of(
    top: PiGraph,
    project: PreesmProject,
    sizes: Mapping[str, int],
    given: Mapping[tuple[str, str], GivenValue],
    say: PreesmCollector,
) -> PreesmDesign | None:
    """None after a fault."""
    elaboration = _Elaboration(project, sizes, Values(given, say), say)
    design = elaboration.design(top)
    for graph, name in given.keys() - elaboration.values.used:
        message = (
            f"there is no parameter {shown(name)} of graph {shown(graph)}: its value is left out"
        )
        say.warn(message, given[graph, name].span)
    return design


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a graph: names of the actors around it in PREESM and in the text, its firings in
    one iteration of PREESM, and the open files."""

    way: Way
    path: Way
    firings: int
    files: tuple[Path, ...]


@dataclass(slots=True)
class _Elaboration:
    project: PreesmProject
    sizes: Mapping[str, int]
    values: Values
    say: PreesmCollector
    graphs: dict[Path, PiGraph | None] = field(default_factory=dict)
    leaves: list[Leaf] = field(default_factory=list)
    #: Connected ends: a union-find forest of tasks and of ports of sub-graphs.
    roots: dict[Way, Way] = field(default_factory=dict)
    #: Firings of operators on arrows that move blocks.
    virtual: list[tuple[Way, int]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    levels: int = 0

    def design(self, top: PiGraph) -> PreesmDesign | None:
        self.graphs[top.file] = top
        names = identifiers(top.parameters, "constant", reserved_words())
        scope = self.values.scope(top, {}, dict(zip(top.parameters, names, strict=True)))
        tokens = {}
        for interface in top.interfaces:
            token = self.outer(top, interface)
            if token is not None:
                tokens[interface] = token
        graph = None
        if scope is not None:
            graph = self.graph(top, _Place((), (), 1, (top.file,)), scope, (), tokens)
        if graph is None or self.say.faults:
            return None
        scale = self.scale(top)
        return PreesmDesign(
            graph, tuple(self.values.defined), tuple(self.leaves), self.period(top, scale)
        )

    def outer(self, top: PiGraph, interface: str) -> PreesmToken | None:
        """The type of an open end, which is that of its fifo."""
        for fifo in top.fifos:
            if interface in (fifo.source[0], fifo.target[0]):
                return self.token(fifo.type, fifo.span)
        return None

    def token(self, said: str, span: Span) -> PreesmToken | None:
        """The token of a fifo; None after a fault, reported once per type."""
        token = token_of(said, self.sizes)
        if token is None and said not in self.unknown:
            self.unknown.add(said)
            help_text = (
                "give its size in the scenario, as a `dataType`: tokens are then so many bytes"
            )
            self.say.refuse(f"the type {shown(said)} of this fifo is not known", span, help_text)
        return token

    # -- levels ------------------------------------------------------------------------------------
    def graph(
        self,
        pi: PiGraph,
        place: _Place,
        scope: Mapping[str, Value],
        formals: tuple[Formal, ...],
        outer: Mapping[str, PreesmToken],
    ) -> PreesmGraph | None:
        """One graph with its content, and its firings; None after a fault."""
        self.levels += 1
        if self.levels + len(self.leaves) > _MOST:
            if self.levels + len(self.leaves) == _MOST + 1:
                self.say.refuse(f"this graph has more than {_MOST} actors with all inside", pi.span)
            return None
        inside = self.inside(pi, place)
        level = level_of(pi, scope, self.values, self.token, outer, self.say)
        if level is None or inside is None:
            return None
        self.connect(level, place.way)
        for node, times in level.virtual:
            self.virtual.append(((*place.way, node), place.firings * times))
        declarations: dict[str, PreesmGraph] = {}
        for name, sub in inside.items():
            made = self.sub_graph(sub, level, name, place)
            if made is not None:
                declarations[name] = made
        for part in level.tasks:
            self.leaf(part, pi, place)
        if len(declarations) < len(inside):
            return None
        return level.graph(formals, declarations, place.firings)

    def leaf(self, part: LevelPart, pi: PiGraph, place: _Place) -> None:
        numbers = {n: v.number for n, v in part.values.items()}
        total = place.firings * part.firings
        way, path = (*place.way, part.node), (*place.path, part.name)
        span = pi.span
        if part.actor is not None:
            span = part.actor.span
        task = part.declaration(total)
        self.leaves.append(Leaf(way, path, task, total, numbers, part.actor, span))
        self.root(way)

    def inside(self, pi: PiGraph, place: _Place) -> dict[str, PiGraph] | None:
        """The graphs inside of actors; None after a fault."""
        hierarchical = [actor for actor in pi.actors.values() if actor.hierarchical]
        found = {}
        for actor in hierarchical:
            graph = self.inner(pi, actor, place.files)
            if graph is not None:
                found[actor.name] = graph
        if len(found) < len(hierarchical):
            return None
        return found

    def inner(self, pi: PiGraph, actor: PiActor, open_files: tuple[Path, ...]) -> PiGraph | None:
        file = self.project.find(actor.refinement)
        if file is None:
            beside = pi.file.parent / Path(actor.refinement).name
            if self.project.holds(beside):
                file = beside
        if file is None:
            message = (
                f"there is no {shown(actor.refinement)} in the project, which {shown(actor.name)}"
                " is made of"
            )
            self.say.fault(message, actor.span)
            return None
        if file in open_files or len(open_files) > _DEEPEST:
            self.say.fault(
                f"{shown(actor.name)} would contain itself: {shown(file.name)} is open already",
                actor.span,
            )
            return None
        if file not in self.graphs:
            self.graphs[file] = read_graph(file, self.say)
        return self.graphs[file]

    def sub_graph(self, sub: PiGraph, level: Level, name: str, place: _Place) -> PreesmGraph | None:
        """The graph inside of an actor, if its interfaces are the ports of the actor."""
        actor, values = level.pi.actors[name], level.values[name]
        fits = self.same_ports(sub, actor)
        inputs = [n for n, p in sub.parameters.items() if p.interface and n in values]
        names = identifiers(inputs, "parameter", reserved_words())
        outside = {n: Value(values[n].number, made) for n, made in zip(inputs, names, strict=True)}
        scope = self.values.scope(sub, outside)
        if scope is None or not fits:
            return None
        for interface in sub.interfaces:
            fits &= self.same_rate(sub, interface, scope, level, actor)
        if not fits:
            return None
        formals = []
        for n, made in zip(inputs, names, strict=True):
            kind = "int" if values[n].number.denominator == 1 else "float"
            formals.append((n, made, kind))
        outer = {p.name: level.tokens[name, p.name] for p in actor.ports}
        inner = _Place(
            (*place.way, name),
            (*place.path, level.names[name]),
            place.firings * level.firings[name],
            (*place.files, sub.file),
        )
        return self.graph(sub, inner, scope, tuple(formals), outer)

    def same_ports(self, sub: PiGraph, actor: PiActor) -> bool:
        """Are the interfaces of a graph the ports of its actor? If not, these are faults."""
        ports = {p.name for p in actor.ports}
        interfaces = set(sub.interfaces)
        for missing in (*sorted(ports - interfaces), *sorted(interfaces - ports)):
            self.say.fault(
                f"{shown(actor.name)} and {shown(sub.file.name)} do not both have a port"
                f" {shown(missing)}",
                actor.span,
            )
        return ports == interfaces

    def same_rate(
        self, sub: PiGraph, name: str, scope: Mapping[str, Value], level: Level, actor: PiActor
    ) -> bool:
        interface = sub.interfaces[name]
        if actor.port(name).direction != interface.direction:
            self.say.fault(
                f"{shown(name)} is an input on one side and an output on the other", interface.span
            )
            return False
        rate = self.values.whole(
            interface.rate, scope, f"the rate of interface {shown(name)}", interface.span
        )
        outside = level.rates[actor.name, name]
        if rate is not None and rate[0] != outside:
            message = (
                f"interface {shown(name)} has a rate of {rate[0]}, and {shown(actor.name)} around"
                f" it one of {outside}"
            )
            self.say.fault(message, interface.span)
        return rate is not None and rate[0] == outside

    # -- the whole app -----------------------------------------------------------------------------
    def root(self, end: Way) -> Way:
        while (parent := self.roots.setdefault(end, end)) != end:
            self.roots[end] = self.roots[parent]
            end = parent
        return end

    def connect(self, level: Level, way: Way) -> None:
        """Ends of the fifos of a level; a port of a sub-graph is one end for the levels on both
        sides."""
        for one, other in level.connected:
            self.roots[self.root((*way, *one))] = self.root((*way, *other))

    def scale(self, top: PiGraph) -> int:
        """PREESM's iteration in iterations of the text: flowc fires each connected part with the
        least numbers."""
        parts: dict[Way, list[Leaf]] = defaultdict(list)
        for leaf in self.leaves:
            parts[self.root(leaf.way)].append(leaf)
        blocks: dict[Way, list[int]] = defaultdict(list)
        for place, firings in self.virtual:
            blocks[self.root(place)].append(firings)
        scales = []
        for root, part in parts.items():
            scales.append(math.gcd(*(leaf.firings for leaf in part), *blocks[root]))
        if len(set(scales)) > 1:
            first = [part[0].way[-1] for part in parts.values()]
            message = f"{len(parts)} parts of this graph share no data"
            pairs = list(zip(first, scales, strict=True))
            times = ", ".join(f"{shown(name)} {scale}" for name, scale in pairs[:4])
            help_text = (
                f"PREESM fires {times} times as often as flowc in an iteration:"
                " here each part has its own pace"
            )
            self.say.warn(message, top.span, help_text)
        return min(scales, default=1)

    def period(self, top: PiGraph, scale: int) -> Fraction | None:
        """The period of an iteration of the text, from the periods of graph and actors."""
        found: dict[Fraction, tuple[str, Span]] = {}
        said = [(top.period, top.span, 1, "the graph")]
        for leaf in self.leaves:
            if leaf.actor is not None:
                said.append(
                    (leaf.actor.period, leaf.actor.span, leaf.firings, shown(leaf.actor.name))
                )
        for text, span, firings, who in said:
            if not text.strip("0 "):
                continue
            if re.fullmatch("[0-9]{1,15}", text.strip()) is None:
                self.say.fault(
                    f"the period of {who} is {shown(text)}, which is not a whole number", span
                )
                continue
            found.setdefault(Fraction(int(text) * firings, scale), (who, span))
        if len(found) > 1:
            (_, (one, _)), (_, (other, span)) = list(found.items())[:2]
            help_text = "give one of them; the others follow from rates"
            self.say.refuse(
                f"the periods of {one} and {other} mean different times for an iteration",
                span,
                help_text,
            )
            return None
        for _, span in found.values():
            self.say.warn("PREESM gives periods without a unit: they are read as ns", span)
        return next(iter(found), None)
