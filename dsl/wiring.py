"""Edges between ports from the arrows of one block: port selection and type checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain

from ..model.application import Link, Port, Resampling, Task
from ..model.diagnostic import Note, closest, did_you_mean, one_of
from ..model.span import Span
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope
from .firing_times import TimesByType

Key = tuple[str, str]  # (full name of a unit, port)


@dataclass(frozen=True, slots=True)
class PortView:
    """A port at an end of an arrow: its type if known, its declaration, and the knot or task port
    behind it.
    """

    type: TensorType | None
    span: Span
    key: Key
    direction: s.Direction


@dataclass(slots=True)
class WiredUnit:
    """An instance inside a block. `broken` units have a fault already: no others are reported."""

    name: str
    span: Span
    inputs: dict[str, PortView] = field(default_factory=dict)
    outputs: dict[str, PortView] = field(default_factory=dict)
    broken: bool = False

    def side(self, direction: s.Direction) -> dict[str, PortView]:
        """Its inputs, or its outputs."""
        return self.inputs if direction == "in" else self.outputs

    @property
    def views(self) -> tuple[PortView, ...]:
        """All its ports."""
        return *self.inputs.values(), *self.outputs.values()


#: One end of an arrow: an instance, or a port of the graph around it.
End = WiredUnit | PortView


@dataclass(frozen=True, slots=True)
class InitialTokens:
    """A delay on an arrow: initial tokens, with a value for each, or zeros."""

    count: int
    values: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Resampled:
    """`repeat` or `last` on an arrow."""

    what: Resampling
    span: Span


Step = InitialTokens | Resampled


@dataclass(frozen=True, slots=True)
class WiredEdge:
    """From one port to another, through the clauses on the arrow, from left to right."""

    source: Key
    destination: Key
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class HopOfChain:
    """One hop of a chain, before ports are selected."""

    source: s.Endpoint
    destination: s.Endpoint
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LossyArrow:
    """An arrow from another app; `task` is the source that represents it in this one.

    `times` are the worst-case times of a firing at each of its ends, as far as they are declared.
    """

    source: s.Endpoint
    destination: s.Endpoint
    lossy: s.Lossy
    span: Span
    task: str = ""
    times: TimesByType = field(default_factory=dict)


def link_end(name: str, link: Link, port: Port, times: TimesByType, span: Span) -> Task:
    """The task at an end of an arrow between apps, with its only port."""
    return Task(
        name,
        "link",
        (port,) if link.writes else (),
        () if link.writes else (port,),
        (),
        (),
        (),
        False,
        times.get("", ()),
        None,
        "",
        span,
        live=not (link.writes or link.latest),
        link=link,
        wcet_on=tuple((on, amounts) for on, amounts in times.items() if on),
    )


@dataclass(slots=True)
class Connections:
    """What is connected in an app so far. `excused` ports may stay open: another fault is the
    reason.
    """

    edges: list[WiredEdge] = field(default_factory=list)
    fed: dict[Key, Span] = field(default_factory=dict)
    read: set[Key] = field(default_factory=set)
    excused: set[Key] = field(default_factory=set)

    def missing(self, key: Key) -> bool:
        """True if that input is never fed, and this is a fault of its own."""
        return key not in self.fed and key not in self.excused


@dataclass(slots=True)
class Wiring:
    """Selects ports for the arrows of one block and checks them."""

    context: Context
    evaluate: Evaluator
    units: dict[str, list[WiredUnit]]
    arrays: set[str]
    own: dict[str, PortView]
    scope: Scope
    connections: Connections
    #: The ports of each unit that arrows name, and those that none names, with their types.
    _named: dict[tuple[str, s.Direction], set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )
    _unnamed: dict[tuple[str, s.Direction], list[str]] = field(default_factory=dict)
    _free_by_type: dict[tuple[str, s.Direction], dict[TensorType | None, list[str]]] = field(
        default_factory=dict
    )
    _forgiven: set[tuple[str, s.Direction, bool]] = field(default_factory=set)

    def wire(self, arrows: list[HopOfChain]) -> None:
        """Add an edge for each arrow (for arrays: for each pair)."""
        pairs: list[tuple[HopOfChain, End, End]] = []
        for arrow in arrows:
            for left, right in self._pairs(arrow):
                pairs.append((arrow, left, right))
                self._note_named(arrow.source, left, "out")
                self._note_named(arrow.destination, right, "in")
        for arrow, left, right in pairs:
            self._connect(arrow, left, right)

    def _pairs(self, arrow: HopOfChain) -> list[tuple[End, End]]:
        """What an arrow joins: two ends, or the elements of arrays; none after a fault."""
        sources = self._resolve(arrow.source)
        targets = self._resolve(arrow.destination)
        if sources is None or targets is None:
            self._excuse(arrow, sources or (), targets or ())
            return []
        if len(sources) == 1:
            return [(sources[0], target) for target in targets]
        if len(targets) == 1:
            return [(source, targets[0]) for source in sources]
        if len(sources) != len(targets):
            message = f"{len(sources)} instances on the left, {len(targets)} on the right"
            help_text = "connect arrays of equal length, or pick elements: `name[0]`"
            self.context.fault("F212", message, arrow.span, help=help_text)
            self._excuse(arrow, sources, targets)
            return []
        return list(zip(sources, targets, strict=True))

    def _note_named(self, endpoint: s.Endpoint, end: End, direction: s.Direction) -> None:
        if endpoint.port is not None and isinstance(end, WiredUnit):
            self._named[end.name, direction].add(endpoint.port.text)

    def _connect(self, arrow: HopOfChain, left: End, right: End) -> None:
        """Add the edge between two ends."""
        if self._backwards(arrow, left, right):
            self._excuse(arrow, [left], [right])
            return
        given = self._types(arrow.source, left, "out")
        wanted = self._types(arrow.destination, right, "in")
        source = self._port(arrow.source, left, "out", wanted)
        target = self._port(arrow.destination, right, "in", given)
        if source is None or target is None:
            self._excuse(arrow, [left], [right])
            return
        connections = self.connections
        connections.read.add(source.key)
        if target.key in connections.fed:
            self._twice(arrow, target, connections.fed[target.key])
            return
        connections.fed[target.key] = arrow.span
        self._check_types(arrow, source, target)
        connections.edges.append(WiredEdge(source.key, target.key, arrow.steps, arrow.span))

    def _check_types(self, arrow: HopOfChain, source: PortView, target: PortView) -> None:
        if source.type is None or target.type is None or source.type == target.type:
            return
        notes = [
            Note(f"{source.type} comes from here", source.span),
            Note(f"{target.type} is wanted here", target.span),
        ]
        left, right = _short(source.key), _short(target.key)
        self.context.fault(
            "F205",
            f"`{left}` is {source.type}, `{right}` is {target.type}",
            arrow.span,
            label="these do not fit",
            notes=notes,
            help=_type_help(source.type, target.type),
        )

    def _backwards(self, arrow: HopOfChain, left: End, right: End) -> bool:
        """An arrow from an input to an output is one mistake, not two."""
        if isinstance(left, PortView) and isinstance(right, PortView):
            return False
        from_input = _is_meant(arrow.source.port, left, "in")
        to_output = _is_meant(arrow.destination.port, right, "out")
        if not (from_input and to_output):
            return False
        help_text = f"reverse it: `{_written(arrow.destination)} -> {_written(arrow.source)}`"
        self.context.fault(
            "F209",
            "this arrow points backwards",
            arrow.span,
            label="from an input to an output",
            help=help_text,
        )
        return True

    def _twice(self, arrow: HopOfChain, target: PortView, first: Span) -> None:
        name = _short(target.key)
        help_text = "an input has one source: remove one of the arrows, or add a port"
        self.context.fault(
            "F201",
            f"`{name}` is fed twice",
            arrow.span,
            notes=[Note("fed here first", first)],
            help=help_text,
        )

    def _excuse(self, arrow: HopOfChain, sources: Sequence[End], targets: Sequence[End]) -> None:
        """A faulty arrow is one fault: its other end is not reported as unconnected too."""
        for source in sources:
            self._excuse_end(arrow.source.port, source, "out")
        for target in targets:
            self._excuse_end(arrow.destination.port, target, "in")

    def _excuse_end(self, name: s.Word | None, end: End, direction: s.Direction) -> None:
        excused = self.connections.excused
        if isinstance(end, PortView):
            excused.add(end.key)
            return
        ports = end.side(direction)
        if name is not None and name.text in ports:
            excused.add(ports[name.text].key)
            return
        any_port = name is not None  # it is misspelt or reversed: each one may be meant
        if (end.name, direction, any_port) in self._forgiven:
            return
        self._forgiven.add((end.name, direction, any_port))
        views = end.views if any_port else ports.values()
        excused.update(view.key for view in views)

    def _excuse_all(self, name: str) -> None:
        """An arrow that means one of these instances has a fault."""
        for unit in self.units.get(name, ()):
            self.connections.excused.update(view.key for view in unit.views)

    # -- ends --------------------------------------------------------------------------------------
    def _resolve(self, endpoint: s.Endpoint) -> Sequence[End] | None:
        """What an end of an arrow denotes: a port of the graph, an instance, or all instances of an
        array; None after a fault.
        """
        element = endpoint.element
        name = element.name.text
        if len(endpoint.inner) > 1 or any(inner.index is not None for inner in endpoint.inner):
            message = f"`{_written(endpoint)}` is no port"
            help_text = "write `instance`, or `instance.port`"
            self.context.fault("F207", message, endpoint.span, help=help_text)
            return None
        if name in self.own and element.index is None:
            if endpoint.port is not None:
                message = f"`{name}` is a port itself and has no ports"
                self.context.fault("F207", message, endpoint.port.span)
                return None
            return [self.own[name]]
        units = self.units.get(name)
        if units is None:
            self._undeclared(element.name)
            return None
        if element.index is not None:
            units = self._element(name, element.index, units)
        if units is None or any(unit.broken for unit in units):
            return None
        return units

    def _undeclared(self, word: s.Word) -> None:
        """Report an instance that does not exist."""
        name = word.text
        if name in self.context.poisoned:
            return
        near = closest(name, chain(self.units, self.own))
        self._excuse_all(near)
        help_text = ""
        if near:
            help_text = f"did you mean `{near}`?"
        elif isinstance(self.context.names.get(name), s.AppDecl):
            help_text = "between apps only the newest tokens are kept: `App.task -> latest -> task`"
        elif name in self.context.names:
            help_text = f"declare an instance: `{name.lower()}: {name}`"
        wanted = "an instance or a port" if self.own else "an instance"
        message = f"`{name}` is not declared"
        label = f"{wanted} is needed here"
        self.context.fault("F101", message, word.span, label=label, help=help_text)

    def _element(self, name: str, index: s.Expr, units: list[WiredUnit]) -> list[WiredUnit] | None:
        """One instance of an array; None after a fault."""
        number = self.evaluate.integer(index, self.scope, "an index", 0)
        if number is None:
            return None
        if name in self.arrays and number < len(units):
            return [units[number]]
        message = f"`{name}` is no array"
        if name in self.arrays:
            message = f"`{name}` has {len(units)} elements"
        self.context.fault("F212", message, index.span, label="counted from 0")
        self._excuse_all(name)
        return None

    # -- ports -------------------------------------------------------------------------------------
    def _types(
        self, endpoint: s.Endpoint, end: End, direction: s.Direction
    ) -> AbstractSet[TensorType | None]:
        """The types of the ports that an end of an arrow may mean; None for an unknown one."""
        if isinstance(end, PortView):
            return {end.type}
        ports = end.side(direction)
        if endpoint.port is not None:
            name = endpoint.port.text
            return {ports[name].type if name in ports else None}
        return self._by_type(end.name, direction, ports).keys()

    def _port(
        self,
        endpoint: s.Endpoint,
        end: End,
        direction: s.Direction,
        others: AbstractSet[TensorType | None],
    ) -> PortView | None:
        """The port at an end of an arrow, whose other end has one of these types; None after a
        fault."""
        if isinstance(end, PortView):
            return self._own_port(endpoint, end, direction)
        if endpoint.port is not None:
            return self._port_of_name(endpoint.element.name.text, endpoint.port, end, direction)
        return self._free_port(endpoint, end, direction, others)

    def _port_of_name(
        self, instance: str, port: s.Word, unit: WiredUnit, direction: s.Direction
    ) -> PortView | None:
        ports, name = unit.side(direction), port.text
        if name in ports:
            return ports[name]
        side, opposite = _SIDES[direction]
        if name in unit.inputs or name in unit.outputs:
            message = f"`{instance}.{name}` is an {opposite}, not an {side}"
            help_text = "an arrow leads from an output to an input"
            self.context.fault("F209", message, port.span, help=help_text)
            return None
        help_text = f"it has no {side}s"
        if ports:
            help_text = did_you_mean(name, ports) or f"it has {one_of(ports)}"
        message = f"`{instance}` has no {side} `{name}`"
        self.context.fault("F207", message, port.span, help=help_text)
        return None

    def _by_type(
        self,
        unit: str,
        direction: s.Direction,
        ports: dict[str, PortView],
    ) -> dict[TensorType | None, list[str]]:
        """The free ports of a side by their types, of all ports where none is free; looked at once
        for all arrows."""
        if (unit, direction) not in self._free_by_type:
            found = self._free_by_type[unit, direction] = {}
            for port in self._free(unit, direction, ports) or ports:
                found.setdefault(ports[port].type, []).append(port)
        return self._free_by_type[unit, direction]

    def _free_port(
        self,
        endpoint: s.Endpoint,
        unit: WiredUnit,
        direction: s.Direction,
        others: AbstractSet[TensorType | None],
    ) -> PortView | None:
        """The only port of that side, or the only one that no arrow names, or the only one of these
        whose type fits the other end."""
        ports = unit.side(direction)
        name = endpoint.element.name.text
        side, _ = _SIDES[direction]
        if not ports:
            message = f"`{name}` has no {side}s"
            self.context.fault("F207", message, endpoint.span, help=_end_of_chain(direction))
            return None
        free = self._free(unit.name, direction, ports)
        if len(free) == 1:
            return ports[free[0]]
        if not free and len(ports) == 1:
            return next(iter(ports.values()))
        by_type = self._by_type(unit.name, direction, ports) if free else {}
        fitting = [own for type_, own in by_type.items() if type_ in others]
        if sum(map(len, fitting)) == 1 and None not in others:
            return ports[fitting[0][0]]
        if free:
            state = f"{one_of(free)} are free"
            help_text = f"name it: `{name}.{fitting[0][0] if fitting else free[0]}`"
            if not fitting and len(others) == 1 and None not in others:
                (other,) = others
                help_text = f"none of them is {other}, as the other end of the arrow is"
        else:
            state = "all are connected already"
            help_text = f"remove an arrow, or name one of {one_of(ports)}"
            if direction == "in":
                help_text = "an input has one source: remove an arrow, or add an input to the task"
        message = f"which {side} of `{name}` is meant is not clear: {state}"
        self.context.fault("F206", message, endpoint.span, help=help_text)
        return None

    def _free(self, unit: str, direction: s.Direction, ports: dict[str, PortView]) -> list[str]:
        """The ports of a unit that no arrow of the block names."""
        if (unit, direction) not in self._unnamed:
            named = self._named.get((unit, direction), ())
            self._unnamed[unit, direction] = [name for name in ports if name not in named]
        return self._unnamed[unit, direction]

    def _own_port(
        self, endpoint: s.Endpoint, view: PortView, direction: s.Direction
    ) -> PortView | None:
        # Inside, an `in` port is where data comes from, and an `out` port where it goes.
        is_input = view.direction == "in"
        if (direction == "out") == is_input:
            return view
        what = "an output here: data goes to it"
        if is_input:
            what = "an input here: data comes from it"
        self.context.fault("F209", f"`{view.key[1]}` is {what}", endpoint.span)
        return None


#: The words for a side of an instance, and for its other side.
_SIDES = {"in": ("input", "output"), "out": ("output", "input")}


def _is_meant(name: s.Word | None, end: End, direction: s.Direction) -> bool:
    """Does the name mean a port on that side of an end? Without a name: has it only these?"""
    if isinstance(end, PortView):
        return end.direction != direction  # seen from inside of the graph
    these, those = end.side(direction), end.side("out" if direction == "in" else "in")
    if name is None:
        return bool(these) and not those
    return name.text in these and name.text not in those


def _short(key: Key) -> str:
    return f"{key[0].rpartition('.')[2]}.{key[1]}"


def _written(endpoint: s.Endpoint) -> str:
    return ".".join(e.name.text for e in (endpoint.element, *endpoint.inner))


def _end_of_chain(direction: s.Direction) -> str:
    return "it can only end a chain" if direction == "out" else "it can only start a chain"


def _type_help(source: TensorType, target: TensorType) -> str:
    if source.largest == target.largest:
        return "write `up to` at both ends, or at none"
    if source.dtype == target.dtype and source.shape != target.shape:
        n = len(source.shape)
        if target.shape == (1, *source.shape):
            return f"make both {target}: in numpy `x[None]` adds the 1"
        if len(target.shape) == n + 1 and target.shape[1:] == source.shape:
            return (
                f"a port that takes {target.shape[0]} at once is `rate {target.shape[0]}` of type"
                f" {source}"
            )
        return "make the shapes equal, or put a task between them that reshapes"
    return "make the types equal, or put a task between them that converts"
