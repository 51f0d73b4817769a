"""A unit whose steps are those of a native program, which needs no interpreter: its files.

In: an app without refusals, and its deployment in one worker. Out: everything in the archive except
the library. The files for a simulator are those of other units; in their model.c, channels and
tasks are those of main.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.application import Application
from ...model.deployment import DeployedApp
from ...model.types import DTYPES
from ..c_text import parameter
from ..deploy import Deployed
from ..in_c import C_PARAMETERS, c_name, shell_word
from ..kept import Object
from ..kinds.border import BorderCode
from ..native.engines import engine_libraries
from ..native.files import LINKED, compiler_call, objects_of, printing_of, runtime_files
from ..native.main_cpp import engines_in, main_cpp
from ..sources import Plan
from .files import FLAGS, UnitFiles, folder_of, settled
from .limits import settable
from .unit import FmuUnit, kind_of, names_inside, step_size
from .variables import Variable, variables

if TYPE_CHECKING:
    from jinja2 import Environment


def native_unit(
    app: Application, deployed: Deployed, firings: Mapping[str, int], version: int, tool: str
) -> FmuUnit:
    """The unit of an app without refusals; its token is still empty."""
    (of_app,) = deployed.deployment.apps
    ids = names_inside(of_app)
    listed = tuple(variables(app, firings, version, ids))
    given = {task.name: settable(task) for task in app.tasks}
    return FmuUnit(
        name=app.name,
        source=deployed.deployment.source,
        doc=app.doc,
        tool=tool,
        token="",
        version=version,
        step=step_size(app),
        variables=listed,
        headers=(),
        files=(),
        parameters=tuple(_members(given, ids)),
        fields=tuple(_fields(listed)),
        optional=(),
        tasks=(),
        channels=(),
        order=(),
        arrive=tuple(_places(of_app)),
        leave=tuple(_results(listed)),
        defaults=tuple(_defaults(given, ids)),
        called=0,
        libraries=(),
        native=True,
    )


_Given = Mapping[str, Sequence[tuple[str, bool | int | float | str]]]


def _members(given: _Given, ids: Mapping[str, str]) -> Iterator[str]:
    """The members of an instance that hold parameters, one for each task that has any."""
    for task, parameters in given.items():
        if parameters:
            types = ((C_PARAMETERS[kind_of(v)], c_name(n)) for n, v in parameters)
            members = " ".join(f"{ctype} {name};" for ctype, name in types)
            yield f"struct {{ {members} }} {ids[task]};"


def _defaults(given: _Given, ids: Mapping[str, str]) -> Iterator[str]:
    for task, parameters in given.items():
        for name, value in parameters:
            yield f"m->given.{ids[task]}.{c_name(name)} = {parameter(value)};"


def _fields(listed: Sequence[Variable]) -> Iterator[str]:
    """Of each open end the tokens of a step; of outputs also those of a step that may yet fail."""
    for v in listed:
        if v.role in ("input", "output"):
            ctype, name = DTYPES[v.dtype][0], v.place.partition(".")[2]
            yield f"{ctype} {name}[{v.count}];"
            if v.role == "output":
                yield f"{ctype} made_{name}[{v.count}];"


def _places(app: DeployedApp) -> Iterator[str]:
    """Where the tokens of each open end are, in the order of main.cpp."""
    for task in app.tasks:
        if isinstance(task.code, BorderCode):
            (port,) = (*task.inputs, *task.outputs)
            yield f"m->data.{'made_' if task.inputs else ''}port_{port.name},"


def _results(listed: Sequence[Variable]) -> Iterator[str]:
    for v in listed:
        if v.role == "output":
            name = v.place.partition(".")[2]
            yield f"memcpy(m->data.{name}, m->data.made_{name}, sizeof m->data.{name});"


# -- files -----------------------------------------------------------------------------------------
def native_unit_files(made: FmuUnit, deployed: Deployed, machine: str) -> UnitFiles:
    """All files of a unit for machines such as `x86_64`."""
    jinja = printing_of()
    fixed: Plan = {"sources/main.cpp": main_cpp(jinja, deployed.deployment, unit=True)}
    for path, content in runtime_files(deployed.deployment, "unit").items():
        fixed[f"sources/{path}"] = content
    for path, content in deployed.files.items():
        fixed[f"sources/{path}" if path.startswith("c/") else f"resources/{path}"] = content
    for source in deployed.c_tasks:
        fixed[f"sources/{source.rsplit('.', 1)[0]}.flow.h"] = deployed.header(source, jinja)
    for path, content in engine_libraries(engines_in(deployed.deployment)).items():
        fixed[f"resources/{path}"] = content
    made = replace(made, has_resources=any(path.startswith("resources/") for path in fixed))
    folder = folder_of(made, machine)
    objects = (*objects_of(deployed, "unit"), *_of_unit(made))
    library = f"../binaries/{folder}/{made.name}.so"
    fixed["sources/build.sh"] = _script(jinja, objects, library)
    templates = {"sources/model.c": "fmu/model_native.c.j2"}
    return replace(settled(made, fixed, folder, templates), objects=objects)


def _of_unit(made: FmuUnit) -> Iterator[Object]:
    """The objects of what a simulator calls."""
    for stem in (made.face, "model"):
        call = f"${{CC:-cc}} {' '.join(FLAGS)} $CFLAGS"
        compiled = f"{call} -c -o {stem}.o {stem}.c"
        own = (f"{stem}.c", "model.h", "native/unit.h")
        yield Object(f"{stem}.o", f"{call} -E {stem}.c", (compiled,), own)


def _script(jinja: Environment, objects: Sequence[Object], library: str) -> bytes:
    said = [{"word": shell_word(o.path), "commands": o.commands} for o in objects]
    linked = " ".join(shell_word(o.path) for o in objects)
    link = f"{compiler_call()} -shared -Wl,-Bsymbolic -o {library} {linked} {LINKED}"
    template = jinja.get_template("fmu/build_native.sh.j2")
    return template.render(objects=said, folder=Path(library).parent, link=link).encode()
