"""The layers of a network that the DLA of a platform can run through its TensorRT.

In: a network, the platform. Out: the rules of `networks.dla.rules` that its layers violate, and so
the reason why it cannot run there as a whole, or the layers that searches keep off the DLA.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ..model.application import Network, Task
from ..model.files import scratch
from ..model.modules import MODULES
from ..model.platform import Platform
from ..model.tensorrt import TensorRTVersion
from ..networks.dla.limits import GENERATIONS, Generation
from ..networks.dla.rules import Breach, breaches
from ..networks.quantization.implicit import has_pairs, without_pairs
from .fitness import Reason

#: Compute capability of the GPU beside the DLA, and which one that is.
_BESIDE = {(7, 2): "xavier", (8, 7): "orin"}


def generation(platform: Platform) -> Generation:
    """The DLA of a platform: identified by its module or the GPU beside it, else by its
    TensorRT."""
    module = MODULES.get(platform.module)
    for compute in (module.compute if module else None, *(pool.compute for pool in platform.pools)):
        if compute in _BESIDE:
            return GENERATIONS[_BESIDE[compute]]
    return GENERATIONS["xavier" if TensorRTVersion(platform.tensorrt).for_xavier else "orin"]


def unfit_for_dla(
    task: Task, network: Network, platform: Platform, fallback: bool
) -> Reason | None:
    reason = _unfit_as_a_whole(task, network, platform)
    if reason is not None:
        return reason
    own = None if not network.model else _layers_of(network.content_hash, network.model)
    broken = [b for b in broken_rules(network, platform) if own is None or b.layer in own]
    if not broken or fallback:
        return None
    first = broken[0]
    message = (
        f"`{task.name}` cannot run on a DLA: {first.op} `{first.layer}`: {first.rule}"
        f" ({first.detail})"
    )
    others = len({breach.layer for breach in broken}) - 1
    if others == 1:
        message += ", and 1 more layer"
    elif others > 1:
        message += f", and {others} more layers"
    return "F510", message, "cut it elsewhere, or add `fallback gpu` behind the processor"


def _unfit_as_a_whole(task: Task, network: Network, platform: Platform) -> Reason | None:
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


def barred_from_dla(task: Task, platform: Platform) -> Callable[[str], bool]:
    """A predicate of layers that searches have to keep off the DLA.

    A platform without a declared TensorRT is for analyses only: all layers are allowed.
    """
    if (
        task.network is None
        or not platform.tensorrt
        or all(p.kind != "dla" for p in platform.pools)
    ):
        return lambda layer: False
    if _unfit_as_a_whole(task, task.network, platform) is not None:
        return lambda layer: True
    illegal = {b.layer for b in broken_rules(task.network, platform)}
    return lambda layer: layer in illegal


def broken_rules(network: Network, platform: Platform) -> tuple[Breach, ...]:
    """Violations of the DLA's rules by a network; for a stage, all violations of the whole network.

    Raises NetworkError for a network that cannot be read.
    """
    whole = network.cut_from or network
    path, shapes = Path(whole.path), tuple((t.name, t.type.shape) for t in whole.inputs)
    precision = network.precision if network.precision in ("fp16", "int8") else "fp16"
    return _broken(
        str(path),
        path.stat().st_mtime_ns,
        shapes,
        generation(platform).name,
        platform.tensorrt,
        precision,
    )


@lru_cache(maxsize=16)
def _broken(
    path: str,
    modified: int,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dla: str,
    tensorrt: tuple[int, ...],
    precision: str,
) -> tuple[Breach, ...]:
    def found(model: Path) -> tuple[Breach, ...]:
        return breaches(
            model, dict(shapes), generation=GENERATIONS[dla], tensorrt=tensorrt, precision=precision
        )

    if precision != "int8" or TensorRTVersion(tensorrt).strongly_typed or not has_pairs(Path(path)):
        return found(Path(path))
    import onnx

    with scratch() as folder:  # as the DLA gets it
        plain = folder / Path(path).name
        plain.write_bytes(without_pairs(onnx.load(path).SerializeToString())[0])
        return found(plain)


@lru_cache(maxsize=64)
def _layers_of(content_hash: str, model: bytes) -> frozenset[str]:
    """The layers of a stage, called after their first outputs."""
    import onnx

    return frozenset(
        node.output[0] for node in onnx.load_model_from_string(model).graph.node if node.output
    )
