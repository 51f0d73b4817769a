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
from .design import Leaf, PreesmDesign, PreesmGraph, Way
from .files import PreesmCollector, PreesmProject
from .graph import PiActor, PiGraph, read_graph
from .level import Level, level_of
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
        tokens = {
            n: t for n, i in top.interfaces.items() if (t := self.outer(top, n, i.span)) is not None
        }
        graph = (
            None if scope is None else self.graph(top, (), (), scope, (), tokens, 1, (top.file,))
        )
        if graph is None or self.say.faults:
            return None
        scale = self.scale(top)
        return PreesmDesign(
            graph, tuple(self.values.defined), tuple(self.leaves), self.period(top, scale)
        )

    def outer(self, top: PiGraph, interface: str, span: Span) -> PreesmToken | None:
        """The type of an open end, which is that of its fifo."""
        found = (f for f in top.fifos if interface in (f.source[0], f.target[0]))
        return next((self.token(f.type, f.span) for f in found), None)

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
        way: Way,
        path: Way,
        scope: Mapping[str, Value],
        formals: tuple[tuple[str, str, str], ...],
        outer: Mapping[str, PreesmToken],
        firings: int,
        open_files: tuple[Path, ...],
    ) -> PreesmGraph | None:
        """One graph with its content, and its firings; None after a fault."""
        self.levels += 1
        if self.levels + len(self.leaves) > _MOST:
            if self.levels + len(self.leaves) == _MOST + 1:
                self.say.refuse(f"this graph has more than {_MOST} actors with all inside", pi.span)
            return None
        inside = {n: self.inner(pi, a, open_files) for n, a in pi.actors.items() if a.hierarchical}
        level = level_of(pi, scope, self.values, self.token, outer, self.say)
        if level is None or any(i is None for i in inside.values()):
            return None
        self.connect(level, way)
        self.virtual += (((*way, node), firings * times) for node, times in level.virtual)
        declarations: dict[str, PreesmGraph] = {}
        for name, sub in inside.items():
            assert sub is not None
            made = self.sub_graph(sub, level, name, way, path, firings, open_files)
            if made is not None:
                declarations[name] = made
        for part in level.tasks:
            numbers = {n: v.number for n, v in part.values.items()}
            total = firings * part.firings
            task = part.declaration(total)
            place = (*way, part.node)
            self.leaves.append(Leaf(place, (*path, part.name), task, total, numbers, part.actor))
            self.root(place)
        if len(declarations) < len(inside):
            return None
        return level.graph(formals, declarations, firings)

    def inner(self, pi: PiGraph, actor: PiActor, open_files: tuple[Path, ...]) -> PiGraph | None:
        file = self.project.find(actor.refinement)
        if file is None:
            beside = pi.file.parent / Path(actor.refinement).name
            file = beside if self.project.holds(beside) else None
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

    def sub_graph(
        self,
        sub: PiGraph,
        level: Level,
        name: str,
        way: Way,
        path: Way,
        firings: int,
        open_files: tuple[Path, ...],
    ) -> PreesmGraph | None:
        """The graph inside of an actor, if its interfaces are the ports of the actor."""
        actor, said = level.pi.actors[name], level.values[name]
        ports = {p.name: p for p in actor.ports}
        fits = True
        for own, other in (
            (ports.keys(), sub.interfaces.keys()),
            (sub.interfaces.keys(), ports.keys()),
        ):
            for missing in sorted(own - other):
                where = sub.span if own is ports.keys() else actor.span
                self.say.fault(
                    f"{shown(name)} and {shown(sub.file.name)} do not both have a port"
                    f" {shown(missing)}",
                    where,
                )
                fits = False
        inputs = {n: p for n, p in sub.parameters.items() if p.interface and n in said}
        names = identifiers(inputs, "parameter", reserved_words())
        outside = {n: Value(said[n].number, made) for n, made in zip(inputs, names, strict=True)}
        scope = self.values.scope(sub, outside)
        if scope is None or not fits:
            return None
        for interface in sub.interfaces:
            fits &= self.same_rate(sub, interface, scope, level, actor)
        if not fits:
            return None
        kinds = ("int" if said[n].number.denominator == 1 else "float" for n in inputs)
        formals = tuple(zip(inputs, names, kinds, strict=True))
        outer = {p: level.tokens[name, p] for p in ports}
        place, text_place = (*way, name), (*path, level.names[name])
        total = firings * level.firings[name]
        return self.graph(
            sub, place, text_place, scope, formals, outer, total, (*open_files, sub.file)
        )

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
        scales = [
            math.gcd(*(leaf.firings for leaf in part), *blocks[root])
            for root, part in parts.items()
        ]
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
        said += [
            (leaf.actor.period, leaf.actor.span, leaf.firings, shown(leaf.actor.name))
            for leaf in self.leaves
            if leaf.actor is not None
        ]
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
