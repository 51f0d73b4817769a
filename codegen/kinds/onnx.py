"""Networks on CPUs, through ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs
from ..names import literal, option
from .kind import CodeSite, Identifiers, Kind, names, several, tensors


@dataclass(frozen=True, slots=True)
class OnnxCode:
    """A network with the tensors of its ports, in port order.

    `threads` of the inference library share an inference; they `spin` between layers if no other
    task needs the cores. `weights` and `block` are bytes: its weights, and the memory between its
    layers in one firing (None: unknown).
    """

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int
    threads: int = 1
    spin: bool = False
    weights: int | None = None
    block: int | None = None
    kind: str = "onnx"

    on_device = False
    moves = False
    words = frozenset({"Network"})

    def libraries(self, deployment: Deployment) -> tuple[str, ...]:
        """See `Code`."""
        return ("onnxruntime",)

    def text(self, ids: Identifiers) -> str:
        """See `Code`."""
        options = [
            option("batch", several(self.batch)),
            option("threads", several(self.threads)),
            option("spin", self.spin),
            option("block", self.block),
        ]
        return (
            f"Network({literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
            f"{''.join(options)})"
        )


def _serves(task: Task, site: CodeSite) -> bool:
    return task.network is not None and task.network.moving is None and site.on_cpu


def _make(task: Task, site: CodeSite) -> OnnxCode:
    assert task.network is not None
    known = needs(task.network)
    file = site.network(task.network)
    code = OnnxCode(file, *tensors(task.network), site.batch)
    if known is not None:
        code = replace(code, weights=known.weights, block=known.block)
    if site.place.threads == 1:
        return code
    return replace(code, threads=site.place.threads, spin=site.alone)


KIND = Kind("onnx", OnnxCode.words, _serves, _make)
