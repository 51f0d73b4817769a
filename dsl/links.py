"""Steps after all apps are flat: arrows between apps, and periods from `every` of a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from ..analysis.dataflow.chains import chain_ways
from ..analysis.dataflow.repetition import repetition
from ..model.application import Application, ChainDeadline, ChainKind, Channel, Link, Port, Task
from ..model.diagnostic import Note, listed, one_of
from ..model.types import TensorType
from . import syntax as s
from .context import Context
from .flatten import Flattener
from .wiring import LossyArrow, link_end


def joined(
    apps: Sequence[Application], flatteners: Sequence[Flattener], context: Context
) -> list[Application]:
    """The apps with both ends of all links, and with the periods of their sources."""
    growing = {a.name: _Growing(a) for a in apps}
    known = {f.name: f for f in flatteners}
    for flattener in flatteners:
        for arrow in flattener.links:
            _join(arrow, growing, flattener.name, known, context)
    for flattener in flatteners:
        flattener.unread()
    made = [app.grown for app in growing.values()]
    for app in made:
        _may_skip(app, context)
    _may_begin(made, context)
    torn = {f.name for f in flatteners if f.torn}
    made = [app if app.name in torn else _paced(app, context) for app in made]
    for flattener in flatteners:
        for item in flattener.chains:
            made = _chained(made, item, flattener, known, context)
    return made


class _Growing:
    """An app that gets ends of links: `tasks` and `channels` are mutable, and `grown` is the app
    with them.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self.tasks = {t.name: t for t in app.tasks}
        self.channels = list(app.channels)
        self._readers: dict[str, Channel] = {}
        for channel in app.channels:
            self._readers.setdefault(channel.source, channel)
        self._numbers: dict[str, int] = {}

    @property
    def grown(self) -> Application:
        """The app as it is by now."""
        return replace(self._app, tasks=tuple(self.tasks.values()), channels=tuple(self.channels))

    def first_reader(self, task: str) -> Port | None:
        """The input that its first channel leads to."""
        channel = self._readers.get(task)
        if channel is None:
            return None
        return self.tasks[channel.destination].port(channel.destination_port)

    def free_name(self, stem: str) -> str:
        """A name that no task has: the stem, with a number where that is taken."""
        for number in count(self._numbers.get(stem, 1)):
            name = stem if number == 1 else f"{stem}{number}"
            if name not in self.tasks:
                self._numbers[stem] = number + 1
                return name
        raise AssertionError("there is always one more number")


def _may_begin(apps: Sequence[Application], context: Context) -> None:
    """Report apps that take tokens of each other in a circle: the first of them never comes."""
    writers: dict[str, Task] = {}
    readers: list[tuple[Task, str]] = []
    for app in apps:
        for task in app.tasks:
            if task.link is not None and task.link.writes:
                writers[task.link.name] = task
            elif task.link is not None and not task.link.latest:
                readers.append((task, app.name))
    if len(readers) < 2:
        return
    import networkx as nx  # importing it is slow

    graph: nx.DiGraph[str] = nx.DiGraph(arrow for app in apps for arrow in _first_waits(app))
    for task, _ in readers:
        if task.link is not None and task.link.name in writers:
            graph.add_edge(writers[task.link.name].name, task.name)
    for circle in nx.strongly_connected_components(graph):
        ends = [(task, app) for task, app in readers if task.name in circle]
        if len(circle) > 1 and ends:
            names = listed(dict.fromkeys(app for _, app in ends))
            message = f"{names} wait for tokens of each other"
            notes = [Note("and here", task.span) for task, _ in ends[1:]]
            help_text = "read one of them with `latest`, which begins with zeros"
            context.fault("F204", message, ends[0][0].span, notes=notes, help=help_text)


def _first_waits(app: Application) -> Iterator[tuple[str, str]]:
    """A task, and one that cannot fire for the first time before it."""
    tasks = {task.name: task for task in app.tasks}
    for channel in app.channels:
        reads = tasks[channel.destination].port(channel.destination_port).rates
        if not channel.delay and reads[0]:
            yield channel.source, channel.destination


def _may_skip(app: Application, context: Context) -> None:
    """Report tasks that skip frames and reach a cycle, which would lose all later frames."""
    if all(task.on_error == "stop" for task in app.tasks):
        return
    cycles = _cycles(app)
    for task in app.tasks:
        if task.on_error == "stop" or task.name not in cycles:
            continue
        short, place = task.name.partition(".")[2], cycles[task.name].partition(".")[2]
        message = (
            f"frames cannot be skipped at `{short}`: `{place}` is on a cycle, which would lose all"
            " later ones"
        )
        help_text = "catch errors in the task itself, and return a value"
        context.fault("F217", message, task.span, help=help_text)


def _cycles(app: Application) -> dict[str, str]:
    """Of each task that is on a cycle, or leads to one, a task on it: itself, else the first one by
    name.
    """
    import networkx as nx

    graph = nx.DiGraph((c.source, c.destination) for c in app.channels)
    looped = {name for name in graph if graph.has_edge(name, name)}
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            looped |= component
    cycle_of: dict[str, str] = {}
    for end in sorted(looped):
        waiting = [end]
        while waiting:
            name = waiting.pop()
            if name not in cycle_of:
                cycle_of[name] = end
                waiting += graph.predecessors(name)
    return cycle_of | {name: name for name in looped}


def _join(
    arrow: LossyArrow,
    apps: dict[str, _Growing],
    reader: str,
    known: dict[str, Flattener],
    context: Context,
) -> None:
    """Add the end that writes, and give the end that reads its type."""
    source = arrow.source
    name = source.element.name.text
    writer = known.get(name)
    if writer is None or name == reader or source.element.index is not None:
        if name not in context.poisoned:
            message = f"`{_text(source)}` is no task of another app"
            help_text = ""
            if writer is None or name == reader:
                help_text = (
                    "`latest` and `drop` join two apps: move the reader into an app of its own"
                )
            context.fault("F219", message, source.span, help=help_text)
        return
    key = writer.output(source.inner)
    if isinstance(key, str):
        message = f"`{_text(source)}` is no output of app `{name}`"
        context.fault("F219", message, source.span, help=key)
        return
    writer.reads(key)
    app = apps[reader]
    end = app.tasks[arrow.task]
    assert end.link is not None
    port = apps[name].tasks[key[0]].port(key[1])
    reader_port = app.first_reader(arrow.task)
    if reader_port is not None:
        _check_types(arrow, port, reader_port, context)
        _check_lists(arrow, port, reader_port, context)
    type_ = port.type
    if type_ is None and reader_port is not None:
        type_ = reader_port.type
    app.tasks[end.name] = replace(end, outputs=(_end_of(port, end.outputs[0], type_),))
    _write(apps[name], name, key, arrow, type_, end.link)


def _check_types(arrow: LossyArrow, port: Port, reader_port: Port, context: Context) -> None:
    """The output of one app fits the input of the other."""
    if port.type is None or reader_port.type is None or reader_port.type == port.type:
        return
    notes = [
        Note(f"{port.type} comes from here", port.span),
        Note(f"{reader_port.type} is wanted here", reader_port.span),
    ]
    message = f"`{_text(arrow.source)}` is {port.type}, `{reader_port.name}` is {reader_port.type}"
    context.fault("F205", message, arrow.span, label="these do not fit", notes=notes)


def _check_lists(arrow: LossyArrow, port: Port, reader_port: Port, context: Context) -> None:
    """A port that reads lists gets lists: single tokens would be looked at again and again."""
    if reader_port.count and not port.count:
        message = (
            f"`{reader_port.name}` reads up to {reader_port.rates[0]} tokens, and"
            f" `{_text(arrow.source)}` hands on one at a time"
        )
        notes = [Note("the list is read here", reader_port.span)]
        help_text = (
            f"write `rate up to {reader_port.rates[0]}` at the port of `{_text(arrow.source)}`"
            " too, or leave it out where it is read"
        )
        context.fault("F221", message, arrow.span, notes=notes, help=help_text)


def _end_of(written: Port, end: Port, kind: TensorType | None) -> Port:
    """The port at an end of a mailbox for what a port has written: a list is one token there."""
    if not written.count:
        return replace(end, type=kind)
    return replace(end, type=kind, rates=written.rates, stacked=True, count=written.count)


def _text(endpoint: s.Endpoint) -> str:
    return ".".join(e.name.text for e in (endpoint.element, *endpoint.inner))


def _write(
    app: _Growing,
    name: str,
    key: tuple[str, str],
    arrow: LossyArrow,
    kind: TensorType | None,
    link: Link,
) -> None:
    """Give the app a sink that writes the port's tokens to the link."""
    sink = app.free_name(f"{name}.to_{arrow.task.partition('.')[0]}")
    written = app.tasks[key[0]].port(key[1])
    port = _end_of(written, Port("in", "in", None, (1,), False, arrow.span), kind)
    link = replace(link, writes=True)
    app.tasks[sink] = link_end(sink, link, port, arrow.times, arrow.span)
    app.channels.append(
        Channel(f"{key[0]}.{key[1]}->{sink}.in", *key, sink, "in", 0, (), arrow.span)
    )


# -- chains ----------------------------------------------------------------------------------------
def _chained(
    apps: list[Application],
    item: s.PathDeadlineDecl,
    reader: Flattener,
    known: dict[str, Flattener],
    context: Context,
) -> list[Application]:
    """The apps with a limit on an age or on a reaction, from one of them to another."""
    sink, value = reader.end(item.sink, True), reader.deadline(item)
    source = _source(item, reader, known, context)
    if source is None or sink is None or value is None:
        return apps
    if source.inputs:
        help_text = "a deadline counts from the release of a source"
        context.fault("F219", f"`{source.name}` is no source", item.span, help=help_text)
        return apps
    ways = chain_ways(apps, source.name, sink.name)
    if not ways:
        message = f"no arrows lead from `{source.name}` to `{sink.name}`"
        help_text = "`latest` and `drop` join two apps: name a task that gets its data"
        context.fault("F219", message, item.span, help=help_text)
        return apps
    parts: dict[str, dict[tuple[str, str], None]] = {}
    for way in ways:
        for part in way:
            parts.setdefault(part.app, {})[part.entry, part.exit] = None
    kind: ChainKind = "reaction" if item.key == "reaction" else "age"
    chain = ChainDeadline(kind, source.name, sink.name, value, item.span)
    made = []
    for app in apps:
        own = tuple(dict.fromkeys((*app.parts, *parts.get(app.name, ()))))
        ending = (*app.chains, chain) if app.name == reader.name else app.chains
        made.append(replace(app, parts=own, chains=ending))
    return made


def _source(
    item: s.PathDeadlineDecl, reader: Flattener, known: dict[str, Flattener], context: Context
) -> Task | None:
    """The task at the beginning of a chain; None after a fault."""
    if not reader.is_elsewhere(item.source):
        return reader.end(item.source, False)
    name = item.source[0].name.text
    writer = known.get(name)
    if writer is None or writer is reader:
        others = [other for other in known if other != reader.name]
        help_text = f"a path begins in this app, or in {one_of(others)}" if others else ""
        message = f"`{name}` is no other app"
        context.fault("F219", message, item.source[0].name.span, help=help_text)
        return None
    return writer.end(item.source[1:], False)


# -- periods ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Timed:
    """A source with `every`, and how often it fires in an iteration."""

    task: Task
    every_ns: Fraction
    firings: int

    @property
    def iteration_ns(self) -> Fraction:
        """The period that follows for its app."""
        return self.every_ns * self.firings

    def __str__(self) -> str:
        name = self.task.name.partition(".")[2]
        times = f", {self.firings} times," if self.firings > 1 else ""
        return f"`{name}` every {_ms(self.every_ns)}{times}"


def _paced(app: Application, context: Context) -> Application:
    """The app with the period that results from `every` of its sources."""
    times = [(task, task.every_ns) for task in app.tasks if task.every_ns is not None]
    vector = repetition(app).vector if times else {}
    if not vector:  # rates that do not balance are reported elsewhere
        return app
    first, *others = [_Timed(task, every, vector[task.name]) for task, every in times]
    period = first.iteration_ns
    notes = [Note(f"{first} gives {_ms(period)} for an iteration", first.task.span)]
    for other in others:
        if other.iteration_ns != period:
            message = f"{other} would give {_ms(other.iteration_ns)} for an iteration"
            help_text = (
                f"by the rates it is released every {_ms(period / other.firings)}; a separate app"
                " may have its own period"
            )
            context.fault("F218", message, other.task.span, notes=notes, help=help_text)
    if app.period_ns is not None and app.period_ns != period:
        message = f"the period of `{app.name}` is {_ms(app.period_ns)}"
        help_text = (
            "leave `period` out: `every` is sufficient, and remains correct when rates change"
            f" ({_ms(period)} now)"
        )
        context.fault("F218", message, app.span, notes=notes, help=help_text)
    return replace(app, period_ns=period)


def _ms(ns: Fraction) -> str:
    return f"{float(ns) / 1e6:g} ms"
