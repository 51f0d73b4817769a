"""Networks on CPUs, through ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.onnx.memory import needs
from ..names import literal
from .kind import Identifiers, Kind, Site, names, tensors


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
        batch = f", batch={self.batch}" if self.batch > 1 else ""
        threads = f", threads={self.threads}" if self.threads > 1 else ""
        threads += ", spin=True" if self.spin else ""
        block = f", block={self.block}" if self.block else ""
        return (
            f"Network({literal(self.file)}, {names(self.inputs)},"
            f" {names(self.outputs)}{batch}{threads}{block})"
        )


def _serves(task: Task, site: Site) -> bool:
    return task.network is not None and task.network.moving is None and site.on_cpu


def _make(task: Task, site: Site) -> OnnxCode:
    assert task.network is not None
    known = needs(task.network)
    file = site.network(task.network)
    code = OnnxCode(file, *tensors(task.network), site.batch)
    if known is not None:
        code = replace(code, weights=known.weights, block=known.block)
    return (
        replace(code, threads=site.place.threads, spin=site.alone)
        if site.place.threads > 1
        else code
    )


KIND = Kind("onnx", OnnxCode.words, _serves, _make)
