"""Networks on a GPU or DLAs, as data: the part that all engines share.

An engine is a kind of code: `onnx_cuda` and `tensorrt`, depending on the platform.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ...model.application import Network
from ...model.deployment import DeployedTask
from ...model.platform import Pool
from ..names import literal, option
from .kind import ON_DEVICE, BuildCode, BuiltEngine, CodeSite, names, several, tensors

#: Changes when build_engines.py would build other plans from the same models.
BUILT = 2


@dataclass(frozen=True, slots=True)
class EngineCode(BuildCode):
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
    batch: int = field()
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
    not_choosable = ON_DEVICE

    def engines(self, task: DeployedTask) -> Sequence[BuiltEngine]:
        """See `BuildCode`."""
        return (BuiltEngine(self, task.inputs, task.outputs),)

    @property
    def network_text(self) -> str:
        """The arguments in main.py for the file and the tensors of its ports."""
        return f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"

    @property
    def batch_text(self) -> str:
        """The argument in main.py for a batch."""
        return option("batch", several(self.batch))


Code = TypeVar("Code", bound=EngineCode)


def engine_code(
    of_engine: type[Code],
    engine: str,
    network: Network,
    site: CodeSite,
    on: tuple[tuple[str, str, int], ...],
    contents: bytes = b"",
) -> Code:
    """A network on these processors, run by that engine, which is built from `contents` as well."""
    shapes = [(t.name, t.type) for t in (*network.inputs, *network.outputs)]
    words = repr((BUILT, network.content_hash, shapes, site.place.fallback)).encode() + contents
    return of_engine(
        site.network(network),
        *tensors(network),
        site.batch,
        engine,
        on,
        network.precision,
        site.place.fallback,
        hashlib.sha256(words).hexdigest()[:12],
    )


def processors_of(site: CodeSite) -> tuple[tuple[str, str, int], ...]:
    """Each processor of a placement with its kind, and the number of its core if it is a DLA."""
    return tuple(_device(p, site.platform.pool_of(p)) for p in site.place.processors)


def _device(processor: str, pool: Pool) -> tuple[str, str, int]:
    core = pool.processors.index(processor) if pool.kind == "dla" else 0
    return processor, pool.kind, core
