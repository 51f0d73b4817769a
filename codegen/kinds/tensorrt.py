"""Networks on a GPU or DLAs through TensorRT, and the scripts of a build for it.

engines.py loads plans, build_engines.py makes them on the target, profile_engines.py measures their
layers. The templates handle the differences between versions of TensorRT; `model.tensorrt` maps
versions to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model.application import Task
from ...model.deployment import Deployment
from ...model.tensorrt import TensorRTVersion
from ..names import literal
from ..sources import Plan
from .engine import EngineCode, engine_code
from .kind import CodeSite, Kind

if TYPE_CHECKING:
    from jinja2 import Environment


def stages(deployment: Deployment) -> list[str]:
    """What build_engines.py builds: each model once for each kind of processor."""
    found: dict[str, None] = {}
    for task in deployment.tasks:
        code = task.code
        if not isinstance(code, EngineCode) or code.engine != "tensorrt":
            continue
        shapes = {
            name: (code.batch * p.shape[0], *p.shape[1:]) if code.batch > 1 else p.shape
            for name, p in zip(code.inputs, task.inputs, strict=True)
        }
        for device in sorted({device for _, device, _ in code.on}):
            words = [literal(code.file), literal(device), literal(code.precision), str(code.batch)]
            words += [literal(code.digest), literal(shapes)]
            if device == "dla":
                words += ["fallback=True"] if code.fallback else []
                words += [f"implicit={literal(code.implicit)}"] if code.implicit else []
            found[", ".join(words)] = None
    return list(found)


def scripts(jinja: Environment, deployment: Deployment) -> Plan:
    """The files for TensorRT; they differ between its generations."""
    built = stages(deployment)
    if not built:
        return {}
    codes = (t.code for t in deployment.tasks)
    words = {
        "name": deployment.name,
        "version": str(TensorRTVersion(deployment.tensorrt)),
        "dialect": TensorRTVersion(deployment.tensorrt).dialect,
        "stages": built,
        "implicit": any(isinstance(c, EngineCode) and c.implicit for c in codes),
    }
    return {
        f"{file}.py": jinja.get_template(f"tensorrt/{file}.py.j2").render(words).encode()
        for file in ("engines", "build_engines", "profile_engines")
    }


def _serves(task: Task, site: CodeSite) -> bool:
    return task.network is not None and not site.on_cpu and bool(site.platform.tensorrt)


def _make(task: Task, site: CodeSite) -> EngineCode:
    return engine_code(task, site, "tensorrt")


KIND = Kind("tensorrt", frozenset({"TensorRT"}), _serves, _make, scripts)
