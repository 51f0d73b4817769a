"""A project of HOPES to files: XML, code around the tasks, and their own code, as a plan {path:
content}.

Data files are in a folder of the project, beside the program that HOPES generates.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from ....codegen.c_text import comment, text
from ....codegen.deploy import Deployed
from ....codegen.in_c import header
from ....codegen.names import literal, one_line
from ....codegen.sources import Plan, Sources
from ....model.application import all_tasks
from ....model.system import System
from ....templates import environment
from ..words import ORDERS, PACKAGE, SCHEMA
from . import library
from .library import ExternalLibrary
from .project import ProjectPlan
from .sources import COMMON, SourceUnit
from .tool import as_tool
from .wrapper import wrapped

if TYPE_CHECKING:
    from jinja2 import Environment


def written(made: ProjectPlan) -> list[str]:
    """The generated files, in the project and by HOPES from it, except those of C sources."""
    tasks = [t for t in made.tasks if not t.inside]
    around = [f"{t.name}.cic" for t in tasks if t.flow not in made.kept.own]
    return [COMMON, *around, *(f"{t.name}_0.c" for t in tasks)]


def files(
    made: ProjectPlan,
    system: System,
    units: Mapping[str, SourceUnit],
    python: ExternalLibrary | None,
    deployed: Deployed | None,
    form: str = "cic",
) -> Plan:
    """All files of the project of a system without refusals. `deployed` holds the tasks that
    `python` runs.

    `form` is one of `words.FORMS`.
    """
    jinja = _jinja()
    data = Sources(Path(system.path).parent)
    codes: dict[str, dict[str, Any]] = {}
    for app in system.apps:
        for task in app.tasks:
            codes[task.name] = wrapped(task, app, made, units, python, data)
    plan: Plan = {}
    if any(COMMON in words["headers"] for words in codes.values()):
        plan[COMMON] = jinja.get_template("common.h.j2").render().encode()
    plan |= _xml_files(jinja, made, codes)
    plan |= _codes(jinja, made, codes)
    for unit in units.values():
        plan |= _unit_files(jinja, unit)
    if python is not None and deployed is not None:
        plan |= library.files(python, all_tasks(system.apps), deployed, jinja)
    plan |= data.plan
    if form == "project":
        plan = as_tool(plan, made, system, codes, jinja)
    return dict(sorted(plan.items()))


def _codes(jinja: Environment, made: ProjectPlan, codes: Mapping[str, Mapping[str, Any]]) -> Plan:
    """The code of tasks: that of HOPES with all of its files, or a wrapper."""
    wrapper = jinja.get_template("wrapper.cic.j2")
    plan: Plan = {}
    for name, words in codes.items():
        if name not in made.kept.own:
            plan[words["file"]] = wrapper.render(task=words).encode()
            continue
        for path in made.kept.own[name].files:
            if path.name != COMMON:
                plan[path.name] = path
    return plan


def _unit_files(jinja: Environment, unit: SourceUnit) -> Plan:
    """A C source with its local files, and the two files that are generated for it."""
    plan: Plan = {path.name: path for path in (unit.path, *unit.included)}
    plan[unit.header] = header(unit.file, unit.tasks).encode()
    template = jinja.get_template("fmu/unit.c.j2")
    plan[unit.source] = template.render(header=unit.header, source=unit.file).encode()
    return plan


def _xml_files(
    jinja: Environment, made: ProjectPlan, codes: Mapping[str, Mapping[str, Any]]
) -> Plan:
    """The files that HOPES' translator reads."""
    kinds = ["algorithm", "architecture", "mapping", "configuration"]
    if made.costs:
        kinds.append("profile")
    words = {"project": made, "codes": codes, "schema": SCHEMA}
    plan: Plan = {}
    for kind in kinds:
        plan[f"{made.name}_{kind}.xml"] = (
            jinja.get_template(f"{kind}.xml.j2").render(words).encode()
        )
    for schedule in made.schedules:
        name = f"{ORDERS}/{schedule.graph},Default,{made.elements[0].count},0,schedule.xml"
        plan[name] = jinja.get_template("schedule.xml.j2").render(words, schedule=schedule).encode()
    return plan


@functools.cache
def _jinja() -> Environment:
    jinja = environment(PACKAGE)
    jinja.filters["c"] = text
    jinja.filters["comment"] = comment
    jinja.filters["py"] = literal
    jinja.filters["xml"] = lambda words: quoteattr(one_line(words))
    jinja.filters["words"] = escape
    return jinja
