"""What a measured time belongs to: a hash over everything of a task that may change how long it takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ..model.application import FilePath, Implementation, Port, Task


def implementation_on(task: Task, kind: str = "cpu") -> Implementation | None:
    """The implementation a processor of that kind uses: C before Python, because it is there to be faster."""
    found = [i for i in task.implementations if i.kind == kind]
    return min(found, key=lambda i: ("c", "python", "cuda").index(i.language), default=None)


def implementation_name(task: Task, kind: str = "cpu") -> str:
    """`c "denoise.c:denoise"`, or the network's file."""
    if task.network is not None:
        return f"onnx {task.network.file}"
    code = implementation_on(task, kind)
    return f"{code.language} {code.file}:{code.symbol}" if code else ""


def content_hash(task: Task, helpers: Iterable[Path], kind: str = "cpu") -> str:
    """Covers code (with the local modules it imports), parameters, port types and rates, or the network's content."""
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
    kernels = implementation_on(task, "gpu")
    if kernels is not None:
        add(kernels.launches, task.scratch, Path(kernels.path).read_bytes(), *(p.read_bytes() for p in helpers))
    code = implementation_on(task, kind)
    if code is not None:
        add(code.language, code.symbol, Path(code.path).read_bytes(), *(p.read_bytes() for p in helpers))
    return digest.hexdigest()[:16]


def _port(port: Port) -> tuple[object, ...]:
    return port.name, port.direction, str(port.type), port.rates
