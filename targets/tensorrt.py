"""The layers of a network that the GPU of a platform can run through its TensorRT.

In: a network, the platform. Out: the rules of `networks.tensorrt.rules` that its layers break, and
what NVIDIA's own parser refuses beyond them, where it is installed. What follows is the same for
all `accelerators`.
"""

from __future__ import annotations

from functools import lru_cache, partial

from ..model.application import Network, Task
from ..model.platform import Platform
from ..model.tensorrt import TensorRTVersion
from ..networks.accelerators.breaches import Breach
from ..networks.onnx.interface import NetworkError
from ..networks.tensorrt.operators import NOT_IN_RTX, changed_at_borders
from ..networks.tensorrt.referee import is_installed, refused
from ..networks.tensorrt.rules import breaches
from .compiler import Compiler, NetworkFile, file_of
from .fitness import Reason


def tensorrt_compiler(platform: Platform) -> Compiler | None:
    """TensorRT, as far as it builds for the GPU of a platform; None if networks run there
    otherwise."""
    if not platform.tensorrt:
        return None
    return Compiler(
        f"a GPU with TensorRT {TensorRTVersion(platform.tensorrt)}",
        partial(_unfit, platform.tensorrt),
        partial(_broken_rules, platform.tensorrt),
        "pin it to a cpu, or cut that layer off for one",
        selective=False,
    )


def _unfit(tensorrt: tuple[int, ...], task: Task, network: Network) -> Reason | None:
    """The reason why a stage cannot run on a GPU: what crosses its borders changes its type in
    TensorRT. Those of whole networks are judged by layers."""
    if network.cut_from is None:
        return None
    changed = changed_at_borders(TensorRTVersion(tensorrt).rules)
    for tensor in (*network.inputs, *network.outputs):
        if tensor.type.dtype in changed:
            message = (
                f"`{task.name}` has `{tensor.name}` of {tensor.type.dtype} at its border, which"
                f" TensorRT {TensorRTVersion(tensorrt)} makes {changed[tensor.type.dtype]}"
            )
            return "F510", message, "cut the network elsewhere"
    return None


def _broken_rules(tensorrt: tuple[int, ...], network: Network) -> tuple[Breach, ...]:
    """Rules that layers of a network break; for a stage, those of the whole network."""
    return _broken(file_of(network), tensorrt)


@lru_cache(maxsize=16)
def _broken(file: NetworkFile, tensorrt: tuple[int, ...]) -> tuple[Breach, ...]:
    try:
        broken = breaches(file.path, file.shapes, tensorrt=tensorrt)
    except NetworkError:  # nothing in it depends on an input: TensorRT folds all of it
        return ()
    if not is_installed():
        return broken
    known = {breach.layer for breach in broken}
    passed = () if TensorRTVersion(tensorrt).rtx else NOT_IN_RTX
    more = refused(file.path, passed)
    return (*broken, *(breach for breach in more if breach.layer not in known))
