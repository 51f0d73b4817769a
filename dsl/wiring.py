"""Edges between ports from the arrows of one block: port selection and type checks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain

from ..model.application import Resampling
from ..model.diagnostic import Note, closest, did_you_mean, one_of
from ..model.span import Span
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .evaluate import Evaluator, Scope

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
class Unit:
    """An instance inside a block. `broken` units have a fault already: no others are reported."""

    name: str
    span: Span
    inputs: dict[str, PortView] = field(default_factory=dict)
    outputs: dict[str, PortView] = field(default_factory=dict)
    broken: bool = False


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
class Edge:
    """From one port to another, through the clauses on the arrow, from left to right."""

    source: Key
    destination: Key
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Arrow:
    """One hop of a chain, before ports are selected."""

    source: s.Endpoint
    destination: s.Endpoint
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LossyArrow:
    """An arrow from another app; `task` is the source that represents it in this one.

    `wcet_ns` is the worst-case time of a firing at each of its ends; empty if not declared.
    """

    source: s.Endpoint
    destination: s.Endpoint
    lossy: s.Lossy
    span: Span
    task: str = ""
    wcet_ns: tuple[Fraction, ...] = ()


@dataclass(slots=True)
class Wiring:
    """Selects ports for the arrows of one block and checks them."""

    context: Context
    evaluate: Evaluator
    units: dict[str, list[Unit]]
    arrays: set[str]
    own: dict[str, PortView]
    scope: Scope
    prefix: str
    _unnamed: dict[tuple[str, s.Direction], list[str]] = field(default_factory=dict)
    _forgiven: set[tuple[str, str, bool]] = field(default_factory=set)

    def wire(
        self,
        arrows: list[Arrow],
        edges: list[Edge],
        fed: dict[Key, Span],
        excused: set[Key],
        read: set[Key],
    ) -> None:
        """Add an edge for each arrow (for arrays: for each pair)."""
        pairs: list[tuple[Arrow, Unit | PortView, Unit | PortView]] = []
        for arrow in arrows:
            sources = self._resolve(arrow.source, excused)
            targets = self._resolve(arrow.destination, excused)
            if sources is None or targets is None:
                self._excuse(arrow, sources, targets, excused)
                continue
            if len(sources) > 1 and len(targets) not in (1, len(sources)):
                message = f"{len(sources)} instances on the left, {len(targets)} on the right"
                help_text = "connect arrays of equal length, or pick elements: `name[0]`"
                self.context.fault("F212", message, arrow.span, help=help_text)
                self._excuse(arrow, sources, targets, excused)
                continue
            n = max(len(sources), len(targets))
            left: list[Unit | PortView] = [*sources] * (n if len(sources) == 1 else 1)
            right: list[Unit | PortView] = [*targets] * (n if len(targets) == 1 else 1)
            pairs.extend((arrow, a, b) for a, b in zip(left, right, strict=True))
        explicit: dict[str, set[str]] = defaultdict(set)
        for arrow, a, b in pairs:
            if arrow.source.port is not None and isinstance(a, Unit):
                explicit[f">{a.name}"].add(arrow.source.port.text)
            if arrow.destination.port is not None and isinstance(b, Unit):
                explicit[f"<{b.name}"].add(arrow.destination.port.text)
        for arrow, a, b in pairs:
            if self._backwards(arrow, a, b):
                self._excuse(arrow, [a], [b], excused)
                continue
            source = self._port(arrow.source, a, "out", explicit)
            target = self._port(arrow.destination, b, "in", explicit)
            if source is None or target is None:
                self._excuse(arrow, [a], [b], excused)
                continue
            read.add(source.key)
            if target.key in fed:
                self._twice(arrow, target, fed[target.key])
                continue
            fed[target.key] = arrow.span
            if source.type is not None and target.type is not None and source.type != target.type:
                notes = [
                    Note(f"{source.type} comes from here", source.span),
                    Note(f"{target.type} is wanted here", target.span),
                ]
                message = (
                    f"`{_short(source.key)}` is {source.type}, `{_short(target.key)}` is"
                    f" {target.type}"
                )
                self.context.fault(
                    "F205",
                    message,
                    arrow.span,
                    label="these do not fit",
                    notes=notes,
                    help=_type_help(source.type, target.type),
                )
            edges.append(Edge(source.key, target.key, arrow.steps, arrow.span))

    def _backwards(self, arrow: Arrow, a: Unit | PortView, b: Unit | PortView) -> bool:
        """An arrow from an input to an output is one mistake, not two."""
        left, right = arrow.source, arrow.destination
        if isinstance(a, PortView) and isinstance(b, PortView):
            return False
        from_input = (
            a.direction == "out"
            if isinstance(a, PortView)
            else _names(left.port, a.inputs, a.outputs)
        )
        to_output = (
            b.direction == "in"
            if isinstance(b, PortView)
            else _names(right.port, b.outputs, b.inputs)
        )
        if not (from_input and to_output):
            return False
        help_text = f"reverse it: `{_written(right)} -> {_written(left)}`"
        self.context.fault(
            "F209",
            "this arrow points backwards",
            arrow.span,
            label="from an input to an output",
            help=help_text,
        )
        return True

    def _twice(self, arrow: Arrow, target: PortView, first: Span) -> None:
        name = _short(target.key)
        help_text = "an input has one source: remove one of the arrows, or add a port"
        self.context.fault(
            "F201",
            f"`{name}` is fed twice",
            arrow.span,
            notes=[Note("fed here first", first)],
            help=help_text,
        )

    def _meant(self, name: str, excused: set[Key]) -> None:
        """The port that a misspelt name most likely means is not reported as unconnected."""
        for unit in self.units.get(name, ()):
            excused.update(v.key for v in (*unit.inputs.values(), *unit.outputs.values()))

    def _excuse(
        self,
        arrow: Arrow,
        sources: list[Unit] | list[PortView] | list[Unit | PortView] | None,
        targets: list[Unit] | list[PortView] | list[Unit | PortView] | None,
        excused: set[Key],
    ) -> None:
        """A faulty arrow is one fault: its other end is not reported as unconnected too."""
        for ends, endpoint, side in (
            (sources, arrow.source, "outputs"),
            (targets, arrow.destination, "inputs"),
        ):
            for end in ends or ():
                if isinstance(end, PortView):
                    excused.add(end.key)
                    continue
                ports: dict[str, PortView] = getattr(end, side)
                named = endpoint.port.text if endpoint.port is not None else None
                if named in ports:
                    excused.add(ports[named].key)
                    continue
                both = named is not None  # misspelt or reversed: any port may be meant
                if (end.name, side, both) not in self._forgiven:
                    self._forgiven.add((end.name, side, both))
                    views = (
                        (*end.inputs.values(), *end.outputs.values()) if both else ports.values()
                    )
                    excused.update(v.key for v in views)

    def _resolve(
        self, endpoint: s.Endpoint, excused: set[Key]
    ) -> list[Unit] | list[PortView] | None:
        name = endpoint.element.name.text
        if len(endpoint.inner) > 1 or (endpoint.inner and endpoint.inner[0].index is not None):
            message = f"`{_written(endpoint)}` is no port"
            self.context.fault(
                "F207", message, endpoint.span, help="write `instance`, or `instance.port`"
            )
            return None
        if name in self.own and endpoint.element.index is None:
            if endpoint.port is not None:
                self.context.fault(
                    "F207", f"`{name}` is a port itself and has no ports", endpoint.port.span
                )
                return None
            return [self.own[name]]
        found = self.units.get(name)
        if found is None:
            if name not in self.context.poisoned:
                meant = closest(name, chain(self.units, self.own))
                self._meant(meant, excused)
                help_text = f"did you mean `{meant}`?" if meant else ""
                if not help_text and isinstance(self.context.names.get(name), s.AppDecl):
                    help_text = (
                        "between apps only the newest tokens are kept: `App.task -> latest -> task`"
                    )
                elif not help_text and name in self.context.names:
                    help_text = f"declare an instance: `{name.lower()}: {name}`"
                label = "an instance" + (" or a port" if self.own else "") + " is needed here"
                self.context.fault(
                    "F101",
                    f"`{name}` is not declared",
                    endpoint.element.name.span,
                    label=label,
                    help=help_text,
                )
            return None
        if endpoint.element.index is not None:
            index = self.evaluate.integer(endpoint.element.index, self.scope, "an index", 0)
            if index is None:
                return None
            if name not in self.arrays or index >= len(found):
                message = (
                    f"`{name}` has {len(found)} elements"
                    if name in self.arrays
                    else f"`{name}` is no array"
                )
                self.context.fault(
                    "F212", message, endpoint.element.index.span, label="counted from 0"
                )
                self._meant(name, excused)
                return None
            found = [found[index]]
        return None if any(u.broken for u in found) else found

    def _port(
        self,
        endpoint: s.Endpoint,
        end: Unit | PortView,
        way: s.Direction,
        explicit: dict[str, set[str]],
    ) -> PortView | None:
        if isinstance(end, PortView):
            return self._own_port(endpoint, end, way)
        ports = end.outputs if way == "out" else end.inputs
        others = end.inputs if way == "out" else end.outputs
        short = endpoint.element.name.text
        side = "output" if way == "out" else "input"
        if endpoint.port is not None:
            wanted = endpoint.port.text
            if wanted in ports:
                return ports[wanted]
            if wanted in others:
                code, message = (
                    "F209",
                    (
                        f"`{short}.{wanted}` is an {'input' if way == 'out' else 'output'}, not an"
                        f" {side}"
                    ),
                )
                help_text = "an arrow leads from an output to an input"
            else:
                code, message = "F207", f"`{short}` has no {side} `{wanted}`"
                help_text = did_you_mean(wanted, ports) or (
                    f"it has {one_of(ports)}" if ports else f"it has no {side}s"
                )
            self.context.fault(code, message, endpoint.port.span, help=help_text)
            return None
        if not ports:
            self.context.fault(
                "F207", f"`{short}` has no {side}s", endpoint.span, help=_end_of_chain(way)
            )
            return None
        free = self._free(end.name, way, ports, explicit)
        if len(free) == 1:
            return ports[free[0]]
        if not free and len(ports) == 1:
            return next(iter(ports.values()))
        message = f"which {side} of `{short}` is meant is not clear: "
        message += f"{one_of(free)} are free" if free else "all are connected already"
        help_text = (
            f"name it: `{short}.{free[0]}`"
            if free
            else f"remove an arrow, or name one of {one_of(ports)}"
        )
        if not free and way == "in":
            help_text = "an input has one source: remove an arrow, or add an input to the task"
        self.context.fault("F206", message, endpoint.span, help=help_text)
        return None

    def _free(
        self, unit: str, way: s.Direction, ports: dict[str, PortView], explicit: dict[str, set[str]]
    ) -> list[str]:
        """The ports of a unit that no arrow of the block names."""
        if (unit, way) not in self._unnamed:
            taken = explicit[(">" if way == "out" else "<") + unit]
            self._unnamed[unit, way] = [n for n in ports if n not in taken]
        return self._unnamed[unit, way]

    def _own_port(self, endpoint: s.Endpoint, view: PortView, way: s.Direction) -> PortView | None:
        # Inside, an `in` port is where data comes from, and an `out` port where it goes.
        is_input = view.direction == "in"
        if (way == "out") == is_input:
            return view
        what = (
            "an input here: data comes from it" if is_input else "an output here: data goes to it"
        )
        self.context.fault("F209", f"`{view.key[1]}` is {what}", endpoint.span)
        return None


def _names(port: s.Word | None, these: dict[str, PortView], those: dict[str, PortView]) -> bool:
    """Does the name mean one of `these` ports, and none of `those`? Without a name: are there only
    these?
    """
    if port is None:
        return bool(these) and not those
    return port.text in these and port.text not in those


def _short(key: Key) -> str:
    return f"{key[0].rpartition('.')[2]}.{key[1]}"


def _written(endpoint: s.Endpoint) -> str:
    return ".".join(e.name.text for e in (endpoint.element, *endpoint.inner))


def _end_of_chain(way: s.Direction) -> str:
    return "it can only end a chain" if way == "out" else "it can only start a chain"


def _type_help(source: TensorType, target: TensorType) -> str:
    if source.dtype == target.dtype and source.shape != target.shape:
        n = len(source.shape)
        if len(target.shape) == n + 1 and target.shape[1:] == source.shape:
            return (
                f"a port that takes {target.shape[0]} at once is `rate {target.shape[0]}` of type"
                f" {source}"
            )
        return "make the shapes equal, or put a task between them that reshapes"
    return "make the types equal, or put a task between them that converts"
