"""Networks on the NPU of Rockchip's RK3588, through RKNN, and the script of a build that converts
them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...model.application import Network, Task
from ...model.deployment import Deployment
from ...networks.engines.tolerance import least_db
from ...networks.npu.rknn import ENGINE
from ..libraries import Library, rknn_toolkit_lite2
from ..names import literal
from ..sources import Plan
from .kind import ON_NPU, BuildCode, CodeSite, Identifiers, Kind, names, tensors

if TYPE_CHECKING:
    from jinja2 import Environment

#: Changes when build_engines.py would make others of the same networks.
BUILT = 1


@dataclass(frozen=True, slots=True)
class RknnCode(BuildCode):
    """A network with the tensors of its ports, in port order. `on` has each processor that runs it,
    with the number of its core; `digest` covers all that the converted network depends on;
    `noise_db` is the least signal-to-noise ratio that the harness lets pass."""

    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    on: tuple[tuple[str, int], ...]
    digest: str
    precision: str
    noise_db: float | None
    kind: str = "rknn"

    words = frozenset({"Rknn"})
    on_device = True
    not_choosable = ON_NPU

    def libraries(self, deployment: Deployment) -> tuple[Library, ...]:
        """See `BuildCode`."""
        return (rknn_toolkit_lite2(),)

    def text(self, ids: Identifiers) -> str:
        """See `BuildCode`."""
        cores = ", ".join(str(core) for _, core in self.on)
        given = f"{literal(self.file)}, {names(self.inputs)}, {names(self.outputs)}"
        return f"Rknn({given}, digest={literal(self.digest)}, cores=[{cores}])"


def models(deployment: Deployment) -> list[str]:
    """What build_engines.py converts: each network once."""
    found: dict[str, None] = {}
    for task in deployment.tasks:
        code = task.code
        if isinstance(code, RknnCode):
            shapes = [(n, p.shape) for n, p in zip(code.inputs, task.inputs, strict=True)]
            given = f"{literal(code.file)}, {literal(shapes)}, {names(code.outputs)}"
            found[f"{given}, {literal(code.digest)}"] = None
    return list(found)


def scripts(jinja: Environment, deployment: Deployment) -> Plan:
    """The script that converts networks."""
    found = models(deployment)
    if not found:
        return {}
    words = {"name": deployment.name, "models": found}
    text = jinja.get_template("rknn/build_engines.py.j2").render(words)
    return {"build_engines.py": text.encode()}


def _make(task: Task, site: CodeSite) -> RknnCode | None:
    network, processors = task.network, site.place.processors
    pools = [site.platform.pool_of(p) for p in processors]
    if network is None or any(pool.engine != ENGINE.name for pool in pools):
        return None
    cores = (pool.processors.index(p) for p, pool in zip(processors, pools, strict=True))
    return RknnCode(
        site.network(network),
        *tensors(network),
        tuple(zip(processors, cores, strict=True)),
        _digest(network),
        network.precision,
        least_db(network),
    )


def _digest(network: Network) -> str:
    """A hash over content and tensors of a network; what is computed in 16 bits is so by its
    file."""
    tensors_ = [(t.name, t.type) for t in (*network.inputs, *network.outputs)]
    words = repr((BUILT, network.content_hash, tensors_))
    return hashlib.sha256(words.encode()).hexdigest()[:12]


KIND = Kind(
    "rknn",
    RknnCode.words,
    frozenset({"npu"}),
    _make,
    scripts,
    steps=(
        "python3 build_engines.py          # once, with rknn-toolkit2, here or on the board:"
        " converts the networks for RKNN",
    ),
)
