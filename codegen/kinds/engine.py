"""Networks on a GPU or DLAs, as data; `onnx_cuda` or `tensorrt` runs them, depending on the
platform."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...model.platform import Pool
from ...model.tensorrt import TensorRTVersion
from ...networks.onnx.memory import needs_in_tensorrt
from ...networks.quantization.implicit import without_pairs
from ..names import literal, option
from .kind import CodeSite, Identifiers, names, several, tensors

#: Changes when build_engines.py would build other plans from the same models.
BUILT = 2


@dataclass(frozen=True, slots=True)
class EngineCode:
    """A network on a GPU or DLAs. `on` has (processor, `gpu` or `dla`, DLA core) of each that runs
    it.

    `engine` is `onnxruntime` or `tensorrt`; the rest as in `OnnxCode`. `digest` covers everything
    that an engine is built from, including external weights and shapes. `implicit` is the same
    network without Q/DQ layers, for DLAs without support for them; the ranges of its tensors are
    beside it, as .json. `weights` and `arena` are TensorRT's bytes for each processor: its weights,
    and the memory between its layers in one execution (None: unknown). The arena is an estimate if
    it was not measured.
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
    weights: int | None = None
    arena: int | None = None
    kind: str = "engine"

    on_device = True
    moves = False

    @property
    def words(self) -> frozenset[str]:
        """See `Code`."""
        return frozenset({"TensorRT" if self.engine == "tensorrt" else "OnnxCuda"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        version = TensorRTVersion(deployment.tensorrt)
        return (f"TensorRT {version}" if self.engine == "tensorrt" else "onnxruntime-gpu",)

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        batch = option("batch", several(self.batch))
        words = f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
        if self.engine == "onnxruntime":
            return f"OnnxCuda({words}{batch})"
        places = ", ".join(
            f"{literal(p)}: ({literal(device)}, {core})" for p, device, core in self.on
        )
        rest = f"digest={literal(self.digest)}, precision={literal(self.precision)}{batch}"
        return f"TensorRT({words}, on={{{places}}}, {rest})"


def engine_code(task: Task, site: CodeSite, engine: str) -> EngineCode:
    """A network where its placement says, run by that engine."""
    network, place, tensorrt = task.network, site.place, site.platform.tensorrt
    assert network is not None
    on = tuple(_device(p, site.platform.pool_of(p)) for p in place.processors)
    kinds = {kind for _, kind, _ in on}
    shapes = [(t.name, t.type) for t in (*network.inputs, *network.outputs)]
    implicit, contents = "", b""
    ranges_given = bool(tensorrt) and not TensorRTVersion(tensorrt).strongly_typed
    if ranges_given and network.precision == "int8" and "dla" in kinds:
        implicit, contents = _implicit(network, site)
    words = repr((BUILT, network.content_hash, shapes, place.fallback)).encode() + contents
    weights, arena = None, None
    if engine == "tensorrt":
        weights, arena = _memory(network, site, kinds)
    return EngineCode(
        site.network(network),
        *tensors(network),
        site.batch,
        engine,
        on,
        network.precision,
        place.fallback,
        hashlib.sha256(words).hexdigest()[:12],
        implicit,
        weights,
        arena,
    )


def _device(processor: str, pool: Pool) -> tuple[str, str, int]:
    """A processor with its kind, and the number of its core if it is a DLA."""
    core = pool.processors.index(processor) if pool.kind == "dla" else 0
    return processor, pool.kind, core


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
