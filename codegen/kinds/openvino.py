"""Networks on CPUs, through OpenVINO, where a pin or a mapping says so."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.engines.openvino import ENGINE
from ...networks.engines.tolerance import least_db_of_engines
from ...networks.onnx.memory import needs
from ..libraries import Library, openvino
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
class OpenVinoCode(BuildCode):
    """A network with the tensors of its ports, in port order, as in `OnnxCode`.

    `external` are the files with its weights, beside its own; with `lists` its firings share an
    inference as far as there are tokens. What lies between its layers is not known. In fewer than
    32 bits, `noise_db` is the least signal-to-noise ratio that the harness lets pass.
    """

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: int = field()
    threads: int = 1
    external: tuple[str, ...] = ()
    weights: int | None = None
    precision: str = "fp32"
    noise_db: float | None = None
    lists: bool = False
    kind: str = "openvino"

    words = frozenset({"OpenVino"})

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`. The harness compares it with ONNX Runtime."""
        return (openvino(),)

    @property
    def memory(self) -> CpuMemory:
        """See `BuildCode`."""
        return CpuMemory(((self.file, self.weights),), None)

    @property
    def not_choosable(self) -> str | None:
        """See `BuildCode`."""
        return BATCHED if self.batch > 1 else None

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        options = [
            option("batch", several(self.batch)),
            option("threads", several(self.threads)),
            f", external={names(self.external)}" if self.external else "",
            option("precision", self.precision if self.precision == "bf16" else ""),
            option("lists", self.lists),
        ]
        return (
            f"OpenVino({literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
            f"{''.join(options)})"
        )


def _make(task: Task, site: CodeSite) -> OpenVinoCode | None:
    network = task.network
    if network is None or site.place.bands:
        return None
    known = needs(network)
    return OpenVinoCode(
        site.network(network),
        *tensors(network),
        site.batch,
        site.place.threads,
        network.external,
        None if known is None else known.weights,
        network.precision,
        least_db_of_engines(network),
        site.lists and site.batch > 1,
    )


KIND = Kind("openvino", OpenVinoCode.words, CPU, _make, engines=frozenset({ENGINE.name}))
