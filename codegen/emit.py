"""Deployment to files: everything of a build except compiled objects, as a plan {path: content}.

Equal deployments give equal bytes. The templates get strings that are ready to print; all decisions
are made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..machines.board import LEAST_NUMPY
from ..machines.whoami import version_of
from ..model.deployment import Deployment
from .carried import RUNTIME, carried
from .deploy import Deployed
from .in_c import FIRINGS, compile_command, header, shell_word
from .kinds import KINDS, Code, tensorrt
from .kinds.border import BorderCode
from .main_text import main_text, words_of
from .names import identifiers
from .printing import printing
from .sources import Plan

#: The oldest version with which programs run, the same as flowc's own.
LEAST_ONNXRUNTIME = "1.17"
#: The first pyzmq with wheels for all machines of parts, from Python 3.8 on ARM on.
LEAST_PYZMQ = "25"
#: Modules of the runtime that programs need beside what main.py names: the harness, and `open` of
#: the package.
ALWAYS = ("embed", "harness", "outcomes")


def emit(deployed: Deployed) -> Plan:
    """The files of a build, with its parts for several machines."""
    plan = _whole(deployed)
    for part in deployed.parts:
        assert part.deployment.part is not None
        plan |= {
            f"{folder_of(part.deployment.part.machine)}/{path}": data
            for path, data in _part(part).items()
        }
    return dict(sorted(plan.items()))


def folder_of(machine: str) -> str:
    """The path of a machine's part in a build."""
    return f"parts/{machine}"


def _part(deployed: Deployed) -> Plan:
    """The files for one machine of several: no package to open, and no harness of its own."""
    plan = _whole(deployed)
    return {
        path: data
        for path, data in plan.items()
        if path != "__init__.py" and not path.startswith("tests/")
    }


def _whole(deployed: Deployed) -> Plan:
    jinja = printing()
    deployment = deployed.deployment
    plan: Plan = dict(deployed.files)
    needs = _needs(deployment)
    plan["main.py"] = main_text(jinja, deployment, needs)
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
    recorded = ("recording",) if deployed.parts or deployment.part is not None else ()
    plan |= carried(words_of(deployment), (*ALWAYS, *recorded))
    for kind in KINDS:
        plan |= {} if kind.scripts is None else kind.scripts(jinja, deployment)
    if deployed.c_tasks:
        plan[FIRINGS] = (RUNTIME / "firings.c").read_bytes()
        units = [" ".join(shell_word(word) for word in compile_command(FIRINGS))]
        for source, tasks in sorted(deployed.c_tasks.items()):
            stem = source.rsplit(".", 1)[0]
            plan[f"{stem}.flow.h"] = header(Path(source).name, tasks, jinja).encode()
            units.append(" ".join(shell_word(word) for word in compile_command(source)))
        plan["compile.sh"] = jinja.get_template("c/compile.sh.j2").render(units=units).encode()
    return plan


def readme(deployed: Deployed, robot: str = "", start: Sequence[str] = ()) -> bytes:
    """What a program is and how it is started: by itself, or as a node of a `robot`, with its
    `start` commands."""
    deployment = deployed.deployment
    text = printing().get_template("python/README.md.j2")
    words = {
        "c_sources": deployed.c_tasks,
        "tensorrt": tensorrt.stages(deployment),
        "robot": robot,
        "start": start,
    }
    needs, ends = _needs(deployment), _ends(deployment)
    return text.render(
        deployment=deployment, needs=needs, ends=ends, on_device=_on_device(deployment), **words
    ).encode()


def _codes(deployment: Deployment) -> list[Code]:
    return [cast(Code, t.code) for t in deployment.tasks]


def _libraries(deployment: Deployment) -> list[str]:
    """The inference libraries of a program."""
    found = dict.fromkeys(name for c in _codes(deployment) for name in c.libraries(deployment))
    if "onnxruntime-gpu" in found:  # it includes the other
        found.pop("onnxruntime", None)
    return sorted(found, key=lambda name: not name.startswith("onnxruntime"))


def _needs(deployment: Deployment) -> str:
    """The libraries of a program, in words."""
    cuda = ["cuda-python or PyCUDA"] if _on_device(deployment) else []
    return ", ".join(
        ["numpy", *(["pyzmq"] if deployment.part else []), *_libraries(deployment), *cuda]
    )


def _requirements(deployment: Deployment) -> list[str]:
    """The same for pip. The version of ONNX Runtime is that of this machine, if Python is at least
    as new as here."""
    lines = [f"numpy>={LEAST_NUMPY}", *([f"pyzmq>={LEAST_PYZMQ}"] if deployment.part else [])]
    for name in _libraries(deployment):
        version = version_of(name)
        if not name.startswith("onnxruntime"):
            lines.append(f"# {name}: NVIDIA's package, part of JetPack on a Jetson")
        elif version is None:
            lines.append(f"{name}>={LEAST_ONNXRUNTIME}")
        else:
            lines.append(f'{name}=={version}; python_version >= "3.11"')
            lines.append(f'{name}>={LEAST_ONNXRUNTIME}; python_version < "3.11"')
    return [*lines, *(["cuda-python  # or PyCUDA"] if _on_device(deployment) else [])]


def _ends(deployment: Deployment) -> list[str]:
    """The open ends, one to a line."""
    return [
        f"{t.code.kind} {t.name}: {p.dtype}{list(p.shape) if p.shape else ''}"
        for t in deployment.tasks
        for p in (*t.inputs, *t.outputs)
        if isinstance(t.code, BorderCode)
    ]


def _on_device(deployment: Deployment) -> bool:
    return any(c.on_device for c in _codes(deployment))


def digest(plan: Plan) -> str:
    """A hash over all paths and contents."""
    total = hashlib.sha256()
    for path, content in sorted(plan.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        total.update(f"{path}\0{len(data)}\0".encode())
        total.update(data)
    return total.hexdigest()
