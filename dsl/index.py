"""The names of a text: the declaration and all occurrences of each.

In: the parsed text (`Loaded.specifications`), faulty or not. Out: an `Index`, for editors. Names
are looked up as in elaboration, but nothing is checked: undeclared names are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain
from typing import Literal

from ..model.span import Span
from . import syntax as s

Kind = Literal[
    "constant",
    "type",
    "task",
    "network",
    "graph",
    "app",
    "platform",
    "scenario",
    "parameter",
    "port",
    "state",
    "instance",
    "processor",
    "variant",
    "mode",
    "event",
    "machine",
]
#: The kinds of things that a text in quotes names.
Quoted = Literal["flow", "python", "c", "cuda", "onnx", "layer"]
_KINDS: dict[type, Kind] = {
    s.ConstDecl: "constant",
    s.TypeDecl: "type",
    s.TaskDecl: "task",
    s.NetworkDecl: "network",
    s.GraphDecl: "graph",
    s.AppDecl: "app",
    s.PlatformDecl: "platform",
    s.ScenarioDecl: "scenario",
}
#: Kinds whose names are looked up where no other kind is possible.
_APART = ("parameter", "variant", "mode")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that a text declares.

    `owner` is the declaration it belongs to, empty for declarations themselves; `span` is the name
    where it is declared, `whole` the declaration around it. `of` is the task, network or graph of
    an instance, `direction` that of a port.
    """

    kind: Kind
    name: str
    owner: str
    span: Span
    whole: Span
    doc: str = ""
    of: str = ""
    direction: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """A text in quotes that names a file, code in a file, or a layer of a network."""

    kind: Quoted
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """All names, all their occurrences (including declarations), and all texts in quotes."""

    symbols: tuple[Symbol, ...]
    uses: tuple[tuple[Span, Symbol], ...]
    quoted: tuple[Named, ...]

    def at(self, file: str, line: int, column: int) -> tuple[Span, Symbol] | None:
        """The name at a place, or right before it."""
        return next((u for u in self.uses if _covers(u[0], file, line, column)), None)

    def quoted_at(self, file: str, line: int, column: int) -> Named | None:
        """The text in quotes at a place."""
        return next((q for q in self.quoted if _covers(q.span, file, line, column)), None)

    def places(self, symbol: Symbol) -> tuple[Span, ...]:
        """All occurrences of a name, its declaration first."""
        spans = [span for span, used in self.uses if used is symbol]
        return tuple(dict.fromkeys([symbol.span, *spans]))

    def members(self, owner: str, *kinds: Kind) -> tuple[Symbol, ...]:
        """The names of a declaration; with an empty owner, the declarations."""
        return tuple(m for m in self.symbols if m.owner == owner and (not kinds or m.kind in kinds))

    def declared(self, name: str) -> Symbol | None:
        """The declaration of that name."""
        return next((m for m in self.symbols if not m.owner and m.name == name), None)


def index(specifications: Iterable[s.Specification]) -> Index:
    """Find all names of the files of a text."""
    finder = _Finder()
    declarations = list(chain.from_iterable(spec.declarations for spec in specifications))
    for declaration in declarations:
        finder.declare(declaration)
    for declaration in declarations:
        owner = "" if isinstance(declaration, _NAMELESS) else declaration.name.text
        finder.walk(declaration, owner)
    return Index(tuple(finder.symbols), tuple(finder.uses), tuple(finder.quoted))


def _covers(span: Span, file: str, line: int, column: int) -> bool:
    return span.file == file and (span.line, span.column) <= (line, column) <= (
        span.end_line,
        span.end_column,
    )


_NAMELESS = (s.UseDecl, s.MappingDecl)


class _Finder:
    """First all declarations, then all places: a name may be used before it is declared."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.uses: list[tuple[Span, Symbol]] = []
        self.quoted: list[Named] = []
        self._declared: dict[str, Symbol] = {}
        self._inner: dict[tuple[str, str], Symbol] = {}
        self._apart: dict[tuple[Kind, str, str], Symbol] = {}

    # -- declarations ------------------------------------------------------------------------------
    def declare(self, declaration: s.Declaration) -> None:
        """Record the names of a declaration, its own and those inside."""
        if isinstance(declaration, _NAMELESS):
            return
        name = declaration.name.text
        doc = "" if isinstance(declaration, s.ConstDecl | s.TypeDecl) else declaration.doc
        own = Symbol(
            _KINDS[type(declaration)], name, "", declaration.name.span, declaration.span, doc
        )
        self._add(own)
        # a duplicate is an error, and no other name refers to it
        self._declared.setdefault(name, own)
        params = declaration.params if isinstance(declaration, s.TaskDecl | s.GraphDecl) else ()
        items = () if isinstance(declaration, s.ConstDecl | s.TypeDecl) else declaration.items
        for item in (*params, *items):
            for inner in _inner(item, name):
                self._add(inner)
                if inner.kind in _APART:
                    self._apart.setdefault((inner.kind, name, inner.name), inner)
                else:
                    self._inner.setdefault((inner.owner, inner.name), inner)

    def _add(self, symbol: Symbol) -> None:
        self.symbols.append(symbol)
        self.uses.append((symbol.span, symbol))

    # -- places ------------------------------------------------------------------------------------
    def walk(self, node: object, owner: str) -> None:
        """Find names in a node of the syntax tree inside the declaration `owner`."""
        match node:
            case None | Span() | s.Word() | s.Text() | s.Number():
                return
            case tuple():
                for part in node:
                    self.walk(part, owner)
                return
            case s.UseDecl():
                self._quote("flow", node.file)
            case s.TypeExpr() | s.Name() | s.Extent():
                self._expression(node, owner)
            case s.ImplementationDecl() | s.ReferenceDecl():
                self._code(node, owner)
            case s.NetworkDecl() | s.NetPort() | s.VariantDecl():
                self._network(node, owner)
            case s.RunDecl() | s.ChoiceDecl() | s.TransitionDecl():
                self._of_scenario(node, owner)
            case s.InstanceDecl():
                self._instance(node, owner)
            case s.Endpoint():
                self._path((node.element, *node.inner), owner)
            case s.PathDeadlineDecl():
                self.walk(node.value, owner)
                self._path(node.source, owner)
                self._path(node.sink, owner)
            case s.WireDecl():
                for end in node.ends:
                    self._use(end, self._inner.get((owner, end.text)))
                self.walk((node.rate, node.latency), owner)
            case s.MappingDecl():
                self._mapping(node)
            case _ if is_dataclass(node):
                for field in fields(node):
                    self.walk(getattr(node, field.name), owner)
            case _:
                pass

    def _top(self, name: str, *kinds: Kind) -> Symbol | None:
        """The declaration of that name, if it is one of these kinds."""
        symbol = self._declared.get(name)
        return symbol if symbol is not None and symbol.kind in kinds else None

    def _use(self, word: s.Word | s.Name, symbol: Symbol | None) -> None:
        if symbol is not None and word.span != symbol.span:
            self.uses.append((word.span, symbol))

    def _quote(self, kind: Quoted, text: s.Text | None) -> None:
        if text is not None:
            self.quoted.append(Named(kind, text.value, text.span))

    def _expression(self, node: s.TypeExpr | s.Name | s.Extent, owner: str) -> None:
        match node:
            case s.TypeExpr():
                self._use(node.name, self._top(node.name.text, "type"))
                self.walk(node.shape, owner)
            case s.Name():
                parameter = self._apart.get(("parameter", owner, node.text))
                self._use(node, parameter or self._top(node.text, "constant"))
            case s.Extent():
                self._use(node.port, self._inner.get((owner, node.port.text)))
                self.walk(node.index, owner)

    def _network(self, node: s.NetworkDecl | s.NetPort | s.VariantDecl, owner: str) -> None:
        match node:
            case s.NetworkDecl():
                self._quote("onnx", node.file)
                self.walk(node.items, owner)
            case s.NetPort():
                self._quote("python", node.wrap)
                self.walk(node.type, owner)
                self.walk(node.value, owner)
                for sizes in node.sizes:
                    self.walk(sizes, owner)
            case s.VariantDecl():
                self._quote("onnx", node.file)
                for port in node.ports:
                    self._use(port.name, self._inner.get((owner, port.name.text)))
                self.walk((node.ports, node.accuracy), owner)

    def _code(self, node: s.ImplementationDecl | s.ReferenceDecl, owner: str) -> None:
        language: dict[str, Quoted] = {"python": "python", "c": "c", "cuda": "cuda"}
        if node.language.text in language:
            self._quote(language[node.language.text], node.code)
        if isinstance(node, s.ReferenceDecl):
            return
        for argument in node.arguments or ():  # ports and memory come first there
            if isinstance(argument, s.Name) and (owner, argument.text) in self._inner:
                self._use(argument, self._inner[owner, argument.text])
            else:
                self.walk(argument, owner)
        self.walk(node.grid, owner)
        self.walk(node.block, owner)
        self.walk(node.shared, owner)

    def _instance(self, node: s.InstanceDecl, owner: str) -> None:
        self._use(node.of, self._top(node.of.text, "task", "network", "graph"))
        self.walk(node.element.index, owner)
        for arg in node.args:
            self._use(arg.name, self._apart.get(("parameter", node.of.text, arg.name.text)))
            self.walk(arg.value, owner)
        self.walk(node.every, owner)
        self.walk(node.lossy, owner)

    def _path(self, path: tuple[s.Element, ...], owner: str) -> None:
        """`instance.port` of a block, or `App.instance.port`."""
        for element in path:
            self.walk(element.index, owner)
        first = self._inner.get((owner, path[0].name.text))
        self._along(path, first or self._top(path[0].name.text, "app"))

    def _along(self, path: tuple[s.Element, ...], first: Symbol | None) -> Symbol | None:
        """Record the names of a path that begins with `first`; the name that it ends with, if
        known.
        """
        symbol = first
        for position, element in enumerate(path):
            if position > 0 and symbol is not None:
                owner = symbol.of if symbol.kind == "instance" else symbol.name
                symbol = self._inner.get((owner, element.name.text))
            if symbol is None:
                return None
            self._use(element.name, symbol)
        return symbol

    def _of_scenario(self, node: s.RunDecl | s.ChoiceDecl | s.TransitionDecl, owner: str) -> None:
        match node:
            case s.RunDecl():
                for app in node.apps:
                    self._use(app, self._top(app.text, "app"))
                self.walk((node.period, node.levels, node.deadline), "")
            case s.ChoiceDecl():
                network = self._along(node.path, self._top(node.path[0].name.text, "app"))
                if network is not None:
                    self._use(
                        node.variant, self._apart.get(("variant", network.of, node.variant.text))
                    )
            case s.TransitionDecl():
                for mode in (*node.sources, node.target):
                    self._use(mode, self._apart.get(("mode", owner, mode.text)))
                for event in node.events:
                    self._path(event, owner)
                self.walk(node.after, "")

    def _mapping(self, node: s.MappingDecl) -> None:
        platform = node.platform.text
        self._use(node.platform, self._top(platform, "platform"))
        for pin in node.pins:
            self._pin(pin, platform)
        for clock in node.clocks:
            self._clock(clock, platform)

    def _clock(self, clock: s.ClockDecl, platform: str) -> None:
        self._use(clock.pool, self._inner.get((platform, clock.pool.text)))
        self.walk(clock.rate, "")
        scenario, *states = (element.name for element in clock.state)
        self._use(scenario, self._top(scenario.text, "scenario"))
        for state in states:
            self._use(state, self._apart.get(("mode", scenario.text, state.text)))

    def _pin(self, pin: s.PinDecl, platform: str) -> None:
        self._along(pin.path, self._top(pin.path[0].name.text, "app"))
        for stage in pin.stages:
            for processor in stage.processors:
                self._processor(processor, platform)
            self._quote("layer", stage.until)
            self.walk((stage.streams, stage.threads), "")
        self.walk((pin.wcet, pin.buffers, pin.pre, pin.post), "")
        for element in pin.path:
            self.walk(element.index, "")

    def _processor(self, processor: s.ProcessorName, platform: str) -> None:
        owner, machine = platform, processor.machine
        if machine is not None:
            self._use(machine, self._inner.get((platform, machine.text)))
            owner = f"{platform}.{machine.text}"
        self._use(processor.name, self._inner.get((owner, processor.name.text)))
        self.walk(processor.index, "")


def _inner(item: object, owner: str) -> Iterator[Symbol]:
    """The names of an item of a declaration."""
    match item:
        case s.Param():
            yield Symbol("parameter", item.name.text, owner, item.name.span, item.span)
        case s.PortDecl() | s.NetPort() | s.Boundary():
            yield Symbol(
                "port", item.name.text, owner, item.name.span, item.span, direction=item.direction
            )
        case s.StateDecl() | s.ScratchDecl():
            yield Symbol("state", item.name.text, owner, item.name.span, item.span)
        case s.InstanceDecl():
            name = item.element.name
            yield Symbol("instance", name.text, owner, name.span, item.span, item.doc, item.of.text)
        case s.PoolDecl():
            yield Symbol("processor", item.name.text, owner, item.name.span, item.span)
        case s.MachineDecl():
            yield Symbol("machine", item.name.text, owner, item.name.span, item.span)
            for part in item.items:
                yield from _inner(part, f"{owner}.{item.name.text}")
        case s.VariantDecl():
            yield Symbol("variant", item.name.text, owner, item.name.span, item.span)
        case s.ModeDecl():
            yield Symbol("mode", item.name.text, owner, item.name.span, item.span)
        case s.EventsDecl():
            yield from (Symbol("event", n.text, owner, n.span, item.span) for n in item.names)
        case _:
            pass
