"""Networks on CPUs, through ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs, weights_alone
from ..libraries import Library, onnxruntime
from ..names import literal, option
from .kind import (
    BATCHED,
    CPU,
    BuildCode,
    CodeSite,
    CpuMemory,
    Identifiers,
    Kind,
    names,
    several,
    tensors,
)


@dataclass(frozen=True, slots=True)
class OnnxCode(BuildCode):
    """A network with the tensors of its ports, in port order.

    `threads` of the inference library share an inference; they `spin` between layers if no other
    task needs the cores. `weights` and `block` are bytes: its weights, and the memory between its
    layers in one firing (None: unknown). `library` is the file with operators of its own, if any.
    The tensors `half` are float16 outside and float32 in the model, as in `TensorRTCode`.
    """

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int = field()
    threads: int = 1
    spin: bool = False
    weights: int | None = None
    block: int | None = None
    library: str = ""
    half: tuple[str, ...] = ()
    kind: str = "onnx"

    words = frozenset({"Network"})
    abortable = True

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime(),)

    @property
    def memory(self) -> CpuMemory:
        """See `BuildCode`."""
        block = None if self.block is None else self.batch * self.block
        return CpuMemory(((self.file, self.weights),), block)

    @property
    def not_choosable(self) -> str | None:
        """See `BuildCode`."""
        return BATCHED if self.batch > 1 else None

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        options = [
            option("batch", several(self.batch)),
            option("threads", several(self.threads)),
            option("spin", self.spin),
            option("block", self.block),
            option("library", self.library),
            option("half", list(self.half)),
        ]
        return (
            f"Network({literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
            f"{''.join(options)})"
        )


def _make(task: Task, site: CodeSite) -> OnnxCode | None:
    network = task.network
    if network is None or network.moving is not None:
        return None
    known = needs(network)
    code = OnnxCode(site.network(network), *tensors(network), site.batch, half=network.halved)
    if known is not None:
        code = replace(code, weights=known.weights, block=known.block)
    elif network.one_piece:
        code = replace(code, weights=weights_alone(network))
    if network.library:
        code = replace(code, library=site.sources.place("networks", network.library))
    if site.place.threads == 1:
        return code
    return replace(code, threads=site.place.threads, spin=site.alone)


KIND = Kind("onnx", OnnxCode.words, CPU, _make)
