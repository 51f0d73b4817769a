"""Networks on Intel's NPUs, through OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.application import Task
from ...model.deployment import Deployment
from ...networks.engines.tolerance import least_db
from ...networks.npu.openvino import ENGINE
from ..libraries import Library, openvino
from ..names import literal
from .kind import ON_NPU, BuildCode, CodeSite, Identifiers, Kind, names, tensors


@dataclass(frozen=True, slots=True)
class OpenVinoNpuCode(BuildCode):
    """A network with the tensors of its ports, in port order. `external` are the files with its
    weights, beside its own; `noise_db` is the least signal-to-noise ratio that the harness lets
    pass."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    external: tuple[str, ...]
    precision: str
    noise_db: float | None
    kind: str = "openvino_npu"

    words = frozenset({"OpenVinoNpu"})
    on_device = True
    not_choosable = ON_NPU

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (openvino(),)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        given = f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
        external = f", external={names(self.external)}" if self.external else ""
        return f"OpenVinoNpu({given}{external})"


def _make(task: Task, site: CodeSite) -> OpenVinoNpuCode | None:
    network = task.network
    pools = [site.platform.pool_of(p) for p in site.place.processors]
    if network is None or any(pool.engine != ENGINE.name for pool in pools):
        return None
    return OpenVinoNpuCode(
        site.network(network),
        *tensors(network),
        network.external,
        network.precision,
        least_db(network),
    )


KIND = Kind("openvino_npu", OpenVinoNpuCode.words, frozenset({"npu"}), _make)
