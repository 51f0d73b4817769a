"""Tasks on a GPU: kernels of a .cu file, compiled on the target; a twin on a CPU does the same."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Launch, Task
from ...model.deployment import Deployment, Plain
from ..libraries import Library, cuda_python
from ..names import literal
from .c import CCode, c_code
from .kind import ON_DEVICE, BuildCode, CodeSite, Identifiers, Kind, headers, number
from .python import PythonCode, python_code


@dataclass(frozen=True, slots=True)
class DeployedLaunch:
    """A kernel of a firing with its arguments: names of ports, of `scratch` and `state`, or (type,
    value). `shared` is in bytes."""

    kernel: str
    arguments: tuple[str | tuple[str, Plain], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@dataclass(frozen=True, slots=True)
class CudaCode(BuildCode):
    """Kernels of a file; `scratch` and `state` are fields (name, dtype, shape). `twin` does the
    same on a CPU. `compute` is the compute capability of the GPU, where the platform says it."""

    file: str
    launches: tuple[DeployedLaunch, ...]
    scratch: tuple[tuple[str, str, tuple[int, ...]], ...]
    state: tuple[tuple[str, str, tuple[int, ...]], ...]
    graph: bool
    twin: PythonCode | CCode | None
    tolerance: float | None
    compute: tuple[int, int] | None = None
    kind: str = "cuda"

    on_device = True
    not_choosable = ON_DEVICE

    @property
    def words(self) -> frozenset[str]:
        """See `BuildCode`."""
        return _WORDS if self.twin is None else _WORDS | self.twin.words

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (cuda_python(deployment.tensorrt),)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`: the kernels, one to a line."""
        lines = [
            f"{literal(self.file)},",
            "[",
            *(f"    {_launch(x)}," for x in self.launches),
            "],",
        ]
        if self.scratch:
            lines.append(f"scratch={literal(list(self.scratch))},")
        if self.state:
            lines.append(f"state={literal(list(self.state))},")
        if self.graph:
            lines.append("graph=True,")
        if self.twin is not None:
            lines.append(f"twin={self.twin.text(ids)},")
        return "\n".join(["Kernels(", *(" " * 12 + line for line in lines), " " * 8 + ")"])


_WORDS = frozenset({"Kernels", "Launch"})


def _launch(launch: DeployedLaunch) -> str:
    shared = f", shared={launch.shared}" if launch.shared else ""
    arguments = ", ".join(literal(a) for a in launch.arguments)
    return (
        f"Launch({literal(launch.kernel)}, [{arguments}], grid={launch.grid},"
        f" block={launch.block}{shared})"
    )


def _deployed(launch: Launch) -> DeployedLaunch:
    """A launch with its numbers as text."""
    arguments = tuple(a if isinstance(a, str) else (a[0], number(a[1])) for a in launch.arguments)
    return DeployedLaunch(launch.kernel, arguments, launch.grid, launch.block, launch.shared)


def _make(task: Task, site: CodeSite) -> CudaCode | None:
    code = task.implementation_on("gpu")
    if task.network is not None or code is None:
        return None
    file = site.sources.place("tasks", code.path)
    headers(code.path, site.sources)
    return CudaCode(
        file,
        tuple(_deployed(launch) for launch in code.launches),
        tuple((f.name, f.type.dtype, f.type.shape) for f in task.scratch),
        tuple((f.name, f.type.dtype, f.type.shape) for f in task.state),
        site.place.graph,
        _twin(task, site),
        None if task.tolerance is None else float(task.tolerance),
        site.platform.pool_of(site.place.processors[0]).compute,
    )


def _twin(task: Task, site: CodeSite) -> CCode | PythonCode | None:
    """The code with which CPUs play the GPU, if there is any."""
    twin = task.implementation_on("cpu") or task.reference
    if twin is None:
        return None
    if twin.language == "c":
        return c_code(task, twin, site)
    return python_code(task, twin, site)


KIND = Kind("cuda", _WORDS, frozenset({"gpu"}), _make)
