"""An imported HOPES project as texts: the application, and stubs for its code.

In: the dataflow of a project with its networks, and the usable code. Out: `Texts`, in the layout of
`flowc fmt`. Copies of a composite (`ImgProcessing_1`, `ImgProcessing_2`) become one `graph`, and
tasks that transfer the same data one `task`, unless they have code, whose state is separate in
each. A network is an abstract task between `Pre` and `Post`, because HOPES knows the times of its
layers, but not the layers. `pins` writes the mapping of the authors.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from ..names import capitalised, identifiers, listed, refused_words, shown
from .counts import Place
from .design import Direction, HopesChannel, HopesTask, Way
from .groups import ConnectedTasks, Flow
from .networks import HopesNetwork
from .wrapper import CalledFunction, GivenParameter, Wrapped, given

Role = Literal["", "pre", "post"]
#: A task of the text: a task of HOPES, or one of the parts of an external one.
Part = tuple[Way, Role]
#: A port in the text: name, type of tokens ("" if unknown) and rate.
Written = tuple[Direction, str, str, int]
#: Widest task on one line.
WIDEST = 110
_NUMBERED = re.compile(r"(.*?)_?(\d+)")
#: `in` and `out` are words of the language.
_PORTS = {"in": "input", "out": "output"}
_ROLES = {"pre": "Runs before the layers of ", "post": "Runs after the layers of ", "": ""}
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


@dataclass(frozen=True, slots=True)
class Declaration:
    """The key by which two tasks or two composites are the same; `content` is everything except the
    name."""

    kind: Literal["task", "network", "graph"]
    wanted: str
    content: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """`names` has the full name of each task of the text by its part, `ports` HOPES' names of its
    ports.

    `stubs` is empty if all tasks have code; `apps` are the names of the groups, `declared` those of
    everything.
    """

    application: str
    stubs: str
    apps: tuple[str, ...]
    declared: frozenset[str]
    names: Mapping[Part, str]
    ports: Mapping[Part, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Naming:
    """How a text names things: its files begin with `stem`.

    `app` replaces the name of the project as an app's name, and all declared names end with
    `suffix` and differ from those in `taken`.
    """

    stem: str
    app: str = ""
    suffix: str = ""
    taken: frozenset[str] = frozenset()

    @property
    def stubs(self) -> str:
        """The file with stubs for missing code."""
        return f"{self.stem}_tasks.py"


def texts_of(
    name: str,
    flow: Flow,
    networks: Mapping[Way, HopesNetwork],
    code: Wrapped,
    about: Iterable[str],
    naming: Naming,
) -> Texts:
    """The application, and its stubs."""
    return _Texts(name, flow, networks, code, naming).texts(about)


@dataclass(slots=True)
class _Texts:
    project: str
    flow: Flow
    networks: Mapping[Way, HopesNetwork]
    code: Wrapped
    naming: Naming
    #: Names of instances and boundaries on each level.
    instances: dict[Part, str] = field(default_factory=dict)
    declarations: dict[Part, Declaration] = field(default_factory=dict)
    ports: dict[tuple[Part, Direction, str], str] = field(default_factory=dict)
    names: dict[Declaration, str] = field(default_factory=dict)
    apps: list[str] = field(default_factory=list)

    def texts(self, about: Iterable[str]) -> Texts:
        self._name_ports()
        for way in sorted(self.flow.tasks, key=lambda w: -len(w)):  # from inside to outside
            self._declare(way)
        for group in self.flow.groups:
            ways: list[Way] = [(n,) for n in group.tasks]
            self.instances.update(self._instances(ways, _suffix(group.tasks)))
        self._name_declarations()
        lines = [*(f"// {line}" for line in about), ""]
        lines += self._tasks()
        lines += self._graphs()
        for app, group in zip(self.apps, self.flow.groups, strict=True):
            lines += self._app(app, group)
        full = {}
        for way, _ in self.flow.leaves():
            for part in self._parts(way):
                full[part] = self._full(part)
        application = "\n".join(lines).rstrip() + "\n"
        declared = frozenset((*self.apps, *self.names.values()))
        ports = {p: dict(self._theirs(p)) for p in full}
        return Texts(application, self._stubs(), tuple(self.apps), declared, full, ports)

    def _theirs(self, part: Part) -> Iterator[tuple[str, str]]:
        """The ports of a task with their names in HOPES; those of a network are at its first and
        its last part."""
        way, _ = part
        parts = self._parts(way)
        at = {"in": parts[0], "out": parts[-1]}
        for direction, port in self._used(way):
            if part == at[direction]:
                yield self.ports[(way, ""), direction, port], port

    # -- names -------------------------------------------------------------------------------------
    def _parts(self, way: Way) -> list[Part]:
        network = self.networks.get(way)
        parts: list[Part] = [(way, "")]
        if network is not None and network.pre:
            parts.insert(0, (way, "pre"))
        if network is not None and network.post:
            parts.append((way, "post"))
        return parts

    def _full(self, part: Part) -> str:
        way, _ = part
        around = [self.instances[way[: n + 1], ""] for n in range(len(way) - 1)]
        return ".".join([self._app_of(way[0]), *around, self.instances[part]])

    def _app_of(self, task: str) -> str:
        """The app with a task of the top level."""
        apps = zip(self.apps, self.flow.groups, strict=True)
        return next(app for app, group in apps if task in group.tasks)

    def _used(self, way: Way) -> list[tuple[Direction, str]]:
        return [(d, p) for d, p in self.flow.tasks[way].ports if (way, d, p) in self.flow.tokens]

    def _name_ports(self) -> None:
        """Unique in a task, and no keywords that an arrow could not contain."""
        for way in self.flow.tasks:
            used = self._used(way)
            made = identifiers(
                (_PORTS.get(p, p) for _, p in used), "port", {*refused_words(), *keyword.kwlist}
            )
            for (direction, port), name in zip(used, made, strict=True):
                self.ports[(way, ""), direction, port] = name

    def _instances(self, ways: list[Way], suffix: str = "") -> Iterator[tuple[Part, str]]:
        """The instances of one level, without common prefixes or suffixes of their names."""
        start = 0
        prefixes = {_numbered_prefix(way[-1]) for way in ways}
        if len(ways) > 1 and len(prefixes) == 1:
            start = len(prefixes.pop())
        parts: list[Part] = []
        for way in ways:
            parts += self._parts(way)
        wanted = []
        for way, role in parts:
            name = way[-1][start:].removesuffix(suffix)
            if role:
                name = f"{name}_{role}"
            wanted.append(name)
        taken = {*refused_words(), *self._boundary_names(ways)}
        return zip(parts, identifiers(wanted, "task", taken), strict=True)

    def _boundary_names(self, ways: list[Way]) -> Iterator[str]:
        """The names of the ports of the composite around tasks."""
        for way in ways[:1]:
            if len(way) > 1:
                for direction, port in self._used(way[:-1]):
                    yield self.ports[(way[:-1], ""), direction, port]

    def _written(self, way: Way, wanted: Direction | None = None) -> list[Written]:
        found = []
        for direction, port in self._used(way):
            token = self.flow.tokens[way, direction, port]
            if wanted in (None, direction):
                type_ = token.type or f"uint8[{token.bytes}]"
                found.append((direction, self.ports[(way, ""), direction, port], type_, token.rate))
        return found

    def _declare(self, way: Way) -> None:
        task = self.flow.tasks[way]
        if task.kind == "control":
            return
        if task.graph is not None:
            self._declare_graph(way)
        elif way in self.networks:
            self._declare_network(way, task)
        else:
            called = self.code.called.get(way)
            own = given((), task.parameters)
            if called is not None:
                own = called.parameters
            content = (tuple(self._written(way)), called, own, task.stateful or called is not None)
            self.declarations[way, ""] = Declaration("task", task.name, content)

    def _declare_graph(self, way: Way) -> None:
        inside = self._members(way)
        for part, instance in self._instances(inside):
            self.instances[part] = instance
            if part[0] not in self.networks and self.flow.tasks[part[0]].graph is None:
                # Copies of a task have the number of their composite.
                old = self.declarations[part]
                self.declarations[part] = Declaration(old.kind, instance, old.content)
        parts = []
        for w in inside:
            for part in self._parts(w):
                parts.append((self.instances[part], self.declarations[part]))
        content = (tuple(self._written(way)), tuple(parts), tuple(self._arrows(way)))
        self.declarations[way, ""] = Declaration("graph", _bare(way[-1]), content)

    def _members(self, level: Way) -> list[Way]:
        """The tasks in a composite, without control tasks."""
        return [w for w, t in self.flow.tasks.items() if w[:-1] == level and t.kind != "control"]

    def _declare_network(self, way: Way, task: HopesTask) -> None:
        """`pre` has the inputs of the external task and `post` its outputs; the size of data
        between them is unknown."""
        network = self.networks[way]
        given, taken = self._written(way, "in"), self._written(way, "out")
        data: Written = ("out", "data", "", 1)
        result: Written = ("out", "result", "", 1)
        if network.pre:
            content: tuple[object, ...] = ((*given, data), None, (), task.stateful)
            self.declarations[way, "pre"] = Declaration("task", f"{network.name}_pre", content)
            given = [("in", "data", "", 1)]
        if network.post:
            content = ((("in", "result", "", 1), *taken), None, (), task.stateful)
            self.declarations[way, "post"] = Declaration("task", f"{network.name}_post", content)
            taken = [result]
        self.declarations[way, ""] = Declaration(
            "network", network.name, ((*given, *taken), network.layers)
        )

    def _name_declarations(self) -> None:
        """Apps first, so that they get the name of the project."""
        uses = Counter(self.declarations.values())
        declared: dict[Declaration, None] = {}
        for way in self.flow.tasks:
            for part in self._parts(way):
                if part in self.declarations:
                    declared[self.declarations[part]] = None
            # A composite without copies keeps its number.
            own = self.declarations.get((way, ""))
            if own is not None and own.kind == "graph" and uses[own] == 1:
                self.names[own] = way[-1]
        apps = self._app_names()
        others = [capitalised(self.names.get(d, d.wanted), "task") for d in declared]
        made = identifiers(
            (f"{name}{self.naming.suffix}" for name in (*apps, *others)), "task", self.naming.taken
        )
        self.apps = made[: len(apps)]
        self.names.update(zip(declared, made[len(apps) :], strict=True))

    def _app_names(self) -> list[str]:
        """The wanted names of apps."""
        first = self.naming.app or capitalised(self.project, "app")
        if len(self.flow.groups) == 1:
            return [first]
        names = []
        for group in self.flow.groups:
            number = _suffix(group.tasks).lstrip("_")
            names.append(first + (number or capitalised(group.tasks[0], "app")))
        return names

    # -- the application ---------------------------------------------------------------------------
    def _by_declaration(self, *kinds: str) -> list[tuple[Declaration, list[Part]]]:
        found: dict[Declaration, list[Part]] = {}
        for way in self.flow.tasks:
            for part in self._parts(way):
                declaration = self.declarations.get(part)
                if declaration is not None and declaration.kind in kinds:
                    found.setdefault(declaration, []).append(part)
        return list(found.items())

    def _tasks(self) -> list[str]:
        declared = self._by_declaration("task")
        coded = [d for d, _ in declared if _code(d) is not None]
        lines = []
        if coded:
            lines.append(
                f"// Code is that of HOPES, in {self.code.folder}: a file for each task, around its"
                " `.cic`."
            )
        if len(coded) < len(declared):
            others = "Other tasks" if coded else "Tasks"
            lines += [
                f"// {others} have no code yet: HOPES has it in its own form. Fill in the",
                f'// stubs and name them, as in `python "{self.naming.stubs}:NAME"`.',
            ]
        if not all(token.type for token in self.flow.tokens.values()):
            lines.append("// Of the data HOPES says the size only: tokens are bytes.")
        for declaration, parts in declared:
            name = f"{self.names[declaration]}{_parameters(declaration)}"
            lines += [f"/// {self._origin(parts)}", _block("task", name, self._items(declaration))]
        return [*lines, *self._network_tasks(), ""]

    def _network_tasks(self) -> Iterator[str]:
        declared = self._by_declaration("network")
        if declared:
            yield ""
            yield (
                "// Networks: HOPES knows the time of each layer (see the profile), but not what it"
                " computes."
            )
            yield '// With an ONNX file, write `network NAME from "FILE.onnx"` instead.'
        for declaration, parts in declared:
            layers = self.networks[parts[0][0]].layers
            yield f"/// {len(layers)} layers, {shown(layers[0])} to {shown(layers[-1])}."
            yield _block("task", self.names[declaration], self._items(declaration))

    def _origin(self, parts: list[Part]) -> str:
        """The source of a task's code."""
        tasks = [self.flow.tasks[way] for way, _ in parts]
        first = tasks[0]
        rest = ""
        if len(tasks) > 1:
            rest = f" and {len(tasks) - 1} more"
        role = _ROLES[parts[0][1]]
        if first.link:
            return f"Stands for {shown(first.link)} of another device."
        called = self.code.called.get(parts[0][0])
        language, file = first.language or "code", first.code
        if called is not None:
            language, file = "C", called.file
        return f"{role}{shown(first.name)}{rest}: {language} in {shown(file)}."

    def _items(self, declaration: Declaration) -> list[str]:
        ports, *_, last = declaration.content
        assert isinstance(ports, tuple)
        items = []
        for way, name, type_, rate in ports:
            item = f"{way} {name}"
            if type_:
                item += f": {type_}"
            if rate > 1:
                item += f" rate {rate}"
            items.append(item)
        called = _code(declaration)
        if called is not None:
            items.append(f'c "{called.code}"')
        if declaration.kind == "network" or last is False:
            return [*items, "stateless"]
        return items

    def _graphs(self) -> list[str]:
        """Composites, those inside others first."""
        lines: list[str] = []
        for declaration, parts in sorted(
            self._by_declaration("graph"), key=lambda found: -len(found[1][0][0])
        ):
            way, _ = parts[0]
            boundary = [f"    {d} {name}: {type_}" for d, name, type_, _ in self._written(way)]
            inside = self._members(way)
            names = listed((self.flow.tasks[w].name for w, _ in parts), 8)
            lines += [f"/// {names} of HOPES.", f"graph {self.names[declaration]} {{", *boundary]
            lines += [*self._body(inside, self._arrows(way)), "}", ""]
        return lines

    def _app(self, app: str, group: ConnectedTasks) -> list[str]:
        settings = []
        if group.period_ns:
            settings.append(f"period {in_units(group.period_ns)}")
        if group.deadline_ns:
            settings.append(f"deadline {in_units(group.deadline_ns)}")
        settings.append(f"priority {group.priority}")
        arrows: list[str] = []
        for name in group.tasks:
            arrows += self._arrows((), name)
        return [
            f"/// {listed(group.tasks, 8)} of HOPES.",
            f"app {app} {{",
            "    " + "   ".join(settings),
            *self._body([(n,) for n in group.tasks], arrows, [*self._newest(group)]),
            "}",
            "",
        ]

    def _newest(self, group: ConnectedTasks) -> Iterator[str]:
        """The inputs of an app's tasks from other apps."""
        for channel in self.flow.newest:
            (source, out), (destination, into) = channel.source, channel.destination
            if destination in group.tasks:
                start = self._end((source,), "post", "out", out)
                end = self._end((destination,), "pre", "in", into)
                yield f"{self._app_of(source)}.{start} -> latest -> {end}"

    def _body(self, ways: list[Way], arrows: Iterable[str], looks: Iterable[str] = ()) -> list[str]:
        lines = []
        for way in ways:
            for part in self._parts(way):
                lines.append(f"    {self.instances[part]}: {self.names[self.declarations[part]]}")
        joined = [f"    {line}" for line in (*_chains(arrows), *looks)]
        if joined:
            lines.append("")
        return lines + joined

    # -- arrows ------------------------------------------------------------------------------------
    def _arrows(self, level: Way, only: str = "") -> Iterator[str]:
        """The channels of a level, with `only` those from that task; boundaries and parts of
        networks."""
        if level:
            yield from self._boundary(level, "in")
        for way in self.flow.tasks:
            if way[:-1] == level and only in ("", way[-1]):
                yield from self._inside_network(way)
        for channel, delay in self.flow.channels.get(level, ()):
            if only in ("", channel.source[0]):
                yield self._arrow(level, channel, delay)
        if level:
            yield from self._boundary(level, "out")

    def _inside_network(self, way: Way) -> Iterator[str]:
        """The arrows between the parts of a network."""
        for (_, first), (_, second) in pairwise(self._parts(way)):
            yield f"{self._end(way, first, 'out', '')} -> {self._end(way, second, 'in', '')}"

    def _arrow(self, level: Way, channel: HopesChannel, delay: int) -> str:
        (source, out), (destination, into) = channel.source, channel.destination
        start = self._end((*level, source), "post", "out", out)
        reader = (*level, destination)
        operators = ""
        if delay:
            operators = f"delay {delay} -> "
        if self.flow.tasks[reader].graph is None:
            operators += self._turns((reader, "in", into))
        return f"{start} -> {operators}{self._end(reader, 'pre', 'in', into)}"

    def _boundary(self, level: Way, direction: Direction) -> Iterator[str]:
        inside = self.flow.tasks[level].inside
        for way, port in self._used(level):
            if way != direction:
                continue
            task, inner = inside[way, port]
            member = (*level, task)
            outside = self.ports[(level, ""), way, port]
            turns = self._turns((level, way, port))
            if self.flow.tasks[member].graph is None:
                turns += self._turns((member, way, inner))
            if way == "in":
                yield f"{outside} -> {turns}{self._end(member, 'pre', way, inner)}"
            else:
                yield f"{self._end(member, 'post', way, inner)} -> {turns}{outside}"

    def _turns(self, place: Place) -> str:
        """The operator on an arrow that passes the border of a loop."""
        turns = self.flow.turns.get(place)
        if turns is None or turns.count == 1:
            return ""
        tokens = ""
        if turns.tokens > 1:
            tokens = f" of {turns.tokens}"
        return f"{turns.word} {turns.count}{tokens} -> "

    def _end(self, way: Way, role: Role, direction: Direction, port: str) -> str:
        """An end of an arrow; its port is named if there are several. An external task begins and
        ends elsewhere."""
        part: Part = (way, role)
        if part not in self._parts(way):
            part = (way, "")
        instance = self.instances[part]
        own = [p for d, p in self._used(way) if d == direction]
        if port and len(own) > 1:
            return f"{instance}.{self.ports[(way, ''), direction, port]}"
        return instance

    # -- stubs -------------------------------------------------------------------------------------
    def _stubs(self) -> str:
        stubs = [found for found in self._by_declaration("task") if _code(found[0]) is None]
        lines = [
            (
                f'"""Stubs for the tasks of {self.project}, imported from HOPES: its code stays to'
                " be carried over."
            ),
            "",
            (
                "Inputs are arrays of bytes (`numpy.uint8`); a firing returns an array for each"
                " output. What a class keeps"
            ),
            'between firings belongs to one instance."""',
        ]
        for declaration, parts in stubs:
            lines += ["", "", *self._stub(declaration, parts)]
        if stubs:
            return "\n".join(lines) + "\n"
        return ""

    def _stub(self, declaration: Declaration, parts: list[Part]) -> Iterator[str]:
        """The lines of a function, or of a class for a task that keeps state."""
        name = self.names[declaration]
        items = self._items(declaration)
        inputs = [i.split()[1].rstrip(":") for i in items if i.startswith("in ")]
        outputs = [i.removeprefix("out ") for i in items if i.startswith("out ")]
        parameters = [p.name for p in _given(declaration)]
        doc = self._origin(parts)
        if outputs:
            doc += f" Returns {', '.join(outputs)}."
        stop = f'raise NotImplementedError("{name} is a stub")'
        if declaration.content[-1] is False:
            yield f"def {name}({', '.join([*inputs, *parameters])}):"
            yield f'    """{doc}"""'
            yield f"    {stop}"
            return
        yield f"class {name}:"
        yield f'    """{doc}"""'
        yield ""
        if parameters:
            yield f"    def __init__(self, {', '.join(parameters)}):"
            for parameter in parameters:
                yield f"        self.{parameter} = {parameter}"
            yield ""
        yield f"    def __call__({', '.join(['self', *inputs])}):"
        yield f"        {stop}"


# -- words -----------------------------------------------------------------------------------------
def _block(kind: str, name: str, items: list[str]) -> str:
    inside = ""
    if items:
        inside = "   ".join(items) + " "
    line = f"{kind} {name} {{ {inside}}}"
    if len(line) <= WIDEST:
        return line
    return "\n    ".join([f"{kind} {name} {{", *items]) + "\n}"


def _code(declaration: Declaration) -> CalledFunction | None:
    """The code of a task."""
    return next((part for part in declaration.content if isinstance(part, CalledFunction)), None)


def _given(declaration: Declaration) -> tuple[GivenParameter, ...]:
    if declaration.kind != "task":
        return ()
    found = declaration.content[2]
    assert isinstance(found, tuple)
    return found


def _parameters(declaration: Declaration) -> str:
    """The parameters of a task, as they are declared."""
    said = []
    for parameter in _given(declaration):
        if isinstance(parameter.value, int):
            said.append(f"{parameter.name}: int = {parameter.value}")
        else:
            said.append(f"{parameter.name}: float = {float(parameter.value)!r}")
    if said:
        return f"({', '.join(said)})"
    return ""


def _chains(arrows: Iterable[str]) -> list[str]:
    """Arrows that continue each other on one line."""
    found = list(arrows)
    starts = Counter(map(_start, found))
    ends = Counter(map(_last, found))
    for joint in [end for end in ends if ends[end] == starts[end] == 1]:
        first = next(arrow for arrow in found if _last(arrow) == joint)
        then = next(arrow for arrow in found if _start(arrow) == joint)
        joined = f"{first} -> {then.partition(' -> ')[2]}"
        if first != then and len(joined) <= WIDEST:  # they are equal where a cycle closes
            found[found.index(first)] = joined
            found.remove(then)
    return found


def _start(arrow: str) -> str:
    return arrow.partition(" -> ")[0]


def _last(arrow: str) -> str:
    return arrow.rpartition(" -> ")[2]


def _numbered_prefix(name: str) -> str:
    """The beginning of a name up to its first number and `_`; empty if there is none."""
    found = re.match(r".*?\d_", name)
    if found is None:
        return ""
    return found.group()


def _bare(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    if found and found.group(1):
        return found.group(1)
    return name


def _suffix(names: tuple[str, ...]) -> str:
    """The number that all these names end with, with its `_`."""
    ends = set()
    for name in names:
        found = re.search(r"_?\d+$", name)
        if found is None:
            return ""
        ends.add(found.group())
    if len(ends) == 1:
        return ends.pop()
    return ""


def in_units(ns: Fraction) -> str:
    """A time in the form of a text."""
    unit, factor = next((u, f) for u, f in _UNITS if (ns / f).denominator == 1 or u == "ns")
    value = ns / factor
    if value.denominator == 1:
        return f"{value.numerator} {unit}"
    return f"{value.numerator} / {value.denominator} {unit}"
