"""The elements of an SDF3 file to a graph of actors, ports and channels, with every fault of the
file.

In: the XML tree. Out: an `Sdf3Graph` with the content of the file, names unchanged, and warnings
about the rest. `importer` chooses names and translates SDF3's semantics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...model.diagnostic import Diagnostic, Note, did_you_mean
from ...model.span import Span
from ..names import listed, shown
from ..xml_tree import Element
from . import sequences
from .file import GRAPHS, Sdf3Collector, find
from .sequences import Runs


@dataclass(frozen=True, slots=True)
class Sdf3Port:
    """`rates` has one entry, or one per phase."""

    name: str
    direction: Literal["in", "out"]
    rates: Runs
    span: Span


@dataclass(frozen=True, slots=True)
class Sdf3Actor:
    """`times` are those of the chosen processor, () when it has none; `phases` is the length of the
    longest list."""

    name: str
    ports: tuple[Sdf3Port, ...]
    times: Runs
    phases: int


@dataclass(frozen=True, slots=True)
class Sdf3Channel:
    """Ends are (position of the actor, position of the port in the actor)."""

    name: str
    source: tuple[int, int]
    destination: tuple[int, int]
    tokens: int


@dataclass(frozen=True, slots=True)
class Sdf3Graph:
    """`kind` is `sdf` or `csdf`; `chosen` are the processor types whose times count, `others` those
    that do not."""

    name: str
    kind: str
    actors: tuple[Sdf3Actor, ...]
    channels: tuple[Sdf3Channel, ...]
    chosen: tuple[str, ...]
    others: tuple[str, ...]
    span: Span


def graph_of(root: Element, processor: str | None) -> tuple[Sdf3Graph, tuple[Diagnostic, ...]]:
    """The only graph of a file, and warnings. Raises Errors with all its faults."""
    application, graph = find(root)
    return _Reader(application, graph, processor).read()


@dataclass(slots=True)
class _Actor:
    """An actor while it is read. `places` finds a port by name and direction, `lengths` has the
    place of each length."""

    name: str
    position: int
    span: Span
    ports: list[Sdf3Port] = field(default_factory=list)
    places: dict[tuple[str, str], int] = field(default_factory=dict)
    lengths: dict[int, tuple[str, Span]] = field(default_factory=dict)
    processors: dict[str, Element] = field(default_factory=dict)
    defaults: list[str] = field(default_factory=list)
    times: Runs = ()


class _Reader:
    """Collects faults while it reads, and continues."""

    def __init__(self, application: Element, graph: Element, processor: str | None) -> None:
        self._application = application
        self._graph = graph
        self._wanted = processor
        self._say = Sdf3Collector(graph.span)
        self._actors: dict[str, _Actor] = {}
        #: Ports with a fault, so that channels to them are not reported too.
        self._broken: set[tuple[str, str]] = set()

    def read(self) -> tuple[Sdf3Graph, tuple[Diagnostic, ...]]:
        for node in self._graph.all("actor"):
            self._actor(node)
        if not self._actors and not self._say.faults:
            self._say.fault("this graph has no actors", self._graph.span)
        for group in self._application.all(*GRAPHS.values()):
            for node in group.all("actorProperties"):
                self._properties(node)
        chosen = self._times()
        actors = []
        for actor in self._actors.values():
            self._phases(actor)
            phases = max(actor.lengths, default=1)
            actors.append(Sdf3Actor(actor.name, tuple(actor.ports), actor.times, phases))
        channels = []
        for node in self._graph.all("channel"):
            channel = self._channel(node)
            if channel is not None:
                channels.append(channel)
        self._say.stop()
        self._left_out(channels)
        name = (
            self._application.attributes.get("name", "").strip()
            or self._graph.attributes.get("name", "").strip()
        )
        graph = Sdf3Graph(
            name,
            self._graph.tag,
            tuple(actors),
            tuple(channels),
            tuple(chosen),
            tuple(t for t in self._types() if t not in chosen),
            self._graph.span,
        )
        return graph, tuple(self._say.warnings)

    def _types(self) -> list[str]:
        """All types of processors."""
        types: dict[str, None] = {}
        for actor in self._actors.values():
            types |= dict.fromkeys(actor.processors)
        return list(types)

    # -- actors ------------------------------------------------------------------------------------
    def _actor(self, node: Element) -> None:
        name = self._say.attribute(node, "name")
        if name is None:
            return
        if name in self._actors:
            notes = [Note("the first one", self._actors[name].span)]
            self._say.fault(
                f"two actors are called {shown(name)}", node.span, "rename one of them", notes
            )
            return
        actor = self._actors[name] = _Actor(name, len(self._actors), node.span)
        for child in node.all("port"):
            self._port(child, actor)

    def _port(self, node: Element, actor: _Actor) -> None:
        name, way = self._say.attribute(node, "name"), self._say.attribute(node, "type")
        of = f"the rate of port {shown(f'{actor.name}.{name}')}"
        rates = self._say.numbers(node, "rate", of, whole=True)
        direction: Literal["in", "out"] | None = None
        match (way or "").strip().lower():
            case "in":
                direction = "in"
            case "out":
                direction = "out"
            case _ if way is not None:
                self._say.fault(f"a port is `in` or `out`, not {shown(way)}", node.span)
        if rates is not None and not any(value for value, _ in rates):
            self._say.fault(
                f"{of} is 0: it moves nothing",
                node.span,
                "remove the port and its channel, or give a rate",
            )
            rates = None
        if name is None:
            return
        if rates is None or direction is None:
            self._broken.add((actor.name, name))
            return
        if (name, direction) in actor.places:
            notes = [Note("the first one", actor.ports[actor.places[name, direction]].span)]
            self._say.fault(
                f"two ports of {shown(actor.name)} are called {shown(name)}", node.span, "", notes
            )
            return
        actor.places[name, direction] = len(actor.ports)
        actor.ports.append(Sdf3Port(name, direction, rates, node.span))
        actor.lengths.setdefault(sequences.length(rates), (f"port {shown(name)}", node.span))

    def _phases(self, actor: _Actor) -> None:
        several = [phases for phases in actor.lengths if phases > 1]
        if len(several) > 1:
            first, second = several[:2]
            of, place = actor.lengths[first]
            other, at = actor.lengths[second]
            message = f"{other} of {shown(actor.name)} has {second} phases, {of} has {first}"
            help_text = (
                "all lists of an actor need one length; a single number holds in every phase"
            )
            self._say.fault(message, at, help_text, [Note(f"{first} phases", place)])

    # -- execution times ---------------------------------------------------------------------------
    def _properties(self, node: Element) -> None:
        name = self._say.attribute(node, "actor")
        if name is None:
            return
        actor = self._actors.get(name)
        if actor is None:
            self._say.fault(
                f"there is no actor {shown(name)}", node.span, did_you_mean(name, self._actors)
            )
            return
        for processor in node.all("processor"):
            kind = processor.attributes.get("type", "")
            if kind in actor.processors:
                notes = [Note("the first one", actor.processors[kind].span)]
                message = f"actor {shown(name)} has processor {shown(kind)} twice"
                self._say.fault(message, processor.span, "remove one of them", notes)
                continue
            actor.processors[kind] = processor
            if processor.attributes.get("default", "false").strip().lower() not in ("false", "0"):
                actor.defaults.append(kind)

    def _times(self) -> list[str]:
        """Choose a processor for every actor and read its time. The types that were chosen."""
        chosen: dict[str, None] = {}
        without: list[str] = []
        torn: list[str] = []
        for actor in self._actors.values():
            candidates = self._candidates(actor)
            if len(candidates) > 1:
                torn.append(actor.name)
            time = None
            if candidates:
                time = next(actor.processors[candidates[0]].all("executionTime"), None)
            if time is None:
                without.append(actor.name)
                continue
            chosen[candidates[0]] = None
            of = f"the execution time of {shown(actor.name)}"
            actor.times = self._say.numbers(time, "time", of, whole=False) or ()
            if actor.times:
                actor.lengths.setdefault(
                    sequences.length(actor.times), ("the execution time", time.span)
                )
        self._untimed(without, torn)
        return list(chosen)

    def _candidates(self, actor: _Actor) -> list[str]:
        """The processors of an actor whose time may count."""
        if self._wanted is not None:
            return [kind for kind in actor.processors if kind == self._wanted]
        if not actor.defaults and len(actor.processors) == 1:
            return list(actor.processors)
        return actor.defaults

    def _untimed(self, without: list[str], torn: list[str]) -> None:
        on = ""
        if self._wanted is not None:
            on = f" on processor {shown(self._wanted)}"
        types = self._types()
        if self._wanted is not None and self._wanted not in types:
            help_text = did_you_mean(self._wanted, types)
            if types and not help_text:
                help_text = f"the file has {listed(types)}"
            self._say.fault(f"no actor has a time{on}", self._graph.span, help_text)
        elif without:
            self._tell_without(without, on, types)
        if torn:
            message = f"several processors are the default of {listed(torn)}; the first one counts"
            self._say.warn(message, f"choose one of {listed(types)}")

    def _tell_without(self, without: list[str], on: str, types: list[str]) -> None:
        """Actors without a time."""
        verb = "have" if len(without) > 1 else "has"
        message = f"{listed(without)} {verb} no execution time{on}"
        if len(without) == len(self._actors):
            message = f"no actor has an execution time{on}"
        help_text = "add `wcet` to their tasks"
        if self._wanted is None and any(self._actors[name].processors for name in without):
            help_text = f'mark one processor `default="true"`, or choose one of {listed(types)}'
        self._say.warn(message, help_text)

    # -- channels ----------------------------------------------------------------------------------
    def _channel(self, node: Element) -> Sdf3Channel | None:
        source = self._end(node, "src", "out")
        destination = self._end(node, "dst", "in")
        name = node.attributes.get("name", "")
        tokens: Runs | None = ()
        if node.attributes.get("initialTokens", "").strip():
            tokens = self._say.numbers(
                node, "initialTokens", f"the number of initial tokens of {shown(name)}", whole=True
            )
            if tokens is not None and sequences.length(tokens) > 1:
                self._say.fault(
                    f"{shown(name)} has a list of initial tokens", node.span, "write one number"
                )
        if source is None or destination is None or tokens is None:
            return None
        return Sdf3Channel(name, source, destination, int(tokens[0][0]) if tokens else 0)

    def _end(
        self, node: Element, end: Literal["src", "dst"], way: Literal["in", "out"]
    ) -> tuple[int, int] | None:
        of, port = self._say.attribute(node, f"{end}Actor"), self._say.attribute(node, f"{end}Port")
        if of is None or port is None:
            return None
        actor = self._actors.get(of)
        if actor is None:
            self._say.fault(
                f"there is no actor {shown(of)}", node.span, did_you_mean(of, self._actors)
            )
            return None
        if (port, way) in actor.places:
            return actor.position, actor.places[port, way]
        if (of, port) not in self._broken:
            self._missing(node, actor, port, way)
        return None

    def _missing(self, node: Element, actor: _Actor, port: str, way: Literal["in", "out"]) -> None:
        """A channel ends at a port that an actor does not have in that direction."""
        full = shown(f"{actor.name}.{port}")
        for other in actor.ports:
            if other.name == port:
                message = (
                    f"{full} is an {other.direction}put; a channel leads from an output to an input"
                )
                notes = [Note("declared here", other.span)]
                help_text = f"exchange the ends of the channel, or make the port `{way}`"
                self._say.fault(message, node.span, help_text, notes)
                return
        known = [p.name for p in actor.ports if p.direction == way]
        help_text = did_you_mean(port, known)
        if known and not help_text:
            help_text = f"{shown(actor.name)} has {listed(known)}"
        self._say.fault(f"there is no {way}put {full}", node.span, help_text)

    # -- what is not imported ----------------------------------------------------------------------
    def _left_out(self, channels: list[Sdf3Channel]) -> None:
        unused = [*self._unused(channels)]
        if unused:
            ports = "port" if len(unused) == 1 else "ports"
            message = f"no channel joins {ports} {listed(unused)}"
            self._say.warn(message, "such ports are left out; in SDF3 every port has its channel")
        limits = {"bufferSize": "buffer sizes", "timeConstraints": "time constraints"}
        left_out: dict[str, None] = {}
        for e in self._elements():
            if e.tag in limits and (e.attributes or e.children):
                left_out[limits[e.tag]] = None
        if left_out:
            message = f"{' and '.join(left_out)} of the file are not imported"
            self._say.warn(
                message, "an app has a `period` and a `deadline`; flowc finds capacities itself"
            )

    def _unused(self, channels: list[Sdf3Channel]) -> Iterator[str]:
        """Ports without a channel."""
        used = {c.source for c in channels} | {c.destination for c in channels}
        for actor in self._actors.values():
            for number, port in enumerate(actor.ports):
                if (actor.position, number) not in used:
                    yield f"{actor.name}.{port.name}"

    def _elements(self) -> Iterator[Element]:
        for group in self._application.all(*GRAPHS.values()):
            yield from group.below()
