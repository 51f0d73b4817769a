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
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from ..names import capitalised, identifiers, listed, refused_words, shown
from .counts import Place
from .design import Direction, HopesTask, Way
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


def texts_of(
    name: str,
    flow: Flow,
    networks: Mapping[Way, HopesNetwork],
    code: Wrapped,
    about: Iterable[str],
    stubs: str,
    app: str = "",
    suffix: str = "",
    taken: Collection[str] = (),
) -> Texts:
    """The application, and stubs for a file that is called `stubs`.

    `app` replaces the name of the project as an app's name, and all declared names end with
    `suffix` and differ from those in `taken`.
    """
    return _Texts(name, flow, networks, code, app, suffix, taken).texts(about, stubs)


@dataclass(slots=True)
class _Texts:
    project: str
    flow: Flow
    networks: Mapping[Way, HopesNetwork]
    code: Wrapped
    app: str
    suffix: str
    taken: Collection[str]
    #: Names of instances and boundaries on each level.
    instances: dict[Part, str] = field(default_factory=dict)
    declarations: dict[Part, Declaration] = field(default_factory=dict)
    ports: dict[tuple[Part, Direction, str], str] = field(default_factory=dict)
    names: dict[Declaration, str] = field(default_factory=dict)
    apps: list[str] = field(default_factory=list)

    def texts(self, about: Iterable[str], stubs: str) -> Texts:
        self._name_ports()
        for way in sorted(self.flow.tasks, key=lambda w: -len(w)):  # from inside to outside
            self._declare(way)
        for group in self.flow.groups:
            for part, instance in self._instances(
                [(n,) for n in group.tasks], _suffix(group.tasks)
            ):
                self.instances[part] = instance
        self._name_declarations()
        lines = [*(f"// {line}" for line in about), ""]
        lines += self._tasks(stubs)
        lines += self._graphs()
        for app, group in zip(self.apps, self.flow.groups, strict=True):
            lines += self._app(app, group)
        full = {
            part: self._full(part) for way, _ in self.flow.leaves() for part in self._parts(way)
        }
        application = "\n".join(lines).rstrip() + "\n"
        declared = frozenset((*self.apps, *self.names.values()))
        ports = {p: dict(self._theirs(p)) for p in full}
        return Texts(application, self._stubs(), tuple(self.apps), declared, full, ports)

    def _theirs(self, part: Part) -> Iterator[tuple[str, str]]:
        """The ports of a task with their names in HOPES; those of a network are at its first and
        its last part."""
        way, _ = part
        parts = self._parts(way)
        for direction, port in self._used(way):
            if part == (parts[0] if direction == "in" else parts[-1]):
                yield self.ports[(way, ""), direction, port], port

    # -- names -------------------------------------------------------------------------------------
    def _parts(self, way: Way) -> list[Part]:
        network = self.networks.get(way)
        if network is None:
            return [(way, "")]
        first: list[Part] = [(way, "pre")] if network.pre else []
        last: list[Part] = [(way, "post")] if network.post else []
        return [*first, (way, ""), *last]

    def _full(self, part: Part) -> str:
        way, _ = part
        app = next(a for a, g in zip(self.apps, self.flow.groups, strict=True) if way[0] in g.tasks)
        around = [self.instances[way[: n + 1], ""] for n in range(len(way) - 1)]
        return ".".join([app, *around, self.instances[part]])

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
        numbered = [found.group() if (found := re.match(r".*?\d_", w[-1])) else "" for w in ways]
        start = len(numbered[0]) if len(ways) > 1 and len(set(numbered)) == 1 else 0
        parts = [part for way in ways for part in self._parts(way)]
        wanted = [(w[-1][start:].removesuffix(suffix), role) for w, role in parts]
        taken = {
            self.ports[(w[:-1], ""), d, p]
            for w in ways[:1]
            if len(w) > 1
            for d, p in self._used(w[:-1])
        }
        made = identifiers(
            (f"{n}_{r}" if r else n for n, r in wanted), "task", {*refused_words(), *taken}
        )
        return zip(parts, made, strict=True)

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
            own = called.parameters if called else given((), task.parameters)
            content = (tuple(self._written(way)), called, own, task.stateful or called is not None)
            self.declarations[way, ""] = Declaration("task", task.name, content)

    def _declare_graph(self, way: Way) -> None:
        inside = [
            w for w in self.flow.tasks if w[:-1] == way and self.flow.tasks[w].kind != "control"
        ]
        for part, instance in self._instances(inside):
            self.instances[part] = instance
            if part[0] not in self.networks and self.flow.tasks[part[0]].graph is None:
                # Copies of a task have the number of their composite.
                old = self.declarations[part]
                self.declarations[part] = Declaration(old.kind, instance, old.content)
        parts = tuple(
            (self.instances[p], self.declarations[p]) for w in inside for p in self._parts(w)
        )
        content = (tuple(self._written(way)), parts, tuple(self._arrows(way)))
        self.declarations[way, ""] = Declaration("graph", _bare(way[-1]), content)

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
        groups = self.flow.groups
        first = self.app or capitalised(self.project, "app")
        wanted = [
            first + (_suffix(g.tasks).lstrip("_") or capitalised(g.tasks[0], "app")) for g in groups
        ]
        if len(groups) == 1:
            wanted = [first]
        uses = Counter(self.declarations.values())
        kept = list(
            dict.fromkeys(
                self.declarations[p]
                for w in self.flow.tasks
                for p in self._parts(w)
                if p in self.declarations
            )
        )
        for way in self.flow.tasks:  # a composite without copies keeps its number
            declaration = self.declarations.get((way, ""))
            if declaration is not None and declaration.kind == "graph" and uses[declaration] == 1:
                self.names[declaration] = way[-1]
        others = [capitalised(self.names.get(d, d.wanted), "task") for d in kept]
        made = identifiers(
            (f"{name}{self.suffix}" for name in (*wanted, *others)), "task", self.taken
        )
        self.apps = made[: len(groups)]
        self.names.update(zip(kept, made[len(groups) :], strict=True))

    # -- the application ---------------------------------------------------------------------------
    def _by_declaration(self, *kinds: str) -> list[tuple[Declaration, list[Part]]]:
        found: dict[Declaration, list[Part]] = {}
        for way in self.flow.tasks:
            for part in self._parts(way):
                declaration = self.declarations.get(part)
                if declaration is not None and declaration.kind in kinds:
                    found.setdefault(declaration, []).append(part)
        return list(found.items())

    def _tasks(self, stubs: str) -> list[str]:
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
                f'// stubs and name them, as in `python "{stubs}:NAME"`.',
            ]
        if not all(token.type for token in self.flow.tokens.values()):
            lines.append("// Of the data HOPES says the size only: tokens are bytes.")
        for declaration, parts in declared:
            name = f"{self.names[declaration]}{_parameters(declaration)}"
            lines += [f"/// {self._origin(parts)}", _block("task", name, self._items(declaration))]
        networks = self._by_declaration("network")
        if networks:
            lines += [
                "",
                (
                    "// Networks: HOPES knows the time of each layer (see the profile), but not"
                    " what it computes."
                ),
                '// With an ONNX file, write `network NAME from "FILE.onnx"` instead.',
            ]
        for declaration, parts in networks:
            network = self.networks[parts[0][0]]
            lines.append(
                f"/// {len(network.layers)} layers, {shown(network.layers[0])} to"
                f" {shown(network.layers[-1])}."
            )
            lines.append(_block("task", self.names[declaration], self._items(declaration)))
        return [*lines, ""]

    def _origin(self, parts: list[Part]) -> str:
        """The source of a task's code."""
        tasks = [self.flow.tasks[way] for way, _ in parts]
        first = tasks[0]
        rest = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        role = {"pre": "Runs before the layers of ", "post": "Runs after the layers of ", "": ""}[
            parts[0][1]
        ]
        if first.link:
            return f"Stands for {shown(first.link)} of another device."
        called = self.code.called.get(parts[0][0])
        language, file = (
            (first.language or "code", first.code) if called is None else ("C", called.file)
        )
        return f"{role}{shown(first.name)}{rest}: {language} in {shown(file)}."

    def _items(self, declaration: Declaration) -> list[str]:
        ports, *_, last = declaration.content
        assert isinstance(ports, tuple)
        items = []
        for way, name, type_, rate in ports:
            type_name = f": {type_}" if type_ else ""
            items.append(f"{way} {name}{type_name}" + (f" rate {rate}" if rate > 1 else ""))
        called = _code(declaration)
        items += [f'c "{called.code}"'] if called is not None else []
        return [*items, "stateless"] if declaration.kind == "network" or last is False else items

    def _graphs(self) -> list[str]:
        """Composites, those inside others first."""
        lines: list[str] = []
        for declaration, parts in sorted(
            self._by_declaration("graph"), key=lambda found: -len(found[1][0][0])
        ):
            way, _ = parts[0]
            boundary = [f"    {d} {name}: {type_}" for d, name, type_, _ in self._written(way)]
            inside = [
                w for w in self.flow.tasks if w[:-1] == way and self.flow.tasks[w].kind != "control"
            ]
            names = listed((self.flow.tasks[w].name for w, _ in parts), 8)
            lines += [f"/// {names} of HOPES.", f"graph {self.names[declaration]} {{", *boundary]
            lines += [*self._body(inside, self._arrows(way)), "}", ""]
        return lines

    def _app(self, app: str, group: ConnectedTasks) -> list[str]:
        period = [f"period {in_units(group.period_ns)}"] if group.period_ns else []
        deadline = [f"deadline {in_units(group.deadline_ns)}"] if group.deadline_ns else []
        lines = [f"/// {listed(group.tasks, 8)} of HOPES.", f"app {app} {{"]
        lines.append("    " + "   ".join([*period, *deadline, f"priority {group.priority}"]))
        arrows = [a for n in group.tasks for a in self._arrows((), n)]
        return [
            *lines,
            *self._body([(n,) for n in group.tasks], arrows, [*self._newest(group)]),
            "}",
            "",
        ]

    def _newest(self, group: ConnectedTasks) -> Iterator[str]:
        """The inputs of an app's tasks from other apps."""
        for channel in self.flow.newest:
            (source, out), (destination, into) = channel.source, channel.destination
            if destination in group.tasks:
                app = next(
                    a for a, g in zip(self.apps, self.flow.groups, strict=True) if source in g.tasks
                )
                start, end = (
                    self._end((source,), "post", "out", out),
                    self._end((destination,), "pre", "in", into),
                )
                yield f"{app}.{start} -> latest -> {end}"

    def _body(self, ways: list[Way], arrows: Iterable[str], looks: Iterable[str] = ()) -> list[str]:
        parts = [p for way in ways for p in self._parts(way)]
        lines = [*_chains(arrows), *looks]
        instances = (f"    {self.instances[p]}: {self.names[self.declarations[p]]}" for p in parts)
        return [*instances, *([""] if lines else []), *(f"    {line}" for line in lines)]

    # -- arrows ------------------------------------------------------------------------------------
    def _arrows(self, level: Way, only: str = "") -> Iterator[str]:
        """The channels of a level, with `only` those from that task; boundaries and parts of
        networks."""
        if level:
            yield from self._boundary(level, "in")
        for way in (w for w in self.flow.tasks if w[:-1] == level and only in ("", w[-1])):
            for (_, first), (_, second) in zip(
                self._parts(way), self._parts(way)[1:], strict=False
            ):
                yield f"{self._end(way, first, 'out', '')} -> {self._end(way, second, 'in', '')}"
        for channel, delay in self.flow.channels.get(level, ()):
            (source, out), (destination, into) = channel.source, channel.destination
            if only in ("", source):
                initial = f"delay {delay} -> " if delay else ""
                start, reader = (
                    self._end((*level, source), "post", "out", out),
                    (*level, destination),
                )
                alone = self.flow.tasks[reader].graph is None
                turns = self._turns((reader, "in", into)) if alone else ""
                yield f"{start} -> {initial}{turns}{self._end(reader, 'pre', 'in', into)}"
        if level:
            yield from self._boundary(level, "out")

    def _boundary(self, level: Way, direction: Direction) -> Iterator[str]:
        inside = self.flow.tasks[level].inside
        for way, port in self._used(level):
            if way == direction:
                task, inner = inside[way, port]
                outside = self.ports[(level, ""), way, port]
                end = self._end((*level, task), "pre" if way == "in" else "post", way, inner)
                turns = self._turns((level, way, port))
                if self.flow.tasks[*level, task].graph is None:
                    turns += self._turns(((*level, task), way, inner))
                yield f"{outside} -> {turns}{end}" if way == "in" else f"{end} -> {turns}{outside}"

    def _turns(self, place: Place) -> str:
        """The operator on an arrow that passes the border of a loop."""
        turns = self.flow.turns.get(place)
        if turns is None or turns.count == 1:
            return ""
        tokens = f" of {turns.tokens}" if turns.tokens > 1 else ""
        return f"{turns.word} {turns.count}{tokens} -> "

    def _end(self, way: Way, role: Role, direction: Direction, port: str) -> str:
        """An end of an arrow; its port is named if there are several. An external task begins and
        ends elsewhere."""
        part: Part = (way, role if (way, role) in self._parts(way) else "")
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
            name = self.names[declaration]
            items = self._items(declaration)
            ports = [i.split()[1].rstrip(":") for i in items if i.startswith("in ")]
            given = [p.name for p in _given(declaration)]
            returns = [i.removeprefix("out ") for i in items if i.startswith("out ")]
            said = [self._origin(parts)] + ([f"Returns {', '.join(returns)}."] if returns else [])
            stop = f'raise NotImplementedError("{name} is a stub")'
            if declaration.content[-1] is False:
                both = ", ".join([*ports, *given])
                lines += [
                    "",
                    "",
                    f"def {name}({both}):",
                    f'    """{" ".join(said)}"""',
                    f"    {stop}",
                ]
                continue
            lines += ["", "", f"class {name}:", f'    """{" ".join(said)}"""', ""]
            if given:
                lines += [f"    def __init__(self, {', '.join(given)}):"]
                lines += [*(f"        self.{p} = {p}" for p in given), ""]
            lines += [f"    def __call__({', '.join(['self', *ports])}):", f"        {stop}"]
        return "\n".join(lines) + "\n" if stubs else ""


# -- words -----------------------------------------------------------------------------------------
def _block(kind: str, name: str, items: list[str]) -> str:
    line = f"{kind} {name} {{ {'   '.join(items)} }}" if items else f"{kind} {name} {{ }}"
    return line if len(line) <= WIDEST else "\n    ".join([f"{kind} {name} {{", *items]) + "\n}"


def _code(declaration: Declaration) -> CalledFunction | None:
    """The code of a task."""
    return next((part for part in declaration.content if isinstance(part, CalledFunction)), None)


def _given(declaration: Declaration) -> tuple[GivenParameter, ...]:
    found = declaration.content[2] if declaration.kind == "task" else ()
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
    return f"({', '.join(said)})" if said else ""


def _chains(arrows: Iterable[str]) -> list[str]:
    """Arrows that continue each other on one line."""
    found = list(arrows)
    starts = Counter(a.partition(" -> ")[0] for a in found)
    ends = Counter(a.rpartition(" -> ")[2] for a in found)
    for joint in [e for e in ends if ends[e] == starts[e] == 1]:
        first = next(c for c in found if c.rpartition(" -> ")[2] == joint)
        then = next(c for c in found if c.partition(" -> ")[0] == joint)
        joined = f"{first} -> {then.partition(' -> ')[2]}"
        if first != then and len(joined) <= WIDEST:  # they are equal where a cycle closes
            found[found.index(first)] = joined
            found.remove(then)
    return found


def _bare(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found.group(1) if found and found.group(1) else name


def _suffix(names: tuple[str, ...]) -> str:
    """The number that all these names end with, with its `_`."""
    ends = {m.group() if (m := re.search(r"_?\d+$", name)) else "" for name in names}
    return ends.pop() if len(ends) == 1 else ""


def in_units(ns: Fraction) -> str:
    """A time in the form of a text."""
    unit, factor = next((u, f) for u, f in _UNITS if (ns / f).denominator == 1 or u == "ns")
    value = ns / factor
    if value.denominator == 1:
        return f"{value.numerator} {unit}"
    return f"{value.numerator} / {value.denominator} {unit}"
