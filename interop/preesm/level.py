"""One level of the hierarchy: the tasks of its nodes, their firings, and the arrows between them.

In: a `PiGraph` whose parameters have values, and the outer types of its interfaces. Out: a `Level`,
or faults. `elaborate` handles sub-graphs and passes their declarations to `Level.graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from ...model.span import Span
from ..names import capitalised, identifiers, reserved_words, shown
from . import borders, expressions
from .design import Formal, Kind, PreesmGraph, PreesmInstance, PreesmPort, PreesmTask
from .files import PreesmCollector
from .graph import SPECIAL, Direction, End, Function, PiActor, PiGraph, PiPort
from .rates import RatedEdge, Unbalanced, level_firings
from .types import PreesmToken, plain, token_of
from .values import Value, Values

#: Reserved names of C, and of the generated code around it.
_C_WORDS = """
I IN OUT NULL errno i386 linux unix asm auto bool break case char complex const continue default do
double else enum extern false float for goto if inline int long p register restrict return short
signed sizeof state static struct switch true typedef union unsigned void volatile while
"""
_FLOATS = ("float", "double", "long double")
Border = Literal["", "broadcast", "roundbuffer"]
_KINDS: Mapping[str, Kind] = {
    "broadcast": "broadcast",
    "fork": "fork",
    "join": "join",
    "roundbuffer": "roundbuffer",
}


@dataclass(frozen=True, slots=True)
class LevelPart:
    """A task of a level. `node` is PREESM's name, `name` the one in the text; `actor` is None at an
    interface."""

    node: str
    name: str
    task: PreesmTask
    firings: int
    values: Mapping[str, Value]
    actor: PiActor | None
    parallel: bool

    def declaration(self, total: int) -> PreesmTask:
        """The task, with its firings in one iteration of PREESM.

        PREESM may run the firings of one iteration in parallel, so actors with several keep no
        state.
        """
        return replace(
            self.task, stateless=self.task.kind != "actor" or (self.parallel and total > 1)
        )

    def arguments(self) -> tuple[tuple[str, str], ...]:
        """What the instance says."""
        return tuple((made, self.values[formal].text) for formal, made, _ in self.task.formals)


def boundary_names(interfaces: Iterable[str]) -> dict[str, str]:
    """The names of interfaces in the text, the same on both sides."""
    names = sorted(interfaces)
    return dict(zip(names, identifiers(names, "port", reserved_words()), strict=True))


def level_of(
    pi: PiGraph,
    scope: Mapping[str, Value],
    values: Values,
    token: Callable[[str, Span], PreesmToken | None],
    outer: Mapping[str, PreesmToken],
    say: PreesmCollector,
) -> Level | None:
    """None after a fault. `outer` are the tokens of interfaces as the graph around has them."""
    before = len(say.faults)
    level = Level(pi, scope, outer, values, say)
    level.read(token)
    if len(say.faults) > before:
        return None
    level.fire()
    if len(say.faults) > before:
        return None
    level.make()
    return level if len(say.faults) == before else None


@dataclass(slots=True)
class Level:
    """`tokens` and `rates` are by node and port, `firings` those of nodes in one firing of the
    graph."""

    pi: PiGraph
    scope: Mapping[str, Value]
    outer: Mapping[str, PreesmToken]
    evaluator: Values
    say: PreesmCollector
    values: dict[str, dict[str, Value]] = field(default_factory=dict)
    tokens: dict[End, PreesmToken] = field(default_factory=dict)
    rates: dict[End, int] = field(default_factory=dict)
    delays: dict[int, tuple[int, str]] = field(default_factory=dict)
    firings: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    boundary: dict[str, str] = field(default_factory=dict)
    tasks: list[LevelPart] = field(default_factory=list)
    #: The data of a fifo into a node, and the instance at an interface.
    into: dict[End, int] = field(default_factory=dict)
    at_border: dict[str, LevelPart] = field(default_factory=dict)
    hops: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    # -- numbers -----------------------------------------------------------------------------------
    def read(self, token: Callable[[str, Span], PreesmToken | None]) -> None:
        """Values, rates, tokens and delays."""
        given = {(d.target, d.port): d.source for d in self.pi.dependencies}
        for name, actor in self.pi.actors.items():
            self.values[name] = {
                c: self.scope[s]
                for c in actor.config
                if (s := given.get((name, c), "")) in self.scope
            }
            for port in actor.ports:
                what = f"the rate of {shown(f'{name}.{port.name}')}"
                rate = self.evaluator.whole(port.rate, self.values[name], what, port.span)
                self.rates[name, port.name] = rate[0] if rate is not None else 1
        for name, interface in self.pi.interfaces.items():
            what = f"the rate of interface {shown(name)}"
            rate = self.evaluator.whole(interface.rate, self.scope, what, interface.span)
            self.rates[name, ""] = rate[0] if rate is not None else 1
        for i, fifo in enumerate(self.pi.fifos):
            found = token(fifo.type, fifo.span)
            if found is not None:
                self.tokens[self.end(fifo.source)] = self.tokens[self.end(fifo.target)] = found
            self.into[self.end(fifo.target)] = i
            if fifo.delay is not None:
                what = f"the delay from {shown(fifo.source[0])} to {shown(fifo.target[0])}"
                tokens = self.evaluator.whole(
                    fifo.delay.expression, self.scope, what, fifo.delay.span, 0
                )
                self.delays[i] = tokens or (0, "0")

    def end(self, end: End) -> End:
        """The port of an interface has no name of its own here."""
        return (end[0], "") if end[0] in self.pi.interfaces else end

    def fire(self) -> None:
        """How often nodes fire."""
        inside = [
            f
            for f in self.pi.fifos
            if f.source[0] in self.pi.actors and f.target[0] in self.pi.actors
        ]
        edges = [
            RatedEdge(f.source[0], self.rates[f.source], f.target[0], self.rates[f.target])
            for f in inside
        ]
        interfaces = [
            (end[0], self.rates[end], self.rates[name, ""])
            for name in self.pi.interfaces
            for end in [self.opposite(name)]
            if end[0] in self.pi.actors
        ]
        try:
            self.firings.update(level_firings(self.pi.actors, edges, interfaces))
        except Unbalanced as found:
            fifo = inside[found.edge]
            ends = " to ".join(shown(".".join(e)) for e in (fifo.source, fifo.target))
            self.say.fault(
                f"no numbers of firings balance the fifo from {ends} with the others", fifo.span
            )

    def opposite(self, interface: str) -> End:
        """The end of the fifo that leads to or from an interface."""
        for f in self.pi.fifos:
            if interface == f.source[0]:
                return self.end(f.target)
            if interface == f.target[0]:
                return self.end(f.source)
        raise AssertionError(interface)  # `graph` has checked this

    # -- tasks -------------------------------------------------------------------------------------
    def make(self) -> None:
        """Names and tasks of nodes, and what stands at interfaces."""
        self.boundary = boundary_names(self.pi.interfaces)
        self.gone = {n for n, a in self.pi.actors.items() if self.only_hands_on(a)}
        kept = [n for n in self.pi.actors if n not in self.gone]
        tasks = dict(self.at_interfaces())
        wanted = [
            *self.boundary.values(),
            *kept,
            *(f"{n}_{kind}" for n, (kind, _) in tasks.items()),
        ]
        names = identifiers(wanted, "actor", reserved_words())[len(self.boundary) :]
        self.names = dict(zip(kept, names, strict=False))
        for (interface, (_, task)), name in zip(tasks.items(), names[len(kept) :], strict=True):
            part = LevelPart(f"{interface}#", name, task, 1, {}, None, True)
            self.at_border[interface] = part
            self.tasks.append(part)
        for node in kept:
            actor = self.pi.actors[node]
            if not actor.hierarchical:
                task = self.special(actor) if actor.kind in SPECIAL else self.task(actor)
                ways = {p.direction for p in actor.ports}
                loop = any(f.source[0] == f.target[0] == node for f in self.pi.fifos)
                parallel = actor.init is None and len(ways) == 2 and not loop
                values, firings = self.values[node], self.firings[node]
                self.tasks.append(
                    LevelPart(node, self.names[node], task, firings, values, actor, parallel)
                )

    def only_hands_on(self, actor: PiActor) -> bool:
        return actor.kind in SPECIAL and all(
            self.hands_on(actor, p) for p in actor.ports if p.direction == "out"
        )

    def hands_on(self, actor: PiActor, port: PiPort) -> bool:
        """Can an arrow express this output of a special actor, and do its tokens come from
        elsewhere?"""
        seen: set[str] = set()
        here: PiActor | None = actor
        while here is not None and self.hop(here, port) is not None:
            if here.name in seen:
                return False  # only special actors in a cycle
            seen.add(here.name)
            node, name = self.pi.fifos[self.into[here.name, _only_input(here)]].source
            here = self.pi.actors.get(node)
            port = port if here is None else here.port(name)
        return bool(seen)

    def hop(self, actor: PiActor, port: PiPort) -> str | None:
        """The operator for an arrow through a special actor; "" if the same tokens leave, None if
        there is none."""
        inputs = [p for p in actor.ports if p.direction == "in"]
        alone = actor.kind in ("broadcast", "roundbuffer") or (
            actor.kind in SPECIAL and len(actor.ports) == 2
        )
        if not alone or len(inputs) != 1:
            return None
        before, after = (actor.name, inputs[0].name), (actor.name, port.name)
        if self.tokens[before].text != self.tokens[after].text:
            return None
        taken, made = self.rates[before], self.rates[after]
        shorter = actor.kind == "roundbuffer" and made < taken
        return borders.kept(taken, made) if shorter else borders.repeated(taken, made)

    def at_interfaces(self) -> Iterator[tuple[str, tuple[str, PreesmTask]]]:
        """Tasks at interfaces with different tokens inside and outside: a name for it, and the
        task.

        Operators on arrows are added to `hops`.
        """
        for name, interface in self.pi.interfaces.items():
            outside, end = self.rates[name, ""], self.opposite(name)
            through = end[0] in self.pi.interfaces
            inside = self.rates[end] * (1 if through else self.firings[end[0]])
            if through and inside != outside:
                message = (
                    f"interface {shown(name)} leads to {shown(end[0])}, which has another rate"
                )
                self.say.fault(message, interface.span)
            before, after = self.outer[name], self.tokens[name, ""]
            if before.bytes != after.bytes:
                message = (
                    f"the fifo inside of interface {shown(name)} has another type than the one"
                    " around it"
                )
                self.say.refuse(message, interface.span)
            enters = interface.direction == "in"
            hop = borders.repeated(outside, inside) if enters else borders.kept(inside, outside)
            if hop is not None and before.text == after.text:
                self.hops[name] = hop
                continue
            kind: Border = "broadcast" if enters else "roundbuffer"
            if hop == "":
                kind = ""
            taken, made = (outside, inside) if enters else (inside, outside)
            tokens = (before, after) if enters else (after, before)
            ports = _port("given", "in", taken, tokens[0]), _port("taken", "out", made, tokens[1])
            word = {"broadcast": "repeated", "roundbuffer": "last", "": "copied"}[kind]
            task = PreesmTask(
                kind or "broadcast", capitalised(word, "task"), (), ports, "", None, None, True
            )
            yield name, (word, task)

    def special(self, actor: PiActor) -> PreesmTask:
        """A task that copies; an actor that only forwards is an arrow."""
        kept = [p for p in actor.ports if p.direction == "in" or not self.hands_on(actor, p)]
        names = identifiers((p.name for p in kept), "port", _reserved())
        ports = tuple(
            _port(
                name,
                p.direction,
                self.rates[actor.name, p.name],
                self.tokens[actor.name, p.name],
                p.name,
            )
            for name, p in zip(names, kept, strict=True)
        )
        if actor.kind in ("fork", "join"):
            sums = [
                sum(p.tokens * p.token.bytes for p in ports if p.direction == way)
                for way in ("in", "out")
            ]
            if actor.kind == "fork" and sums[0] > sums[1]:
                message = f"the fork hands on {sums[1]} of {sums[0]} bytes: the others are lost"
                self.say.warn_together(actor.name, message, actor.span, "PREESM drops them as well")
            elif sums[0] != sums[1]:
                message = (
                    f"{actor.kind} {shown(actor.name)} takes {sums[0]} bytes and gives {sums[1]}"
                )
                self.say.fault(message, actor.span)
        elif len([p for p in ports if p.direction == "in"]) != 1:
            self.say.fault(f"{actor.kind} {shown(actor.name)} has several inputs", actor.span)
        return PreesmTask(
            _KINDS[actor.kind], capitalised(actor.kind, "task"), (), ports, "", None, None, True
        )

    def task(self, actor: PiActor) -> PreesmTask:
        """An actor with code, or without any."""
        values = self.values[actor.name]
        made = identifiers([*actor.config, *(p.name for p in actor.ports)], "port", _reserved())
        formal = dict(zip(actor.config, made, strict=False))
        used: dict[str, None] = {}
        ports = []
        for port, name in zip(actor.ports, made[len(actor.config) :], strict=True):
            rate, c_rate, needs = self.rate(actor, port, formal)
            used |= needs
            token = self.tokens[actor.name, port.name]
            tokens, only = self.rates[actor.name, port.name], port.read_only
            ports.append(
                PreesmPort(name, port.name, port.direction, rate, tokens, c_rate, token, only)
            )
        floats: set[str] = set()
        for function in filter(None, (actor.loop, actor.init)):
            self.check(actor, function)
            for a in (a for a in function.arguments if a.config and a.name in values):
                used[a.name] = None
                if plain(a.type) in _FLOATS:
                    floats.add(a.name)
        formals: tuple[Formal, ...] = tuple(
            (c, formal[c], "float" if c in floats or values[c].number.denominator != 1 else "int")
            for c in actor.config
            if c in used
        )
        wanted = capitalised(actor.loop.name if actor.loop is not None else actor.name, "task")
        return PreesmTask(
            "actor", wanted, formals, tuple(ports), actor.refinement, actor.loop, actor.init, False
        )

    def rate(
        self, actor: PiActor, port: PiPort, formal: Mapping[str, str]
    ) -> tuple[str, str, dict[str, None]]:
        """The text of a rate, the same in C, and the parameters that it needs."""
        number = str(self.rates[actor.name, port.name])
        known = {c: Value(v.number, formal[c]) for c, v in self.values[actor.name].items()}
        value = self.evaluator.of(port.rate, known, "", port.span)
        expr = expressions.parse(port.rate)
        if value is None or value.text == number:
            return number, number, {}
        in_c = expressions.written(expr, {c: f"(double)p->{m}" for c, m in formal.items()}, _double)
        return value.text, in_c or number, expressions.names(expr)

    def check(self, actor: PiActor, function: Function) -> None:
        """Arguments of a C function are ports of its actor, and have room for their tokens."""
        for a in function.arguments:
            if a.config and a.direction == "out":
                continue  # it would be a config output, which is rejected at the port
            if a.config and a.name not in self.values[actor.name]:
                what = "is no config input" if a.name not in actor.config else "has no value"
                message = (
                    f"argument {shown(a.name)} of {shown(function.name)} {what} of"
                    f" {shown(actor.name)}"
                )
                self.say.fault(message, function.span)
            if a.config or function is actor.init:
                continue
            port = next(
                (p for p in actor.ports if p.name == a.name and p.direction == a.direction), None
            )
            if port is None:
                message = (
                    f"{shown(actor.name)} has no {a.direction}put {shown(a.name)}, which"
                    f" {shown(function.name)} takes"
                )
                self.say.fault(message, function.span)
                continue
            token, element = self.tokens[actor.name, port.name], token_of(a.type, {})
            if element is not None and element.bytes != token.bytes:
                message = (
                    f"its C code takes {shown(plain(a.type))} where the fifo has tokens of"
                    f" {token.bytes} bytes"
                )
                self.say.warn_together(
                    f"{actor.name}.{a.name}",
                    message,
                    function.span,
                    "bytes are handed over as they are",
                )

    # -- the text ----------------------------------------------------------------------------------
    @property
    def connected(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Ends that share data, as ways below this level."""
        for f in self.pi.fifos:
            yield self._place(f.source), self._place(f.target)
        for name, part in self.at_border.items():
            yield (name,), (part.node,)

    def _place(self, end: End) -> tuple[str, ...]:
        actor = self.pi.actors.get(end[0])
        return end if actor is not None and actor.hierarchical else (end[0],)

    def graph(
        self, formals: tuple[Formal, ...], declarations: Mapping[str, PreesmGraph], firings: int
    ) -> PreesmGraph:
        """The graph, which fires so often; `declarations` are those of its sub-graphs."""
        instances = [
            PreesmInstance(p.name, p.declaration(firings * p.firings), p.arguments())
            for p in self.tasks
        ]
        for name, graph in declarations.items():
            values = self.values[name]
            arguments = tuple((made, values[formal].text) for formal, made, _ in graph.formals)
            instances.append(PreesmInstance(self.names[name], graph, arguments))
        order = {made: i for i, made in enumerate(self.names.values())}
        instances.sort(key=lambda i: order.get(i.name, -1))
        ports = tuple(
            (i.direction, self.boundary[n], self.outer[n].text)
            for n, i in self.pi.interfaces.items()
        )
        stem = self.pi.file.stem
        return PreesmGraph(
            stem, self.pi.file.name, formals, ports, tuple(instances), tuple(self.arrows())
        )

    def arrows(self) -> Iterator[str]:
        """One line for each remaining fifo, and those between interfaces and their instances."""
        for name, part in self.at_border.items():
            if self.pi.interfaces[name].direction == "in":
                yield f"{self.boundary[name]} -> {part.name}"
        for i, fifo in enumerate(self.pi.fifos):
            if fifo.target[0] in self.gone:
                continue
            hops = "".join(f"{hop} -> " for hop in self.way(i))
            yield f"{self.origin(i)} -> {hops}{self.text(fifo.target, 'in')}"
        for name, part in self.at_border.items():
            if self.pi.interfaces[name].direction == "out":
                yield f"{part.name} -> {self.boundary[name]}"

    def chain(self, index: int) -> list[int]:
        """The fifos of an arrow, from its origin on: through all operators."""
        found = [index]
        while True:
            source, port = self.pi.fifos[found[0]].source
            actor = self.pi.actors.get(source)
            if actor is None or not self.hands_on(actor, actor.port(port)):
                return found
            found.insert(0, self.into[source, _only_input(actor)])

    def origin(self, index: int) -> str:
        """Where the tokens of a fifo come from."""
        return self.text(self.pi.fifos[self.chain(index)[0]].source, "out")

    def way(self, index: int) -> Iterator[str]:
        """The operators on a fifo; consecutive delays are merged."""
        chain = self.chain(index)
        words = [("", self.hops.get(self.pi.fifos[chain[0]].source[0], ""))]
        for i in chain:
            source, port = self.pi.fifos[i].source
            if i != chain[0]:
                actor = self.pi.actors[source]
                words.append(("", self.hop(actor, actor.port(port)) or ""))
            tokens, text = self.delays.get(i, (0, ""))
            words.append(("delay", text if tokens else ""))
        words.append(("", self.hops.get(self.pi.fifos[index].target[0], "")))
        for kind, same in groupby((w for w in words if w[1]), key=lambda w: w[0]):
            if kind:
                yield f"{kind} {' + '.join(text for _, text in same)}"
            else:
                yield from (text for _, text in same)

    @property
    def virtual(self) -> Iterator[tuple[str, int]]:
        """Nodes that become operators on arrows, which move whole blocks, with their firings."""
        for name, hop in self.hops.items():
            if hop:
                yield name, 1
        for name, actor in self.pi.actors.items():
            outputs = [p for p in actor.ports if p.direction == "out"]
            if actor.kind in SPECIAL and any(
                self.hands_on(actor, p) and self.hop(actor, p) for p in outputs
            ):
                yield name, self.firings[name]

    def text(self, end: End, direction: Direction) -> str:
        """An end of an arrow."""
        node, port = end
        if node in self.pi.interfaces:
            return self.at_border[node].name if node in self.at_border else self.boundary[node]
        actor = self.pi.actors[node]
        if actor.hierarchical:
            made = boundary_names(p.name for p in actor.ports)
            ports = [(p.direction, made[p.name], p.name) for p in actor.ports]
        else:
            task = next(p.task for p in self.tasks if p.node == node)
            ports = [(p.direction, p.name, p.original) for p in task.ports]
        same = [(name, original) for way, name, original in ports if way == direction]
        name = next(name for name, original in same if original == port)
        return f"{self.names[node]}.{name}" if len(same) > 1 else self.names[node]


def _reserved() -> frozenset[str]:
    """Names that no port or parameter gets."""
    return reserved_words() | frozenset(_C_WORDS.split())


def _only_input(actor: PiActor) -> str:
    return next(p.name for p in actor.ports if p.direction == "in")


def _port(
    name: str, direction: Direction, tokens: int, token: PreesmToken, original: str = ""
) -> PreesmPort:
    return PreesmPort(name, original or name, direction, str(tokens), tokens, str(tokens), token)


def _double(value: object) -> str:
    """A number as C takes it without rounding towards zero."""
    text = str(value)
    return f"({text.replace('/', '.0 / ')}.0)" if "/" in text else f"{text}.0"
