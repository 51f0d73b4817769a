"""Networks on a GPU or DLAs through TensorRT, and the scripts of a build for it.

engines.py loads plans, build_engines.py makes them on the target, profile_engines.py measures their
layers. The templates handle the differences between versions of TensorRT; `model.tensorrt` maps
versions to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.application import Network, Task
from ...model.deployment import DeployedPort, DeployedTask, Deployment
from ...model.tensorrt import TensorRTVersion
from ...networks.onnx.memory import needs_in_tensorrt
from ...networks.quantization.implicit import without_pairs
from ..libraries import Library, cuda_python
from ..names import literal, option
from ..sources import Plan
from .engine import EngineCode, engine_code, processors_of
from .kind import CodeSite, DeviceMemory, Identifiers, Kind, code_of

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class TensorRTCode(EngineCode):
    """A network that TensorRT runs; as a CUDA `graph`, its kernels are started together.

    The tensors `half` are in fp16 in the engine, and in fp32 in the model. Their layout stays
    linear: headers of TensorRT 10 give CHW16, the DLA's own, to DLAs alone. `compute` is that of
    the GPU, where the platform says it.
    """

    graph: bool = False
    half: tuple[str, ...] = ()
    compute: tuple[int, int] | None = None

    words = frozenset({"TensorRT"})

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        version = TensorRTVersion(deployment.tensorrt)
        name = f"TensorRT {version}"
        line = f"# {name}: NVIDIA's package, part of JetPack on a Jetson"
        if version.rtx:
            line = "tensorrt-rtx==" + ".".join(map(str, deployment.tensorrt[:2])) + ".*"
        return (Library(name, (line,), rank=1), cuda_python(deployment.tensorrt))

    @property
    def memory(self) -> DeviceMemory:
        """See `BuildCode`."""
        return DeviceMemory(
            self.weights, self.arena, tuple(processor for processor, _, _ in self.on)
        )

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        places = ", ".join(
            f"{literal(p)}: ({literal(device)}, {core})" for p, device, core in self.on
        )
        digest, precision = literal(self.digest), literal(self.precision)
        options = f"on={{{places}}}, digest={digest}, precision={precision}{self.batch_text}"
        options += option("graph", self.graph) + option("half", list(self.half))
        return f"TensorRT({self.network_text}, {options})"


def engines_of(
    tasks: Iterable[DeployedTask],
) -> Iterator[tuple[TensorRTCode, Sequence[DeployedPort]]]:
    """The engines that TensorRT runs for these tasks, with the ports that they read."""
    for task in tasks:
        for engine in code_of(task).engines(task):
            if isinstance(engine.code, TensorRTCode):
                yield engine.code, engine.inputs


def stages(deployment: Deployment) -> list[str]:
    """What build_engines.py builds: each model once for each kind of processor."""
    found: dict[str, None] = {}
    for code, inputs in engines_of(deployment.tasks):
        shapes = {
            name: (code.batch * p.shape[0], *p.shape[1:]) if code.batch > 1 else p.shape
            for name, p in zip(code.inputs, inputs, strict=True)
        }
        for device in sorted({device for _, device, _ in code.on}):
            words = [literal(code.file), literal(device), literal(code.precision), str(code.batch)]
            words += [literal(code.digest), literal(shapes)]
            words += [f"half={literal(code.half)}"] if code.half else []
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
    words = {
        "name": deployment.name,
        "version": str(TensorRTVersion(deployment.tensorrt)),
        "dialect": TensorRTVersion(deployment.tensorrt).dialect,
        "rtx": TensorRTVersion(deployment.tensorrt).rtx,
        "compute": _compute(deployment),
        "stages": built,
        "implicit": any(code.implicit for code, _ in engines_of(deployment.tasks)),
        "half": any(code.half for code, _ in engines_of(deployment.tasks)),
    }
    return {
        f"{file}.py": jinja.get_template(f"tensorrt/{file}.py.j2").render(words).encode()
        for file in ("engines", "build_engines", "profile_engines")
    }


def _compute(deployment: Deployment) -> tuple[int, int] | None:
    """The compute capability of the GPU for which plans are built."""
    return next((code.compute for code, _ in engines_of(deployment.tasks)), None)


def _make(task: Task, site: CodeSite) -> TensorRTCode | None:
    network = task.network
    if network is None or not site.platform.tensorrt:
        return None
    on = processors_of(site)
    kinds = {kind for _, kind, _ in on}
    ranges_given = not TensorRTVersion(site.platform.tensorrt).strongly_typed
    implicit, contents = "", b""
    if ranges_given and network.precision == "int8" and "dla" in kinds:
        implicit, contents = _implicit(network, site)
    weights, arena = _memory(network, site, kinds)
    code = engine_code(TensorRTCode, "tensorrt", network, site, on, contents)
    return replace(
        code,
        implicit=implicit,
        weights=weights,
        arena=arena,
        graph=site.place.graph,
        half=network.halved,
        compute=site.platform.pool_of(site.place.processors[0]).compute,
    )


def _memory(network: Network, site: CodeSite, kinds: set[str]) -> tuple[int | None, int | None]:
    """Bytes of the weights and of the arena of an engine."""
    known = needs_in_tensorrt(network)
    if known is None:
        return None, site.arena
    # If types do not decide, the file is in 32 bits, and the builder halves what it may; a DLA
    # supports nothing wider.
    typed = TensorRTVersion(site.platform.tensorrt).strongly_typed
    halved = not typed and (network.precision != "fp32" or "dla" in kinds)
    share = 2 if halved else 1
    arena = site.arena
    if arena is None:
        arena = site.batch * known.block // share
    return known.weights // share, arena


def _implicit(network: Network, site: CodeSite) -> tuple[str, bytes]:
    """A network of 8 bits for an engine with given ranges: a model without pairs, and the ranges
    beside it.

    Returns the model's file, and the contents of both.
    """
    path = Path(network.path)
    model, ranges = without_pairs(network.model or path.read_bytes())
    borders = [t.name for t in (*network.inputs, *network.outputs) if t.type.dtype == "int8"]
    words = json.dumps({"int8": borders, "ranges": ranges}, indent=1).encode()
    site.sources.place("networks", path.with_suffix(".implicit.json"), words)
    return site.sources.place("networks", path.with_suffix(".implicit.onnx"), model), model + words


KIND = Kind(
    "tensorrt",
    TensorRTCode.words,
    frozenset({"gpu", "dla"}),
    _make,
    scripts,
    steps=(
        "python3 build_engines.py          # once on the machine where it runs: builds the TensorRT"
        " plans, which takes minutes",
        "python3 profile_engines.py        # times of the layers of each plan",
    ),
)
