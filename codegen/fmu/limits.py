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
from ...model.supports import Use
from ...model.types import TensorType
from ..features import of_ends, of_task, refused, words_of
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


def refusals(app: Application, firings: Mapping[str, int]) -> tuple[Diagnostic, ...]:
    """Everything that prevents any unit, and warnings about constructs with another meaning in a
    unit."""
    uses = [*of_ends(app), *_at_ends(app, firings)]
    for task in app.tasks:
        uses += [*of_task(task), *_parameters(task)]
    return refused(uses, "unit")


def refusals_in_c(app: Application) -> tuple[Diagnostic, ...]:
    """What else prevents a unit that is no native one: its code is in C, in one library."""
    return refused(_in_one_library(app), "unit in C")


def _at_ends(app: Application, firings: Mapping[str, int]) -> Iterator[Use]:
    """Types and sizes of open ends. A port without a type is reported as F602."""
    for task, port in open_ends(app):
        if port.type is None:
            continue
        words = {"port": port.name, "type": port.type}
        if port.type.dtype not in FMI3:
            half = port.type.dtype == "float16"
            words["instead"] = "float32" if half else "two ports, one for each part"
            yield Use("a type that FMI lacks", task.span, words)
        elif prod(port.type.shape) * firings.get(task.name, 1) > MOST_ELEMENTS:
            yield Use("an array that is too large for FMI", task.span, words)


def _parameters(task: Task) -> Iterator[Use]:
    for name, value in settable(task):
        words = {**words_of(task), "parameter": name, "value": value}
        if type(value) is int and value not in _INT64:
            yield Use("a number of more than 64 bits", task.span, words)
        elif isinstance(value, str) and any(
            (c < " " and c not in "\t\n\r") or c in "\ufffe\uffff" for c in value
        ):
            yield Use("a character that XML lacks", task.span, words)


def _in_one_library(app: Application) -> Iterator[Use]:
    """C++, and names that are not unique in one C file."""
    first: dict[str, tuple[str, Task]] = {}
    for task in app.tasks:
        code = task.implementation_on("cpu")
        if code is None or code.language != "c":
            continue
        words = {**words_of(task), "file": code.file, "symbol": code.symbol}
        if is_cpp(code.path):
            yield Use("C++", task.span, words)
        if set('"\\\n\r') & set(code.path):
            yield Use("a C file with a quote in its name", task.span, words)
        path, other = first.setdefault(code.symbol, (code.path, task))
        if Path(path) != Path(code.path):
            note = Note(f"`{other.definition}` has one", other.span)
            yield Use("a name of two C functions", task.span, words, (note,))
