"""Kernels of CUDA in a native program: compiled when it is built, started by main.cpp.

In: tasks with such code. Out: the texts of their launches, and files with machine code. NVRTC makes
it for the GPU of the platform, from the sources as they lie in the build.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ...model.deployment import DeployedTask, Deployment, Plain
from ...model.types import DTYPES
from .. import c_text
from ..kinds.cuda import CudaCode, DeployedLaunch
from ..nvrtc import compiled, libraries
from ..sources import Plan

#: A `scratch` or `state`: name, type, shape.
Field = tuple[str, str, tuple[int, ...]]


def has_kernels(deployment: Deployment) -> bool:
    """Does it need CUDA's driver?"""
    return any(isinstance(task.code, CudaCode) for task in deployment.tasks)


def not_compilable(code: CudaCode) -> str:
    """Why there can be no machine code of kernels; empty if nothing stands in the way."""
    if code.compute is None:
        return "the platform does not say for which GPU: give it `compute`, as in `compute 8.7`"
    if any(library.supports(code.compute) for library in libraries()):
        return ""
    return f"there is no NVRTC for sm_{_number(code)}: `pip install 'flowc[cuda]'`"


def compiled_file(code: CudaCode) -> str:
    """The file of machine code in the build."""
    stem = code.file.removeprefix("tasks/").rsplit(".", 1)[0]
    return f"kernels/{stem}.sm_{_number(code)}.cubin"


def _number(code: CudaCode) -> str:
    assert code.compute is not None
    return "{}{}".format(*code.compute)


def compiled_kernels(deployment: Deployment, files: Plan) -> Plan:
    """The machine code of all kernels, from the sources among `files`."""
    codes = [task.code for task in deployment.tasks if isinstance(task.code, CudaCode)]
    sources = []
    for path, content in files.items():
        if path.startswith("tasks/") and codes:
            content = content if isinstance(content, bytes) else content.read_bytes()
            sources.append((path, content))
    made: Plan = {}
    for code in codes:
        assert code.compute is not None
        made[compiled_file(code)] = _compiled(code.file, code.compute, tuple(sources))
    return made


@lru_cache(maxsize=64)
def _compiled(file: str, compute: tuple[int, int], sources: tuple[tuple[str, bytes], ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        for path, content in sources:
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        made = compiled(Path(folder, PurePosixPath(file)), compute)
    if made is None or not made[0]:
        raise RuntimeError(f"{file} does not compile any more")
    return made[0]


def launches(task: DeployedTask, code: CudaCode) -> list[str]:
    """The launches of a firing in main.cpp."""
    names = [p.name for p in (*task.inputs, *task.outputs)]
    names += [name for name, _, _ in (*code.scratch, *code.state)]
    return [_launch(launch, names) for launch in code.launches]


def _launch(launch: DeployedLaunch, names: list[str]) -> str:
    arguments = []
    for given in launch.arguments:
        if isinstance(given, str):
            arguments.append(f"flow::address({names.index(given)})")
        else:
            arguments.append(f"flow::value({_value(*given)})")
    sizes = (f"{{{', '.join(map(str, size))}}}" for size in (launch.grid, launch.block))
    kernel, given = c_text.text(launch.kernel), ", ".join(arguments)
    return f"{{{kernel}, {', '.join(sizes)}, {launch.shared}, {{{given}}}}}"


def _value(dtype: str, value: Plain) -> str:
    assert isinstance(value, int | float)
    return f"{DTYPES[dtype][0].replace('_Bool', 'bool')}({c_text.element(value, dtype)})"


def field_bytes(fields: tuple[Field, ...]) -> list[int]:
    """The bytes of each."""
    sizes = []
    for _, dtype, shape in fields:
        size = DTYPES[dtype][1]
        for n in shape:
            size *= n
        sizes.append(size)
    return sizes
