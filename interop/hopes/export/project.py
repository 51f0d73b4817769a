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

from ....model.application import Application, Port, Task
from ....model.mapping import Placement
from ....model.platform import Platform, Pool
from ....model.system import System
from ....model.times import FiringTime, Times
from ..words import CANNOT, POLICIES
from .graph import ExportedGraph, Run, folded, parts
from .kept import KeptNames
from .names import FOLDERS, hopes_names
from .newest import Newest

#: The largest number in HOPES' generated code.
MOST = 2**31 - 1
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


def project(
    system: System,
    looks: tuple[Newest, ...],
    platform: Platform,
    firings: Mapping[str, Mapping[str, int]],
    placements: Mapping[str, Placement],
    times: Times,
    policy: str,
    architecture: str,
    kept: KeptNames,
) -> ProjectPlan:
    """The project of a system without refusals. Raises TooLong.

    `looks` is the result of `newest`, and `firings` are those of the folded apps.
    """
    return _Project(
        system, looks, platform, firings, placements, times, policy, architecture, kept
    ).made()


@dataclass(slots=True)
class _Project:
    system: System
    looks: tuple[Newest, ...]
    platform: Platform
    firings: Mapping[str, Mapping[str, int]]
    placements: Mapping[str, Placement]
    times: Times
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
        elements = tuple(self._elements())
        graphs = [
            (a, folded(a), part, n)
            for a in self.system.apps
            for n, part in enumerate(self._parts(a), 1)
        ]
        several = len(graphs) > 1
        # Composites have the names of their apps, so they come first.
        composites = []
        if several:
            composites = [_numbered(app.name, n) for app, _, _, n in graphs]
        self._name(composites, [part for _, _, part, _ in graphs])
        self._name_ports()
        lift = max(0, 1 - min((a.priority for a in self.system.apps), default=1))
        for number, (app, plain, part, _) in enumerate(graphs):
            parent = self.names[composites[number]] if several else ""
            if several:
                self._composite(app, parent, app.priority + lift)
            self._part(app, plain, part, parent, app.priority + lift)
        self._newest()
        if not several and self.schedules:
            self.schedules = [ExportedSchedule(f"SDF_{len(self.tasks)}", self.schedules[0].orders)]
        places: dict[str, tuple[str, int]] = {}
        costs: dict[str, tuple[ExportedTime, ...]] = {}
        for app in self.system.apps:
            for task in app.tasks:
                name = self.names[task.name]
                places[name] = self.processors[self._processor(task)]
                own = tuple(self._costs(task, elements))
                if own:
                    costs[name] = own
        return ProjectPlan(
            self.kept.project or hopes_names([self.system.stem])[self.system.stem],
            Path(self.system.path).name,
            device_name(self.platform, self.kept),
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

    def _name(self, composites: list[str], parts: list[ExportedGraph]) -> None:
        """Composites and tasks: kept names first; names inside a composite begin with that of the
        composite."""
        every = [t.name for a in self.system.apps for t in a.tasks]
        kept = {name: self.kept.tasks[name] for name in every if name in self.kept.tasks}
        for composite, part in zip(composites, parts, strict=False):
            composites_of = {self.kept.around.get(task, "") for task in part.tasks}
            only = composites_of.pop() if len(composites_of) == 1 else ""
            if only and only not in kept.values():
                kept[composite] = only
            else:
                kept = {name: hopes for name, hopes in kept.items() if name not in part.tasks}
        self.names = hopes_names([c for c in composites if c not in kept], kept.values()) | kept
        wanted = {}
        for number, part in enumerate(parts):
            for task in (t for t in part.tasks if t not in kept):
                app, _, rest = task.partition(".")
                around = self.names[composites[number]] if composites else app
                wanted[task] = f"{around}.{rest}"
        made = hopes_names(wanted.values(), self.names.values())
        self.names |= {task: made[name] for task, name in wanted.items()}

    def _name_ports(self) -> None:
        """HOPES' code has a variable `TASK_PORT` for each: in a conflict, a port gets another
        name."""
        every = [
            (t, p.name) for a in self.system.apps for t in a.tasks for p in (*t.inputs, *t.outputs)
        ]
        # that code fixes the names of its ports
        every.sort(key=lambda end: end[0].name not in self.kept.own)
        used: set[str] = set()
        renamed: dict[tuple[str, str], str] = {}
        for task, port in every:
            name, count = self.kept.port(task.name, port), 2
            made = name
            while f"{self.names[task.name]}_{made}" in used and task.name not in self.kept.own:
                made, count = f"{name}_{count}", count + 1
            used.add(f"{self.names[task.name]}_{made}")
            if made != name:
                renamed[task.name, port] = made
        self.kept = replace(self.kept, ports={**self.kept.ports, **renamed})

    def _parts(self, app: Application) -> tuple[ExportedGraph, ...]:
        places = {t.name: self._processor(t) for t in app.tasks}
        means = {
            t.name: float(time.mean_ns * t.phases)
            for t in app.tasks
            if (time := self.times.here(t.name)) is not None
        }
        return parts(folded(app), self.firings[app.name], places, means)

    # -- the device --------------------------------------------------------------------------------
    def _processor(self, task: Task) -> str:
        """The first one of its placement."""
        return self.placements[task.name].processors[0]

    def _elements(self) -> Iterator[ExportedElement]:
        """One element for all CPUs, because HOPES has no channels between two elements; and one for
        each other pool."""
        cpus = [pool for pool in self.platform.pools if pool.kind == "cpu"]
        others = [pool for pool in self.platform.pools if pool.kind != "cpu"]
        one = cpus[0].name if len(cpus) == 1 else "cpu"
        made = hopes_names([one, *(f"{pool.name}" for pool in others if pool.name != one)])
        kinds = {one: "cpu", **{pool.name: pool.kind for pool in others}}
        names = {
            name: self.kept.pools.get(name, (made[name], f"{made[name]}_{kind}"))
            for name, kind in kinds.items()
        }
        name, type_ = names[one]
        self.processors |= {
            p: (name, i) for i, p in enumerate(p for pool in cpus for p in pool.processors)
        }
        yield ExportedElement(name, type_, sum(p.count for p in cpus), "CPU", one, _clocks(*cpus))
        for pool in others:
            name, type_ = names[pool.name]
            self.processors |= {p: (name, i) for i, p in enumerate(pool.processors)}
            yield ExportedElement(
                name, type_, pool.count, "VIRTUAL", pool.kind.upper(), _clocks(pool)
            )

    def _costs(self, task: Task, elements: Iterable[ExportedElement]) -> Iterator[ExportedTime]:
        """The time of one firing of HOPES, rounded up; empty if none is known."""
        known = self.times.of.get(task.name, {})
        if not known or task.resampling is not None or task.link is not None:
            return
        for element in elements:
            kind = "cpu" if element.subcategory == "CPU" else element.model.lower()
            time = known.get(kind)
            if time is None:
                yield ExportedTime(element.type, CANNOT, None)
            else:
                yield ExportedTime(
                    element.type, _us(time.mean_ns * task.phases), _us(_worst(time, task.phases))
                )

    # -- tasks and channels ------------------------------------------------------------------------
    def _composite(self, app: Application, name: str, priority: int) -> None:
        period = None if app.period_ns is None else in_hopes(app.period_ns)
        deadline = None if app.deadline_ns is None else in_hopes(app.deadline_ns)
        self.tasks.append(
            XmlTask(
                name,
                len(self.tasks),
                app.name,
                app.doc,
                name,
                True,
                True,
                period,
                deadline,
                priority,
            )
        )

    def _newest(self) -> None:
        """Channels between two composites, which have ports for them; several may start at one
        port."""
        at = {task.name: n for n, task in enumerate(self.tasks)}
        outer: dict[tuple[str, str], str] = {}
        for look in self.looks:
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

    def _part(
        self, app: Application, plain: Application, part: ExportedGraph, parent: str, priority: int
    ) -> None:
        self._part_tasks(app, plain, part, parent, priority)
        self.inner |= {c.name for c in part.inner}
        for arrow in part.arrows:
            c = arrow.channel
            port = _port(
                plain.task(c.source).port(c.source_port), self.kept.port(c.source, c.source_port)
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
        orders = (
            ExportedOrder(*self.processors[p], tuple((self.names[t], n) for t, n in runs))
            for p, runs in part.orders.items()
        )
        self.schedules.append(
            ExportedSchedule(parent, tuple(sorted(orders, key=lambda o: (o.pool, o.number))))
        )

    def _part_tasks(
        self, app: Application, plain: Application, part: ExportedGraph, parent: str, priority: int
    ) -> None:
        channels = [a.channel for a in part.arrows]
        used = {(c.source, c.source_port) for c in channels}
        used |= {(c.destination, c.destination_port) for c in channels}
        delayed = {c.destination for c in (*channels, *part.inner) if c.delay}
        firings = self.firings[app.name]
        # A self-loop of a task is the task's code: no other task writes to it.
        sources = {*part.tasks} if len(part.tasks) == 1 else unfed(app) & {*part.tasks}
        # If neither a source nor a composite is time-driven, no release starts a deadline.
        timed = bool(parent) or bool(sources)
        due = dues(app, part.tasks, firings) if timed else {}
        for name in part.tasks:
            task, summed = app.task(name), plain.task(name)
            joined = [p for p in (*summed.inputs, *summed.outputs) if (name, p.name) in used]
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
                    in_hopes(due[name]) if name in due else None,
                    priority,
                    tuple(_port(p, self.kept.port(name, p.name)) for p in joined),
                )
            )


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} {number}"


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
    return None if app.period_ns is None else in_hopes(app.period_ns / firings)


def dues(app: Application, tasks: Iterable[str], firings: Mapping[str, int]) -> dict[str, Fraction]:
    """The deadlines of tasks that end an iteration, of each firing.

    The last firing of a task with several ones begins later than the iteration, by the time between
    them.
    """
    if app.deadline_ns is None:
        return {}
    late = {t: (app.period_ns or 0) * (1 - Fraction(1, firings[t])) for t in tasks}
    found = {t: app.deadline_ns - ns for t, ns in late.items() if app.deadline_ns > ns}
    read = {c.source for c in app.channels}
    return {t: ns for t, ns in found.items() if t not in read} or found


def in_hopes(ns: Fraction) -> Time:
    """A time as a whole number of HOPES' units, at least the smallest one."""
    metric, length = next((u for u in _UNITS if ns / u[1] <= MOST), _UNITS[-1])
    return Time(max(1, int(ns / length)), metric)


def is_exact(ns: Fraction) -> bool:
    """Can HOPES express it exactly?"""
    time = in_hopes(ns)
    return time.value * dict(_UNITS)[time.metric] == ns


def _port(port: Port, name: str) -> XmlPort:
    assert port.type is not None
    direction = "input" if port.direction == "in" else "output"
    return XmlPort(name, direction, port.type.bytes, str(port.type), port.rates[0])


def _us(ns: Fraction) -> int:
    return ceil(ns / 1000)


def _worst(time: FiringTime, phases: int) -> Fraction:
    if len(time.worst_ns) == phases:
        return sum(time.worst_ns, Fraction(0))
    return time.longest_ns * phases


def _clocks(*pools: Pool) -> tuple[int, ...]:
    """Whole MHz that all of the pools have."""
    common = set.intersection(*(set(p.frequencies_hz) for p in pools)) if pools else set()
    return tuple(int(hz / 10**6) for hz in sorted(common) if hz % 10**6 == 0 and hz)
