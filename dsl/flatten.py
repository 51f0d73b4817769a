"""Apps and composites to flat tasks and channels.

A block (an app or a graph) has units (its instances) and arrows between their ports. Ports of a composite are
knots: an arrow into one goes on inside, so that in the end every channel joins two tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from ..model.application import Application, Channel, Port, Task
from ..model.diagnostic import Note, listed
from ..model.span import Span
from ..model.types import TensorType
from . import syntax as s
from .components import Components
from .context import Context
from .evaluate import Evaluator, Scope
from .template import Template
from .wiring import Arrow, Edge, Key, PortView, Unit, Wiring

#: A text with more instances, an app with more phases or values of initial tokens in all, or graphs that stand deeper
#: inside each other are a mistake in a number.
MOST_INSTANCES = 50_000
MOST_PHASES = 1_000_000
MOST_INITIAL = 1_000_000
DEEPEST = 64


class Flattener:
    """Flattens one app."""

    def __init__(self, context: Context, evaluator: Evaluator, components: Components) -> None:
        self._context = context
        self._evaluate = evaluator
        self._components = components
        self._tasks: list[Task] = []
        self._phases = 0
        self._initial = 0
        self._skipped: set[str] = set()
        self._types: dict[Key, TensorType | None] = {}
        self._edges: list[Edge] = []
        self._fed: dict[Key, Span] = {}
        self._excused: set[Key] = set()
        self._read: set[Key] = set()

    # -- apps ------------------------------------------------------------------------------------------------------
    def app(self, declaration: s.AppDecl) -> Application:
        """The flat application; faults go to the context."""
        timing: dict[str, Fraction | None] = {}
        priority = 0
        places: dict[str, Span] = {}
        for item in declaration.items:
            if isinstance(item, (s.Timing, s.Setting)):
                if item.key in places:
                    note = Note("the first one", places[item.key])
                    self._context.fault("F115", f"`{item.key}` is given twice", item.span, notes=[note])
                places[item.key] = item.span
            if isinstance(item, s.Timing):
                timing[item.key] = self._time(item)
            elif isinstance(item, s.Setting) and not isinstance(item.value, s.Word):
                value = self._evaluate.integer(item.value, {}, "the priority", -(2**31))
                priority = value if value is not None else 0
        blocks = [i for i in declaration.items if isinstance(i, (s.InstanceDecl, s.Chain))]
        name = declaration.name.text
        if not blocks:
            self._context.fault(
                "F215", f"app `{name}` is empty", declaration.name.span, help="add an instance: `name: Task`"
            )
        self._block(blocks, {}, name, {}, ())
        channels = tuple(self._channels())
        self._unread()
        return Application(
            name,
            tuple(self._tasks),
            channels,
            timing.get("period"),
            timing.get("deadline"),
            priority,
            declaration.doc,
            declaration.name.span,
        )

    def alone(self, declaration: s.GraphDecl, arguments: Scope) -> None:
        """Check a graph that no app uses: its faults go to the context, nothing is kept."""
        name = declaration.name
        item = s.InstanceDecl(s.Element(name, None, name.span), name, (), "", name.span)
        self._graph(declaration, arguments, name.text, item, ())

    def _time(self, item: s.Timing) -> Fraction | None:
        value = self._evaluate.quantity(item.value.amount, item.value.unit, "time", f"a {item.key}", {})
        if value == 0:
            self._context.fault("F105", f"a {item.key} of 0", item.value.span, label="must be longer")
            return None
        return value

    # -- blocks ----------------------------------------------------------------------------------------------------
    def _block(
        self,
        items: list[s.InstanceDecl | s.Chain],
        scope: Scope,
        prefix: str,
        own: dict[str, PortView],
        open_graphs: tuple[str, ...],
    ) -> None:
        """Instantiate everything of a block and connect it. `own` are the ports of the graph the block belongs to."""
        units: dict[str, list[Unit]] = {}
        arrays: set[str] = set()
        places: dict[str, Span] = {name: view.span for name, view in own.items()}
        for item in items:
            if isinstance(item, s.InstanceDecl):
                name = item.element.name.text
                if name in places:
                    what = "a port and an instance" if name in own else "two instances"
                    self._context.fault(
                        "F102",
                        f"{what} are called `{name}`",
                        item.element.name.span,
                        notes=[Note("the first one", places[name])],
                    )
                    continue
                places[name] = item.element.name.span
                units[name] = self._instances(item, scope, f"{prefix}.{name}", open_graphs)
                if item.element.index is not None:
                    arrays.add(name)
        self._skipped = set()
        arrows = [a for item in items if isinstance(item, s.Chain) for a in self._arrows(item, scope)]
        skipped = [u for name in self._skipped for u in units.get(name, ())]
        self._excused.update(v.key for u in skipped for v in (*u.inputs.values(), *u.outputs.values()))
        Wiring(self._context, self._evaluate, units, arrays, own, scope, prefix).wire(
            arrows, self._edges, self._fed, self._excused, self._read
        )
        for unit in (u for group in units.values() for u in group):
            self._never_fed(unit)

    def _never_fed(self, unit: Unit) -> None:
        if unit.broken:
            return
        missing = [n for n, view in unit.inputs.items() if view.key not in self._fed and view.key not in self._excused]
        if missing:
            shown = listed(missing)
            short = unit.name.partition(".")[2]
            notes = [Note(f"`{n}` is declared here", unit.inputs[n].span) for n in missing[:3]]
            what = f"input {shown} of `{short}` is" if len(missing) == 1 else f"inputs {shown} of `{short}` are"
            help_text = f"add `... -> {short.rpartition('.')[2]}.{missing[0]}`"
            self._context.fault("F202", f"{what} never fed", unit.span, notes=notes, help=help_text)

    def _unread(self) -> None:
        for task in self._tasks:
            for port in task.outputs:
                if (task.name, port.name) not in self._read and (task.name, port.name) not in self._excused:
                    short = task.name.partition(".")[2]
                    self._context.fault(
                        "F208",
                        f"nobody reads output `{port.name}` of `{short}`",
                        task.span,
                        label="it is discarded",
                        help="connect it, or remove the port",
                        severity="warning",
                    )

    # -- instances -------------------------------------------------------------------------------------------------
    def _instances(self, item: s.InstanceDecl, scope: Scope, name: str, open_graphs: tuple[str, ...]) -> list[Unit]:
        span = item.element.span
        if item.element.index is None:
            return [self._noted(self._instance(item, scope, name, open_graphs))]
        count = self._evaluate.integer(item.element.index, scope, "the number of instances", 1)
        if count is not None and count > MOST_INSTANCES:
            self._context.fault(
                "F105", f"{count} instances", item.element.index.span, label=f"at most {MOST_INSTANCES}"
            )
            count = None
        if count is None:
            return [Unit(name, span, broken=True)]
        indices = ((f"{name}[{i}]", {**scope, "index": i}) for i in range(count))
        return [self._noted(self._instance(item, inner, full, open_graphs)) for full, inner in indices]

    def _noted(self, unit: Unit) -> Unit:
        if unit.broken:
            self._context.broken.add(unit.name)
        return unit

    def _instance(self, item: s.InstanceDecl, scope: Scope, name: str, open_graphs: tuple[str, ...]) -> Unit:
        span = item.element.span
        broken = Unit(name, span, broken=True)
        self._context.instances += 1
        if self._context.instances > MOST_INSTANCES:
            help_text = "a composite inside composites multiplies"
            self._context.fault("F105", f"more than {MOST_INSTANCES} instances", item.of.span, help=help_text)
            return broken
        kinds = (s.TaskDecl, s.NetworkDecl, s.GraphDecl)
        declaration = self._context.lookup(item.of, kinds, "a task, network or graph")
        if declaration is None:
            return broken
        assert isinstance(declaration, kinds)
        params = () if isinstance(declaration, s.NetworkDecl) else declaration.params
        arguments = self._components.bind(params, item.args, item.of, scope)
        if arguments is None:
            return broken
        note = Note(f"with the arguments of `{name}`", item.span) if arguments else None
        with self._context.within(note):
            if isinstance(declaration, s.GraphDecl):
                return self._graph(declaration, arguments, name, item, open_graphs) or broken
            template = self._components.template(declaration, arguments)
        return broken if template is None else self._stamp(template, name, item)

    def _stamp(self, template: Template, name: str, item: s.InstanceDecl) -> Unit:
        def full(relative: str) -> str:
            return f"{name}.{relative}" if relative else name

        span = item.element.span
        self._phases += sum(task.phases for task in template.tasks)
        if self._phases > MOST_PHASES:
            help_text = "every instance has those of its task"
            self._context.fault("F105", f"more than {MOST_PHASES} phases", item.of.span, help=help_text)
            return Unit(name, span, broken=True)
        for task in template.tasks:
            self._tasks.append(replace(task, name=full(task.name), span=span, doc=item.doc or task.doc))
        for link in template.links:
            source, destination = (full(link.source), link.source_port), (full(link.destination), link.destination_port)
            self._edges.append(Edge(source, destination, 0, (), span))
            self._fed[destination] = span
            self._read.add(source)

        def views(ports: dict[str, tuple[str, Port]]) -> dict[str, PortView]:
            return {
                n: PortView(port.type, port.span, (full(where), port.name), port.direction)
                for n, (where, port) in ports.items()
            }

        return Unit(name, span, views(template.inputs), views(template.outputs))

    def _graph(
        self, declaration: s.GraphDecl, arguments: Scope, name: str, item: s.InstanceDecl, open_graphs: tuple[str, ...]
    ) -> Unit | None:
        kind = declaration.name.text
        self._context.used_graphs.add(kind)
        if kind in open_graphs:
            cycle = " -> ".join([*open_graphs[open_graphs.index(kind) :], kind])
            self._context.fault("F113", f"graph `{kind}` contains itself: {cycle}", item.of.span)
            return None
        if len(open_graphs) == DEEPEST:
            self._context.fault("F105", f"graphs stand more than {DEEPEST} deep inside each other", item.of.span)
            return None
        unit = Unit(name, item.element.span)
        inside: dict[str, PortView] = {}
        for part in declaration.items:
            if isinstance(part, s.Boundary):
                if part.name.text in inside:
                    note = Note("the first one", inside[part.name.text].span)
                    self._context.fault(
                        "F102", f"two ports are called `{part.name.text}`", part.name.span, notes=[note]
                    )
                    continue
                type_ = None if part.type is None else self._evaluate.type(part.type, arguments)
                view = PortView(type_, part.span, (name, part.name.text), part.direction)
                inside[part.name.text] = view
                (unit.inputs if part.direction == "in" else unit.outputs)[part.name.text] = view
        blocks = [i for i in declaration.items if isinstance(i, (s.InstanceDecl, s.Chain))]
        for port in unit.inputs.values():
            self._fed.setdefault(port.key, port.span)
        self._block(blocks, arguments, name, inside, (*open_graphs, kind))
        for port in unit.inputs.values():
            self._fed.pop(port.key)
        for port_name, view in unit.outputs.items():
            if view.key not in self._fed and view.key not in self._excused:
                help_text = f"add `... -> {port_name}` to the graph"
                self._context.fault(
                    "F202", f"output `{port_name}` of graph `{kind}` is never fed", view.span, help=help_text
                )
            self._fed.pop(view.key, None)
        return unit

    # -- chains ----------------------------------------------------------------------------------------------------
    def _arrows(self, chain: s.Chain, scope: Scope) -> Iterator[Arrow]:
        current: s.Endpoint | None = None
        delay, values, pending = 0, tuple[Fraction, ...](), None
        for i, hop in enumerate(chain.hops):
            if isinstance(hop, s.Delay):
                count, given = self._delay(hop, scope)
                # Tokens nearer to the destination are read first.
                values = (
                    (given or (Fraction(0),) * count) + (values or (Fraction(0),) * delay) if given or values else ()
                )
                delay += count
                pending = hop
                continue
            for endpoint in hop.endpoints:
                if current is not None:
                    yield Arrow(current, endpoint, delay, values, current.span.to(endpoint.span))
            if len(hop.endpoints) > 1 and i + 1 < len(chain.hops):
                help_text = "a comma fans out at the end of a chain; write one chain for each branch"
                self._context.fault("F214", "this chain goes on after a fan-out", hop.endpoints[1].span, help=help_text)
                rest = (e for later in chain.hops[i:] if isinstance(later, s.Targets) for e in later.endpoints)
                self._skipped.update(e.element.name.text for e in rest)
                return
            current, delay, values, pending = hop.endpoints[0], 0, (), None
        if pending is not None:
            self._context.fault("F210", "this delay leads nowhere", pending.span, help="add `-> instance` after it")

    def _delay(self, hop: s.Delay, scope: Scope) -> tuple[int, tuple[Fraction, ...]]:
        count = self._evaluate.integer(hop.count, scope, "the delay", 0)
        if count is None or hop.values is None:
            return count or 0, ()
        if count > MOST_INITIAL:
            self._context.fault(
                "F105", f"values for {count} initial tokens", hop.count.span, label=f"at most {MOST_INITIAL}"
            )
            return count, ()
        values = [self._evaluate.number(v, scope, "an initial token") for v in hop.values]
        known = tuple(v for v in values if v is not None)
        if len(known) != len(values):
            return count, ()
        if hop.listed and len(known) != count:
            self._context.fault(
                "F210", f"{len(known)} values for a delay of {count}", hop.span, help="give one value per token"
            )
            return count, ()
        return count, known if hop.listed else known * count

    # -- channels --------------------------------------------------------------------------------------------------
    def _channels(self) -> Iterator[Channel]:
        """Follow every task output through the knots to task inputs."""
        leaves = {(t.name, p.name) for t in self._tasks for p in (*t.inputs, *t.outputs)}
        self._types = {(t.name, p.name): p.type for t in self._tasks for p in t.outputs}
        following: dict[Key, list[Edge]] = defaultdict(list)
        for edge in self._edges:
            following[edge.source].append(edge)
        for task in self._tasks:
            for port in task.outputs:
                stack = [(edge, 0, tuple[Fraction, ...]()) for edge in reversed(following[task.name, port.name])]
                while stack:
                    edge, delay, values = stack.pop()
                    total = delay + edge.delay
                    if values or edge.values:
                        if not self._may_hold(total, edge):
                            return
                        values = (edge.values or (Fraction(0),) * edge.delay) + (values or (Fraction(0),) * delay)
                    if edge.destination in leaves:
                        yield self._channel(task.name, port.name, edge, total, values)
                    else:
                        stack.extend((e, total, values) for e in reversed(following[edge.destination]))

    def _may_hold(self, count: int, edge: Edge) -> bool:
        """Count values of initial tokens, before they are listed."""
        self._initial += count
        if self._initial > MOST_INITIAL:
            message = f"more than {MOST_INITIAL} initial tokens with values"
            self._context.fault("F105", message, edge.span, help="without a value, tokens are zero and need no list")
        return self._initial <= MOST_INITIAL

    def _channel(self, task: str, port: str, edge: Edge, delay: int, values: tuple[Fraction, ...]) -> Channel:
        to, to_port = edge.destination
        kind = self._types.get((task, port))
        several = {id(v): v for v in values}.values()  # a delay of many tokens repeats one value
        bad = next((v for v in several if kind is not None and not _fits(v, kind.dtype)), None)
        if bad is not None:
            shown = bad if bad.denominator == 1 else float(bad)
            message = f"the initial token {shown} is no {kind.dtype if kind is not None else ''}"
            self._context.fault("F210", message, edge.span, help="give values that the type can hold")
        return Channel(f"{task}.{port}->{to}.{to_port}", task, port, to, to_port, delay, values, edge.span)


def _fits(value: Fraction, dtype: str) -> bool:
    """Can a token of that dtype hold the value? Floating-point numbers round; whole ones do not."""
    if dtype == "bool":
        return value in (0, 1)
    if not dtype.startswith(("int", "uint")):
        return True
    signed, bits = dtype.startswith("int"), int(dtype.lstrip("uint"))
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return value.denominator == 1 and low <= value <= high
