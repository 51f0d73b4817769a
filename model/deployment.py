"""Who runs where, in which order, over which channels: all that a program needs, as plain data (deployment.json)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

DEPLOYMENT_VERSION = 1

Plain = bool | int | float | str
#: A file of the build with the tensors it reads and makes.
Side = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A parameter whose value is a file of the build (path relative to it)."""

    file: str


@dataclass(frozen=True, slots=True)
class PythonCode:
    """A function or class in a copied file; `process`: it runs in a process of its own."""

    file: str
    name: str
    parameters: tuple[tuple[str, Plain | DataFile], ...]
    process: bool = False
    kind: str = "python"


@dataclass(frozen=True, slots=True)
class CCode:
    """A C function; parameters are (name, type, value), state fields (name, dtype, shape)."""

    library: str
    source: str
    name: str
    parameters: tuple[tuple[str, str, Plain | DataFile], ...]
    state: tuple[tuple[str, str, tuple[int, ...]], ...]
    kind: str = "c"


@dataclass(frozen=True, slots=True)
class OnnxCode:
    """A network with the tensors behind its ports, in port order.

    `threads` of the inference library share an inference; they `spin` between layers where nobody else needs the cores.
    """

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int
    threads: int = 1
    spin: bool = False
    kind: str = "onnx"


@dataclass(frozen=True, slots=True)
class DeployedLaunch:
    """A kernel of a firing; see `Launch` of the runtime."""

    kernel: str
    arguments: tuple[str | tuple[str, Plain], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@dataclass(frozen=True, slots=True)
class CudaCode:
    """Kernels of a file; `scratch` and `state` are fields (name, dtype, shape). `twin` does the same on a CPU."""

    file: str
    launches: tuple[DeployedLaunch, ...]
    scratch: tuple[tuple[str, str, tuple[int, ...]], ...]
    state: tuple[tuple[str, str, tuple[int, ...]], ...]
    graph: bool
    twin: PythonCode | CCode | None
    tolerance: float | None
    kind: str = "cuda"


@dataclass(frozen=True, slots=True)
class EngineCode:
    """A network on a GPU or DLAs. `on` has (processor, `gpu` or `dla`, DLA core) of each that runs it.

    `engine` is `onnxruntime` or `tensorrt`; the rest as in `OnnxCode`. `digest` covers all that an engine is built
    from, external weights and shapes among it. `implicit` is the same network without Q/DQ layers, for DLAs that know
    none; the ranges of its tensors lie beside it, as .json.
    """

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int
    engine: str
    on: tuple[tuple[str, str, int], ...]
    precision: str
    fallback: bool
    digest: str
    implicit: str = ""
    kind: str = "engine"


Code = PythonCode | CCode | OnnxCode | CudaCode | EngineCode


@dataclass(frozen=True, slots=True)
class DeployedVariant:
    """A cut of a network that may move, after `layer`, and what both sides take (ns, or anything in proportion)."""

    layer: str
    front: Side
    back: Side
    work: tuple[float, float]


@dataclass(frozen=True, slots=True)
class MovingCode:
    """One side (`front`, `back`) of a network whose cut moves among `variants`; `tensors` are those of its own ports.

    `others` is what the other tasks on the processors of both sides take per frame, in the unit of `work`.
    """

    network: str
    side: str
    tensors: tuple[str, ...]
    variants: tuple[DeployedVariant, ...]
    start: int
    others: tuple[float, float]
    kind: str = "moving"


@dataclass(frozen=True, slots=True)
class DeployedPort:
    """A port with its type."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    rates: tuple[int, ...]
    stacked: bool


@dataclass(frozen=True, slots=True)
class DeployedTask:
    """`firings` per iteration."""

    name: str
    doc: str
    code: Code | MovingCode
    inputs: tuple[DeployedPort, ...]
    outputs: tuple[DeployedPort, ...]
    firings: int


@dataclass(frozen=True, slots=True)
class DeployedChannel:
    """`capacity` in tokens."""

    name: str
    source: str
    source_port: str
    destination: str
    destination_port: str
    capacity: int
    delay: int
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class DeployedApp:
    """Times are exact fractions of ns as text, None = as fast as data allows."""

    name: str
    doc: str
    period_ns: str | None
    deadline_ns: str | None
    priority: int
    tasks: tuple[DeployedTask, ...]
    channels: tuple[DeployedChannel, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A step of a static order; see `Fire` of the runtime."""

    task: str
    times: int
    first: int
    stage: int
    replica: tuple[int, int]
    round: tuple[int, int]


@dataclass(frozen=True, slots=True)
class DeployedWorker:
    """One thread of a processor. `fixed_priority` is (core, priority) under that scheduler."""

    processor: str
    scheduler: str
    order: tuple[Entry, ...]
    fixed_priority: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """`name` is the text's stem. `tensorrt` is the version of the platform, () = none."""

    name: str
    source: str
    platform: str
    search: str
    apps: tuple[DeployedApp, ...]
    processors: tuple[DeployedWorker, ...]
    tensorrt: tuple[int, ...] = ()

    def to_json(self) -> str:
        """The text of deployment.json; deterministic for equal contents."""
        document: dict[str, Any] = {"version": DEPLOYMENT_VERSION, **asdict(self)}
        return json.dumps(document, indent=1) + "\n"
