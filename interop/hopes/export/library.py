"""Tasks in Python and networks of a project: one library for C, with init, execute and wrapup of
each.

In: the tasks, and their deployment on a CPU. Out: a plan for the folder `external` of the project,
and the header that wrappers include. A script there makes the library on the target, like that of
`--target hopes-external`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....codegen.carried import carried
from ....codegen.deploy import Deployed
from ....codegen.external import RESERVED
from ....codegen.main_text import words_of
from ....codegen.names import identifiers
from ....codegen.sources import Plan
from ....model.application import Port, Task
from ....model.deployment import Deployment
from ....model.types import DTYPES
from .graph import token_type
from .sources import in_c

if TYPE_CHECKING:
    from jinja2 import Environment

#: The folder of the project that holds the library.
ROOM = "external"
#: The module of the library that its C code calls.
THERE = Path(__file__).resolve().parent.parent / "there" / "hopes.py"


@dataclass(frozen=True, slots=True)
class ExternalLibrary:
    """`library` is the name for the linker; `functions` has the prefix of the C functions of each
    task."""

    library: str
    source: str
    functions: dict[str, str]
    networks: bool

    @property
    def header(self) -> str:
        """The header with its prototypes."""
        return f"{self.library}.h"

    @property
    def ldflags(self) -> str:
        """Linker options for a program beside it: it finds the library relative to itself."""
        return f"-L../{ROOM} -l{self.library} -Wl,-rpath,'$$ORIGIN/../{ROOM}'"


def has_code(task: Task) -> bool:
    """Does the task have code?"""
    return task.built_in or task.network is not None or bool(task.implementations)


def is_called(task: Task) -> bool:
    """Does Python run it?"""
    return has_code(task) and not in_c(task) and task.resampling is None and task.link is None


def library(stem: str, source: str, tasks: Iterable[Task]) -> ExternalLibrary | None:
    """The library of these tasks, if some need one."""
    called = [t for t in tasks if is_called(t)]
    if not called:
        return None
    name = f"{identifiers([stem], ())[stem].rstrip('_')}_tasks"
    functions = identifiers([t.name for t in called], RESERVED)
    return ExternalLibrary(name, source, functions, any(t.network is not None for t in called))


def files(
    made: ExternalLibrary, tasks: Iterable[Task], deployed: Deployed, jinja: Environment
) -> Plan:
    """The header, and everything in the folder of the library."""
    called = {t.name: t for t in tasks if is_called(t)}
    deployment = _only(deployed.deployment, called)
    networks = []
    for app in deployment.apps:
        for task in app.tasks:
            networks.append(_in_c(called[task.name], made.functions[task.name]))
    needed = ["cffi", "numpy"]
    if made.networks:
        needed.append("onnxruntime")
    values: dict[str, Any] = {
        "external": made,
        "module": f"_{made.library}",
        "library": f"lib{made.library}.so",
        "script": "build_shim.py",
        "called": "hopes",
        "holds": "The tasks of the folder that holds this library.",
        "guard": f"FLOWC_{made.library.upper()}_H",
        "what": "Task",
        "networks": networks,
        "needed": tuple(needed),
        "room": f"{ROOM}/",
        "speaks": False,
        "callers": "their tasks of HOPES",
    }
    header = jinja.get_template("library/header.h.j2").render(values).encode()
    inside: Plan = {}
    for path, content in deployed.files.items():
        if not path.startswith("c/"):
            inside[path] = content
    inside["deployment.json"] = deployment.to_json().encode()
    inside[made.header] = header
    for path in ("build_shim.py", "shim.c", "shim.py"):
        inside[path] = jinja.get_template(f"library/{path}.j2").render(values).encode()
    inside |= carried(words_of(deployment), own={"hopes": THERE})
    plan: Plan = {made.header: header}
    for path, content in inside.items():
        plan[f"{ROOM}/{path}"] = content
    return plan


def _only(deployment: Deployment, called: Iterable[str]) -> Deployment:
    """Without the tasks in C, and without channels and orders, which HOPES has."""
    names = set(called)
    apps = tuple(
        replace(a, tasks=tuple(t for t in a.tasks if t.name in names), channels=(), paths=())
        for a in deployment.apps
    )
    return replace(deployment, apps=apps, processors=())


def _in_c(task: Task, function: str) -> dict[str, Any]:
    """A task as the templates of the library print it."""
    names = [p.name for p in (*task.inputs, *task.outputs)]
    arguments = identifiers(names, RESERVED)
    counts = identifiers([f"{function} {name} count" for name in names], ())
    ports = []
    for p in (*task.inputs, *task.outputs):
        ports.append(_port(p, arguments[p.name], counts[f"{function} {p.name} count"].upper()))
    return {
        "name": task.name,
        "function": function,
        "doc": task.doc,
        "ports": ports,
        "signature": ", ".join(f"{p['const']}{p['ctype']} *{p['argument']}" for p in ports),
    }


def _port(port: Port, argument: str, count: str) -> dict[str, Any]:
    kind = token_type(port)
    tokens = max(port.window, *port.rates)
    reads = port.direction == "in"
    ctype = DTYPES[kind.dtype][0]
    if kind.dtype == "bool":
        ctype = "bool"
    stated = str(kind)
    if tokens > 1:
        stated += f", up to {tokens} tokens"
    return {
        "name": port.name,
        "argument": argument,
        "ctype": ctype,
        "const": "const " if reads else "",
        "count": count,
        "elements": prod(kind.shape) * tokens,
        "type": stated,
        "bits": ", as its bits" if kind.dtype == "float16" else "",
        "direction": port.direction,
    }
