"""Tasks of a text as code of HOPES: the input of `templates/wrapper.cic.j2`.

In: a task in C, or one that stands on an arrow. Out: a dict of C strings. One firing of HOPES is a
whole cycle of phases: all data are read before it, and written after it. The reader has initial
values, old tokens of windows, and initial tokens that HOPES does not get.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

from ....codegen.c_text import element, parameter
from ....codegen.in_c import c_name
from ....codegen.sources import Sources
from ....model.application import Application, Channel, FilePath, Implementation, Port, Task
from ....model.types import DTYPES
from .graph import token_type
from .kept import KeptCode
from .library import ExternalLibrary, has_code, is_called
from .newest import PORT, port_of
from .project import ProjectPlan
from .sources import COMMON, SourceUnit, code_in_c


def wrapped(
    task: Task,
    app: Application,
    made: ProjectPlan,
    units: Mapping[str, SourceUnit],
    python: ExternalLibrary | None,
    data: Sources,
) -> dict[str, Any]:
    """The strings of a task; files that its parameters name are added to `data`."""
    if task.name in made.kept.own:
        return _own(task, made.kept.own[task.name])
    ports = _ports(task, app, made)
    places = [port["place"] for port in ports]
    copies = _copies(task)
    shown: dict[str, Any] = {
        "name": task.name,
        "file": f"{made.names[task.name]}.cic",
        "language": "C",
        "parameters": (),
        "ports": ports,
        "phases": task.phases,
        "copies": copies,
        "uses_i": bool(copies) or any(p["delay"] for p in ports),
        "headers": (COMMON,),
        "sources": (),
        "beside": (),
        "code": task.definition,
        "stub": not has_code(task),
        "call": "",
        "function": "",
        "cflags": "",
        "ldflags": "-lm",
    }
    if python is not None and is_called(task):
        return shown | _called(task, python, places)
    code = code_in_c(task)
    if code is None:
        return shown
    return shown | _in_c(task, code, units[code.path], places, data)


def _ports(task: Task, app: Application, made: ProjectPlan) -> list[dict[str, Any]]:
    into = {c.destination_port: c for c in app.channels if c.destination == task.name}
    read = set()
    for c in app.channels:
        if c.source == task.name and c.name not in made.inner:
            read.add(c.source_port)
    ports = [_input(p, task, into.get(p.name), made) for p in task.inputs]
    ports += [_port(p, task, p.name in read) for p in task.outputs]
    if task.link is not None:
        ports.append(_port(port_of(task, task.link), task) | {"newest": True})
    for port in ports:
        hopes = made.kept.port(task.name, port["name"])
        port["hopes"] = hopes
        port["said"] = port["name"]
        if hopes.isidentifier():
            port["said"] = hopes
    return ports


def _in_c(
    task: Task, code: Implementation, unit: SourceUnit, places: list[str], data: Sources
) -> dict[str, Any]:
    """A task that runs a function of its own in C."""
    given = []
    files = []
    for parameter_name, value in task.parameters:
        name = c_name(parameter_name)
        if isinstance(value, FilePath):
            files.append((name, data.place("data", value.path)))
        else:
            given.append(f".{name} = {_value(value)}")
    params = "NULL"
    if task.parameters:
        params = "&params"
    return {
        "headers": (COMMON, unit.header),
        "sources": (unit.source,),
        "beside": unit.beside,
        "code": f"{code.symbol} of {code.file}",
        "symbol": code.symbol,
        "given": given,
        "files": files,
        "params": params,
        "state": bool(task.state),
        "call": f"{code.symbol}({', '.join(['state', *places, params])})",
    }


def _own(task: Task, code: KeptCode) -> dict[str, Any]:
    """A task that runs code of HOPES."""
    named = {path.name for path in (code.file, *code.headers, *code.sources)}
    return {
        "name": task.name,
        "file": code.file.name,
        "language": code.language,
        "parameters": code.parameters,
        "headers": tuple(path.name for path in code.headers),
        "sources": tuple(path.name for path in code.sources),
        "beside": tuple(path.name for path in code.files if path.name not in named),
        "cflags": code.cflags,
        "ldflags": code.ldflags,
    }


def _called(task: Task, python: ExternalLibrary, places: list[str]) -> dict[str, Any]:
    """A task that the library runs."""
    function = python.functions[task.name]
    code = task.implementation_on("cpu") or task.reference
    what = task.definition
    if task.network is not None:
        what = f"network {task.definition}"
    elif code is not None:
        what = f"{code.symbol} of {code.file}"
    return {
        "headers": (COMMON, python.header),
        "code": what,
        "function": function,
        "call": f"{function}_execute({', '.join(places)})",
        "ldflags": f"-lm {python.ldflags}",
    }


def _value(value: object) -> str:
    return parameter(value if isinstance(value, (bool, int, str)) else float(value))  # type: ignore[arg-type]


def _port(port: Port, task: Task, joined: bool = True) -> dict[str, Any]:
    kind = token_type(port)
    rates = [port.rate(k) for k in range(task.phases)]
    elements = prod(kind.shape)
    offsets = [*_offsets(port, rates)]
    steps = {b - a for a, b in pairwise(offsets)}
    table: tuple[int, ...] = ()
    if task.phases == 1:
        where = str(offsets[0] * elements)
    elif len(steps) == 1 and offsets[0] == 0:
        where = f"k * {steps.pop() * elements}"
    else:
        where, table = f"at_{port.name}[k] * {elements}", tuple(offsets)
    place = f"data_{port.name}"
    if where != "0":
        place += f" + {where}"
    return {
        "name": port.name,
        "ctype": DTYPES[kind.dtype][0],
        "elements": elements,
        "tokens": sum(rates),
        "kept": port.kept,
        "reads": port.direction == "in",
        "joined": joined,
        "place": place,
        "table": table,
        "delay": 0,
        "held": False,
        "from": "",
        "given": (),
        "newest": False,
    }


def _offsets(port: Port, rates: Iterable[int]) -> Iterator[int]:
    """The first token that a firing sees, for each phase.

    Old tokens of a window are before the new ones, and those of the last firing before all of them.
    """
    start = port.kept
    for rate in rates:
        if port.window:
            yield start + rate - port.window
        else:
            yield start
        start += rate


def _input(port: Port, task: Task, channel: Channel | None, made: ProjectPlan) -> dict[str, Any]:
    if channel is None:
        return _port(port, task, joined=False)
    inner = channel.name in made.inner
    shown = _port(port, task, not inner)
    if not channel.delay:
        return shown
    exact: list[int | float] = []
    for v in channel.values or (Fraction(0),):
        exact.append(int(v) if v.denominator == 1 else float(v))
    if len(set(exact)) == 1:
        exact = exact[:1]
    dtype = token_type(port).dtype
    return shown | {
        "delay": channel.delay,
        "held": channel.name in made.held,
        "from": channel.source_port if inner else "",
        "given": tuple(element(v, dtype) for v in exact),
    }


def _copies(task: Task) -> list[str]:
    """The code of a resampling on an arrow, or of an end of `latest`, which copies tokens; other
    tasks have their own."""
    if task.link is not None:
        source, target = PORT, "out"
        if task.link.writes:
            source, target = "in", PORT
        return [f"memcpy(data_{target}, data_{source}, sizeof data_{target});"]
    what = task.resampling
    if what is None:
        return []
    elements = what.block * prod(token_type(task.inputs[0]).shape)
    size = f"{elements} * sizeof *data_in"
    if what.word == "last":
        return [f"memcpy(data_out, data_in + {(what.count - 1) * elements}, {size});"]
    return [
        f"for (i = 0; i < {what.count}; i++)",
        f"    memcpy(data_out + i * {elements}, data_in, {size});",
    ]
