"""Networks on Qualcomm's NPUs, through ONNX Runtime's provider QNN."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...networks.engines.tolerance import least_db
from ...networks.npu.qnn import ENGINE
from ...networks.onnx.interface import read_fixed, read_network
from ..libraries import Library, onnxruntime_qnn
from ..names import literal
from .kind import ON_NPU, BuildCode, CodeSite, Identifiers, Kind, names, tensors


@dataclass(frozen=True, slots=True)
class QnnCode(BuildCode):
    """A network with the tensors of its ports, in port order. `on` has each processor that runs it,
    with the number of its core; `noise_db` is the least signal-to-noise ratio that the harness lets
    pass."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    on: tuple[tuple[str, int], ...]
    precision: str
    noise_db: float | None
    kind: str = "qnn"

    words = frozenset({"Qnn"})
    on_device = True
    not_choosable = ON_NPU

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (onnxruntime_qnn(),)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        cores = ", ".join(str(core) for _, core in self.on)
        given = f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
        return f"Qnn({given}, cores=[{cores}])"


def _make(task: Task, site: CodeSite) -> QnnCode | None:
    network, processors = task.network, site.place.processors
    pools = [site.platform.pool_of(p) for p in processors]
    if network is None or any(pool.engine != ENGINE.name for pool in pools):
        return None
    cores = (pool.processors.index(p) for p, pool in zip(processors, pools, strict=True))
    return QnnCode(
        _file(network, site),
        *tensors(network),
        tuple(zip(processors, cores, strict=True)),
        network.precision,
        least_db(network),
    )


def _file(network: Network, site: CodeSite) -> str:
    """The file of a network in the build; QNN takes nothing of one whose sizes are open, even if
    those of the tokens are fixed."""
    path = Path(network.path)
    if network.model or all(t.fixed for t in read_network(path, {}, None).inputs):
        return site.network(network)
    for name in network.external:
        site.sources.place("networks", path.parent / name)
    _, model = read_fixed(path, {t.name: t.type.shape for t in network.inputs}, None)
    contents = model.SerializeToString(deterministic=True)
    return site.sources.place("networks", path.with_suffix(".npu.onnx"), contents)


KIND = Kind("qnn", QnnCode.words, frozenset({"npu"}), _make)
