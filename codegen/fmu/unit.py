"""The C code of a unit as strings: the input of the templates in `templates/fmu`.

In: an app without refusals, its deployment on one processor, and the order of an iteration. Out: a
`FmuUnit`. Channels become arrays that hold an iteration, and tasks functions that read and write in
place; code that is not in C is called in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...analysis.dataflow.order import iteration_order
from ...dsl.code import c_functions
from ...model.application import Application
from ...model.deployment import (
    DataFile,
    DeployedApp,
    DeployedChannel,
    DeployedPort,
    DeployedTask,
    Deployment,
)
from ...model.types import DTYPES
from ..c_text import comment, element, parameter
from ..deploy import Deployed
from ..external import RESERVED
from ..in_c import C_PARAMETERS, c_name
from ..kinds import code_of
from ..kinds.border import BorderCode
from ..kinds.c import CCode
from ..kinds.python import PythonCode
from ..libraries import Library, distinct
from ..names import identifiers
from ..sources import CTask
from .variables import Variable, variables

#: Runs of the order on one line of the table.
_ON_A_LINE = 8


@dataclass(frozen=True, slots=True)
class FmuUnit:
    """The content of the files of a unit. `called` tasks are not in C, and need `libraries`. `step`
    is the step size in s, if there is one.

    Lines are C; `needs_files`: the resources of the unit are used. `sources` are the files to
    compile, empty if a compiler alone is not enough. A `native` one is stepped by a program in
    C++, to which `arrive` gives the places of its open ends.
    """

    name: str
    source: str
    doc: str
    tool: str
    token: str
    version: int
    step: str
    variables: tuple[Variable, ...]
    headers: tuple[str, ...]
    files: tuple[dict[str, str], ...]
    parameters: tuple[str, ...]
    fields: tuple[str, ...]
    optional: tuple[dict[str, object], ...]
    tasks: tuple[dict[str, Any], ...]
    channels: tuple[dict[str, Any], ...]
    order: tuple[str, ...]
    arrive: tuple[str, ...]
    leave: tuple[str, ...]
    defaults: tuple[str, ...]
    called: int
    libraries: tuple[str, ...]
    sources: tuple[str, ...] = ()
    native: bool = False
    has_resources: bool = False

    @property
    def face(self) -> str:
        """The file that a simulator calls, without its ending."""
        return f"fmi{self.version}"

    @property
    def outputs(self) -> list[int]:
        """Value references of outputs."""
        return [i for i, v in enumerate(self.variables) if v.role == "output"]

    @property
    def needs_files(self) -> bool:
        """Does it use its resources?"""
        return bool(self.files) or self.called > 0 or self.has_resources


def unit(
    app: Application, deployed: Deployed, firings: Mapping[str, int], version: int, tool: str
) -> FmuUnit:
    """The unit of an app without refusals; its token is still empty. Raises TooLong."""
    (of_app,) = deployed.deployment.apps
    ids = names_inside(of_app)
    inside = [t for t in of_app.tasks if t.name in ids]
    listed = tuple(variables(app, firings, version, ids))
    made = _Code(of_app, ids, deployed.c_tasks)
    called = [t for t in inside if not isinstance(t.code, CCode)]
    tasks = tuple(made.task(t, called.index(t) if t in called else 0) for t in inside)
    return FmuUnit(
        app.name,
        deployed.deployment.source,
        app.doc,
        tool,
        "",
        version,
        step_size(app),
        listed,
        tuple(f"{source.rsplit('.', 1)[0]}.flow.h" for source in sorted(deployed.c_tasks)),
        tuple(made.files),
        tuple(made.parameters()),
        tuple(made.fields(listed)),
        tuple(made.optional()),
        tasks,
        tuple(made.channels),
        tuple(_order(app, firings, [t.name for t in inside])),
        tuple(made.border("in")),
        tuple(made.border("out")),
        tuple(made.defaults),
        len(called),
        _libraries(called, deployed.deployment),
    )


def names_inside(app: DeployedApp) -> dict[str, str]:
    """The names in C of all tasks but open ends."""
    inside = [t for t in app.tasks if not isinstance(t.code, BorderCode)]
    ids = identifiers([t.name.partition(".")[2] for t in inside], RESERVED)
    return {t.name: ids[t.name.partition(".")[2]] for t in inside}


def step_size(app: Application) -> str:
    """The step size in s that a unit proposes, if it does."""
    return "" if app.period_ns is None else repr(float(app.period_ns / 10**9))


def _libraries(called: Iterable[DeployedTask], deployment: Deployment) -> tuple[str, ...]:
    """The names of the packages that these tasks need."""
    libraries: list[Library] = []
    for task in called:
        libraries += code_of(task).libraries(deployment)
    return tuple(library.name for library in distinct(libraries))


def _order(app: Application, firings: Mapping[str, int], inside: Sequence[str]) -> list[str]:
    """Runs of tasks. Inputs come before all of them, and outputs after, so that no task waits for
    room."""
    number = {name: i for i, name in enumerate(inside)}
    runs: list[tuple[int, int]] = []
    for name, times in iteration_order(app, firings, upstream_first=True).firings:
        if name not in number:
            continue
        if runs and runs[-1][0] == number[name]:
            runs[-1] = (number[name], runs[-1][1] + times)
        else:
            runs.append((number[name], times))
    words = [f"{{ {task}, {times} }}," for task, times in runs]
    return [" ".join(words[i : i + _ON_A_LINE]) for i in range(0, len(words), _ON_A_LINE)]


class _Code:
    """Collects the members of the instance while the code of tasks is generated."""

    def __init__(
        self, app: DeployedApp, ids: Mapping[str, str], c_tasks: Mapping[str, tuple[CTask, ...]]
    ) -> None:
        self._app, self._ids, self._c_tasks = app, ids, c_tasks
        self._tasks = {t.name: t for t in app.tasks}
        self._into: dict[tuple[str, str], str] = {}
        self._out_of: dict[tuple[str, str], list[str]] = {}
        self.channels = [self._channel(i, c) for i, c in enumerate(app.channels)]
        self._by_id = {c["id"]: c for c in self.channels}
        self._unread: list[str] = []
        self.files: list[dict[str, str]] = []
        self.defaults: list[str] = []

    # -- channels ----------------------------------------------------------------------------------
    def _channel(self, number: int, channel: DeployedChannel) -> dict[str, Any]:
        source = self._tasks[channel.source]
        port = next(p for p in source.outputs if p.name == channel.source_port)
        reader = next(
            p for p in self._tasks[channel.destination].inputs if p.name == channel.destination_port
        )
        kept = max(0, reader.window - min(reader.rates))
        moved = source.firings * sum(port.rates) // len(port.rates)
        name = f"channel_{number}"
        self._into[channel.destination, channel.destination_port] = name
        self._out_of.setdefault((channel.source, channel.source_port), []).append(name)
        return {
            "id": name,
            "name": channel.name,
            "ctype": DTYPES[port.dtype][0],
            "elements": prod(port.shape),
            "kept": kept,
            "rest": kept + channel.delay,
            "delay": channel.delay,
            "tokens": kept + channel.delay + moved,
            "initial": ", ".join(element(v, port.dtype) for v in channel.values),
        }

    def fields(self, listed: Sequence[Variable]) -> list[str]:
        """The members of an instance that start as zeros."""
        lines = []
        for v in listed:
            if v.role in ("input", "output"):
                lines.append(f"{DTYPES[v.dtype][0]} {v.place.partition('.')[2]}[{v.count}];")
        for c in self.channels:
            size = c["tokens"] * c["elements"]
            lines.append(f"/* {comment(c['name'])} */")
            lines.append(
                f"struct {{ size_t read, written; {c['ctype']} tokens[{size}]; }} {c['id']};"
            )
        lines += self._unread
        for task in self._app.tasks:
            if isinstance(task.code, CCode):
                lines.append(f"void *state_{self._ids[task.name]};")
                if task.code.state:
                    lines.append(f"{task.code.name}_state memory_{self._ids[task.name]};")
        return lines

    def border(self, direction: str) -> list[str]:
        """Copies from inputs to channels, or from channels to outputs."""
        lines = []
        for task in self._app.tasks:
            if task.code.kind != direction:
                continue
            (port,) = (*task.outputs, *task.inputs)
            outside = f"m->data.port_{port.name}"
            if task.inputs:
                name = self._into[task.name, port.name]
                lines.append(f"memcpy({outside}, {self._next(name, 'read')}, sizeof {outside});")
                lines.append(f"m->data.{name}.read += {task.firings};")
                continue
            for name in self._out_of.get((task.name, port.name), []):
                lines.append(f"memcpy({self._next(name, 'written')}, {outside}, sizeof {outside});")
                lines.append(f"m->data.{name}.written += {task.firings};")
        return lines

    def _next(self, channel: str, side: str) -> str:
        """The first element that was not `read`, or `written`, yet."""
        elements = self._by_id[channel]["elements"]
        return f"m->data.{channel}.tokens + m->data.{channel}.{side} * {elements}"

    # -- tasks -------------------------------------------------------------------------------------
    def task(self, task: DeployedTask, number: int) -> dict[str, Any]:
        """A task as in model.c; `number` counts those that are called in Python."""
        ports = [self._port(task, p, "in") for p in task.inputs]
        ports += [self._port(task, p, "out") for p in task.outputs]
        after = []
        for port in ports:
            after += port["after"]
        shown = {
            "name": task.name,
            "id": self._ids[task.name],
            "number": number,
            "firings": task.firings,
            "ports": ports,
            "after": after,
            "called": not isinstance(task.code, CCode),
            "call": "",
        }
        arguments = [p["arg"] for p in ports]
        if isinstance(task.code, CCode):
            return shown | self._c_call(task.code, self._ids[task.name], arguments)
        return shown | self._python_call(task, arguments)

    def _c_call(self, code: CCode, ident: str, arguments: Sequence[str]) -> dict[str, Any]:
        """What is further known of a task in C."""
        self._defaults(ident, [(n, v) for n, _, v in code.parameters])
        params = f"&m->given.{ident}" if code.parameters else "NULL"
        passed = ", ".join([f"m->data.state_{ident}", *arguments, params])
        return {
            "code": f"{code.name} of {code.source}",
            "symbol": code.name,
            "params": params,
            "call": f"{code.name}({passed})",
            "memory": f"&m->data.memory_{ident}" if code.state else "NULL",
        }

    def _python_call(self, task: DeployedTask, arguments: Sequence[str]) -> dict[str, Any]:
        """What is further known of a task that is called in Python."""
        code, ident = task.code, self._ids[task.name]
        given = _given_to(code)
        self._defaults(ident, given)
        values = []
        for name, value in given:
            pointer = "(void *)" if isinstance(value, str) else "&"
            values.append(f"{pointer}m->given.{ident}.{c_name(name)}")
        where = getattr(code, "file", "")
        if isinstance(code, PythonCode):
            where = f"{code.name} of {code.file}"
        return {
            "code": where,
            "given": ", ".join(values) or "NULL",
            "arguments": ", ".join(f"(void *){a}" for a in arguments) or "NULL",
        }

    def _port(self, task: DeployedTask, port: DeployedPort, direction: str) -> dict[str, Any]:
        arg, key = f"{direction}_{port.name}", (task.name, port.name)
        elements, ctype = prod(port.shape), DTYPES[port.dtype][0]
        reads = direction == "in"
        names, side = self._out_of.get(key, []), "written"
        if reads:
            names, side = [self._into[key]], "read"
        if not names:
            unread = f"unread_{self._ids[task.name]}_{port.name}"
            self._unread.append(f"{ctype} {unread}[{max(port.rates) * elements}];")
            place = f"m->data.{unread}"
        elif reads and port.window:
            first = f"m->data.{names[0]}.read + n_{arg} - {port.window}"
            place = f"m->data.{names[0]}.tokens + ({first}) * {elements}"
        else:
            place = self._next(names[0], side)
        after = [
            f"memcpy(m->data.{n}.tokens + m->data.{n}.written * {elements}, {arg}, "
            f"n_{arg} * {elements} * sizeof *{arg});"
            for n in names[1:]
        ]
        after += [f"m->data.{n}.{side} += n_{arg};" for n in names]
        several = len(port.rates) > 1
        return {
            "arg": arg,
            "ctype": ctype,
            "const": "const " if reads else "",
            "elements": elements,
            "place": place,
            "rates": ", ".join(map(str, port.rates)) if several else "",
            "rate": port.rates[0],
            "phases": len(port.rates),
            "zeroed": not reads,
            "after": after,
        }

    # -- parameters --------------------------------------------------------------------------------
    def _defaults(self, ident: str, given: Sequence[tuple[str, object]]) -> None:
        for name, value in given:
            place = f"m->given.{ident}.{c_name(name)}"
            if isinstance(value, DataFile):
                self.files.append(
                    {"field": f"file_{len(self.files)}", "path": value.file, "given": place}
                )
            else:
                self.defaults.append(f"{place} = {parameter(value)};")

    def parameters(self) -> list[str]:
        """The members of an instance that hold parameters, one for each task that has any."""
        lines = []
        for task in self._app.tasks:
            if isinstance(task.code, CCode):
                if task.code.parameters:
                    lines.append(f"{task.code.name}_params {self._ids[task.name]};")
                continue
            given = _given_to(task.code)
            if given:
                members = " ".join(f"{C_PARAMETERS[kind_of(v)]} {c_name(n)};" for n, v in given)
                lines.append(f"struct {{ {members} }} {self._ids[task.name]};")
        return [line.replace("*  ", "*") for line in lines]

    def optional(self) -> list[dict[str, object]]:
        """Optional functions of a C file: for the start and the end of a task, and for its error
        message."""
        found: dict[str, dict[str, object]] = {}
        for tasks in self._c_tasks.values():
            for code in (c.code for c in tasks):
                there = c_functions(Path(code.path))
                for end, kind in (
                    ("init", f"void *(*)(const {code.symbol}_params *)"),
                    ("exit", "void (*)(void *)"),
                    ("error", "const char *(*)(void *)"),
                ):
                    name = f"{code.symbol}_{end}"
                    found[name] = {"name": name, "type": kind, "there": int(name in there)}
        return list(found.values())


def _given_to(code: object) -> list[tuple[str, Any]]:
    """The parameters of a task in Python, without files."""
    if not isinstance(code, PythonCode):
        return []
    return [(n, v) for n, v in code.parameters if not isinstance(v, DataFile)]


def kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    return "string"
