"""The content of a `.pi` file: actors, interfaces, parameters, and the edges between them.

In: the XML tree. Out: a `PiGraph` in which every edge has two ends that exist, or faults.
Expressions stay texts. `elaborate` evaluates them and adds hierarchical actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...model.span import Span
from ..names import shown
from ..xml_tree import Element
from .files import NOT_PREESM, PreesmCollector, read_xml

Direction = Literal["in", "out"]
#: Kinds of nodes that move data and have no code of their own.
SPECIAL = ("broadcast", "fork", "join", "roundbuffer")
End = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PiPort:
    """`rate` is an expression; `read_only` is PREESM's promise that the actor does not write what
    it reads."""

    name: str
    direction: Direction
    rate: str
    read_only: bool
    span: Span


@dataclass(frozen=True, slots=True)
class PiParameter:
    """`interface`: the graph around gives the value, and `expression` only counts without one."""

    name: str
    expression: str
    interface: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """Of a C function; `config`: a parameter by value, else a pointer to data."""

    name: str
    direction: Direction
    config: bool
    type: str


@dataclass(frozen=True, slots=True)
class Function:
    """A C function as its header declares it."""

    name: str
    arguments: tuple[Argument, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class PiActor:
    """`refinement` is a C header, the graph inside, or ""."""

    name: str
    kind: str
    refinement: str
    ports: tuple[PiPort, ...]
    config: tuple[str, ...]
    loop: Function | None
    init: Function | None
    period: str
    span: Span

    @property
    def hierarchical(self) -> bool:
        """Is there a graph inside?"""
        return self.refinement.endswith(".pi")

    def port(self, name: str) -> PiPort:
        """One of its ports. Raises StopIteration."""
        return next(p for p in self.ports if p.name == name)


@dataclass(frozen=True, slots=True)
class PiDelay:
    """Initial tokens of a fifo."""

    name: str
    expression: str
    level: str
    setter: str
    getter: str
    span: Span


@dataclass(frozen=True, slots=True)
class PiFifo:
    """Ends are (node, port)."""

    source: End
    target: End
    type: str
    delay: PiDelay | None
    span: Span


@dataclass(frozen=True, slots=True)
class PiDependency:
    """`port` is the config input of `target`, "" if the name of the parameter counts."""

    source: str
    target: str
    port: str


@dataclass(frozen=True, slots=True)
class PiGraph:
    """`interfaces` are ports of the graph: their `direction` is that of the data, seen from around
    it."""

    file: Path
    name: str
    period: str
    parameters: Mapping[str, PiParameter]
    actors: Mapping[str, PiActor]
    interfaces: Mapping[str, PiPort]
    fifos: tuple[PiFifo, ...]
    dependencies: tuple[PiDependency, ...]
    span: Span


def read_graph(path: Path, say: PreesmCollector) -> PiGraph | None:
    """None after a fault."""
    before = len(say.faults)
    root = read_xml(path, say, "graphml", NOT_PREESM)
    if root is None:
        return None
    graph = next(root.all("graph"), None)
    if graph is None:
        say.fault("there is no `graph` in this file", root.span, "is this a PiSDF graph?")
        return None
    nodes = list(graph.all("node"))
    if nodes and not any("kind" in node.attributes for node in nodes):
        help_text = "older versions of PREESM had such SDF graphs: draw it as a `.pi` in PREESM"
        say.fault("this is no PiSDF graph: no node has a `kind`", graph.span, help_text)
        return None
    found = _Reader(path, say).graph(graph)
    if len(say.faults) == before:
        return found
    return None


@dataclass(slots=True)
class _Reader:
    path: Path
    say: PreesmCollector
    parameters: dict[str, PiParameter] = field(default_factory=dict)
    actors: dict[str, PiActor] = field(default_factory=dict)
    interfaces: dict[str, PiPort] = field(default_factory=dict)
    delays: dict[str, PiDelay] = field(default_factory=dict)

    def graph(self, graph: Element) -> PiGraph:
        seen: dict[str, Span] = {}
        for node in graph.all("node"):
            name = self.say.attribute(node, "id")
            if name is None:
                continue
            if name in seen:
                self.say.fault(f"there are two nodes {shown(name)}", node.span)
                continue
            seen[name] = node.span
            self.node(node, name)
        fifos: list[PiFifo] = []
        dependencies: list[PiDependency] = []
        for edge in graph.all("edge"):
            match edge.attributes.get("kind"):
                case "fifo":
                    fifos += self.fifo(edge)
                case "dependency":
                    dependencies += self.dependency(edge)
                case _:
                    self.say.fault("this edge is neither a fifo nor a dependency", edge.span)
        self.connected(fifos)
        name = _data(graph, "name") or self.path.stem
        period = graph.attributes.get("period", "")
        return PiGraph(
            self.path,
            name,
            period,
            self.parameters,
            self.actors,
            self.interfaces,
            tuple(fifos),
            tuple(dependencies),
            graph.span,
        )

    # -- nodes -------------------------------------------------------------------------------------
    def node(self, node: Element, name: str) -> None:
        kind = node.attributes.get("kind", "")
        ports = tuple(self.ports(node))
        if kind == "moldable_param":
            self.parameters[name] = self.moldable(node, name)
        elif kind in ("param", "cfg_in_iface"):
            expression = node.attributes.get("expr") or node.attributes.get("defaultValue") or ""
            self.parameters[name] = PiParameter(name, expression, kind == "cfg_in_iface", node.span)
        elif kind in ("src", "snk"):
            if len(ports) != 1:
                self.say.fault(
                    f"interface {shown(name)} has {len(ports)} ports instead of one", node.span
                )
                return
            direction: Direction = "in" if kind == "src" else "out"
            self.interfaces[name] = PiPort(
                ports[0].name, direction, ports[0].rate, False, node.span
            )
        elif kind == "actor" or kind in SPECIAL:
            self.actors[name] = self.actor(node, name, kind, ports)
        elif kind == "delay":
            self.delays[name] = self.delay(node, name)
        elif kind == "cfg_out_iface":
            message = (
                f"{shown(name)} hands a parameter to the graph around: it changes while the program"
                " runs"
            )
            self.say.refuse(
                message, node.span, "parameters are fixed in flowc; make it one of the top graph"
            )
        else:
            self.say.fault(f"{shown(kind)} is no kind of node", node.span)

    def moldable(self, node: Element, name: str) -> PiParameter:
        """A parameter whose value PREESM chooses from a list: the value that was chosen last."""
        listed = node.attributes.get("moldable_expr", "")
        first, *others = listed.split(";")
        expression = node.attributes.get("expr") or first
        if others:
            message = f"PREESM chooses from {shown(listed)}: the value is {shown(expression)} here"
            self.say.warn_together(
                name, message, node.span, "change the constant in the text to try another value"
            )
        return PiParameter(name, expression, False, node.span)

    def ports(self, node: Element) -> Iterator[PiPort]:
        names: set[str] = set()
        config: set[str] = set()
        for port in node.all("port"):
            kind, name = port.attributes.get("kind", ""), self.say.attribute(port, "name")
            if name is None:
                continue
            taken = config if kind == "cfg_input" else names
            if name in taken:
                self.say.fault(f"there are two ports {shown(name)}", port.span)
                continue
            taken.add(name)
            if kind == "cfg_output":
                message = f"{shown(name)} sets a parameter while the program runs"
                self.say.refuse(
                    message,
                    port.span,
                    "parameters are fixed in flowc; give the parameter a value instead",
                )
            elif kind in ("input", "output"):
                only = port.attributes.get("annotation") == "READ_ONLY"
                rate = self.say.attribute(port, "expr")
                yield PiPort(name, "in" if kind == "input" else "out", rate or "1", only, port.span)
            elif kind != "cfg_input":
                self.say.fault(f"{shown(kind)} is no kind of port", port.span)

    def actor(self, node: Element, name: str, kind: str, ports: tuple[PiPort, ...]) -> PiActor:
        config = tuple(
            p.attributes["name"]
            for p in node.all("port")
            if p.attributes.get("kind") == "cfg_input" and "name" in p.attributes
        )
        loop, init = (
            next((self.function(f) for f in node.all(tag)), None) for tag in ("loop", "init")
        )
        refinement, period = _data(node, "graph_desc"), node.attributes.get("period", "")
        for way, word in (("in", "input"), ("out", "output")):
            if kind in SPECIAL and not any(p.direction == way for p in ports):
                self.say.fault(f"{kind} {shown(name)} has no {word}", node.span)
        return PiActor(name, kind, refinement, ports, config, loop, init, period, node.span)

    def function(self, node: Element) -> Function:
        arguments = []
        for a in node.all("param"):
            name = self.say.attribute(a, "name")
            if name is not None:
                direction: Direction = "in"
                if a.attributes.get("direction") == "OUT":
                    direction = "out"
                config = a.attributes.get("isConfig") == "true"
                arguments.append(Argument(name, direction, config, a.attributes.get("type", "")))
        return Function(self.say.attribute(node, "name") or "", tuple(arguments), node.span)

    def delay(self, node: Element, name: str) -> PiDelay:
        expression, level, setter, getter = (
            node.attributes.get(key, "") for key in ("expr", "level", "setter", "getter")
        )
        if setter or getter:
            who = " and ".join(shown(n) for n in (setter, getter) if n)
            message = f"delay {shown(name)} is filled or emptied by {who} in every iteration"
            self.say.refuse(
                message, node.span, "a delay of flowc has its tokens once, at the start"
            )
        elif level not in ("", "permanent"):
            message = f"delay {shown(name)} of level `{level}` begins anew in every iteration"
            self.say.refuse(
                message, node.span, "a delay of flowc keeps its tokens: make its level `permanent`"
            )
        return PiDelay(name, expression, level, setter, getter, node.span)

    # -- edges -------------------------------------------------------------------------------------
    def fifo(self, edge: Element) -> Iterator[PiFifo]:
        ends = self.say.attributes(edge, "source", "sourceport", "target", "targetport")
        if ends is None:
            return
        source, out, target, into = ends
        if source in self.delays or target in self.delays:
            return  # of a setter or getter, for which the delay is rejected
        known = self.end(source, out, "out", edge.span)
        if self.end(target, into, "in", edge.span) and known:
            delay = self.tokens(edge)
            yield PiFifo(
                (source, out),
                (target, into),
                edge.attributes.get("type", "").strip(),
                delay,
                edge.span,
            )

    def tokens(self, edge: Element) -> PiDelay | None:
        """The delay of a fifo: a node that is named, or an expression as older files have it."""
        said = next((d for d in edge.all("data") if d.attributes.get("key") == "delay"), None)
        if said is not None and said.text in self.delays:
            return self.delays[said.text]
        if said is not None and said.text:
            self.say.fault(f"there is no delay {shown(said.text)}", said.span)
            return None
        expression = edge.attributes.get("expr", "")
        if said is not None:
            expression = said.attributes.get("expr", expression)
        if expression.strip():
            return PiDelay("", expression, "permanent", "", "", edge.span)
        return None

    def end(self, node: str, port: str, direction: Direction, span: Span) -> bool:
        """Does an end of a fifo exist?"""
        if node in self.interfaces:
            fits = self.interfaces[node].direction != direction
        elif node in self.actors:
            fits = any(p.name == port and p.direction == direction for p in self.actors[node].ports)
        else:
            self.say.fault(f"there is no node {shown(node)}", span)
            return False
        if not fits:
            self.say.fault(f"{shown(node)} has no {direction}put {shown(port)}", span)
        return fits

    def connected(self, fifos: Iterable[PiFifo]) -> None:
        """Every port has one fifo, of those that read or write it."""
        seen: dict[tuple[End, str], Span] = {}
        for f in fifos:
            for end, way in ((f.source, "out"), (f.target, "in")):
                if end[0] in self.interfaces:
                    end = (end[0], "")
                if (end, way) in seen:
                    help_text = ""
                    if way == "out":
                        help_text = "put a broadcast in between"
                    self.say.fault(
                        f"two fifos end at {shown('.'.join(filter(None, end)))}", f.span, help_text
                    )
                seen[end, way] = f.span
        if not self.say.faults:
            self.all_connected({end for end, _ in seen})

    def all_connected(self, ends: set[End]) -> None:
        """Every port has a fifo."""
        for actor in self.actors.values():
            for port in actor.ports:
                if (actor.name, port.name) not in ends:
                    self.say.fault(
                        f"nothing is connected to {shown(f'{actor.name}.{port.name}')}", port.span
                    )
        for name, interface in self.interfaces.items():
            if (name, "") not in ends:
                self.say.fault(f"nothing is connected to interface {shown(name)}", interface.span)

    def dependency(self, edge: Element) -> Iterator[PiDependency]:
        source, target = self.say.attribute(edge, "source"), self.say.attribute(edge, "target")
        if source is None or target is None:
            return
        port = edge.attributes.get("targetport", "")
        if source in self.actors:
            if not edge.attributes.get("sourceport"):
                self.say.fault(f"{shown(source)} is no parameter", edge.span)
            return  # its config output is rejected there
        if source not in self.parameters:
            self.say.fault(f"there is no parameter {shown(source)}", edge.span)
        elif target in self.actors and port not in self.actors[target].config:
            self.say.fault(f"{shown(target)} has no config input {shown(port)}", edge.span)
        else:
            yield PiDependency(source, target, port)


def _data(node: Element, key: str) -> str:
    return next((d.text for d in node.all("data") if d.attributes.get("key") == key), "")
