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
from .graph import SPECIAL, Argument, Direction, End, Function, PiActor, PiGraph, PiPort
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
    if len(say.faults) > before or not level.typed():
        return None
    level.fire()
    if len(say.faults) > before:
        return None
    level.make()
    if len(say.faults) == before:
        return level
    return None


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
            values = {}
            for port in actor.config:
                parameter = given.get((name, port), "")
                if parameter in self.scope:
                    values[port] = self.scope[parameter]
            self.values[name] = values
            for p in actor.ports:
                what = f"the rate of {shown(f'{name}.{p.name}')}"
                self.rates[name, p.name] = self.whole(p, values, what)
        for name, interface in self.pi.interfaces.items():
            what = f"the rate of interface {shown(name)}"
            self.rates[name, ""] = self.whole(interface, self.scope, what)
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

    def typed(self) -> bool:
        """Are the types of all fifos, inside and around, known? Each unknown type is a fault that
        is reported once, maybe in another level."""
        ends = {self.end(end) for f in self.pi.fifos for end in (f.source, f.target)}
        return ends <= self.tokens.keys() and self.pi.interfaces.keys() <= self.outer.keys()

    def whole(self, port: PiPort, values: Mapping[str, Value], what: str) -> int:
        """The rate of a port; 1 after a fault."""
        rate = self.evaluator.whole(port.rate, values, what, port.span)
        if rate is None:
            return 1
        return rate[0]

    def end(self, end: End) -> End:
        """The port of an interface has no name of its own here."""
        if end[0] in self.pi.interfaces:
            return (end[0], "")
        return end

    def fire(self) -> None:
        """How often nodes fire."""
        inside = []
        edges = []
        for f in self.pi.fifos:
            if f.source[0] in self.pi.actors and f.target[0] in self.pi.actors:
                inside.append(f)
                edges.append(
                    RatedEdge(f.source[0], self.rates[f.source], f.target[0], self.rates[f.target])
                )
        interfaces = []
        for name in self.pi.interfaces:
            end = self.opposite(name)
            if end[0] in self.pi.actors:
                interfaces.append((end[0], self.rates[end], self.rates[name, ""]))
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
        at_border = [f"{interface}_{kind}" for interface, (kind, _) in tasks.items()]
        wanted = [*self.boundary.values(), *kept, *at_border]
        names = identifiers(wanted, "actor", reserved_words())[len(self.boundary) :]
        self.names = dict(zip(kept, names, strict=False))
        for (interface, (_, task)), name in zip(tasks.items(), names[len(kept) :], strict=True):
            part = LevelPart(f"{interface}#", name, task, 1, {}, None, True)
            self.at_border[interface] = part
            self.tasks.append(part)
        for node in kept:
            actor = self.pi.actors[node]
            if not actor.hierarchical:
                self.tasks.append(self.part(actor))

    def part(self, actor: PiActor) -> LevelPart:
        """The task of a node without a graph inside."""
        if actor.kind in SPECIAL:
            task = self.special(actor)
        else:
            task = self.task(actor)
        node = actor.name
        ways = {p.direction for p in actor.ports}
        loop = any(f.source[0] == f.target[0] == node for f in self.pi.fifos)
        parallel = actor.init is None and len(ways) == 2 and not loop
        values, firings = self.values[node], self.firings[node]
        return LevelPart(node, self.names[node], task, firings, values, actor, parallel)

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
            if here is not None:
                port = here.port(name)
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
        if shorter:
            return borders.kept(taken, made)
        return borders.repeated(taken, made)

    def at_interfaces(self) -> Iterator[tuple[str, tuple[str, PreesmTask]]]:
        """Tasks at interfaces with different tokens inside and outside: a name for it, and the
        task.

        Operators on arrows are added to `hops`.
        """
        for name, interface in self.pi.interfaces.items():
            found = self.at_interface(name, interface)
            if found is not None:
                yield name, found

    def at_interface(self, name: str, interface: PiPort) -> tuple[str, PreesmTask] | None:
        """A word and a task; None where an operator on the arrow is enough."""
        outside, inside = self.rates[name, ""], self.inside(name, interface)
        before, after = self.outer[name], self.tokens[name, ""]
        if before.bytes != after.bytes:
            message = (
                f"the fifo inside of interface {shown(name)} has another type than the one"
                " around it"
            )
            self.say.refuse(message, interface.span)
        kind: Border
        if interface.direction == "in":
            hop, kind = borders.repeated(outside, inside), "broadcast"
            ports = _port("given", "in", outside, before), _port("taken", "out", inside, after)
        else:
            hop, kind = borders.kept(inside, outside), "roundbuffer"
            ports = _port("given", "in", inside, after), _port("taken", "out", outside, before)
        if hop is not None and before.text == after.text:
            self.hops[name] = hop
            return None
        if hop == "":
            kind = ""
        word = {"broadcast": "repeated", "roundbuffer": "last", "": "copied"}[kind]
        return word, PreesmTask(
            kind or "broadcast", capitalised(word, "task"), (), ports, "", None, None, True
        )

    def inside(self, name: str, interface: PiPort) -> int:
        """The tokens that the graph moves through an interface in one firing."""
        end = self.opposite(name)
        if end[0] not in self.pi.interfaces:
            return self.rates[end] * self.firings[end[0]]
        if self.rates[end] != self.rates[name, ""]:
            message = f"interface {shown(name)} leads to {shown(end[0])}, which has another rate"
            self.say.fault(message, interface.span)
        return self.rates[end]

    def special(self, actor: PiActor) -> PreesmTask:
        """A task that copies; an actor that only forwards is an arrow."""
        kept = [p for p in actor.ports if p.direction == "in" or not self.hands_on(actor, p)]
        names = identifiers((p.name for p in kept), "port", _reserved())
        ports = []
        for name, p in zip(names, kept, strict=True):
            end = (actor.name, p.name)
            ports.append(_port(name, p.direction, self.rates[end], self.tokens[end], p.name))
        if actor.kind in ("fork", "join"):
            self.check_bytes(actor, ports)
        elif len([p for p in ports if p.direction == "in"]) != 1:
            self.say.fault(f"{actor.kind} {shown(actor.name)} has several inputs", actor.span)
        wanted = capitalised(actor.kind, "task")
        return PreesmTask(_KINDS[actor.kind], wanted, (), tuple(ports), "", None, None, True)

    def check_bytes(self, actor: PiActor, ports: Iterable[PreesmPort]) -> None:
        """A fork or a join hands on what it takes."""
        sums = {"in": 0, "out": 0}
        for port in ports:
            sums[port.direction] += port.tokens * port.token.bytes
        taken, given = sums["in"], sums["out"]
        if actor.kind == "fork" and taken > given:
            message = f"the fork hands on {given} of {taken} bytes: the others are lost"
            self.say.warn_together(actor.name, message, actor.span, "PREESM drops them as well")
        elif taken != given:
            message = f"{actor.kind} {shown(actor.name)} takes {taken} bytes and gives {given}"
            self.say.fault(message, actor.span)

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
        floats = {c for c in actor.config if c in values and values[c].number.denominator != 1}
        for a in self.arguments(actor):
            if a.config and a.name in values:
                used[a.name] = None
                if plain(a.type) in _FLOATS:
                    floats.add(a.name)
        formals: list[Formal] = []
        for c in actor.config:
            if c in used:
                formals.append((c, formal[c], "float" if c in floats else "int"))
        wanted = capitalised(actor.name, "task")
        if actor.loop is not None:
            wanted = capitalised(actor.loop.name, "task")
        return PreesmTask(
            "actor",
            wanted,
            tuple(formals),
            tuple(ports),
            actor.refinement,
            actor.loop,
            actor.init,
            False,
        )

    def arguments(self, actor: PiActor) -> Iterator[Argument]:
        """The arguments of the C functions of an actor, which are checked."""
        for function in (actor.loop, actor.init):
            if function is not None:
                self.check(actor, function)
                yield from function.arguments

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
            if a.config and a.direction == "in":  # others are rejected at the port
                self.check_config(actor, function, a)
            if not a.config and function is not actor.init:
                self.check_data(actor, function, a)

    def check_config(self, actor: PiActor, function: Function, argument: Argument) -> None:
        name = argument.name
        if name in self.values[actor.name]:
            return
        what = "has no value"
        if name not in actor.config:
            what = "is no config input"
        message = f"argument {shown(name)} of {shown(function.name)} {what} of {shown(actor.name)}"
        self.say.fault(message, function.span)

    def check_data(self, actor: PiActor, function: Function, argument: Argument) -> None:
        end = (argument.name, argument.direction)
        if end not in {(p.name, p.direction) for p in actor.ports}:
            message = (
                f"{shown(actor.name)} has no {argument.direction}put {shown(argument.name)}, which"
                f" {shown(function.name)} takes"
            )
            self.say.fault(message, function.span)
            return
        token = self.tokens[actor.name, argument.name]
        element = token_of(argument.type, {})
        if element is not None and element.bytes != token.bytes:
            message = (
                f"its C code takes {shown(plain(argument.type))} where the fifo has tokens of"
                f" {token.bytes} bytes"
            )
            self.say.warn_together(
                f"{actor.name}.{argument.name}",
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
        if actor is not None and actor.hierarchical:
            return end
        return (end[0],)

    def graph(
        self, formals: tuple[Formal, ...], declarations: Mapping[str, PreesmGraph], firings: int
    ) -> PreesmGraph:
        """The graph, which fires so often; `declarations` are those of its sub-graphs."""
        instances = []
        for p in self.tasks:
            instances.append(
                PreesmInstance(p.name, p.declaration(firings * p.firings), p.arguments())
            )
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
            if tokens:
                words.append(("delay", text))
        words.append(("", self.hops.get(self.pi.fifos[index].target[0], "")))
        said = [(kind, text) for kind, text in words if text]
        for kind, same in groupby(said, key=lambda word: word[0]):
            texts = [text for _, text in same]
            if kind:
                yield f"{kind} {' + '.join(texts)}"
            else:
                yield from texts

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
        if node in self.at_border:
            return self.at_border[node].name
        if node in self.pi.interfaces:
            return self.boundary[node]
        names = self.port_names(self.pi.actors[node], direction)
        if len(names) > 1:
            return f"{self.names[node]}.{names[port]}"
        return self.names[node]

    def port_names(self, actor: PiActor, direction: Direction) -> dict[str, str]:
        """The names in the text of an actor's inputs or outputs."""
        if actor.hierarchical:
            made = boundary_names(p.name for p in actor.ports)
            return {p.name: made[p.name] for p in actor.ports if p.direction == direction}
        task = next(p.task for p in self.tasks if p.node == actor.name)
        return {p.original: p.name for p in task.ports if p.direction == direction}


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
    if "/" in text:
        return f"({text.replace('/', '.0 / ')}.0)"
    return f"{text}.0"
