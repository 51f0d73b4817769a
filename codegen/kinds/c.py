"""Tasks in C: a function of a library that the build compiles (compile.sh does the same on a
board)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...model.application import Implementation, Parameter, Task
from ...model.deployment import DataFile, Plain
from ..names import literal, option
from ..sources import CTask
from .kind import CPU, BuildCode, CodeSite, Identifiers, Kind, plain, value_text


@dataclass(frozen=True, slots=True)
class CCode(BuildCode):
    """A C function; parameters are (name, type, value), state fields (name, dtype, shape)."""

    library: str
    source: str
    name: str
    parameters: tuple[tuple[str, str, Plain | DataFile], ...]
    state: tuple[tuple[str, str, tuple[int, ...]], ...]
    kind: str = "c"

    words = frozenset({"C"})
    not_choosable = None
    called_in_c = True

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        parameters = [
            f"({literal(n)}, {literal(kind)}, {value_text(v)})" for n, kind, v in self.parameters
        ]
        text = f"C({literal(self.library)}, {literal(self.name)}"
        if parameters:
            text += f", parameters=[{', '.join(parameters)}]"
        return f"{text}{option('state', list(self.state))})"


def parameter_type(value: Parameter) -> str:
    """`int`, `float`, `bool` or `string`: the type of a parameter in C."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    return "float" if isinstance(value, Fraction) else "string"


def c_code(task: Task, code: Implementation, site: CodeSite) -> CCode:
    """The code of an implementation."""
    source = site.sources.place_c(code.path)
    site.c_tasks.setdefault(source, []).append(CTask(task, code))
    typed = tuple((n, parameter_type(v), plain(v, site.sources)) for n, v in task.parameters)
    state = tuple((f.name, f.type.dtype, f.type.shape) for f in task.state)
    return CCode(source.rsplit(".", 1)[0] + ".so", source, code.symbol, typed, state)


def _make(task: Task, site: CodeSite) -> CCode | None:
    code = task.implementation_on("cpu")
    if task.network is not None or code is None or code.language != "c":
        return None
    return c_code(task, code, site)


KIND = Kind("c", CCode.words, CPU, _make)
