"""Open ends and parameters as variables of FMI: names, types, start values, and their members of an
instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ...model.application import Application, Port, Task
from ..in_c import c_name
from .limits import FMI2, FMI3, open_ends, settable

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
    ends = [_end(task, port, firings[task.name], version) for task, port in open_ends(app)]
    found = [*ends, *(v for t in app.tasks for v in _parameters(t, version, ids))]
    if version == 3:
        taken = {v.name for v in found}
        name = next(n for n in ("time", "time_", "simulation_time") if n not in taken)
        shown = (
            "independent",
            "continuous",
            "",
            "FLOWC_TIME",
            "FLOWC_FLOAT64",
            "time",
            1,
            None,
            (),
            None,
        )
        found.append(
            Variable(name, "Float64", *shown, doc="Time of the simulation in s", dtype="float64")
        )
    return found


def _end(task: Task, port: Port, tokens: int, version: int) -> Variable:
    assert port.type is not None
    dtype, source = port.type.dtype, task.border == "in"
    shape = ((tokens,) if tokens > 1 else ()) + port.type.shape
    zero = "false" if dtype == "bool" else "0"
    return Variable(
        port.name,
        (FMI2 if version == 2 else FMI3)[dtype],
        "input" if source else "output",
        "discrete",
        "" if source else "calculated",
        "FLOWC_INPUT" if source else "FLOWC_OUTPUT",
        f"FLOWC_{dtype.upper()}",
        f"data.port_{port.name}",
        prod(shape),
        " ".join([zero] * prod(shape)) if source else None,
        shape if version == 3 else (),
        _RANGES.get(dtype) if version == 2 else None,
        str(port.type) + (f", {tokens} tokens in a step" if tokens > 1 else ""),
        dtype,
    )


def _parameters(task: Task, version: int, ids: Mapping[str, str]) -> Iterator[Variable]:
    for name, value in settable(task):
        fmi2, fmi3, kind = _PARAMETERS[type(value)]
        start = (
            str(value).lower()
            if isinstance(value, bool)
            else value
            if isinstance(value, str)
            else repr(value)
        )
        shown = ("parameter", "fixed", "exact", "FLOWC_PARAMETER", kind)
        place = f"given.{ids[task.name]}.{c_name(name)}"
        fmi = fmi2 if version == 2 else fmi3
        yield Variable(
            f"{task.name}.{name}",
            fmi,
            *shown,
            place,
            1,
            start,
            (),
            None,
            task.doc,
            type(value).__name__,
        )
