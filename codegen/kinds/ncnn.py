"""Networks on CPUs, through ncnn, where a pin or a mapping says so."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.engines.ncnn import ENGINE
from ...networks.onnx.memory import needs
from ..libraries import Library, ncnn
from ..names import literal, option
from .kind import CPU, BuildCode, CodeSite, CpuMemory, Identifiers, Kind, names, several, tensors


@dataclass(frozen=True, slots=True)
class NcnnCode(BuildCode):
    """A network with the tensors of its ports, in port order. `threads` share an inference. What
    lies between its layers is not known."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int = 1
    weights: int | None = None
    kind: str = "ncnn"

    words = frozenset({"Ncnn"})
    not_choosable = None

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (ncnn(),)

    @property
    def memory(self) -> CpuMemory:
        """See `BuildCode`."""
        return CpuMemory(((self.file, self.weights),), None)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        given = f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
        return f"Ncnn({given}{option('threads', several(self.threads))})"


def _make(task: Task, site: CodeSite) -> NcnnCode | None:
    network = task.network
    if network is None or site.place.bands:
        return None
    known = needs(network)
    weights = None if known is None else known.weights
    return NcnnCode(site.network(network), *tensors(network), site.place.threads, weights)


KIND = Kind("ncnn", NcnnCode.words, CPU, _make, engines=frozenset({ENGINE.name}))
