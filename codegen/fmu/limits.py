"""Apps that cannot be a Functional Mock-up Unit, and the version of FMI that a unit needs.

In: an app whose open ends become the inputs and outputs of a unit. Out: diagnostics, or the version
with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ...model.application import Application, FilePath, Port, Task
from ...model.diagnostic import Diagnostic, Note
from ...model.types import TensorType
from ..in_c import is_cpp

#: Element types of ports in FMI 3.0.
FMI3 = {
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float32": "Float32",
    "float64": "Float64",
}
#: Element types of ports in FMI 2.0, which has whole numbers of 32 bits and floating-point numbers
#: of 64 bits.
FMI2 = {
    "bool": "Boolean",
    "int8": "Integer",
    "int16": "Integer",
    "int32": "Integer",
    "uint8": "Integer",
    "uint16": "Integer",
    "float32": "Real",
    "float64": "Real",
}
_INT32, _INT64 = range(-(2**31), 2**31), range(-(2**63), 2**63)
#: Most elements of an input, because a unit lists its start values one by one.
MOST_ELEMENTS = 1 << 24


def version(app: Application, firings: Mapping[str, int]) -> tuple[int, str]:
    """2 or 3, and for 3 the first reason why FMI 2.0 is not enough."""
    for end in typed_ends(app):
        if end.type.shape:
            return 3, f"`{end.name}` is {end.type}"
        if firings[end.task.name] > 1:
            return 3, f"`{end.name}` has {firings[end.task.name]} tokens in an iteration"
        if end.type.dtype not in FMI2:
            return 3, f"`{end.name}` is {end.type}"
    for task in app.tasks:
        for name, value in settable(task):
            if type(value) is int and value not in _INT32:
                return 3, f"`{task.name}.{name}` is {value}"
    return 2, ""


def open_ends(app: Application) -> list[tuple[Task, Port]]:
    """Inputs first, then outputs, each with its only port."""
    ends = []
    for task in app.tasks:
        if task.border is not None:
            ends += [(task, port) for port in (*task.outputs, *task.inputs)]
    return sorted(ends, key=lambda end: end[0].border != "in")


@dataclass(frozen=True, slots=True)
class TypedEnd:
    """An open end whose port has a type."""

    task: Task
    name: str
    type: TensorType


def typed_ends(app: Application) -> list[TypedEnd]:
    """The open ends of an app without refusals."""
    ends = []
    for task, port in open_ends(app):
        if port.type is not None:
            ends.append(TypedEnd(task, port.name, port.type))
    return ends


def settable(task: Task) -> list[tuple[str, bool | int | float | str]]:
    """Parameters that a simulator may set: not those that change the graph, nor files."""
    code = task.implementation_on("cpu") or task.reference
    passes = None if code is None else code.passes
    result: list[tuple[str, bool | int | float | str]] = []
    for name, value in task.parameters:
        passed = passes is None or name in passes
        if isinstance(value, FilePath) or name in task.fixed or not passed:
            continue
        result.append((name, value if isinstance(value, (bool, int, str)) else float(value)))
    return result


def refusals(app: Application, firings: Mapping[str, int]) -> list[Diagnostic]:
    """Everything that prevents any unit, and warnings about constructs with another meaning in a
    unit."""
    return list(dict.fromkeys([*_ends(app, firings), *_tasks(app)]))


def refusals_in_c(app: Application) -> list[Diagnostic]:
    """What else prevents a unit that is no native one: its code is in C, in one library."""
    return list(dict.fromkeys([*_in_cpp(app), *_symbols(app)]))


def _no(message: str, task: Task, help_text: str) -> Diagnostic:
    return Diagnostic("F618", message, task.span, help=help_text)


def _ends(app: Application, firings: Mapping[str, int]) -> Iterator[Diagnostic]:
    ends = open_ends(app)
    if not ends:
        help_text = (
            "give it ports, for example `in x: float32   out y: float32`: they become inputs and"
            " outputs"
        )
        message = f"`{app.name}` has no open ends, so a simulator could not exchange data with it"
        yield Diagnostic("F618", message, app.span, help=help_text)
    for task, port in ends:
        if port.type is None:
            continue  # reported as F602
        if port.type.dtype not in FMI3:
            message = f"`{port.name}` is {port.type}, and FMI has no such type"
            instead = "float32" if port.type.dtype == "float16" else "two ports, one for each part"
            yield _no(message, task, f"make it {instead}, with a task that converts")
        elif prod(port.type.shape) * firings.get(task.name, 1) > MOST_ELEMENTS:
            message = f"`{port.name}` is {port.type}, too large to be listed in a unit"
            yield _no(message, task, "make it smaller with a task, or read it inside of the graph")


def _tasks(app: Application) -> Iterator[Diagnostic]:
    for task in app.tasks:
        short = task.name.partition(".")[2]
        for port in task.list_ports:
            if task.within_ns is not None:
                message = f"`{short}` takes requests in batches: the rates of a unit are fixed"
                yield _no(message, task, "remove `batch` from the app")
                continue
            message = f"`{port.name}` of `{short}` is a list: the rates of a unit are fixed"
            yield _no(message, task, f"write `rate {port.rates[0]}`, and fill up what is not there")
        for port in task.sized_ports:
            message = f"`{port.name}` of `{short}` is {port.type}: a unit has fixed sizes"
            yield _no(message, task, "give it a fixed size, and fill up what is not there")
        if task.link is not None:
            help_text = (
                "a unit is one graph: give it an `in` or `out` there, and join units in the"
                " simulator"
            )
            yield _no(f"`{short}` joins two apps", task, help_text)
            continue
        if task.live and task.border is None:
            help_text = "give the graph an `in` instead: the simulator provides the data"
            yield _no(
                f"`{short}` is live: it would wait for data from outside of the simulation",
                task,
                help_text,
            )
        elif task.every_ns is not None:
            help_text = "leave `every` out: a `period` of the app becomes the step size"
            yield _no(
                f"`{short}` fires at its own pace, but a unit follows the time of its simulation",
                task,
                help_text,
            )
        for port in task.open_ports:
            help_text = "leave out what follows the last tensor of fixed size, or build a program"
            message = f"`{port.name}` of `{short}` is {port.type}: memory of a unit has fixed sizes"
            yield _no(message, task, help_text)
        if task.on_error != "stop":
            message = (
                f"`on error {task.on_error}` of `{short}` has no effect in a unit: the step fails"
            )
            help_text = "the simulator decides what to do then; it may reset the unit"
            yield Diagnostic("F608", message, task.span, help=help_text, severity="warning")
        yield from _parameters(task)


def _in_cpp(app: Application) -> Iterator[Diagnostic]:
    for task in app.tasks:
        code = task.implementation_on("cpu")
        if code is not None and code.language == "c" and is_cpp(code.path):
            short = task.name.partition(".")[2]
            help_text = "write it in C, or build it with `--target native-fmu`"
            yield _no(f"`{short}` is C++, and a unit is C", task, help_text)


def _parameters(task: Task) -> Iterator[Diagnostic]:
    for name, value in settable(task):
        if type(value) is int and value not in _INT64:
            message = (
                f"parameter `{name}` of `{task.definition}` is {value}, too large for FMI's Int64"
            )
            yield _no(message, task, "pass it as a float")
        elif isinstance(value, str) and any(
            (c < " " and c not in "\t\n\r") or c in "\ufffe\uffff" for c in value
        ):
            message = (
                f"parameter `{name}` of `{task.definition}` has a character that XML cannot hold"
            )
            yield _no(message, task, "leave it out, or pass the text as a file")


def _symbols(app: Application) -> Iterator[Diagnostic]:
    """All C code becomes one library, in which names are unique."""
    first: dict[str, tuple[str, Task]] = {}
    for task in app.tasks:
        code = task.implementation_on("cpu")
        if code is None or code.language != "c":
            continue
        if set('"\\\n\r') & set(code.path):
            yield _no(
                f"no C file can include `{code.file}`",
                task,
                "rename it: without quotes and backslashes",
            )
        path, other = first.setdefault(code.symbol, (code.path, task))
        if Path(path) != Path(code.path):
            message = f"two C files have a function `{code.symbol}`, and a unit is one library"
            note = Note(f"`{other.definition}` has one", other.span)
            yield Diagnostic("F618", message, task.span, notes=(note,), help="rename one of them")
