"""The identity of a measured time: a hash over everything of a task that may change its time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from ..dsl.includes import c_includes
from ..dsl.modules import local_modules
from ..model.application import FilePath, Port, Task
from ..model.diagnostic import listed
from ..model.system import System


def implementation_name(task: Task, kind: str = "cpu") -> str:
    """`c "denoise.c:denoise"`, or the network's file."""
    if task.network is not None:
        return f"onnx {task.network.file}"
    code = task.implementation_on(kind)
    return f"{code.language} {code.file}:{code.symbol}" if code else ""


def task_hashes(system: System) -> dict[str, str]:
    """A hash over code, parameters and types of each task: measurements and decisions are valid
    while it is equal.

    Operators on arrows are neither measured nor placed.
    """
    hashes = {}
    for app in system.apps:
        for task in app.tasks:
            if task.resampling is None and task.transfer is None:
                hashes[task.name] = content_hash(task, _helpers(task))
    return hashes


def listed_changes(system: System, changed: Collection[str], limit: int = 8) -> str:
    """Tasks whose hashes differ, in words. Where all tasks of a file of code are among them, and
    they are several, the file is named first: most likely it is what changed.
    """
    users: dict[str, list[str]] = {}
    for app in system.apps:
        for task in app.tasks:
            code = task.implementation_on("cpu") or task.implementation_on("gpu")
            if code is not None:
                users.setdefault(code.file, []).append(task.name)
    whole = {f: names for f, names in users.items() if len(names) > 1 and {*names} <= {*changed}}
    by_file = [f"`{f}` or its tasks ({listed(names, limit)})" for f, names in whole.items()]
    named = {name for names in whole.values() for name in names}
    alone = [name for name in changed if name not in named]
    return " and ".join([*by_file, listed(alone, limit)] if alone else by_file)


def _helpers(task: Task) -> tuple[Path, ...]:
    """Files that a task's code needs: local modules of Python, local headers of C."""
    helpers: list[Path] = []
    code, kernels = task.implementation_on("cpu"), task.implementation_on("gpu")
    if code is None and task.reference is not None:
        code = task.reference
        helpers.append(Path(code.path))
    if code is not None:
        needed_by = local_modules if code.language == "python" else c_includes
        helpers += needed_by(Path(code.path))
    if kernels is not None:
        helpers += c_includes(Path(kernels.path))
    return tuple(helpers)


def content_hash(task: Task, helpers: Iterable[Path], kind: str = "cpu") -> str:
    """Covers code (with the local modules it imports), parameters, port types and rates, or the
    network's content."""
    digest = hashlib.sha256()
    helpers = tuple(helpers)

    def add(*parts: object) -> None:
        for part in parts:
            digest.update(repr(part).encode() + b"\0")

    for port in (*task.inputs, *task.outputs):
        add(*_port(port))
    add(task.state)
    for name, value in task.parameters:
        add(name, Path(value.path).read_bytes() if isinstance(value, FilePath) else value)
    if task.network is not None:
        network = task.network
        add(network.content_hash, network.batch, network.precision, network.inputs, network.outputs)
        if network.library:
            add(Path(network.library).read_bytes())
    kernels = task.implementation_on("gpu")
    if kernels is not None:
        add(
            kernels.launches,
            task.scratch,
            Path(kernels.path).read_bytes(),
            *(p.read_bytes() for p in helpers),
        )
    code = task.implementation_on(kind)
    if code is not None:
        add(
            code.language,
            code.symbol,
            Path(code.path).read_bytes(),
            *(p.read_bytes() for p in helpers),
        )
    return digest.hexdigest()[:16]


def _port(port: Port) -> tuple[object, ...]:
    parts = (port.name, port.direction, str(port.type), port.rates)
    if port.count:
        return (*parts, port.count)
    return (*parts, port.window) if port.window else parts
