"""A native program with open ends as a library: its header, and the functions of it in main.cpp.

In: a deployment. Out: names and types, ready to print; None for a program without open ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ...model.deployment import DeployedTask, Deployment
from ...model.types import DTYPES
from ..in_c import C_KEYWORDS, CPP_KEYWORDS
from ..kinds.border import BorderCode
from ..names import identifiers

if TYPE_CHECKING:
    from jinja2 import Environment

#: Words that are no identifiers in C++.
CPP_WORDS = frozenset({*C_KEYWORDS, *CPP_KEYWORDS})
#: What all libraries have, which no open end is called.
_FUNCTIONS = ("create", "end", "close", "error")


@dataclass(frozen=True, slots=True)
class Function:
    """A function that feeds an open end, or fetches from it; `token` is its parameter."""

    verb: str
    name: str
    token: str
    about: str


@dataclass(frozen=True, slots=True)
class Library:
    """The library of a program, whose names in C begin with `id`. Its functions are in the order of
    the open ends in main.cpp."""

    id: str
    functions: tuple[Function, ...]
    #: How a parameter is set.
    setting: str = "APP.TASK.NAME=VALUE"

    @property
    def guard(self) -> str:
        """What names of macros begin with."""
        return self.id.upper()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its functions."""
        names = (*_FUNCTIONS, *(function.name for function in self.functions))
        return tuple(f"{self.id}_{name}" for name in names)

    @property
    def exports(self) -> bytes:
        """What the linker is told of names that others see: those functions, and what a copy of the
        library is called by."""
        lines = [f"{name};" for name in (*self.names, "flow_face")]
        return f"{{ global: {' '.join(lines)} local: *; }};\n".encode()

    @property
    def header(self) -> str:
        """The path of the header in a build."""
        return f"{self.id}.h"

    @property
    def file(self) -> str:
        """The path of the library in a build."""
        return f"lib{self.id}.so"


def library_of(deployment: Deployment) -> Library | None:
    """The library; None where no app has open ends."""
    ends = [task for task in deployment.tasks if isinstance(task.code, BorderCode)]
    if not ends:
        return None
    several = len({task.name.partition(".")[0] for task in ends}) > 1
    wanted = {}
    for task in ends:
        app, _, name = task.name.partition(".")
        wanted[task.name] = f"{_verb(task)} {app} {name}" if several else f"{_verb(task)} {name}"
    names = identifiers(wanted.values(), _FUNCTIONS)
    own = identifiers([deployment.name], {*CPP_WORDS, "flow", "main", "task"})[deployment.name]
    return Library(own, tuple(_function(task, names[wanted[task.name]]) for task in ends))


def _verb(task: DeployedTask) -> str:
    return "fetch" if task.inputs else "feed"


def _function(task: DeployedTask, name: str) -> Function:
    (port,) = (*task.inputs, *task.outputs)
    const = "" if task.inputs else "const "
    kind = DTYPES[port.dtype][0].replace("_Bool", "bool")
    size = prod(port.shape)
    shape = f"{port.dtype}{list(port.shape)}" if port.shape else port.dtype
    way = "out of" if task.inputs else "into"
    elements = f", {size} elements" if size > 1 else ""
    return Function(
        _verb(task), name, f"{const}{kind} *token", f"{way} `{task.name}`: {shape}{elements}"
    )


def header(jinja: Environment, deployment: Deployment, library: Library) -> bytes:
    """The text of the header."""
    template = jinja.get_template("native/library.h.j2")
    return template.render(deployment=deployment, library=library).encode()
