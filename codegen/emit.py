"""Deployment to files: everything of a build except compiled objects, as a plan {path: content}.

Equal deployments give equal bytes. The templates get strings that are ready to print; all decisions
are made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..machines.board import LEAST_NUMPY
from ..model.deployment import Deployment
from .carried import RUNTIME, carried
from .deploy import Deployed
from .in_c import FIRINGS, compile_command, shell_word
from .kinds import KINDS, Kind, code_of
from .kinds.border import BorderCode
from .libraries import Library, distinct
from .main_text import main_text, words_of
from .names import identifiers
from .printing import printing
from .rounds.files import written_rounds
from .sources import Plan

if TYPE_CHECKING:
    from jinja2 import Environment

#: The first pyzmq with wheels for all machines of parts, from Python 3.8 on ARM on.
LEAST_PYZMQ = "25"
#: Modules of the runtime that programs need beside what main.py names: the harness, and `open` of
#: the package.
ALWAYS = ("embed", "harness", "outcomes")


def emit(deployed: Deployed, *, recorded: bool = False) -> Plan:
    """The files of a build, with its parts for several machines. Its harness can read what was
    `recorded` elsewhere."""
    plan = _whole(deployed, recorded=recorded)
    for machine, part in deployed.parts.items():
        folder = folder_of(machine)
        for path, data in _part(part).items():
            plan[f"{folder}/{path}"] = data
    return dict(sorted(plan.items()))


def folder_of(machine: str) -> str:
    """The path of a machine's part in a build."""
    return f"parts/{machine}"


def _part(deployed: Deployed) -> Plan:
    """The files for one machine of several: no package to open, and no harness of its own."""
    plan = {}
    for path, data in _whole(deployed).items():
        if path != "__init__.py" and not path.startswith("tests/"):
            plan[path] = data
    return plan


def _whole(deployed: Deployed, *, recorded: bool = False) -> Plan:
    jinja = printing()
    deployment = deployed.deployment
    plan: Plan = dict(deployed.files)
    needs = _needs(deployment)
    rounds = written_rounds(deployment)
    plan["main.py"] = main_text(jinja, deployment, needs, rounds.names)
    plan |= rounds.files
    package = jinja.get_template("python/__init__.py.j2").render(
        deployment=deployment, ends=_ends(deployment)
    )
    plan["__init__.py"] = package.encode()
    plan["deployment.json"] = deployment.to_json().encode()
    plan["README.md"] = readme(deployed)
    requirements = jinja.get_template("python/requirements.txt.j2").render(
        lines=_requirements(deployment)
    )
    plan["requirements.txt"] = requirements.encode()
    apps = list(dict.fromkeys(a.name for a in deployment.every_app))
    for app, name in identifiers(apps, ()).items():
        text = jinja.get_template("python/test_app.py.j2").render(
            app=app, class_name=f"Test_{name}"
        )
        plan[f"tests/test_{name}.py"] = text.encode()
    modules = [*ALWAYS]
    if recorded or deployed.parts or deployment.part is not None:
        modules.append("recording")
    if recorded and _ends(deployment):
        modules.append("samples")
    plan |= carried(words_of(deployment), modules)
    for kind in KINDS:
        plan |= _scripts(kind, jinja, deployment)
    if deployed.c_tasks:
        plan |= _in_c(deployed, jinja)
    return plan


def _scripts(kind: Kind, jinja: Environment, deployment: Deployment) -> Plan:
    return {} if kind.scripts is None else kind.scripts(jinja, deployment)


def _in_c(deployed: Deployed, jinja: Environment) -> Plan:
    """What C sources need beside them: headers, what fires them, and a script that compiles."""
    plan: Plan = {FIRINGS: (RUNTIME / "firings.c").read_bytes()}
    units = [_command(FIRINGS)]
    for source in sorted(deployed.c_tasks):
        plan[f"{source.rsplit('.', 1)[0]}.flow.h"] = deployed.header(source, jinja)
        units.append(_command(source))
    plan["compile.sh"] = jinja.get_template("c/compile.sh.j2").render(units=units).encode()
    return plan


def _command(source: str) -> str:
    return " ".join(shell_word(word) for word in compile_command(source))


def readme(
    deployed: Deployed, robot: str = "", start: Sequence[str] = (), *, native: bool = False
) -> bytes:
    """What a program is and how it is started: by itself, in C++ if it is `native`, or as a node of
    a `robot`, with its `start` commands."""
    deployment = deployed.deployment
    jinja = printing()
    text = jinja.get_template("python/README.md.j2")
    steps: list[str] = []
    for kind in KINDS:
        if _scripts(kind, jinja, deployment):
            steps += kind.steps
    words = {"c_sources": deployed.c_tasks, "steps": steps, "robot": robot, "start": start}
    needs, ends = _needs(deployment), _ends(deployment)
    return text.render(
        deployment=deployment,
        needs=needs,
        ends=ends,
        on_device=_on_device(deployment),
        native=native,
        **words,
    ).encode()


def _libraries(deployment: Deployment) -> list[Library]:
    """The libraries that the code of a program needs."""
    libraries: list[Library] = []
    for task in deployment.tasks:
        libraries += code_of(task).libraries(deployment)
    return distinct(libraries)


def _needs(deployment: Deployment) -> str:
    """The libraries of a program, in words."""
    names = ["numpy"]
    if deployment.part is not None:
        names.append("pyzmq")
    names += [library.name for library in _libraries(deployment)]
    return ", ".join(names)


def _requirements(deployment: Deployment) -> list[str]:
    """The same for pip."""
    lines = [f"numpy>={LEAST_NUMPY}"]
    if deployment.part is not None:
        lines.append(f"pyzmq>={LEAST_PYZMQ}")
    for library in _libraries(deployment):
        lines += library.lines
    return lines


def _ends(deployment: Deployment) -> list[str]:
    """The open ends, one to a line."""
    lines = []
    for task in deployment.tasks:
        if isinstance(task.code, BorderCode):
            for port in (*task.inputs, *task.outputs):
                shape = str(list(port.shape)) if port.shape else ""
                lines.append(f"{task.code.kind} {task.name}: {port.dtype}{shape}")
    return lines


def _on_device(deployment: Deployment) -> bool:
    return any(code_of(task).on_device for task in deployment.tasks)


def digest(plan: Plan) -> str:
    """A hash over all paths and contents."""
    total = hashlib.sha256()
    for path, content in sorted(plan.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        total.update(f"{path}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()
