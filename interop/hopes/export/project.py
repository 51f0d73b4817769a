"""A project of HOPES as data: the content of its XML files, in HOPES' terms.

In: apps without refusals, their places and times. Out: a `ProjectPlan`. `wrapper` generates the
code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from pathlib import Path

from ....model.application import Application, Port, Task, all_tasks
from ....model.mapping import Placement
from ....model.platform import Platform, Pool
from ....model.system import System
from ....model.times import FiringTime, Times
from ..words import CANNOT, POLICIES
from .graph import ExportedGraph, Run, folded, parts, token_type
from .kept import KeptNames
from .names import FOLDERS, hopes_names
from .newest import Newest

#: The largest number in HOPES' generated code.
MOST = 2**31 - 1
_DIRECTIONS = {"in": "input", "out": "output"}
#: Lengths of HOPES' units of time in ns, in the order in which they are tried.
_UNITS = (("us", 10**3), ("ms", 10**6), ("s", 10**9))


@dataclass(frozen=True, slots=True)
class Time:
    """A time in HOPES' form."""

    value: int
    metric: str


@dataclass(frozen=True, slots=True)
class XmlPort:
    """`rate` is in samples of `size` bytes. `kind` is `fifo`, or `overwritable`: the newest sample
    counts."""

    name: str
    direction: str
    size: int
    type: str
    rate: int
    kind: str = "fifo"


@dataclass(frozen=True, slots=True)
class XmlTask:
    """A task or, if `inside` is set, a composite. `parent` is its composite, empty on the top
    level.

    `flow` is the name in the text. A task with a `period` is time-driven.
    """

    name: str
    number: int
    flow: str
    doc: str
    parent: str
    inside: bool
    stateful: bool
    period: Time | None
    deadline: Time | None
    priority: int
    ports: tuple[XmlPort, ...] = ()


@dataclass(frozen=True, slots=True)
class XmlChannel:
    """`length` and `initial` are in samples of `size` bytes; `kind` is that of the ports at both
    ends."""

    source: str
    source_port: str
    destination: str
    destination_port: str
    length: int
    size: int
    type: str
    initial: int
    kind: str = "fifo"


@dataclass(frozen=True, slots=True)
class PortMap:
    """A port of a composite that is connected to a port of a task inside."""

    task: str
    port: str
    child: str
    child_port: str
    direction: str


@dataclass(frozen=True, slots=True)
class ExportedElement:
    """Equal processors of the device; `subcategory` is CPU or VIRTUAL, `clocks` are in MHz."""

    name: str
    type: str
    count: int
    subcategory: str
    model: str
    clocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExportedTime:
    """The time of a task on a type of processor, in us."""

    type: str
    mean: int
    worst: int | None


@dataclass(frozen=True, slots=True)
class ExportedOrder:
    """The static order of a processor: runs of tasks."""

    pool: str
    number: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ExportedSchedule:
    """The static orders of a dataflow graph. `graph` is the prefix of its file's name."""

    graph: str
    orders: tuple[ExportedOrder, ...]


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """`places` has the processor of each task, (element, number); `names` HOPES' name of a task by
    that of the text.

    `kept` are the kept parts of the project that the text came from. `held` are the channels of the
    text whose initial tokens are in the code of their readers, `inner` the self-loops that are not
    channels of HOPES, because the code of their task has them.
    """

    name: str
    source: str
    device: str
    architecture: str
    several: bool
    tasks: tuple[XmlTask, ...]
    channels: tuple[XmlChannel, ...]
    maps: tuple[PortMap, ...]
    elements: tuple[ExportedElement, ...]
    places: dict[str, tuple[str, int]]
    costs: dict[str, tuple[ExportedTime, ...]]
    policy: str
    schedules: tuple[ExportedSchedule, ...]
    names: dict[str, str]
    held: frozenset[str]
    inner: frozenset[str]
    kept: KeptNames


@dataclass(frozen=True, slots=True)
class PlacedSystem:
    """A system without refusals, placed on a platform.

    `looks` is the result of `newest`, and `firings` are those of the folded apps.
    """

    system: System
    looks: tuple[Newest, ...]
    platform: Platform
    firings: Mapping[str, Mapping[str, int]]
    placements: Mapping[str, Placement]
    times: Times

    def processor(self, task: Task) -> str:
        """The first one of its placement."""
        return self.placements[task.name].processors[0]


def project(placed: PlacedSystem, policy: str, architecture: str, kept: KeptNames) -> ProjectPlan:
    """The project of a system. Raises TooLong."""
    return _Project(placed, policy, architecture, kept).made()


@dataclass(frozen=True, slots=True)
class _Graph:
    """A connected part of an app; `plain` is the folded app. `composite` is the wanted name of the
    composite around it, empty for the only graph of a project."""

    app: Application
    plain: Application
    part: ExportedGraph
    composite: str


@dataclass(slots=True)
class _Project:
    placed: PlacedSystem
    policy: str
    architecture: str
    kept: KeptNames
    tasks: list[XmlTask] = field(default_factory=list)
    channels: list[XmlChannel] = field(default_factory=list)
    maps: list[PortMap] = field(default_factory=list)
    schedules: list[ExportedSchedule] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    processors: dict[str, tuple[str, int]] = field(default_factory=dict)

    def made(self) -> ProjectPlan:
        system = self.placed.system
        elements = tuple(self._elements())
        graphs = self._graphs()
        several = len(graphs) > 1
        self._name(graphs)
        self._name_ports()
        lift = max(0, 1 - min((a.priority or 0 for a in system.apps), default=1))
        for graph in graphs:
            parent, priority = self._parent(graph), (graph.app.priority or 0) + lift
            if parent:
                self._composite(graph.app, parent, priority)
            self._part(graph, parent, priority)
        self._newest()
        if not several and self.schedules:
            self.schedules = [ExportedSchedule(f"SDF_{len(self.tasks)}", self.schedules[0].orders)]
        places = {}
        costs = {}
        for task in all_tasks(system.apps):
            name = self.names[task.name]
            places[name] = self.processors[self.placed.processor(task)]
            own = tuple(self._costs(task, elements))
            if own:
                costs[name] = own
        return ProjectPlan(
            self.kept.project or hopes_names([system.stem])[system.stem],
            Path(system.path).name,
            device_name(self.placed.platform, self.kept),
            self.architecture,
            several,
            tuple(self.tasks),
            tuple(self.channels),
            tuple(self.maps),
            elements,
            places,
            costs,
            POLICIES[self.policy],
            tuple(self.schedules) if self.policy == "self-timed" else (),
            self.names,
            frozenset(self.held),
            frozenset(self.inner),
            self.kept,
        )

    def _graphs(self) -> list[_Graph]:
        """The connected parts of all apps. Raises TooLong."""
        graphs = []
        for app in self.placed.system.apps:
            plain = folded(app)
            for number, part in enumerate(self._parts(app, plain), 1):
                graphs.append(_Graph(app, plain, part, _numbered(app.name, number)))
        if len(graphs) == 1:
            return [replace(graphs[0], composite="")]
        return graphs

    # -- names -------------------------------------------------------------------------------------
    def _parent(self, graph: _Graph) -> str:
        """The composite around a graph; empty for the only graph of a project."""
        if graph.composite:
            return self.names[graph.composite]
        return ""

    def _name(self, graphs: list[_Graph]) -> None:
        """Composites, which have the names of their apps, and tasks: kept names first; names inside
        a composite begin with that of the composite."""
        kept = self._kept_names(graphs)
        composites = [g.composite for g in graphs if g.composite and g.composite not in kept]
        self.names = hopes_names(composites, kept.values()) | kept
        wanted = {}
        for graph in graphs:
            for task in graph.part.tasks:
                if task not in kept:
                    app, _, rest = task.partition(".")
                    wanted[task] = f"{self._parent(graph) or app}.{rest}"
        made = hopes_names(wanted.values(), self.names.values())
        self.names |= {task: made[name] for task, name in wanted.items()}

    def _kept_names(self, graphs: list[_Graph]) -> dict[str, str]:
        """The kept names of tasks and composites. If that of a composite is not kept, neither are
        those of its tasks."""
        kept = {}
        for task in all_tasks(self.placed.system.apps):
            if task.name in self.kept.tasks:
                kept[task.name] = self.kept.tasks[task.name]
        for graph in graphs:
            if not graph.composite:
                continue
            around = {self.kept.around.get(task, "") for task in graph.part.tasks}
            (name, *others) = around
            if name and not others and name not in kept.values():
                kept[graph.composite] = name
            else:
                kept = {flow: hopes for flow, hopes in kept.items() if flow not in graph.part.tasks}
        return kept

    def _name_ports(self) -> None:
        """HOPES' code has a variable `TASK_PORT` for each: in a conflict, a port gets another
        name."""
        ends = []
        for task in all_tasks(self.placed.system.apps):
            for port in (*task.inputs, *task.outputs):
                ends.append((task.name, port.name))
        # that code fixes the names of its ports
        ends.sort(key=lambda end: end[0] not in self.kept.own)
        used: set[str] = set()
        renamed: dict[tuple[str, str], str] = {}
        for flow, of_text in ends:
            name, count = self.kept.port(flow, of_text), 2
            made = name
            while f"{self.names[flow]}_{made}" in used and flow not in self.kept.own:
                made, count = f"{name}_{count}", count + 1
            used.add(f"{self.names[flow]}_{made}")
            if made != name:
                renamed[flow, of_text] = made
        self.kept = replace(self.kept, ports={**self.kept.ports, **renamed})

    def _parts(self, app: Application, plain: Application) -> tuple[ExportedGraph, ...]:
        places = {t.name: self.placed.processor(t) for t in app.tasks}
        means = {}
        for task in app.tasks:
            time = self.placed.times.here(task.name)
            if time is not None:
                means[task.name] = float(time.mean_ns * task.phases)
        return parts(plain, self.placed.firings[app.name], places, means)

    # -- the device --------------------------------------------------------------------------------

    def _elements(self) -> Iterator[ExportedElement]:
        """One element for all CPUs, because HOPES has no channels between two elements; and one for
        each other pool."""
        cpus = [pool for pool in self.placed.platform.pools if pool.kind == "cpu"]
        others = [pool for pool in self.placed.platform.pools if pool.kind != "cpu"]
        one = "cpu"
        if len(cpus) == 1:
            one = cpus[0].name
        kinds = {one: "cpu", **{pool.name: pool.kind for pool in others}}
        made = hopes_names(kinds)
        names = {}
        for name, kind in kinds.items():
            names[name] = self.kept.pools.get(name, (made[name], f"{made[name]}_{kind}"))
        element, type_ = names[one]
        self._number(element, [p for pool in cpus for p in pool.processors])
        count = sum(pool.count for pool in cpus)
        yield ExportedElement(element, type_, count, "CPU", one, _clocks(*cpus))
        for pool in others:
            element, type_ = names[pool.name]
            self._number(element, pool.processors)
            yield ExportedElement(
                element, type_, pool.count, "VIRTUAL", pool.kind.upper(), _clocks(pool)
            )

    def _number(self, element: str, processors: Iterable[str]) -> None:
        """Number the processors of an element."""
        for number, processor in enumerate(processors):
            self.processors[processor] = (element, number)

    def _costs(self, task: Task, elements: Iterable[ExportedElement]) -> Iterator[ExportedTime]:
        """The time of one firing of HOPES, rounded up; empty if none is known."""
        known = self.placed.times.of.get(task.name, {})
        if not known or task.resampling is not None or task.link is not None:
            return
        for element in elements:
            kind = "cpu"
            if element.subcategory != "CPU":
                kind = element.model.lower()
            own = [known[t] for t in self.placed.platform.types_of(kind) if t in known]
            time = max(own, key=lambda time: time.longest_ns, default=None)
            if time is None:
                yield ExportedTime(element.type, CANNOT, None)
            else:
                yield ExportedTime(
                    element.type, _us(time.mean_ns * task.phases), _us(_worst(time, task.phases))
                )

    # -- tasks and channels ------------------------------------------------------------------------
    def _composite(self, app: Application, name: str, priority: int) -> None:
        self.tasks.append(
            XmlTask(
                name,
                len(self.tasks),
                app.name,
                app.doc,
                name,
                True,
                True,
                _in_hopes(app.period_ns),
                _in_hopes(app.deadline_ns),
                priority,
            )
        )

    def _newest(self) -> None:
        """Channels between two composites, which have ports for them; several may start at one
        port."""
        at = {task.name: n for n, task in enumerate(self.tasks)}
        outer: dict[tuple[str, str], str] = {}
        for look in self.placed.looks:
            ends = []
            for end in (look.source, look.destination):
                port = replace(
                    _port(end.port, self.kept.port(end.task, end.port.name)), kind="overwritable"
                )
                name = self.names[end.task]
                ends.append((name, port))
                if (name, port.name) in outer:
                    continue
                around = self.tasks[at[name]].parent
                # Without a `_`: HOPES' code joins names of tasks and ports with a `_`.
                outside = outer[name, port.name] = f"newest{len(outer) + 1}"
                self._add_port(at[name], port)
                self._add_port(at[around], replace(port, name=outside))
                self.maps.append(PortMap(around, outside, name, port.name, port.direction))
            (source, out), (destination, into) = ends
            self.channels.append(
                XmlChannel(
                    source,
                    out.name,
                    destination,
                    into.name,
                    max(out.rate, into.rate),
                    out.size,
                    out.type,
                    0,
                    out.kind,
                )
            )

    def _add_port(self, number: int, port: XmlPort) -> None:
        task = self.tasks[number]
        self.tasks[number] = replace(task, ports=(*task.ports, port))

    def _part(self, graph: _Graph, parent: str, priority: int) -> None:
        self._part_tasks(graph, parent, priority)
        self.inner |= {c.name for c in graph.part.inner}
        for arrow in graph.part.arrows:
            c = arrow.channel
            port = _port(
                graph.plain.task(c.source).port(c.source_port),
                self.kept.port(c.source, c.source_port),
            )
            if arrow.held:
                self.held.add(c.name)
            self.channels.append(
                XmlChannel(
                    self.names[c.source],
                    port.name,
                    self.names[c.destination],
                    self.kept.port(c.destination, c.destination_port),
                    arrow.size,
                    port.size,
                    port.type,
                    arrow.initial,
                )
            )
        orders = []
        for processor, runs in graph.part.orders.items():
            in_names = tuple((self.names[task], times) for task, times in runs)
            orders.append(ExportedOrder(*self.processors[processor], in_names))
        orders.sort(key=lambda o: (o.pool, o.number))
        self.schedules.append(ExportedSchedule(parent, tuple(orders)))

    def _part_tasks(self, graph: _Graph, parent: str, priority: int) -> None:
        app, part = graph.app, graph.part
        joined, delayed = _ends(part)
        firings = self.placed.firings[app.name]
        sources = _released_tasks(app, part)
        # If neither a source nor a composite is time-driven, no release starts a deadline.
        due: dict[str, Fraction] = {}
        if parent or sources:
            due = dues(app, part.tasks, firings)
        for name in part.tasks:
            task, summed = app.task(name), graph.plain.task(name)
            ports = []
            for port in (*summed.inputs, *summed.outputs):
                if (name, port.name) in joined:
                    ports.append(_port(port, self.kept.port(name, port.name)))
            hopes = self.names[name]
            self.tasks.append(
                XmlTask(
                    hopes,
                    len(self.tasks),
                    name,
                    task.doc,
                    parent or hopes,
                    False,
                    name in delayed or _is_stateful(task),
                    released(app, firings[name]) if name in sources else None,
                    _in_hopes(due.get(name)),
                    priority,
                    tuple(ports),
                )
            )


def _ends(part: ExportedGraph) -> tuple[set[tuple[str, str]], set[str]]:
    """The ports that channels join, and the tasks that read initial tokens."""
    joined: set[tuple[str, str]] = set()
    for arrow in part.arrows:
        c = arrow.channel
        joined |= {(c.source, c.source_port), (c.destination, c.destination_port)}
    delayed = {a.channel.destination for a in part.arrows if a.channel.delay}
    return joined, delayed | {c.destination for c in part.inner if c.delay}


def _released_tasks(app: Application, part: ExportedGraph) -> set[str]:
    """The tasks that time may release."""
    # A self-loop of a task is the task's code: no other task writes to it.
    if len(part.tasks) == 1:
        return {*part.tasks}
    return unfed(app) & {*part.tasks}


def _numbered(name: str, number: int) -> str:
    if number == 1:
        return name
    return f"{name} {number}"


def _is_stateful(task: Task) -> bool:
    return not task.stateless or bool(task.state) or any(p.window for p in task.inputs)


def device_name(platform: Platform, kept: KeptNames) -> str:
    """The name of the device, and so of the folder of its program."""
    return kept.device or hopes_names([platform.name], FOLDERS)[platform.name]


def unfed(app: Application) -> set[str]:
    """The sources: tasks without incoming queues."""
    return {t.name for t in app.tasks} - {c.destination for c in app.channels}


def released(app: Application, firings: int) -> Time | None:
    """The time between two firings of a source, in an app with a period."""
    if app.period_ns is None:
        return None
    return in_hopes(app.period_ns / firings)


def dues(app: Application, tasks: Iterable[str], firings: Mapping[str, int]) -> dict[str, Fraction]:
    """The deadlines of tasks that end an iteration, of each firing.

    The last firing of a task with several ones begins later than the iteration, by the time between
    them.
    """
    if app.deadline_ns is None:
        return {}
    late = {t: (app.period_ns or 0) * (1 - Fraction(1, firings[t])) for t in tasks}
    found = {}
    for t, ns in late.items():
        if app.deadline_ns > ns:
            found[t] = app.deadline_ns - ns
    read = {c.source for c in app.channels}
    return {t: ns for t, ns in found.items() if t not in read} or found


def in_hopes(ns: Fraction) -> Time:
    """A time as a whole number of HOPES' units, at least the smallest one."""
    metric, length = next((u for u in _UNITS if ns / u[1] <= MOST), _UNITS[-1])
    return Time(max(1, int(ns / length)), metric)


def _in_hopes(ns: Fraction | None) -> Time | None:
    if ns is None:
        return None
    return in_hopes(ns)


def is_exact(ns: Fraction) -> bool:
    """Can HOPES express it exactly?"""
    time = in_hopes(ns)
    return time.value * dict(_UNITS)[time.metric] == ns


def _port(port: Port, name: str) -> XmlPort:
    kind = token_type(port)
    return XmlPort(name, _DIRECTIONS[port.direction], kind.bytes, str(kind), port.rates[0])


def _us(ns: Fraction) -> int:
    return ceil(ns / 1000)


def _worst(time: FiringTime, phases: int) -> Fraction:
    if len(time.worst_ns) == phases:
        return sum(time.worst_ns, Fraction(0))
    return time.longest_ns * phases


def _clocks(*pools: Pool) -> tuple[int, ...]:
    """Whole MHz that all of the pools have."""
    if not pools:
        return ()
    common = set.intersection(*(set(p.frequencies_hz) for p in pools))
    return tuple(int(hz / 10**6) for hz in sorted(common) if hz % 10**6 == 0 and hz)
