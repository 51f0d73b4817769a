"""The layers of a network that the NPU of a platform can run through its engine.

In: a network, the platform. Out: the operators that the engine does not offer, and the reason why
no layer can run there. What follows is the same for all `accelerators`.
"""

from __future__ import annotations

from functools import lru_cache, partial

from ..model.application import Network, Task
from ..model.diagnostic import one_of
from ..model.modules import MODULES
from ..model.platform import Platform
from ..networks.accelerators.breaches import Breach
from ..networks.npu import NpuEngine, engine_of
from .compiler import Compiler, NetworkFile, file_of
from .fitness import Reason


def npu_engine(platform: Platform) -> NpuEngine:
    """The engine of a platform's NPUs. Raises LookupError if it has none."""
    return engine_of(next((p.engine for p in platform.pools if p.kind == "npu"), ""))


def npu_compiler(platform: Platform) -> Compiler:
    """The engine of a platform's NPUs."""
    engine = npu_engine(platform)
    return Compiler(
        "an NPU",
        partial(_unfit, engine, platform),
        partial(_broken_rules, engine),
        "cut it in front of that layer: a cpu runs the rest",
        usable=engine.operators is not None,
    )


def keeps_whole(network: Network, platform: Platform) -> bool:
    """Does a network in 8 bits stay in one piece, as tensors at its cuts would be of a type that
    the platform's NPUs do not take?"""
    npus = [engine_of(pool.engine) for pool in platform.pools if pool.kind == "npu"]
    return network.precision == "int8" and any(npu.borders is not None for npu in npus)


def _precisions(engine: NpuEngine, platform: Platform) -> tuple[str, ...]:
    """Those in which the engine computes on the platform's module."""
    module = MODULES.get(platform.module)
    if module is None or not module.npu:
        return engine.precisions
    return tuple(p for p in engine.precisions if p in module.npu)


def _unfit(engine: NpuEngine, platform: Platform, task: Task, network: Network) -> Reason | None:
    """The reason why no layer of a network can run on the NPU."""
    precisions = _precisions(engine, platform)
    pool = next(p for p in platform.pools if p.kind == "npu")
    if engine.cores is not None and pool.count > engine.cores:
        message = f"`{pool.name}` has {pool.count} cores, and {engine.title} knows {engine.cores}"
        return "F510", message, f"write `npu {pool.name}[{engine.cores}]`"
    if network.batch > 1:
        message = f"`{task.name}` groups {network.batch} firings: an NPU gets them one by one"
        return "F510", message, "leave `batch` out"
    if network.library:
        message = f"`{task.name}` has operators of its own, which {engine.title} does not know"
        return "F510", message, "pin it to a cpu"
    if network.precision not in precisions:
        message = f"`{task.name}` computes in {network.precision}, and this NPU in"
        return "F510", f"{message} {' or '.join(precisions)} only", _REMEDIES[precisions[0]]
    if engine.borders is None:
        return None
    takes = f"{engine.title} takes and gives {one_of(engine.borders)}"
    if network.cut_from is not None and keeps_whole(network, platform):
        message = f"`{task.name}` is a piece of a network in 8 bits, and {takes}"
        return "F510", message, "leave the network whole, or write `precision fp16`"
    for tensor in (*network.inputs, *network.outputs):
        if tensor.type.dtype not in engine.borders:
            message = f"`{task.name}` has `{tensor.name}` of {tensor.type.dtype}, and {takes}"
            return "F510", message, "cut the layer off that reads or makes it: a cpu runs that"
    return None


_REMEDIES = {
    "int8": 'write `precision int8   calibrate "frames/*.npy"` in the network',
    "fp16": "write `precision fp16` in the network",
}


def _broken_rules(engine: NpuEngine, network: Network) -> tuple[Breach, ...]:
    """What keeps layers off the NPU; for a stage, off the whole network. Raises NetworkError."""
    return _broken(engine.name, file_of(network))


@lru_cache(maxsize=16)
def _broken(engine: str, file: NetworkFile) -> tuple[Breach, ...]:
    return engine_of(engine).breaches(file.path, file.shapes)
