"""The layers of a network that the DLA of a platform can run through its TensorRT.

In: a network, the platform. Out: the rules of `networks.dla.rules` that its layers violate, and the
reason why no layer can run there. What follows is the same for all `accelerators`.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from ..model.application import Network, Task
from ..model.files import scratch
from ..model.modules import MODULES
from ..model.platform import Platform
from ..model.tensorrt import TensorRTVersion
from ..networks.accelerators.breaches import Breach
from ..networks.dla.limits import GENERATIONS, Generation
from ..networks.dla.rules import breaches
from ..networks.quantization.implicit import has_pairs, without_pairs
from .compiler import Compiler, NetworkFile, file_of
from .fitness import Reason

#: Compute capability of the GPU beside the DLA, and which one that is.
_BESIDE = {(7, 2): "xavier", (8, 7): "orin"}


def generation(platform: Platform) -> Generation:
    """The DLA of a platform: identified by its module or the GPU beside it, else by its
    TensorRT."""
    module = MODULES.get(platform.module)
    for compute in (module.compute if module else None, *(pool.compute for pool in platform.pools)):
        if compute is not None and compute in _BESIDE:
            return GENERATIONS[_BESIDE[compute]]
    return GENERATIONS["xavier" if TensorRTVersion(platform.tensorrt).for_xavier else "orin"]


def dla_compiler(platform: Platform) -> Compiler:
    """TensorRT, as far as it builds for the DLA of a platform."""
    return Compiler(
        "a DLA",
        partial(_unfit, platform),
        partial(broken_rules, platform),
        "cut it elsewhere, or add `fallback gpu` behind the processor",
        known=bool(platform.tensorrt),
        usable=generation(platform).works_with(platform.tensorrt),
    )


def _unfit(platform: Platform, task: Task, network: Network) -> Reason | None:
    """The reason why no layer of a network can run on a DLA."""
    if not platform.tensorrt:
        message = (
            f"platform `{platform.name}` does not declare its TensorRT, which determines its DLA"
        )
        return "F603", message, 'add for example `tensorrt "10.3"` to the platform'
    dla, version = generation(platform), TensorRTVersion(platform.tensorrt)
    if not dla.works_with(platform.tensorrt):
        return (
            "F510",
            f"TensorRT {version} cannot use the DLA of `{platform.name}`",
            "pin it to the GPU",
        )
    if network.precision not in ("fp16", "int8"):
        message = f"`{task.name}` computes in {network.precision}, and a DLA in fp16 or int8 only"
        return "F510", message, "write `precision fp16` in the network"
    return None


def broken_rules(platform: Platform, network: Network) -> tuple[Breach, ...]:
    """Violations of the DLA's rules by a network; for a stage, all violations of the whole network.

    Raises NetworkError for a network that cannot be read.
    """
    precision = network.precision if network.precision in ("fp16", "int8") else "fp16"
    return _broken(
        file_of(network),
        generation(platform).name,
        platform.tensorrt,
        precision,
    )


@lru_cache(maxsize=16)
def _broken(
    file: NetworkFile,
    dla: str,
    tensorrt: tuple[int, ...],
    precision: str,
) -> tuple[Breach, ...]:
    def found(model: Path) -> tuple[Breach, ...]:
        own = GENERATIONS[dla]
        return breaches(
            model,
            file.shapes,
            generation=own,
            tensorrt=tensorrt,
            precision=precision,
        )

    if precision != "int8" or TensorRTVersion(tensorrt).strongly_typed or not has_pairs(file.path):
        return found(file.path)
    import onnx

    with scratch() as folder:  # as the DLA gets it
        plain = folder / file.path.name
        plain.write_bytes(without_pairs(onnx.load(file.path).SerializeToString())[0])
        return found(plain)
