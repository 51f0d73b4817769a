"""The layers of a network that an accelerator can run, where its compiler does not take all.

In: a task with its network, a kind of processor, the platform. Out: the reason why it cannot run
there as a whole, or the layers that searches keep off it. What each compiler takes is in a module
of its own: `dla`, `npu`, `tensorrt`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache

from ..model.application import Network, Task
from ..model.platform import Platform
from .compiler import Compiler
from .dla import dla_compiler
from .fitness import Reason
from .npu import npu_compiler
from .tensorrt import tensorrt_compiler


def compiler_of(platform: Platform, kind: str) -> Compiler | None:
    """The compiler for a kind of processor; None if all networks run there as they are, or the
    platform has no such processor."""
    makers: dict[str, Callable[[Platform], Compiler | None]] = {
        "dla": dla_compiler,
        "gpu": tensorrt_compiler,
        "npu": npu_compiler,
    }
    if kind not in makers or all(pool.kind != kind for pool in platform.pools):
        return None
    return makers[kind](platform)


def unfit_to_compile(
    task: Task, network: Network, kind: str, platform: Platform, fallback: bool
) -> Reason | None:
    """The reason why a network cannot run on a kind of accelerator as a whole. `fallback`: another
    processor runs what its compiler does not take."""
    compiler = compiler_of(platform, kind)
    if compiler is None:
        return None
    reason = compiler.unfit(task, network)
    if reason is not None:
        return reason
    if fallback:  # the GPU helps out with layers that it takes
        return unfit_to_compile(task, network, "gpu", platform, False)
    own = None if not network.model else _layers_of(network.content_hash, network.model)
    broken = [b for b in compiler.broken(network) if own is None or b.layer in own]
    if not broken:
        return None
    first = broken[0]
    message = (
        f"`{task.name}` cannot run on {compiler.title}: {first.op} `{first.layer}`: {first.rule}"
        f" ({first.detail})"
    )
    others = len({breach.layer for breach in broken}) - 1
    if others == 1:
        message += ", and 1 more layer"
    elif others > 1:
        message += f", and {others} more layers"
    return "F510", message, compiler.remedy


def barred_from(task: Task, platform: Platform) -> Callable[[str, str], bool]:
    """A predicate of a kind of processor and a layer: what searches have to keep off it."""
    if task.network is None:
        return lambda kind, layer: False
    illegal: dict[str, Collection[str] | None] = {}
    for kind in {pool.kind for pool in platform.pools}:
        compiler = compiler_of(platform, kind)
        if compiler is None or not compiler.known:
            continue
        if compiler.unfit(task, task.network) is not None:
            illegal[kind] = None
        else:
            illegal[kind] = {b.layer for b in compiler.broken(task.network)}

    def barred(kind: str, layer: str) -> bool:
        layers = illegal.get(kind, ())
        return layers is None or layer in layers

    return barred


@lru_cache(maxsize=64)
def _layers_of(content_hash: str, model: bytes) -> frozenset[str]:
    """The layers of a stage, called after their first outputs."""
    import onnx

    return frozenset(
        node.output[0] for node in onnx.load_model_from_string(model).graph.node if node.output
    )
