"""Open ends and parameters as variables of FMI: names, types, start values, and their members of an
instance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ...model.application import Application, Task
from ..in_c import c_name
from .limits import FMI2, FMI3, TypedEnd, settable, typed_ends

#: FMI's words for a parameter, in 2.0 and in 3.0.
_PARAMETERS = {
    bool: ("Boolean", "Boolean", "FLOWC_BOOL"),
    int: ("Integer", "Int64", "FLOWC_INT64"),
    float: ("Real", "Float64", "FLOWC_FLOAT64"),
    str: ("String", "String", "FLOWC_STRING"),
}
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a unit. Its value reference is its index in the list.

    `fmi` is its type, `role` its causality and `variability` as in modelDescription.xml,
    `causality` and `type` as in model.h; `place` is its member of an instance, with `count`
    elements. `start` is None if there is none; `range` is set if the type of FMI holds more than
    the port. `dtype` is the type in the text.
    """

    name: str
    fmi: str
    role: str
    variability: str
    initial: str
    causality: str
    type: str
    place: str
    count: int
    start: str | None
    dimensions: tuple[int, ...]
    range: tuple[int, int] | None
    doc: str
    dtype: str

    @property
    def widened(self) -> bool:
        """Is its type in FMI larger than in the text?"""
        return self.fmi == "Real" and self.dtype == "float32"


def variables(
    app: Application, firings: Mapping[str, int], version: int, ids: Mapping[str, str]
) -> list[Variable]:
    """Inputs, outputs, parameters, and in FMI 3.0 the time; `ids` are the names of tasks in C."""
    ends = [_end(end, firings[end.task.name], version) for end in typed_ends(app)]
    found = list(ends)
    for task in app.tasks:
        found += _parameters(task, version, ids)
    if version == 3:
        found.append(_time({v.name for v in found}))
    return found


def _time(taken: Collection[str]) -> Variable:
    """The time of the simulation, under a name that is not taken."""
    return Variable(
        name=next(n for n in ("time", "time_", "simulation_time") if n not in taken),
        fmi="Float64",
        role="independent",
        variability="continuous",
        initial="",
        causality="FLOWC_TIME",
        type="FLOWC_FLOAT64",
        place="time",
        count=1,
        start=None,
        dimensions=(),
        range=None,
        doc="Time of the simulation in s",
        dtype="float64",
    )


def _end(end: TypedEnd, tokens: int, version: int) -> Variable:
    dtype, shape, doc = end.type.dtype, end.type.shape, str(end.type)
    if tokens > 1:
        shape = (tokens, *shape)
        doc += f", {tokens} tokens in a step"
    role, initial, causality, start = "output", "calculated", "FLOWC_OUTPUT", None
    if end.task.border == "in":
        role, initial, causality = "input", "", "FLOWC_INPUT"
        zero = "false" if dtype == "bool" else "0"
        start = " ".join([zero] * prod(shape))
    return Variable(
        name=end.name,
        fmi=FMI2[dtype] if version == 2 else FMI3[dtype],
        role=role,
        variability="discrete",
        initial=initial,
        causality=causality,
        type=f"FLOWC_{dtype.upper()}",
        place=f"data.port_{end.name}",
        count=prod(shape),
        start=start,
        dimensions=shape if version == 3 else (),
        range=_RANGES.get(dtype) if version == 2 else None,
        doc=doc,
        dtype=dtype,
    )


def _parameters(task: Task, version: int, ids: Mapping[str, str]) -> Iterator[Variable]:
    for name, value in settable(task):
        fmi2, fmi3, kind = _PARAMETERS[type(value)]
        yield Variable(
            name=f"{task.name}.{name}",
            fmi=fmi2 if version == 2 else fmi3,
            role="parameter",
            variability="fixed",
            initial="exact",
            causality="FLOWC_PARAMETER",
            type=kind,
            place=f"given.{ids[task.name]}.{c_name(name)}",
            count=1,
            start=_start(value),
            dimensions=(),
            range=None,
            doc=task.doc,
            dtype=type(value).__name__,
        )


def _start(value: bool | int | float | str) -> str:
    """The start value of a parameter, as XML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    return repr(value)
