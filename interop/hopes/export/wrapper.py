"""Tasks of a text as code of HOPES: the input of `templates/wrapper.cic.j2`.

In: a task in C, or one that stands on an arrow. Out: a dict of C strings. One firing of HOPES is a
whole cycle of phases: all data are read before it, and written after it. The reader has initial
values, old tokens of windows, and initial tokens that HOPES does not get.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

from ....codegen.c_text import element, parameter
from ....codegen.in_c import c_name
from ....codegen.sources import Sources
from ....model.application import Application, Channel, FilePath, Implementation, Port, Task
from ....model.types import DTYPES
from .kept import KeptCode
from .library import ExternalLibrary, has_code, is_called
from .newest import PORT, port_of
from .project import ProjectPlan
from .sources import COMMON, SourceUnit, in_c


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
    code = task.implementation_on("cpu")
    if code is None or not in_c(task):
        return shown
    return shown | _in_c(task, code, units[code.path], places, data)


def _ports(task: Task, app: Application, made: ProjectPlan) -> list[dict[str, Any]]:
    into = {c.destination_port: c for c in app.channels if c.destination == task.name}
    read = {
        c.source_port for c in app.channels if c.source == task.name and c.name not in made.inner
    }
    ports = [_input(p, task, into.get(p.name), made) for p in task.inputs]
    ports += [_port(p, task, p.name in read) for p in task.outputs]
    if task.link is not None:
        ports.append(_port(port_of(task), task) | {"newest": True})
    for port in ports:
        hopes = made.kept.port(task.name, port["name"])
        port |= {"hopes": hopes, "said": hopes if hopes.isidentifier() else port["name"]}
    return ports


def _in_c(
    task: Task, code: Implementation, unit: SourceUnit, places: list[str], data: Sources
) -> dict[str, Any]:
    """A task that runs a function of its own in C."""
    given = [(c_name(n), v) for n, v in task.parameters]
    params = "&params" if given else "NULL"
    return {
        "headers": (COMMON, unit.header),
        "sources": (unit.source,),
        "beside": unit.beside,
        "code": f"{code.symbol} of {code.file}",
        "symbol": code.symbol,
        "given": [f".{n} = {_value(v)}" for n, v in given if not isinstance(v, FilePath)],
        "files": [(n, data.place("data", v.path)) for n, v in given if isinstance(v, FilePath)],
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
    what = f"{code.symbol} of {code.file}" if code is not None else task.definition
    return {
        "headers": (COMMON, python.header),
        "code": f"network {task.definition}" if task.network is not None else what,
        "function": function,
        "call": f"{function}_execute({', '.join(places)})",
        "ldflags": f"-lm {python.ldflags}",
    }


def _value(value: object) -> str:
    return parameter(value if isinstance(value, (bool, int, str)) else float(value))  # type: ignore[arg-type]


def _port(port: Port, task: Task, joined: bool = True) -> dict[str, Any]:
    assert port.type is not None
    rates = [port.rate(k) for k in range(task.phases)]
    elements = prod(port.type.shape)
    starts = [sum(rates[:k]) for k in range(task.phases)]
    # Old tokens of a window are before the new ones, and those of the last firing before all of
    # them.
    offsets = [
        port.kept + start + (rate - port.window if port.window else 0)
        for start, rate in zip(starts, rates, strict=True)
    ]
    steps = {b - a for a, b in pairwise(offsets)}
    table: tuple[int, ...] = ()
    if task.phases == 1:
        where = str(offsets[0] * elements) if offsets[0] else ""
    elif len(steps) == 1 and offsets[0] == 0:
        where = f"k * {steps.pop() * elements}"
    else:
        where, table = f"at_{port.name}[k] * {elements}", tuple(offsets)
    return {
        "name": port.name,
        "ctype": DTYPES[port.type.dtype][0],
        "elements": elements,
        "tokens": sum(rates),
        "kept": port.kept,
        "reads": port.direction == "in",
        "joined": joined,
        "place": f"data_{port.name} + {where}" if where else f"data_{port.name}",
        "table": table,
        "delay": 0,
        "held": False,
        "from": "",
        "given": (),
        "newest": False,
    }


def _input(port: Port, task: Task, channel: Channel | None, made: ProjectPlan) -> dict[str, Any]:
    shown = _port(port, task, channel is not None and channel.name not in made.inner)
    if channel is None or not channel.delay:
        return shown
    assert port.type is not None
    held, inner = channel.name in made.held, channel.name in made.inner
    values = channel.values or (Fraction(0),)
    exact = [int(v) if v.denominator == 1 else float(v) for v in values]
    said = exact[:1] if len(set(exact)) == 1 else exact
    return shown | {
        "delay": channel.delay,
        "held": held,
        "from": channel.source_port if inner else "",
        "given": tuple(element(v, port.type.dtype) for v in said),
    }


def _copies(task: Task) -> list[str]:
    """The code of a resampling on an arrow, or of an end of `latest`, which copies tokens; other
    tasks have their own."""
    if task.link is not None:
        source, target = ("in", PORT) if task.link.writes else (PORT, "out")
        return [f"memcpy(data_{target}, data_{source}, sizeof data_{target});"]
    what = task.resampling
    if what is None:
        return []
    kind = task.inputs[0].type
    assert kind is not None
    elements = what.block * prod(kind.shape)
    size = f"{elements} * sizeof *data_in"
    if what.word == "last":
        return [f"memcpy(data_out, data_in + {(what.count - 1) * elements}, {size});"]
    return [
        f"for (i = 0; i < {what.count}; i++)",
        f"    memcpy(data_out + i * {elements}, data_in, {size});",
    ]
