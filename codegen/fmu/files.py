"""A unit to files: everything in the archive except the library, as a plan {path: content}. Equal
units give equal bytes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from ...templates import environment
from ..c_text import comment, text
from ..carried import carried
from ..deploy import Deployed
from ..emit import digest
from ..in_c import STRICT_C
from ..kept import Object
from ..main_text import words_of
from ..names import literal
from ..sources import Plan
from .unit import FmuUnit

if TYPE_CHECKING:
    from jinja2 import Environment

#: Compiler options for all C code of a unit.
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", *STRICT_C)


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """`plan` lacks the library, which belongs in `binaries/FOLDER`.

    `units` are the C sources of tasks, as paths of the plan, with the path that each has in the
    deployment; `objects` are what sources/build.sh of a native unit makes.
    """

    unit: FmuUnit
    plan: Plan
    folder: str
    units: dict[str, str]
    objects: tuple[Object, ...] = ()

    @property
    def library(self) -> str:
        """The path of the library."""
        return f"binaries/{self.folder}/{self.unit.name}.so"


def files(made: FmuUnit, deployed: Deployed, machine: str) -> UnitFiles:
    """All files of a unit for machines such as `x86_64`."""
    folder = folder_of(made, machine)
    jinja = _jinja()
    fixed: Plan = {}
    for path, content in deployed.files.items():
        fixed[f"sources/{path}" if path.startswith("c/") else f"resources/{path}"] = content
    units = {f"unit_{i}.c": source for i, source in enumerate(sorted(deployed.c_tasks), 1)}
    for name, source in units.items():
        beside = f"{source.rsplit('.', 1)[0]}.flow.h"
        fixed[f"sources/{beside}"] = deployed.header(source, jinja)
        lines = jinja.get_template("fmu/unit.c.j2").render(header=beside, source=source)
        fixed[f"sources/{name}"] = lines.encode()
    sources = (*units, "model.c", f"{made.face}.c")
    if made.called:
        fixed["resources/deployment.json"] = deployed.deployment.to_json().encode()
        files = carried(words_of(deployed.deployment), ("fmu",))
        fixed |= {f"resources/{path}": content for path, content in files.items()}
    else:
        made = replace(made, sources=sources)
    found = settled(made, fixed, folder, {"sources/model.c": "fmu/model.c.j2"}, sources)
    return replace(found, units={f"sources/{n}": s for n, s in units.items()})


def folder_of(made: FmuUnit, machine: str) -> str:
    """The folder of the library in `binaries`."""
    return "linux64" if made.version == 2 and machine == "x86_64" else f"{machine}-linux"


def settled(
    made: FmuUnit,
    fixed: Plan,
    folder: str,
    templates: Mapping[str, str],
    sources: tuple[str, ...] = (),
) -> UnitFiles:
    """All files of a unit: the `fixed` ones, and those that have its token, of `templates` by their
    paths beside those of all units."""
    jinja = _jinja()
    plan = fixed | _written(jinja, made, sources, folder, templates)
    made = replace(made, token=_token(digest(plan)))
    plan = fixed | _written(jinja, made, sources, folder, templates)
    return UnitFiles(made, dict(sorted(plan.items())), folder, {})


def _token(total: str) -> str:
    """A GUID of the content."""
    return "{" + "-".join((total[:8], total[8:12], total[12:16], total[16:20], total[20:32])) + "}"


def _written(
    jinja: Environment,
    made: FmuUnit,
    sources: tuple[str, ...],
    folder: str,
    templates: Mapping[str, str],
) -> Plan:
    """Files with the name of the unit, its token or its variables."""
    values: dict[str, object] = {"unit": made}
    wanted = {
        **templates,
        "modelDescription.xml": f"fmu/modelDescription{made.version}.xml.j2",
        "sources/model.h": "fmu/model.h.j2",
        f"sources/{made.face}.c": f"fmu/{made.face}.c.j2",
    }
    if made.called:
        library = f"{made.name}.so"
        values |= {
            "folder": folder,
            "library": library,
            "module": f"_flowc_{made.token.strip('{}').replace('-', '_')}",
            "script": "build.py",
            "called": "fmu",
            "holds": "The tasks of the unit that this library belongs to.",
            "needed": ("cffi", "numpy", *made.libraries),
            "sources": sources,
            # Python keeps functions of the library even after a simulator has closed it.
            "flags": ["-shared", *FLAGS, "-Wl,-z,nodelete"],
        }
        wanted |= {"sources/shim.c": "fmu/shim.c.j2", "sources/build.py": "fmu/build.py.j2"}
        wanted["sources/shim.py"] = "library/shim.py.j2"
    elif made.version == 3 and not made.native:
        wanted["sources/buildDescription.xml"] = "fmu/buildDescription.xml.j2"
    return {path: jinja.get_template(name).render(values).encode() for path, name in wanted.items()}


@functools.cache
def _jinja() -> Environment:
    jinja = environment()
    jinja.filters["c"] = text
    jinja.filters["py"] = literal
    jinja.filters["xml"] = _xml
    jinja.filters["comment"] = comment
    return jinja


def _xml(words: str) -> str:
    """Text in an attribute; characters that XML cannot hold are left out (only of comments:
    parameters with such are refused)."""
    good = "".join(c for c in words if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))
    return escape(good, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
